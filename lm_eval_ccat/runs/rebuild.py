"""A ranking from its run directory alone: no configuration, task or model is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..bank.suite import SuiteBank
from ..ranker import Ranker
from .book import Book
from .directory import RunDirectory
from .identity import in_todays_words
from .journal import JournalFile, Record

BANK_FILE = "bank.json"
#: Folder of the banks of a ranking with several outcomes or tasks.
BANKS_FOLDER = "banks"


def banks_at(folder: Path) -> Path:
    """Where a run directory keeps its copy of the bank, or of the banks."""
    several = folder / BANKS_FOLDER
    return several if several.is_dir() else folder / BANK_FILE


def save_banks(banks: ItemBank | Mapping[str, Mapping[str, ItemBank]], folder: Path) -> None:
    """Write the copy that a run directory keeps.

    Raises
    ------
    BankError
        It cannot be written.
    """
    if isinstance(banks, ItemBank):
        banks.save(folder / BANK_FILE)
    else:
        SuiteBank(banks).save(folder / BANKS_FOLDER)


def load_banks(folder: Path) -> ItemBank | Mapping[str, Mapping[str, ItemBank]]:
    """Read that copy.

    Raises
    ------
    BankError
        It is missing or damaged.
    """
    place = banks_at(folder)
    return ItemBank.load(place) if place.suffix else SuiteBank.load(place)


def make_ranker(
    bank: ItemBank | Mapping[str, Mapping[str, ItemBank]], arguments: Mapping[str, Any]
) -> Ranker:
    """A Ranker in its initial state.

    Parameters
    ----------
    bank : ItemBank, or mapping of task to (mapping of outcome to ItemBank)
    arguments : mapping
        JSON values as the header records them: ``models`` (name to price), ``units`` (a list in
        bank order, or None) and the keyword arguments of `Ranker`.
    """
    arguments = in_todays_words(arguments)
    rest = {k: v for k, v in arguments.items() if k not in ("models", "options")}
    return Ranker(bank, arguments["models"], **rest, **arguments["options"])


def rebuild(folder: str | Path) -> tuple[Book, Record]:
    """The state of a run, from its directory alone: no configuration, task or model is needed.

    Returns
    -------
    book : Book
        Settled; for reading.
    header : dict
        The journal's first record.

    Raises
    ------
    RunError
        If there is no journal, it was written by another version, or it contradicts itself.
    BankError
        If the directory's copy of the bank is damaged.
    """
    directory = RunDirectory(folder)
    header = directory.read_header()
    return book_of(load_banks(directory.path), directory.journal, header), header


def book_of(
    banks: ItemBank | Mapping[str, Mapping[str, ItemBank]], journal: JournalFile, header: Record
) -> Book:
    """Rebuild a run's state from a journal and its banks, wherever they are."""
    book = Book(make_ranker(banks, header["ranker"]), journal)
    book.read()
    book.settle()
    return book
