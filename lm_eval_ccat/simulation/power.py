"""`Power`: the smallest difference that so many items decide, before anything is asked.

Let ``d`` be the true difference of two models, ``se`` the standard error of its estimate after
``n`` items of both, ``c`` the number of standard errors that decides a pair in a ranking of at most
``n`` items, and ``z`` the difference that scores of 0 still to come may explain
(`belief.zeros_to_come`). The pair is decided if the estimate, a normal variable of mean ``d`` and
deviation ``se``, exceeds both ``c se`` and ``z``. The smallest difference is the ``d`` at which
that has a chance of 80%, in the mean over pairs of models that are about so far apart: models of
high scores may differ by more than those of low ones, and vary more.

Both ``se`` and ``z`` come from rankings of some pairs of models like a bank's (`Newcomers`), by the
bank or on random items. On random items of ``N`` in all, ``se^2`` is ``s^2 (1/n - 1/N)``, with
``s`` the standard deviation of the difference on single items; a ranking tells by which factor its
own ``se^2`` departs from that. Where answers are sampled, all of ``s`` may be noise, which not even
all items average out: ``se^2`` of random items is then ``s^2 / n``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..bank import ItemBank
from ..methods.belief import Belief, as_of_many, zeros_to_come
from ..metrics.scale import Floats
from ..ranker import Ranker
from ..ranker.boundary import FIRST_LOOK
from ..ranker.looks import Looks
from .newcomers import Newcomers

#: Chance with which the smallest difference is decided.
CHANCE = 0.8
#: Items of each model after which the errors of a ranking are read; beyond the last, they fall as
#: those of random items do.
STOPS = (10, 15, 20, 30, 45, 70, 100, 150, 220, 300, 400)
#: Pairs of newcomers that are ranked.
N_RANKINGS = 6
#: Items that a ranking asks at once.
ASKS_AT_ONCE = 8
#: Degrees of freedom that stand for infinitely many, so that they can be interpolated.
LARGE_DF = 1e6
#: Pairs of newcomers whose spreads are drawn, and how many of them count as about so far apart.
N_SPREADS, N_ALIKE = 100, 20
#: How exactly a smallest difference is computed, on [0, 1].
_TOLERANCE = 1e-6
#: Least standard deviation, and variance, of a difference: two newcomers may be the same model.
_LEAST_SPREAD = 1e-9


class Spreads(NamedTuple):
    """How scores vary over items, on [0, 1].

    Attributes
    ----------
    gap, difference : ndarray of shape (n_pairs,)
        By how much two models differ in the mean (at least 0), and ``s``, the standard deviation of
        their difference on single items.
    score : float
        Standard deviation of a model's score on single items.
    """

    gap: Floats
    difference: Floats
    score: float

    @classmethod
    def constant(cls, difference: float, score: float) -> Spreads:
        """Return spreads that are the same however far two models are apart."""
        return cls(np.zeros(1), np.full(1, difference), score)

    def of_pairs_apart(self, gap: float) -> Floats:
        """Return `difference` of the `N_ALIKE` pairs of which the gaps are nearest to `gap`."""
        return self.difference[np.argsort(abs(self.gap - gap), kind="stable")[:N_ALIKE]]


#: Of eleven sets of graded scores (BLEU, chrF, ROUGE, TER, MQM, judges) the medians of both were
#: 0.06 to 0.23; of right-or-wrong ones 0.38 (GSM8K) and 0.51 (MMLU-Pro), of scores 0.5 at most.
PUBLISHED = {
    "graded": Spreads.constant(0.2, 0.2),
    "right or wrong": Spreads.constant(0.45, 0.5),
}


class _PlayedErrors(NamedTuple):
    """The errors of the ranking of one pair of models after a number of items; or several, stacked.

    Attributes
    ----------
    n : ndarray of shape (...)
        Items of each model.
    variance : ndarray of shape (...)
        Variance of the difference, over that of the difference on a single item.
    df : ndarray of shape (...)
        Degrees of freedom of that variance.
    zeros, error : ndarray of shape (...)
        See `Power`.
    """

    n: Floats
    variance: Floats
    df: Floats
    zeros: Floats
    error: Floats

    @classmethod
    def stacked(cls, parts: Sequence[_PlayedErrors]) -> _PlayedErrors:
        """Stack each figure of several parts along a new first axis."""
        return cls(*(np.array(figures) for figures in zip(*parts)))


@dataclass(frozen=True)
class Power:
    """What differences are decided after so many items of each of two models.

    Attributes
    ----------
    spreads : Spreads
    n : ndarray of shape (n_numbers,)
        Numbers of items of each model at which the errors are known, ascending.
    effect : ndarray of shape (n_rankings, n_numbers)
        Variance of a difference, over that on as many random items: survey sampling's design
        effect.
    df : ndarray of shape (n_rankings, n_numbers)
        Degrees of freedom of these variances.
    zeros : ndarray of shape (n_rankings, n_numbers)
        How much, on [0, 1], scores of 0 that are still to come may explain of a difference, times
        the number of items (`as_of_many`).
    error : ndarray of shape (n_numbers,)
        Standard error of one model's mean score, on [0, 1].
    n_items : int
        Items of the benchmark.
    level : float
        Error level of a decision, 0.05 at a confidence of 95%.
    sampled : bool
        Whether answers are draws, so that all items do not make a difference exact.
    with_bank : bool
        Whether rankings rest on a bank, which may mislead their first looks.

    Examples
    --------
    >>> power = Power.of_random_items(Spreads.constant(0.4, 0.5), 1000)
    >>> [round(power.smallest_difference(n), 3) for n in (50, 200, 1000)]
    [0.174, 0.079, 0.0]
    >>> power.items_for_difference(0.1), power.items_for_difference(0.001)
    (135, 1000)
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
    with_bank: bool = True

    @property
    def _exact_at(self) -> float:
        """Items that make a difference exact; infinitely many where answers are sampled."""
        return math.inf if self.sampled else float(self.n_items)

    @classmethod
    def of_random_items(
        cls, spreads: Spreads, n_items: int, level: float = 0.05, sampled: bool = False
    ) -> Power:
        """Return the power of random items, the same for both models, whose scores nobody knows.

        Parameters
        ----------
        spreads : Spreads
        n_items, level, sampled
            See the class.
        """
        # Numbers of items that leave an error: all items do only where answers are sampled.
        n = np.arange(2.0, max(n_items + 1 if sampled else n_items, 3))
        not_asked = 1.0 / n - (0.0 if sampled else 1.0 / n_items)
        effect = np.ones((1, len(n)))
        return cls(
            spreads,
            n=n,
            effect=effect,
            df=n[None] - 1.0,
            zeros=np.zeros_like(effect),
            error=spreads.score * np.sqrt(np.maximum(not_asked, 0.0)),
            n_items=n_items,
            level=level,
            sampled=sampled,
            with_bank=False,
        )

    @classmethod
    def of_banks(
        cls,
        banks: Mapping[str, ItemBank],
        level: float = 0.05,
        sampled: bool = False,
        at_random: bool = False,
        **ranker_options: Any,
    ) -> Power:
        """Return the power of rankings by banks, of one task each, whose methods have item curves.

        Parameters
        ----------
        banks : mapping of task to ItemBank
        level, sampled
            See the class.
        at_random : bool, optional
            Rank the same models on random items instead, without the banks.
        **ranker_options
            Further arguments of `Ranker`, such as ``weights`` of several tasks.

        Examples
        --------
        >>> import numpy as np
        >>> from lm_eval_ccat import ScoreTable, calibrate
        >>> rng = np.random.default_rng(0)
        >>> ease = rng.normal(size=60)
        >>> expected = 1 / (1 + np.exp(-np.add.outer(np.linspace(-1, 1, 8), ease)))
        >>> table = ScoreTable.from_arrays(rng.binomial(9, expected) / 9, models=list("abcdefgh"))
        >>> power = Power.of_banks({"t": calibrate(table)})
        >>> smallest = power.smallest_difference
        >>> smallest(20) > smallest(40) > smallest(60)
        True
        """
        newcomers, rng = Newcomers(banks), np.random.default_rng(0)
        n_items = sum(bank.n_items for bank in banks.values())
        spreads = spreads_of(newcomers)
        if at_random:
            banks = {task: ItemBank.blank(bank.doc_ids, task=task) for task, bank in banks.items()}
        pairs = [(newcomers.scores(rng), newcomers.scores(rng)) for _ in range(N_RANKINGS)]
        played = _played_errors(banks, pairs, level, {**ranker_options, "sampled": sampled})
        # With so few items nearly all are asked before an error is read, and a bank saves none.
        if played is None:
            return cls.of_random_items(spreads, n_items, level, sampled)
        # Variance of a mean difference of random items, over that on a single item.
        of_random_items = 1.0 / played.n - (0.0 if sampled else 1.0 / n_items)
        n, effect = played.n.mean(0), played.variance / of_random_items
        if not at_random:
            return cls(
                spreads,
                n=n,
                effect=effect,
                df=played.df,
                zeros=played.zeros,
                error=played.error.mean(0),
                n_items=n_items,
                level=level,
                sampled=sampled,
            )
        # Errors of one model and degrees of freedom of random items need no ranking.
        power = cls.of_random_items(spreads, n_items, level, sampled)
        return replace(
            power,
            effect=_interpolated(power.n, n, effect),
            zeros=_interpolated(power.n, n, played.zeros),
        )

    def smallest_difference(self, n_items: int) -> float:
        """Return the smallest difference on [0, 1] that `n_items` of each model decide."""
        if n_items >= self._exact_at:
            return 0.0
        # These figures change slowly: they are interpolated between the numbers of items that are
        # known, and beyond those stay as they are.
        effect, df, zeros = (
            _interpolated(n_items, self.n, rows) for rows in (self.effect, self.df, self.zeros)
        )
        n, df = np.full(len(effect), float(n_items)), np.broadcast_to(df, len(effect))
        looks = Looks(horizons=(n_items,), with_bank=self.with_bank)
        # ``c``, then ``se / s``.
        half_width = looks.half_width(self.level, df, n, self._exact_at)
        error = np.sqrt(effect * (1.0 / n_items - 1.0 / self._exact_at))
        zeros /= as_of_many(n, self._exact_at)

        def chance(gap: float) -> float:
            """Return the mean chance, over pairs and rankings, that a difference is decided."""
            errors = np.multiply.outer(self.spreads.of_pairs_apart(gap), error)
            return float(ndtr((gap - np.maximum(half_width * errors, zeros)) / errors).mean())

        # The chance rises with the gap: halve the interval that holds the one of `CHANCE`.
        low, high = 0.0, 1.0
        while high - low > _TOLERANCE:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if chance(middle) < CHANCE else (low, middle)
        return high

    def items_for_difference(self, gap: float) -> int | None:
        """Return the fewest items of each model that decide a difference on [0, 1].

        At most all; None if not even all do.
        """
        # Sampled answers leave noise that all items do not average out.
        if self.smallest_difference(self.n_items) > gap:
            return None
        low, high = min(FIRST_LOOK, self.n_items), self.n_items
        middle = (low + high) // 2
        while low < high:
            smallest = self.smallest_difference(middle)
            if smallest <= gap:
                high = middle
            else:
                low = middle + 1
            # The boundary takes long to compute and changes slowly with the number of items. So try
            # next the number at which the smallest difference would be the gap if only the variance
            # changed.
            variance = (1.0 / middle - 1.0 / self._exact_at) * (gap / smallest) ** 2
            middle = min(max(math.ceil(1.0 / (variance + 1.0 / self._exact_at)), low), high - 1)
        return low

    def items_for_error(self, error: float) -> int | None:
        """Return the items after which one model has this standard error, on [0, 1].

        At least the first number of items at which errors are known; None if it takes more than the
        last.

        Examples
        --------
        >>> Power.of_random_items(Spreads.constant(0.4, 0.5), 1000).items_for_error(0.02)
        385
        """
        # Beyond what was played, an extrapolation would be a guess.
        if error < self.error[-1]:
            return None
        return math.ceil(np.interp(-error, -self.error, self.n))


def _interpolated(n: Floats | int, known_at: Floats, rows: Floats) -> Floats:
    """Return each row, which is known at the numbers `known_at`, interpolated at `n`."""
    return np.array([np.interp(n, known_at, row) for row in rows])


def spreads_of(newcomers: Newcomers) -> Spreads:
    """Return how the scores of newcomers vary, from pairs that are drawn."""
    rng = np.random.default_rng(0)
    scores = np.array(
        [np.concatenate([*newcomers.scores(rng).values()]) for _ in range(2 * N_SPREADS)]
    )
    differences = scores[::2] - scores[1::2]
    return Spreads(
        gap=abs(differences.mean(axis=1)),
        difference=np.maximum(differences.std(axis=1), _LEAST_SPREAD),
        score=float(np.sqrt(scores.var(axis=1).mean())),
    )


def _played_errors(
    banks: Mapping[str, ItemBank],
    pairs: Sequence[tuple[Mapping[str, Floats], Mapping[str, Floats]]],
    level: float,
    ranker_options: Mapping[str, Any],
) -> _PlayedErrors | None:
    """Rank pairs of models, and return their errors, each figure of shape (n_pairs, n_numbers).

    The numbers of items are those that all rankings reached; None if one reached none.

    Parameters
    ----------
    banks : mapping of task to ItemBank
    pairs : sequence of (mapping, mapping)
        The scores of two models by task, on [0, 1], in bank order.
    level : float
        Error level of a decision.
    ranker_options : mapping
    """
    rankings = [
        _rank_pair(
            banks, dict(zip("ab", pair)), level=level, seed=seed, ranker_options=ranker_options
        )
        for seed, pair in enumerate(pairs)
    ]
    # Of a small bank, one ranking may ask all items at a stop at which another does not.
    n_numbers = min(map(len, rankings))
    if not n_numbers:
        return None
    return _PlayedErrors.stacked([_PlayedErrors.stacked(rows[:n_numbers]) for rows in rankings])


def _rank_pair(
    banks: Mapping[str, ItemBank],
    scores: Mapping[str, Mapping[str, Floats]],
    *,
    level: float,
    seed: int,
    ranker_options: Mapping[str, Any],
) -> list[_PlayedErrors]:
    """Rank two models whose scores are known, and read their errors at `STOPS`, or just after.

    Parameters
    ----------
    banks : mapping of task to ItemBank
    scores : mapping of model to (mapping of task to ndarray of shape (n_items,))
        Of both models, on [0, 1], in bank order.
    level : float
        Error level of a decision.
    seed : int
    ranker_options : mapping
    """
    max_items = int(min(STOPS[-1], sum(bank.kept.sum() for bank in banks.values())))
    ranker = Ranker(
        banks, list(scores),
        stop="limits", max_items=max_items, warmup=0, seed=seed, **ranker_options,
    )  # fmt: skip
    answers = {
        (model, (task, doc_id)): score
        for model, scores_by_task in scores.items()
        for task, bank in banks.items()
        for doc_id, score in zip(bank.doc_ids, scores_by_task[task].tolist())
    }
    n_items = len(answers) // 2
    first, second = scores.values()
    differences = np.concatenate([first[task] - second[task] for task in banks])
    variance_of_item = max(float(np.var(differences)), _LEAST_SPREAD)
    stops = [n for n in STOPS if n <= max_items and n < n_items]
    errors: list[_PlayedErrors] = []
    while len(errors) < len(stops) and (asks := ranker.ask(ASKS_AT_ONCE)):
        for model, item in asks:
            ranker.tell(model, item, answers[model, item])
        belief = ranker.belief().on_scores
        n_asked = belief.pairs.n[0, 1]
        # Once all items are asked no error is left, which says nothing of fewer items.
        if n_asked >= n_items and not ranker_options["sampled"]:
            break
        if n_asked >= stops[len(errors)]:
            errors.append(_errors_of(belief, level, variance_of_item))
    return errors


def _errors_of(belief: Belief, level: float, variance_of_item: float) -> _PlayedErrors:
    """Return the errors of two models by a belief on scores, as numbers.

    Parameters
    ----------
    belief : Belief
    level : float
        Error level of a decision.
    variance_of_item : float
        Variance of the models' difference on a single item.
    """
    better, worse = (0, 1) if belief.pairs.gap[0, 1] > 0.0 else (1, 0)
    pair = belief.gaps.at((better, worse))
    zeros = zeros_to_come(level, pair.row_zero_count) * pair.row_zero_loss
    return _PlayedErrors(
        n=pair.n,
        variance=pair.variance / variance_of_item,
        df=np.minimum(pair.df, LARGE_DF),
        zeros=zeros * as_of_many(pair.n, belief.n_items),
        error=np.sqrt(belief.variance[0, 0]),
    )
