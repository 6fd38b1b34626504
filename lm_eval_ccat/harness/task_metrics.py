"""The metrics of a loaded task, found with all that the task says of them."""

from __future__ import annotations

import itertools
from typing import Any

from ..errors import MetricError
from ..metrics import Metric, find_metric
from ..metrics.pairs import parts_of, script_warning
from ..plugins import did_you_mean
from . import internals

_LOOKED_AT = 20  # documents


def metric_config(task: Any) -> dict[str, object]:
    """A task's configuration, with the aggregations and scoring that a task class keeps in code.

    Parameters
    ----------
    task : lm_eval.api.task.Task
        A loaded task.

    Returns
    -------
    dict
        What `lm_eval_ccat.metrics.find_metric` takes as `config`.
    """
    config = internals.task_config(task)
    entries = [dict(entry) for entry in config.get("metric_list") or []]
    directions = internals.directions(task)
    named = {str(entry.get("metric")) for entry in entries}
    for metric, aggregation in internals.aggregations(task).items():
        if metric not in named:
            entry = {"metric": metric, "aggregation": aggregation}
            if metric in directions:
                entry["higher_is_better"] = directions[metric]
            # Before the entries of functions, whose text stands where the name would.
            entries.insert(0, entry)
    config["metric_list"] = entries
    config["process_results"] = internals.scores_by_itself(task)
    config["output_type"] = internals.output_type(task)
    return config


def metric_of_task(
    task: Any,
    name: str,
    *,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
) -> Metric:
    """Find a metric of a loaded task.

    Parameters
    ----------
    task : lm_eval.api.task.Task
        A loaded task.
    name : str
        Metric name, without the filter.
    range, lower_is_better
        See `lm_eval_ccat.metrics.find_metric`.

    Raises
    ------
    MetricError
        If it cannot become one score per document, or the task surely does not report it; names
        metric, task and remedy.
    """
    reported = internals.reported_metrics(task)
    base, _ = parts_of(name)
    if reported is not None and base not in reported:
        near = did_you_mean(base, reported, listing=False)
        raise MetricError(
            f"task {internals.task_name(task)} does not report metric {base}; it reports "
            f"{', '.join(reported)}{near} (calibrate a bank for one of these, or add {base} to "
            "the task's metric_list)"
        )
    return find_metric(
        name,
        range=range,
        lower_is_better=lower_is_better,
        task=internals.task_name(task),
        config=metric_config(task),
        multiple_targets=internals.has_several_targets(task),
    )


def script_note(task: Any, metric: str) -> str:
    """What to say of a metric that is noise in the script of a task's targets; mostly nothing."""
    documents = itertools.islice(internals.documents(task), _LOOKED_AT)
    targets = [internals.target(task, document) for document in documents]
    return script_warning(metric, [str(target) for target in targets])
