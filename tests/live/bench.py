"""The small benchmark, where the tests of this folder look for it."""

from worlds.bench import HELD_OUT, TASK, Bench, content_of, make_bench

__all__ = ["HELD_OUT", "TASK", "Bench", "content_of", "make_bench"]
