"""Does it cost anything to decide turns on looks that are some answers old?

A ranking looks at all models together not after every answer, but after as many as models may be
asked, at most ten, and beyond fifty models after one answer of every fifth. Held-out models of real
leaderboards are ranked both ways up to the same number of items; the pairs of runs share models,
bank and seed. Printed are the answers, Kendall's tau, the error of estimates and the decided pairs,
as differences (old looks less a look after every answer) with their standard errors over folds, and
the processor time of a decision.

    python benchmarks/many_models.py --data ../shared/data --models 80 --folds 6
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import kendalltau

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
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
    args = parser.parse_args()
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
