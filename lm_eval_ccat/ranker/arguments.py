"""Checks of the types and ranges of arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from ..methods.method import Method
from ..metrics.scale import Floats
from ..options import AT_LEAST_0, SWITCH, number


def checked_options(method: Method, options: Mapping[str, Any]) -> dict[str, object]:
    """Return the options of a method that are not None, each checked by the type of its default.

    Raises
    ------
    UsageError
        The method does not take an option, or the option has another type.
    """
    values = {name: value for name, value in options.items() if value is not None}
    method.check_options(values, method.policy_options)
    parameters = inspect.signature(method.policy).parameters
    kinds = {bool: SWITCH, int: number(integral=True), float: number()}
    # A default tells the type; options of other types are checked by their method.
    for name, value in values.items():
        if kind := kinds.get(type(parameters[name].default)):
            kind.check(value, name)
    return values


def prices_of(models: Any) -> dict[str, float]:
    """Return the price of one unit by model; with names alone, 1 each."""
    if isinstance(models, (list, tuple)):
        # A mapping would drop the second of two models of one name without a word.
        if len(set(map(str, models))) < len(models):
            raise UsageError(f"models {models!r} names one twice")
        models = dict.fromkeys(models, 1.0)
    if not isinstance(models, Mapping):
        raise UsageError(f"models {models!r} is neither a list of names nor {{name: price}}")
    if not models:
        raise UsageError("a ranking needs at least one model")
    return {name: price_of(name, price) for name, price in models.items()}


def price_of(name: Any, price: Any) -> float:
    """Return the price of one unit of a model, checked."""
    if not isinstance(name, str):
        raise UsageError(f"model {name!r} is not a name")
    return float(AT_LEAST_0.check(price, f"price of {name}"))


def item_units(items: Sequence[Any], units: Any) -> Floats:
    """Return the size of each item.

    Parameters
    ----------
    items : sequence
        doc_ids, or pairs of task and doc_id.
    units : mapping, array_like or None
        ``{item: units}``, or an array in the order of the items; by default 1 each.

    Raises
    ------
    UsageError
        An item has no units, or they are not positive.
    """
    if units is None:
        return np.ones(len(items))
    if isinstance(units, Mapping):
        units = [units.get(item) for item in items]
    try:
        sizes: Floats = np.asarray(units, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"units {units!r:.60} are not numbers above 0") from None
    if sizes.shape != (len(items),):
        raise UsageError(f"units: {sizes.size} values for {len(items)} items")
    bad = np.flatnonzero(~(np.isfinite(sizes) & (sizes > 0.0)))
    if len(bad):
        raise UsageError(
            f"units: {len(bad)} of {len(items)} items have no positive units "
            f"(doc_id {items[bad[0]]!r})"
        )
    return sizes
