"""`Looks`: how strong the evidence on a pair is, however often the ranker looks.

Everything that is said of a pair inverts one evidence. A look shows that a model is better by more
than ``d`` if the difference less ``d`` is at least as large as the boundary (`boundary`) asks for,
in standard errors brought from Student's tail to the normal one; if scores of 0 that are still to
come do not explain it; and if failures do not. With ``d = 0`` that decides, and with
``d = -min_difference``, both ways round, the pair is close (`after`); the ``d`` at which it just
fails is the end of an interval (`ends`). Without a horizon, the mixture of
`methods.belief.boundary` takes the boundary's place, and so does the evidence of a method whose own
guarantee is exact (its *proof*). benchmarks/looks.py measures how it performs on real scores.

Matrices have the tested models as rows, and the tested and then the reference models as columns. Of
a pair, `gap` is the row's location less the column's, `drop` and `rise` are how much lower and
higher it may be because some answers failed, and `zero_loss` is how much one more score of 0 lowers
a model (`Gaps`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from ..methods.belief import (
    Belief,
    Gaps,
    Indices,
    PairEvidence,
    boundary,
    log_p,
    log_p_of_losses,
    log_p_of_zeros,
    losses_to_come,
    once_for_equal,
    tail,
    zeros_to_come,
)
from ..metrics.scale import Floats
from .boundary import FIRST_LOOK, Horizon, clock, governing_horizons

#: Part of an event of noise (one answer that comes out otherwise) that a single look at repeats
#: takes off a difference: sums of few answers move in whole events, and a normal tail between two
#: of them is too small (F. Yates, Supplement to the Journal of the Royal Statistical Society 1,
#: 1934). The boundary of many looks has slack for that.
HALF_EVENT = 0.5
#: By how much an end of an interval that decides nothing lies farther out where estimates rest on a
#: bank. It draws differences towards 0 by a little more than their errors say: without this, the
#: intervals of 6.5% of real pairs exclude the true difference at some look within 200 items, most
#: of them because it is larger; with it, 5.0% (benchmarks/paths.py; docs/evidence/tables.md). No
#: end moves across 0, so that no pair stays open for it; only equivalence takes more answers.
FAR_END = 1.1
#: Rounding error allowed in sums of scores.
ROUNDING = 1e-10
_LEAST_P = 1e-300


class _Zeros(NamedTuple):
    """Scores of 0 of one side of some pairs: what one more takes off, and how many there were.

    Arrays of one shape. Those count on which the other side had no score of 0.
    """

    loss: Floats
    n: Floats

    @classmethod
    def of_row(cls, gaps: Gaps) -> _Zeros:
        """Return those of the model in the row of each pair."""
        return cls(gaps.row_zero_loss, gaps.row_zero_count)

    @classmethod
    def of_column(cls, gaps: Gaps) -> _Zeros:
        """Return those of the model in the column of each pair."""
        return cls(gaps.column_zero_loss, gaps.column_zero_count)

    def in_units_of(self, rare_loss: Floats) -> Floats:
        """Return how many losses of size `rare_loss` have the sum of squares ``n loss^2``."""
        none = np.zeros(np.shape(rare_loss))
        ratio = np.divide(self.loss, rare_loss, out=none, where=rare_loss > 0.0)
        return np.asarray(self.n * ratio * ratio)


@dataclass(frozen=True, eq=False)
class Looks:
    """Rule for repeated looks (one, up to a horizon, or any number), and the evidence so far.

    Attributes
    ----------
    single_look : bool
        Whether there is a single look, at a number of items fixed in advance.
    horizons : tuple of int
        Most items that a pair can get: first as the ranking began, then each time that it was
        raised. Empty if there is no limit.
    starts : tuple of int
        The number of items of a pair from which each of `horizons` applies.
    pass_length : int
        Number of items of a pass; the boundary is then that of passes. 0 where answers are single.
    with_bank : bool
        Whether estimates rest on a bank. It may mislead the first looks, so these ask for more.
    evidence : PairEvidence, optional
        The largest evidence of the looks so far, in arrays of shape (n_tested, n_models); 0 where
        it decides nothing. Only `after` changes it, which only the ranker calls: reading a result
        is no look.
    last : Belief, optional
        The belief at the last look.

    Examples
    --------
    >>> n = np.array([20.0, 100.0, 200.0])
    >>> Looks(horizons=(200,)).boundary(0.05, n, 1000.0).round(2).tolist()
    [4.27, 2.85, 2.4]
    >>> Looks().boundary(0.05, n, 1000.0).round(2).tolist()
    [3.16, 3.06, 3.13]
    """

    single_look: bool = False
    horizons: tuple[int, ...] = ()
    starts: tuple[int, ...] = (FIRST_LOOK,)
    pass_length: int = 0
    with_bank: bool = True
    evidence: PairEvidence | None = None
    last: Belief | None = None

    # -- the boundary -------------------------------------------------------------------------

    def _governing_horizons(self, n_items: float) -> tuple[Horizon, ...]:
        return governing_horizons(
            self.horizons, self.starts, n_items, self.pass_length, self.with_bank
        )

    @property
    def _weighs_noise_to_come(self) -> bool:
        """Whether a gap must outweigh what scores of 0, or single answers, may still take from it.

        With many looks it must, and with a single look at repeated answers: all their noise may be
        that of one item, whose few answers are no normal variable.
        """
        return not self.single_look or self.pass_length > 0

    @property
    def _events_subtracted(self) -> float:
        """Events of noise to subtract from a gap: `HALF_EVENT` in one look at repeats, else 0."""
        return HALF_EVENT if self.single_look and self.pass_length else 0.0

    @property
    def _far_end(self) -> float:
        """Factor of the errors at an end that decides no order: `FAR_END`, or 1.

        Without a bank nothing draws differences together, and a single look holds without it: it
        excludes the true difference of 4.8 to 5.6 ± .5% of real pairs.
        """
        return FAR_END if self.with_bank and not self.single_look else 1.0

    def _with_noise_either_way(self, gaps: Gaps) -> Gaps:
        """Return gaps of repeated answers with one `zero_loss`, an event of noise, for both models.

        Noise may favour the row or the column. A known mean has none, but the model beside it may
        have been lucky or unlucky: both sides get the larger loss.
        """
        if not self.pass_length:
            return gaps
        event = np.maximum(gaps.row_zero_loss, gaps.column_zero_loss)
        return gaps._replace(row_zero_loss=event, column_zero_loss=event)

    def log_p(self, tails: Floats, n: Floats, n_items: float) -> Floats:
        """Return the log of the smallest two-sided level at which each one-sided tail decides.

        At most 0; 0 before the first look. It inverts `boundary`: tails are the normal (or
        Student's) probabilities of a larger difference.
        """
        tails = np.maximum(tails, _LEAST_P)
        # A single look spends all of the level: two-sided p is twice the tail.
        if self.single_look:
            return np.asarray(np.minimum(np.log(2.0 * tails), 0.0))
        # From here on tails count as standard errors of a normal variable.
        deviations, n = np.maximum(-ndtri(tails), 0.0), np.maximum(n, 1.0)
        if not self.horizons:
            log = log_p(deviations, clock(n, n_items))
        else:
            log = np.zeros(n.shape)
            for horizon in self._governing_horizons(n_items):
                log_level = np.interp(
                    -deviations / horizon.per_constant(n),
                    -horizon.constants,
                    horizon.log_level,
                )
                log = np.where((n >= horizon.first) & (n <= horizon.last), log_level, log)
            # After the last item everything is known: any difference decides.
            log = np.where(n >= n_items, math.log(_LEAST_P), log)
        return np.asarray(np.where(n < min(FIRST_LOOK, n_items), 0.0, np.minimum(log, 0.0)))

    def boundary(self, level: Floats | float, n: Floats, n_items: float) -> Floats:
        """Return how many standard errors decide at `level`; infinite before the first look."""
        if self.single_look:
            return np.broadcast_to(-ndtri(0.5 * np.asarray(level)), np.shape(n))
        n = np.maximum(n, 1.0)
        if not self.horizons:
            limit = boundary(level, clock(n, n_items))
        else:
            limit = np.full(n.shape, np.inf)
            for horizon in self._governing_horizons(n_items):
                scale = np.interp(np.log(level), horizon.log_level, horizon.constants)
                limit = np.where(
                    (n >= horizon.first) & (n <= horizon.last),
                    scale * horizon.per_constant(n),
                    limit,
                )
            # After the last item everything is known: any difference decides.
            limit = np.where(n >= n_items, 0.0, limit)
        return np.asarray(np.where(n < min(FIRST_LOOK, n_items), np.inf, limit))

    def half_width(self, level: Floats | float, df: Floats, n: Floats, n_items: float) -> Floats:
        """Return half the width of an interval of this error level, in standard errors.

        It is the boundary, brought from the normal tail to the equal one of Student's distribution.
        """
        limit = self.boundary(level, n, n_items)
        tails = np.maximum(ndtr(-np.minimum(limit, 30.0)), _LEAST_P)
        with np.errstate(invalid="ignore"):
            quantile = once_for_equal(stdtrit, np.minimum(df, 1e9), tails)
            student = np.where(np.isinf(df), limit, -quantile)
        return np.asarray(np.where(np.isinf(limit), np.inf, student))

    # -- one evidence -------------------------------------------------------------------------

    def evidence_at(
        self, belief: Belief, i: Indices, j: Indices, level: float, min_difference: float = 0.0
    ) -> PairEvidence:
        """Return the evidence that a look at some pairs, rows `i` and columns `j`, brings.

        Evidence by the boundary is 0 if it does not decide at `level`. A method's proof has the
        evidence of all looks so far, weak evidence included.
        """
        gaps = belief.gaps_at(i, j)
        evidence = self.evidence_of_gaps(gaps, belief.n_items, level, min_difference)
        if belief.proof is None:
            return evidence
        proof = belief.proof.at(i, j)
        # Its evidence of closeness is for the ranking's `min_difference`: another score has none.
        if min_difference == 0.0:
            proof = proof._replace(close=evidence.close)
        # A proof does not know of failures: where these may explain part of a difference, the
        # boundary must decide without that part as well.
        proof = proof.where(gaps.drop + gaps.rise == 0.0, proof.at_most(evidence))
        # The proof has no evidence (NaN) on some known models.
        return proof.where(np.isfinite(proof.better), evidence)

    def evidence_of_gaps(
        self, gaps: Gaps, n_items: float, level: float, min_difference: float = 0.0
    ) -> PairEvidence:
        """Return the evidence by the boundary alone, without a method's proof."""
        gaps, limit = self._with_noise_either_way(gaps), self.boundary(level, gaps.n, n_items)

        def beyond(size: Floats, zeros: _Zeros, gaps: Gaps) -> Floats:
            return self._beyond(size, gaps, zeros, limit, n_items)

        row_zeros, column_zeros = _Zeros.of_row(gaps), _Zeros.of_column(gaps)
        lower, upper = (gaps._replace(variance=variance) for variance in gaps.deciding)
        better = beyond(gaps.gap - gaps.drop, row_zeros, lower)
        worse = beyond(-gaps.gap - gaps.rise, column_zeros, upper)
        if min_difference <= 0.0:
            return PairEvidence(better, worse, np.zeros(gaps.gap.shape))
        # The pair is close if the difference is below min_difference and above -min_difference.
        # `below` and `above` are how far it is from these limits.
        within = min_difference / gaps.slope
        below, above = within - gaps.gap - gaps.rise, within + gaps.gap - gaps.drop
        lower, upper = (
            gaps._replace(variance=self._far_end**2 * (gaps.variance + on_top))
            for on_top in (gaps.drop_variance, gaps.rise_variance)
        )
        close = np.minimum(beyond(below, column_zeros, upper), beyond(above, row_zeros, lower))
        if gaps.rare_loss.any():
            for size, zeros in ((below, column_zeros), (above, row_zeros)):
                close = np.minimum(close, -self._log_p_of_rare_losses(size, gaps, zeros))
        return PairEvidence(better, worse, close)

    def _beyond(
        self, size: Floats, gaps: Gaps, zeros: _Zeros, limit: Floats, n_items: float
    ) -> Floats:
        """Return the evidence that true differences lie beyond a value; 0 if too weak.

        The value is 0, or of closeness one end of plus or minus `min_difference`.

        Parameters
        ----------
        size : ndarray
            How far the differences lie beyond the value, on the scale of locations; below 0 if they
            lie short of it.
        gaps : Gaps
        zeros : _Zeros
            Of the model that looks too good if scores of 0 are still to come.
        limit : ndarray
            The boundary: standard errors that decide.
        n_items : float
            `Belief.n_items`.
        """
        # Less half an event of noise in a single look at repeats; else the size as it is.
        out, corrected = np.zeros(size.shape), size - self._events_subtracted * zeros.loss
        with np.errstate(invalid="ignore"):
            decides = (corrected >= limit * np.sqrt(gaps.variance)) & (corrected > 0.0)
            # A difference without an error needs no look: `Verdicts` decides it.
            decides &= gaps.variance > 0.0
        if decides.any():
            tails = tail(corrected[decides], gaps.variance[decides], gaps.df[decides])
            out[decides] = -self.log_p(tails, gaps.n[decides], n_items)
            # The weaker evidence counts: that against chance, or against zeros to come.
            if self._weighs_noise_to_come:
                log = log_p_of_zeros(size[decides], zeros.loss[decides], zeros.n[decides])
                out[decides] = np.minimum(out[decides], -log)
        return out

    def _log_p_of_rare_losses(self, size: Floats, gaps: Gaps, zeros: _Zeros) -> Floats:
        """Return the log of the chance that rare losses to come make up for `size`."""
        loss, size = gaps.rare_loss, np.maximum(size, 0.0)
        losses = zeros.in_units_of(loss)
        if self.single_look:
            return log_p_of_losses(size, loss, losses, gaps.n)
        return log_p_of_zeros(size, loss, losses)

    def ends(
        self, belief: Belief, below: Floats | float, above: Floats | float
    ) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of all differences of locations.

        An interval has the differences that a look at `belief` does not refute.

        Parameters
        ----------
        belief : Belief
        below, above : float or ndarray of shape (n_tested, n_models)
            Two-sided levels at which the lower and the upper end hold; a pair of tested models has
            the same level both ways round.

        Returns
        -------
        low, high : ndarray of shape (n_tested, n_models)
        """
        gaps = self._with_noise_either_way(belief.gaps)
        # What a method's own proof refutes, below and above.
        lowest = highest = None
        if belief.proof is not None:
            levels = (
                np.broadcast_to(np.asarray(level, dtype=np.float64), gaps.gap.shape)
                for level in (below, above)
            )
            lowest, highest = belief.proof.interval(*levels)
        low = self._lower_ends(gaps, below, belief.n_items, lowest)
        # The upper end of a pair is the lower one of the same pair turned round, at its own level.
        # Tested models stand in both orders, and their pairs have one level.
        if belief.references is None:
            return low, 0.0 - low.T
        refuted = None if highest is None else 0.0 - highest
        return low, 0.0 - self._lower_ends(gaps.turned, above, belief.n_items, refuted)

    def _lower_ends(
        self, gaps: Gaps, level: Floats | float, n_items: float, refuted: Floats | None
    ) -> Floats:
        """Return the lower ends of the intervals of differences.

        A proof, if the method has one, has refuted all differences up to `refuted`.
        """
        low = gaps.gap - gaps.drop - self._half_widths(level, gaps, n_items)
        if refuted is None:
            return low
        # As in `evidence_at`: a proof takes the boundary's place, but where failures may explain
        # part of a difference, the farther of both ends counts.
        has_slack = gaps.drop + gaps.rise > 0.0
        by_proof = np.where(np.isnan(refuted), low, refuted)
        low = np.where(has_slack, np.fmin(low, refuted), by_proof)
        # The ends hold the difference itself, which a proof need not do: it is on the items of the
        # pair, while the difference is of estimates from those of all models.
        return np.fmin(low, gaps.gap)

    def _half_widths(self, level: Floats | float, gaps: Gaps, n_items: float) -> Floats:
        """Return how far the lower ends lie below the differences.

        This inverts `_beyond`. Rare losses, `FAR_END`, and variance beyond the banks between tested
        models widen intervals, but change no decision. So rare losses move no end across 0, and the
        others move no end that excludes 0.
        """
        zeros = _Zeros.of_row(gaps)
        errors = self.half_width(level, gaps.df, gaps.n, n_items)
        with np.errstate(invalid="ignore"):
            half_width = errors * np.sqrt(gaps.deciding[0])
            half_width = half_width + self._events_subtracted * zeros.loss
        if self._weighs_noise_to_come:
            half_width = np.maximum(half_width, zeros_to_come(level, zeros.n) * zeros.loss)
        # Beside known models the variance on top is in `deciding` already.
        if self._far_end > 1.0 or gaps.drop_variance.any():
            with np.errstate(invalid="ignore"):
                wider = errors * self._far_end * np.sqrt(gaps.variance + gaps.drop_variance)
            wider = np.maximum(half_width, wider)
            # An end that excludes 0 stays.
            half_width = np.where(half_width < gaps.gap, half_width, wider)
        if gaps.rare_loss.any():
            losses = zeros.in_units_of(gaps.rare_loss)
            to_come = (
                losses_to_come(level, losses, gaps.n)
                if self.single_look
                else zeros_to_come(level, losses)
            )
            with_losses = np.maximum(half_width, to_come * gaps.rare_loss)
            # An end that would move across 0 stays.
            half_width = np.where(
                (half_width < gaps.gap) & (gaps.gap <= with_losses), half_width, with_losses
            )
        return np.where(gaps.variance == 0.0, 0.0, half_width)

    # -- the looks so far ---------------------------------------------------------------------

    def after(self, belief: Belief, level: float, min_difference: float = 0.0) -> Looks:
        """Take one more look at a belief; of each pair the larger evidence stays, old or new.

        Evidence too weak to decide a pair at `level` counts as none, which saves time. So does
        leaving out the pairs whose belief is that of the last look: with hundreds of models an
        answer changes few pairs. All looks must be taken at one `level`.
        """
        changed = self._changed(belief)
        # `flatnonzero` is several times faster than `nonzero` of the matrix.
        i, j = np.divmod(np.flatnonzero(changed), changed.shape[1])
        # Two tested models stand in two places of the matrices: one look says both.
        first_place = j > i
        place = i, j = i[first_place], j[first_place]
        look = self.evidence_at(belief, i, j, level, min_difference)
        evidence = self.evidence
        # There is no earlier look whose evidence stays.
        if evidence is None or self.single_look:
            evidence = PairEvidence(*np.zeros((3, *changed.shape)))
        largest = look.at_least(evidence.at(place))
        # Most looks bring none, and need no copy of all pairs.
        if any((kind > 0.0).any() for kind in look):
            evidence = PairEvidence(*(kind.copy() for kind in evidence))
            tested = j < len(changed)
            for kind, values, turned in zip(evidence, largest, largest.turned):
                kind[place] = values
                kind[j[tested], i[tested]] = turned[tested]
        if self.single_look:
            return replace(self, evidence=evidence, last=None)
        return replace(self, evidence=evidence, last=belief)

    def _changed(self, belief: Belief) -> NDArray[np.bool_]:
        """Return the pairs whose belief has changed since the last look, as a mask.

        All of them if models joined or the reference models are others.
        """
        n_models, references, last = len(belief.location), belief.references, self.last
        if last is None or last.references is not references or len(last.location) != n_models:
            n_references = 0 if references is None else len(references.names)
            return np.ones((n_models, n_models + n_references), dtype=bool)
        models, pairs = np.zeros(n_models, dtype=bool), np.zeros((n_models, n_models), dtype=bool)
        of_models = "location", "score", "slope", "failure_bias", "beyond_banks", "refusal_variance"
        for name in of_models:
            if (value := getattr(belief, name)) is not None:
                # A model has one figure, or one of each side.
                models |= np.atleast_2d(value != getattr(last, name)).any(axis=0)
        for name in ("variance", "df", "n", "pair_zero_loss", "zero_count", "rare_loss"):
            if (value := getattr(belief, name)) is not None:
                pairs |= value != getattr(last, name)
        pairs |= models[:, None] | models
        pairs |= pairs.T
        if references is None:
            return pairs
        # A pair with a reference model has changed where the tested model itself has.
        with_references = np.repeat(pairs.diagonal()[:, None], len(references.names), 1)
        return np.concatenate([pairs, with_references], axis=1)

    @property
    def before_first_look(self) -> Looks:
        """The same rule before its first look."""
        return replace(
            self, horizons=self.horizons[-1:], starts=(FIRST_LOOK,), evidence=None, last=None
        )

    def with_horizon(self, horizon: int, n: float) -> Looks:
        """Return these looks with a later horizon, for pairs of more than `n` items.

        They stay as they are without a horizon, or if `horizon` is not later than theirs.

        It gets the part of the level that the earlier horizons have not spent, so raising a horizon
        before its end costs nothing.
        """
        if not self.horizons or horizon <= self.horizons[-1]:
            return self
        first = int(n) + 1
        # The new horizon replaces those that no pair has reached yet.
        earlier = sum(start < first for start in self.starts)
        return replace(
            self,
            horizons=(*self.horizons[:earlier], horizon),
            starts=(*self.starts[:earlier], max(first, FIRST_LOOK)),
            last=None,
        )

    def with_models(self, n_tested: int) -> Looks:
        """Return these looks with rows and columns for models that joined: `n_tested` in all."""
        if self.evidence is None or len(self.evidence.better) == n_tested:
            return self
        # References stand in the last columns.
        n_before, width = self.evidence.better.shape
        evidence = PairEvidence(*np.zeros((3, n_tested, width + n_tested - n_before)))
        for wider, kind in zip(evidence, self.evidence):
            wider[:n_before, :n_before] = kind[:, :n_before]
            wider[:n_before, n_tested:] = kind[:, n_before:]
        return replace(self, evidence=evidence, last=None)

    def only(self, models: Sequence[int]) -> Looks:
        """Return the looks at these tested models alone, in this order."""
        if self.evidence is None or list(models) == list(range(len(self.evidence.better))):
            return self
        n_tested, width = self.evidence.better.shape
        place = np.ix_(list(models), [*models, *range(n_tested, width)])
        return replace(self, evidence=self.evidence.at(place), last=None)
