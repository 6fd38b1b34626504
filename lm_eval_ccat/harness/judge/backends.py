"""Ask a judge: an OpenAI-compatible endpoint, or any lm-eval model."""

from __future__ import annotations

import json
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


@dataclass(frozen=True)
class Reply:
    """A judge's reply and the tokens it took."""

    text: str
    tokens: Tokens


class Backend(Protocol):
    """Something that answers conversations."""

    def ask(self, conversations: Sequence[Messages]) -> list[Reply]:
        """Answer each conversation, in order."""


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

    def ask(self, conversations: Sequence[Messages]) -> list[Reply]:
        """Answer each conversation, in order, several at a time.

        Raises
        ------
        HarnessError
            If the endpoint refuses, or does not answer after all tries.
        """
        if len(conversations) == 1:
            return [self._one(conversations[0])]
        with ThreadPoolExecutor(self._settings.concurrency) as pool:
            return list(pool.map(self._one, conversations))

    def _one(self, messages: Messages) -> Reply:
        settings = self._settings
        body = {
            "model": settings.model,
            "messages": messages,
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            **settings.extra,
        }
        trouble = ""
        for attempt in range(settings.retries + 1):
            if attempt:
                # Doubling pauses, spread so that several callers do not come back together.
                self._sleep(min(2.0 ** (attempt - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0))
            request = urllib.request.Request(
                self._url, json.dumps(body).encode(), self._headers, method="POST"
            )
            try:
                with urllib.request.urlopen(request, timeout=settings.timeout) as answer:
                    return _read(json.loads(answer.read()), messages)
            except urllib.error.HTTPError as error:
                trouble = f"HTTP {error.code} {error.reason}"
                if error.code not in _PASSING:
                    detail = " ".join(error.read(2000).decode(errors="replace").split())[:200]
                    raise HarnessError(
                        f"judge {settings.model} at {settings.base_url} refused: {trouble} {detail}"
                    ) from error
            except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
                # No connection, a timeout, or an answer of another form than promised.
                trouble = f"{type(error).__name__}: {error}"
        raise HarnessError(
            f"judge {settings.model} at {settings.base_url} gave no answer in "
            f"{settings.retries + 1} tries ({trouble}); see that it runs, or raise `retries`"
        )


def _read(answer: Any, messages: Messages) -> Reply:
    text = answer["choices"][0]["message"]["content"] or ""
    usage = answer.get("usage") or {}
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if isinstance(read, int) and isinstance(written, int):
        return Reply(text, Tokens(read, written, "usage"))
    return Reply(text, _estimated(messages, text))


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

    def ask(self, conversations: Sequence[Messages]) -> list[Reply]:
        """Answer each conversation in one call of the model."""
        with self._lock:
            return self._ask(conversations)

    def _ask(self, conversations: Sequence[Messages]) -> list[Reply]:
        settings = self._settings
        if self._lm is None:
            self._lm = internals.make_lm(str(settings.lm), settings.lm_args)
        prompts = [
            self._lm.apply_chat_template(messages)
            if settings.apply_chat_template
            else "\n\n".join(message["content"] for message in messages)
            for messages in conversations
        ]
        sampling = settings.temperature > 0
        texts = internals.generate(
            self._lm,
            prompts,
            {
                "until": [],
                "max_gen_toks": settings.max_tokens,
                "do_sample": sampling,
                "temperature": settings.temperature,
            },
        )
        count = internals.token_counter(self._lm)
        replies = []
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
