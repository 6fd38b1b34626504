"""A bank in sentences: where it comes from, for whom it speaks, how well it did when tried."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from ..bank import ItemBank
from ..methods.registry import method_of
from .age import age_in_words

_NAMES = 6
#: Settings that a person chooses; the others are found in ``--json``.
_CHOSEN = (
    "num_fewshot", "chat_template", "system_instruction", "generation_kwargs", "task_version",
)  # fmt: skip


def told(bank: ItemBank) -> list[str]:
    """The sentences of `bank show`.

    Examples
    --------
    >>> told(ItemBank.blank(range(20)))[1]
    'It rests on no other models: the documents are drawn at random.'
    """
    filter_of = f", filter {bank.filter}" if bank.filter not in (None, "none") else ""
    kept, size = int(np.count_nonzero(bank.kept)), bank.n_items
    asked = f"All {size:,} documents" if kept == size else f"{kept:,} of {size:,} documents"
    task = f" of {bank.task}" if bank.task else ""
    found = [
        f"{asked}{task} may be asked; the metric is {bank.metric}{filter_of} "
        f"({bank.scale.describe()}).",
        origin(bank),
        reach(bank),
        tried(bank),
        _spread(bank),
        _settings(bank.settings),
    ]
    if bank.observations:
        n = len(bank.observations)
        models = "model" if n == 1 else "models"
        found.append(f"It holds the scores of {n} {models}, so that `bank update` can add others.")
    return [text for text in found if text]


def origin(bank: ItemBank, name: str = "It") -> str:
    """Models, method and age."""
    if not bank.models:
        return f"{name} rests on no other models: the documents are drawn at random."
    shown = ", ".join(map(str, bank.models[:_NAMES]))
    more = f" and {len(bank.models) - _NAMES} more" if len(bank.models) > _NAMES else ""
    return (
        f"{name} was calibrated on {len(bank.models)} models ({shown}{more}) by the method "
        f"“{bank.method}” and {age_in_words(bank)}."
    )


def reach(bank: ItemBank, name: str = "It") -> str:
    """For which scores it speaks; empty where it does not say."""
    said = bank.self_check.get("range")
    return f"{name} {str(said).removeprefix('it ')}." if said else ""


def tried(bank: ItemBank) -> str:
    """What its self-check found; empty where there was none."""
    check = bank.self_check
    if "coverage_95" not in check:
        return ""
    return (
        f"Tried on {check['models_left_out']} models left out of the calibration, its 95% "
        f"intervals covered {100 * check['coverage_95']:.0f}% of the true scores and its "
        f"estimates had an RMSE of {check['rms_error']:.3f} (scores on 0 to 1) after "
        f"{check['items']} documents."
    )


def _spread(bank: ItemBank) -> str:
    method = method_of(bank)
    if not method.has_curves or not bank.kept.any():
        return ""
    curves = method.tested_curves(bank)
    at = curves.basis.at(np.array([curves.centre]))[0]
    expected = expit(curves.coefficients[bank.kept] @ at)
    low, quarter, high, most = np.quantile(expected, [0.0, 0.25, 0.75, 1.0])
    return (
        f"A middling model is expected to score {low:.2f} on its hardest document and {most:.2f} "
        f"on its easiest, {quarter:.2f} to {high:.2f} on the middle half (scores on 0 to 1)."
    )


def _settings(settings: Any) -> str:
    stated = {k: v for k in _CHOSEN if (v := settings.get(k)) not in (None, False, "", {}, [])}
    if not stated:
        return ""
    parts = [f"{k.replace('_', ' ')} {_short(v)}" for k, v in stated.items()]
    return f"It holds for runs with {', '.join(parts)}; a run that differs is refused or warned of."


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return " and ".join(f"{k}={v!r}" for k, v in value.items())
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
