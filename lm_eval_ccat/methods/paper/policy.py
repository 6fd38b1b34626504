"""The paper's ranking: order by ability, independent errors, uncertainty per item and price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from ...bank import ItemBank
from ..adaptive_test import AdaptiveTest
from ..logistic import expected_score
from ..policy import Floats, Policy
from .calibration import CLIP
from .rescaling import rescaling_of
from .test import PaperTest


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
    """

    warmup_ignores_budget = True
    affords_mean = True

    def __init__(
        self,
        bank: ItemBank,
        n_models: int,
        *,
        seed: int = 0,
        information: str = "first",
        score_range: tuple[float, float] | None = None,
        jitter: bool = False,
    ) -> None:
        self._bank = bank
        self._rescaling = rescaling_of(bank, score_range)
        self._options: dict[str, Any] = {
            "information": information,
            "score_range": score_range,
            "jitter": jitter,
        }
        self._seed = seed
        self._paper: list[PaperTest] = []
        self.tests: list[AdaptiveTest] = []
        for _ in range(n_models):
            self.add_model()

    def add_model(self) -> None:
        self._paper.append(
            PaperTest(self._bank, **self._options, seed=(self._seed, len(self._paper)))
        )
        self.tests.append(self._paper[-1])

    def location(self, model: int) -> float:
        return self._paper[model].ability

    def adjacent(self, order: Sequence[int]) -> Floats:
        theta, var = self._posterior()
        o = np.asarray(order, dtype=np.intp)
        a, b = o[:-1], o[1:]
        return np.asarray(ndtr((theta[a] - theta[b]) / np.sqrt(var[a] + var[b])))

    def pairwise(self) -> Floats:
        theta, var = self._posterior()
        return np.asarray(
            ndtr((theta[:, None] - theta[None, :]) / np.sqrt(var[:, None] + var[None, :]))
        )

    def priority(self, model: int, pending: Sequence[int], price: float) -> float:
        test = self._paper[model]
        n = len(test.items) + len(pending)
        return 1.0 / (test.precision_with(pending) * (n + 1) * price)

    def standing(self, model: int) -> tuple[float, float]:
        test = self._paper[model]
        return test.ability, test.ability_se**2

    def fixed_points(self, mean: Floats, standard_error: Floats) -> tuple[Floats, Floats]:
        """The abilities at which the bank expects these means.

        That is where a test of every item ends, since its steps solve ``sum (y - mu) = 0``.
        """
        difficulty = self._bank.parameters["difficulty"][self._bank.kept]
        by = self._rescaling
        wanted = np.clip((mean - by.low) / by.span, CLIP, 1.0 - CLIP)
        theta = np.full(len(mean), float(np.median(difficulty)))
        for _ in range(100):
            mu = expected_score(theta[:, None], difficulty[None, :])
            slope = (mu * (1.0 - mu)).mean(axis=1)
            step = np.clip((wanted - mu.mean(axis=1)) / np.maximum(slope, 1e-12), -1.0, 1.0)
            theta = theta + step
            if np.abs(step).max(initial=0.0) < 1e-10:
                break
        return theta, (standard_error / by.span / np.maximum(slope, 1e-12)) ** 2

    def item_cap(self, n_kept: int) -> int:
        return n_kept // 2

    def _posterior(self) -> tuple[Floats, Floats]:
        theta = np.array([t.ability for t in self._paper])
        return theta, np.array([t.ability_se for t in self._paper]) ** 2
