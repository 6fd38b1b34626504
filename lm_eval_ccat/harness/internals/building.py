"""A task's requests by document: all built at once, or each when it is asked for.

A full run builds documents in order. That matters where the task's own code may keep state, where
the harness caches the whole list, and where few-shot examples are drawn from a generator: there the
draws of the documents before are made again, without their prompts.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...errors import HarnessError
from . import task as theirs
from .names import STOCK, attribute, is_stock, resolve

#: Building requests draws few-shot examples from generators that tasks may share.
_BUILDING = threading.Lock()
#: Parts of a task's configuration that must be templates or fields, not code.
_PARTS = "description doc_to_audio doc_to_choice doc_to_image doc_to_target doc_to_text gen_prefix"
_FEWSHOT_PARTS = "doc_to_choice doc_to_target doc_to_text gen_prefix"
#: Documents from one kept state of the generator to the next.
_STRIDE = 64
#: Decoded documents that are kept: models are asked the same ones within few others.
_DECODED = 256


class Requests(Mapping[int, list[Any]]):
    """The requests of each document, in the order of their ``idx``: the same as in a full run.

    Parameters
    ----------
    task : Task
    lm : LM
        Whose chat template shapes the prompts, where one is applied.
    options : mapping
        As `lm_eval.evaluator.evaluate` takes them.
    fewshot_seed : int or None
        Seed of the few-shot examples; None leaves the task as it is.

    Attributes
    ----------
    docs : sequence
        The documents, by doc_id. One copy: a task that processes its documents does so again at
        every access.
    """

    def __init__(
        self, task: Any, lm: Any, options: Mapping[str, Any], fewshot_seed: int | None = None
    ) -> None:
        self._task, self._lm, self._options = task, lm, options
        self._groups: dict[int, list[Any]] = {}
        self._decoded = functools.lru_cache(_DECODED)(lambda doc_id: self.docs[doc_id])
        self._draws: _Draws | None = None
        with _BUILDING:
            compile_templates_once()
            if fewshot_seed is not None:
                theirs.set_fewshot_seed(task, fewshot_seed)
            self.docs: Any = theirs.documents(task)
            if not len(self.docs):
                raise ValueError(f"task {theirs.task_name(task)} has no documents")
            self._alone = builds_alone(task, options)
            if self._alone and theirs.draws_fewshot(task):
                self._draws = _Draws(task, self.docs)
            if not self._alone:
                self._groups = _build_all(task, lm, options)

    def __getitem__(self, doc_id: int) -> list[Any]:
        if not self._alone:
            return self._groups[doc_id]
        with _BUILDING:
            if doc_id not in self._groups:
                if not 0 <= doc_id < len(self.docs):
                    raise KeyError(doc_id)
                if self._draws is not None:
                    self._draws.stand_before(doc_id)
                self._groups[doc_id] = _build_one(
                    self._task, self._lm, self._options, doc_id, self.document(doc_id)
                )
            return self._groups[doc_id]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.docs)) if self._alone else self._groups)

    def __len__(self) -> int:
        return len(self.docs) if self._alone else len(self._groups)

    def document(self, doc_id: int) -> Any:
        """A document to be written into, a text decoded once: models ask for it one by one."""
        if theirs.is_multimodal(self._task):
            return self.docs[doc_id]
        try:
            return copy.deepcopy(self._decoded(doc_id))
        except Exception:  # a lock or a file, say
            return self.docs[doc_id]

    @functools.cached_property
    def hashes(self) -> dict[int, str]:
        """The harness's hash of each document, in the order of iteration."""
        whole = (group[0].doc for group in self._groups.values())
        return dict(zip(self, map(theirs.document_hash, self.docs if self._alone else whole)))


def unasked(instance: Any) -> Any:
    """A request like this one, without an answer: one is asked at several models, or twice."""
    return replace(instance, resps=[], filtered_resps={})


def compile_templates_once() -> None:
    """The harness compiles a template anew for every document."""
    templates = resolve("lm_eval.utils:env")
    if inspect.ismethod(templates.from_string):
        templates.from_string = functools.lru_cache(256)(templates.from_string)


def builds_alone(task: Any, options: Mapping[str, Any]) -> bool:
    """Whether a document's requests depend on it, and on the draws before it, alone."""
    if any(options.get(k) for k in ("cache_requests", "rewrite_requests_cache", "write_out")):
        return False
    [building, *_] = STOCK.values()
    config = task.config
    if not isinstance(task, resolve("lm_eval.api.task:ConfigurableTask|Task")):
        return False
    stock = " ".join(name for name in building.split() if name != "process_results")
    if not is_stock(type(task), stock, theirs.API):
        return False
    if not all(_is_template(getattr(config, part, None)) for part in _PARTS.split()):
        return False
    if not config.num_fewshot:
        return True
    drawn = resolve("lm_eval.api.samplers:ContextSampler")
    kinds = (drawn, resolve("lm_eval.api.samplers:FirstNSampler"))
    fewshot = attribute(task, "fewshot_cfg|_fewshot_cfg")
    parts = [getattr(fewshot, part, None) for part in _FEWSHOT_PARTS.split()]
    return type(task.sampler) in kinds and all(map(_is_template, parts))


def _is_template(part: Any) -> bool:
    """Whether a part of a configuration is data; a Jinja template can draw at random, too."""
    if isinstance(part, (list, tuple)):
        return all(map(_is_template, part))
    return not callable(part) and not (isinstance(part, str) and "random" in part)


class _Draws:
    """Sets a task's generator of few-shot examples to where it stands before a document."""

    def __init__(self, task: Any, docs: Any) -> None:
        self._task, self._docs = task, docs
        self._excludes = attribute(task, "fewshot_cfg|_fewshot_cfg").split == task.config.test_split
        self._states = []
        for doc_id in range(len(docs)):
            if doc_id % _STRIDE == 0:
                self._states.append(task.sampler.rnd.getstate())
            self._draw(doc_id)

    def stand_before(self, doc_id: int) -> None:
        self._task.sampler.rnd.setstate(self._states[doc_id // _STRIDE])
        for before in range(doc_id - doc_id % _STRIDE, doc_id):
            self._draw(before)

    def _draw(self, doc_id: int) -> None:
        doc = self._docs[doc_id] if self._excludes else None
        self._task.sampler.sample(n=self._task.config.num_fewshot, eval_doc=doc)


def _build_all(task: Any, lm: Any, options: Mapping[str, Any]) -> dict[int, list[Any]]:
    """Every request, as a full run of the harness builds them, by document."""
    chat = bool(options.get("apply_chat_template"))
    task.build_all_requests(
        limit=None,
        samples=None,
        rank=0,
        world_size=1,
        cache_requests=options.get("cache_requests", False),
        rewrite_requests_cache=options.get("rewrite_requests_cache", False),
        system_instruction=options.get("system_instruction"),
        apply_chat_template=chat,
        fewshot_as_multiturn=options.get("fewshot_as_multiturn", False),
        chat_template=template_of(lm) if chat else None,
        tokenizer_name=_tokenizer_name(lm) if chat else "",
    )
    if options.get("write_out"):
        resolve("lm_eval.evaluator_utils:print_writeout|_print_writeout")(task)
    grouped: dict[int, list[Any]] = defaultdict(list)
    for instance in task.instances:
        grouped[instance.doc_id].append(instance)
    return {doc_id: sorted(group, key=lambda i: i.idx) for doc_id, group in grouped.items()}


def _build_one(task: Any, lm: Any, options: Mapping[str, Any], doc_id: int, doc: Any) -> list[Any]:
    """The requests of one document, as the loop of `Task.build_all_requests` makes them."""
    chat = bool(options.get("apply_chat_template"))
    config, template = task.config, template_of(lm) if chat else None
    if hasattr(task, "doc_to_prefix"):
        prefix = task.doc_to_prefix(doc)
        which: dict[str, object] = {"metadata": (config.task, doc_id, config.repeats)}
    else:
        prefix, which = task._resolve_field(doc, config.gen_prefix), {"doc_id": doc_id}
    context = task.fewshot_context(
        doc,
        num_fewshot=config.num_fewshot or 0,
        system_instruction=options.get("system_instruction"),
        apply_chat_template=chat,
        fewshot_as_multiturn=options.get("fewshot_as_multiturn", False),
        chat_template=template,
        gen_prefix=prefix,
    )
    built = task.construct_requests(
        doc=doc, ctx=context, apply_chat_template=chat, chat_template=template, **which
    )
    return sorted(built if isinstance(built, list) else [built], key=lambda i: i.idx)


def template_of(lm: Any) -> Any:
    """Return the model's chat template function, whose errors name the remedy.

    Raises
    ------
    HarnessError
        When it is called, and the model has no chat template.
    """
    template = getattr(lm, "apply_chat_template", None)
    if template is None:
        return None

    @functools.wraps(template)
    def apply(*arguments: Any, **named: Any) -> Any:
        try:
            return template(*arguments, **named)
        except NotImplementedError as error:
            raise HarnessError(
                f"models of type {type(lm).__name__} have no chat template: run without "
                "apply_chat_template, or with a model type that has one"
            ) from error

    return apply


def chat_template_text(lm: Any, apply_chat_template: bool | str) -> str | None:
    """The chat template that a run would apply, None without one."""
    if not apply_chat_template:
        return None
    text: str | None = lm.chat_template(apply_chat_template)
    return text


def _tokenizer_name(lm: Any) -> str:
    try:
        return str(getattr(lm, "tokenizer_name", ""))
    except NotImplementedError:  # the harness's cache of requests asks for it, and nothing else
        return type(lm).__name__
