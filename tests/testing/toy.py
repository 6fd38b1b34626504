"""A method from outside the package: each item's mean, each model's mean difference from it."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from lm_eval_ccat.methods.belief import BENCHMARK, Belief
from lm_eval_ccat.methods.curves import STRAIGHT, Curves
from lm_eval_ccat.methods.method import Fitted, Method, require_parts, require_scores
from lm_eval_ccat.methods.policy import Choice, Description, Policy, largest


class ToyPolicy(Policy):
    """Independent models: the mean difference from the items' means, drawn towards 0."""

    def __init__(self, bank, n_models, *, seed=0, calm=1.0):
        self._mean, self._calm = bank.parameters["mean"], calm
        self._sd = float(bank.constants["sd"])
        self.scores = [{} for _ in range(n_models)]

    def add_model(self):
        self.scores.append({})

    def told(self, model, item, score):
        if not 0.0 <= score <= 1.0 or item in self.scores[model]:
            raise ValueError(f"score {score!r} of item {item} is none, or its second")
        self.scores[model][item] = score

    def expected(self, model):
        had = self.scores[model]
        apart = np.array([*had.values()]) - self._mean[[*had]]
        return np.clip(self._mean + apart.sum() / (len(had) + 1), 0.0, 1.0)

    def belief(self, question=BENCHMARK):
        n = np.array([len(had) for had in self.scores])
        at = [float(self.expected(j).mean()) for j in range(len(n))]
        error = self._calm * self._sd / np.sqrt(n + 1.0)
        return Belief.independent(at, error, n=n, n_items=len(self._mean), question=question)

    def describe(self, model):
        belief = self.belief()
        at = np.clip(belief.location[model], 1e-6, 1 - 1e-6)
        return Description(float(logit(at)), 4.0 * float(belief.variance[model, model] ** 0.5))

    def next(self, model, available, pending, price, k=1):
        worth = np.where(available, self._mean * (1 - self._mean), -np.inf)
        return [Choice(i) for i in largest(worth, k, np.arange(len(worth)))]

    def priorities(self, belief, models, pending, prices):
        n = [len(self.scores[j]) + len(wait) + 1 for j, wait in zip(models, pending)]
        return belief.variance.diagonal()[list(models)] / (np.array(n) * np.array(prices))


def fit(table, *, floor=0.05):
    scores = table.model_scores()
    require_scores(table)
    mean = np.nanmean(scores, axis=0)
    rest = scores - mean - np.nanmean(scores - mean, axis=1, keepdims=True)
    return Fitted(
        kept=np.ones(table.n_items, dtype=bool),
        parameters={"mean": mean},
        constants={"sd": max(float(np.nanstd(rest)), floor), "range": [0.0, 1.0]},
    )


def curves(bank):
    intercept = logit(np.clip(bank.parameters["mean"], 0.01, 0.99))
    noise = np.full(bank.n_items, 4 * float(bank.constants["sd"]) ** 2)
    both = np.column_stack([intercept, np.ones(bank.n_items)])
    assert np.isfinite(expit(intercept)).all()
    return Curves(both, noise, STRAIGHT, 0.0)


METHOD = Method(
    name="toy",
    summary="each item's mean, and how far a model lies from it",
    policy=ToyPolicy,
    calibrate=fit,
    requires=lambda bank: require_parts(bank, ["mean"], ["sd"], positive=["sd"]),
    curves=curves,
)
