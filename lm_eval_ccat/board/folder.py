"""The folder of a board: its files, its rules and its banks.

board.json      name, weights of the tasks, what is asked of newcomers
suite/          the banks, one per task; every command takes the folder as a bank
banks/          earlier banks, by which older estimates are verified
hashes.json     the hashes of the banks' files, of scoring.json, and of models.csv as last published
ledger.jsonl    every row that was ever added, one JSON object per line
scoring.json    how the full results of each task were scored, as their logs state it
scores/         full results, one Parquet file per task and call of `add`
journals/       the journals of placed models, by their hash
models.csv      what the operator says of models: size, licence, base, link; may be absent
exposure.csv    how often each item was shown; not for git, as who knows it can prepare
.runs/          live runs in progress; not for git
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..bank import ItemBank, SuiteBank
from ..errors import RunError, UsageError
from ..files import replace_text
from ..grouping import grouped
from ..metrics.scale import Scale
from ..options import TEXT, OptionPlace, choice, option, read_values, whole
from ..ranker.contents import scale_of, shares_of
from ..ranker.headline import Lead
from ..ranker.verdicts import clearly_apart
from ..scores.reading import BOARD
from ..shown import first_of, plural, rounded, some
from .ledger import FROM_A_COPY, FULL, BoardLedger, BoardRow, ScoreInterval, TaskScore, sha256_of

FORMAT, VERSION = "lm-eval-ccat/board", 1
#: Names in the folder, as the docstring above describes them.
RULES, LEDGER, SCORING = BOARD, "ledger.jsonl", "scoring.json"
SCORES, JOURNALS = "scores", "journals"
#: Scores that are being written.
DRAFT = "draft.parquet"
HASHES, SUITE_FOLDER, BANKS = "hashes.json", "suite", "banks"
#: Files that are not for git: live runs in progress, and the lock.
RUNS, LOCK = ".runs", ".lock"
#: What the operator says of models, and for the operator alone: which items were shown.
FACTS, EXPOSURE = "models.csv", "exposure.csv"
#: Two-sided confidence of every interval on a board, whatever a run was made at.
CONFIDENCE = 0.95
#: Why a row is not comparable whose tasks are.
OTHER_WEIGHTS = "other weights of the tasks"
#: What to do with a file that was changed or lost.
RESTORE = f"restore it {FROM_A_COPY}"
#: How long a process waits until another one has written to the board.
_LOCK_SECONDS = 60


@dataclass(frozen=True)
class Rules:
    """The rules of a board, as `board.json` states them.

    Attributes
    ----------
    name : str
        Title of the site.
    weights : {"equal", "documents"}
        Weights of the tasks in the average.
    max_items : int
        Largest number of items that a model is asked when it is placed.
    exposure : int
        Each item is drawn from this many of the most informative ones.
    reserve : int
        Number of parts into which the items are divided; one of them is held back. 0 holds back
        none.
    rotate_after : int
        Number of placed models after which the next part is held back.
    """

    name: str = option("Leaderboard", TEXT)
    weights: str = option("equal", choice("equal", "documents"))
    max_items: int = option(100, whole(1))
    exposure: int = option(5, whole(1))
    reserve: int = option(5, whole())
    rotate_after: int = option(20, whole(1))


class Reserve(NamedTuple):
    """The items that a board holds back, so that nobody prepares for them.

    Attributes
    ----------
    part, parts : int
        Which part of the items it is, from 0, and into how many they are divided.
    """

    part: int
    parts: int


class Board:
    """A board's folder.

    Parameters
    ----------
    path : path

    Raises
    ------
    UsageError
        If the folder has no `board.json`.
    RunError
        If that file cannot be read, or the ledger was lost.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rules = read_rules(self.path / RULES)
        self.ledger = BoardLedger(self.path / LEDGER)
        # An empty ledger is sound in itself, so that only what it should prove betrays the loss.
        if self.evidence_files and not self.ledger.has_rows:
            raise RunError(
                f"{self.ledger.path}: no rows, but {first_of(self.evidence_files, 1)} prove some: "
                f"restore the ledger {FROM_A_COPY} (if no row was ever "
                f"added, delete {SCORES}/ and {JOURNALS}/)"
            )

    @property
    def evidence_files(self) -> list[str]:
        """The files of scores and journals, which prove rows."""
        return [
            f"{folder}/{file.name}"
            for folder in (SCORES, JOURNALS)
            for file in sorted((self.path / folder).glob("*.*"))
            if file.name != DRAFT
        ]

    @cached_property
    def banks(self) -> dict[str, ItemBank]:
        """The bank of each task.

        Raises
        ------
        RunError
            If a task has several outcomes (metrics, or filters), of which a board scores one; or if
            a file was changed.
        """
        folder = self.path / SUITE_FOLDER
        # Hashes of earlier banks are looked at where those are read (`bank_of`).
        for file in self.hashes:
            if file.startswith(f"{SUITE_FOLDER}/"):
                self.require_unchanged(file)
        return one_bank_each(SuiteBank.load(folder), folder)

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes of files that no row of the ledger covers, by file.

        Raises
        ------
        RunError
            If they cannot be read.
        """
        return _hashes_in(self.path)

    def require_unchanged(self, file: str) -> None:
        """Refuse a file whose hash is another than that which was kept.

        Raises
        ------
        RunError
        """
        sha256 = sha256_of(self.path / file)
        if sha256 != self.hashes.get(file):
            what = (
                f"was changed (its hash differs from that in {HASHES})" if sha256 else "is missing"
            )
            raise RunError(f"{self.path / file} {what}: {RESTORE}")

    @cached_property
    def shares(self) -> dict[str, float]:
        """Weight of each task in the average; the weights sum to 1."""
        sizes = {task: float(bank.n_items) for task, bank in self.banks.items()}
        return shares_of(sizes, self.rules.weights)

    @property
    def scale(self) -> Scale:
        """Scale of the average: the one that all tasks share, else [0, 1]."""
        return scale_of(list(self.banks.values()))

    @property
    def draws_at_random(self) -> bool:
        """Whether no bank knows anything about its items, so that nobody can guess the next one."""
        return all(bank.method == "sample" for bank in self.banks.values())

    def bank_of(self, task: str, sha256: str) -> ItemBank:
        """Return a bank of this board, the current one or an earlier one.

        Raises
        ------
        RunError
            If the board has no such bank.
        """
        if task in self.banks and self.banks[task].sha256 == sha256:
            return self.banks[task]
        file = self.old_bank(sha256)
        if not file.is_file():
            raise RunError(f"the board has no bank {sha256[:12]} of {task}")
        self.require_unchanged(f"{BANKS}/{file.name}")
        bank = ItemBank.load(file)
        # The file's name has the first digits alone.
        if bank.sha256 != sha256:
            raise RunError(f"{file} is another bank than {sha256[:12]}")
        return bank

    def old_bank(self, sha256: str) -> Path:
        """Return the file of an earlier bank, or of a bank that was used elsewhere."""
        return self.path / BANKS / f"{sha256[:16]}.bank.json"

    def current_reserve(self, rows: list[BoardRow]) -> Reserve | None:
        """Return the part of the items that is held back now; None if there is none.

        The parts take turns: after `Rules.rotate_after` placed models comes the next.
        """
        parts = self.rules.reserve
        # Nobody can prepare for items that are drawn from all of them.
        if not parts or self.draws_at_random:
            return None
        # Full results show no items, so that they bring the next part no nearer.
        placed = sum(row.estimated for row in rows)
        return Reserve(placed // self.rules.rotate_after % parts, parts)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to the board while the context lasts.

        Raises
        ------
        RunError
            If another process holds the board for a minute.
        """
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.path / LOCK, timeout=_LOCK_SECONDS):
                yield
        except Timeout:
            raise RunError(f"{self.path}: another process is writing to this board") from None


def _hashes_in(folder: Path) -> dict[str, str]:
    """Read `Board.hashes` from a board's folder."""
    file = folder / HASHES
    try:
        hashes = json.loads(file.read_text(encoding="utf-8"))
        return {str(name): str(sha256) for name, sha256 in hashes.items()}
    except FileNotFoundError:
        raise RunError(
            f"{file} is missing: {RESTORE}; a board that never had one is begun anew with "
            "`lm-eval-ccat board init`"
        ) from None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise RunError(f"{file}: not readable as hashes ({error}); {RESTORE}") from None


def keep_hashes(folder: Path, files: Iterable[Path]) -> None:
    """Keep the hashes of some files of a board's folder, but for those that are gone.

    Parameters
    ----------
    folder : Path
        The board's.
    files : iterable of Path
        Files in it.
    """
    # A board that is being made has none yet.
    known = _hashes_in(folder) if (folder / HASHES).is_file() else {}
    known |= {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}
    known = {name: sha256 for name, sha256 in known.items() if sha256}
    replace_text(folder / HASHES, json.dumps(known, indent=1) + "\n")


def write_board(folder: Path, suite: SuiteBank, rules: Rules) -> None:
    """Write the banks and the rules of a board."""
    folder.mkdir(exist_ok=True)
    suite.save(folder / SUITE_FOLDER)
    content = {"format": FORMAT, "version": VERSION, **asdict(rules)}
    replace_text(folder / RULES, json.dumps(content, indent=1) + "\n")
    replace_text(folder / ".gitignore", f"{RUNS}/\n{LOCK}\n{EXPOSURE}\n")
    keep_hashes(folder, [*folder.glob(f"{SUITE_FOLDER}/*"), *folder.glob(f"{BANKS}/*")])


def one_bank_each(suite: SuiteBank, source: Path) -> dict[str, ItemBank]:
    """Return the bank of each task of a suite that was read from `source`.

    Raises
    ------
    RunError
        If a task has several outcomes.
    """
    for task, outcomes in suite.items():
        if len(outcomes) > 1:
            raise RunError(
                f"{source}: task {task} has banks of {', '.join(outcomes)}; "
                "a board scores one metric per task: keep the bank of one, or make the board from "
                "logs (--from LOGS --metric A,B)"
            )
    return {task: next(iter(outcomes.values())) for task, outcomes in suite.items()}


def without_reserve(bank: ItemBank, task: str, reserve: Reserve | None) -> ItemBank:
    """Return a bank that offers all its items but the part that is held back.

    Parameters
    ----------
    bank : ItemBank
    task : str
    reserve : Reserve or None
        The part to hold back; an item is in the same part on every machine.

    Examples
    --------
    >>> bank = ItemBank.blank(range(100))
    >>> [int(without_reserve(bank, "t", Reserve(part, 2)).kept.sum()) for part in (0, 1)]
    [42, 58]
    >>> without_reserve(bank, "t", None) is bank
    True
    """
    if reserve is None:
        return bank
    # By a hash, an item keeps its part when the bank grows.
    texts = (json.dumps([task, doc_id]).encode() for doc_id in bank.doc_ids)
    parts_of_items = [
        int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % reserve.parts for text in texts
    ]
    return replace(bank, kept=bank.kept & (np.array(parts_of_items) != reserve.part))


def changed_rules(rules: Rules, changes: Mapping[str, Any]) -> Rules:
    """Return rules with some of them replaced; None leaves a rule as it is.

    Raises
    ------
    UsageError
        If a rule is unknown or out of range.
    """
    changed = replace(rules, **read_values(Rules, changes, OptionPlace()))
    if changed.reserve == 1:
        raise UsageError("reserve 1 would hold back every item; 5 holds back a fifth, 0 none")
    return changed


def read_rules(path: Path) -> Rules:
    """Read the rules in a board's file.

    Raises
    ------
    UsageError
        If there is no such file.
    RunError
        If it cannot be read.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("no JSON object")
        if values.pop("format", None) != FORMAT or values.pop("version", None) != VERSION:
            raise ValueError(f"not of format {FORMAT}, version {VERSION}")
        return changed_rules(Rules(), values)
    except FileNotFoundError:
        raise UsageError(
            f"{path.parent} is not a board (it has no {RULES}); begin one with `lm-eval-ccat "
            f"board init {path.parent} --from LOGS`"
        ) from None
    except (OSError, ValueError, TypeError, RecursionError, UsageError) as error:
        raise RunError(f"{path}: not readable as a board's rules ({error}); {RESTORE}") from None


def average(
    board: Board, tasks: Mapping[str, TaskScore], shares: Mapping[str, float]
) -> ScoreInterval:
    """Return the weighted mean of full results over tasks, on the board's scale."""
    total = sum(shares[task] for task in tasks)
    # On [0, 1], higher is better: the mean, and how far its interval reaches below and above it.
    mean, below, above = 0.0, 0.0, 0.0
    for task, task_score in tasks.items():
        scale, share = board.banks[task].scale, shares[task] / total
        score, *ends = (
            share * float(scale.normalise(figure))
            for figure in (task_score.score, task_score.low, task_score.high)
        )
        mean += score
        # Errors of the tasks are independent, so that their squares add up.
        below, above = math.hypot(below, score - min(ends)), math.hypot(above, max(ends) - score)
    restore = board.scale.restore
    low, high = sorted((float(restore(mean - below)), float(restore(mean + above))))
    return ScoreInterval(float(restore(mean)), low, high)


def metric_of(bank: ItemBank) -> str:
    """Return a bank's metric and filter, as the harness writes them."""
    return f"{bank.metric},{bank.filter or 'none'}"


# -- where the models stand -----------------------------------------------------------------------


@dataclass(frozen=True)
class Placed:
    """A row in the order of the board.

    Attributes
    ----------
    row : BoardRow
    rank : int
        Rank by score.
    best, worst : int
        Range of ranks that the intervals allow.
    lead : Lead or None
        By how much it leads the next row, with the interval that ranges of ranks go by; None for
        the last.
    """

    row: BoardRow
    rank: int
    best: int
    worst: int
    lead: Lead | None = None

    @property
    def lead_in_words(self) -> str:
        """The lead as a text; one without an interval in the digits by which scores are shown.

        Examples
        --------
        >>> score = TaskScore(0.6536, 0.6536, 0.6536, 9, 9, "acc")
        >>> row = BoardRow("a", FULL, 0.6536, 0.6536, 0.6536, {"t": score}, "2026-01-31")
        >>> [Placed(row, 1, 1, 1, Lead(*3 * [gap])).lead_in_words for gap in (0.01234, 8.6e-6)]
        ['0.0123', 'less than 0.0001']
        """
        if self.lead is None:
            return ""
        gap, size = self.lead.difference, abs(self.row.score) or 1.0
        # Scores are shown by four digits.
        decimals = max(0, 3 - math.floor(math.log10(size)))
        # An interval shows how many digits matter.
        if self.lead.low < self.lead.high or not gap:
            return self.lead.in_words()
        if abs(gap) < 0.5 * 10.0**-decimals:
            return f"less than {10.0**-decimals:.{decimals}f}"
        return rounded(gap, decimals)


class RowApart(NamedTuple):
    """A row that cannot be compared with the others, and why."""

    row: BoardRow
    reason: str


@dataclass(frozen=True)
class BoardStanding:
    """The current state of a board.

    Attributes
    ----------
    placed : list of Placed
        Best first; among equal scores, full results first.
    apart : list of RowApart
        The latest row of each model that cannot be compared, unless a later one of it can be.
    history : dict of str to list of BoardRow
        Every row of each model, oldest first.
    """

    placed: list[Placed]
    apart: list[RowApart]
    history: dict[str, list[BoardRow]]

    @property
    def headline(self) -> str:
        """Say which models may be the best, and by how much the first leads the second."""
        may_be_best = [place.row.model for place in self.placed if place.best == 1]
        if not may_be_best:
            return "No models yet."
        n, lead = f"{len(self.placed):,}", self.placed[0].lead
        several = f"{len(may_be_best)} models may be the best of {n}"
        if lead is None:
            return f"{may_be_best[0]} is the best of {n}."
        leader, second = (place.row.model for place in self.placed[:2])
        if lead.no_difference:
            return f"{several}; between {leader} and {second} {lead.no_difference}."
        gap = f"leads {second} by {self.placed[0].lead_in_words}"
        if len(may_be_best) == 1:
            return f"{leader} is the best of {n}, and {gap}."
        return f"{several}; {leader} {gap}."

    @property
    def weighed_otherwise(self) -> str:
        """Say how many models stand apart as the weights of tasks were changed; "" if none."""
        models = [row.model for row, reason in self.apart if reason == OTHER_WEIGHTS]
        if not models:
            return ""
        extent = f"{len(models)} of {plural(len(self.history), 'model')}"
        return (
            f"{extent} not comparable: {OTHER_WEIGHTS} ({some(models, 3)}): `board add` full "
            f"results again, or write `weights` in {RULES} as it was"
        )

    def in_words(self, row: BoardRow) -> str:
        """Say in one line where a row stands."""
        score = f"{row.model}: {row.score:.4g}"
        if row.has_sampled_answers:
            score += f" ({row.low:.4g} to {row.high:.4g}, sampled answers)"
        if row.estimated:
            asked = f"{row.items:,} of {row.documents:,} documents asked"
            score = f"{row.model}: ≈ {row.score:.4g} ({row.low:.4g} to {row.high:.4g}, {asked})"
        for row_apart, reason in self.apart:
            if row_apart == row:
                return f"{score}, not comparable: {reason}"
        for place in self.placed:
            if place.row == row:
                ranks = (
                    f"{place.best}"
                    if place.best == place.worst
                    else f"{place.best} to {place.worst}"
                )
                return f"{score}, rank {ranks} of {len(self.placed)}"
        return f"{score}, in its history; full results count"


def standing(board: Board, refused: Collection[int] = ()) -> BoardStanding:
    """Return the ranks of a board's models, each by its current row, and the rows set apart.

    Parameters
    ----------
    board : Board
    refused : collection of int
        Positions in the ledger, from 0, of rows without evidence: these get no rank.
    """
    rows = board.ledger.rows()
    comparable: list[BoardRow] = []
    apart: dict[str, RowApart] = {}
    for number, row in enumerate(rows):
        if number in refused:
            continue
        if reason := why_not_comparable(row, board.banks, board.shares):
            apart[row.model] = RowApart(row, reason)
        # A newer row takes the place of one that stood apart.
        else:
            comparable.append(row)
            apart.pop(row.model, None)
    # A model's full results count before its estimates; otherwise its latest row counts.
    current = {**latest(comparable), **latest(comparable, FULL)}
    placed = _placed(current.values(), board.scale.higher_is_better)
    return BoardStanding(placed, list(apart.values()), grouped((row.model, row) for row in rows))


def _placed(rows: Iterable[BoardRow], higher_is_better: bool) -> list[Placed]:
    """Return rows in their order, each with its ranks and its lead over the next."""
    # From here on higher scores are better.
    sign = 1.0 if higher_is_better else -1.0
    ordered = sorted(rows, key=lambda row: (-sign * row.score, row.estimated, row.model))
    scores = sign * np.array([row.score for row in ordered])
    half_widths = np.array([max(row.high - row.score, row.score - row.low) for row in ordered])
    # The errors of two neighbours are independent, so that their squares add up.
    gaps = scores[:-1] - scores[1:]
    half_widths_of_gaps = np.hypot(half_widths[:-1], half_widths[1:])
    leads = [
        Lead(gap, gap - half_width, gap + half_width)
        for gap, half_width in zip(gaps.tolist(), half_widths_of_gaps.tolist())
    ]
    n_above, n_below = (counts.tolist() for counts in clearly_apart(scores, half_widths))
    return [
        Placed(row, rank=i + 1, best=1 + n_above[i], worst=len(ordered) - n_below[i], lead=lead)
        for i, (row, lead) in enumerate(zip(ordered, [*leads, None]))
    ]


def latest(rows: Iterable[BoardRow], kind: str | None = None) -> dict[str, BoardRow]:
    """Return the latest row of each model, of one kind or of any."""
    return {row.model: row for row in rows if kind in (None, row.kind)}


def why_not_comparable(
    row: BoardRow, banks: Mapping[str, ItemBank], shares: Mapping[str, float]
) -> str:
    """Return why a row is not comparable with the others; "" if it is.

    Parameters
    ----------
    row : BoardRow
    banks : mapping of task to ItemBank
        The board's banks.
    shares : mapping of task to float
        The board's weights.
    """
    reasons = []
    for task, bank in banks.items():
        result = row.tasks.get(task)
        version = bank.settings.get("task_version")
        # Banks of which the board's is an update: of the same items, and so of the same mean. Full
        # results have no bank.
        descent = [update["previous"] for update in bank.provenance.get("updates", [])]
        if result is None:
            reasons.append(f"no results on {task}")
        elif result.metric != metric_of(bank):
            reasons.append(f"{result.metric} of {task}, not {metric_of(bank)}")
        elif result.documents != bank.n_items:
            reasons.append(f"{result.documents:,} documents of {task}, not {bank.n_items:,}")
        elif result.version is not None and version is not None and result.version != str(version):
            reasons.append(f"version {result.version} of {task}, not {version}")
        elif result.bank not in {None, bank.sha256, *descent}:
            reasons.append(f"a bank of {task} from which the board's does not descend")
    # What differs in the tasks themselves says more than their weights.
    if not reasons and any(
        abs(row.shares.get(task, 1.0) - share) > 1e-9 for task, share in shares.items()
    ):
        reasons.append(OTHER_WEIGHTS)
    return "; ".join(reasons)
