"""How many requests a model takes at once, found out once and kept."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from .models import unwrapped

log = logging.getLogger("lm_eval.ccat")

#: Requests that a model with a queue of its own (offline vLLM, SGLang) takes in one call.
QUEUE = 64
#: What a prompt may be longer than the longest that was looked at.
_MARGIN = 1.25


def requests_at_once(lm: Any) -> tuple[int, int]:
    """(calls that may run at the same time, requests of one call) for this model.

    API models take ``num_concurrent`` calls of ``batch_size`` prompts; local ones one call of
    ``batch_size``. A model that fills its batches itself takes calls of `QUEUE`.
    """
    inner = unwrapped(lm)
    if hasattr(inner, "_concurrent"):
        return max(1, int(inner._concurrent)), max(1, int(getattr(inner, "_batch_size", 1)))
    size = getattr(inner, "batch_size", 1)
    if str(size).startswith("auto"):
        return 1, QUEUE
    try:
        return 1, max(1, int(size))
    except (TypeError, ValueError):  # a model that has no such thing
        return 1, 1


def natural_batch(lm: Any) -> int:
    """How many requests the model takes without waiting for one another; at least 1."""
    calls, size = requests_at_once(lm)
    return calls * size


def batch_is_open(lm: Any) -> bool:
    """Whether the model would look for its batch size at each call (``auto``, ``auto:8``)."""
    inner = unwrapped(lm)
    return getattr(inner, "batch_size", 1) == "auto" and hasattr(inner, "_detect_batch_size")


def find_batch_size(lm: Any, prompts: Iterable[str], answer: int) -> int:
    """The largest batch that fits, for prompts like these and answers of so many tokens."""
    inner = unwrapped(lm)
    longest = max((len(inner.tok_encode(prompt)) for prompt in prompts), default=1)
    tokens = min(int(inner.max_length), int(longest * _MARGIN) + answer)
    size = int(inner._detect_batch_size([(None, [0] * max(1, tokens), [0])], 0))
    log.info("batch size %d found for requests of up to %d tokens, and kept", size, tokens)
    return size


def keep_batch_size(lm: Any, size: int) -> None:
    """Fix a model's batch size, whatever it was."""
    unwrapped(lm).batch_size_per_gpu = size


def halve_batch_size(lm: Any) -> bool:
    """Halve a local model's batch size after it ran out of memory; False where it cannot be."""
    inner = unwrapped(lm)
    size = getattr(inner, "batch_size_per_gpu", 1)
    if not isinstance(size, int) or size < 2:
        return False
    log.warning("out of memory with a batch of %d; going on with %d", size, size // 2)
    keep_batch_size(lm, size // 2)
    return True
