"""Every script whose figures the docs state can be started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
#: One process for all of them: what they import is imported once.
STARTED = """
import contextlib, io, pathlib, runpy, sys
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
for script in sys.argv[1:]:
    sys.argv, said = [script, "--help"], io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        assert end.code == 0, script
    assert said.getvalue().startswith("usage: "), script
"""


def test_scripts_say_what_they_take(tmp_path: Path) -> None:
    scripts = [str(p) for p in BENCHMARKS.glob("*.py") if "add_argument(" in p.read_text("utf-8")]
    command = [sys.executable, "-c", STARTED, *sorted(scripts)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert scripts and done.returncode == 0, done.stderr
