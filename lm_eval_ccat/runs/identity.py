"""What makes a run the same run, and what of it may change while it lives.

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

#: The parts of a header that are compared; the rest is for readers.
COMPARED = ("config", "bank_sha256", "task", "versions")
_MODEL = r"config\.models\[.*\]"
_MAY_CHANGE = re.compile(
    r"versions\..*|"
    r"config\.(budget|failures|memory|max_items|one_at_a_time|judge)(\..*)?|"
    r"config\.(prior|save_bank)(\..*|\[.*)?|"
    r"config\.harness\.(batch_size|max_batch_size|device|use_cache|cache_requests)|"
    r"config\.harness\.(hf_hub_log|wandb|mlflow|trackio)_args(\..*)?|"
    rf"{_MODEL}\.(price|concurrency|memory|num_cpus|num_gpus)(\..*)?|"
    rf"{_MODEL}\.model_args\.(base_url|num_concurrent|timeout|max_retries|batch_size|device)"
)
#: Arguments of the Ranker that may change, beside models and their prices.
_LIMITS = ("budget", "max_items")
#: Keys of configurations of earlier versions that decide nothing any more.
_PAST = ("lease",)
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
        Those of the changes that the Ranker must know: JSON values for `JournaledRanker.change`.
    """

    refused: list[str]
    changes: list[str]
    ranker: dict[str, Any]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Differences:
    """Compare two headers, or a header and the identity of the run that would go on.

    Examples
    --------
    >>> old = {"config": {"task": "t", "budget": {"usd": 5}, "models": []}}
    >>> new = {"config": {"task": "t", "budget": {"usd": 10}, "models": []}}
    >>> differences(old, new).changes
    ['config.budget.usd: 5 -> 10']
    """
    plain = json.loads(json.dumps(new))
    old = {**old, "config": {k: v for k, v in old.get("config", {}).items() if k not in _PAST}}
    found: list[tuple[str, Any, Any]] = []
    for key in COMPARED:
        _compare(_by_name(old.get(key)), _by_name(plain.get(key)), key, found)
    before, after = ((part.get("report") or {}).get("currency") for part in (old, plain))
    _compare(before, after, "report.currency", found)
    refused: list[str] = []
    changes: list[str] = []
    for path, was, is_now in found:
        joins = was is None and re.fullmatch(_MODEL, path)
        said = f"{path}: joins" if joins else f"{path}: {_short(was)} -> {_short(is_now)}"
        (changes if joins or _MAY_CHANGE.fullmatch(path) else refused).append(said)
    told = _for_the_ranker(old.get("ranker"), plain.get("ranker"))
    if any(path.startswith("config.budget") for path, _, _ in found) and plain.get("ranker"):
        # Also where only the time has changed: told of its budget, the ranking goes on.
        told.setdefault("budget", _or_none(plain["ranker"].get("budget")))
    return Differences(refused, changes, told)


def _or_none(limit: float | None) -> Any:
    return NO_LIMIT if limit is None else limit


def _for_the_ranker(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any]:
    if not old or not new:
        return {}
    found: dict[str, Any] = {}
    for name in _LIMITS:
        if old.get(name) != new.get(name):
            found[name] = _or_none(new.get(name))
    before, after = old["models"], new["models"]
    prices = {m: p for m, p in after.items() if m in before and before[m] != p}
    joining = {m: p for m, p in after.items() if m not in before}
    return {
        **found,
        **({"prices": prices} if prices else {}),
        **({"add": joining} if joining else {}),
    }


def _by_name(part: Any) -> Any:
    """A configuration with its models by name: their order says nothing."""
    if not isinstance(part, Mapping) or not isinstance(part.get("models"), Sequence):
        return part
    models = {f"[{m['name']}]": m for m in part["models"] if isinstance(m, Mapping)}
    return {**part, "models": models}


def _compare(old: Any, new: Any, path: str, found: list[tuple[str, Any, Any]]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            dot = "" if key.startswith("[") else "."
            _compare(old.get(key), new.get(key), f"{path}{dot}{key}", found)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            _compare(a, b, f"{path}[{i}]", found)
    elif old != new:
        found.append((path, old, new))


def _short(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    text = json.dumps(int(value) if whole else value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
