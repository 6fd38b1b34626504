"""Live runs, which ask models through the harness.

`Spec` holds the options of a run, `Plan` what they mean for its tasks. A `Run` holds its models,
its `Book` (Ranker and journal in step) and the `Sender`, which puts to each `Model` what the `Line`
has next; it leaves a `Result`. `rank`, `adaptive_evaluate`, `complete`, `compare` with live models
and the dry run are functions over `Run`.
"""
