"""A bank in words and figures: its origin, the scores to trust it for, what it reveals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
from scipy.special import expit

from ..bank import ItemBank, SuiteBank
from ..methods.registry import method_of
from ..wording import plural, short

_NAMES, _PAGE_NAMES = 6, 40
#: Settings that a person chooses; the others are found in ``--json``.
_CHOSEN = (
    "num_fewshot", "chat_template", "system_instruction", "generation_kwargs", "task_version",
)  # fmt: skip
_QUANTILES = {"min": 0.0, "p05": 0.05, "median": 0.5, "p95": 0.95, "max": 1.0}
#: Days after which models have changed so much that a bank should be checked on new ones.
RENEW_AFTER = 365

Facts = dict[str, Any]  # JSON values


def facts_of(bank: ItemBank) -> Facts:
    """What a bank holds, as JSON values.

    Examples
    --------
    >>> facts_of(ItemBank.blank(range(3), task="t"))["items_kept"]
    3
    """
    return {
        "sha256": bank.sha256,
        "method": bank.method,
        "task": bank.task,
        "metric": bank.metric,
        "filter": bank.filter,
        "scale": bank.scale.describe(),
        "items": bank.n_items,
        "items_kept": int(bank.kept.sum()),
        "calibration_models": list(bank.models),
        "settings": dict(bank.settings),
        "constants": dict(bank.constants),
        "parameters": {
            name: dict(zip(_QUANTILES, np.quantile(finite, list(_QUANTILES.values())).tolist()))
            for name, values in bank.parameters.items()
            if (finite := values[np.isfinite(values)]).size
        },
        "provenance": bank.provenance,
        "self_check": bank.self_check,
        "warnings": [*bank.warnings, *bank.notes],
        "made": bank.made,
        "age": age_in_words(bank),
        "observations": len(bank.observations),
    }


def in_one_line(bank: ItemBank) -> str:
    """A bank's line in the list of a suite.

    Examples
    --------
    >>> in_one_line(ItemBank.blank(range(3)))
    'sample, 3 of 3 items, 0 models, made on an unrecorded date'
    """
    doubts = len(bank.warnings) + len(bank.notes)
    return (
        f"{bank.method}, {int(bank.kept.sum())} of {bank.n_items} items, {len(bank.models)} "
        f"models, {age_in_words(bank)}" + (f"; {plural(doubts, 'warning')}" if doubts else "")
    )


def in_sentences(bank: ItemBank) -> list[str]:
    """Return the text of `bank show`.

    Examples
    --------
    >>> in_sentences(ItemBank.blank(range(20)))[1]
    'It rests on no other models: documents are drawn at random.'
    """
    filter_of = f", filter {bank.filter}" if bank.filter not in (None, "none") else ""
    kept, size = int(np.count_nonzero(bank.kept)), bank.n_items
    asked = f"All {size:,} documents" if kept == size else f"{kept:,} of {size:,} documents"
    task = f" of {bank.task}" if bank.task else ""
    texts = [
        f"{asked}{task} may be asked; the metric is {bank.metric}{filter_of} "
        f"({bank.scale.describe()}).",
        origin(bank),
        reach(bank),
        tried(bank),
        _difficulty(bank),
        _settings(bank.settings),
    ]
    if bank.observations:
        n = plural(len(bank.observations), "model")
        texts.append(f"It holds the scores of {n}, so that `bank update` can add others.")
    return [text for text in texts if text]


def origin(bank: ItemBank, name: str = "It") -> str:
    """Models, method and age."""
    if not bank.models:
        return f"{name} rests on no other models: documents are drawn at random."
    return (
        f"{name} was calibrated on {len(bank.models)} models ({_named(bank.models, _NAMES)}) by "
        f"the method “{bank.method}” and {age_in_words(bank)}."
    )


def reach(bank: ItemBank, name: str = "It") -> str:
    """Say for which scores to trust a bank; empty if it does not say."""
    words = str(bank.self_check.get("range") or "").split()
    inside = f"{name[:1].lower()}{name[1:]}"
    named = " ".join(inside if word == "it" else word for word in words)
    return f"{named[0].upper()}{named[1:]}." if named else ""


def tried(bank: ItemBank) -> str:
    """Return the result of a bank's self-check; empty if there was none."""
    check = bank.self_check
    if "coverage_95" not in check:
        return ""
    return (
        f"Tried on {check['models_left_out']} models left out of the calibration, its 95% "
        f"intervals covered {100 * check['coverage_95']:.0f}% of the true scores and its "
        f"estimates had an RMSE of {check['rms_error']:.3f} (scores on 0 to 1) after "
        f"{check['items']} documents."
    )


def _difficulty(bank: ItemBank) -> str:
    method = method_of(bank)
    if not method.has_curves or not bank.kept.any():
        return ""
    curves = method.tested_curves(bank)
    at = curves.basis.at(np.array([curves.centre]))[0]
    expected = expit(curves.coefficients[bank.kept] @ at)
    low, quarter, high, most = np.quantile(expected, [0.0, 0.25, 0.75, 1.0])
    return (
        f"An average model is expected to score {low:.2f} on its hardest document and {most:.2f} "
        f"on its easiest, {quarter:.2f} to {high:.2f} on the middle half (scores on 0 to 1)."
    )


def _settings(settings: Any) -> str:
    stated = {k: v for k in _CHOSEN if (v := settings.get(k)) not in (None, False, "", {}, [])}
    if not stated:
        return ""
    parts = [f"{k.replace('_', ' ')} {_short(v)}" for k, v in stated.items()]
    return f"It holds for runs with {', '.join(parts)}; other runs are refused, or warned about."


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return " and ".join(f"{k}={v!r}" for k, v in value.items())
    return short(value)


def _named(models: Sequence[str], most: int) -> str:
    more = f" and {len(models) - most} more" if len(models) > most else ""
    return ", ".join(map(str, models[:most])) + more


def reveals(bank: ItemBank) -> list[str]:
    """Return what a bank's file reveals beside the items' parameters."""
    shown = []
    if bank.models and not bank.provenance.get("names_hashed"):
        shown.append(f"the names of {len(bank.models)} models and how able they are")
    elif bank.models:
        shown.append(f"hashes of the names of {len(bank.models)} models, which a guess can test")
    if bank.doc_hashes is not None:
        shown.append("hashes of the documents, which show whether a text is among them")
    if bank.observations:
        shown.append(f"every score of {len({o.model for o in bank.observations})} models")
    if bank.provenance.get("sources"):
        shown.append("paths of the files that the scores came from")
    return shown


def page_of(suite: SuiteBank, licence: str | None = None) -> str:
    """The page of a bank, or of a suite, in Markdown, for the hub.

    Parameters
    ----------
    suite : SuiteBank
        A single bank is a suite of one.
    licence : str, optional
        Identifier of the licence under which it is given away.

    Examples
    --------
    >>> page_of(SuiteBank({"t": ItemBank.blank([1, 2], metric="bleu")})).splitlines()[6]
    '# Item bank of t, bleu'
    """
    head = ["---", "tags:", "- lm-eval-ccat", "- item-bank", f"license: {licence or 'unknown'}"]
    lines = [*head, "---"]
    for task, outcome, bank in suite.banks():
        lines += [*_section(task, outcome, bank), ""]
    lines += [
        "It ranks models on these documents with few items, if they are run as its calibration "
        "models were (few-shot number, prompts, generation settings). It is no replacement for "
        "full results where a score is to be published as one.",
        "",
    ]
    return "\n".join(lines)


def _section(task: str, outcome: str, bank: ItemBank) -> list[str]:
    models = _named(bank.models, _PAGE_NAMES)
    facts = {
        "metric": f"{bank.metric}, filter {bank.filter or 'none'}, {bank.scale.describe()}",
        "items": f"{int(bank.kept.sum()):,} of {bank.n_items:,} may be asked",
        "method": bank.method,
        "age": age_in_words(bank),
        "SHA-256": bank.sha256,
        "how well it replays": str(bank.self_check.get("trust") or "not checked"),
        "calibrated on": f"{len(bank.models)} models: {models}" if models else "no models",
        **{f"setting {k}": v for k, v in sorted(bank.settings.items()) if v is not None},
    }
    lines = [f"# Item bank of {task}, {outcome}", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    for title, texts in (("Warnings", bank.warnings), ("What the file reveals", reveals(bank))):
        if texts:
            lines += ["", f"## {title}", "", *(f"- {one}" for one in texts)]
    return lines


def dated(bank: ItemBank, today: date | None = None) -> ItemBank:
    """The bank, made today."""
    return replace(bank, made=(today or date.today()).isoformat())


def age_in_words(bank: ItemBank, today: date | None = None) -> str:
    """How old a bank is and whether to renew it.

    Examples
    --------
    >>> bank = dated(ItemBank.blank([1]), date(2025, 1, 1))
    >>> age_in_words(bank, date(2025, 1, 31))
    'made on 2025-01-01, 30 days ago'
    >>> age_in_words(bank, date(2026, 6, 1)).split("; ")[1]
    'renew it with `bank update` or a new calibration'
    """
    try:
        day_made = date.fromisoformat(bank.made or "")
    except ValueError:
        return "made on an unrecorded date"
    days = ((today or date.today()) - day_made).days
    text = f"made on {day_made.isoformat()}, {days} day{'' if days == 1 else 's'} ago"
    if days <= RENEW_AFTER:
        return text
    return (
        f"{text}: `bank check` on models of today says whether it still holds; renew it with "
        "`bank update` or a new calibration"
    )
