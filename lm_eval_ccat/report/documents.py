"""The documents of a run as the page shows them: which decided it, and by what answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..methods.method import method_of
from ..shown import visible
from .run import StoredAnswer, StoredRun
from .words import item_text

Floats = NDArray[np.float64]

#: All texts on the page together; a browser opens a page of this size without a pause.
TEXT_BUDGET = 16_000_000
LIMITS = (20_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 120)


def documents(
    run: StoredRun,
    models: Sequence[str],
    expected: Mapping[str, Floats] | None,
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
    scores = {doc: [a.score for a in answers] for doc, answers in by_doc.items()}
    spread = {doc: max(of) - min(of) for doc, of in scores.items()}
    weight = document_weights(run)
    chosen = sorted(by_doc, key=lambda d: (-weight[d], -spread[d], str(d)))[:most]
    texts = [a.output for d in chosen for a in by_doc[d]]
    texts += [s for d in chosen for s in run.sources.get(d, ())]
    limit = text_limit([len(t) for t in texts])
    entries = []
    for doc in chosen:
        answers = [
            [
                position[a.model],
                _number(a.raw),
                round(a.score, 4),
                None if expected is None else _number(expected[a.model][run.place[a.doc]]),
                *_text(a.output, limit),
            ]
            for a in sorted(by_doc[doc], key=lambda a: (-a.score, position[a.model]))
        ]
        entry: dict[str, object] = {
            "id": visible(item_text(doc)),
            "s": round(spread[doc], 4),
            "w": round(100.0 * weight[doc], 3),
            "a": answers,
        }
        for key, text in zip("pt", run.sources.get(doc, ())):
            if text:
                entry[key] = list(_text(text, limit))
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


def _text(text: str, limit: int) -> tuple[str, int]:
    return visible(text[:limit]), max(0, len(text) - limit)


def _number(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(value, 4)


# -- weights ------------------------------------------------------------------------------------


def document_weights(run: StoredRun) -> dict[Any, float]:
    """The share of each document in the evidence, summing to 1.

    The evidence of a pair is what its documents add to the difference between the two models. With
    item curves a document adds its score less the score expected at the ability between the two,
    times the item's slope over its noise (the score function of the ability); without, the
    difference of the two scores. Absolute shares are averaged over the neighbours of the order.

    Returns
    -------
    dict of document to float
        Every document that was asked; all 0 where no neighbours were asked anything that differs.
    """
    tested = set(run.tested)
    order = [m for m in run.result["order"] if m in tested]
    place = {doc: n for n, doc in enumerate(dict.fromkeys(a.doc for a in run.answers))}
    row = {m: n for n, m in enumerate(order)}
    scores = np.full((len(order), len(place)), np.nan)
    for answer in run.answers:
        if answer.model in row:
            scores[row[answer.model], place[answer.doc]] = answer.score
    total = np.zeros(len(place))
    bank = run.bank if run.has_curves else None
    if bank is not None:
        curves = method_of(bank).tested_curves(bank)
        items = np.array([bank.index[doc] for doc in place], dtype=int)
        abilities = [run.result["models"][m].get("ability") or 0.0 for m in order]
    for n, both in enumerate(pairwise(scores)):
        if bank is None:
            evidence = np.nan_to_num(np.abs(both[0] - both[1]))
        else:
            between = 0.5 * (abilities[n] + abilities[n + 1]) - curves.origin
            asked = np.flatnonzero(np.isfinite(both).any(axis=0))
            value, slope = curves.basis.value_and_slope(between)
            c, noise = curves.coefficients[items[asked]], curves.noise[items[asked]]
            expected, weight = expit(c @ value), (c @ slope) / noise
            a, b = (np.nan_to_num(weight * (seen[asked] - expected)) for seen in both)
            evidence = np.zeros(len(place))
            evidence[asked] = np.abs(a - b)
        total += evidence / (evidence.sum() or 1.0)
    shares = total / (total.sum() or 1.0)
    return dict(zip(place, shares.tolist()))
