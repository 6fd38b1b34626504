"""Take new calibration models into a bank without starting over.

Given the scores that the bank was calibrated on, the bank is calibrated again on all of them, which
is exact. Without them, what the bank itself knows stands for them, as its method can make use of it
(`lm_eval_ccat.methods.method.Method.update`).

Items that drifted are learned mostly from the new models, and items can be retired (`renew`).
Documents that changed, and items the bank does not know, are taken in with a new version of the
task only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import __version__
from ..bank.bank import ItemBank
from ..bank.names import hashed_name
from ..bank.settings import compare_settings
from ..errors import BankError, BankMismatchError, UsageError
from ..methods.calibration import calibrate
from ..methods.registry import method_of
from ..scores.table import ScoreTable
from .check import aligned_scores
from .renew import admitted, freed, next_version, retire
from .union import union


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
        ``partial=True``). Models that the bank was
        calibrated on already are passed over (with a warning), unless `calibrated_on` is given,
        when their new scores count.
    calibrated_on : ScoreTable, optional
        The scores the bank was calibrated on; then the update is an exact new calibration.
    retired : sequence of doc_id, optional
        Items that the bank shall no longer have (leaked, say).
    new_version : bool, optional
        Whether the new scores are of another version of the task: documents that are gone or
        changed in them are retired, those that are new (or what changed ones have become) learned
        from at least five new models. Not with `calibrated_on`.

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
    if calibrated_on is not None:
        return _again(bank, new, calibrated_on, notes)
    known = set(bank.models)
    hashed = bool(bank.provenance.get("names_hashed"))
    names = [hashed_name(m) if hashed else m for m in new.models]
    fresh = [m for m, n in zip(new.models, names) if n not in known]
    if not fresh:
        raise BankError("every model of the new scores is in the bank already; nothing to add")
    if len(fresh) < len(new.models):
        notes.append(
            f"{len(new.models) - len(fresh)} models are in the bank already and were skipped"
        )
    table = new.select(fresh)
    scores = aligned_scores(bank, table)
    if not np.isfinite(scores[:, bank.kept]).any(axis=1).all():
        raise BankError("a new model has no score on the items of the bank; leave it out")
    added = [hashed_name(m) if hashed else m for m in fresh]
    method = method_of(bank)
    adaptive = [m for m, how in zip(table.row_model, table.chosen) if how == "adaptive"]
    if adaptive and not method.learns_from_chosen:
        raise BankError(
            f"the items of {adaptive[0]!r} were chosen by what it had scored, and an update of "
            f"method {bank.method!r} would take them for a sample; give full results, or a bank "
            "of method 'default'"
        )
    freer, drifted = freed(bank, table)
    made = method.update(freer, scores, added)
    notes += drifted
    if new_version:
        made, learned = admitted(made, table)
        notes += learned
    elif table.n_items > bank.n_items or set(table.doc_ids) - set(bank.doc_ids):
        notes.append("documents that the bank does not know were skipped")
    provenance = {
        **made.provenance,
        "updates": [
            *bank.provenance.get("updates", []),
            {"previous": bank.sha256, "models": added, "package": __version__},
        ],
    }
    warnings = [w for w in bank.warnings if not w.startswith(_STALE)]
    return replace(
        made,
        models=(*bank.models, *added),
        provenance=provenance,
        warnings=(*warnings, *notes, f"{_STALE}{plural_models(provenance['updates'])}"),
    )


_STALE = "the self-check and the errors' inflation are from before an update added "


def plural_models(updates: list[dict[str, Any]]) -> str:
    """How many models the updates of a bank added, in words."""
    n = sum(len(u["models"]) for u in updates)
    return f"{n} model{'' if n == 1 else 's'}; calibrate again when many were added"


def _again(
    bank: ItemBank, new: ScoreTable, calibrated_on: ScoreTable, notes: list[str]
) -> ItemBank:
    """Calibrate on all scores, those of a model in both tables from the new one."""
    hashed = bool(bank.provenance.get("names_hashed"))
    names = [hashed_name(m) if hashed else m for m in calibrated_on.models]
    if set(names) != set(bank.models):
        lacking = sorted(set(bank.models) ^ set(names))[0]
        raise BankError(
            f"the scores given as those calibrated on have other models than the bank "
            f"({lacking!r} is in one of them only)"
        )
    aligned_scores(bank, new)  # same metric, filter and scale
    options = {k: v for k, v in bank.provenance.get("options", {}).items()}
    made = calibrate(union(calibrated_on, new), bank.method, hash_names=hashed, **options)
    before = set(bank.models)
    return replace(
        made,
        provenance={
            **made.provenance,
            "updates": [
                *bank.provenance.get("updates", []),
                {
                    "previous": bank.sha256,
                    "models": [m for m in made.models if m not in before],
                    "package": __version__,
                },
            ],
        },
        warnings=(*made.warnings, *notes),
    )
