"""Full results: read, kept in the board's folder, and added to the ledger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..bank import ItemBank, SuiteBank
from ..errors import RunError, ScoreTableError, UsageError
from ..scores import ScoreTable
from ..scores.readers.registry import reader_of
from ..upkeep.build import build
from ..upkeep.scores_for import scores_for
from .folder import Board
from .ledger import FULL, Row, TaskScore, sha256_of
from .standing import latest, metric_of

#: How the reason ends of a model that is left out because it was added before.
THERE = "in the ledger already"


@dataclass
class Added:
    """What was added to a board, and what was not.

    Attributes
    ----------
    rows : list of Row
    left_out : dict of str to str
        By model the reason.
    """

    rows: list[Row] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def partial(self) -> bool:
        """Whether a model that the ledger does not have was left out."""
        return any(not reason.endswith(THERE) for reason in self.left_out.values())


def add(board: Board | str | Path, source: str | Path, link: str = "") -> Added:
    """Add models with full results.

    The scores are kept in the board's folder, so that each row can be verified. Results of another
    number of documents, or of another version of the task, are added too, and shown apart. What
    stands in the ledger already is not added again.

    Parameters
    ----------
    board : Board or path
    source : path
        Logs, a score table, or a folder of tables (one per task).
    link : str, optional
        A page about each model; ``{model}`` in it becomes the model's name.

    Returns
    -------
    Added

    Raises
    ------
    UsageError
        The source holds no full results of the board's tasks.
    CcatError
        It cannot be read, or is on another scale.

    Examples
    --------
    >>> import tempfile
    >>> from lm_eval_ccat.board import init
    >>> table = ScoreTable.from_arrays([[0.0, 1.0], [1.0, 1.0]], models=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ItemBank.blank([0, 1], task="t").save(Path(folder, "bank.json"))
    ...     table.write(Path(folder, "t.parquet"))
    ...     board = init(Path(folder, "board"), Path(folder, "bank.json"))
    ...     [(row.model, row.score) for row in add(board, Path(folder, "t.parquet")).rows]
    [('a', 0.5), ('b', 1.0)]
    """
    board = board if isinstance(board, Board) else Board(board)
    check_link(link)
    tables = {t: found for t, b in board.banks.items() if (found := table_of(Path(source), t, b))}
    if not tables:
        raise UsageError(
            f"{source}: no results of the board's tasks ({', '.join(board.banks)}) by its metrics"
        )
    added = Added()
    with board.locked():
        before = board.ledger.rows()
        scores = _scores(board, tables, added)
        for task in tables:  # only what goes into a row is kept
            there = [m for m in tables[task].models if task in scores.get(m, {})]
            if there:
                file, sha256 = _keep(board, task, tables[task].select(there))
                for model in there:
                    one = scores[model][task]
                    scores[model][task] = replace(one, evidence=file, sha256=sha256)
        standing = latest(before, FULL)
        for model, tasks in scores.items():
            score = average(board, tasks, board.shares)
            row = Row(
                model=model,
                kind=FULL,
                score=score,
                low=score,
                high=score,
                tasks=tasks,
                date=date.today().isoformat(),
                signature=f"full results|lm-eval-ccat:{__version__}",
                made_by=__version__,
                shares=board.shares,
                link=link.replace("{model}", model),
            )
            if model in standing and _alike(standing[model], row):
                added.left_out[model] = f"its full results stand {THERE}"
            else:
                added.rows.append(row)
        board.ledger.append(added.rows)
    return added


def check_link(link: str) -> None:
    """Refuse what is no address of a page.

    Raises
    ------
    UsageError
    """
    if link and not re.match(r"https?://[^\s\"'<>]+\Z", link):
        raise UsageError(f"link {link!r} is not a web address (https://...)")


def calibrated(
    source: Path, method: str, task: str | None = None, metric: str | None = None, **reading: Any
) -> SuiteBank:
    """Banks of every task of some full results.

    Raises
    ------
    CcatError
        The source cannot be read or calibrated.
    """
    names = [name.strip() for name in (task or "*").split(",") if name.strip()]
    metrics = [m.strip() for m in metric.split(",")] if metric else None
    banks: dict[str, dict[str, ItemBank]] = {}
    files = score_files(source)
    for file in files:
        unnamed = all(o.task is None for o in reader_of(file).outcomes(file))
        suite = build(file, method, tasks=["*"] if unnamed else names, metrics=metrics, **reading)
        for found, outcomes in suite.items():
            name = found
            if unnamed:
                name = file.stem if len(files) > 1 else task or found
            banks[name] = {k: replace(bank, task=name) for k, bank in outcomes.items()}
    return SuiteBank(banks)


def score_files(source: Path) -> list[Path]:
    """The path itself; of a folder of tables each table.

    Raises
    ------
    ScoreTableError
        There is no such path.
    """
    if not source.exists():
        raise ScoreTableError(f"{source}: no such file or directory of scores")
    tables = sorted([*source.glob("*.parquet"), *source.glob("*.csv")]) if source.is_dir() else []
    return tables or [source]


def table_of(source: Path, task: str, bank: ItemBank, partial: bool = False) -> ScoreTable | None:
    """Scores of one of the board's tasks; None where the source holds none."""
    files = score_files(source)
    for file in files:
        for outcome in reader_of(file).outcomes(file):
            alone = outcome.task is None and (len(files) == 1 or file.stem == task)
            if (outcome.task == task or alone) and outcome.metric in bank.metric:
                return replace(
                    scores_for(replace(bank, task=task), file, partial=partial), task=task
                )
    return None


def _scores(
    board: Board, tables: dict[str, ScoreTable], added: Added
) -> dict[str, dict[str, TaskScore]]:
    """What each model scored on each task; who lacks documents is left out, with the reason."""
    found: dict[str, dict[str, TaskScore]] = {}
    for task, table in tables.items():
        bank = board.banks[task]
        version = table.settings.get("task_version")
        hashes = dict(zip(table.doc_ids, table.doc_hashes or ()))
        changed = sum(
            hashes.get(d) not in (None, h)
            for d, h in zip(bank.doc_ids, bank.doc_hashes or ())
            if h is not None
        )
        everything = set(bank.doc_ids)
        for model, row in zip(table.models, table.model_scores()):
            seen = np.isfinite(row)
            ids = {d for d, there in zip(table.doc_ids, seen) if there}
            if ids < everything:
                added.left_out[model] = (
                    f"it has {len(ids)} of {bank.n_items} documents of {task}; "
                    "`board place` estimates the rest"
                )
                continue
            score = float(bank.scale.restore(row[seen].mean()))
            found.setdefault(model, {})[task] = TaskScore(
                score=score,
                low=score,
                high=score,
                items=len(ids),
                documents=len(ids),
                metric=metric_of(bank),
                evidence="",
                sha256="",
                version=None if version is None else str(version),
                changed=changed,
            )
    for model in added.left_out:
        found.pop(model, None)
    return found


def average(board: Board, tasks: Mapping[str, TaskScore], shares: Mapping[str, float]) -> float:
    """The weighted mean of full results, on the board's scale."""
    total = sum(shares[task] for task in tasks)
    unit = sum(
        shares[task] * float(board.banks[task].scale.normalise(one.score))
        for task, one in tasks.items()
    )
    return float(board.scale.restore(unit / total))


def _alike(a: Row, b: Row) -> bool:
    """Whether two rows say the same of a model."""

    def figures(row: Row) -> Any:
        return {
            task: (one.score, one.documents, one.version, one.metric)
            for task, one in row.tasks.items()
        }

    return figures(a) == figures(b) and a.link == b.link


def _keep(board: Board, task: str, table: ScoreTable) -> tuple[str, str]:
    """Write scores into the board's folder under their hash; the name of the file, and the hash."""
    folder = board.path / "scores"
    draft = folder / "draft.parquet"
    try:
        folder.mkdir(exist_ok=True)
        table.write(draft)
        sha256 = sha256_of(draft)
        name = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', task)[:60]}.{sha256[:16]}.parquet"
        draft.replace(folder / name)
    except OSError as error:
        raise RunError(f"{folder}: cannot write ({error.strerror or error})") from error
    return f"scores/{name}", sha256
