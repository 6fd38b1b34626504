"""Journals as runs write them that tell answers where they come, without a line and its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lm_eval_ccat.records import Drop, End, Fail, Record, Release, Restore, Tell
from lm_eval_ccat.runs.book import Book, NewAsk
from lm_eval_ccat.runs.directory import RunDirectory, load_banks, make_ranker


class Teller(Book):
    """A book whose answers are told at once; every call is a record of the journal.

    Runs with ``order: arrival`` write such journals.
    """

    @classmethod
    def of(cls, folder: Path) -> Teller:
        """The run of a directory, to go on with."""
        directory = RunDirectory(folder)
        book = cls(make_ranker(load_banks(folder), directory.read_header()), directory.journal)
        book.read()
        return book

    def ask(self, n: int = 1, model: str | None = None) -> list[tuple[str, Any]]:
        """Ask the Ranker for at most `n` pairs."""
        pairs = self.ranker.ask(n, model=model)
        self.write_asks([NewAsk(self.add_ask(*pair), self.n_told) for pair in pairs])
        return pairs

    def answer(self, model: str, item: Any, score: Any, cost: float, **details: Any) -> None:
        """An answer, told at once."""
        item = self.journal.item(item)
        self.write([Tell(model=model, item=item, score=score, cost=cost, **details)])

    def fail(self, model: str, item: Any, reason: str, **details: Any) -> None:
        """An item that a model cannot do."""
        item = self.journal.item(item)
        self.write([Fail(model=model, item=item, reason=reason, **details)])

    def release(self, model: str, item: Any) -> None:
        """Give an item back."""
        self.write([Release(model=model, item=self.journal.item(item))])

    def drop(self, model: str, reason: str) -> None:
        """Set a model aside, once."""
        self.ranker.estimate(model)  # refuses a model that is not there, before it is written
        if model not in self.tally.set_aside:
            self.write([Drop(model=model, reason=reason)])

    def restore(self, model: str) -> None:
        """Take a model back."""
        if model in self.tally.set_aside:
            self.write([Restore(model=model)])

    def stop(self, reason: str) -> None:
        """End the ranking."""
        if not self.ranker.done:
            self.event(End(reason=reason))

    def _apply(self, record: Record) -> None:
        super()._apply(record)
        if isinstance(record, End):  # nothing waits in a line
            self.settle()

    @property
    def claims(self) -> set[tuple[str, Any]]:
        """What was asked and has no answer."""
        return self.ranker.in_flight
