"""What there is to say of a calibration: the self-check by replay, the figures, the trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..methods.calibration import calibrate as calibrate
from ..methods.registry import method_of
from ..scores import ScoreTable
from ..simulation import simulate
from ..simulation.methods import named

# Beyond this the replay of the bank's own models takes longer than the calibration.
_REPLAY_CELLS = 1_500_000
_REPLAY_FOLDS = 10
_REPLAY_MODELS = 6


def replay(
    table: ScoreTable, bank: ItemBank, on_progress: Callable[[int, int], None] | None = None
) -> dict[str, Any] | None:
    """Hold a bank's own models out in turn and rank them by banks of the others.

    Parameters
    ----------
    table : ScoreTable
        What the bank was calibrated on.
    bank : ItemBank
    on_progress : callable, optional
        Called with (folds done, folds in all).

    Returns
    -------
    dict or None
        A summary as `simulate` makes it; None where the calibration checked itself, where there
        are too few models, and where it would take longer than the calibration.
    """
    if bank.self_check or len(table.models) < _REPLAY_MODELS or table.raw.size > _REPLAY_CELLS:
        return None
    found = simulate(
        table,
        [replace(named(bank.method), calibrate=bank.provenance.get("options", {}))],
        holdout=min(4, len(table.models) // 3),
        folds=_REPLAY_FOLDS,
        on_progress=on_progress,
    )
    return found.summary[bank.method]


def report(
    table: ScoreTable, bank: ItemBank, replayed: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Collect what there is to say of a calibration, as JSON values on the metric's own scale."""
    rows = (table.model_scores(unit=False, models=np.array([j])) for j in range(len(table.models)))
    means = np.array([np.nanmean(row) for row in rows])
    order = np.argsort(-means if table.scale.higher_is_better else means, kind="stable")
    missing = sum(int(np.isnan(row).sum()) for row in table.raw)
    found = bank.provenance.get("report", {})
    return {
        "task": bank.task,
        "metric": bank.metric,
        "filter": bank.filter,
        "scale": bank.scale.describe(),
        "method": bank.method,
        "sha256": bank.sha256,
        "models": {table.models[i]: float(means[i]) for i in order},
        "configs": len(table.row_model),
        "items": bank.n_items,
        "items_kept": int(bank.kept.sum()),
        "removed": {str(doc_id): why for doc_id, why in found.get("removed", {}).items()},
        "missing_scores": missing,
        **_noise(bank),
        "constants": {
            name: value
            for name, value in bank.constants.items()
            if isinstance(value, (int, float)) and name not in ("k", "discrimination")
        },
        "parameters": _spread(bank),
        "settings": bank.settings,
        "self_check": bank.self_check,
        "replay": replayed,
        "warnings": list(bank.warnings),
        "trust": trust(bank, replayed),
    }


def _noise(bank: ItemBank) -> dict[str, float]:
    """Noise ``k`` and discrimination of a bank, of the median item where items differ in them."""
    method = method_of(bank)
    if not method.has_curves:
        return {}
    curves = method.tested_curves(bank)
    discrimination = curves.coefficients[:, 1] / np.sqrt(curves.noise)
    return {
        "k": float(np.nanmedian(curves.noise)),
        "discrimination": float(np.nanmedian(discrimination)),
    }


def _spread(bank: ItemBank) -> dict[str, dict[str, float]]:
    spread = {}
    for name, values in bank.parameters.items():
        finite = values[np.isfinite(values)]
        if values.ndim == 1 and finite.size:
            low, middle, high = np.quantile(finite, [0.05, 0.5, 0.95]).tolist()
            spread[name] = {"p05": low, "median": middle, "p95": high}
    return spread


def trust(bank: ItemBank, replayed: dict[str, Any] | None) -> str:
    """Say in plain words whether the bank can be trusted."""
    stated = bank.self_check.get("trust") or bank.provenance.get("report", {}).get("trust")
    if isinstance(stated, str):
        return stated
    doubts = len(bank.warnings)
    opening = (
        "nothing in the scores speaks against this bank"
        if not doubts
        else f"read the {doubts} warning{'s' if doubts > 1 else ''} before relying on this bank"
    )
    if replayed is None:
        return (
            f"{opening}; how well it ranks is not checked: `lm-eval-ccat simulate` on the same "
            "scores says"
        )
    parts = [f"mean tau {replayed['tau']:.2f} with {replayed['items_per_model']:.0f} items a model"]
    if replayed["confident_accuracy"] is not None:
        parts.append(
            f"{replayed['confident_accuracy']:.1%} of {replayed['confident_pairs']} decided pairs "
            "right"
        )
    wide = (replayed["z_rms"] or 0.0) > 1.5
    if replayed["coverage"] is not None:
        parts.append(f"{replayed['coverage']:.0%} of 95% intervals true")
    ending = (
        f"; its intervals are too narrow to be relied on (the method {bank.method!r} knows "
        "nothing of misfit)"
        if wide
        else ""
    )
    return f"{opening}; its own models, held out, are ranked with {', '.join(parts)}{ending}"
