"""Add models with full results to a board."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import __version__
from ..bank.settings import compare_settings
from ..errors import UsageError
from ..files import writing
from ..live.scored import has_sampled_answers
from ..methods.sample.repeats import RepeatSums
from ..ranker.rows import Estimate
from ..scores import ScoreTable
from ..scores.configuration import DifferingSetting, differing_configurations, named_apart
from ..scores.reading import Logged
from ..scores.table import read_beside
from ..shown import first_of, some
from .admission import Added, InLedger, leave_out_by_documents, notes_of, tables_of
from .folder import (
    CONFIDENCE,
    DRAFT,
    SCORES,
    Board,
    average,
    latest,
    metric_of,
    why_not_comparable,
)  # fmt: skip
from .ledger import FULL, BoardRow, TaskScore, sha256_of
from .scoring import keep_scoring, other_scoring

#: A model's configuration on each task; see `TaskScore.configuration`.
_Configurations = Mapping[str, Mapping[str, str]]


def add(board: Board | str | Path, source: str | Path) -> Added:
    """Add models with full results.

    The scores are kept in the board's folder, so that each row can be verified. A model whose
    documents or prompts are not the board's is left out; where no hashes tell, its scores must go
    with what the bank expects of its items (`lm_eval_ccat.ranker.join`). Results on another version
    of the task are added but shown apart. A model whose full results are in the ledger already is
    left out, whatever it scores now. Another configuration of a model that stands on the board is
    named by what differs (``m@step2000``).

    Parameters
    ----------
    board : Board or path
    source : path
        Logs, a score table, or a folder of tables (one per task).

    Returns
    -------
    Added

    Raises
    ------
    UsageError
        If the source holds no results on the board's tasks.
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
    return add_full(board if isinstance(board, Board) else Board(board), Path(source))


def add_full(board: Board, source: Path, calibrated: bool = False) -> Added:
    """Add models with full results; `calibrated` says that the board's banks are made of them.

    Each step takes the models that the steps before it left: by how they were asked and scored, by
    their documents and prompts, and by their earlier rows.
    """
    tables = tables_of(board, source)
    if not tables:
        raise UsageError(
            f"{source}: no results of the board's tasks ({', '.join(board.banks)}) by its metrics"
        )
    compared = other_scoring(board, source, tables)
    refused = compared.refused | _asked_otherwise(board, tables)
    added = Added(left_out=refused, notes=[*notes_of(tables), *compared.notes])
    tables = {task: table.without(refused) for task, table in tables.items()}
    with board.locked():
        rows = board.ledger.rows()
        full_rows = latest(rows, FULL)
        # First of all, as a model's earlier rows are looked up by its name on the board.
        tables = _named_as_on_board(tables, latest(rows), added)

        def is_verified(task: str, asked: ScoreTable, model: str) -> bool:
            """Say whether scores made the banks, or stand on the board and were verified then."""
            row = full_rows.get(model)
            task_score = row and row.tasks.get(task)
            return calibrated or bool(task_score and _proves(board, task_score, task, asked, model))

        leave_out_by_documents(board, source, tables, added, in_full=True, is_verified=is_verified)
        scores = _keep_scores(board, tables, added.left_out)
        for model, tasks in scores.items():
            row = _row_of_full_results(board, model, tasks)
            if reason := _why_no_second_row(board, row, full_rows.get(model)):
                added.left_out[model] = reason
            else:
                added.rows.append(row)
        _say_unconfigured(added)
        board.ledger.append(added.rows)
        _remove_unneeded(board, scores, [*rows, *added.rows])
        # Logs of which nothing was added say nothing of the board.
        if added.rows and compared.scorings:
            keep_scoring(board, compared.scorings)
    return added


def _row_of_full_results(board: Board, model: str, tasks: dict[str, TaskScore]) -> BoardRow:
    """Return the row of a model by its full results on each task."""
    return BoardRow(
        model,
        FULL,
        **average(board, tasks, board.shares)._asdict(),
        tasks=tasks,
        date=date.today().isoformat(),
        signature=f"full results|lm-eval-ccat:{__version__}",
        made_by=__version__,
        confidence=confidence_of_full_results(tasks),
        shares=board.shares,
    )


def confidence_of_full_results(tasks: Mapping[str, TaskScore]) -> float | None:
    """Return the confidence of the interval of full results; None if they have no interval."""
    # Only sampled answers have an interval, and with it a confidence.
    drawn = any(task_score.low < task_score.high for task_score in tasks.values())
    return CONFIDENCE if drawn else None


def _asked_otherwise(board: Board, tables: Mapping[str, ScoreTable]) -> dict[str, str]:
    """Return why models of logs were given more or fewer examples than those of the banks.

    Prompts tell more, but not every log states them.
    """
    refused: dict[str, str] = {}
    for task, table in tables.items():
        settings = {key: value for key, value in table.settings.items() if key == "num_fewshot"}
        if refusals := compare_settings(board.banks[task].settings, settings).refusals:
            refused |= dict.fromkeys(table.models, f"{task}: {refusals[0]}: run it alike")
    return refused


def _named_as_on_board(
    tables: Mapping[str, ScoreTable], rows: Mapping[str, BoardRow], added: Added
) -> dict[str, ScoreTable]:
    """Name models as the board does, and another configuration of a model by what differs.

    So no configuration of a model takes the place of another. Models are named in the order of the
    tables, and each counts as one of the board's when the next is named. `rows` has the latest row
    of each model on the board; `added` gets a note on the models that were renamed.
    """
    configurations_on_board: dict[str, _Configurations] = {
        name: {task: score.configuration for task, score in row.tasks.items()}
        for name, row in rows.items()
    }
    models_on_board = {
        configuration.get("model")
        for configurations in configurations_on_board.values()
        for configuration in configurations.values()
    }
    names: dict[str, str] = {}
    for model in dict.fromkeys(name for table in tables.values() for name in table.models):
        configurations: _Configurations = {
            task: table.configurations.get(model, {}) for task, table in tables.items()
        }
        # What the harness calls the model, whatever its configuration; the logs may not say it.
        stated = filter(None, configurations.values())
        base = next((configuration["model"] for configuration in stated), None)
        # A model that the board does not have keeps the name of its logs.
        if base is not None and base in models_on_board:
            names[model] = _name_among(configurations_on_board, base, configurations) or model
            configurations_on_board[names[model]] = configurations
    renamed = [f"{model} is named {name}" for model, name in names.items() if name != model]
    if renamed:
        added.notes.append(f"{first_of(renamed, 5)}, as the board has other configurations of them")
    return {task: table.renamed(names) for task, table in tables.items()}


def _name_among(
    configurations_on_board: Mapping[str, _Configurations],
    base: str,
    configurations: _Configurations,
) -> str:
    """Return the name of a configuration of a model among those that the board has.

    That is "" if the board has no other configuration of the model to tell it from.

    Parameters
    ----------
    configurations_on_board : mapping of str to (mapping of task to configuration)
        By the names on the board.
    base : str
        What the harness calls the model, whatever its configuration.
    configurations : mapping of task to configuration
        The model's.

    Examples
    --------
    >>> on_board = {"m": {"t": {"model": "m"}}}
    >>> _name_among(on_board, "m", {"t": {"model": "m", "revision": "step2000"}})
    'm@step2000'
    >>> _name_among(on_board, "m", {"t": {"model": "m"}})
    'm'
    """
    differences_from = {
        name: _differences(configurations, peer)
        for name, peer in configurations_on_board.items()
        if any(peer.get(task, {}).get("model") == base for task in configurations)
    }
    # Full results of one configuration have one name, whatever their logs call it.
    for name, differences in differences_from.items():
        if not differences:
            return name
    # Each setting that differs: the model's own value, then those of the others.
    values: dict[str, list[str]] = {}
    for differences in differences_from.values():
        for setting in differences:
            values.setdefault(setting.key, [setting.value]).append(setting.peer_value)
    return named_apart(base, values, configurations_on_board) if values else ""


def _differences(configurations: _Configurations, peer: _Configurations) -> list[DifferingSetting]:
    """Return what differs between two models' configurations, on tasks on which both are known."""
    return [
        setting
        for task, configuration in configurations.items()
        if configuration and (peer_configuration := peer.get(task))
        for setting in differing_configurations(configuration, peer_configuration)
    ]


def _say_unconfigured(added: Added) -> None:
    """Note whose configuration the source does not state."""
    silent = [
        row.model
        for row in added.rows
        if not all(score.configuration for score in row.tasks.values())
    ]
    if silent:
        added.notes.append(f"the source states no configuration of {some(silent, 3)}")


def _why_no_second_row(board: Board, row: BoardRow, earlier: BoardRow | None) -> str:
    """Return why full results get no row beside earlier ones of the model; "" if they do.

    Whoever runs a model again and again would keep the luckiest ones. So a second row is only
    for results of the same score that say something new (`_says_nothing_new`), as the model's
    configuration, or for any results where one of the two rows stands apart.

    Parameters
    ----------
    board : Board
    row : BoardRow
        The row that the full results would get.
    earlier : BoardRow or None
        The model's latest row of full results; None if it has none.
    """
    if earlier is None:
        return ""
    if _says_nothing_new(row, earlier):
        return InLedger("its full results stand")
    rows = row, earlier
    if _alike(row.score, earlier.score) or any(
        why_not_comparable(either, board.banks, board.shares) for either in rows
    ):
        return ""
    configured = all(score.configuration for either in rows for score in either.tasks.values())
    return (
        f"its full results of {earlier.date} ({earlier.score:.4g}) stand, and these "
        f"({row.score:.4g}) do not replace them: another configuration needs another name, and a "
        "correction another board"
        + ("" if configured else "; whether they are of one configuration is not known")
    )


def _says_nothing_new(row: BoardRow, earlier: BoardRow) -> bool:
    """Whether full results are those of an earlier row, and say no more of how they were made.

    They say more if they state a version of the task that the earlier row does not, or are the
    first to state the model's configuration.
    """
    # Weights that the operator changed make a new row of the same scores.
    if any(not _alike(share, earlier.shares.get(task, 1.0)) for task, share in row.shares.items()):
        return False
    return row.tasks.keys() == earlier.tasks.keys() and all(
        _alike(task_score.score, earlier.tasks[task].score)
        and task_score.documents == earlier.tasks[task].documents
        and task_score.metric == earlier.tasks[task].metric
        and task_score.version in (None, earlier.tasks[task].version)
        and (earlier.tasks[task].configuration or not task_score.configuration)
        for task, task_score in row.tasks.items()
    )


def _proves(
    board: Board, task_score: TaskScore, task: str, scores_of_model: ScoreTable, model: str
) -> bool:
    """Whether the evidence of a row's `task_score` holds the same score of each document.

    Parameters
    ----------
    board : Board
    task_score : TaskScore
        What the model's row says of the task.
    task : str
    scores_of_model : ScoreTable
        Scores of the model that are added, of the documents that have one.
    model : str
    """
    # The mean is at hand; the evidence has to be read.
    if not _alike(task_score.score, full_score(scores_of_model, model).score):
        return False
    bank, path = board.banks[task], board.path / task_score.evidence
    evidence = read_beside(path, Logged(task, bank.metric, bank.filter), "the bank", bank.scale)
    if model not in evidence.models:
        return False
    earlier, scores = (
        bank.in_order(table.doc_ids, table.select([model]).model_scores())
        for table in (evidence, scores_of_model)
    )
    return bool(np.allclose(earlier, scores, rtol=0.0, atol=1e-12, equal_nan=True))


def _alike(score: float, peer: float) -> bool:
    """Whether two means are equal, except for rounding by another order of the sum."""
    return math.isclose(score, peer, rel_tol=1e-12, abs_tol=1e-12)


def _keep_scores(
    board: Board, tables: Mapping[str, ScoreTable], left_out: Collection[str]
) -> dict[str, dict[str, TaskScore]]:
    """Write the full results of all models but some into the board's folder.

    Returns
    -------
    dict of model to (dict of task to TaskScore)
    """
    by_model: dict[str, dict[str, TaskScore]] = {}
    for task, table in tables.items():
        complete = [model for model in table.models if model not in left_out]
        if not complete:
            continue
        bank, version = board.banks[task], table.settings.get("task_version")
        # Marked as sampled, also for those who read the file again: `full_score` adds an interval.
        table = table.as_first_repeats(
            {model for model in complete if has_sampled_answers(table, model)}
        )
        file, sha256 = _keep_table(board, task, table.select(complete))
        for model in complete:
            full = full_score(table, model)
            by_model.setdefault(model, {})[task] = TaskScore(
                **full._asdict(),
                documents=full.items,
                metric=metric_of(bank),
                evidence=file,
                sha256=sha256,
                version=None if version is None else str(version),
                configuration=table.configurations.get(model, {}),
            )
    return by_model


class FullScore(NamedTuple):
    """What a model's full results on a task come to; the fields of these names of a `TaskScore`.

    Attributes
    ----------
    score, low, high : float
        The mean, on the metric's own scale, and the ends of its interval: the mean itself unless
        answers were sampled.
    items, repeats : int
        Items with an answer, and the most answers to one of them.
    """

    score: float
    low: float
    high: float
    items: int
    repeats: int


def full_score(table: ScoreTable, model: str) -> FullScore:
    """Return a model's score by its full results, with an interval where answers were sampled.

    The interval is as wide as the noise of answers to one item makes it; where every item has a
    single answer, all that items differ by may be that noise.

    Examples
    --------
    >>> labels = {"models": ["a", "a"], "configs": ["repeat 1", "repeat 2"]}
    >>> full_score(ScoreTable.from_arrays([[0.0, 1.0] * 20, [1.0, 1.0] * 20], **labels), "a")
    FullScore(score=0.75, low=0.62..., high=0.86..., items=40, repeats=2)
    """
    table = table.select([model])
    [scores] = table.model_scores()
    answered = np.isfinite(scores)
    mean = float(scores[answered].mean())
    low, high, repeats = mean, mean, 1
    if table.has_repeats:
        answers = table.scores[:, answered]
        repeats = int(np.isfinite(answers).sum(axis=0).max())
        # The spread of a mean is that of the difference from a model that scores 0 everywhere. The
        # items are all there are, so that only the noise within them is left.
        figures = RepeatSums.of_answers(answers, np.zeros(answers.shape)).figures()
        [error], [df], [n] = np.sqrt(figures.variance), figures.df, figures.answers
        low, high = Estimate(mean, float(error), float(df), float(n)).interval(CONFIDENCE)
    score, low, high = (float(end) for end in table.scale.restore(np.array([mean, low, high])))
    low, high = sorted((low, high))
    return FullScore(score, low, high, items=int(answered.sum()), repeats=repeats)


def _keep_table(board: Board, task: str, table: ScoreTable) -> tuple[str, str]:
    """Write scores into the board's folder under their hash; return the file and the hash."""
    folder = board.path / SCORES
    draft = folder / DRAFT
    with writing(draft):
        table.write(draft)
        sha256 = sha256_of(draft)
        # Named by its content, a file is never replaced, so that earlier rows keep their evidence.
        name = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', task)[:60]}.{sha256[:16]}.parquet"
        draft.replace(folder / name)
    return f"{SCORES}/{name}", sha256


def _remove_unneeded(
    board: Board, scores: Mapping[str, Mapping[str, TaskScore]], rows: Sequence[BoardRow]
) -> None:
    """Remove the files of scores that prove no row.

    They are written before it is known whether a row needs them.

    Parameters
    ----------
    board : Board
    scores : mapping of model to (mapping of task to TaskScore)
        The scores whose files were written.
    rows : sequence of BoardRow
        All rows of the ledger.
    """
    written = {score.evidence for tasks in scores.values() for score in tasks.values()}
    needed = {file for row in rows for file in row.evidence}
    for file in written - needed:
        (board.path / file).unlink()
