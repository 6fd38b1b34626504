"""Check which metrics of a task can be used adaptively, and write adaptive variants of tasks.

No model is called. A task is loaded if its documents are on this machine; otherwise only its YAML
is checked.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from ..errors import CcatError, HarnessError, UsageError
from ..files import writing
from ..metrics import Scale, find_metric
from ..metrics.registry import metric_name
from ..metrics.text_pairs import SENTENCE, parts_of
from ..plugins import did_you_mean
from ..shown import short
from . import internals
from .opening import start_of_path
from .task_metrics import metric_config, why_not_scored, writing_system_note

#: Metrics of HF evaluate that report under names other than their own.
EXPANSIONS = {
    "rouge": ("rouge1", "rouge2", "rougeL", "rougeLsum"),
    "sacrebleu": ("score",),
    "squad": ("exact_match", "f1"),
    "squad_v2": ("exact", "f1"),
}
#: The same for names that are metrics of the harness as well.
HF_EXPANSIONS = {"chrf": ("score",), "ter": ("score",)}


@dataclass(frozen=True)
class MetricCheck:
    """One metric of one filter pipeline.

    Attributes
    ----------
    metric, filter : str
    usable : bool
        Whether an adaptive test can use it.
    scale : Scale or None
    key : str or None
        Key of the estimate in the results.
    estimand : str
        What is estimated, in words; "" if the metric cannot be used.
    reason : str
        Why the metric cannot be used, with the remedy; "" if it can.
    """

    metric: str
    filter: str
    usable: bool
    scale: Scale | None = None
    key: str | None = None
    estimand: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the check as JSON values, its scale also in words."""
        scale = None if self.scale is None else {**self.scale.to_dict(), "words": self.words}
        return {**asdict(self), "scale": scale}

    @property
    def words(self) -> str:
        """Scale and direction in words."""
        return "" if self.scale is None else self.scale.describe()


@dataclass(frozen=True)
class TaskCheck:
    """One task.

    Attributes
    ----------
    task : str
    documents : int or None
        Number of documents; None if they are not on this machine.
    metrics : tuple of MetricCheck
    reason : str
        Why the whole task cannot be run adaptively; "" if it can.
    notes : tuple of str
        What could not be checked, or makes a metric doubtful.
    """

    task: str
    documents: int | None
    metrics: tuple[MetricCheck, ...]
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether some metric can be used adaptively."""
        return not self.reason and any(metric.usable for metric in self.metrics)

    def to_dict(self) -> dict[str, object]:
        """Return the check as JSON values."""
        metrics = [metric.to_dict() for metric in self.metrics]
        return {**asdict(self), "usable": self.usable, "notes": [*self.notes], "metrics": metrics}


def check_tasks(
    names: Sequence[str],
    *,
    include_path: Any = None,
    metric: str | None = None,
) -> list[TaskCheck]:
    """Check tasks, groups, tags or task files.

    Documents that are not on this machine are fetched, unless the environment says that the hub is
    offline (``HF_HUB_OFFLINE=1``), as the command sets it without --download.

    Parameters
    ----------
    names : sequence of str
        Names or patterns, as for `lm_eval --tasks`.
    include_path
        As in the harness.
    metric : str, optional
        Check only this metric, without a filter: ``exact_match``, ``bleu@zh``.

    Returns
    -------
    list of TaskCheck
        One for each task; a group or tag is checked as its tasks.

    Raises
    ------
    UsageError
        If there is no such task.
    """
    manager = internals.task_manager(names, include_path)
    configs: dict[str, dict[str, object]] = {}
    loaded: dict[str, object] = {}
    troubles: dict[str, str] = {}  # read in the end for names that `loaded` lacks

    def load(name: str, tasks: Iterable[str]) -> bool:
        """Note what a name loads, or the trouble of each of its tasks; return whether it loaded."""
        try:
            with _quiet():
                loaded.update(internals.load_tasks(manager, [name])[0])
        except Exception as error:  # of a data set, a metric's library, a task's code
            troubles.update(dict.fromkeys(tasks, _trouble(error)))
            return False
        return True

    for name in internals.expand_names(manager, names):
        name_configs = internals.static_configs(manager, name)
        configs.update(name_configs)
        # One task that cannot be loaded hides the others of its group: load them one by one.
        if not load(name, name_configs) and len(name_configs) > 1:
            for task in name_configs:
                load(task, [task])
    return [
        _check_loaded(loaded[name], metric)
        if name in loaded
        else check_config(name, config, metric, troubles.get(name, ""))
        for name, config in configs.items()
    ]


def _trouble(error: Exception) -> str:
    """Say in a few words why a task could not be loaded."""
    # What the harness makes of a task without a first document, and its data library of a file
    # without a first line.
    if isinstance(error, IndexError | StopIteration):
        return "its data set holds no documents, or its filter (process_docs) leaves none"
    return (short(error, 160) or type(error).__name__) + start_of_path(error)


def check_config(
    name: str, config: Mapping[str, Any], metric: str | None = None, trouble: str = ""
) -> TaskCheck:
    """Check a task by the configuration in its YAML alone.

    Parameters
    ----------
    name : str
    config : mapping
    metric : str, optional
        Check only this metric.
    trouble : str, optional
        Why the task was not loaded.
    """
    notes = [f"not loaded ({trouble}); this is what its YAML says" if trouble else "not loaded"]
    output_type = str(config.get("output_type") or "generate_until")
    # A class names its metrics only once it is made, which takes its documents.
    if "class" in config and not config.get("metric_list"):
        why = (
            "its metrics are set in code, which could not be run without its documents; "
            "load them with --download"
        )
        return TaskCheck(name, None, (), why, tuple(notes))
    config = {**config, "output_type": output_type}
    # A task that names no metrics has those of its output type.
    if not config.get("metric_list"):
        registry = internals.resolve("lm_eval.api.registry:DEFAULT_METRIC_REGISTRY")
        config["metric_list"] = [{"metric": stock} for stock in registry.get(output_type, [])]
    names = _reported_names(
        config, [metric_name(entry.get("metric")) for entry in config["metric_list"]]
    )
    filters = [str(entry["name"]) for entry in config.get("filter_list") or []] or ["none"]
    graded = not set(names) <= {"exact_match", "acc"}
    # Only documents tell how many targets they have, and none is loaded here.
    if graded and output_type == "generate_until" and not config.get("process_results"):
        notes.append(
            "if its documents have several targets, metrics other than exact_match become 0 or 1 "
            "and cannot be used"
        )
    return _with_metrics(
        TaskCheck(name, None, (), "", tuple(notes)), config, names, filters, metric
    )


def _check_loaded(task: Any, requested: str | None) -> TaskCheck:
    """Check a task that was loaded, by its documents and code; `requested` as `_with_metrics`."""
    config = metric_config(task)
    names = _reported_names(config, list(map(metric_name, internals.metric_names(task))))
    check = _with_metrics(
        TaskCheck(internals.task_name(task), len(task.eval_docs), ()),
        config,
        names,
        internals.filter_names(task),
        requested,
        task,
    )
    # Only metrics of generated texts depend on how these are written.
    if internals.output_type(task) != "generate_until":
        return check
    return replace(
        check,
        notes=tuple(
            note for metric in check.metrics if (note := writing_system_note(task, metric.metric))
        ),
    )


def _with_metrics(
    check: TaskCheck,
    config: Mapping[str, Any],
    names: Sequence[str],
    filters: Sequence[str],
    requested: str | None,
    loaded: Any = None,
) -> TaskCheck:
    """Return a check with one entry for each metric and filter, and why it can be used or not.

    Parameters
    ----------
    check : TaskCheck
        What is known of the task so far.
    config : mapping
        Its configuration.
    names, filters : sequence of str
        Metrics and filters that it reports.
    requested : str or None
        The only metric to check, maybe with its tokenizer (``bleu@zh``); None for all of them.
    loaded : Task, optional
        The harness's task, if it was loaded.
    """
    task, checks = check.task, []
    has_several_targets = loaded is not None and internals.has_several_targets(loaded)
    names_to_check = list(names)
    if requested is not None:
        names_to_check = [requested for name in names if name == parts_of(requested).base]
    for name in names_to_check:
        try:
            metric = find_metric(
                name, task=task, config=config, multiple_targets=has_several_targets
            )
        except CcatError as error:
            checks += [MetricCheck(name, filter, False, reason=str(error)) for filter in filters]
            continue
        estimand = f"{metric.in_words} over all documents"
        # A mean of sentences is not the corpus's score, which the harness reports by that name.
        if metric.prefix == SENTENCE:
            estimand += f"; corpus {metric.source} appears only when every document was run"
        checks += [
            MetricCheck(name, filter, True, metric.scale, metric.key(filter), estimand)
            for filter in filters
        ]
    if requested is not None and not checks:
        reason = f"the task has no metric {requested}; it has {', '.join(names)}"
        reason += did_you_mean(requested, names, listing=False)
        checks = [MetricCheck(requested, filter, False, reason=reason) for filter in filters]
    reason = "" if loaded is None else why_not_scored(loaded)
    if config.get("output_type") == "loglikelihood_rolling":
        reason = (
            f"task {task} is of type loglikelihood_rolling: its perplexities weigh documents "
            "by length and have no score per document; run it without --adaptive"
        )
    return replace(check, metrics=tuple(checks), reason=reason)


def _reported_names(config: Mapping[str, Any], declared: Sequence[str]) -> list[str]:
    """Return the names under which a task reports the metrics that it declares.

    A few metrics report under several names, such as ``pass_at_k`` under ``pass@1`` and ``pass@5``.
    """
    entries = {metric_name(entry.get("metric")): entry for entry in config.get("metric_list") or []}
    names: list[str] = []
    for metric in declared:
        entry = entries.get(metric, {})
        # For ``pass_at_k``, each k.
        numbers, by_name = entry.get("k"), EXPANSIONS
        if entry.get("hf_evaluate") is True:
            by_name = {**EXPANSIONS, **HF_EXPANSIONS}
        if metric == "pass_at_k" and isinstance(numbers, (list, tuple)):
            names += [f"pass@{n}" for n in numbers]
        else:
            names += by_name.get(metric, (metric,))
    return list(dict.fromkeys(names))


#: Standard output and the logging level belong to the process; two threads must not restore each
#: other's settings.
_OUTPUT_LOCK = threading.RLock()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the output of loading tasks off standard output, which carries the answer."""
    with _OUTPUT_LOCK, contextlib.redirect_stdout(sys.stderr):
        level = logging.root.manager.disable
        logging.disable(logging.ERROR)
        try:
            yield
        finally:
            logging.disable(level)


# -- adaptive variants: files that make the plain `lm_eval` command adaptive ----------------------

SUFFIX = "_adaptive"
_CLASS = "lm_eval_ccat.AdaptiveTask"
_TASK = """\
# {name} on few documents: lm_eval --include_path {folder} --tasks {name}{suffix} ...
# with a bank, say: --metadata '{{"adaptive": {{"bank": "{name}.bank.json", "stop": "se 0.01"}}}}'
task: {name}{suffix}
include: {file}
class: !function {kind}
tag: []
"""


@dataclass
class Variants:
    """The files that were written.

    Attributes
    ----------
    folder : Path
    names : list of str
        What to run in place of the names asked for: variants, and tasks that have none.
    files : dict of str to Path
        The file of each task or group that has a variant.
    in_full : dict of str to str
        Tasks that cannot be run adaptively, and why; a group runs them in full.
    """

    folder: Path
    names: list[str] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    in_full: dict[str, str] = field(default_factory=dict)


def write_variants(folder: Path, names: Sequence[str], include_path: Any = None) -> Variants:
    """Write ``<name>_adaptive.yaml`` for each of the tasks and groups named.

    Parameters
    ----------
    folder : Path
        Created if necessary; pass it to ``lm_eval`` as ``--include_path``.
    names : sequence of str
        Tasks, groups, tags, patterns or files.
    include_path
        As in the harness.

    Raises
    ------
    UsageError
        If there is no such task, or none of them gets a variant: it cannot be run adaptively, or
        is adaptive already.
    HarnessError
        If a file cannot be written.
    """
    manager = internals.task_manager(names, include_path)
    variants = Variants(folder)
    for name in internals.expand_names(manager, names):
        variants.names += _write_variant(variants, manager, name)
    if not variants.files:
        reasons = {**dict.fromkeys(variants.names, "is adaptive already"), **variants.in_full}
        raise UsageError("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))
    return variants


def _write_variant(variants: Variants, manager: Any, name: str) -> list[str]:
    """Write the variant of a name, or those of a tag's tasks; return the variants' names."""
    entry = internals.index_entry(manager, name)
    name = str(entry.config.get(entry.kind, name))
    if entry.kind == "tag":
        return [
            variant
            for member in entry.members
            for variant in _write_variant(variants, manager, member)
        ]
    if entry.kind == "group":
        text = _group_variant(variants, manager, name, entry)
    else:
        class_name = str(entry.config.get("class", ""))
        # It is adaptive already, and stands for itself.
        if class_name.endswith("AdaptiveTask"):
            return [name]
        reason = _reason_in_full(entry, class_name)
        # The task itself takes the variant's place: a group is adaptive as far as its tasks allow.
        if reason or entry.file is None:
            variants.in_full[name] = reason or "it has no file"
            return [name]
        folder, file = variants.folder, json.dumps(str(entry.file.resolve()), ensure_ascii=False)
        text = _TASK.format(name=name, file=file, folder=folder, kind=_CLASS, suffix=SUFFIX)
    variants.files[name] = variants.folder / f"{name.replace('/', '_')}{SUFFIX}.yaml"
    with writing(variants.files[name], HarnessError):
        variants.files[name].write_text(text, encoding="utf-8")
    return [name + SUFFIX]


def _reason_in_full(entry: Any, class_name: str) -> str:
    """Say why a task cannot be run adaptively, whatever its file; "" if it can."""
    if entry.config.get("output_type") == "loglikelihood_rolling":
        return "a perplexity weighs documents by their length and has no score per document"
    return "its settings are code, which a variant cannot inherit" if class_name else ""


def _group_variant(variants: Variants, manager: Any, name: str, entry: Any) -> str:
    """Write the variants of a group's members, and return the text of the group's own."""
    settings = {
        key: value
        for key, value in entry.config.items()
        if key not in ("group", "task", "include", "tag")
    }
    members = [
        variant
        for member in entry.members
        for variant in _entries_of_member(variants, manager, name, member)
    ]
    content = {"group": name + SUFFIX, **settings, "task": members}
    return str(yaml.safe_dump(content, sort_keys=False))


def _entries_of_member(variants: Variants, manager: Any, group: str, member: Any) -> list[Any]:
    """Return the entries of a group's variant that replace one of its members."""
    # A member is a name, a task's name with changes of its settings, or a group or task of its own.
    changes = member if isinstance(member, dict) else {}
    child = changes.get("group") or changes.get("task", member)
    if isinstance(child, str) and not changes.get("group"):
        with contextlib.suppress(UsageError):  # nothing but this group has that name
            written = _write_variant(variants, manager, child)
            return [{**changes, "task": variant} if changes else variant for variant in written]
    variants.in_full[f"{group}::{child}"] = "it is defined inside its group and has no file"
    return [member]
