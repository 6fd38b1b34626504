"""Find a metric by name and turn what the harness reports for a document into its raw score."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lm_eval_ccat.errors import MetricError, ScaleError
from lm_eval_ccat.metrics.declared import MEANS, Declaration, read_declaration
from lm_eval_ccat.metrics.pairs import (
    OWN_ROUGE,
    PAIR_METRICS,
    ROUGE_METRICS,
    order_pair,
    reports_word_f1,
    sentence_scorer,
)
from lm_eval_ccat.metrics.scale import TOLERANCE, Scale
from lm_eval_ccat.metrics.table import HF_SCALES, PAIR_SCALES, lookup, refusal

_DECLARE = (
    "state its range: where a command reads logs by --range LO,HI (and --lower_is_better), else in "
    "the task YAML, `metadata: {{ccat_scales: {{{name}: {{range: [0, 10]}}}}}}`"
)


@dataclass(frozen=True)
class Metric:
    """One metric of a task: its scale, and how a document's report becomes a number.

    Parameters
    ----------
    name : str
        The harness's name of the metric, such as ``"bleu"``.
    scale : Scale
        Scale and direction of the raw scores.
    corpus : bool
        True where the harness does not aggregate by the mean of the documents' scores (bleu, chrf,
        ter): the estimate then stands under a name of its own (`key`).
    prefix : str
        What that name begins with.
    pair_scorer : callable, optional
        ``(prediction, references) -> raw score`` where the harness reports pairs of texts.
    skips_nan : bool
        True where the task aggregates by ``nanmean``: a document whose value is NaN has no score.

    Examples
    --------
    >>> find_metric("acc").score(True)
    1.0
    >>> find_metric("bleu").key("none")
    'sentence_bleu,none'
    """

    name: str
    scale: Scale
    corpus: bool = False
    prefix: str = ""
    pair_scorer: Callable[[str, Sequence[str]], float] | None = None
    skips_nan: bool = False

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
        where = f" of task {task}" if task else ""
        if self.pair_scorer is not None:
            number = self.pair_scorer(
                *order_pair(value, metric=self.name, task=task, prediction=prediction)
            )
        else:
            number = _number(value, f"metric {self.name}{where}")
        if math.isnan(number):
            raise MetricError(
                f"metric {self.name}{where} is NaN for a document; leave such documents out of the "
                "task, or let its process_results return the lowest score for them"
            )
        slack = TOLERANCE * self.scale.span
        above = math.isinf(number) or (self.scale.cap is None and number > self.scale.high + slack)
        if above or number < self.scale.low - slack:
            raise ScaleError(
                f"metric {self.name}{where} gave {number:.6g}, outside its scale "
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
    (`lm_eval_ccat.metrics.declared`); the table (`lm_eval_ccat.metrics.table`).

    Parameters
    ----------
    name : str
        Metric name, without the filter.
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
    where = f" of task {task}" if task else ""
    declared = read_declaration(config, name)
    if multiple_targets:
        _refuse_multiple_targets(name, where, declared)
    stated = _stated_scale(name, task, range, lower_is_better, declared)
    pairs = name in PAIR_METRICS and _reports_pairs(declared)
    if pairs:
        scale = stated or PAIR_SCALES[name]
        return Metric(
            name, scale, corpus=True, prefix="sentence_", pair_scorer=sentence_scorer(name)
        )
    if _reports_rouge_pairs(name, task, declared) and stated is None:
        return Metric(name, Scale(), corpus=True, prefix="mean_", pair_scorer=sentence_scorer(name))
    if reports_word_f1(name, task) and stated is None:
        return Metric(name, Scale(), pair_scorer=sentence_scorer(name))
    known_reason = refusal(name)
    if known_reason and stated is None:
        why, remedy = known_reason
        raise MetricError(f"metric {name}{where} cannot be used adaptively: {why}; {remedy}")
    _refuse_corpus_statistic(name, where, declared, stated)
    scale_or_none = stated or _table_scale(name, task, declared)
    if scale_or_none is None:
        raise MetricError(
            f"the scale of metric {name}{where} is not known; {_DECLARE.format(name=name)}"
            + _listed(name, config)
        )
    # Only with a declared scale does a metric of the task's own aggregation come this far.
    own = declared.aggregation not in (None, *MEANS)
    return Metric(
        name,
        scale_or_none,
        corpus=own,
        prefix="mean_" if own else "",
        skips_nan=declared.aggregation == "nanmean",
    )


def known_scale(name: str, *, task: str = "") -> Scale | None:
    """Scale of a metric in the table, or None.

    >>> known_scale("ter").describe()
    '0 upwards, capped at 100, lower is better'
    """
    return PAIR_SCALES.get(name) or lookup(name, task)


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
    where = f" of task {task}" if task else ""
    if values.size == 0:
        raise MetricError(
            f"metric {metric}{where} has no score at all; check the logs and the filter"
        )
    if values.min() == values.max():
        raise MetricError(
            f"metric {metric}{where} is {values[0]:g} for every document and cannot tell "
            "models apart; check the answer format and the filter, or choose another metric"
        )


def _number(value: Any, what: str) -> float:
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "biuf":
        return float(value)
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    if value is None:
        remedy = "the task gives no score for it; choose another metric"
    else:
        remedy = "give the task a process_results that returns one number per document"
    raise MetricError(f"{what} came as {shown}, not as one number per document; {remedy}")


def _reports_pairs(declared: Declaration) -> bool:
    """Whether a metric named like a corpus metric is one here (tasks may report it as a number)."""
    return not declared.hf_evaluate and declared.aggregation not in MEANS


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
    if range is not None:
        low, high = range
        if lower_is_better is None:
            known = known_scale(name, task=task)
            higher = declared.higher_is_better
            if higher is None:
                higher = known.higher_is_better if known is not None else True
        else:
            higher = not lower_is_better
        return Scale(low, high, higher)
    if declared.scale is not None:
        return _directed(declared.scale, lower_is_better)
    if lower_is_better is not None:
        known = known_scale(name, task=task)
        if known is not None:
            return _directed(known, lower_is_better)
        return Scale(cap=1.0) if lower_is_better else None
    return None


def _directed(scale: Scale, lower_is_better: bool | None) -> Scale:
    if lower_is_better is None or scale.cap is not None:
        return scale
    return replace(scale, higher_is_better=not lower_is_better)


def _listed(name: str, config: Mapping[str, Any] | None) -> str:
    """What the task lists instead, for a name that is mistyped."""
    entries = [e for e in (config or {}).get("metric_list") or () if isinstance(e, Mapping)]
    names = [str(e["metric"]) for e in entries if "metric" in e]
    if not names or name in names:
        return ""
    close = difflib.get_close_matches(name, names, n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"; the task itself lists {', '.join(names)}{hint}"


def _table_scale(name: str, task: str, declared: Declaration) -> Scale | None:
    scale = lookup(name, task)
    if declared.hf_evaluate:
        scale = HF_SCALES.get((declared.source, name), scale)
    if scale is None or declared.higher_is_better is None:
        return scale
    return _directed(scale, not declared.higher_is_better)


def _refuse_multiple_targets(name: str, where: str, declared: Declaration) -> None:
    # lm-eval scores the targets one by one and reports whether any score is not zero
    # (ConfigurableTask.process_results); for 0/1 metrics that is what is meant.
    graded = name not in ("exact_match", "acc")
    if graded and declared.output_type == "generate_until" and not declared.own_results:
        raise MetricError(
            f"metric {name}{where} is turned into 0 or 1 by lm-eval because its documents have "
            "several targets; give the task a process_results of its own, or one target per "
            "document"
        )


def _refuse_corpus_statistic(
    name: str, where: str, declared: Declaration, stated: Scale | None
) -> None:
    # The harness reports (gold, prediction) pairs of class labels for f1 of multiple_choice tasks.
    if name == "f1" and (
        declared.aggregation == "f1"
        or (declared.output_type == "multiple_choice" and not declared.own_results)
    ):
        raise MetricError(
            f"metric f1{where} cannot be used adaptively: it is one statistic of the whole corpus "
            "and has no score per document; use acc, exact_match or another metric that the task "
            "reports per document"
        )
    if declared.aggregation in (None, *MEANS) or stated is not None:
        return
    raise MetricError(
        f"metric {name}{where} cannot be used adaptively: the task aggregates it by "
        f"{'a function of its own' if declared.aggregation == 'custom' else declared.aggregation}, "
        "not by the mean over documents; if it does report one number per document and their mean "
        f"is what you want, {_DECLARE.format(name=name)}"
    )
