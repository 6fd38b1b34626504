"""Token counts as the server itself reports them.

Models of the harness that speak an OpenAI-like protocol hand each answer of the server to their
``parse_generations`` or ``parse_logprobs``; the answer's ``usage`` block is what will be billed.
Listening there changes nothing of what the model does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class UsageMeter:
    """Collects the ``usage`` of a model's answers, separately for each thread.

    Parameters
    ----------
    lm : LM
        The model; one whose answers carry no usage is left alone.

    Examples
    --------
    >>> meter = UsageMeter(lm)                 # doctest: +SKIP
    >>> meter.reset()                          # doctest: +SKIP
    >>> lm.generate_until(requests)            # doctest: +SKIP
    >>> meter.read()                           # doctest: +SKIP
    (412, 37)
    """

    def __init__(self, lm: Any) -> None:
        self._local = threading.local()
        inner = getattr(lm, "lm", lm)  # the response cache wraps a model
        for name in ("parse_generations", "parse_logprobs"):
            function = getattr(inner, name, None)
            if callable(function) and not getattr(function, "_ccat", False):
                setattr(inner, name, self._listening(function))

    def _listening(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def listen(*args: Any, **kwargs: Any) -> Any:
            self._take(kwargs.get("outputs", args[0] if args else None))
            return function(*args, **kwargs)

        listen._ccat = True  # type: ignore[attr-defined]
        return listen

    def _take(self, outputs: Any) -> None:
        for output in outputs if isinstance(outputs, list) else [outputs]:
            usage = output.get("usage") if isinstance(output, dict) else None
            if not isinstance(usage, dict):
                continue
            read = usage.get("prompt_tokens", usage.get("input_tokens"))
            written = usage.get("completion_tokens", usage.get("output_tokens"))
            if isinstance(read, int) and isinstance(written, int):
                self._local.read = getattr(self._local, "read", 0) + read
                self._local.written = getattr(self._local, "written", 0) + written
                self._local.answers = getattr(self._local, "answers", 0) + 1

    def reset(self) -> None:
        """Forget what this thread's requests used so far."""
        self._local.__dict__.clear()

    def read(self, answers: int) -> tuple[int, int] | None:
        """(prompt, generated) tokens of this thread since `reset`.

        None unless at least ``answers`` answers carried a usage block: a sum with gaps is no sum.
        """
        if getattr(self._local, "answers", 0) < answers:
            return None
        return self._local.read, self._local.written


def own_retries(lm: Any, attempts: int) -> None:
    """Set how often the model itself repeats a failed request, where it has such a setting."""
    inner = getattr(lm, "lm", lm)
    if hasattr(inner, "max_retries"):
        inner.max_retries = attempts


def requests_at_once(lm: Any) -> tuple[int, int]:
    """(calls that may run at the same time, requests of one call) for this model.

    API models take ``num_concurrent`` calls of ``batch_size`` prompts; local ones one call of
    ``batch_size``; a batch size of ``auto`` counts as 8.
    """
    inner = getattr(lm, "lm", lm)
    size = getattr(inner, "batch_size", 1)
    if hasattr(inner, "_concurrent"):
        return max(1, int(inner._concurrent)), max(1, int(getattr(inner, "_batch_size", 1)))
    try:
        return 1, max(1, int(size))
    except (TypeError, ValueError):
        return 1, 8
