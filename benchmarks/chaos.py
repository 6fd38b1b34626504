"""Rankings of real outputs through bad nights: random faults and edits, and what holds after them.

Each sequence is drawn by its seed: sessions in which a server misbehaves and a process is killed,
fills the disk, is interrupted or runs out of time, edits of the configuration between them, and a
calm session at the end. `tests/worlds/chaos.py` says what is checked after each session.

    python benchmarks/chaos.py --data ../shared/data --sequences 200
    python benchmarks/chaos.py --data ../shared/data --first 17 --sequences 1      # one again
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ["TQDM_DISABLE"] = "1"

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from worlds.chaos import BROUGHT_ABOUT, EDITS, ENDINGS, SERVER_FAULTS, Night
from worlds.stages import made_stage, real_stage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of real scores and texts; else made up")
    parser.add_argument("--sequences", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first sequence")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after this")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    fired: Counter[str] = Counter()
    troubles: list[str] = []
    played, pairs, wrong, longest = 0, 0, 0, 0.0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        stage = real_stage(home / "stage", args.data) if args.data else made_stage(home / "stage")
        for seed in range(args.first, args.first + args.sequences):
            if time.monotonic() - started > args.seconds:
                break
            (home / str(seed)).mkdir()
            night = Night(stage, home / str(seed), seed)
            try:
                night.run()
            except Exception as error:
                troubles.append(f"seed {seed}: {type(error).__name__}: {error}")
            fired += night.fired
            troubles += night.troubles
            played, pairs, wrong = played + 1, pairs + night.pairs, wrong + night.wrong
            longest = max(longest, night.longest)
            for trouble in troubles[-3:] if night.troubles else ():
                print(f"  {trouble}", flush=True)
    kinds = [
        *SERVER_FAULTS,
        *ENDINGS[:-1],
        *BROUGHT_ABOUT,
        "taken up again",
        *(f"edit: {e}" for e in EDITS),
    ]
    for kind in kinds:
        print(f"{kind:<26} {fired[kind]:>6}")
    print(
        f"{played} sequences in {time.monotonic() - started:.0f} s, the longest session "
        f"{longest:.1f} s; {pairs} pairs decided, {wrong} of them wrongly"
    )
    never = [kind for kind in kinds if not fired[kind]]
    print(f"never fired: {', '.join(never)}" if never else "every kind of fault fired")
    print(f"{len(troubles)} troubles")
    for trouble in troubles:
        print(f"  {trouble}")
    raise SystemExit(bool(troubles))


if __name__ == "__main__":
    main()
