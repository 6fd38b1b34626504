"""A bank as if the models that it is to test had not calibrated it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..bank import ItemBank
from ..bank.names import hashed_name
from ..errors import CcatError
from ..methods.calibration import calibrate
from .grow import without
from .union import table_of

_SHOWN = 3


def of_others(bank: ItemBank, models: Collection[str]) -> tuple[ItemBank, str]:
    """Leave out what a bank knows of models that are to be ranked by it.

    Parameters
    ----------
    bank : ItemBank
    models : collection of str
        Names, which the bank may hold as hashes.

    Returns
    -------
    bank : ItemBank
        Made again of the others' scores, where the bank holds scores (``keep_scores``); else as
        it is.
    warning : str
        What a person should know of it; empty where no such model is in the bank.

    Examples
    --------
    >>> of_others(ItemBank.blank(range(3)), ["a"])[1]
    ''
    """
    names = {hashed_name(m): m for m in models} | {m: m for m in models}
    own = [m for m in bank.models if m in names]
    if not own or bank.method == "sample":
        return bank, ""
    shown = ", ".join(names[m] for m in own[:_SHOWN]) + (", ..." if len(own) > _SHOWN else "")
    what = f"the bank{f' of {bank.task}' if bank.task else ''} was calibrated on {shown} too"
    if bank.observations:
        try:
            return _made(bank, own), f"{what}: its scores of them are left out of this ranking"
        except CcatError as error:
            what = f"{what}, and cannot do without them ({error})"
    return bank, (
        f"{what}: what it says of them is surer than it should be; calibrate with --exclude, or "
        "with --keep_scores, which lets rankings leave them out"
    )


def _made(bank: ItemBank, own: Collection[str]) -> ItemBank:
    """The same calibration without some models; a bank that grew goes on as it grows."""
    if bank.provenance.get("grown"):
        return without(bank, own)
    rest = [o for o in bank.observations if o.model not in own]
    options = bank.provenance.get("options") or {}
    made = calibrate(table_of(bank, rest), bank.method, keep_scores=True, **options)
    return replace(made, settings=dict(bank.settings), made=bank.made)
