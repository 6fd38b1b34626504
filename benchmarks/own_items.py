"""Would models rank better by items of their own than by one common sequence?

Two fields of the method `default` rank the same new models at equal items. In one the sequence is
common. In the other each model has the common items at first, up to `--common`; from there on it
chooses what tells most about itself, and .35 of its items are drawn from its own remaining ones, by
random numbers that all models share, so that most draws are common and every probability is exact.
Printed are differences of the second from the first, ± over sets of new models: of Kendall's tau,
of the logarithm of the root mean square error of differences, and of the share of pairs that one
look decides; and the root mean square of error / stated error of pairs in both.

    nice python benchmarks/own_items.py --folds 0,3 --common 10,30 [--world above]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from scipy.stats import kendalltau

from benchmarks.worlds import SCORES, Scores, bank_of, scores_of
from lm_eval_ccat.methods.belief import Belief, tail
from lm_eval_ccat.methods.default import field as default
from lm_eval_ccat.methods.default.departures import DefaultModel
from lm_eval_ccat.methods.default.method import model_of
from lm_eval_ccat.methods.policy import largest
from lm_eval_ccat.metrics.scale import Floats

LEVELS, NEW, CALIBRATING, SHARE = (20, 50, 100, 200), 4, 100, 0.35
BINARY = (
    *(f"benchpred {task}" for task in ("arc_challenge", "musr", "openllm_math", "gsm", "mmlu")),
    *(f"suite {task}" for task in ("gsm8k", "truthfulqa", "mmlu", "winogrande")),
    "zeroeval_gsm acc", "mmlu_pro math", "mmlu_pro law",
)  # fmt: skip
GRADED = tuple(table for table in SCORES if table not in BINARY)


class OwnItems(default.Field):
    """A field whose models leave the common sequence after some items."""

    def __init__(self, model: DefaultModel, n_models: int, seed: int, common: float) -> None:
        super().__init__(model, n_models, seed)
        numbers = np.random.default_rng([seed, 99]).exponential(size=model.items.n_items)
        self._numbers = np.repeat(numbers[None], n_models, axis=0)
        self._common, self._n_drawn = common, [0] * n_models

    def ask(self, a: int) -> int:
        """Place the next item of a model, and return it."""
        member = self.members[a]
        if len(member.asked) < self._common:
            [item], probability = self.next(a, member.unasked)
            self.asked(a, item, probability)
            self._n_drawn[a] += probability is not None
            return item
        departures, n = self.model.departures, len(member.asked) + 1 - self.model.first
        member.refresh(departures)
        edge = min(max((abs(member.position) - default.EDGE) / (1.0 - default.EDGE), 0.0), 1.0)
        if self._n_drawn[a] >= (SHARE + (1.0 - SHARE) * edge) * n:
            gains = np.where(member.unasked, member.posterior.gains(), -np.inf)
            item = largest(gains, 1, self._tie_order)[0]
            member.ask(item, None, 0.0)
            return item
        noise = departures.noise * member.posterior.kappa * member.posterior.w
        sd = np.sqrt(noise + departures.floor * member.inflation)
        places = np.flatnonzero(member.unasked)
        size = ((1.0 - default.EVEN) * sd + default.EVEN * sd.mean())[places]
        # Exponential waiting times forget how long they have waited: each draw is exact.
        waits = self._numbers[a, places] / size
        first = int(np.argmin(waits))
        self._numbers[a, places] -= waits[first] * size
        weight = 1.0 / max(float(size.sum() ** 2 - size @ size), 1e-300)
        item = int(places[first])
        self._joint.add_draw(item)
        member.ask(item, float(size[first] / size.sum()), weight)
        self._n_drawn[a] += 1
        return item


class Found(NamedTuple):
    """What a ranking is worth after a number of items."""

    tau: float
    log_error: float
    decided: float
    wrong: float
    square: float  # of error / stated error


def judged(belief: Belief, truth: Floats) -> Found:
    """Judge differences of all pairs, by one look."""
    i, j = np.triu_indices(len(truth), 1)
    gap, right = belief.location[i] - belief.location[j], truth[i] - truth[j]
    variance = belief.variance[i, j]
    decided = 2.0 * tail(np.abs(gap), variance, belief.df[i, j]) < 0.05
    squares = (gap - right) ** 2
    return Found(
        float(kendalltau(belief.location, truth)[0]),
        float(0.5 * np.log(squares.mean() + 1e-9)),
        float(decided.mean()),
        float((decided & (gap * right < 0.0)).mean()),
        float((squares / variance).mean()),
    )


def split(scores: Scores, world: str, fold: int) -> tuple[Floats, Scores]:
    """Return the scores of new models, and those that calibrate."""
    n_models = len(scores.models)
    rng = np.random.default_rng([fold, n_models, 77])
    if world == "random":
        order = rng.permutation(n_models)
        calibrating = order[NEW : NEW + CALIBRATING]
    else:
        order = np.argsort(-scores.values.mean(axis=1), kind="stable")
        calibrating = rng.permutation(order[n_models - n_models // 2 :])[:CALIBRATING]
        order = rng.permutation(order[: max(NEW, int(0.3 * n_models))])
    return scores.values[order[:NEW]], scores.of(calibrating.tolist())


def replayed(model: DefaultModel, scores: Floats, seed: int, common: float) -> dict[int, Found]:
    """Ask all models in turn, and judge them after each number of items."""
    field, found = OwnItems(model, len(scores), seed, common), {}
    for n in range(1, min(max(LEVELS), scores.shape[1] // 2) + 1):
        for a, row in enumerate(scores):
            item = field.ask(a)
            field.learn(a, [item], [float(row[item])])
        if n in LEVELS:
            found[n] = judged(field.result(), scores.mean(axis=1))
    return found


def line(own: Sequence[Found], shared: Sequence[Found]) -> str:
    """Return the differences of some rankings, with errors over sets of new models."""
    own_figures, shared_figures = np.array(own), np.array(shared)
    change = own_figures - shared_figures
    mean, error = change.mean(axis=0), change.std(axis=0, ddof=1) / len(change) ** 0.5
    z, shared_z = (np.sqrt(x[:, 4].mean()) for x in (own_figures, shared_figures))
    return (
        f"{len(change):3} sets: tau {mean[0]:+.3f} +- {error[0]:.3f}, log error "
        f"{mean[1]:+.3f} +- {error[1]:.3f}, decided {100 * mean[2]:+.1f} +- {100 * error[2]:.1f}, "
        f"error / stated {shared_z:.2f} -> {z:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", default="random", help="or above: better than all of the bank")
    parser.add_argument("--folds", default="0,3", help="first and one after the last")
    parser.add_argument("--common", default="10,30", help="common items at first")
    given = parser.parse_args()
    starts = (np.inf, *map(float, given.common.split(",")))
    for kind, tables in (("0/1", BINARY), ("graded", GRADED)):
        found: dict[tuple[float, int], list[Found]] = {}
        for table in tables:
            for fold in range(*map(int, given.folds.split(","))):
                new, known = split(scores_of(table), given.world, fold)
                model = model_of(bank_of(known, "default", table))
                for start in starts:
                    for n, figures in replayed(model, new, fold, start).items():
                        found.setdefault((start, n), []).append(figures)
        for start, n in ((start, n) for start, n in found if start < n):
            of_level = line(found[start, n], found[np.inf, n])
            print(f"{kind:6} own from {start:.0f}, {n:3} items, {of_level}", flush=True)


if __name__ == "__main__":
    main()
