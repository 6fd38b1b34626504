"""Scripts of benchmarks: each can be started, and what pages and other scripts rest on holds."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import remade
from benchmarks.paper import plots
from benchmarks.sources import ROOT

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = [p.name for p in BENCHMARKS.glob("*.py") if "add_argument(" in p.read_text("utf-8")]


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_a_script_says_what_it_takes(script: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    assert end.value.code == 0 and capsys.readouterr().out.startswith("usage: ")


@pytest.mark.long
@pytest.mark.parametrize("page", ["limits", "experiments"])
def test_a_table_is_made_as_it_was(page, monkeypatch):
    """Where a change of figures is meant: `python benchmarks/remade.py --write`, and the pages."""
    monkeypatch.setattr(plots, "draw", lambda *_: [])  # a plot takes a second
    was = json.loads(remade.KEPT.read_text(encoding="utf-8"))[page]
    assert not remade.different(was, getattr(remade, page)())
    assert remade.different(was, [was]) and remade.different([0.5], [0.51])


@pytest.mark.long
def test_a_page_says_that_the_code_has_changed_since():
    hook = runpy.run_path(str(ROOT / "docs/.hooks/changed.py"))
    said = hook["on_page_markdown"]
    page = "Made by `python benchmarks/looks.py --folds 0,11` with sources of hash {}; ± is."
    now = hook["sources"]("benchmarks/looks.py")
    assert said(page.format(now)) == page.format(now)
    since = said(page.format("0" * 12))
    assert since == page.format("0" * 12 + " (the code has changed since)")
    assert "changed since" in said((ROOT / "docs/evidence/tables.md").read_text())


@pytest.mark.slow
def test_the_benchmark_of_speed_sets_rankings_beside_as_many_requests_of_the_harness():
    script = [sys.executable, str(BENCHMARKS / "speed.py"), "--slots", "2", "--latency", "10"]
    shorter = ["--rounds", "1", "--items", "12"]
    done = subprocess.run([*script, *shorter], capture_output=True, text=True)
    ratios = [float(line.split()[-1]) for line in done.stdout.splitlines()[1:]]
    assert len(ratios) == 4 and ratios[0] == 1.0 and min(ratios) > 0.0, done.stderr
