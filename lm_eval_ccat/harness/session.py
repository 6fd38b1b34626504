"""`TaskSession`: one task bound to one model, whose documents are administered one by one.

Every prompt, including randomly drawn few-shot examples, is that of a full run of the harness,
whichever documents are chosen and in whatever order. Where a task's code may depend on the order of
its documents, all requests are built once, as in a full run; otherwise only those of the chosen
documents are built.

A request is an `Instance` of the harness: its `args` are a prompt, and generation settings or the
continuation to be rated; `resps` are the model's responses to it, one for each of its `repeats`.
"""

from __future__ import annotations

import copy
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..bank.settings import TOKEN_LIMITS
from ..errors import HarnessError
from ..money import Tokens, estimate_tokens
from ..scores.prompts import (
    DIGITS,
    WRITTEN,
    as_sent,
    canonical,
    hash_of,
    mark_of,
    requests_of,
    text_of_requests,
    written_mark,
)
from . import internals
from .calls import Calls
from .internals.names import log
from .judge import announce, is_judged
from .scorers import scorers
from .served import Served, noting
from .transport import Transport, server_calls

#: A row of the harness's sample log.
Row = dict[str, Any]
#: Largest number of documents searched for the longest prompt, and a factor on its tokens, as
#: other documents may have a longer one.
_DOCUMENTS_SEARCHED, _MARGIN = 256, 1.25
#: Most tokens of an answer if the task states no limit; the harness's own default.
_DEFAULT_ANSWER = 256
#: Why an answer ended that the server's filter kept back, as servers call it.
WITHHELD = "content_filter"


@dataclass(frozen=True)
class Administered:
    """The responses and scores of one document.

    Attributes
    ----------
    doc_id : int
    values : dict of (metric, filter) to object
        What the task's ``process_results`` reported, unchanged.
    samples : dict of filter to dict
        The rows that the harness logs, one per filter pipeline.
    prompts, responses : tuple of str
        Text of each request, and of each response to it (repeats included).
    tokens : Tokens or None
        The document's share of what the server bills for the call, or else a count by the model's
        tokenizer, or else an estimate; None if the session does not count tokens.
    seconds : float
        The document's share of the call's measured time, which all requests share equally.
    unscored : tuple of str
        Why scores are missing, if a judge failed.
    served : tuple of Served
        What the server reported about the requests of the call; empty for a local model.
    judge_usd : float
        Cost of judging the answer, in dollars.
    cached : bool
        Whether the harness's response cache answered, so that nothing was asked.
    """

    doc_id: int
    values: dict[tuple[str, str], Any]
    samples: dict[str, Row]
    prompts: tuple[str, ...]
    responses: tuple[str, ...]
    tokens: Tokens | None
    seconds: float
    unscored: tuple[str, ...] = ()
    served: tuple[Served, ...] = ()
    judge_usd: float = 0.0
    cached: bool = False

    def with_repeat(self, responses: Sequence[Sequence[Any]]) -> Administered:
        """Return this answer with a further one beside it, as the harness logs repeats.

        Its scores stay those of the first.
        """
        samples = {}
        for name, row in self.samples.items():
            pairs = zip(row["resps"], responses)
            samples[name] = {**row, "resps": [[*first, *later] for first, later in pairs]}
        return replace(self, samples=samples)


class AnsweredCall(NamedTuple):
    """Documents whose requests were answered together, and are yet to be scored.

    Attributes
    ----------
    doc_ids : sequence of int
    groups : list of list of Instance
        The requests of each document, which hold the responses.
    cached : list of bool
        Whether the harness's response cache answered those of each document.
    tokens : list of (Tokens or None)
        Tokens of each document.
    served : sequence of Served
        What the server reported about each request.
    seconds : float
        How long the model took for all requests that the cache did not answer.
    """

    doc_ids: Sequence[int]
    groups: Sequence[list[Any]]
    cached: Sequence[bool]
    tokens: Sequence[Tokens | None]
    served: Sequence[Served]
    seconds: float

    def documents(self) -> Iterator[tuple[list[Any], Administered]]:
        """Yield each document's requests, and its responses without scores."""
        n_sent = [
            0 if is_cached else sum(request.repeats for request in group)
            for group, is_cached in zip(self.groups, self.cached)
        ]
        # Only the call's time as a whole is known, so each request that was sent gets its share.
        seconds_per_request = self.seconds / max(1, sum(n_sent))
        reasons = self._finish_reasons(sum(n_sent))
        for doc_id, group, is_cached, tokens, n in zip(
            self.doc_ids, self.groups, self.cached, self.tokens, n_sent
        ):
            responses = tuple(text for request in group for text in internals.answers(request))
            # An empty text, which the model did not write, is in place of what it wrote.
            is_withheld = ("", WITHHELD) in zip(responses, list(islice(reasons, n)))
            yield (
                group,
                Administered(
                    doc_id,
                    {},
                    {},
                    prompts=tuple(map(internals.prompt, group)),
                    responses=responses,
                    tokens=tokens,
                    seconds=seconds_per_request * n,
                    unscored=("the server's filter withheld the answer",) if is_withheld else (),
                    served=tuple(self.served),
                    cached=is_cached,
                ),
            )

    def _finish_reasons(self, n_sent: int) -> Iterator[str]:
        """Return why the answer to each request that was sent ended; none if none was withheld."""
        # A withheld answer has no text at all (null); an empty text is one that the model wrote.
        if not any(served.null and WITHHELD in served.finish for served in self.served):
            return iter(())
        reasons = [reason for served in self.served for reason in served.finish]
        # A server may state one reason for several answers: then each empty one counts as withheld.
        return iter(reasons if len(reasons) == n_sent else [WITHHELD] * n_sent)


@dataclass
class ToScore:
    """The answers of a call, which are read once, and scored when this is called.

    Attributes
    ----------
    session : TaskSession
    read : callable
        Returns the call once its answers are read, which may take long.
    """

    session: TaskSession
    read: Callable[[], AnsweredCall]

    @cached_property
    def call(self) -> AnsweredCall:
        """The call, whose requests hold the responses."""
        return self.read()

    def unscored(self) -> list[tuple[Administered, list[Any]]]:
        """Return each document without its scores, and the responses to each of its requests."""
        return [
            (administered, [request.resps for request in group])
            for group, administered in self.call.documents()
        ]

    def __call__(self) -> list[Administered]:
        """Return the scored documents of the call."""
        return self.session._score_call(self.call)


@dataclass
class TaskSession:
    """One task bound to one model.

    Several threads may use several sessions at once, each with its own task object, or one session
    for different documents, as far as its model allows.

    Parameters
    ----------
    task : lm_eval.api.task.Task
        A loaded task, with overrides (few-shot number, generation settings) already applied.
    lm : lm_eval.api.model.LM
        The model, or the harness's caching wrapper of one.
    options : mapping, optional
        Arguments of `lm_eval.evaluator.evaluate`: ``apply_chat_template``,
        ``fewshot_as_multiturn``, ``system_instruction``, ``cache_requests``,
        ``rewrite_requests_cache``, ``write_out``.
    count_tokens : bool, optional
        Whether to count tokens, which takes a moment per document.
    fewshot_seed : int, optional
        Seed of the few-shot examples. None leaves the task as it is; `open_session` sets 1234 by
        default, as the harness's `simple_evaluate` does.

    Raises
    ------
    HarnessError
        If the task or model cannot be used document by document; no request is sent before.

    Examples
    --------
    >>> from lm_eval_ccat.harness import open_session
    >>> session = open_session("my_task", lm, num_fewshot=2)       # doctest: +SKIP
    >>> [answer] = session.administer([17])                        # doctest: +SKIP
    >>> answer.values["exact_match", "none"]                       # doctest: +SKIP
    1.0
    """

    task: Any
    lm: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    count_tokens: bool = False
    fewshot_seed: int | None = None
    #: Whether each answer is asked and scored by itself. Else all `repeats` that the task states
    #: are asked at once, as its filters or metrics need them together (majority, pass@k).
    scores_each_answer: bool = False
    #: Seconds for which scoring waits for a judge that is away; None where it does not wait.
    patience: float | None = None

    def __post_init__(self) -> None:
        internals.require_supported_version()
        refuse_unsupported(self.task, self.lm)
        announce(self.lm)
        if self.fewshot_seed is None:
            self.fewshot_seed = internals.fewshot_seed(self.task)
        self._requests = internals.Requests(self.task, self.lm, self.options, self.fewshot_seed)
        self._scoring_lock = threading.Lock()
        self.scoring = Calls(f"scoring {self.name}", max_threads=1)
        self._prompt_hashes: dict[int, str] = {}
        self._bind_anew()

    def _bind_anew(self) -> None:
        """Bind the session's model, whose batch size is not known yet."""
        self._batch_size: int | None = None
        self.bind(self.lm)
        self.settle_batch()

    def bind(self, lm: Any) -> None:
        """Ask another instance of the same model from now on, or none, so that it can be freed."""
        self.lm = lm
        counts = self.count_tokens and lm is not None
        self._token_counter = internals.token_counter(lm) if counts else None

    def with_model(self, lm: Any, count_tokens: bool) -> TaskSession:
        """Return a session of the same task with another model; it shares documents and requests.

        Not for requests that are shaped by a model's chat template.
        """
        refuse_unsupported(self.task, lm)
        announce(lm)
        session = copy.copy(self)
        session.lm, session.count_tokens = lm, count_tokens
        session._bind_anew()
        return session

    # -- the task and its documents -----------------------------------------------------------

    @property
    def name(self) -> str:
        """The task's name."""
        return internals.task_name(self.task)

    @property
    def doc_ids(self) -> tuple[int, ...]:
        """Every document of the task, in the harness's numbering."""
        return tuple(self._requests)

    @property
    def doc_hashes(self) -> tuple[str, ...]:
        """The harness's ``doc_hash`` of each of `doc_ids`."""
        return tuple(self._requests.hashes.values())

    @property
    def filters(self) -> list[str]:
        """Names of the task's filter pipelines."""
        return internals.filter_names(self.task)

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The task's configuration, as the harness dumps it."""
        return dict(self.task.dump_config())

    @property
    def file(self) -> str:
        """The task's file, from the working directory; "" for a task of the harness or none."""
        source = str(dict(self.config.get("metadata") or {}).get("config_source", "inline"))
        stock = Path(internals.resolve("lm_eval:__file__")).parent
        # A reader of results finds a task of the harness by its name.
        if source == "inline" or Path(source).is_relative_to(stock):
            return ""
        return os.path.relpath(source) if Path(source).is_relative_to(Path.cwd()) else source

    @property
    def judged(self) -> bool:
        """Whether a judge takes part in the scoring."""
        return any(map(is_judged, internals.metric_names(self.task)))

    @property
    def resampled_metrics(self) -> list[str]:
        """Metrics whose standard errors the harness takes long to compute, once all is asked."""
        return internals.resampled_metrics(self.task)

    @property
    def _generates(self) -> bool:
        return internals.output_type(self.task) == "generate_until"

    @property
    def asking(self) -> dict[str, object]:
        """What the signature says of how the task is asked.

        That is the number of worked examples and the generation settings; with a chat template,
        that it writes the prompts; with a system instruction, the start of its hash.
        """
        asking, options = self._examples_and_generation, self.options
        if options.get("apply_chat_template"):
            asking["chat"] = True
        if instruction := options.get("system_instruction"):
            asking["system"] = internals.hash_text(instruction)[:8]
        return asking

    @property
    def _examples_and_generation(self) -> dict[str, object]:
        """The number of worked examples, and the generation settings."""
        return {
            "num_fewshot": int(self.config.get("num_fewshot") or 0),
            "generation_kwargs": (
                dict(self.config.get("generation_kwargs") or {}) if self._generates else {}
            ),
        }

    @cached_property
    def settings(self) -> dict[str, object]:
        """The evaluation settings that a bank records and that a run is compared with."""
        options = self.options
        chat = options.get("apply_chat_template", False)
        template = self.lm.chat_template(chat) if chat else None
        return {
            "task_version": self.task.VERSION,
            **self._examples_and_generation,
            "fewshot_seed": self.fewshot_seed if internals.draws_fewshot(self.task) else None,
            # The harness logs the text of a template, even an empty one.
            "chat_template": template is not None,
            "chat_template_sha": internals.hash_text(template) if template else None,
            "fewshot_as_multiturn": bool(options.get("fewshot_as_multiturn")),
            "system_instruction": options.get("system_instruction"),
            "scorer": self._scorers,
        }

    @cached_property
    def _scorers(self) -> dict[str, dict[str, object]]:
        """The scorers of the task's metrics that have one; see `scorers`."""
        names = internals.reported_metrics(self.task) or internals.metric_names(self.task)
        return scorers(names, self.task.dump_config())

    def scorer(self, metric: str) -> dict[str, object] | None:
        """Return the scorer of a metric of the task; None if the metric's name identifies it."""
        return self._scorers.get(metric)

    def target(self, doc_id: int) -> str:
        """Return the reference of a document, as the text whose hash the harness logs."""
        return str(internals.target(self.task, self._requests.document(doc_id)))

    def prompts(self, doc_id: int) -> tuple[str, ...]:
        """Return the text of each request of a document, as a full run sends it."""
        return tuple(map(internals.prompt, self._requests[doc_id]))

    def request_text(self, doc_id: int, write: Callable[[Any], str] = canonical) -> str:
        """Return what the requests of a document ask, as one text (see `scores.prompts.asked`)."""
        return _text_of(self._requests[doc_id], write)

    def prompt_hash(self, doc_id: int) -> str:
        """Return the hash of what is sent for a document: of all contexts and continuations.

        Where a model generates, it is the one that the harness logs.
        """
        if doc_id not in self._prompt_hashes:
            self._prompt_hashes[doc_id] = hash_of(self.request_text(doc_id, as_sent))
        return self._prompt_hashes[doc_id]

    @cached_property
    def marks(self) -> dict[Any, str]:
        """Mark of each document's prompt: of its text, or of its messages before any template."""
        requests = self._requests
        # Without a template a prompt is sent as it is.
        if not self.options.get("apply_chat_template"):
            return {doc_id: self.prompt_hash(doc_id)[:DIGITS] for doc_id in requests}
        # A placeholder's template leaves the messages as they are.
        if not isinstance(self.lm, internals.PlaceholderLM):
            options = {**self.options, "cache_requests": False, "write_out": False}
            lm = internals.PlaceholderLM()
            requests = internals.Requests(self.task, lm, options, self.fewshot_seed)
        return {doc_id: mark_of(_text_of(requests[doc_id])) for doc_id in requests}

    def marks_like(self, marks: Mapping[Any, str | None]) -> dict[Any, str]:
        """Return the marks that can be compared with `marks`.

        Where these are of what a template wrote, they are of what this model's template writes.
        """
        template = self.settings["chat_template_sha"]
        # Marks of messages are the same whatever template wrote them into a text.
        if not template or not any(str(mark).startswith(WRITTEN) for mark in marks.values()):
            return self.marks
        return {
            doc_id: written_mark(self.prompt_hash(doc_id), str(template))
            for doc_id in self._requests
        }

    def n_requests(self, doc_id: int) -> int:
        """Return the number of model answers that one document takes (choices, repeats)."""
        requests = self._requests[doc_id]
        return sum(1 if self.scores_each_answer else request.repeats for request in requests)

    @property
    def token_limit(self) -> int:
        """Most tokens of one generated answer: the task's limit, or the harness's default."""
        settings = self.config.get("generation_kwargs") or {}
        return int(
            next((settings[key] for key in TOKEN_LIMITS if settings.get(key)), _DEFAULT_ANSWER)
        )

    def settle_batch(self) -> None:
        """Detect the batch size of a model that chooses its own (``auto``), once.

        The longest of prompts spread over the task decides. A reloaded model gets the same size.
        """
        model = internals.unwrapped(self.lm)
        if getattr(model, "batch_size", 1) != "auto" or not hasattr(model, "_detect_batch_size"):
            return
        if self._batch_size is None:
            doc_ids = self.doc_ids
            sample = doc_ids[:: math.ceil(len(doc_ids) / _DOCUMENTS_SEARCHED)]
            prompts = [prompt for doc_id in sample for prompt in self.prompts(doc_id)]
            answer_tokens = self.token_limit if self._generates else 1
            longest = max((len(model.tok_encode(prompt)) for prompt in prompts), default=1)
            tokens = min(int(model.max_length), int(longest * _MARGIN) + answer_tokens)
            # A request as the harness has it: its texts, the tokens read, and those to be rated.
            request = (None, [0] * max(1, tokens), [0])
            self._batch_size = int(model._detect_batch_size([request], 0))
            log.info("batch size %d found for prompts of up to %d tokens", self._batch_size, tokens)
        model.batch_size_per_gpu = self._batch_size

    # -- running documents --------------------------------------------------------------------

    def administer(self, doc_ids: Sequence[int], lm: Any = None) -> list[Administered]:
        """Run documents through the model and score them as the task does.

        Parameters
        ----------
        doc_ids : sequence of int
            Documents without repeats; their requests go to the model in one call, in this order.
        lm : LM, optional
            A model that answers in place of the session's, such as recorded answers.

        Returns
        -------
        list of Administered
            In the order of `doc_ids`.

        Raises
        ------
        KeyError
            If the task lacks a document.
        Exception
            Whatever the model or the task raises; then no document of the call counts.
        """
        return self.ask(doc_ids, lm=lm)()

    def ask(self, doc_ids: Sequence[int], repeats: Sequence[int] = (), lm: Any = None) -> ToScore:
        """Run documents as `administer` does; return a function that scores the answers.

        Scoring needs no model, so that the next one may be loaded meanwhile. `repeats` says which
        answer to each document is asked, if not the first.
        """
        groups = self._copied_requests(doc_ids, repeats)
        requests = [request for group in groups for request in group]
        # Without documents, the function returns no answers.
        if not requests:
            return ToScore(self, lambda: AnsweredCall((), (), (), (), (), 0.0))
        if lm is None:
            self.settle_batch()
            internals.note_server_reports(self.lm)
            lm = self.lm
        # A response cache knows one answer to each request, and would give it again.
        if any(repeat > 1 for repeat in repeats):
            lm = internals.unwrapped(lm)
        cached = [all(internals.in_cache(lm, request) for request in group) for group in groups]
        started = time.perf_counter()
        with noting() as notes:
            internals.send(lm, requests)
        seconds = time.perf_counter() - started
        tokens = self._tokens_of(groups, notes.served, cached)
        call = AnsweredCall(doc_ids, groups, cached, tokens, notes.served, seconds)
        return ToScore(self, lambda: call)

    @property
    def sends_texts(self) -> bool:
        """Whether all requests are plain texts, which `ask_server` can send without blocking.

        The harness's response cache and tokenizers behind a server would block.
        """
        inner = internals.unwrapped(self.lm)
        blocks = inner is not self.lm or getattr(inner, "tokenizer_backend", None) == "remote"
        return not internals.is_multimodal(self.task) and not blocks

    async def ask_server(
        self,
        doc_ids: Sequence[int],
        transport: Transport,
        on_result: Callable[[Any], object],
        repeats: Sequence[int] = (),
    ) -> None:
        """Ask a server as `ask` does, from the event loop, without blocking.

        Parameters
        ----------
        doc_ids : sequence of int
        transport : Transport
        on_result : callable
            Called with the `ToScore` of the call, or with the error.
        repeats : sequence of int, optional
            As for `ask`.
        """
        try:
            groups = self._copied_requests(doc_ids, repeats)
            requests = [
                request for group in groups for request in group for _ in range(request.repeats)
            ]
            calls = server_calls(self.lm, requests)
            started = time.perf_counter()
            # Nearly every document is one request, which needs no tasks of its own.
            if len(calls) == 1:
                answers = [await transport.send(calls[0])]
            else:
                answers = await transport.send_all(calls)
            seconds = time.perf_counter() - started
        except BaseException as error:
            on_result(error)
            return

        def read() -> AnsweredCall:
            internals.store(requests, transport.read_all(calls, answers, len(requests)))
            served, cached = [answer.served for answer in answers], [False] * len(groups)
            tokens = self._tokens_of(groups, served, cached)
            return AnsweredCall(doc_ids, groups, cached, tokens, served, seconds)

        on_result(ToScore(self, read))

    def _copied_requests(
        self, doc_ids: Sequence[int], repeats: Sequence[int] = ()
    ) -> list[list[Any]]:
        """Return a copy of each document's requests, to hold the responses of one call.

        Several models share the requests, and one model may ask them repeatedly. Where a server
        takes a seed, the second answer has the seed after the first one's, which the task's
        settings or the model state, and so on.

        Parameters
        ----------
        doc_ids : sequence of int
        repeats : sequence of int, optional
            Of each document, which answer is asked, from 1; without any, the first.
        """
        # Without a seed in its request, a server draws each answer anew.
        seed = internals.seed_of(self.lm) if any(repeat > 1 for repeat in repeats) else None
        groups = []
        for doc_id, repeat in zip(doc_ids, repeats or [1] * len(doc_ids)):
            group = []
            for instance in self._requests[doc_id]:
                changed: dict[str, Any] = {"resps": [], "filtered_resps": {}}
                # The third part is the number of answers to this request, its `repeats`.
                if self.scores_each_answer:
                    changed["metadata"] = (instance.task_name, instance.doc_id, 1)
                if seed is not None and repeat > 1:
                    prompt, settings, *further = instance.args
                    seed_in_settings = settings.get("seed")
                    first_seed = seed if seed_in_settings is None else int(seed_in_settings)
                    changed["arguments"] = (
                        prompt, {**settings, "seed": first_seed + repeat - 1}, *further
                    )  # fmt: skip
                group.append(replace(instance, **changed))
            groups.append(group)
        return groups

    def _score_call(self, call: AnsweredCall) -> list[Administered]:
        """Score the documents of a call whose requests the model or the response cache answered."""
        requests = [request for group in call.groups for request in group]
        # The harness's filters take no empty list.
        if not requests:
            return []
        # Metric objects of HF `evaluate` are not thread-safe.
        with self._scoring_lock:
            for pipeline in internals.pipelines(self.task):
                internals.attribute(pipeline, "apply|apply_filter")(requests)
            return [self._scored(group, answered) for group, answered in call.documents()]

    def _scored(self, group: list[Any], answered: Administered) -> Administered:
        """Add the scores of a document to whose responses the filter pipelines were applied."""
        samples: dict[str, Row] = {}
        values: dict[tuple[str, str], Any] = {}
        with noting(self.patience) as notes:
            for pipeline in internals.pipelines(self.task):
                row, metrics = self._score_document(answered.doc_id, group, pipeline)
                samples[pipeline.name] = row
                values |= {(name, pipeline.name): value for name, value in metrics.items()}
        return replace(
            answered,
            # Of an answer that was withheld, the task has scored a text that is not the model's.
            values={} if answered.unscored else values,
            samples=samples,
            unscored=tuple(dict.fromkeys((*answered.unscored, *notes.unscored))),
            judge_usd=notes.judge_usd,
        )

    def _score_document(
        self, doc_id: int, group: list[Any], pipeline: Any
    ) -> tuple[Row, Mapping[str, Any]]:
        """Return the row that the harness logs for a document, and its metrics.

        Parameters
        ----------
        doc_id : int
        group : list of Instance
            The document's requests, to whose responses the pipeline was applied.
        pipeline : object
            One of the task's filter pipelines, as `internals.pipelines` returns them.

        Raises
        ------
        Exception
            Whatever the task's code raises.
        """
        task, filter = self.task, pipeline.name
        document = self._requests.document(doc_id)  # a fresh one: tasks may write into it
        filtered = [instance.filtered_resps[filter] for instance in group]
        by_repeat: dict[str, Any] = {}
        # From 0.5 on the harness's pipelines score, unless the task has code of its own.
        if hasattr(pipeline, "score_instances"):
            metrics, by_repeat = self._scores_of_pipeline(document, group, pipeline)
        else:
            metrics = dict(task.process_results(document, filtered))
        target = internals.target(task, document)
        row = {
            "doc_id": doc_id,
            "doc": document,
            "target": target,
            "arguments": [instance.args for instance in group],
            "resps": [instance.resps for instance in group],
            "filtered_resps": filtered,
            "filter": filter,
            "metrics": list(metrics),
            "doc_hash": self._requests.hashes[doc_id],
            "prompt_hash": internals.hash_text(group[0].arguments[0]),
            "target_hash": internals.hash_text(str(target)),
            **metrics,
            **({"scores_per_repeat": by_repeat} if by_repeat else {}),
        }
        return row, metrics

    def _scores_of_pipeline(
        self, document: Any, group: Sequence[Any], pipeline: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the metrics of a document, and the scores of its repeats by metric, if several."""
        instances = [copy.copy(instance) for instance in group]
        for instance in instances:
            instance.doc = document
        doc_id = instances[0].doc_id
        documents = {doc_id: instances}
        scored = self.task._try_process_results(documents, pipeline.name)
        scored = scored or pipeline.score_instances(documents)
        scores_by_metric = scored[doc_id].scores.items()
        by_repeat = {metric: scores for metric, scores in scores_by_metric if len(scores) > 1}
        return dict(pipeline.reduce(scored)[doc_id]), by_repeat

    def _tokens_of(
        self, groups: Sequence[list[Any]], served: Sequence[Served], cached: Sequence[bool]
    ) -> list[Tokens | None]:
        """Return the tokens of each document of one call; None if it took none, or none count.

        What a server says that the call cost counts whether or not the session counts tokens.
        """
        billed = bool(served) and all(call.usage and call.usage.usd is not None for call in served)
        # To count takes a moment per document, and nobody asks for it.
        if not (self.count_tokens or billed):
            return [None] * len(groups)
        sent = [group for group, is_cached in zip(groups, cached) if not is_cached]
        counted = iter(self._counted(sent, served))
        return [None if is_cached else next(counted) for is_cached in cached]

    def _counted(self, groups: Sequence[list[Any]], served: Sequence[Served]) -> list[Tokens]:
        """Return the tokens of documents that were asked, from the most reliable source.

        That is what the server bills, else the model's tokenizer, else an estimate.
        """
        count = self._token_counter or estimate_tokens
        source = "estimate" if self._token_counter is None else "tokenizer"
        by_texts = []
        for group in groups:
            read: float = 0
            written: float = 0
            for instance in group:
                if instance.request_type == "generate_until":
                    read += instance.repeats * count(internals.prompt(instance))
                    written += sum(map(count, internals.answers(instance)))
                else:  # a likelihood reads the continuation and writes nothing
                    read += instance.repeats * count(
                        internals.prompt(instance) + str(instance.args[1])
                    )
            by_texts.append(Tokens(read, written, source))
        bills = [call.usage for call in served if call.usage is not None]
        if not bills or len(bills) < len(served):  # some requests were not billed
            return by_texts
        bill = sum(bills[1:], bills[0])
        # The server bills the call; a document's share follows the length of its texts.
        total = sum(by_texts[1:], by_texts[0])
        return [
            bill.part(
                document_tokens.input / total.input if total.input else 1 / len(by_texts),
                document_tokens.output / total.output if total.output else 1 / len(by_texts),
            )
            for document_tokens in by_texts
        ]


def _text_of(requests: Sequence[Any], write: Callable[[Any], str] = canonical) -> str:
    """Return what a document's requests ask, as one text."""
    return text_of_requests(requests_of([request.args for request in requests]), write)


def refuse_unsupported(task: Any, lm: Any) -> None:
    """Refuse tasks and models that cannot be run document by document.

    Raises
    ------
    HarnessError
        Names the task or model, and the remedy.
    """
    name = internals.task_name(task)
    processes = int(getattr(lm, "world_size", 1) or 1)
    if processes > 1:
        raise HarnessError(
            f"the model runs as {processes} data-parallel processes, which an "
            "adaptive run cannot steer; start one process (a model too large for one device can "
            "be split with model_args such as parallelize=True)"
        )
    kind = internals.output_type(task)
    if kind == "loglikelihood_rolling":
        raise HarnessError(
            f"task {name} is of type loglikelihood_rolling: a perplexity weighs documents by their "
            "length and has no score per document; run it without --adaptive"
        )
    if kind not in ("generate_until", "multiple_choice", "loglikelihood"):
        raise HarnessError(
            f"task {name} is of type {kind!r}, which an adaptive run does not know; "
            "run it without --adaptive"
        )
    if "bypass" in internals.metric_names(task):
        raise HarnessError(
            f"task {name} runs in output-only mode (--predict_only), which scores nothing; "
            "leave the flag out, or run without --adaptive"
        )
    if internals.is_multimodal(task) and not internals.is_multimodal(lm):
        raise HarnessError(f"task {name} needs a multimodal model type (such as hf-multimodal)")
