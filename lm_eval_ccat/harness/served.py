"""What a server reports with an answer: model, finish reason, tokens, limits.

Scores alone do not show that a server swapped the model, or cut off or filtered half of the
answers. So each answer of a session carries what the server reported with it.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, cast

from ..money import Tokens
from ..records import ServedContent

#: Tokens of one request; a larger count is taken for the server's mistake.
MOST_TOKENS = 50_000_000
#: Dollars of one request; a larger cost is taken for the server's mistake.
_MOST_DOLLARS = 10_000.0
#: Keys of a request's body that say what is asked, or of whom, rather than how.
_ASKED = frozenset({"messages", "prompt", "input", "model", "stream", "user"})
#: Seconds in each unit of a duration, and a part of a duration: a number and its unit.
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
#: From here on a number of seconds is a time since 1970 (this is one of 2001), not a duration.
_EPOCH = 1_000_000_000.0


@dataclass(frozen=True)
class Served:
    """What a server reported about one request that it answered.

    Attributes
    ----------
    request_id : str or None
        Identifier by which the server's operator can find the request.
    model, fingerprint : str or None
        The ``model`` and ``system_fingerprint`` of the answer.
    finish : tuple of str
        ``finish_reason`` of each choice (``"stop"``, ``"length"``, ``"content_filter"`` ...).
    null : bool
        Whether a choice has no content at all, as after filtering.
    usage : Tokens or None
        Tokens that the server bills for the request; None if it states none, or impossible ones.
    instead_of : str
        The model that was asked for, if the name of the one that answered is another; else "".
    tier : str
        The ``service_tier`` of the answer (the class of service, which sets speed and price), if
        the request asked for another; else "".
    outside : int
        Tokens that the server counts in the total alone (reasoning, say); `usage` has them as
        generated tokens.
    refused_usage : str
        What is impossible in the server's statement of usage, and what counts instead; else "".
    sent : dict
        Settings sent with the request: its body without the question and the model.

    Examples
    --------
    >>> answer = {"model": "m-0613", "choices": [{"finish_reason": "length", "text": "a"}],
    ...           "usage": {"prompt_tokens": 7, "completion_tokens": -1}}
    >>> served = Served.of(answer, {"X-Request-Id": "r1"})
    >>> served.model, served.finish, served.request_id, served.usage
    ('m-0613', ('length',), 'r1', None)
    """

    request_id: str | None = None
    model: str | None = None
    fingerprint: str | None = None
    finish: tuple[str, ...] = ()
    null: bool = False
    usage: Tokens | None = None
    instead_of: str = ""
    tier: str = ""
    outside: int = 0
    refused_usage: str = ""
    sent: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        answer: Any,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Served:
        """Read an answer's JSON, its headers, and the body of the request that it answers."""
        content = answer if isinstance(answer, dict) else {}
        by_name = {name.lower(): value for name, value in (headers or {}).items()}
        stated = _usage(content.get("usage"))
        listed = content.get("choices")
        choices = [
            choice
            for choice in (listed if isinstance(listed, list) else ())
            if isinstance(choice, dict)
        ]
        # Without choices, as in Anthropic's interface, the answer as a whole states its reason.
        reasons = [choice.get("finish_reason") for choice in choices] or [
            content.get("stop_reason")
        ]
        identity = by_name.get("x-request-id") or by_name.get("request-id") or content.get("id")
        return cls(
            request_id=_text(identity),
            model=_text(content.get("model")),
            fingerprint=_text(content.get("system_fingerprint")),
            finish=tuple(str(reason) for reason in reasons if reason is not None),
            null=any(_content(choice) is None for choice in choices),
            usage=stated.usage,
            instead_of=_instead_of((body or {}).get("model"), content.get("model")),
            tier=_other_tier((body or {}).get("service_tier"), content.get("service_tier")),
            outside=stated.outside,
            refused_usage=stated.refused,
            sent={key: value for key, value in (body or {}).items() if key not in _ASKED},
        )

    def to_dict(self) -> ServedContent:
        """Return the fields worth keeping as JSON values, without those the server left out."""
        # vars, not asdict, which would copy the request's settings item by item for each answer.
        values = {key: value for key, value in vars(self).items() if key != "usage" and value}
        return cast(
            ServedContent,
            {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in values.items()
            },
        )


def pause_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer's headers ask to wait: ``Retry-After``, or a rate limit.

    Parameters
    ----------
    headers : mapping
        The headers, with names in lower case.

    Returns
    -------
    float or None
        At least 0; None if no header asks for a pause.

    Examples
    --------
    >>> pause_of({"retry-after-ms": "250", "retry-after": "1"})
    0.25
    >>> pause_of({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m6s"})
    66.0
    >>> pause_of({"x-ratelimit-remaining-tokens": "12", "x-ratelimit-reset-tokens": "1m6s"}) is None
    True
    """
    exact = seconds_to_wait(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000.0
    seconds = seconds_to_wait(headers.get("retry-after"))
    if seconds is not None:
        return seconds
    resets = []
    for name, value in headers.items():
        # A limit that has something left is not the one that refused the request.
        if "ratelimit" in name and "remaining" in name and _number(value) == 0.0:
            resets.append(seconds_to_wait(headers.get(name.replace("remaining", "reset"))))
    return max((seconds for seconds in resets if seconds is not None), default=None)


def seconds_to_wait(header: str | None) -> float | None:
    """Read a header's waiting time in seconds: a number, a duration, an epoch time or a date.

    >>> seconds_to_wait("120"), seconds_to_wait("6m0.5s")
    (120.0, 360.5)
    >>> seconds_to_wait("soon") is None
    True
    """
    if header is None:
        return None
    text = header.strip()
    number = _number(text)
    if number is not None:
        return max(0.0, number - time.time() if number > _EPOCH else number)
    parts = _DURATION.findall(text)
    # Letters of a date may look like a duration's unit.
    if parts and "".join(a + b for a, b in parts) == text:
        return sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text)
        except (ValueError, TypeError):
            continue
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    return None


class StatedUsage(NamedTuple):
    """What a server states of a request's tokens; see the attributes of `Served`."""

    usage: Tokens | None = None
    outside: int = 0
    refused: str = ""


def _usage(usage: Any) -> StatedUsage:
    """Read what a server states of a request's tokens.

    Generated are the larger of the tokens of the completion and those of the total beyond the
    prompt: some servers count reasoning there alone. A total below the prompt is not counted, and
    `refused` says so.

    >>> stated = _usage({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 90})
    >>> stated.usage, stated.outside
    (Tokens(input=10, output=80, source='usage', cached=0, usd=None), 76)
    >>> _usage({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 4}).refused
    '4 tokens in all for 10 read; that total is not counted'
    """
    if not isinstance(usage, dict):
        return StatedUsage()
    read = usage.get("prompt_tokens", usage.get("input_tokens"))
    written = usage.get("completion_tokens", usage.get("output_tokens"))
    if read is None or written is None:
        return StatedUsage()
    # A count that cannot be right is told, and tokens are estimated from the texts instead.
    if not (_is_count(read) and _is_count(written)):
        counts = f"{read!r} tokens read, {written!r} written"[:200]
        return StatedUsage(refused=f"{counts}; they are estimated from the texts")
    total, usd = usage.get("total_tokens"), _dollars(usage)
    outside = max(0, total - read - written) if _is_count(total) else 0
    # Servers that leave cached tokens out of the total do so, whose other counts are right.
    refused = ""
    if _is_count(total) and total < read:
        refused = f"{total} tokens in all for {read} read; that total is not counted"
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    cached = min(cached, read) if _is_count(cached) else 0
    return StatedUsage(Tokens(read, written + outside, "usage", cached, usd), outside, refused)


def _instead_of(asked: Any, served: Any) -> str:
    """Return the name of the model asked for if another one answered; else "".

    >>> _instead_of("gpt-4o", "gpt-4o-2024-08-06"), _instead_of("gpt-4o", "gpt-3.5-turbo")
    ('', 'gpt-4o')
    """
    names = [str(name).lower().rpartition("/")[2] for name in (asked, served) if name]
    same = len(names) < 2 or names[0] in names[1] or names[1] in names[0]
    return "" if same else str(asked)[:200]


def _other_tier(asked: Any, served: Any) -> str:
    """Return the service tier of an answer, if the request asked for another; else "".

    >>> _other_tier(None, "default"), _other_tier("flex", "default"), _other_tier(None, "priority")
    ('', 'default', 'priority')
    """
    usual, tier = {"auto", "default", "standard"}, _text(served)
    same = tier is None or tier == asked or (tier in usual and (asked or "auto") in usual)
    return "" if same else str(tier)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS


def _dollars(usage: Any) -> float | None:
    """Return the cost that a server states with its usage, in dollars; None if it is none."""
    usd = usage.get("cost") if isinstance(usage, dict) else None
    if isinstance(usd, bool) or not isinstance(usd, (int, float)):
        return None
    return float(usd) if 0 <= usd <= _MOST_DOLLARS else None


def _content(choice: Mapping[str, Any]) -> Any:
    """Return the text of a choice; None if it is null, or a chat's message has none."""
    message = choice.get("message")
    if isinstance(message, dict):
        return message.get("content")
    return choice.get("text", "")


def _text(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _number(text: str) -> float | None:
    """Return the finite number that a text is; None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


@dataclass
class Notes:
    """Notes that one thread takes while it asks and scores.

    The harness passes a prompt to a model and an answer to a task's code, and neither can return
    anything else. So a session collects what they note in its own thread.

    Attributes
    ----------
    served : list of Served
        One entry per request that a server answered.
    unscored : list of str
        Why scores are missing, if a scorer failed.
    judge_usd : float
        Cost of the judges in dollars.
    patience : float or None
        Seconds for which to wait for a judge that is away; None where each rating has its retries.
    """

    served: list[Served] = field(default_factory=list)
    unscored: list[str] = field(default_factory=list)
    judge_usd: float = 0.0
    patience: float | None = None


_NOTES: ContextVar[Notes | None] = ContextVar("notes", default=None)


@contextmanager
def noting(patience: float | None = None) -> Iterator[Notes]:
    """Collect this thread's notes while the context lasts; scorers that fail then do not raise."""
    notes = Notes(patience=patience)
    before = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(before)


def note_served(served: Sequence[Served]) -> None:
    """Note what a server reported, if this thread takes notes."""
    if (notes := _NOTES.get()) is not None:
        notes.served.extend(served)


def spend(usd: float) -> None:
    """Add to this thread's cost of judging answers."""
    if (notes := _NOTES.get()) is not None:
        notes.judge_usd += usd


def patience_with_judge() -> float | None:
    """Return for how many seconds this thread waits for a judge that is away; see `Notes`."""
    notes = _NOTES.get()
    return None if notes is None else notes.patience


def unscored(error: Exception) -> float:
    """Return NaN as the score of an answer whose scorer failed, and keep the reason with it.

    For the code of a task whose own judge may fail: ``process_results`` returns all scores of an
    answer at once, so an exception in it would lose all of them.

    Parameters
    ----------
    error : Exception
        The reason for the missing score.

    Returns
    -------
    float
        NaN.

    Raises
    ------
    Exception
        `error` itself, outside `noting`, as in a full run of the harness.

    Examples
    --------
    >>> with noting() as notes:
    ...     unscored(ValueError("HTTP 400"))
    nan
    >>> notes.unscored
    ['HTTP 400']
    """
    notes = _NOTES.get()
    # A plain run of the harness knows no answer without a score.
    if notes is None:
        raise error
    notes.unscored.append(" ".join(str(error).split()) or type(error).__name__)
    return math.nan
