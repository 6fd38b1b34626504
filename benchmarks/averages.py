"""Do intervals of averages over tasks hold the full average, also of models beyond the banks?

New models are asked on all tasks of a suite, as many items of each model, with one look after each
number of items a task. They are random ones; such that refuse (score 0 on) a share of the items of
every task, or of one task alone; or the best, or the worst, three tenths of a suite whose other
half calibrates the banks. Printed are the share of intervals that hold, ± over sets of new models,
that of averages below their interval, the width, the mean error, the squared error of the sum of
the tasks beside the sum of their squared errors, the root mean square of error / stated error, and
the shares of pairs whose true difference their interval rules out, that are decided, and decided
wrongly: with --equal of pairs that exchange answers item by item until they are equal, so that
those are called different. With --board the suite's other models are known, and the share of ranges
of ranks that hold, and their width in shares of the board, are printed in place of pairs.

    nice python benchmarks/averages.py --suites openllm --folds 20,32
    nice python benchmarks/averages.py --suites openllm --board --new 12 --folds 300,314 \\
        --sides random,refusing,refusing-one --refused .05,.1,.2
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.looks import exchanged
from benchmarks.worlds import Scores, bank_of, scores_of
from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.metrics.scale import Floats

TARGETS = ("de", "es", "hi", "uk", "zh")
PRO = {
    "pro1": ("math", "law", "psychology", "health", "physics"),
    "pro2": ("biology", "business", "chemistry", "economics", "history"),
    "pro3": ("computer science", "engineering", "philosophy", "other"),
}
SUITES: dict[str, tuple[str, ...]] = {
    "openllm": ("suite gsm8k", "suite truthfulqa", "suite mmlu", "suite winogrande"),
    "open2": ("benchpred musr", "benchpred arc_challenge", "benchpred openllm_math"),
    "helm": ("benchpred gsm", "benchpred mmlu"),
    "bleu": tuple(f"wmt24_en-{target} bleu" for target in TARGETS),
    "chrf": tuple(f"wmt24_en-{target} chrf" for target in TARGETS),
    **{name: tuple(f"mmlu_pro {task}" for task in tasks) for name, tasks in PRO.items()},
}


class Look(NamedTuple):
    """Averages and estimates of some new models, their stated errors and intervals, and pairs."""

    truth: Floats
    estimate: Floats
    error: Floats
    ends: Floats  # of shape (n_models, 2)
    task_errors: Floats  # of shape (n_tasks, n_models)
    ruled_out: list[bool]  # whether the interval of each pair excludes its true difference
    decided: list[bool]
    wrong: list[bool]
    range_held: list[bool]  # by ranks on a board, if there is one
    range_width: list[float]  # in shares of the board

    @property
    def held(self) -> Floats:
        low, high = self.ends.T
        return np.asarray((low <= self.truth) & (self.truth <= high))


#: Sides whose new models are random ones that refuse items.
REFUSING = ("refusing", "refusing-one")


class Case(NamedTuple):
    """How new models are drawn, and what share of the items they refuse, if they do."""

    side: str
    refused: float
    seed: int


@lru_cache(1)
def tables_of(suite: str) -> list[Scores]:
    """Return a suite's tables, each of the models that all have."""
    tables = [scores_of(part) for part in SUITES[suite]]
    common = sorted(set.intersection(*(set(table.models) for table in tables)))
    return [table.of([table.models.index(model) for model in common]) for table in tables]


@lru_cache(1)
def banks_of(suite: str, calibrating: tuple[int, ...]) -> dict[str, ItemBank]:
    """Return the banks that some models calibrate; random and refusing models have the same."""
    return {
        part: bank_of(table.of(calibrating), "default", part)
        for part, table in zip(SUITES[suite], tables_of(suite))
    }


def answered(values: Floats, number: int, n_tasks: int, fold: int, case: Case) -> Floats:
    """Return the scores of new models on one task, 0 where they refuse an item."""
    in_one_task = case.side == "refusing-one"
    if case.side not in REFUSING or (in_one_task and number != fold % n_tasks):
        return values
    rng = np.random.default_rng([fold, number, case.seed, round(1000 * case.refused)])
    return np.asarray(values * (rng.random(values.shape) > case.refused))


def split(
    tables: list[Scores], side: str, fold: int, n_known: int, n_new: int
) -> tuple[list[int], list[int]]:
    """Return at most `n_new` new models, and those that calibrate, at most `n_known`."""
    mean = np.mean([table.values.mean(axis=1) for table in tables], axis=0)
    n_models = len(mean)
    rng = np.random.default_rng([fold, n_models, len(tables)])
    if side in ("random", *REFUSING):
        order, n_new = rng.permutation(n_models), min(n_new, n_models // 3)
        return order[:n_new].tolist(), order[n_new : n_new + n_known].tolist()
    order = np.argsort(-mean if side == "above" else mean, kind="stable")
    new = rng.permutation(order[: max(2, int(0.3 * n_models))])[:n_new]
    return new.tolist(), rng.permutation(order[n_models - n_models // 2 :])[:n_known].tolist()


def looks_at(
    suite: str, case: Case, fold: int, levels: list[int], given: argparse.Namespace
) -> dict[int, Look]:
    """Rank one set of new models, and look after each number of items a task."""
    equal, tables = given.equal, tables_of(suite)
    new, calibrating = split(tables, case.side, fold, given.known, given.new)
    pairs, rng = [*combinations(range(len(new)), 2)], np.random.default_rng(fold)
    if equal:
        pairs = [(k, k + 1) for k in range(0, len(new) - 1, 2)]
    banks, scores = banks_of(suite, tuple(calibrating)), {}
    for number, (part, table) in enumerate(zip(SUITES[suite], tables)):
        values = answered(table.values[new], number, len(tables), fold, case)
        for pair in pairs if equal else ():
            values[[*pair]] = exchanged(values[[*pair]], rng)
        scores[part] = dict(zip((str(j) for j in new), values))
    of_tasks = np.array([[row.mean() for row in rows.values()] for rows in scores.values()])
    truth = of_tasks.mean(axis=0)
    names = [str(j) for j in new]
    board, options = np.empty(0), {}
    if given.board:
        mean = np.mean([table.values.mean(axis=1) for table in tables], axis=0)
        board = np.delete(mean, new)
        options = {"known": {f"known {k}": known for k, known in enumerate(board)}, "warmup": 5}
    cap = max(levels) * len(banks)
    ranker = Ranker(
        banks, names, max_items=cap, seed=fold, stop="limits", weights="equal", **options
    )
    found, told = {}, 0
    while not ranker.done:
        for model, (task, item) in ranker.ask():
            score = scores[task][model][banks[task].index[item]]
            ranker.tell(model, (task, item), float(score))
            told += 1
            each, rest = divmod(told, len(names) * len(banks))
            if not rest and each in levels:
                result = ranker.result()
                errors = [result.standard_errors[name] for name in names]
                estimates = [result.estimates[name] for name in names]
                ends = np.array([result.interval(name) for name in names])
                task_estimates = np.array(
                    [[result.tasks[part].estimates[name] for name in names] for part in banks]
                )
                ruled_out, decided, wrong = [], [], []
                for i, j in pairs:
                    gap, low, high = result.difference(names[i], names[j])
                    right = truth[i] - truth[j]
                    ruled_out.append(not low - 1e-9 <= right <= high + 1e-9)
                    decided.append(low > 0.0 or high < 0.0)
                    wrong.append(decided[-1] and gap * right < 0.0)
                everyone = np.concatenate([board, truth])
                range_held, range_width = [], []
                for name, score in zip(names if given.board else (), truth):
                    best, worst = result.rank_ranges[name]
                    n_better = int((everyone > score + 1e-9).sum())
                    n_as_good = int((everyone > score - 1e-9).sum())  # it among them
                    range_held.append(best <= n_as_good and n_better < worst)
                    range_width.append((worst - best + 1) / len(everyone))
                found[each] = Look(
                    truth, np.array(estimates), np.array(errors), ends,
                    task_estimates - of_tasks,
                    ruled_out, decided, wrong, range_held, range_width,
                )  # fmt: skip
    return found


def line(looks: list[Look]) -> str:
    """Return the figures of some sets of new models."""
    held = np.array([look.held.mean() for look in looks])
    width = np.mean([(look.ends[:, 1] - look.ends[:, 0]).mean() for look in looks])
    z = np.concatenate([(look.estimate - look.truth) / look.error for look in looks])
    apart = np.array([np.mean(look.ruled_out) for look in looks])
    decided = np.mean([np.mean(look.decided) for look in looks])
    n_pairs = sum(len(look.decided) for look in looks)
    spreads = [100 * x.std(ddof=1) / len(x) ** 0.5 if len(x) > 1 else np.nan for x in (held, apart)]
    below = np.concatenate([look.truth < look.ends[:, 0] for look in looks])
    error = np.concatenate([look.estimate - look.truth for look in looks])
    of_tasks = np.concatenate([look.task_errors.ravel() for look in looks])
    together = sum((look.task_errors.sum(axis=0) ** 2).sum() for look in looks)
    averages = (
        f"{100 * held.mean():5.1f} +- {spreads[0]:3.1f}% of {len(z)} hold, "
        f"{100 * below.mean():.1f}% below, width {width:.3f}, mean error {error.mean():+.3f} "
        f"(squared, {together / (of_tasks @ of_tasks):.1f} times that of independent tasks), "
        f"error / stated {np.mean(z * z) ** 0.5:.2f}; "
    )
    if looks[0].range_held:
        held = np.array([np.mean(look.range_held) for look in looks])
        spread = 100 * held.std(ddof=1) / len(held) ** 0.5 if len(held) > 1 else np.nan
        width = np.mean([np.mean(look.range_width) for look in looks])
        return averages + (
            f"ranges {100 * held.mean():5.1f} +- {spread:3.1f}% hold, {width:.1%} of the board"
        )
    return averages + (
        f"difference ruled out {100 * apart.mean():4.1f} +- {spreads[1]:3.1f}% of {n_pairs}, "
        f"decided {100 * decided:.0f}%, wrongly {sum(sum(look.wrong) for look in looks)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--sides", default="below,above,random")
    parser.add_argument("--refused", default=".1", help="shares of items, for refusing sides")
    parser.add_argument("--seeds", type=int, default=1, help="of refusals, for refusing sides")
    parser.add_argument("--folds", default="0,2", help="first and one after the last")
    parser.add_argument("--each", default="5,10,20", help="items a task")
    parser.add_argument("--known", type=int, default=40, help="calibration models at most")
    parser.add_argument("--new", type=int, default=8, help="new models of a set at most")
    parser.add_argument("--board", action="store_true", help="the other models are known")
    parser.add_argument("--equal", action="store_true", help="make new models equal two by two")
    given = parser.parse_args()
    levels = [int(n) for n in given.each.split(",")]
    shares = [float(share) for share in given.refused.split(",")]
    cases = [
        Case(side, share, seed)
        for side in given.sides.split(",")
        for share in (shares if side in REFUSING else [0.0])
        for seed in range(given.seeds if side in REFUSING else 1)
    ]
    found: dict[tuple[str, str, int], list[Look]] = {}
    for suite in given.suites.split(","):
        for fold in range(*map(int, given.folds.split(","))):
            for case in cases:
                name = f"{case.side} {case.refused:g}" if case.refused else case.side
                for each, look in looks_at(suite, case, fold, levels, given).items():
                    found.setdefault((name, suite, each), []).append(look)
                    found.setdefault((name, "all", each), []).append(look)
    for (name, suite, each), looks in sorted(found.items()):
        print(f"{name:16} {suite:8} {each:3} items a task: {line(looks)}", flush=True)


if __name__ == "__main__":
    main()
