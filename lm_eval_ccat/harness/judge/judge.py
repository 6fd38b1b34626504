"""`Judge`: rates answers from 1 to 10 by asking one or several language models."""

from __future__ import annotations

import atexit
import logging
import math
import os
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from threading import Lock
from typing import Any

from ...errors import HarnessError, UsageError
from .. import internals
from ..served import unscored
from .asking import JudgeModel, Refusal
from .member import PanelMember, Usage, Vote
from .settings import JudgeSettings

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
    *asked : JudgeModel, optional
        What is asked, one for each judge; by default what the settings name.

    Raises
    ------
    UsageError
        If the judge is one of ``settings.judged`` and may not be, or its prompt cannot be read.
    """

    def __init__(self, settings: JudgeSettings, *asked: JudgeModel) -> None:
        self.settings = settings
        self.members = [
            PanelMember(member, asked[i] if i < len(asked) else None)
            for i, member in enumerate(settings.members)
        ]
        self._rated: list[tuple[float, ...]] = []
        self._known: set[str] = set()
        self.judges(settings.judged)

    @property
    def usage(self) -> Usage:
        """Requests to all judges, and their cost."""
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
        """Return the agreement of judges and repeats so far; None with one rating per answer."""
        return agreement(self._rated)

    def describe(self) -> str:
        """One line for people: requests, cost, agreement."""
        agreed = self.agreement()
        return self.usage.describe() + (f"; {agreed.describe()}" if agreed else "")

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
    rated = [score for score in scores if not math.isnan(score)]
    if not rated:
        return math.nan
    if how in ("majority", "mode"):
        score, votes = Counter(rated).most_common(1)[0]  # of equally many the one met first
        return score if how == "mode" or 2 * votes > len(scores) else math.nan
    return float(statistics.median(rated) if how == "median" else statistics.fmean(rated))


# -- how far ratings agree ------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """Agreement of the raters over the answers that at least two of them rated.

    Attributes
    ----------
    answers : int
        How many those are.
    alpha : float
        Krippendorff's alpha for interval data (Hayes and Krippendorff 2007): 1 is perfect, 0 what
        chance gives; NaN where all ratings are the same.
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
    """Agreement of ratings, one row for each answer, NaN where a rater gave none.

    Returns
    -------
    Agreement or None
        None where no answer has two ratings.

    Examples
    --------
    >>> agreement([[1, 1], [10, 10], [5, 6]]).alpha
    0.9897750511247444
    """
    rows = [[value for value in row if not math.isnan(value)] for row in ratings]
    rows = [row for row in rows if len(row) > 1]
    if not rows:
        return None
    pairs = [(a, b) for row in rows for a, b in combinations(row, 2)]
    values = [value for row in rows for value in row]
    n, mean = len(values), math.fsum(values) / len(values)
    # Mean squared difference within answers (each pair of a row of m counts 2/(m - 1)), and of all.
    within = math.fsum(
        2 * math.fsum((a - b) ** 2 for a, b in combinations(row, 2)) / (len(row) - 1)
        for row in rows
    ) / n  # fmt: skip
    between = 2 * math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return Agreement(
        len(rows),
        1 - within / between if between > 0 else math.nan,
        math.fsum(abs(a - b) for a, b in pairs) / len(pairs),
        sum(a == b for a, b in pairs) / len(pairs),
    )


# -- is a judge one of the models it judges, or of their family? -----------------------------------

#: Words of model names -> the family. A judge tends to prefer texts like its own.
FAMILIES: dict[str, tuple[str, ...]] = {
    "OpenAI": ("gpt", "chatgpt", "davinci", "o1", "o3", "o4"),
    "Anthropic": ("claude",),
    "Google": ("gemini", "gemma", "palm", "bard"),
    "Llama": ("llama", "vicuna", "alpaca", "tulu"),
    "Qwen": ("qwen", "qwq", "qvq"),
    "Mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral"),
    "DeepSeek": ("deepseek",),
    "Phi": ("phi",),
    "Cohere": ("command", "aya", "c4ai"),
    "Grok": ("grok",),
    "Nova": ("nova",),
    "Yi": ("yi",),
    "OLMo": ("olmo",),
    "Falcon": ("falcon",),
    "Granite": ("granite",),
    "GLM": ("glm", "chatglm"),
    "Kimi": ("kimi", "moonshot"),
    "Nemotron": ("nemotron",),
    "EleutherAI": ("pythia", "gptneo", "gptj", "neox"),
}

_DATE = re.compile(r"[-@:](?:20\d{2}-?\d{2}-?\d{2}|\d{4}|latest|preview)$")


def plain_name(name: str) -> str:
    """A model's name without its provider, release date and case.

    >>> plain_name("openai/GPT-4o-2024-08-06")
    'gpt-4o'
    """
    short = name.strip().rstrip("/").rsplit("/", 1)[-1].lower()
    while (cut := _DATE.sub("", short)) != short:
        short = cut
    return short


def families(name: str) -> set[str]:
    """The families of a model by its name; a distilled model may have two, an unknown one none.

    >>> families("meta-llama/Llama-3.1-8B-Instruct")
    {'Llama'}
    """
    words = re.findall(r"[a-z]+\d?", re.sub(r"gpt-(neo|j)", r"gpt\1", plain_name(name)))
    stems = {*words, *(word.rstrip("0123456789") for word in words)}
    return {label for label, members in FAMILIES.items() if stems & set(members)}


def same_models(judge: str, judged: Iterable[str]) -> list[str]:
    """Return the judged models that are the judge itself."""
    return [name for name in judged if plain_name(name) == plain_name(judge)]


def relatives(judge: str, judged: Iterable[str]) -> list[str]:
    """Return the judged models of the judge's family, except for the judge itself."""
    family = families(judge)
    return [
        name for name in judged if families(name) & family and plain_name(name) != plain_name(judge)
    ]


VARIABLE = "CCAT_JUDGE"

_LOCK = Lock()
_JUDGES: dict[str, Judge] = {}
_WATCHING = False


def active_judge() -> Judge:
    """The judge that ``CCAT_JUDGE`` names, one per process and file.

    A task's ``process_results`` is given the document and the answer and nothing else, so the
    judge's file is named by the environment.

    Raises
    ------
    UsageError
        If the variable is not set, or its file cannot be used.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        raise UsageError(
            f"this task is scored by a judge: set {VARIABLE} to the path of the judge's file "
            "(task_configs/README.md shows one)"
        )
    with _LOCK:
        if path not in _JUDGES:
            _JUDGES[path] = Judge(JudgeSettings.read(path))
            if len(_JUDGES) == 1:
                atexit.register(_report)
        return _JUDGES[path]


def watch_judged_models() -> None:
    """Announce every model that the harness or a session runs to the active judge from now on."""
    global _WATCHING
    _WATCHING = True
    internals.hook(before=announce)


def announce(lm: Any) -> None:
    """Tell the active judge that a model is under test; nothing happens without judged tasks.

    Raises
    ------
    UsageError
        If the judge is that model.
    """
    if _WATCHING and os.environ.get(VARIABLE):
        active_judge().judges([internals.model_name(lm)])


def _report() -> None:
    for judge in _JUDGES.values():
        if judge.usage.calls or judge.usage.cached:
            print(f"judge {judge.settings.model}: {judge.describe()}", file=sys.stderr)
