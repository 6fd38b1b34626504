"""One loaded task and its requests, in either generation of the harness.

From 0.5 on a task has scorers in place of filters, and its metrics are theirs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .names import attribute, is_stock, resolve

#: Seed of few-shot examples where none is given to the harness.
DEFAULT_SEED = 1234
_TASK = "lm_eval.api.task:ConfigurableTask|Task"
#: Where the harness defines what tasks do unless they say otherwise.
API = "lm_eval.api.task"


def task_name(task: Any) -> str:
    """The name under which a task reports."""
    return str(task.task_name)


def task_version(task: Any) -> Any:
    """The version a task's YAML or class states."""
    return task.VERSION


def output_type(task: Any) -> str | None:
    """``generate_until``, ``multiple_choice``, ``loglikelihood`` ..."""
    kind = task.OUTPUT_TYPE
    return None if kind is None else str(kind)


def documents(task: Any) -> Any:
    """The documents that are evaluated, by doc_id."""
    return task.eval_docs


def target(task: Any, document: Any) -> Any:
    """A document's reference, as the task gives it."""
    return task.doc_to_target(document)


def task_config(task: Any) -> Mapping[str, Any]:
    """A task's configuration, as the harness dumps it."""
    return dict(task.dump_config())


def scoring_code(task: Any) -> str:
    """Return what turns an answer into a score: the task's settings and its functions' files."""

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            return "".join(f"{key}:{text(of)}," for key, of in value.items())
        if isinstance(value, list | tuple):
            return "".join(f"{text(of)}," for of in value)
        if not callable(value):
            return str(value)
        file = getattr(getattr(value, "__code__", None), "co_filename", "")
        ours = str(getattr(value, "__module__", "")).startswith("lm_eval")
        code = Path(file).read_text("utf-8", "replace") if Path(file).is_file() and not ours else ""
        return f"{getattr(value, '__name__', '')}:{code}"

    settings = ("process_results", "metric_list", "filter_list")
    code_of_results = getattr(task, "process_results", None)
    return "".join(text(part) for part in (*map(task.get_config, settings), code_of_results))


def setting(task: Any, key: str) -> Any:
    """Return one entry of a task's configuration unchanged."""
    return task.get_config(key)


def override(task: Any, key: str, value: Any, *, merge: bool = False) -> None:
    """Set an entry of a task's configuration; `merge` changes only the keys given."""
    task.set_config(key=key, value=value, update=merge)


def is_multimodal(thing: Any) -> bool:
    """Whether a task needs, or a model takes, more than text."""
    return bool(getattr(thing, "MULTIMODAL", False))


def runs_written_code(task: Any) -> bool:
    """Whether the task runs code that a model writes."""
    return bool(getattr(task, "UNSAFE_CODE", False) or task.get_config("unsafe_code"))


# -- few-shot examples ----------------------------------------------------------------------------


def set_fewshot_seed(task: Any, seed: int) -> None:
    """Seed the drawing of few-shot examples."""
    task.set_fewshot_seed(seed=seed)


def fewshot_seed(task: Any) -> int | None:
    """Return the harness's default seed of few-shot examples if the task still has it."""
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
    """The task's filter pipelines, or scorers, in their order."""
    stages: Sequence[Any] = attribute(task, "_filters|_scorers")
    return stages


def filter_names(task: Any) -> list[str]:
    """Names of the task's filter pipelines, in their order."""
    return [str(pipeline.name) for pipeline in pipelines(task)]


def aggregations(task: Any) -> dict[str, object]:
    """How the task aggregates each metric it declares."""
    return dict(task.aggregation())


def metric_names(task: Any) -> list[str]:
    """Return the metrics the task declares; one that reports under several names declares one."""
    return list(aggregations(task))


def directions(task: Any) -> Mapping[str, bool]:
    """Whether higher is better, for each metric the task declares."""
    return dict(task.higher_is_better())


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
    return {m.name: m.fn for scorer in pipelines(task) for m in scorer.metrics or []}


def missing_metrics(task: Any) -> set[str]:
    """Metrics of a loaded task whose function the harness could not find or load."""
    if scores_by_itself(task):
        return set()
    return {name for name, function in metric_functions(task).items() if function is None}


def reported_metrics(task: Any) -> list[str] | None:
    """Return every metric a task can report for a document; None if only a run can tell.

    The stock scoring reports a metric under its own name, unless the metric is a function of
    the user's or of HF `evaluate` that returns several names.
    """
    functions = metric_functions(task)
    if not functions or scores_by_itself(task):
        return None
    fixed = task.OUTPUT_TYPE in ("loglikelihood", "multiple_choice")
    modules = [str(getattr(f, "__module__", None)) for f in functions.values()]
    if not fixed and not all(m.startswith("lm_eval.api.metrics") for m in modules):
        return None
    return list(functions)


def apply_filters(task: Any, instances: Sequence[Any]) -> None:
    """Run each of the task's filter pipelines over some requests."""
    for pipeline in pipelines(task):
        attribute(pipeline, "apply|apply_filter")(instances)


def sample_row(
    task: Any, doc_id: int, document: Any, group: Sequence[Any], filter: str, doc_hash: str
) -> tuple[dict[str, object], Mapping[str, Any]]:
    """The row that the harness logs for a document under one filter, and what the task reports."""
    filtered = [instance.filtered_resps[filter] for instance in group]
    [pipeline] = [p for p in pipelines(task) if p.name == filter]
    repeated: dict[str, object] = {}
    if hasattr(pipeline, "score_instances"):
        documents = {doc_id: list(group)}
        scored = task._try_process_results(documents, filter) or pipeline.score_instances(documents)
        metrics = dict(pipeline.reduce(scored)[doc_id])
        of_each = {name: v for name, v in scored[doc_id].scores.items() if len(v) > 1}
        repeated = {"scores_per_repeat": of_each} if of_each else {}
    else:
        metrics = dict(task.process_results(document, filtered))
    reference = target(task, document)
    row = {
        "doc_id": doc_id,
        "doc": document,
        "target": reference,
        "arguments": [instance.args for instance in group],
        "resps": [instance.resps for instance in group],
        "filtered_resps": filtered,
        "filter": filter,
        "metrics": list(metrics),
        "doc_hash": doc_hash,
        "prompt_hash": prompt_hash(group[0]),
        "target_hash": hash_text(str(reference)),
        **metrics,
        **repeated,
    }
    return row, metrics


# -- requests -------------------------------------------------------------------------------------


def repeats(instance: Any) -> int:
    """How many answers a request takes."""
    return int(instance.repeats)


def prompt(instance: Any) -> str:
    """A request's prompt as text."""
    return _text(instance.args[0])


def prompt_hash(instance: Any) -> str:
    """Return the hash of a request's prompt; one that is not text fails as in the harness."""
    return hash_text(instance.arguments[0])


def answers(instance: Any) -> list[str]:
    """The answers to a request, as text."""
    return [_text(answer) for answer in instance.resps]


def count_tokens(instance: Any, count: Callable[[str], float]) -> tuple[float, float]:
    """(read, written) tokens of a request by a function that counts a text's."""
    if instance.request_type == "generate_until":
        written = sum(count(answer) for answer in answers(instance))
        return repeats(instance) * count(prompt(instance)), written
    # A likelihood reads the continuation and writes nothing.
    return repeats(instance) * count(prompt(instance) + _text(instance.args[1])), 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


# -- hashes, which name documents and prompts in the harness's logs -------------------------------


def document_hash(document: Any) -> str:
    """The harness's ``doc_hash`` of one document."""
    serialise = resolve("lm_eval.utils:handle_non_serializable")
    return hash_text(json.dumps(document, indent=2, default=serialise, ensure_ascii=False))


def hash_text(text: str) -> str:
    """The harness's hash of a text (SHA-256, hex)."""
    return str(resolve("lm_eval.utils:hash_string")(text))
