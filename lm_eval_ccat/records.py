"""The kinds of lines of a journal: one class each, with its fields and what it does to a run.

A record writes its own JSON (`Record.to_json`), is read from it (`record_of`), and brings the state
of a run up to date (`Record.apply`). `docs/reference/journal.md` is made from this file.
"""

# ruff: noqa: RUF009 - `about` returns a dataclass field

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Protocol, TypedDict, TypeVar

from .errors import RunError
from .masking import mask_entries
from .money import Tokens, column_of

FORMAT = "lm-eval-ccat/journal"
VERSION = 2


class Item(tuple[Any, ...]):
    """What is asked: `(task, doc_id)`, and `(task, doc_id, repeat)` from its second answer on.

    It equals a plain tuple, so that lines and dictionaries need no form of it.

    Examples
    --------
    >>> first, second = Item(("gsm8k", 17)), Item(("gsm8k", 17, 2))
    >>> second.task, second.doc_id, second.repeat, first.repeat, second.document == first
    ('gsm8k', 17, 2, 1, True)
    """

    __slots__ = ()

    @property
    def task(self) -> str:
        """Name of the task."""
        task: str = self[0]
        return task

    @property
    def doc_id(self) -> Any:
        """The document, in the task's numbering."""
        return self[1]

    @property
    def repeat(self) -> int:
        """Which answer to the document it is, from 1."""
        return int(self[2]) if self.is_repeat else 1

    @property
    def is_repeat(self) -> bool:
        """Whether it is not the first answer to the document."""
        return len(self) > 2

    @property
    def document(self) -> Item:
        """The first answer to the same document."""
        return Item(self[:2]) if self.is_repeat else self


#: Turns an item into what lines and messages state for it (`Journal.item_to_json`).
ItemToJson = Callable[[Item], Any]
#: Turns what a line states for an item into the item (`Journal.item`).
ItemFromJson = Callable[[Any], Item]


class NewerRecord(RunError):
    """A record of a later version of this package; it is not damaged."""


class RecordKind(StrEnum):
    """The ``op`` of a line."""

    HEADER = "header"
    SESSION = "session"
    WINDOWS = "windows"
    ASK = "ask"
    TELL = "tell"
    FAIL = "fail"
    UNRATED = "unrated"
    BEYOND = "beyond"
    LOST = "lost"
    RELEASE = "release"
    DROP = "drop"
    RESTORE = "restore"
    ACCEPT = "accept"
    WARN = "warn"
    CHANGE = "change"
    INTERRUPT = "interrupt"
    END = "end"


class Replayed(Protocol):
    """The state of a run that records bring up to date: a `Book`.

    Attributes
    ----------
    ranker : Ranker
    ended : End or None
        With what the last session ended.
    interrupted : str
        Why the last session ended early; "" if it did not.
    closed : bool
        Whether nothing was asked since a session ended or was interrupted; else the last session
        was killed, or goes on.
    """

    ranker: Any
    ended: End | None
    interrupted: str
    closed: bool

    def repeat_asks(self, asks: Asks) -> None:
        """Make the asks of a line again; their answers are awaited."""

    def receive(self, answer: Answered) -> None:
        """Receive an answer, which counts in its turn."""

    def keep_unrated(self, answer: Unrated) -> None:
        """Keep an answer until a judge has rated it."""

    def keep_beyond_bank(self, answer: Answered) -> None:
        """Keep an answer to an item that the ranking does not have."""

    def withdraw_asks(self, model: str, item: Item | None = None) -> None:
        """Await no more answers of a model, or none to an item."""

    def record_loss(self, cost: float) -> None:
        """Record what an attempt without an answer cost."""

    def lower_budget(self) -> None:
        """Lower the budget by what was lost since the run ended."""

    def accept_change(self, change: str) -> None:
        """Let pairs be decided in spite of a change."""

    def change_limits(self, arguments: Mapping[str, Any]) -> None:
        """Change the limits, the prices or the models of the `Ranker`."""


def about(meaning: str, default: Any = MISSING, empty: Callable[[], Any] | None = None) -> Any:
    """Declare a field of a record.

    Its meaning stands in the reference of the journal; without a default, and a callable `empty`
    that makes one, every line must have it.
    """
    metadata = {"meaning": meaning}
    if empty is not None:
        return field(default_factory=empty, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Record:
    """A line of a journal.

    Examples
    --------
    >>> Session(event="start").to_json()
    {'op': 'session', 'event': 'start'}
    >>> record_of({"op": "drop", "model": "a", "reason": "HTTP 401"}).reason
    'HTTP 401'
    """

    kind: ClassVar[RecordKind]
    #: Where its line begins in the journal, which is no part of the line: a byte of the file, or of
    #: a journal in memory the number of the line; see `Journal.record_at`.
    position: int | None = field(default=None, compare=False, repr=False)
    time: float | None = about("When it was written, in seconds since the epoch.", None)
    #: Whether `complete` wrote it, outside the ranking; some kinds state it in their line.
    beyond = False

    def apply(self, book: Replayed) -> None:
        """Bring the state of a run up to date with this record."""

    @classmethod
    @cache
    def fields(cls) -> list[Field[Any]]:
        """Return the fields in the order in which a line has them, `time` last."""
        line_fields = [entry for entry in fields(cls) if "meaning" in entry.metadata]
        return sorted(line_fields, key=lambda entry: entry.name == "time")

    @classmethod
    @cache
    def _layout(cls) -> list[tuple[str, bool]]:
        """Return the names of the fields, and whether a line may lack each."""
        return [(entry.name, optional(entry)) for entry in cls.fields()]

    def to_json(self, item_to_json: ItemToJson = lambda item: item) -> dict[str, Any]:
        """Return the JSON values of the line, without optional fields that are empty."""
        line: dict[str, Any] = {"op": self.kind.value}
        values = vars(self)
        for name, may_lack in self._layout():
            value = values[name]
            if not (may_lack and _empty(value)):
                line[name] = value
        if "item" in line:
            line["item"] = item_to_json(line["item"])
        if "pairs" in line:
            line["pairs"] = [(model, item_to_json(item)) for model, item in line["pairs"]]
        if "tokens" in line:
            line["tokens"] = line["tokens"].to_dict()
        return line

    def masked(self: AnyRecord, time: float | None = None) -> AnyRecord:
        """Return the record as it is written: dated, and without known credentials."""
        record = object.__new__(type(self))  # twice as fast as by the class's own `__init__`
        vars(record).update(mask_entries(vars(self)), time=time)
        return record


AnyRecord = TypeVar("AnyRecord", bound=Record)


def optional(entry: Field[Any]) -> bool:
    """Whether a line may lack a field: it does where there is nothing to say."""
    if entry.default_factory is not MISSING:
        return True
    return entry.default is not MISSING and _empty(entry.default)


def _required(entry: Field[Any]) -> bool:
    """Whether a field has no default, so that every line states it."""
    return entry.default is MISSING and entry.default_factory is MISSING


def _empty(value: Any) -> bool:
    """Whether a value says nothing; the number 0 says something."""
    return not value and (value is None or value is False or isinstance(value, str | list | dict))


# -- what the run is -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Header(Record):
    """The first line: what the run is, by which a resumed run is compared."""

    kind = RecordKind.HEADER
    format: str = about("Name of the format.", FORMAT)
    version: int = about("Version of the format.", VERSION)
    config: dict[str, Any] = about("The configuration, without credentials.", empty=dict)
    bank_sha256: str = about("Hashes of all item banks, joined by `+`.", "")
    task: dict[str, Any] = about(
        "Name of the task, its documents, prompts, settings, metric and scoring code.", empty=dict
    )
    versions: dict[str, str | None] = about(
        "Versions of this package and of the harness.", empty=dict
    )
    ranker: dict[str, Any] = about("Arguments of the `Ranker`.", empty=dict)
    report: dict[str, Any] = about(
        "What results state: metric, scale, currency, estimand, outcomes.", empty=dict
    )
    command: list[str] | None = about("The command that started the run.", None)


@dataclass(frozen=True, kw_only=True)
class Session(Record):
    """A process starts the run or resumes it."""

    kind = RecordKind.SESSION
    event: str = about("`start` or `resume`.")

    def apply(self, book: Replayed) -> None:
        book.ended, book.interrupted = None, ""
        book.lower_budget()


@dataclass(frozen=True, kw_only=True)
class Windows(Record):
    """The models are open: how much of each is asked at once from now on."""

    kind = RecordKind.WINDOWS
    windows: dict[str, int] = about("By model, most asks whose answers do not count yet.")
    wire: dict[str, int] = about("By model, most items in flight.")
    arrival: bool = about("Whether answers count in the order in which they arrive.", False)

    def apply(self, book: Replayed) -> None:
        book.interrupted, book.closed = "", False


# -- asks and answers ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Asks(Record):
    """Items that are asked, numbered from `n`."""

    kind = RecordKind.ASK
    n: int = about("Number of the first ask.", 0)
    pairs: list[tuple[str, Item]] = about("Model and item of each ask.")
    draws: list[float | None] = about(
        "Probability of each draw among the items left; null for an item that was chosen."
    )
    after: list[int] = about("Answers that counted before each ask.")

    def apply(self, book: Replayed) -> None:
        book.repeat_asks(self)


class ServedContent(TypedDict, total=False):
    """What a server reported about one request, as JSON values; see `Served`."""

    request_id: str
    model: str
    fingerprint: str
    finish: list[str]
    null: bool
    instead_of: str
    tier: str
    outside: int
    refused_usage: str
    sent: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answered(Record):
    """What a model returned for one item: fields of `tell`, `fail`, `unrated`, `beyond`."""

    n: int | None = about("Number of the ask; absent where answers count as they arrive.", None)
    model: str = about("Name of the model.")
    item: Item = about("The item: a `doc_id`; of several tasks, task and `doc_id`.")
    cost: float | None = about("Cost in the currency of the budget.", None)
    usd: float | None = about("Cost in dollars, if the price is known.", None)
    raw: Any = about("Score on the metric's own scale; of several outcomes, by outcome.", None)
    seconds: float | None = about("Time that it took.", None)
    tokens: Tokens | None = about(
        "Tokens read (`input`, of these `cached`) and written (`output`), who counted them "
        "(`source`), and their cost in dollars if the server states it (`usd`).",
        None,
    )
    prompt_sha256: str | None = about("Hash of the prompt.", None)
    responses: list[Any] = about("Responses of the model, by request.", empty=list)
    served: list[ServedContent] = about("What the server reported, by request.", empty=list)
    empty: bool = about("Whether no response has any text.", False)
    prior: str | None = about("Source of an answer that was paid for in an earlier run.", None)
    unscored: list[str] = about("Why scores are missing.", empty=list)
    attempts: int | None = about("Attempts that it took, if several.", None)

    @property
    def pair(self) -> tuple[str, Item]:
        """Model and item."""
        return self.model, self.item

    @property
    def column(self) -> str:
        """Column of the money to which its cost belongs."""
        return column_of(self.tokens)

    @property
    def has_answer(self) -> bool:
        """Whether the model returned something, if only a text that nothing could score."""
        return isinstance(self, Tell) or bool(self.responses)

    @property
    def text(self) -> str:
        """The responses to all requests of the item as one text."""
        texts = []
        for group in self.responses if isinstance(self.responses, list) else [self.responses]:
            for response in group if isinstance(group, list) else [group]:
                if isinstance(response, (list, tuple)):  # log-likelihood, whether it is the argmax
                    texts.append(", ".join(map(str, response)))
                else:
                    texts.append(str(response))
        return "\n---\n".join(texts)


@dataclass(frozen=True, kw_only=True)
class Tell(Answered):
    """A scored answer; it counts in the order of the asks' numbers."""

    kind = RecordKind.TELL
    score: float | dict[str, float] = about("Score on [0, 1]; of several outcomes, by outcome.")

    def apply(self, book: Replayed) -> None:
        book.receive(self)


@dataclass(frozen=True, kw_only=True)
class Fail(Answered):
    """An item that the model failed on; it has no score and is not asked again."""

    kind = RecordKind.FAIL
    reason: str = about("Why.")

    def apply(self, book: Replayed) -> None:
        book.receive(self)


@dataclass(frozen=True, kw_only=True)
class Unrated(Answered):
    """An answer that a judge is to rate; `tell`, `fail` or `beyond` follows, if it does."""

    kind = RecordKind.UNRATED
    beyond: bool = about("Whether `complete` asked, outside the ranking.", False)

    def apply(self, book: Replayed) -> None:
        book.keep_unrated(self)


@dataclass(frozen=True, kw_only=True)
class BeyondBank(Answered):
    """An answer outside the ranking, which `complete` asked for; the `Ranker` is not told it."""

    kind = RecordKind.BEYOND
    beyond = True

    def apply(self, book: Replayed) -> None:
        book.keep_beyond_bank(self)


# -- events, which take effect between two answers -------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Event(Record):
    """What takes effect between two answers."""

    after: int | None = about("Answers that counted before it.", None)


@dataclass(frozen=True, kw_only=True)
class Lost(Event):
    """An attempt without an answer that counts, which may have been billed."""

    kind = RecordKind.LOST
    model: str = about("Name of the model.")
    item: Item = about("The item.")
    why: str = about("Kind of failure.", "lost")
    column: str | None = about(
        "Column of the money: `billed`, `assumed` or `unknown`; absent if nothing was paid.", None
    )
    usd: float | None = about("Cost in dollars, if the price is known.", None)
    cost: float | None = about("By how much it lowers the budget.", None)
    beyond: bool = about("Whether `complete` asked, outside the ranking.", False)

    def apply(self, book: Replayed) -> None:
        book.record_loss(self.cost or 0.0)


@dataclass(frozen=True, kw_only=True)
class Release(Event):
    """An ask is given back, because the budget no longer covers it."""

    kind = RecordKind.RELEASE
    model: str = about("Name of the model.")
    item: Item = about("The item.")

    def apply(self, book: Replayed) -> None:
        book.ranker.release(self.model, self.item)
        book.withdraw_asks(self.model, self.item)


@dataclass(frozen=True, kw_only=True)
class Drop(Event):
    """A model is set aside: its asks leave the line."""

    kind = RecordKind.DROP
    model: str = about("Name of the model.")
    reason: str = about("Why.")
    away: bool = about("Whether it may come back by itself.", False)

    def apply(self, book: Replayed) -> None:
        book.withdraw_asks(self.model)
        book.ranker.drop(self.model, self.reason)


@dataclass(frozen=True, kw_only=True)
class Restore(Event):
    """A model that was set aside is taken up again."""

    kind = RecordKind.RESTORE
    model: str = about("Name of the model.")

    def apply(self, book: Replayed) -> None:
        book.ranker.restore(self.model)


@dataclass(frozen=True, kw_only=True)
class Change(Event):
    """A resumed run goes on with other options, or with one more model."""

    kind = RecordKind.CHANGE
    ranker: dict[str, Any] = about("Changed limits and prices, and models that join.", empty=dict)
    settings: list[str] = about("Each change in words.", empty=list)
    identity: dict[str, Any] = about("Parts of the header as they are from now on.", empty=dict)

    def apply(self, book: Replayed) -> None:
        book.change_limits(self.ranker)


@dataclass(frozen=True, kw_only=True)
class End(Event):
    """The run ends: the result is that of the answers that counted before it."""

    kind = RecordKind.END
    reason: str = about("Why; empty where the stopping rule says it.")
    gaps: bool = about("Whether answers behind unanswered asks count too, after a deadline.", False)
    wire: dict[str, int] = about("By model, items in flight then, if any.", empty=dict)

    def apply(self, book: Replayed) -> None:
        book.ended, book.closed = self, True


@dataclass(frozen=True, kw_only=True)
class Warn(Record):
    """What a session warns of before a model is asked, such as a bank that states no settings."""

    kind = RecordKind.WARN
    texts: list[str] = about("The warnings, which every later result states.")


# -- what people do --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Accept(Record):
    """A person accepts a change that would otherwise leave pairs undecided."""

    kind = RecordKind.ACCEPT
    change: str = about("`prompts`, `scoring`, `server` or `cut`, as `accept_change` takes them.")
    what: list[str] = about("What differs, in words.", empty=list)

    def apply(self, book: Replayed) -> None:
        book.accept_change(self.change)


@dataclass(frozen=True, kw_only=True)
class Interrupt(Record):
    """The session ends early: by Ctrl-C, SIGTERM or SIGHUP, or because its judge is away."""

    kind = RecordKind.INTERRUPT
    reason: str = about("Why: `interrupted` by a signal, or which judge is away.", "interrupted")

    def apply(self, book: Replayed) -> None:
        book.interrupted, book.closed = self.reason, True


#: The class of each kind, in the order of the reference.
RECORDS: dict[str, type[Record]] = {
    record.kind.value: record
    for record in (
        Header, Session, Windows, Asks, Tell, Fail, Unrated, BeyondBank, Lost, Release, Drop,
        Restore, Accept, Warn, Change, Interrupt, End,
    )
}  # fmt: skip


def record_of(
    line: Mapping[str, Any],
    item: ItemFromJson = Item,
    where: str = "the journal",
    position: int | None = None,
) -> Record:
    """Return the record of a line's JSON values.

    Parameters
    ----------
    line : mapping
    item : callable, optional
        Makes an item of what the line has for it; see `Journal.item`.
    where : str, optional
        The journal, for errors.
    position : int, optional
        Where the line begins in the journal; see `Journal.record_at`.

    Raises
    ------
    NewerRecord
        Its kind or a field of it is unknown.
    RunError
        A field is missing.
    """
    values = dict(line)
    kind = values.pop("op", None)
    if (record := RECORDS.get(str(kind))) is None:
        raise NewerRecord(
            f"{where} holds a record {kind!r} that this version does not know; update lm-eval-ccat"
        )
    entries = record.fields()
    if unknown := values.keys() - {entry.name for entry in entries}:
        raise NewerRecord(
            f"{where} holds a record {kind!r} with {min(unknown)!r}, which this version does not "
            "know; update lm-eval-ccat"
        )
    if missing := [
        entry.name for entry in entries if _required(entry) and entry.name not in values
    ]:
        raise RunError(f"{where} holds a record {kind!r} without {missing[0]!r}")
    if "item" in values:
        values["item"] = item(values["item"])
    if "pairs" in values:
        values["pairs"] = [(model, item(value)) for model, value in values["pairs"]]
    if "tokens" in values:
        values["tokens"] = Tokens(**values["tokens"])
    return record(**values, position=position)
