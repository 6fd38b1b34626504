"""What a run directory says: the ranking, the answers behind it, and how it was started."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..errors import BankMismatchError, CcatError, RunError
from ..metrics.scale import Scale
from ..runs.directory import RunDirectory

BANK_NAMES = ("bank.json", "*.bank.json")


@dataclass(frozen=True)
class Answer:
    """One document put to one model; ``unit`` is on [0, 1], ``raw`` on the metric's own scale."""

    model: str
    doc: Any
    unit: float
    raw: float | None
    cost: float
    seconds: float | None
    tokens: Mapping[str, Any] | None
    output: str


@dataclass(frozen=True)
class Failure:
    """A document that a model could not do."""

    model: str
    doc: Any
    reason: str


@dataclass(frozen=True)
class Source:
    """A document's prompt and target, as the harness's samples files have them."""

    prompt: str
    target: str


@dataclass(frozen=True)
class Run:
    """A finished or running ranking, read from its directory.

    Attributes
    ----------
    path : Path
    header : dict
        The journal's first record: configuration, task, versions.
    result : dict
        `Ranking.to_dict`, from ``result.json``; rebuilt from the journal while the run goes on.
    answers : list of Answer
        In the order in which they were told.
    failures : list of Failure
    bank : ItemBank or None
        None when no file of the bank was found; what needs it is then left out.
    finished : bool
        Whether ``result.json`` was there.
    started, ended : float or None
        Seconds of the epoch of the first and last dated record.
    torn : bool
        Whether the journal ends in a line torn by a crash.
    """

    path: Path
    header: dict[str, Any]
    result: dict[str, Any]
    answers: list[Answer]
    failures: list[Failure]
    bank: ItemBank | None
    finished: bool
    started: float | None = None
    ended: float | None = None
    torn: bool = False
    dropped: dict[str, str] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """Models in the order of the ranking; those set aside come last."""
        order = list(self.result["order"])
        return order + [m for m in self.result["models"] if m not in order]

    @property
    def config(self) -> dict[str, Any]:
        """The configuration as the run understood it, credentials masked."""
        return dict(self.header.get("config") or {})

    @property
    def scale(self) -> Scale:
        """The metric's own scale."""
        return self.bank.scale if self.bank is not None else Scale()

    @cached_property
    def currency(self) -> str:
        """What costs are counted in: ``"usd"``, or ``"items"`` where no price is known."""
        stated = self.result.get("currency") or self.header.get("currency")
        if stated:
            return str(stated)
        if "usd" in (self.config.get("budget") or {}):
            return "usd"
        return "items" if all(a.cost == 1.0 for a in self.answers) else "usd"

    @cached_property
    def pairwise(self) -> dict[tuple[str, str], float]:
        """``P(a better than b)`` of each ordered pair."""
        return {(p["a"], p["b"]): float(p["p"]) for p in self.result["pairwise"]}

    @cached_property
    def sources(self) -> dict[Any, Source]:
        """Prompt and target of each document that the harness's samples files hold."""
        return dict(_read_sources(self.path))


def read_run(path: str | Path, bank: str | Path | ItemBank | None = None) -> Run:
    """Read a run directory.

    Parameters
    ----------
    path : path
        What `rank` wrote.
    bank : path or ItemBank, optional
        The run's bank; by default it is looked for in the directory and where the run's
        configuration says.

    Returns
    -------
    Run

    Raises
    ------
    RunError
        No run there, or one that goes on without a bank to rebuild its ranking from.
    BankMismatchError
        The bank given is not the one that the run used.
    """
    folder = RunDirectory(path)
    if not folder.path.is_dir():
        raise RunError(f"there is no run directory {folder.path}")
    header = folder.read_header()
    records = folder.journal.read_new()
    item_bank = _find_bank(folder.path, header, bank)
    answers = [_answer(r) for r in records if r.get("op") == "tell"]
    failures = [
        Failure(r["model"], r["doc"], str(r["reason"])) for r in records if r.get("op") == "fail"
    ]
    dropped = {r["model"]: str(r["reason"]) for r in records if r.get("op") == "drop"}
    times = [r["time"] for r in records if isinstance(r.get("time"), (int, float))]
    result_file = folder.path / "result.json"
    finished = result_file.is_file()
    if finished:
        result = _read_json(result_file)
        if not {"order", "models", "pairwise", "ties", "signature"} <= set(result):
            raise RunError(f"{result_file} is not the result of a ranking")
    else:
        if item_bank is None:
            raise RunError(
                f"{folder.path} is not finished, and without its item bank the ranking cannot be "
                "rebuilt; give the bank with --bank FILE"
            )
        from .replay import rebuild

        result = rebuild(header, records, item_bank)
    return Run(
        path=folder.path,
        header=header,
        result=result,
        answers=answers,
        failures=failures,
        bank=item_bank,
        finished=finished,
        started=min(times, default=None),
        ended=max(times, default=None),
        torn=folder.journal.torn is not None,
        dropped=dropped,
    )


def _answer(record: Mapping[str, Any]) -> Answer:
    return Answer(
        model=record["model"],
        doc=record["doc"],
        unit=float(record["score"]),
        raw=None if record.get("raw") is None else float(record["raw"]),
        cost=float(record.get("cost") or 0.0),
        seconds=record.get("seconds"),
        tokens=record.get("tokens"),
        output=_output(record.get("responses") or []),
    )


def _output(responses: Any) -> str:
    """The answers of all requests of one document as one text."""
    texts = []
    for group in responses if isinstance(responses, list) else [responses]:
        for answer in group if isinstance(group, list) else [group]:
            if isinstance(answer, (list, tuple)):  # log-likelihood and whether it was the argmax
                texts.append(", ".join(str(part) for part in answer))
            else:
                texts.append(str(answer))
    return "\n---\n".join(texts)


def _find_bank(
    folder: Path, header: Mapping[str, Any], given: str | Path | ItemBank | None
) -> ItemBank | None:
    wanted = header.get("bank_sha256")
    if given is not None:
        bank = given if isinstance(given, ItemBank) else ItemBank.load(given)
        if wanted and bank.sha256 != wanted:
            raise BankMismatchError(
                f"the run used bank {wanted[:12]}, the one given is {bank.short_hash}; "
                "give the run's own bank"
            )
        return bank
    named = [header.get("bank"), (header.get("config") or {}).get("bank")]
    places = [p for name in BANK_NAMES for p in sorted(folder.glob(name))]
    places += [p for name in named if name for p in (Path(name), folder / str(name))]
    for place in places:
        try:
            bank = ItemBank.load(place)
        except CcatError:
            continue
        if not wanted or bank.sha256 == wanted:
            return bank
    return None


def _read_sources(folder: Path) -> Iterator[tuple[Any, Source]]:
    seen: set[Any] = set()
    for file in sorted(folder.glob("*/**/samples_*.jsonl")):
        with file.open("rb") as stream:
            for line in stream:
                try:
                    row = json.loads(line)
                    doc = row["doc_id"]
                    if doc in seen:
                        continue
                    source = Source(_prompt(row.get("arguments")), str(row.get("target", "")))
                except (ValueError, KeyError, TypeError, AttributeError):
                    continue  # a torn or foreign line costs its prompt, not the page
                seen.add(doc)
                yield doc, source


def _prompt(arguments: Any) -> str:
    """The text of a sample's first request, in the harness's written form or its live one."""
    if isinstance(arguments, dict):
        arguments = list(arguments.values())
    if not arguments:
        return ""
    first = arguments[0]
    if isinstance(first, dict):
        first = list(first.values())
    if isinstance(first, (list, tuple)):
        return str(first[0]) if first else ""
    return str(first)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {file}: {error}") from error
    if not isinstance(content, dict):
        raise RunError(f"{file} does not hold a JSON object")
    return content
