"""The documents of a run as the page shows them: which decided it, and by what answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..methods.registry import method_of
from ..visible import visible
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
    spread = {doc: _spread(answers) for doc, answers in by_doc.items()}
    weight = document_weights(run)
    chosen = sorted(by_doc, key=lambda d: (-weight[d], -spread[d], str(d)))[:most]
    texts = [a.output for d in chosen for a in by_doc[d]]
    texts += [s for d in chosen for s in run.sources.get(d, ())]
    limit = text_limit([len(t) for t in texts])
    entries = []
    for doc in chosen:
        prompt, target = run.sources.get(doc, ("", ""))
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


def _spread(answers: Sequence[StoredAnswer]) -> float:
    scores = [a.score for a in answers]
    return max(scores) - min(scores)


def _text(text: str, limit: int) -> tuple[str, int]:
    return visible(text[:limit]), max(0, len(text) - limit)


def _expected(
    run: StoredRun, expected: Mapping[str, Floats] | None, answer: StoredAnswer
) -> float | None:
    if run.banks is None or expected is None:
        return None
    return _number(float(expected[answer.model][run.place[answer.doc]]))


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
    scores: dict[str, dict[Any, float]] = {m: {} for m in run.tested}
    for answer in run.answers:
        scores[answer.model][answer.doc] = answer.score
    total = {answer.doc: 0.0 for answer in run.answers}
    order = [m for m in run.result["order"] if m in scores]
    weigh = _by_curves(run) if run.has_curves else _by_difference
    for a, b in pairwise(order):
        shares = weigh(a, b, scores)
        whole = sum(shares.values())
        if whole > 0.0:
            for doc, value in shares.items():
                total[doc] += value / whole
    whole = sum(total.values())
    return {doc: value / whole if whole else 0.0 for doc, value in total.items()}


def _by_difference(a: str, b: str, scores: Mapping[str, Mapping[Any, float]]) -> dict[Any, float]:
    both = scores[a].keys() & scores[b].keys()
    return {doc: abs(scores[a][doc] - scores[b][doc]) for doc in both}


def _by_curves(
    run: StoredRun,
) -> Callable[[str, str, Mapping[str, Mapping[Any, float]]], dict[Any, Any]]:
    bank = run.bank
    assert bank is not None
    curves = method_of(bank).tested_curves(bank)
    ability = {m: one.get("ability") or 0.0 for m, one in run.result["models"].items()}

    def weigh(a: str, b: str, scores: Mapping[str, Mapping[Any, float]]) -> dict[Any, float]:
        docs = sorted(scores[a].keys() | scores[b].keys(), key=bank.index.__getitem__)
        if not docs:
            return {}
        rows = [bank.index[doc] for doc in docs]
        between = 0.5 * (ability[a] + ability[b])
        value, slope = curves.basis.value_and_slope(between - curves.origin)
        c = curves.coefficients[rows]
        expected, weight = expit(c @ value), (c @ slope) / curves.noise[rows]

        def surplus(model: str) -> Floats:
            asked: Floats = np.array([scores[model].get(doc, np.nan) for doc in docs])
            missing_as_0: Floats = np.nan_to_num(weight * (asked - expected))
            return missing_as_0

        return dict(zip(docs, np.abs(surplus(a) - surplus(b)).tolist()))

    return weigh
