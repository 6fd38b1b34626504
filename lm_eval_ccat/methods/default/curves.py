"""Item curves of the method "default"."""

from __future__ import annotations

from ...bank.bank import ItemBank
from ..curves import Curves
from .calibration import model_of


def item_curves(bank: ItemBank) -> Curves:
    """The curves, without residual factors.

    A curve is the expectation of a model about which only its ability is known.
    """
    model = model_of(bank)
    items = model.items
    return Curves(items.coefficients, items.noise, items.basis, 0.0, origin=model.centre)
