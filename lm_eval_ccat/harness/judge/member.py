"""One judge of a panel: its prompt filled in, its replies read, kept and paid for."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from ...errors import HarnessError, UsageError
from ..prices import Tokens
from ..served import spend
from .asking import HarnessJudge, JudgeModel, Messages, Refusal, Reply
from .rating import grade
from .settings import JudgeSettings

_REMINDER = (
    "Your reply held no rating that could be read. Reply with nothing but the rating, a number "
    "from 1 to 10, in the form Rating: [[N]]"
)
_OWN_REMINDER = "Your reply held no grade that could be read. Reply in the form you were asked for."


@dataclass
class Usage:
    """Requests to a judge, and their cost.

    Attributes
    ----------
    calls : int
        Requests that brought a reply, repeated ones included.
    cached : int
        Ratings known before.
    unrated : int
        Ratings that never came.
    refused : int
        Questions that the judge's server refused.
    tokens : Tokens
    usd : float or None
        As the server says, else by the judge's price; None without either.
    """

    calls: int = 0
    cached: int = 0
    unrated: int = 0
    refused: int = 0
    tokens: Tokens = field(default_factory=lambda: Tokens(0, 0, "usage"))
    usd: float | None = None

    @classmethod
    def total(cls, parts: Iterable[Usage]) -> Usage:
        """The sum; its cost is known where every part's is."""
        all_ = list(parts)
        known = [u.usd for u in all_ if u.usd is not None]
        return cls(
            sum(u.calls for u in all_),
            sum(u.cached for u in all_),
            sum(u.unrated for u in all_),
            sum(u.refused for u in all_),
            sum((u.tokens for u in all_), Tokens(0, 0, "usage")),
            sum(known) if len(known) == len(all_) else None,
        )

    def describe(self) -> str:
        """One line for people."""
        about = "" if self.tokens.source == "usage" else "about "
        cost = "cost unknown (no price stated)" if self.usd is None else f"{about}${self.usd:.4f}"
        refused = f"; {self.refused} answers refused" if self.refused else ""
        return (
            f"{self.calls} requests, {self.cached} answers from the cache, "
            f"{about}{self.tokens.input:.0f} + {self.tokens.output:.0f} tokens, {cost}; "
            f"{self.unrated} answers without a rating{refused}"
        )


@dataclass(frozen=True)
class Vote:
    """What one judge said of one answer: NaN without a rating, an error where it gave no reply."""

    score: float
    reply: str
    cached: bool
    error: HarnessError | None = None


class ReplyCache:
    """Replies by question, in an append-only file of JSON lines.

    Parameters
    ----------
    path : Path or None
        None keeps them for this process only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = Lock()
        self._replies: dict[str, str] = {}
        if path is not None and path.exists():
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    entry = json.loads(line)
                    self._replies[entry["key"]] = entry["reply"]
                except (json.JSONDecodeError, KeyError, TypeError):
                    # The last line of a run that was killed; a new one is asked for.
                    if number == 1:
                        raise UsageError(f"{path} is not a judge's cache; name another") from None

    @staticmethod
    def key(*parts: Any) -> str:
        """Hash of whatever the reply depends on: judge, settings, conversation."""
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def get(self, key: str) -> str | None:
        """The reply to a question, None if it was never put."""
        with self._lock:
            return self._replies.get(key)

    def put(self, key: str, reply: str, model: str) -> None:
        """Remember a reply."""
        with self._lock:
            self._replies[key] = reply
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                line = json.dumps({"key": key, "model": model, "reply": reply}, ensure_ascii=False)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


class PanelMember:
    """One judge.

    Parameters
    ----------
    settings : JudgeSettings
    asked : JudgeModel, optional
        What is asked; by default what the settings name.
    """

    def __init__(self, settings: JudgeSettings, asked: JudgeModel | None = None) -> None:
        self.settings = settings
        self.usage = Usage(usd=0.0 if settings.price.known else None)
        self._prompt = _template(settings)
        self._judge = asked
        self._cache = ReplyCache(settings.cache)
        self._lock = Lock()

    def rate(self, answers: Sequence[Mapping[str, str]], repeat: int) -> list[Vote]:
        """Rate answers for the (repeat + 1)-th time, as many at once as the judge takes."""
        keys = [self._key(fields, repeat) for fields in answers]
        conversations = {key: self._conversation(fields) for key, fields in zip(keys, answers)}
        votes_by_key: dict[str, Vote] = {}
        for key in conversations:
            past = self._cache.get(key)
            score = None if past is None else self._grade(past)
            if past is not None and score is not None:
                votes_by_key[key] = Vote(score, past, True)
        for attempt in range(self.settings.attempts):
            # The same question twice in one call is put once.
            open_ = [key for key in conversations if key not in votes_by_key]
            if not open_:
                break
            last = attempt + 1 == self.settings.attempts
            replies = self._replies([conversations[key] for key in open_])
            for key, reply in zip(open_, replies):
                vote = self._vote(key, reply, last)
                if vote is not None:
                    votes_by_key[key] = vote
                elif isinstance(reply, Reply):
                    conversations[key] = [
                        *conversations[key],
                        {"role": "assistant", "content": reply.text},
                        {"role": "user", "content": self._reminder()},
                    ]
        votes = [votes_by_key[key] for key in keys]
        with self._lock:
            self.usage.cached += sum(vote.cached for vote in votes)
            self.usage.refused += sum(isinstance(v.error, Refusal) for v in votes)
            self.usage.unrated += sum(math.isnan(v.score) and v.error is None for v in votes)
        return votes

    def _replies(self, conversations: list[Messages]) -> list[Reply | HarnessError]:
        with self._lock:
            if self._judge is None:
                self._judge = HarnessJudge(self.settings)
        replies = self._judge.ask(conversations)
        for reply in replies:
            if isinstance(reply, Reply):
                self._count(reply)
        return replies

    def _vote(self, key: str, reply: Reply | HarnessError, last: bool) -> Vote | None:
        """Read a reply as a vote; None if asking again may help."""
        if not isinstance(reply, Reply):
            return Vote(math.nan, "", False, reply)
        score = self._grade(reply.text)
        if score is not None:  # an unreadable reply is not worth keeping
            self._cache.put(key, reply.text, self.settings.model)
            return Vote(score, reply.text, False)
        return Vote(math.nan, reply.text, False) if last else None

    def _grade(self, reply: str) -> float | None:
        return grade(reply, self.settings.grade_pattern, self.settings.grades)

    def _reminder(self) -> str:
        return _REMINDER if self.settings.grade_pattern is None else _OWN_REMINDER

    def _count(self, reply: Reply) -> None:
        price = self.settings.price
        usd = reply.usd
        if usd is None and price.known:
            usd = price.cost(reply.tokens, 0.0)
        with self._lock:
            self.usage.tokens = self.usage.tokens + reply.tokens
            if usd is None:
                self.usage.usd = None  # a sum with gaps is no sum
            elif self.usage.usd is not None or self.usage.calls == 0:
                self.usage.usd = (self.usage.usd or 0.0) + usd
                spend(usd)
            self.usage.calls += 1

    # -- the question ----------------------------------------------------------------------

    def _key(self, fields: Mapping[str, str], repeat: int) -> str:
        """Return what a reply depends on; the random mark is left out."""
        settings = self.settings
        asked_of = [settings.base_url, settings.lm, settings.lm_args, settings.model]
        asked_as = [settings.temperature, settings.max_tokens, settings.extra]
        return ReplyCache.key(asked_of, asked_as, self._prompt.template, dict(fields), repeat)

    def _conversation(self, fields: Mapping[str, str]) -> Messages:
        # A mark that the answer cannot know, so that no answer can close what it stands in.
        mark = secrets.token_hex(8)
        filled = dict(fields)
        if "answer" in filled and not _names(self._prompt, "mark"):
            filled["answer"] = f"[begin {mark}]\n{filled['answer']}\n[end {mark}]"
        try:
            content = self._prompt.substitute(filled, mark=mark)
        except (KeyError, ValueError) as error:
            raise UsageError(
                f"the prompt {self.settings.prompt} asks for {error}, which the task does not "
                f"give; it gives {', '.join(fields)} (a dollar sign is written $$)"
            ) from error
        return [{"role": "user", "content": content}]


def _names(template: string.Template, name: str) -> bool:
    return any(
        name in (match["named"], match["braced"])
        for match in template.pattern.finditer(template.template)
    )


def _template(settings: JudgeSettings) -> string.Template:
    try:
        return string.Template(settings.prompt.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read the judge's prompt {settings.prompt}: {error.strerror}"
        ) from error
