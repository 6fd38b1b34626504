"""The method "default" as the rest of the package sees it."""

from __future__ import annotations

from ...bank.bank import ItemBank
from ..method import Method
from ..required import require_parts
from .calibration import fit
from .curves import fitted_scores, item_curves
from .policy import DefaultPolicy
from .update import absorb


def _requires(bank: ItemBank) -> None:
    require_parts(
        bank,
        ("intercept", "slope", "noise"),
        ("centre", "prior_sd", "spread"),
        positive=("prior_sd", "spread"),
    )


METHOD = Method(
    name="default",
    summary="recommended: item curves, and errors widened by a replay of models left out",
    policy=DefaultPolicy,
    calibrate=fit,
    requires=_requires,
    curves=item_curves,
    fitted_scores=fitted_scores,
    update=absorb,
)
