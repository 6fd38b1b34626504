"""Adaptive stopping for Inspect (``inspect_ai``); needs the extra ``inspect``."""

from .integrations.inspect_ai import AdaptiveStopping

__all__ = ["AdaptiveStopping"]
