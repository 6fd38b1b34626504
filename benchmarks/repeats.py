"""Repeats: how often equal models are called different, and what is decided with which answers.

Tables hold shares of right answers among several. The probability of a right answer is drawn for
every model and item from a beta distribution that the share updates; its prior mean is additive in
model and item, its prior weight the likeliest one. Answers are then drawn, and a `Ranker` asks.

    python benchmarks/repeats.py TABLE.csv.gz [--items 30] [--repeats 8] [--rankings 100]

Kinds: `same` (two models of the same probabilities), `exchanged` (those of a pair exchanged item by
item, then moved to equal means) and `real` pairs.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaln

from lm_eval_ccat import ItemBank, Ranker

Floats = NDArray[np.float64]
KINDS = ("same", "exchanged", "real")


def posterior(table: str, answers: int) -> tuple[Floats, Floats]:
    """Return both parameters of every model's and item's beta distribution."""
    shares = pd.read_csv(table).pivot_table(index="model", columns="doc_id", values="score")
    y = np.rint(shares[shares.min(axis=1) >= 0].dropna(axis=1).to_numpy() * answers)
    share = y / answers
    mean = share.mean(axis=1, keepdims=True) + share.mean(axis=0) - share.mean()
    mean = np.clip(mean, 0.02, 0.98)
    grid = np.geomspace(0.1, 20.0, 40)

    def likelihood(weight: float) -> float:
        a, b = weight * mean, weight * (1.0 - mean)
        return float((betaln(a + y, b + answers - y) - betaln(a, b)).sum())

    weight = grid[int(np.argmax([likelihood(w) for w in grid]))]
    return weight * mean + y, weight * (1.0 - mean) + answers - y


def moved(p: Floats, mean: float) -> Floats:
    """Return probabilities moved, in proportion to p (1 - p), to a mean."""
    for _ in range(100):
        give = p * (1.0 - p) + 1e-4
        p = np.clip(p + (mean - p.mean()) * give / give.mean(), 0.0, 1.0)
    return p


def pair(
    a: Floats, b: Floats, n_items: int, kind: str, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return two models' probabilities on random items."""
    models = rng.choice(len(a), 2, replace=False)
    items = rng.choice(a.shape[1], n_items, replace=a.shape[1] < n_items)
    first, second = (rng.beta(a[model, items], b[model, items]) for model in models)
    if kind == "same":
        return first, first
    if kind == "exchanged":
        exchange = rng.random(n_items) < 0.5
        first, second = np.where(exchange, second, first), np.where(exchange, first, second)
        mean = 0.5 * float(first.mean() + second.mean())
        return moved(first, mean), moved(second, mean)
    return first, second


def ranked(p: tuple[Floats, Floats], repeats: int, seed: int) -> tuple[int, float]:
    """Return the sign of the decided difference (0: open), and the share of all answers asked."""
    rng = np.random.default_rng([seed, 1])
    n_items, asked = len(p[0]), 0
    ranker = Ranker(ItemBank.blank(range(n_items)), ["a", "b"], seed=seed, repeats=repeats)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(rng.random() < p[model == "b"][item]))
            asked += 1
    ranking = ranker.result(parts=False)
    sign = 0
    if ranking.decisions["a", "b"] == "decided":
        sign = 1 if ranking.order[0] == "a" else -1
    return sign, asked / (2 * n_items * repeats)


def main() -> None:
    """Print one line for each kind of pair."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table")
    parser.add_argument("--answers", type=int, default=10, help="answers behind a share")
    parser.add_argument("--items", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--rankings", type=int, default=100)
    parser.add_argument("--kinds", default=",".join(KINDS))
    args = parser.parse_args()
    a, b = posterior(args.table, args.answers)
    for kind in args.kinds.split(","):
        found = []
        for seed in range(args.rankings):
            rng = np.random.default_rng([seed, args.items, args.repeats])
            p = pair(a, b, args.items, kind, rng)
            sign, share = ranked(p, args.repeats, seed)
            found.append((sign != 0, sign * (p[0].mean() - p[1].mean()) < 0.0, share))
        decided, wrong, share = np.array(found, dtype=float).T
        error = float(np.sqrt(decided.mean() * (1.0 - decided.mean()) / len(decided)))
        print(
            f"{args.items} items x {args.repeats}, {kind}: decided {decided.mean():.3f} "
            f"(+- {error:.3f}), answers {share.mean():.2f} (median {np.median(share):.2f}), "
            f"wrong {wrong.mean() if kind == 'real' else decided.mean():.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
