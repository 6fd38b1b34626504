"""Reader of what the lm-evaluation-harness writes with ``--log_samples``."""
