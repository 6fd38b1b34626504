"""Scripts of benchmarks: each can be started, and what pages and other scripts rest on holds."""

from __future__ import annotations

import gzip
import json
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks import remade, sources
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


def test_a_page_says_that_the_code_has_changed_since():
    said = runpy.run_path(str(ROOT / "docs/.hooks/changed.py"))["on_page_markdown"]
    page = "Made by `python benchmarks/looks.py --folds 0,11` with sources of hash {}; ± is."
    now = sources.sources("benchmarks/looks.py")
    assert said(page.format(now)) == page.format(now)
    since = said(page.format("0" * 12))
    assert since == page.format("0" * 12 + " (the code has changed since)")


def test_a_hash_moves_with_what_the_code_computes_and_not_with_how_it_is_written(tmp_path):
    def hash_of(script: str, figure: float) -> str:
        root = Path(tempfile.mkdtemp(dir=tmp_path))
        (root / "tests/ranker").mkdir(parents=True), (root / "benchmarks").mkdir()
        with gzip.open(root / "tests/ranker/golden.json.gz", "wt") as stream:
            json.dump({"mean": [figure]}, stream)
        (root / "benchmarks/remade.json").write_text("{}")
        (root / "benchmarks/x.py").write_text(script)
        return sources.sources("benchmarks/x.py", root)

    first = hash_of("n = 1\n", 0.5)
    assert first == hash_of("# why\nn = 1\n", 0.5) == hash_of("n = 1\n", 0.5 + 1e-12)
    assert len({first, hash_of("n = 2\n", 0.5), hash_of("n = 1\n", 0.501)}) == 3


def test_figures_that_are_old_are_made_again_once(tmp_path, monkeypatch, capsys):
    pages, script = tmp_path / "docs/evidence", tmp_path / "benchmarks/x.py"
    pages.mkdir(parents=True), script.parent.mkdir()
    script.write_text("import sys; print(sys.argv[1:])")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "RECORDED", ())
    now = sources.sources("benchmarks/x.py", tmp_path)
    monkeypatch.setattr(sources, "sources", lambda _: now)
    (pages / "p.md").write_text(
        "`python benchmarks/x.py --of new`, hash " + now + ".\n\nOld:\n\n"
        '(`python benchmarks/x.py --of "two models"` and `--n 3`, hash 012345678901)'
    )
    monkeypatch.setattr(sys, "argv", ["sources.py", "--remake", str(tmp_path / "made")])
    for _ in range(2):
        sources.main()
    made = {file.name: file.read_text() for file in (tmp_path / "made").iterdir()}
    assert made == {
        "x --of two models.txt": "['--of', 'two models']\n",
        "x --of two models --n 3.txt": "['--of', 'two models', '--n', '3']\n",
    }
    lines = capsys.readouterr().out.splitlines()
    assert [line[:13].strip() for line in lines[:3]] == ["as it is", *["changed since"] * 2]
    assert "docs/evidence/p.md:5" in lines[1]


@pytest.mark.slow
def test_the_benchmark_of_speed_sets_rankings_beside_as_many_requests_of_the_harness():
    script = [sys.executable, str(BENCHMARKS / "speed.py"), "--slots", "2", "--latency", "10"]
    shorter = ["--rounds", "1", "--items", "12"]
    done = subprocess.run([*script, *shorter], capture_output=True, text=True)
    ratios = [float(line.split()[-1]) for line in done.stdout.splitlines()[1:]]
    assert len(ratios) == 5 and ratios[0] == 1.0 and min(ratios) > 0.0, done.stderr
