"""The small benchmark, where the tests of this folder look for it."""

from worlds.bench import HELD_OUT, TASK, Bench, make_bench

__all__ = ["HELD_OUT", "TASK", "Bench", "make_bench"]
