"""`Verdicts`: what a belief and the looks so far decide. Only here does evidence become a verdict.

Two rules make verdicts consistent by construction. The order sorts by location, and the evidence
of a pair counts only in the direction of that order: a pair whose evidence points the other way is
open. Decisions, equivalence, intervals and what is missing all invert one evidence (`looks`): an
interval excludes 0 if and only if the pair is decided, or equivalent all the same.

A *location* is where a model stands on the scale that the order sorts by: its mean score, or its
ability. Reference models stand in the order like any other, but are only columns of the matrices,
which have one row per *tested* model. Pairs of reference models are not stored: `of_known` judges
them by their full results, and no answer changes that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..content import OpenPairContent
from ..methods.belief import Belief, Gaps, as_of_many
from ..methods.policy import Mask
from ..metrics.scale import Floats
from .families import Family, family_size, step_down
from .looks import ROUNDING, Looks

Ints = NDArray[np.int64]
Signs = NDArray[np.int8]

OPEN, DECIDED, EQUIVALENT = 0, 1, 2
#: Most models of which all pairs are listed; of more, known ones only as far as they matter.
ALL_PAIRS = 100
WORDS = ("open", "decided", "equivalent")
BETTER, WORSE, NOT_WORSE, NOT_KNOWN = "better", "worse", "not worse", "not known"
_DRAWS, _SEED = 4096, 0x4A4B  # standard error of a probability of ranks: at most 0.008
_ROWS_AT_ONCE = 256  # draws that are ranked in one go
#: Negative eigenvalues of a covariance that may be left out, as a share of the others.
_MOST_LEFT_OUT = 0.1
#: Further items of a pair among which `Verdicts.missing` searches for the one that decides it.
_SEARCHED_ITEMS = 20_000
#: Steps in which a limit is extended to find the items that decide a pair.
_EXTENSION = 1.2
#: Standard deviations by which a difference falls on its way in one case of five, which puts off
#: that it is decided, or grows, which puts off that it is close.
_SETBACK = 0.8416
#: `Verdicts.items_to_wait`: with ``m`` more items a difference of ``n`` moves by ``(m / n)^(1/2)``
#: standard errors, and seldom by three times as much. The boundary, which falls as items come,
#: counts as .15 nearer; and the next look comes after at most .09 n items.
_SELDOM, _NEARER, _LONGEST_WAIT = 3.0, 0.15, 0.09
_ALL = (slice(None), slice(None))


class Decisions(NamedTuple):
    """Signs of some pairs (1: the row is decidedly better), and states (OPEN, DECIDED, ..)."""

    sign: Signs
    state: Signs


class _Neighbours(NamedTuple):
    """Pairs of neighbours in the order.

    Attributes
    ----------
    places : ndarray of int
        Place in `Verdicts.best_first` of the better model of each pair.
    rows, columns : ndarray of int
        Row and column of each pair in the matrices.
    """

    places: Ints
    rows: Ints
    columns: Ints


class _Outranked(NamedTuple):
    """Which models are worse, or better, than each tested one, by all that is decided.

    Attributes
    ----------
    beats : ndarray of bool, shape (n_tested, n_tested)
        Whether the row is better than the column.
    beats_known, loses_to_known : ndarray of bool, shape (n_tested, n_references)
        Whether the row is better, or worse, than a reference model.
    """

    beats: Mask
    beats_known: Mask
    loses_to_known: Mask


class KnownPairs(NamedTuple):
    """Pairs of reference models: differences on [0, 1] with their errors and ends, and states."""

    gap: Floats
    error: Floats
    low: Floats
    high: Floats
    state: Signs


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Verdicts on every pair of a tested model (rows) and any model (columns).

    Columns are all `n_models` models, first the tested ones, then the reference models. Verdicts
    depend only on the attributes below.

    Attributes
    ----------
    belief : Belief
    looks : Looks
        Looks at these models; ``looks.after(belief, ...)`` for a first look at this belief.
    tested : sequence of str
        Names of the tested models.
    confidence : float
    familywise : bool
        Whether `confidence` is for all pairs together, including those with reference models.
    min_difference : float
        On [0, 1].
    bar : ndarray of bool, shape (n_tested, n_models), optional
        Pairs that may not be decided, whatever the evidence.

    Examples
    --------
    >>> b = Belief.independent([0.7, 0.69, 0.4], [0.02] * 3, n=[90] * 3, n_items=999)
    >>> looks = Looks(horizons=(100,)).after(b, 0.05)
    >>> v = Verdicts(b, looks, "abc", 0.95, familywise=True)
    >>> v.order, v.ties, v.rank_ranges["a"], v.state.tolist()[0]
    (['a', 'b', 'c'], [('a', 'b')], (1, 2), [0, 0, 1])
    """

    belief: Belief
    looks: Looks
    tested: Sequence[str]
    confidence: float = 0.95
    familywise: bool = False
    min_difference: float = 0.0
    bar: Mask | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all models, the tested ones first."""
        references = self.belief.references
        return (*self.tested, *(() if references is None else references.names))

    @property
    def n_tested(self) -> int:
        """Number of tested models."""
        return len(self.tested)

    # -- pairs --------------------------------------------------------------------------------

    @cached_property
    def location(self) -> Floats:
        """Location of every model; shape (n_models,)."""
        references = self.belief.references
        return (
            self.belief.location
            if references is None
            else np.r_[self.belief.location, references.location]
        )

    @cached_property
    def barred(self) -> Mask:
        """Pairs that are never decided, including every model with itself."""
        shape = self.belief.pairs.gap.shape
        out = np.zeros(shape, dtype=bool) if self.bar is None else self.bar.copy()
        out.flat[:: shape[1] + 1] = True
        return out

    def _each_pair(self, index: tuple[Any, Any] = _ALL) -> tuple[Floats, Mask]:
        """Return p of pairs at an index of the matrices, and a mask of those that are equivalent.

        p is two-sided, valid at every look, that of each pair by itself, and 1 if it decides
        nothing. Evidence against the order of the locations does not count.
        """
        belief, level = self.belief, 1.0 - self.confidence
        gap, variance = belief.pairs.gap[index], belief.pairs.variance[index]
        p, equivalent = np.ones(gap.shape), np.zeros(gap.shape, dtype=bool)
        if (evidence := self.looks.evidence) is not None:
            better, worse, close = evidence.at(index)
            p = np.exp(-np.where(gap > ROUNDING, better, np.where(gap < -ROUNDING, worse, 0.0)))
            equivalent = np.exp(-close) * (family_size(belief) if self.familywise else 1.0) <= level
        # A difference without an error is known in full, whatever the looks saw.
        if (exact := variance == 0.0).any():
            p, equivalent = np.where(exact, np.abs(gap) <= ROUNDING, p), equivalent | exact
        # Two locations may be close on a scale on which scores are not: estimates decide.
        if equivalent.any():
            references = belief.references
            estimate = (
                belief.estimate
                if references is None
                else np.r_[belief.estimate, references.estimate]
            )
            apart = np.abs(estimate[: self.n_tested, None] - estimate)[index]
            equivalent &= apart <= self.min_difference + ROUNDING
        barred = self.barred[index]
        return np.where(barred, 1.0, p), equivalent & ~barred

    @cached_property
    def _family(self) -> tuple[Family, Mask]:
        """The p of all pairs, with `familywise` adjusted for all, and which are equivalent."""
        p_values, equivalent = self._each_pair()
        if not self.familywise:
            return Family(p_values, np.ones(p_values.shape), 1.0), equivalent
        return step_down(p_values, self.belief, 1.0 - self.confidence), equivalent

    def _decided(self, index: tuple[Any, Any] = _ALL) -> Decisions:
        """Return the signs and states of pairs at an index of the matrices."""
        # The p of a pair depends on other pairs only where it holds for a family.
        if self.familywise or index is _ALL:
            p_values, equivalent = self._family[0].p[index], self._family[1][index]
        else:
            p_values, equivalent = self._each_pair(index)
        sign = np.sign(self.belief.pairs.gap[index]).astype(np.int8)
        sign[(p_values > 1.0 - self.confidence) | equivalent] = 0
        return Decisions(sign, np.where(equivalent, EQUIVALENT, np.abs(sign)).astype(np.int8))

    @cached_property
    def _all_decided(self) -> Decisions:
        """Signs and states of all pairs."""
        return self._decided()

    @property
    def sign(self) -> Signs:
        """1 where the row is decidedly better, -1 where the column is; shape (n_tested, n_models).

        Nonzero exactly where the state is "decided".
        """
        return self._all_decided.sign

    @property
    def state(self) -> Signs:
        """OPEN, DECIDED or EQUIVALENT of each pair; shape (n_tested, n_models).

        A pair is EQUIVALENT even if its interval excludes 0, as it may within `min_difference`.
        """
        return self._all_decided.state

    @cached_property
    def better(self) -> Floats:
        """P(row better than column), as if looked at once: descriptive, it decides nothing."""
        gap, variance, _, _ = self.belief.pairs
        out = np.where(gap > 0.0, 1.0 - self.belief.tails, self.belief.tails)
        out[(variance == 0.0) & (np.abs(gap) <= ROUNDING)] = 0.5
        return out

    def intervals(self, confidence: float | None = None) -> tuple[Floats, Floats]:
        """Return the low and the high end of every difference, row less column, at all looks.

        Each of shape (n_tested, n_models), in scores on [0, 1]. Ends are infinite where nothing is
        known yet, and may lie beyond the scale: `Ranking` cuts them there.

        At the ranking's confidence, the interval of a decided pair excludes 0, that of an open one
        holds it, and that of an equivalent one lies within ``min_difference`` of 0. An earlier look
        may have decided a pair that today's belief would leave open. If so, the end that lies
        beyond 0 is moved back beside 0, and that of an equivalent pair to ``min_difference``.

        With `familywise`, ends hold for all pairs together. The end of a decided pair towards 0
        holds at the level at which the family's step-down decides it.

        Parameters
        ----------
        confidence : float, optional
            Between 0 and 1; default that of the ranking.
        """
        confidence = self.confidence if confidence is None else confidence
        low, high = self._ends(1.0 - confidence)
        decided, equal = self.sign, self.state == EQUIVALENT
        # At less confidence an interval lies within the ranking's, so what that excludes it
        # excludes, too.
        if confidence <= self.confidence:
            low = np.where(decided > 0, np.maximum(low, ROUNDING), low)
            high = np.where(decided < 0, np.minimum(high, -ROUNDING), high)
            low = np.where(equal, np.maximum(low, -self.min_difference), low)
            high = np.where(equal, np.minimum(high, self.min_difference), high)
        # At more confidence it lies around the ranking's, so what that holds it holds, too.
        if confidence >= self.confidence:
            # That of an open pair may exclude 0: one that is barred, in the warm-up, or was not
            # looked at since its last answer.
            waits = self.state == OPEN
            low, high = (
                np.where(waits, np.minimum(low, 0.0), low),
                np.where(waits, np.maximum(high, 0.0), high),
            )
        return low, high

    def _ends(self, error_level: float) -> tuple[Floats, Floats]:
        """Return both ends of every difference of scores by the belief as it is now."""
        together = family_size(self.belief) if self.familywise else 1.0
        divisor = self._family[0].divisor
        low, high = self.looks.ends(
            self.belief,
            error_level / np.where(self.sign > 0, divisor, together),
            error_level / np.where(self.sign < 0, divisor, together),
        )
        slope = self.belief.gaps.slope
        return slope * low, slope * high

    @property
    def withdrawn(self) -> list[tuple[str, str]]:
        """Open pairs that an earlier look decided the other way round than models stand now.

        The first model of each pair was better then and is behind now. The pair is judged by
        itself; with `familywise` it need not have been decided.
        """
        gap, evidence = self.belief.pairs.gap, self.looks.evidence
        if evidence is None:
            return []
        # Evidence stays from look to look: what once decided the other way is still there.
        for_the_worse = np.where(gap > 0.0, evidence.worse, evidence.better)
        once_decided = np.exp(-for_the_worse) <= 1.0 - self.confidence
        positions = np.argwhere(once_decided & (self.state == OPEN) & (gap != 0.0))
        numbers = ((j, i) if gap[i, j] > 0.0 else (i, j) for i, j in positions.tolist() if i < j)
        return [(self.names[behind], self.names[ahead]) for behind, ahead in numbers]

    # -- order --------------------------------------------------------------------------------

    @cached_property
    def best_first(self) -> Ints:
        """Numbers of all models, the best first; of equal ones the tested, then as given.

        A model's number is that of its column in the matrices, and of its row if it is tested.
        """
        return np.argsort(-np.round(self.location / ROUNDING), kind="stable")

    @property
    def order(self) -> list[str]:
        """All models, best first."""
        return [self.names[model] for model in self.best_first]

    def pair(self, i: int, j: int) -> tuple[int, int]:
        """Return the sign of ``i - j`` and the state of two rows; two reference models as given."""
        if i < self.n_tested:
            return int(self.sign[i, j]), int(self.state[i, j])
        if j < self.n_tested:
            return -int(self.sign[j, i]), int(self.state[j, i])
        known = self.of_known(np.array([i]), np.array([j]))
        state = int(known.state[0])
        return int(np.sign(known.gap[0])) * (state == DECIDED), state

    def of_known(self, i: Ints, j: Ints, confidence: float | None = None) -> KnownPairs:
        """Judge pairs of reference models by their full results, at one look.

        Their interval has no width unless items or answers count as a sample. As of other pairs, it
        excludes 0 if and only if the pair is decided, or equivalent all the same.

        Parameters
        ----------
        i, j : ndarray of int, shape (n_pairs,)
            Rows of the two models.
        confidence : float, optional
            Of the interval; default that of the ranking.
        """
        references = self.belief.references
        assert references is not None
        i, j = i - self.n_tested, j - self.n_tested
        gap = references.estimate[i] - references.estimate[j]
        gap = np.where(np.abs(gap) > ROUNDING, gap, 0.0)
        error = np.hypot(references.error[i], references.error[j])

        def ends(confidence: float) -> tuple[Floats, Floats]:
            half_width = -float(ndtri(0.5 * (1.0 - confidence))) * error
            return np.maximum(gap - half_width, -1.0), np.minimum(gap + half_width, 1.0)

        low, high = ends(self.confidence)
        close = np.maximum(-low, high) <= self.min_difference + ROUNDING
        decided = np.where((low > 0.0) | (high < 0.0), DECIDED, OPEN)
        state = np.where(close, EQUIVALENT, decided).astype(np.int8)
        return KnownPairs(gap, error, *ends(confidence or self.confidence), state)

    @cached_property
    def _neighbours(self) -> _Neighbours:
        """Neighbours of which at least one is tested."""
        a, b, n_tested = self.best_first[:-1], self.best_first[1:], self.n_tested
        places = np.flatnonzero((a < n_tested) | (b < n_tested))
        a, b = a[places], b[places]
        return _Neighbours(places, np.where(a < n_tested, a, b), np.where(a < n_tested, b, a))

    @cached_property
    def adjacent(self) -> Signs:
        """States of neighbours in the order; shape (n_models - 1,)."""
        places, i, j = self._neighbours
        out = np.zeros(max(len(self.best_first) - 1, 0), dtype=np.int8)
        out[places] = self._decided((i, j)).state
        known = np.flatnonzero(self.best_first >= self.n_tested)
        known = known[:-1][np.diff(known) == 1]
        if len(known):
            out[known] = self.of_known(self.best_first[known], self.best_first[known + 1]).state
        return out

    @property
    def settled(self) -> bool:
        """Whether no two neighbours are open of which at least one is tested.

        Two known models may stay open: no answer of a tested model decides them.
        """
        return not (self.adjacent[self._neighbours.places] == OPEN).any()

    @cached_property
    def unsettled(self) -> Mask:
        """Tested models with an open neighbour that is not barred; shape (n_tested,)."""
        out, (i, j) = np.zeros(len(self.names), dtype=bool), self.open_neighbours
        out[i] = out[j] = True
        return out[: self.n_tested]

    @property
    def open_neighbours(self) -> tuple[Ints, Ints]:
        """Open neighbours of which at least one is tested, in the row, and which are not barred."""
        places, i, j = self._neighbours
        open_ = (self.adjacent[places] == OPEN) & ~self.barred[i, j]
        return i[open_], j[open_]

    def items_to_go(self, rows: Ints, columns: Ints) -> Floats:
        """Return about how many further items of each model decide some open pairs.

        At least 1 each, if the difference stays as it is and its variance falls as that of a mean
        of random items. Where equivalence is nearer than a decision, it is the items until that. A
        difference d with the variance v of n of N items is decided, at the boundary b, once

            1/n' - 1/N  =  (1/n - 1/N) d^2 / (b^2 v).
        """
        gaps, n_items = self.belief.gaps_at(rows, columns), self.belief.n_items
        size, n = np.abs(gaps.gap), np.maximum(gaps.n, 1.0)
        nearer_goal = np.maximum(size, self.min_difference / gaps.slope - size)
        boundary = self.looks.boundary(1.0 - self.confidence, n, n_items)
        # No number of answers decides a difference of 0 between expected scores.
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.minimum(nearer_goal**2 / (boundary**2 * gaps.variance), 1.0)
            of_variance = (1.0 / n - 1.0 / n_items) * np.nan_to_num(share, nan=1.0)
            return np.asarray(np.maximum(1.0 / (1.0 / n_items + of_variance) - n, 1.0))

    @property
    def items_to_wait(self) -> int:
        """How many further items of each model are unlikely to decide any pair that is open now.

        The next look may wait for so many; `_SELDOM` says how they are counted.
        """
        open_, n_items = (self.state == OPEN) & ~self.barred, self.belief.n_items
        # A method's own evidence (`proof`) cannot be foretold.
        if self.belief.proof is not None or not open_.any():
            return 0
        gaps, (i, j) = self.belief.gaps, open_.nonzero()
        size, error, n = np.abs(gaps.gap[i, j]), np.sqrt(gaps.variance[i, j]), gaps.n[i, j]
        nearer_goal = np.maximum(size, self.min_difference / gaps.slope[i, j] - size)
        boundary = self.looks.boundary(1.0 - self.confidence, n, n_items)
        # Standard errors that are lacking, and the items in which chance seldom adds them.
        to_go = boundary - _NEARER - nearer_goal / np.maximum(error, 1e-300)
        share = np.minimum((np.maximum(to_go, 0.0) / _SELDOM) ** 2, _LONGEST_WAIT)
        return int((share * np.minimum(n, n_items - n)).min())

    @property
    def ties(self) -> list[tuple[str, ...]]:
        """The coarse view: maximal runs of neighbours that are not decided."""
        runs: list[list[str]] = []
        for k, (name, tied) in enumerate(zip(self.order, [False, *(self.adjacent != DECIDED)])):
            runs[-1].append(name) if k and tied else runs.append([name])
        return [tuple(run) for run in runs if len(run) > 1]

    @property
    def separated_within_ties(self) -> list[tuple[str, str]]:
        """Pairs within one of the `ties` that are decided all the same.

        Beyond a hundred models, of the known ones of a tie only the best and the worst.
        """
        row_of = {name: i for i, name in enumerate(self.names)}
        separated: list[tuple[str, str]] = []
        for tie in self.ties:
            rows = np.array([row_of[name] for name in tie])
            known = np.flatnonzero(rows >= self.n_tested)
            better, worse = np.triu_indices(len(rows), 1)
            # Pairs of a board's thousands of known models say nothing of the tested ones.
            if len(self.names) > ALL_PAIRS and len(known) > 2:
                listed = ~np.isin(better, known) | ~np.isin(worse, known)
                listed |= (better == known[0]) & (worse == known[-1])
                better, worse = better[listed], worse[listed]
            decided = self.states(rows[better], rows[worse]) == DECIDED
            pairs = zip(better[decided].tolist(), worse[decided].tolist())
            separated += [(tie[a], tie[b]) for a, b in pairs]
        return separated

    def states(self, i: Ints, j: Ints) -> Signs:
        """Return the states of pairs of models, by the numbers of both; any may be of references.

        Parameters
        ----------
        i, j : ndarray of int, shape (n_pairs,)

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        row, column = np.minimum(i, j), np.maximum(i, j)
        known = row >= self.n_tested
        states = np.zeros(len(row), dtype=np.int8)
        states[~known] = self.state[row[~known], column[~known]]
        if known.any():
            states[known] = self.of_known(row[known], column[known]).state
        return states

    @cached_property
    def _outranked(self) -> _Outranked:
        """Models that each tested model is better, or worse, than by decided pairs.

        Or by what follows: a model that is better than another is better than all that the other is
        better than.
        """
        n_tested, references = self.n_tested, self.belief.references
        beats, beats_known, loses_to_known = (
            self.sign[:, :n_tested] > 0,
            self.sign[:, n_tested:] > 0,
            self.sign[:, n_tested:] < 0,
        )
        # Beating one exact reference means beating the lower ones.
        if references is not None and references.exact:
            fixed = references.location
            best_beaten = np.where(beats_known, fixed, -np.inf).max(axis=1, keepdims=True)
            worst_above = np.where(loses_to_known, fixed, np.inf).min(axis=1, keepdims=True)
            beats_known, loses_to_known = best_beaten >= fixed, worst_above <= fixed
        # A tested model that beats a known one beats the tested ones that lose to it. (Products of
        # floats are fast.)
        beats |= (beats_known.astype(np.float32) @ loses_to_known.T.astype(np.float32)) > 0.0
        tested = self.best_first[self.best_first < n_tested]
        # Worst first: a model beats all that those beat which it beats, whose turn was before.
        for model in tested[::-1]:
            beaten = beats[model].nonzero()[0]
            beats[model] |= beats[beaten].any(axis=0)
            beats_known[model] |= beats_known[beaten].any(axis=0)
        # Best first, likewise: a model loses to all known ones that those lose to which beat it.
        for model in tested:
            loses_to_known[model] |= loses_to_known[beats[:, model]].any(axis=0)
        return _Outranked(beats, beats_known, loses_to_known)

    @cached_property
    def ranges(self) -> tuple[Ints, Ints]:
        """Best and worst rank that decided pairs, and what follows from them, leave possible.

        Each of shape (n_models,); 1 is the best rank. That a is better than c follows if a is
        decided to be better than b, and b than c, even where the pair of a and c is open.
        """
        beats, beats_known, loses_to_known = self._outranked
        n_tested, references = self.n_tested, self.belief.references
        better = np.r_[beats.sum(axis=0) + loses_to_known.sum(axis=1), beats_known.sum(axis=0)]
        worse = np.r_[beats.sum(axis=1) + beats_known.sum(axis=1), loses_to_known.sum(axis=0)]
        # Two reference models are judged by their full results, in a single look (`of_known`).
        if references is not None:
            width = -float(ndtri(0.5 * (1.0 - self.confidence)))
            n_above, n_below = clearly_apart(
                references.estimate, width * references.error, self.min_difference
            )
            better[n_tested:] += n_above
            worse[n_tested:] += n_below
        return 1 + better, len(self.location) - worse

    def outranks(self, i: int) -> Signs:
        """Return 1 where tested model `i` is better, -1 where it is worse; shape (n_models,).

        By decided pairs and what follows from them, as its rank range is (`ranges`); else 0.
        """
        beats, beats_known, loses_to_known = self._outranked
        better, worse = np.r_[beats[i], beats_known[i]], np.r_[beats[:, i], loses_to_known[i]]
        return np.asarray(better.astype(np.int8) - worse.astype(np.int8))

    @property
    def rank_ranges(self) -> dict[str, tuple[int, int]]:
        """Best and worst rank that decided pairs leave possible, by name."""
        best, worst = self.ranges
        return {
            name: (best_rank, worst_rank)
            for name, best_rank, worst_rank in zip(self.names, best.tolist(), worst.tolist())
        }

    # -- chances ------------------------------------------------------------------------------

    def p_top(self, tops: Sequence[int] = (1,)) -> dict[int, dict[str, float]]:
        """Estimate, as if looked at once, each model's chance of being among the best k.

        Parameters
        ----------
        tops : sequence of int, optional
            The values of k.

        Returns
        -------
        dict of int to (dict of str to float)
            By k, then by model. Where all reference models are exact, only the best ``max(tops)``
            of them are in it: the others cannot be among the best k.
        """
        # A result and the files of its models ask for the same, and many draws take a while.
        if (key := tuple(tops)) not in self._chances_by_tops:
            self._chances_by_tops[key] = self._drawn_p_top(key)
        return self._chances_by_tops[key]

    @cached_property
    def _chances_by_tops(self) -> dict[tuple[int, ...], dict[int, dict[str, float]]]:
        """What `p_top` has returned so far."""
        return {}

    def _drawn_p_top(self, tops: tuple[int, ...]) -> dict[int, dict[str, float]]:
        """Return the chances of `p_top`, drawn anew."""
        references = self.belief.references
        tested = self.best_first[self.best_first < self.n_tested]
        names = [self.names[model] for model in tested]
        # Of two models the chance is known without drawing.
        if len(tested) == 2 and references is None:
            chance = float(self.better[tested[0], tested[1]])
            best = (chance, 1.0 - chance)
            return {k: dict(zip(names, best if k == 1 else (1.0, 1.0))) for k in tops}
        noise = self._drawn_errors(tested)
        # Of models known to be equal, chance decides in each draw which ranks higher.
        tie_rng = np.random.default_rng(_SEED + 2)
        scores = self.belief.location[tested] + noise
        if references is not None:
            rivals, n_draws = np.arange(len(references.names)), _DRAWS // 8
            # A board may have thousands of inexact references, which all vary: fewer draws do.
            if references.exact:
                order = np.argsort(-references.location, kind="stable")
                rivals, n_draws = order[: max(tops)], _DRAWS
            rank = _ranks(scores, tie_rng)[:n_draws]
            scores = -self._ranks_beside(rivals, tested, noise[:n_draws], rank, tie_rng)
            names = names + [references.names[rival] for rival in rivals]
        shares = _shares_among_best(scores, tops, tie_rng)
        return {k: dict(zip(names, of_models.tolist())) for k, of_models in zip(tops, shares)}

    def _ranks_beside(
        self,
        rivals: Ints,
        tested: Ints,
        noise: Floats,
        rank: Ints,
        tie_rng: np.random.Generator,
    ) -> Floats:
        """Return ranks among tested models and `rivals`, reference models, in each draw.

        1 is the best, and two models may have the same; shape (n_draws, len(tested) + len(rivals)).

        Parameters
        ----------
        rivals, tested : ndarray of int
        noise : ndarray of shape (n_draws, len(tested))
            Errors of tested models, as pairs of these have them.
        rank : ndarray of shape (n_draws, len(tested))
            Ranks among tested models, which they keep.
        tie_rng : Generator
        """
        belief, references = self.belief, self.belief.references
        assert references is not None
        error = np.random.default_rng(_SEED + 1).standard_normal((len(noise), len(rivals)))
        drawn = references.location[rivals] + error * np.sqrt(references.variance[rivals])
        # Beside known means a model's location may vary more than beside tested models: `beside`
        # says only which references are above a model. Its rank among tested models stays `rank`.
        beside = belief.beside_known(tested, noise)
        ranks = _ranks(np.concatenate([beside, drawn], axis=1), tie_rng)
        ranks[:, : len(tested)] += rank - _ranks(beside, tie_rng)
        return ranks.astype(np.float64)

    def _drawn_errors(self, tested: Ints) -> Floats:
        """Draw errors of these models' locations; shape (_DRAWS, len(tested)).

        Their differences have the variances that the belief has for pairs. The second half of the
        draws is the first with the other sign.
        """
        belief, references, n_tested = self.belief, self.belief.references, len(tested)
        covariances = belief.variance[np.ix_(tested, tested)]
        # On the diagonal are variances of estimates, off it those of differences.
        alone, off = covariances.diagonal(), covariances * (1.0 - np.eye(n_tested))
        # Without references only differences matter: a shift common to all models changes no rank.
        # Then this is the double centring of classical multidimensional scaling.
        if references is None:
            means = off.sum(axis=0) / max(n_tested, 1)
            covariance = 0.5 * (means[:, None] + means - means.sum() / max(n_tested, 1) - off)
        else:
            covariance = 0.5 * (alone[:, None] + alone - off)
        rng, root = np.random.default_rng(_SEED), _symmetric_root(covariance)
        # Each pair is measured by itself, so that no errors may have the variances of all pairs.
        # Then those of the pairs with the most exact model count, beside references those of the
        # models themselves.
        if root is None:
            anchor = int(np.argmin(alone))
            beside = off[:, anchor] if references is None else alone
            root = _nearest_root(0.5 * (beside[:, None] + beside - off), beside)
        noise = rng.standard_normal((_DRAWS // 2, n_tested)) @ root
        # Without references only the degrees of freedom of differences matter, too.
        with_df = np.ones((n_tested, n_tested), dtype=bool)
        if references is None:
            np.fill_diagonal(with_df, False)
        df = float(belief.df[np.ix_(tested, tested)][with_df].min(initial=np.inf))
        if np.isfinite(df):
            noise *= np.sqrt(df / rng.chisquare(df, _DRAWS // 2))[:, None]
        return np.concatenate([noise, -noise])

    @property
    def expected_wrong(self) -> float:
        """Expected number of wrong pairs among the decided ones, as if looked at once."""
        wrong = np.where(self.state == DECIDED, np.minimum(self.better, 1.0 - self.better), 0.0)
        return float(0.5 * wrong[:, : self.n_tested].sum() + wrong[:, self.n_tested :].sum())

    def missing(
        self, n_items: int, cost: Mapping[str, float], n_failed: Mapping[str, int]
    ) -> list[OpenPairContent]:
        """Return what would decide each open pair of neighbours, or show that it is equivalent.

        The pair of the least effort is first.

        Pairs that are barred, or of which all items are answered or none is common, are left out.

        Parameters
        ----------
        n_items : int
            Answers of one model in full: items of the benchmark, times their repeats.
        cost : mapping of str to float
            Mean cost of an answer, by tested model.
        n_failed : mapping of str to int
            Answers that a tested model cannot give, as they failed.
        """
        places = np.flatnonzero(self.adjacent == OPEN)
        neighbours = zip(self.best_first[places].tolist(), self.best_first[places + 1].tolist())
        pairs = (
            self._missing_of(better, worse, n_items, cost, n_failed) for better, worse in neighbours
        )

        def effort(pair: OpenPairContent) -> tuple[bool, bool, float, int]:
            last = pair["out_of_reach"], pair["all_items"]
            return (*last, pair["cost"], sum(pair["items"].values()))

        return sorted((pair for pair in pairs if pair is not None), key=effort)

    def _missing_of(
        self,
        better: int,
        worse: int,
        n_items: int,
        cost: Mapping[str, float],
        n_failed: Mapping[str, int],
    ) -> OpenPairContent | None:
        """Return what would decide an open pair of two models by number; None if no answer can."""
        # Tested models come first: the smaller number of a pair is a row of the matrices.
        row, column = sorted((better, worse))
        belief, tested = self.belief, [model for model in (row, column) if model < self.n_tested]
        if not tested or self.barred[row, column] or not belief.pairs.n[row, column] > 0:
            return None
        pair = belief.gaps.at((row, column))
        # An item counts for a pair once both models have answered it.
        size = float(n_items - max(n_failed.get(self.names[model], 0) for model in (row, column)))
        needed = self._items_to_decide(pair, size)
        # Half of all pairs need more than `needed`, as their difference changes on the way; four of
        # five need at most `likely`.
        likely = None if needed is None else self._items_to_decide(pair, size, unlucky=True)
        answered = {self.names[model]: int(belief.n[model, model]) for model in tested}

        def answers_until(items: float | None) -> dict[str, int]:
            """Return how many more answers of each model the pair takes; to all items if None."""
            return {name: max(int(items or size) - n, 0) for name, n in answered.items()}

        answers, likely_answers = answers_until(needed), answers_until(likely)
        if not any(answers.values()):
            return None
        p = self.better[better, worse] if better < self.n_tested else 1 - self.better[worse, better]
        return {
            "a": self.names[better],
            "b": self.names[worse],
            "p": float(p),
            "items": answers,
            "cost": _cost_of(answers, cost),
            "likely_items": likely_answers,
            "likely_cost": _cost_of(likely_answers, cost),
            "all_items": max(answered[name] + answers[name] for name in answered) > 0.9 * size,
            "one_look": bool(belief.tails[row, column] < 0.5 * (1.0 - self.confidence)),
            # A search that ended before the last item does not say that none decides.
            "out_of_reach": needed is None and float(pair.n) + _SEARCHED_ITEMS >= size,
        }

    def _items_to_decide(self, pair: Gaps, size: float, *, unlucky: bool = False) -> float | None:
        """Return how many items decide an open pair, or show it equivalent; None if `size` do not.

        If it is neither within the limit in force, the search extends the limit in steps until it
        is. A result then advises the user to raise the limit.

        Parameters
        ----------
        pair : Gaps
            The pair as it is, without further axes.
        size : float
            Most items that the pair can get.
        unlucky : bool, optional
            Whether the difference changes on the way as it does in the worst one of five cases;
            otherwise it stays as it is.
        """
        n_items = self.belief.n_items
        n = float(pair.n)
        grid = np.arange(n + 1.0, min(size, n + _SEARCHED_ITEMS) + 1.0)
        closer = _with_items(pair, grid, n_items, fall=_SETBACK if unlucky else 0.0)
        grows = unlucky and self.min_difference > 0.0
        wider = _with_items(pair, grid, n_items, fall=-_SETBACK) if grows else closer

        def first_that_decides(looks: Looks, limit: float) -> float | None:
            enough = self._would_be_decided(closer, looks) & (grid <= limit)
            # A difference is shown to be small only as far as it does not grow on the way.
            enough |= self._would_be_close(wider, looks) & (grid <= limit)
            return float(grid[int(np.argmax(enough))]) if enough.any() else None

        # A method's own evidence (`proof`) cannot be foretold: assume that it grows like the
        # evidence of looks without a horizon.
        looks = self.looks if self.belief.proof is None else Looks()
        limit = float(looks.horizons[-1]) if looks.horizons else size
        needed = first_that_decides(looks, limit)
        if needed is not None or limit >= size:
            return needed
        # A single look needs fewer items than many looks, so its number bounds the search from
        # below. It takes little time, because it needs no table of chances (`boundary`).
        shortest = max(first_that_decides(Looks(single_look=True), size) or size, limit)
        steps = 1 + int(np.ceil(np.log(size / shortest) / np.log(_EXTENSION)))
        for limit in np.ceil(np.geomspace(shortest, size, steps)).tolist():
            # A horizon of just `limit` items is too short if the pair goes on a little worse.
            horizon = int(min(_EXTENSION * limit, size))
            extended = looks.with_horizon(horizon, most_items(self.belief))
            if (needed := first_that_decides(extended, limit)) is not None:
                break
        return needed

    def _would_be_decided(self, gaps: Gaps, looks: Looks) -> Mask:
        """Return which gaps, as they may be later, a look would decide."""
        level = (1.0 - self.confidence) / self._family[0].divisor_of_open
        # With few degrees of freedom a pair that passes the boundary may have too little evidence.
        threshold = -float(np.log(level)) - ROUNDING
        better, worse, _ = looks.evidence_of_gaps(gaps, self.belief.n_items, level)
        return np.asarray((better > threshold) | (worse > threshold) | (gaps.variance <= 0))

    def _would_be_close(self, gaps: Gaps, looks: Looks) -> Mask:
        """Return which gaps, as they may be later, a look would find equivalent."""
        if self.min_difference <= 0.0:
            return np.zeros(gaps.gap.shape, dtype=bool)
        alone = 1.0 - self.confidence
        # That a pair is close is shown for all pairs at once, not step by step (`_each_pair`).
        together = family_size(self.belief) if self.familywise else 1.0
        threshold = -float(np.log(alone / together)) - ROUNDING
        evidence = looks.evidence_of_gaps(gaps, self.belief.n_items, alone, self.min_difference)
        return np.asarray(evidence.close > threshold)


def most_items(belief: Belief) -> int:
    """Return the items behind the pair that has most."""
    n = belief.pairs.n.copy()
    n.flat[:: n.shape[1] + 1] = 0.0
    return int(n.max(initial=0.0))


def _cost_of(answers: Mapping[str, int], cost: Mapping[str, float]) -> float:
    """Return the cost of so many answers of some models, from the mean cost of an answer."""
    return sum(cost.get(name, 0.0) * n for name, n in answers.items())


def _with_items(pair: Gaps, n: Floats, n_items: float, fall: float = 0.0) -> Gaps:
    """Return what decides a pair, as it may be after `n` items; `Gaps` of the shape of `n`.

    The difference moves on the way. The variance of that move is today's variance of the difference
    less the later one.

    Parameters
    ----------
    pair : Gaps
        One pair as it is, without further axes.
    n : ndarray of shape (k,)
        Items of the pair, more than it has.
    n_items : float
        Items of the benchmark; infinite where they are a sample.
    fall : float, optional
        By how many standard deviations of that move the difference comes closer to 0, at most to 0;
        below 0, by how many it goes away from 0.
    """
    variance_ratio = (1.0 / n - 1.0 / n_items) / np.maximum(1.0 / pair.n - 1.0 / n_items, 1e-300)
    loss_ratio = as_of_many(pair.n, n_items) / as_of_many(n, n_items)
    growth = n / pair.n
    loss = fall * np.sqrt(pair.variance * np.maximum(1.0 - variance_ratio, 0.0))
    side = np.where(pair.gap < 0.0, -1.0, 1.0)
    grown: dict[str, Floats] = pair._asdict() | {
        "gap": side * np.maximum(np.abs(pair.gap) - loss, 0.0),
        "variance": pair.variance * variance_ratio, "n": n, "df": pair.df * growth,
        "drop_variance": pair.drop_variance * variance_ratio,
        "rise_variance": pair.rise_variance * variance_ratio,
        "row_zero_loss": pair.row_zero_loss * loss_ratio,
        "row_zero_count": pair.row_zero_count * growth,
        "column_zero_loss": pair.column_zero_loss * loss_ratio,
        "column_zero_count": pair.column_zero_count * growth,
        "rare_loss": pair.rare_loss * loss_ratio,
    }  # fmt: skip
    return Gaps._make(
        figure if np.shape(figure) == n.shape else np.full(n.shape, figure)
        for figure in grown.values()
    )


def _ranks(scores: Floats, rng: np.random.Generator) -> Ints:
    """Return the rank of each score within its row; 1 is the highest, and chance breaks ties."""
    scores = scores + ROUNDING * rng.random(scores.shape)
    return 1 + np.argsort(np.argsort(-scores, axis=1), axis=1)


def _shares_among_best(scores: Floats, tops: Sequence[int], rng: np.random.Generator) -> Floats:
    """Return the share of rows in which each column is among the k highest; chance breaks ties.

    Returns
    -------
    ndarray of shape (len(tops), n_columns)

    Examples
    --------
    >>> scores = np.array([[0.1, 0.3, 0.2], [0.5, 0.4, 0.1]])
    >>> _shares_among_best(scores, (1, 2), np.random.default_rng(0)).tolist()
    [[0.5, 0.5, 0.0], [0.5, 1.0, 0.5]]
    """
    n_rows, n_columns = scores.shape
    counts = np.zeros((len(tops), n_columns))
    # Draws of a thousand models fill the memory several times if they are ranked all at once.
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        rows = scores[start : start + _ROWS_AT_ONCE]
        rows = rows + ROUNDING * rng.random(rows.shape)
        for count, k in zip(counts, tops):
            if k < n_columns:
                best = np.argpartition(rows, n_columns - k, axis=1)[:, n_columns - k :]
                count += np.bincount(best.ravel(), minlength=n_columns)
    counts[np.array(tops) >= n_columns] = n_rows
    return np.asarray(counts / n_rows)


class ClearlyApart(NamedTuple):
    """How many models are clearly above, and clearly below, each model; shape (n_models,)."""

    above: Ints
    below: Ints


def _symmetric_root(covariance: Floats) -> Floats | None:
    """Return the symmetric root of a covariance matrix; None if the values are far from one.

    It is unique: eigenvectors alone differ between processors.
    """
    value, vector = np.linalg.eigh(covariance)
    positive = np.maximum(value, 0.0)
    if (positive - value).sum() > _MOST_LEFT_OUT * positive.sum():
        return None
    return np.asarray((vector * np.sqrt(positive)) @ vector.T)


def _nearest_root(covariance: Floats, variance: Floats) -> Floats:
    """Return a root of the covariance matrix that is near to `covariance` and has these variances.

    `covariance` need not be one: it may have negative eigenvalues, which are cut from the
    correlations. Cut from `covariance` itself, they would leave variances that are too large:
    several times, of many models that are hardly ever compared.

    Examples
    --------
    >>> values = np.array([[0.0, 0.0, 0.1], [0.0, 1.0, -0.9], [0.1, -0.9, 1.0]])
    >>> root = _nearest_root(values, values.diagonal())
    >>> (root.T @ root).diagonal().round(9).tolist()
    [0.0, 1.0, 1.0]
    """
    errors = np.sqrt(variance)
    inverse = np.divide(1.0, errors, out=np.zeros_like(errors), where=errors > 0.0)
    value, vector = np.linalg.eigh(np.clip(inverse[:, None] * covariance * inverse, -1.0, 1.0))
    root = (vector * np.sqrt(np.maximum(value, 0.0))) @ vector.T
    lengths = np.maximum(np.sqrt((root * root).sum(axis=0)), ROUNDING)
    return np.asarray(root * (errors / lengths))


def clearly_apart(scores: Floats, half_widths: Floats, min_difference: float = 0.0) -> ClearlyApart:
    """Count how many of some models are clearly above each of them, and how many below.

    Two models differ clearly if their gap exceeds the root sum of squares of their half widths, and
    may exceed `min_difference`.

    Parameters
    ----------
    scores : ndarray of shape (n_models,)
        Higher is better.
    half_widths : ndarray of shape (n_models,)
        Half widths of the intervals; 0 where scores are known in full.
    min_difference : float, optional

    Examples
    --------
    >>> above, below = clearly_apart(np.array([0.5, 0.51, 0.9]), np.array([0.0, 0.04, 0.0]))
    >>> above.tolist(), below.tolist()
    ([1, 1, 0], [0, 0, 2])
    """
    # A board has thousands of full results; any two unequal ones differ, but for rounding.
    exact, close = half_widths == 0.0, min_difference + ROUNDING
    full = np.sort(scores[exact])
    above = len(full) - np.searchsorted(full, scores + close, side="right")
    below = np.searchsorted(full, scores - close, side="left")
    for model in np.flatnonzero(~exact):
        gap, apart = scores - scores[model], np.hypot(half_widths, half_widths[model])
        clear = (np.abs(gap) > apart) & (np.abs(gap) + apart > close)
        higher, lower = clear & (gap > 0.0), clear & (gap < 0.0)
        above[model], below[model] = np.sum(higher), np.sum(lower)
        above[exact] += lower[exact]
        below[exact] += higher[exact]
    return ClearlyApart(np.asarray(above), np.asarray(below))
