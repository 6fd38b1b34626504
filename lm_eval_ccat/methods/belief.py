"""`Belief`: a method's estimates of the models at one moment. `Verdicts` decide, a belief does not.

All scores are on [0, 1], higher is better. The matrices have one row and one column per tested
model; the diagonal describes the model itself, which comparisons with reference models need.
Reference models have no rows here: the matrices of a board of thousands would be too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, ndtr, stdtr

from ..metrics.scale import Floats

#: Positions of models, items or series in arrays.
Indices = NDArray[np.intp]

#: The questions: the order on these items, on items like these, or of these very answers. Where
#: answers are sampled, the first two are about expected scores; else the first and last are one.
BENCHMARK, POPULATION, RUN = "benchmark", "population", "run"
_LEAST_VARIANCE = 1e-18
#: Difference of locations below which their scores' slopes stand for `Gaps.slope`.
_MEET = 1e-9
#: Part of the variance that two models beyond the banks have on top (`Belief.beyond_banks`) which
#: their difference keeps; the rest cancels, as both err to the same side. With a half, intervals
#: rule out 0 to 4.5% of true differences, with .3 up to 14%, with all at most 2%, but are wider
#: (docs/evidence/tables.md).
_APART = 0.5
#: Pairs from which on equal figures are worth a look (`once_for_equal`): those of 100 models.
_MANY_PAIRS = 10_000
#: Items at which the bound of `log_p` is tightest. Between 30 and 100 the share of pairs decided by
#: 100 items changes by less than a point.
TIGHT_AT = 60.0
#: The mixture's variance per item that makes it tightest there, at a level of 0.05.
_RATE = (-2.0 * np.log(0.05) + np.log(1.0 - 2.0 * np.log(0.05))) / TIGHT_AT


class PairEvidence(NamedTuple):
    """Evidence (``-log p``, p two-sided) on pairs, row against column; arrays of one shape.

    Attributes
    ----------
    better, worse : ndarray
        That the row is better than the column, and that it is worse. As evidence of all looks
        stays, both may be large, from different looks.
    close : ndarray
        That the two differ by at most a ``min_difference``.
    """

    better: Floats
    worse: Floats
    close: Floats

    def at_least(self, floor: PairEvidence) -> PairEvidence:
        """Return the larger of two evidences, kind by kind."""
        return PairEvidence(*map(np.maximum, self, floor))

    def at_most(self, ceiling: PairEvidence) -> PairEvidence:
        """Return the smaller of two evidences, kind by kind."""
        return PairEvidence(*map(np.minimum, self, ceiling))

    def where(self, mask: NDArray[np.bool_], alternative: PairEvidence) -> PairEvidence:
        """Return this evidence on the pairs of a mask, and the alternative on all others."""
        return PairEvidence(*(np.where(mask, *values) for values in zip(self, alternative)))

    @property
    def turned(self) -> PairEvidence:
        """The evidence of the same pairs, column against row."""
        return PairEvidence(self.worse, self.better, self.close)

    def at(self, index: Any) -> PairEvidence:
        """Return the evidence at an index of the arrays."""
        return PairEvidence(*(kind[index] for kind in self))


class ProvenEvidence(Protocol):
    """Evidence of a method whose guarantee is exact at all looks; it replaces the `boundary`.

    It is about differences of scores, row less column. Rows are the tested models, columns the
    tested and then the reference models. Pairs on which the method has no evidence (NaN) are judged
    by the `boundary`.
    """

    def at(self, i: Indices, j: Indices) -> PairEvidence:
        """Return the largest evidence so far on some pairs; NaN where there is none."""

    def interval(self, below: Floats, above: Floats) -> tuple[Floats, Floats]:
        """Return the lower and the upper end of the interval of every difference.

        The evidence refutes all differences outside. The ends are NaN where it has none, and of the
        shape of the arguments.

        Parameters
        ----------
        below, above : ndarray of shape (n_models, n_columns)
            Two-sided levels at which the lower and the upper end hold.
        """

    def only(self, models: Sequence[int]) -> ProvenEvidence:
        """Return the evidence on these tested models alone, in this order."""


class PairMoments(NamedTuple):
    """Differences of locations of some pairs.

    Attributes
    ----------
    gap, variance, df, n : ndarray
        The difference, row less column, its variance with degrees of freedom, and the items behind
        it.
    """

    gap: Floats
    variance: Floats
    df: Floats
    n: Floats

    def at(self, index: Any) -> PairMoments:
        """Return the figures at an index of the arrays."""
        return PairMoments(*(figure[index] for figure in self))


class PairZeros(NamedTuple):
    """`Belief.zero_loss` and `Belief.zero_count` of the row and of the column of some pairs."""

    row_loss: Floats
    column_loss: Floats
    row_count: Floats
    column_count: Floats


class Gaps(NamedTuple):
    """What decides some pairs, on the scale of locations.

    Attributes
    ----------
    gap, variance, df, n : ndarray
        As `PairMoments` has them.
    drop_variance, rise_variance : ndarray
        What the lower end of an interval adds to `variance`, and what the upper end adds; see
        `Belief.beyond_banks`.
    known : ndarray of bool
        Whether the column is a reference model. If so, decisions add that variance, too.
    drop, rise : ndarray
        How much lower and higher the difference may be because some answers failed; at least 0.
    row_zero_loss, column_zero_loss : ndarray
        `Belief.zero_loss` of the row and of the column.
    row_zero_count, column_zero_count : ndarray
        `Belief.zero_count` of the row and of the column.
    rare_loss : ndarray
        `Belief.rare_loss`.
    slope : ndarray
        Difference of the two scores over that of the two locations. It turns a gap and its standard
        error into those of scores: a pair is as certain on either scale.
    """

    gap: Floats
    variance: Floats
    df: Floats
    n: Floats
    drop_variance: Floats
    rise_variance: Floats
    known: NDArray[np.bool_]
    drop: Floats
    rise: Floats
    row_zero_loss: Floats
    column_zero_loss: Floats
    row_zero_count: Floats
    column_zero_count: Floats
    rare_loss: Floats
    slope: Floats

    @property
    def deciding(self) -> tuple[Floats, Floats]:
        """Variances by which the row is decided to be better (lower end) and worse (upper end)."""
        lower, upper = (
            self.variance + np.where(self.known, on_top, 0.0)
            for on_top in (self.drop_variance, self.rise_variance)
        )
        return lower, upper

    @property
    def turned(self) -> Gaps:
        """The same pairs, column less row."""
        return self._replace(
            gap=-self.gap,
            drop_variance=self.rise_variance,
            rise_variance=self.drop_variance,
            drop=self.rise,
            rise=self.drop,
            row_zero_loss=self.column_zero_loss,
            column_zero_loss=self.row_zero_loss,
            row_zero_count=self.column_zero_count,
            column_zero_count=self.row_zero_count,
        )

    def at(self, index: Any) -> Gaps:
        """Return the figures at an index of the arrays."""
        return Gaps(*(figure[index] for figure in self))


@dataclass(frozen=True, eq=False)
class References:
    """Models with full results, placed on the scale of a belief.

    Attributes
    ----------
    names : tuple of str
    location, variance : ndarray of shape (n_references,)
        Variance 0 if every item was scored and the question is about these items.
    estimate, error : ndarray of shape (n_references,)
        Mean score and its standard error.
    doubts : tuple of str
        What is not known of how they were asked.
    """

    names: tuple[str, ...]
    location: Floats
    variance: Floats
    estimate: Floats
    error: Floats
    doubts: tuple[str, ...] = ()

    @cached_property
    def exact(self) -> bool:
        """Whether all locations are known without error."""
        return not self.variance.any()


@dataclass(frozen=True, eq=False)
class Belief:
    """Where the tested models stand, and with what uncertainty.

    Attributes
    ----------
    location : ndarray of shape (n,)
        What the order sorts by; differences follow Student's distribution on this scale.
    variance : ndarray of shape (n, n)
        Variance of ``location[i] - location[j]``; on the diagonal, of ``location[i]``.
    df : ndarray of shape (n, n)
        Degrees of freedom of these variances; infinite where they are known.
    n : ndarray of shape (n, n)
        Items behind them: of both models, or of one on the diagonal; summed over tasks.
    n_items : float
        Number of items after which nothing is left to err about: that of the benchmark. Infinite if
        no number is enough, because the question is about the population or answers are sampled.
    question : {"benchmark", "population"}
        Whether `variance` excludes or includes the sampling error of the benchmark's items.
    score, slope : ndarray of shape (n,), optional
        Estimated mean score and its slope in `location`, if that is another scale (abilities).
    proof : ProvenEvidence, optional
        Evidence of the method's own, only if its guarantee is exact at all looks.
    references : References, optional
    failure_bias : ndarray of shape (n,), optional
        By how much a mean score may be too high (below 0: too low) because some answers failed.
    pair_zero_loss : ndarray of shape (n, n), optional
        `zero_loss`, if the method computes it; default a model's mean over `n` items.
    zero_count : ndarray of shape (n, n), optional
        How many scores of 0 the row has had where the column had none: the sum of the squares of
        how much lower the row scored, over the square of what a score of 0 loses. None counts as 0.
    rare_loss : ndarray of shape (n, n), optional
        How much lower the row would be beside the column if it lost one more item by as much as few
        items are lost by. Intervals and equivalence allow for it, decisions do not. None counts as
        0.
    beyond_banks : ndarray of shape (2, n), optional
        What the lower end of the interval of a mean adds to its variance, and what the upper end
        adds, because a model may be farther beyond all models of the banks than its estimate is.
        The larger of the two is part of the diagonal of `variance`. Intervals, equivalence and
        decisions beside reference models allow for it, decisions between tested models do not.
    refusal_variance : ndarray of shape (n,), optional
        What the lower end adds, beside reference models only, because a model may refuse items,
        which no model of the banks does. None counts as 0.

    Examples
    --------
    >>> b = Belief.independent([0.6, 0.5], [0.02, 0.01], n=[40, 60], n_items=500)
    >>> b.n.tolist(), round(float(b.variance[0, 1]), 6)
    ([[40.0, 40.0], [40.0, 60.0]], 0.0005)
    """

    location: Floats
    variance: Floats
    df: Floats
    n: Floats
    n_items: float
    question: str = BENCHMARK
    score: Floats | None = None
    slope: Floats | None = None
    proof: ProvenEvidence | None = None
    references: References | None = None
    failure_bias: Floats | None = None
    pair_zero_loss: Floats | None = None
    zero_count: Floats | None = None
    rare_loss: Floats | None = None
    beyond_banks: Floats | None = None
    refusal_variance: Floats | None = None

    @classmethod
    def independent(
        cls,
        location: Sequence[float] | Floats,
        error: Sequence[float] | Floats,
        *,
        n: Sequence[float] | Floats,
        n_items: float,
        score: Floats | None = None,
        slope: Floats | None = None,
        question: str = BENCHMARK,
        pair_error: Floats | None = None,
        df: float = np.inf,
    ) -> Belief:
        """Build the belief about models with independent errors.

        Parameters
        ----------
        location, error, n : array_like of shape (n_models,)
            Where each model stands, the standard error, and the number of items behind it.
        n_items, score, slope, question
            See the class.
        pair_error : ndarray of shape (n_models,), optional
            Standard errors to use in differences, if they are not `error`.
        df : float, optional
            Degrees of freedom of all variances.
        """
        single, items = np.asarray(error, dtype=np.float64) ** 2, np.asarray(n, dtype=np.float64)
        pair_variance = single if pair_error is None else pair_error**2
        variance = pair_variance[:, None] + pair_variance
        variance.flat[:: len(pair_variance) + 1] = single
        fewer, freedom = np.minimum(items[:, None], items), np.broadcast_to(df, variance.shape)
        locations = np.asarray(location, dtype=np.float64)
        return cls(locations, variance, freedom, fewer, n_items, question, score, slope)

    @property
    def estimate(self) -> Floats:
        """Estimated mean scores; shape (n,)."""
        return self.location if self.score is None else self.score

    @cached_property
    def on_scores(self) -> Belief:
        """This belief with locations that are scores, and variances of scores (`Gaps.slope`)."""
        if self.score is None or self.slope is None:
            return self
        i, j = map(np.asarray, np.indices(self.variance.shape))
        chord = self._chord(i, j, self.location[:, None] - self.location)
        variance = chord**2 * self.variance
        references = self.references
        if references is not None:
            references = replace(
                references, location=references.estimate, variance=references.error**2
            )
        return replace(
            self,
            location=self.score,
            variance=variance,
            score=None,
            slope=None,
            references=references,
        )

    def only(self, models: Sequence[int]) -> Belief:
        """Return the belief about the models at some positions, in this order; references stay."""
        if list(models) == list(range(len(self.location))):
            return self
        indices = np.asarray(models, dtype=np.intp)
        index_of: dict[str, Any] = dict.fromkeys(
            ("location", "score", "slope", "failure_bias", "refusal_variance"), indices
        )
        index_of |= dict.fromkeys(
            ("variance", "df", "n", "pair_zero_loss", "zero_count", "rare_loss"),
            np.ix_(indices, indices),
        )
        parts: dict[str, Any] = {name: getattr(self, name) for name in index_of}
        selected: dict[str, Any] = {
            name: None if value is None else value[index_of[name]] for name, value in parts.items()
        }
        beyond = None if self.beyond_banks is None else self.beyond_banks[:, indices]
        proof = None if self.proof is None else self.proof.only(models)
        return replace(self, **selected, beyond_banks=beyond, proof=proof)

    @classmethod
    def sum(
        cls,
        beliefs: Sequence[Belief],
        weights: Sequence[float] | Floats,
        correlation: Floats | None = None,
    ) -> Belief:
        """Return the belief about ``sum of weight x score``; its locations are these sums.

        It lacks references, `failure_bias` and `beyond_banks`, which the caller adds for the sum.
        Of a single belief of weight 1 it is `on_scores`.

        Parameters
        ----------
        beliefs : sequence of Belief
            About the same models and question, one of each term.
        weights : sequence of float
            One of each term, at least 0.
        correlation : ndarray of shape (len(beliefs), len(beliefs)), optional
            Correlation of the errors, for outcomes of the same answers. Without it the beliefs are
            about tasks with independent errors: degrees of freedom are Welch's, and items add up.

        Raises
        ------
        ValueError
            The beliefs are about different questions.

        Examples
        --------
        >>> a = Belief.independent([0.5, 0.4], [0.03, 0.03], n=[9, 9], n_items=90)
        >>> both = Belief.sum([a, a], [0.5, 0.5])
        >>> round(float(both.variance[0, 0] ** 0.5), 4), float(both.n[0, 1])
        (0.0212, 18.0)
        >>> one = Belief.sum([a, a], [0.5, 0.5], correlation=np.ones((2, 2)))
        >>> round(float(one.variance[0, 0] ** 0.5), 4), float(one.n[0, 1])
        (0.03, 9.0)
        """
        first = beliefs[0]
        if any(b.question != first.question for b in beliefs):
            raise ValueError("beliefs about different questions cannot be summed")
        parts, task_weights = [b.on_scores for b in beliefs], np.asarray(weights, dtype=np.float64)
        # Only a single task keeps the evidence of its method (`proof`): a sum has none.
        if len(parts) == 1 and task_weights[0] == 1.0:
            return parts[0]
        mean = task_weights @ np.array([b.location for b in parts])
        df, n = np.array([b.df for b in parts]), np.array([b.n for b in parts])
        variance = np.array([b.variance for b in parts])
        # Tasks have independent errors, and the items behind a pair add up. Outcomes of the same
        # answers have correlated errors, and the same items.
        if correlation is None:
            total, df_of_sum = _independent(variance, df, task_weights)
            items, n_items = np.add.reduce(n, 0), sum(b.n_items for b in parts)
        else:
            sd = task_weights[:, None, None] * np.sqrt(variance)
            total = np.maximum(np.einsum("aij,ab,bij->ij", sd, correlation, sd), 0.0)
            df_of_sum, items, n_items = df.min(axis=0), n.min(axis=0), first.n_items
        zeros = _zeros_of_sum(parts, task_weights, same_answers=correlation is not None)
        return cls(
            mean, total, df_of_sum, items, n_items, first.question,
            pair_zero_loss=zeros.zero_loss, zero_count=zeros.zero_count, rare_loss=zeros.rare_loss,
        )  # fmt: skip

    def with_prior(self, shift: Floats, added: Floats) -> Belief:
        """Return this sum of tasks after applying the prior that they share.

        Two models' errors stay as correlated as they were. `proof` does not hold for shifted
        estimates, and goes.

        Parameters
        ----------
        shift, added : ndarray of shape (n,)
            What the prior adds to the estimate and to the variance of each model; an `added` below
            0 makes it more certain.
        """
        alone = np.maximum(self.variance.diagonal(), _LEAST_VARIANCE)
        alone_after = np.maximum(alone + added, _LEAST_VARIANCE)
        # By pair, the product of the two standard deviations.
        before, after = (np.sqrt(np.outer(v, v)) for v in (alone, alone_after))
        # The correlation r of two errors, from Var(a - b) = v_a + v_b - 2 r (v_a v_b)^(1/2).
        correlation = (alone[:, None] + alone - self.variance) / (2.0 * before)
        extra = alone_after - alone
        variance = self.variance + extra[:, None] + extra - 2.0 * correlation * (after - before)
        np.fill_diagonal(variance, alone_after)
        return replace(
            self,
            location=self.location + shift,
            variance=np.maximum(variance, _LEAST_VARIANCE),
            proof=None,
        )

    @cached_property
    def pairs(self) -> PairMoments:
        """Differences of tested models (rows) from all models, of shape (n, n + n_references).

        A model and itself have the variance 0. A model and a reference model have the variance that
        they would have if their means were equal (`_if_equal`).
        """
        n_models = len(self.location)
        gap = self.location[:, None] - self.location
        variance = self.variance.copy()
        variance.flat[:: n_models + 1] = 0.0
        if (references := self.references) is None:
            return PairMoments(gap, variance, self.df, self.n)
        alone, df = self.variance.diagonal()[:, None], self.df.diagonal()[:, None]
        alone = alone * self._if_equal(references)
        variance_if_equal = alone + references.variance
        # Welch's degrees of freedom, where those of a reference model's variance are infinite.
        with np.errstate(divide="ignore", invalid="ignore"):
            welch = (
                df
                if references.exact
                else np.where(alone > 0.0, df * (variance_if_equal / alone) ** 2, np.inf)
            )
        n = np.repeat(self.n.diagonal()[:, None], len(references.names), axis=1)
        of_references = (
            self.location[:, None] - references.location,
            variance_if_equal,
            np.broadcast_to(welch, variance_if_equal.shape),
            n,
        )
        return PairMoments(
            *(
                np.concatenate(blocks, axis=1)
                for blocks in zip((gap, variance, self.df, self.n), of_references)
            )
        )

    @cached_property
    def zero_loss(self) -> Floats:
        """How much lower row i's location would be if it scored 0 on one more item; (n, n).

        The item is one of those that it has in common with column j; on the diagonal, one of its
        own, which counts beside reference models. It is 0 where all items are known.
        """
        if self.pair_zero_loss is not None:
            return self.pair_zero_loss
        # A score of 0 takes the place of a usual one, which is the mean.
        on_item = self.estimate
        if self.slope is not None:  # locations are not scores
            on_item = on_item / np.maximum(self.slope, 1e-12)
        return np.asarray(on_item[:, None] / np.maximum(as_of_many(self.n, self.n_items), 1.0))

    @cached_property
    def rare_losses(self) -> Floats:
        """`rare_loss`; where the method states none, that of models that have hardly scored.

        A model whose scores so far add up to less than half of the best score may still get one:
        its pairs lose a whole item. Shape (n, n).
        """
        if self.rare_loss is not None:
            return self.rare_loss
        if self.slope is not None:  # locations are not scores
            return np.zeros(self.variance.shape)
        has_hardly_scored = self.estimate * self.n.diagonal() < 0.5
        of_many = np.maximum(as_of_many(self.n, self.n_items), 1.0)
        return np.asarray((has_hardly_scored[:, None] | has_hardly_scored) / of_many)

    def zero_losses_at(self, i: Indices, j: Indices) -> PairZeros:
        """Return `zero_loss` and `zero_count` of some pairs, rows `i` and columns `j`."""
        n_models, equal = len(self.location), i == j
        # A pair with a reference model has the row's own figures, which stand on the diagonal. A
        # reference model loses nothing, nor does a model beside itself.
        column, known = np.where(j < n_models, j, i), equal | (j >= n_models)
        row_loss = np.where(equal, 0.0, self.zero_loss[i, column])
        column_loss = np.where(known, 0.0, self.zero_loss[column, i])
        if self.zero_count is None:
            none = np.zeros(row_loss.shape)
            return PairZeros(row_loss, column_loss, none, none)
        column_count = np.where(known, 0.0, self.zero_count[column, i])
        return PairZeros(row_loss, column_loss, self.zero_count[i, column], column_count)

    def _rare_losses_at(self, i: Indices, j: Indices) -> Floats:
        """Return `rare_loss` of some pairs, rows `i` and columns `j`; 0 beside a known mean."""
        known = (i == j) | (j >= len(self.location))
        return np.where(known, 0.0, self.rare_losses[i, np.where(known, i, j)])

    def _on_top_at(self, i: Indices, j: Indices) -> tuple[Floats, Floats]:
        """Return `Gaps.drop_variance` and `Gaps.rise_variance` of some pairs.

        The variance beside a reference model is that on the diagonal of `variance`, of which the
        larger figure of `beyond_banks` is part. The end with the smaller one thus adds less than 0.
        """
        drop = rise = np.zeros(i.shape)
        known = j >= len(self.location)
        if (beyond := self.beyond_banks) is not None:
            row, column = beyond[:, i], beyond[:, np.where(known, i, j)]
            beside_known = row - beyond.max(axis=0)[i]
            # A difference is lower if the row is lower or the column is higher.
            between_tested = np.where(i == j, 0.0, _APART * (row + column[::-1]))
            drop, rise = np.where(known, beside_known, between_tested)
        if self.refusal_variance is not None:
            drop = drop + np.where(known, self.refusal_variance[i], 0.0)
        return drop, rise

    def _if_equal(self, references: References) -> Floats:
        """Return by what factor each model's variance grows if its mean is each reference's.

        A mean p has a variance in proportion to ``p (1 - p)``. The factor is that of the reference
        over that of the model, at least 1, because the model may show too little variance; shape
        (n, n_references).
        """
        if self.score is not None:  # locations are not scores
            return np.ones((len(self.location), len(references.names)))
        spread = spread_of_mean(self.location, self.n.diagonal())[:, None]
        return np.asarray(
            np.maximum(references.location * (1.0 - references.location) / spread, 1.0)
        )

    def beside_known(self, models: Indices, error: Floats) -> Floats:
        """Return where some models may stand beside known means, by errors drawn; (n_draws, k).

        Parameters
        ----------
        models : ndarray of int, shape (k,)
        error : ndarray of shape (n_draws, k)
            Drawn with the models' own variances. Of means, an error counts as the half width of an
            interval, whose end (`interval_of_mean`) is where the model stands.
        """
        location = self.location[models]
        if self.score is not None:
            return location + error
        low, high = interval_of_mean(location, np.abs(error), self.n.diagonal()[models])
        return np.where(error < 0.0, low, high)

    def pairs_at(self, i: Indices, j: Indices) -> PairMoments:
        """Return `pairs` at rows `i` and columns `j`."""
        if self.references is not None:
            return self.pairs.at((i, j))
        # To compute all pairs of many models takes long.
        gap, variance = self.location[i] - self.location[j], self.variance[i, j]
        return PairMoments(gap, np.where(i == j, 0.0, variance), self.df[i, j], self.n[i, j])

    def gaps_at(self, i: Indices, j: Indices) -> Gaps:
        """Return what decides some pairs, rows `i` and columns `j` of `pairs`."""
        gap, variance, df, n = self.pairs_at(i, j)
        drop = rise = np.zeros(gap.shape)
        if self.slack is not None:
            drop, rise = (side[i, j] for side in self.slack)
        return Gaps(
            gap, variance, df, n, *self._on_top_at(i, j), j >= len(self.location), drop, rise,
            *self.zero_losses_at(i, j), self._rare_losses_at(i, j), self._chord(i, j, gap),
        )  # fmt: skip

    @cached_property
    def gaps(self) -> Gaps:
        """`gaps_at` all rows and columns of `pairs`; arrays of shape (n, n + n_references)."""
        i, j = np.indices(self.pairs.gap.shape)
        return self.gaps_at(np.asarray(i), np.asarray(j))

    def _chord(self, i: Indices, j: Indices, gap: Floats) -> Floats:
        """Return `Gaps.slope` of some pairs whose locations differ by `gap`.

        Where the locations meet, or scores are in the other order, it is the mean of the models'
        own slopes (beside a reference model, which has none, the tested one's).
        """
        if self.score is None or self.slope is None:  # locations are scores
            return np.ones(gap.shape)
        score, slope, references = self.score, self.slope, self.references
        if references is not None:
            score, slope = (
                np.r_[score, references.estimate],
                np.r_[slope, np.full(len(references.names), np.nan)],
            )
        tangent = np.where(np.isnan(slope[j]), slope[i], 0.5 * (slope[i] + slope[j]))
        apart = np.abs(gap) > _MEET
        chord = np.divide(score[i] - score[j], gap, out=tangent.copy(), where=apart)
        return np.asarray(np.where(chord > 0.0, chord, np.maximum(tangent, _MEET)))

    @cached_property
    def slack(self) -> tuple[Floats, Floats] | None:
        """`Gaps.drop` and `Gaps.rise` of all pairs; None if failures cause no bias.

        A gap is lower if the row was estimated too high or the column too low, but a reference
        model never is. The diagonal is for the models themselves.
        """
        if self.failure_bias is None or not self.failure_bias.any():
            return None
        n_models, shape = len(self.location), self.pairs.gap.shape
        too_high, too_low = np.maximum(self.failure_bias, 0.0), np.maximum(-self.failure_bias, 0.0)
        if self.slope is not None:  # locations are not scores
            too_high, too_low = (x / np.maximum(self.slope, 1e-12) for x in (too_high, too_low))
        drop, rise = (np.repeat(x[:, None], shape[1], axis=1) for x in (too_high, too_low))
        off_diagonal = ~np.eye(n_models, dtype=bool)
        drop[:, :n_models] += too_low * off_diagonal
        rise[:, :n_models] += too_high * off_diagonal
        return drop, rise

    @cached_property
    def tails(self) -> Floats:
        """Chance that each pair's true order is the reverse, by a single look; at most 1/2."""
        gaps = self.gaps
        lower, upper = gaps.deciding
        return tail(np.abs(gaps.gap), np.where(gaps.gap > 0.0, lower, upper), gaps.df)


# -- sums of beliefs ------------------------------------------------------------------------------


def _independent(variance: Floats, df: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the variance of a weighted sum of independent terms, and Welch's degrees of freedom.

    ``df = (sum of w^2 v)^2 / sum of ((w^2 v)^2 / df_t)`` for terms of variance v, weight w and
    degrees of freedom df_t. `variance` and `df` have the terms on their first axis; `variance` is
    overwritten, because a suite has a matrix of all pairs for each of its tasks.
    """
    variance *= (weights * weights)[:, None, None]
    total = np.add.reduce(variance, 0)
    variance *= variance
    variance /= np.maximum(df, 1e-6)
    denominator, df_of_total = np.add.reduce(variance, 0), np.full(total.shape, np.inf)
    np.divide(total**2, denominator, out=df_of_total, where=denominator > 0.0)
    return total, df_of_total


class _ZerosOfSum(NamedTuple):
    """`Belief.zero_loss`, `Belief.zero_count` and `Belief.rare_loss`; arrays of shape (n, n)."""

    zero_loss: Floats
    zero_count: Floats
    rare_loss: Floats


def _zeros_of_sum(parts: Sequence[Belief], weights: Floats, same_answers: bool) -> _ZerosOfSum:
    """Return what scores of 0, and rare losses, mean for a weighted sum.

    With `same_answers`, terms are outcomes, and an answer that scores 0 does so by all of them: its
    losses add up. Without, they are tasks, and the answer is one of an unknown task: the largest
    loss counts. The zeros that came count as the sum of squares of their losses, over the square of
    that loss.
    """
    loss = weights[:, None, None] * np.array([part.zero_loss for part in parts])
    counts, rare = (
        np.array([np.zeros_like(loss[0]) if figure is None else figure for figure in figures])
        for figures in ([part.zero_count for part in parts], [part.rare_losses for part in parts])
    )
    rare *= weights[:, None, None]
    if same_answers:
        # Losses so far have the sum of squares loss^2 x count by each outcome. The same answers
        # lost by all of them, so that the roots of these sums add up.
        zero_loss, squares = loss.sum(axis=0), (loss * np.sqrt(counts)).sum(axis=0) ** 2
        rare_loss = rare.sum(axis=0)
    else:
        zero_loss, squares = loss.max(axis=0), (loss * loss * counts).sum(axis=0)
        rare_loss = rare.max(axis=0)
    zero_count = np.zeros_like(squares)
    np.divide(squares, zero_loss**2, out=zero_count, where=zero_loss > 0.0)
    return _ZerosOfSum(zero_loss, zero_count, rare_loss)


# -- scores of mean p have a variance in proportion to p (1 - p) ----------------------------------

# A model whose few low scores are still to come shows too little variance: 20 right answers of 20
# show none. So a model is compared with a known mean by the variance that the known mean implies,
# where that is the larger one. Its interval holds every mean from which it is not farther than that
# (E. B. Wilson, Journal of the American Statistical Association 22, 1927), and the usual interval,
# by the variance that its scores show.


def spread_of_mean(mean: Floats, n: Floats) -> Floats:
    """Return ``p (1 - p)`` of means p over `n` items, kept half an item's score from 0 and 1."""
    half_item = 0.5 / np.clip(n, 1.0, 1e9)
    p = np.clip(mean, half_item, 1.0 - half_item)
    return np.asarray(p * (1.0 - p))


def interval_of_mean(mean: Floats, half: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and highest mean that a model could have.

    The ends are those of Wilson's interval and of ``mean - half`` to ``mean + half``, whichever lie
    farther out. With p the observed mean, s its `spread_of_mean` and ``r = half^2 / s``, Wilson's
    are the means m at which ``(p - m)^2 = r m (1 - m)``.

    Parameters
    ----------
    mean : ndarray
        Observed, on [0, 1].
    half : ndarray
        Half the width of the interval by the observed variance.
    n : ndarray
        Items behind the observed mean.

    Examples
    --------
    >>> mean, half, n = np.array([[0.5, 0.95], [0.04, 0.04], [99.0, 99.0]])
    >>> low, high = interval_of_mean(mean, half, n)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.46, 0.893], [0.54, 0.99])
    """
    ratio = half * half / spread_of_mean(mean, n)
    with np.errstate(invalid="ignore"):  # an infinite half stays infinite
        middle = (2.0 * mean + ratio) / (2.0 + 2.0 * ratio)
        arm = np.sqrt(np.maximum(ratio * (4.0 * mean * (1.0 - mean) + ratio), 0.0)) / (
            2.0 + 2.0 * ratio
        )
    return np.fmin(mean - half, middle - arm), np.fmax(mean + half, middle + arm)


# -- scores of 0 that are still to come ------------------------------------------------------------

# A model that scores 0 on a share q of the items, as one that now and then refuses does, and m on
# all others looks better by q m than it is until the first 0 comes. None comes in n of N items with
# a probability of at most (1 - n/N)^(q N) = exp(-gap / loss), where `gap` is q m and `loss` is by
# how much one score of 0 lowers its mean (`Belief.zero_loss`). While few have come, say k, the
# error that the scores show is still too small. If a lead of g losses over another model were luck,
# k + g zeros would have been expected, and Chernoff's bound says that a Poisson variable of that
# mean is at most k with a probability of at most exp(-(g - k log(1 + g/k))). With many zeros that
# is exp(-z^2/2), less than the boundary asks for (measured in benchmarks/skew.py, enumerated in the
# tests). Where nearly all items are known, zeros that are left come at the very end: each counts at
# least as one item of the benchmark.

#: Part of a score of 0 that is imagined in addition to those that came, as in a pair's variance.
IMAGINED_ZERO = 0.5
_STEPS, _LEAST_GAP = 8, 1e-9  # of Newton's method


def as_of_many(n: Floats, n_items: float) -> Floats:
    """Return how many random items of a population miss a rare score as often as `n` of `n_items`.

    They are ``-N log(1 - n / N)``, but at most ``N`` before all are known, because what is still to
    come is whole items; then infinite.

    Examples
    --------
    >>> as_of_many(np.array([10.0, 50.0, 99.0, 100.0]), 100.0).round(1).tolist()
    [10.5, 69.3, 100.0, inf]
    """
    if math.isinf(n_items):
        return n
    with np.errstate(divide="ignore"):  # all items hide nothing
        many = -n_items * np.log(np.maximum(1.0 - n / n_items, 0.0))
    return np.asarray(np.where(n < n_items, np.minimum(many, n_items), np.inf))


def zeros_to_come(level: Floats | float, zero_count: Floats | float) -> Floats:
    """Return the gap at which a pair is decided, in scores of 0 (`Belief.zero_loss`).

    Parameters
    ----------
    level : float or ndarray
        Two-sided.
    zero_count : float or ndarray
        `Belief.zero_count` of the better model.

    Examples
    --------
    >>> zeros_to_come(0.05, np.array([0.0, 1.0, 10.0])).round(2).tolist()
    [4.11, 5.25, 10.04]
    """
    evidence, k = -np.log(level), np.asarray(zero_count + IMAGINED_ZERO)
    gap = evidence + np.sqrt(2.0 * k * evidence)  # from above, Newton's steps fall to the root
    for _ in range(_STEPS):
        gap = gap - (gap - k * np.log1p(gap / k) - evidence) * (gap + k) / np.maximum(
            gap, _LEAST_GAP
        )
    return np.asarray(gap)


def losses_to_come(level: Floats | float, losses: Floats, n: Floats) -> Floats:
    """Return the upper limit of the number of losses to expect of `n` items, less those that came.

    This is the one-sided limit, for a single look, of C. J. Clopper and E. S. Pearson (Biometrika
    26, 1934).

    Parameters
    ----------
    level : float or ndarray
        Chance that as few losses come as came if the limit is what is to be expected.
    losses : ndarray
        Losses that came (`Belief.zero_count` of the better model), at most `n`.
    n : ndarray
        Items.

    Examples
    --------
    >>> losses_to_come(0.05, np.array([0.0, 1.0, 10.0, 100.0]), np.full(4, 100.0)).round(2).tolist()
    [2.95, 3.66, 6.37, 0.0]
    """

    def upper_limit(level: Floats, losses: Floats, n: Floats) -> Floats:
        without = np.maximum(n - losses, 1e-9)
        most = n * betaincinv(losses + 1.0, without, 1.0 - level)
        return np.asarray(np.maximum(most - losses, 0.0))

    return once_for_equal(upper_limit, level, losses, n)


def once_for_equal(function: Callable[..., Floats], *figures: Floats | float) -> Floats:
    """Return a slow function of the figures of pairs, worked out once for those that are equal.

    A thousand models have a million pairs, and after as many items of each these share all figures,
    or all but one. Where more than one varies, the function gets all pairs.

    Parameters
    ----------
    function : callable
        Returns an array of the shape of its arguments, element by element.
    *figures : float or ndarray
        Its arguments, which are broadcast.

    Examples
    --------
    >>> calls = []
    >>> def log(x, n):
    ...     calls.append(len(x))
    ...     return n * np.log(x)
    >>> once_for_equal(log, np.repeat([1.0, np.e], 5000), 2.0)[[0, 9999]].tolist(), calls
    ([0.0, 2.0], [2])
    """
    arrays = np.broadcast_arrays(*(np.asarray(figure, dtype=np.float64) for figure in figures))
    # To look for equal figures of few pairs takes longer than the function.
    if arrays[0].size < _MANY_PAIRS:
        return function(*arrays)
    varying = [array for array in arrays if array.min() != array.max()]
    if len(varying) > 1:
        return function(*arrays)
    # The figure that all pairs share serves as well where none varies.
    key = varying[0] if varying else arrays[0]
    distinct, places = np.unique(key, return_inverse=True)
    values = function(*(distinct if array is key else array.flat[:1] for array in arrays))
    return np.asarray(values[places].reshape(arrays[0].shape))


def log_p_of_losses(gap: Floats, loss: Floats, losses: Floats, n: Floats) -> Floats:
    """Return the log of the chance that losses still to come make up for a gap.

    It is the log of the level at which `losses_to_come` are ``gap / loss``; -inf where nothing can
    be lost.

    Parameters
    ----------
    gap : ndarray
        At least 0.
    loss : ndarray
        How much one loss lowers the gap.
    losses, n : ndarray
        See `losses_to_come`.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        without_loss = np.clip(1.0 - (losses + gap / loss) / n, 0.0, 1.0)
        log = np.log(betainc(np.maximum(n - losses, 1e-9), losses + 1.0, without_loss))
    return np.asarray(np.where(loss > 0.0, log, -np.inf))


def log_p_of_zeros(gap: Floats, zero_loss: Floats, zero_count: Floats) -> Floats:
    """Return the log of the chance that scores of 0 still to come make up for a gap.

    With ``k`` zeros so far, the imagined one included, and a gap of ``g`` zeros, it is at most
    ``k log(1 + g / k) - g``, which is returned; `zeros_to_come` inverts it. It is -inf where no
    zero can come.

    Parameters
    ----------
    gap : ndarray
        At least 0.
    zero_loss : ndarray
        `Belief.zero_loss` of the better model.
    zero_count : ndarray
        `Belief.zero_count` of the better model.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        many, k = gap / zero_loss, zero_count + IMAGINED_ZERO
        return np.asarray(np.where(zero_loss > 0.0, k * np.log1p(many / k) - many, -np.inf))


def tail(gap: Floats, variance: Floats, df: Floats) -> Floats:
    """Return the chance that Student's t of this df, times sqrt(variance), exceeds a gap from 0 on.

    It is 1/2 for a gap of 0, and for any gap of infinite variance.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        size = gap / np.sqrt(variance)
    size = np.where(np.isnan(size), 0.0, size)
    out = np.asarray(ndtr(-size))
    finite = np.isfinite(df)
    out[finite] = stdtr(np.minimum(df[finite], 1e9), -size[finite])
    return out


def log_p(z: Floats, clock: Floats) -> Floats:
    """Return the log of the two-sided level at which a difference is decided, at any look.

    Robbins' normal mixture, ``(log(1 + r) - z^2 r / (1 + r)) / 2`` with ``r`` the clock times a
    rate. A mean over ``n`` items drawn without replacement is Brownian motion on
    the clock ``n / (1 - n/N)``, one over its variance in units of one item's. The mixture bounds it
    at all times simultaneously (H. Robbins, "Statistical methods related to the law of the iterated
    logarithm", Annals of Mathematical Statistics 41, 1970); with an estimated variance the bound
    holds asymptotically (I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy and A. Ramdas,
    "Time-uniform central limit theory and asymptotic confidence sequences", arXiv:2103.06476).

    Parameters
    ----------
    z : ndarray
        Size of the difference, in standard errors.
    clock : ndarray
        Variance of one item over that of the mean.
    """
    r = clock * _RATE
    return np.asarray(np.minimum(0.5 * np.log1p(r) - 0.5 * z * z * r / (1.0 + r), 0.0))


def boundary(level: Floats | float, clock: Floats) -> Floats:
    """Return how many standard errors decide at a two-sided level: `log_p` inverted.

    They are ``sqrt((1 + 1/r) (log(1 + r) - 2 log level))``.

    Examples
    --------
    >>> boundary(0.05, np.array([60.0, 600.0])).round(2).tolist()
    [3.04, 3.24]
    """
    r = clock * _RATE
    return np.asarray(np.sqrt((1.0 + 1.0 / r) * (np.log1p(r) - 2.0 * np.log(level))))
