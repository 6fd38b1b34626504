"""The method "default" as the rest of the package sees it."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ...bank.bank import ItemBank
from ...scores.table import ScoreTable
from ..curves import Curves, Floats
from ..method import Method
from ..required import require_covariances, require_finite, require_parts
from .calibration import fit, model_of
from .policy import DefaultPolicy


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


def _requires(bank: ItemBank) -> None:
    require_parts(
        bank,
        ("intercept", "slope", "noise"),
        ("centre", "prior_sd", "spread"),
        positive=("prior_sd", "spread"),
    )
    model = model_of(bank)
    items, departures = model.items, model.departures
    at = items.basis.at(np.array([-3.0, 0.0, 3.0]))
    require_finite(
        bank,
        {
            "basis": at,
            "basis.turn": items.basis.turn,
            "abilities": items.abilities,
            "log_noise": items.log_noise,
            "departures": np.hstack(list(departures.to_dict().values())),
        },
    )
    require_covariances(bank, items.covariance, items.basis.size)


METHOD = Method(
    name="default",
    summary="recommended: item curves, and errors widened by a replay of models left out",
    policy=DefaultPolicy,
    calibrate=fit,
    requires=_requires,
    curves=item_curves,
    fitted_scores=fitted_scores,
    learns_from_chosen=True,
)
