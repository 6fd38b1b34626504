"""What does ranking on several tasks with one budget gain, and what a prior across tasks?

Held-out models are ranked by the equally weighted mean of the tasks, four ways at the same number
of items: one ranking with a prior across tasks (as `rank` does it), the same without that prior,
a separate ranking of each task with its equal share, and paired random items without a bank.
Printed are the root mean squared errors of the average, of single tasks and of differences of
averages, the share of intervals that hold the truth, Kendall's tau, and the pairs whose true
difference is ruled out, that are decided, and decided right, by one look at the last item; and the
pairs decided by the ranker's own looks, by its boundary for so many items, beside one t-test on
as many random items of each task. Ratios are to equal
shares; after them stands the standard error over hold-out sets of their logarithm.

    python benchmarks/suite.py --data ../shared/data --folds 8
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats
from scipy.stats import kendalltau

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.belief import Belief
from lm_eval_ccat.metrics.scale import Floats
from lm_eval_ccat.ranker.looks import Looks

HELD_OUT = 5
WMT = ("wmt24_en-de", "wmt24_en-es", "wmt24_en-hi", "wmt24_en-uk", "wmt24_en-zh")
WAYS = ("one ranking", "without the prior", "equal shares", "random items")
ALONE = "errors of tasks alone"  # by banks that keep nothing of the models left out
Figures = dict[str, list[float]]


def tables_of(data: Path, suite: str) -> dict[str, ScoreTable]:
    """The tasks of a suite, with the models that all of them have."""
    if suite == "openllm":
        files = {p.stem.split("_")[1]: p for p in sorted((data / "suite").glob("*.parquet"))}
        found = {t: ScoreTable.read(p, metric="acc") for t, p in files.items()}
    else:
        found = {t: ScoreTable.read(data / "scores" / f"{t}.parquet", metric=suite) for t in WMT}
    common = sorted(set.intersection(*(set(t.models) for t in found.values())))
    return {t: x.select(common) for t, x in found.items()}


def drive(ranker: Ranker, tables: Mapping[str, ScoreTable]) -> Ranker:
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


def rankers_of(
    way: str,
    banks: Mapping[str, ItemBank],
    tables: Mapping[str, ScoreTable],
    each: int,
    seed: int,
    even: bool = False,
    stop: str = "limits",
) -> list[Ranker]:
    """The rankings that one way consists of."""
    models = dict.fromkeys(next(iter(tables.values())).models, 1.0)
    usual = {"seed": seed, "stop": stop, "warmup": min(3, each)}
    share = each * len(models)
    if way == "equal shares":
        return [Ranker({t: b}, models, budget=share, **usual) for t, b in banks.items()]
    if way == "random items":
        banks = {t: ItemBank.blank(x.doc_ids) for t, x in tables.items()}
    if way == ALONE:
        none = {"left_out": {}}
        banks = {
            t: replace(b, provenance=b.provenance | {"report": b.provenance["report"] | none})
            for t, b in banks.items()
        }
    return [
        Ranker(
            banks,
            models,
            budget=None if even else share * len(banks),
            max_items=each * len(banks) if even else None,
            weights="equal",
            across=way in ("one ranking", ALONE),
            **usual,
        )
    ]


def differences(rankers: list[Ranker]) -> tuple[Floats, Floats]:
    """Ends of the differences of averages; of separate rankings by their errors' sum."""
    whole = Belief.sum([r.belief() for r in rankers], np.full(len(rankers), 1.0 / len(rankers)))
    return Looks(single_look=True).ends(whole, 0.05, 0.05)


def judged(rankers: list[Ranker], truth: np.ndarray) -> Figures:
    """Errors of one way, given the truth of shape (n_models, n_tasks)."""
    order = list(rankers[0].result().estimates)
    results = [r.result() for r in rankers]
    tasks = {t: x for r in results for t, x in r.tasks.items()}
    mean = np.array([[tasks[t].estimates[m] for t in tasks] for m in order])
    ends = np.array([[tasks[t].intervals[m] for t in tasks] for m in order])
    whole, average = truth.mean(axis=1), mean.mean(axis=1)
    if len(rankers) == 1:
        of_all = np.array([results[0].intervals[m] for m in order])
    else:
        half = np.sqrt((((ends[..., 1] - ends[..., 0]) / 2.0) ** 2).sum(axis=1)) / len(tasks)
        of_all = np.stack([average - half, average + half], axis=1)
    a, b = np.triu_indices(len(order), 1)
    gap, right = average[a] - average[b], whole[a] - whole[b]
    low, high = (pair_ends[a, b] for pair_ends in differences(rankers))
    sure = (low > 0.0) | (high < 0.0)
    return {
        "average": ((average - whole) ** 2).tolist(),
        "single": ((mean - truth) ** 2).ravel().tolist(),
        "difference": ((gap - right) ** 2).tolist(),
        "average held": ((of_all[:, 0] <= whole) & (whole <= of_all[:, 1])).tolist(),
        "single held": ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).ravel().tolist(),
        "tau": [float(kendalltau(average, whole)[0])],
        "ruled out": ((right < low) | (right > high)).tolist(),
        "decided": sure.tolist(),
        "decided right": (gap * right > 0.0)[sure].tolist(),
    }


def decided_by_looks(tables: Mapping[str, ScoreTable], rankers: list[Ranker]) -> list[bool]:
    """Whether a ranking that stops once all is decided decides each pair of averages.

    Separate rankings decide pairs of each task, and none of the average.
    """
    results = [drive(ranker, tables).result() for ranker in rankers[: len(rankers) == 1]]
    return [choice == "decided" for result in results for choice in result.decisions.values()]


def t_test_decided(tables: Mapping[str, ScoreTable], each: int, seed: int) -> list[bool]:
    """Whether a t-test decides each pair's difference of averages: random items of every task.

    All models get the same items. Degrees of freedom of the sum are Satterthwaite's.
    """
    rng = np.random.default_rng([seed, each])
    gap, variance, fourth = 0.0, 0.0, 0.0
    for table in tables.values():
        scores = table.model_scores()
        drawn = scores[:, rng.permutation(scores.shape[1])[:each]]
        a, b = np.triu_indices(len(drawn), 1)
        apart = drawn[a] - drawn[b]
        part = apart.var(axis=1, ddof=1) / each * (1.0 - each / scores.shape[1])
        gap = gap + apart.mean(axis=1)
        variance, fourth = variance + part, fourth + part**2 / (each - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2.0 * stats.t.sf(np.abs(gap) / variance**0.5, variance**2 / fourth)
    return list(p < 0.05)


def one_fold(
    tables: dict[str, ScoreTable],
    seed: int,
    sizes: list[int],
    n_known: int,
    method: str,
    ways: list[str],
    even: bool,
) -> dict[tuple[int, str], Figures]:
    """Figures of one hold-out set, by items per model and task and by way."""
    rng = np.random.default_rng(seed)
    every = list(next(iter(tables.values())).models)
    shuffled = [every[i] for i in rng.permutation(len(every))]
    new, known = shuffled[:HELD_OUT], shuffled[HELD_OUT : HELD_OUT + n_known]
    banks = {t: calibrate(x.select(known), method) for t, x in tables.items()}
    mine = {t: x.select(new) for t, x in tables.items()}
    truth = np.stack([np.nanmean(x.model_scores(), axis=1) for x in mine.values()], axis=1)
    return {
        (each, way): judged(
            [drive(r, mine) for r in rankers_of(way, banks, mine, each, seed, even)], truth
        )
        | {
            "decided by a t-test": t_test_decided(mine, each, seed),
            "decided by looks": decided_by_looks(
                mine, rankers_of(way, banks, mine, each, seed, even, "decided")
            ),
        }
        for each in sizes
        for way in ways
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--suites", default="openllm,chrf,bleu")
    parser.add_argument("--folds", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="seed of the first hold-out set")
    parser.add_argument("--each", default="3,6,12", help="items per model and task")
    parser.add_argument("--known", type=int, default=40, help="calibration models at most")
    parser.add_argument("--method", default="default")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"or {ALONE!r}")
    parser.add_argument("--even", action="store_true", help="as many items of each model")
    args = parser.parse_args()
    sizes, ways = [int(n) for n in args.each.split(",")], args.ways.split(",")
    for suite in args.suites.split(","):
        tables = tables_of(args.data, suite)
        n_known = min(args.known, len(next(iter(tables.values())).models) - HELD_OUT)
        seeds = range(args.first, args.first + args.folds)
        folds = [
            one_fold(tables, seed, sizes, n_known, args.method, ways, args.even) for seed in seeds
        ]
        for each in sizes:
            print(f"\n{suite}: {len(tables)} tasks, {n_known} known, {args.folds} sets of "
                  f"{HELD_OUT}, {each} items per model and task")  # fmt: skip
            show([{way: f[each, way] for way in ways} for f in folds])


def show(folds: list[dict[str, Figures]]) -> None:
    """The table of one suite and size; ratios are to equal shares, or else to the last way."""
    ways = list(folds[0])
    base_way = "equal shares" if "equal shares" in ways else ways[-1]
    for way in ways:
        pooled = {k: np.concatenate([f[way][k] for f in folds]) for k in folds[0][way]}
        words = []
        for what in ("average", "single", "difference"):
            mine = np.array([np.mean(f[way][what]) for f in folds])
            base = np.array([np.mean(f[base_way][what]) for f in folds])
            ratio = 0.5 * np.log((mine + 1e-12) / (base + 1e-12))
            spread = ratio.std(ddof=1) / len(ratio) ** 0.5 if len(ratio) > 1 else np.nan
            words.append(
                f"{what} {mine.mean() ** 0.5:.4f} "
                f"({(mine.mean() / base.mean()) ** 0.5:.2f} +- {spread:.2f})"
            )
        by_set = np.array([np.mean(f[way]["average held"]) for f in folds])
        held = f"{by_set.mean():.0%} +- {by_set.std(ddof=1) / len(by_set) ** 0.5:.0%}, " + (
            f"{pooled['single held'].mean():.0%}"
        )
        by_set = np.array([np.mean(f[way]["ruled out"]) for f in folds])
        apart = f"{by_set.mean():.1%} +- {by_set.std(ddof=1) / len(by_set) ** 0.5:.1%}"
        right = pooled["decided right"]
        sure = f"{right.mean():.1%}" if len(right) else "-"
        if len(pooled["decided by looks"]):
            by_set = np.array([np.mean(f[way]["decided by looks"]) for f in folds])
            t_test = np.array([np.mean(f[way]["decided by a t-test"]) for f in folds])
            more = by_set - t_test
            sure += (
                f"; by the ranker's looks {by_set.mean():.1%}, {more.mean():+.1%} +- "
                f"{more.std(ddof=1) / len(more) ** 0.5:.1%} beside a t-test on random items"
            )
        print(
            f"  {way:18} rmse {', '.join(words)}; held {held}; tau {pooled['tau'].mean():.3f}; "
            f"difference ruled out {apart}; decided {pooled['decided'].mean():.0%}, right {sure}",
            flush=True,
        )


if __name__ == "__main__":
    main()
