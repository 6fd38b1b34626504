"""Many small symmetric matrices at once, as their upper triangles (`fractional.packed`)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .fractional import packed

Floats = NDArray[np.float64]

_BLOCK = 4096  # matrices whose entries stay in the processor's cache


@cache
def places(n: int) -> NDArray[np.intp]:
    """Where each entry of a symmetric matrix of size `n` is stored; shape (n, n).

    Examples
    --------
    >>> places(2).tolist()
    [[0, 1], [1, 2]]
    """
    row, column, _ = packed(n)
    found = np.empty((n, n), dtype=np.intp)
    found[row, column] = found[column, row] = np.arange(len(row))
    return found


def inverted(matrices: Floats, p: int) -> Floats:
    """Inverses of positive definite matrices, by Goodnight's (1979) sweep.

    LAPACK takes one matrix at a time; for a small one the call costs more than the arithmetic.

    Parameters
    ----------
    matrices : ndarray of shape (n, p (p + 1) / 2)
        Packed.
    p : int

    Returns
    -------
    ndarray of the same shape

    Examples
    --------
    >>> inverted(np.array([[2.0, 1.0, 1.0]]), 2).round(12).tolist()
    [[1.0, -1.0, 2.0]]
    """
    at, out = places(p), np.empty_like(matrices)
    for start in range(0, len(matrices), _BLOCK):
        a = np.array(matrices[start : start + _BLOCK].T, order="C")
        for k in range(p):
            scale = 1.0 / a[at[k, k]]
            others = [i for i in range(p) if i != k]
            scaled = {i: a[at[i, k]] * scale for i in others}
            for n, i in enumerate(others):
                for j in others[n:]:
                    a[at[i, j]] -= scaled[i] * a[at[j, k]]
            for i in others:
                a[at[i, k]] = scaled[i]
            a[at[k, k]] = -scale
        out[start : start + _BLOCK] = -a.T
    return out


def multiplied(matrices: Floats, vectors: Floats) -> Floats:
    """Products of packed matrices and vectors, of shape (n, p)."""
    return np.asarray(np.einsum("npq,nq->np", matrices[:, places(vectors.shape[1])], vectors))
