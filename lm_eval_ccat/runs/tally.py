"""`Tally`: what the records of a run's journal add up to, by model."""

# ruff: noqa: RUF009 - `_by_model` returns a dataclass field

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..money import UNKNOWN, Tokens, no_money, sum_of
from ..records import (
    Answered,
    Change,
    Drop,
    End,
    Fail,
    Interrupt,
    Lost,
    Record,
    Restore,
    Session,
    Tell,
    Unrated,
    Warn,
    Windows,
)
from .differences import LEAVES, MODEL

#: Ways in which an answer ends other than by the model's choice, in words.
CUT_REASONS = {"length": "cut at the token limit", "content_filter": "withheld by a content filter"}
#: Two models are not comparable if their shares of answers cut for such a reason differ by this
#: much, and by so many standard errors; with so many answers of each at least.
UNLIKE, UNLIKE_ERRORS, FEWEST_ENDS = 0.2, 2.5, 8
#: Why a request counts as lost until the journal says what became of it, so that the bill holds if
#: the process is killed before: it was sent beside another that its open ask stands for, or its ask
#: may leave the line before its answer arrives.
SENT_BESIDE, LEFT_BEHIND = "sent beside another", "left behind"
#: How refusals begin, in English.
_REFUSAL = re.compile(
    r"\s*(sorry\b|i('m| am)?( very| really)? (sorry|unable to|not able to)\b|as an ai\b|"
    r"i (cannot|can't|can not|can’t|won't|will not) (help|assist|answer|comply|provide|do)\b)",
    re.IGNORECASE,
)


def _texts(responses: Iterable[Any]) -> Iterator[str]:
    """Yield the texts among the responses of an answer."""
    for response in responses:
        if isinstance(response, str):
            yield response
        elif isinstance(response, list | tuple):
            yield from _texts(response)


def _by_model(empty: Callable[[], Any]) -> Any:
    """Declare a field: a dictionary, most of them by model, whose missing values `empty` makes."""
    return field(default_factory=lambda: defaultdict(empty))


@dataclass
class Costs:
    """Dollars or tokens of one model's answers: how many, their sum, and the largest."""

    answers: int = 0
    total: float = 0.0
    largest: float = 0.0

    def add(self, amount: float) -> None:
        """Add the dollars or tokens of one answer."""
        self.answers, self.total = self.answers + 1, self.total + amount
        self.largest = max(self.largest, amount)

    def of_lost_attempt(self, column: str) -> float | None:
        """Return what to count for an attempt without an answer; None before the first answer.

        It is the largest cost of an answer if nobody knows whether the attempt was billed (`column`
        is `UNKNOWN`), else their mean.
        """
        if not self.answers:
            return None
        return self.largest if column == UNKNOWN else self.total / self.answers


@dataclass
class ScoreRange:
    """Scores of one model: how many, the lowest and the highest on [0, 1], and the last raw one."""

    count: int = 0
    low: float = math.inf
    high: float = -math.inf
    raw: float | None = None

    def add(self, score: float, raw: float | None) -> None:
        """Add one score."""
        self.low, self.high = min(self.low, score), max(self.high, score)
        self.count, self.raw = self.count + 1, raw


class OtherModel(NamedTuple):
    """The model that a server was asked for, and another that answered."""

    asked: str
    answered: str


class Identity(NamedTuple):
    """Which model a server says that it serves: its name and its fingerprint; "" for none."""

    model: str
    fingerprint: str


@dataclass
class Tally:
    """Sums over the records of a journal, by model.

    Attributes
    ----------
    asked : dict of model to int
        Requests that were sent and are or may be billed, whether or not their answers count.
    costs, lengths : dict of model to Costs
        Dollars and tokens of single answers.
    paid : dict of model to dict of task to dict of column to float
        Dollars for all attempts, told or not, where the price is known.
    attempts : dict of model to dict of reason to int
        Attempts without an answer, by their kind of failure.
    seconds : dict of model to float
        Seconds of all answers.
    answering : set of str
        Models with an answer (`Answered.has_answer`), told or not.
    answered, empty_outputs, empty_at_limit, prior : dict of model to int
        Scored answers that the Ranker was told; those without text; those of them that ended at the
        token limit; and those that were paid for in another run.
    tokens, token_sources : dict of model to Tokens, and to set of str
        Tokens of these answers, and who counted them (`Tokens.source`).
    scores : dict of (task, outcome) to dict of model to ScoreRange
        Range of the scores of these answers; "" names a task's only outcome.
    outside : dict of model to int
        Tokens of these answers that the server counts only in its total.
    served : dict of model to dict of Identity to int
        Answers by what the server reported, in order of first appearance.
    finished : dict of model to dict of reason to int
        Answers by the reason why they ended (``"length"``, ``"content_filter"``, ...).
    refusals : dict of model to int
        Answers that begin as a refusal does.
    instead_of : dict of model to OtherModel
        The last answer that came from another model than was asked for.
    tiers : dict of model to dict of str to int
        Requests by their service tier, where that is another than was asked for.
    sent : dict of model to dict
        Generation settings as sent with the first answered request.
    refused_usage : dict of model to str
        The server's last token counts that cannot be right.
    unscored : dict of model to list of str
        Reasons why scored answers lack another score, because a judge failed.
    failures : dict of model to list of (item, reason)
    set_aside : dict of model to str
        Models that are not asked at present, with the reason.
    away : set of str
        Those of `set_aside` that may come back by themselves.
    wire : dict of model to int
        Most items that a model could have in flight at once in the last session.
    unheard : dict of model to int
        Items in flight when the run ended, of which the journal says nothing since.
    ever_set_aside : bool
        Whether a model was ever set aside, so that no other run asks exactly the same.
    by_clock : str
        How time decided what was asked, so that no other run does; "" if it did not.
    changes : list of Change
        Changes during the run.
    warnings : dict of str to None
        What sessions warned of before a model was asked, each text once.
    elapsed : float
        Seconds that the run took, up to the last record; those of completing it do not count.
    """

    asked: dict[str, int] = _by_model(int)
    costs: dict[str, Costs] = _by_model(lambda: Costs())
    lengths: dict[str, Costs] = _by_model(lambda: Costs())
    paid: dict[str, dict[str, dict[str, float]]] = _by_model(lambda: defaultdict(no_money))
    attempts: dict[str, dict[str, int]] = _by_model(lambda: defaultdict(int))
    answering: set[str] = field(default_factory=set)
    answered: dict[str, int] = _by_model(int)
    seconds: dict[str, float] = _by_model(float)
    tokens: dict[str, Tokens] = field(default_factory=dict)
    token_sources: dict[str, set[str]] = _by_model(set)
    scores: dict[tuple[str, str], dict[str, ScoreRange]] = field(default_factory=dict)
    outside: dict[str, int] = _by_model(int)
    empty_outputs: dict[str, int] = _by_model(int)
    empty_at_limit: dict[str, int] = _by_model(int)
    prior: dict[str, int] = _by_model(int)
    unscored: dict[str, list[str]] = _by_model(list)
    served: dict[str, dict[Identity, int]] = _by_model(dict)
    finished: dict[str, dict[str, int]] = _by_model(lambda: defaultdict(int))
    refusals: dict[str, int] = _by_model(int)
    instead_of: dict[str, OtherModel] = field(default_factory=dict)
    tiers: dict[str, dict[str, int]] = _by_model(lambda: defaultdict(int))
    sent: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    refused_usage: dict[str, str] = field(default_factory=dict)
    failures: dict[str, list[tuple[Any, str]]] = _by_model(list)
    set_aside: dict[str, str] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    wire: dict[str, int] = field(default_factory=dict)
    unheard: dict[str, int] = field(default_factory=dict)
    ever_set_aside: bool = False
    by_clock: str = ""
    changes: list[Change] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    elapsed: float = 0.0
    #: Requests that count as lost until the journal says what became of them, by model and item.
    pending: dict[tuple[str, Any], list[Lost]] = _by_model(list)
    _last: float | None = None
    #: Dollars of the answers that no judge has rated yet.
    _unrated: dict[tuple[str, Any], float] = field(default_factory=dict)

    def count(self, record: Record) -> None:
        """Add one record to the sums, but not to those of answers that the Ranker was told.

        `count_answer` adds to these when the Ranker is told.
        """
        self._count_time(record)
        if isinstance(record, Answered) and record.has_answer:
            self.answering.add(record.model)
        self._count_heard(record)
        self._settle_pending(record)
        match record:
            case Unrated():
                self._unrated[record.pair] = record.usd or 0.0
                (self._pay if record.beyond else self._count_paid)(record)
            # It was counted when it arrived; its judge is paid now.
            case Answered(usd=usd) if record.pair in self._unrated:
                paid = self._unrated.pop(record.pair)
                rating = replace(record, usd=None if usd is None else usd - paid)
                self._pay(rating)
            case Answered(beyond=True) | Lost(beyond=True):
                self._pay(record)
            case Answered():
                self._count_paid(record)
            case Lost(model=model):
                self._pay(record)
                self.asked[model] += record.column is not None  # else nothing was billed
                self.attempts[model][record.why] += 1
            case Windows():
                self.wire = record.wire
                if record.arrival:
                    self.by_clock = "answers took effect as they arrived"
            case Drop(model=model):
                self.set_aside[model] = record.reason
                (self.away.add if record.away else self.away.discard)(model)
                self.ever_set_aside = True
            case Restore(model=model):
                self.set_aside.pop(model, None)
                self.away.discard(model)
            # Which answers had arrived at the deadline depended on how fast servers are.
            case End(gaps=True):
                self.by_clock = "the run ended at a deadline"
            case Change():
                self.changes.append(record)
            case Warn():
                self.warnings |= dict.fromkeys(record.texts)

    def _count_heard(self, record: Record) -> None:
        """Count what the journal says of the items that were in flight when the run ended."""
        match record:
            case End():
                self.unheard = dict(record.wire)
            case Windows() | Interrupt():
                self.unheard = {}
            # An answer that a judge has rated since was counted when it arrived.
            case Answered() | Lost() if not record.beyond and self.unheard.get(record.model):
                if not (isinstance(record, Answered) and record.pair in self._unrated):
                    self.unheard[record.model] -= 1

    def _settle_pending(self, record: Record) -> None:
        """Keep a request that is lost for the present; take one back once its end is recorded.

        The first answer to an item ends one that was left behind, but none that was sent beside
        another: of these one is still in flight, whichever was answered.
        """
        # What a killed process left in flight is lost for good.
        if isinstance(record, Session):
            self.pending.clear()
        if not isinstance(record, Answered | Lost) or record.beyond:
            return
        if isinstance(record, Answered) and not record.has_answer:
            return
        pair = record.model, record.item
        if isinstance(record, Lost) and record.why in (SENT_BESIDE, LEFT_BEHIND):
            self.pending[pair].append(record)
            return
        if not (requests := self.pending.get(pair)):
            return
        left_behind = [request for request in requests if request.why == LEFT_BEHIND]
        if ended := left_behind or (requests if isinstance(record, Lost) else []):
            request = ended[0]
            requests.remove(request)
            self._take_back(request)

    @property
    def left_behind(self) -> set[tuple[str, Any]]:
        """Models and items of requests that were left behind, of which nothing was heard since."""
        return {
            pair
            for pair, requests in self.pending.items()
            if any(request.why == LEFT_BEHIND for request in requests)
        }

    def _take_back(self, request: Lost) -> None:
        """Subtract a request that counted as lost."""
        model, reasons = request.model, self.attempts[request.model]
        self._pay(replace(request, usd=None if request.usd is None else -request.usd))
        self.asked[model] -= 1
        reasons[request.why] -= 1
        if not reasons[request.why]:
            del reasons[request.why]

    def _count_time(self, record: Record) -> None:
        """Add the seconds since the record before, unless the run stood still or was over."""
        if record.time is None:
            return
        # Between two sessions nothing runs, and completing a run does not count.
        idle = record.beyond or isinstance(record, Session | Warn)
        if not idle and self._last is not None:
            self.elapsed += max(0.0, record.time - self._last)
        self._last = record.time

    def _count_paid(self, answer: Answered) -> None:
        """Add an answer's cost, tokens and seconds; a `prior` one was paid for in another run."""
        model, tokens = answer.model, answer.tokens
        self._pay(answer)
        # The attempts of a failure without an answer were counted as they were lost.
        self.asked[model] += answer.has_answer and answer.prior is None
        if answer.usd and answer.prior is None:
            self.costs[model].add(answer.usd)
        if tokens is not None and answer.prior is None:
            self.lengths[model].add(tokens.total)
        self.seconds[model] += answer.seconds or 0.0

    @property
    def leaving_models(self) -> set[str]:
        """Models that gave no answer and that a later configuration no longer names."""
        texts = [text for change in self.changes for text in change.settings]
        leaving = [re.fullmatch(f"{MODEL}: {LEAVES}", text) for text in texts]
        return {match[1] for match in leaving if match}

    @property
    def changed_models(self) -> set[str]:
        """Models whose server named another model or fingerprint during the run."""
        return {name for name, identities in self.served.items() if len(identities) > 1}

    def unlike_pairs(self, reason: str) -> set[tuple[str, str]]:
        """Return the pairs of models whose shares of answers that end for a reason differ too much.

        Of a model's n answers, k end for the reason. Two shares k / n differ too much if the
        difference is at least `UNLIKE` and `UNLIKE_ERRORS` standard errors, sqrt(p (1 - p) (1 / n +
        1 / n')) for the share p of both models' answers together.
        """
        # This is called after every answer, and most runs have no such answer.
        if not any(reason in ends for ends in self.finished.values()):
            return set()
        counts = {
            name: (ends.get(reason, 0), self.answered[name])
            for name, ends in self.finished.items()
            if self.answered[name] >= FEWEST_ENDS
        }
        shares = [k / n for k, n in counts.values()]
        # Where the extreme shares are close, no pair needs to be compared.
        if not shares or max(shares) - min(shares) < UNLIKE:
            return set()
        names, (k, n) = list(counts), np.array(list(counts.values()), dtype=float).T
        pooled = (k[:, None] + k) / (n[:, None] + n)
        error = np.sqrt(pooled * (1.0 - pooled) * (1.0 / n[:, None] + 1.0 / n))
        apart = np.abs((k / n)[:, None] - k / n) >= np.maximum(UNLIKE, UNLIKE_ERRORS * error)
        return {
            (names[first], names[second])
            for first, second in np.argwhere(np.triu(apart, 1)).tolist()
        }

    def elapsed_at(self, moment: float) -> float:
        """Return the seconds that the run has taken up to a moment, in seconds since the epoch."""
        return self.elapsed + (0.0 if self._last is None else max(0.0, moment - self._last))

    def money(self, model: str, task: str | None = None) -> dict[str, float] | None:
        """Return what a model cost in dollars, for all tasks or one, by column of the money.

        None if no price is known.
        """
        by_task = self.paid.get(model, {})
        return sum_of(by_task[name] for name in by_task if task in (None, name))

    @property
    def money_of_all(self) -> dict[str, float] | None:
        """What all models cost, as `money` of one."""
        return sum_of(costs for by_task in self.paid.values() for costs in by_task.values())

    def _pay(self, attempt: Answered | Lost) -> None:
        """Add an attempt's dollars to a column of its model and task, if its price is known."""
        if attempt.usd is not None:
            column = attempt.column or UNKNOWN
            self.paid[attempt.model][attempt.item.task][column] += attempt.usd

    def count_answer(self, answer: Answered) -> None:
        """Add an answer or failure that the Ranker is told."""
        model, tokens = answer.model, answer.tokens
        if isinstance(answer, Fail):
            self.failures[model].append((answer.item, answer.reason))
            return
        self.answered[model] += 1
        if isinstance(answer, Tell):
            scores, raw = (
                value if isinstance(value, dict) else {"": value}
                for value in (answer.score, answer.raw)
            )
            for outcome, score in scores.items():
                by_model = self.scores.setdefault((answer.item.task, outcome), {})
                by_model.setdefault(model, ScoreRange()).add(score, raw.get(outcome))
        if answer.prior is not None:
            self.prior[model] += 1
        if tokens is not None:
            self.tokens[model] = self.tokens[model] + tokens if model in self.tokens else tokens
            self.token_sources[model].add(tokens.source)
        self.empty_outputs[model] += answer.empty
        self.refusals[model] += any(map(_REFUSAL.match, _texts(answer.responses)))
        if answer.unscored:
            self.unscored[model].append("; ".join(answer.unscored))
        self._count_served(answer)

    def _count_served(self, answer: Answered) -> None:
        """Add what a server reported of an answer's requests."""
        model = answer.model
        for identity in dict.fromkeys(
            Identity(request.get("model", ""), request.get("fingerprint", ""))
            for request in answer.served
        ):
            if any(identity):
                self.served[model][identity] = self.served[model].get(identity, 0) + 1
        for reason in {
            reason_given for request in answer.served for reason_given in request.get("finish", ())
        }:
            self.finished[model][reason] += 1
            self.empty_at_limit[model] += answer.empty and reason == "length"
        for request in answer.served:
            self.outside[model] += request.get("outside", 0)
            if request.get("tier"):
                self.tiers[model][request["tier"]] += 1
            if request.get("instead_of"):
                answered = request.get("model", "")
                self.instead_of[model] = OtherModel(request["instead_of"], answered)
            if request.get("sent"):
                self.sent.setdefault(model, request["sent"])
            if request.get("refused_usage"):
                self.refused_usage[model] = request["refused_usage"]
