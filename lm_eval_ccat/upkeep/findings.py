"""What a check of a bank found: one line for a person, the items and figures for a script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One thing a check found.

    Attributes
    ----------
    kind : str
        A word to test for: ``changed_documents``, ``missing_documents``, ``drifted_items``,
        ``negative_items``, ``contamination``, ``too_easy``, ``too_hard``, ...
    level : {"problem", "warning", "note"}
        Do not use the bank as it is; mind it; good to know.
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
    figures: dict[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        return {
            "kind": self.kind,
            "level": self.level,
            "message": self.message,
            "items": list(self.items),
            "figures": self.figures,
        }
