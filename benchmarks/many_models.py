"""What many models cost: turns decided on looks that are some answers old, and ends of runs.

A ranking looks at all models together not after every answer, but after as many as models may be
asked, at most ten, and beyond fifty models after one answer of every fifth. Held-out models of real
leaderboards are ranked both ways up to the same number of items; the pairs of runs share models,
bank and seed. Printed are the answers, Kendall's tau, the error of estimates and the decided pairs,
as differences (old looks less a look after every answer) with their standard errors over folds, and
the processor time of a decision.

    python benchmarks/many_models.py --data ../shared/data --models 80 --folds 6

With `--ends`, runs of so many models, which answer five of eight documents. Printed is the
processor time from the last answer to the last file, and of `verify` and `complete`, and each
beside what the fewest models take, times the models: 1 is linear. A result states each pair of
models, so the rows of pairs grow as the square of the models.

    python benchmarks/many_models.py --ends 150,300,600
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")

import numpy as np
from scipy.stats import kendalltau
from turns import write_task

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate, rank
from lm_eval_ccat.live.complete import complete
from lm_eval_ccat.live.result import Observer
from lm_eval_ccat.live.run import Run
from lm_eval_ccat.live.verify import verify
from lm_eval_ccat.ranker import turns

TABLES = ("scores/metabench_gsm8k_v1", "suite/openllm_mmlu", "suite/openllm_truthfulqa")


def ranked(bank: Any, table: ScoreTable, each: int, share: int, seed: int) -> dict[str, float]:
    """One ranking of all models of a table; a look after as many answers as this share of them."""
    turns.SHARE_PER_LOOK = share
    scores, column = table.model_scores(), {d: i for i, d in enumerate(table.doc_ids)}
    row = {m: i for i, m in enumerate(table.models)}
    truth = np.nanmean(scores, axis=1)
    ranker = Ranker(
        bank,
        dict.fromkeys(table.models, 1.0),
        budget=each * len(row),
        seed=seed,
        stop="decided",
    )
    n, started = 0, time.process_time()
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(scores[row[model], column[item]]))
            n += 1
    seconds = time.process_time() - started
    found = ranker.result()
    estimate = np.array([found.estimates[m] for m in table.models])
    decided = [pair for pair, d in found.decisions.items() if d == "decided"]
    right = [
        (estimate[row[a]] - estimate[row[b]]) * (truth[row[a]] - truth[row[b]]) > 0.0
        for a, b in decided
    ]
    return {
        "answers": n,
        "tau": float(kendalltau(estimate, truth)[0]),
        "rmse": float(np.sqrt(np.mean((estimate - truth) ** 2))),
        "decided": len(decided) / max(len(found.decisions), 1),
        "right": float(np.mean(right)) if right else np.nan,
        "ms a decision": 1e3 * seconds / n,
    }


class Quiet(Observer):
    """Hears of a run, and says nothing."""

    def warn(self, message: str) -> None:
        """Say nothing of a warning."""


def seconds_of(work: Callable[[], object]) -> float:
    """Return the processor time of some work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def ends(n_models: int, folder: Path) -> dict[str, float]:
    """Return the processor time of each end of a run of dummy models, by what ends."""
    write_task(folder / "task", [0] * 8)
    run, harness = folder / "of.run", {"include_path": str(folder / "task")}
    models = [{"name": f"m{n}", "model": "dummy"} for n in range(n_models)]
    ask, last_answer = Run.ask, 0.0

    def asked(run: Run) -> None:
        nonlocal last_answer
        ask(run)
        last_answer = time.process_time()

    Run.ask = asked  # type: ignore[method-assign]
    try:
        rank(
            task="preferences", models=models, harness=harness, run_dir=run, max_items=5,
            stop="limits", observer=Quiet(),
        )  # fmt: skip
    finally:
        Run.ask = ask  # type: ignore[method-assign]
    return {
        "last answer to last file": time.process_time() - last_answer,
        "verify": seconds_of(lambda: verify(run)),
        "complete": seconds_of(lambda: complete(run, observer=Quiet())),
    }


def print_ends(sizes: list[int]) -> None:
    """Print what ends take with each number of models, beside the fewest."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as place:
        seconds_by_size = {}
        for n_models in sizes:
            folder = Path(place) / str(n_models)
            folder.mkdir()
            seconds_by_size[n_models] = ends(n_models, folder)
    fewest = min(sizes)
    for what, seconds in seconds_by_size[fewest].items():
        for n_models in sizes:
            taken = seconds_by_size[n_models][what]
            ratio = taken / (seconds * n_models / fewest)
            print(f"{what:<26}{n_models:>6} models{taken:>8.2f} s  {ratio:.2f} of linear")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--method", choices=["default", "sample"], default="default")
    parser.add_argument("--models", type=int, default=80)
    parser.add_argument("--known", type=int, default=60, help="calibration models")
    parser.add_argument("--each", default="15,25", help="items per model")
    parser.add_argument("--folds", type=int, default=6)
    parser.add_argument("--ends", help="numbers of models whose runs end, in place of all else")
    args = parser.parse_args()
    if args.ends:
        return print_ends([int(n_models) for n_models in args.ends.split(",")])
    usual, differences = turns.SHARE_PER_LOOK, []
    for name in TABLES:
        table = ScoreTable.read(args.data / f"{name}.parquet", metric="acc")
        for fold in range(args.folds):
            every = np.random.default_rng(fold).permutation(len(table.models))
            names = [table.models[i] for i in every[: args.models + args.known]]
            bank: ItemBank = ItemBank.blank(table.doc_ids)
            if args.method == "default":
                bank = calibrate(table.select(names[args.models :]))
            new = table.select(names[: args.models])
            for each in map(int, args.each.split(",")):
                often = ranked(bank, new, each, max(args.models, turns.FEW), fold)
                seldom = ranked(bank, new, each, usual, fold)
                differences.append((each, often, seldom))
    for each in sorted({d[0] for d in differences}):
        of = [(a, b) for n, a, b in differences if n == each]
        print(
            f"{args.models} models, {each} items each, {len(of)} rankings of {len(TABLES)} tables"
        )
        for what in of[0][0]:
            often = np.array([a[what] for a, _ in of])
            change = np.array([b[what] for _, b in of]) - often
            error = np.nanstd(change, ddof=1) / len(of) ** 0.5
            print(f"  {what:14} {np.nanmean(often):8.4f}  {np.nanmean(change):+.4f} ± {error:.4f}")


if __name__ == "__main__":
    main()
