"""Ask a judge: an OpenAI-compatible endpoint, or any lm-eval model."""

from __future__ import annotations

import json
import logging
import os
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

from ...errors import HarnessError, UsageError
from .. import internals
from ..prices import Tokens, estimate_tokens
from .settings import JudgeSettings

Messages = list[dict[str, str]]

#: Answers of a server that a later try may not repeat.
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_LONGEST_PAUSE = 30.0
_LONGEST_REPLY = 2048

log = logging.getLogger("lm_eval.ccat")


#: Answers that are about this one question.
_REFUSED = {400, 413, 422, 451}


@dataclass(frozen=True)
class Reply:
    """A judge's reply and the tokens it took.

    ``usd`` is what the server itself says it cost; None where it does not say.
    """

    text: str
    tokens: Tokens
    usd: float | None = None


class Refusal(HarnessError):
    """The judge's server refuses one question (too long, filtered); others may do."""


class Backend(Protocol):
    """Something that answers conversations."""

    def ask(self, conversations: Sequence[Messages]) -> list[Reply | HarnessError]:
        """Answer each conversation, in order; an error stands where its reply would."""


class Endpoint:
    """An OpenAI-compatible chat endpoint.

    Parameters
    ----------
    settings : JudgeSettings
    sleep : callable
        Waits between tries.
    """

    def __init__(
        self, settings: JudgeSettings, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._refused: set[str] = set()  # settings that the server does not take
        self._lock = Lock()
        self._url = f"{str(settings.base_url).rstrip('/')}/chat/completions"
        self._headers = {"Content-Type": "application/json"}
        if settings.api_key_env:
            key = os.environ.get(settings.api_key_env)
            if not key:
                raise UsageError(
                    f"judge {settings.model}: the environment variable {settings.api_key_env} with "
                    "its key is not set"
                )
            self._headers["Authorization"] = f"Bearer {key}"

    def ask(self, conversations: Sequence[Messages]) -> list[Reply | HarnessError]:
        """Answer each conversation, in order, several at a time."""
        if len(conversations) == 1:
            return [self._one(conversations[0])]
        with ThreadPoolExecutor(self._settings.concurrency) as pool:
            return list(pool.map(self._one, conversations))

    def _one(self, messages: Messages) -> Reply | HarnessError:
        settings = self._settings
        where = f"judge {settings.model} at {settings.base_url}"
        trouble, attempt = "", 0
        while attempt <= settings.retries:
            if trouble:
                # Doubling pauses, spread so that several callers do not come back together.
                self._sleep(min(2.0 ** (attempt - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0))
            body = self._body(messages)
            request = urllib.request.Request(
                self._url, json.dumps(body).encode(), self._headers, method="POST"
            )
            try:
                with urllib.request.urlopen(request, timeout=settings.timeout) as answer:
                    return _read(json.loads(answer.read()), messages)
            except urllib.error.HTTPError as error:
                detail = " ".join(error.read(2000).decode(errors="replace").split())[:200]
                if error.code == 400 and self._adapt(detail, body):
                    continue
                trouble = f"HTTP {error.code} {error.reason} {detail}".strip()
                if error.code not in _PASSING:
                    kind = Refusal if error.code in _REFUSED else HarnessError
                    return kind(f"{where} refused: {trouble}")
            except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
                # No connection, a timeout, or an answer of another form than promised.
                trouble = f"{type(error).__name__}: {error}"
            attempt += 1
        return HarnessError(
            f"{where} gave no answer in {settings.retries + 1} tries ({trouble}); see that it "
            "runs, or raise `retries`"
        )

    def _body(self, messages: Messages) -> dict[str, Any]:
        settings = self._settings
        body: dict[str, Any] = {"model": settings.model, "messages": messages}
        if settings.temperature is not None and "temperature" not in self._refused:
            body["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            old = "max_tokens" not in self._refused
            body["max_tokens" if old else "max_completion_tokens"] = settings.max_tokens
        return {**body, **settings.extra}

    def _adapt(self, detail: str, sent: dict[str, Any]) -> bool:
        """Leave out what the server says it does not take; whether anything is left to try."""
        for name in ("max_tokens", "temperature"):
            if name in detail and name in sent and name not in self._settings.extra:
                with self._lock:
                    if name not in self._refused:
                        self._refused.add(name)
                        log.warning(
                            "judge %s takes no %s: %s", self._settings.model, name,
                            "asked for max_completion_tokens instead"
                            if name == "max_tokens" else "left to the server",
                        )  # fmt: skip
                return True
        return False


def _read(answer: Any, messages: Messages) -> Reply:
    content = answer["choices"][0]["message"]["content"] or ""
    if isinstance(content, list):  # parts, of which reasoning and the like are no reply
        content = "".join(str(part.get("text") or "") for part in content if _is_text(part))
    usage = answer.get("usage") or {}
    read, written, usd = (
        usage.get(k) for k in ("prompt_tokens", "completion_tokens", "cost")
    )  # fmt: skip
    paid = float(usd) if isinstance(usd, int | float) else None
    if isinstance(read, int) and isinstance(written, int):
        return Reply(content, Tokens(read, written, "usage"), paid)
    return Reply(content, _estimated(messages, content), paid)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("text", "output_text", None)


def _estimated(messages: Messages, text: str) -> Tokens:
    read = sum(estimate_tokens(message["content"]) for message in messages)
    return Tokens(read, estimate_tokens(text), "estimate")


class HarnessModel:
    """Any lm-eval model type; loaded at the first question.

    Parameters
    ----------
    settings : JudgeSettings
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._lm: Any = None
        self._lock = Lock()  # several sessions may ask at once; a local model takes one call

    def ask(self, conversations: Sequence[Messages]) -> list[Reply | HarnessError]:
        """Answer each conversation in one call of the model."""
        with self._lock:
            return self._ask(conversations)

    def _ask(self, conversations: Sequence[Messages]) -> list[Reply | HarnessError]:
        settings = self._settings
        if self._lm is None:
            self._lm = internals.make_lm(str(settings.lm), settings.lm_args)
        prompts = [
            self._lm.apply_chat_template(messages)
            if settings.apply_chat_template
            else "\n\n".join(message["content"] for message in messages)
            for messages in conversations
        ]
        temperature = settings.temperature or 0.0
        texts = internals.generate(
            self._lm,
            prompts,
            {
                "until": [],
                "max_gen_toks": settings.max_tokens or _LONGEST_REPLY,
                "do_sample": temperature > 0,
                "temperature": temperature,
            },
        )
        count = internals.token_counter(self._lm)
        replies: list[Reply | HarnessError] = []
        for messages, prompt, text in zip(conversations, prompts, texts):
            if count is None:
                tokens = _estimated(messages, text)
            else:
                tokens = Tokens(count(str(prompt)), count(text), "tokenizer")
            replies.append(Reply(text, tokens))
        return replies


def backend_of(settings: JudgeSettings) -> Backend:
    """The backend that a judge's settings ask for."""
    return Endpoint(settings) if settings.base_url is not None else HarnessModel(settings)
