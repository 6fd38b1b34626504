"""Item curves of the method "default"."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ...bank.bank import ItemBank
from ...scores.table import ScoreTable
from ..curves import Curves, Floats
from .calibration import model_of


def item_curves(bank: ItemBank) -> Curves:
    """The curves, without residual factors.

    A curve is the expectation of a model about which only its ability is known.
    """
    model = model_of(bank)
    items = model.items
    return Curves(items.coefficients, items.noise, items.basis, 0.0, origin=model.centre)


def fitted_scores(bank: ItemBank, table: ScoreTable) -> tuple[Floats, Floats, Floats]:
    """See `Method.fitted_scores`."""
    row = [table.models.index(m) for m in table.row_model]
    items = model_of(bank).items
    mu = expit(items.basis.at(items.abilities) @ items.coefficients.T)[row]
    level = np.array([items.model_noise(float(x)) for x in items.abilities])[row]
    return table.scores, mu, level[:, None] * items.noise[None, :]
