"""What a task's own configuration says of a metric.

A range that the table does not know is declared in the task YAML, in either of two places::

    metadata:
      ccat_scales:
        my_metric: {range: [0, 10]}                 # or {range: [0, 5], lower_is_better: true}
        my_error: {cap: 1.0}                        # unbounded, lower is better

    metric_list:                                    # only next to process_results: without it
      - metric: my_metric                           # lm-eval hands unknown keys to the metric
        aggregation: mean
        higher_is_better: true
        range: [0, 10]

The same mapping is read from a live task (`task.dump_config()`) and from the ``configs`` block of a
results file, where functions have become text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ScaleError
from .scale import Scale
from .table import HF_SCALES

#: Aggregations of lm-eval under which the benchmark's score is the mean of the documents' scores.
MEANS = ("mean", "nanmean")
#: Those that it has beside them.
_OTHERS = (
    "median", "bleu", "chrf", "chrf++", "ter", "f1", "matthews_corrcoef", "perplexity",
    "weighted_perplexity", "bits_per_byte", "brier_score", "bypass",
)  # fmt: skip


@dataclass(frozen=True)
class Declaration:
    """What a task configuration says of one metric.

    Parameters
    ----------
    aggregation : str or None
        Name of the aggregation; "custom" for a function of the task's own; None if not stated.
    higher_is_better : bool or None
        Direction, if stated.
    scale : Scale or None
        Declared range or cap, if any.
    hf_evaluate : bool
        Whether the metric comes from the HF `evaluate` library.
    source : str
        Name of the metric whose function reports it, "" if not known.
    own_results : bool
        Whether the task has a `process_results` of its own.
    output_type : str
        Request type of the task, "" if not stated.
    """

    aggregation: str | None = None
    higher_is_better: bool | None = None
    scale: Scale | None = None
    hf_evaluate: bool = False
    source: str = ""
    own_results: bool = False
    output_type: str = ""


def read_declaration(config: Mapping[str, Any] | None, metric: str) -> Declaration:
    """Collect what a task configuration says of a metric.

    Parameters
    ----------
    config : mapping or None
        `task.dump_config()` or one entry of ``configs`` in a results file.
    metric : str
        Key of the metric in the task's results.

    Raises
    ------
    ScaleError
        If a declared range cannot be read.
    """
    if not config:
        return Declaration()
    entries = [entry for entry in config.get("metric_list") or () if isinstance(entry, Mapping)]
    named = [entry for entry in entries if metric_name(entry.get("metric")) == metric]
    # A metric function may return several keys (pass@1 ...); they inherit its entry.
    sources = [e for e in entries if (metric_name(e.get("metric")), metric) in HF_SCALES]
    entry = (named or sources or (entries if len(entries) == 1 else []) or [{}])[0]
    direction = _flag(entry, "higher_is_better")
    scale = _scale_of(entry, direction, metric) if named else None
    metadata = config.get("metadata")
    scales = metadata.get("ccat_scales") if isinstance(metadata, Mapping) else None
    if isinstance(scales, Mapping) and metric in scales:
        if not isinstance(scales[metric], Mapping):
            raise ScaleError(
                f"metadata.ccat_scales.{metric} must look like {{range: [0, 10]}}, "
                f"not {scales[metric]!r}"
            )
        scale = _scale_of(scales[metric], direction, metric)
    return Declaration(
        aggregation=_aggregation(entry.get("aggregation")),
        higher_is_better=direction,
        scale=scale,
        hf_evaluate=entry.get("hf_evaluate") is True,
        source=metric_name(entry["metric"]) if "metric" in entry else "",
        own_results=bool(config.get("process_results")),
        output_type=str(config.get("output_type") or ""),
    )


def metric_name(metric: Any) -> str:
    """Name of a ``metric:`` entry.

    A function has its name; in a results file stands its source; in a task file that was read
    without importing anything, its module's path and its name.

    >>> metric_name("def bleu(items):  return items")
    'bleu'
    >>> metric_name("/tasks/wmt2016/metrics.bleu")
    'bleu'

    A metric of HF `evaluate` may be a folder; it reports under the folder's name.

    >>> metric_name("my_metrics/overlap")
    'overlap'
    """
    if callable(metric):
        return str(getattr(metric, "__name__", metric))
    text = str(metric)
    for pattern in (
        r"^\s*(?:async )?def (\w+)",
        r"^<function (?:[^>]*\.)?(\w+) at ",
        r"/[^\s]*\.(\w+)$",
    ):
        if match := re.search(pattern, text, re.MULTILINE):
            return match[1]
    return text.rstrip("/").rsplit("/", 1)[-1] if "/" in text else text


def _aggregation(value: Any) -> str | None:
    if value is None:
        return None
    text = str(getattr(value, "__name__", "custom") if callable(value) else value)
    return text if text in (*MEANS, *_OTHERS) else "custom"


def _flag(entry: Mapping[str, Any], name: str) -> bool | None:
    value = entry.get(name)
    return value if isinstance(value, bool) else None


def _scale_of(entry: Mapping[str, Any], direction: bool | None, metric: str) -> Scale | None:
    if entry.get("lower_is_better") is not None:
        direction = not entry["lower_is_better"]
    elif (higher := _flag(entry, "higher_is_better")) is not None:
        direction = higher
    if entry.get("cap") is not None:
        return Scale(cap=entry["cap"])
    ends = entry.get("range")
    if ends is None:
        return None
    if not isinstance(ends, (list, tuple)) or len(ends) != 2:
        raise ScaleError(
            f"the range of metric {metric} must be two numbers [low, high], not {ends!r}"
        )
    return Scale(ends[0], ends[1], True if direction is None else direction)
