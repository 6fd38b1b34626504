"""The ledger of a board: its rows, and the chain that shows whether one was changed.

Each line of the ledger ends with a link of a chain: the SHA-256 of the link before it and of the
line's own text. Changing, removing or inserting a line breaks the chain at that place. If the whole
file is rewritten, its last link differs from the one that was published before.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from ..errors import RunError
from ..files import sync_file, writing
from ..shown import short

FULL, ESTIMATE = "full", "estimate"
#: Where a file of a board that was changed or lost is to be had.
FROM_A_COPY = "from git or another copy of the board"


class ScoreInterval(NamedTuple):
    """A score and the ends of its interval: fields of these names of a row and of a task score."""

    score: float
    low: float
    high: float


@dataclass(frozen=True)
class TaskScore:
    """A model's score on one task, on the metric's own scale.

    Attributes
    ----------
    score, low, high : float
        Mean over the benchmark, or its estimate, and the ends of its interval; all three are equal
        for full results, unless answers were sampled.
    items, documents : int
        Number of documents that were run, and of all documents of that benchmark.
    metric : str
        The metric with its filter.
    version : str or None
        The task's version, as the harness writes it.
    evidence, sha256 : str
        The file in the board's folder that proves the score (a run's journal, or scores), and its
        hash.
    bank : str or None
        SHA-256 of the bank behind an estimate.
    sample : list of float, or None
        What the items drawn at random say alone: estimate, standard error, number. Nobody can
        prepare for these.
    repeats : int
        Most answers to a document, the K of avg@K.
    configuration : dict of str to str
        What makes the model's configuration (revision, dtype, temperature, ...); empty if unknown.
    """

    score: float
    low: float
    high: float
    items: int
    documents: int
    metric: str
    evidence: str = ""
    sha256: str = ""
    version: str | None = None
    bank: str | None = None
    sample: list[float] | None = None
    repeats: int = 1
    configuration: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BoardRow:
    """One line of the ledger: what one model scored at one time.

    Attributes
    ----------
    model : str
    kind : {"full", "estimate"}
    score, low, high : float
        Score over all tasks and its interval, on the board's scale.
    tasks : dict of str to TaskScore
    date : str
        Date of the row, in ISO 8601.
    signature : str
        The settings that reproduce the figure, in one line.
    made_by : str
        Version of this package that computed the figure.
    confidence : float or None
        Two-sided confidence of the interval; None for full results without one.
    shares : dict of str to float
        Weight of each task in `score`.
    asked : dict of str to list
        For estimates, the items of each task that were shown to the model.
    reserve : list of int, or None
        The part of the items that was held back, and the number of parts.
    in_journal : str
        The model's name in its journal, if it differs.

    Examples
    --------
    >>> score = TaskScore(0.5, 0.5, 0.5, 9, 9, "acc,none", "scores/0.t.parquet", "ab")
    >>> row = BoardRow("a", FULL, 0.5, 0.5, 0.5, {"t": score}, "2026-01-31")
    >>> BoardRow.from_dict({**row.to_dict(), "later": 1}) == row, row.items, row.documents
    (True, 9, 9)
    """

    model: str
    kind: str
    score: float
    low: float
    high: float
    tasks: dict[str, TaskScore]
    date: str
    signature: str = ""
    made_by: str = ""
    confidence: float | None = None
    shares: dict[str, float] = field(default_factory=dict)
    asked: dict[str, list[int | str]] = field(default_factory=dict)
    reserve: list[int] | None = None
    in_journal: str = ""

    @property
    def estimated(self) -> bool:
        """Whether the score is an estimate from some of the documents."""
        return self.kind == ESTIMATE

    @property
    def has_sampled_answers(self) -> bool:
        """Whether it has full results of sampled answers, whose noise gives them an interval."""
        return not self.estimated and self.low < self.high

    @property
    def evidence(self) -> dict[str, str]:
        """The hash of each file that proves the row."""
        return {task_score.evidence: task_score.sha256 for task_score in self.tasks.values()}

    @property
    def items(self) -> int:
        """Number of documents that were run, over all tasks."""
        return sum(task_score.items for task_score in self.tasks.values())

    @property
    def documents(self) -> int:
        """Number of documents of the benchmark, over all tasks."""
        return sum(task_score.documents for task_score in self.tasks.values())

    def to_dict(self) -> dict[str, object]:
        """Return the row as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BoardRow:
        """Make a row from `to_dict`'s values; ignore unknown keys, which later versions may add.

        Raises
        ------
        ValueError
            A value is not of its field's kind; a stranger may have written the line.
        """
        row_values = _fields(cls, values)
        tasks = {
            str(task): TaskScore(**_fields(TaskScore, task_values))
            for task, task_values in row_values.pop("tasks").items()
        }
        row = cls(tasks=tasks, **row_values)
        # Figures of a kind that this version does not know cannot be verified.
        if row.kind not in (FULL, ESTIMATE) or not tasks:
            raise ValueError(f"a row of kind {row.kind!r} for model {row.model!r}")
        return row


#: Numbers of values in fields that hold a list of so many.
_LENGTHS = {"reserve": 2, "sample": 3}
#: The types of the fields of a row and of a task score, by name.
_TYPES = {BoardRow: get_type_hints(BoardRow), TaskScore: get_type_hints(TaskScore)}


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value of JSON may stand in a field of this type, where counts are not negative."""
    parts = get_args(kind)
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_fits(entry, parts[0]) for entry in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_fits(entry, parts[1]) for entry in value.values())
    # The types of a union, such as float or None.
    if parts:
        return any(_fits(value, part) for part in parts)
    # JSON has an object for it, whose fields `from_dict` looks at.
    if kind is TaskScore:
        return isinstance(value, dict)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    # JSON of Python has NaN and infinity, which would pass every comparison.
    if kind is float:
        is_number = isinstance(value, int | float)
        return is_number and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind)


def _fields(kind: type[BoardRow] | type[TaskScore], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those values that are fields of a row or a task score.

    Raises
    ------
    ValueError
        A value is not of its field's type; the message names the field.
    """
    types = _TYPES[kind]
    fields = {name: value for name, value in values.items() if name in types}
    for name, value in fields.items():
        is_sound = _fits(value, types[name])
        if is_sound and name in _LENGTHS and value is not None:
            is_sound = len(value) == _LENGTHS[name]
        if not is_sound:
            raise ValueError(f"{name} is {short(repr(value), 40)}")
    return fields


@dataclass(frozen=True)
class LedgerLine:
    """A line of the ledger.

    Attributes
    ----------
    number : int
        Line number, from 1.
    row : BoardRow or None
        None if the line cannot be read.
    model : str
        The row's model; "" if it cannot be read.
    link : str
        The link of the chain at the end of the line.
    damage : str
        How the line was damaged or changed; "" if it is sound.
    """

    number: int
    row: BoardRow | None
    model: str
    link: str
    damage: str = ""


class BoardLedger:
    """The ledger: the file of a board's rows.

    Parameters
    ----------
    path : path

    Examples
    --------
    >>> import tempfile
    >>> score = TaskScore(0.5, 0.5, 0.5, 9, 9, "acc,none", "scores/0.t.parquet", "ab")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = BoardLedger(Path(folder, "ledger.jsonl"))
    ...     ledger.append([BoardRow("a", FULL, 0.5, 0.5, 0.5, {"t": score}, "2026-01-31")])
    ...     [(line.number, line.model, line.damage) for line in ledger.lines()]
    [(1, 'a', '')]
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def has_rows(self) -> bool:
        """Whether the file is there and holds anything."""
        return self.path.is_file() and self.path.stat().st_size > 0

    def lines(self) -> list[LedgerLine]:
        """Read every line, and what is wrong with it.

        Raises
        ------
        RunError
            If the file cannot be read.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"{self.path}: cannot read the ledger ({error})") from error
        parsed: list[LedgerLine] = []
        # Not `splitlines`: JSON texts may hold characters that it takes for ends of lines.
        for number, line in enumerate(filter(None, text.split("\n")), 1):
            parsed.append(_read_line(number, line, parsed[-1].link if parsed else ""))
        return parsed

    def rows(self) -> list[BoardRow]:
        """Read every row.

        Raises
        ------
        RunError
            If a line is damaged or the chain is broken; the message names the first such line.
        """
        lines = self.lines()
        for line in lines:
            if line.damage:
                raise RunError(
                    f"{self.path}, line {line.number} (model {line.model!r}): {line.damage}; "
                    f"restore the file {FROM_A_COPY}; `lm-eval-ccat board "
                    f"check {self.path.parent}` names every such row"
                )
        return [line.row for line in lines if line.row is not None]

    def head(self) -> str:
        """Return the last link of the chain; "" for an empty ledger."""
        lines = self.lines()
        return lines[-1].link if lines else ""

    def append(self, rows: Iterable[BoardRow]) -> None:
        """Append rows; they are on disk when this returns.

        Raises
        ------
        RunError
            If the ledger is damaged, or cannot be written: then it is as it was.
        """
        # A ledger that was tampered with must not get a sound end.
        self.rows()
        link, text = self.head(), ""
        for row in rows:
            link, line = _sealed(row.to_dict(), link)
            text += f"{line}\n"
        with writing(self.path):
            before = self.path.read_bytes() if self.path.exists() else b""
            # An editor, or who copied the file, may have left out the end of the last line.
            if before and not before.endswith(b"\n"):
                text = f"\n{text}"
            try:
                with self.path.open("ab") as stream:
                    stream.write(text.encode())
                    stream.flush()
                    # The run is removed once its row is written: the row must outlive a power cut.
                    sync_file(stream.fileno())
            except OSError:
                # A full disk takes a part of a line, which would be damage for ever.
                with suppress(OSError):
                    os.truncate(self.path, len(before))
                raise


def shown_items(rows: Iterable[BoardRow]) -> dict[str, Counter[Any]]:
    """Count the models that each item was shown to, by task; a model counts once.

    Examples
    --------
    >>> from dataclasses import replace
    >>> row = BoardRow("a", "estimate", 0.5, 0.4, 0.6, {}, "2026-01-31", asked={"t": [3, 7]})
    >>> shown_items([row, row, replace(row, model="b", asked={"t": [3]})])
    {'t': Counter({3: 2, 7: 1})}
    """
    # A model that was placed again, after an update of the banks, has several rows. Keys of a
    # dictionary are a set that keeps its order, which `Counter.most_common` does, too.
    asked_of: dict[str, dict[str, dict[Any, None]]] = {}
    for row in rows:
        for task, items in row.asked.items():
            models = asked_of.setdefault(task, {})
            models.setdefault(row.model, {}).update(dict.fromkeys(items))
    return {
        task: Counter(item for items in models.values() for item in items)
        for task, models in asked_of.items()
    }


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex; "" if there is none that can be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


class _SealedRow(NamedTuple):
    """The link of the chain that a row ends with, and the line that holds row and link."""

    link: str
    line: str


def _sealed(values: Mapping[str, Any], before: str) -> _SealedRow:
    """Seal a row: its link covers the row and the link `before` it."""
    body = json.dumps(values, allow_nan=False)
    # Names of models may hold halves of characters, which strict UTF-8 refuses.
    text = f"{before}\n{body}".encode("utf-8", "surrogatepass")
    link = hashlib.sha256(text).hexdigest()
    return _SealedRow(link, f'{body[:-1]}, "chain": "{link}"}}')


def _read_line(number: int, text: str, before: str) -> LedgerLine:
    """Read a line of the ledger; `before` is the link of the chain at the end of the last one."""
    try:
        values = json.loads(text)
        link, model = str(values.pop("chain", "")), str(values.get("model", ""))
        # Compared as text: another order of keys, or another form of a number, is a change, too.
        unbroken = text == _sealed(values, before).line
    except (ValueError, AttributeError, TypeError, RecursionError):
        damage = "the line is no JSON object of numbers and texts"
        return LedgerLine(number, row=None, model="", link="", damage=damage)
    damage = "" if unbroken else "the chain is broken: the row was changed, or rows before it were"
    try:
        row = BoardRow.from_dict(values)
    except (KeyError, TypeError, ValueError) as error:
        # A broken chain says more than what the change made of the row.
        damage = damage or f"the row is of another form ({error})"
        return LedgerLine(number, row=None, model=model, link=link, damage=damage)
    return LedgerLine(number, row=row, model=model, link=link, damage=damage)
