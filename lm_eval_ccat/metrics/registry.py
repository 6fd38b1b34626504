"""Find a metric by name and turn what the harness reports for a document into its raw score.

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

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import MetricError, ScaleError
from ..plugins import did_you_mean
from ..shown import short
from .pairs import (
    OWN_ROUGE,
    PAIR_METRICS,
    order_pair,
    parts_of,
    reports_word_f1,
    sentence_scorer,
)
from .rouge import KINDS as ROUGE_METRICS
from .scale import Scale
from .table import CORPUS, ENTRIES, HF_SCALES, PAIR_SCALES, USE_MEAN, lookup, refusal

_DECLARE = (
    "state its range: where a command reads logs by --range WORST,BEST, else in "
    "the task YAML, `metadata: {{ccat_scales: {{{name}: {{range: [0, 10]}}}}}}`"
)


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
    direction = entry.get("higher_is_better")
    direction = direction if isinstance(direction, bool) else None
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


def _scale_of(entry: Mapping[str, Any], direction: bool | None, metric: str) -> Scale | None:
    if entry.get("lower_is_better") is not None:
        direction = not entry["lower_is_better"]
    elif isinstance(entry.get("higher_is_better"), bool):
        direction = entry["higher_is_better"]
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


@dataclass(frozen=True)
class Metric:
    """One metric of a task: its scale, and how a document's report becomes a number.

    Parameters
    ----------
    name : str
        The harness's name of the metric, such as ``"bleu"``, with a tokenizer where one is stated:
        ``"bleu@zh"``.
    scale : Scale
        Scale and direction of the raw scores.
    corpus : bool
        True where the harness does not aggregate by the mean of the documents' scores (bleu, chrf,
        ter): the estimate then stands under a name of its own (`key`).
    prefix : str
        What that name begins with.
    pairs : bool
        True where the harness reports pairs of texts, of which the score is computed here.
    skips_nan : bool
        True where the task aggregates by ``nanmean``: a document whose value is NaN has no score.

    Examples
    --------
    >>> find_metric("acc").score(True)
    1.0
    >>> find_metric("bleu@zh").key("none"), find_metric("bleu@zh").source
    ('sentence_bleu@zh,none', 'bleu')
    """

    name: str
    scale: Scale
    corpus: bool = False
    prefix: str = ""
    pairs: bool = False
    skips_nan: bool = False

    @property
    def source(self) -> str:
        """Name under which the task reports what the metric is computed from."""
        return parts_of(self.name)[0]

    @property
    def label(self) -> str:
        """Name under which a mean of this metric's per-document scores may stand."""
        return f"{self.prefix}{self.name}"

    def key(self, filter: str = "none") -> str:
        """Key of the estimate in a results file.

        Parameters
        ----------
        filter : str
            Name of the harness's filter pipeline.
        """
        return f"{self.label},{filter}"

    @property
    def in_words(self) -> str:
        """What is averaged over the documents."""
        what = f"mean {self.name}"
        if self.label.startswith("sentence_"):
            what = f"mean sentence-level {self.name} (not the corpus {self.name})"
        if self.scale.cap is not None:
            what += f", each document's score capped at {self.scale.cap:g},"
        return what

    def is_missing(self, value: Any) -> bool:
        """Whether the task says by NaN that a document has no score (see `skips_nan`)."""
        number = isinstance(value, (float, np.floating))
        return self.skips_nan and number and math.isnan(value)

    def score(self, value: Any, *, task: str = "", prediction: str | None = None) -> float:
        """Turn what ``process_results`` reported for one document into a raw score.

        Parameters
        ----------
        value : float, bool or pair of texts
            The metric's value in the harness's result for the document, or in a row of a log.
        task : str
            Task name, for the order of a pair and for messages.
        prediction : str, optional
            The model's filtered answer, where known; settles the order of a pair.

        Returns
        -------
        float
            Raw score, on `scale`.

        Raises
        ------
        MetricError
            If the value is no score (a missing pair, NaN, a list, text).
        ScaleError
            If it lies outside the scale.
        """
        where = _where(self.name, task)
        if self.pairs:
            pair = order_pair(value, metric=self.name, task=task, prediction=prediction)
            number = sentence_scorer(self.name)(*pair)
        else:
            number = _number(value, where)
        if math.isnan(number):
            raise MetricError(
                f"{where} is NaN for a document; leave such documents out of the "
                "task, or let its process_results return the lowest score for them"
            )
        low, high = self.scale.bounds
        if not low <= number <= high:
            raise ScaleError(
                f"{where} gave {number:.6g}, outside its scale "
                f"({self.scale.describe()}); {_DECLARE.format(name=self.name)}"
            )
        return number


def find_metric(
    name: str,
    *,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
    task: str = "",
    config: Mapping[str, Any] | None = None,
    multiple_targets: bool = False,
) -> Metric:
    """Find a metric by the name that the harness gives it.

    The scale is, in this order: `range` and `lower_is_better`; what the task YAML declares
    (see above); the table (`lm_eval_ccat.metrics.table`).

    Parameters
    ----------
    name : str
        Metric name, without the filter; with a tokenizer, such as ``bleu@zh``, where the task
        reports pairs of texts.
    range : (float, float), optional
        Ends of the raw scale.
    lower_is_better : bool, optional
        Direction. Given without a range for a metric of unknown scale it means an unbounded one,
        capped at 1.
    task : str
        Task name: some families use a name on a scale of their own.
    config : mapping, optional
        The task's configuration, live (`task.dump_config()`) or from a results file.
    multiple_targets : bool
        Whether documents of the task have lists of targets.

    Raises
    ------
    MetricError
        If the metric has no score per document, or its scale is not known; names the remedy.

    Examples
    --------
    >>> find_metric("rougeL_max").scale.describe()
    '0 to 100, higher is better'
    """
    base, tokenizer = parts_of(name)
    where = _where(name, task)
    declared = read_declaration(config, base)
    if multiple_targets:
        _refuse_multiple_targets(base, where, declared)
    stated = _stated_scale(base, task, range, lower_is_better, declared)
    # Tasks may report a number under the name of a corpus metric.
    if base in PAIR_METRICS and not declared.hf_evaluate and declared.aggregation not in MEANS:
        return _of_pairs(Metric(name, stated or PAIR_SCALES[base], True, "sentence_", True))
    if stated is None and _reports_rouge_pairs(base, task, declared):
        return _of_pairs(Metric(name, Scale(), True, "mean_", True))
    if stated is None and reports_word_f1(base, task):
        return Metric(name, Scale(), pairs=True)
    if tokenizer is not None:
        raise MetricError(
            f"{where} cannot be computed: the task reports {base} as a number, tokenized in its "
            f"own way; leave @{tokenizer} out, or score its logs by `lm-eval-ccat score {name}`"
        )
    if stated is None and (reason := refusal(base)):
        raise MetricError(f"{where} cannot be used adaptively: {reason[0]}; {reason[1]}")
    _refuse_corpus_statistic(base, where, declared, stated)
    scale = stated or lookup(base, task)
    if stated is None and declared.hf_evaluate:
        scale = HF_SCALES.get((declared.source, base), scale)
    if stated is None:
        scale = _directed(scale, declared.higher_is_better)
    if scale is None:
        raise MetricError(
            f"the scale of {where} is not known; {_DECLARE.format(name=name)}"
            + _listed(name, config)
        )
    # Only with a declared scale does a metric of the task's own aggregation come this far.
    by_task = declared.aggregation not in (None, *MEANS)
    skips_nan = declared.aggregation == "nanmean"
    return Metric(name, scale, by_task, "mean_" if by_task else "", skips_nan=skips_nan)


def _of_pairs(metric: Metric) -> Metric:
    sentence_scorer(metric.name)  # a missing tokenizer is an error now, not at the first answer
    return metric


def known_scale(name: str, *, task: str = "") -> Scale | None:
    """Scale of a metric in the table, or None.

    >>> known_scale("ter@asian").describe()
    '0 upwards, capped at 100, lower is better'
    """
    base, _ = parts_of(name)
    return PAIR_SCALES.get(base) or lookup(base, task)


def check_column(raw: ArrayLike, *, metric: str, task: str = "") -> None:
    """Refuse scores that are the same for every document: nothing can be learnt from them.

    Parameters
    ----------
    raw : array_like
        Scores of any shape, NaN where missing.

    Raises
    ------
    MetricError
        If there is no score, or only one distinct value.
    """
    values = np.asarray(raw, dtype=np.float64)
    values = values[~np.isnan(values)]
    where = _where(metric, task)
    if values.size == 0:
        raise MetricError(f"{where} has no scores; check the logs and the filter")
    if values.min() == values.max():
        raise MetricError(
            f"every document has the same score ({values[0]:g}), so {where} cannot separate "
            "models; check the answer format and the filter, or choose another metric"
        )


def _where(metric: str, task: str) -> str:
    return f"metric {metric}{f' of task {task}' if task else ''}"


def _number(value: Any, where: str) -> float:
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "biuf":
        return float(value)
    shown = short(repr(value))
    if value is None:
        remedy = "the task gives no score for it; choose another metric"
    else:
        remedy = "give the task a process_results that returns one number per document"
    raise MetricError(f"{where} came as {shown}, not as one number per document; {remedy}")


def _reports_rouge_pairs(name: str, task: str, declared: Declaration) -> bool:
    return (
        name in ROUGE_METRICS
        and declared.aggregation == "custom"
        and not declared.own_results
        and not declared.hf_evaluate
        and task not in OWN_ROUGE
    )


def _stated_scale(
    name: str,
    task: str,
    range: tuple[float, float] | None,
    lower_is_better: bool | None,
    declared: Declaration,
) -> Scale | None:
    """The scale that the user or the task's YAML states; None where neither does."""
    known = known_scale(name, task=task)
    higher = None if lower_is_better is None else not lower_is_better
    if range is not None:
        of_table = None if known is None else known.higher_is_better
        stated = [h for h in (higher, declared.higher_is_better, of_table) if h is not None]
        return Scale(*range, *stated[:1])
    if declared.scale is not None or (known is not None and higher is not None):
        return _directed(declared.scale or known, higher)
    return Scale(cap=1.0) if lower_is_better else None


def _directed(scale: Scale | None, higher_is_better: bool | None) -> Scale | None:
    if scale is None or higher_is_better is None or scale.cap is not None:
        return scale
    return replace(scale, higher_is_better=higher_is_better)


def _listed(name: str, config: Mapping[str, Any] | None) -> str:
    """What the task lists instead, and the nearest name, for one that is mistyped."""
    entries = [e for e in (config or {}).get("metric_list") or () if isinstance(e, Mapping)]
    names = [str(e["metric"]) for e in entries if "metric" in e]
    if name in names:
        return ""
    if not names:
        known = [m for entry in ENTRIES for m in entry.metrics if "*" not in m]
        return did_you_mean(name, [*PAIR_METRICS, *known], listing=False)
    return f"; the task itself lists {', '.join(names)}{did_you_mean(name, names, listing=False)}"


def _refuse_multiple_targets(name: str, where: str, declared: Declaration) -> None:
    # lm-eval scores the targets one by one and reports whether any score is not zero
    # (ConfigurableTask.process_results); for 0/1 metrics that is what is meant.
    graded = name not in ("exact_match", "acc")
    if graded and declared.output_type == "generate_until" and not declared.own_results:
        raise MetricError(
            f"{where} is turned into 0 or 1 by lm-eval because its documents have several "
            "targets; give the task a process_results of its own, or one target per document"
        )


def _refuse_corpus_statistic(
    name: str, where: str, declared: Declaration, stated: Scale | None
) -> None:
    # The harness reports (gold, prediction) pairs of class labels for f1 of multiple_choice tasks.
    if name == "f1" and (
        declared.aggregation == "f1"
        or (declared.output_type == "multiple_choice" and not declared.own_results)
    ):
        raise MetricError(f"{where} cannot be used adaptively: {CORPUS}; {USE_MEAN}")
    if declared.aggregation in (None, *MEANS) or stated is not None:
        return
    raise MetricError(
        f"{where} cannot be used adaptively: the task aggregates it by "
        f"{'a function of its own' if declared.aggregation == 'custom' else declared.aggregation}, "
        "not by the mean over documents; if it does report one number per document and their mean "
        f"is what you want, {_DECLARE.format(name=name)}"
    )
