"""What a journal adds to the Ranker's state: money in three columns, tokens, failures, time."""

# ruff: noqa: RUF009 - each model's sum begins empty

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..money import ASSUMED, BILLED, UNKNOWN, no_money, sum_of
from .journal import Record

Pair = tuple[str, Any]
#: Notes of earlier versions: an attempt that was given up, and those that a session left under way.
LOST, CUT_OFF = "lost attempt", "in flight when the session before ended"

#: Ends of an answer that its model did not choose.
CUT = {"length": "cut at the token limit", "content_filter": "withheld by a content filter"}
#: From which difference of their shares, in all and in its standard errors, two models are not
#: comparable; and the fewest answers.
UNLIKE, SURE, FEWEST = 0.2, 2.5, 8


def _by_model(empty: Callable[[], Any]) -> Any:
    return field(default_factory=lambda: defaultdict(empty))


@dataclass
class Tally:
    """Sums over the records of a journal, by model.

    Attributes
    ----------
    paid : dict of (model, task) to dict of column to float
        Dollars, where the price is known; of all attempts, told or not.
    attempts : dict of model to dict of reason to int
        Attempts that brought nothing, by what became of them.
    seconds : dict of model to float
        Of all answers.
    answered, input_tokens, output_tokens, token_sources, empty_outputs, prior
        Of the answers that the Ranker knows.
    served : dict of model to dict of (str, str) to int
        Answers by what the server said that gave them: its model and its fingerprint, each "" where
        it did not say, in the order in which they first came.
    finished : dict of model to dict of reason to int
        Answers by how they ended (``"length"``, ``"content_filter"``, ...).
    sent : dict of model to dict
        Settings of generation as they were sent with the first answer.
    refused_usage : dict of model to str
        The server's last statement of tokens that cannot be right.
    unscored : dict of model to list of str
        Why answers that have a score lack another, because a judge failed.
    failures : dict of model to list of (item, reason)
    set_aside : dict of model to str
        Models that are asked nothing now, and why.
    away : set of str
        Those of them that may come back by themselves.
    wire : dict of model to int
        Most items that a model had under way at once in the last session.
    put_aside : bool
        Whether a model was ever put aside, after which no other run asks just the same.
    changes : list of dict
        Records of what changed during the run.
    elapsed : float
        Seconds of running, up to the last record.
    resumed : int
    """

    paid: dict[tuple[str, str], dict[str, float]] = _by_model(no_money)
    attempts: dict[str, dict[str, int]] = _by_model(lambda: defaultdict(int))
    answered: dict[str, int] = _by_model(int)
    seconds: dict[str, float] = _by_model(float)
    input_tokens: dict[str, float] = _by_model(float)
    output_tokens: dict[str, float] = _by_model(float)
    token_sources: dict[str, set[str]] = _by_model(set)
    empty_outputs: dict[str, int] = _by_model(int)
    prior: dict[str, int] = _by_model(int)
    unscored: dict[str, list[str]] = _by_model(list)
    served: dict[str, dict[tuple[str, str], int]] = _by_model(dict)
    finished: dict[str, dict[str, int]] = _by_model(lambda: defaultdict(int))
    sent: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    refused_usage: dict[str, str] = field(default_factory=dict)
    failures: dict[str, list[tuple[Any, str]]] = _by_model(list)
    set_aside: dict[str, str] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    wire: dict[str, int] = field(default_factory=dict)
    put_aside: bool = False
    changes: list[Record] = field(default_factory=list)
    elapsed: float = 0.0
    resumed: int = 0
    _last: float | None = None

    def count(self, record: Record) -> None:
        """Take in one record."""
        op, when = record.get("op"), record.get("time")
        if op == "session":
            self.resumed += record.get("event") == "resume"
        elif when is not None and self._last is not None:
            self.elapsed += max(0.0, when - self._last)
        if when is not None:
            self._last = when
        model = str(record.get("model"))
        match op:
            case "tell" | "fail":
                source = (record.get("tokens") or {}).get("source", "usage")
                self._pay(model, record, BILLED if source == "usage" else ASSUMED)
                self.seconds[model] += record.get("seconds") or 0.0
            case "lost":
                self._pay(model, record, UNKNOWN)
                self.attempts[model][str(record.get("why", "lost"))] += 1
            case "note":
                self._note(record, model)
            case "release" if record.get("cost"):
                self._pay(model, {"usd": record["cost"]}, UNKNOWN)
            case "drop":
                self.set_aside[model] = record["reason"]
                (self.away.add if record.get("away") else self.away.discard)(model)
                self.put_aside = True
            case "restore":
                self.set_aside.pop(model, None)
                self.away.discard(model)
            case "change":
                self.changes.append(record)

    @property
    def changed(self) -> set[str]:
        """Models whose server named another model or fingerprint during the run."""
        return {name for name, identities in self.served.items() if len(identities) > 1}

    def unlike(self, reason: str) -> set[tuple[str, str]]:
        """Pairs of models whose answers ended so unlike often that they are not comparable."""
        if not any(reason in ends for ends in self.finished.values()):
            return set()
        counts = {
            name: (ends.get(reason, 0), self.answered[name])
            for name, ends in self.finished.items()
            if self.answered[name] >= FEWEST
        }
        shares = [k / n for k, n in counts.values()]
        if not shares or max(shares) - min(shares) < UNLIKE:  # as after nearly every answer
            return set()
        names, (k, n) = list(counts), np.array(list(counts.values()), dtype=float).T
        both = (k[:, None] + k) / (n[:, None] + n)
        error = np.sqrt(both * (1.0 - both) * (1.0 / n[:, None] + 1.0 / n))
        far = np.abs((k / n)[:, None] - k / n) >= np.maximum(UNLIKE, SURE * error)
        return {(names[a], names[b]) for a, b in np.argwhere(np.triu(far, 1)).tolist()}

    def elapsed_at(self, now: float) -> float:
        """Seconds of running up to now."""
        return self.elapsed + (0.0 if self._last is None else max(0.0, now - self._last))

    def money(self, model: str, task: str | None = None) -> dict[str, float] | None:
        """Return what a model cost, for all tasks or one, by column; None without a known price."""
        rows = [c for (m, t), c in self.paid.items() if m == model and task in (None, t)]
        return sum_of(rows)

    def _pay(self, model: str, record: Mapping[str, Any], column: str) -> None:
        if (usd := record.get("usd")) is not None:
            task, _ = record.get("item", ("", None))
            self.paid[model, task][record.get("column", column)] += usd

    def told(self, record: Record) -> None:
        """Take in an answer or failure as the Ranker hears of it."""
        model, tokens = record["model"], record.get("tokens") or {}
        if record["op"] == "fail":
            self.failures[model].append((record["item"], record["reason"]))
            return
        self.answered[model] += 1
        if record.get("prior") is not None:
            self.prior[model] += 1
        if tokens:
            self.input_tokens[model] += tokens["input"]
            self.output_tokens[model] += tokens["output"]
            self.token_sources[model].add(tokens["source"])
        self.empty_outputs[model] += bool(record.get("empty"))
        if record.get("unscored"):
            self.unscored[model].append("; ".join(record["unscored"]))
        served = record.get("served") or ()
        for identity in dict.fromkeys(
            (one.get("model") or "", one.get("fingerprint") or "") for one in served
        ):
            if any(identity):
                self.served[model][identity] = self.served[model].get(identity, 0) + 1
        for reason in {reason for one in served for reason in one.get("finish", ())}:
            self.finished[model][reason] += 1
        for one in served:
            if one.get("sent"):
                self.sent.setdefault(model, one["sent"])
            if one.get("refused_usage"):
                self.refused_usage[model] = one["refused_usage"]

    def _note(self, record: Record, model: str) -> None:
        if record["event"] == "windows":
            self.wire = record["wire"]
        elif record["event"] == "beyond the bank":
            self._pay(model, record, BILLED)
        elif record["event"] in (LOST, CUT_OFF) or record["event"].startswith("late "):
            # Of earlier versions, which stated costs in the budget's currency.
            column = ASSUMED if record["event"] == LOST else UNKNOWN
            self._pay(model, {"usd": record.get("cost") or 0.0}, column)
