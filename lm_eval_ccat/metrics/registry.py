"""Find metrics by name, and turn the harness's report for a document into a raw score.

The task YAML declares a range that the table does not have, in either of two places::

    metadata:
      ccat_scales:
        my_metric: {range: [0, 10]}                 # or {range: [0, 5], lower_is_better: true}
        my_error: {cap: 1.0}                        # unbounded, lower is better

    metric_list:                                    # only next to process_results: without it
      - metric: my_metric                           # lm-eval hands unknown keys to the metric
        aggregation: mean
        higher_is_better: true
        range: [0, 10]

It is read from a live task (`task.dump_config()`) or from the ``configs`` block of a results file,
where functions have become text.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..errors import MetricError, OutsideScaleError, ScaleError, UnknownMetricError
from ..plugins import did_you_mean
from ..shown import short
from .scale import (
    CORPUS,
    ENTRIES,
    HF_SCALES,
    PAIR_SCALES,
    USE_MEAN,
    Refusal,
    Scale,
    has_error_word,
    lookup,
    range_holding,
    refusal,
    tells_direction,
)
from .text_pairs import (
    OWN_ROUGE,
    PAIR_METRICS,
    ROUGE_METRICS,
    SENTENCE,
    in_task,
    order_pair,
    parts_of,
    reports_word_f1,
    sentence_scorer,
)

#: How a user states the range of a metric, in messages.
_DECLARE = (
    "--range {low:g},{high:g} for logs, in a task's YAML "
    "`metadata: {{ccat_scales: {{{name}: {{range: [{low:g}, {high:g}]}}}}}}`"
)


#: Aggregations of lm-eval under which the benchmark's score is the mean of the documents' scores.
MEANS = ("mean", "nanmean")
#: Its other aggregations.
_OTHERS = (
    "median", "bleu", "chrf", "chrf++", "ter", "f1", "matthews_corrcoef", "perplexity",
    "weighted_perplexity", "bits_per_byte", "brier_score", "bypass",
)  # fmt: skip


class _Declared(NamedTuple):
    """What a task configuration says about one metric.

    Attributes
    ----------
    aggregation : str or None
        "custom" for the task's own function; None if not stated.
    higher_is_better : bool or None
    scale : Scale or None
    hf_evaluate : bool
        Whether HF `evaluate` computes it.
    source : str
        The listed metric whose function reports this one.
    own_results : bool
        Whether the task has its own `process_results`.
    output_type : str
    inherited : bool
        Whether the direction is that of `source`.
    """

    aggregation: str | None = None
    higher_is_better: bool | None = None
    scale: Scale | None = None
    hf_evaluate: bool = False
    source: str = ""
    own_results: bool = False
    output_type: str = ""
    inherited: bool = False

    @property
    def is_number(self) -> bool:
        """Whether the task reports a number, if perhaps under the name of a corpus metric."""
        return self.hf_evaluate or self.aggregation in MEANS

    @property
    def averaged(self) -> bool:
        """Whether the benchmark's score is the mean of the documents' scores."""
        return self.aggregation in (None, *MEANS)


def _declared(config: Mapping[str, Any] | None, metric: str, known: Scale | None) -> _Declared:
    """Read what `task.dump_config()`, or an entry of ``configs``, says about a metric.

    `known` is the scale that this package's own table has for the metric, if any.
    """
    if not config:
        return _Declared()
    entry, owner = _entry_of(config, metric)
    # A range beside another metric, or beside the function of several, is not this metric's.
    declaration = _declaration(config, metric, entry if owner is _Owner.METRIC else {})
    higher = _true_or_false(entry, "higher_is_better", str(entry.get("metric", metric)))
    # A metric without an entry of its own takes the direction of another metric, unless its own is
    # stated: by the table, by a word for an error in its name, or by the task's YAML.
    own_direction = known or has_error_word(metric) or _states_direction(declaration)
    if owner is _Owner.OTHER and own_direction:
        higher = None
    return _Declared(
        aggregation=_aggregation(entry.get("aggregation")),
        higher_is_better=higher,
        scale=_scale_of(declaration, higher, metric),
        hf_evaluate=entry.get("hf_evaluate") is True,
        source=metric_name(entry["metric"]) if "metric" in entry else "",
        own_results=bool(config.get("process_results")),
        output_type=str(config.get("output_type") or ""),
        inherited=owner is _Owner.OTHER and higher is not None,
    )


class _Owner(enum.Enum):
    """Whose an entry of ``metric_list`` is: the metric's, its function's, or another metric's."""

    METRIC = "metric"
    FUNCTION = "function"
    OTHER = "other"


class _OwnedEntry(NamedTuple):
    """An entry of ``metric_list`` that speaks of a metric, and whose it is."""

    entry: Mapping[str, Any]
    owner: _Owner


def _entry_of(config: Mapping[str, Any], metric: str) -> _OwnedEntry:
    """Return a metric's own entry, else that of its function, else the only one."""
    entries = _entries(config)
    for entry in entries:
        if metric_name(entry.get("metric")) == metric:
            return _OwnedEntry(entry, _Owner.METRIC)
    # A metric function may return several keys (pass@1 ...); they inherit its entry.
    for entry in entries:
        if (metric_name(entry.get("metric")), metric) in HF_SCALES:
            return _OwnedEntry(entry, _Owner.FUNCTION)
    # The harness takes the mean of what a task's own process_results returns beside the listed
    # metrics. The keys that the function of a single entry returns inherit the entry's direction,
    # if their names tell none.
    if entries and config.get("process_results"):
        return _OwnedEntry({"aggregation": "mean"}, _Owner.OTHER)
    return _OwnedEntry(entries[0] if len(entries) == 1 else {}, _Owner.OTHER)


def _declaration(
    config: Mapping[str, Any], metric: str, own_entry: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what declares a metric's scale: the task's metadata, else the metric's own entry."""
    metadata = config.get("metadata")
    scales = metadata.get("ccat_scales") if isinstance(metadata, Mapping) else None
    declared: Mapping[str, Any] = own_entry
    if isinstance(scales, Mapping):
        declared = scales.get(metric, own_entry)
    return declared


def _aggregation(aggregation: Any) -> Any:
    """Return the name of an aggregation; "custom" for one that is not lm-eval's; None for none."""
    is_code = callable(aggregation)
    name = getattr(aggregation, "__name__", "custom") if is_code else aggregation
    return name if name is None or name in (*MEANS, *_OTHERS) else "custom"


def _entries(config: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the entries of a task's ``metric_list``."""
    return [
        entry for entry in (config or {}).get("metric_list") or () if isinstance(entry, Mapping)
    ]


def _states_direction(declaration: Any) -> bool:
    """Whether what a task's YAML declares of a metric has a direction."""
    parts = declaration if isinstance(declaration, Mapping) else {}
    return any(parts.get(key) is not None for key in ("cap", "lower_is_better", "higher_is_better"))


def _scale_of(declaration: Any, higher: bool | None, metric: str) -> Scale | None:
    """Return the scale that a task's YAML declares; None if it declares none.

    `higher` is the direction that its ``metric_list`` states.
    """
    ends = declaration.get("range") if isinstance(declaration, Mapping) else declaration
    match declaration:
        case {"cap": cap} if cap is not None:
            if ends is not None or _declared_direction(declaration, metric):
                raise ScaleError(
                    f"metric {metric} has a cap, which says that it is an error without an upper "
                    "end: leave out range and higher_is_better, or the cap"
                )
            return _agreeing(Scale(cap=cap), higher, metric)
        case Mapping() if ends is None:
            return None
        case Mapping() if isinstance(ends, (list, tuple)) and len(ends) == 2:
            direction = _declared_direction(declaration, metric)
            direction = higher if direction is None else direction
            low, high = ends
            if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
                raise ScaleError(
                    f"the range of metric {metric} runs from {low:g} to {high:g}: write it as "
                    f"[{high:g}, {low:g}], and lower_is_better: true if lower scores are better"
                )
            scale = Scale(low, high, higher_is_better=direction is None or direction)
            return _agreeing(scale, higher, metric)
    raise ScaleError(
        f"the range of metric {metric} (metadata.ccat_scales.{metric}, or beside it in "
        f"metric_list) must look like {{range: [0, 10]}}, not {ends!r}"
    )


def is_scored_by_task(metric: str, config: Mapping[str, Any]) -> bool:
    """Whether a task's own code computes a score that has the name of a metric of text pairs.

    Parameters
    ----------
    metric : str
    config : mapping
        The task's configuration, as `find_metric` takes it.
    """
    return _declared(config, parts_of(metric).base, None).is_number


def _true_or_false(declaration: Mapping[str, Any], key: str, metric: str) -> bool | None:
    """Return a direction that a task's YAML states; None if it states none."""
    value = declaration.get(key)
    # A direction that is written as a text would be true, also as "false".
    if not (value is None or isinstance(value, bool)):
        raise ScaleError(f"{key} of metric {metric} must be true or false, not {value!r}")
    return value


def _declared_direction(declaration: Mapping[str, Any], metric: str) -> bool | None:
    """Return whether a declaration says that higher scores are better; None if it does not say."""
    directions: set[bool] = set()
    for key in ("higher_is_better", "lower_is_better"):
        value = _true_or_false(declaration, key, metric)
        if value is not None:
            directions.add(value == (key == "higher_is_better"))
    if len(directions) > 1:
        raise ScaleError(
            f"higher_is_better and lower_is_better of metric {metric} contradict each other; leave "
            "one of them out"
        )
    return next(iter(directions), None)


def metric_name(metric: Any) -> str:
    """Return the name of a ``metric:`` entry.

    The entry may be a function, its source (in a results file), or the path of its module and its
    name (in a task file that was read without importing anything).

    >>> metric_name("def bleu(items):  return items")
    'bleu'
    >>> metric_name("/tasks/wmt2016/metrics.bleu")
    'bleu'

    A metric of HF `evaluate` may be a folder, and reports under the folder's name.

    >>> metric_name("my_metrics/overlap")
    'overlap'
    """
    if callable(metric):
        return str(getattr(metric, "__name__", metric))
    text = str(metric)
    # The source of a function, its repr, and the path of a module with the function's name.
    for pattern in (
        r"^\s*(?:async )?def (\w+)",
        r"^<function (?:[^>]*\.)?(\w+) at ",
        r"/[^\s]*\.(\w+)$",
    ):
        if match := re.search(pattern, text, re.MULTILINE):
            return match[1]
    return text.rstrip("/").rsplit("/", 1)[-1] if "/" in text else text


@dataclass(frozen=True)
class Metric:
    """One metric of a task: its scale, and how the report for a document becomes a number.

    Parameters
    ----------
    name : str
        The harness's name of the metric, such as ``"bleu"``, or with a tokenizer ``"bleu@zh"``.
    scale : Scale
        Scale and direction of the raw scores.
    prefix : str
        What the estimate's own name (`key`) begins with, where the harness does not aggregate by
        the mean of the documents' scores (bleu, chrf, ter); else "".
    pairs : bool
        Whether the harness reports pairs of texts, which are scored here.
    skips_nan : bool
        Whether the task aggregates by ``nanmean``: a document whose value is NaN has no score.
    directed_by : str
        The listed metric whose direction this one, which is not listed, takes; empty if none.

    Examples
    --------
    >>> find_metric("acc").score(True)
    1.0
    >>> find_metric("bleu@zh").key("none"), find_metric("bleu@zh").source
    ('sentence_bleu@zh,none', 'bleu')
    """

    name: str
    scale: Scale
    prefix: str = ""
    pairs: bool = False
    skips_nan: bool = False
    directed_by: str = ""

    @property
    def source(self) -> str:
        """Name under which the task reports the values to score."""
        return parts_of(self.name).base

    @property
    def label(self) -> str:
        """Name of the mean of this metric's per-document scores."""
        return f"{self.prefix}{self.name}"

    def key(self, filter: str = "none") -> str:
        """Return the key of the estimate in a results file.

        Parameters
        ----------
        filter : str
            Name of the harness's filter pipeline.
        """
        return f"{self.label},{filter}"

    @property
    def in_words(self) -> str:
        """The mean over documents, in words."""
        what = f"mean {self.name}"
        if self.prefix == SENTENCE:
            what = f"mean sentence-level {self.name} (not the corpus {self.name})"
        if self.scale.cap is not None:
            what += f", each document's score capped at {self.scale.cap:g},"
        return what

    def is_missing(self, value: Any) -> bool:
        """Return whether a value is NaN that means "no score", as under ``nanmean``."""
        is_float = isinstance(value, (float, np.floating))
        return self.skips_nan and is_float and math.isnan(value)

    def score(self, value: Any, *, task: str = "", prediction: str | None = None) -> float:
        """Turn a value that ``process_results`` reported for a document into a raw score.

        Parameters
        ----------
        value : float, bool or pair of texts
            The metric's value in the harness's result for the document, or in a row of a log.
        task : str
            Task name, for the order of a pair and for messages.
        prediction : str, optional
            The model's filtered answer, if known; it determines the order of a pair.

        Returns
        -------
        float
            Raw score, on `scale`.

        Raises
        ------
        MetricError
            The value is not a score (a missing pair, NaN, a list, text).
        ScaleError
            The score lies outside the scale.
        """
        where = in_task(self.name, task)
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
            low, high = range_holding([*self.scale.ends, number])
            raise OutsideScaleError(
                f"{where} gave {number:.6g}, outside its scale ({self.scale.describe()})",
                f"state its range: {_DECLARE.format(name=self.name, low=low, high=high)}",
            )
        return number


class _Reported(NamedTuple):
    """One metric as a task reports it.

    `stated_scale` is the scale that the user or the task's YAML states, None if neither does.
    """

    name: str
    task: str
    declared: _Declared
    stated_scale: Scale | None

    @property
    def base(self) -> str:
        """The name without the tokenizer."""
        return parts_of(self.name).base

    @property
    def where(self) -> str:
        """Metric and task, for messages."""
        return in_task(self.name, self.task)

    def require_scored_once(self) -> None:
        """Refuse a graded metric of documents with several targets.

        lm-eval scores the targets one by one and reports whether any score is not zero
        (ConfigurableTask.process_results), which is right for 0/1 metrics alone.
        """
        graded = self.base not in ("exact_match", "acc") and not self.declared.own_results
        if graded and self.declared.output_type == "generate_until":
            raise MetricError(
                f"{self.where} is turned into 0 or 1 by lm-eval because its documents have several "
                "targets; give the task a process_results of its own, or one target per document"
            )

    def as_pairs(self) -> Metric | None:
        """Return the metric that scores pairs of texts; None if the task does not report pairs."""
        name, declared = self.name, self.declared
        if self.base in PAIR_METRICS and not declared.is_number:
            scale = self.stated_scale or PAIR_SCALES[self.base]
            return Metric(name, scale, SENTENCE, pairs=True)
        # Whoever states a scale says that the task reports numbers.
        if self.stated_scale is not None:
            return None
        if self._reports_rouge_pairs:
            return Metric(name, Scale(), "mean_", pairs=True)
        if reports_word_f1(self.base, self.task):
            return Metric(name, Scale(), pairs=True)
        return None

    @property
    def _reports_rouge_pairs(self) -> bool:
        """Whether the harness, and not the task, is to compute ROUGE from pairs of texts."""
        declared = self.declared
        scores_itself = declared.own_results or declared.hf_evaluate or self.task in OWN_ROUGE
        return self.base in ROUGE_METRICS and declared.aggregation == "custom" and not scores_itself

    def require_mean_of_numbers(self) -> None:
        """Refuse a metric whose mean over documents is not what the task reports."""
        base, tokenizer = parts_of(self.name)
        # A number that the task computed cannot be tokenized anew.
        if tokenizer is not None:
            raise MetricError(
                f"{self.where} cannot be computed: the task reports {base} as a number, tokenized "
                f"in its own way; leave @{tokenizer} out, or score its logs by "
                f"`lm-eval-ccat score {self.name}`"
            )
        if why := self._why_not_averaged():
            raise MetricError(f"{self.where} cannot be used adaptively: {why}")

    def _why_not_averaged(self) -> str:
        """Return why a reported number is not averaged over documents; empty if it is."""
        declared = self.declared
        refused = refusal(self.base) if self.stated_scale is None else None
        # The harness reports (gold, prediction) pairs of class labels for f1 of multiple_choice
        # tasks.
        classes = declared.output_type == "multiple_choice" and not declared.own_results
        if refused is None and self.base == "f1" and (declared.aggregation == "f1" or classes):
            refused = Refusal(CORPUS, USE_MEAN)
        if refused is not None:
            return f"{refused.why}; {refused.remedy}"
        if self.stated_scale is not None or declared.averaged:
            return ""
        custom = declared.aggregation == "custom"
        how = "a function of its own" if custom else declared.aggregation
        return (
            f"the task aggregates it by {how}, not by the mean over documents; if it does report "
            "one number per document and their mean is what you want, state its range: "
            f"{_DECLARE.format(name=self.name, low=0, high=10)}"
        )

    def listed_scale(self) -> Scale | None:
        """Return the scale of the table in the task's direction; None if the table has none.

        Raises
        ------
        MetricError
            Neither the task nor the metric's name tells the direction.
        """
        base, declared = self.base, self.declared
        # HF `evaluate` has some metrics on another scale than the harness.
        of_hf = HF_SCALES.get((declared.source, base)) if declared.hf_evaluate else None
        scale = _directed(of_hf or lookup(base, self.task), declared.higher_is_better)
        if scale is None:
            return None
        # With a cap lower is better: refuse a task that states the contrary.
        if scale.cap is not None:
            _agreeing(scale, declared.higher_is_better, base)
        # What HF's own metrics report has one direction, whatever its name says of it.
        directed = declared.higher_is_better is not None or of_hf is not None
        if not directed and not tells_direction(base, self.task):
            declare = _DECLARE.format(name=self.name, low=scale.low, high=scale.high)
            raise MetricError(
                f"nothing states whether a higher {self.where} is better, and its name does not "
                f"tell; state higher_is_better in the task's metric_list, or the range: {declare} "
                f"(with lower_is_better: true, for logs --range {scale.high:g},{scale.low:g}, if "
                "less is better)"
            )
        return scale


def find_metric(
    name: str,
    *,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
    task: str = "",
    config: Mapping[str, Any] | None = None,
    multiple_targets: bool = False,
    otherwise: Scale | None = None,
    higher_is_better: bool | None = None,
) -> Metric:
    """Find a metric by the name that the harness gives it.

    The scale is the first of: `range` and `lower_is_better`; the task YAML's (see the module);
    that of the table (`lm_eval_ccat.metrics.scale`); `otherwise`.

    Parameters
    ----------
    name : str
        Metric name without the filter; if the task reports pairs of texts, it may name a tokenizer
        (``bleu@zh``).
    range : (float, float), optional
        Ends of the raw scale.
    lower_is_better : bool, optional
        Direction. Without a range, True makes a metric of unknown scale unbounded, capped at 1.
    task : str
        Task name, because some families use a name on their own scale.
    config : mapping, optional
        The task's configuration, live (`task.dump_config()`) or from a results file.
    multiple_targets : bool
        Whether documents of the task have lists of targets.
    otherwise : Scale, optional
        Scale of a metric whose scale is not known.
    higher_is_better : bool, optional
        Direction that the results of a run state; the task's configuration goes before it.

    Raises
    ------
    MetricError
        The metric has no score per document, or its scale or direction is not known; the message
        names the remedy.

    Examples
    --------
    >>> find_metric("rougeL_max").scale.describe()
    '0 to 100, higher is better'
    """
    base = parts_of(name).base
    known = known_scale(base, task=task)
    declared = _declared(config, base, known)
    # A direction that a run's results state counts before one that is taken from another metric.
    if declared.higher_is_better is None or (declared.inherited and higher_is_better is not None):
        declared = declared._replace(higher_is_better=higher_is_better, inherited=False)
    # As the direction is stated, the table's scale counts even if the name does not tell it.
    if declared.higher_is_better is not None:
        known = known or lookup(base, task)
    # If nothing tells the scale, take that of the caller, who has seen the scores.
    if otherwise is not None and not (range or declared.scale or known):
        if declared.averaged and refusal(base) is None:
            return Metric(name, otherwise)
    reported = _Reported(
        name, task, declared, _stated_scale(known, range, lower_is_better, declared)
    )
    if multiple_targets:
        reported.require_scored_once()
    if (pair_metric := reported.as_pairs()) is not None:
        sentence_scorer(name)  # a missing tokenizer is an error now, not at the first answer
        return pair_metric
    reported.require_mean_of_numbers()
    scale = reported.stated_scale or reported.listed_scale()
    if scale is None:
        raise _scale_not_known(reported, config)
    inherits_direction = declared.inherited and lower_is_better is None
    return Metric(
        name,
        scale,
        # A metric with the task's own aggregation gets here only with a declared scale.
        prefix="" if declared.averaged else "mean_",
        skips_nan=declared.aggregation == "nanmean",
        directed_by=declared.source if inherits_direction else "",
    )


def known_scale(name: str, *, task: str = "") -> Scale | None:
    """Return the table's scale of a metric if the metric's name tells the direction, else None.

    >>> known_scale("ter@asian").describe(), known_scale("acc_drop")
    ('0 upwards, capped at 100, lower is better', None)
    """
    base = parts_of(name).base
    known = lookup(base, task) if tells_direction(base, task) else None
    return PAIR_SCALES.get(base) or known


def check_column(raw: ArrayLike, *, metric: str, task: str = "") -> None:
    """Refuse scores that are the same for every document, because they separate no models.

    Parameters
    ----------
    raw : array_like
        Scores of any shape, NaN where missing.

    Raises
    ------
    MetricError
        There is no score, or only one distinct value.
    """
    values = np.asarray(raw, dtype=np.float64)
    values = values[~np.isnan(values)]
    where = in_task(metric, task)
    if values.size == 0:
        raise MetricError(f"{where} has no scores; check the logs and the filter")
    if values.min() == values.max():
        raise MetricError(
            f"every document has the same score ({values[0]:g}), so {where} cannot separate "
            "models; check the answer format and the filter, or choose another metric"
        )


def _number(value: Any, where: str) -> float:
    """Return a value that a task reports as a number."""
    if type(value) in (float, int, bool):
        return float(value)
    plain = isinstance(value, (int, float, np.generic, np.ndarray)) and np.ndim(value) == 0
    if plain and np.asarray(value).dtype.kind in "biuf":
        return float(value)
    remedy = "give the task a process_results that returns one number per document"
    # The task returned no value of this metric for this document.
    if value is None:
        remedy = "the task gives no score for it; choose another metric"
    value_text = short(repr(value))
    raise MetricError(f"{where} came as {value_text}, not as one number per document; {remedy}")


def _agreeing(scale: Scale, higher_is_better: bool | None, metric: str) -> Scale:
    """Return the scale; refuse one against the direction that the task's ``metric_list`` states."""
    if higher_is_better in (None, scale.higher_is_better):
        return scale
    raise ScaleError(
        f"the direction of metric {metric} is contradictory: metric_list says higher_is_better: "
        f"{str(higher_is_better).lower()}, its scale is {scale.describe()}; correct the one that "
        f"is wrong (metadata.ccat_scales.{metric}, or higher_is_better)"
    )


def _stated_scale(
    known: Scale | None,
    range: tuple[float, float] | None,
    lower_is_better: bool | None,
    declared: _Declared,
) -> Scale | None:
    """Return the scale that the user or the task's YAML states; None if neither does."""
    higher = None if lower_is_better is None else not lower_is_better
    if range is not None:
        low, high = range
        of_table = None if known is None else known.higher_is_better
        # The user's direction goes before the task's, and the task's before the table's.
        stated = (higher, declared.higher_is_better, of_table)
        direction = next((direction for direction in stated if direction is not None), True)
        return Scale(low, high, higher_is_better=direction)
    # Only the user's direction turns a scale that is known.
    if declared.scale is not None or (known is not None and higher is not None):
        return _directed(declared.scale or known, higher)
    # An error of which nothing else is known has no upper end.
    return Scale(cap=1.0) if lower_is_better else None


def _directed(scale: Scale | None, higher_is_better: bool | None) -> Scale | None:
    """Return a scale in the direction stated, if any. A scale with a cap stays: lower is better."""
    if scale is None or higher_is_better is None or scale.cap is not None:
        return scale
    return replace(scale, higher_is_better=higher_is_better)


def _scale_not_known(reported: _Reported, config: Mapping[str, Any] | None) -> MetricError:
    """Return the error of a metric whose scale nothing states."""
    name, declare = reported.name, _DECLARE.format(name=reported.name, low=0, high=10)
    listed = [str(entry["metric"]) for entry in _entries(config) if "metric" in entry]
    # The task has other metrics, so that the name may be a mistake.
    if listed and name not in listed:
        suggestion = did_you_mean(name, listed, listing=False)
        others = f"the task lists no metric {name}, only {', '.join(listed)}{suggestion}"
        return UnknownMetricError(f"{others.removesuffix('?')}; if its code has {name}: {declare}")
    hint = ""
    if not listed:
        known = [metric for entry in ENTRIES for metric in entry.metrics if "*" not in metric]
        hint = did_you_mean(name, [*PAIR_METRICS, *known], listing=False)
    return MetricError(
        f"the scale of {reported.where} is not known; state its range: {declare}{hint}"
    )
