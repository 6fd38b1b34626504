"""How often equal models are called different, and how many real pairs are decided.

``python benchmarks/looks.py --data FOLDER`` replays score tables through `Ranker`, one answer at a
time, until the pair is decided or both models have 200 items. "Equal" are two models made of two
real ones whose scores are exchanged item by item, at random, so that their full means balance;
"real" are the two as they are. Every line prints what was seen so far, with standard errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate

Floats = NDArray[np.float64]

#: Tables (file, metric) whose models all have every score.
TABLES = (
    ("wmt24_en-de", "bleu"),
    ("zeroeval_gsm", "acc"),
    ("wildbench_v20522_gpt4turbo", "judge_score"),
    ("wmt24_en-de", "chrf"),
)
MOST, N_ITEMS = 200, 800


def exchanged(y: Floats, rng: np.random.Generator) -> Floats:
    """Two models with the scores of two, exchanged at random until their means are equal."""
    gap = y[0] - y[1]
    sign = rng.choice([-1.0, 1.0], gap.size)
    for _ in range(3):
        for i in rng.permutation(gap.size):
            if abs((sign * gap).sum() - 2.0 * sign[i] * gap[i]) < abs((sign * gap).sum()):
                sign[i] = -sign[i]
    return np.where(sign > 0.0, y, y[::-1])


def ranked(bank: ItemBank, y: Floats, seed: int, **options: object) -> tuple[bool, int, int]:
    """Whether a pair was decided, for which model (1 or -1), and after how many items each."""
    ranker = Ranker(bank, {"a": 1.0, "b": 1.0}, seed=seed, **options)  # type: ignore[arg-type]
    had = [0, 0]
    while not ranker.done and min(had) < MOST:
        for model, item in ranker.ask(1):
            ranker.tell(model, item, float(y["ab".index(model), bank.index[item]]))
            had["ab".index(model)] += 1
    found = ranker.verdicts
    sign = int(found.sign[0, 1])
    return sign != 0, sign, max(had)


def pairs(
    file: str, metric: str, data: Path, fold: int, method: str
) -> Iterator[tuple[ItemBank, Floats]]:
    """Pairs of models that a bank has not seen."""
    table = ScoreTable.read(data / f"{file}.parquet", metric=metric)
    whole = np.flatnonzero(np.isfinite(table.unit).all(axis=0))[:N_ITEMS]
    unit = np.array(table.unit)[:, whole]
    order = np.random.default_rng([fold, 5]).permutation(len(unit))
    held, rest = order[:6], np.sort(order[6:])
    if method == "sample":
        bank = ItemBank.blank(range(len(whole)), task=file, metric=metric)
    else:
        names = [f"m{j}" for j in rest]
        known = ScoreTable.from_arrays(unit[rest], names, metric=metric, task=file)
        bank = calibrate(known, method)
    for a, b in held.reshape(3, 2):
        yield bank, unit[[a, b]]


def share(values: list[bool]) -> str:
    """A share in per cent with its standard error."""
    n, p = max(len(values), 1), float(np.mean(values)) if values else 0.0
    return f"{100 * p:.1f}+-{100 * (max(p, 0.5 / n) * (1 - p) / n) ** 0.5:.1f}%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/scores"))
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--methods", default="default,sample,paper")
    parser.add_argument("--looks", default="every", choices=("every", "one"))
    parser.add_argument("--no_horizon", action="store_true", help="no max_items")
    given = parser.parse_args()
    options = {"looks": given.looks} | ({} if given.no_horizon else {"max_items": MOST})
    for method in given.methods.split(","):
        equal: list[bool] = []
        real: list[bool] = []
        wrong: list[bool] = []
        items: list[int] = []
        for fold in range(given.folds):
            for file, metric in TABLES:
                for n, (bank, y) in enumerate(pairs(file, metric, given.data, fold, method)):
                    rng = np.random.default_rng([fold, n])
                    for _ in range(2):
                        equal.append(ranked(bank, exchanged(y, rng), fold, **options)[0])
                    decided, sign, had = ranked(bank, y, fold, **options)
                    real.append(decided)
                    items.append(had)
                    if decided:
                        wrong.append(sign * float(y[0].mean() - y[1].mean()) < 0.0)
            print(
                f"{method}, looks {given.looks}, {'no horizon' if given.no_horizon else MOST}: "
                f"equal called different {share(equal)} of {len(equal)}; real decided "
                f"{share(real)} of {len(real)}, wrong {sum(wrong)} of {len(wrong)}, "
                f"items {np.mean(items):.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
