"""How often equal models are called different where a few low scores decide a mean.

Made scores of 20 models and new ones on 300 items. ``top``: a newcomer with a share of right
answers, next to a known model of the same score. ``zeros``: of graded scores (0.8, with deviations
of 0.03 by item and 0.02 by answer) one in twenty is 0; a newcomer next to its equal. ``pair``: two
equal models are tested, of which only the first has zeros. The ranking looks after every answer,
up to 100 items of each.

    python benchmarks/skew.py [--worlds top,zeros,pair] [--methods default,sample,finite]
        [--rankings 400] [--right 0.5,0.95]
"""

from __future__ import annotations

import argparse

import numpy as np

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.metrics.scale import Floats

N_ITEMS, CALIBRATING, MOST = 300, 20, 100
ZEROS, LEVEL, BY_ITEM, BY_ANSWER = 0.05, 0.8, 0.03, 0.02


def right(share: float, hard: Floats, rng: np.random.Generator) -> Floats:
    """0/1 scores of a model that is expected to solve this share of the items."""
    low, high = -12.0, 12.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        chance = 1.0 / (1.0 + np.exp(hard - middle))
        low, high = (middle, high) if chance.mean() < share else (low, middle)
    return np.asarray(rng.random(len(hard)) < chance, dtype=np.float64)


def graded(level: float, ease: Floats, zeros: float, rng: np.random.Generator) -> Floats:
    """Scores around a level, of which a share is 0."""
    y = np.clip(level + ease + BY_ANSWER * rng.normal(size=len(ease)), 0.0, 1.0)
    return np.where(rng.random(len(ease)) < zeros, 0.0, y)


def world(name: str, share: float, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Scores of the calibration models, of the first new model, and of the second."""
    if name == "top":
        hard = rng.normal(size=N_ITEMS)
        shares = 1.0 - (1.0 - share) * np.exp(0.6 * rng.normal(size=CALIBRATING))
        rows = [right(max(s, 0.02), hard, rng) for s in shares]
        one = right(share, hard, rng)
        return np.array(rows), one, one
    ease = BY_ITEM * rng.normal(size=N_ITEMS)
    levels = LEVEL + 0.02 * rng.normal(size=CALIBRATING)
    often = ZEROS * np.exp(0.5 * rng.normal(size=CALIBRATING))
    rows = [graded(at, ease, z, rng) for at, z in zip(levels, often)]
    one, other = graded(LEVEL, ease, ZEROS, rng), graded(LEVEL, ease, 0.0, rng)
    for _ in range(50):  # clipping at 1 leaves a rest
        other = np.clip(other + one.mean() - other.mean(), 0.0, 1.0)
    return np.array(rows), one, other


def wrong(name: str, share: float, method: str, seed: int) -> int:
    """1 if the first new model is called better than its equal, -1 if worse, else 0."""
    rows, one, other = world(name, share, np.random.default_rng([seed, 21]))
    names = [f"m{j:02d}" for j in range(len(rows))]
    bank = ItemBank.blank(range(N_ITEMS))
    if method == "default":
        bank = calibrate(ScoreTable.from_arrays(rows, names))
    options: dict[str, object] = {"guarantee": "finite"} if method == "finite" else {}
    models, known = ["new", "equal"], None
    if name != "pair":
        models, known = ["new"], {"equal": float(one.mean())}
    ranker = Ranker(bank, models, max_items=MOST, seed=seed, known=known, **options)  # type: ignore[arg-type]
    scores = {"new": one, "equal": other}
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(scores[model][item]))
    ranking = ranker.result(parts=False)
    if ranking.decisions["new", "equal"] != "decided":
        return 0
    return 1 if ranking.order[0] == "new" else -1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", default="top,zeros,pair")
    parser.add_argument("--methods", default="default,sample,finite")
    parser.add_argument("--rankings", type=int, default=400)
    parser.add_argument("--right", default="0.5,0.95", help="shares of right answers")
    given = parser.parse_args()
    n = given.rankings
    for name in given.worlds.split(","):
        for share in map(float, given.right.split(",") if name == "top" else ["1"]):
            for method in given.methods.split(","):
                found = np.array([wrong(name, share, method, seed) for seed in range(n)])
                p = float((found != 0).mean())
                error = max((p * (1.0 - p) / n) ** 0.5, 0.5 / n)
                what = f"{name} {share:g}" if name == "top" else name
                print(
                    f"{what}, {method}: called different {100 * p:.1f} +- {100 * error:.1f}% of "
                    f"{n}, {int((found > 0).sum())} times better",
                    flush=True,
                )


if __name__ == "__main__":
    main()
