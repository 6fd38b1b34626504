"""Metrics: what a harness task reports for one document becomes a score on a known scale."""

from .registry import Metric, check_column, find_metric, known_scale
from .scale import Scale

__all__ = ["Metric", "Scale", "check_column", "find_metric", "known_scale"]
