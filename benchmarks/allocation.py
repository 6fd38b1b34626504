"""Which model gets the next item: the ranker's own turns beside round robin, at equal money.

    python benchmarks/allocation.py [--models 5,10,20] [--methods default,sample] [--folds 0,2]
        [--prices equal,unequal] [--tasks 1,3] [--slots 8]

Held-out models of each table of benchmarks/worlds.py (and, for several tasks, of the tasks of the
Open LLM Leaderboard) are ranked twice on the same items with at most 200 each: by the ranker's own
turns, and by turns that go round all models that the stopping rule still wants. So many answers are
in flight as there are slots. Printed, in per cent, at money that pays 20, 40, 60 and 80 items of
every model: adjacent pairs decided, which are what a run stops for, and all pairs decided, each
with the gain over round robin; and wrong decisions. +- is one standard error over tables and folds.
"""

from __future__ import annotations

import argparse
import os
from collections import deque
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.worlds import SUITE, WORLDS, Scores, bank_of, scores_of
from lm_eval_ccat import Ranker
from lm_eval_ccat.metrics.scale import Floats
from lm_eval_ccat.ranker.verdicts import DECIDED

ITEMS = (20, 40, 60, 80)
HORIZON = 200
#: Fewest models that calibrate a bank, and most.
FEWEST, MOST = 12, 60
#: Asks of a ranker that has so much room: (ranker, models, number of this ask).
Turns = Callable[[Ranker, list[str], int], list[tuple[str, object]]]


def own(ranker: Ranker, models: list[str], number: int) -> list[tuple[str, object]]:
    """Ask as the ranker chooses."""
    return list(ranker.ask(1))


def round_robin(ranker: Ranker, models: list[str], number: int) -> list[tuple[str, object]]:
    """Ask the next model in turn that the stopping rule wants."""
    for k in range(len(models)):
        if asks := ranker.ask(1, model=models[(number + k) % len(models)]):
            return list(asks)
    return []


def played(
    ranker: Ranker, score: Callable[[str, object], float], turns: Turns, slots: int, money: float
) -> Floats:
    """Return shares of adjacent and of all pairs decided, and wrong ones, at each of `ITEMS`.

    Parameters
    ----------
    money : float
        Price of one item of every model.

    Returns
    -------
    ndarray of shape (len(ITEMS), 2 + n_models * n_models)
        The signs of all pairs come after the two shares.
    """
    models, flying, figures, number = list(ranker.result().order), deque(), [], 0
    models.sort()
    while len(figures) < len(ITEMS):
        while len(flying) < slots and (asks := turns(ranker, models, number)):
            flying.extend(asks)
            number = models.index(asks[-1][0]) + 1
        if not flying or ranker.spent >= ITEMS[len(figures)] * money:
            verdicts = ranker.verdicts
            sign = np.sign(verdicts.sign[:, : len(models)]).ravel()
            adjacent = np.mean(np.asarray(verdicts.adjacent) == DECIDED)
            figures.append(
                np.r_[adjacent, np.mean(sign != 0) * len(models) / (len(models) - 1), sign]
            )
        else:
            model, item = flying.popleft()
            ranker.tell(model, item, score(model, item))
    return np.array(figures)


def rankings(
    tables: tuple[str, ...], n_models: int, method: str, prices: str, fold: int, slots: int
) -> Floats | None:
    """Play both ways; shape (2, len(ITEMS), 3): adjacent, all, wrong. None if models are few."""
    rng = np.random.default_rng([fold, n_models, *map(ord, tables[0])])
    scores: Mapping[str, Scores] = {name: scores_of(name) for name in tables}
    common = sorted(set.intersection(*(set(s.models) for s in scores.values())))
    if len(common) < n_models + FEWEST:
        return None
    drawn = rng.permutation(len(common))[: n_models + MOST]
    new, others = drawn[:n_models], drawn[n_models:]
    places = {name: [s.models.index(m) for m in common] for name, s in scores.items()}
    banks = {
        name: bank_of(s.of([places[name][j] for j in others]), method, name)
        for name, s in scores.items()
    }
    rows = {name: s.values[[places[name][j] for j in new]] for name, s in scores.items()}
    names = [f"m{k:02d}" for k in range(n_models)]
    price = np.exp(rng.uniform(np.log(0.1), np.log(3.2), n_models)) if prices == "unequal" else 1.0
    price = np.broadcast_to(price, n_models)
    truth = np.mean([y.mean(axis=1) for y in rows.values()], axis=0)
    true_sign = np.sign(np.subtract.outer(truth, truth)).ravel()

    def score(model: str, item: object) -> float:
        task, doc = item if isinstance(item, tuple) else (tables[0], item)
        return float(rows[task][names.index(model), banks[task].index[doc]])

    out = []
    for turns in (own, round_robin):
        bank = banks if len(banks) > 1 else banks[tables[0]]
        more: dict[str, Any] = {"weights": "equal"} if len(banks) > 1 else {}
        money = float(price.sum())
        # Round robin knows of no budget, or models would leave each other their turns.
        limits: dict[str, Any] = {} if turns is round_robin else {"budget": ITEMS[-1] * money}
        ranker = Ranker(
            bank, dict(zip(names, price.tolist())), max_items=HORIZON, seed=fold, **limits, **more
        )
        figures = played(ranker, score, turns, slots, money)
        wrong = (figures[:, 2:] * true_sign < 0.0).sum(axis=1) / 2
        out.append(np.column_stack([figures[:, :2], wrong]))
    return np.array(out)


def mean_and_error(values: Floats) -> str:
    """Return a mean in per cent with its standard error over the first axis."""
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return f"{100 * values.mean():5.1f} +- {100 * error:3.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="5,10,20")
    parser.add_argument("--methods", default="default,sample")
    parser.add_argument("--prices", default="equal,unequal")
    parser.add_argument("--tasks", default="1,3")
    parser.add_argument("--folds", default="0,2", help="first and one after the last")
    parser.add_argument("--slots", type=int, default=8)
    given = parser.parse_args()
    folds = range(*map(int, given.folds.split(",")))
    numbers = [int(n) for n in given.models.split(",")]
    kinds = product(given.methods.split(","), map(int, given.tasks.split(",")), numbers)
    for (method, n_tasks, n_models), prices in product(list(kinds), given.prices.split(",")):
        sets = [tuple(f"suite {task}" for task in SUITE[:n_tasks])]
        if n_tasks == 1:
            sets = [(table,) for table in WORLDS["random"].tables]
        found = [
            figures
            for tables, fold in product(sets, folds)
            if (figures := rankings(tables, n_models, method, prices, fold, given.slots))
            is not None
        ]
        if not found:
            continue
        both = np.array(found)
        print(
            f"{method}, {n_tasks} tasks, {n_models} models, {prices} prices, {len(both)} rankings"
        )
        for k, items in enumerate(ITEMS):
            cells = [f"{items:4} items"]
            for what, name in enumerate(("adjacent", "all")):
                mine, turn = both[:, 0, k, what], both[:, 1, k, what]
                cells += [f"{name} {mean_and_error(mine)} ({mean_and_error(mine - turn)} more)"]
            cells += [f"wrong {both[:, 0, k, 2].sum():.0f}, {both[:, 1, k, 2].sum():.0f}"]
            print("  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
