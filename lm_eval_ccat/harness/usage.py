"""Token counts as the server itself reports them.

Models of the harness that speak an OpenAI-like protocol hand each answer of the server to their
``parse_generations`` or ``parse_logprobs``; the answer's ``usage`` block is what will be billed.
Listening there changes nothing of what the model does.
"""

from __future__ import annotations

import threading
from typing import Any

from . import internals


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
        internals.hear_answers(lm, self._take)

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
