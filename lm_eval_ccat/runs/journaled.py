"""A Ranker whose every call is on disk before it counts."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import RunError
from ..masking import mask_values
from .calls import apply
from .identity import COMPARED, Differences
from .journal import Journal
from .lines import Record

if TYPE_CHECKING:
    from ..ranker import Ranker

DocId = int | str
#: An item as the Ranker names it: a doc_id, or (task, doc_id).
Item = Any
Pair = tuple[str, Item]
#: A score on [0, 1], or one for each outcome.
Score = float | Mapping[str, float]
#: Notes of attempts whose answers did not come: one that was given up, and those that were under
#: way when a session ended.
LOST, CUT_OFF = "lost attempt", "in flight when the session before ended"


@dataclass
class Tally:
    """What the journal says beside the Ranker's state.

    Attributes
    ----------
    unscored : dict of model to list of str
        Why answers that have a score lack another, because a judge failed.
    lost : dict of (model, item) to float
        Cost of attempts that brought nothing and may have been billed, until the record of the
        item takes it over.
    in_doubt : dict of model to float
        What may have been billed beyond the costs told: attempts that were in flight when a
        session ended, and answers that came too late.
    """

    costs: dict[str, float] = field(default_factory=dict)
    usd: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)
    input_tokens: dict[str, float] = field(default_factory=dict)
    output_tokens: dict[str, float] = field(default_factory=dict)
    token_sources: dict[str, set[str]] = field(default_factory=dict)
    empty_outputs: dict[str, int] = field(default_factory=dict)
    unscored: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, list[tuple[Item, str]]] = field(default_factory=dict)
    set_aside: dict[str, str] = field(default_factory=dict)
    changes: list[Record] = field(default_factory=list)
    lost: dict[Pair, float] = field(default_factory=dict)
    in_doubt: dict[str, float] = field(default_factory=dict)
    prior: dict[str, int] = field(default_factory=dict)
    elapsed: float = 0.0
    resumed: int = 0

    @property
    def cost_in_doubt(self) -> float:
        """What may have been billed beyond the costs told, of all models."""
        return sum(self.in_doubt.values()) + sum(self.lost.values())


class JournaledRanker:
    """Drives a Ranker and its journal together.

    A call is written first and applied second, so that what the Ranker knows is never more than
    what is on disk.  ``ask`` alone is applied, written, and only then handed out.  Replaying the
    journal imposes the pairs and draws that it records: nothing is selected again, so that a run
    outlives a change of the method that selects.

    Parameters
    ----------
    ranker : Ranker
        Fresh; the calls that the journal already holds are replayed on it by :meth:`sync`.
    journal : Journal
        With its header record already written.
    clock : callable
        Seconds of the epoch.
    """

    def __init__(
        self,
        ranker: Ranker,
        journal: Journal,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.ranker = ranker
        self.journal = journal
        #: Pairs that were asked for and not answered, in that order.
        self.claims: dict[Pair, None] = {}
        self.answers: dict[Pair, Record] = {}
        self.tally = Tally()
        self.changed = threading.Condition(threading.RLock())
        self.ranker_seconds = 0.0
        self.journal_seconds = 0.0
        self.sync_seconds = 0.0
        self._clock = clock
        self._last_time: float | None = None

    # -- reading ---------------------------------------------------------------------------

    def sync(self) -> int:
        """Replay what the journal holds beyond what was replayed or written before.

        Returns
        -------
        int
            Number of new records.
        """
        with self.changed:
            records = self.journal.read_new()
            for record in records:
                self._replay(record)
            return len(records)

    def _replay(self, record: Record) -> None:
        self._apply(record)
        self._count(record)

    def _apply(self, record: Record) -> None:
        started = time.perf_counter()
        apply(self.ranker, record, str(self.journal))
        self.ranker_seconds += time.perf_counter() - started

    def _count(self, record: Record) -> None:
        op, tally, when = record["op"], self.tally, record.get("time")
        if op == "session":
            tally.resumed += record.get("event") == "resume"
        elif when is not None and self._last_time is not None:
            tally.elapsed += max(0.0, when - self._last_time)
        if when is not None:
            self._last_time = when
        model, pair = record.get("model"), (record.get("model", ""), record.get("item", ""))
        if op == "ask":
            self.claims.update(dict.fromkeys(record["pairs"]))
            return
        if op in ("tell", "fail", "release"):
            self.claims.pop(pair, None)
        if op == "note" and record["event"] == LOST:
            _add(tally.lost, pair, record["cost"])
        elif op in ("note", "release") and model is not None:
            _add(tally.in_doubt, model, record.get("cost"))
        if op == "release":
            _add(tally.in_doubt, str(model), tally.lost.pop(pair, None))
        elif op in ("tell", "fail") or (op == "note" and record["event"].startswith("late ")):
            tally.lost.pop(pair, None)  # the record's cost holds it
        if op == "drop":
            tally.set_aside[str(model)] = record["reason"]
            self.claims = dict.fromkeys(p for p in self.claims if p[0] != model)
        if op == "fail":
            tally.failures.setdefault(str(model), []).append((record["item"], record["reason"]))
        if op == "restore":
            tally.set_aside.pop(str(model), None)
        if op == "change":
            tally.changes.append(record)
        if op in ("tell", "fail"):
            name = str(model)
            _add(tally.costs, name, record.get("cost"))
            _add(tally.seconds, name, record.get("seconds"))
            if record.get("usd") is not None:
                _add(tally.usd, name, record["usd"])
        if op == "tell" or "responses" in record:
            self.answers[pair] = record  # also an answer without a score, or beyond the bank
        if op == "tell":
            _add(tally.answered, name, 1)
            if record.get("prior") is not None:
                _add(tally.prior, name, 1)
            tokens = record.get("tokens")
            if tokens:
                _add(tally.input_tokens, name, tokens["input"])
                _add(tally.output_tokens, name, tokens["output"])
                tally.token_sources.setdefault(name, set()).add(tokens["source"])
            _add(tally.empty_outputs, name, 1 if record.get("empty") else 0)
            if record.get("unscored"):
                tally.unscored.setdefault(name, []).append("; ".join(record["unscored"]))

    # -- calls ------------------------------------------------------------------------------

    def ask(self, count: int = 1, model: str | None = None) -> list[Pair]:
        """Claim at most ``count`` pairs (model, item)."""
        with self.changed:
            started = time.perf_counter()
            pairs = [(name, _plain(item)) for name, item in self.ranker.ask(count, model=model)]
            self.ranker_seconds += time.perf_counter() - started
            if pairs:
                # Asks that give nothing change nothing, so they are not written.
                self._write(
                    {
                        "op": "ask",
                        "count": count,
                        "model": model,
                        "pairs": pairs,
                        "draws": [self.ranker.probability(*pair) for pair in pairs],
                    }
                )
            return pairs

    def tell(self, model: str, item: Item, score: Score, cost: float, **details: Any) -> None:
        """Record an answer: its score on [0, 1], its cost, and what is kept with it.

        Parameters
        ----------
        model : str
        item : doc_id or (task, doc_id)
        score : float or mapping of str to float
            One score, or one for each outcome.
        cost : float
        **details
            JSON values; the Ranker does not see them.

        Raises
        ------
        RunError
            A score is not in [0, 1], or the journal cannot be written.
        """
        scores = dict(score) if isinstance(score, Mapping) else {"": score}
        for value in scores.values():
            if not (isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1):
                raise RunError(f"score {value!r} of {model} on item {item!r} is not in [0, 1]")
        _require_cost(cost)
        told = {name: float(value) for name, value in scores.items()}
        record = {"score": told if isinstance(score, Mapping) else told[""], "cost": float(cost)}
        self._call({"op": "tell", **record}, model, item, details)

    def fail(self, model: str, item: Item, reason: str, **details: Any) -> None:
        """Record that a model cannot do an item; it is not offered to that model again."""
        _require_cost(details.get("cost") or 0.0)
        self._call({"op": "fail", "reason": reason}, model, item, details)

    def release(self, model: str, item: Item, **details: Any) -> None:
        """Give a claimed item back unanswered."""
        self._call({"op": "release"}, model, item, details)

    def _call(self, record: Record, model: str, item: Item, details: Record) -> None:
        with self.changed:
            if self.ranker.reserved(model, item) is None:
                # The model was set aside meanwhile. What was spent is still worth a note; the
                # answer no longer counts.
                note = {"op": "note", "event": f"late {record['op']}", "model": model, "item": item}
                self._write({**note, "cost": record.get("cost")})
                return
            full = {"op": record["op"], "model": model, "item": item, **record, **details}
            self._write(full, apply=True)
        # Outside the lock: nobody need wait for the disk but the one whose answer it is.  A power
        # cut before this takes answer and Ranker alike, so what remains still fits together.
        started = time.perf_counter()
        self.journal.make_durable()
        self.sync_seconds += time.perf_counter() - started

    def drop(self, model: str, reason: str) -> None:
        """Set a model aside; its partial result stays."""
        with self.changed:
            self.ranker.estimate(model)  # refuses a model that is not there, before it is written
            if model not in self.tally.set_aside:
                self._write({"op": "drop", "model": model, "reason": reason}, apply=True)

    def restore(self, model: str) -> None:
        """Take back a model that was set aside."""
        with self.changed:
            if model in self.tally.set_aside:
                self._write({"op": "restore", "model": model}, apply=True)

    def stop(self, reason: str) -> None:
        """End the ranking, as a journalled call."""
        with self.changed:
            if not self.ranker.done:
                self._write({"op": "stop", "reason": reason}, apply=True)

    def change(self, found: Differences, identity: Mapping[str, Any]) -> None:
        """Change a living run, as its directory found that it may.

        Parameters
        ----------
        found : Differences
            Of :meth:`RunDirectory.require_same`; nothing is written where nothing has changed.
        identity : mapping
            What the run is from now on; the next resume is compared with it.
        """
        if not (found.changes or found.ranker):
            return
        kept = {k: identity[k] for k in (*COMPARED, "ranker") if k in identity}
        record = {"ranker": found.ranker, "settings": found.changes, "identity": mask_values(kept)}
        with self.changed:
            self._write({"op": "change", **record}, apply=True)

    def note(self, event: str, op: str = "note", **details: Any) -> None:
        """Write something that the Ranker does not see."""
        with self.changed:
            self._write({"op": op, "event": event, **details})

    def _write(self, record: Record, apply: bool = False) -> None:
        started = time.perf_counter()
        record = mask_values({**record, "time": round(self._clock(), 3)})
        self.journal.append([record])
        self.journal_seconds += time.perf_counter() - started
        if apply:
            self._apply(record)
        self._count(record)
        self.changed.notify_all()

    # -- state ------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the ranking is over."""
        with self.changed:
            return self.ranker.done

    def unanswered(self, model: str | None = None) -> list[Pair]:
        """Claimed pairs in the order in which they were handed out."""
        with self.changed:
            return [pair for pair in self.claims if model is None or pair[0] == model]

    def elapsed(self) -> float:
        """Seconds of running so far, over all sessions of the journal."""
        with self.changed:
            since = 0.0 if self._last_time is None else self._clock() - self._last_time
            return self.tally.elapsed + max(0.0, since)


def _require_cost(cost: float) -> None:
    """Refuse a cost before it is written that the Ranker would refuse afterwards."""
    if not (isinstance(cost, int | float) and math.isfinite(cost) and cost >= 0.0):
        raise RunError(f"cost {cost!r} is not a number of at least 0")


def _plain(item: Any) -> Any:
    """An item as JSON can hold it: arrays hand out NumPy integers."""
    if isinstance(item, tuple):
        return (str(item[0]), _plain(item[1]))
    return item if isinstance(item, str) else int(item)


def _add(totals: dict[Any, Any], name: Any, amount: float | None) -> None:
    totals[name] = totals.get(name, 0) + (amount or 0)
