"""Where models stand on a board: ranks and rank ranges, and who stands apart and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from .folder import Board
from .ledger import FULL, BoardRow, TaskScore

Floats = NDArray[np.float64]
Ranks = NDArray[np.intp]


@dataclass(frozen=True)
class Placed:
    """A row in the order of the board.

    Attributes
    ----------
    row : BoardRow
    rank : int
        By score.
    best, worst : int
        The ranks that it may have, by the intervals.
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
        Best first; of equal scores full results first.
    apart : list of (BoardRow, str)
        The latest row of each model that cannot be compared, and why; not where a later one can.
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
            return "There is no model yet."
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
        Positions of ledger rows that are left out.

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
    # Full results count before any estimate of the same model; else the latest row.
    now = {**latest(comparable), **latest(comparable, FULL)}
    return BoardStanding(_in_order(board, list(now.values())), list(apart.values()), history)


def latest(rows: Iterable[BoardRow], kind: str | None = None) -> dict[str, BoardRow]:
    """The latest row of each model, of one kind."""
    return {row.model: row for row in rows if kind in (None, row.kind)}


def not_comparable(
    row: BoardRow, banks: Mapping[str, ItemBank], shares: Mapping[str, float]
) -> str:
    """Return why a row is not comparable with the others; "" if it is.

    Parameters
    ----------
    row : BoardRow
    banks : mapping of task to ItemBank
        The board's.
    shares : mapping of task to float
        The board's.
    """
    reasons = []
    for task, bank in banks.items():
        one = row.tasks.get(task)
        version = bank.settings.get("task_version")
        if one is None:
            reasons.append(f"no results on {task}")
        elif one.metric != metric_of(bank):
            reasons.append(f"{one.metric} of {task}, not {metric_of(bank)}")
        elif one.documents != bank.n_items:
            reasons.append(f"{one.documents:,} documents of {task}, not {bank.n_items:,}")
        elif one.changed:
            reasons.append(f"{one.changed:,} documents of {task} are others")
        elif one.version is not None and version is not None and one.version != str(version):
            reasons.append(f"version {one.version} of {task}, not {version}")
        elif one.bank is not None and one.bank not in lineage(bank):
            reasons.append(f"a bank of {task} from which the board's does not descend")
    if not reasons and any(abs(row.shares.get(t, 1.0) - s) > 1e-9 for t, s in shares.items()):
        reasons.append("other weights of the tasks")
    return "; ".join(reasons)


def average(board: Board, tasks: Mapping[str, TaskScore], shares: Mapping[str, float]) -> float:
    """The weighted mean of full results, on the board's scale."""
    total = sum(shares[task] for task in tasks)
    unit = sum(
        shares[task] * float(board.banks[task].scale.normalise(one.score))
        for task, one in tasks.items()
    )
    return float(board.scale.restore(unit / total))


def metric_of(bank: ItemBank) -> str:
    """A bank's metric with its filter, as the harness writes both."""
    return f"{bank.metric},{bank.filter or 'none'}"


def lineage(bank: ItemBank) -> set[str]:
    """The hashes of a bank and of those that it was updated from."""
    return {bank.sha256, *(update["previous"] for update in bank.provenance.get("updates", []))}


def _in_order(board: Board, rows: list[BoardRow]) -> list[Placed]:
    sign = 1.0 if board.scale.higher_is_better else -1.0
    rows.sort(key=lambda r: (-sign * r.score, r.estimated, r.model))
    scores = sign * np.array([r.score for r in rows])
    arms = np.array([max(r.high - r.score, r.score - r.low) for r in rows])
    places = zip(rows, *(ranks.tolist() for ranks in rank_ranges(scores, arms)))
    return [Placed(row, n, best, worst) for n, (row, best, worst) in enumerate(places, start=1)]


def rank_ranges(scores: Floats, arms: Floats) -> tuple[Ranks, Ranks]:
    """The best and the worst rank that each model may have.

    Two models differ where their difference exceeds both arms of their intervals together.

    Parameters
    ----------
    scores : ndarray of shape (n_models,)
        Higher is better.
    arms : ndarray of shape (n_models,)
        Half widths of the intervals; 0 for full results.

    Examples
    --------
    >>> rank_ranges(np.array([0.5, 0.51]), np.array([0.0, 0.04]))
    (array([1, 1]), array([2, 2]))
    """
    # Full results, of which a board has thousands, are apart from each other as they stand.
    exact = arms == 0.0
    full = np.sort(scores[exact])
    better = len(full) - np.searchsorted(full, scores, side="right")
    worse = np.searchsorted(full, scores, side="left")
    for i in np.flatnonzero(~exact):
        gap, apart = scores - scores[i], np.hypot(arms, arms[i])
        better[i], worse[i] = np.sum(gap > apart), np.sum(-gap > apart)
        better[exact] += -gap[exact] > apart[exact]
        worse[exact] += gap[exact] > apart[exact]
    return np.asarray(1 + better), np.asarray(len(scores) - worse)
