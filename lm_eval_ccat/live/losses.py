"""Documents on which a candidate scores lower than its baseline, with both answers if at hand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CcatError
from ..metrics.scale import Floats, Scale
from ..ranker.difference import ALIKE
from ..scores.answers import read_answers
from ..scores.readers.logged_runs import can_read, find_runs
from ..scores.reading import Logged

#: Largest number of documents that a comparison lists.
MOST_LOSSES = 50
#: Largest number of letters of an answer in it.
MOST_LETTERS = 400


@dataclass(frozen=True)
class Loss:
    """A document on which the candidate scores lower.

    Attributes
    ----------
    doc_id : int or str
    baseline, candidate : float
        Scores on the metric's own scale.
    answers : (str or None, str or None)
        The beginning of both models' answers.
    """

    doc_id: Any
    baseline: float
    candidate: float
    answers: tuple[str | None, str | None] = (None, None)


def losses_of(
    ids: Sequence[Any], baseline: Floats, candidate: Floats, scale: Scale
) -> tuple[Loss, ...]:
    """Return the documents on which the candidate scores lower, the largest loss first.

    They are `MOST_LOSSES` at most; of equal losses those of the first documents. Missing scores are
    no losses.

    Parameters
    ----------
    ids : sequence
    baseline, candidate : ndarray of shape (n_documents,)
        Scores on [0, 1], higher is better.
    scale : Scale
        The metric's own.

    Examples
    --------
    >>> losses = losses_of([7, 8, 9], np.array([0.5, 1, 1]), np.array([0.25, 1, 0]), Scale(0, 4))
    >>> [(loss.doc_id, loss.baseline, loss.candidate) for loss in losses]
    [(9, 4.0, 0.0), (7, 2.0, 1.0)]
    """
    loss = np.asarray(baseline) - np.asarray(candidate)
    largest = np.argsort(-loss, kind="stable")[:MOST_LOSSES]
    return tuple(
        Loss(ids[n], float(scale.restore(baseline[n])), float(scale.restore(candidate[n])))
        for n in largest
        # Equal scores may differ by rounding.
        if loss[n] > ALIKE
    )


def with_answers(
    losses: Sequence[Loss], outcome: Logged, names: tuple[str, str], sources: Sequence[Any]
) -> tuple[Loss, ...]:
    """Add both models' answers, as far as `sources` are logs of the harness that hold them."""
    texts_by_side: list[dict[Any, str]] = []
    for source, name in zip(sources, names):
        texts: dict[Any, str] = {}
        if isinstance(source, str | Path) and can_read(Path(source)):
            with suppress(CcatError):
                logged = read_answers(source, outcome.task, outcome.filter)
                models = logged.models
                texts = {
                    answer.doc_id: answer.text[:MOST_LETTERS]
                    for answer in logged.answers
                    if answer.model == name or len(models) == 1
                }
        texts_by_side.append(texts)
    first, second = texts_by_side
    return tuple(
        replace(loss, answers=(first.get(loss.doc_id), second.get(loss.doc_id))) for loss in losses
    )


def n_documents_of(sources: Sequence[Any], task: str | None) -> int | None:
    """Return the number of documents of a task, where logs of the harness state it."""
    sizes = []
    for source in sources:
        if isinstance(source, str | Path) and can_read(Path(source)):
            with suppress(CcatError):
                sizes += [
                    run.counts.original for run in find_runs(Path(source), task)[0] if run.counts
                ]
    return max(sizes, default=None)
