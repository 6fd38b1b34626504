"""Placing models on a leaderboard, spreading items, one budget for several tasks: on real data.

For each dataset and seed some models are held out and the bank is calibrated on the others.

    python benchmarks/leaderboard.py                # 10 folds, some minutes
    python benchmarks/leaderboard.py --folds 3      # quick

place     A held-out model among all others (fixed points): how often its true rank lies in the rank
          interval, how wide that is, and how many items it took.
exposure  Four held-out models ranked at 20 items each, every item drawn among the K most
          informative: Kendall's tau with the full order, and the share of tests that ask the most
          asked item.
suite     Models ranked by the mean of two tasks: tau and error of the aggregate with one budget
          spent where the overall order is undecided, and with half of it for each task.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from lm_eval_ccat import Ranker, ScoreTable, calibrate

SHARED = Path(os.environ.get("CCAT_SHARED", Path(__file__).resolve().parents[1].parent / "shared"))
DATA = [
    ("wmt24_en-de", "bleu"),
    ("wmt24_en-de", "chrf"),
    ("wmt24_en-es", "chrf"),
    ("alpaca_eval2_weighted", None),
    ("zeroeval_gsm", None),
    ("realsumm_abs", "rouge_1_f_score"),
    ("metabench_gsm8k_v1", None),
]
SUITE = [("wmt24_en-de", "chrf"), ("wmt24_en-es", "chrf")]
HELD_OUT, MOST_MODELS = 4, 120


def read(name: str, metric: str | None) -> ScoreTable:
    """A dataset's complete models, a fixed sample of very many."""
    table = ScoreTable.read(SHARED / "data" / "scores" / f"{name}.parquet", metric)
    scores = table.model_scores()
    complete = [m for m, row in zip(table.models, scores) if np.isfinite(row).all()]
    if len(complete) > MOST_MODELS:
        complete = list(np.random.default_rng(0).permutation(complete)[:MOST_MODELS])
    return table.select(complete)


def fold(table: ScoreTable, seed: int) -> tuple[list[str], ScoreTable]:
    """Held-out models, and the table of the others."""
    order = np.random.default_rng(seed).permutation(table.models).tolist()
    return order[:HELD_OUT], table.without(order[:HELD_OUT])


def tau(order: list[str], truth: dict[str, float]) -> float:
    """Kendall's tau of an order with the order by true means."""
    signs = [np.sign(truth[a] - truth[b]) for i, a in enumerate(order) for b in order[i + 1 :]]
    return float(np.mean(signs))


def drive(ranker: Any, scores: dict[str, Any]) -> Any:
    """Run a ranker on known scores."""
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(scores[model][ranker.bank.index[item]]))
    return ranker.result()


def shown(values: list[float]) -> str:
    """Mean and its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.3f} ± {error:.3f}"


def place(folds: int, method: str, most: int) -> None:
    """Rank intervals of held-out models among all others."""
    print(f"\nplace: at most {most} items per model\n{'data':36} covered  width   items  decided")
    for name, metric in DATA:
        table = read(name, metric)
        rows = []
        for seed in range(folds):
            new, known = fold(table, seed)
            bank = calibrate(known, method)
            means = known.model_scores().mean(axis=1)
            for model in new:
                own = table.select([model]).model_scores()[0]
                ranker = Ranker(bank, {model: 1.0}, known=known, max_items=most)
                result = drive(ranker, {model: own})
                where = result.places[model]
                first = 1 + int((means > own.mean() + 1e-12).sum())
                last = 1 + int((means >= own.mean() - 1e-12).sum())
                rows.append(
                    (
                        where.best <= last and first <= where.worst,
                        (where.worst - where.best) / where.n_models,
                        len(result.items[model]),
                        not where.tied_with,
                    )
                )
        covered, width, items, decided = np.mean(np.array(rows, dtype=float), axis=0)
        print(
            f"{name + ' ' + (metric or ''):36} {covered:7.1%} {width:6.1%} "
            f"{items:6.1f} of {table.n_items:<5} {decided:.0%}",
            flush=True,
        )


def exposure(folds: int, method: str) -> None:
    """Loss of tau and fall of the largest exposure with K."""
    ks = (1, 3, 5, 10, 20)
    print(f"\nexposure\n{'K':>4}  tau              difference from K=1   most asked item in")
    found: dict[int, list[float]] = {k: [] for k in ks}
    top: dict[int, list[float]] = {k: [] for k in ks}
    for name, metric in DATA:
        table = read(name, metric)
        counts: dict[int, Counter[Any]] = {k: Counter() for k in ks}
        for seed in range(folds):
            new, known = fold(table, seed)
            bank = calibrate(known, method)
            scores = {m: table.select([m]).model_scores()[0] for m in new}
            truth = {m: float(s.mean()) for m, s in scores.items()}
            for k in ks:
                ranker = Ranker(
                    bank,
                    dict.fromkeys(new, 1.0),
                    budget=20 * HELD_OUT,
                    exposure=k,
                    seed=seed,
                    stop="limits",
                )
                result = drive(ranker, scores)
                found[k].append(tau(result.order, truth))
                for items in result.items.values():
                    counts[k].update(items)
        for k in ks:
            top[k].append(counts[k].most_common(1)[0][1] / (folds * HELD_OUT))
    for k in ks:
        paired = [a - b for a, b in zip(found[k], found[1])]
        print(f"{k:4}  {shown(found[k])}    {shown(paired)}       {np.mean(top[k]):.0%} of tests")


def suite(folds: int, method: str, each: int) -> None:
    """One budget over two tasks against half of it for each."""
    tables = {f"{n} {m}": read(n, m) for n, m in SUITE}
    common = sorted(set.intersection(*(set(t.models) for t in tables.values())))
    tables = {t: x.select(common) for t, x in tables.items()}
    print(f"\nsuite: {', '.join(tables)}; {len(common)} models, {each} items per model")
    # The harness weighs tasks by size, these two alike; a suite may also weigh one four times more.
    uneven = dict(zip(tables, (4.0, 1.0)))
    kinds = {
        f"{what}, {label}": (limit, weights)
        for label, weights in (("weights by size", "documents"), ("weights 4:1", uneven))
        for what, limit in (("one budget", None), ("half each", each // len(tables)))
    }
    rows: dict[str, list[tuple[float, float]]] = {label: [] for label in kinds}
    for seed in range(folds):
        new, _ = fold(next(iter(tables.values())), seed)
        banks = {t: calibrate(x.without(new), method) for t, x in tables.items()}
        scores = {t: {m: x.select([m]).model_scores()[0] for m in new} for t, x in tables.items()}
        for label, (limit, weights) in kinds.items():
            ranker = Ranker(
                banks,
                dict.fromkeys(new, 1.0),
                budget=each * len(new),
                max_items=limit,
                stop="limits",
                seed=seed,
                weights=weights,
            )
            while not ranker.done:
                for model, (task, item) in ranker.ask():
                    ranker.tell(
                        model, (task, item), float(scores[task][model][banks[task].index[item]])
                    )
            result = ranker.result()
            truth = {
                m: sum(w * float(scores[t][m].mean()) for t, w in result.weights.items())
                for m in new
            }
            error = np.mean([(result.estimates[m] - truth[m]) ** 2 for m in new])
            rows[label].append((tau(result.order, truth), float(np.sqrt(error))))
    for label, found in rows.items():
        taus, errors = zip(*found)
        print(f"{label:26} tau {shown(list(taus))}   RMS error {shown(list(errors))}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--method", default="default", choices=("default", "paper"))
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--only", choices=("place", "exposure", "suite"))
    args = parser.parse_args()
    if not SHARED.is_dir():
        raise SystemExit(f"not run: {SHARED} is absent (set CCAT_SHARED)")
    if args.only in (None, "place"):
        place(args.folds, args.method, args.items)
    if args.only in (None, "exposure"):
        exposure(args.folds, args.method)
    if args.only in (None, "suite"):
        suite(4 * args.folds, args.method, args.items)


if __name__ == "__main__":
    main()
