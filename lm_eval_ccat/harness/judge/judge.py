"""`Judge`: rates answers from 1 to 10 by asking a language model."""

from __future__ import annotations

import logging
import math
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock, local

from ...errors import UsageError
from ..prices import Tokens
from .backends import Backend, Messages, backend_of
from .cache import ReplyCache
from .identity import relatives, same_models
from .rating import parse_rating
from .settings import JudgeSettings

log = logging.getLogger("lm_eval.ccat")

#: Dollars that judges have cost in this thread since `take_cost` was last called.
_SPENT = local()

_REMINDER = (
    "Your reply held no rating that could be read. Reply with nothing but the rating, a number "
    "from 1 to 10, in the form Rating: [[N]]"
)


@dataclass(frozen=True)
class Rating:
    """One rating.

    Attributes
    ----------
    score : float
        From 1 to 10; NaN if the judge gave none that could be read.
    reply : str
        What the judge said last.
    cached : bool
        Whether it was known before and cost nothing.
    """

    score: float
    reply: str
    cached: bool


@dataclass
class Usage:
    """What a judge has been asked, and what it cost.

    Attributes
    ----------
    calls, cached, unrated : int
        Requests sent; answers rated from the cache alone; answers without a rating in the end.
    tokens : Tokens
        Sent and received, with how they were counted.
    usd : float or None
        By the judge's price; None without one.
    """

    calls: int = 0
    cached: int = 0
    unrated: int = 0
    tokens: Tokens = field(default_factory=lambda: Tokens(0, 0, "usage"))
    usd: float | None = None

    def describe(self) -> str:
        """One line for people."""
        about = "" if self.tokens.source == "usage" else "about "
        cost = "cost unknown (no price stated)" if self.usd is None else f"{about}${self.usd:.4f}"
        return (
            f"{self.calls} requests, {self.cached} answers from the cache, "
            f"{about}{self.tokens.input:.0f} + {self.tokens.output:.0f} tokens, {cost}; "
            f"{self.unrated} answers without a rating"
        )


class Judge:
    """Rates answers from 1 to 10.

    Parameters
    ----------
    settings : JudgeSettings
    backend : Backend, optional
        What is asked; by default what the settings name.

    Raises
    ------
    UsageError
        If the judge is one of ``settings.judged`` and may not be, or its prompt cannot be read.
    """

    def __init__(self, settings: JudgeSettings, backend: Backend | None = None) -> None:
        self.settings = settings
        self.usage = Usage(usd=0.0 if settings.price.known else None)
        self._prompt = _template(settings)
        self._backend = backend
        self._cache = ReplyCache(settings.cache)
        self._lock = Lock()
        self._known: set[str] = set()
        self.judges(settings.judged)

    def judges(self, models: Iterable[str]) -> None:
        """Say which models are under test.

        Raises
        ------
        UsageError
            If the judge is one of them, unless its settings allow that.
        """
        new = [name for name in dict.fromkeys(models) if name not in self._known]
        judge = self.settings.model
        itself = same_models(judge, new)
        if itself and not self.settings.allow_self:
            raise UsageError(
                f"judge {judge} is one of the judged models ({itself[0]}): a model that rates "
                "itself is no judge; take another, or set `allow_self: true` in its file"
            )
        related = relatives(judge, new)
        if related:
            log.warning(
                "judge %s is of the same family as %s, and judges tend to prefer their own family",
                judge,
                ", ".join(related),
            )
        self._known.update(new)

    def rate(self, **fields: str) -> Rating:
        """Rate one answer.

        Parameters
        ----------
        **fields : str
            What the prompt has to be filled in with (``question``, ``answer`` ...).
        """
        return self.rate_all([fields])[0]

    def rate_all(self, answers: Sequence[Mapping[str, str]]) -> list[Rating]:
        """Rate several answers, as many at a time as the judge takes.

        Raises
        ------
        UsageError
            If the prompt asks for a field that is not given.
        HarnessError
            If the judge does not answer.
        """
        conversations = [self._conversation(fields) for fields in answers]
        ratings: list[Rating | None] = [None] * len(conversations)
        fresh = [False] * len(conversations)
        for attempt in range(self.settings.attempts):
            open_ = [i for i, rating in enumerate(ratings) if rating is None]
            if not open_:
                break
            for i, (reply, known) in zip(open_, self._ask([conversations[i] for i in open_])):
                fresh[i] |= not known
                score = parse_rating(reply)
                if score is None and attempt + 1 < self.settings.attempts:
                    conversations[i] = [
                        *conversations[i],
                        {"role": "assistant", "content": reply},
                        {"role": "user", "content": _REMINDER},
                    ]
                    continue
                ratings[i] = Rating(math.nan if score is None else score, reply, not fresh[i])
        done = [rating for rating in ratings if rating is not None]
        with self._lock:
            self.usage.cached += sum(rating.cached for rating in done)
            self.usage.unrated += sum(math.isnan(rating.score) for rating in done)
        return done

    def _ask(self, conversations: list[Messages]) -> list[tuple[str, bool]]:
        """Replies, each with whether it was known before."""
        settings = self.settings
        asked_as = (settings.model, settings.temperature, settings.max_tokens, settings.extra)
        keys = [ReplyCache.key(*asked_as, conversation) for conversation in conversations]
        known = [self._cache.get(key) for key in keys]
        # The same question twice in one call is put once.
        missing = {key: c for key, c, reply in zip(keys, conversations, known) if reply is None}
        if missing:
            with self._lock:
                if self._backend is None:
                    self._backend = backend_of(settings)
            replies = self._backend.ask(list(missing.values()))
            for key, reply in zip(missing, replies):
                self._cache.put(key, reply.text, settings.model)
                self._count(reply.tokens)
        return [
            (reply, True) if reply is not None else (str(self._cache.get(key)), False)
            for key, reply in zip(keys, known)
        ]

    def _count(self, tokens: Tokens) -> None:
        with self._lock:
            self.usage.calls += 1
            self.usage.tokens = self.usage.tokens + tokens
            if self.usage.usd is not None:
                cost = self.settings.price.cost(tokens, 0.0)
                self.usage.usd += cost
                _SPENT.usd = getattr(_SPENT, "usd", 0.0) + cost

    def _conversation(self, fields: Mapping[str, str]) -> Messages:
        try:
            content = self._prompt.substitute(fields)
        except (KeyError, ValueError) as error:
            raise UsageError(
                f"the prompt {self.settings.prompt} asks for {error}, which the task does not "
                f"give; it gives {', '.join(fields)} (a dollar sign is written $$)"
            ) from error
        return [{"role": "user", "content": content}]


def take_cost() -> float:
    """Dollars that judges have cost in this thread since the last call, for the run's budget."""
    usd = float(getattr(_SPENT, "usd", 0.0))
    _SPENT.usd = 0.0
    return usd


def _template(settings: JudgeSettings) -> string.Template:
    try:
        return string.Template(settings.prompt.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read the judge's prompt {settings.prompt}: {error.strerror}"
        ) from error
