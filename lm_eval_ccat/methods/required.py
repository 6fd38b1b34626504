"""What a method finds in a bank before it relies on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

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


def require_finite(bank: ItemBank, parts: Mapping[str, NDArray[np.float64]]) -> None:
    """Check that arrays hold numbers of a sensible size.

    Raises
    ------
    BankError
        Naming the first that does not.
    """
    for name, values in parts.items():
        if not np.isfinite(values).all() or np.abs(values).max(initial=0.0) > _LARGEST:
            raise BankError(f"damaged item bank: {name} holds numbers that make no sense")


def require_covariances(bank: ItemBank, packed: NDArray[np.float64], size: int) -> None:
    """Check that rows are upper triangles of covariance matrices.

    Parameters
    ----------
    bank : ItemBank
    packed : ndarray of shape (n_items, size (size + 1) / 2)
    size : int
        Of each matrix.

    Raises
    ------
    BankError
        Naming an item whose matrix has a negative variance.
    """
    row, column = np.triu_indices(size)
    full = np.empty((len(packed), size, size))
    full[:, row, column] = packed
    full[:, column, row] = packed
    least, largest = np.linalg.eigvalsh(full)[:, [0, -1]].T
    bad = np.flatnonzero(least < -1e-6 * np.maximum(largest, 1e-12))
    if len(bad):
        raise BankError(
            "damaged item bank: the covariance of doc_id "
            f"{bank.doc_ids[bad[0]]!r} has a negative variance"
        )
