"""What we ask of the harness's models behind a server (`TemplateAPI`): payloads and their answers.

The harness's own loop (`generate_until`, `_loglikelihood_tokens`) makes an event loop, a session
and a handshake for every call. Here its parts are taken apart, so that requests can go through a
loop and a pool that last: what is sent and how it is read stays the model's own.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .models import unwrapped
from .names import resolve

# Tokenizers that are set up anew at each call are not for several threads.
_ENCODING = threading.Lock()

#: (messages, whether to generate, settings) -> body of the request.
Payload = Callable[[Any, bool, "dict[str, Any] | None"], dict[str, Any]]

#: Methods that must be the harness's own for its loop to be taken apart.
_LOOP = (
    "amodel_call",
    "batch_loglikelihood_requests",
    "generate_until",
    "get_batched_requests",
    "model_call",
    "_loglikelihood_tokens",
)


@dataclass(frozen=True)
class ServerCall:
    """One request to the server: what is sent, how its answer is read, which requests it is for.

    Attributes
    ----------
    payload : dict
        The body, as the model makes it.
    positions : tuple of int
        Positions of the requests that it answers.
    read : callable
        Turns the answer's JSON into one response for each position.
    """

    payload: dict[str, Any]
    positions: tuple[int, ...]
    read: Callable[[Any], list[Any]]


def talks_to_a_server(lm: Any) -> bool:
    """Whether the model's requests go out as the harness's own `TemplateAPI` sends them."""
    inner = unwrapped(lm)
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(inner).__mro__}
    if "lm_eval.models.api_models.TemplateAPI" not in kinds:
        return False
    stock = resolve("lm_eval.models.api_models:TemplateAPI")
    return all(
        name not in vars(inner) and getattr(type(inner), name) is getattr(stock, name)
        for name in _LOOP
    )


def route(lm: Any, ask: Callable[[list[ServerCall], int], list[Any]]) -> None:
    """Send a model's requests through `ask`, which answers some calls for so many requests."""
    inner = unwrapped(lm)
    own = inner.generate_until
    # The harness adds the end-of-text string where requests go out one by one, and only there.
    end = {"eos": inner.eos_string} if inner._concurrent <= 1 else {}

    def payload(messages: Any, generate: bool, settings: dict[str, Any] | None) -> dict[str, Any]:
        about = {"generate": generate, "gen_kwargs": settings, "seed": inner._seed, **end}
        return dict(inner._create_payload(inner.create_message(messages), **about))

    def generate_until(requests: Sequence[Any], disable_tqdm: bool = False) -> list[Any]:
        if any(len(request.args) > 2 for request in requests):  # pictures go the harness's way
            return list(own(requests, disable_tqdm=disable_tqdm))
        return ask(list(_generations(inner, payload, requests)), len(requests))

    def loglikelihood_tokens(requests: Sequence[Any], **_: Any) -> list[Any]:
        return ask(list(_likelihoods(inner, payload, requests)), len(requests))

    for name in ("parse_generations", "parse_logprobs"):  # nobody hears the answers twice
        vars(inner).pop(name, None)
    inner.generate_until = generate_until
    inner._loglikelihood_tokens = loglikelihood_tokens


def unroute(lm: Any) -> None:
    """Send a model's requests as the harness does again."""
    inner = unwrapped(lm)
    for name in ("generate_until", "_loglikelihood_tokens"):
        vars(inner).pop(name, None)


def address(lm: Any) -> tuple[str, dict[str, str]]:
    """(URL, headers) of a model's requests."""
    inner = unwrapped(lm)
    return str(inner.base_url), {str(k): str(v) for k, v in dict(inner.header or {}).items()}


def certificates(lm: Any) -> tuple[bool, str | None]:
    """(whether the server's certificate is verified, file of certificates or None)."""
    inner = unwrapped(lm)
    return bool(inner.verify_certificate), getattr(inner, "ca_cert_path", None)


def requests_in_flight(lm: Any) -> int:
    """How many requests the model's ``num_concurrent`` allows at once."""
    return max(1, int(unwrapped(lm)._concurrent))


def time_limit(lm: Any) -> float:
    """Seconds that one request may take."""
    return float(unwrapped(lm).timeout)


def _generations(lm: Any, payload: Payload, requests: Sequence[Any]) -> Iterator[ServerCall]:
    by_settings: dict[str, list[int]] = {}
    for position, request in enumerate(requests):
        by_settings.setdefault(repr(request.args[1]), []).append(position)
    size = max(1, int(lm._batch_size))
    for positions in by_settings.values():
        for start in range(0, len(positions), size):
            chunk = tuple(positions[start : start + size])
            prompts = [requests[p].args[0] for p in chunk]
            yield _generation(lm, payload, chunk, prompts, dict(requests[chunk[0]].args[1]))


def _generation(
    lm: Any,
    payload: Payload,
    positions: tuple[int, ...],
    prompts: list[Any],
    settings: dict[str, Any],
) -> ServerCall:
    messages: Any = prompts
    if lm.tokenized_requests:
        longest = lm.max_length - settings.get("max_gen_toks", lm._max_gen_toks)
        with _ENCODING:
            encoded = lm.tok_encode(prompts, add_special_tokens=lm.add_bos_token)
        messages = [tokens[-longest:] for tokens in encoded]

    def read(answer: Any) -> list[Any]:
        texts = list(lm.parse_generations(outputs=answer, contexts=prompts))
        for prompt, text in zip(prompts, texts):
            if text is not None:
                lm.cache_hook.add_partial("generate_until", (prompt, settings), text)
        nothing = resolve("lm_eval.models.api_models:LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER")
        return [nothing if text is None else text for text in texts]

    return ServerCall(payload(messages, True, copy.deepcopy(settings)), positions, read)


def _likelihoods(lm: Any, payload: Payload, requests: Sequence[Any]) -> Iterator[ServerCall]:
    assert lm.tokenizer is not None, (
        "Tokenizer is required for loglikelihood tasks to compute context lengths."
    )
    size = max(1, int(lm._batch_size))
    for start in range(0, len(requests), size):
        chunk = requests[start : start + size]
        inputs, contexts, keys = lm.batch_loglikelihood_requests([chunk])
        positions = tuple(range(start, start + len(chunk)))
        read = _reader(lm, inputs, contexts, keys)
        yield ServerCall(payload(inputs, False, None), positions, read)


def _reader(lm: Any, inputs: Any, contexts: Any, keys: Any) -> Callable[[Any], list[Any]]:
    def read(answer: Any) -> list[Any]:
        pairs = list(lm.parse_logprobs(outputs=answer, tokens=inputs, ctxlens=contexts))
        for key, pair in zip(keys, pairs):
            if key is not None and pair is not None:
                lm.cache_hook.add_partial("loglikelihood", key, pair)
        return pairs

    return read
