"""`Model`: a participant of a run, how it is opened and asked; and the harness's models.

`ask` blocks, from any thread; `start` does not, and is what a run calls. At most ``slots`` calls
are under way at once, each of at most ``batch`` items of one task.
"""

from __future__ import annotations

import gc
import math
import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from ..bank.outcome import Outcome
from ..bank.settings import check_bank
from ..demo import register_models
from ..errors import MetricError
from ..files import safe_name
from ..harness import Administered, TaskSession, internals
from ..harness.outcomes import leading, score_of
from ..harness.served import Price, Tokens
from ..harness.transport import Transport, begin, pooled
from ..runs.journal import Item, Record
from ..scores.answers import EarlierAnswer
from .spec import ModelSpec, Spec
from .tasks import PlaceholderLM, open_tasks

Measured = Mapping[str, Mapping[str, Outcome]]
#: Gets what a call gave, or the error that it raised; in any thread.
Come = Callable[[Any], object]
#: Answers without a score after which a metric that the task declares is taken to be absent.
PATIENCE = 10


class NoScoresError(MetricError):
    """The task does not report the metric at all: no model and no repetition mends that."""


@dataclass(frozen=True)
class Answer:
    """What a model answered to one item, scored.

    Attributes
    ----------
    item : (task, doc_id)
    score : float, dict of str to float, or None
        On [0, 1], higher is better, of each outcome where there are several; None where the task
        reports no score for this document of what is ranked by.
    raw : float, dict of str to float, or None
        On the metric's own scale.
    seconds : float
        The document's share of the measured time.
    tokens : Tokens or None
    judge_usd : float
        What judging it cost.
    prompt_hash : str or None
    responses : list
        As the model gave them, per request.
    served : list of dict
        What the server said of each request (see `lm_eval_ccat.harness.served`).
    empty : bool
        Whether there is no text in any response.
    prior : str or None
        Where it was read, if it was given before and paid for then.
    unscored : tuple of str
        Why scores are missing.
    """

    item: Item
    score: float | dict[str, float] | None
    raw: float | dict[str, float] | None = None
    seconds: float = 0.0
    tokens: Tokens | None = None
    judge_usd: float = 0.0
    prompt_hash: str | None = None
    responses: list[Any] = field(default_factory=list)
    served: list[Record] = field(default_factory=list)
    empty: bool = False
    prior: str | None = None
    unscored: tuple[str, ...] = ()

    def details(self) -> Record:
        """The part that is kept in the journal beside score and cost."""
        some = {"served": self.served, "empty": self.empty, "prior": self.prior}
        some["unscored"] = list(self.unscored)
        return {
            "raw": self.raw,
            "seconds": round(self.seconds, 6),
            "tokens": None if self.tokens is None else asdict(self.tokens),
            "prompt_sha256": self.prompt_hash,
            "responses": self.responses,
            **{key: value for key, value in some.items() if value},
        }


class Calls:
    """Daemon threads of one model, started as they are needed and used again.

    A call that hangs must not keep the process alive after Ctrl-C or a deadline, as the threads of
    `concurrent.futures` would.

    Parameters
    ----------
    name : str
        Of the threads.
    most : float
        Threads at once; further calls wait for one.

    Examples
    --------
    >>> calls, came = Calls("adder"), queue.SimpleQueue()
    >>> calls.start(came.put, sum, [1, 2])
    >>> came.get()
    3
    >>> calls.close()
    """

    def __init__(self, name: str, most: float = math.inf) -> None:
        self.name = name
        self.most = most
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._begun = 0

    def start(self, come: Callable[[Any], object], call: Callable[..., Any], *args: Any) -> None:
        """Begin a call; `come` gets its result, or the error that it raised."""
        with self._lock:
            self._begun += 1
            if self._threads < min(self._begun, self.most):
                self._threads += 1
                threading.Thread(
                    target=self._serve, args=(self._work,), name=self.name, daemon=True
                ).start()
        self._work.put((come, call, args))

    def _serve(self, work: queue.SimpleQueue[Any]) -> None:
        while (job := work.get()) is not None:
            come, call, args = job
            try:
                result = call(*args)
            except BaseException as error:
                result = error
            with self._lock:
                if work is self._work:
                    self._begun -= 1
            come(result)

    def close(self) -> None:
        """Let the threads end, each after the call that it is in; `start` may follow again."""
        with self._lock:
            work, self._work = self._work, queue.SimpleQueue()
            threads, self._threads, self._begun = self._threads, 0, 0
        for _ in range(threads):
            work.put(None)


class Model(ABC):
    """A participant of a run.

    Attributes
    ----------
    name : str
    price : Price
    slots, batch : int
        Calls at once, and items of one call; known once it is open.
    memory : float or None
        What it holds of the run's memory; None for a model that lives elsewhere.
    remote : bool
        Whether it is behind a server.
    """

    memory: float | None = None
    remote = False

    def __init__(self, name: str, price: Price) -> None:
        self.name = name
        self.price = price
        self.slots = self.batch = 1
        self._calls = Calls(name)

    @abstractmethod
    def open(self) -> None:
        """Make the model ready (load weights, connect); may be called again after `close`."""

    @abstractmethod
    def ask(self, items: Sequence[Item]) -> list[Answer]:
        """Put items of one task to the model; block, and pass on its errors."""

    def start(self, items: Sequence[Item], come: Come, beside: bool = False) -> None:
        """As `ask`, without waiting; `beside`: in addition to what ``slots`` allow."""
        self._calls.start(come, self.ask, items)

    def close(self) -> None:
        """Free what the model holds."""
        self._calls.close()

    def cancel(self) -> None:
        """Abandon what is in flight; a local model's call runs to its end unheard."""
        return


class Recorded:
    """Plays a recorded answer back where the harness expects a model."""

    world_size = 1

    def __init__(self, responses: Sequence[Sequence[Any]]) -> None:
        self._responses = [
            tuple(one) if isinstance(one, list) else one for group in responses for one in group
        ]

    def _play(self, requests: Sequence[Any]) -> list[Any]:
        return self._responses

    generate_until = loglikelihood = _play


class HarnessModel(Model):
    """A model of the harness, with a session for each task.

    Parameters
    ----------
    entry : ModelSpec
        Without a model type, `sessions` have the model, loaded by a harness that runs itself.
    spec : Spec
    measured : mapping of task to (mapping of name to Outcome)
    warn : callable
        Is told, for each open session, where the bank may not fit.
    sessions : mapping of task to TaskSession, optional
        Tasks that are loaded already. Those of other models, without a chat template, are not
        loaded again where none is applied and no judge scores, whose calls for one model would
        wait for those for another.
    """

    def __init__(
        self,
        entry: ModelSpec,
        spec: Spec,
        measured: Measured,
        warn: Callable[[str], object],
        sessions: Mapping[str, TaskSession] | None = None,
    ) -> None:
        super().__init__(entry.name, entry.price)
        self.entry = entry
        self.memory = entry.memory
        if self.memory is None and internals.holds_weights(str(entry.model)):
            self.memory = math.inf  # not stated: nobody knows what fits beside it
        self.slots = entry.concurrency or 1
        self.measured = {task: dict(of) for task, of in measured.items()}
        self.administered: dict[Item, Administered] = {}
        #: Answers given before, which are not asked for again.
        self.at_hand: dict[Item, EarlierAnswer] = {}
        self._spec = spec
        self._warn = warn
        self._loaded = dict(sessions or {})
        self.sessions = self._loaded if entry.model is None else {}
        self._scored: set[tuple[str, str]] = set()
        self._scoring = {task: Calls(f"{self.name}, scoring {task}", most=1) for task in measured}
        self._lm: Any = None  # while it is open; how often it tried by itself before
        self._tries: int | None = None
        self._transport: Transport | None = None
        self._texts: set[str] = set()  # tasks whose requests the transport sends without a thread

    def open(self) -> None:
        """Load the model and bind it to the tasks; the second time only load the model.

        Raises
        ------
        BankMismatchError
            See `check_session`.
        """
        entry, harness = self.entry, self._spec.harness
        if entry.model is None:
            lm = next(iter(self.sessions.values())).lm
        else:
            register_models()
            stated = {key: harness.get(key) for key in ("batch_size", "max_batch_size", "device")}
            stated["batch_size"] = entry.batch_size or stated["batch_size"]
            stated["device"] = entry.device or stated["device"]
            lm = internals.make_lm(entry.model, entry.model_args, stated)
            if cache := harness.get("use_cache"):
                lm = internals.with_cache(lm, f"{cache}_{safe_name(self.name)}.db")
        self._lm = lm
        for session in self.sessions.values():
            session.lm = lm
        if not self.sessions:
            sessions = self._open_sessions(lm)
            # Without a bank the items are of this very task, however it is run.
            for session in sessions.values() if self._spec.bank else ():
                for warning in check_session(self.measured[session.name], session):
                    self._warn(warning)
            self.sessions = sessions
        # Retries belong to one place, which journals them and knows when to give up.
        self._tries = internals.own_retries(lm, 1)
        if self._transport is None and pooled(lm):
            self._transport = Transport(lm, entry.concurrency)
            self._texts = {task for task, s in self.sessions.items() if s.sends_texts}
        self.remote = self._transport is not None
        self._set_width(lm)

    def _set_width(self, lm: Any) -> None:
        """Set ``slots`` and ``batch``: the requests of one document count against the limit."""
        at_once, size = internals.requests_at_once(lm)
        session = next(iter(self.sessions.values()))
        per_document = max(1, session.n_requests(session.doc_ids[0]))
        self.slots, self.batch = self.entry.concurrency or at_once, max(1, size // per_document)
        if self.slots > 1:
            self.slots = max(1, self.slots * size // max(per_document, size))

    def _open_sessions(self, lm: Any) -> dict[str, TaskSession]:
        counts, templated = self.price.by_tokens, self._spec.harness.get("apply_chat_template")
        judged = any(s.judged for s in self._loaded.values())
        if self._loaded and not (templated or judged):
            return {name: s.bound(lm, counts) for name, s in self._loaded.items()}
        return open_tasks(self._spec, lm, count_tokens=counts)[0]

    def start(self, items: Sequence[Item], come: Come, beside: bool = False) -> None:
        """As `ask`, without waiting; `beside`: in addition to what ``slots`` allow.

        A server's model needs no thread to wait in; one thread a task scores what comes back.
        """
        task, transport = items[0][0], self._transport
        if beside and transport is not None:
            transport.widen()
        if transport is None or self.at_hand or task not in self._texts:
            return super().start(items, come, beside)

        def score(answered: Any) -> None:
            if isinstance(answered, BaseException):
                come(answered)
            else:
                self._scoring[task].start(come, self._answers, items, answered)

        begin(self.sessions[task].put([doc for _, doc in items], transport, score))

    def close(self) -> None:
        """Close the connections, and free the weights that this has loaded; requests stay."""
        lm, self._lm = self._lm, None
        super().close()
        for scoring in self._scoring.values():
            scoring.close()
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        if self._tries is not None:
            internals.own_retries(lm, self._tries)
            self._tries = None
        if self.entry.model is None:
            return  # who loaded it frees it
        for session in self.sessions.values():
            session.lm = None
        if lm is None or self.remote:
            return
        del lm
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()

    def cancel(self) -> None:
        """Abandon what is in flight to a server."""
        if self._transport is not None:
            self._transport.cancel()

    # -- documents -------------------------------------------------------------------------

    def ask(self, items: Sequence[Item]) -> list[Answer]:
        """Run documents of one task through the harness and score them."""
        answers, left = [], []
        for item in items:
            fits, earlier = self.has_at_hand(item), self.at_hand.pop(item, None)
            if fits and earlier is not None:
                one = self._replay(item, earlier.responses)
                answers.append(self._answer(item, one, earlier.source))
            else:
                left.append(item)
        if left:
            docs = [doc for _, doc in left]
            answers += self._answers(left, partial(self.sessions[left[0][0]].administer, docs))
        return answers

    def _answers(
        self, items: Sequence[Item], read: Callable[[], Sequence[Administered]]
    ) -> list[Answer]:
        answers = []
        for item, one in zip(items, read()):
            answers.append(self._answer(item, one))
            self.administered[item] = one
        self._require_scores(items[0][0])
        return answers

    def has_at_hand(self, item: Item) -> bool:
        """Whether an item was answered before, to the very same prompt."""
        (task, doc), earlier = item, self.at_hand.get(item)
        return earlier is not None and earlier.prompt_hash == self.sessions[task].prompt_hash(doc)

    def _answer(self, item: Item, one: Administered, prior: str | None = None) -> Answer:
        outcomes = self.measured[item[0]]
        scored = scores_of(outcomes, one)
        self._scored.update((item[0], name) for name in scored)
        raw: Any = {name: raw for name, (raw, _) in scored.items()} or None
        score: Any = {name: score for name, (_, score) in scored.items()}
        if not any(outcomes[name].weight > 0.0 for name in scored):
            score = None
        if len(outcomes) == 1 and scored:
            [(raw, score)] = scored.values()
        sample = one.samples[leading(outcomes).filter]
        return Answer(
            item=item,
            score=score,
            raw=raw,
            seconds=one.seconds if prior is None else 0.0,
            tokens=one.tokens if prior is None else None,
            judge_usd=one.judge_usd,
            prompt_hash=sample["prompt_hash"],
            responses=[
                [list(r) if isinstance(r, tuple) else r for r in g] for g in sample["resps"]
            ],
            served=[facts for served in one.served if (facts := served.to_dict())],
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
        scored = [
            answer
            for item, answer in list(self.administered.items())
            if item[0] == task and not answer.unscored
        ]
        if not scored:
            return
        declared = internals.metric_names(self.sessions[task].task)
        for outcome in missing:
            metric = outcome.metric.name
            if outcome.metric.source not in declared or len(scored) >= PATIENCE:
                reported = ", ".join(sorted(m for m, f in scored[0].values if f == outcome.filter))
                raise NoScoresError(
                    f"task {task} reports no {metric} for its documents; it reports {reported}"
                )

    # -- recorded answers --------------------------------------------------------------------

    def restore(self, answers: Mapping[Item, Mapping[str, Any]]) -> None:
        """Score recorded answers again, so that results files hold them; asks the model nothing.

        The model is loaded all the same if its chat template shapes the prompts.
        """
        if not self.sessions and self._spec.harness.get("apply_chat_template"):
            HarnessModel.open(self)
        elif not self.sessions:
            self.sessions = self._open_sessions(PlaceholderLM())
        for item, record in answers.items():
            if item not in self.administered:
                self._replay(item, record["responses"])

    def _replay(self, item: Item, responses: Any) -> Administered:
        """Score an answer that was given before."""
        [one] = self.sessions[item[0]].administer([item[1]], Recorded(responses))
        self.administered[item] = one
        return one


class StoredModel(HarnessModel):
    """A model that cannot be asked: it answers what its logs have."""

    #: Whether answers were matched by document, as their prompts came from another template.
    by_document = False

    def open(self) -> None:
        """Load the task alone."""
        if not self.sessions:
            self.sessions = self._open_sessions(PlaceholderLM())

    def has_at_hand(self, item: Item) -> bool:
        """Whether it was asked this prompt or, by a chat template of its own, this document."""
        if super().has_at_hand(item) or not self._spec.harness.get("apply_chat_template"):
            return super().has_at_hand(item)
        earlier, session = self.at_hand.get(item), self.sessions[item[0]]
        hashes = dict(zip(session.doc_ids, session.doc_hashes))
        self.by_document = earlier is not None and earlier.doc_hash == hashes[item[1]]
        return self.by_document

    def ask(self, items: Sequence[Item]) -> list[Answer]:
        """Score what its logs hold; what they lack nobody can be asked for."""
        for task, doc in items:
            if not self.has_at_hand((task, doc)):
                raise MetricError(
                    f"the stored run {self.name} was asked a different prompt for document {doc!r}"
                )
        return super().ask(items)


def check_session(outcomes: Mapping[str, Outcome], session: TaskSession) -> list[str]:
    """Compare the banks of a task with the task as one model is asked it; warnings, or a refusal.

    Raises
    ------
    BankMismatchError
        See `check_bank`.
    """
    return [
        warning
        for outcome in outcomes.values()
        for warning in check_bank(
            outcome.bank,
            task=session.name,
            filters=session.filters,
            settings=session.settings,
            doc_ids=session.doc_ids,
            doc_hashes=session.doc_hashes,
        )
    ]


def scores_of(outcomes: Mapping[str, Outcome], one: Administered) -> dict[str, tuple[float, float]]:
    """(raw, score) of an answer by outcome; one that failed (its judge, say) spoils no other."""
    scored: dict[str, tuple[float, float]] = {}
    refused: MetricError | None = None
    for name, outcome in outcomes.items():
        try:
            if (pair := score_of(outcome, one)) is not None:
                scored[name] = pair
        except MetricError as error:
            refused = error
    if refused is not None and not scored and not one.unscored:
        raise refused
    return scored
