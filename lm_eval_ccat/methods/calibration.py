"""`calibrate`: from a score table to an item bank, by any method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .. import __version__
from ..bank.bank import ItemBank
from ..bank.names import hashed_name, hide_names
from ..bank.observations import Observation
from ..errors import BankError
from ..scores.table import ScoreTable
from . import registry
from .trust import table_warnings

MIN_MODELS = 2


def calibrate(
    table: Any,
    method: str = "default",
    *,
    hash_names: bool = False,
    keep_scores: bool = False,
    **options: Any,
) -> ItemBank:
    """Calibrate an item bank on observed scores.

    Parameters
    ----------
    table : ScoreTable, data frame or array_like
        Scores of the calibration models; scores may be missing. A data frame (pandas, polars or
        Arrow) is in long form or, like a matrix, has a row per model and a column per item. To
        state a scale, use `ScoreTable.from_dataframe`.
    method : str, optional
        "default" is the recommended one, "paper" that of arXiv:2601.13885; others may be
        installed (`lm_eval_ccat.methods.registry`).
    hash_names : bool, optional
        Write hashes instead of model names into the bank, and no paths of the scores.
    keep_scores : bool, optional
        Keep the scores in the bank: an update then needs nothing else, and a model that is
        ranked again does not calibrate its own test. The bank grows with the models.
    **options
        Options of the method's own calibration.

    Returns
    -------
    ItemBank
        A blank one if the method needs no calibration.

    Raises
    ------
    BankError
        There are fewer than two models, an item or model has no scores, or all scores are equal.
    UsageError
        Unknown method, or an option that it does not have.

    Examples
    --------
    >>> calibrate([[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.0, 0.3, 1.0]], method="paper").n_items
    3
    """
    table = ScoreTable.of(table)
    chosen = registry.method(method)
    chosen.check_options(options, chosen.calibration_options)
    if not chosen.calibrates:
        return ItemBank.blank(
            table.doc_ids,
            task=table.task,
            metric=table.metric,
            filter=table.filter,
            scale=table.scale,
            doc_hashes=table.doc_hashes,
            settings=table.settings,
            method=method,
        )
    if len(table.models) < MIN_MODELS:
        raise BankError(
            f"calibration needs the scores of several models, the table has {len(table.models)}"
        )
    fitted = chosen.calibrate(table, **options)
    bank = ItemBank(
        method=method,
        doc_ids=table.doc_ids,
        kept=fitted.kept,
        parameters=fitted.parameters,
        constants=fitted.constants,
        scale=table.scale,
        metric=table.metric,
        task=table.task,
        filter=table.filter,
        doc_hashes=table.doc_hashes,
        models=table.models,
        settings=dict(table.settings),
        provenance={
            "package": __version__,
            "harness": table.settings.get("lm_eval_version"),
            "dataset": {
                part: table.settings.get(f"dataset_{part}") for part in ("path", "name", "revision")
            },
            "sources": list(table.sources),
            "rows": len(table.row_model),
            "names_hashed": False,
            "options": dict(options),
            "report": fitted.report,
        },
        self_check=fitted.self_check,
        warnings=(*table.warnings, *table_warnings(table), *fitted.warnings),
        observations=observations_of(table) if keep_scores else (),
    )
    return _anonymous(bank, len(table.warnings)) if hash_names else bank


def observations_of(table: ScoreTable) -> tuple[Observation, ...]:
    """The scores of a table as a bank of its items keeps them."""
    out, chosen = [], table.chosen or ("",) * len(table.row_model)
    for model, config, how, row in zip(table.row_model, table.row_config, chosen, table.scores):
        items = np.flatnonzero(np.isfinite(row))
        whole = "all" if len(items) == table.n_items else "first"
        out.append(Observation(model, how or whole, items, row[items], config=config))
    return tuple(out)


def _anonymous(bank: ItemBank, of_scores: int) -> ItemBank:
    """The bank with every model name replaced.

    Paths go, and so do the warnings of the scores (the first `of_scores`): they name files, and
    models that were left out.
    """
    if of_scores:
        note = f"{of_scores} warnings of the scores are not repeated here: they may name models"
        bank = replace(bank, warnings=(note, *bank.warnings[of_scores:]))
    hidden = {
        part: hide_names(getattr(bank, part), bank.models)
        for part in ("models", "constants", "provenance", "self_check", "warnings")
    }
    hidden["observations"] = tuple(
        replace(o, model=hashed_name(o.model)) for o in bank.observations
    )
    hidden["provenance"] |= {"names_hashed": True, "sources": []}
    return replace(bank, **hidden)
