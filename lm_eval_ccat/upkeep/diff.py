"""Differences between two banks or two suites: provenance, documents, parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypedDict

import numpy as np

from ..bank import ItemBank, SuiteBank
from ..wording import short, some

_BLOCKS = ("settings", "constants", "provenance", "self_check")
#: Facts that no person compares, but for some.
_INSIDE = ("constants.", "provenance.", "self_check.")
_TELLING = ("self_check.rms_error", "self_check.coverage_95")


class Pair(TypedDict):
    """A fact of both banks; None where one has none."""

    old: object
    new: object


class Change(TypedDict):
    """How far a parameter's values moved over the items that both banks have."""

    largest_change: float
    rms_change: float
    correlation: float | None


class Diff(TypedDict):
    """Differences of two banks, the second against the first.

    `fields` goes by dotted name (``settings.num_fewshot``). `kept_now` and `removed_now` are items
    that only the new bank asks, and that only the old one does.
    """

    same: bool
    fields: dict[str, Pair]
    items_added: list[object]
    items_removed: list[object]
    documents_changed: list[object]
    kept_now: list[object]
    removed_now: list[object]
    models_added: list[object]
    models_removed: list[object]
    parameters: dict[str, Change]


class SuiteDiff(TypedDict):
    """Differences of two suites; banks that only one has by task and outcome."""

    same: bool
    banks_added: list[list[str]]
    banks_removed: list[list[str]]
    tasks: dict[str, dict[str, Diff]]


def diff_suites(old: SuiteBank, new: SuiteBank) -> SuiteDiff:
    """Compare two suites bank by bank.

    Examples
    --------
    >>> one = SuiteBank({"t": ItemBank.blank(range(3)), "u": ItemBank.blank(range(2))})
    >>> two = SuiteBank({"t": ItemBank.blank(range(4))})
    >>> diff = diff_suites(one, two)
    >>> diff["banks_removed"], diff["tasks"]["t"]["score"]["items_added"]
    ([['u', 'score']], [3])
    """
    before = {(task, outcome): bank for task, outcome, bank in old.banks()}
    after = {(task, outcome): bank for task, outcome, bank in new.banks()}
    tasks: dict[str, dict[str, Diff]] = {}
    for (task, outcome), bank in before.items():
        if (task, outcome) in after:
            tasks.setdefault(task, {})[outcome] = diff_banks(bank, after[task, outcome])
    alike = all(one["same"] for of in tasks.values() for one in of.values())
    return {
        "same": set(before) == set(after) and alike,
        "banks_added": [list(name) for name in after if name not in before],
        "banks_removed": [list(name) for name in before if name not in after],
        "tasks": tasks,
    }


def diff_banks(old: ItemBank, new: ItemBank) -> Diff:
    """Compare two banks.

    Examples
    --------
    >>> diff = diff_banks(ItemBank.blank(range(3)), ItemBank.blank(range(2)))
    >>> diff["same"], diff["items_removed"]
    (False, [2])
    """
    a, b = _fields(old), _fields(new)
    documents = old.compare(new.doc_ids, new.doc_hashes)
    moved = [
        (d, bool(old.kept[old.index[d]]), bool(new.kept[new.index[d]]))
        for d in old.doc_ids
        if d in new.index
    ]
    diff: Diff = {
        "same": True,
        "fields": {
            name: {"old": a.get(name), "new": b.get(name)}
            for name in dict.fromkeys([*a, *b])
            if a.get(name) != b.get(name)
        },
        "items_added": list(documents.new),
        "items_removed": list(documents.missing),
        "documents_changed": list(documents.changed),
        "kept_now": [d for d, before, now in moved if now and not before],
        "removed_now": [d for d, before, now in moved if before and not now],
        "models_added": [m for m in new.models if m not in set(old.models)],
        "models_removed": [m for m in old.models if m not in set(new.models)],
        "parameters": _parameters(old, new, [d for d, _, _ in moved]),
    }
    return {**diff, "same": not diff_in_words(diff)}


def diff_in_words(diff: Diff) -> list[str]:
    """One difference a line; what is inside of the method is counted.

    Examples
    --------
    >>> diff_in_words(diff_banks(ItemBank.blank(range(3)), ItemBank.blank(range(2))))
    ['items removed: 1 (2)']
    """
    lines = [
        f"{name.replace('_', ' ')}: {len(values)} ({some(values, 8)})"
        for name, values in diff.items()
        if isinstance(values, list) and values
    ]
    for name, p in diff["parameters"].items():
        if p["largest_change"]:
            r = p["correlation"]
            lines.append(
                f"{name}: changed by at most {p['largest_change']:.4g}, "
                f"rms {p['rms_change']:.4g}" + ("" if r is None else f", correlation {r:.4f}")
            )
    shown = [k for k in diff["fields"] if k in _TELLING or not k.startswith(_INSIDE)]
    pairs = {name: diff["fields"][name] for name in shown}
    lines += [f"{name}: {_short(p['old'])} -> {_short(p['new'])}" for name, p in pairs.items()]
    if inside := len(diff["fields"]) - len(shown):
        lines.append(f"constants, provenance, self-check: {inside} more differ (--json)")
    return lines


def _parameters(old: ItemBank, new: ItemBank, common: list[Any]) -> dict[str, Change]:
    out: dict[str, Change] = {}
    at_old = [old.index[d] for d in common]
    at_new = [new.index[d] for d in common]
    for name in sorted(set(old.parameters) & set(new.parameters)):
        a, b = old.parameters[name][at_old], new.parameters[name][at_new]
        if a.shape != b.shape:
            continue
        both = np.isfinite(a) & np.isfinite(b)
        change = np.abs(b - a)[both]
        varies = both.any() and a[both].std() > 0 and b[both].std() > 0
        out[name] = {
            "largest_change": float(change.max(initial=0.0)),
            "rms_change": float(np.sqrt(np.mean(change**2))) if change.size else 0.0,
            "correlation": float(np.corrcoef(a[both], b[both])[0, 1]) if varies else None,
        }
    return out


def _fields(bank: ItemBank) -> dict[str, object]:
    """Return the facts of the whole bank by dotted name."""
    facts = {name: getattr(bank, name) for name in ("method", "task", "metric", "filter")}
    facts |= {"scale": bank.scale.describe(), "warnings": list(bank.warnings) or None}
    return facts | _flat({name: getattr(bank, name) for name in _BLOCKS}, "")


def _flat(value: Mapping[str, Any], prefix: str) -> dict[str, object]:
    out: dict[str, object] = {}
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            out |= _flat(item, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = item
    return out


def _short(value: object) -> str:
    return short(f"{value:.6g}" if isinstance(value, float) else json.dumps(value, default=str))
