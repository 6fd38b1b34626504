"""What makes a run the same run, and which parts may change while it lives.

A run is its tasks, items, prompts, scoring, banks and models.  What it may spend, what things cost,
where and how fast they run, and the version of this package may change when it is resumed, and
models may join; each change is a record of the journal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import RunError
from ..ranker.stopping import OLD_GOALS, words_of
from .journal import Record

#: The parts of a header that are compared; the rest is for readers.
COMPARED = ("config", "bank_sha256", "task", "versions")
_MODEL = r"config\.models\[.*\]"
#: Arguments of the Ranker that may change, beside models and their prices.
_LIMITS = ("budget", "max_items", "stop")
#: How JSON writes a limit that is lifted.
NO_LIMIT = "none"


@dataclass(frozen=True)
class Differences:
    """Where two identities differ, one ``path: old -> new`` each.

    Attributes
    ----------
    refused : list of str
        What makes it another run.
    changes : list of str
        What may change while a run lives.
    ranker : dict
        Those of the changes that the Ranker must know: JSON values for `Book.change`.
    """

    refused: list[str]
    changes: list[str]
    ranker: Record

    def accepted(self, where: str) -> Differences:
        """Return self if the run is the same run; refuse it otherwise.

        Raises
        ------
        RunError
            Showing each difference that may not be as ``old -> new``.
        """
        if self.refused:
            shown = "; ".join(self.refused[:8]) + ("; ..." if len(self.refused) > 8 else "")
            raise RunError(
                f"cannot resume {where}, which was started with other settings: {shown}. Use "
                "those, or start a new run with another --run_dir"
            )
        return self


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], may_change: re.Pattern[str]
) -> Differences:
    r"""Compare two headers, or a header and the identity of the run that would go on.

    Parameters
    ----------
    old, new : mapping
    may_change : pattern
        Matches the path of whatever may change while a run lives.

    Examples
    --------
    >>> old = {"config": {"task": "t", "budget": {"usd": 5}, "models": []}}
    >>> new = {"config": {"task": "t", "budget": {"usd": 10}, "models": []}}
    >>> differences(old, new, re.compile(r"config\.budget.*")).changes
    ['config.budget.usd: 5 -> 10']
    """
    plain = json.loads(json.dumps(new))
    changed: list[tuple[str, Any, Any]] = []
    for key in COMPARED:
        _compare(_by_name(old.get(key)), _by_name(plain.get(key)), key, changed)
    before, after = ((part.get("report") or {}).get("currency") for part in (old, plain))
    _compare(before, after, "report.currency", changed)
    refused: list[str] = []
    changes: list[str] = []
    for path, was, is_now in changed:
        joins = was is None and re.fullmatch(_MODEL, path)
        line = f"{path}: joins" if joins else f"{path}: {_short(was)} -> {_short(is_now)}"
        (changes if joins or may_change.fullmatch(path) else refused).append(line)
    arguments = _for_the_ranker(old.get("ranker"), plain.get("ranker"))
    if any(path.startswith("config.budget") for path, _, _ in changed) and plain.get("ranker"):
        # Also where only the time has changed: told of its budget, the ranking goes on.
        arguments.setdefault("budget", _or_none(plain["ranker"].get("budget")))
    return Differences(refused, changes, arguments)


def in_todays_words(arguments: Mapping[str, Any]) -> Record:
    """Return a recorded Ranker's arguments of any version, with one stopping rule."""
    words = {key: value for key, value in arguments.items() if key not in OLD_GOALS}
    if "stop" not in words:
        old = {key: arguments[key] for key in OLD_GOALS if arguments.get(key) is not None}
        words["stop"] = words_of(**old)
    return words


def _or_none(limit: float | None) -> Any:
    return NO_LIMIT if limit is None else limit


def _for_the_ranker(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Record:
    if not old or not new:
        return {}
    old, new = in_todays_words(old), in_todays_words(new)
    changed = [name for name in _LIMITS if old.get(name) != new.get(name)]
    if "stop" in changed or ("max_items" in changed and new.get("max_items") is None):
        # A new rule takes its limits with it, so they are told together.
        changed = list(_LIMITS)
    arguments: Record = {name: _or_none(new.get(name)) for name in changed}
    before, after = old["models"], new["models"]
    if prices := {m: p for m, p in after.items() if m in before and before[m] != p}:
        arguments["prices"] = prices
    if joining := {m: p for m, p in after.items() if m not in before}:
        arguments["add"] = joining
    return arguments


def _by_name(part: Any) -> Any:
    """A configuration with its models by name: their order says nothing."""
    if not isinstance(part, Mapping) or not isinstance(part.get("models"), Sequence):
        return part
    models = {f"[{m['name']}]": m for m in part["models"] if isinstance(m, Mapping)}
    return {**part, "models": models}


def _compare(old: Any, new: Any, path: str, changed: list[tuple[str, Any, Any]]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            dot = "" if key.startswith("[") else "."
            _compare(old.get(key), new.get(key), f"{path}{dot}{key}", changed)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            _compare(a, b, f"{path}[{i}]", changed)
    elif old != new:
        changed.append((path, old, new))


def _short(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    text = json.dumps(int(value) if whole else value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
