"""Adaptive tests: one model's posterior, item selection and estimate."""

from .base import AdaptiveTest

__all__ = ["AdaptiveTest"]
