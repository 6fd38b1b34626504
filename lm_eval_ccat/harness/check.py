"""Which metrics of a task can be used adaptively, found out before anything is spent.

No model is called. A task is loaded if its documents are at hand; otherwise its YAML says what it
can. With `probe` the task also scores the target of its first document as if it were an answer,
which runs the metrics' code.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import CcatError, UsageError
from ..metrics import Metric, Scale, find_metric
from ..metrics.declared import metric_name
from ..metrics.pairs import PAIR_METRICS, parts_of
from ..plugins import did_you_mean
from . import internals
from .session import TaskSession
from .task_metrics import metric_config, script_note

#: Metrics of HF evaluate that report under other names than their own.
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
        Where the estimate will stand in the results.
    estimand : str
        What is estimated, in words; "" if nothing can be.
    reason : str
        Why it cannot be used, with the remedy; "" if it can.
    """

    metric: str
    filter: str
    usable: bool
    scale: Scale | None = None
    key: str | None = None
    estimand: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        scale = None if self.scale is None else {**self.scale.to_dict(), "words": str(self.words)}
        return {
            "metric": self.metric,
            "filter": self.filter,
            "usable": self.usable,
            "scale": scale,
            "key": self.key,
            "estimand": self.estimand,
            "reason": self.reason,
        }

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
        Number of documents; None where they were not at hand.
    metrics : tuple of MetricCheck
    reason : str
        Why the whole task cannot be run adaptively; "" if it can.
    notes : tuple of str
        What could not be checked.
    """

    task: str
    documents: int | None
    metrics: tuple[MetricCheck, ...]
    reason: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def usable(self) -> bool:
        """Whether some metric can be used adaptively."""
        return not self.reason and any(metric.usable for metric in self.metrics)

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "task": self.task,
            "usable": self.usable,
            "documents": self.documents,
            "reason": self.reason,
            "notes": list(self.notes),
            "metrics": [metric.to_dict() for metric in self.metrics],
        }


def check_tasks(
    names: Sequence[str],
    *,
    include_path: Any = None,
    metadata: Mapping[str, Any] | None = None,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
    metric: str | None = None,
    probe: bool = False,
) -> list[TaskCheck]:
    """Check tasks, groups, tags or task files.

    Parameters
    ----------
    names : sequence of str
        Names or patterns, as `lm_eval --tasks` takes them.
    include_path, metadata
        As the harness takes them.
    range, lower_is_better
        Scale of `metric`, or of all metrics if none is named.
    metric : str, optional
        Look at this metric only.
    probe : bool
        Let each task score the first document's own target.

    Raises
    ------
    UsageError
        If there is no such task.
    """
    manager = internals.task_manager(names, include_path, metadata)
    configs: dict[str, dict[str, Any]] = {}
    loaded: dict[str, Any] = {}
    troubles: dict[str, str] = {}
    for name in internals.expand_names(manager, names):
        try:
            found = internals.static_configs(manager, name)
        except KeyError:
            raise UsageError(
                f"no task, group, tag or file {name!r}; `lm_eval ls tasks` lists them, "
                "--include_path adds a folder"
            ) from None
        configs.update(found)
        tasks, trouble = _load(manager, name)
        if tasks is None and len(found) > 1:
            for task in found:
                some, troubles[task] = _load(manager, task)
                loaded.update(some or {})
        else:
            loaded.update(tasks or {})
            troubles.update(dict.fromkeys(found, trouble))
    scales = (range, lower_is_better)
    return [
        _check_loaded(loaded[name], scales, metric, probe)
        if name in loaded
        else check_config(name, config, scales, metric, troubles.get(name, ""))
        for name, config in configs.items()
    ]


#: Standard output and the level of logging are the process's; two threads must not restore what
#: the other one set.
_ALONE = threading.RLock()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what tasks print and log while they load out of the answer on standard output."""
    with _ALONE, contextlib.redirect_stdout(sys.stderr):
        level = logging.root.manager.disable
        logging.disable(logging.ERROR)
        try:
            yield
        finally:
            logging.disable(level)


def _load(manager: Any, name: str) -> tuple[dict[str, Any] | None, str]:
    try:
        with _quiet():
            return dict(internals.load_from(manager, [name])["tasks"]), ""
    except Exception as error:  # whatever a data set, a metric library or a task's code may raise
        first = " ".join(str(error).split()) or type(error).__name__
        return None, first if len(first) <= 160 else first[:157] + "..."


Scales = tuple[tuple[float, float] | None, bool | None]


def _check_loaded(task: Any, scales: Scales, wanted: str | None, probe: bool) -> TaskCheck:
    name = internals.task_name(task)
    config = metric_config(task)
    filters = internals.filter_names(task)
    notes: list[str] = []
    declared = [metric_name(metric) for metric in internals.metric_names(task)]
    names = _reported_names(config, declared)
    missing = {metric_name(metric) for metric in internals.missing_metrics(task)}
    values: Mapping[str, Any] = {}
    if probe:
        values, note = _probe(task)
        notes += [note] if note else []
        names = list(values) or names
    checks = [
        _absent_function(metric, filter, name)
        if metric in missing
        else _check_metric(
            metric,
            filter,
            name,
            config,
            scales,
            internals.has_several_targets(task),
            values,
        )
        for metric in _wanted(names, wanted)
        for filter in filters
    ]
    if internals.output_type(task) == "generate_until":
        notes += [note for check in checks if (note := script_note(task, check.metric))]
    return TaskCheck(
        name,
        len(internals.documents(task)),
        tuple(checks) or _absent(wanted, names, filters),
        _task_reason(name, internals.output_type(task)),
        tuple(notes),
    )


def check_config(
    name: str,
    config: Mapping[str, Any],
    scales: Scales = (None, None),
    wanted: str | None = None,
    trouble: str = "",
) -> TaskCheck:
    """Check a task by its configuration alone, as its YAML has it.

    Parameters
    ----------
    name : str
    config : mapping
    scales : tuple
        Range and lower_is_better of the metrics, where stated.
    wanted : str, optional
        Look at this metric only.
    trouble : str, optional
        Why the task was not loaded.
    """
    notes = [f"not loaded ({trouble}); this is what its YAML says" if trouble else "not loaded"]
    output_type = str(config.get("output_type") or "generate_until")
    if "class" in config and not config.get("metric_list"):
        return TaskCheck(
            name,
            None,
            (),
            "its metrics are set in code, which could not be run without its documents; "
            "load them with --download",
            tuple(notes),
        )
    config = {**config, "output_type": output_type}
    if not config.get("metric_list"):
        config["metric_list"] = [
            {"metric": metric} for metric in internals.default_metrics(output_type)
        ]
    declared = [metric_name(entry.get("metric")) for entry in config["metric_list"]]
    names = _reported_names(config, declared)
    filters = [str(entry["name"]) for entry in config.get("filter_list") or []] or ["none"]
    graded = not set(names) <= {"exact_match", "acc"}
    if graded and output_type == "generate_until" and not config.get("process_results"):
        notes.append(
            "if its documents have several targets, metrics other than exact_match become 0 or 1 "
            "and cannot be used"
        )
    checks = [
        _check_metric(metric, filter, name, config, scales, False, {})
        for metric in _wanted(names, wanted)
        for filter in filters
    ]
    return TaskCheck(
        name,
        None,
        tuple(checks) or _absent(wanted, names, filters),
        _task_reason(name, output_type),
        tuple(notes),
    )


def _wanted(names: Sequence[str], wanted: str | None) -> list[str]:
    """The metrics to look at: all, or the one that is wanted, with its tokenizer."""
    if wanted is None:
        return list(names)
    return [wanted for name in names if name == parts_of(wanted)[0]]


def _reported_names(config: Mapping[str, Any], declared: Sequence[str]) -> list[str]:
    """Names under which the metrics of a task report (a few report under several)."""
    entries = {metric_name(e.get("metric")): e for e in config.get("metric_list") or []}
    names: list[str] = []
    for metric in declared:
        entry = entries.get(metric, {})
        k = entry.get("k")
        if metric == "pass_at_k" and isinstance(k, (list, tuple)):
            names += [f"pass@{n}" for n in k]
        elif entry.get("hf_evaluate") is True and metric in HF_EXPANSIONS:
            names += HF_EXPANSIONS[metric]
        else:
            names += EXPANSIONS.get(metric, (metric,))
    return list(dict.fromkeys(names))


def _absent_function(metric: str, filter: str, task: str) -> MetricCheck:
    return MetricCheck(
        metric,
        filter,
        False,
        reason=f"metric {metric} of task {task} could not be loaded: it is neither lm-eval's nor "
        "to be had from HF evaluate here; install or download it, or correct its name",
    )


def _absent(
    wanted: str | None, names: Sequence[str], filters: Sequence[str]
) -> tuple[MetricCheck, ...]:
    if wanted is None:
        return ()
    reason = f"the task has no metric {wanted}; it has {', '.join(names) or 'none'}" + did_you_mean(
        wanted, names, listing=False
    )
    return tuple(MetricCheck(wanted, filter, False, reason=reason) for filter in filters)


def _task_reason(name: str, output_type: str | None) -> str:
    if output_type == "loglikelihood_rolling":
        return (
            f"task {name} is of type loglikelihood_rolling: its perplexities weigh documents by "
            "length and have no score per document; run it without --adaptive"
        )
    return ""


def _check_metric(
    name: str,
    filter: str,
    task: str,
    config: Mapping[str, Any],
    scales: Scales,
    multiple_targets: bool,
    values: Mapping[str, Any],
) -> MetricCheck:
    try:
        metric = find_metric(
            name,
            range=scales[0],
            lower_is_better=scales[1],
            task=task,
            config=config,
            multiple_targets=multiple_targets,
        )
        if metric.source in values:
            metric.score(values[metric.source], task=task)
    except CcatError as error:
        return MetricCheck(name, filter, False, reason=str(error))
    return MetricCheck(name, filter, True, metric.scale, metric.key(filter), _estimand(metric))


def _estimand(metric: Metric) -> str:
    capped = "" if metric.scale.cap is None else f" capped at {metric.scale.cap:g}"
    if metric.pair_scorer is not None and metric.source in PAIR_METRICS:
        return (
            f"mean of sentence {metric.name}{capped} over all documents; corpus {metric.source} "
            "appears only when every document was run"
        )
    return f"mean of {metric.name}{capped} over all documents"


def _probe(task: Any) -> tuple[dict[str, Any], str]:
    """What the task reports for its first document when the answer is the document's target."""
    if internals.runs_written_code(task):
        return {}, "not probed: the task runs code that a model writes"
    if internals.output_type(task) != "generate_until":
        return {}, "not probed: only generated answers can be made up"
    target = internals.target(task, internals.documents(task)[0])
    answer = target[0] if isinstance(target, (list, tuple)) and target else target
    try:
        with _quiet():
            [one] = TaskSession(task, _Echo(str(answer))).administer([0])
            return {metric: value for (metric, _), value in one.values.items()}, ""
    except Exception as error:
        return {}, f"probing failed: {type(error).__name__}: {' '.join(str(error).split())[:160]}"


class _Echo:
    """Says the same to every prompt, where the harness wants a model."""

    world_size = 1

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """One answer for each request."""
        return [self._answer] * len(requests)
