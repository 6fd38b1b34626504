"""Metrics: what a harness task reports for one document becomes a score on a known scale."""

from lm_eval_ccat.metrics.registry import Metric, check_column, find_metric, known_scale
from lm_eval_ccat.metrics.scale import Scale

__all__ = ["Metric", "Scale", "check_column", "find_metric", "known_scale"]
