"""Create a board, and add models with full results."""

from __future__ import annotations

import fnmatch
import json
import math
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..bank import ItemBank, SuiteBank, is_suite
from ..bank.file import bank_files, located
from ..bank.settings import compare_settings
from ..errors import RunError, UsageError
from ..files import replace_text, writing
from ..grouping import grouped
from ..live.outcomes import tasks_of_bank
from ..live.scored import has_sampled_answers, runs_by_model
from ..methods.method import method_of
from ..methods.sample.repeats import RepeatSums
from ..metrics.scale import ITEM_SCALED, differing_scales
from ..ranker.join import VERIFIED, fault_of
from ..ranker.rows import Estimate
from ..scores import ScoreTable
from ..scores.configuration import DifferingSetting, differing_configurations, named_apart
from ..scores.prompts import compare_prompts
from ..scores.reading import Logged
from ..scores.table import read_beside, reader_of
from ..shown import first_of, one_line_per_kind, some
from ..upkeep.build import build
from ..upkeep.score_tables import scores_for
from .folder import (
    BANKS,
    CONFIDENCE,
    DRAFT,
    EXPOSURE,
    FORMAT,
    LOCK,
    RULES,
    RUNS,
    SCORES,
    SUITE_FOLDER,
    VERSION,
    Board,
    Rules,
    average,
    changed_rules,
    keep_hashes,
    latest,
    metric_of,
    one_bank_each,
    read_rules,
    why_not_comparable,
)  # fmt: skip
from .ledger import FULL, BoardRow, TaskScore, sha256_of
from .scoring import forget_scoring, keep_scoring, other_scoring

#: What to do with models that were asked in other ways than the board's.
OTHER_PROMPTS = (
    "ask as the board's models were asked, or begin a board of these prompts: "
    "`lm-eval-ccat board init NEW_DIR --from LOGS`"
)
#: End of the reason for leaving out a model that was added before; `Added.partial` goes by it.
IN_LEDGER = "in the ledger already"
#: A model's configuration on each task; see `TaskScore.configuration`.
_Configurations = Mapping[str, Mapping[str, str]]


@dataclass
class Added:
    """The rows added to a board, and the models left out.

    Attributes
    ----------
    rows : list of BoardRow
    left_out : dict of str to str
        The reason for each model.
    notes : list of str
        What is not known of the results, or was passed over in them.
    """

    rows: list[BoardRow] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """A line on the models that were left out for each reason."""
        models = grouped((reason, model) for model, reason in self.left_out.items())
        return [f"{first_of(names, 10)}: left out: {reason}" for reason, names in models.items()]

    @property
    def partial(self) -> bool:
        """Whether a model was left out that is not in the ledger; the exit code tells it."""
        return any(not reason.endswith(IN_LEDGER) for reason in self.left_out.values())


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
    return _add_full(board if isinstance(board, Board) else Board(board), Path(source))


def _add_full(board: Board, source: Path, calibrated: bool = False) -> Added:
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

        _leave_out_by_documents(board, source, tables, added, is_verified)
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
        if name.startswith(base)
        and any(peer.get(task, {}).get("model") == base for task in configurations)
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
        return f"its full results stand {IN_LEDGER}"
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


def tables_of(board: Board, source: Path, partial: bool = False) -> dict[str, ScoreTable]:
    """Read the scores of those tasks of the board that the source holds.

    With `partial`, models may lack documents; else only models with full results are read.

    Raises
    ------
    CcatError
        If the source cannot be read, or is on another scale.
    """
    outcomes = reader_of(source).outcomes(source)
    # A bank or a table that names no task is of the board's task. Of scores that a bank scales item
    # by item, logs have the metric itself.
    return {
        task: replace(scores_for(replace(bank, task=task), source, partial=partial), task=task)
        for task, bank in board.banks.items()
        if any(
            outcome.task in (task, None) and outcome.metric == bank.metric.removesuffix(ITEM_SCALED)
            for outcome in outcomes
        )
    }


def notes_of(tables: Mapping[str, ScoreTable]) -> list[str]:
    """Return what readers say of the scores of several tasks, a line for each kind of warning."""
    return one_line_per_kind({task: table.warnings for task, table in tables.items()})


def why_limited(source: Path, task: str, table: ScoreTable) -> dict[str, str]:
    """Return why no row is made of models that were run with ``--limit`` alone, by model.

    The first documents are often unlike the others, and no interval shows it.
    """
    reasons: dict[str, str] = {}
    # A model that was run in full, too, is taken by that run.
    for model, runs in runs_by_model(source, table.task).items():
        shortfalls = [run.why_not_full() for run in runs]
        # Usable rows of a run that is not full are those of its first documents.
        if shortfalls and all(reason and usable for reason, usable in shortfalls):
            reasons[model] = (
                f"{task}: {shortfalls[-1].reason}, and the first documents do not stand for the "
                "others: run all of them and `board add` it, or let `board place DIR MODELS.yaml` "
                "ask it, where `prior: LOGS` takes over the answers that there are"
            )
    return reasons


class Judgement(NamedTuple):
    """What `judge_documents` finds of a model's documents and prompts.

    Attributes
    ----------
    reason : str
        Why they are not the board's, so that the model gets no row; "" if they may be.
    doubt : str
        What is not known of them, which is told; "" if nothing.
    """

    reason: str = ""
    doubt: str = ""


def judge_documents(
    bank: ItemBank, task: str, asked: ScoreTable, model: str, *, verified: bool = False
) -> Judgement:
    """Compare the documents and prompts of a model's scores with the board's.

    Parameters
    ----------
    bank : ItemBank
    task : str
    asked : ScoreTable
        The items that the model has scores on.
    model : str
    verified : bool, optional
        Whether the scores are known to be of the board's documents, as its bank was calibrated on
        them or a row has them already.

    Examples
    --------
    >>> bank = ItemBank.blank([0, 1], task="t", doc_hashes=["a", "b"])
    >>> other = ScoreTable.from_arrays([[1.0, 0.0]], ["m"], [1, 2], doc_hashes=["b", "c"])
    >>> judge_documents(bank, "t", other, "m")
    Judgement(reason="1 of its 2 documents of t are not the board's (doc_id 2): run the board's
        documents", doubt='')
    """
    compared = bank.compare(asked.doc_ids, asked.doc_hashes)
    foreign = sorted([*compared.new, *compared.changed], key=asked.doc_ids.index)
    # Its mean is that of other documents, whatever their number.
    if foreign:
        return Judgement(
            f"{len(foreign)} of its {asked.n_items} documents of {task} are not the board's "
            f"(doc_id {some(foreign, 3)}): run the board's documents"
        )
    prompts = compare_prompts(bank.marks, asked.prompt_marks(model), ("the bank", "the source"))
    if prompts.difference:
        return Judgement(f"{task}: {prompts.difference}; {OTHER_PROMPTS}")
    doubts = [prompts.doubt] if prompts.doubt else []
    # Where hashes do not tell, the scores do: they must go with what the bank expects of its items.
    if len(compared.same) < asked.n_items and not verified:
        scores = bank.in_order(asked.doc_ids, asked.select([model]).model_scores())
        if fault := fault_of(bank, scores).words:
            return Judgement(f"{task}: {fault}; {VERIFIED}")
    # Documents are the same for certain only where the bank and the source have equal hashes.
    if bank.doc_hashes is not None and not compared.same:
        doubts.insert(0, "the source states no hashes of documents, so ids alone name them")
    # Item curves say which scores to expect, so that a bank with them has judged the scores above.
    # One without them, as `ItemBank.blank` makes it, knows no more than ids.
    elif not (compared.same or verified or method_of(bank).has_curves):
        doubts.insert(0, "the board has no hashes of documents and no bank, so ids alone name them")
    return Judgement(doubt="; ".join(doubts))


class ScoresToAdd(NamedTuple):
    """A model's scores on a task, and what speaks against a row of them.

    Attributes
    ----------
    model : str
    asked : ScoreTable
        The items that the model has scores on.
    judgement : Judgement
        Of their documents and prompts.
    limited : str
        Why no row is made of the first documents alone; "" if the model was asked others, too.
    """

    model: str
    asked: ScoreTable
    judgement: Judgement
    limited: str


def scores_to_add(
    board: Board,
    source: Path,
    task: str,
    table: ScoreTable,
    is_verified: Callable[[str, ScoreTable, str], bool] = lambda task, asked, model: False,
) -> Iterator[ScoresToAdd]:
    """Yield the scores of each model in a table of a task, as far as the model has them.

    Parameters
    ----------
    board : Board
    source : Path
        What the table was read from.
    task : str
    table : ScoreTable
    is_verified : callable, optional
        ``(task, asked, model) -> bool``: whether scores are known to be of the board's documents.
    """
    limited = why_limited(source, task, table)
    for model, scores in zip(table.models, table.model_scores()):
        asked = table.take(np.flatnonzero(np.isfinite(scores)))
        verified = is_verified(task, asked, model)
        judgement = judge_documents(board.banks[task], task, asked, model, verified=verified)
        yield ScoresToAdd(model, asked, judgement, limited.get(model, ""))


def _leave_out_by_documents(
    board: Board,
    source: Path,
    tables: Mapping[str, ScoreTable],
    added: Added,
    is_verified: Callable[[str, ScoreTable, str], bool],
) -> None:
    """Leave out models that lack documents of the board or have others, as `added` then says."""
    doubts: dict[str, list[str]] = {}
    for task, table in tables.items():
        bank, doubts[task] = board.banks[task], []
        for model, asked, judgement, limited in scores_to_add(
            board, source, task, table, is_verified
        ):
            doubts[task] += filter(None, [judgement.doubt])
            lacking = bank.compare(asked.doc_ids, asked.doc_hashes).missing
            if judgement.reason or lacking:
                added.left_out[model] = (
                    judgement.reason
                    or limited
                    or (
                        f"it has {asked.n_items} of {bank.n_items} documents of {task}; "
                        "`board place` estimates the rest"
                    )
                )
    added.notes += one_line_per_kind(doubts)


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


# -- creating a board, or giving it new banks -----------------------------------------------------


def _holds_banks(source: Path) -> bool:
    """Whether a file or folder holds banks rather than results; both may be a folder."""
    is_json = source.name.removesuffix(".gz").endswith(".json")
    return is_suite(source) or is_json or bool(bank_files(source))


def init(
    folder: str | Path,
    source: str | Path,
    *,
    task: str | None = None,
    metric: str | None = None,
    say: Callable[[str], object] = lambda line: None,
    **rules: Any,
) -> Board:
    """Create a board, or give an existing one new banks.

    Parameters
    ----------
    folder : path
        The board's folder, created if necessary. If it is a board already, `source` must be banks.
        Estimates that were made with banks of which the new ones are no updates are then shown
        apart.
    source : path
        Full results: logs, a score table, or a folder of such tables (one per task). The banks are
        calibrated on them, and their models are the first rows. Or banks: the folder of a suite or
        a single bank, as a path, the name of a public one, or on the hub (``hub:owner/name``). The
        board then starts without rows.
    task : str, optional
        Tasks of the logs or of the suite, comma-separated: names, patterns or groups; all by
        default. For a table that names no task, the name of its task.
    metric : str, optional
        Metric; needed if the results hold several. Of several, comma-separated, each task takes the
        first that it reports; a filter follows its metric in the same way.
    say : callable, optional
        Called with a line on each task without a bank, on each model whose results are left out,
        and on what is not known.
    **rules
        Fields of `Rules`: ``name``, ``weights``, ``max_items``, ``exposure``, ``reserve``,
        ``rotate_after``.

    Returns
    -------
    Board

    Raises
    ------
    UsageError
        If a rule is unknown or out of range, or full results are given for an existing board.
    CcatError
        If the source cannot be read, no bank can be calibrated on it, or another process is writing
        to the board.

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
    path, source_path = Path(folder), Path(source)
    # A file or folder of that name comes before a public bank of that name.
    source = source_path if source_path.exists() else located(source)
    exists = (path / RULES).is_file()
    # An existing board keeps the rules that are not stated anew.
    new_rules = changed_rules(read_rules(path / RULES) if exists else Rules(), rules)
    has_banks = source != source_path or _holds_banks(source)
    if exists and not has_banks:
        raise UsageError(
            f"{path} is a board already: add models with `lm-eval-ccat board add "
            f"{shlex.quote(str(path))} {shlex.quote(str(source))}`, "
            "or give it new banks: --from BANKS"
        )
    if has_banks:
        suite = SuiteBank.load(source, _tasks_named(source, task))
    else:
        suite = _calibrated_suite(source, task, metric, say)
    bank_of = one_bank_each(suite, source)
    try:
        if exists:
            with Board(path).locked():
                _retire_banks(Board(path), bank_of)
                _write(path, suite, new_rules)
        else:
            _create(path, suite, new_rules, None if has_banks else source, say)
    except OSError as error:
        raise RunError(f"{path}: cannot write the board ({error.strerror or error})") from error
    return Board(path)


def _create(
    path: Path,
    suite: SuiteBank,
    rules: Rules,
    full_results: Path | None,
    say: Callable[[str], object],
) -> None:
    """Create a board with rows of the full results that its banks are calibrated on, if any."""
    # It is made elsewhere and copied once it is whole, so that a failure leaves no half of a board.
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "board")
        _write(draft, suite, rules)
        if full_results is not None:
            added = _add_full(Board(draft), full_results, calibrated=True)
            for line in (*added.notes, *added.reasons):
                say(line)
        # The draft's lock file is of a lock on the draft, and would lock no board.
        without_lock = shutil.ignore_patterns(LOCK)
        shutil.copytree(draft, path, dirs_exist_ok=True, ignore=without_lock)


def _write(folder: Path, suite: SuiteBank, rules: Rules) -> None:
    """Write the banks and the rules of a board."""
    folder.mkdir(exist_ok=True)
    suite.save(folder / SUITE_FOLDER)
    content = {"format": FORMAT, "version": VERSION, **asdict(rules)}
    replace_text(folder / RULES, json.dumps(content, indent=1) + "\n")
    replace_text(folder / ".gitignore", f"{RUNS}/\n{LOCK}\n{EXPOSURE}\n")
    keep_hashes(folder, [*folder.glob(f"{SUITE_FOLDER}/*"), *folder.glob(f"{BANKS}/*")])


def _retire_banks(board: Board, new_banks: Mapping[str, ItemBank]) -> None:
    """Move a board's banks to its earlier ones, unless the new ones are on another scale."""
    for task, new in new_banks.items():
        old = board.banks.get(task)
        # Rows stay, and are of the old scale; rows of another metric stand apart anyway.
        if old is None or old.metric != new.metric:
            continue
        if words := differing_scales(new.metric, ("the board", old.scale), ("the bank", new.scale)):
            raise UsageError(f"{words}; calibrate with the board's scale, or begin another board")
    for bank in board.banks.values():
        bank.save(board.old_bank(bank.sha256))
    # New banks may be of another version of a task, which is scored in its own way.
    forget_scoring(board)


def _tasks_named(source: Path, task: str | None) -> list[str] | None:
    """Return those tasks of a folder of banks that the option `task` names; None for all."""
    if not task or not source.is_dir():
        return None
    names: list[str] = []
    tasks_of_source = SuiteBank.tasks(source)
    for pattern in tasks_of_bank(source, [name.strip() for name in task.split(",")]):
        if not (tasks := fnmatch.filter(tasks_of_source, pattern)):
            raise UsageError(
                f"{source} has no bank of task {pattern}; it has: {first_of(tasks_of_source, 20)}"
            )
        names += tasks
    return names


def _calibrated_suite(
    source: Path, task: str | None, metric: str | None, say: Callable[[str], object]
) -> SuiteBank:
    """Calibrate the banks of every task of some full results, and tell of tasks without one."""

    def on_bank(task: str, name: str, bank: ItemBank | str, facts: Mapping[str, Any]) -> None:
        """Say why a task has no bank; see `build` for the arguments."""
        # A board may stand without one of its tasks, but not without saying so.
        if isinstance(bank, str):
            say(f"{task} {name}: not on the board, as there is no bank: {bank}")

    names = [name.strip() for name in (task or "*").split(",") if name.strip()]
    metrics = [metric.strip() for metric in metric.split(",")] if metric else None
    unnamed = {outcome.task for outcome in reader_of(source).outcomes(source)} == {None}
    suite = build(source, ["*"] if unnamed else names, metrics, on_bank=on_bank, single=True)
    banks: dict[str, dict[str, ItemBank]] = {}
    for recorded, outcomes in suite.items():
        # `task` names the task of a table that names none; elsewhere it chooses among tasks.
        name = task if unnamed and task else recorded
        banks[name] = {key: replace(bank, task=name) for key, bank in outcomes.items()}
    return SuiteBank(banks)
