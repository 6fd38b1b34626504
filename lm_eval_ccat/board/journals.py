"""What a run's journal says of its models, from the journal and the board's banks alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..bank import ItemBank
from ..errors import RunError
from ..ranker import Ranking
from ..runs.directory import header_of
from ..runs.journal import JournalFile
from ..runs.rebuild import book_of
from .folder import Board, offered
from .ledger import ESTIMATE, BoardRow, TaskScore
from .standing import metric_of

JOURNAL = "journal.jsonl"


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
