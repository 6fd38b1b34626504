"""What a calibration method returns; `calibrate` puts the provenance around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Fitted:
    """Parameters of a response model fitted to a score table.

    Attributes
    ----------
    kept : ndarray of bool, shape (n_items,)
    parameters : dict of str to ndarray, first axis n_items
    constants : dict of JSON values
    report : dict
        Facts for the person who calibrates (items removed and why, spread of abilities).
    self_check : dict
        How well the bank predicts models left out of its calibration.
    warnings : tuple of str
    """

    kept: NDArray[np.bool_]
    parameters: dict[str, NDArray[np.float64]]
    constants: dict[str, Any]
    report: dict[str, Any] = field(default_factory=dict)
    self_check: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
