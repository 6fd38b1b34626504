"""`Power`: the smallest difference that so many items decide, before anything is asked.

Some pairs of models like a bank's (`Newcomers`) are ranked, by the bank or on random items. After
`n` items of both, with ``se`` the standard error of their difference, ``c`` the standard errors
that decide a pair in a ranking of at most `n` items, and ``z`` what scores of 0 that are still to
come explain (`Looks`), a true difference ``d`` is decided with the chance that a normal variable of
mean ``d`` and deviation ``se`` exceeds both ``c se`` and ``z``. The smallest difference is decided
with a chance of 80% in the mean over pairs that are about so far apart: models of high scores may
differ by more than those of low ones, and vary more. A ranking of a pair tells ``z``, and by how
much ``se^2`` departs from ``s^2 (1/n - 1/N)`` of random items, ``s`` the standard deviation of the
difference on single items. Of sampled answers all of ``s`` may be noise, which not even all items
make known: then it is ``s^2 / n``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..bank import ItemBank
from ..methods.belief import as_of_many, zeros_to_come
from ..metrics.scale import Floats
from ..ranker import Ranker
from ..ranker.boundary import FIRST_LOOK
from ..ranker.looks import Looks
from .newcomers import Newcomers

#: Chance with which the smallest difference is decided.
CHANCE = 0.8
#: Items of each model after which the errors of a play are read; beyond the last, they fall as
#: those of random items do.
STOPS = (10, 15, 20, 30, 45, 70, 100, 150, 220, 300, 400)
#: Pairs of models that are ranked, answers asked at once, and degrees of freedom that stand for
#: infinitely many.
PLAYED, AT_ONCE, MANY = 6, 8, 1e6
#: Pairs of models drawn for their spreads, and those that count as apart by some difference.
DRAWN, NEAR = 100, 20
_EXACT, _LEAST = 1e-6, 1e-9  # of a smallest difference; spread of two models that are one


class Spreads(NamedTuple):
    """How scores vary over items, on [0, 1].

    Attributes
    ----------
    gap, difference : ndarray of shape (n_pairs,)
        By how much two models differ in the mean, and the standard deviation of their difference.
    score : float
        Standard deviation of a model's score.
    """

    gap: Floats
    difference: Floats
    score: float

    @classmethod
    def alike(cls, difference: float, score: float) -> Spreads:
        """Return spreads that are the same whatever two models differ by."""
        return cls(np.zeros(1), np.full(1, difference), score)

    def at(self, gap: float) -> Floats:
        """Return the standard deviations of differences of the pairs that are about `gap` apart."""
        return self.difference[np.argsort(abs(self.gap - gap), kind="stable")[:NEAR]]


#: Of eleven sets of graded scores (BLEU, chrF, ROUGE, TER, MQM, judges) the medians of both were
#: 0.06 to 0.23; of right-or-wrong ones 0.38 (GSM8K) and 0.51 (MMLU-Pro), of scores 0.5 at most.
PUBLISHED = {
    "graded": Spreads.alike(0.2, 0.2),
    "right or wrong": Spreads.alike(0.45, 0.5),
}


@dataclass(frozen=True)
class Power:
    """The error of a difference after so many items, and what that decides.

    Attributes
    ----------
    spreads : Spreads
    n : ndarray of shape (n_numbers,)
        Numbers of items of each model, ascending.
    effect, df : ndarray of shape (n_rankings, n_numbers)
        Variance of a difference beside that of random items, and its degrees of freedom.
    zeros : ndarray of shape (n_rankings, n_numbers)
        Sum of the scores of 0, still to come, that a difference must outweigh.
    error : ndarray of shape (n_numbers,)
        Standard error of one model.
    n_items : int
        Items of the benchmark.
    level : float
        Error level of a decision, 0.05 at a confidence of 95%.
    sampled : bool
        Whether answers are draws, so that all items do not make a difference exact.

    Examples
    --------
    >>> power = Power.of_random_items(Spreads.alike(0.4, 0.5), 1000)
    >>> [round(power.smallest(n), 3) for n in (50, 200, 1000)]
    [0.182, 0.083, 0.0]
    >>> power.items(0.1), power.items(0.001)
    (146, 1000)
    """

    spreads: Spreads
    n: Floats
    effect: Floats
    df: Floats
    zeros: Floats
    error: Floats
    n_items: int
    level: float = 0.05
    sampled: bool = False

    @property
    def _exact_at(self) -> float:
        """Items that make a difference exact."""
        return math.inf if self.sampled else float(self.n_items)

    @classmethod
    def of_random_items(
        cls, spreads: Spreads, n_items: int, level: float = 0.05, sampled: bool = False
    ) -> Power:
        """Return that of random items, the same for both models, whose scores nobody knows.

        Parameters
        ----------
        spreads : Spreads
        n_items, level, sampled
            See the class.
        """
        n = np.arange(2.0, max(n_items + sampled, 3))
        error = spreads.score * np.sqrt(1.0 / n - (0.0 if sampled else 1.0 / n_items))
        effect = np.ones((1, len(n)))
        return cls(spreads, n, effect, n[None] - 1.0, 0.0 * effect, error, n_items, level, sampled)

    @classmethod
    def of_banks(
        cls,
        banks: Mapping[str, ItemBank],
        level: float = 0.05,
        sampled: bool = False,
        at_random: bool = False,
        **ranker_options: Any,
    ) -> Power:
        """Return that of a ranking by banks, of one task each, whose methods have item curves.

        Parameters
        ----------
        banks : mapping of task to ItemBank
        level, sampled
            See the class.
        at_random : bool, optional
            Whether the same models are ranked on random items, without the banks.
        **ranker_options
            Further arguments of `Ranker`, such as ``weights`` of several tasks.

        Examples
        --------
        >>> import numpy as np
        >>> from lm_eval_ccat import ScoreTable, calibrate
        >>> rng = np.random.default_rng(0)
        >>> ease = rng.normal(size=60)
        >>> level = 1 / (1 + np.exp(-np.add.outer(np.linspace(-1, 1, 8), ease)))
        >>> table = ScoreTable.from_arrays(rng.binomial(9, level) / 9, models=list("abcdefgh"))
        >>> power = Power.of_banks({"t": calibrate(table)})
        >>> power.smallest(20) > power.smallest(40) > power.smallest(60)
        True
        """
        newcomers, rng = Newcomers(banks), np.random.default_rng(0)
        n_items = sum(bank.n_items for bank in banks.values())
        spreads = spreads_of(newcomers)
        if at_random:
            banks = {task: ItemBank.blank(bank.doc_ids, task=task) for task, bank in banks.items()}
        options = {**ranker_options, "sampled": sampled}
        plays = [
            _played(banks, [newcomers.scores(rng), newcomers.scores(rng)], level, seed, options)
            for seed in range(PLAYED)
        ]
        numbers, effect, df, zeros, errors = np.swapaxes(plays, 0, 1)
        share = 1.0 / numbers - (0.0 if sampled else 1.0 / n_items)
        n, effect = numbers.mean(0), effect / share
        if not at_random:
            error = errors.mean(0)
            return cls(spreads, n, effect, df, zeros, error, n_items, level, sampled)
        power = cls.of_random_items(spreads, n_items, level, sampled)
        return replace(
            power, effect=_between(power.n, n, effect), zeros=_between(power.n, n, zeros)
        )

    def smallest(self, items: int) -> float:
        """Return the smallest difference on [0, 1] that `items` of each model decide."""
        if items >= self._exact_at:
            return 0.0
        # All of these change slowly, and not beyond what was played.
        effect, df, zeros = (
            _between(items, self.n, part) for part in (self.effect, self.df, self.zeros)
        )
        n, df = np.full(len(effect), float(items)), np.broadcast_to(df, len(effect))
        reach = Looks(horizons=(items,)).reach(self.level, df, n, self._exact_at)
        error = np.sqrt(effect * (1.0 / items - 1.0 / self._exact_at))
        zeros /= as_of_many(n, self._exact_at)

        def chance(gap: float) -> float:
            errors = np.multiply.outer(self.spreads.at(gap), error)
            return float(ndtr((gap - np.maximum(reach * errors, zeros)) / errors).mean())

        low, high = 0.0, 1.0
        while high - low > _EXACT:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if chance(middle) < CHANCE else (low, middle)
        return high

    def items(self, gap: float) -> int | None:
        """Return the fewest items of each model that decide a difference on [0, 1].

        At most all; None if not even all do.
        """
        # Sampled answers leave noise that all items do not average out.
        if self.smallest(self.n_items) > gap:
            return None
        low, high = min(FIRST_LOOK, self.n_items), self.n_items
        middle = (low + high) // 2
        while low < high:
            smallest = self.smallest(middle)
            if smallest <= gap:
                high = middle
            else:
                low = middle + 1
            # The boundary of each number of items takes long to compute and changes slowly: nearly
            # as many are needed as the variance alone asks for.
            share = (1.0 / middle - 1.0 / self._exact_at) * (gap / smallest) ** 2
            middle = min(max(math.ceil(1.0 / (share + 1.0 / self._exact_at)), low), high - 1)
        return low

    def items_for_error(self, error: float) -> int | None:
        """Return the items after which one model has this standard error; None beyond those known.

        Examples
        --------
        >>> Power.of_random_items(Spreads.alike(0.4, 0.5), 1000).items_for_error(0.02)
        385
        """
        # Beyond what was played, an extrapolation would be a guess.
        if error < self.error[-1]:
            return None
        return math.ceil(np.interp(-error, -self.error, self.n))


def _between(at: Floats | int, n: Floats, rows: Floats) -> Floats:
    """Interpolate each row, known at the numbers `n`."""
    return np.array([np.interp(at, n, row) for row in rows])


def spreads_of(newcomers: Newcomers) -> Spreads:
    """Return how the scores of such models vary."""
    rng = np.random.default_rng(0)
    scores = np.array([np.concatenate([*newcomers.scores(rng).values()]) for _ in range(2 * DRAWN)])
    apart = scores[::2] - scores[1::2]
    score = float(np.sqrt(scores.var(axis=1).mean()))
    return Spreads(abs(apart.mean(axis=1)), np.maximum(apart.std(axis=1), _LEAST), score)


def _played(
    banks: Mapping[str, ItemBank],
    scores: Sequence[Mapping[str, Floats]],
    level: float,
    seed: int,
    ranker_options: Mapping[str, Any],
) -> Floats:
    """Rank two models of these scores, by task.

    Returns
    -------
    ndarray of shape (5, n_numbers)
        Items; variance of the difference, in units of that on single items; its degrees of
        freedom; scores of 0 that it must outweigh; standard error of one model.
    """
    models = ("a", "b")
    max_items = int(min(STOPS[-1], sum(bank.kept.sum() for bank in banks.values())))
    ranker = Ranker(
        banks, models, stop="limits", max_items=max_items, warmup=0, seed=seed, **ranker_options
    )
    score_of = {
        (model, (task, doc_id)): score
        for model, of_model in zip(models, scores)
        for task, bank in banks.items()
        for doc_id, score in zip(bank.doc_ids, of_model[task].tolist())
    }
    a, b = (np.concatenate([of_model[task] for task in banks]) for of_model in scores)
    of_item = max(float(np.var(a - b)), _LEAST)
    stops = [n for n in STOPS if n <= max_items and n < len(a)]
    rows: list[tuple[float, ...]] = []
    while len(rows) < len(stops) and (pairs := ranker.ask(AT_ONCE)):
        for model, item in pairs:
            ranker.tell(model, item, score_of[model, item])
        belief = ranker.belief().on_scores
        gap, variance, df, n = (float(part[0, 1]) for part in belief.pairs)
        if n >= stops[len(rows)]:
            better, worse = (0, 1) if gap > 0.0 else (1, 0)
            loss, _, count, _ = belief.zero_losses_at(np.array([better]), np.array([worse]))
            zeros = float(zeros_to_come(level, count)[0] * loss[0])
            zeros *= float(as_of_many(np.array(n), belief.n_items))
            error = math.sqrt(belief.variance[0, 0])
            rows.append((n, variance / of_item, min(df, MANY), zeros, error))
    return np.array(rows).T
