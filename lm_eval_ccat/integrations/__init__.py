"""Other people's tools: experiment trackers and Inspect. Each needs its own package, an extra."""
