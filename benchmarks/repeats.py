"""Repeats: how often equal models are called different, and what is decided with which answers.

Tables hold shares of right answers among several. The probability of a right answer is drawn for
every model and item from a beta distribution that the share updates; its prior mean is additive in
model and item, its prior weight the likeliest one. Answers are then drawn in passes, for all
rankings at once, and the sums and looks of the package decide after each.

    python benchmarks/repeats.py --items 442 --repeats 32       # what a look takes
    python benchmarks/repeats.py TABLE.csv.gz [--items 30] [--repeats 8] [--rankings 1000]
        [--models 4] [--marks 5] [--question population]

Scores are 0 or 1, or means of `--marks` such draws. With several models a model is asked until its
neighbours are decided. `population` takes items from all of the table and pairs of equal means over
them, not over the items that are drawn.

Kinds: `same` (two models of the same probabilities), `exchanged` (those of a pair exchanged item by
item, then moved to equal means), `deterministic` (one that always answers alike beside a noisy one
of the same mean), `few` (all items alike but four of one model, which are noisy) and `real` pairs.
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaln

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.methods.belief import BENCHMARK, POPULATION, zeros_to_come
from lm_eval_ccat.methods.sample.repeats import RepeatSums
from lm_eval_ccat.ranker.boundary import FIRST_LOOK
from lm_eval_ccat.ranker.looks import Looks

Floats = NDArray[np.float64]
#: Noisy items of the kind `few`, and the level of a verdict.
_FEW, _LEVEL = 4, 0.05
KINDS = ("same", "exchanged", "deterministic", "few", "real")


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


def drawn(a: Floats, b: Floats, n_items: int, n_models: int, rng: np.random.Generator) -> Floats:
    """Return random models' probabilities on random items; (n_models, n_items)."""
    models = rng.choice(len(a), n_models, replace=False)
    items = rng.choice(a.shape[1], n_items, replace=a.shape[1] < n_items)
    return np.array([rng.beta(a[model, items], b[model, items]) for model in models])


def pair(
    a: Floats, b: Floats, n_items: int, kind: str, question: str, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return two models' probabilities on random items."""
    first, second = drawn(a, b, n_items, 2, rng)
    if kind == "same":
        return first, first
    if kind == "exchanged":
        exchange = rng.random(n_items) < 0.5
        first, second = np.where(exchange, second, first), np.where(exchange, first, second)
        if question == POPULATION:  # of equal means over all such items
            return first, second
        mean = 0.5 * float(first.mean() + second.mean())
        return moved(first, mean), moved(second, mean)
    if kind == "deterministic":
        rank = np.argsort(np.argsort(-(second + rng.normal(0.0, 0.25, n_items))))
        always = (rank < np.rint(second.sum())) * 1.0
        return always, moved(second, float(always.mean()))
    if kind == "few":
        always = np.rint(first)
        noisy = always.copy()
        always[:_FEW], noisy[:_FEW] = np.arange(_FEW) < _FEW / 2, 0.5
        return always, noisy
    return first, second


def played(
    p: Floats, repeats: int, marks: int, question: str, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Play rankings of some models at once: the sign of each decision, and when it came.

    Parameters
    ----------
    p : ndarray of shape (n_models, n_items, n_rankings)
    repeats, marks : int
    question : str
    rng : Generator

    Returns
    -------
    sign, share : ndarray of shape (n_pairs, n_rankings)
        Sign 0, and all answers, where a pair stays open. Pairs are in the order of `combinations`.
    """
    n_models, n_items, n_rankings = p.shape
    pairs = list(combinations(range(n_models), 2))
    horizon = n_items * repeats
    looks = Looks(horizons=(horizon,), pass_length=n_items)
    sums = RepeatSums(len(pairs) * n_rankings, n_items)
    right, count = np.zeros(p.shape), np.zeros(n_items)
    sign, share = np.zeros(len(sums.items)), np.ones(len(sums.items))
    series, ones = np.arange(len(sign)), np.ones(len(sign))
    first, second = (list(side) for side in zip(*pairs))
    slots = np.concatenate([rng.permutation(n_items) for _ in range(repeats)])
    for n, item in enumerate(slots, 1):
        answer = rng.binomial(marks, p[:, item]) / marks
        before = right[:, item] / max(count[item], 1.0)
        sides = (x[models].ravel() for x in (answer, before) for models in (first, second))
        one, other, one_before, other_before = sides
        sums.learn(series, one, other, count[item] * ones, one_before, other_before)
        right[:, item] += answer
        count[item] += 1.0
        if n < FIRST_LOOK:
            continue
        figures, answers = sums.figures(population=question == POPULATION), n * ones
        size, error = np.abs(figures.difference), np.sqrt(figures.variance)
        # Student's tail never decides what the normal one leaves open, and takes more time.
        near_enough = size >= error * looks.boundary(_LEVEL, answers, np.inf)
        near_enough &= (size >= zeros_to_come(_LEVEL, 0.0) * figures.event / n) & (sign == 0.0)
        place = np.flatnonzero(near_enough)
        reach = looks.half_width(_LEVEL, figures.df[place], answers[place], np.inf)
        place = place[size[place] >= reach * error[place]]
        sign[place], share[place] = np.sign(figures.difference[place]), n / horizon
    return sign.reshape(len(pairs), -1), share.reshape(len(pairs), -1)


def of_neighbours(p: Floats, sign: Floats, share: Floats) -> tuple[Floats, Floats, Floats]:
    """Return decisions on neighbours, of which wrong, and the share of answers of a ranking.

    A model is asked until it is decided against both neighbours in the order of the truth.
    """
    n_models, n_rankings = len(p), p.shape[2]
    number = {pair: k for k, pair in enumerate(combinations(range(n_models), 2))}
    order = np.argsort(p.mean(axis=1), axis=0)
    decided, wrong = np.zeros((2, n_models - 1, n_rankings))
    asked = np.zeros((n_models, n_rankings))
    for ranking in range(n_rankings):
        for place, (low, high) in enumerate(pairwise(order[:, ranking].tolist())):
            k = number[min(low, high), max(low, high)]
            decided[place, ranking] = sign[k, ranking] != 0.0
            wrong[place, ranking] = sign[k, ranking] == (1.0 if low < high else -1.0)
            asked[[low, high], ranking] = np.maximum(asked[[low, high], ranking], share[k, ranking])
    return decided, wrong, asked.mean(axis=0)


def milliseconds(n_items: int, repeats: int, answers: int = 1200) -> tuple[float, float]:
    """Return median and mean of what an ask of three models takes, with its answer and a look."""
    rng = np.random.default_rng(0)
    right = rng.random(n_items)
    ranker = Ranker(ItemBank.blank(range(n_items)), ["a", "b", "c"], sampled=True, repeats=repeats)
    times = []
    while len(times) < answers and not ranker.done:
        start = time.perf_counter()
        for model, item in ranker.ask():
            ranker.tell(model, item, float(rng.random() < right[item]))
        _ = ranker.decided
        times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times)), float(np.mean(times[1:]))  # the first look finds the boundary


def main() -> None:
    """Print one line for each kind of pair."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", nargs="?", help="default: only time looks")
    parser.add_argument("--answers", type=int, default=10, help="answers behind a share")
    parser.add_argument("--items", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--rankings", type=int, default=1000)
    parser.add_argument("--models", type=int, default=2, help="of a real ranking")
    parser.add_argument("--marks", type=int, default=1, help="draws of 0 or 1 behind a score")
    parser.add_argument("--question", default=BENCHMARK, choices=(BENCHMARK, POPULATION))
    parser.add_argument("--kinds", default=",".join(KINDS))
    args = parser.parse_args()
    if args.table is None:
        for repeats in (1, args.repeats, 1, args.repeats):
            median, mean = milliseconds(args.items, repeats)
            print(f"{args.items} items x {repeats}: {median:.2f} ms (mean {mean:.2f})", flush=True)
        return
    a, b = posterior(args.table, args.answers)
    for kind in args.kinds.split(","):
        rng = np.random.default_rng([args.items, args.repeats])
        worlds = [
            drawn(a, b, args.items, args.models, rng)
            if kind == "real"
            else np.array(pair(a, b, args.items, kind, args.question, rng))
            for _ in range(args.rankings)
        ]
        p = np.moveaxis(np.array(worlds), 0, -1)
        sign, share = played(p, args.repeats, args.marks, args.question, rng)
        decided, wrong, answers = of_neighbours(p, sign, share)
        rate = float(decided.mean())
        error = (rate * (1.0 - rate) / decided.size) ** 0.5
        false = float(wrong.mean()) if kind == "real" else rate
        if args.models > 2 and kind == "real":
            print(
                f"all pairs, each until it is decided: decided {(sign != 0.0).mean():.3f}, "
                f"answers {share.mean():.3f} (median {np.median(share):.3f})"
            )
        print(
            f"{args.items} items x {args.repeats}, {kind}: decided {rate:.3f} (+- {error:.3f}), "
            f"answers {answers.mean():.3f} (+- {answers.std() / answers.size**0.5:.3f}, "
            f"median {np.median(answers):.3f}), wrong {false:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
