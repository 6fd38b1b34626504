"""The files of a leaderboard: read, put together with new rows, and replaced in one step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RunError
from ..files import replace_text
from .board import FORMAT, VERSION, Board, Row
from .plain import board_page

_LOCK_SECONDS = 60
_MAX_BYTES = 1 << 28


def update_board(base: str | Path, full: Board, new: Sequence[Row]) -> Board:
    """Add rows to the leaderboard at ``base.json``, ``.md``, ``.csv`` and ``.html``.

    Parameters
    ----------
    base : path-like
        Path without an ending.
    full : Board
        The full results as they are now.
    new : sequence of Row
        Estimates to add.

    Returns
    -------
    Board

    Raises
    ------
    RunError
        The file there is damaged or of another task, metric or filter, or cannot be written.
    """
    from filelock import FileLock, Timeout

    stem = Path(base)
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{stem}.lock", timeout=_LOCK_SECONDS):
            before = _read(stem.with_name(f"{stem.name}.json"), full)
            known = {r.model for r in full.rows}
            board = full.with_rows(r for r in before if r.estimated and r.model not in known)
            board = board.with_rows(new)
            for ending, text in (
                ("html", board_page(board)),
                ("md", board.to_markdown()),
                ("csv", board.to_csv()),
                ("json", board.to_json()),  # last: it is what counts
            ):
                replace_text(stem.with_name(f"{stem.name}.{ending}"), text)
            return board
    except Timeout:
        raise RunError(f"{stem}: locked by another process for {_LOCK_SECONDS} s") from None
    except OSError as e:
        raise RunError(f"{stem}: cannot write the leaderboard ({e.strerror or e})") from e


def _read(path: Path, like: Board) -> list[Row]:
    """Rows of the table there, if there is one, checked to be of the same benchmark."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError("too large")
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError("another kind of file")
        if document.get("version") != VERSION:
            raise ValueError(f"version {document.get('version')!r}, not {VERSION}")
        rows = [_row(r) for r in document["rows"]]
        other = [
            f"{name} {document[name]!r}, not {value!r}"
            for name, value in (
                ("task", like.task),
                ("metric", like.metric),
                ("filter", like.filter),
                ("scale", like.scale.to_dict()),
            )
            if document[name] != value
        ]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise RunError(
            f"{path}: not a readable leaderboard ({e}); move it away to start a new one"
        ) from None
    if other:
        raise RunError(f"{path}: a leaderboard of {'; '.join(other)}; write to another file")
    return rows


def _row(value: Mapping[str, Any]) -> Row:
    row = Row(**value)
    numbers = (row.score, row.standard_error, row.items)
    if not isinstance(row.model, str) or not isinstance(row.signature, str):
        raise ValueError("a row names no model")
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers):
        raise ValueError(f"the row of {row.model!r} holds no numbers")
    if not np.isfinite(numbers).all() or row.standard_error < 0.0:
        raise ValueError(f"the row of {row.model!r} holds no numbers")
    return row
