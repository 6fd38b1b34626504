"""How much each document weighed in the decisions between neighbours of the order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..methods.registry import method_of
from .run import StoredRun

Floats = NDArray[np.float64]


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
