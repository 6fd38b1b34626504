"""`differences`: what makes a run another run, and what may change when it is resumed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import OtherSettingsError
from ..records import Header
from ..shown import short

#: Kinds of changes that a user can accept, each by itself: prompts that differ from the bank's,
#: code that scores, what a server serves, and answers cut off at different rates.
PROMPTS, SCORING_CODE, SERVER, CUT_SHORT = CHANGES = "prompts", "scoring", "server", "cut"
#: Parts of a header that identify the run; the rest is for readers.
COMPARED = ("config", "bank_sha256", "task", "versions")
#: Path of a model in a header.
MODEL = r"config\.models\[(.*)\]"
#: What a change says of a model that gave no answer and that the configuration no longer names.
LEAVES = "leaves"
#: Arguments of the Ranker that may change, besides models and their prices.
_LIMITS = ("budget", "max_items", "stop")
#: JSON value of a limit that was lifted.
NO_LIMIT = "none"


@dataclass(frozen=True)
class Differences:
    """The differences between two identities, each as ``path: old -> new``.

    Attributes
    ----------
    refused : list of str
        Differences that make it another run.
    changes : list of str
        Differences that are allowed when a run is resumed.
    ranker : dict
        Changes that the Ranker must know: JSON values for `Book.change`.
    """

    refused: list[str]
    changes: list[str]
    ranker: dict[str, Any]

    def require_same_run(self, where: str) -> Differences:
        """Return these differences if they are of the same run; refuse them otherwise.

        Raises
        ------
        OtherSettingsError
            It is another run; the message shows the refused differences as ``old -> new``.
        """
        if self.refused:
            listing = "; ".join(self.refused[:8]) + ("; ..." if len(self.refused) > 8 else "")
            raise OtherSettingsError(
                f"cannot resume {where}, which was started with other settings: {listing}",
                f"Use those, or add --run_dir NEW --prior {where} in place of --resume: a new run "
                "that takes over the answers which still hold",
            )
        return self


def differences(old: Header, new: Header, may_change: re.Pattern[str]) -> Differences:
    r"""Compare two headers, or a header and the identity of the run to resume.

    Parameters
    ----------
    old, new : Header
    may_change : pattern
        Matches the paths that may change when a run is resumed.

    Examples
    --------
    >>> old = Header(config={"task": "t", "budget": {"usd": 5}, "models": []})
    >>> new = Header(config={"task": "t", "budget": {"usd": 10}, "models": []})
    >>> differences(old, new, re.compile(r"config\.budget.*")).changes
    ['config.budget.usd: 5 -> 10']
    """
    before, after = (json.loads(json.dumps(part.to_json())) for part in (old, new))
    changed: list[_Changed] = []
    for key in COMPARED:
        _compare(_by_name(before.get(key)), _by_name(after.get(key)), key, changed)
    currency, new_currency = (part.report.get("currency") for part in (old, new))
    _compare(currency, new_currency, "report.currency", changed)
    refused: list[str] = []
    changes: list[str] = []
    for change in changed:
        # A model may always join; whether one may leave is for the caller to say.
        joins = change.of_model and change.old is None
        allowed = joins or may_change.fullmatch(change.path)
        (changes if allowed else refused).append(f"{change.path}: {change.in_words}")
    arguments = _for_the_ranker(before.get("ranker"), after.get("ranker"))
    # The Ranker is told its budget even if only the time limit has changed, because a new budget
    # lets an ended ranking go on.
    if any(change.path.startswith("config.budget") for change in changed) and new.ranker:
        arguments.setdefault("budget", _json_of_limit(new.ranker.get("budget")))
    return Differences(refused, changes, arguments)


def _json_of_limit(limit: float | None) -> Any:
    """Return a limit for a record, in which a value that is missing means that nothing changed."""
    return NO_LIMIT if limit is None else limit


def _for_the_ranker(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the limits, repeats, prices and new models that `Ranker.change` has to be told."""
    if not old or not new:
        return {}
    changed = [name for name in _LIMITS if old.get(name) != new.get(name)]
    # A new stopping rule brings its limits with it; so does the old one again where `max_items` is
    # lifted, for which `Ranker.change` has no other way.
    if "stop" in changed or ("max_items" in changed and new.get("max_items") is None):
        changed = list(_LIMITS)
    arguments: dict[str, Any] = {name: _json_of_limit(new.get(name)) for name in changed}
    if old.get("repeats") != new.get("repeats"):
        arguments["repeats"] = new.get("repeats") or 1
    before, after = old["models"], new["models"]
    if prices := {
        model: price for model, price in after.items() if model in before and before[model] != price
    }:
        arguments["prices"] = prices
    if joining := {model: price for model, price in after.items() if model not in before}:
        arguments["add"] = joining
    return arguments


def _by_name(part: Any) -> Any:
    """Return a configuration with its models by "[name]", because their order does not matter."""
    if not isinstance(part, Mapping) or not isinstance(part.get("models"), Sequence):
        return part
    models = {f"[{model['name']}]": model for model in part["models"] if isinstance(model, Mapping)}
    return {**part, "models": models}


class _Changed(NamedTuple):
    """A value of two headers that differs; None where a header has none."""

    path: str
    old: Any
    new: Any

    @property
    def of_model(self) -> bool:
        """Whether it is a model's whole entry, and not a value within it."""
        return re.fullmatch(MODEL, self.path) is not None

    @property
    def in_words(self) -> str:
        """What became of the value, after its path and a colon."""
        if self.of_model and self.old is None:
            return "joins"
        if self.of_model and self.new is None:
            return LEAVES
        return f"{_text(self.old)} -> {_text(self.new)}"


def _compare(old: Any, new: Any, path: str, changed: list[_Changed]) -> None:
    """Add the values in which two parts of headers differ to those that have `changed`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            dot = "" if key.startswith("[") else "."
            _compare(old.get(key), new.get(key), f"{path}{dot}{key}", changed)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (old_value, new_value) in enumerate(zip(old, new)):
            _compare(old_value, new_value, f"{path}[{i}]", changed)
    elif old != new:
        changed.append(_Changed(path, old, new))


def _text(value: Any) -> str:
    """Return a value of a header as short JSON; 5.0 is written as 5."""
    integral = isinstance(value, float) and value.is_integer()
    return short(json.dumps(int(value) if integral else value, ensure_ascii=False))
