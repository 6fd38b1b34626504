"""Take new calibration models into a bank: calibrate again on all scores, old and new.

The old scores are those that the bank keeps, or are stated. Items can be retired; documents that
changed, and items the bank does not know, are taken in with a new version of the task only
(`renew`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .. import __version__
from ..bank.bank import ItemBank
from ..bank.names import hashed_name
from ..bank.settings import compare_settings
from ..errors import BankError, BankMismatchError
from ..methods.calibration import calibrate
from ..methods.registry import method_of
from ..scores.item_scaling import CONSTANT
from ..scores.table import ScoreTable
from .check import aligned_scores
from .renew import BY_HAND, new_documents, next_version, retire
from .union import table_of, union


def update(
    bank: ItemBank,
    new: ScoreTable,
    calibrated_on: ScoreTable | None = None,
    *,
    retired: Sequence[Any] = (),
    new_version: bool = False,
) -> ItemBank:
    """Add calibration models to a bank.

    Parameters
    ----------
    bank : ItemBank
    new : ScoreTable
        Results, same metric, filter and scale: full ones, or, for a method that accounts for how
        items were chosen, those of adaptive runs (`ScoreTable.read` with ``partial=True``). Of a
        model that the bank has its new scores count.
    calibrated_on : ScoreTable, optional
        The scores the bank was calibrated on (default: those that it keeps).
    retired : sequence of doc_id, optional
        Items that the bank shall no longer have (leaked, say).
    new_version : bool, optional
        Whether the new scores are of another version of the task: documents that are gone or
        changed in them are retired, those that are new (or what changed ones have become) learned
        from at least five models, new ones or the bank's own.

    Returns
    -------
    ItemBank
        What a calibration on all scores makes; its provenance names the bank before and the models
        added.

    Raises
    ------
    BankError
        The bank keeps no scores and none are stated, or the new ones are of another benchmark.
    BankMismatchError
        The new scores were made under settings that make another benchmark.

    Examples
    --------
    >>> table = ScoreTable.from_arrays(
    ...     [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.0, 0.3, 1.0]], models=["a", "b", "c"]
    ... )
    >>> old = table.select(["a", "b"])
    >>> update(calibrate(old, "paper", keep_scores=True), table.select(["c"])).models
    ('a', 'b', 'c')
    """
    notes: list[str] = []
    if new_version:
        bank, notes = next_version(bank, new)
    bank = retire(bank, retired, BY_HAND)
    refusals, doubts = compare_settings(bank.settings, new.settings) if new.settings else ([], [])
    if refusals:
        raise BankMismatchError(
            f"the new scores do not fit the bank: {'; '.join(refusals)}; leave these models out, "
            "or calibrate a bank of their own"
        )
    if calibrated_on is None and not bank.observations:
        raise BankError(
            "the bank keeps no scores, and a bank is updated by a calibration on all scores: give "
            "those it was calibrated on as well (--calibrated_on), or calibrate it with "
            "--keep_scores"
        )
    adaptive = [m for m, how in zip(new.row_model, new.chosen) if how == "adaptive"]
    if adaptive and not method_of(bank).learns_from_chosen:
        raise BankError(
            f"the items of {adaptive[0]!r} were chosen by what it had scored, and method "
            f"{bank.method!r} would take them for a sample; give full results, or a bank of method "
            "'default'"
        )
    if bank.provenance.get("names_hashed"):
        new, calibrated_on = _hidden(new), calibrated_on and _hidden(calibrated_on)
    aligned_scores(bank, new)  # same metric, filter and scale
    if calibrated_on is None:
        calibrated_on = table_of(bank, bank.observations)
    elif set(calibrated_on.models) != set(bank.models):
        lacking = sorted(set(bank.models) ^ set(calibrated_on.models))[0]
        raise BankError(
            f"the scores given as those calibrated on have other models than the bank "
            f"({lacking!r} is in one of them only)"
        )
    taken, learned = new_documents(bank, new)
    if not new_version:
        learned = ["documents that the bank does not know were skipped"] if len(taken) else []
        taken = taken[:0]
    known = [n for n, d in enumerate(new.doc_ids) if d in bank.index]
    updated = calibrate(
        union(
            _columns(
                calibrated_on, [n for n, d in enumerate(calibrated_on.doc_ids) if d in bank.index]
            ),
            _columns(new, sorted([*known, *taken.tolist()])),
        ),
        bank.method,
        keep_scores=bool(bank.observations),
        **bank.provenance.get("options", {}),
    )
    this = {
        "previous": bank.sha256,
        "models": [m for m in updated.models if m not in set(bank.models)],
        "package": __version__,
    }
    updates = [*bank.provenance.get("updates", []), this]
    kept = {k: v for k, v in bank.provenance.items() if k in ("retired", "names_hashed")}
    ends = {k: v for k, v in bank.constants.items() if k == CONSTANT}
    return replace(
        updated,
        settings=dict(bank.settings),
        constants={**updated.constants, **ends},
        provenance={**updated.provenance, **kept, "updates": updates},
        warnings=(*updated.warnings, *notes, *doubts, *learned),
    )


def _hidden(table: ScoreTable) -> ScoreTable:
    """The table with hashes for its models' names, and without what may name them."""
    return replace(
        table, row_model=tuple(map(hashed_name, table.row_model)), sources=(), warnings=()
    )


def _columns(table: ScoreTable, at: Sequence[int]) -> ScoreTable:
    """The table of some items, by their positions."""
    hashes = table.doc_hashes
    return replace(
        table,
        raw=table.raw[:, at],
        doc_ids=tuple(table.doc_ids[i] for i in at),
        doc_hashes=None if hashes is None else tuple(hashes[i] for i in at),
    )
