"""Bugs to be planted keep up with the code."""

from __future__ import annotations

import builtins
import re
import symtable
from functools import cache
from pathlib import Path

import pytest

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


@cache
def undefined_names(code: str) -> set[str]:
    """Names that a module's functions look up and that neither it nor Python defines."""
    module = symtable.symtable(code, "module", "exec")
    scopes, undefined = [module], set()
    own = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_local()}
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        symbols = [symbol for symbol in scope.get_symbols() if symbol.is_global()]
        undefined |= {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
    return undefined - own - {*dir(builtins)}


@pytest.mark.long
def test_a_planted_bug_is_no_name_that_is_unknown():
    """One that is left from before a renaming would be caught by any test that runs the line."""
    words = re.compile(r"[^\W\d]\w*")
    # Only where the fragment brings a word of its own.
    for bug in (bug for bug in ALL_BUGS if {*words.findall(bug.new)} - {*words.findall(bug.old)}):
        code = located(bug).read_text(encoding="utf-8")
        planted = undefined_names(code.replace(bug.old, bug.new))
        assert planted <= undefined_names(code), bug.name
