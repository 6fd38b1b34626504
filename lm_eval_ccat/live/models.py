"""`Model`: a participant of a run, which can be opened and asked; and the harness's models.

`ask` blocks and may be called from any thread; runs call `start`, which does not block. At most
``slots`` calls are in flight at once, each with at most ``batch`` items of one task. To answer an
item takes the harness one or more *requests*, such as one for each choice. An answer is `Unrated`
while it waits for a judge to score it, and `Administered` is one as the harness scored it.
"""

from __future__ import annotations

import gc
import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ..bank.outcome import Outcome
from ..bank.settings import check_bank, check_prompts
from ..errors import MetricError, RunError
from ..files import safe_name
from ..harness import Administered, TaskSession, internals
from ..harness.calls import Calls
from ..harness.session import ToScore
from ..harness.task_metrics import RawAndScore, leading, not_reported, score_of
from ..harness.transport import Transport, begin, uses_template_api
from ..money import Price, Tokens
from ..records import Answered, Item, ServedContent, Unrated
from ..runs.differences import PROMPTS
from ..scores.answers import EarlierAnswer
from ..scores.prompts import WRITTEN
from ..shown import one_line_per_kind
from .spec import ModelSpec, Spec
from .tasks import open_tasks

OutcomesByTask = Mapping[str, Mapping[str, Outcome]]
#: Takes the result of a call, or the error that it raised, in any thread. A local model calls it
#: with `SCORING` before.
OnResult = Callable[[Any], object]
#: In place of a result: the answers are there and are being scored, so that the model is free.
SCORING = None
#: For this share of its latency an answer waits for others that are then scored, kept and followed
#: up together, but at least and at most so many seconds; never for more than a larger share.
GATHER, MOST_GATHER = 0.01, 0.1
LEAST_GATHER, LONGEST_GATHER = 0.002, 0.01
#: Answers without a score after which a metric counts as absent although the task declares it.
ENOUGH_UNSCORED = 10


class NoScoresError(MetricError):
    """The task does not report the metric at all: neither another model nor a retry helps."""


@dataclass(frozen=True)
class Answer:
    """A model's scored answer to one item.

    Attributes
    ----------
    item : Item
    score : float, dict of str to float, or None
        Score on [0, 1], higher is better; by outcome if there are several. None if the task reports
        no score for this document on any weighted outcome.
    raw : float, dict of str to float, or None
        The same on the metric's own scale.
    seconds : float
        The document's share of the measured time.
    tokens : Tokens or None
    judge_usd : float
        Cost of judging it.
    prompt_hash : str or None
    responses : list
        Responses of the model, per request.
    served : list of dict
        Facts that the server reported, per request (see `lm_eval_ccat.harness.served`).
    empty : bool
        Whether no response has any text.
    prior : str or None
        Source of an answer that was given, and paid for, in an earlier run.
    unscored : tuple of str
        Reasons for missing scores.
    """

    item: Item
    score: float | dict[str, float] | None
    raw: float | dict[str, float] | None = None
    seconds: float = 0.0
    tokens: Tokens | None = None
    judge_usd: float = 0.0
    prompt_hash: str | None = None
    responses: list[Any] = field(default_factory=list)
    served: list[ServedContent] = field(default_factory=list)
    empty: bool = False
    prior: str | None = None
    unscored: tuple[str, ...] = ()

    def details(self) -> dict[str, Any]:
        """Return what the journal keeps of the answer besides score and cost."""
        return {
            "item": self.item,
            "raw": self.raw,
            "seconds": round(self.seconds, 6),
            "tokens": self.tokens,
            "prompt_sha256": self.prompt_hash,
            "responses": self.responses,
            "served": self.served,
            "empty": self.empty,
            "prior": self.prior,
            "unscored": list(self.unscored),
        }


class ToRate(NamedTuple):
    """In place of a result: the answers are there, without scores, and a judge is rating them."""

    answers: list[Answer]


class Model(ABC):
    """A participant of a run.

    Attributes
    ----------
    name : str
    price : Price
    slots, batch : int
        Most concurrent calls, and most items per call; known once the model is open.
    memory : float or None
        Memory of its weights, in the unit of the run's `memory` and infinite if none is stated;
        None if its weights are not on this machine.
    remote : bool
        Whether it is behind a server.
    account : hashable or None
        What the server may limit the rate of, for all its models together; None if not known.
    bundle : mapping of str to float
        What it reserves on a node of a cluster.
    scoring : set of item
        Items that were answered and whose scores have not been collected.
    unrated : dict of item to Unrated
        Answers that are to be scored, in place of being asked for again.
    """

    memory: float | None = None
    remote = False
    account: Hashable = None
    bundle: Mapping[str, float] = MappingProxyType({})

    def __init__(self, name: str, price: Price) -> None:
        self.name = name
        self.title = name  # what errors call it
        self.price = price
        self.slots = self.batch = 1
        self.scoring: set[Item] = set()
        self.unrated: dict[Item, Unrated] = {}
        self._calls = Calls(name)

    @abstractmethod
    def open(self) -> None:
        """Make the model ready (load weights, connect); may be called again after `close`."""

    def ready(self) -> bool:
        """Begin what opening takes on other machines; return whether `open` need not wait."""
        return True

    @property
    def missing(self) -> str:
        """What it waits for before it can be opened; "" for nothing."""
        return ""

    @property
    def too_large(self) -> bool:
        """Whether it will never have what it waits for."""
        return False

    @property
    def is_judged(self) -> bool:
        """Whether a judge scores its answers in some task."""
        return False

    def fits_beside(self, others: Sequence[Model]) -> bool:
        """Whether it can be open together with some others, where not all models can."""
        return not others

    def may_come_to_fit(self, models: Sequence[Model]) -> bool | None:
        """Whether it may come to fit beside others, as nodes join; None if nobody knows."""
        return False

    @abstractmethod
    def ask(self, items: Sequence[Item]) -> list[Answer]:
        """Ask the model items of one task; block until it has answered, and pass on its errors."""

    def start(self, items: Sequence[Item], on_result: OnResult, extra: bool = False) -> None:
        """As `ask`, without waiting; `extra`: in addition to what ``slots`` allow."""
        self._calls.start(on_result, self.ask, items)

    def widen(self) -> None:
        """Allow one more call, to replace one that is not answered."""
        return

    def close(self) -> None:
        """Free the model's resources."""
        self._calls.close()

    def cancel(self) -> None:
        """Abandon calls in flight; a local model's call runs to its end, and nobody reads it."""
        return


class RecordedModel:
    """A stand-in for a model of the harness that plays back a recorded answer."""

    world_size = 1

    def __init__(self, responses: Sequence[Sequence[Any]]) -> None:
        self._responses = [
            tuple(response) if isinstance(response, list) else response
            for group in responses
            for response in group
        ]

    def _play(self, requests: Sequence[Any]) -> list[Any]:
        return self._responses

    generate_until = loglikelihood = _play


class HarnessModel(Model):
    """A model of the harness, with a session for each task.

    Parameters
    ----------
    entry : ModelSpec
        Without a model type, `sessions` hold the model, loaded by a harness that called us.
    spec : Spec
    outcomes_by_task : mapping of task to (mapping of name to Outcome)
    warn : callable
        Called with a warning wherever a bank may not fit the task as this model is asked it.
    sessions : mapping of task to TaskSession, optional
        Tasks that are loaded already. They are shared with other models, unless the run applies
        a chat template or a judge scores, whose calls for one model would wait for another's.
    """

    def __init__(
        self,
        entry: ModelSpec,
        spec: Spec,
        outcomes_by_task: OutcomesByTask,
        warn: Callable[[str], object],
        sessions: Mapping[str, TaskSession] | None = None,
    ) -> None:
        super().__init__(entry.name, entry.price)
        self.entry = entry
        self.memory = memory_of(entry)
        self.slots = entry.concurrency or 1
        self.outcomes_by_task = outcomes_by_task
        self.administered: dict[Item, Administered] = {}
        #: Earlier answers, which are used instead of asking again.
        self.prior_answers: dict[Item, EarlierAnswer] = {}
        self._spec = spec
        self._warn = warn
        self._loaded_sessions = dict(sessions or {})
        self.sessions = self._loaded_sessions if entry.model is None else {}
        self._scored: set[tuple[str, str]] = set()  # (task, outcome) with a score so far
        self._lm: Any = None  # while it is open
        # How often the client itself would try, where it has such a number.
        self._client_attempts: int | None = None
        self._transport: Transport | None = None

    def open(self) -> None:
        """Load the model and bind it to the tasks; when called again, only load the model.

        Raises
        ------
        BankMismatchError
            See `check_session`.
        """
        lm = self._lm = self._loaded_lm()
        for session in self.sessions.values():
            session.bind(lm)
        # The first time its tasks are opened, too.
        if not self.sessions:
            self.sessions = self._checked_sessions(lm)
        # Switch off the client's retries: the channel retries, and journals each attempt.
        self._client_attempts = internals.set_client_attempts(lm, 1)
        if self._transport is None and uses_template_api(lm):
            self._transport = Transport(lm, self.entry.concurrency)
        self.remote = self._transport is not None
        self.account = self._transport and self._transport.account
        # A judge that is away is waited for as a model's server is.
        for session in self.sessions.values():
            session.patience = 60.0 * self._spec.failures.outage_minutes
        self._set_slots_and_batch(lm)

    def _loaded_lm(self) -> Any:
        """Return the harness's model: that of the sessions, or a new one by the entry."""
        entry, harness = self.entry, self._spec.harness
        if entry.model is None:
            return next(iter(self.sessions.values())).lm
        internals.register_models()
        settings = {key: harness.get(key) for key in ("batch_size", "max_batch_size", "device")}
        settings["batch_size"] = entry.batch_size or settings["batch_size"]
        settings["device"] = entry.device or settings["device"]
        lm = internals.make_lm(entry.model, entry.model_args, settings)
        # A file for each model, as the keys in a cache do not name the model.
        if cache := harness.get("use_cache"):
            lm = internals.with_cache(lm, f"{cache}_{safe_name(self.name)}.db")
        return lm

    def _checked_sessions(self, lm: Any) -> dict[str, TaskSession]:
        """Open the tasks, and warn where a bank may not fit them as this model is asked."""
        sessions = self._open_sessions(lm)
        # Without a bank the items always fit the task.
        if self._spec.bank:
            accepted, outcomes = self._spec.accept_change, self.outcomes_by_task
            warnings = {
                task: check_session(outcomes[task], session, accepted)
                for task, session in sessions.items()
            }
            for warning in one_line_per_kind(warnings):
                self._warn(warning)
        return sessions

    def _set_slots_and_batch(self, lm: Any) -> None:
        """Set ``slots`` and ``batch`` by how many calls, and requests a call, the model takes.

        Every document is taken to need as many requests as the first one of the first task.
        """
        width = internals.requests_at_once(lm)
        session = next(iter(self.sessions.values()))
        per_document = max(1, session.n_requests(session.doc_ids[0]))
        self.slots = self.entry.concurrency or width.calls
        self.batch = max(1, width.requests // per_document)
        # A document of more requests than one call has takes several of the server's calls.
        if self.slots > 1:
            self.slots = max(1, self.slots * width.requests // max(per_document, width.requests))

    @property
    def is_judged(self) -> bool:
        """Whether a judge scores its answers in some task."""
        return any(session.judged for session in (self.sessions or self._loaded_sessions).values())

    def _open_sessions(self, lm: Any) -> dict[str, TaskSession]:
        """Return the sessions of the tasks with a model: those loaded already, where these fit."""
        counts_tokens = self._spec.counts_tokens(self.entry)
        applies_template = self._spec.template_for(self.entry)
        judged = any(session.judged for session in self._loaded_sessions.values())
        if self._loaded_sessions and not (applies_template or judged):
            return {
                name: session.with_model(lm, counts_tokens)
                for name, session in self._loaded_sessions.items()
            }
        return open_tasks(
            self._spec, lm, count_tokens=counts_tokens, apply_chat_template=applies_template
        )[0]

    def start(self, items: Sequence[Item], on_result: OnResult, extra: bool = False) -> None:
        """As `ask`, without waiting; `extra`: in addition to what ``slots`` allow.

        Waiting for a server takes no thread; one thread per task scores the answers of all models
        that share it, while they generate the next or another one is loaded.
        """
        # All slots may be held by calls that hang.
        if extra:
            self.widen()
        is_unrated = [item in self.unrated for item in items]
        # Their judge alone is waited for.
        if all(is_unrated):
            self.scoring.update(items)
        # `ask` takes answers from an earlier run, from logs or from a Ray actor; the way below asks
        # the model that is open in this process.
        if any(is_unrated) or self.prior_answers or self._lm is None:
            return super().start(items, on_result, extra)
        session, transport, began = self.sessions[items[0].task], self._transport, time.monotonic()

        def keep(answered: Any) -> None:
            # A judge may take long, so the journal first keeps the answers. Reading them may take
            # long, too, hence a thread.
            if session.judged and isinstance(answered, ToScore):
                self._calls.start(score, self._pass_on_unrated, items, answered, on_result)
            else:
                score(answered)

        def score(answered: Any) -> None:
            # A call that failed leaves nothing to score.
            if isinstance(answered, BaseException):
                on_result(answered)
            else:
                self.scoring.update(items)
                latency = time.monotonic() - began
                gather = min(max(GATHER * latency, LEAST_GATHER), LONGEST_GATHER)
                gather = min(gather, MOST_GATHER * latency)
                session.scoring.start(on_result, self._answers, items, answered, gather=gather)
                # A local model does nothing until the run, woken by this, sends its next items; a
                # server has other requests meanwhile.
                if transport is None:
                    on_result(SCORING)

        doc_ids, repeats = _doc_ids_and_repeats(items)
        # A local model, and a request that needs more than plain text, take a thread of their own.
        if transport is None or not session.sends_texts:
            self._calls.start(keep, session.ask, doc_ids, repeats)
        else:
            begin(session.ask_server(doc_ids, transport, keep, repeats))

    def widen(self) -> None:
        """Allow one more request to a server, to replace one that is not answered."""
        if self._transport is not None:
            self._transport.widen()

    def close(self) -> None:
        """Close the connections, and free the weights if this loaded them; keep the sessions."""
        lm, self._lm = self._lm, None
        super().close()
        for session in self.sessions.values():
            session.scoring.close()
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        if self._client_attempts is not None:
            internals.set_client_attempts(lm, self._client_attempts)
            self._client_attempts = None
        if self.entry.model is None:
            return  # the caller loaded it and frees it
        for session in self.sessions.values():
            session.bind(None)
        # To collect garbage means to walk through all objects, for nothing where no weights are.
        if lm is None or self.memory is None:
            return
        del lm
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()

    def cancel(self) -> None:
        """Abandon requests in flight to a server."""
        if self._transport is not None:
            self._transport.cancel()

    # -- documents -------------------------------------------------------------------------

    def ask(self, items: Sequence[Item]) -> list[Answer]:
        """Run documents of one task through the harness, or score their earlier answers."""
        answers, to_ask = [], []
        for item in items:
            # An earlier answer that does not fit, as the prompt has changed, is never used.
            fits, earlier = self.has_prior_answer(item), self.prior_answers.pop(item, None)
            if item in self.unrated:
                answers.append(self._rated(item))
            elif fits and earlier is not None:
                administered = self._replay(item, earlier.responses)
                answers.append(self._answer(item, administered, earlier.source))
            else:
                to_ask.append(item)
        if to_ask:
            doc_ids, repeats = _doc_ids_and_repeats(to_ask)
            session = self.sessions[to_ask[0].task]
            answers += self._answers(to_ask, session.ask(doc_ids, repeats))
        return answers

    def _answers(
        self, items: Sequence[Item], score: Callable[[], Sequence[Administered]]
    ) -> list[Answer]:
        """Return what a run keeps of items that were asked, once `score` has scored them."""
        answers = []
        for item, administered in zip(items, score()):
            answers.append(self._answer(item, administered))
            self.administered[item] = administered
        self._require_scores(items[0].task)
        return answers

    def _pass_on_unrated(
        self, items: Sequence[Item], to_score: ToScore, on_result: OnResult
    ) -> ToScore:
        """Pass on answers that a judge is to rate, so that the run keeps them; return those."""
        answers = [
            self._without_scores(item, administered, responses)
            for item, (administered, responses) in zip(items, to_score.unscored())
        ]
        on_result(ToRate(answers))
        return to_score

    def _rated(self, item: Item) -> Answer:
        """Return a kept answer, once its judge has rated it."""
        kept = self.unrated[item]
        answer = self._answer(item, self._replay(item, kept.responses))
        del self.unrated[item]
        # What the model's server withheld has no score, whatever the judge says of it.
        if kept.unscored:
            answer = replace(answer, score=None, raw=None, unscored=tuple(kept.unscored))
        return replace(
            answer,
            seconds=kept.seconds or 0.0, tokens=kept.tokens, served=kept.served, prior=kept.prior,
        )  # fmt: skip

    def has_prior_answer(self, item: Item) -> bool:
        """Whether an earlier answer to exactly the same requests is at hand."""
        session, earlier = self.sessions[item.task], self.prior_answers.get(item)
        return (
            earlier is not None
            and earlier.prompt_hash == session.prompt_hash(item.doc_id)
            # A metric of mutual information takes further requests, which the hash leaves out.
            and len(earlier.responses) == len(session.prompts(item.doc_id))
        )

    def _answer(self, item: Item, administered: Administered, prior: str | None = None) -> Answer:
        """Return what a run keeps of a document that the harness has scored."""
        outcomes = self.outcomes_by_task[item.task]
        scored = scores_of(outcomes, administered)
        self._scored.update((item.task, name) for name in scored)
        kept = _kept_scores(outcomes, scored)
        responses = administered.samples[leading(outcomes).filter]["resps"]
        answer = self._without_scores(item, administered, responses, prior)
        return replace(answer, score=kept.score, raw=kept.raw)

    def _without_scores(
        self,
        item: Item,
        administered: Administered,
        responses: Sequence[Sequence[Any]],
        prior: str | None = None,
    ) -> Answer:
        """Return what a run keeps of an answer besides its scores.

        `responses` are by request; `prior` says in which earlier run it was given, and paid for.
        """
        prior = "the response cache" if administered.cached else prior
        return Answer(
            item=item,
            score=None,
            seconds=administered.seconds if prior is None else 0.0,
            tokens=administered.tokens if prior is None else None,
            judge_usd=administered.judge_usd,
            prompt_hash=self.sessions[item.task].prompt_hash(item.doc_id),
            responses=[
                [list(response) if isinstance(response, tuple) else response for response in group]
                for group in responses
            ],
            served=[facts for served in administered.served if (facts := served.to_dict())],
            empty=bool(administered.responses)
            and all(not response.strip() for response in administered.responses),
            prior=prior,
            unscored=administered.unscored,
        )

    def _require_scores(self, task: str) -> None:
        """Refuse a task if no answer so far has a metric's score, before the run pays for all.

        Raises
        ------
        NoScoresError
            No answer has the score of an outcome, weighted or not, whose metric the task does not
            declare; or `ENOUGH_UNSCORED` answers lack one that it declares.
        """
        missing = [
            outcome
            for name, outcome in self.outcomes_by_task[task].items()
            if (task, name) not in self._scored
        ]
        if not missing:
            return
        # A copy, because other threads add to it. A failed judge says nothing about the task.
        scored = [
            answer
            for item, answer in list(self.administered.items())
            if item.task == task and not answer.unscored
        ]
        if not scored:
            return
        declared = internals.metric_names(self.sessions[task].task)
        for outcome in missing:
            metric = outcome.metric.name
            # A metric that the task declares may be missing for single documents; one that it does
            # not, never comes.
            if outcome.metric.source not in declared or len(scored) >= ENOUGH_UNSCORED:
                reported = sorted(
                    metric for metric, filter in scored[0].values if filter == outcome.filter
                )
                raise NoScoresError(
                    f"task {task} reports a {metric} that is no number, for each of the first "
                    f"{len(scored)} documents; look at the code that scores it"
                    if outcome.metric.source in reported
                    else not_reported(task, metric, reported)
                )

    # -- recorded answers --------------------------------------------------------------------

    def restore(self, answers: Mapping[Item, Answered]) -> None:
        """Score recorded answers again for the results files, without asking the model.

        The model is loaded nevertheless if its chat template shapes the prompts.
        """
        if not self.sessions and self._spec.template_for(self.entry):
            HarnessModel.open(self)  # in this process, even if an actor of a cluster answers
        # Texts of the task's own need no model: a placeholder builds the same requests.
        elif not self.sessions:
            self.sessions = self._open_sessions(internals.PlaceholderLM())
        # The ranking is over, and is not withheld because a judge is away.
        for session in self.sessions.values():
            session.patience = None
        for item, answer in answers.items():
            if item not in self.administered:
                self._replay(item, answer.responses)

    def _replay(self, item: Item, responses: Any) -> Administered:
        """Score an earlier answer again."""
        session = self.sessions[item.task]
        if session.scores_each_answer:  # a log of a full run may have more answers than are asked
            responses = [group[:1] for group in responses]
        [administered] = session.administer([item.doc_id], RecordedModel(responses))
        self.administered[item] = administered
        return administered


class StoredModel(HarnessModel):
    """A model that answers from its logs and cannot be asked anything else."""

    def open(self) -> None:
        """Load the task, without a model."""
        if not self.sessions:
            self.sessions = self._open_sessions(internals.PlaceholderLM())

    def has_prior_answer(self, item: Item) -> bool:
        """Whether the logs answer this item; whoever gave the answers has compared the prompts."""
        return item in self.prior_answers

    def ask(self, items: Sequence[Item]) -> list[Answer]:
        """Score the answers in the logs.

        Raises
        ------
        MetricError
            The logs have no answer.
        """
        for item in items:
            if not self.has_prior_answer(item):
                raise MetricError(
                    f"the logs of {self.name} have no answer to document {item.doc_id!r}"
                )
        return super().ask(items)


def _doc_ids_and_repeats(items: Sequence[Item]) -> tuple[list[Any], list[int]]:
    """Return the documents of items of one task, and which answer to each it is."""
    return [item.doc_id for item in items], [item.repeat for item in items]


def memory_of(entry: ModelSpec) -> float | None:
    """Return the memory that a model states, or, if it states none, what is to be assumed.

    It is infinite for weights on this machine: no other such model may be loaded with it. It is
    None where there are none.
    """
    holds = internals.holds_weights(str(entry.model))
    return math.inf if entry.memory is None and holds else entry.memory


def taking_turns(spec: Spec, memory: Mapping[str, float | None]) -> set[str]:
    """Return the models that take turns because they do not fit together: one is loaded at a time.

    If the run states its memory, these are all models with weights here or none. Otherwise they are
    those that do not state theirs, unless one item is asked at a time; the others stay loaded.

    Parameters
    ----------
    spec : Spec
    memory : mapping of model to float or None
        See `memory_of`.

    Raises
    ------
    RunError
        A model states that it needs more than the run may use.
    """
    local = {name: amount for name, amount in memory.items() if amount is not None}
    for name, amount in local.items():
        if spec.memory is not None and spec.memory < amount < math.inf:
            raise RunError(
                f"model {name} needs memory {amount:g}, more than the {spec.memory:g} that "
                "`memory:` allows; raise it or leave the model out"
            )
    if len(local) < 2:
        return set()
    if spec.memory is not None:
        # If all fit at the same time, each is loaded once; .1 and .2 fit into .3.
        fit = sum(local.values()) <= spec.memory * (1.0 + 1e-9)
        return set() if fit else set(local)
    # One request at a time among models that take turns would load one for each request.
    unstated = {name for name, amount in local.items() if amount == math.inf}
    return set() if spec.ahead == 1 else unstated


def check_session(
    outcomes: Mapping[str, Outcome], session: TaskSession, accept_change: Collection[str] = ()
) -> list[str]:
    """Refuse banks that do not fit the task of a session; return warnings of what is not known.

    Parameters
    ----------
    outcomes : mapping of name to Outcome
        The outcomes of the task, with their banks.
    session : TaskSession
        The task, bound to the model.
    accept_change : collection of str, optional
        Differences that the user accepts, such as other prompts than the banks'.

    Raises
    ------
    BankMismatchError
        See `check_bank` and `check_prompts`.
    """
    warnings = [
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
    accepts_prompts = PROMPTS in accept_change
    for outcome in outcomes.values():
        # What a chat template writes is known only with a model. Settings are compared first,
        # because another number of examples explains why every prompt differs.
        if any(str(mark).startswith(WRITTEN) for mark in outcome.bank.prompts or ()):
            check_prompts(outcome.bank, session.marks_like(outcome.bank.marks), accepts_prompts)
    return warnings


class _KeptScores(NamedTuple):
    """The scores of an answer as `Answer` has them: by outcome, or that of a single outcome."""

    raw: Any
    score: Any


def _kept_scores(outcomes: Mapping[str, Outcome], scored: Mapping[str, RawAndScore]) -> _KeptScores:
    """Return the scores that a run keeps of an answer; None stands for no score.

    Without a score of any weighted outcome, there are raw scores alone.
    """
    if len(outcomes) == 1:
        return _KeptScores(*next(iter(scored.values()), (None, None)))
    counts = any(outcomes[name].weight > 0.0 for name in scored)
    raw = {name: pair.raw for name, pair in scored.items()}
    scores = {name: pair.score for name, pair in scored.items()}
    return _KeptScores(raw or None, scores if counts else None)


def scores_of(
    outcomes: Mapping[str, Outcome], administered: Administered
) -> dict[str, RawAndScore]:
    """Return an answer's scores by outcome, without the outcomes that failed to score it."""
    scored: dict[str, RawAndScore] = {}
    refused: MetricError | None = None
    for name, outcome in outcomes.items():
        try:
            if (pair := score_of(outcome, administered)) is not None:
                scored[name] = pair
        except MetricError as error:
            refused = error
    # A value that is no score refuses the answer only if no other outcome has one, and no judge
    # failed.
    if refused is not None and not scored and not administered.unscored:
        raise refused
    return scored
