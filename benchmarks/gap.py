"""How many items two models need, by how far apart they are: the picture of the README.

    python benchmarks/gap.py [--folds 0,4] --out found.json

Pairs of real models on published tables of 750 items each, of the better half of a table's models.
Every way is given the same pairs, and gives the number of items per model after which a half, and
four fifths, of them are decided rightly at 95%:

- ``bank``: a ranking by `default`, whose bank the table's other models calibrate;
- ``weaker``: the same with a bank of the worse half of the models alone;
- ``none``: a ranking by `sample`;
- ``test``: a paired t-test at the end of as many random items;
- ``limit``: the first items, compared by the two standard errors that `lm_eval` prints.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from scipy import stats

from benchmarks.sources import sources
from benchmarks.worlds import BENCHPRED, CALIBRATING, SCORES, Scores, bank_of, scores_of
from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.metrics.scale import Floats

N_ITEMS = 750
TABLES = (*SCORES, *(f"benchpred {task}" for task in BENCHPRED))
#: Lower ends of the classes of gaps, in points of a scale of 0 to 100.
GAPS = (0.5, 1, 2, 4, 8, 16)
#: New models of a table and fold; models that a bank needs.
NEW, FEWEST = 6, 8
SHARES, LEVEL = (0.5, 0.8), 0.05
#: Numbers of items at which the tests look, each once.
LEVELS = np.unique(np.geomspace(10, N_ITEMS, 120).round().astype(int))


def tables() -> Iterator[tuple[str, Scores]]:
    """Return the tables that have enough items, cut to the same number, in the task's order."""
    for name in TABLES:
        models, values = scores_of(name)
        if values.shape[1] >= N_ITEMS:
            few = np.random.default_rng(1).permutation(values.shape[1])[:N_ITEMS]
            yield name, Scores(models, values[:, np.sort(few)])


def ranked(bank: ItemBank, pair: Floats, seed: int) -> tuple[int, bool]:
    """Return the items per model after which a ranking is decided, and whether it is right."""
    ranker = Ranker(bank, ("a", "b"), max_items=N_ITEMS, seed=seed)
    while not ranker.done:
        for model, item in ranker.ask(1):
            ranker.tell(model, item, float(pair["ab".index(model), bank.index[item]]))
    ranking = ranker.result()
    right = ranking.order[0] == "ab"[int(pair.mean(axis=1).argmax())]
    return max(entry["n_items"] for entry in ranking.to_dict()["models"].values()), right


def tested(pair: Floats, order: Floats) -> Floats:
    """Return whether a paired t-test at each level decides for the better model."""
    difference = (pair[0] - pair[1])[order]
    if difference.mean() < 0:
        difference = -difference
    decided = []
    for n in LEVELS:
        error = difference[:n].std(ddof=1) * np.sqrt((1 - n / N_ITEMS) / n)
        decided.append(difference[:n].mean() > error * stats.t.ppf(1 - LEVEL / 2, n - 1))
    return np.array(decided)


def limited(pair: Floats) -> Floats:
    """Return whether the first items and their printed errors say so."""
    better, worse = pair if pair[0].mean() > pair[1].mean() else pair[::-1]
    decided = []
    for n in LEVELS:
        error = np.hypot(better[:n].std(ddof=1), worse[:n].std(ddof=1)) / np.sqrt(n)
        gap = better[:n].mean() - worse[:n].mean()
        decided.append(gap > stats.norm.ppf(1 - LEVEL / 2) * error)
    return np.array(decided)


def class_of(pair: Floats) -> int | None:
    """Return the class of the pair's gap; None for closer models."""
    gap = 100 * abs(pair[0].mean() - pair[1].mean())
    found = int(np.searchsorted(GAPS, gap, side="right")) - 1
    return found if found >= 0 else None


def cases(scores: Scores, rng: np.random.Generator) -> tuple[Floats, dict[str, Scores]] | None:
    """Draw new models of the better half, and the banks' models; None where these are too few.

    Returns
    -------
    new : ndarray of shape (n_models, n_items)
    banks : dict
        The models that calibrate ``bank``, any of the others, and ``weaker``, the worse half.
    """
    best_first = np.argsort(-scores.values.mean(axis=1), kind="stable")
    better, worse = np.split(best_first, [len(best_first) // 2])
    if len(worse) < FEWEST:
        return None
    new = rng.permutation(better)[:NEW]
    others = rng.permutation(np.setdiff1d(best_first, new))[:CALIBRATING]
    banks = {"bank": others, "weaker": rng.permutation(worse)[:CALIBRATING]}
    return scores.values[new], {way: scores.of(rows.tolist()) for way, rows in banks.items()}


def measure(folds: range) -> dict[str, Any]:
    """Return, by class of gaps, how many pairs there are and the items that each way takes."""
    items: dict[tuple[int, str], list[Any]] = defaultdict(list)
    wrong: dict[str, int] = defaultdict(int)
    used = set()
    for name, scores in tables():
        for fold in folds:
            rng = np.random.default_rng([fold, *map(ord, name)])
            case = cases(scores, rng)
            if case is None:
                continue
            new, known = case
            banks = {way: bank_of(models, "default", name) for way, models in known.items()}
            banks["none"] = bank_of(scores, "sample", name)
            for first in range(0, len(new) - 1, 2):
                pair = new[first : first + 2]
                kind = class_of(pair)
                if kind is None:
                    continue
                for way, bank in banks.items():
                    n, right = ranked(bank, pair, 100 * fold + first // 2)
                    items[kind, way].append(n if right else np.inf)
                    wrong[way] += not right
                items[kind, "test"].append(tested(pair, rng.permutation(N_ITEMS)))
                items[kind, "limit"].append(limited(pair))
            used.add(name)
            print(name, fold, file=sys.stderr, flush=True)
    found = [_class(kind, items) for kind in range(len(GAPS))]
    return {"gaps": found, "wrong": dict(wrong), "tables": len(used)}


def _class(kind: int, items: dict[tuple[int, str], list[Any]]) -> dict[str, Any]:
    """Return a class of gaps: the items after which each of `SHARES` of its pairs is decided."""
    found: dict[str, Any] = {"from": GAPS[kind], "pairs": len(items[kind, "none"])}
    for way in ("bank", "weaker", "none"):
        ends = np.sort(items[kind, way])
        last = [ends[int(np.ceil(share * len(ends))) - 1] for share in SHARES if len(ends)]
        found[way] = [int(min(n, N_ITEMS)) for n in last]
    for way in ("test", "limit"):
        rates = np.mean(items[kind, way], axis=0) if items[kind, way] else np.zeros(len(LEVELS))
        found[way] = [int((LEVELS[rates >= share].tolist() or [N_ITEMS])[0]) for share in SHARES]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", default="0,4", help="FIRST,LAST+1")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found = measure(range(*map(int, args.folds.split(","))))
    found |= {"items": N_ITEMS, "shares": SHARES}
    found |= {"command": " ".join(["python benchmarks/gap.py --folds", args.folds])}
    found |= {"sources": sources("benchmarks/gap.py")}
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
