"""The method "sample": what it decides, how often wrongly, how fast, and when a bank pays.

    looks    five models looked at after every item: any wrong pair, pairs decided by 50, 100, 200
             items; the rule of `sample` in its forms beside t-tests
    estimates  intervals of estimates and of differences that hold, at one look at five models with
             as many items of each or not
    first    3, 5, 8 models without any calibration data until all is decided: items, wrong pairs,
             against the documents of full runs and of `common` at the same confidence
    bank     tau and pairs decided at 20 and 50 items per model against the number of models that
             calibrate the bank, `default` beside `sample`
    speed    processor time of one decision

    python benchmarks/sample.py [--sections looks,estimates,first,bank,speed] [--seeds 40]
        [--only bleu] [--processes 1] [--models 3,5,8] [--calibrating 4,8,16] [--out found.json]

Shares are means over score tables, which weigh the same; standard errors are over score tables.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from quality_data import DATASETS, load
from scipy.stats import t as student

from lm_eval_ccat import ItemBank, ScoreTable, simulate
from lm_eval_ccat.cluster import in_processes
from lm_eval_ccat.methods.calibration import MIN_MODELS
from lm_eval_ccat.methods.sample.method import SamplePolicy
from lm_eval_ccat.ranker.looks import ROUNDING, Looks
from lm_eval_ccat.ranker.rows import Estimate
from lm_eval_ccat.ranker.verdicts import Verdicts
from lm_eval_ccat.simulation.fold_replay import Fold, Protocol, SharedByFolds, replay_fold
from lm_eval_ccat.simulation.folds import Benchmark, hold_outs, lengths_to_replay
from lm_eval_ccat.simulation.judging import Figures, summarise
from lm_eval_ccat.simulation.strategies import Strategy, chosen_methods

BY = (50, 100, 200)
NEVER = 10**9
#: Items of each of five models, as many of each and not.
NUMBERS = ((20,) * 5, (60,) * 5, (200,) * 5, (200, 100, 60, 40, 20), (200, 60, 60, 60, 60))
RULES: dict[str, tuple[dict[str, Any], bool]] = {
    "sequence, per pair": ({}, False),
    "sequence, all pairs": ({}, True),
    "betting, per pair": ({"guarantee": "finite"}, False),
    "betting, all pairs": ({"guarantee": "finite"}, True),
}


def complete(table: ScoreTable) -> np.ndarray:
    """Scores of the models that have nearly all items, on the items that all of them have."""
    y = table.model_scores()
    y = y[np.isfinite(y).mean(axis=1) > 0.97]
    return np.asarray(y[:, np.isfinite(y).all(axis=0)])


def looks(args: argparse.Namespace) -> None:
    rows: dict[str, list[list[float]]] = {}
    for dataset, metric in chosen(args):
        y = complete(load(dataset, metric)[0])
        found: dict[str, list[list[float]]] = {}
        for seed in range(args.seeds):
            five = y[np.random.default_rng(seed).choice(len(y), 5, replace=False)]
            for name, row in one_ranking(five, seed).items():
                found.setdefault(name, []).append(row)
        for name, own in found.items():
            rows.setdefault(name, []).append(np.mean(own, axis=0).tolist())
        print(f"{dataset} {metric}", flush=True)
    shown("any wrong pair, decided by 50, 100, 200 items", rows)


def one_ranking(y: np.ndarray, seed: int) -> dict[str, list[float]]:
    """Any wrong pair, and shares of pairs decided by some numbers of items, of each rule."""
    n_models, size = y.shape
    half = size // 2
    i, j = np.triu_indices(n_models, 1)
    true = np.sign(y.mean(axis=1)[i] - y.mean(axis=1)[j])
    out: dict[str, list[float]] = {}
    for name, (options, familywise) in RULES.items():
        blank = ItemBank.blank(range(size), task="t", metric="m")
        policy = SamplePolicy(blank, n_models, seed=seed, **options)
        names, looks = [f"m{k}" for k in range(n_models)], Looks()
        at, sign = np.full(len(i), NEVER), np.zeros(len(i))
        for n, item in enumerate(policy.sequence.order[:half], start=1):
            for model in range(n_models):
                policy.told(model, int(item), float(y[model, item]))
            belief = policy.belief()
            looks = looks.after(belief, 0.05)
            found = Verdicts(belief, looks, names, familywise=familywise).sign[i, j]
            new = (found != 0) & (at == NEVER)
            at, sign = np.where(new, n, at), np.where(new, found, sign)
        out[name] = judged(at, sign, true)
    order = policy.sequence.order[:half]
    d = (y[i] - y[j])[:, order]
    n = np.arange(1, half + 1)
    mean = np.cumsum(d, axis=1) / n
    v = (np.cumsum(d * d, axis=1) - n * mean**2) / np.maximum(n - 1, 1)
    t = np.abs(mean) / np.sqrt(np.maximum(v, 1e-8) * (1 - n / size) / n)
    for name, length, at_look in (
        ("t at every look, per pair", 0.05, None),
        ("t at every look, all pairs", 0.05 / len(i), None),
        ("t at 100 items only, all pairs", 0.05 / len(i), min(100, half)),
    ):
        over = t > student.ppf(1 - length / 2, np.maximum(n - 1, 1))
        over[:, :9] = False
        if at_look is not None:
            over[:, np.arange(half) != at_look - 1] = False
        at = np.where(over.any(axis=1), over.argmax(axis=1) + 1, NEVER)
        sign = np.sign(mean[np.arange(len(i)), np.minimum(at, half) - 1])
        out[name] = judged(at, sign, true)
    return out


def judged(at: np.ndarray, sign: np.ndarray, true: np.ndarray) -> list[float]:
    """`at` is the number of items after which each pair was decided, `NEVER` if not."""
    wrong = (at < NEVER) & (sign != true)
    return [float(wrong.any()), *(float((at <= n).mean()) for n in BY)]


def estimates(args: argparse.Namespace) -> None:
    """How many intervals hold the full score, or difference, at one look at five models."""
    rows: dict[str, list[list[float]]] = {}
    for dataset, metric in chosen(args):
        y = complete(load(dataset, metric)[0])
        found: dict[str, list[list[float]]] = {}
        for seed in range(args.seeds):
            rng = np.random.default_rng(seed)
            models, items = rng.permutation(len(y))[:5], rng.permutation(y.shape[1])[:400]
            for counts in NUMBERS:
                shares = intervals_that_hold(y[models][:, items], counts, seed)
                found.setdefault(", ".join(map(str, counts)), []).append(shares)
        for name, own in found.items():
            rows.setdefault(name, []).append(np.mean(own, axis=0).tolist())
        print(f"{dataset} {metric}", flush=True)
    shown("intervals that hold: estimates, differences", rows)


def intervals_that_hold(y: np.ndarray, counts: Sequence[int], seed: int) -> list[float]:
    """Shares of estimates and of differences, after so many items of each model."""
    n_models, size = y.shape
    policy = SamplePolicy(ItemBank.blank(range(size)), n_models, seed=seed)
    for model, n in enumerate(counts):
        for item in policy.sequence.order[: min(n, size)]:
            policy.told(model, int(item), float(y[model, item]))
    belief, full = policy.belief(), y.mean(axis=1)
    figures = belief.location, np.sqrt(belief.variance.diagonal()), belief.df.diagonal()
    held = []
    for mean, error, df, n, score in zip(*figures, belief.n.diagonal(), full):
        low, high = Estimate(mean, error, df, n, size).interval(0.95)
        held.append(low - ROUNDING <= score <= high + ROUNDING)
    low_ends, high_ends = Looks(single_look=True).ends(belief, 0.05, 0.05)
    i, j = np.triu_indices(n_models, 1)
    gap = full[i] - full[j]
    ruled_out = (gap < low_ends[i, j] - ROUNDING) | (gap > high_ends[i, j] + ROUNDING)
    return [float(np.mean(held)), 1.0 - float(ruled_out.mean())]


def first(args: argparse.Namespace) -> None:
    """No calibration data at all: what a first user gets."""
    methods = [
        Strategy("sample", "ranker", "sample"),
        Strategy("sample, familywise", "ranker", "sample", rank={"familywise": True}),
        Strategy("sample, d = 0.02", "ranker", "sample", rank={"min_difference": 0.02}),
    ]
    for holdout in map(int, args.models.split(",")):
        rows: dict[str, list[list[float]]] = {}
        for dataset, metric in chosen(args):
            table, _ = load(dataset, metric)
            if len(table.models) < holdout + 2:
                continue
            found = simulate(
                table,
                methods,
                holdout=holdout,
                folds=min(args.seeds, 10),
                items_per_model=None,
                prices=dict.fromkeys(table.models, 1.0),
                processes=args.processes,
            )
            same = simulate(
                table,
                ["paired"],
                holdout=holdout,
                folds=min(args.seeds, 10),
                spend="fixed",
                lengths=[],
                items_per_model=min(100, table.n_items // 2),
                processes=args.processes,
            )
            for name, s in {**found.summary, **same.summary}.items():
                decided = 1.0 - s["tied_share"]
                row = [s["items_per_model"], s["share_of_items"], decided]
                rows.setdefault(name, []).append([*row, s["runs_with_wrong_pair"], s["tau"]])
            print(f"{holdout} models: {dataset} {metric}", file=sys.stderr, flush=True)
        what = ("items", "share", "decided", "any_wrong", "tau")
        title = f"{holdout} models: items per model, of all, pairs decided, any wrong, tau"
        args.found[f"first, {holdout} models"] = shown(title, rows, what)


def bank(args: argparse.Namespace) -> None:
    """From how many calibration models on a bank is worth having."""
    for kind in ("random", "frontier"):
        rows: dict[str, list[list[float]]] = {}
        for dataset, metric in chosen(args):
            table, _ = load(dataset, metric)
            base = None
            for count in map(int, args.calibrating.split(",")):
                if count > len(table.models) * (2 / 3 if kind == "frontier" else 1) - 4:
                    continue
                found = calibrated_on(count, table, kind, args)
                base = base or [at["sample"] for at in found]
                row = []
                for with_bank, without in zip((at["default"] for at in found), base):
                    row += [with_bank["tau"] - without["tau"]]
                    row += [without["tied_share"] - with_bank["tied_share"]]
                    row += [with_bank["rmse"] / without["rmse"]]
                rows.setdefault(f"{count} models calibrate", []).append(row)
            print(f"{kind} folds: {dataset} {metric}", file=sys.stderr, flush=True)
        what = "tau, decided (default - sample), RMSE ratio at 20 items; the same at 50"
        names = [f"{what}_{n}" for n in (20, 50) for what in ("tau", "decided", "rmse")]
        args.found[f"bank, {kind} folds"] = shown(f"{kind} folds: {what}", rows, names)


def calibrated_on(
    count: int, table: ScoreTable, kind: str, args: argparse.Namespace
) -> list[dict[str, Figures]]:
    """Summaries by method at 20 and at 50 items; `count` drawn models calibrate."""
    whole = Benchmark.of(table)
    means = whole.mean(whole.scores, np.isfinite(whole.scores))
    lengths = lengths_to_replay([20, 50], 20, len(whole.items), "fixed")
    methods = chosen_methods(["sample", "default"])
    protocol = Protocol(methods, lengths, np.ones(len(whole.items)), spend="fixed")
    folds = []
    sets = hold_outs(
        kind, whole.models, means,
        size=4, folds=min(args.seeds, 10), seed=0, min_calibrating=MIN_MODELS,
    )  # fmt: skip
    for number, (names, others) in enumerate(sets):
        rng = np.random.default_rng([0, number, 11])
        drawn = rng.choice(len(others), min(count, len(others)), replace=False)
        calibrate_on = tuple(others[i] for i in sorted(drawn))
        folds.append(Fold(number, names, calibrate_on, (dict.fromkeys(names, 1.0),)))
    replayed = in_processes(replay_fold, folds, SharedByFolds(protocol, whole), args.processes)
    runs = [run for of_fold, _, _ in replayed for run in of_fold]
    of_lengths = ([r for r in runs if r.items_per_model == length] for length in lengths)
    return [summarise(at, len(whole.items), 0.95) for at in of_lengths]


def speed(args: argparse.Namespace) -> None:
    """Select, place, update and decide, in milliseconds of processor time."""
    for n_items, n_models in ((1000, 5), (1000, 100), (10_000, 5)):
        y = np.random.default_rng(0).random((n_models, n_items))
        policy = SamplePolicy(ItemBank.blank(range(n_items), task="t", metric="m"), n_models)
        left, price, looks = np.ones(y.shape, dtype=bool), np.ones(n_items), Looks()
        rounds = 2000 // n_models
        start = time.process_time()
        for _ in range(rounds):
            for model in range(n_models):
                [choice] = policy.next(model, left[model], (), price)
                left[model, choice.item] = False
                policy.asked(model, choice.item, choice.probability)
                policy.told(model, choice.item, y[model, choice.item])
                looks = looks.after(policy.belief(), 0.05)
        taken = (time.process_time() - start) / (rounds * n_models)
        print(f"{n_items} items, {n_models} models: {1e3 * taken:.3f} ms a decision", flush=True)


def shown(
    title: str, rows: dict[str, list[list[float]]], names: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Print means over score tables with their errors; the same by name."""
    found: dict[str, dict[str, Any]] = {}
    print(f"\n{title}")
    for name, tables in rows.items():
        mean = np.mean(tables, axis=0)
        error = np.std(tables, axis=0) / np.sqrt(max(len(tables) - 1, 1))
        cells = "".join(f"{m:10.3f} +- {e:.3f}" for m, e in zip(mean, error))
        print(f"  {name:32}{cells}   ({len(tables)} tables)", flush=True)
        figures = zip(names, mean.round(4).tolist(), error.round(4).tolist())
        found[name] = {"tables": len(tables), **{what: [m, e] for what, m, e in figures}}
    return found


def chosen(args: argparse.Namespace) -> list[tuple[str, str]]:
    return [p for p in DATASETS if not args.only or any(o in "/".join(p) for o in args.only)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", default="looks,first,bank,speed")
    parser.add_argument("--seeds", type=int, default=40, help="rankings per score table")
    parser.add_argument("--only", action="append", help="dataset or metric; may be repeated")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--models", default="3,5,8", help="how many are ranked, in `first`")
    parser.add_argument("--calibrating", default="4,8,12,16,24,32,48", help="in `bank`")
    parser.add_argument("--out", help="figures of `first` and `bank` as JSON")
    args = parser.parse_args()
    args.found = {}
    for section in args.sections.split(","):
        print(f"\n== {section} ==", flush=True)
        {
            "looks": looks, "estimates": estimates, "first": first, "bank": bank, "speed": speed,
        }[section](args)  # fmt: skip
        if args.out:
            Path(args.out).write_text(json.dumps(args.found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
