"""Metrics and their weights, as a person writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError

_FORM = "`metrics:` must be a metric, several as [bleu, chrf], or their weights {bleu: 1, chrf: 0}"


def parse_metrics(value: Any) -> dict[str, float] | None:
    """Weights of metrics by name, in the order given; None for None.

    Parameters
    ----------
    value : str, list of str, mapping or None
        A name may hold a filter, as in ``"exact_match,strict-match"``; in a list a weight may stand
        behind it, as in ``"chrf=0"`` (default 1).

    Raises
    ------
    UsageError
        It is nothing of the kind, a metric stands there twice, or no weight is above 0.

    Examples
    --------
    >>> parse_metrics(["bleu", "chrf=0"])
    {'bleu': 1.0, 'chrf': 0.0}
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UsageError(f"{_FORM}, not {value!r}")
        pairs = [_named(name) for name in names]
    found: dict[str, float] = {}
    for name, weight in pairs:
        if not isinstance(name, str) or not name:
            raise UsageError(f"{_FORM}, not {value!r}")
        if name in found:
            raise UsageError(f"`metrics:` holds {name} twice")
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not math.isfinite(weight) or weight < 0:
            raise UsageError(f"`metrics.{name}` must be a weight of at least 0, not {weight!r}")
        found[name] = float(weight)
    if not any(found.values()):
        raise UsageError("`metrics:` must hold a metric with a weight above 0: one to rank by")
    return found


def _named(text: str) -> tuple[str, Any]:
    name, equals, weight = text.partition("=")
    if not equals:
        return text, 1.0
    try:
        return name, float(weight)
    except ValueError:
        return name, weight
