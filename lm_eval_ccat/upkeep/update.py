"""Take new calibration models into a bank without starting over.

With the scores that the bank was calibrated on, stated or kept in it, the bank is calibrated again
on all of them, which is exact. Without them, what the bank itself knows stands for them, as its
method can make use of it (`lm_eval_ccat.methods.method.Method`: `anew` for many new models, else
`update`).

Items that drifted are learned mostly from the new models, and items can be retired (`renew`).
Documents that changed, and items the bank does not know, are taken in with a new version of the
task only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..bank.bank import ItemBank
from ..bank.names import hashed_name
from ..bank.settings import compare_settings
from ..errors import BankError, BankMismatchError, UsageError
from ..methods.calibration import calibrate
from ..methods.registry import method_of
from ..scores.table import ScoreTable
from .check import aligned_scores
from .renew import admitted, drifted, new_documents, next_version, retire
from .union import table_of, union

#: New models with full results from which on, if they are half as many as the bank's, `anew` beats
#: `update`.
MANY = 20
_FULL = 0.9  # share of the items with a score


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
        Results of new models, same metric, filter and scale: full ones, or, for a method that
        accounts for how items were chosen, those of adaptive runs (`ScoreTable.read` with
        ``partial=True``). Where the scores that the bank was calibrated on are known, new ones of
        its models replace them; else such models are passed over, with a warning.
    calibrated_on : ScoreTable, optional
        The scores the bank was calibrated on (default: those that it keeps); then the update is an
        exact new calibration.
    retired : sequence of doc_id, optional
        Items that the bank shall no longer have (leaked, say).
    new_version : bool, optional
        Whether the new scores are of another version of the task: documents that are gone or
        changed in them are retired, those that are new (or what changed ones have become) learned
        from at least five models, new ones or the bank's own. Not with `calibrated_on`.

    Returns
    -------
    ItemBank
        Its provenance names the bank before and the models added.

    Raises
    ------
    BankError
        No new model, scores of another benchmark, or a bank that lacks what an update needs.
    BankMismatchError
        The new scores were made under settings that make another benchmark.

    Examples
    --------
    >>> table = ScoreTable.from_arrays(
    ...     [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.0, 0.3, 1.0]], models=["a", "b", "c"]
    ... )
    >>> bank = update(calibrate(table.select(["a", "b"]), "paper"), table.select(["c"]))
    >>> bank.models
    ('a', 'b', 'c')
    >>> whole = calibrate(table, "paper").parameters["difficulty"]
    >>> bool(np.allclose(bank.parameters["difficulty"], whole))
    True
    """
    of_version: list[str] = []
    if new_version:
        if calibrated_on is not None:
            raise UsageError("scores of two versions of a task are not one calibration's")
        bank, of_version = next_version(bank, new)
    bank = retire(bank, retired, "by hand")
    refusals, notes = compare_settings(bank.settings, new.settings) if new.settings else ([], [])
    notes = [*of_version, *notes]
    if refusals:
        raise BankMismatchError(
            f"the new scores do not fit the bank: {'; '.join(refusals)}; leave these models out, "
            "or calibrate a bank of their own"
        )
    hashed = bool(bank.provenance.get("names_hashed"))
    if hashed:
        new, calibrated_on = _hidden(new), calibrated_on and _hidden(calibrated_on)
    whole = aligned_scores(bank, new)  # same metric, filter and scale
    if calibrated_on is not None:
        return _again(bank, new, calibrated_on, notes)
    method = method_of(bank)
    if bank.observations and method.calibrates:
        taken, learned = new_documents(bank, new)
        if not new_version:
            taken, learned = taken[:0], [_SKIPPED] if len(taken) else []
        known = [n for n, d in enumerate(new.doc_ids) if d in bank.index]
        fitting = _columns(new, sorted([*known, *taken.tolist()]))
        return _again(bank, fitting, table_of(bank, bank.observations), [*notes, *learned])
    before = {m: j for j, m in enumerate(bank.models)}
    fresh = [m for m in new.models if m not in before]
    if not fresh and not (new_version and set(new.doc_ids) - set(bank.doc_ids)):
        raise BankError("every model of the new scores is in the bank already; nothing to add")
    if len(fresh) < len(new.models):
        count = len(new.models) - len(fresh)
        only = "learned from on new documents only" if new_version else "skipped"
        notes.append(f"{count} models are in the bank already and were {only}")
    made = bank
    if fresh:
        table, scores = new.select(fresh), whole[[m not in before for m in new.models]]
        if not np.isfinite(scores[:, bank.kept]).any(axis=1).all():
            raise BankError("a new model has no score on the items of the bank; leave it out")
        adaptive = [m for m, how in zip(table.row_model, table.chosen) if how == "adaptive"]
        if adaptive and not method.learns_from_chosen:
            raise BankError(
                f"the items of {adaptive[0]!r} were chosen by what it had scored, and an update of "
                f"method {bank.method!r} would take them for a sample; give full results, or a "
                "bank of method 'default'"
            )
        moved, of_drift = drifted(bank, table)
        notes += of_drift
        made = _learned(bank, scores, fresh, moved, not adaptive)
    if new_version:
        positions = {**before, **{m: len(before) + j for j, m in enumerate(fresh)}}
        made, learned = admitted(made, new, [positions[m] for m in new.models])
        notes += learned
    elif set(new.doc_ids) - set(bank.doc_ids):
        notes.append(_SKIPPED)
    updates = _updates(bank, fresh)
    if made.self_check is bank.self_check and fresh:
        n = sum(len(u["models"]) for u in updates)
        models = f"{n} model{'' if n == 1 else 's'}"
        notes.append(f"{_STALE}{models}; calibrate again when many were added")
    return replace(
        made,
        models=(*bank.models, *fresh),
        provenance={**made.provenance, "updates": updates},
        warnings=(*(w for w in bank.warnings if not w.startswith(_STALE)), *notes),
    )


_SKIPPED = "documents that the bank does not know were skipped"
_STALE = "the self-check and the errors' inflation are from before an update added "


def _learned(
    bank: ItemBank,
    scores: NDArray[np.float64],
    names: Sequence[str],
    moved: NDArray[np.bool_],
    plain: bool,
) -> ItemBank:
    """The bank with new models in it, the scores of its own not being known."""
    method = method_of(bank)
    full = plain and bool((np.isfinite(scores).mean(axis=1) >= _FULL).all())
    if method.anew is not None and full and len(names) >= max(MANY, len(bank.models) / 2):
        return method.anew(bank, scores, names, moved)
    if method.loosen is not None and moved.any():
        bank = method.loosen(bank, moved)
    return method.update(bank, scores, names)


def _updates(bank: ItemBank, models: Sequence[str]) -> list[dict[str, Any]]:
    """What a bank's provenance says of its updates, this one included."""
    this = {"previous": bank.sha256, "models": list(models), "package": __version__}
    return [*bank.provenance.get("updates", []), this]


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


def _again(
    bank: ItemBank, new: ScoreTable, calibrated_on: ScoreTable, notes: Sequence[str]
) -> ItemBank:
    """Calibrate on all scores, those of a model in both tables from the new one."""
    if set(calibrated_on.models) != set(bank.models):
        lacking = sorted(set(bank.models) ^ set(calibrated_on.models))[0]
        raise BankError(
            f"the scores given as those calibrated on have other models than the bank "
            f"({lacking!r} is in one of them only)"
        )
    made = calibrate(
        union(calibrated_on, new),
        bank.method,
        keep_scores=bool(bank.observations),
        **bank.provenance.get("options", {}),
    )
    updates = _updates(bank, [m for m in made.models if m not in set(bank.models)])
    kept = {k: v for k, v in bank.provenance.items() if k in ("retired", "names_hashed")}
    return replace(
        made,
        provenance={**made.provenance, **kept, "updates": updates},
        warnings=(*made.warnings, *notes),
    )
