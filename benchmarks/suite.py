"""Does one ranking over several tasks beat one ranking per task, and does a prior across tasks?

Held-out models are ranked by the equally weighted mean of the tasks, two ways at the same number
of items: `one budget` lets the Ranker share the items out among tasks, `equal shares` runs a
separate ranking of each task with its part. For the errors of single tasks a prior
across tasks is laid over the estimates: the covariance of the calibration models' task scores says
how much one task tells of another. Ratios below 1 are gains; the spread is the standard error over
folds of the logarithm of the ratio.

    python benchmarks/suite.py --data ../shared/data --folds 8
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from lm_eval_ccat import Ranker, ScoreTable, calibrate

HELD_OUT = 4
WMT = ("wmt24_en-de", "wmt24_en-es")


def tables_of(data: Path, suite: str) -> dict[str, ScoreTable]:
    """The tasks of a suite, with the models that all of them have."""
    if suite == "openllm":
        files = {p.stem.split("_")[1]: p for p in sorted((data / "suite").glob("*.parquet"))}
        found = {t: ScoreTable.read(p, metric="acc") for t, p in files.items()}
    else:
        found = {t: ScoreTable.read(data / "scores" / f"{t}.parquet", metric=suite) for t in WMT}
    common = sorted(set.intersection(*(set(t.models) for t in found.values())))
    return {t: x.select(common) for t, x in found.items()}


def drive(ranker: Ranker, tables: dict[str, ScoreTable]) -> Ranker:
    """Run to the end on held-out models' scores."""
    scores = {t: x.model_scores() for t, x in tables.items()}
    rows = {t: {m: i for i, m in enumerate(x.models)} for t, x in tables.items()}
    columns = {t: {d: i for i, d in enumerate(x.doc_ids)} for t, x in tables.items()}
    while not ranker.done:
        for model, (task, item) in ranker.ask():
            score = scores[task][rows[task][model], columns[task][item]]
            if np.isfinite(score):
                ranker.tell(model, (task, item), score)
            else:
                ranker.fail(model, (task, item), "no score in the table", cost=0.0)
    return ranker


def across(mean: np.ndarray, error: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Task scores of one model given its estimates and the calibration models' task scores.

    A task's own estimate holds the prior of its task already; what the answers alone said is what
    is left of the precision without it.
    """
    centre, sigma = known.mean(axis=0), np.cov(known.T)
    own = np.maximum(np.diag(sigma), 1e-8)
    precision = np.maximum(1.0 / np.maximum(error**2, 1e-10) - 1.0 / own, 0.0)
    seen = np.where(precision > 0.0, mean / np.maximum(error**2, 1e-10) - centre / own, 0.0)
    prior = np.linalg.inv(sigma + 1e-8 * np.eye(len(own)))
    return np.linalg.solve(prior + np.diag(precision), prior @ centre + seen)


def one_fold(
    tables: dict[str, ScoreTable], seed: int, each: int, n_known: int, method: str
) -> dict[str, float]:
    """Mean squared errors of the average and of single tasks, and tau, of one hold-out set."""
    rng = np.random.default_rng(seed)
    every = list(next(iter(tables.values())).models)
    shuffled = [every[i] for i in rng.permutation(len(every))]
    new, known = shuffled[:HELD_OUT], shuffled[HELD_OUT : HELD_OUT + n_known]
    banks = {t: calibrate(x.select(known), method) for t, x in tables.items()}
    mine = {t: x.select(new) for t, x in tables.items()}
    whole, truth = (
        np.stack(
            [np.nanmean(x.select(who).model_scores(), axis=1) for x in tables.values()], axis=1
        )
        for who in (known, new)
    )
    order = next(iter(mine.values())).models
    models, total = dict.fromkeys(new, 1.0), each * HELD_OUT * len(tables)
    usual = {"seed": seed, "stop_when_decided": False, "warmup": min(3, each)}
    share = {"weights": "equal", **usual}
    ways = {
        "one budget": [Ranker(banks, models, budget=total, **share)],
        "equal shares": [
            Ranker({t: b}, models, budget=each * HELD_OUT, **usual) for t, b in banks.items()
        ],
    }
    out: dict[str, float] = {}
    for way, rankers in ways.items():
        tasks = {}
        for ranker in rankers:
            tasks |= drive(ranker, mine).result().tasks
        mean = np.array([[tasks[t].estimates[m] for t in tables] for m in order])
        error = np.array([[tasks[t].standard_errors[m] for t in tables] for m in order])
        both = np.array([across(a, b, whole) for a, b in zip(mean, error)])
        for label, found in ((way, mean), (f"{way}, prior across", both)):
            out[f"average | {label}"] = float(((found - truth).mean(axis=1) ** 2).mean())
            out[f"single | {label}"] = float(((found - truth) ** 2).mean())
    return out


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--suites", default="openllm,chrf,bleu")
    parser.add_argument("--folds", type=int, default=8)
    parser.add_argument("--each", default="3,6,12", help="items per model and task")
    parser.add_argument("--known", type=int, default=40, help="calibration models at most")
    parser.add_argument("--method", default="default")
    args = parser.parse_args()
    for suite in args.suites.split(","):
        tables = tables_of(args.data, suite)
        n_known = min(args.known, len(next(iter(tables.values())).models) - HELD_OUT)
        for each in map(int, args.each.split(",")):
            rows = [
                one_fold(tables, seed, each, n_known, args.method) for seed in range(args.folds)
            ]
            print(
                f"\n{suite}: {len(tables)} tasks, {n_known} known, {each} items per model and task"
            )
            for of in ("average", "single"):
                base = np.array([r[f"{of} | equal shares"] for r in rows])
                print(f"  {of}: rmse of equal shares {np.sqrt(base.mean()):.4f}")
                for label in (k for k in rows[0] if k.startswith(of) and k[-12:] != "equal shares"):
                    found = np.array([r[label] for r in rows])
                    ratio = 0.5 * np.log((found + 1e-12) / (base + 1e-12))
                    spread = ratio.std(ddof=1) / np.sqrt(len(ratio))
                    print(
                        f"    {label.split(' | ')[1]:28} rmse ratio "
                        f"{np.sqrt(found.mean() / base.mean()):.3f}, geometric "
                        f"{np.exp(ratio.mean()):.3f} (log spread {spread:.3f})",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
