"""A method from outside the package: each item's mean, each model's mean difference from it."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, ndtr

from lm_eval_ccat.methods.adaptive_test import AdaptiveTest
from lm_eval_ccat.methods.curves import Curves, Straight
from lm_eval_ccat.methods.fitted import Fitted, require_scores
from lm_eval_ccat.methods.method import Method
from lm_eval_ccat.methods.policy import Policy
from lm_eval_ccat.methods.required import require_parts


class ToyTest(AdaptiveTest):
    """The mean difference from the items' means, drawn towards 0 by one score's worth."""

    def __init__(self, bank):
        super().__init__(bank)
        self._mean = bank.parameters["mean"]
        self._sd = float(bank.constants["sd"])

    @property
    def shift(self):
        return float(np.sum(np.array(self.scores) - self._mean[self.items]) / (len(self.items) + 1))

    @property
    def estimate(self):
        return float(self.expected().mean())

    @property
    def standard_error(self):
        return self._sd / (len(self.items) + 1) ** 0.5

    @property
    def ability(self):
        return float(logit(np.clip(self.estimate, 1e-6, 1 - 1e-6)))

    @property
    def ability_se(self):
        return self.standard_error * 4

    def expected(self):
        return np.clip(self._mean + self.shift, 0.0, 1.0)

    def select(self, available, pending=(), price=None):
        return int(np.argmax(np.where(available, self._mean * (1 - self._mean), -1.0)))

    def _learn(self, item, score):
        pass


class ToyPolicy(Policy):
    """Independent models."""

    def __init__(self, bank, n_models, *, seed=0, calm=1.0):
        self._bank, self._calm = bank, calm
        self.tests = [ToyTest(bank) for _ in range(n_models)]

    def location(self, model):
        return self.tests[model].estimate

    def adjacent(self, order):
        return self.pairwise()[list(order[:-1]), list(order[1:])]

    def pairwise(self):
        d = self.differences()
        z = (d.estimate[:, None] - d.estimate[None, :]) / np.sqrt(d.variance) / self._calm
        return ndtr(z)

    def priority(self, model, pending, price):
        test = self.tests[model]
        return test.standard_error**2 / (len(test.items) + len(pending) + 1) / price

    def add_model(self):
        self.tests.append(ToyTest(self._bank))


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
    return Curves(both, noise, Straight(), 0.0)


METHOD = Method(
    name="toy",
    summary="each item's mean, and how far a model lies from it",
    policy=ToyPolicy,
    calibrate=fit,
    requires=lambda bank: require_parts(bank, ["mean"], ["sd"], positive=["sd"]),
    curves=curves,
)
