"""Repeats after a first pass of single answers: with a bank, or if `repeats` are raised from 1.

In the first pass, until a model has answered every item once, another policy chooses items and
estimates models as for single answers, with the help of a bank. After it a bank has no more to tell
of these items: what is unknown is the noise of answers, which repeats show. The passes to come are
those of the method "sample" (`passes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...bank import ItemBank
from ...metrics.scale import Floats
from ..belief import BENCHMARK, Belief
from ..policy import AbilityEffects, Choice, Description, Items, Mask, Policy
from .passes import RepeatsPolicy


class FirstPassPolicy(Policy):
    """A first pass by another policy, then even passes.

    Repeat ``r`` of an item is slot ``item + n_items (r - 1)``. A pair of models that are both past
    the first pass is judged by all of their answers, any other pair by the errors that the first
    policy states. A model past the first pass has the mean of all its answers in either kind of
    pair.

    Parameters
    ----------
    bank : ItemBank
    n_models : int
    first_pass : Policy
        Of single sampled answers.
    repeats : int
    seed : int, optional
        Seed of the later passes.
    """

    def __init__(
        self, bank: ItemBank, n_models: int, first_pass: Policy, *, repeats: int, seed: int = 0
    ) -> None:
        self._n_items, self._n_kept = bank.n_items, int(bank.kept.sum())
        self.first_pass = first_pass
        self.passes = RepeatsPolicy(bank, n_models, repeats=repeats, seed=seed)
        # The first pass has an order of its own, which the sequence of the passes leaves alone.
        self.passes.sequence.fixed = self._n_kept

    # -- what happened ------------------------------------------------------------------------

    def add_model(self) -> None:
        self.first_pass.add_model()
        self.passes.add_model()

    def catch_up(self, model: int, scores: Mapping[int, float], failed: Iterable[int]) -> None:
        """Tell the passes the scores and failures of a model from before repeats were raised."""
        for item, score in scores.items():
            self.passes.told(model, item, score)
        for item in failed:
            self.passes.failed(model, item)

    def raise_repeats(self, repeats: int) -> None:
        self.passes.raise_repeats(repeats)

    def asked(self, model: int, item: int, probability: float | None = None) -> None:
        # The first `n_items` slots are the first answers.
        policy = self.first_pass if item < self._n_items else self.passes
        policy.asked(model, item, probability)

    def released(self, model: int, item: int) -> None:
        # A repeat keeps its place in the passes.
        if item < self._n_items:
            self.first_pass.released(model, item)

    def told(self, model: int, item: int, score: float) -> None:
        self.passes.told(model, item, score)
        if item < self._n_items:
            self.first_pass.told(model, item, score)

    def failed(self, model: int, item: int) -> None:
        self.passes.failed(model, item)
        if item < self._n_items:
            self.first_pass.failed(model, item)

    # -- what is known ------------------------------------------------------------------------

    def belief(self, question: str = BENCHMARK) -> Belief:
        first = self.first_pass.belief(question)
        past_first_pass = self.passes.pairs.progress >= self._n_kept
        # Repeats do not count before all first answers are in.
        if not past_first_pass.any():
            return first
        by_answers = self.passes.belief(question)
        # Pairs of models that are both past the first pass.
        complete = np.logical_and.outer(past_first_pass, past_first_pass)
        parts: dict[str, Any] = {
            name: np.where(complete, getattr(by_answers, name), getattr(first, name))
            for name in ("variance", "df", "n")
        }
        # In passes `zero_loss` is what one more event of noise loses: no zeros are counted.
        for name in ("zero_count", "rare_loss"):
            if (of_first_pass := getattr(first, name)) is not None:
                parts[name] = np.where(complete, 0.0, of_first_pass)
        location = np.where(past_first_pass, by_answers.location, first.location)
        pair_zero_loss = np.where(complete, by_answers.zero_loss, first.zero_loss)
        return replace(first, location=location, pair_zero_loss=pair_zero_loss, **parts)

    def ability_effects(self, belief: Belief) -> AbilityEffects | None:
        return self.first_pass.ability_effects(belief)

    def expected(self, model: int) -> Floats:
        return self.first_pass.expected(model)

    def describe(self, model: int) -> Description:
        noise = self.passes.describe(model).noise
        return replace(self.first_pass.describe(model), noise=noise)

    # -- what next ----------------------------------------------------------------------------

    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        available_once = available[: self._n_items]
        # The model has begun all items: what is left are repeats.
        if not available_once.any():
            return self.passes.next(model, available, pending, price, k)
        in_flight = [item for item in pending if item < self._n_items]
        return self.first_pass.next(model, available_once, in_flight, price[: self._n_items], k)
