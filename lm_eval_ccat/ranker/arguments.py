"""Checks of the types and ranges of arguments."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import UsageError
from ..methods.method import Method
from ..metrics.scale import Floats


def number(
    value: Any, name: str, low: float = -math.inf, high: float = math.inf, above: bool = False
) -> float:
    """Return a finite number of at least `low` (with `above`: more than it) and below `high`.

    Examples
    --------
    >>> number("0.9", "confidence", 0.5, 1.0)
    Traceback (most recent call last):
    lm_eval_ccat.errors.UsageError: confidence '0.9' is not a number
    """
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
        raise UsageError(f"{name} {value!r} is not a number")
    size = float(value)
    if not (low < size if above else low <= size) or not size < high:
        wanted = "a finite number"
        if math.isfinite(high):
            wanted = f"in {'(' if above else '['}{low:g}, {high:g})"
        elif math.isfinite(low):
            wanted = f"a number {'above' if above else 'of at least'} {low:g}"
        raise UsageError(f"{name} {value!r} is not {wanted}")
    return size


def sure(confidence: Any) -> float:
    """Return a two-sided confidence, checked."""
    return number(confidence, "confidence", 0.5, 1.0)


def whole(value: Any, name: str, low: int | None = None) -> int:
    """Return a whole number of at least `low`.

    Examples
    --------
    >>> whole(3.5, "max_items", 1)
    Traceback (most recent call last):
    lm_eval_ccat.errors.UsageError: max_items 3.5 is not a whole number
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(f"{name} {value!r} is not a whole number")
    if low is not None and value < low:
        raise UsageError(f"{name} {value!r} is below {low}")
    return int(value)


def flag(value: Any, name: str) -> bool:
    """Return True or False; refuse anything that merely behaves like one of them."""
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} {value!r} is neither True nor False")
    return bool(value)


def one_of(value: Any, name: str, known: tuple[str, ...]) -> str:
    """Return one of the `known` words."""
    if value not in known:
        raise UsageError(f"{name} {value!r} is neither {' nor '.join(map(repr, known))}")
    return str(value)


def checked_options(method: Method, options: Mapping[str, Any]) -> dict[str, object]:
    """Return the options of a method that are not None, each checked for its default's type.

    Raises
    ------
    UsageError
        The method does not take an option, or the option has another type.
    """
    stated = {k: v for k, v in options.items() if v is not None}
    method.check_options(stated, method.policy_options)
    parameters = inspect.signature(method.policy).parameters
    for name, value in stated.items():
        default = parameters[name].default
        if isinstance(default, bool):
            flag(value, name)
        elif isinstance(default, int):
            whole(value, name)
        elif isinstance(default, float):
            number(value, name)
        elif isinstance(default, str) and not isinstance(value, str):
            raise UsageError(f"{name} {value!r} is not a text")
    return stated


def prices_of(models: Any) -> dict[str, float]:
    """Return the price of one unit by model; with names alone, 1 each."""
    if isinstance(models, (list, tuple)):
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
    return number(price, f"price of model {name!r}:", 0.0)


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
