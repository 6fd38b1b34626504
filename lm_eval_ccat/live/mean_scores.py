"""Means over the full benchmark, as runs state them or scores say, and their comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, stdtrit

from ..methods.belief import RUN, zeros_to_come
from ..methods.sample.bets import FEWEST_ITEMS
from ..metrics.scale import Scale
from ..ranker.difference import Asked, Difference, StatedPair
from ..ranker.looks import ROUNDING
from ..ranker.verdicts import DECIDED, EQUIVALENT, OPEN, WORDS
from ..scores import ScoreTable
from .comparison import Compared, Gate, is_exact
from .scored import has_sampled_answers
from .stored import StoredRanking


def compare_estimates(
    first: ScoreTable | StoredRanking,
    second: ScoreTable | StoredRanking,
    names: tuple[str, str],
    gate: Gate,
) -> Compared:
    """Compare what runs state, or what one states with scores, on the full benchmark."""
    ranking = first if isinstance(first, StoredRanking) else second
    assert isinstance(ranking, StoredRanking)
    content, scale, outcome = ranking.content, ranking.scale, ranking.outcome
    # A run states means for its own question. Where the question is about these very answers, the
    # run asked that, or it was not sampled, so that the means are the same.
    question = RUN if gate.question == RUN else content["question"]
    baseline, candidate = (
        MeanScore.of(side, name, question, gate) for side, name in zip((first, second), names)
    )
    sampled = any(map(_is_sampled, (first, second), names))
    # A ranking of both models states their pair; means from two sources are independent.
    pair = None
    if isinstance(first, StoredRanking) and isinstance(second, StoredRanking):
        pair = first.pair(names[1], names[0]) if first.source == second.source else None
    if pair is not None:
        stated_pair = StatedPair(
            baseline.mean, candidate.mean, (pair["low"], pair["high"]), pair["p"], pair["decision"],
            barred=pair.get("barred", False),
        )  # fmt: skip
        overall = Difference.stated(stated_pair, baseline.asked_with(candidate), scale, gate.margin)
        # The result of the ranking states what would decide the pair.
        overall = replace(overall, more_documents=None, more_answers=None)
    else:
        # Where one answer to every item tells all, no more documents can be needed than there are.
        exact = is_exact(question, sampled)
        size = float(content["items_of_benchmark"]) if exact else math.inf
        overall = _difference_of_independent(baseline, candidate, scale, gate, size)
    return Compared(
        outcome.task, outcome.metric, outcome.filter, scale.describe(), overall, {},
        question=question, sampled=sampled,
        higher_is_better=scale.higher_is_better, weighted=bool(ranking.terms),
    )  # fmt: skip


def _is_sampled(side: ScoreTable | StoredRanking, name: str) -> bool:
    """Whether a model's answers are draws, of which one to every item leaves noise."""
    if isinstance(side, StoredRanking):
        return bool(side.content.get("sampled", False))
    return has_sampled_answers(side, name)


@dataclass(frozen=True)
class MeanScore:
    """A model's mean over the full benchmark with its interval, on the metric's own scale.

    Attributes
    ----------
    mean, error : float
        With its standard error.
    low, high : float
        Ends of the interval.
    documents : int
        Number of documents that were answered.
    answers : int or None
        Number of answers, where documents are asked repeatedly.
    """

    mean: float
    error: float
    low: float
    high: float
    documents: int
    answers: int | None = None

    @classmethod
    def of(
        cls, side: ScoreTable | StoredRanking, name: str, question: str, gate: Gate
    ) -> MeanScore:
        """Return what a run states of a model, or what scores of all documents say to its question.

        Parameters
        ----------
        side : ScoreTable or StoredRanking
        name : str
        question : str
        gate : Gate
        """
        if isinstance(side, StoredRanking):
            block = side.content["models"][name]
            # A reference model has full results, and was asked nothing.
            size = side.content["items_of_benchmark"]
            n = block["n_items"] or size
            answers = n if "answers_of_benchmark" in side.content else None
            low, high = sorted(block["interval"])
            mean, error = block["estimate"], block["standard_error"]
            return cls(mean, error, low, high, n if answers is None else min(n, size), answers)
        scores = side.select([name]).model_scores()[0]
        raw = side.scale.restore(scores[np.isfinite(scores)])
        n, mean = len(raw), float(raw.mean())
        # One value says nothing of the others, which may lie anywhere on the scale.
        error = float(raw.std(ddof=1) if n > 1 else side.scale.span) / math.sqrt(n)
        # Equal values do not show that all others are equal.
        if error <= ROUNDING * side.scale.span:
            largest_gap = max(abs(mean - end) for end in side.scale.ends)
            error = side.scale.span / math.sqrt(n)
            if n >= FEWEST_ITEMS:
                error = _error_of_equal_values(largest_gap, n, gate.confidence)
        error = 0.0 if is_exact(question, _is_sampled(side, name)) else error
        half_width = error and error * float(stdtrit(max(n - 1, 1), 0.5 + 0.5 * gate.confidence))
        return cls(mean, error, mean - half_width, mean + half_width, n)

    def asked_with(self, second: MeanScore, n_items: float = math.inf) -> Asked:
        """Return what the side with fewer documents, or answers, was asked, of `n_items`."""
        sides, answers = (self, second), None
        if any(side.answers is not None for side in sides):
            answers = min(side.answers or side.documents for side in sides)
        return Asked(min(side.documents for side in sides), answers, n_items)


def _error_of_equal_values(largest_gap: float, n: float, confidence: float) -> float:
    """Return the standard error of a mean of `n` equal values, which do not prove no variance.

    With Student's quantile it gives the interval that a live model with the same answers has. That
    interval allows for values not seen yet, which differ from these by `largest_gap`, the most that
    the scale allows. For 300 values of 1 its half width is 0.014.
    """
    reach = zeros_to_come(1.0 - confidence, 0.0) * largest_gap / n
    return float(reach / stdtrit(n - 1.0, 0.5 + 0.5 * confidence))


def _difference_of_independent(
    baseline: MeanScore, candidate: MeanScore, scale: Scale, gate: Gate, size: float
) -> Difference:
    """Compare two means that were estimated apart.

    The arms of the two intervals add up as the root of their squares (R. G. Newcombe, Statistics
    in Medicine 17, 1998), and hold at the looks at which these intervals hold.
    """
    gap = candidate.mean - baseline.mean
    low = gap - math.hypot(baseline.high - baseline.mean, candidate.mean - candidate.low)
    high = gap + math.hypot(baseline.mean - baseline.low, candidate.high - candidate.mean)
    error = math.hypot(baseline.error, candidate.error)
    gain = gap if scale.higher_is_better else -gap
    better = float(ndtr(gain / error)) if error else 0.5 * (1.0 + float(np.sign(gain)))
    equal = max(abs(low), abs(high)) <= ROUNDING * scale.span
    decision = EQUIVALENT if equal else DECIDED if low > 0.0 or high < 0.0 else OPEN
    stated_pair = StatedPair(baseline.mean, candidate.mean, (low, high), better, WORDS[decision])
    return Difference.stated(stated_pair, baseline.asked_with(candidate, size), scale, gate.margin)
