"""The loopback server, where the tests of this folder look for it."""

from worlds.server import CompletionsServer

__all__ = ["CompletionsServer"]
