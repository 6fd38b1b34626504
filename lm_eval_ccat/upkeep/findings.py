"""What a check of a bank found: one line for a person, the items and figures for a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

#: ``problem``: do not use the bank as it is; ``warning``: mind it; ``note``: good to know.
LEVELS = ("problem", "warning", "note")
_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """One thing a check found.

    Attributes
    ----------
    kind : str
        A word to test for: ``changed_documents``, ``missing_documents``, ``drifted_items``,
        ``negative_items``, ``contamination``, ``too_easy``, ``too_hard``, ...
    level : {"problem", "warning", "note"}
    message : str
        One line: what was found and what to do.
    items : tuple of doc_id
        The items it is about, if any.
    figures : dict of JSON values
        What it rests on.
    """

    kind: str
    level: str
    message: str
    items: tuple[Any, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "kind": self.kind,
            "level": self.level,
            "message": self.message,
            "items": list(self.items),
            "figures": self.figures,
        }


def some(values: Sequence[Any], most: int = _SHOWN) -> str:
    """The first few of a list, as text.

    Examples
    --------
    >>> some([1, 2, 3], most=2)
    '1, 2, ...'
    """
    shown = ", ".join(map(str, values[:most]))
    return shown if len(values) <= most else f"{shown}, ..."


def plural(count: int, what: str) -> str:
    """Count and noun.

    Examples
    --------
    >>> plural(1, "item"), plural(3, "item")
    ('1 item', '3 items')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
