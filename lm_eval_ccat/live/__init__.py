"""Live runs: ask models through the harness.

A `Spec` holds the options of a run, and a `Plan` resolves them for its tasks. A `Run` holds the
models and the `Book` (which keeps Ranker and journal in step), lets a `Sender` send each `Model`
the next asks of the `Line`, and returns a `Result`. `rank`, `adaptive_evaluate`, `complete`,
`compare` with live models and the dry run are functions built on `Run`.
"""
