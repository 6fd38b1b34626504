"""The site of a board: a page without external resources, and the same content as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import RunError
from ..files import replace_text, writing
from ..masking import mask_text
from ..report.chart import asset
from ..report.page import environment, own_files
from ..report.tables import script_json
from ..shown import visible_line
from .checking import broken_evidence
from .folder import Board, BoardStanding, Placed, standing
from .ledger import BoardRow

FORMAT, VERSION = "lm-eval-ccat/board-site", 1
_DIGITS = 6
#: Largest number of incomparable rows on the page; the JSON has all.
_APART = 200


def publish(board: Board | str | Path, site: str | Path) -> list[Path]:
    """Write the site of a board.

    Rows whose journal or scores are missing or changed are listed apart, with the reason; `check`
    goes further and recomputes every figure.

    Parameters
    ----------
    board : Board or path
    site : path
        The folder; its files ``index.html``, ``board.json``, ``board.csv`` and ``exposure.csv`` are
        replaced.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    RunError
        If the ledger is damaged, or the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from lm_eval_ccat import ItemBank
    >>> from lm_eval_ccat.board import init
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ItemBank.blank([0, 1], task="t").save(Path(folder, "bank.json"))
    ...     board = init(Path(folder, "board"), Path(folder, "bank.json"))
    ...     [path.name for path in publish(board, Path(folder, "site"))]
    ['index.html', 'board.csv', 'exposure.csv', 'board.json']
    """
    board = board if isinstance(board, Board) else Board(board)
    rows = board.ledger.rows()
    broken = {at: why for at, why in enumerate(broken_evidence(board, rows)) if why}
    state = standing(board, broken)
    state.apart.extend((rows[at], f"refused: {reason}") for at, reason in broken.items())
    shown, tasks, target = shown_items(rows), list(board.banks), Path(site)
    exposure = [[t, *one] for t, counts in shown.items() for one in counts.most_common()]
    head = "rank best worst model kind score low high items documents date".split()
    lines = [
        [one.rank, one.best, one.worst, *(getattr(one.row, name) for name in head[3:]),
         *(one.row.tasks[task].score for task in tasks)]
        for one in state.placed
    ]  # fmt: skip
    content = {
        "format": FORMAT,
        "version": VERSION,
        "name": board.rules.name,
        "headline": state.headline,
        "scale": board.scale.to_dict(),
        "weights": board.shares,
        "ledger_head": board.ledger.head(),
        "rows": [
            {"rank": one.rank, "rank_range": [one.best, one.worst], **one.row.to_dict()}
            for one in state.placed
        ],
        "not_comparable": [{"reason": reason, **row.to_dict()} for row, reason in state.apart],
    }
    texts = {
        "index.html": mask_text(_page(board, state, shown)),
        "board.csv": _csv([[*head, *tasks], *lines]),
        "exposure.csv": _csv([["task", "doc_id", "models"], *exposure]),
        "board.json": json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n",
    }
    with writing(target / "index.html", RunError):
        for name, text in texts.items():
            replace_text(target / name, text)
    return [target / name for name in texts]


def shown_items(rows: Iterable[BoardRow]) -> dict[str, Counter[Any]]:
    """Count the models that each item was shown to, by task.

    Examples
    --------
    >>> row = BoardRow("a", "estimate", 0.5, 0.4, 0.6, {}, "2026-01-31", asked={"t": [3, 7]})
    >>> shown_items([row, row])
    {'t': Counter({3: 2, 7: 2})}
    """
    shown: dict[str, Counter[Any]] = {}
    for row in rows:
        for task, items in row.asked.items():
            shown.setdefault(task, Counter()).update(items)
    return shown


def _csv(lines: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


# -- the page -------------------------------------------------------------------------------------


def _page(board: Board, state: BoardStanding, shown: Mapping[str, Mapping[Any, int]]) -> str:
    tasks = list(board.banks)
    ends = [v for one in state.placed for v in (one.row.low, one.row.high)]
    data = {
        "tasks": tasks if len(tasks) > 1 else [],
        "higher": board.scale.higher_is_better,
        "taskHigher": [bank.scale.higher_is_better for bank in board.banks.values()],
        "ends": [min(ends), max(ends)] if ends else [0, 1],
        "version": __version__,
        "rows": [_row(one, tasks, state.history[one.row.model]) for one in state.placed],
    }
    estimated = sum(one.row.estimated for one in state.placed)
    content = {
        "title": board.rules.name,
        "headline": state.headline,
        "notes": _notes(board, state, estimated, shown),
        "apart": [
            {"model": visible_line(row.model), "score": f"{row.score:.4g}", "reason": reason,
             "documents": f"{row.items:,} of {row.documents:,}", "date": row.date}
            for row, reason in state.apart[:_APART]
        ],
        "n_apart": len(state.apart),
        "tasks": data["tasks"],
        "data": script_json(data),
        **own_files(
            script=asset("site.js", __package__),
            style=asset("style.css") + asset("site.css", __package__),
        ),
        "version": __version__,
        "written": date.today().isoformat(),
        "head": board.ledger.head()[:12],
    }  # fmt: skip
    return str(environment().from_string(asset("site.html.j2", __package__)).render(**content))


def _row(one: Placed, tasks: Sequence[str], history: Sequence[BoardRow]) -> list[Any]:
    """Return a row as the page's script reads it; ``site.js`` names the fields."""

    def figures(row: BoardRow) -> list[Any]:
        ends = _short(row.score), _short(row.low), _short(row.high)
        return [int(row.estimated), *ends, row.items, row.documents]

    row = one.row
    scores = [_short(row.tasks[task].score) for task in tasks] if len(tasks) > 1 else []
    past = [[r.date, *figures(r), r.made_by] for r in history] if len(history) > 1 else []
    return [
        one.rank, one.best, one.worst, visible_line(row.model), *figures(row), row.date, scores,
        row.made_by, past,
    ]  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _notes(
    board: Board, state: BoardStanding, estimated: int, shown: Mapping[str, Mapping[Any, int]]
) -> list[str]:
    n = len(board.banks)
    better = "higher" if board.scale.higher_is_better else "lower"
    if n == 1:
        [(task, bank)] = board.banks.items()
        what = f"mean {bank.metric} over the {bank.n_items:,} documents of {task}"
    else:
        total = sum(bank.n_items for bank in board.banks.values())
        weighed = "equal weights" if board.rules.weights == "equal" else "weights by documents"
        what = f"average over {n} tasks ({total:,} documents, {weighed})"
    levels = {f"{100 * one.row.confidence:g}%" for one in state.placed if one.row.confidence}
    notes = [f"Score: {what}; {better} is better."]
    if estimated:
        notes.append(
            f"≈ marks {estimated:,} estimates from some of the documents, with their "
            f"{' or '.join(sorted(levels))} intervals; all other rows are full results. Where "
            "intervals leave the order open, a row shows a range of ranks."
        )
    for task, counts in shown.items():
        if task in board.banks and counts:
            most, never = max(counts.values()), board.banks[task].n_items - len(counts)
            of = f" of {task}" if n > 1 else ""
            notes.append(
                f"Of {board.banks[task].n_items:,} documents{of}, the most used was shown to "
                f"{most:,} models, and {never:,} to none."
            )
    return notes[:8]
