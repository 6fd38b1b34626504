"""What differs between two banks, or two suites: provenance, documents, parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bank.bank import ItemBank
from ..bank.suite import SuiteBank
from ..wording import short, some

_BLOCKS = ("settings", "constants", "provenance", "self_check")
#: Facts that no person compares, but for some.
_INSIDE = ("constants.", "provenance.", "self_check.")
_TELLING = ("self_check.rms_error", "self_check.coverage_95")


@dataclass(frozen=True)
class BankDiff:
    """Differences of two banks, the second against the first.

    Attributes
    ----------
    fields : dict of str to (old, new)
        Facts that differ, by dotted name (``settings.num_fewshot``); None where one has none.
    lists : dict of str to tuple
        ``items_added``, ``items_removed``, ``documents_changed`` (items whose document hash
        differs), ``kept_now``, ``removed_now`` (items that only the new bank asks, and that only
        the old one does), ``models_added`` and ``models_removed``.
    parameters : dict of str to dict
        For each parameter of both: largest and root mean square change over common items, and the
        correlation.
    """

    fields: dict[str, tuple[Any, Any]]
    lists: dict[str, tuple[Any, ...]]
    parameters: dict[str, dict[str, float | None]]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        moved = any(p["largest_change"] for p in self.parameters.values())
        return not (self.fields or any(self.lists.values()) or moved)

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        return {
            "same": self.same,
            "fields": {k: {"old": a, "new": b} for k, (a, b) in self.fields.items()},
            **{name: list(values) for name, values in self.lists.items()},
            "parameters": self.parameters,
        }

    def in_words(self) -> list[str]:
        """One difference a line; what is inside of the method is counted."""
        lines = []
        for name, values in self.lists.items():
            if values:
                lines.append(f"{name.replace('_', ' ')}: {len(values)} ({some(values, 8)})")
        for name, p in self.parameters.items():
            if p["largest_change"]:
                r = p["correlation"]
                lines.append(
                    f"{name}: changed by at most {p['largest_change']:.4g}, "
                    f"rms {p['rms_change']:.4g}" + ("" if r is None else f", correlation {r:.4f}")
                )
        shown = [k for k in self.fields if k in _TELLING or not k.startswith(_INSIDE)]
        lines += [f"{k}: {_short(old)} -> {_short(new)}"
                  for k, (old, new) in self.fields.items() if k in shown]  # fmt: skip
        if inside := len(self.fields) - len(shown):
            lines.append(f"constants, provenance, self-check: {inside} more differ (--json)")
        return lines


@dataclass(frozen=True)
class SuiteDiff:
    """Differences of two suites, the second against the first; banks go by task and outcome.

    Attributes
    ----------
    added, removed : tuple of (task, outcome)
    banks : dict of (task, outcome) to BankDiff
        Of the banks that both have.
    """

    added: tuple[tuple[str, str], ...]
    removed: tuple[tuple[str, str], ...]
    banks: dict[tuple[str, str], BankDiff]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.removed) and all(d.same for d in self.banks.values())

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        tasks: dict[str, dict[str, object]] = {}
        for (task, outcome), one in self.banks.items():
            tasks.setdefault(task, {})[outcome] = one.to_dict()
        return {
            "same": self.same,
            "banks_added": [list(name) for name in self.added],
            "banks_removed": [list(name) for name in self.removed],
            "tasks": tasks,
        }

    def in_words(self) -> list[str]:
        """One difference a line."""
        return [
            *(f"{task} {outcome}: added" for task, outcome in self.added),
            *(f"{task} {outcome}: removed" for task, outcome in self.removed),
            *(f"{t} {o}: {line}" for (t, o), one in self.banks.items() for line in one.in_words()),
        ]


def diff_suites(old: SuiteBank, new: SuiteBank) -> SuiteDiff:
    """Compare two suites bank by bank.

    Examples
    --------
    >>> one = SuiteBank({"t": ItemBank.blank(range(3)), "u": ItemBank.blank(range(2))})
    >>> two = SuiteBank({"t": ItemBank.blank(range(4))})
    >>> diff_suites(one, two).in_words()
    ['u score: removed', 't score: items added: 1 (3)']
    """
    before = {(task, outcome): bank for task, outcome, bank in old.banks()}
    after = {(task, outcome): bank for task, outcome, bank in new.banks()}
    return SuiteDiff(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        banks={n: diff_banks(bank, after[n]) for n, bank in before.items() if n in after},
    )


def diff_banks(old: ItemBank, new: ItemBank) -> BankDiff:
    """Compare two banks.

    Examples
    --------
    >>> diff_banks(ItemBank.blank(range(3)), ItemBank.blank(range(2))).in_words()
    ['items removed: 1 (2)']
    """
    common = [d for d in old.doc_ids if d in new.index]
    hashes_old = dict(zip(old.doc_ids, old.doc_hashes or ()))
    hashes_new = dict(zip(new.doc_ids, new.doc_hashes or ()))
    fields = {
        name: (getattr(old, name), getattr(new, name))
        for name in ("method", "task", "metric", "filter")
        if getattr(old, name) != getattr(new, name)
    }
    if old.scale != new.scale:
        fields["scale"] = (old.scale.describe(), new.scale.describe())
    for block in _BLOCKS:
        a, b = _flat(getattr(old, block), block), _flat(getattr(new, block), block)
        fields |= {k: (a.get(k), b.get(k)) for k in dict.fromkeys([*a, *b]) if a.get(k) != b.get(k)}
    if old.warnings != new.warnings:
        fields["warnings"] = (list(old.warnings), list(new.warnings))
    moved = [(d, bool(old.kept[old.index[d]]), bool(new.kept[new.index[d]])) for d in common]
    return BankDiff(
        fields=fields,
        lists={
            "items_added": tuple(d for d in new.doc_ids if d not in old.index),
            "items_removed": tuple(d for d in old.doc_ids if d not in new.index),
            "documents_changed": tuple(
                d
                for d in common
                if None not in (hashes_old.get(d), hashes_new.get(d))
                and hashes_old[d] != hashes_new[d]
            ),
            "kept_now": tuple(d for d, before, now in moved if now and not before),
            "removed_now": tuple(d for d, before, now in moved if before and not now),
            "models_added": tuple(m for m in new.models if m not in set(old.models)),
            "models_removed": tuple(m for m in old.models if m not in set(new.models)),
        },
        parameters=_parameters(old, new, common),
    )


def _parameters(
    old: ItemBank, new: ItemBank, common: list[Any]
) -> dict[str, dict[str, float | None]]:
    out: dict[str, dict[str, float | None]] = {}
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


def _flat(value: Mapping[str, Any], prefix: str) -> dict[str, object]:
    out: dict[str, object] = {}
    for key, item in value.items():
        name = f"{prefix}.{key}"
        if isinstance(item, Mapping) and item:
            out |= _flat(item, name)
        else:
            out[name] = item
    return out


def _short(value: Any) -> str:
    return short(f"{value:.6g}" if isinstance(value, float) else json.dumps(value, default=str))
