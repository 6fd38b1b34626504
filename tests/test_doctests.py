"""Every example in a docstring of the package runs as printed."""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import lm_eval_ccat

ROOT = Path(lm_eval_ccat.__file__).parent
ROOMS = sorted({p.relative_to(ROOT).parts[0].removesuffix(".py") for p in ROOT.rglob("*.py")})
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: Modules with examples that are not run, as they need a model, its server or its files. Any other
#: module's examples are complete; an entry here needs a reason.
NEEDS_A_MODEL = {
    "harness/session.py",
    "harness/transport.py",
    "harness/usage.py",
    "integrations/inspect_ai.py",
    "integrations/trackers.py",
    "live/complete.py",
    "live/evaluate.py",
    "live/ranking.py",
    "live/results.py",
    "live/run.py",
    "live/verify.py",
    "report/live_page.py",
    "report/page.py",
    "report/plots/bank.py",
    "report/plots/ranking.py",
    "report/plots/simulation.py",
}


def examples(room: str) -> Iterator[doctest.DocTest]:
    """The examples of a room, or of a module at the top."""
    for path in sorted([*ROOT.glob(f"{room}.py"), *ROOT.glob(f"{room}/**/*.py")]):
        if ">>>" not in path.read_text(encoding="utf-8"):
            continue
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        yield from doctest.DocTestFinder(exclude_empty=True).find(module)


@pytest.mark.parametrize("room", ROOMS)
def test_the_examples_run_as_printed(room, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    report: list[str] = []
    for test in examples(room):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)


def test_examples_are_left_out_only_where_a_model_is_needed():
    skipping = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if "doctest: +SKIP" in path.read_text(encoding="utf-8")
    }
    assert skipping <= NEEDS_A_MODEL
