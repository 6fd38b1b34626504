"""Comparison of two models: the difference, its uncertainty, and the verdict.

`Verdicts` decide; a margin (how much worse is still good enough) is compared with the ends of their
interval. The compared documents count as a random sample of documents like them, so that an
interval says what other such documents would show. Documents in clusters (questions on one passage)
count by cluster (`clusters`). In matrices the baseline is row and column 0, the candidate 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..methods.belief import BENCHMARK, POPULATION, Belief
from ..methods.sample.bets import FEWEST_ITEMS
from ..methods.sample.pairs import IMAGINED_ITEMS, rare_loss
from ..methods.sample.repeats import RepeatFigures
from ..metrics.scale import Floats, Scale
from .clusters import Clusters, VarianceOfMean, fewest_clusters
from .looks import ROUNDING, Looks
from .verdicts import (
    BETTER,
    DECIDED,
    EQUIVALENT,
    NOT_KNOWN,
    NOT_WORSE,
    OPEN,
    WORDS,
    WORSE,
    Verdicts,
)

#: Scores of a document this close differ by rounding alone: logs hold six decimals, and some floats
#: of 32 bits. Below `FEWEST_ITEMS` documents, scores that all have three, four or five decimals may
#: be rounded to these; more of them tell that from a small gain.
ALIKE = 1e-6
_DECIMALS = (3, 4, 5)


@dataclass(frozen=True)
class StatedPair:
    """What is stated of a baseline and a candidate, on the metric's own scale.

    Attributes
    ----------
    baseline, candidate : float
        Mean scores.
    ends : (float, float)
        Of the interval of candidate less baseline.
    p_better : float
        Probability that the candidate is better, plus half of that of a tie.
    decision : str
        "decided", "equivalent" or "open".
    barred : bool
        Whether the pair may not be decided, so that no margin is kept or missed either.
    """

    baseline: float
    candidate: float
    ends: tuple[float, float]
    p_better: float
    decision: str
    barred: bool = False


@dataclass(frozen=True)
class Asked:
    """How much two models were asked, and how much more there is to ask.

    Attributes
    ----------
    documents : int
        Documents that both models have scores on.
    answers : int, optional
        Answers of each model, where documents are asked repeatedly.
    n_items : float
        Items of the benchmark, if the question is about these.
    rate : float
        The interval shrinks with the number of documents to this power, negated.
    """

    documents: int
    answers: int | None = None
    n_items: float = math.inf
    rate: float = 0.5

    def lacking(self, half_width: float, distance: float) -> int | None:
        """Return how many more documents, or answers, make a half width as small as a distance.

        None if no number does. After the last document of a benchmark the error is 0, so that
        number decides even at distance 0, where no number of documents of a population does.
        """
        factor = (half_width / distance) ** (1.0 / self.rate)
        if self.answers is not None:
            return _more_needed(self.answers, math.inf, factor)
        return _more_needed(self.documents, self.n_items, factor)


@dataclass(frozen=True)
class Difference:
    """Candidate minus baseline, on the metric's own scale.

    Attributes
    ----------
    documents : int
        Documents that both models have scores on.
    clusters : int or None
        Number of clusters that they come in.
    baseline, candidate : float
        Mean scores.
    difference, low, high : float
        Candidate minus baseline, and its interval.
    p_better : float
        Probability that the candidate is better, plus half of that of a tie. If scores are missing,
        several values are possible: this is the one nearest to 1/2.
    verdict : str
        "equivalent" (within +- the margin, even where that is "better"; without a margin, all
        scores equal), "better", "not worse" (by more than the margin), "worse" (by more than the
        margin) or "not known".
    more_documents : int or None
        About how many more documents would decide, if the difference stays as it is; None if it
        is decided already, or no number of documents would.
    answers, more_answers : int or None
        Answers of each model, where documents are asked repeatedly, and how many more would decide
        about these documents; `more_documents` is then None.
    missing : int
        Documents on which a model has no score: the interval allows for any score.
    """

    documents: int
    clusters: int | None
    baseline: float
    candidate: float
    difference: float
    low: float
    high: float
    p_better: float
    verdict: str
    more_documents: int | None
    answers: int | None = None
    more_answers: int | None = None
    missing: int = 0

    @classmethod
    def of(
        cls,
        verdicts: Verdicts,
        *,
        documents: int,
        margin: float = 0.0,
        scale: Scale | None = None,
        clusters: int | None = None,
        answers: int | None = None,
    ) -> Difference:
        """Build from verdicts on a baseline and a candidate, in this order.

        Parameters
        ----------
        verdicts : Verdicts
        documents : int
        margin : float, optional
            How much worse is still good enough, on the metric's own scale.
        scale : Scale, optional
            The metric's own; default [0, 1].
        clusters, answers : int, optional
            As the attributes. With `answers`, what would decide is counted in answers.
        """
        scale, belief = scale or Scale(), verdicts.belief.on_scores
        low, high = (scale.span * float(ends[1, 0]) for ends in verdicts.intervals())
        baseline, candidate = (float(scale.restore(location)) for location in belief.location)
        up = 1.0 if scale.higher_is_better else -1.0
        same_mean = abs(belief.location[1] - belief.location[0]) <= ROUNDING
        same_scores = same_mean and belief.variance[0, 1] <= ROUNDING**2
        zero_count = belief.zero_count
        neither_lost = zero_count is not None and not zero_count[~np.eye(2, dtype=bool)].any()
        stated_pair = StatedPair(
            baseline,
            candidate,
            ends=(up * low, up * high),
            p_better=float(verdicts.better[1, 0]),
            decision=WORDS[verdicts.state[1, 0]],
            barred=bool(verdicts.barred[1, 0]),
        )
        # If no document favours either model, the interval covers only differences that may still
        # come. It shrinks with the number of documents n as 1/n, others as 1/sqrt(n).
        rate = 1.0 if same_mean and neither_lost else 0.5
        asked = Asked(documents, answers, belief.n_items, rate)
        difference = cls.stated(stated_pair, asked, scale, margin)
        # Without a margin "equivalent" means that all scores are equal.
        if same_scores and margin == 0.0:
            difference = replace(difference, verdict=WORDS[EQUIVALENT], more_documents=None)
        # More answers to these documents tell nothing of others.
        if belief.question == POPULATION and answers is not None:
            difference = replace(difference, more_answers=None)
        return replace(difference, clusters=clusters)

    @classmethod
    def stated(
        cls, pair: StatedPair, asked: Asked, scale: Scale, margin: float = 0.0
    ) -> Difference:
        """Build from an interval and the decision that goes with it.

        Parameters
        ----------
        pair : StatedPair
        asked : Asked
        scale : Scale
            The metric's own.
        margin : float, optional
            How much worse is still good enough, on this scale.

        Examples
        --------
        >>> pair = StatedPair(4.0, 3.4, ends=(-2.0, 0.8), p_better=0.8, decision="open")
        >>> lower = Scale(0, 10, higher_is_better=False)
        >>> Difference.stated(pair, Asked(documents=50), lower, margin=1.0).verdict
        'not worse'
        """
        # Rounding can leave a tiny difference between equal means. Below, + 0.0 makes 0 of -0.
        difference = pair.candidate - pair.baseline
        difference = difference if abs(difference) > ROUNDING * scale.span else 0.0
        up = 1.0 if scale.higher_is_better else -1.0
        gain, (low, high) = up * difference, sorted(up * end for end in pair.ends)
        # A difference of exactly the margin keeps it, so rounding must not push it beyond.
        limit = margin + ROUNDING * scale.span
        verdict = _verdict(pair.decision, gain, (low, high), margin, limit)
        lacking, repeated = None, asked.answers is not None
        # No number of documents decides a pair that may not be decided.
        if pair.barred:
            verdict = NOT_KNOWN
        elif verdict == NOT_KNOWN:
            # Worse and not worse meet where the gain is -margin.
            to_margin = max(abs(gain + margin), ROUNDING * scale.span)
            lacking = asked.lacking(0.5 * (high - low), to_margin)
        return cls(
            documents=asked.documents,
            clusters=None,
            baseline=pair.baseline,
            candidate=pair.candidate,
            difference=difference,
            low=max(min(pair.ends) + 0.0, -scale.span),
            high=min(max(pair.ends) + 0.0, scale.span),
            p_better=pair.p_better,
            verdict=verdict,
            more_documents=None if repeated else lacking,
            answers=asked.answers,
            more_answers=lacking if repeated else None,
        )

    def with_missing(
        self, extremes: Sequence[Difference], missing: int, scale: Scale, margin: float
    ) -> Difference:
        """Return this difference as far as it is known if missing scores may lie anywhere.

        Parameters
        ----------
        extremes : sequence of Difference
            With the missing scores at their worst and at their best.
        missing : int
            Documents without a score of both models.
        scale : Scale
        margin : float
        """
        low, high = min(end.low for end in extremes), max(end.high for end in extremes)
        smaller, larger = sorted(end.p_better for end in extremes)
        stated_pair = StatedPair(
            self.baseline, self.candidate, (low, high),
            p_better=min(max(0.5, smaller), larger),
            decision=WORDS[DECIDED if low > 0.0 or high < 0.0 else OPEN],
        )  # fmt: skip
        asked = Asked(self.documents - missing)
        bounded = Difference.stated(stated_pair, asked, scale, margin)
        return replace(
            bounded, more_documents=None, clusters=self.clusters, answers=self.answers,
            missing=missing,
        )  # fmt: skip


def _verdict(
    decision: str, gain: float, interval: tuple[float, float], margin: float, limit: float
) -> str:
    """Return the verdict on a candidate, whose `gain` is positive where it is better.

    Parameters
    ----------
    decision : str
        The ranking's on the pair.
    gain : float
    interval : (float, float)
        Of the gain.
    margin, limit : float
        How much worse is still good enough, and the same with room for rounding.
    """
    low, high = interval
    # "Equivalent" in a ranking means within `min_difference`; here it means within this margin, or
    # without a margin that the ranking says so.
    if -limit <= low <= high <= limit and (0.0 < margin or decision == WORDS[EQUIVALENT]):
        return WORDS[EQUIVALENT]
    if decision == WORDS[DECIDED] and gain > 0.0:
        return BETTER
    if high < -limit or (decision == WORDS[DECIDED] and margin == 0.0):
        return WORSE
    return NOT_WORSE if 0.0 < margin and -limit <= low else NOT_KNOWN


def _more_needed(asked: int, n_items: float, factor: float) -> int | None:
    """Return how many more documents it takes; None if it takes a billion or more.

    Of a population, `factor` times those asked would be enough. Of a benchmark of N items, ``n'``
    are enough with ``1 / n' = 1 / N + (1 - asked / N) / (factor asked)``.

    Examples
    --------
    >>> _more_needed(100, math.inf, 2.5), _more_needed(100, 500, 2.5)
    (150, 93)
    >>> _more_needed(100, 500, math.inf)
    """
    if not math.isfinite(factor):
        return None
    needed = asked * factor
    if math.isfinite(n_items):
        needed = 1.0 / (1.0 / n_items + (1.0 - asked / n_items) / needed)
    return max(math.ceil(needed) - asked, 1) if needed < 1e9 else None


def compare_scores(
    baseline: Floats,
    candidate: Floats,
    *,
    scale: Scale | None = None,
    clusters: NDArray[Any] | None = None,
    exact: bool = False,
    margin: float = 0.0,
    confidence: float = 0.95,
    repeats: RepeatFigures | None = None,
    these_items: bool = False,
) -> Difference:
    """Compare two models, in a single look, on documents that both have scores on.

    Differences that differ by no more than rounding count as equal. If all are equal, their
    variance is what half an imagined document with a difference of 0 would add. The interval also
    allows for kinds of documents that are too rare to be among these and may favour the other model
    (`_PairError.of_documents`).

    Parameters
    ----------
    baseline, candidate : ndarray of shape (n_documents,)
        One score per document, on [0, 1], higher is better; with several repeats, their mean.
    scale : Scale, optional
        The metric's own scale, on which margin and result are.
    clusters : ndarray of shape (n_documents,), optional
        Label of each document's cluster.
    exact : bool, optional
        Compare these very scores on these documents: their mean difference has no error.
    margin : float, optional
        How much worse is still good enough.
    confidence : float, optional
        Two-sided.
    repeats : RepeatFigures, optional
        What all answers tell, where documents were asked repeatedly; arrays of shape (1,).
    these_items : bool, optional
        Compare expected scores on these documents. It matters where `repeats` have more answers
        than documents: the error is then the noise within documents alone.

    Raises
    ------
    ValueError
        There is no document.

    Examples
    --------
    >>> a, b = np.tile([0.2, 0.4, 0.3], 20), np.tile([0.3, 0.4, 0.5], 20)
    >>> compare_scores(a, b).verdict
    'better'
    """
    baseline, candidate = (np.asarray(side, dtype=np.float64) for side in (baseline, candidate))
    if len(baseline) == 0:
        raise ValueError("no document that both models have a score on")
    n, differences = len(baseline), _DocumentDifferences.of(baseline, candidate)
    of_cluster = Clusters.of(np.arange(n) if clusters is None else clusters)
    answers = None if repeats is None else int(repeats.answers[0])
    # With repeats on these very documents the answers are a sample, and the documents are not.
    if repeats is not None and these_items and not exact and repeats.answers[0] > n:
        question, error, repeated_answers = BENCHMARK, _PairError.of_answers(repeats), answers
    else:
        # With fewer clusters than this the error is infinite.
        fewest = 0.0 if clusters is None else fewest_clusters(confidence)
        error = _PairError.of_documents(differences, of_cluster, fewest)
        question, repeated_answers = POPULATION, None
    belief = Belief(
        location=float(baseline.mean()) + np.array([0.0, differences.mean]),
        variance=np.full((2, 2), 0.0 if exact else error.variance),
        df=np.full((2, 2), max(error.df, 1)),
        n=np.full((2, 2), of_cluster.effective),
        n_items=math.inf,
        question=question,
        pair_zero_loss=error.zero_loss,
        zero_count=error.zero_count,
        rare_loss=error.rare_loss,
    )
    # Repeated answers come in passes over the documents, which have a boundary of their own.
    looks = Looks(single_look=True, pass_length=0 if repeated_answers is None else n)
    verdicts = Verdicts(
        belief, looks.after(belief, 1.0 - confidence), ("baseline", "candidate"), confidence
    )
    contrast = Difference.of(
        verdicts, documents=n, margin=margin, scale=scale,
        clusters=None if clusters is None else len(of_cluster.sizes), answers=repeated_answers,
    )  # fmt: skip
    return replace(contrast, answers=answers)


class _DocumentDifferences(NamedTuple):
    """How much higher the candidate scores than the baseline, document by document.

    Attributes
    ----------
    values : ndarray of shape (n_documents,)
        A difference that rounding explains is 0. If rounding explains all that the differences
        differ by, all are equal to `mean`.
    mean : float
    rounding : float
        By how much two values may differ through the rounding of scores.
    """

    values: Floats
    mean: float
    rounding: float

    @classmethod
    def of(cls, baseline: Floats, candidate: Floats) -> _DocumentDifferences:
        """Build from the scores of each document, shape (n_documents,)."""
        differences = candidate - baseline
        differences[np.abs(differences) <= ALIKE + ROUNDING] = 0.0
        gap, n = float(differences.mean()), len(differences)
        # Of few documents, scores may have been rounded to three decimals or more (see `ALIKE`).
        decimal = _last_decimal(baseline, candidate) if n < FEWEST_ITEMS else ALIKE
        # Two differences are of four scores, each of which is off by up to half a last decimal.
        rounding = 2.0 * decimal + ROUNDING
        # Rounding explains all: the differences are equal, and 0 if the mean is rounding, too.
        if np.abs(differences - gap).max() <= rounding:
            gap = gap if abs(gap) > 2.0 * ALIKE + ROUNDING else 0.0
            differences = np.full(n, gap)
        return cls(differences, gap, rounding)


def _error_of(
    differences: _DocumentDifferences, of_cluster: Clusters, fewest: float
) -> VarianceOfMean:
    """Return the variance of a mean difference; infinite below `fewest` (effective) clusters."""
    gap, residuals = differences.mean, differences.values - differences.mean
    n, squares = len(residuals), float((residuals**2).sum())
    variance, df = of_cluster.variance_of_mean(residuals, differences.rounding)
    alike = variance == 0.0
    # Equal differences do not prove that there is no variance.
    if squares == 0.0:
        variance = max(IMAGINED_ITEMS * (gap / of_cluster.effective) ** 2, ROUNDING**2)
    # Nor do clusters with equal means, whose documents differ: count the documents.
    elif alike:
        variance = squares / (n - 1) / n
    # Fewer than `FEWEST_ITEMS` equal clusters tell nothing, nor do fewer clusters than `fewest`.
    if n < 2 or of_cluster.effective < fewest or (alike and len(of_cluster.sizes) < FEWEST_ITEMS):
        variance = math.inf
    return VarianceOfMean(variance, df)


def _last_decimal(*sides: Floats) -> float:
    """Return the last decimal that all scores have, at most the third; `ALIKE` without one.

    Examples
    --------
    >>> _last_decimal(np.array([0.3333, 0.5])), _last_decimal(np.array([1 / 3, 0.5]))
    (0.0001, 1e-06)
    """
    scores = np.concatenate(sides)
    for decimals in _DECIMALS:
        if np.abs(scores - scores.round(decimals)).max() <= ROUNDING:
            return float(10.0**-decimals)
    return ALIKE


class _PairError(NamedTuple):
    """How far a mean difference may be off, and what documents not seen yet may change.

    Attributes
    ----------
    variance, df : float
        Of the mean difference.
    zero_loss, zero_count, rare_loss : ndarray of shape (2, 2)
        Of `Belief`, baseline first: by how much one more loss would lower the mean, how many losses
        the row's model has had beside the column's, and by how much one more rare loss would.
    """

    variance: float
    df: float
    zero_loss: Floats
    zero_count: Floats
    rare_loss: Floats

    @classmethod
    def of_answers(cls, figures: RepeatFigures) -> _PairError:
        """Return the error of expected scores on these documents: the noise of answers alone.

        One answer that comes out otherwise (`RepeatFigures.event`) may change the mean. Documents
        that were not asked change nothing, so that rare ones count as 0.
        """
        loss = np.full((2, 2), float(figures.event[0] / figures.answers[0]))
        no_documents = np.zeros((2, 2))
        variance, df = float(figures.variance[0]), float(figures.df[0])
        return cls(variance, df, loss, zero_count=no_documents, rare_loss=no_documents)

    @classmethod
    def of_documents(
        cls, differences: _DocumentDifferences, of_cluster: Clusters, fewest: float
    ) -> _PairError:
        """Return the error of a mean over documents like these; infinite below `fewest` clusters.

        On a document where the difference is below the median, the candidate loses; above it, the
        baseline does. Few losses are a rare kind of document. They count by the sum of their
        squares, over the square of the usual size of a rare loss.
        """
        variance, df = _error_of(differences, of_cluster, fewest)
        away = np.median(differences.values) - differences.values
        away[np.abs(away) <= differences.rounding] = 0.0
        loss = float(rare_loss((away**2).sum(), np.abs(away).sum()))
        losses_of_baseline, losses_of_candidate = np.maximum(-away, 0.0), np.maximum(away, 0.0)
        share = np.zeros((2, 2))
        share[0, 1] = float((losses_of_baseline**2).sum()) / loss**2 / len(away)
        share[1, 0] = float((losses_of_candidate**2).sum()) / loss**2 / len(away)
        # As many independent documents as these clusters are worth.
        documents = of_cluster.effective
        rare = np.full((2, 2), loss / documents)
        return cls(variance, df, rare, zero_count=share * documents, rare_loss=rare)
