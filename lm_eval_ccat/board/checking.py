"""Verify every row of a board from its evidence: journals, scores, banks and the chain."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..bank import ItemBank
from ..cluster import in_processes
from ..content import document_of
from ..errors import CcatError, RunError, UnknownScoresError, UsageError
from ..grouping import grouped
from ..journal import JournalFile, read_journal
from ..live.result import CLOSE
from ..methods.belief import BENCHMARK
from ..metrics.scale import Scale
from ..ranker import Ranking
from ..records import Header, Record
from ..runs.directory import book_of
from ..scores import ScoreTable
from ..scores.configuration import configurations_in
from ..scores.reading import Logged
from ..scores.table import read_beside
from ..shown import first_of, plural, some, visible_line
from .adding import confidence_of_full_results, full_score
from .folder import (
    CONFIDENCE,
    FACTS,
    LEDGER,
    RESTORE,
    Board,
    Reserve,
    average,
    metric_of,
    without_reserve,
)
from .ledger import ESTIMATE, FROM_A_COPY, BoardRow, ScoreInterval, TaskScore, sha256_of

SOUND, OLDER, REFUSED = "sound", "older", "refused"
#: What a row needs that cannot be rebuilt from its evidence.
_BANKS = "suite/ and banks/"
#: How many rows with one reason, or damaged files, are named.
_NAMED = 20
#: Exceptions that invalid content of a row may raise.
_NONSENSE = (CcatError, ArithmeticError, LookupError, TypeError, ValueError)
#: Scores by their task and their file in the board's folder.
_Tables = dict[tuple[str, str], ScoreTable]
#: Stands for a figure that only one of two rows has.
_NO_FIGURE = ("random items", math.nan)


class JournalledRun(NamedTuple):
    """What the estimates of a run are rebuilt from, the same for all its models.

    Attributes
    ----------
    files : tuple of str
        Its journal; more than one is damage.
    bank_hashes : tuple of (str, str)
        Each task and the hash of its bank.
    reserve : Reserve or None
        The part of the items that was held back.
    """

    files: tuple[str, ...]
    bank_hashes: tuple[tuple[str, str], ...]
    reserve: Reserve | None


class RowVerdict(NamedTuple):
    """Whether a row is sound, older or refused; why it is not sound; which file to restore."""

    verdict: str
    reason: str = ""
    restore: str = ""


@dataclass(frozen=True)
class Checked:
    """The verdict of `check` on one row.

    Attributes
    ----------
    number : int
        Line of the ledger, from 1.
    model : str
    verdict : {"sound", "older", "refused"}
        "older" if another version of this package made the row and this one computes other figures.
    reason : str
        Why the row is not sound; "" if it is.
    restore : str
        What of the board's folder is damaged, if the row is refused.
    """

    number: int
    model: str
    verdict: str
    reason: str = ""
    restore: str = ""

    def __str__(self) -> str:
        what = "REFUSED" if self.verdict == REFUSED else self.verdict
        model = f", {visible_line(self.model)}" if self.model else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"row {self.number}{model}: {what}{reason}"


def check(board: Board | str | Path, head: str | None = None) -> list[Checked]:
    """Verify every row of a board.

    Checks the chain of the ledger, the hashes of journals and scores, and the figures: estimates
    are rebuilt from their journals with the board's banks, full results from their scores.

    Parameters
    ----------
    board : Board or path
    head : str, optional
        The hash that the ledger ended with when it was published (or at least its first 12
        characters). It reveals a ledger that was rewritten, or that lost its last rows.

    Returns
    -------
    list of Checked
        One for each line of the ledger, in order.

    Raises
    ------
    UsageError
        If there is no board, or `head` is not a hash or has fewer than 12 characters.
    RunError
        If the ledger cannot be read at all, or no row of it ends with `head`.

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
    # Rows may have been added since; those before must still lead to the published hash.
    if head is not None and not any(line.link.startswith(head) for line in lines):
        raise RunError(
            f"{board.ledger.path}: no row ends with {head[:12]}: rows that were published were "
            "changed or taken out since; restore the file from git"
        )
    # A board without rows has nothing but its banks, which are verified as they are read.
    if not lines:
        _ = board.banks
    # The hashes of a row that was changed prove nothing about its files.
    broken = broken_evidence(board, [None if line.damage else line.row for line in lines])
    usable = [line.row for line, bad in zip(lines, broken) if line.row and not (line.damage or bad)]
    # Rebuilding takes seconds, and the models of one run share it.
    runs = list(dict.fromkeys(_run_of(row) for row in usable if row.estimated))
    rebuilt = dict(zip(runs, in_processes(_rebuilt, runs, board)))
    tables: _Tables = {}
    checked = []
    for line, bad in zip(lines, broken):
        verdict = RowVerdict(SOUND)
        if bad is not None:
            verdict = RowVerdict(REFUSED, bad.reason, restore=bad.file)
        elif line.damage:
            verdict = RowVerdict(REFUSED, line.damage, restore=LEDGER)
        elif line.row is not None:
            verdict = _verdict_on(board, line.row, rebuilt, tables)
        checked.append(Checked(line.number, line.model, *verdict))
    return checked


def _verdict_on(
    board: Board,
    row: BoardRow,
    rebuilt: Mapping[JournalledRun, dict[str, BoardRow] | str],
    tables: _Tables,
) -> RowVerdict:
    """Return the verdict on a row whose evidence is unchanged: its figures, and those computed now.

    Parameters
    ----------
    board : Board
    row : BoardRow
    rebuilt : mapping of JournalledRun to (mapping of str to BoardRow) or str
        The rows of each run that estimates are of, by names in the journal, or why there are none.
    tables : dict of (str, str) to ScoreTable
        The scores that were read before, by task and file; what is read here is added.
    """
    try:
        recomputed = (
            _row_by_journal(row, rebuilt) if row.estimated else _row_by_scores(board, row, tables)
        )
        reason = recomputed if isinstance(recomputed, str) else _difference(row, recomputed)
    except _NONSENSE as error:
        return RowVerdict(REFUSED, " ".join(str(error).split()), restore=_BANKS)
    if not reason:
        return RowVerdict(SOUND)
    # Another version may compute another figure from the same answers; that is no fraud.
    if row.made_by != __version__:
        return RowVerdict(OLDER, f"made by {row.made_by or 'an unknown version'}: {reason}")
    return RowVerdict(REFUSED, reason, restore=LEDGER)


def in_words(checked: Sequence[Checked]) -> list[str]:
    """Say of each row why it is not sound; of many rows with one reason, name the first.

    Examples
    --------
    >>> rows = [Checked(n, "ab"[n], REFUSED, "s.csv is missing", "s.csv") for n in (0, 1)]
    >>> print(*in_words(rows), sep=chr(10))
    row 0, a: REFUSED: s.csv is missing
    row 1, b: REFUSED: s.csv is missing
    """
    alike = grouped((finding.reason, finding) for finding in checked if finding.reason)
    lines: list[str] = []
    for reason, findings in alike.items():
        lines += map(str, findings[:_NAMED])
        if (n_hidden := len(findings) - _NAMED) > 0:
            lines.append(f"{plural(n_hidden, 'more row')} for the same reason: {reason}")
    return lines


def to_restore(checked: Sequence[Checked]) -> str:
    """Say which damaged files of a board to restore; "" if none is damaged.

    Examples
    --------
    >>> to_restore([Checked(1, "a", REFUSED, "scores/t.parquet is missing", "scores/t.parquet")])
    'Restore scores/t.parquet from git or another copy of the board, and check again.'
    """
    files = list(dict.fromkeys(finding.restore for finding in checked if finding.restore))
    named = first_of(files, _NAMED)
    return f"Restore {named} {FROM_A_COPY}, and check again." if files else ""


def unnamed_evidence(board: Board) -> str:
    """Say which scores and journals prove no row of the ledger; "" if each proves one."""
    named = {file for row in board.ledger.rows() for file in row.evidence}
    if not (files := [file for file in board.evidence_files if file not in named]):
        return ""
    return (
        f"{first_of(files, 3)}: no row names them, so rows may have been taken out: check with "
        f"--head, restore {LEDGER} {FROM_A_COPY}, or delete them"
    )


def unpublished_facts(board: Board) -> str:
    """Say that the operator's file is another than was published last; "" if it is not."""
    published, sha256 = board.hashes.get(FACTS), sha256_of(board.path / FACTS)
    # Without a hash it was never published.
    if published in (None, sha256):
        return ""
    what = "is another than was published last" if sha256 else "is missing since it was published"
    return f"{FACTS} {what}: `board publish` shows what is meant; else {RESTORE}"


class BrokenEvidence(NamedTuple):
    """Why a row's evidence proves nothing, and the file of the board to restore."""

    file: str
    reason: str


def broken_evidence(board: Board, rows: Sequence[BoardRow | None]) -> list[BrokenEvidence | None]:
    """Return what is wrong with the evidence of each row; None if nothing is."""
    root, digests = board.path.resolve(), dict[str, str]()

    def broken(file: str, sha256: str) -> BrokenEvidence | None:
        """Return why a file that a row names as evidence proves nothing; None if it proves it."""
        # A stranger's ledger may name any file of this machine.
        if not (board.path / file).resolve().is_relative_to(root):
            return BrokenEvidence(LEDGER, f"{file} lies outside the board")
        if file not in digests:
            digests[file] = sha256_of(board.path / file)
        # The hash of a file that cannot be read is "", which a row may state as well.
        if digests[file] and digests[file] == sha256:
            return None
        what = "was changed (its hash differs)" if digests[file] else "is missing or unreadable"
        return BrokenEvidence(file, f"{file} {what}")

    evidence = [row.evidence.items() if row is not None else () for row in rows]
    return [next((bad for pair in pairs if (bad := broken(*pair))), None) for pairs in evidence]


def _run_of(row: BoardRow) -> JournalledRun:
    """Return the run that an estimate is rebuilt from."""
    hashes = tuple((task, task_score.bank or "") for task, task_score in row.tasks.items())
    reserve = None if row.reserve is None else Reserve(*row.reserve)
    return JournalledRun(tuple(row.evidence), hashes, reserve)


def _rebuilt(run: JournalledRun, board: Board) -> dict[str, BoardRow] | str:
    """Return the rows of a journal, or why there are none."""
    try:
        [file] = run.files
        rows, _ = rows_of_journal(board, board.path / file, dict(run.bank_hashes), run.reserve)
        return rows
    except _NONSENSE as error:
        return " ".join(str(error).split())


def _row_by_journal(
    row: BoardRow, rebuilt: Mapping[JournalledRun, dict[str, BoardRow] | str]
) -> BoardRow | str:
    """Return the estimate that its journal gives now, or why there is none.

    Raises
    ------
    RunError
        The journal could not be rebuilt, so that nothing is known of the figures.
    """
    rebuilt_rows, name = rebuilt[_run_of(row)], row.in_journal or row.model
    if isinstance(rebuilt_rows, str):
        raise RunError(rebuilt_rows)
    return rebuilt_rows.get(name, f"its journal holds no answers of {name}")


def _row_by_scores(board: Board, row: BoardRow, tables: _Tables) -> BoardRow | str:
    """Return the row of full results that its scores give now, or why there is none.

    Parameters
    ----------
    board : Board
    row : BoardRow
    tables : dict of (str, str) to ScoreTable
        The scores that were read before, by task and file; what is read here is added.
    """
    tasks: dict[str, TaskScore] = {}
    for task, task_score in row.tasks.items():
        # By the task, too: a row may name one file as evidence of two tasks.
        key = task, task_score.evidence
        if key not in tables:
            try:
                tables[key] = _scores_of_task(board, task, task_score)
            except UnknownScoresError as error:
                return " ".join(str(error).split())
        table = tables[key]
        if row.model not in table.models:
            return f"{task_score.evidence} holds no scores of it"
        if foreign := _foreign_documents(board, task, task_score, table.select([row.model])):
            return f"{task_score.evidence} holds scores on {foreign}"
        full = full_score(table, row.model)
        # Results are full if there are no documents but those that were run.
        tasks[task] = replace(task_score, **full._asdict(), documents=full.items, sample=None)
    recomputed = replace(row, tasks=tasks, confidence=confidence_of_full_results(tasks))
    # Without the bank of a task its scale, and so the average, is not known.
    if not set(tasks) <= set(board.banks):
        return recomputed
    return replace(recomputed, **average(board, tasks, row.shares)._asdict())


def _scores_of_task(board: Board, task: str, task_score: TaskScore) -> ScoreTable:
    """Return the scores in the file that proves full results on a task.

    They are on the bank's scale; if the board has no bank of the task any more, on the metric's.

    Raises
    ------
    UnknownScoresError
        The file holds no scores of the task, or none of the metric.
    """
    metric, _, filter = task_score.metric.partition(",")
    outcome = Logged(task, metric, None if filter == "none" else filter)
    path = board.path / task_score.evidence
    if task in board.banks:
        return read_beside(path, outcome, "the bank", board.banks[task].scale)
    return ScoreTable.read(path, metric, task, outcome.filter)


def _foreign_documents(board: Board, task: str, task_score: TaskScore, scores: ScoreTable) -> str:
    """Say which documents that a model has scores on are not the board's; "" if all are.

    Nothing is said of a row that stands apart because its benchmark has another number of
    documents or another metric: these documents are no longer the board's.
    """
    bank = board.banks.get(task)
    if bank is None or (task_score.documents, task_score.metric) != (bank.n_items, metric_of(bank)):
        return ""
    scored = scores.take(np.flatnonzero(np.isfinite(scores.raw).any(axis=0)))
    compared = bank.compare(scored.doc_ids, scored.doc_hashes)
    foreign = [*compared.new, *compared.changed]
    if not foreign:
        return ""
    return f"documents of {task} that are not the board's (doc_id {some(foreign, 3)})"


def _difference(row: BoardRow, recomputed: BoardRow) -> str:
    """Return the first figure that differs, as ``recorded X, now Y``; "" if all agree."""
    # Named by itself, as no figure of it can be compared.
    if lacking := [task for task in row.tasks if task not in recomputed.tasks]:
        return f"recorded results on {lacking[0]}, now none"
    if len(row.tasks) != len(recomputed.tasks):
        return f"number of tasks: recorded {len(row.tasks)}, now {len(recomputed.tasks)}"
    parts = [
        ("", _figures(row), _figures(recomputed)),
        *(
            (f" of {task}", _figures(task_score), _figures(recomputed.tasks[task]))
            for task, task_score in row.tasks.items()
        ),
    ]
    for of_task, recorded, rebuilt in parts:
        for (name, before), (_, after) in zip_longest(recorded, rebuilt, fillvalue=_NO_FIGURE):
            # Machines round sums differently. A NaN, of a figure that only one of the two has, is
            # close to none.
            if not abs(before - after) <= CLOSE * max(1.0, abs(before)):
                return f"{name}{of_task}: recorded {before:.6g}, now {after:.6g}"
    return "" if row.asked == recomputed.asked else "recorded other items than the journal"


def _figures(scored: BoardRow | TaskScore) -> list[tuple[str, float]]:
    """Return all that can be recomputed of a row or of its score on one task, with its name.

    What the items drawn at random say stands last, as not every score has it.
    """
    figures: list[tuple[str, float]] = [
        ("score", scored.score),
        ("interval", scored.low),
        ("interval", scored.high),
        ("items", scored.items),
        ("documents", scored.documents),
    ]
    if isinstance(scored, BoardRow):
        return [*figures, ("confidence", scored.confidence or 0.0)]
    sample = [("random items", figure) for figure in scored.sample or ()]
    return [*figures, ("repeats", scored.repeats), *sample]


# -- from a journal -------------------------------------------------------------------------------


def bank_hashes_of(header: Header) -> dict[str, str]:
    """Return the hash of the bank of each task of a run.

    Parameters
    ----------
    header : Header

    Raises
    ------
    RunError
        If the run ranks a task by several metrics.
    """
    # Runs of one task and metric state no outcomes. The hashes stand in the order of the tasks.
    outcomes = header.report.get("outcomes") or {header.task["name"]: ["the only metric"]}
    if any(len(metrics) > 1 for metrics in outcomes.values()):
        raise RunError("the run scores several metrics of one task; a board scores one")
    return dict(zip(outcomes, header.bank_sha256.split("+")))


def rows_of_journal(
    board: Board, journal: Path, bank_hashes: Mapping[str, str], reserve: Reserve | None
) -> tuple[dict[str, BoardRow], dict[str, str]]:
    """Rebuild a ranking from its journal and the board's banks; return its models' rows.

    The answers and how their items were chosen are the run's; confidence, question and looks are
    the board's, as a run at 51% would get narrower intervals than the rows beside it.

    Parameters
    ----------
    board : Board
    journal : path
    bank_hashes : mapping of task to str
        SHA-256 of the board's bank of each task, before any items are held back.
    reserve : Reserve or None
        The part of the banks' items that was held back.

    Returns
    -------
    rows : dict of str to BoardRow
        By the names in the journal; without date and evidence.
    left_out : dict of str to str
        Why models have no row: they were set aside, or not asked.

    Raises
    ------
    RunError
        If the journal is damaged or was made with other banks, or a bank is missing.
    """
    file, records = read_journal(journal)
    header = file.header
    banks = {
        task: without_reserve(board.bank_of(task, sha256), task, reserve)
        for task, sha256 in bank_hashes.items()
    }
    for task, sha256 in bank_hashes_of(header).items():
        if task not in banks or banks[task].sha256 != sha256:
            raise RunError(f"it was made with another bank of {task} ({sha256[:12]})")
    ranking = _ranked_by_board(file, records, banks)
    run = _RankedRun(board, ranking, header, banks, bank_hashes, reserve)
    rows: dict[str, BoardRow] = {}
    left_out: dict[str, str] = {}
    for model in ranking.estimates:
        # Models with full results were there to be placed among, and have rows of their own.
        if model in ranking.known:
            continue
        if model in ranking.set_aside or not ranking.items[model]:
            left_out[model] = ranking.set_aside.get(model, "it was not asked anything")
        else:
            rows[model] = run.row_of(model)
    return rows, left_out


def _ranked_by_board(
    file: JournalFile, records: Iterable[Record], banks: Mapping[str, ItemBank]
) -> Ranking:
    """Return the ranking that a run's answers give with the settings of a board."""
    # Runs of one task and metric state no outcomes.
    outcomes = file.header.report.get("outcomes")
    banks_of_run: ItemBank | dict[str, dict[str, ItemBank]]
    if outcomes is None:
        [banks_of_run] = banks.values()
    else:
        banks_of_run = {
            task: dict.fromkeys(metrics, banks[task]) for task, metrics in outcomes.items()
        }
    settings_of_board = {
        "confidence": CONFIDENCE,
        "familywise": False,
        "question": BENCHMARK,
        "looks": "every",
    }
    file.header = replace(file.header, ranker={**file.header.ranker, **settings_of_board})
    return book_of(banks_of_run, file, records).ranker.result()


@dataclass(frozen=True)
class _RankedRun:
    """A run whose models get rows of a board.

    Attributes
    ----------
    board : Board
    ranking : Ranking
        By the board's settings.
    header : Header
        As the run wrote it.
    banks : mapping of task to ItemBank
        Without the items that were held back.
    bank_hashes : mapping of task to str
        SHA-256 of the board's banks, before any items are held back.
    reserve : Reserve or None
        The part of the banks' items that was held back.
    """

    board: Board
    ranking: Ranking
    header: Header
    banks: Mapping[str, ItemBank]
    bank_hashes: Mapping[str, str]
    reserve: Reserve | None

    def row_of(self, model: str) -> BoardRow:
        """Return a model's row: on each task, on the task's own scale, and over all tasks."""
        # A run of some of the board's tasks may have a scale of its own, if these share one.
        scales = {bank.scale for bank in self.banks.values()}
        scale = self.board.scale if len(scales) > 1 else scales.pop()
        asked = {task: self._documents(model, task) for task in self.banks}
        return BoardRow(
            model,
            ESTIMATE,
            **_score_by(self.ranking, model, scale)._asdict(),
            tasks={
                task: self._task_score(model, task, len(documents))
                for task, documents in asked.items()
            },
            date="",
            signature=self.ranking.signature,
            made_by=__version__,
            confidence=self.ranking.confidence,
            shares=self._shares(),
            asked=asked,
            reserve=None if self.reserve is None else list(self.reserve),
        )

    def _ranking_of(self, task: str) -> Ranking:
        """Return the ranking by one task; that of a run of a single task."""
        return self.ranking.tasks[task] if len(self.banks) > 1 else self.ranking

    def _documents(self, model: str, task: str) -> list[Any]:
        """Return the documents that a model was asked, each once, however often it was."""
        return list(dict.fromkeys(map(document_of, self._ranking_of(task).items[model])))

    def _task_score(self, model: str, task: str, n_documents: int) -> TaskScore:
        """Return what a model scored on a task, by answers to so many documents."""
        bank, ranking = self.banks[task], self._ranking_of(task)
        # A run of several tasks has settings of each.
        settings = self.header.task.get("settings") or {}
        version = settings.get(task, settings).get("task_version")
        return TaskScore(
            **_score_by(ranking, model, bank.scale)._asdict(),
            items=n_documents,
            documents=bank.n_items,
            metric=metric_of(bank),
            version=None if version is None else str(version),
            bank=self.bank_hashes[task],
            sample=_sample(ranking, model, bank.scale),
            repeats=int((self.header.ranker.get("repeats") or {}).get(task, 1)),
            configuration=configurations_in(self.header, task).get(model, {}),
        )

    def _shares(self) -> dict[str, float]:
        """Return how much each task counts, summing to 1."""
        # A run of one task states no weights.
        weighting = self.header.ranker.get("weights") or {task: {"": 1.0} for task in self.banks}
        weights = {task: float(sum(of_metric.values())) for task, of_metric in weighting.items()}
        total = sum(weights.values())
        return {task: weight / total for task, weight in weights.items()}


def _score_by(ranking: Ranking, model: str, scale: Scale) -> ScoreInterval:
    """Return a model's score and interval on a scale, by the ranking by one task or by all."""
    # The ranking is on [0, 1], higher is better: other metrics turn the ends of an interval round.
    low, high = sorted(float(scale.restore(end)) for end in ranking.interval(model))
    return ScoreInterval(float(scale.restore(ranking.estimates[model])), low, high)


def _sample(task_ranking: Ranking, model: str, scale: Scale) -> list[float] | None:
    """Return `TaskScore.sample`: what the items drawn at random say alone; None without any."""
    drawn = task_ranking.samples.get(model)
    if drawn is None:
        return None
    error = float(scale.restore_error(drawn.standard_error))
    return [float(scale.restore(drawn.estimate)), error, float(drawn.n)]
