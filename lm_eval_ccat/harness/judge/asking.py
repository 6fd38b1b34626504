"""Ask a judge: any lm-eval model; an OpenAI-compatible endpoint is the harness's model of one."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Protocol

from ...errors import HarnessError, UsageError
from .. import internals
from ..prices import Tokens, estimate_tokens
from ..transport import ServerError, Transport, pooled
from .settings import JudgeSettings

Messages = list[dict[str, str]]

#: Answers of a server that a later try may not repeat.
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 529}
#: Answers that are about this one question.
_REFUSED = {400, 413, 422, 451}
_LONGEST_PAUSE = 30.0
_LONGEST_REPLY = 2048

log = logging.getLogger("lm_eval.ccat")


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


class JudgeModel(Protocol):
    """Something that answers conversations."""

    def ask(self, conversations: Sequence[Messages]) -> list[Reply | HarnessError]:
        """Answer each conversation, in order; an error stands where its reply would."""


class HarnessJudge:
    """A model of the harness, loaded at the first question.

    Parameters
    ----------
    settings : JudgeSettings
    sleep : callable
        Waits between tries.

    Raises
    ------
    UsageError
        The environment variable of the key is not set.
    """

    def __init__(
        self, settings: JudgeSettings, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._lock = Lock()  # several sessions may ask at once; a local model takes one call
        self._lm: Any = None
        self._transport: Transport | None = None
        self._refused: set[str] = set()  # settings that the server does not take
        self._kind, self._arguments = _model_of(settings)

    def ask(self, conversations: Sequence[Messages]) -> list[Reply | HarnessError]:
        """Answer each conversation, in order: a server's several at a time, a local model's in one
        call."""
        with self._lock:
            if self._lm is None:
                self._lm = internals.make_lm(self._kind, self._arguments)
                if pooled(self._lm):
                    self._transport = Transport(self._lm, self._settings.concurrency)
            if self._transport is None:
                return self._generate(conversations)
        if len(conversations) == 1:
            return [self._over_http(conversations[0])]
        with ThreadPoolExecutor(self._settings.concurrency) as pool:
            return list(pool.map(self._over_http, conversations))

    def _prompt(self, messages: Messages) -> Any:
        settings = self._settings
        if settings.base_url is not None or settings.apply_chat_template:
            return self._lm.apply_chat_template(messages)
        return "\n\n".join(message["content"] for message in messages)

    def _requests(self, conversations: Sequence[Messages]) -> list[Any]:
        settings = self._settings
        sampling = {
            "until": [],
            "max_gen_toks": settings.max_tokens or _LONGEST_REPLY,
            "do_sample": bool(settings.temperature),
            "temperature": settings.temperature or 0.0,
        }
        return internals.requests_for([self._prompt(m) for m in conversations], sampling)

    # -- a local model ---------------------------------------------------------------------

    def _generate(self, conversations: Sequence[Messages]) -> list[Reply | HarnessError]:
        requests = self._requests(conversations)
        internals.send(self._lm, requests)
        count = internals.token_counter(self._lm) or estimate_tokens
        source = "estimate" if count is estimate_tokens else "tokenizer"
        return [
            Reply(text, Tokens(count(internals.prompt(request)), count(text), source))
            for request in requests
            for text in internals.answers(request)
        ]

    # -- a server --------------------------------------------------------------------------

    def _over_http(self, messages: Messages) -> Reply | HarnessError:
        assert self._transport is not None
        settings = self._settings
        [call] = internals.server_calls(self._lm, self._requests([messages]))
        where = f"judge {settings.model} at {settings.base_url or settings.lm}"
        trouble, asked = "", 0.0
        attempt = 0
        while attempt <= settings.retries:
            if trouble:
                # Doubling pauses, spread so that several callers do not come back together.
                pause = min(2.0 ** (attempt - 1), _LONGEST_PAUSE) * random.uniform(0.5, 1.0)
                self._sleep(max(pause, asked))
            body = self._body(call.payload)
            try:
                [(answer, served)] = self._transport.submit([replace(call, payload=body)])
                text = _content(answer)
                if text is None:
                    [text] = self._transport.read(call, answer)
            except ServerError as error:
                if error.status == 400 and self._adapt(error.words, body):
                    continue
                trouble, asked = str(error), min(error.retry_after or 0.0, _LONGEST_PAUSE)
                if error.status in _REFUSED:
                    return Refusal(f"{where} refused: {trouble}")
                if error.final or error.status not in {None, *_PASSING}:
                    return HarnessError(f"{where} refused: {trouble}")
            else:
                read = sum(estimate_tokens(message["content"]) for message in messages)
                guessed = Tokens(read, estimate_tokens(text), "estimate")
                return Reply(text, served.usage or guessed, served.usd)
            attempt += 1
        return HarnessError(
            f"{where} gave no answer in {settings.retries + 1} tries ({trouble}); see that it "
            "runs, or raise `retries`"
        )

    def _body(self, payload: Mapping[str, Any]) -> dict[str, object]:
        settings, body = self._settings, dict(payload)
        if settings.temperature is None or "temperature" in self._refused:
            body.pop("temperature", None)
        if settings.max_tokens is None:
            body.pop("max_tokens", None)
        elif "max_tokens" in self._refused:
            body["max_completion_tokens"] = body.pop("max_tokens")
        body.pop("seed", None)  # repeated ratings would all be the first
        if not body.get("stop"):
            body.pop("stop", None)
        return {**body, **settings.extra}

    def _adapt(self, detail: str, sent: Mapping[str, Any]) -> bool:
        """Leave out what the server says it does not take; whether anything is left to try."""
        for name in ("max_tokens", "temperature"):
            if name in detail and name in sent and name not in self._settings.extra:
                with self._lock:
                    if name not in self._refused:
                        self._refused.add(name)
                        log.warning(
                            "judge %s takes no %s: %s",
                            self._settings.model,
                            name,
                            "asked for max_completion_tokens instead"
                            if name == "max_tokens"
                            else "left to the server",
                        )
                return True
        return False


def _model_of(settings: JudgeSettings) -> tuple[str, dict[str, object]]:
    """Type and arguments of the harness's model that a judge's settings ask for."""
    if settings.base_url is None:
        return str(settings.lm), dict(settings.lm_args)
    headers = {}
    if settings.api_key_env:
        key = os.environ.get(settings.api_key_env)
        if not key:
            raise UsageError(
                f"judge {settings.model}: the environment variable {settings.api_key_env} with "
                "its key is not set"
            )
        headers["Authorization"] = f"Bearer {key}"
    return "local-chat-completions", {
        "model": settings.model,
        "base_url": f"{settings.base_url.rstrip('/')}/chat/completions",
        "header": headers or {"Accept": "application/json"},  # else the harness sends a key
        "timeout": max(1, round(settings.timeout)),
        "num_concurrent": 2,  # one alone would send the end-of-text string as a stop
    }


def _content(answer: Any) -> str | None:
    """A chat's reply, without parts such as reasoning; None where the answer is no chat's.

    The harness's own reading takes a choice without an index for an empty one.
    """
    try:
        content = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        return None
    if content is None:
        return ""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    return "".join(
        str(part.get("text") or "")
        for part in content
        if isinstance(part, dict) and part.get("type") in ("text", "output_text", None)
    )
