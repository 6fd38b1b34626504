"""What only POSIX has is done without where it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lm_eval_ccat import ItemBank
from lm_eval_ccat.cli.main import main

HIDDEN = """
import os, signal, sys

for module in ("fcntl", "termios", "tty", "pwd", "grp", "resource", "readline"):
    sys.modules[module] = None
for name in ("fork", "forkpty", "setsid", "killpg", "getpgid", "setpgrp", "getuid", "geteuid",
             "fchown", "chown", "mkfifo", "sync", "register_at_fork"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGQUIT", "alarm"):
    if hasattr(signal, name):
        delattr(signal, name)
really_open, really_chmod = os.open, os.chmod

def open_files_only(path, *args, **kwargs):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return really_open(path, *args, **kwargs)

def no_rights(path, *args, **kwargs):
    raise OSError(95, "Operation not supported", str(path))

os.open, os.chmod = open_files_only, no_rights
"""

WORK = """
from pathlib import Path
import numpy as np
from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.records import Header
from lm_eval_ccat.runs.directory import RunDirectory, make_ranker, rebuild
from worlds.journals import Teller

folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
logits = np.linspace(-1, 1, 10)[:, None] + rng.normal(size=(1, 30)) + rng.normal(size=(10, 30))
table = ScoreTable.from_arrays(1 / (1 + np.exp(-logits)), models=[f"m{j}" for j in range(10)])
bank = calibrate(table.without(["m1", "m8"]), method="paper")
run = RunDirectory(folder / "run")
run.take()
bank.save(run.path / "bank.json")
run.start(Header(
    config={"task": "t"}, bank_sha256=bank.sha256, task={"name": "t"},
    ranker={"models": {"m1": 1.0, "m8": 1.0}, "units": None, "warmup": 4, "options": {}},
))
teller = Teller(make_ranker(bank, run.read_header()), run.journal)
teller.read()
while asked := teller.ask(2):
    for model, item in asked:
        teller.answer(model, item, float(table.select([model]).scores[0, item]), 1.0)
run.release()
again = rebuild(run.path)
assert again.ranker.result().order == ["m8", "m1"], again.ranker.result().order
assert ItemBank.load(run.path / "bank.json").sha256 == bank.sha256
assert main(["verify", str(run.path), "--repair"]) == 0
print("worked")
"""


#: A user that nobody knows, in a container, say: no home, so no cache of any kind.
HOMELESS = """
import os, pwd, sys

for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "NLTK_DATA", "CCAT_COMET_PYTHON"):
    os.environ.pop(name, None)
os.environ["HF_HOME"] = "/dev/null/no/cache"

def unknown(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")

pwd.getpwuid = unknown
assert os.path.expanduser("~") == "~"
"""

SCORING = """
from lm_eval_ccat.errors import MetricError
from lm_eval_ccat.harness.comet import default_python
from lm_eval_ccat.metrics.text_pairs import rouge

assert rouge("a small cat", "a small cat")["rougeL"] == 1.0
try:
    default_python()
except MetricError as error:
    assert "no home directory" in str(error) and "score comet --setup DIR" in str(error)
else:
    raise AssertionError("no home, and an environment in it")
os.environ["CCAT_COMET_PYTHON"] = "python-of-comet"
assert default_python() == "python-of-comet"
"""


def test_a_program_without_a_console_can_run_a_command(tmp_path, monkeypatch) -> None:
    bank = tmp_path / "b.json"
    ItemBank.blank([1, 2, 3], metric="acc").save(bank)
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["bank", "show", str(bank)]) == 0
    assert main(["bank", "show", str(tmp_path / "none.json")]) == 2


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="hides what POSIX has")
def test_a_ranking_needs_no_posix_no_home_no_cache_and_no_terminal(tmp_path: Path) -> None:
    without = {k: v for k, v in os.environ.items() if k not in ("TERM", "COLUMNS", "LINES")}
    without["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS + SCORING + HIDDEN + WORK, str(tmp_path)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, env=without,
    )  # fmt: skip
    assert done.returncode == 0 and "worked" in done.stdout, done.stderr[-3000:]
