"""The loopback server, where the tests of this folder look for it."""

from lm_eval_ccat.testing.server import CompletionsServer

__all__ = ["CompletionsServer"]
