"""The documents of a run as the page shows them: which decided it, by what answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..visible import visible
from .run import StoredAnswer, StoredRun
from .weights import document_weights
from .words import item_text

#: All texts on the page together; a browser opens a page of this size without a pause.
TEXT_BUDGET = 16_000_000
LIMITS = (20_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 120)


def documents(
    run: StoredRun,
    models: Sequence[str],
    expected: Mapping[str, NDArray[np.float64]] | None,
    most: int | None = None,
) -> list[dict[str, object]]:
    """The documents that were put to a model, those that weighed most in the decisions first.

    Parameters
    ----------
    run : StoredRun
    models : sequence of str
        Models in the order of the page; answers refer to them by position.
    expected : mapping of str to ndarray, optional
        Expected scores on [0, 1] in bank order, to show which answers surprised.
    most : int, optional
        At most this many documents.

    Returns
    -------
    list of dict
        JSON values with short keys: ``id``, ``p`` prompt, ``t`` target, ``s`` spread (largest less
        smallest score, [0, 1]), ``w`` share of the evidence (per cent), ``a`` answers
        ``[model, raw, score, expected, text, left off]``.
    """
    by_doc: dict[Any, list[StoredAnswer]] = {}
    for answer in run.answers:
        by_doc.setdefault(answer.doc, []).append(answer)
    position = {m: j for j, m in enumerate(models)}
    spread = {doc: _spread(answers) for doc, answers in by_doc.items()}
    weight = document_weights(run)
    chosen = sorted(by_doc, key=lambda d: (-weight[d], -spread[d], str(d)))[:most]
    texts = [a.output for d in chosen for a in by_doc[d]]
    texts += [s for d in chosen if d in run.sources for s in _both(run, d)]
    limit = text_limit([len(t) for t in texts])
    entries = []
    for doc in chosen:
        prompt, target = _both(run, doc) if doc in run.sources else ("", "")
        entry: dict[str, object] = {
            "id": visible(item_text(doc)),
            "s": round(spread[doc], 4),
            "w": round(100.0 * weight[doc], 3),
            "a": [
                [
                    position[a.model],
                    _number(a.raw),
                    round(a.score, 4),
                    _expected(run, expected, a),
                    *_text(a.output, limit),
                ]
                for a in sorted(by_doc[doc], key=lambda a: (-a.score, position[a.model]))
            ],
        }
        if prompt:
            entry["p"] = list(_text(prompt, limit))
        if target:
            entry["t"] = list(_text(target, limit))
        entries.append(entry)
    return entries


def text_limit(lengths: Sequence[int], budget: int = TEXT_BUDGET) -> int:
    """The largest limit on one text under which all of them fit the budget.

    Examples
    --------
    >>> text_limit([100, 100]), text_limit([50_000] * 10_000)
    (20000, 1000)
    """
    sizes = np.asarray(lengths)
    for limit in LIMITS:
        if np.minimum(sizes, limit).sum() <= budget:
            return limit
    return LIMITS[-1]


def _both(run: StoredRun, doc: Any) -> tuple[str, str]:
    source = run.sources[doc]
    return source.prompt, source.target


def _spread(answers: Sequence[StoredAnswer]) -> float:
    scores = [a.score for a in answers]
    return max(scores) - min(scores)


def _text(text: str, limit: int) -> tuple[str, int]:
    return visible(text[:limit]), max(0, len(text) - limit)


def _expected(
    run: StoredRun, expected: Mapping[str, NDArray[np.float64]] | None, answer: StoredAnswer
) -> float | None:
    if run.banks is None or expected is None:
        return None
    return _number(float(expected[answer.model][run.place[answer.doc]]))


def _number(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(value, 4)
