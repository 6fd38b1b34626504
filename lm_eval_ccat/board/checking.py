"""Every row of a board verified from what it rests on: journals, scores, banks, the chain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..bank import ItemBank
from ..cluster import in_processes
from ..errors import CcatError, RunError, UsageError
from ..metrics.scale import Scale
from ..ranker import Ranking
from ..runs.directory import book_of, header_of
from ..runs.journal import JournalFile
from ..scores import ScoreTable
from .folder import Board, offered
from .ledger import ESTIMATE, BoardRow, TaskScore, sha256_of
from .standing import average, metric_of

JOURNAL = "journal.jsonl"
SOUND, OLDER, REFUSED = "sound", "older", "refused"
_TOLERANCE = 1e-9
_FIGURES = {name: name for name in ("score", "items", "documents")} | dict.fromkeys(
    ("low", "high"), "interval"
)
#: A journal's file, the hash of each task's bank, and the part of the items that is held back.
Run = tuple[tuple[str, ...], tuple[tuple[str, str], ...], tuple[int, ...] | None]
#: What the files of scores hold: the scale, and the scores of each model.
Tables = dict[str, tuple[Scale, dict[str, NDArray[np.float64]]]]
#: What nonsense in a row raises.
_NONSENSE = (CcatError, ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Checked:
    """What `check` says of one row.

    Attributes
    ----------
    number : int
        Line of the ledger, from 1.
    model : str
    verdict : {"sound", "older", "refused"}
        "older" where another version of this package made the row, and this one computes something
        else.
    reason : str
    """

    number: int
    model: str
    verdict: str
    reason: str = ""

    def __str__(self) -> str:
        what = "REFUSED" if self.verdict == REFUSED else self.verdict
        return f"row {self.number}, {self.model}: {what}" + (
            f": {self.reason}" if self.reason else ""
        )


def check(board: Board | str | Path, head: str | None = None) -> list[Checked]:
    """Verify every row of a board.

    The chain of the ledger, the hashes of journals and scores, and the figures: estimates are
    rebuilt from their journals with the board's banks, full results from their scores.

    Parameters
    ----------
    board : Board or path
    head : str, optional
        What the ledger ended with when it was published (or at least 12 characters of it): whoever
        wrote the ledger anew, or took its last rows out, is found.

    Returns
    -------
    list of Checked
        One for each line of the ledger, in order.

    Raises
    ------
    UsageError
        `head` is no hash, or less than 12 characters of one.
    RunError
        There is no board, its ledger cannot be read at all, or it has no row that ends with `head`.

    Examples
    --------
    >>> import tempfile
    >>> from lm_eval_ccat import ItemBank
    >>> from lm_eval_ccat.board import add, init
    >>> table = ScoreTable.from_arrays([[0.0, 1.0], [1.0, 1.0]], models=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ItemBank.blank([0, 1], task="t").save(Path(folder, "bank.json"))
    ...     table.write(Path(folder, "t.parquet"))
    ...     board = init(Path(folder, "board"), Path(folder, "bank.json"))
    ...     _ = add(board, Path(folder, "t.parquet"))
    ...     print(*check(board), sep=chr(10))
    row 1, a: sound
    row 2, b: sound
    """
    board = board if isinstance(board, Board) else Board(board)
    lines = board.ledger.lines()
    if head is not None and not re.fullmatch("[0-9a-f]{12,64}", head):
        raise UsageError(f"head {head!r} is no hash: give at least its first 12 characters")
    if head is not None and not any(line.link.startswith(head) for line in lines):
        raise RunError(
            f"{board.ledger.path}: no row ends with {head[:12]}: rows that were published were "
            "changed or taken out since; restore the file from git"
        )
    damaged = broken_evidence(board, [None if line.damage else line.row for line in lines])
    sound = [one.row for one, why in zip(lines, damaged) if one.row and not (one.damage or why)]
    runs = list(dict.fromkeys(_run_of(row) for row in sound if row.estimated))
    rebuilt = dict(zip(runs, in_processes(_rebuilt, runs, board)))
    read: Tables = {}
    checked = []
    for line, why in zip(lines, damaged):
        row, reason, verdict = line.row, line.damage or why, REFUSED
        if row is not None and not reason:
            try:
                reason = _estimate(row, rebuilt) if row.estimated else _full(board, row, read)
            except _NONSENSE as error:
                reason = " ".join(str(error).split())
            else:
                if reason and row.made_by != __version__:
                    verdict = OLDER
                    reason = f"made by {row.made_by or 'an unknown version'}: {reason}"
        checked.append(Checked(line.number, line.model, verdict if reason else SOUND, reason))
    return checked


def broken_evidence(board: Board, rows: Sequence[BoardRow | None]) -> list[str]:
    """Return what is wrong with the evidence of each row; "" if nothing is."""
    root, now = board.path.resolve(), dict[str, str]()

    def broken(file: str, sha256: str) -> str:
        if not (board.path / file).resolve().is_relative_to(root):
            return f"{file} lies outside the board"
        if file not in now:
            now[file] = sha256_of(board.path / file)
        if now[file] == sha256:
            return ""
        return f"{file} was changed (its hash differs)" if now[file] else f"{file} is missing"

    every = [row.evidence.items() if row is not None else () for row in rows]
    return [next((why for one in files if (why := broken(*one))), "") for files in every]


def _run_of(row: BoardRow) -> Run:
    """Return the run that an estimate is rebuilt from, the same for all its models."""
    hashes = tuple((task, one.bank or "") for task, one in row.tasks.items())
    return tuple(row.evidence), hashes, None if row.reserve is None else tuple(row.reserve)


def _rebuilt(run: Run, board: Board) -> dict[str, BoardRow] | str:
    """The rows of a journal, or why there are none."""
    try:
        [file], hashes, reserve = run
        return figures_of(board, board.path / file, dict(hashes), reserve)[0]
    except _NONSENSE as error:
        return " ".join(str(error).split())


def _estimate(row: BoardRow, rebuilt: Mapping[Run, dict[str, BoardRow] | str]) -> str:
    """Return how the journal's figures differ from a row's; "" if they agree."""
    now, name = rebuilt[_run_of(row)], row.in_journal or row.model
    if isinstance(now, str):
        raise RunError(now)
    return _difference(row, now[name]) if name in now else f"its journal holds no answers of {name}"


def _full(board: Board, row: BoardRow, read: Tables) -> str:
    """Return how the means of a row's scores differ from the row; "" if they agree."""
    tasks: dict[str, TaskScore] = {}
    for task, one in row.tasks.items():
        if one.evidence not in read:
            metric, _, filter = one.metric.partition(",")
            scale = board.banks[task].scale if task in board.banks else None
            table = ScoreTable.read(
                board.path / one.evidence, metric, task, None if filter == "none" else filter,
                scale=scale,
            )  # fmt: skip
            read[one.evidence] = (table.scale, dict(zip(table.models, table.model_scores())))
        whole, scores = read[one.evidence]
        if row.model not in scores:
            return f"{one.evidence} holds no scores of it"
        seen = scores[row.model][np.isfinite(scores[row.model])]
        score = float(whole.restore(seen.mean()))
        tasks[task] = replace(one, score=score, low=score, high=score, items=len(seen))
    score = average(board, tasks, row.shares) if set(tasks) <= set(board.banks) else row.score
    return _difference(row, replace(row, tasks=tasks, score=score, low=score, high=score))


def _difference(row: BoardRow, now: BoardRow) -> str:
    """The first figure that differs, as ``recorded X, now Y``."""
    pairs = [("number of tasks", len(row.tasks), len(now.tasks))]
    pairs += [(_FIGURES[n], getattr(row, n), getattr(now, n)) for n in ("score", "low", "high")]
    for task, one in row.tasks.items():
        other = now.tasks.get(task)
        if other is None:
            return f"recorded results on {task}, now none"
        pairs += [(f"{what} of {task}", getattr(one, name), getattr(other, name))
                  for name, what in _FIGURES.items()]  # fmt: skip
    for what, was, is_now in pairs:
        if abs(was - is_now) > _TOLERANCE * max(1.0, abs(was)):
            return f"{what}: recorded {was:.6g}, now {is_now:.6g}"
    if row.asked != now.asked:
        return "recorded other items than the journal"
    return ""


# -- from a journal -------------------------------------------------------------------------------


def tasks_of(header: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The tasks of a run, each with its outcome and the hash of its bank.

    Parameters
    ----------
    header : mapping
        A journal's first record.

    Raises
    ------
    RunError
        It ranks a task by several metrics.
    """
    outcomes = header["report"].get("outcomes")
    if outcomes is None:
        return {header["task"]["name"]: (header["task"].get("metric", ""), header["bank_sha256"])}
    if any(len(of) > 1 for of in outcomes.values()):
        raise RunError("the run scores several metrics of one task; a board scores one")
    hashes = header["bank_sha256"].split("+")
    return {t: (next(iter(of)), sha) for (t, of), sha in zip(outcomes.items(), hashes)}


def figures_of(
    board: Board, journal: Path, hashes: Mapping[str, str], reserve: Sequence[int] | None
) -> tuple[dict[str, BoardRow], dict[str, str]]:
    """Rebuild a ranking from its journal and the board's banks.

    Parameters
    ----------
    board : Board
    journal : path
    hashes : mapping of task to str
        SHA-256 of the whole bank of each task of the run.
    reserve : (int, int) or None
        Which part of the banks' items was held back, of how many.

    Returns
    -------
    rows : dict of str to BoardRow
        By the names of the journal; without date, evidence and link.
    left_out : dict of str to str
        Models that were set aside or not asked, with the reason.

    Raises
    ------
    RunError
        The journal is damaged, was made with other banks, or a bank is missing.
    """
    header = header_of(journal)
    of_run = tasks_of(header)
    banks = {t: offered(board.bank_of(t, sha), t, reserve) for t, sha in hashes.items()}
    for task, (_, sha256) in of_run.items():
        if task not in banks or banks[task].sha256 != sha256:
            raise RunError(f"it was made with another bank of {task} ({sha256[:12]})")
    by_task: Any = {t: {name: banks[t]} for t, (name, _) in of_run.items()}
    if header["report"].get("outcomes") is None:
        [by_task] = banks.values()
    ranking = book_of(by_task, JournalFile(journal), header).ranker.result()
    rows: dict[str, BoardRow] = {}
    left_out: dict[str, str] = {}
    for model in ranking.estimates:
        if model in ranking.known:
            continue
        if model in ranking.set_aside or not ranking.items[model]:
            left_out[model] = ranking.set_aside.get(model, "it was not asked anything")
        else:
            rows[model] = _row(board, ranking, model, header, banks, hashes, reserve)
    return rows, left_out


def _row(
    board: Board,
    ranking: Ranking,
    model: str,
    header: Mapping[str, Any],
    banks: Mapping[str, ItemBank],
    hashes: Mapping[str, str],
    reserve: Sequence[int] | None,
) -> BoardRow:
    """One model's row, on the scales of its tasks and of them all."""
    scales = {bank.scale for bank in banks.values()}
    whole = board.scale if len(scales) > 1 else scales.pop()
    stated = header["task"].get("settings") or {}
    tasks: dict[str, TaskScore] = {}
    asked: dict[str, list[Any]] = {}
    for task, bank in banks.items():
        part = ranking.tasks.get(task, ranking) if len(banks) > 1 else ranking
        version = stated.get(task, stated).get("task_version")
        ids = [
            item[1] if isinstance(item, tuple) else item
            for item in ranking.items[model]
            if not isinstance(item, tuple) or item[0] == task
        ]
        low, high = sorted(float(bank.scale.restore(v)) for v in part.interval(model))
        tasks[task] = TaskScore(
            score=float(bank.scale.restore(part.estimates[model])),
            low=low,
            high=high,
            items=len(ids),
            documents=bank.n_items,
            metric=metric_of(bank),
            version=None if version is None else str(version),
            bank=hashes[task],
        )
        asked[task] = ids
    low, high = sorted(float(whole.restore(v)) for v in ranking.interval(model))
    weighting = header["ranker"].get("weights") or {task: {"": 1.0} for task in banks}
    weights = {task: float(sum(of.values())) for task, of in weighting.items()}
    return BoardRow(
        model=model,
        kind=ESTIMATE,
        score=float(whole.restore(ranking.estimates[model])),
        low=low,
        high=high,
        tasks=tasks,
        date="",
        signature=ranking.signature,
        made_by=__version__,
        confidence=ranking.confidence,
        shares={task: weight / sum(weights.values()) for task, weight in weights.items()},
        asked=asked,
        reserve=None if reserve is None else list(reserve),
    )
