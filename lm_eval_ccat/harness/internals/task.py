"""One loaded task and its requests, in either generation of the harness.

From 0.5 on, a task has scorers, which hold its metrics, in place of filters.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import HarnessError
from ...grouping import grouped
from .names import BUILDING, attribute, is_stock, resolve

#: Seed of few-shot examples if none is given to the harness.
DEFAULT_SEED = 1234
#: Module of the harness's stock task methods.
API = "lm_eval.api.task"


def task_name(task: Any) -> str:
    """Return the name under which a task reports; from 0.5 on a group's name leads it."""
    return str(attribute(task, "_qualified_name|task_name"))


def output_type(task: Any) -> str | None:
    """Return the output type: ``generate_until``, ``multiple_choice``, ``loglikelihood`` ..."""
    kind = task.OUTPUT_TYPE
    return None if kind is None else str(kind)


def documents(task: Any) -> Any:
    """Return the documents that are evaluated, a sequence by doc_id; () if the split is empty."""
    try:
        return task.eval_docs
    except ValueError as error:  # from 0.5 on an empty split counts as none
        if "must have" in str(error):
            return ()
        raise


def target(task: Any, document: Any) -> Any:
    """Return a document's reference, as the task gives it."""
    return task.doc_to_target(document)


def scoring_code(task: Any) -> str:
    """Return what turns an answer into a score, as one text to be hashed.

    That is the task's settings of filters and metrics, and the whole files of its own functions. Of
    the harness's functions it has the names alone, as its version is recorded beside.
    """

    def text(value: Any) -> str:
        """Write a setting as text; a function by its name and, if it is the task's, its file."""
        if isinstance(value, Mapping):
            return "".join(f"{key}:{text(part)}," for key, part in value.items())
        if isinstance(value, list | tuple):
            return "".join(f"{text(part)}," for part in value)
        if not callable(value):
            return str(value)
        file = getattr(getattr(value, "__code__", None), "co_filename", "")
        is_harness_code = str(getattr(value, "__module__", "")).startswith("lm_eval")
        has_own_code = Path(file).is_file() and not is_harness_code
        code = Path(file).read_text("utf-8", "replace") if has_own_code else ""
        return f"{getattr(value, '__name__', '')}:{code}"

    settings = ("process_results", "metric_list", "filter_list")
    code_of_results = getattr(task, "process_results", None)
    return "".join(text(part) for part in (*map(task.get_config, settings), code_of_results))


def is_multimodal(thing: Any) -> bool:
    """Whether a task needs, or a model takes, more than text."""
    return bool(getattr(thing, "MULTIMODAL", False))


def runs_written_code(task: Any) -> bool:
    """Whether the task runs code that a model writes."""
    return bool(getattr(task, "UNSAFE_CODE", False) or task.get_config("unsafe_code"))


# -- few-shot examples ----------------------------------------------------------------------------


def fewshot_seed(task: Any) -> int | None:
    """Return the harness's default seed of few-shot examples if the task has it; else None."""
    drawn = getattr(task, "fewshot_rnd", None)
    untouched = random.Random(DEFAULT_SEED).getstate()
    return DEFAULT_SEED if drawn is not None and drawn.getstate() == untouched else None


def draws_fewshot(task: Any) -> bool:
    """Whether a task's few-shot examples are drawn at random, so that their seed matters."""
    if not task.config.num_fewshot:
        return False
    return type(task.sampler) is not resolve("lm_eval.api.samplers:FirstNSampler")


# -- metrics and scores ---------------------------------------------------------------------------


def pipelines(task: Any) -> Sequence[Any]:
    """Return the task's filter pipelines, or scorers, in order."""
    stages: Sequence[Any] = attribute(task, "_filters|_scorers")
    return stages


def filter_names(task: Any) -> list[str]:
    """Return the names of the task's filter pipelines, in order."""
    return [str(pipeline.name) for pipeline in pipelines(task)]


def metric_names(task: Any) -> list[str]:
    """Return the metrics the task declares; one that reports under several names declares one."""
    return list(task.aggregation())


#: Aggregations of which the harness draws the documents again and again for a standard error.
_RESAMPLED = (
    "median", "matthews_corrcoef", "f1_score", "perplexity",
    "bleu", "chrf", "chrfpp", "ter", "nanmean",
)  # fmt: skip


def resampled_metrics(task: Any) -> list[str]:
    """Return the names of the metrics whose standard errors the harness takes long to compute."""
    return [
        metric
        for metric, aggregation in task.aggregation().items()
        if getattr(aggregation, "__name__", "") in _RESAMPLED
    ]


def has_several_targets(task: Any) -> bool:
    """Whether documents have several references, which turns some metrics into 0 and 1."""
    return bool(getattr(task, "multiple_target", 0) or getattr(task, "_multiple_targets", 0))


def scores_by_itself(task: Any) -> bool:
    """Whether a task computes its documents' metrics in code of its own."""
    stock = is_stock(type(task), "process_results", API)
    return not stock or callable(task.get_config("process_results"))


def metric_functions(task: Any) -> dict[str, object]:
    """Return the function of each stock metric; None for one that could not be loaded."""
    functions = getattr(task, "_metric_fn_list", None)
    if functions is not None:
        return dict(functions)
    return {metric.name: metric.fn for scorer in pipelines(task) for metric in scorer.metrics or []}


def reported_metrics(task: Any) -> list[str] | None:
    """Return every metric a task can report for a document; None if only a run can tell.

    The stock scoring reports a metric under its own name, unless the metric is a function of
    the user's or of HF `evaluate` that returns several names.
    """
    functions = metric_functions(task)
    if not functions or scores_by_itself(task):
        return None
    # Of likelihoods the harness computes every metric itself. Of texts, functions that are not the
    # harness's may report under any names.
    is_likelihood = task.OUTPUT_TYPE in ("loglikelihood", "multiple_choice")
    modules = [str(getattr(function, "__module__", None)) for function in functions.values()]
    are_stock = all(module.startswith("lm_eval.api.metrics") for module in modules)
    return list(functions) if is_likelihood or are_stock else None


#: Filters of the harness that take each answer of a document by itself.
_OF_ONE_ANSWER = (
    "RegexFilter", "POSFilter", "MultiChoiceRegexFilter", "WhitespaceFilter", "LowercaseFilter",
    "UppercaseFilter", "MapFilter", "SPANFilter",
)  # fmt: skip


def scores_answers_together(task: Any) -> bool:
    """Whether a filter or metric of the task takes all `repeats` of a document (majority, pass@k).

    The default filter takes the first and drops the others. A filter that is not the harness's may
    do anything, so it gets all of them.
    """
    if int(task.get_config("repeats") or 1) == 1:
        return False
    for pipeline in pipelines(task):
        names = [_filter_name(stage) for stage in getattr(pipeline, "filters", ())]
        # Without it all answers reach the metrics.
        if "TakeFirstFilter" not in names:
            return True
        before = names[: names.index("TakeFirstFilter")]
        # What takes all answers before the first is taken may join them, as a majority does.
        if any(name not in _OF_ONE_ANSWER for name in before):
            return True
    return False


def _filter_name(stage: Any) -> str:
    """Return the class of a filter, which the harness keeps as a class or a partial of it."""
    kind = getattr(stage, "func", stage)
    return str(getattr(kind, "__name__", type(kind).__name__))


# -- requests -------------------------------------------------------------------------------------


def prompt(instance: Any) -> str:
    """A request's prompt as text."""
    return str(instance.args[0])


def answers(instance: Any) -> list[str]:
    """The answers to a request, as text."""
    return [str(answer) for answer in instance.resps]


# -- hashes, which name documents and prompts in the harness's logs -------------------------------


def hash_text(text: str) -> str:
    """The harness's hash of a text (SHA-256, hex)."""
    return str(_hash_string()(text))


@functools.cache
def _hash_string() -> Callable[[str], str]:
    function: Callable[[str], str] = resolve("lm_eval.utils:hash_string")
    return function


# -- requests by document ------------------------------------------------------------------------

# A full run builds documents in order. That matters if the task's own code may keep state or the
# harness caches the whole list: then all requests are built. It also matters if few-shot examples
# are drawn from a generator: then the draws of the documents before are repeated without prompts.

#: Building requests draws few-shot examples from generators that tasks may share.
_BUILDING = threading.Lock()
#: Parts of a task's configuration that must be templates or fields, not code.
_PARTS = "description doc_to_audio doc_to_choice doc_to_image doc_to_target doc_to_text gen_prefix"
_FEWSHOT_PARTS = "doc_to_choice doc_to_target doc_to_text gen_prefix"
#: Number of documents from one stored state of the generator to the next.
_STRIDE = 64
#: Number of decoded documents to cache, as several models are soon asked the same ones.
_DECODED = 256


class Requests(Mapping[int, list[Any]]):
    """The requests of each document by doc_id, in their order (``idx``): those of a full run.

    Parameters
    ----------
    task : Task
    lm : LM
        Model whose chat template shapes the prompts, if one is applied.
    options : mapping
        Arguments of `lm_eval.evaluator.evaluate`.
    fewshot_seed : int or None
        Seed of the few-shot examples; None leaves the task as it is.

    Attributes
    ----------
    docs : sequence
        The documents, by doc_id; a copy, since a task that processes its documents would do so
        again at every access.
    """

    def __init__(
        self, task: Any, lm: Any, options: Mapping[str, Any], fewshot_seed: int | None = None
    ) -> None:
        self._task, self._prompt_options = task, _prompt_options(lm, options)
        self._groups: dict[int, list[Any]] = {}  # requests that were built, by doc_id
        self._decode = functools.lru_cache(_DECODED)(lambda doc_id: self.docs[doc_id])
        self._states: list[Any] = []  # of the generator of few-shot examples
        with _BUILDING:
            compile_templates_once()
            if fewshot_seed is not None:
                task.set_fewshot_seed(seed=fewshot_seed)
            self.docs: Any = documents(task)
            if not len(self.docs):
                raise HarnessError(
                    f"cannot load task {task_name(task)!r}: a data set without documents; check "
                    "the split and the filter (process_docs) of the task's file"
                )
            # Whether a document's requests are built once they are wanted; else all are built now.
            self._alone = builds_alone(task, options)
            if self._alone and draws_fewshot(task):
                for doc_id in range(len(self.docs)):
                    # A stored state saves drawing for all documents before; one for each would fill
                    # memory.
                    if doc_id % _STRIDE == 0:
                        self._states.append(task.sampler.rnd.getstate())
                    self._draw(doc_id)
            if not self._alone:
                self._groups = _build_all(task, lm, options)

    def __getitem__(self, doc_id: int) -> list[Any]:
        if not self._alone:
            return self._groups[doc_id]
        with _BUILDING:
            if doc_id not in self._groups:
                if not 0 <= doc_id < len(self.docs):
                    raise KeyError(doc_id)
                # Go back to the last stored state, and repeat the draws from there on.
                if self._states:
                    self._task.sampler.rnd.setstate(self._states[doc_id // _STRIDE])
                    for before in range(doc_id - doc_id % _STRIDE, doc_id):
                        self._draw(before)
                document = self.document(doc_id)
                self._groups[doc_id] = _build_one(
                    self._task, self._prompt_options, doc_id, document
                )
            return self._groups[doc_id]

    def _draw(self, doc_id: int) -> None:
        """Draw a document's few-shot examples, as building its requests does."""
        task = self._task
        # Drawn from the documents that are evaluated, a document is no example for itself.
        excludes = attribute(task, "fewshot_cfg|_fewshot_cfg").split == task.config.test_split
        doc = self.docs[doc_id] if excludes else None
        task.sampler.sample(n=task.config.num_fewshot, eval_doc=doc)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.docs)) if self._alone else self._groups)

    def __len__(self) -> int:
        return len(self.docs) if self._alone else len(self._groups)

    def document(self, doc_id: int) -> Any:
        """Return a copy of a document, which tasks may write into; text is decoded only once."""
        # Images would fill the cache, and each access decodes a fresh document anyway.
        if is_multimodal(self._task):
            return self.docs[doc_id]
        requests = self._groups.get(doc_id) if self._alone else None
        try:  # templates, which alone build requests one by one, leave a document as it is
            return copy.deepcopy(requests[0].doc if requests else self._decode(doc_id))
        except Exception:  # it holds something that cannot be copied, such as a file
            return self.docs[doc_id]

    @functools.cached_property
    def hashes(self) -> dict[int, str]:
        """The harness's hash of each document, in the order of iteration."""
        documents = self.docs if self._alone else (group[0].doc for group in self._groups.values())
        serialise = resolve("lm_eval.utils:handle_non_serializable")
        texts = (
            json.dumps(document, indent=2, default=serialise, ensure_ascii=False)
            for document in documents
        )
        return dict(zip(self, map(hash_text, texts)))


def compile_templates_once() -> None:
    """Cache compiled templates, which the harness otherwise compiles anew for every document."""
    templates = resolve("lm_eval.utils:env?")
    # A release without such an environment, or one that is wrapped already.
    if templates is not None and inspect.ismethod(templates.from_string):
        templates.from_string = functools.lru_cache(256)(templates.from_string)


def builds_alone(task: Any, options: Mapping[str, Any]) -> bool:
    """Whether a document's requests depend only on it and on the draws before it."""
    # The harness caches and prints the requests of all documents together.
    if any(options.get(k) for k in ("cache_requests", "rewrite_requests_cache", "write_out")):
        return False
    config = task.config
    # Any other class builds its requests in its own way.
    if not isinstance(task, resolve("lm_eval.api.task:ConfigurableTask|Task")):
        return False
    # Code of the task's own may count documents, or look at the one before.
    if not is_stock(type(task), BUILDING, API):
        return False
    if not all(_is_template(getattr(config, part, None)) for part in _PARTS.split()):
        return False
    if not config.num_fewshot:
        return True
    random_sampler = resolve("lm_eval.api.samplers:ContextSampler")
    stock_samplers = (random_sampler, resolve("lm_eval.api.samplers:FirstNSampler"))
    fewshot = attribute(task, "fewshot_cfg|_fewshot_cfg")
    parts = [getattr(fewshot, part, None) for part in _FEWSHOT_PARTS.split()]
    return type(task.sampler) in stock_samplers and all(map(_is_template, parts))


def _is_template(part: Any) -> bool:
    """Whether a part of a configuration is data; a Jinja template can draw at random, too."""
    if isinstance(part, (list, tuple)):
        return all(map(_is_template, part))
    return not callable(part) and not (isinstance(part, str) and "random" in part)


def _prompt_options(lm: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that shape prompts, as the harness's functions take them."""
    chat = bool(options.get("apply_chat_template"))
    return {
        "system_instruction": options.get("system_instruction"),
        "apply_chat_template": chat,
        "fewshot_as_multiturn": options.get("fewshot_as_multiturn", False),
        "chat_template": template_of(lm) if chat else None,
    }


def _build_all(task: Any, lm: Any, options: Mapping[str, Any]) -> dict[int, list[Any]]:
    """Build every request as a full run of the harness does; return them by document."""
    prompt_options = _prompt_options(lm, options)
    try:
        tokenizer = (
            str(getattr(lm, "tokenizer_name", "")) if prompt_options["apply_chat_template"] else ""
        )
    except NotImplementedError:  # only the harness's cache of requests uses it
        tokenizer = type(lm).__name__
    task.build_all_requests(
        limit=None,
        samples=None,
        rank=0,
        world_size=1,
        cache_requests=options.get("cache_requests", False),
        rewrite_requests_cache=options.get("rewrite_requests_cache", False),
        tokenizer_name=tokenizer,
        **prompt_options,
    )
    if options.get("write_out"):
        resolve("lm_eval.evaluator_utils:print_writeout|_print_writeout")(task)
    by_document = grouped((instance.doc_id, instance) for instance in task.instances)
    return {doc_id: sorted(group, key=lambda i: i.idx) for doc_id, group in by_document.items()}


def _build_one(task: Any, prompt_options: Mapping[str, Any], doc_id: int, doc: Any) -> list[Any]:
    """Build the requests of one document as `Task.build_all_requests` does, in their order."""
    config = task.config
    # Before 0.5 the harness names a document to the task by its metadata.
    if hasattr(task, "doc_to_prefix"):
        prefix = task.doc_to_prefix(doc)
        identity: dict[str, object] = {"metadata": (config.task, doc_id, config.repeats)}
    else:
        prefix, identity = task._resolve_field(doc, config.gen_prefix), {"doc_id": doc_id}
    context = task.fewshot_context(
        doc, num_fewshot=config.num_fewshot or 0, gen_prefix=prefix, **prompt_options
    )
    identity |= {name: prompt_options[name] for name in ("apply_chat_template", "chat_template")}
    built = task.construct_requests(doc=doc, ctx=context, **identity)
    return sorted(built if isinstance(built, list) else [built], key=lambda i: i.idx)


def template_of(lm: Any) -> Any:
    """Return the model's chat template function, whose errors name the remedy.

    Raises
    ------
    HarnessError
        On a call of the function, if the model has no chat template.
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
