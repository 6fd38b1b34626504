"""A judge, asked once or repeatedly, and how far its ratings and those of a second one agree."""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from ...errors import HarnessError, JudgeError, UsageError
from ...money import Tokens
from ..served import patience_with_judge, unscored
from .judge_settings import JudgeSettings, plain_name
from .rater import Rater, Rating, Usage

logger = logging.getLogger(__name__)


class Judge:
    """Rates answers from 1 to 10.

    Parameters
    ----------
    settings : JudgeSettings
        With a `second` judge, whose ratings show how far the two agree and score nothing.
    sleep : callable, optional
        Waits between attempts.

    Raises
    ------
    UsageError
        If the judge is one of ``settings.judged`` without `allow_self`, or has no readable prompt.
    """

    def __init__(
        self, settings: JudgeSettings, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.settings = settings
        self.usage = Usage()
        self._rater = Rater(settings, self.usage, sleep)
        second = settings.second
        # Its ratings score nothing, so that nobody waits for it.
        self._second = Rater(second, self.usage, sleep, waits=False) if second else None
        # Of each answer so far, the ratings of all repeats and, if it has one, the second judge's.
        self._rated: list[tuple[float, ...]] = []
        self._judged_models: set[str] = set()
        self.add_judged_models(settings.judged)

    def add_judged_models(self, models: Iterable[str]) -> None:
        """Register models under test.

        Raises
        ------
        UsageError
            If the judge is one of them, unless its settings allow that.
        """
        new = [name for name in dict.fromkeys(models) if name not in self._judged_models]
        for judge in filter(None, (self.settings, self.settings.second)):
            itself = [name for name in new if plain_name(name) == plain_name(judge.model)]
            # A model rates its own answers higher than others do.
            if itself and not judge.allow_self:
                raise UsageError(
                    f"judge {judge.model} is one of the judged models ({itself[0]}): a model that "
                    "rates itself is no judge; take another, or set `allow_self: true` in its file"
                )
        self._judged_models.update(new)

    def keep_in(self, path: Path | None) -> None:
        """Keep replies in a file from now on, and use those that it holds; None: in none.

        A judge with a cache of its own keeps them there.
        """
        for rater in filter(None, (self._rater, self._second)):
            rater.keep_in(path)

    def expected_usd(self, tokens: Tokens, at_limit: bool) -> float:
        """Return the dollars that judging an answer is expected to cost; 0 without a price.

        Parameters
        ----------
        tokens : Tokens
            Of the question and the answer.
        at_limit : bool
            Whether replies are as long as they may be.
        """
        usd = self.settings.repeats * self._rater.expected_usd(tokens, at_limit)
        return usd + (self._second.expected_usd(tokens, at_limit) if self._second else 0.0)

    def rate(self, **fields: str) -> Rating:
        """Rate one answer.

        While a session scores, a failed rating is NaN with its error, so that the answer keeps its
        other scores; elsewhere, the error is raised. A reply without a rating is NaN in both.

        Parameters
        ----------
        **fields : str
            Values for the fields of the prompt (``question``, ``answer`` ...).

        Raises
        ------
        UsageError
            If the prompt asks for a field that is not given.
        HarnessError
            Elsewhere, if the answer cannot be judged.
        JudgeError
            In a run that waits for the judge: if it can be asked nothing.
        """
        try:
            [rating] = self.rate_all([fields])
        # That the judge can be asked nothing is no fault of this answer.
        except JudgeError:
            raise
        except UsageError as error:
            # In a run, the mistake in the judge's file must not count as a failure of the model.
            if patience_with_judge() is not None:
                raise JudgeError(str(error)) from error
            raise
        except HarnessError as error:
            return Rating(unscored(error), "", False, (), str(error))
        if rating.error:
            unscored(HarnessError(rating.error))
        # A judge that replies without a rating leaves the answer as unscored as one that refuses.
        elif all(map(math.isnan, rating.ratings)):
            why = f"no rating in what {self.settings.model} replied: {rating.reply[:80]!r}"
            # A judge that reasons at length says nothing else, and its server reports no failure.
            if rating.is_cut:
                why += ", cut off at its limit of tokens; raise `max_tokens` in its file"
            with suppress(HarnessError):  # raised outside a session
                unscored(HarnessError(why))
        return rating

    def rate_all(self, answers: Sequence[Mapping[str, str]]) -> list[Rating]:
        """Rate several answers, as many at a time as the judge takes.

        A refused answer gets a NaN rating with the reason; the others keep their ratings.

        Raises
        ------
        UsageError
            If the prompt asks for a field that is not given.
        HarnessError
            If the judge does not answer; ratings received before are in the cache and cost nothing
            if they are asked for again.
        """
        by_repeat = [self._rater.rate(answers, n) for n in range(self.settings.repeats)]
        second_ratings = self._second_ratings(answers)  # none without a second judge
        ratings = []
        for votes, second in zip_longest(zip(*by_repeat), second_ratings):
            scores = tuple(vote.score for vote in votes)
            self._rated.append(scores if second is None else (*scores, second.score))
            score = reduced(scores, self.settings.reducer)
            cached = all(vote.cached for vote in votes)
            error = votes[0].error if all(vote.error for vote in votes) else ""
            is_cut = any(vote.is_cut for vote in votes)
            ratings.append(Rating(score, votes[0].reply, cached, scores, error, is_cut))
        return ratings

    def _second_ratings(self, answers: Sequence[Mapping[str, str]]) -> list[Rating]:
        """Return the second judge's ratings; none if there is no such judge, or it fails.

        Once it fails it is asked no more: its ratings score nothing, and must not cost those of the
        first judge.
        """
        if self._second is None:
            return []
        try:
            return self._second.rate(answers, 0)
        except HarnessError as error:
            logger.warning("%s; it is asked no more, and agreement is that until now", error)
            self._second = None
            return []

    def agreement(self) -> Agreement | None:
        """Return the agreement of all ratings so far; None with one rating per answer."""
        return agreement(self._rated)

    def describe(self) -> str:
        """One line for people: requests, cost, agreement."""
        agreed = self.agreement()
        return self.usage.describe() + (f"; {agreed.describe()}" if agreed else "")


def reduced(scores: Sequence[float], how: str) -> float:
    """Reduce several ratings to one; NaN if there is none.

    >>> reduced([8, 8, 3], "mode"), reduced([8, 8, 3], "median"), reduced([8, 4], "mean")
    (8, 8.0, 6.0)
    """
    rated = [score for score in scores if not math.isnan(score)]
    if not rated:
        return math.nan
    if how == "mode":
        return Counter(rated).most_common(1)[0][0]  # of equally frequent ones the first
    return float(statistics.median(rated) if how == "median" else statistics.fmean(rated))


# -- agreement of several raters ------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """Agreement of the raters over the answers that at least two of them rated.

    Attributes
    ----------
    answers : int
        Number of those answers.
    alpha : float
        Krippendorff's alpha for interval data (Hayes and Krippendorff 2007): 1 is perfect, 0 is
        chance; NaN if all ratings are equal.
    spread : float
        Mean absolute difference of two ratings of one answer, on the scale of 1 to 10.
    same : float
        Share of pairs of ratings of one answer that are equal.
    """

    answers: int
    alpha: float
    spread: float
    same: float

    def describe(self) -> str:
        """One line for people."""
        alpha = "not defined" if math.isnan(self.alpha) else f"{self.alpha:.2f}"
        return (
            f"agreement over {self.answers} answers: Krippendorff's alpha {alpha}, "
            f"{self.same:.0%} equal, mean difference {self.spread:.2f}"
        )


def agreement(ratings: Sequence[Sequence[float]]) -> Agreement | None:
    """Compute how far raters agree.

    Parameters
    ----------
    ratings : sequence of sequence of float
        A row for each answer, with the ratings, from 1 to 10, of its raters; NaN where one gave
        none. Rows may differ in length.

    Returns
    -------
    Agreement or None
        None if no answer has two ratings.

    Examples
    --------
    >>> round(agreement([[1, 1], [10, 10], [5, 6]]).alpha, 6)
    0.989775
    """
    rows = [row[~np.isnan(row)] for row in (np.asarray(row, float) for row in ratings)]
    rows = [row for row in rows if len(row) > 1]
    if not rows:
        return None
    values = np.concatenate(rows)
    gaps = np.concatenate(
        [abs(np.subtract.outer(row, row))[np.triu_indices(len(row), 1)] for row in rows]
    )
    # Alpha is 1 - observed / expected disagreement: the mean squared difference of two ratings of
    # one answer, over that of any two ratings. Either is twice a variance, so that the twos cancel;
    # an answer with m ratings counts m times.
    within = sum(len(row) * row.var(ddof=1) for row in rows) / len(values)
    alpha = 1 - within / values.var(ddof=1) if np.ptp(values) > 0 else math.nan
    return Agreement(len(rows), float(alpha), float(gaps.mean()), float(np.mean(gaps == 0)))
