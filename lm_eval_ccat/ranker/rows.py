"""Rows of a ranking: what it says of one model, of a pair, and of a place among known models."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..content import FailureContent, PairContent, PlaceContent
from ..methods.belief import interval_of_mean
from ..methods.policy import Drawn, Mask
from ..methods.sample.repeats import PassAt
from ..metrics.scale import Floats, Scale
from .looks import Looks
from .verdicts import EQUIVALENT, WORDS, Ints, Signs, Verdicts


@dataclass(frozen=True)
class Estimate:
    """An estimated mean score on [0, 1], with everything that its interval needs.

    Attributes
    ----------
    mean, error : float
        Estimate and standard error.
    df, n, n_items : float
        Degrees of freedom of the error; number of items behind it, and of the benchmark.
    failure_bias : float
        By how much it may be too high (below 0: too low) because some answers failed.
    zero_loss : float
        How much lower the mean may be because of scores of 0 still to come: a model that refuses
        one item in ten has refused none of the first ten in a third of the cases. The lower end
        allows for it.
    end_shares : (float, float)
        What the lower and the upper end have of the error, 0 to 1: a model beyond all that the
        banks know errs to one side.
    possible : (float, float)
        The least and the largest mean that the answers so far allow, whatever the others score.
    looks : Looks
        The looks at which intervals hold.
    method_interval : callable, optional
        ``confidence -> (low, high)``, if the method has its own interval.
    """

    mean: float
    error: float
    df: float = np.inf
    n: float = np.inf
    n_items: float = np.inf
    failure_bias: float = 0.0
    zero_loss: float = 0.0
    end_shares: tuple[float, float] = (1.0, 1.0)
    possible: tuple[float, float] = (0.0, 1.0)
    looks: Looks = field(default=Looks(single_look=True), compare=False)
    method_interval: Callable[[float], tuple[float, float]] | None = field(
        default=None, compare=False
    )

    @property
    def single_look(self) -> bool:
        """Whether the interval holds for a single look only."""
        return self.looks.single_look and self.method_interval is None

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the two-sided interval, cut to what is possible."""
        if self.method_interval is not None:
            low, high = self.method_interval(confidence)
        else:
            # The boundary ends at the most items of a pair, and a model may have more.
            df, n = np.array([self.df]), np.array([min((self.n, *self.looks.horizons))])
            low_error, high_error = (self.error * share for share in self.end_shares)
            # Half widths of the lower and of the upper end.
            half = np.array([np.hypot(low_error, self.zero_loss), high_error])
            # Without an error nothing is wider: 0 times an infinite boundary would be NaN.
            if self.error:
                half = half * self.looks.half_width(1.0 - confidence, df, n, self.n_items)
            (low, _), (_, high) = interval_of_mean(np.array(self.mean), half, np.array(self.n))
        # The error says nothing of failures: what these may hide is added to the interval.
        low, high = low - max(self.failure_bias, 0.0), high + max(-self.failure_bias, 0.0)
        floor, ceiling = self.possible
        return max(floor, low), min(ceiling, high)


@dataclass(frozen=True)
class ModelRow:
    """Results of one model. Scores are on [0, 1], higher is better.

    Attributes
    ----------
    name : str
    known : bool
        Whether it is a reference model, whose full results were given.
    estimate : Estimate
        Estimated full-benchmark mean; with several tasks or outcomes, their weighted sum.
    interval : (float, float)
        Interval of the estimate, at the ranking's confidence.
    bound : (float, float) or None
        The interval widened as if every failed item had scored 0, or 1: it holds whatever the
        failures depend on. None if no item failed.
    ability : (float, float) or None
        Ability and its standard error, in logits; only for a single outcome.
    items : list
        Items that it was scored on, in the order they were told: doc_ids, or (task, doc_id).
    draws : list of (item, float)
        Those of `items` that were drawn at random, with the probability of the draw.
    failed : list of (item, str)
        Items that it failed on, with the reason; one that failed in several repeats is there again.
    cost : float
        Amount spent on it, in price x units.
    set_aside : str or None
        Why it was dropped before the end.
    findings : list of str
        Reasons why the bank says little about it, each completing a sentence that begins with its
        name.
    sample : Drawn or None
        Estimate from the randomly drawn items alone, while `estimate` combines bank and draws; for
        methods that have both.
    noise : float or None
        Variance of a sampled answer's score within its item, where repeats tell it.
    pass_at : PassAt or None
    """

    name: str
    estimate: Estimate
    interval: tuple[float, float]
    known: bool = False
    bound: tuple[float, float] | None = None
    ability: tuple[float, float] | None = None
    items: list[Any] = field(default_factory=list)
    draws: list[tuple[Any, float]] = field(default_factory=list)
    failed: list[tuple[Any, str]] = field(default_factory=list)
    cost: float = 0.0
    set_aside: str | None = None
    findings: list[str] = field(default_factory=list)
    sample: Drawn | None = None
    noise: float | None = None
    pass_at: PassAt | None = None

    @property
    def failures(self) -> list[FailureContent]:
        """JSON values of `failed`."""
        return [{"doc_id": item, "reason": reason} for item, reason in self.failed]


_SHOWN = 6  # models of a long tie that `in_words` names


def _tied_in_words(tied: Sequence[str], index: int, states: Collection[int]) -> str:
    """Name the models that a model is tied with; of many those around its place among them.

    `tied` has them from best to worst, `index` says how many of them stand above it, and `states`
    are those of its pairs with them.
    """
    start = min(max(index - _SHOWN // 2, 0), max(len(tied) - _SHOWN, 0))
    neighbours = tied[start : start + _SHOWN]
    left_out = len(tied) - len(neighbours)
    labels = ["equivalent to"] * (EQUIVALENT in states)
    labels += ["not separated from"] * any(state != EQUIVALENT for state in states)
    further = f" and {left_out:,} more" if left_out else ""
    return f"{' or '.join(labels)} {', '.join(neighbours)}{further}"


def place_of(verdicts: Verdicts, name: str) -> PlaceContent:
    """Return where a tested model stands among all models, known and new.

    Its rank by the point estimates, the interval of ranks that decided pairs leave possible (from
    one more than the number of models decidedly better to the number not decidedly worse), the
    nearest models decidedly better and worse, and those it is not separated from, best first. A
    model is decidedly better, too, where that follows from decided pairs with a third one.
    """
    number, order = verdicts.names.index(name), verdicts.best_first.tolist()
    outranks = verdicts.outranks(number).tolist()
    # From best to worst. `better` and `worse` are the rivals that are decidedly so.
    rivals = [rival for rival in order if rival != number]
    better, worse, tied_rivals = (
        [rival for rival in rivals if outranks[rival] == sign] for sign in (-1, 1, 0)
    )
    tied = [verdicts.names[rival] for rival in tied_rivals]
    above = verdicts.names[better[-1]] if better else None
    below = verdicts.names[worse[0]] if worse else None
    best_rank, worst_rank = (int(bound[number]) for bound in verdicts.ranges)
    rank = order.index(number) + 1
    ranks = f"{best_rank} to {worst_rank}" if best_rank < worst_rank else "decided"
    words = [f"rank {rank} of {len(order)} ({ranks})", *_between_in_words(above, below)]
    if tied:
        states = {verdicts.pair(number, rival)[1] for rival in tied_rivals}
        words.append(_tied_in_words(tied, rank - best_rank, states))
    return {
        "rank": rank, "rank_interval": [best_rank, worst_rank], "models": len(order),
        "above": above, "below": below, "tied_with": tied, "in_words": ", ".join(words),
    }  # fmt: skip


def _between_in_words(above: str | None, below: str | None) -> list[str]:
    """Say between which models a model stands: the nearest that are decidedly better and worse."""
    if above and below:
        return [f"between {above} and {below}"]
    if above:
        return [f"below {above}"]
    return [f"above {below}"] if below else []


class PairRow(NamedTuple):
    """Two models of the order, `a` before `b`.

    Attributes
    ----------
    a, b : str
    p : float
        P(a better), as if looked at once: descriptive, while `decision` is the verdict.
    difference, low, high : float
        By how much `a` scores better, on [0, 1], and the ends of the interval, which holds at the
        ranking's confidence and looks. It excludes 0 if the pair is decided.
    decision : str
        "decided", "equivalent" (they surely differ by less than ``min_difference``) or "open".
    population : bool or None
        Whether the decision also holds for items like these; None if not checked.
    barred : bool
        Whether the pair may not be decided (`Ranker.bar`).
    """

    a: str
    b: str
    p: float
    difference: float
    low: float
    high: float
    decision: str
    population: bool | None = None
    barred: bool = False


#: What `population` of a pair may be, by its number; -1 is "not checked".
_POPULATION = (False, True, None)


class PairColumns(NamedTuple):
    """Many pairs as the columns of their rows; a thousand models have half a million of them.

    Attributes
    ----------
    a, b : ndarray of int
        Numbers of the models.
    p, difference, low, high, state, barred : ndarray
        The fields of `PairRow`; ``WORDS[state]`` is the decision.
    population : ndarray of int
        0, 1, or -1 where it is not checked.
    """

    a: Ints
    b: Ints
    p: Floats
    difference: Floats
    low: Floats
    high: Floats
    state: Signs
    population: Signs
    barred: Mask

    @property
    def turned(self) -> PairColumns:
        """The same pairs with `b` before `a`."""
        gap, low, high = 0.0 - self.difference, 0.0 - self.high, 0.0 - self.low
        # State, population and bar are those of the pair, whichever model is first.
        return PairColumns(self.b, self.a, 1.0 - self.p, gap, low, high, *self[6:])

    def select(self, mask: Mask) -> PairColumns:
        """Return the pairs of a mask alone."""
        return PairColumns._make(column[mask] for column in self)

    def rows(self, names: Sequence[str]) -> Iterator[PairRow]:
        """Yield the pairs' rows."""
        for a, b, p, gap, low, high, state, population, barred in self._values():
            decision = WORDS[state]
            yield PairRow(
                names[a], names[b], p, gap, low, high, decision, _POPULATION[population], barred
            )

    def contents(self, names: Sequence[str], scale: Scale) -> Iterator[PairContent]:
        """Yield JSON values: the score of `a` less that of `b`, on a metric's own scale.

        Examples
        --------
        >>> values = 0, 1, 0.99, 0.02, 0.01, 0.03, 1, -1, False
        >>> pair = PairColumns(*(np.array([value]) for value in values))
        >>> [content] = pair.contents(["a", "b"], Scale(0, 50, higher_is_better=False))
        >>> content["difference"], content["low"], content["high"]
        (-1.0, -1.5, -0.5)
        """
        unit = scale.span if scale.higher_is_better else -scale.span
        ends = np.stack([self.low, self.difference, self.high])
        low, gap, high = np.sort(unit * ends + 0.0, axis=0)  # no negative zero
        columns = self._replace(difference=gap, low=low, high=high)
        for a, b, p, difference, lower, upper, state, population, barred in columns._values():
            content: PairContent = {
                "a": names[a], "b": names[b], "difference": difference, "low": lower,
                "high": upper, "p": p, "decision": WORDS[state],
            }  # fmt: skip
            if population >= 0:
                content["population"] = population > 0
            if barred:
                content["barred"] = True
            yield content

    def _values(self) -> Iterator[tuple[Any, ...]]:
        return zip(*(column.tolist() for column in self))
