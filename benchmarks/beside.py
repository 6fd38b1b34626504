"""Pairs of two models ranked by this code and by another checkout's, item for item.

The pairs and banks are those of benchmarks/worlds.py, saved once, so that both checkouts rank the
same models by the same scores and seeds. Each ranking ends when its pair is decided or each model
has --items. Printed are, by method and world, the share of real pairs that either decides, how many
more this code does, its items beside the other's of pairs that both decide (geometric mean of the
ratios) and of all (ratio of sums), and how many either decides wrongly; ± over tables and folds.

    nice python benchmarks/beside.py OLDER [--worlds random,above] [--folds 50,52]
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.paths import share
from benchmarks.sources import ROOT
from benchmarks.worlds import WORLDS, scores_of

#: Run in a checkout: rank the pairs of a file, and print what became of each.
RANKINGS = """
import itertools, json, pickle, sys
import numpy as np
from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate

def ranked(bank, scores, seed, items):
    ranker = Ranker(bank, ("a", "b"), max_items=min(items, scores.shape[1] // 2), seed=seed)
    # In turn, so that neither checkout's allocation counts.
    turns = itertools.cycle("ab")
    while not ranker.done:
        for model, item in ranker.ask(1, model=next(turns)) or ranker.ask(1):
            ranker.tell(model, item, float(scores["ab".index(model), item]))
    result = ranker.result()
    is_decided = result.decisions[tuple(result.order)] == "decided"
    return is_decided, result.order[0], max(map(len, result.items.values()))

for case in pickle.load(open(sys.argv[1], "rb")):
    n_items = case["bank"].shape[1]
    if sys.argv[2] == "sample":
        bank = ItemBank.blank(range(n_items), task="t", metric="acc")
    else:
        table = ScoreTable.from_arrays(case["bank"], case["models"], task="t", metric="acc")
        bank = calibrate(table, sys.argv[2])
    for number, scores in enumerate(case["pairs"]):
        for items in map(int, sys.argv[3].split(",")):
            seed = 1000 * case["fold"] + number
            print(json.dumps([case["cell"], number, items, *ranked(bank, scores, seed, items)]))
"""


class Pair(NamedTuple):
    """A pair of models of a table and fold of a world, ranked with a limit of items."""

    world: str
    table: str
    fold: int
    number: int
    items: int


class Ranked(NamedTuple):
    """What became of a pair: whether it was decided, the first model, and items of each."""

    is_decided: bool
    first: str
    items: int


def cases(worlds: Sequence[str], folds: range) -> list[dict[str, Any]]:
    """Return banks and pairs of models of each world, table and fold."""
    found = []
    for world in worlds:
        for fold in folds:
            for table in WORLDS[world].tables:
                rng = np.random.default_rng([fold, *map(ord, world), *map(ord, table)])
                case = WORLDS[world].case(scores_of(table), rng)
                if case is not None:
                    found.append(
                        {"cell": (world, table, fold), "fold": fold, "models": case.bank.models,
                         "bank": case.bank.values, "pairs": case.pairs}
                    )  # fmt: skip
    return found


def rankings(checkout: Path, file: Path, method: str, items: str) -> dict[Pair, Ranked]:
    """Return what became of the pairs of a file in a checkout."""
    lines = subprocess.run(
        [sys.executable, "-c", RANKINGS, str(file), method, items],
        cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)}, check=True,
        capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    rows = [json.loads(line) for line in lines]
    return {Pair(*cell, number, n): Ranked(*end) for cell, number, n, *end in rows}


def row(
    pairs: Sequence[Pair],
    theirs: Mapping[Pair, Ranked],
    ours: Mapping[Pair, Ranked],
    better: Mapping[tuple[object, ...], str],
) -> str:
    """Return a row of figures of some pairs."""
    cells = [pair[:3] for pair in pairs]
    both = [pair for pair in pairs if theirs[pair].is_decided and ours[pair].is_decided]
    logs = np.array([np.log(ours[pair].items / theirs[pair].items) for pair in both])
    ratio = "-"
    if both:
        ratio = f"{np.exp(logs.mean()):.3f} ± {logs.std() / len(both) ** 0.5:.3f} of {len(both)}"
    decided = [share([way[pair].is_decided for pair in pairs], cells) for way in (theirs, ours)]
    all_items = [sum(way[pair].items for pair in pairs) for way in (theirs, ours)]
    wrong = [
        sum(way[pair].is_decided and way[pair].first != better[pair[:4]] for pair in pairs)
        for way in (theirs, ours)
    ]
    # Shares of the same pairs move together: their difference has an error of its own.
    gains = [float(ours[pair].is_decided) - float(theirs[pair].is_decided) for pair in pairs]
    return (
        f"{len(pairs):5}{decided[0]:>16}{decided[1]:>16}{share(gains, cells):>16}"
        f"{ratio:>24}{all_items[1] / all_items[0]:8.3f}"
        f"{wrong[0]:6}{wrong[1]:4}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("older", type=Path, help="another checkout of the package")
    parser.add_argument("--worlds", default="random,eight,above,below")
    parser.add_argument("--methods", default="default,sample")
    parser.add_argument("--folds", default="50,52", help="first and one after the last")
    parser.add_argument("--items", default="50,100,200", help="most of each model")
    given = parser.parse_args()
    worlds = given.worlds.split(",")
    found = cases(worlds, range(*map(int, given.folds.split(","))))
    better = {
        (*case["cell"], number): "a" if scores[0].mean() > scores[1].mean() else "b"
        for case in found
        for number, scores in enumerate(case["pairs"])
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cases.pickle")
        file.write_bytes(pickle.dumps(found))
        for method in given.methods.split(","):
            theirs, ours = (
                rankings(checkout, file, method, given.items)
                for checkout in (given.older.resolve(), ROOT)
            )
            print(f"{method}\n{'pairs':>29}{'other decides':>16}{'this decides':>16}{'more':>16}"
                  f"{'items of both':>24}{'all':>8}{'wrong':>9}")  # fmt: skip
            for items in map(int, given.items.split(",")):
                for world in (*worlds, "all"):
                    chosen = [
                        pair
                        for pair in theirs
                        if pair.items == items and world in (pair.world, "all")
                    ]
                    print(f"{items:4} items, {world:12}{row(chosen, theirs, ours, better)}")


if __name__ == "__main__":
    main()
