"""Small worlds that tests and benchmarks play in: a task, models behind a server, bad nights."""
