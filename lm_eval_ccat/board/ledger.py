"""The ledger of a board: one JSON object per line, appended and never changed.

Each line ends with a link of a chain: the SHA-256 of the link before it and of the line's own text.
A line that is changed, taken out or put in between breaks the chain where it stands. Whoever writes
the whole file anew is found by comparing its last link with one that was published before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import RunError
from ..files import sync_file

FULL, ESTIMATE = "full", "estimate"


@dataclass(frozen=True)
class TaskScore:
    """A model's score on one task, on the metric's own scale.

    Attributes
    ----------
    score, low, high : float
        Mean over the benchmark, or its estimate, and the ends of its interval; all three the same
        for full results.
    items, documents : int
        Documents that were run, and documents of the benchmark that was run.
    metric : str
        With its filter.
    version : str or None
        Of the task, as the harness writes it.
    evidence, sha256 : str
        The file in the board's folder that shows it (a run's journal, or scores), and its hash.
    bank : str or None
        SHA-256 of the bank that an estimate is made with.
    changed : int
        Documents whose hash is another than the board's bank has.
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
    changed: int = 0


@dataclass(frozen=True)
class BoardRow:
    """One line of the ledger: what one model scored at one time.

    Attributes
    ----------
    model : str
    kind : {"full", "estimate"}
    score, low, high : float
        Of all tasks together, on the board's scale.
    tasks : dict of str to TaskScore
    date : str
        ISO 8601.
    signature : str
        What reproduces the figure, in one line.
    made_by : str
        Version of this package that computed the figure.
    confidence : float or None
        Two-sided, of the interval; None for full results.
    shares : dict of str to float
        How much each task counts in `score`.
    asked : dict of str to list
        By task the items that were shown to the model; of estimates.
    reserve : list of int, or None
        Which part of the items was held back, of how many.
    in_journal : str
        The model's name in its journal, where that is another.
    link : str
        A page about the model.

    Examples
    --------
    >>> one = TaskScore(0.5, 0.5, 0.5, 9, 9, "acc,none", "scores/0.t.parquet", "ab")
    >>> row = BoardRow("a", FULL, 0.5, 0.5, 0.5, {"t": one}, "2026-01-31")
    >>> BoardRow.from_dict(row.to_dict()) == row, row.items, row.documents
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
    asked: dict[str, list[Any]] = field(default_factory=dict)
    reserve: list[int] | None = None
    in_journal: str = ""
    link: str = ""

    @property
    def estimated(self) -> bool:
        """Whether the score is an estimate from some of the documents."""
        return self.kind == ESTIMATE

    @property
    def evidence(self) -> dict[str, str]:
        """The hash of each file that shows the row."""
        return {one.evidence: one.sha256 for one in self.tasks.values()}

    @property
    def items(self) -> int:
        """Documents that were run, of all tasks."""
        return sum(one.items for one in self.tasks.values())

    @property
    def documents(self) -> int:
        """Documents of the benchmark that was run, of all tasks."""
        return sum(one.documents for one in self.tasks.values())

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BoardRow:
        """A row from `to_dict`; unknown keys, of later versions, are passed over."""
        fields = {k: v for k, v in values.items() if k in cls.__dataclass_fields__}
        tasks = {str(t): TaskScore(**one) for t, one in fields.pop("tasks").items()}
        row = cls(tasks=tasks, **fields)
        if row.kind not in (FULL, ESTIMATE) or not isinstance(row.model, str) or not tasks:
            raise ValueError(f"a row of kind {row.kind!r} for model {row.model!r}")
        return row


@dataclass(frozen=True)
class LedgerLine:
    """A line of the file.

    Attributes
    ----------
    number : int
        From 1.
    row : BoardRow or None
        None where the line cannot be read.
    model : str
        Whose row it is, as far as that can be told.
    link : str
        The chain's link that the line bears.
    damage : str
        Why the line is not what was written; "" where it is sound.
    """

    number: int
    row: BoardRow | None
    model: str
    link: str
    damage: str = ""


class BoardLedger:
    """The file of a board's rows.

    Parameters
    ----------
    path : path

    Examples
    --------
    >>> import tempfile
    >>> one = TaskScore(0.5, 0.5, 0.5, 9, 9, "acc,none", "scores/0.t.parquet", "ab")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = BoardLedger(Path(folder, "ledger.jsonl"))
    ...     ledger.append([BoardRow("a", FULL, 0.5, 0.5, 0.5, {"t": one}, "2026-01-31")])
    ...     [(line.number, line.model, line.damage) for line in ledger.lines()]
    [(1, 'a', '')]
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[LedgerLine]:
        """Every line, with what is wrong with it.

        Raises
        ------
        RunError
            The file cannot be read.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"{self.path}: cannot read the ledger ({error})") from error
        parsed: list[LedgerLine] = []
        before = ""
        for number, line in enumerate(filter(None, text.split("\n")), 1):
            parsed.append(_read(number, line, before))
            before = parsed[-1].link
        return parsed

    def rows(self) -> list[BoardRow]:
        """Every row.

        Raises
        ------
        RunError
            A line is damaged, or the chain is broken; the first such line is named.
        """
        lines = self.lines()
        for line in lines:
            if line.damage:
                raise RunError(
                    f"{self.path}, line {line.number} (model {line.model!r}): {line.damage}; "
                    "restore the file from git, `lm-eval-ccat board check` names every such row"
                )
        return [line.row for line in lines if line.row is not None]

    def head(self) -> str:
        """The last link of the chain; "" for an empty ledger."""
        lines = self.lines()
        return lines[-1].link if lines else ""

    def append(self, rows: Iterable[BoardRow]) -> None:
        """Write rows at the end, on the disk before this returns.

        Raises
        ------
        RunError
            The ledger is damaged, or the disk refuses.
        """
        self.rows()
        link, text = self.head(), ""
        for row in rows:
            body = _body(row.to_dict())
            link = _link(link, body)
            text += f'{body[:-1]}, "chain": "{link}"}}\n'
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                sync_file(stream.fileno())
        except OSError as error:
            raise RunError(f"{self.path}: cannot write ({error.strerror or error})") from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file; "" where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def _body(values: Mapping[str, Any]) -> str:
    return json.dumps(values, allow_nan=False)


def _link(before: str, body: str) -> str:
    return hashlib.sha256(f"{before}\n{body}".encode("utf-8", "surrogatepass")).hexdigest()


def _read(number: int, text: str, before: str) -> LedgerLine:
    try:
        values = json.loads(text)
        link, model = str(values.pop("chain", "")), str(values.get("model", ""))
        body = _body(values)
    except (ValueError, AttributeError, RecursionError):
        return LedgerLine(number, None, "", "", "the line is no JSON object of numbers and texts")
    whole = text == f'{body[:-1]}, "chain": "{link}"}}' and link == _link(before, body)
    damage = "" if whole else "the chain is broken: the row was changed, or rows before it were"
    try:
        return LedgerLine(number, BoardRow.from_dict(values), model, link, damage)
    except (KeyError, TypeError, ValueError) as error:
        return LedgerLine(
            number, None, model, link, damage or f"the row is of another form ({error})"
        )
