"""What the scheduler needs of a model, and a model behind open sessions of the harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import MetricError
from ..harness import Administered, TaskSession, internals
from ..harness.outcome import Outcome, leading
from ..harness.prices import Tokens
from ..harness.transport import Transport, pooled
from ..scores.answers import EarlierAnswer
from .money import Till

#: A document as the ranking names it: its doc_id, or (task, doc_id) where there are several tasks.
Item = Any
#: Answers without a score after which a metric that the task declares is taken to be absent.
PATIENCE = 10


class NoScoresError(MetricError):
    """The task does not report the metric at all: no model and no repetition mends that."""


@dataclass(frozen=True)
class Answer:
    """One administered document.

    Attributes
    ----------
    item : doc_id or (task, doc_id)
    score : float, dict of str to float, or None
        On [0, 1], higher is better, of each outcome where there are several; None where the task
        reports no score for this document of what is ranked by.
    raw : float, dict of str to float, or None
        On the metric's own scale.
    cost : float
        In the budget's currency.
    usd : float or None
        Dollars, where the price is known.
    seconds : float
        The document's share of the measured time.
    tokens : Tokens or None
    prompt_hash : str or None
    responses : list
        As the model gave them, per request.
    empty : bool
        Whether there is no text in any response.
    prior : str or None
        Where it was read, if it was given before and paid for then.
    unscored : tuple of str
        Why scores are missing, where a judge failed.
    """

    item: Item
    score: float | dict[str, float] | None
    raw: float | dict[str, float] | None = None
    cost: float = 0.0
    usd: float | None = None
    seconds: float = 0.0
    tokens: Tokens | None = None
    prompt_hash: str | None = None
    responses: list[Any] = field(default_factory=list)
    empty: bool = False
    prior: str | None = None
    unscored: tuple[str, ...] = ()

    def details(self) -> dict[str, Any]:
        """The part that is kept in the journal beside the score and the cost."""
        tokens = self.tokens
        return {
            "raw": self.raw,
            **({} if self.usd is None else {"usd": self.usd}),
            "seconds": round(self.seconds, 6),
            "tokens": None
            if tokens is None
            else {"input": tokens.input, "output": tokens.output, "source": tokens.source},
            "prompt_sha256": self.prompt_hash,
            "responses": self.responses,
            **({"empty": True} if self.empty else {}),
            **({} if self.prior is None else {"prior": self.prior}),
            **({"unscored": list(self.unscored)} if self.unscored else {}),
        }


class Worker(Protocol):
    """One model of a ranking, as the scheduler sees it.

    ``slots`` calls of :meth:`administer` may run at the same time, each with up to ``batch``
    documents.  ``memory`` is None for a model that lives elsewhere.
    """

    name: str
    slots: int
    batch: int
    memory: float | None

    def open(self) -> None:
        """Make the model ready (load weights, connect); called before the first document."""

    def close(self) -> None:
        """Free the model's memory; :meth:`open` may follow again."""

    def administer(self, items: Sequence[Item]) -> list[Answer]:
        """Put documents of one task to the model; blocks, and raises what was raised."""


class SessionWorker:
    """A model that somebody else has loaded, with a session for each task.

    Parameters
    ----------
    name : str
        In the ranking.
    measured : mapping of task to (mapping of name to Outcome)
        With one outcome of one task an item is a doc_id, else it is (task, doc_id).
    sessions : mapping of task to TaskSession
    till : Till
    """

    memory: float | None = None

    def __init__(
        self,
        name: str,
        measured: Mapping[str, Mapping[str, Outcome]],
        sessions: Mapping[str, TaskSession],
        till: Till,
    ) -> None:
        self.name = name
        self.measured = {task: dict(of) for task, of in measured.items()}
        self.sessions = dict(sessions)
        self.slots = self.batch = 1
        self.administered: dict[Item, Administered] = {}
        #: Answers given before, which are not asked for again.
        self.at_hand: dict[Item, EarlierAnswer] = {}
        self._till = till
        self._scored: set[tuple[str, str]] = set()
        self._transport: Transport | None = None

    def open(self) -> None:
        """Find out how many documents the model takes at once."""
        lm = next(iter(self.sessions.values())).lm
        self._connect(lm)
        self.set_width(lm)

    def set_width(
        self, lm: Any, concurrency: int | None = None, documents: int | None = None
    ) -> None:
        """Set ``slots`` and ``batch`` by what the model takes.

        Parameters
        ----------
        lm : LM
        concurrency : int, optional
            Calls at the same time; default the model's own number.
        documents : int, optional
            Documents of one call, which then has the model to itself.
        """
        calls, size = internals.requests_at_once(lm)
        if documents is not None:
            self.slots, self.batch = 1, documents
            return
        session = next(iter(self.sessions.values()))
        per_document = max(1, session.n_requests(session.doc_ids[0]))
        calls = calls if concurrency is None else concurrency
        if calls > 1:
            # The requests of one document go out together; they count against the limit.
            calls = max(1, calls * size // max(per_document, size))
        self.slots, self.batch = calls, max(1, size // per_document)

    def close(self) -> None:
        """Nothing but the connections: who loaded the model closes it."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    @property
    def remote(self) -> bool:
        """Whether the model is behind a server."""
        return self._transport is not None

    def cancel(self) -> None:
        """Abandon what is in flight to a server; a local model's call runs to its end unheard."""
        if self._transport is not None:
            self._transport.cancel()

    def _connect(self, lm: Any, in_flight: int | None = None) -> None:
        """Send a server's requests through one loop and one pool of connections."""
        if self._transport is None and pooled(lm):
            self._transport = Transport(lm, in_flight)

    def place(self, item: Item) -> tuple[str, int]:
        """(task, doc_id) of an item."""
        if isinstance(item, tuple):
            return str(item[0]), int(item[1])
        return next(iter(self.measured)), int(item)

    # -- documents -------------------------------------------------------------------------

    def administer(self, items: Sequence[Item]) -> list[Answer]:
        """Run documents of one task through the harness and score them."""
        if self.at_hand:
            old = self._from_hand(items)
            known = {answer.item for answer in old}
            left = [item for item in items if item not in known]
            return [*old, *(self._ask(left) if left else [])]
        return self._ask(items)

    def _ask(self, items: Sequence[Item]) -> list[Answer]:
        task = self.place(items[0])[0]
        session = self.sessions[task]
        docs = [self.place(item)[1] for item in items]
        answers = []
        for item, one in zip(items, session.administer(docs)):
            answers.append(self._answer(item, one, task))
            self.administered[item] = one
        self._require_scores(task)
        return answers

    def _answer(self, item: Item, one: Administered, task: str, prior: str | None = None) -> Answer:
        outcomes = self.measured[task]
        found = _scores(outcomes, one)
        self._scored.update((task, name) for name in found)
        raw: Any = {name: raw for name, (raw, _) in found.items()} or None
        score: Any = {name: score for name, (_, score) in found.items()}
        if not any(outcomes[name].weight > 0.0 for name in found):
            score = None
        if len(outcomes) == 1 and found:
            [(raw, score)] = found.values()
        if prior is not None:
            cost, usd = self._till.charge_judge(one.judge_usd)
        else:
            # Documents that run at the same time share the hour that is paid for.
            cost, usd = self._till.charge(one.tokens, one.seconds / self.slots, one.judge_usd)
        sample = one.samples[leading(outcomes).filter]
        return Answer(
            item=item,
            score=score,
            raw=raw,
            cost=cost,
            usd=usd,
            seconds=one.seconds if prior is None else 0.0,
            tokens=one.tokens if prior is None else None,
            prompt_hash=sample["prompt_hash"],
            responses=_plain(sample["resps"]),
            empty=bool(one.responses) and all(not r.strip() for r in one.responses),
            prior=prior,
            unscored=one.unscored,
        )

    def _require_scores(self, task: str) -> None:
        """Notice a metric that no document has, before all of them are paid for."""
        missing = [o for name, o in self.measured[task].items() if (task, name) not in self._scored]
        if not missing:
            return
        # A copy: other threads add to it meanwhile. A judge that fails says nothing of the task.
        given = [
            answer
            for item, answer in list(self.administered.items())
            if self.place(item)[0] == task and not answer.unscored
        ]
        if not given:
            return
        declared = internals.metric_names(self.sessions[task].task)
        for outcome in missing:
            metric = outcome.metric.name
            if metric not in declared or len(given) >= PATIENCE:
                there = ", ".join(outcome.reported(given[0]))
                raise NoScoresError(
                    f"task {task} reports no {metric} for its documents; it reports {there}"
                )

    # -- after a resume --------------------------------------------------------------------

    def restore(self, answers: Mapping[Item, Mapping[str, Any]]) -> None:
        """Score recorded answers again, so that results files hold them; asks the model nothing."""
        for item, recorded in answers.items():
            if item in self.administered:
                continue
            self._replay(item, recorded["responses"])

    def _replay(self, item: Item, responses: Any) -> Administered:
        """Score an answer that was given before."""
        task, doc = self.place(item)
        [one] = self.sessions[task].administer([doc], _Recorded(_unplain(responses)))
        self.administered[item] = one
        return one

    def _from_hand(self, items: Sequence[Item]) -> list[Answer]:
        """Answers to these of the items that were given before, to the very same prompt."""
        found = []
        for item in items:
            task, doc = self.place(item)
            earlier = self.at_hand.pop(item, None)
            if earlier is None or earlier.prompt_hash != self.sessions[task].prompt_hash(doc):
                continue
            one = self._replay(item, earlier.responses)
            found.append(self._answer(item, one, task, earlier.source))
        return found


def _scores(outcomes: Mapping[str, Outcome], one: Administered) -> dict[str, tuple[float, float]]:
    """(raw, score) of an answer by outcome; one that failed (its judge, say) spoils no other."""
    found: dict[str, tuple[float, float]] = {}
    refused: MetricError | None = None
    for name, outcome in outcomes.items():
        try:
            if (scored := outcome.score(one)) is not None:
                found[name] = scored
        except MetricError as error:
            refused = error
    if refused is not None and not found and not one.unscored:
        raise refused
    return found


class _Recorded:
    """Plays a recorded answer back where a model is expected."""

    world_size = 1

    def __init__(self, answers: list[list[Any]]) -> None:
        self._answers = answers

    def _play(self, requests: Sequence[Any]) -> list[Any]:
        return [answer for group in self._answers for answer in group]

    generate_until = loglikelihood = _play


def _plain(responses: Any) -> list[Any]:
    return [[list(r) if isinstance(r, tuple) else r for r in group] for group in responses]


def _unplain(responses: Any) -> list[Any]:
    return [[tuple(r) if isinstance(r, list) else r for r in group] for group in responses]
