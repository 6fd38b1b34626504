"""The arguments of a `Ranker`, checked and made into what it works with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..errors import UsageError
from ..methods.policy import Policy
from ..methods.registry import method_of


def make_policy(bank: ItemBank, n_models: int, seed: int, options: dict[str, Any]) -> Policy:
    """The policy of the bank's method; options that it does not take are an error."""
    chosen = method_of(bank)
    given = {k: v for k, v in options.items() if v is not None}
    chosen.check_options(given, chosen.policy_options)
    return chosen.policy(bank, n_models, seed=seed, **given)


def units_array(bank: ItemBank, units: Any) -> NDArray[np.float64]:
    """Units in bank order: 1 each, or as given by doc_id or position."""
    if units is None:
        return np.ones(bank.n_items)
    if isinstance(units, Mapping):
        missing = [d for d in bank.doc_ids if d not in units]
        if missing:
            raise UsageError(f"units has no value for doc_id {missing[0]!r}")
        units = [units[d] for d in bank.doc_ids]
    array = np.asarray(units, dtype=np.float64)
    if array.shape != (bank.n_items,):
        raise UsageError(f"units has shape {array.shape}, the bank has {bank.n_items} items")
    if not (np.isfinite(array).all() and (array > 0.0).all()):
        raise UsageError("units must be numbers above 0")
    return array


def check_arguments(
    models: Mapping[str, float],
    confidence: float,
    warmup: int,
    budget: float | None,
    max_items: int | None,
    target_se: float | None,
) -> None:
    """Refuse arguments of a `Ranker` that are out of range."""
    if not models:
        raise UsageError("a ranking needs at least one model")
    for name, price in models.items():
        if not (math.isfinite(price) and price >= 0.0):
            raise UsageError(f"price {price!r} of model {name!r} is not a number of at least 0")
    if not 0.5 <= confidence < 1.0:
        raise UsageError(f"confidence {confidence!r} is not in [0.5, 1)")
    if warmup < 0:
        raise UsageError(f"warmup {warmup!r} is below 0")
    if budget is not None and not budget > 0.0:
        raise UsageError(f"budget {budget!r} is not above 0")
    if max_items is not None and max_items < 1:
        raise UsageError(f"max_items {max_items!r} is below 1")
    if target_se is not None and not target_se > 0.0:
        raise UsageError(f"target_se {target_se!r} is not above 0")
