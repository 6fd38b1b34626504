"""`Book`: a Ranker and the journal of all its asks and answers; `Tally`: sums over the journal.

Every ask has a number, and the book tells the Ranker each answer in the order of its number; an
answer that arrives early waits. No line records the telling itself: a line of asks or an event
states how many answers were told before it, and a replay first tells that many. A run of
``order: arrival`` tells answers in the order of their lines.

Replaying uses the pairs and draws that the journal records and selects nothing again, so a run can
be read after a change of the method that selects.
"""

# ruff: noqa: RUF009 - `_by_model` returns a dataclass field

from __future__ import annotations

import json
import math
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import OtherSettingsError, RunError
from ..journal import Journal
from ..money import ASSUMED, BILLED, UNKNOWN, Tokens, no_money, sum_of
from ..ranker import Ranker
from ..records import (
    Answered,
    Asks,
    BeyondBank,
    Change,
    Drop,
    End,
    Event,
    Fail,
    Header,
    Item,
    Lost,
    Record,
    Release,
    Restore,
    Session,
    Tell,
    Windows,
)
from ..shown import plural, short
from .kept_answers import KeptAnswers, Pair

#: Kinds of changes that a user can accept, each by itself: prompts that differ from the bank's,
#: code that scores, what a server serves, and answers cut off at different rates.
PROMPTS, SCORING_CODE, SERVER, CUT_SHORT = CHANGES = "prompts", "scoring", "server", "cut"
#: States of an ask.
OPEN, ANSWERED, TOLD, LEFT = "open", "answered", "told", "left"


@dataclass
class Ask:
    """One item put to a model.

    Attributes
    ----------
    number : int
        Its position in the line.
    model, item
    state : str
        ``"open"``, ``"answered"`` (but not told yet), ``"told"`` or ``"left"`` (its model was put
        aside, or the run ended first).
    answer : Answered or None
        Its answer or failure.
    """

    number: int
    model: str
    item: Item
    state: str = OPEN
    answer: Answered | None = None

    @property
    def pair(self) -> Pair:
        """Model and item."""
        return self.model, self.item


# -- sums over the records ------------------------------------------------------------------------

#: Ways in which an answer ends other than by the model's choice, in words.
CUT = {"length": "cut at the token limit", "content_filter": "withheld by a content filter"}
#: Difference of such shares, absolute and in standard errors, from which two models are not
#: comparable; and the fewest answers for this test.
UNLIKE, SURE, FEWEST = 0.2, 2.5, 8


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
    return field(default_factory=lambda: defaultdict(empty))


@dataclass
class Costs:
    """Dollars or tokens of one model's answers: how many, their sum, and the largest."""

    answers: int = 0
    total: float = 0.0
    largest: float = 0.0

    def add(self, amount: float) -> None:
        """Add those of an answer."""
        self.answers, self.total = self.answers + 1, self.total + amount
        self.largest = max(self.largest, amount)

    def of_lost(self, column: str) -> float | None:
        """Return what to count for an attempt without an answer; None before the first answer.

        The mean where it was presumably billed, as it is counted as spent; the largest where it
        may have been.
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


@dataclass
class Tally:
    """Sums over the records of a journal, by model.

    Attributes
    ----------
    asked : dict of model to int
        Requests that were sent and are or may be billed, whether or not their answers count.
    costs, lengths : dict of model to Costs
        Dollars and tokens of single answers.
    paid : dict of (model, task) to dict of column to float
        Dollars for all attempts, told or not, where the price is known.
    attempts : dict of model to dict of reason to int
        Attempts without an answer, by their kind of failure.
    seconds : dict of model to float
        Seconds of all answers.
    answered, tokens, token_sources, empty_outputs, prior
        Sums over the answers that the Ranker knows.
    scores : dict of (task, outcome) to dict of model to ScoreRange
        What the scores of these reach; "" names a task's only outcome.
    outside : dict of model to int
        Tokens of these that the server counts in its total alone.
    served : dict of model to dict of (str, str) to int
        Answers by the model and fingerprint that the server reported ("" if none), in order of
        first appearance.
    finished : dict of model to dict of reason to int
        Answers by the reason why they ended (``"length"``, ``"content_filter"``, ...).
    refusals : dict of model to int
        Answers that begin as a refusal does.
    instead_of : dict of model to (str, str)
        The model that a server was asked for, and another that answered.
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
    ever_set_aside : bool
        Whether a model was ever set aside, so that no other run asks exactly the same.
    by_clock : str
        How time decided what was asked, so that no other run does; "" if it did not.
    changes : list of Change
        Changes during the run.
    elapsed : float
        Seconds that the run took, up to the last record; those of completing it do not count.
    """

    asked: dict[str, int] = _by_model(int)
    costs: dict[str, Costs] = _by_model(lambda: Costs())
    lengths: dict[str, Costs] = _by_model(lambda: Costs())
    paid: dict[tuple[str, str], dict[str, float]] = _by_model(no_money)
    attempts: dict[str, dict[str, int]] = _by_model(lambda: defaultdict(int))
    answered: dict[str, int] = _by_model(int)
    seconds: dict[str, float] = _by_model(float)
    tokens: dict[str, Tokens] = field(default_factory=dict)
    token_sources: dict[str, set[str]] = _by_model(set)
    scores: dict[tuple[str, str], dict[str, ScoreRange]] = field(default_factory=dict)
    outside: dict[str, int] = _by_model(int)
    empty_outputs: dict[str, int] = _by_model(int)
    prior: dict[str, int] = _by_model(int)
    unscored: dict[str, list[str]] = _by_model(list)
    served: dict[str, dict[tuple[str, str], int]] = _by_model(dict)
    finished: dict[str, dict[str, int]] = _by_model(lambda: defaultdict(int))
    refusals: dict[str, int] = _by_model(int)
    instead_of: dict[str, tuple[str, str]] = field(default_factory=dict)
    sent: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    refused_usage: dict[str, str] = field(default_factory=dict)
    failures: dict[str, list[tuple[Any, str]]] = _by_model(list)
    set_aside: dict[str, str] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    wire: dict[str, int] = field(default_factory=dict)
    ever_set_aside: bool = False
    by_clock: str = ""
    changes: list[Change] = field(default_factory=list)
    elapsed: float = 0.0
    _last: float | None = None

    def count(self, record: Record) -> None:
        """Add one record to the sums."""
        idle = isinstance(record, Session | BeyondBank)  # completing is not the run
        if not idle and record.time is not None and self._last is not None:
            self.elapsed += max(0.0, record.time - self._last)
        if record.time is not None:
            self._last = record.time
        match record:
            case BeyondBank():
                self._pay(record, BILLED)
            case Answered(model=model, tokens=tokens):
                self._pay(record, BILLED if tokens is None or tokens.billed else ASSUMED)
                answered = isinstance(record, Tell) or bool(record.responses)
                self.asked[model] += answered and record.prior is None
                if record.usd and record.prior is None:
                    self.costs[model].add(record.usd)
                if tokens is not None and record.prior is None:
                    self.lengths[model].add(tokens.total)
                self.seconds[model] += record.seconds or 0.0
            case Lost(model=model):
                self._pay(record, record.column or UNKNOWN)
                self.asked[model] += record.column is not None
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
            case End(gaps=True):
                self.by_clock = "the run ended at a deadline"
            case Change():
                self.changes.append(record)

    @property
    def left(self) -> set[str]:
        """Models without an answer that a later configuration names no longer."""
        texts = [text for change in self.changes for text in change.settings]
        leaving = [re.fullmatch(f"{MODEL}: {LEAVES}", text) for text in texts]
        return {match[1] for match in leaving if match}

    @property
    def changed(self) -> set[str]:
        """Models whose server named another model or fingerprint during the run."""
        return {name for name, identities in self.served.items() if len(identities) > 1}

    def unlike(self, reason: str) -> set[tuple[str, str]]:
        """Return pairs of models whose shares of such ends differ too much to compare them."""
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
        pooled = (k[:, None] + k) / (n[:, None] + n)
        error = np.sqrt(pooled * (1.0 - pooled) * (1.0 / n[:, None] + 1.0 / n))
        apart = np.abs((k / n)[:, None] - k / n) >= np.maximum(UNLIKE, SURE * error)
        return {
            (names[first], names[second])
            for first, second in np.argwhere(np.triu(apart, 1)).tolist()
        }

    def elapsed_at(self, moment: float) -> float:
        """Return the seconds that the run has taken up to now."""
        return self.elapsed + (0.0 if self._last is None else max(0.0, moment - self._last))

    def money(self, model: str, task: str | None = None) -> dict[str, float] | None:
        """Return what a model cost, for all tasks or one, by column; None without a known price."""
        rows = [
            costs
            for (name, task_of_costs), costs in self.paid.items()
            if name == model and task in (None, task_of_costs)
        ]
        return sum_of(rows)

    def _pay(self, record: Answered | Lost, column: str) -> None:
        if record.usd is not None:
            self.paid[record.model, record.item[0]][column] += record.usd

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
                by_model = self.scores.setdefault((answer.item[0], outcome), {})
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
        for identity in dict.fromkeys(
            (request.get("model", ""), request.get("fingerprint", "")) for request in answer.served
        ):
            if any(identity):
                self.served[model][identity] = self.served[model].get(identity, 0) + 1
        for reason in {
            reason_given for request in answer.served for reason_given in request.get("finish", ())
        }:
            self.finished[model][reason] += 1
        for request in answer.served:
            self.outside[model] += request.get("outside", 0)
            if request.get("instead_of"):
                self.instead_of[model] = request["instead_of"], request.get("model", "")
            if request.get("sent"):
                self.sent.setdefault(model, request["sent"])
            if request.get("refused_usage"):
                self.refused_usage[model] = request["refused_usage"]


class Book:
    """Writes a run's journal and replays it on the run's `Ranker`, so that the two agree.

    Parameters
    ----------
    ranker : Ranker
        Fresh Ranker; `read` replays the journal on it.
    journal : Journal
    clock : callable
        Returns the seconds since the epoch.

    Attributes
    ----------
    asks : deque of Ask
        The asks from the first that is neither told nor left, by number.
    n_asks : int
        Asks so far.
    n_told : int
        Answers and failures that the Ranker knows.
    answers : KeptAnswers
        The answers that the Ranker was told, and those to items beyond its bank.
    waiting : dict of (model, item) to Answered
        Answers that the Ranker was not told yet.
    told_of : dict of model to int
        `n_told` by model.
    untold : dict of model to int
        `n_untold` by model.
    ended : End or None
        With what the last session ended.
    accepted : set of str
        The `CHANGES` that are accepted.
    interrupted : bool
        Whether the last session was ended by Ctrl-C or SIGTERM.
    closed : bool
        Whether the last session accounted for all asks in flight; otherwise it was killed.
    """

    def __init__(
        self, ranker: Ranker, journal: Journal, clock: Callable[[], float] = time.time
    ) -> None:
        self.ranker = ranker
        self.journal = journal
        self.asks: deque[Ask] = deque()
        self.n_asks = self.n_told = 0
        self.answers = KeptAnswers(journal)
        self.waiting: dict[Pair, Answered] = {}
        self.ended: End | None = None
        self.tally = Tally()
        self.told_of: dict[str, int] = defaultdict(int)
        self.untold: dict[str, int] = defaultdict(int)
        self._open: dict[Pair, Ask] = {}
        self._failed: set[Pair] = set()  # without an answer
        self._beyond: set[Pair] = set()  # which the Ranker was not told
        self.interrupted, self.closed = False, True
        self.accepted: set[str] = set()
        self._barred: set[tuple[str, str]] = set()
        self._lost = 0.0  # cost of attempts by which the budget is not lowered yet
        self._clock = clock

    # -- what a reader calls ---------------------------------------------------------------

    def read(self) -> None:
        """Replay the records that this book has neither read nor written yet.

        Raises
        ------
        RunError
            The journal is damaged, holds records of a later version, or contradicts itself.
        """
        self.replay(self.journal.read_new())

    def replay(self, records: Iterable[Record]) -> None:
        """Process records that are in the journal already."""
        for record in records:
            self._take(record)

    def settle(self) -> None:
        """Bring the Ranker up to date for results; nothing may be asked afterwards.

        It tells answers whose turn has come, but none after the answer that ended the run, and
        releases the remaining asks.
        """
        if self.ended is not None:
            self._tell_to(self.ended.after)
            if self.ended.gaps:
                for ask in list(self.asks):
                    if ask.state == ANSWERED:
                        self.tell(ask)
        while self.ended is None and (due := self.next_told) is not None:
            self.tell(due)
        if self.ended is not None:
            for ask in list(self._open.values()):
                self._close(ask, LEFT)
                self.ranker.release(*ask.pair)
            if self.ended.reason:
                self.ranker.stop(self.ended.reason)

    @property
    def next_told(self) -> Ask | None:
        """The ask whose answer is told next; None if that answer has not arrived."""
        head = self.head
        return head if head is not None and head.state == ANSWERED else None

    @property
    def head(self) -> Ask | None:
        """The first ask that is neither told nor left."""
        while self.asks and self.asks[0].state in (TOLD, LEFT):
            self.asks.popleft()
        return self.asks[0] if self.asks else None

    @property
    def n_untold(self) -> int:
        """Number of asks that are neither told nor left."""
        return len(self._open)

    @property
    def unanswered(self) -> list[Ask]:
        """The asks without an answer, by number."""
        return [ask for ask in self._open.values() if ask.state == OPEN]

    def held_up(self) -> str:
        """Say how many answers wait for an earlier one, and whose; "" if none do.

        Answers count in the order in which they were asked.
        """
        if not self.waiting or not (ahead := self.unanswered) or self.ended is not None:
            return ""
        return (
            f"{plural(len(self.waiting), 'answer')} will count once {ahead[0].model} answers an "
            "item that was asked before theirs"
        )

    def has(self, pair: Pair) -> bool:
        """Whether a pair has an answer or was given up, told or not."""
        if pair in self._failed or pair in self.waiting:
            return True
        return pair in self.answers and pair not in self._beyond

    @property
    def done(self) -> bool:
        """Whether the journal says that the run is over."""
        return self.ended is not None or self.ranker.done

    def elapsed(self) -> float:
        """Return the seconds that the run has taken so far, over all its sessions."""
        return self.tally.elapsed_at(self._clock())

    # -- what a run calls --------------------------------------------------------------------

    def write(self, records: Sequence[Record]) -> None:
        """Write answers and notes in one piece, then process them.

        Raises
        ------
        RunError
            A score is not in [0, 1], a cost is below 0, or the journal cannot be written. None of
            the records count then.
        """
        if not records:
            return
        for record in records:
            if isinstance(record, Tell | Fail):  # write nothing that the Ranker would refuse
                self._require_valid(record)
        moment = round(self._clock(), 3)
        written = [record.masked(moment) for record in records]
        places = self.journal.append(written)
        if any(isinstance(record, Answered | Lost | Release) for record in written):
            self.journal.make_durable()  # paid for: it survives a power cut
        for record, place in zip(written, places):
            self._take(replace(record, place=place))

    def _require_valid(self, answer: Tell | Fail) -> None:
        scores: Iterable[Any] = ()
        if isinstance(answer, Tell):
            scores = answer.score.values() if isinstance(answer.score, Mapping) else [answer.score]
        for score in scores:
            if not (isinstance(score, int | float) and math.isfinite(score) and 0 <= score <= 1):
                item = self.journal.filed(answer.item)
                raise RunError(
                    f"score {score!r} of {answer.model} on item {item!r} is not in [0, 1]"
                )
        cost = answer.cost or 0.0
        if not (math.isfinite(cost) and cost >= 0.0):
            raise RunError(f"cost {cost!r} of {answer.model} is not a number of at least 0")

    def event(self, event: Event) -> None:
        """Write an event that takes effect now, between two answers."""
        self.write([replace(event, after=self.n_told)])

    def change(self, differences: Differences, identity: Header) -> None:
        """Apply the changes to a run that `differences` allows.

        Parameters
        ----------
        differences : Differences
            Changes; without any, nothing is written.
        identity : Header
            Identity of the run from now on, to which the next resume is compared.
        """
        if differences.changes or differences.ranker:
            parts = {name: getattr(identity, name) for name in (*COMPARED, "ranker")}
            change = Change(ranker=differences.ranker, settings=differences.changes, identity=parts)
            self.event(change)

    def place(self, model: str, item: Any) -> Ask:
        """Add an ask that the Ranker has just made; `write_asks` records it."""
        _ = self.head  # what is told leaves
        ask = Ask(self.n_asks, model, self.journal.item(item))
        self.n_asks += 1
        self.asks.append(ask)
        self._open[ask.pair] = ask
        self.untold[model] += 1
        if (late := self.waiting.get(ask.pair)) is not None:
            ask.state, ask.answer = ANSWERED, late  # it came after its model was set aside
        return ask

    def write_asks(self, asks: Sequence[tuple[Ask, int]]) -> None:
        """Write asks in one line, each with the number of answers told before it."""
        if not asks:
            return
        pairs = [ask.pair for ask, _ in asks]
        record = Asks(
            n=asks[0][0].number,
            pairs=pairs,
            draws=[self.ranker.probability(*pair) for pair in pairs],
            after=[after for _, after in asks],
        ).masked(round(self._clock(), 3))
        self.journal.append([record])
        self.tally.count(record)
        self.closed = False

    def tell(self, ask: Ask) -> None:
        """Tell the Ranker the answer to an ask."""
        assert ask.answer is not None
        self._tell(ask.answer, ask.pair)
        self._close(ask, TOLD)

    # -- replaying -----------------------------------------------------------------------------

    def _tell(self, answer: Answered, pair: Pair) -> None:
        self.tally.count_answer(answer)
        self._bar()
        match answer:
            case Tell():
                self.ranker.tell(*pair, answer.score, cost=answer.cost)
            case Fail():
                self.ranker.fail(*pair, answer.reason, cost=answer.cost)
        self.n_told += 1
        self.told_of[pair[0]] += 1
        self.waiting.pop(pair, None)
        if isinstance(answer, Tell) or answer.responses:
            self._beyond.discard(pair)
            self._note(answer)
        else:
            self._failed.add(pair)

    def _note(self, answer: Answered) -> None:
        assert answer.place is not None
        self.answers.keep(answer.model, answer.item, answer.place)

    def _bar(self) -> None:
        """Bar pairs from a decision if a server changed, or cut off answers at different rates."""
        pairs: set[tuple[str, str]] = set()
        if SERVER not in self.accepted:
            tested = self.tally.answered
            pairs = {
                (model, other_model)
                for model in self.tally.changed
                for other_model in tested
                if model != other_model
            }
        if CUT_SHORT not in self.accepted:
            pairs = pairs.union(*map(self.tally.unlike, CUT))
        if pairs != self._barred:
            self.ranker.bar(pairs)
            self._barred = pairs

    def _tell_to(self, after: int | None) -> None:
        """Tell answers in the order of their asks, until `after` answers are told."""
        while self.n_told < (after or 0):
            ask = self.next_told
            if ask is None:
                raise RunError(
                    f"{self.journal} lacks the answer after the first {self.n_told}; see "
                    "`lm-eval-ccat verify RUN`"
                )
            self.tell(ask)

    def _close(self, ask: Ask, state: str) -> None:
        ask.state = state
        del self._open[ask.pair]
        self.untold[ask.model] -= 1

    def _take(self, record: Record) -> None:
        # After a deadline the answers behind gaps count too, but only where the run is settled.
        gaps = self.ended is not None and self.ended.gaps
        if isinstance(record, Event) and not gaps:
            self._tell_to(record.after)
        record.apply(self)
        self.tally.count(record)

    # -- what records call (see `Replayed`) ------------------------------------------------------

    def take(self, asks: Asks) -> None:
        """Ask what the journal says was asked, each after as many answers as then."""
        self.closed = False
        for (model, item), probability, after in zip(asks.pairs, asks.draws, asks.after):
            self._tell_to(after)
            self.ranker.impose([(model, item, probability)])
            self.place(model, item)

    def arrive(self, answer: Answered) -> None:
        """Process an answer: tell it in its turn, or at once if its line has no number."""
        pair = answer.pair
        ask = self._open.get(pair)
        if answer.n is not None:
            if not self.has(pair):  # else it answers a second request; the first answer counts
                self.waiting[pair] = answer
                if ask is not None:
                    ask.state, ask.answer = ANSWERED, answer
            return
        self._tell(answer, pair)
        if ask is not None:
            ask.answer = answer
            self._close(ask, TOLD)

    def keep(self, answer: Answered) -> None:
        """Keep an answer to an item beyond the bank."""
        self._beyond.add(answer.pair)
        self._note(answer)

    def leave(self, model: str, item: Item | None = None) -> None:
        """Take a model's open asks out of the line: all of them, or that of one item."""
        for ask in [ask for ask in self._open.values() if ask.model == model]:
            if item in (None, ask.item):
                self._close(ask, LEFT)

    def lose(self, cost: float) -> None:
        """Lower the budget by what an attempt without an answer cost."""
        self._lost += cost
        if self.ended is None:  # else when the run goes on: its result stands
            self.lower_budget()

    def lower_budget(self) -> None:
        """Lower the budget by what was lost since the run ended."""
        if self._lost:
            self.ranker.lose(self._lost)
            self._lost = 0.0

    def accept(self, change: str) -> None:
        """Let pairs be decided in spite of a change; see `CHANGES`."""
        self.accepted.add(change)
        self._bar()

    def change_limits(self, arguments: Mapping[str, Any]) -> None:
        """Change the Ranker's limits, prices or models."""
        changed = dict(arguments)
        if changed.get("budget") == NO_LIMIT:
            changed["budget"] = math.inf
        if changed.get("max_items") == NO_LIMIT:
            del changed["max_items"]  # the separate stopping rule has none
        self.ranker.change(**changed)


# -- what makes a run the same run -----------------------------------------------------------------

#: Parts of a header that identify the run; the rest is for readers.
COMPARED = ("config", "bank_sha256", "task", "versions")
#: Path of a model in a header.
MODEL = r"config\.models\[(.*)\]"
#: What a change says of a model that no answer was had of, and that is named no longer.
LEAVES = "leaves"
#: Arguments of the Ranker that may change, besides models and their prices.
_LIMITS = ("budget", "max_items", "stop")
#: JSON value of a limit that was lifted.
NO_LIMIT = "none"


@dataclass(frozen=True)
class Differences:
    """The differences between two identities, each as ``path: old -> new``.

    Attributes
    ----------
    refused : list of str
        Differences that make it another run.
    changes : list of str
        Differences that are allowed when a run is resumed.
    ranker : dict
        Changes that the Ranker must know: JSON values for `Book.change`.
    """

    refused: list[str]
    changes: list[str]
    ranker: dict[str, Any]

    def accepted(self, where: str) -> Differences:
        """Return self if the run is the same run; refuse it otherwise.

        Raises
        ------
        OtherSettingsError
            It is another run; the message shows the refused differences as ``old -> new``.
        """
        if self.refused:
            listing = "; ".join(self.refused[:8]) + ("; ..." if len(self.refused) > 8 else "")
            raise OtherSettingsError(
                f"cannot resume {where}, which was started with other settings: {listing}",
                f"Use those, or add --run_dir NEW --prior {where} in place of --resume: a new run "
                "that takes over the answers which still hold",
            )
        return self


def differences(old: Header, new: Header, may_change: re.Pattern[str]) -> Differences:
    r"""Compare two headers, or a header and the identity of the run to resume.

    Parameters
    ----------
    old, new : Header
    may_change : pattern
        Matches the paths that may change when a run is resumed.

    Examples
    --------
    >>> old = Header(config={"task": "t", "budget": {"usd": 5}, "models": []})
    >>> new = Header(config={"task": "t", "budget": {"usd": 10}, "models": []})
    >>> differences(old, new, re.compile(r"config\.budget.*")).changes
    ['config.budget.usd: 5 -> 10']
    """
    before, after = (json.loads(json.dumps(part.to_json())) for part in (old, new))
    changed: list[tuple[str, Any, Any]] = []
    for key in COMPARED:
        _compare(_by_name(before.get(key)), _by_name(after.get(key)), key, changed)
    currency, new_currency = (part.report.get("currency") for part in (old, new))
    _compare(currency, new_currency, "report.currency", changed)
    refused: list[str] = []
    changes: list[str] = []
    for path, was, is_now in changed:
        joins = was is None and re.fullmatch(MODEL, path)
        leaves = is_now is None and re.fullmatch(MODEL, path)
        became = "joins" if joins else LEAVES if leaves else f"{_text(was)} -> {_text(is_now)}"
        line = f"{path}: {became}"
        (changes if joins or may_change.fullmatch(path) else refused).append(line)
    arguments = _for_the_ranker(before.get("ranker"), after.get("ranker"))
    if any(path.startswith("config.budget") for path, _, _ in changed) and new.ranker:
        # Even if only the time has changed: a new budget lets an ended ranking go on.
        arguments.setdefault("budget", _or_none(new.ranker.get("budget")))
    return Differences(refused, changes, arguments)


def _or_none(limit: float | None) -> Any:
    return NO_LIMIT if limit is None else limit


def _for_the_ranker(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any]:
    if not old or not new:
        return {}
    changed = [name for name in _LIMITS if old.get(name) != new.get(name)]
    if "stop" in changed or ("max_items" in changed and new.get("max_items") is None):
        # A new rule replaces the limits too, so pass them together.
        changed = list(_LIMITS)
    arguments: dict[str, Any] = {name: _or_none(new.get(name)) for name in changed}
    if old.get("repeats") != new.get("repeats"):
        arguments["repeats"] = new.get("repeats") or 1
    before, after = old["models"], new["models"]
    if prices := {
        model: price for model, price in after.items() if model in before and before[model] != price
    }:
        arguments["prices"] = prices
    if joining := {model: price for model, price in after.items() if model not in before}:
        arguments["add"] = joining
    return arguments


def _by_name(part: Any) -> Any:
    """Return a configuration with its models by name, because their order does not matter."""
    if not isinstance(part, Mapping) or not isinstance(part.get("models"), Sequence):
        return part
    models = {f"[{model['name']}]": model for model in part["models"] if isinstance(model, Mapping)}
    return {**part, "models": models}


def _compare(old: Any, new: Any, path: str, changed: list[tuple[str, Any, Any]]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            dot = "" if key.startswith("[") else "."
            _compare(old.get(key), new.get(key), f"{path}{dot}{key}", changed)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            _compare(a, b, f"{path}[{i}]", changed)
    elif old != new:
        changed.append((path, old, new))


def _text(value: Any) -> str:
    integral = isinstance(value, float) and value.is_integer()
    return short(json.dumps(int(value) if integral else value, ensure_ascii=False))
