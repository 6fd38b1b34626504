"""The method "paper": order by ability, independent errors, uncertainty per item and price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...bank import ItemBank
from ...errors import BankError
from ..belief import BENCHMARK, Belief, Floats, References
from ..method import Method, require_parts
from ..policy import Choice, Description, Items, Mask, Policy
from .calibration import (
    CLIP,
    expected_score,
    rescaling_of,
    stretched_curves,
    unstretched_curves,
)
from .test import Misfit, PaperTest, calibrated


class PaperPolicy(Policy):
    """Ranking by the method "paper" (arXiv:2601.13885).

    ``P(i better than j) = Phi((theta_i - theta_j) / sqrt(SE_i^2 + SE_j^2))``; the next item goes
    to the candidate with the largest ``SE^2 / ((n + 1) x price of one unit)``; a model gets at
    most half the items kept.

    Parameters
    ----------
    bank : ItemBank
    n_models : int
    seed : int, optional
        Of the draws among items of equal information.
    information : {"first", "full"}, optional
    score_range : (float, float), optional
        Rescale scores by this range in place of the bank's.
    jitter : bool, optional
        As :class:`~.test.PaperTest` has it.
    looks : {"every", "one"}, optional
        Under "one" errors are the paper's; else they are widened by what models left out of the
        calibration showed (:class:`~.test.Misfit`).
    """

    warmup_ignores_budget = True
    affords_mean = True
    most_items = 0.5

    def __init__(
        self,
        bank: ItemBank,
        n_models: int,
        *,
        seed: int = 0,
        information: str = "first",
        score_range: tuple[float, float] | None = None,
        jitter: bool = False,
        looks: str = "one",
    ) -> None:
        self._bank = bank
        self._misfit = Misfit.of(bank) if looks == "every" else None
        options = {"information": information, "score_range": score_range, "jitter": jitter}
        self._options: dict[str, Any] = options
        self._seed = seed
        self.tests: list[PaperTest] = []
        self._state = np.empty((0, 5))
        self._moved: set[int] = set()
        for _ in range(n_models):
            self.add_model()

    def add_model(self) -> None:
        seed = (self._seed, len(self.tests))
        self._moved.add(len(self.tests))
        self._state = np.vstack([self._state, np.zeros(5)])
        self.tests.append(PaperTest(self._bank, **self._options, seed=seed))

    def told(self, model: int, item: int, score: float) -> None:
        self.tests[model].learn(item, score)
        self._moved.add(model)

    def belief(self, question: str = BENCHMARK) -> Belief:
        """Belief about abilities; errors are those of a population, whatever the question."""
        for j in self._moved:  # of hundreds of models an answer moves one
            t = self.tests[j]
            self._state[j] = t.ability, t.ability_error, len(t.seen), t.estimate, t.slope
        self._moved.clear()
        ability, error, n, score, slope = self._state.T.copy()
        df, pair_error = np.inf, None
        if self._misfit is not None:
            df, (error, pair_error) = self._misfit.df, self._misfit.widened(error, n)
        return Belief.independent(
            ability, error, n=n, n_items=self._bank.n_items, score=score, slope=slope,
            question=question, pair_error=pair_error, df=df,
        )  # fmt: skip

    def expected(self, model: int) -> Floats:
        return self.tests[model].expected()

    def noise(self, model: int) -> Floats:
        return self.tests[model].noise()

    def describe(self, model: int) -> Description:
        return Description(self.tests[model].ability, self.tests[model].ability_error)

    def references(
        self, names: tuple[str, ...], mean: Floats, kept_mean: Floats, error: Floats
    ) -> References:
        """Place reference models at the abilities at which the bank expects their means.

        That is where a test of every item ends, since its steps solve ``sum (y - mu) = 0``.
        """
        difficulty = self._bank.parameters["difficulty"][self._bank.kept]
        by = rescaling_of(self._bank, self._options["score_range"])
        wanted = np.clip((kept_mean - by.low) / by.span, CLIP, 1.0 - CLIP)
        theta = np.full(len(mean), float(np.median(difficulty)))
        for _ in range(100):
            mu = expected_score(theta[:, None], difficulty[None, :])
            slope = (mu * (1.0 - mu)).mean(axis=1)
            step = np.clip((wanted - mu.mean(axis=1)) / np.maximum(slope, 1e-12), -1.0, 1.0)
            theta = theta + step
            if np.abs(step).max(initial=0.0) < 1e-10:
                break
        variance = (error / by.span / np.maximum(slope, 1e-12)) ** 2
        return References(names, theta, variance, mean, error)

    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        return [Choice(i) for i in self.tests[model].select(available, k)]

    def priorities(
        self, belief: Belief, models: Items, pending: Sequence[Items], prices: Sequence[float]
    ) -> Floats:
        worth = [
            1.0 / (test.precision_with(wait) * (len(test.seen) + len(wait) + 1) * price)
            for test, wait, price in zip([self.tests[j] for j in models], pending, prices)
        ]
        return np.array(worth)


def _requires(bank: ItemBank) -> None:
    require_parts(bank, ("difficulty",), ("k", "start"), positive=("k",))
    if bank.constants["k"] < 1e-12:
        raise BankError("damaged item bank: constant 'k' is absurdly small")


METHOD = Method(
    name="paper",
    summary="exactly the paper, for comparison: one difficulty per item, one noise per bank",
    policy=PaperPolicy,
    calibrate=calibrated,
    requires=_requires,
    curves=unstretched_curves,
    test_curves=stretched_curves,
)
