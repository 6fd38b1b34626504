"""Bugs to be planted keep up with the code."""

from __future__ import annotations

from pathlib import Path

from benchmarks.planted.run import ALL_BUGS, located

ROOT = Path(__file__).resolve().parents[2]


def test_every_planted_bug_has_its_place_and_its_tests():
    for bug in ALL_BUGS:
        assert located(bug).is_file()
        for test in bug.tests:
            file, _, name = test.partition("::")
            assert (ROOT / file).exists(), bug.name
            function = f"def {name.partition('[')[0]}("
            assert not name or function in (ROOT / file).read_text(encoding="utf-8"), bug.name
