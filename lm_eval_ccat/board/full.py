"""Beginning a board, and its full results: read, kept in the folder, added to the ledger."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..bank import SuiteBank, is_suite
from ..errors import RunError, UsageError
from ..files import replace_text
from ..scores import ScoreTable
from ..scores.table import reader_of
from ..upkeep.build import build
from ..upkeep.tables import scores_for
from .folder import FORMAT, VERSION, Board, Rules, one_bank_each, read_rules, ruled
from .ledger import FULL, BoardRow, TaskScore, sha256_of
from .standing import latest, metric_of

#: How the reason ends of a model that is left out because it was added before.
THERE = "in the ledger already"


@dataclass
class Added:
    """The rows added to a board, and the models left out.

    Attributes
    ----------
    rows : list of BoardRow
    left_out : dict of str to str
        By model the reason.
    """

    rows: list[BoardRow] = field(default_factory=list)
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
    >>> from lm_eval_ccat import ItemBank
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
    tables = tables_of(board, Path(source))
    if not tables:
        raise UsageError(
            f"{source}: no results of the board's tasks ({', '.join(board.banks)}) by its metrics"
        )
    added = Added()
    with board.locked():
        before = board.ledger.rows()
        scores = _scores(board, tables, added)
        for task in tables:  # only what goes into a row is kept
            scored = [m for m in tables[task].models if task in scores.get(m, {})]
            if scored:
                file, sha256 = _keep(board, task, tables[task].select(scored))
                for model in scored:
                    one = scores[model][task]
                    scores[model][task] = replace(one, evidence=file, sha256=sha256)
        standing = latest(before, FULL)
        for model, tasks in scores.items():
            score = average(board, tasks, board.shares)
            row = BoardRow(
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
    """Refuse a link that is not the address of a page.

    Raises
    ------
    UsageError
    """
    if link and not re.match(r"https?://[^\s\"'<>]+\Z", link):
        raise UsageError(f"link {link!r} is not a web address (https://...)")


def calibrated(source: Path, task: str | None = None, metric: str | None = None) -> SuiteBank:
    """Banks of every task of some full results.

    Raises
    ------
    CcatError
        The source cannot be read or calibrated.
    """
    names = [name.strip() for name in (task or "*").split(",") if name.strip()]
    metrics = [m.strip() for m in metric.split(",")] if metric else None
    unnamed = {o.task for o in reader_of(source).outcomes(source)} == {None}
    suite = build(source, tasks=["*"] if unnamed else names, metrics=metrics)
    return SuiteBank(
        {
            (name := task or recorded if unnamed else recorded): {
                k: replace(bank, task=name) for k, bank in outcomes.items()
            }
            for recorded, outcomes in suite.items()
        }
    )


def tables_of(board: Board, source: Path, partial: bool = False) -> dict[str, ScoreTable]:
    """Scores of the board's tasks, of those that the source holds.

    Raises
    ------
    CcatError
        The source cannot be read, or is on another scale.
    """
    outcomes = reader_of(source).outcomes(source)
    return {
        task: replace(scores_for(replace(bank, task=task), source, partial=partial), task=task)
        for task, bank in board.banks.items()
        if any(o.task in (task, None) and o.metric in bank.metric for o in outcomes)
    }


def _scores(
    board: Board, tables: dict[str, ScoreTable], added: Added
) -> dict[str, dict[str, TaskScore]]:
    """What each model scored on each task; who lacks documents is left out, with the reason."""
    by_model: dict[str, dict[str, TaskScore]] = {}
    for task, table in tables.items():
        bank = board.banks[task]
        version = table.settings.get("task_version")
        changed = len(bank.compare(table.doc_ids, table.doc_hashes).changed)
        everything = set(bank.doc_ids)
        for model, row in zip(table.models, table.model_scores()):
            seen = np.isfinite(row)
            ids = {d for d, complete in zip(table.doc_ids, seen) if complete}
            if ids < everything:
                added.left_out[model] = (
                    f"it has {len(ids)} of {bank.n_items} documents of {task}; "
                    "`board place` estimates the rest"
                )
                continue
            score = float(bank.scale.restore(row[seen].mean()))
            by_model.setdefault(model, {})[task] = TaskScore(
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
        by_model.pop(model, None)
    return by_model


def average(board: Board, tasks: Mapping[str, TaskScore], shares: Mapping[str, float]) -> float:
    """The weighted mean of full results, on the board's scale."""
    total = sum(shares[task] for task in tasks)
    unit = sum(
        shares[task] * float(board.banks[task].scale.normalise(one.score))
        for task, one in tasks.items()
    )
    return float(board.scale.restore(unit / total))


def _alike(a: BoardRow, b: BoardRow) -> bool:
    """Whether two rows say the same of a model."""

    def figures(row: BoardRow) -> Any:
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


_IGNORED = ".runs/\n.lock\n"


def init(
    folder: str | Path,
    source: str | Path,
    *,
    task: str | None = None,
    metric: str | None = None,
    **rules: Any,
) -> Board:
    """Begin a board, or give one new banks.

    Parameters
    ----------
    folder : path
        Made where it does not exist. A board that is there already gets the new banks; estimates
        made with banks that these do not descend from are then shown apart.
    source : path
        Logs or a score table of full results, or a folder of such tables (one per task): the banks
        are calibrated on them, and their models are the first rows. Or a suite's folder, or one
        bank: the board then begins without rows.
    task : str, optional
        Tasks of the logs, by commas: names, patterns or groups; default all. The name of the task
        where a table names none.
    metric : str, optional
        Needed where the results hold several.
    **rules
        Of `Rules`: ``name``, ``weights``, ``max_items``, ``exposure``, ``reserve``,
        ``rotate_after``.

    Returns
    -------
    Board

    Raises
    ------
    UsageError
        A rule is out of range.
    CcatError
        The source cannot be read or calibrated.

    Examples
    --------
    >>> import tempfile
    >>> from lm_eval_ccat import ItemBank
    >>> bank = ItemBank.blank(range(9), task="t", metric="acc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bank.save(Path(folder, "t.bank.json"))
    ...     board = init(Path(folder, "board"), Path(folder, "t.bank.json"), name="Mine")
    ...     (board.rules.name, list(board.banks), board.shares)
    ('Mine', ['t'], {'t': 1.0})
    """
    path, source = Path(folder), Path(source)
    exists = (path / "board.json").is_file()
    settled = ruled(read_rules(path / "board.json") if exists else Rules(), rules)
    banks_given = is_suite(source) or source.suffix == ".json" or _holds_banks(source)
    suite = SuiteBank.load(source) if banks_given else calibrated(source, task, metric)
    one_bank_each(suite, source)
    with nullcontext() if exists else _undone_by_errors(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
            if exists:
                before = Board(path)
                for bank in before.banks.values():
                    bank.save(before.old_bank(bank.sha256))
            content = {"format": FORMAT, "version": VERSION, **asdict(settled)}
            suite.save(path / "suite")
            replace_text(path / "board.json", json.dumps(content, indent=1) + "\n")
            replace_text(path / ".gitignore", _IGNORED)
        except OSError as error:
            raise RunError(f"{path}: cannot write the board ({error.strerror or error})") from error
        board = Board(path)
        if not banks_given:
            add(board, source)
    return board


@contextmanager
def _undone_by_errors(folder: Path) -> Iterator[None]:
    """On an error, remove from a folder what was not there before."""
    existed = folder.is_dir()
    before = set(folder.iterdir()) if existed else set()
    try:
        yield
    except BaseException:
        for entry in set(folder.iterdir()) - before if folder.is_dir() else ():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        if not existed and folder.is_dir():
            folder.rmdir()
        raise


def _holds_banks(source: Path) -> bool:
    return source.is_dir() and any(source.glob("*.bank.json"))
