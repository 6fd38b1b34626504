"""A rater: the prompt, requests, cache of replies and cost of one judging model."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
import secrets
import string
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from ...errors import HarnessError, JudgeError, UsageError
from ...money import Tokens, estimate_tokens
from ...shown import short
from .. import internals
from ..internals.names import log
from ..served import patience_with_judge, spend
from ..transport import (
    AWAY_STATUSES,
    DOCUMENT_STATUSES,
    ServerError,
    Transport,
    server_calls,
    uses_template_api,
)
from .judge_settings import JudgeSettings, grade

#: Statuses of a server that may pass, None of one that gives no answer: worth another try.
_PASSING = {None, 408, 409, 425, 500, *AWAY_STATUSES}
#: Most seconds between two tries of a question.
_LONGEST_PAUSE = 30.0
#: The same in a run, which then goes on soon after its judge is back.
_LONGEST_PAUSE_IN_RUN = 2.0
#: Most tokens of a reply where settings leave them to the server, as the harness needs a number.
_LONGEST_REPLY = 2048
#: Tokens of a reply of three sentences and a rating, as the rubrics ask for.
_USUAL_REPLY = 80
#: Most characters of a judge's name, of its address, and of what is said of a failed request.
_LONGEST_NAME, _LONGEST_ADDRESS, _LONGEST_WORDS = 24, 40, 60
#: The same in a run, whose errors say what to type, too, in 200 characters.
_LONGEST_WORDS_IN_RUN = 36
#: How servers say that they do not take a setting at all, or no other value than their own.
_NOT_TAKEN = re.compile(
    r"unsupported|not support|unknown|unrecogni|unexpected|not permitted|not allowed|deprecated"
    r"|extra inputs|only the default|instead",
    re.IGNORECASE,
)
_REMINDER = (
    "Your reply held no rating that could be read. Reply with nothing but the rating, a number "
    "from 1 to 10, in the form Rating: [[N]]"
)
_OWN_REMINDER = "Your reply held no grade that could be read. Reply in the form you were asked for."
Messages = list[dict[str, str]]
#: Asked of a server that has answered nothing yet, to tell whether it is there.
_GREETING: Messages = [{"role": "user", "content": "Hello."}]


class Reply(NamedTuple):
    """A judge's reply, its tokens, and whether it was cut off at their limit."""

    text: str
    tokens: Tokens
    is_cut: bool = False


@dataclass
class Usage:
    """Requests to judges, and their cost.

    Attributes
    ----------
    calls : int
        Number of replies, repeated requests included.
    cached : int
        Number of ratings from the cache.
    unrated : int
        Number of answers without a readable rating.
    refused : int
        Number of questions that a judge's server refused.
    tokens : Tokens
    usd : float or None
        Cost as the server states it, or by the judge's price; None if some reply has neither.
    lock : threading.Lock
        Held while replies are counted, as several sessions may ask at once.
    """

    calls: int = 0
    cached: int = 0
    unrated: int = 0
    refused: int = 0
    tokens: Tokens = field(default_factory=lambda: Tokens(0, 0, "usage"))
    usd: float | None = 0.0
    lock: Any = field(default_factory=Lock, repr=False, compare=False)

    def count(self, ratings: Sequence[Rating]) -> None:
        """Count ratings by where they came from, and answers that have none."""
        with self.lock:
            self.cached += sum(rating.cached for rating in ratings)
            self.refused += sum(bool(rating.error) for rating in ratings)
            self.unrated += sum(math.isnan(rating.score) and not rating.error for rating in ratings)

    def describe(self) -> str:
        """One line for people."""
        circa = "" if self.tokens.source == "usage" else "about "
        cost = "cost unknown (no price stated)" if self.usd is None else f"{circa}${self.usd:.4f}"
        refused = f"; {self.refused} answers refused" if self.refused else ""
        return (
            f"{self.calls} requests, {self.cached} answers from the cache, "
            f"{circa}{self.tokens.input:.0f} + {self.tokens.output:.0f} tokens, {cost}; "
            f"{self.unrated} answers without a rating{refused}"
        )


@dataclass(frozen=True)
class Rating:
    """One answer's rating.

    Attributes
    ----------
    score : float
        From 1 to 10, of all repeats together; NaN if there is none.
    reply : str
        The last reply of the first repeat.
    cached : bool
        Whether the rating came from the cache, at no cost.
    ratings : tuple of float
        The rating of each repeat, NaN where there is none; empty of what a `Rater` returns.
    error : str
        Why the answer could not be judged; "" if it could.
    is_cut : bool
        Whether the last reply was cut off at the judge's limit of tokens.
    """

    score: float
    reply: str
    cached: bool
    ratings: tuple[float, ...] = ()
    error: str = ""
    is_cut: bool = False


class _Refusal(HarnessError):
    """The judge's server refused one question (too long, filtered); others may succeed."""


class Rater:
    """One judging model: fills in its prompt, asks its model, reads and caches its replies.

    Parameters
    ----------
    settings : JudgeSettings
        Its `second` judge and its `repeats` are left to the caller.
    usage : Usage
        Where replies are counted; several raters may share it.
    sleep : callable
        Waits so many seconds before a failed request is sent again.
    waits : bool
        Whether a run waits for the model while it is away.

    Raises
    ------
    UsageError
        The prompt or the cache cannot be read, or the cache's file is something else. Nothing is
        opened or asked before `rate`.
    """

    def __init__(
        self,
        settings: JudgeSettings,
        usage: Usage,
        sleep: Callable[[float], None],
        waits: bool = True,
    ) -> None:
        self._settings, self._usage, self._sleep, self._waits = settings, usage, sleep, waits
        try:
            self._prompt = string.Template(settings.prompt.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", "it is not UTF-8")
            raise UsageError(
                f"cannot read the judge's prompt {settings.prompt}: {reason}"
            ) from error
        #: Replies by the hash of their question (see `_key`).
        self._replies: dict[str, str] = {}
        self._cache: Path | None = None
        self._lock = Lock()  # guards all below and the cache; a local model takes one call
        self._lm: Any = None  # from the first question on, as is `_transport` of a server
        self._transport: Transport | None = None
        self._untaken: set[str] = set()  # settings that the server does not take
        #: The last question that the server answered, which tells later whether it is there;
        #: when the youngest one was sent that it answered, and when it answered last.
        self._answered: Messages | None = None
        self._answered_sent_at = self._answered_at = -math.inf
        self._is_away = False  # whether the log says so
        self._witnessing = Lock()  # held while that question is asked again
        self._keep_in(settings.cache)

    def keep_in(self, path: Path | None) -> None:
        """Keep replies in a file from now on, unless the settings name one; see `Judge.keep_in`."""
        if self._settings.cache is None:
            self._keep_in(path)

    def _keep_in(self, path: Path | None) -> None:
        """Keep replies in a file from now on, and use those that it holds."""
        with self._lock:
            self._cache = path
            if path is not None:
                self._replies |= _cached_replies(path)

    def expected_usd(self, tokens: Tokens, at_limit: bool) -> float:
        """Return the dollars that one rating is expected to cost; see `Judge.expected_usd`."""
        longest = self._settings.max_tokens or _LONGEST_REPLY
        read = estimate_tokens(self._prompt.template) + tokens.total
        written = longest if at_limit else min(longest, _USUAL_REPLY)
        return self._settings.price.cost(Tokens(read, written, "estimate"), 0.0)

    def rate(self, answers: Sequence[Mapping[str, str]], repeat: int) -> list[Rating]:
        """Return a rating of each answer, from the cache or by asking the judge.

        A judge whose reply has no grade is reminded of the form, until its attempts are used up.

        Parameters
        ----------
        answers : sequence of mapping
            The fields of the judge's prompt, for each answer.
        repeat : int
            How often the answers were rated before.

        Raises
        ------
        HarnessError
            The judge cannot be asked. Ratings that it gave before are kept in its cache.
        JudgeError
            In a run: the judge was away for longer than the run waits, or refuses every question.
        """
        keys = [self._key(fields, repeat) for fields in answers]
        # By key, so that the same question twice in one call is asked once.
        messages_of = {key: self._messages(fields) for key, fields in zip(keys, answers)}
        rating_of = {
            key: rating for key in messages_of if (rating := self._kept_rating(key)) is not None
        }
        failures: dict[str, HarnessError] = {}
        for attempts_left in reversed(range(self._settings.attempts)):
            unrated = [key for key in messages_of if key not in rating_of.keys() | failures.keys()]
            for key, reply in zip(unrated, self._ask([messages_of[key] for key in unrated])):
                # A refusal is about this answer alone.
                if isinstance(reply, _Refusal):
                    rating_of[key] = Rating(math.nan, "", cached=False, error=str(reply))
                # It is raised in the end, so that the ratings of the other answers are kept.
                elif isinstance(reply, HarnessError):
                    failures[key] = reply
                elif (score := self._counted_grade(reply)) is not None:
                    self._keep(key, reply.text)
                    rating_of[key] = Rating(score, reply.text, cached=False)
                elif attempts_left:
                    messages_of[key] = [*messages_of[key], *self._reminder(reply.text)]
                else:
                    rating_of[key] = Rating(math.nan, reply.text, cached=False, is_cut=reply.is_cut)
        ratings = [rating_of[key] for key in keys if key not in failures]
        self._usage.count(ratings)
        for failure in failures.values():
            raise failure
        return ratings

    def _kept_rating(self, key: str) -> Rating | None:
        """Return the rating that an earlier reply states; None where there is no such reply."""
        reply = self._replies.get(key)
        score = None if reply is None else self._grade(reply)
        return None if reply is None or score is None else Rating(score, reply, True)

    def _reminder(self, reply: str) -> list[dict[str, str]]:
        """Return the messages that ask again after a reply without a grade."""
        pattern = self._settings.grade_pattern
        return [
            {"role": "assistant", "content": reply},
            {"role": "user", "content": _REMINDER if pattern is None else _OWN_REMINDER},
        ]

    def _keep(self, key: str, reply: str) -> None:
        """Keep a reply for equal questions of this run, and of later ones in the cache's file."""
        with self._lock:
            self._replies[key] = reply
            if self._cache is not None:
                self._cache.parent.mkdir(parents=True, exist_ok=True)
                entry = {"key": key, "model": self._settings.model, "reply": reply}
                line = json.dumps(entry, ensure_ascii=False) + "\n"
                with self._cache.open("a+b") as file:
                    # On the end of a line that was cut off, this one would be lost, too.
                    if file.tell():
                        file.seek(-1, os.SEEK_END)
                        line = line if file.read() == b"\n" else "\n" + line
                    file.write(line.encode())

    def _grade(self, reply: str) -> float | None:
        """Return the grade that a reply states, from 1 to 10; None if it states none."""
        return grade(reply, self._settings.grade_pattern, self._settings.grades)

    def _counted_grade(self, reply: Reply) -> float | None:
        """Count what a reply took, and return its grade; None if it states none."""
        self._count(reply)
        return self._grade(reply.text)

    def _count(self, reply: Reply) -> None:
        """Count what a reply took."""
        usage, price = self._usage, self._settings.price
        usd = price.cost(reply.tokens, 0.0) if price.known else reply.tokens.usd
        with usage.lock:
            usage.calls += 1
            usage.tokens = usage.tokens + reply.tokens
            # One unknown cost makes the sum unknown; known costs still count in the budget.
            usage.usd = None if usd is None or usage.usd is None else usage.usd + usd
            if usd is not None:
                spend(usd)

    # -- the question ----------------------------------------------------------------------

    def _key(self, fields: Mapping[str, str], repeat: int) -> str:
        """Return the hash of everything that a reply depends on, except for the random mark."""
        settings = self._settings
        asked_of = [settings.base_url, settings.lm, settings.lm_args, settings.model]
        asked_as: list[Any] = [settings.temperature, settings.max_tokens, settings.extra]
        # The same weights answer otherwise to a prompt with the marks of a conversation.
        if settings.apply_chat_template:
            asked_as.append("chat template")
        parts = (asked_of, asked_as, self._prompt.template, dict(fields), repeat)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _messages(self, fields: Mapping[str, str]) -> Messages:
        """Return the question to the judge: its prompt with the fields of an answer filled in."""
        # A mark that the answer cannot know, so that no answer can forge the end of its block.
        mark, filled = secrets.token_hex(8), dict(fields)
        names = self._prompt.pattern.findall(self._prompt.template)
        # A rubric with a place for the mark says itself where the answer ends.
        if "answer" in filled and not any("mark" in groups for groups in names):
            filled["answer"] = f"[begin {mark}]\n{filled['answer']}\n[end {mark}]"
        try:
            content = self._prompt.substitute(filled, mark=mark)
        except (KeyError, ValueError) as error:
            raise UsageError(
                f"the prompt {self._settings.prompt} asks for {error}, which the task does not "
                f"give; it gives {', '.join(fields)} (a dollar sign is written $$)"
            ) from error
        return [{"role": "user", "content": content}]

    # -- the model -------------------------------------------------------------------------

    def _ask(self, conversations: Sequence[Messages]) -> list[Reply | HarnessError]:
        """Answer each conversation, in order: a server's several at a time, a local model's in one
        call. An error stands where a reply would."""
        if not conversations:
            return []
        with self._lock:
            if self._lm is None:
                self._lm = internals.make_lm(*_model_of(self._settings))
                if uses_template_api(self._lm):
                    self._transport = Transport(self._lm, self._settings.concurrency)
            # A local model answers all in one call, and one call at a time.
            if self._transport is None:
                return self._generate(conversations)
        over_http = partial(self._over_http, patience_with_judge() if self._waits else None)
        if len(conversations) == 1:  # here: threads of a pool would outlive an interrupted run
            return [over_http(conversations[0])]
        with ThreadPoolExecutor(self._settings.concurrency) as pool:
            return list(pool.map(over_http, conversations))

    def _requests(self, conversations: Sequence[Messages]) -> list[Any]:
        """Return the harness's request for each conversation."""
        settings = self._settings
        if settings.base_url is not None or settings.apply_chat_template:
            prompts = [self._lm.apply_chat_template(messages) for messages in conversations]
        # Without a template a model reads plain text.
        else:
            prompts = [
                "\n\n".join(message["content"] for message in messages)
                for messages in conversations
            ]
        sampling = {
            "until": [],
            "max_gen_toks": settings.max_tokens or _LONGEST_REPLY,
            "do_sample": bool(settings.temperature),
            "temperature": settings.temperature or 0.0,
        }
        return internals.requests_for(prompts, sampling)

    def _generate(self, conversations: Sequence[Messages]) -> list[Reply | HarnessError]:
        """Return the replies of a judge that this process runs."""
        requests = self._requests(conversations)
        internals.send(self._lm, requests)
        count = internals.token_counter(self._lm) or estimate_tokens
        source = "estimate" if count is estimate_tokens else "tokenizer"
        return [
            Reply(text, Tokens(count(internals.prompt(request)), count(text), source))
            for request in requests
            for text in internals.answers(request)
        ]

    def _over_http(self, patience: float | None, messages: Messages) -> Reply | HarnessError:
        """Return the reply of a judge's server, or the error if it gives none after all retries.

        Parameters
        ----------
        patience : float or None
            In a run: seconds for which to wait for a server that answers no question at all. Then
            retries limit only how often a question is sent again while others are answered.
        messages : list of dict
            The question.
        """
        tries, began, failed_at = 0, time.monotonic(), math.inf
        while True:
            # Another question was sent and answered since this one failed.
            others_answered = failed_at < self._answered_sent_at
            try:
                return self._reply(messages)
            except ServerError as error:
                failure, tries = error, tries + 1
            failed_at = time.monotonic()
            silence = failed_at - max(began, self._answered_at)
            final_error = self._final_error(failure, tries, others_answered, patience, silence)
            if final_error is not None:
                return final_error
            # Does this question alone fail?
            if patience is not None and tries > self._settings.retries:
                self._ask_answered_question()
            # Doubling pauses, spread so that several callers do not come back together.
            longest = _LONGEST_PAUSE if patience is None else _LONGEST_PAUSE_IN_RUN
            pause = min(2.0 ** (tries - 1), longest) * random.uniform(0.5, 1.0)
            self._sleep(max(pause, min(failure.retry_after or 0.0, _LONGEST_PAUSE)))

    def _final_error(
        self,
        failure: ServerError,
        tries: int,
        others_answered: bool,
        patience: float | None,
        silence: float,
    ) -> HarnessError | None:
        """Return the error with which a question is given up; None if it is to be tried again.

        Parameters
        ----------
        failure : ServerError
            That of the last of so many `tries`.
        others_answered : bool
            Whether, between the last two tries, another question was sent and answered.
        patience : float or None
            See `_over_http`.
        silence : float
            Seconds since the server answered any question, at most since this one was first sent.
        """
        settings = self._settings
        words = short(str(failure), _LONGEST_WORDS if patience is None else _LONGEST_WORDS_IN_RUN)
        address = short(str(settings.base_url or settings.lm), _LONGEST_ADDRESS)
        where = f"judge {short(settings.model, _LONGEST_NAME)} at {address}"
        # The server refused this one answer (too long, filtered); it may take the others.
        if failure.status in DOCUMENT_STATUSES:
            return _Refusal(f"{where} refused: {words}")
        # Waiting does not mend a wrong key or an empty account.
        is_lasting = failure.final or failure.status not in _PASSING
        check = f"{where} refused: {words}; check its `model`, `base_url` and key"
        if patience is None and is_lasting:
            return HarnessError(check)
        if tries > settings.retries and (patience is None or others_answered):
            return HarnessError(
                f"{where} gave no answer in {tries} tries ({words}); see that it runs, or "
                "raise `retries`"
            )
        # Outside a run, a passing failure is tried again.
        if patience is None:
            return None
        never_answered = self._answered is None
        # A server that has answered gets a last try, after it was asked what it answered before:
        # perhaps it refuses this question alone.
        if is_lasting and (never_answered or tries > settings.retries + 1):
            return JudgeError(check)
        # Nobody is waited for who was never found at the address.
        nobody_there = bool(failure.address) and never_answered
        if nobody_there or silence > patience:
            minutes = f"within {patience / 60:g} min " if not nobody_there else ""
            return JudgeError(f"{where} gives no answer {minutes}({words}); see that it runs")
        if tries > 1 and not is_lasting:
            self._note_away(f"{where} does not answer ({words})", patience)
        return None

    def _reply(self, messages: Messages) -> Reply:
        """Return the server's reply to a question that is sent once.

        Raises
        ------
        ServerError
        """
        assert self._transport is not None
        [call] = server_calls(self._lm, self._requests([messages]))
        while True:
            body, sent_at = self._body(call.payload), time.monotonic()
            try:
                [(answer, served)] = self._transport.submit([replace(call, payload=body)])
                text = _content(answer)
                if text is None:
                    [text] = self._transport.read(call, answer)
            except ServerError as error:
                # Reasoning models take other names of a setting, or none; the reply says which.
                if error.status == 400 and self._adapt(error, body):
                    continue
                raise
            self._answered, self._answered_at = messages, time.monotonic()
            self._answered_sent_at = max(self._answered_sent_at, sent_at)
            if self._is_away:
                self._is_away = False
                log.warning("judge %s is back", self._settings.model)
            read = sum(estimate_tokens(message["content"]) for message in messages)
            estimated_tokens = Tokens(read, estimate_tokens(text), "estimate")
            return Reply(text, served.usage or estimated_tokens, "length" in served.finish)

    def _note_away(self, what: str, patience: float) -> None:
        """Warn once an outage that the judge does not answer."""
        if not self._is_away:
            self._is_away = True
            log.warning("%s; it is asked again for up to %g min", what, patience / 60.0)

    def _ask_answered_question(self) -> None:
        """Ask what the judge has answered before, to tell whether one question alone fails."""
        question = _GREETING if self._answered is None else self._answered
        if self._witnessing.acquire(blocking=False):
            try:
                self._count(self._reply(question))
            except ServerError:
                pass  # the question that failed is sent again
            finally:
                self._witnessing.release()

    def _body(self, payload: Mapping[str, Any]) -> dict[str, object]:
        """Return what is sent to a judge's server, with those settings alone that it takes."""
        settings, body = self._settings, dict(payload)
        if settings.temperature is None or "temperature" in self._untaken:
            body.pop("temperature", None)
        if settings.max_tokens is None:
            body.pop("max_tokens", None)
        elif "max_tokens" in self._untaken:
            body["max_completion_tokens"] = body.pop("max_tokens")
        body.pop("seed", None)  # repeated ratings would all be the first
        # Some servers refuse an empty list of stops.
        if not body.get("stop"):
            body.pop("stop", None)
        return {**body, **settings.extra}

    def _adapt(self, error: ServerError, sent: Mapping[str, Any]) -> bool:
        """Adapt to a setting that the server says it does not take; return whether to try again."""
        # A value out of range, or a question about temperatures, names the setting, too.
        if not _NOT_TAKEN.search(f"{error.code} {error.words}"):
            return False
        instead = {"max_tokens": "asked for max_completion_tokens instead",
                   "temperature": "left to the server"}  # fmt: skip
        for name, how in instead.items():
            # What `extra` states is sent all the same: to try again would never end.
            if name in error.words and name in sent and name not in self._settings.extra:
                with self._lock:
                    if name not in self._untaken:
                        self._untaken.add(name)
                        log.warning("judge %s takes no %s: %s", self._settings.model, name, how)
                return True
        return False


def _cached_replies(path: Path) -> dict[str, str]:
    """Return the replies that a judge's cache holds, by their keys; none if there is no such file.

    Of equal keys the last counts. Lines that are no entries are left out.

    Raises
    ------
    UsageError
        The file cannot be read, or does not begin as a judge's cache does.
    """
    replies: dict[str, str] = {}
    try:
        # Not `splitlines`, which also splits at characters that JSON leaves in a reply. A killed
        # run may have cut its last line off within a character.
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines):
                try:
                    entry = json.loads(line)
                    replies[entry["key"]] = entry["reply"]
                except (json.JSONDecodeError, KeyError, TypeError):
                    # The rating of a line that was cut off is asked for again.
                    if number == 0 and not line.startswith('{"key"'):
                        raise UsageError(f"{path} is not a judge's cache; name another") from None
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"cannot read the judge's cache {path}: {error.strerror}") from error
    return replies


def _model_of(settings: JudgeSettings) -> tuple[str, dict[str, object]]:
    """Return type and arguments of the harness's model for a judge's settings."""
    if settings.base_url is None:
        return str(settings.lm), dict(settings.lm_args)
    headers = {"Accept": "application/json"}  # without headers the harness sends a key
    if settings.api_key_env:
        key = os.environ.get(settings.api_key_env)
        if not key:
            raise UsageError(
                f"judge {settings.model}: the environment variable {settings.api_key_env} with "
                "its key is not set"
            )
        headers = {"Authorization": f"Bearer {key}"}
    # The harness's models have the whole address, which users copy from there.
    endpoint = settings.base_url.rstrip("/").removesuffix("/chat/completions")
    return "local-chat-completions", {
        "model": settings.model,
        "base_url": f"{endpoint}/chat/completions",
        "header": headers,
        "timeout": max(1, round(settings.timeout)),
        "num_concurrent": 2,  # with 1, the harness would send the end-of-text string as a stop
    }


def _content(answer: Any) -> str | None:
    """Return a chat's reply, without parts such as reasoning; None if the answer is not a chat's.

    The harness's own parser would read a choice without an index as empty.
    """
    try:
        content = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        return None
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        texts = [
            part.get("text") for part in parts if part.get("type") in ("text", "output_text", None)
        ]
        return "".join(str(text or "") for text in texts)
    return "" if content is None else content if isinstance(content, str) else None
