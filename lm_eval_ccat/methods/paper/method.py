"""The method "paper" as the rest of the package sees it."""

from __future__ import annotations

from ...bank.bank import ItemBank
from ...errors import BankError
from ..method import Method
from ..required import require_parts
from .curves import fitted_scores, stretched_curves, unstretched_curves
from .misfit import calibrated
from .policy import PaperPolicy


def _requires(bank: ItemBank) -> None:
    require_parts(bank, ("difficulty",), ("k", "start"), positive=("k",))
    if bank.constants["k"] < 1e-12:
        raise BankError("damaged item bank: constant 'k' is absurdly small")


METHOD = Method(
    name="paper",
    summary="exactly the paper, for comparison: one difficulty per item, one noise per bank",
    policy=PaperPolicy,
    calibrate=calibrated,
    requires=_requires,
    curves=unstretched_curves,
    test_curves=stretched_curves,
    fitted_scores=fitted_scores,
)
