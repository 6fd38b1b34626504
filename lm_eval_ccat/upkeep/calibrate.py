"""A calibration and its report: figures, and whether to trust the bank."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..methods.calibration import calibrate as calibrate
from ..methods.method import method_of
from ..metrics import check_column
from ..scores import ScoreTable
from ..scores.item_scaling import CONSTANT, ItemScaling
from ..shown import plural
from .words import Facts, dated, facts_of

_SHOWN = 10  # items that calibration removed


def make_bank(
    table: ScoreTable, method: str = "default", *, scale_items: bool = False, **options: Any
) -> ItemBank:
    """Calibrate a bank, dated today.

    Parameters
    ----------
    table : ScoreTable
    method : str, optional
    scale_items : bool, optional
        Scale each item's scores to [0, 1] over the calibration rows first; the bank keeps the ends
        (`lm_eval_ccat.scores.item_scaling`).
    **options
        Of `calibrate`.

    Raises
    ------
    MetricError
        Every score is the same.
    BankError
        As `calibrate`.

    Examples
    --------
    >>> rows = [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.3, 0.6, 0.7]]
    >>> table = ScoreTable.from_arrays(rows, models=["a", "b", "c"])
    >>> make_bank(table, "paper", scale_items=True).metric
    'score_item_scaled'
    """
    check_column(table.raw, metric=table.metric, task=table.task or "")
    if not scale_items:
        return dated(calibrate(table, method, **options))
    scaling = ItemScaling.fit(table)
    bank = calibrate(scaling.apply(table), method, **options)
    return dated(replace(bank, constants={**bank.constants, CONSTANT: scaling.to_dict()}))


def report(table: ScoreTable, bank: ItemBank) -> Facts:
    """Report on a calibration, as JSON values on the metric's own scale."""
    means = np.array(
        [np.nanmean(table.model_scores(unit=False, models=np.array([j])))
         for j in range(len(table.models))]
    )  # fmt: skip
    noise, method = {}, method_of(bank)
    if method.has_curves:  # of the median item where items differ in them
        curves = method.tested_curves(bank)
        discrimination = curves.coefficients[:, 1] / np.sqrt(curves.noise)
        noise = {
            "k": float(np.nanmedian(curves.noise)),
            "discrimination": float(np.nanmedian(discrimination)),
        }
    order = np.argsort(-means if table.scale.higher_is_better else means, kind="stable")
    removed = (bank.provenance.get("report") or {}).get("removed", {})
    return {
        **facts_of(bank),
        "models": {table.models[i]: float(means[i]) for i in order},
        "configs": len(table.row_model),
        "removed": {str(doc_id): why for doc_id, why in removed.items()},
        "missing_scores": int(np.isnan(table.raw).sum()),
        **noise,
        "trust": trust(bank),
    }


def trust(bank: ItemBank) -> str:
    """Say in plain words whether the bank can be trusted."""
    stated = bank.self_check.get("trust") or bank.provenance.get("report", {}).get("trust")
    if isinstance(stated, str):
        return stated
    doubts = len(bank.warnings)
    opening = (
        f"read the {plural(doubts, 'warning')} before relying on this bank"
        if doubts
        else "no problem was found in the scores"
    )
    return f"{opening}; its ranking is not tested; run `lm-eval-ccat simulate` on the same scores"


def in_lines(facts: Facts) -> list[tuple[str, str]]:
    """A calibration's report as pairs of a name and a text, whether to trust the bank first.

    Figures of the method and of its self-check stand in the facts, which `report` makes, alone.
    """
    means, removed = list(facts["models"].items()), list(facts["removed"].items())
    several = f" in {facts['configs']} configs" if facts["configs"] > len(means) else ""
    missing = f"; {facts['missing_scores']} scores missing" if facts["missing_scores"] else ""
    lines = [
        ("trust", facts["trust"]),
        ("task", f"{facts['task'] or 'not stated'}, filter {facts['filter'] or 'not stated'}"),
        ("metric", f"{facts['metric']} ({facts['scale']})"),
        ("method", facts["method"]),
        ("models", f"{len(means)}{several}, from {means[0][0]} ({means[0][1]:.4g}) to "
                   f"{means[-1][0]} ({means[-1][1]:.4g})"),
        ("items", f"{facts['items_kept']} kept of {facts['items']}{missing}"),
    ]  # fmt: skip
    lines += [("  removed", f"doc_id {d}: {why}") for d, why in removed[:_SHOWN]]
    if len(removed) > _SHOWN:
        lines.append(("  removed", f"{len(removed) - _SHOWN} more, listed in the bank"))
    settings = {k: v for k, v in facts["settings"].items() if v is not None}
    if settings:
        lines.append(("settings", ", ".join(f"{k}={json.dumps(v)}" for k, v in settings.items())))
    return lines
