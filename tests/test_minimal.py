"""The numeric core needs NumPy and little of SciPy: importing it loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "datasets", "pandas", "scipy.stats", "lm_eval", "transformers", "evaluate")
LIGHT = [
    "import lm_eval_ccat",
    "from lm_eval_ccat import ScoreTable, ItemBank, calibrate, Ranker, simulate",
]


@pytest.mark.parametrize("code", LIGHT)
def test_light_commands_import_nothing_heavy(code):
    script = (
        "import sys\ntry:\n    exec(sys.argv[1])\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "HEAVY []" in done.stdout, done.stdout
