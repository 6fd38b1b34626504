"""Recorded answers: those that models gave before (``prior:``), and how an answer is played back.

A ranking asks as it would without them. Where an answer to the very same prompt exists, it
is scored in place of a new one. So it does not matter how the documents of the earlier run were
chosen: an answer counts when this ranking's own rule, or its own draw, comes to its document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import ScoreTableError, UsageError
from ..scores.answers import EarlierAnswer, earlier_answers
from .fields import ANY


class Recorded:
    """Plays a recorded answer back where the harness expects a model."""

    world_size = 1

    def __init__(self, responses: Sequence[Sequence[Any]]) -> None:
        self._responses = [
            tuple(one) if isinstance(one, list) else one for group in responses for one in group
        ]

    def _play(self, requests: Sequence[Any]) -> list[Any]:
        return self._responses

    generate_until = loglikelihood = _play


def as_logged(responses: Any) -> list[Any]:
    """Responses as JSON can hold them."""
    return [[list(r) if isinstance(r, tuple) else r for r in group] for group in responses]


def answers_at_hand(
    prior: Mapping[str, Sequence[str]],
    models: Iterable[str],
    tasks: Sequence[str],
    item: Callable[[str, Any], Any],
    warn: Callable[[str], None] | None = None,
) -> dict[str, dict[Any, EarlierAnswer]]:
    """Earlier answers by model and item, the latest of each.

    Parameters
    ----------
    prior : mapping
        As `Spec` has it.
    models : iterable of str
        To be ranked.
    tasks : sequence of str
    item : callable
        ``(task, doc_id) -> item`` as the ranking names it.
    warn : callable, optional
        Is told of what was passed over: damaged files and lines, tasks without answers.

    Raises
    ------
    UsageError
        Logs are of none of the models.
    ScoreTableError
        Logs cannot be read or hold no answer to any of the tasks.
    """
    names = list(models)
    unknown = sorted(set(prior) - {ANY, *names})
    if unknown:
        raise UsageError(f"`prior:` names {unknown[0]}, which is not ranked")
    by_model: dict[str, dict[Any, EarlierAnswer]] = {name: {} for name in names}
    for model, paths in prior.items():
        for path in paths:
            answers = _of_any(path, tasks, warn)
            theirs = sorted({a.model for _, a in answers})
            alone = len(theirs) == 1 and (model != ANY or len(names) == 1)
            if not alone and not set(theirs) & set([model] if model else names):
                raise UsageError(
                    f"{path} holds answers of {', '.join(theirs[:8])}, none of which is ranked; "
                    "say whose they are: NAME=PATH"
                )
            for task, a in answers:
                whose = (model or names[0]) if alone else a.model
                if whose in by_model and model in (ANY, whose):
                    by_model[whose][item(task, a.doc_id)] = a
    return by_model


def _of_any(
    path: str, tasks: Sequence[str], warn: Callable[[str], None] | None
) -> list[tuple[str, EarlierAnswer]]:
    """The answers to those of the tasks that were run before."""
    answers, without = [], {}
    for task in tasks:
        try:
            answers += [(task, answer) for answer in earlier_answers(path, task, warn)]
        except ScoreTableError as error:
            without[task] = error
    if not answers:
        raise next(iter(without.values()))
    if without and warn:
        warn(f"{path} has no answers to {', '.join(without)}; all its documents are asked")
    return answers


def in_words(at_hand: Mapping[str, Mapping[Any, Any]]) -> str:
    """Sum up the earlier answers in words.

    >>> in_words({"a": {1: None, 2: None}, "b": {}})
    '2 of a'
    """
    return ", ".join(f"{len(of)} of {name}" for name, of in at_hand.items() if of)
