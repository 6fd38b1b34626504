"""What differs between two banks, or two suites: provenance, documents, parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bank.bank import ItemBank
from ..bank.suite import SuiteBank

_BLOCKS = ("settings", "constants", "provenance", "self_check")


@dataclass(frozen=True)
class BankDiff:
    """Differences of two banks, the second against the first.

    Attributes
    ----------
    fields : dict of str to (old, new)
        Facts that differ, by dotted name (``settings.num_fewshot``); None where one has none.
    items_added, items_removed : tuple of doc_id
    documents_changed : tuple of doc_id
        Items whose document hash differs.
    kept_now, removed_now : tuple of doc_id
        Items that only the new bank administers, and that only the old one does.
    models_added, models_removed : tuple of str
    parameters : dict of str to dict
        For each parameter of both: largest and root mean square change over common items, and the
        correlation.
    """

    fields: dict[str, tuple[Any, Any]]
    items_added: tuple[Any, ...]
    items_removed: tuple[Any, ...]
    documents_changed: tuple[Any, ...]
    kept_now: tuple[Any, ...]
    removed_now: tuple[Any, ...]
    models_added: tuple[str, ...]
    models_removed: tuple[str, ...]
    parameters: dict[str, dict[str, float | None]]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        lists = (
            self.fields,
            self.items_added,
            self.items_removed,
            self.documents_changed,
            self.kept_now,
            self.removed_now,
            self.models_added,
            self.models_removed,
        )
        return not any(lists) and not any(p["largest_change"] for p in self.parameters.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "same": self.same,
            "fields": {k: {"old": a, "new": b} for k, (a, b) in self.fields.items()},
            "items_added": list(self.items_added),
            "items_removed": list(self.items_removed),
            "documents_changed": list(self.documents_changed),
            "kept_now": list(self.kept_now),
            "removed_now": list(self.removed_now),
            "models_added": list(self.models_added),
            "models_removed": list(self.models_removed),
            "parameters": self.parameters,
        }


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

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        tasks: dict[str, dict[str, Any]] = {}
        for (task, outcome), found in self.banks.items():
            tasks.setdefault(task, {})[outcome] = found.to_dict()
        return {
            "same": self.same,
            "banks_added": [list(name) for name in self.added],
            "banks_removed": [list(name) for name in self.removed],
            "tasks": tasks,
        }


def diff_suites(old: SuiteBank, new: SuiteBank) -> SuiteDiff:
    """Compare two suites bank by bank.

    Examples
    --------
    >>> one = SuiteBank({"t": ItemBank.blank(range(3)), "u": ItemBank.blank(range(2))})
    >>> two = SuiteBank({"t": ItemBank.blank(range(4))})
    >>> found = diff_suites(one, two)
    >>> found.removed, found.banks["t", "score"].items_added
    ((('u', 'score'),), (3,))
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

    Parameters
    ----------
    old, new : ItemBank

    Returns
    -------
    BankDiff

    Examples
    --------
    >>> from lm_eval_ccat import ScoreTable, calibrate
    >>> bank = calibrate(ScoreTable.from_arrays(
    ...     [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.0, 0.3, 1.0]], models=["a", "b", "c"]
    ... ), method="paper")
    >>> diff_banks(bank, bank).same
    True
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
    return BankDiff(
        fields=fields,
        items_added=tuple(d for d in new.doc_ids if d not in old.index),
        items_removed=tuple(d for d in old.doc_ids if d not in new.index),
        documents_changed=tuple(
            d
            for d in common
            if None not in (hashes_old.get(d), hashes_new.get(d)) and hashes_old[d] != hashes_new[d]
        ),
        kept_now=tuple(d for d in common if new.kept[new.index[d]] and not old.kept[old.index[d]]),
        removed_now=tuple(
            d for d in common if old.kept[old.index[d]] and not new.kept[new.index[d]]
        ),
        models_added=tuple(m for m in new.models if m not in set(old.models)),
        models_removed=tuple(m for m in old.models if m not in set(new.models)),
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
        moves = both.any() and a[both].std() > 0 and b[both].std() > 0
        out[name] = {
            "largest_change": float(change.max(initial=0.0)),
            "rms_change": float(np.sqrt(np.mean(change**2))) if change.size else 0.0,
            "correlation": float(np.corrcoef(a[both], b[both])[0, 1]) if moves else None,
        }
    return out


def _flat(value: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, item in value.items():
        name = f"{prefix}.{key}"
        if isinstance(item, Mapping) and item:
            out |= _flat(item, name)
        else:
            out[name] = item
    return out
