"""The method "default": fractional logit curves, and an estimate of the full-benchmark mean."""
