"""What a bank of each method must hold for its tests to run, checked when a file is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

#: For each method: parameters, constants that are numbers, and those of them that are above 0.
_PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "paper": (("difficulty",), ("k", "start"), ("k",)),
    "default": (
        ("intercept", "slope", "noise"),
        ("centre", "prior_sd", "spread"),
        ("prior_sd", "spread"),
    ),
}
_LARGEST = 1e6


def require_parts(
    method: str, constants: Mapping[str, Any], parameters: Mapping[str, NDArray[Any]]
) -> None:
    """Check that a bank's method has what it needs.

    Raises
    ------
    ValueError
        Naming the part that is missing, not a number, or absurdly large.
    """
    names, numbers, positive = _PARTS.get(method, ((), (), ()))
    for name in names:
        if name not in parameters:
            raise ValueError(f"method {method!r} needs the parameter {name!r}")
        if parameters[name].ndim != 1:
            raise ValueError(f"parameter {name!r} is not one number per item")
    for name in numbers:
        value = constants.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"constant {name!r} is not a number")
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise ValueError(f"constant {name!r} is absurdly large")
        if name in positive and not value > 0:
            raise ValueError(f"constant {name!r} is not above 0")
