"""Where the models of a board stand: their order, and the rows that cannot be compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..bank import ItemBank
from ..ranker.verdicts import outside
from .folder import Board, metric_of
from .ledger import FULL, BoardRow


@dataclass(frozen=True)
class Placed:
    """A row in the order of the board.

    Attributes
    ----------
    row : BoardRow
    rank : int
        Rank by score.
    best, worst : int
        Range of ranks that the intervals allow.
    """

    row: BoardRow
    rank: int
    best: int
    worst: int


@dataclass(frozen=True)
class BoardStanding:
    """The current state of a board.

    Attributes
    ----------
    placed : list of Placed
        Best first; among equal scores, full results first.
    apart : list of (BoardRow, str)
        The latest row of each model that cannot be compared, and why; no later row of it can be.
    history : dict of str to list of BoardRow
        Every row of each model, oldest first.
    """

    placed: list[Placed]
    apart: list[tuple[BoardRow, str]]
    history: dict[str, list[BoardRow]]

    @property
    def headline(self) -> str:
        """Say which models may be the best."""
        first = [one.row.model for one in self.placed if one.best == 1]
        if not first:
            return "No models yet."
        who = (
            f"{first[0]} is the best" if len(first) == 1 else f"{len(first)} models may be the best"
        )
        return f"{who} of {len(self.placed):,}."

    def in_words(self, row: BoardRow) -> str:
        """Say in one line where a row stands."""
        score = f"{row.model}: {'≈ ' if row.estimated else ''}{row.score:.4g}"
        for other, reason in self.apart:
            if other == row:
                return f"{score}, not comparable: {reason}"
        for one in self.placed:
            if one.row == row:
                ranks = f"{one.best}" if one.best == one.worst else f"{one.best} to {one.worst}"
                return f"{score}, rank {ranks} of {len(self.placed)}"
        return f"{score}, in its history; full results count"


def standing(board: Board, refused: Collection[int] = ()) -> BoardStanding:
    """Order a board's rows.

    Parameters
    ----------
    board : Board
    refused : collection of int
        Positions of the ledger rows to leave out.

    Returns
    -------
    BoardStanding
    """
    rows = board.ledger.rows()
    history: dict[str, list[BoardRow]] = {}
    comparable: list[BoardRow] = []
    apart: dict[str, tuple[BoardRow, str]] = {}
    for at, row in enumerate(rows):
        history.setdefault(row.model, []).append(row)
        if at in refused:
            continue
        if reason := not_comparable(row, board.banks, board.shares):
            apart[row.model] = (row, reason)
        else:
            comparable.append(row)
            apart.pop(row.model, None)
    # A model's full results count before its estimates; otherwise its latest row counts.
    now = {**latest(comparable), **latest(comparable, FULL)}
    sign = 1.0 if board.scale.higher_is_better else -1.0
    ordered = sorted(now.values(), key=lambda r: (-sign * r.score, r.estimated, r.model))
    scores = sign * np.array([r.score for r in ordered])
    arms = np.array([max(r.high - r.score, r.score - r.low) for r in ordered])
    places = zip(ordered, *(counts.tolist() for counts in outside(scores, arms)))
    placed = [
        Placed(row, n, 1 + above, len(ordered) - below)
        for n, (row, above, below) in enumerate(places, 1)
    ]
    return BoardStanding(placed, list(apart.values()), history)


def latest(rows: Iterable[BoardRow], kind: str | None = None) -> dict[str, BoardRow]:
    """Return the latest row of each model, of one kind or of any."""
    return {row.model: row for row in rows if kind in (None, row.kind)}


def not_comparable(
    row: BoardRow, banks: Mapping[str, ItemBank], shares: Mapping[str, float]
) -> str:
    """Return why a row is not comparable with the others; "" if it is.

    Parameters
    ----------
    row : BoardRow
    banks : mapping of task to ItemBank
        The board's banks.
    shares : mapping of task to float
        The board's weights.
    """
    reasons = []
    for task, bank in banks.items():
        one = row.tasks.get(task)
        version = bank.settings.get("task_version")
        descent = [update["previous"] for update in bank.provenance.get("updates", [])]
        if one is None:
            reasons.append(f"no results on {task}")
        elif one.metric != metric_of(bank):
            reasons.append(f"{one.metric} of {task}, not {metric_of(bank)}")
        elif one.documents != bank.n_items:
            reasons.append(f"{one.documents:,} documents of {task}, not {bank.n_items:,}")
        elif one.changed:
            reasons.append(f"{one.changed:,} documents of {task} differ")
        elif one.version is not None and version is not None and one.version != str(version):
            reasons.append(f"version {one.version} of {task}, not {version}")
        elif one.bank not in {None, bank.sha256, *descent}:
            reasons.append(f"a bank of {task} from which the board's does not descend")
    if not reasons and any(abs(row.shares.get(t, 1.0) - s) > 1e-9 for t, s in shares.items()):
        reasons.append("other weights of the tasks")
    return "; ".join(reasons)
