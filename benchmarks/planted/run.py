"""Plant bugs one at a time and see whether a test notices.

    nice python benchmarks/planted/run.py                    # all of them: hours
    nice python benchmarks/planted/run.py --sample 120       # of all rooms at random, always these
    nice python benchmarks/planted/run.py --room ranker --only "rank range"

Each bug of `bugs.py` and `room_bugs.py` replaces one fragment of the code by a wrong one, in a copy
of the source tree. It is caught when one of the test files named beside it fails or
hangs. The last lines count each room. A fragment that is no longer in the code, or is there twice,
is named at the end: find where the mistake would be made now, or drop the bug. Exit codes: 0 at
least 95% caught, 1 fewer, 2 a fragment is gone, or a test fails without a bug.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.planted.bugs import BUGS, Bug
from benchmarks.planted.room_bugs import ROOM_BUGS

ALL_BUGS = (*BUGS, *ROOM_BUGS)
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "lm_eval_ccat"
LIMIT = 900.0
LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", ".hypothesis", "build", "dist")


class Gone(Exception):
    """A fragment is not in the code exactly once."""


def located(bug: Bug, root: Path = ROOT) -> Path:
    """The module that a bug is to be planted in.

    Raises
    ------
    Gone
        No module of the bug's room, or several places, hold the fragment.
    """
    place = root / bug.room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    counts = {f: f.read_text(encoding="utf-8").count(bug.old) for f in files if f.is_file()}
    if sum(counts.values()) != 1:
        raise Gone(f"{bug.name}: {sum(counts.values())} places in {bug.room} hold {bug.old!r}")
    return next(f for f, n in counts.items() if n)


def room_of(bug: Bug) -> str:
    """The room that a bug is planted in, or the module beside the rooms.

    Examples
    --------
    >>> room_of(Bug("", "lm_eval_ccat/report/page", "", "", ()))
    'report'
    """
    return bug.room.split("/")[1]


def passes(root: Path, tests: Sequence[str], limit: float = LIMIT) -> bool:
    """Whether test files pass in a copy of the tree."""
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    environment.setdefault("CCAT_SHARED", str(ROOT.parent / "shared"))
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):  # no test was run
        raise SystemExit(f"{' '.join(tests)}: {done.stdout.decode()[-2000:]}")
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--room", default="", help="only bugs in rooms that begin so")
    parser.add_argument("--only", default="", help="only bugs whose name holds these words")
    parser.add_argument("--sample", type=int, default=0, help="only so many, at random")
    args = parser.parse_args()
    room = f"{PACKAGE}/{args.room}"
    chosen = [b for b in ALL_BUGS if b.room.startswith(room) and args.only in b.name]
    if args.sample:
        chosen = random.Random(0).sample(chosen, min(args.sample, len(chosen)))
    places, gone = {}, []
    for bug in chosen:
        try:
            places[bug.name] = located(bug).relative_to(ROOT)
        except Gone as error:
            gone.append(error)
    chosen = [bug for bug in chosen if bug.name in places]
    survived = []
    sound: dict[tuple[str, ...], float] = {}  # seconds that the tests take without a bug
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "tree")
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        for bug in chosen:
            started = time.monotonic()
            if bug.tests not in sound:
                if not passes(copy, bug.tests):
                    print(f"without a bug fails: {' '.join(bug.tests)}")
                    return 2
                sound[bug.tests] = time.monotonic() - started
            file = copy / places[bug.name]
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
            caught = not passes(copy, bug.tests, min(LIMIT, 60 + 5 * sound[bug.tests]))
            file.write_text(text, encoding="utf-8")
            survived += [] if caught else [bug]
            seconds = time.monotonic() - started
            verdict = "caught" if caught else "SURVIVED"
            print(f"{verdict:<9} {places[bug.name]}: {bug.name} ({seconds:.0f} s)", flush=True)
    for bug in survived:
        print(f"survived: {bug.name}{f' ({bug.reason})' if bug.reason else ''}")
    for error in gone:
        print(f"gone: {error}")
    planted, missed = (Counter(room_of(bug) for bug in bugs) for bugs in (chosen, survived))
    for name, n in sorted(planted.items()):
        print(f"{name}: {n - missed[name]} of {n} caught")
    share = 1.0 - len(survived) / max(len(chosen), 1)
    error = (share * (1.0 - share) / max(len(chosen), 1)) ** 0.5 if args.sample else 0.0
    print(f"{len(chosen) - len(survived)} of {len(chosen)} caught: {share:.1%} +- {error:.1%}")
    return 2 if gone else int(len(survived) > 0.05 * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
