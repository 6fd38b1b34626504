"""What a decision takes: ask, tell, and whether to stop; beside another checkout if one is given.

Every ranking is run several times, in turn by each checkout, in processes that stay; the figure is
the mean over its decisions of the least time that each of them took. That is the time of a
processor that nothing else uses, to be had on a busy machine too.

    python benchmarks/decisions.py [--beside OLDER] [--rounds 10]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).resolve()

#: Tasks, models, items of a task, items per model and task, milliseconds aimed at.
SIZES = (
    (1, 5, 1000, 20, 0.3),
    (1, 5, 10_000, 20, 1.5),
    (1, 300, 1000, 20, 1.0),
    (20, 10, 1000, 8, 1.0),
)


def ranking(tasks: int, models: int, items: int, each: int) -> Callable[[], Any]:
    """What runs one ranking and returns the seconds of each decision."""
    import numpy as np

    from lm_eval_ccat import Ranker, ScoreTable, calibrate

    rng = np.random.default_rng(0)
    skill, names = 1.2 * rng.normal(size=(16 + models, 1)), [f"m{j}" for j in range(16)]
    banks, scores = {}, {}
    for t in range(tasks):
        logit = skill + rng.normal(size=(1, items)) + 0.5 * rng.normal(size=(16 + models, items))
        y = 1.0 / (1.0 + np.exp(-logit))
        banks[t] = calibrate(ScoreTable.from_arrays(y[:16], names, task=str(t)))
        scores[t] = y[16:].tolist()
    prices = {str(j): 1.0 for j in range(models)}
    bank: Any = banks[0] if tasks == 1 else {str(t): b for t, b in banks.items()}

    def run() -> Any:
        ranker = Ranker(bank, prices, budget=each * models * tasks, stop="limits")
        taken = []
        while True:
            start = time.perf_counter()
            if ranker.done:
                return np.array(taken)
            for model, item in ranker.ask():
                t, i = (0, item) if tasks == 1 else (int(item[0]), item[1])
                ranker.tell(model, item, scores[t][int(model)][i])
            taken.append(time.perf_counter() - start)

    return run


def work(sizes: list[int]) -> None:
    """Run whenever a line is read; print the mean of the least times so far."""
    import numpy as np

    run = ranking(*sizes)
    least = run()
    print(flush=True)
    for _ in sys.stdin:
        least = np.minimum(least, run())
        print(1e3 * float(least.mean()), flush=True)


def measured(sizes: tuple[int, ...], roots: list[str | None], rounds: int) -> list[float]:
    """Milliseconds a decision, by each checkout."""
    there = []
    for root in roots:
        path = {"PYTHONPATH": os.path.abspath(root)} if root else {}
        call = [sys.executable, str(HERE), "--work", *map(str, sizes)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        there.append(subprocess.Popen(call, env={**os.environ, **path}, **pipes))  # type: ignore[call-overload]
    for one in there:
        one.stdout.readline()
    found = [0.0] * len(there)
    for _ in range(rounds):
        for n, one in enumerate(there):
            one.stdin.write("\n")
            one.stdin.flush()
            found[n] = float(one.stdout.readline())
    for one in there:
        one.stdin.close()
        one.wait()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", metavar="DIR", help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--work", nargs=4, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work)
        return
    for *sizes, aim in SIZES:
        tasks, models, items, each = sizes
        rounds = max(args.rounds * 500 // (tasks * models * each), 2)
        found = measured(tuple(sizes), [None, args.beside] if args.beside else [None], rounds)
        what = f"{tasks} task{'s' if tasks > 1 else ''}, {models} models, {items:,} items"
        other = f"  other checkout {found[1]:6.3f} ms" if args.beside else ""
        print(f"{what:36} {found[0]:6.3f} ms a decision   aim {aim} ms{other}", flush=True)


if __name__ == "__main__":
    main()
