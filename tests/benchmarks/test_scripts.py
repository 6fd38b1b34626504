"""Every script whose figures the docs state can be started."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = [p.name for p in BENCHMARKS.glob("*.py") if "add_argument(" in p.read_text("utf-8")]


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_a_script_says_what_it_takes(script: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    assert end.value.code == 0 and capsys.readouterr().out.startswith("usage: ")
