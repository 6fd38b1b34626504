"""What a bank keeps of the answers that it was calibrated on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: How the items of an observation were chosen: every one of the benchmark; the first ones
#: (``--limit``); at random with known probability; by what the model had scored before.
CHOSEN = ("all", "first", "drawn", "adaptive")
_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Observation:
    """Scores of one model, in one configuration, on some items of a bank.

    Attributes
    ----------
    model, config : str
    chosen : {"all", "first", "drawn", "adaptive"}
    items : ndarray of int, shape (n,)
        Positions in bank order, in the order in which they were asked.
    scores : ndarray of shape (n,)
        On [0, 1], higher is better.
    probabilities : ndarray of shape (n,), or None
        With which each item was drawn among those left; NaN for an item that was chosen.
    date : str or None
        ISO 8601.

    Raises
    ------
    ValueError
        The parts do not fit one another.
    """

    model: str
    chosen: str
    items: NDArray[np.intp]
    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64] | None = None
    config: str = ""
    date: str | None = None

    def __post_init__(self) -> None:
        where = f"observation of model {self.model!r}"
        if self.chosen not in CHOSEN:
            raise ValueError(f"{where}: chosen {self.chosen!r:.40} is none of {', '.join(CHOSEN)}")
        n = len(self.items)
        if len(self.scores) != n or len(set(self.items.tolist())) != n:
            raise ValueError(f"{where}: items and scores do not fit one another")
        if not ((self.scores >= 0.0) & (self.scores <= 1.0)).all():
            raise ValueError(f"{where}: a score is not in [0, 1]")
        p = self.probabilities
        if p is not None and (len(p) != n or not (np.isnan(p) | ((p > 0.0) & (p <= 1.0))).all()):
            raise ValueError(f"{where}: a probability is not in (0, 1]")

    def to_dict(self) -> dict[str, object]:
        """JSON values; items are left out where they are all of the bank in its order."""
        p = self.probabilities
        return {
            "model": self.model,
            "config": self.config,
            "chosen": self.chosen,
            "date": self.date,
            "items": None if self.chosen == "all" else self.items.tolist(),
            "scores": np.round(self.scores, _DIGITS).tolist(),
            "probabilities": None
            if p is None
            else [None if np.isnan(v) else v for v in p.tolist()],
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], n_items: int) -> Observation:
        """Rebuild from `to_dict` for a bank of `n_items`.

        Raises
        ------
        KeyError, TypeError, ValueError
            A part is missing or makes no sense.
        """
        items = np.arange(n_items) if d["items"] is None else np.array(d["items"])
        scores = np.array(d["scores"], dtype=np.float64)
        if items.ndim != 1 or scores.ndim != 1 or (items.size and items.dtype.kind != "i"):
            raise ValueError("an observation's items or scores are not a list of numbers")
        if items.size and not (0 <= items.min() and items.max() < n_items):
            raise ValueError("an observation is of an item that the bank does not have")
        p = d.get("probabilities")
        for name in ("model", "config", "chosen"):
            if not isinstance(d[name], str):
                raise ValueError(f"{name} of an observation is not a text")
        date = d.get("date")
        if date is not None and not isinstance(date, str):
            raise ValueError("the date of an observation is not a text")
        return cls(
            model=d["model"],
            chosen=d["chosen"],
            items=items.astype(np.intp),
            scores=scores,
            probabilities=None if p is None else np.array(p, dtype=np.float64),
            config=d["config"],
            date=date,
        )
