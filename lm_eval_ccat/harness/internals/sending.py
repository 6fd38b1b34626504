"""Requests to a model, and its answers with the requests."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ...errors import HarnessError
from .batches import halve_batch_size


def send(lm: Any, instances: Sequence[Any]) -> None:
    """Run requests through the model and store each response with its request.

    As `lm_eval.evaluator.evaluate` does: per request type one call, each request repeated
    ``repeats`` times in a row, the responses appended in order.
    """
    by_type: dict[str, list[Any]] = {}
    for instance in instances:
        by_type.setdefault(instance.request_type, []).extend([instance] * instance.repeats)
    answers = {kind: _answer(lm, kind, requests) for kind, requests in by_type.items()}
    for kind, requests in by_type.items():
        if len(answers[kind]) != len(requests):
            raise HarnessError(
                f"the model answered {len(answers[kind])} of {len(requests)} {kind} requests"
            )
    # Stored only once every answer is there: a call that fails leaves no half-asked document.
    for instance in instances:
        instance.resps = []
    for kind, requests in by_type.items():
        for instance, answer in zip(requests, answers[kind]):
            instance.resps.append(answer)


def _answer(lm: Any, kind: str, requests: list[Any]) -> list[Any]:
    method = getattr(lm, kind)
    # A progress bar for every few documents says nothing.
    quiet = "disable_tqdm" in inspect.signature(method).parameters
    while True:
        try:
            return list(method(requests, disable_tqdm=True) if quiet else method(requests))
        except RuntimeError as error:
            if "out of memory" not in str(error).lower() or not halve_batch_size(lm):
                raise
