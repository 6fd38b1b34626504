"""What only POSIX has is done without where it is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
from lm_eval_ccat.runs.directory import RunDirectory
from lm_eval_ccat.runs.rebuild import rebuild

folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
logits = np.linspace(-1, 1, 10)[:, None] + rng.normal(size=(1, 30)) + rng.normal(size=(10, 30))
table = ScoreTable.from_arrays(1 / (1 + np.exp(-logits)), models=[f"m{j}" for j in range(10)])
bank = calibrate(table.without(["m1", "m8"]), method="paper")
run = RunDirectory(folder / "run")
run.take()
bank.save(run.path / "bank.json")
run.start({
    "config": {"task": "t"}, "bank_sha256": bank.sha256, "task": {"name": "t"}, "versions": {},
    "ranker": {"models": {"m1": 1.0, "m8": 1.0}, "units": None, "warmup": 4, "options": {}},
})
run.beat("me:1")
assert run.last_beat("me:1") > 0
run.release()
ranker, _ = rebuild(run.path, lock=True)
while pairs := ranker.ask(2):
    for model, item in pairs:
        ranker.tell(model, item, float(table.select([model]).unit[0, item]), 1.0)
ranker.journal.close()
again, _ = rebuild(run.path)
assert again.ranker.result().order == ["m8", "m1"], again.ranker.result().order
assert ItemBank.load(run.path / "bank.json").sha256 == bank.sha256
assert main(["journal", "check", str(run.path)]) == 0
print("worked")
"""


def test_a_ranking_needs_nothing_that_only_posix_has(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + WORK, str(tmp_path)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "worked" in done.stdout
