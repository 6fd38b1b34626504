"""The method "default" as the rest of the package sees it."""

from __future__ import annotations

import numpy as np

from ...bank.bank import ItemBank
from ..method import Method
from ..required import require_covariances, require_finite, require_parts
from .calibration import fit, model_of
from .curves import fitted_scores, item_curves
from .policy import DefaultPolicy


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
