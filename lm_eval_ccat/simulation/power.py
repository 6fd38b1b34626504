"""`Power`: the smallest difference that so many items decide, before anything is asked.

Two models that score as a bank expects of a new one are ranked by the bank a few times, with
answers as its curves draw them. After `n` items of both, with ``se`` the standard error of their
difference and ``c`` the standard errors that decide a pair in a ranking of at most `n` items
(`Looks`), a true difference ``d`` is decided with the chance that a normal variable of mean
``d / se`` exceeds ``c``; so the smallest that is decided with a chance of 80% is
``(c + 0.84) se``. Random items alone have ``se = s sqrt(1/n - 1/N)``, ``s`` the standard deviation
of the difference on single items. Of sampled answers all of ``s`` may be noise, which not even all
items make known: then ``se = s sqrt(1/n)``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from ..bank import ItemBank
from ..methods.method import method_of
from ..metrics.scale import Floats
from ..ranker import Ranker
from ..ranker.boundary import FIRST_LOOK
from ..ranker.looks import Looks
from .newcomers import drawn_scores

#: Chance with which the smallest difference is decided.
CHANCE = 0.8
#: Items of each model after which the errors of a play are read; beyond the last, they fall as
#: those of random items do.
STOPS = (10, 15, 20, 30, 45, 70, 100, 150, 220, 300, 400)
#: Rankings played, pairs asked at once, and degrees of freedom that stand for infinitely many.
PLAYED, AT_ONCE, MANY = 2, 8, 1e6


class Spreads(NamedTuple):
    """Standard deviations over items, on [0, 1]: of two models' difference, and of one's score."""

    difference: float
    score: float


#: Of eleven sets of graded scores (BLEU, chrF, ROUGE, TER, MQM, judges) the medians of both were
#: 0.06 to 0.23; of right-or-wrong ones 0.38 (GSM8K) and 0.51 (MMLU-Pro), of scores 0.5 at most.
PUBLISHED = {"graded": Spreads(0.2, 0.2), "right or wrong": Spreads(0.45, 0.5)}


class _Noise(NamedTuple):
    """Variance of a difference, and its degrees of freedom."""

    variance: float
    df: float


@dataclass(frozen=True)
class Power:
    """The error of a difference after so many items, and what that decides.

    Attributes
    ----------
    n : ndarray
        Numbers of items of each model, ascending.
    variance, df : ndarray
        Of the difference of two equal models, on [0, 1].
    error : ndarray
        Standard error of one model.
    n_items : int
        Items of the benchmark.
    level : float
        Error level of a decision, 0.05 at a confidence of 95%.
    sampled : bool
        Whether answers are draws, so that all items do not make a difference exact.

    Examples
    --------
    >>> power = Power.of_random_items(Spreads(0.4, 0.5), 1000)
    >>> [round(power.smallest(n), 3) for n in (50, 200, 1000)]
    [0.182, 0.083, 0.0]
    >>> power.items(0.1), power.items(0.001)
    (146, 1000)
    """

    n: Floats
    variance: Floats
    df: Floats
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
        """Return that of random items, the same for both models.

        Parameters
        ----------
        spreads : Spreads
        n_items, level, sampled
            See the class.
        """
        n = np.arange(2.0, max(n_items + sampled, 3))
        share = 1.0 / n - (0.0 if sampled else 1.0 / n_items)
        error = spreads.score * np.sqrt(share)
        return cls(n, spreads.difference**2 * share, n - 1.0, error, n_items, level, sampled)

    @classmethod
    def of_banks(
        cls,
        banks: Mapping[str, ItemBank],
        level: float = 0.05,
        sampled: bool = False,
        **ranker_options: Any,
    ) -> Power:
        """Return that of a ranking by banks, of one task each, whose methods have item curves.

        Parameters
        ----------
        banks : mapping of task to ItemBank
        level, sampled
            See the class.
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
        options = {**ranker_options, "sampled": sampled}
        n, variance, df, error = np.mean(
            [_played(banks, seed, options) for seed in range(PLAYED)], axis=0
        )
        n_items = sum(bank.n_items for bank in banks.values())
        return cls(n, variance, df, error, n_items, level, sampled)

    def smallest(self, items: int) -> float:
        """Return the smallest difference on [0, 1] that `items` of each model decide."""
        if items >= self._exact_at:
            return 0.0
        variance, df = self._at(items)
        n = np.array([float(items)])
        reach = Looks(horizons=(items,)).reach(self.level, np.array([df]), n, self._exact_at)
        return (float(reach[0]) + float(ndtri(CHANCE))) * math.sqrt(variance)

    def _at(self, items: int) -> _Noise:
        """Return the noise of a difference after `items` of each model."""
        shares, share = (1.0 / n - 1.0 / self._exact_at for n in (self.n, items))
        # The variance per share of items not seen changes slowly, and not beyond what was played.
        variance = float(share * np.interp(items, self.n, self.variance / shares))
        return _Noise(variance, float(np.interp(items, self.n, self.df)))

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
            enough = -self._at(middle).variance * (gap / smallest) ** 2
            numbers = range(low, high)
            middle = low + bisect_left(numbers, enough, key=lambda n: -self._at(n).variance)
            middle = min(middle, high - 1)
        return low

    def items_for_error(self, error: float) -> int | None:
        """Return the items after which one model has this standard error; None beyond those known.

        Examples
        --------
        >>> Power.of_random_items(Spreads(0.4, 0.5), 1000).items_for_error(0.02)
        385
        """
        # Beyond what was played, an extrapolation would be a guess.
        if error < self.error[-1]:
            return None
        return math.ceil(np.interp(-error, -self.error, self.n))


def spreads_of(banks: Mapping[str, ItemBank]) -> Spreads | None:
    """Return how the scores of models vary that are as a bank expects of a new one.

    None if the banks know nothing of their items.
    """
    if not all(method_of(bank).has_curves for bank in banks.values()):
        return None
    mu = np.concatenate([Ranker(bank, ["new"]).expected("new") for bank in banks.values()])
    noise = np.concatenate([method_of(bank).curves(bank).noise for bank in banks.values()])
    within = float((noise * mu * (1.0 - mu)).mean())
    return Spreads(math.sqrt(2.0 * within), math.sqrt(within + float(mu.var())))


def _played(banks: Mapping[str, ItemBank], seed: int, ranker_options: Mapping[str, Any]) -> Floats:
    """Rank two models as the banks expect them; return the arrays of `Power`, one a row."""
    rng, models = np.random.default_rng(seed), ("a", "b")
    max_items = int(min(STOPS[-1], sum(bank.kept.sum() for bank in banks.values())))
    ranker = Ranker(
        banks, models, stop="limits", max_items=max_items, warmup=0, seed=seed, **ranker_options
    )
    places = [(task, doc_id) for task, bank in banks.items() for doc_id in bank.doc_ids]
    noise = np.concatenate([method_of(bank).curves(bank).noise for bank in banks.values()])
    mu = ranker.expected("a")
    scores = {model: dict(zip(places, drawn_scores(mu, noise, rng))) for model in models}
    stops = [n for n in STOPS if n <= max_items and n < len(places)]
    rows: list[tuple[float, ...]] = []
    while len(rows) < len(stops) and (pairs := ranker.ask(AT_ONCE)):
        for model, item in pairs:
            ranker.tell(model, item, float(scores[model][item]))
        belief = ranker.belief().on_scores
        _, variance, df, n = (float(part[0, 1]) for part in belief.pairs)
        if n >= stops[len(rows)]:
            rows.append((n, variance, min(df, MANY), math.sqrt(belief.variance[0, 0])))
    return np.array(rows).T
