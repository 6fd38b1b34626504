"""Create a board; add models with full results, or place them by some of the documents."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from secrets import randbits
from typing import Any

import numpy as np

from .. import __version__
from ..bank import ItemBank, SuiteBank, is_suite
from ..errors import RunError, UsageError
from ..files import replace_text, safe_name
from ..runs.directory import RunDirectory, banks_at, save_banks
from ..runs.journal import Record
from ..scores import ScoreTable
from ..scores.table import reader_of
from ..upkeep.build import build
from ..upkeep.tables import scores_for
from .checking import JOURNAL, figures_of, tasks_of
from .folder import (
    FORMAT,
    FULL,
    VERSION,
    Board,
    BoardRow,
    Rules,
    TaskScore,
    average,
    latest,
    metric_of,
    offered,
    one_bank_each,
    read_rules,
    ruled,
    sha256_of,
    standing,
)  # fmt: skip

#: End of the reason for leaving out a model that was added before.
THERE = "in the ledger already"


@dataclass
class Added:
    """The rows added to a board, and the models left out.

    Attributes
    ----------
    rows : list of BoardRow
    left_out : dict of str to str
        The reason for each model.
    """

    rows: list[BoardRow] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def partial(self) -> bool:
        """Whether a model was left out that is not in the ledger."""
        return any(not reason.endswith(THERE) for reason in self.left_out.values())


def add(board: Board | str | Path, source: str | Path, link: str = "") -> Added:
    """Add models with full results.

    The scores are kept in the board's folder, so that each row can be verified. Results on another
    number of documents, or on another version of the task, are added but shown apart. Results that
    are already in the ledger are not added again.

    Parameters
    ----------
    board : Board or path
    source : path
        Logs, a score table, or a folder of tables (one per task).
    link : str, optional
        Address of a page about each model; ``{model}`` in it stands for the model's name.

    Returns
    -------
    Added

    Raises
    ------
    UsageError
        If the source holds no results on the board's tasks, or the link is not a web address.
    CcatError
        If the source cannot be read, or is on another scale.

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
        before = latest(board.ledger.rows(), FULL)
        scores = _scores(board, tables, added)
        for model, tasks in scores.items():
            score = average(board, tasks, board.shares)
            row = BoardRow(
                model,
                FULL,
                *(score, score, score),
                tasks,
                date.today().isoformat(),
                signature=f"full results|lm-eval-ccat:{__version__}",
                made_by=__version__,
                shares=board.shares,
                link=link.replace("{model}", model),
            )
            if model in before and _figures(before[model]) == _figures(row):
                added.left_out[model] = f"its full results stand {THERE}"
            else:
                added.rows.append(row)
        board.ledger.append(added.rows)
    return added


def _figures(row: BoardRow) -> Any:
    """Return what makes a row of full results differ from another of the same model."""
    tasks = {t: (o.score, o.documents, o.version, o.metric) for t, o in row.tasks.items()}
    return tasks, row.link


def check_link(link: str) -> None:
    """Raise a `UsageError` for a link that is not a web address."""
    if link and not re.match(r"https?://[^\s\"'<>]+\Z", link):
        raise UsageError(f"link {link!r} is not a web address (https://...)")


def tables_of(board: Board, source: Path, partial: bool = False) -> dict[str, ScoreTable]:
    """Read the scores of those tasks of the board that the source holds.

    Raises
    ------
    CcatError
        If the source cannot be read, or is on another scale.
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
    """Keep each model's score on each task; leave out models that lack documents."""
    rows = {task: dict(zip(table.models, table.model_scores())) for task, table in tables.items()}
    for task, of_task in rows.items():
        wanted = set(board.banks[task].doc_ids)
        for model, row in of_task.items():
            ids = {d for d, score in zip(tables[task].doc_ids, row) if np.isfinite(score)}
            if ids < wanted:
                added.left_out[model] = (
                    f"it has {len(ids)} of {len(wanted)} documents of {task}; "
                    "`board place` estimates the rest"
                )
    by_model: dict[str, dict[str, TaskScore]] = {}
    for task, table in tables.items():
        complete = [model for model in table.models if model not in added.left_out]
        if not complete:
            continue
        bank, version = board.banks[task], table.settings.get("task_version")
        changed = len(bank.compare(table.doc_ids, table.doc_hashes).changed)
        file, sha256 = _keep(board, task, table.select(complete))
        for model in complete:
            seen = rows[task][model][np.isfinite(rows[task][model])]
            score = float(bank.scale.restore(seen.mean()))
            by_model.setdefault(model, {})[task] = TaskScore(
                *(score, score, score),
                items=len(seen),
                documents=len(seen),
                metric=metric_of(bank),
                evidence=file,
                sha256=sha256,
                version=None if version is None else str(version),
                changed=changed,
            )
    return by_model


def _keep(board: Board, task: str, table: ScoreTable) -> tuple[str, str]:
    """Write scores into the board's folder under their hash; return the file and the hash."""
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


# -- beginning ------------------------------------------------------------------------------------


def init(
    folder: str | Path,
    source: str | Path,
    *,
    task: str | None = None,
    metric: str | None = None,
    **rules: Any,
) -> Board:
    """Create a board, or give an existing one new banks.

    Parameters
    ----------
    folder : path
        The board's folder, created if necessary. An existing board gets the new banks; estimates
        made with banks from which these do not descend are then shown apart.
    source : path
        Logs or a score table of full results, or a folder of such tables (one per task): the banks
        are calibrated on them, and their models are the first rows. Or a suite's folder or a
        single bank: the board then starts without rows.
    task : str, optional
        Tasks of the logs, comma-separated: names, patterns or groups; all by default. For a table
        that names no task, the name of its task.
    metric : str, optional
        Metric; needed if the results hold several.
    **rules
        Fields of `Rules`: ``name``, ``weights``, ``max_items``, ``exposure``, ``reserve``,
        ``rotate_after``.

    Returns
    -------
    Board

    Raises
    ------
    UsageError
        If a rule is unknown or out of range.
    CcatError
        If the source cannot be read, or no bank can be calibrated on it.

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
    known = is_suite(source) or source.suffix == ".json" or any(source.glob("*.bank.json"))
    suite = SuiteBank.load(source) if known else _calibrated(source, task, metric)
    one_bank_each(suite, source)
    try:
        with tempfile.TemporaryDirectory() as draft:
            # If anything fails, a folder that was not a board stays unchanged.
            target = path if exists else Path(draft, "board")
            if exists:
                before = Board(path)
                for bank in before.banks.values():
                    bank.save(before.old_bank(bank.sha256))
            target.mkdir(exist_ok=True)
            content = {"format": FORMAT, "version": VERSION, **asdict(settled)}
            suite.save(target / "suite")
            replace_text(target / "board.json", json.dumps(content, indent=1) + "\n")
            replace_text(target / ".gitignore", ".runs/\n.lock\n")
            if not known:
                add(target, source)
            if not exists:
                unlocked = shutil.ignore_patterns(".lock")
                shutil.copytree(target, path, dirs_exist_ok=True, ignore=unlocked)
    except OSError as error:
        raise RunError(f"{path}: cannot write the board ({error.strerror or error})") from error
    return Board(path)


def _calibrated(source: Path, task: str | None, metric: str | None) -> SuiteBank:
    """Calibrate the banks of every task of some full results."""
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


# -- placing --------------------------------------------------------------------------------------


def place(
    board: Board | str | Path,
    source: Mapping[str, Any] | str | Path,
    *,
    name: str | None = None,
    link: str = "",
    observer: Any = None,
) -> Added:
    """Place models among those of a board.

    Parameters
    ----------
    board : Board or path
    source : mapping or path
        One of three: a configuration as for `rank`, whose models are asked (the board sets tasks,
        banks, ``max_items`` and ``exposure``; an interrupted run is continued); the directory of a
        run that `rank` or `run` made with the board's banks; or logs of models that were run on
        some of the documents.
    name : str, optional
        The model's name on the board, if the source holds one model.
    link : str, optional
        Address of a page about each model; ``{model}`` in it stands for the model's name.
    observer : Observer, optional
        Follows the progress of a live run.

    Returns
    -------
    Added

    Raises
    ------
    UsageError
        If the run is of none of the board's tasks, or `name` is given for several models.
    CcatError
        If the run cannot be read, or a model cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from lm_eval_ccat import calibrate
    >>> from lm_eval_ccat.board import init
    >>> scores = np.random.default_rng(0).random((8, 40))
    >>> table = ScoreTable.from_arrays(scores, models=list("abcdefgh"))
    >>> some = ScoreTable.from_arrays(scores[:1, :10], models=["new"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibrate(table, "paper").save(Path(folder, "bank.json"))
    ...     some.write(Path(folder, "some.csv"))
    ...     board = init(Path(folder, "board"), Path(folder, "bank.json"))
    ...     [row] = place(board, Path(folder, "some.csv")).rows
    >>> row.model, row.kind, row.documents
    ('new', 'estimate', 40)
    """
    board = board if isinstance(board, Board) else Board(board)
    check_link(link)
    if isinstance(source, Mapping) or Path(source).suffix in (".yaml", ".yml"):
        return _live(board, source, name, link, observer)
    add_from = _of_run if Path(source, JOURNAL).is_file() else _of_logs
    return add_from(board, Path(source), name, link)


def _live(
    board: Board, config: Mapping[str, Any] | str | Path, name: str | None, link: str, observer: Any
) -> Added:
    """Ask the models in a run directory of the board and add the results."""
    from ..live.ranking import rank

    stem = "run" if isinstance(config, Mapping) else safe_name(Path(config).stem)
    work = board.path / ".runs" / stem
    resume = (work / JOURNAL).is_file()
    rows = board.ledger.rows()
    reserve, seed = board.turn(rows), randbits(32)
    if resume:
        header = RunDirectory(work).read_header()
        seed, reserve = header["ranker"]["seed"], _reserve(board, tasks_of(header), reserve)
    banks = {task: offered(bank, task, reserve) for task, bank in board.banks.items()}
    options: dict[str, Any] = {
        "tasks": list(banks),
        "bank": banks if len(banks) > 1 else next(iter(banks.values())),
        "max_items": board.rules.max_items,
        "exposure": 1 if board.draws_at_random else board.rules.exposure,
        "seed": seed,
    }
    if len(banks) > 1:
        options["weights"] = board.rules.weights
    if (known := _known(board, work)) is not None:
        options["known"] = str(known)
    result = rank(config, run_dir=work, resume=resume, observer=observer, **options)
    if result.interrupted:
        raise RunError(f"interrupted; answers are kept in {work}: run the same command to continue")
    added = _of_run(board, work, name, link)
    shutil.rmtree(work)
    (work.parent / f"{work.name}.known.parquet").unlink(missing_ok=True)
    return added


def _known(board: Board, work: Path) -> Path | None:
    """Write the full results to place newcomers among as one table; None if there are none."""
    import pyarrow as pa
    from pyarrow import parquet

    full = [one.row for one in standing(board).placed if not one.row.estimated]
    if not full:
        return None
    tables = []
    for file in sorted({file for row in full for file in row.evidence}):
        models = [row.model for row in full if file in row.evidence]
        tables.append(parquet.read_table(board.path / file, filters=[("model", "in", models)]))
    target = work.parent / f"{work.name}.known.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.concat_tables(tables, promote_options="default"), target)
    return target


def _of_run(board: Board, run: Path, name: str | None, link: str) -> Added:
    """Copy a run's journal into the board's folder, and add its models."""
    header = RunDirectory(run).read_header()
    of_run = tasks_of(header)
    if not set(of_run) & set(board.banks):
        raise UsageError(
            f"{run} is a run of {', '.join(of_run)}; the board is of {', '.join(board.banks)}"
        )
    with board.locked():
        before = board.ledger.rows()
        reserve = _reserve(board, of_run, board.turn(before))
        hashes = {task: board.banks[task].sha256 for task in of_run} if reserve else of_run
        if reserve is None:  # rows made with other banks are shown apart, but can be verified
            known = {bank.sha256 for bank in board.banks.values()}
            for _, _, bank in SuiteBank.load(banks_at(run)).banks():
                if bank.sha256 not in known and not board.old_bank(bank.sha256).is_file():
                    bank.save(board.old_bank(bank.sha256))
        rows, left_out = figures_of(board, run / JOURNAL, hashes, reserve)
        if name is not None and len(rows) != 1:
            raise UsageError(f"--name is for one model; {run} holds {', '.join(rows) or 'none'}")
        sha256 = sha256_of(run / JOURNAL)
        evidence = f"journals/{sha256[:16]}.jsonl"
        added = Added(left_out=left_out)
        for model, row in rows.items():
            shown = name or model
            if any(r.model == shown and evidence in r.evidence for r in before):
                added.left_out[shown] = f"this run of it stands {THERE}"
                continue
            tasks = {
                t: replace(one, evidence=evidence, sha256=sha256) for t, one in row.tasks.items()
            }
            added.rows.append(
                replace(
                    row,
                    model=shown,
                    in_journal="" if shown == model else model,
                    tasks=tasks,
                    date=date.today().isoformat(),
                    link=link.replace("{model}", shown),
                )
            )
        if added.rows:
            (board.path / "journals").mkdir(exist_ok=True)
            shutil.copyfile(run / JOURNAL, board.path / evidence)
            board.ledger.append(added.rows)
    return added


def _reserve(board: Board, of_run: Mapping[str, str], now: list[int] | None) -> list[int] | None:
    """Return the part of the board's items that a run held back; None if there was none."""
    parts = board.rules.reserve
    for tried in [now, *([part, parts] for part in range(parts))]:
        if tried is not None and all(
            task in board.banks and offered(board.banks[task], task, tried).sha256 == sha256
            for task, sha256 in of_run.items()
        ):
            return tried
    return None


def _of_logs(board: Board, source: Path, name: str | None, link: str) -> Added:
    """Turn logs of other runs into a run of the board, and add its models."""
    if board.draws_at_random:
        raise UsageError(
            "the board's banks know nothing about the items, so answers to chosen items say "
            "nothing about the others; ask the models live: `board place DIR MODELS.yaml`"
        )
    tables = tables_of(board, source, partial=True)
    if set(tables) != set(board.banks):
        lacking = next(task for task in board.banks if task not in tables)
        raise UsageError(f"{source}: no results on {lacking}")
    models = [
        m for m in next(iter(tables.values())).models if all(m in t.models for t in tables.values())
    ]
    if not models:
        raise UsageError(f"{source}: no model has results on all tasks of the board")
    text = str(sorted(models)) + str(source.resolve())
    work = board.path / ".runs" / f"logs-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    shutil.rmtree(work, ignore_errors=True)
    outcomes = {task: {bank.metric: bank} for task, bank in board.banks.items()}
    facts = {t: {metric: {"weight": 1.0} for metric in of} for t, of in outcomes.items()}
    weights = {t: {board.banks[t].metric: share} for t, share in board.shares.items()}
    prices = dict.fromkeys(models, 1.0)
    directory = RunDirectory(work)
    directory.start(
        {
            "bank_sha256": "+".join(bank.sha256 for bank in board.banks.values()),
            "task": {
                "name": "+".join(board.banks),
                "settings": {task: dict(table.settings) for task, table in tables.items()},
            },
            "versions": {"lm_eval_ccat": __version__, "lm_eval": None},
            "report": {"outcomes": facts},
            "config": {"logs": source.name},
            "ranker": {
                **{"models": prices, "stop": "limits", "warmup": 0, "weights": weights},
                "options": {},
            },
        }
    )
    save_banks(outcomes, work)
    for task, table in tables.items():
        bank = board.banks[task]
        for model in models:
            directory.journal.append(_answers(bank, task, model, table))
    directory.journal.close()
    try:
        return _of_run(board, work, name, link)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _answers(bank: ItemBank, task: str, model: str, table: ScoreTable) -> list[Record]:
    """Return a journal's records of a model's scores, for those items that the bank keeps."""
    [scores] = table.select([model]).model_scores()
    seen = [
        ([task, d], float(s))
        for d, s in zip(table.doc_ids, scores)
        if np.isfinite(s) and d in bank.index and bank.kept[bank.index[d]]
    ]
    asks = {"op": "ask", "pairs": [[model, item] for item, _ in seen], "draws": [None] * len(seen)}
    tell = {"op": "tell", "model": model, "cost": 1.0}
    return [asks, *({**tell, "item": item, "score": {bank.metric: s}} for item, s in seen)]
