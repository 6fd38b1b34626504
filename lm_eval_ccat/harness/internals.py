"""The one module that touches lm-eval's internals.

Whatever the rest of the package needs from the harness beyond a task's and a model's own methods
comes through here, so that a harness with moved internals is a change of this file. `USED` lists
every name; a contract test checks that the installed harness has them.  Nothing is imported from
the harness until it is called for.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import HarnessError

#: Releases whose internals this module knows: from the first, up to but without the second.
SUPPORTED = ((0, 4, 13), (0, 5))

#: "module:attribute" of everything used here.
USED = (
    "lm_eval.api.model:CachingLM",
    "lm_eval.api.model:LM",
    "lm_eval.api.registry:DEFAULT_METRIC_REGISTRY",
    "lm_eval.api.registry:get_model",
    "lm_eval.api.task:ConfigurableTask",
    "lm_eval.api.task:Task",
    "lm_eval.api.task:Task.build_all_requests",
    "lm_eval.api.task:Task.set_fewshot_seed",
    "lm_eval.defaults:LMEVAL_HASHMM",
    "lm_eval.evaluator:evaluate",
    "lm_eval.evaluator:simple_evaluate",
    "lm_eval.evaluator_utils:EvalAcc",
    "lm_eval.evaluator_utils:_collect_results",
    "lm_eval.evaluator_utils:_handle_back_comp",
    "lm_eval.evaluator_utils:aggregate_groups",
    "lm_eval.evaluator_utils:print_writeout",
    "lm_eval.loggers:EvaluationTracker",
    "lm_eval.tasks:TaskManager",
    "lm_eval.tasks._index:TaskIndex.entry_from_path",
    "lm_eval.tasks._yaml_loader:load_yaml",
    "lm_eval.utils:handle_non_serializable",
    "lm_eval.utils:hash_dict_images",
    "lm_eval.utils:hash_string",
    "lm_eval.utils:setup_logging",
    "lm_eval.utils:simple_parse_args_string",
    "lm_eval._cli.run:Run",
    "lm_eval.config.evaluate_config:EvaluatorConfig",
)


def resolve(name: str) -> Any:
    """The object named ``module:attribute`` (one of `USED`)."""
    module, _, path = name.partition(":")
    value = import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def harness_version() -> str:
    """The installed harness's version, ``"not installed"`` without one."""
    try:
        return version("lm_eval")
    except PackageNotFoundError:
        return "not installed"


def require_supported_version() -> None:
    """Refuse a harness whose internals this module does not know.

    Raises
    ------
    HarnessError
        The installed version lies outside `SUPPORTED`, or there is none.
    """
    found = harness_version()
    numbers = tuple(int(p) for p in found.split("+")[0].split(".")[:3] if p.isdigit())
    low, high = SUPPORTED
    if not (low <= numbers < high):
        raise HarnessError(
            f"lm-eval {found} is not one whose internals are known here; "
            f"install lm-eval>={'.'.join(map(str, low))},<{'.'.join(map(str, high))}"
        )


# -- models ---------------------------------------------------------------------------------------


def make_lm(
    model: str, model_args: Mapping[str, Any] | None, additional: Mapping[str, Any] | None = None
) -> Any:
    """Instantiate a registered model type as the harness's own command does."""
    model_class = resolve("lm_eval.api.registry:get_model")(model)
    return model_class.create_from_arg_obj(dict(model_args or {}), dict(additional or {}))


def with_cache(lm: Any, path: str) -> Any:
    """Wrap a model in the harness's response cache; one file per model, never shared."""
    return resolve("lm_eval.api.model:CachingLM")(lm, path)


def model_arguments(model_args: Any) -> dict[str, Any]:
    """A model's arguments as a mapping, whichever way they were given."""
    if isinstance(model_args, str):
        model_args = resolve("lm_eval.utils:simple_parse_args_string")(model_args)
    return dict(model_args or {})


def world_size(lm: Any) -> int:
    """Number of processes the model is spread over by data parallelism."""
    return int(getattr(lm, "world_size", 1) or 1)


def send(lm: Any, instances: Sequence[Any]) -> None:
    """Run requests through the model and store each response with its request.

    As `lm_eval.evaluator.evaluate` does: per request type one call, each request repeated
    ``repeats`` times in a row, the responses appended in order.
    """
    by_type: dict[str, list[Any]] = {}
    for instance in instances:
        by_type.setdefault(instance.request_type, []).extend([instance] * instance.repeats)
    answers = {kind: _answer(lm, kind, requests) for kind, requests in by_type.items()}
    for kind, requests in by_type.items():
        if len(answers[kind]) != len(requests):
            raise HarnessError(
                f"the model answered {len(answers[kind])} of {len(requests)} {kind} requests"
            )
    # Stored only once every answer is there: a call that fails leaves no half-asked document.
    for instance in instances:
        instance.resps = []
    for kind, requests in by_type.items():
        for instance, answer in zip(requests, answers[kind]):
            instance.resps.append(answer)


def _answer(lm: Any, kind: str, requests: list[Any]) -> list[Any]:
    method = getattr(lm, kind)
    # A progress bar for every few documents says nothing.
    if "disable_tqdm" in inspect.signature(method).parameters:
        return list(method(requests, disable_tqdm=True))
    return list(method(requests))


def natural_batch(lm: Any) -> int:
    """How many documents the model takes at once without waiting for one another; at least 1."""
    inner = getattr(lm, "lm", lm)  # the response cache wraps a model
    sizes = []
    for name in ("batch_size", "_concurrent"):
        try:
            sizes.append(int(getattr(inner, name, 1)))
        except (TypeError, ValueError):  # "auto", or a model that has no such thing
            continue
    return max([1, *sizes])


def token_counter(lm: Any) -> Callable[[str], int] | None:
    """A function that counts a text's tokens by the model's own tokenizer, or None."""
    inner = getattr(lm, "lm", lm)
    encode = getattr(inner, "tok_encode", None)
    if encode is None or getattr(inner, "tokenizer", None) is None:
        return None

    def count(text: str) -> int:
        return len(encode(text))

    try:
        count("one two")
    except Exception:  # a tokenizer that cannot be called is none; the price is then estimated
        return None
    return count


def generate(lm: Any, prompts: Sequence[Any], gen_kwargs: Mapping[str, Any]) -> list[str]:
    """Texts that a model generates for prompts, outside any task."""
    make = resolve("lm_eval.api.instance:Instance")
    requests = [
        make(request_type="generate_until", doc={}, arguments=(prompt, dict(gen_kwargs)), idx=i)
        for i, prompt in enumerate(prompts)
    ]
    return [str(text) for text in lm.generate_until(requests)]


def model_name(lm: Any) -> str:
    """The name by which a model is known outside the harness, as far as it tells."""
    inner = getattr(lm, "lm", lm)
    candidates = (
        getattr(inner, "model", None),  # API models
        getattr(inner, "pretrained", None),
        getattr(getattr(inner, "config", None), "_name_or_path", None),
    )
    for name in candidates:
        if isinstance(name, str) and name:
            return name
    return type(inner).__name__


# -- tasks ----------------------------------------------------------------------------------------


def load_tasks(
    names: Sequence[Any], include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Load tasks and groups by the harness's own manager: ``{"tasks": ..., "groups": ...}``."""
    if all(isinstance(name, str) for name in names):
        manager = task_manager(names, include_path, metadata)
    else:
        manager = resolve("lm_eval.tasks:TaskManager")(
            include_path=include_path, metadata=dict(metadata or {})
        )
    return dict(manager.load(list(names)))


def task_manager(
    names: Sequence[Any], include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> Any:
    """An index of tasks in which names can be found.

    Reading the harness's own 14,000 task files takes seconds, and is left out where each name is
    a file, or a single task of `include_path` (which goes before the harness's own of that name).
    """
    make = resolve("lm_eval.tasks:TaskManager")
    own = make(include_path=include_path, include_defaults=False, metadata=dict(metadata or {}))
    single = {name for name, e in own.task_index.items() if e.kind.name in ("TASK", "PY_TASK")}
    if all(isinstance(n, str) and (n in single or Path(n).is_file()) for n in names):
        return own
    return make(include_path=include_path, metadata=dict(metadata or {}))


def expand_names(manager: Any, patterns: Sequence[str]) -> list[str]:
    """Names of tasks, groups and tags that patterns match; a pattern without a match stays."""
    return [
        name for pattern in patterns for name in sorted(manager.match_tasks([pattern])) or [pattern]
    ]


def static_configs(manager: Any, name: str) -> dict[str, dict[str, Any]]:
    """Configurations of the tasks of a name (task, group, tag or YAML file), without loading them.

    Functions stand as text. A task class keeps its settings in code: its configuration then has
    a ``class`` and little else.
    """
    entry = manager.task_index.get(name)
    if entry is None:
        from_path = resolve("lm_eval.tasks._index:TaskIndex.entry_from_path")
        entry = from_path(Path(name))
        if entry is None:
            raise KeyError(name)
        load = resolve("lm_eval.tasks._yaml_loader:load_yaml")
        entry.cfg = load(entry.yaml_path, resolve_func=False)
    config = dict(entry.cfg or {})
    if entry.kind.name == "TAG":
        members: Sequence[Any] = sorted(entry.tags)
    elif entry.kind.name == "GROUP":
        members = config.get("task") or []
    else:
        return {str(config.get("task", name)): config}
    found: dict[str, dict[str, Any]] = {}
    for member in [members] if isinstance(members, str) else members:
        changes = member if isinstance(member, dict) else {}
        child = str(changes.get("task") or changes.get("group") or member)
        if child in manager.task_index:
            for task, base in static_configs(manager, child).items():
                found[task] = {**base, **{k: v for k, v in changes.items() if k != "task"}}
        elif isinstance(changes.get("task"), str):
            found[f"{name}::{child}"] = dict(changes)
        else:  # a group written out inside its parent
            inner = changes.get("task") or []
            for task in inner:
                label = task if isinstance(task, str) else str(task.get("task"))
                found.update(static_configs(manager, label))
    return found


def default_metrics(output_type: str) -> list[str]:
    """Metrics of a task whose configuration lists none."""
    return list(resolve("lm_eval.api.registry:DEFAULT_METRIC_REGISTRY").get(output_type, []))


def scores_by_itself(task: Any) -> bool:
    """Whether a task computes its documents' metrics in code of its own."""
    stock = resolve("lm_eval.api.task:ConfigurableTask").process_results
    own = getattr(type(task), "process_results", None)
    return own is not stock or callable(task.get_config("process_results"))


def split_task_dict(task_dict: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(groups, tasks) of what `evaluate` is given, in its new or its old form."""
    if "tasks" in task_dict:
        return dict(task_dict.get("groups") or {}), dict(task_dict["tasks"])
    groups, tasks = resolve("lm_eval.evaluator_utils:_handle_back_comp")(task_dict)
    return dict(groups), dict(tasks)


def build_requests(task: Any, lm: Any, options: Mapping[str, Any]) -> list[Any]:
    """Every request of a task, exactly as a full run of the harness builds them."""
    chat = options.get("apply_chat_template") or False
    task.build_all_requests(
        limit=None,
        samples=None,
        rank=0,
        world_size=1,
        cache_requests=options.get("cache_requests", False),
        rewrite_requests_cache=options.get("rewrite_requests_cache", False),
        system_instruction=options.get("system_instruction"),
        apply_chat_template=bool(chat),
        fewshot_as_multiturn=options.get("fewshot_as_multiturn", False),
        chat_template=getattr(lm, "apply_chat_template", None) if chat else None,
        tokenizer_name=getattr(lm, "tokenizer_name", "") if chat else "",
    )
    if options.get("write_out"):
        resolve("lm_eval.evaluator_utils:print_writeout")(task)
    return list(task.instances)


def apply_filters(task: Any, instances: Sequence[Any]) -> list[str]:
    """Run each of the task's filter pipelines over some requests; the pipelines' names."""
    for pipeline in task._filters:
        pipeline.apply(instances)
    return [pipeline.name for pipeline in task._filters]


def filter_names(task: Any) -> list[str]:
    """Names of the task's filter pipelines, in their order."""
    return [pipeline.name for pipeline in task._filters]


def metric_names(task: Any) -> list[str]:
    """Metrics the task declares; a metric that reports several names declares only its own."""
    return list(task.aggregation())


def document_hash(document: Any) -> str:
    """The harness's ``doc_hash`` of one document."""
    return hash_text(
        json.dumps(
            document,
            indent=2,
            default=resolve("lm_eval.utils:handle_non_serializable"),
            ensure_ascii=False,
        )
    )


def hash_text(text: str) -> str:
    """The harness's hash of a text (SHA-256, hex)."""
    return str(resolve("lm_eval.utils:hash_string")(text))


def chat_template_text(lm: Any, apply_chat_template: bool | str) -> str | None:
    """The chat template that a run would apply, None without one."""
    if not apply_chat_template:
        return None
    return lm.chat_template(apply_chat_template)


# -- results --------------------------------------------------------------------------------------


def collect(accumulated: Mapping[str, Mapping[str, Any]], bootstrap_iters: int | None) -> Any:
    """The harness's accumulator (`EvalAcc`) of tasks, without groups."""
    function = resolve("lm_eval.evaluator_utils:_collect_results")
    return function(dict(accumulated), {}, bootstrap_iters)


def aggregate_groups(accumulator: Any) -> None:
    """Add the groups' own scores to an accumulator, as the harness computes them."""
    resolve("lm_eval.evaluator_utils:aggregate_groups")(accumulator)


def new_accumulator() -> Any:
    """An empty `EvalAcc`."""
    return resolve("lm_eval.evaluator_utils:EvalAcc")()


def to_results(accumulator: Any, lm: Any, log_samples: bool) -> dict[str, Any]:
    """The harness-shaped results of an accumulator."""
    samples = None
    if log_samples:
        samples = accumulator.samples
        if resolve("lm_eval.defaults:LMEVAL_HASHMM") and hasattr(lm, "MULTIMODAL"):
            samples = resolve("lm_eval.utils:hash_dict_images")(samples)
    return dict(accumulator._to_eval_results(samples=samples))


def save_results(
    folder: str,
    name: str,
    results: dict[str, Any],
    samples: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    """Write a model's results and samples files into ``<folder>/<name>/`` as the harness does."""
    tracker = resolve("lm_eval.loggers:EvaluationTracker")(output_path=folder)
    general = tracker.general_config_tracker
    general.log_experiment_args(
        model_source=str(results.get("config", {}).get("model", "")),
        model_args={"model": name},
        system_instruction=options.get("system_instruction"),
        chat_template=None,
        fewshot_as_multiturn=bool(options.get("fewshot_as_multiturn")),
    )
    tracker.save_results_aggregated(results=results, samples=dict(samples))
    for task, rows in samples.items():
        tracker.save_results_samples(task_name=task, samples=rows)


# -- the hook and the command line ----------------------------------------------------------------

Evaluate = Callable[..., Any]


def stock_simple_evaluate(**arguments: Any) -> Any:
    """The harness's own `simple_evaluate`."""
    return resolve("lm_eval.evaluator:simple_evaluate")(**arguments)


def install_evaluate(make: Callable[[Evaluate], Evaluate]) -> None:
    """Put a wrapper in the place of `lm_eval.evaluator.evaluate`, once.

    `simple_evaluate` looks the name up when it is called, after the tasks are loaded, so a task
    class whose import installs the wrapper comes in time.
    """
    module: Any = import_module("lm_eval.evaluator")
    if not getattr(module.evaluate, "_ccat", False):
        wrapper = make(module.evaluate)
        wrapper._ccat = True  # type: ignore[attr-defined]
        module.evaluate = wrapper


def watch_evaluate(listen: Callable[[Any], None]) -> None:
    """Have a function told of the model at every call of `lm_eval.evaluator.evaluate`."""
    module: Any = import_module("lm_eval.evaluator")
    inner = module.evaluate
    if listen in getattr(inner, "_ccat_listeners", ()):
        return

    @functools.wraps(inner)
    def evaluate(lm: Any, *arguments: Any, **named: Any) -> Any:
        listen(lm)
        return inner(lm, *arguments, **named)

    evaluate._ccat_listeners = (*getattr(inner, "_ccat_listeners", ()), listen)  # type: ignore[attr-defined]
    module.evaluate = evaluate


def bind_evaluate(function: Evaluate, arguments: Iterable[Any], named: Mapping[str, Any]) -> dict:
    """All arguments of a call of `evaluate` by name, defaults included."""
    bound = inspect.signature(function).bind(*arguments, **named)
    bound.apply_defaults()
    return dict(bound.arguments)


def run_command() -> Any:
    """The class of the harness's ``run`` command (its parser and what it executes)."""
    return resolve("lm_eval._cli.run:Run")


def set_up_logging() -> None:
    """Log as the harness's own command does."""
    resolve("lm_eval.utils:setup_logging")()


def config_file(path: str) -> dict[str, Any]:
    """A YAML file given to the harness's ``--config``."""
    return dict(resolve("lm_eval.config.evaluate_config:EvaluatorConfig").load_yaml_config(path))
