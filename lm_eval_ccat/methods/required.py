"""What a method finds in a bank before it relies on it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..bank.bank import ItemBank
from ..errors import BankError

_LARGEST = 1e6


def require_parts(
    bank: ItemBank, parameters: Iterable[str], numbers: Iterable[str], positive: Iterable[str] = ()
) -> None:
    """Check parameters with one number per item, and constants.

    Parameters
    ----------
    bank : ItemBank
    parameters, numbers : iterable of str
        Names that `bank.parameters` and `bank.constants` must have.
    positive : iterable of str
        Those of `numbers` that must be above 0.

    Raises
    ------
    BankError
        Naming the part that is missing, not a number, or absurdly large.
    """
    for name in parameters:
        if name not in bank.parameters:
            raise BankError(f"damaged item bank: method {bank.method!r} needs parameter {name!r}")
        if bank.parameters[name].ndim != 1:
            raise BankError(f"damaged item bank: parameter {name!r} is not one number per item")
    for name in numbers:
        value = bank.constants.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BankError(f"damaged item bank: constant {name!r} is not a number")
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise BankError(f"damaged item bank: constant {name!r} is absurdly large")
        if name in positive and not value > 0:
            raise BankError(f"damaged item bank: constant {name!r} is not above 0")
