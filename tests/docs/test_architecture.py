"""The page for engineers: its picture is that of the imports, and what it names is there."""

from __future__ import annotations

import re
import runpy

import pytest
from pages import DOCS

SCRIPT = runpy.run_path(str(DOCS / ".hooks" / "architecture.py"))
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")


def test_the_picture_is_drawn_from_the_imports():
    drawn = SCRIPT["picture"]()
    command = "python docs/.hooks/architecture.py > docs/architecture.svg"
    assert (DOCS / "architecture.svg").read_text(encoding="utf-8").rstrip() == drawn, command


def test_a_room_stands_above_what_it_imports_and_lines_that_follow_are_left_out():
    below = {"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"c"}}
    assert SCRIPT["floors"](below) == [["c"], ["b", "d"], ["a"]]
    assert SCRIPT["direct"](below) == {"a": {"b"}, "b": {"c"}, "c": set(), "d": {"c"}}
    with pytest.raises(SystemExit, match="circle"):
        SCRIPT["direct"]({"a": {"b"}, "b": {"a"}})


def test_the_page_names_every_room_once_and_only_files_that_exist():
    table = PAGE.partition("## Rooms")[2].partition("## Seven types")[0]
    rooms = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(rooms) == sorted(SCRIPT["rooms_below"]())
    package = DOCS.parent / "lm_eval_ccat"
    named = re.findall(r"`([\w/*]+\.py)`", PAGE)
    assert named and not [name for name in named if not list(package.glob(name))]
