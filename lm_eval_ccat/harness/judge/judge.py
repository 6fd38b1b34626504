"""`Judge`: rates answers from 1 to 10 by asking one or several language models."""

from __future__ import annotations

import logging
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import HarnessError, UsageError
from ..noting import unscored
from .agreement import Agreement, agreement
from .asking import Asked, Refusal
from .identity import relatives, same_models
from .member import Member, Vote
from .settings import JudgeSettings
from .usage import Usage

log = logging.getLogger("lm_eval.ccat")


@dataclass(frozen=True)
class Rating:
    """One answer's rating.

    Attributes
    ----------
    score : float
        From 1 to 10; NaN if there is none.
    reply : str
        What the (first) judge said last.
    cached : bool
        Whether it was known before and cost nothing.
    ratings : tuple of float
        Of each judge and repeat; NaN where one gave none.
    error : str
        Why the answer could not be judged; "" where it could.
    """

    score: float
    reply: str
    cached: bool
    ratings: tuple[float, ...] = ()
    error: str = ""


class Judge:
    """Rates answers from 1 to 10.

    Parameters
    ----------
    settings : JudgeSettings
        One judge or several, asked once or repeatedly.
    *asked : Asked, optional
        What is asked, one for each judge; by default what the settings name.

    Raises
    ------
    UsageError
        If the judge is one of ``settings.judged`` and may not be, or its prompt cannot be read.
    """

    def __init__(self, settings: JudgeSettings, *asked: Asked) -> None:
        self.settings = settings
        self.members = [
            Member(member, asked[i] if i < len(asked) else None)
            for i, member in enumerate(settings.members)
        ]
        self._rated: list[tuple[float, ...]] = []
        self._known: set[str] = set()
        self.judges(settings.judged)

    @property
    def usage(self) -> Usage:
        """What all judges have been asked, and what it cost."""
        return Usage.total(member.usage for member in self.members)

    def judges(self, models: Iterable[str]) -> None:
        """Say which models are under test.

        Raises
        ------
        UsageError
            If the judge is one of them, unless its settings allow that.
        """
        new = [name for name in dict.fromkeys(models) if name not in self._known]
        for member in self.settings.members:
            judge = member.model
            itself = same_models(judge, new)
            if itself and not member.allow_self:
                raise UsageError(
                    f"judge {judge} is one of the judged models ({itself[0]}): a model that rates "
                    "itself is no judge; take another, or set `allow_self: true` in its file"
                )
            related = relatives(judge, new)
            if related:
                log.warning(
                    "judge %s is of the same family as %s, and judges tend to prefer their own "
                    "family",
                    judge,
                    ", ".join(related),
                )
        self._known.update(new)

    def rate(self, **fields: str) -> Rating:
        """Rate one answer.

        While a session scores, a rating that cannot be had is NaN with its error, so that the
        answer keeps its other scores; elsewhere it raises.

        Parameters
        ----------
        **fields : str
            What the prompt has to be filled in with (``question``, ``answer`` ...).

        Raises
        ------
        HarnessError
            If the answer cannot be judged.
        """
        try:
            [rating] = self.rate_all([fields])
        except HarnessError as error:
            return Rating(unscored(error), "", False, (), str(error))
        if rating.error:
            unscored(HarnessError(rating.error))
        return rating

    def rate_all(self, answers: Sequence[Mapping[str, str]]) -> list[Rating]:
        """Rate several answers, as many at a time as the judges take.

        What was paid for is kept, also where some requests fail: a refused answer has a NaN
        rating with the reason, the others theirs.

        Raises
        ------
        UsageError
            If the prompt asks for a field that is not given.
        HarnessError
            If a judge does not answer; ratings that came in are in the cache, and cost nothing
            when they are asked for again.
        """
        columns: list[list[Vote]] = []
        failures: list[HarnessError] = []
        for member in self.members:
            for repeat in range(self.settings.repeats):
                column = member.rate(answers, repeat)
                columns.append(column)
                failures += [
                    v.error for v in column if v.error and not isinstance(v.error, Refusal)
                ]
        if failures:
            raise failures[0]
        return [self._rating(votes) for votes in zip(*columns)]

    def agreement(self) -> Agreement | None:
        """How far judges and repeats agreed so far; None where there is one rating each."""
        return agreement(self._rated)

    def describe(self) -> str:
        """One line for people: requests, cost, agreement."""
        found = self.agreement()
        return self.usage.describe() + (f"; {found.describe()}" if found else "")

    def _rating(self, votes: Sequence[Vote]) -> Rating:
        scores = tuple(vote.score for vote in votes)
        self._rated.append(scores)
        errors = [str(vote.error) for vote in votes if vote.error]
        return Rating(
            reduced(scores, self.settings.reducer),
            votes[0].reply,
            all(vote.cached for vote in votes),
            scores,
            errors[0] if len(errors) == len(votes) else "",
        )


def reduced(scores: Sequence[float], how: str) -> float:
    """One rating of several; NaN where there is none.

    A judge without a rating withholds its vote from a majority, and is left out of the others.

    >>> reduced([8, 8, 3], "majority"), reduced([8, 8, 3], "median")
    (8, 8.0)
    >>> reduced([8, float("nan"), 3], "majority")
    nan
    """
    given = [score for score in scores if not math.isnan(score)]
    if not given:
        return math.nan
    if how in ("majority", "mode"):
        score, votes = Counter(given).most_common(1)[0]  # of equally many the one met first
        return score if how == "mode" or 2 * votes > len(scores) else math.nan
    return float(statistics.median(given) if how == "median" else statistics.fmean(given))
