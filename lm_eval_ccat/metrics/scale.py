"""The scale of a metric: the range of its raw scores, and which end is better.

The package computes on [0, 1], higher is better; files and tables keep the metric's own scale. Only
`Scale` converts between the two. A metric that tasks of lm-eval report per document is one entry of
`ENTRIES`::

    Entry(("my_metric",), Scale(0, 10)),

Names are shell patterns. Entries that name tasks stand before the general ones, and the first match
counts. Ranges were read from the tasks of lm-eval 0.4.13 (the comment names the file).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import OutsideScaleError, ScaleError

#: An array of numbers.
Floats = NDArray[np.float64]
#: A raw score may lie outside its scale by this share of the span, because of rounding.
TOLERANCE = 1e-9
_PARTS = ("low", "high", "higher_is_better", "cap")


@dataclass(frozen=True)
class Scale:
    """Range and direction of a metric's raw scores.

    Parameters
    ----------
    low, high : float
        Ends of the raw range, ``low < high``.
    higher_is_better : bool
        Direction of the raw score.
    cap : float, optional
        For metrics without an upper end, where lower is better (TER, WER): a raw score ``x``
        becomes ``1 - min(x, cap)/cap``. Sets ``low=0``, ``high=cap``, ``higher_is_better=False``,
        whatever is stated. Estimates are then of the mean of the capped scores.

    Raises
    ------
    ScaleError
        The ends are not finite numbers and ordered, the direction is neither true nor false, or the
        cap is not a positive finite number.

    Examples
    --------
    >>> Scale(0, 100).normalise([25.0]).tolist()
    [0.25]
    >>> Scale(cap=100).normalise([30.0, 250.0]).tolist()
    [0.7, 0.0]
    """

    low: float = 0.0
    high: float = 1.0
    higher_is_better: bool = True
    cap: float | None = None

    def __post_init__(self) -> None:
        if self.cap is None:
            low, high = _finite(self.low, "low end"), _finite(self.high, "high end")
            if not low < high:
                raise ScaleError(
                    f"a scale runs from a low to a higher end, not from {low:g} to {high:g}"
                )
            # A direction that is written as a text would be true, also as "false".
            if not isinstance(self.higher_is_better, (bool, np.bool_)):
                raise ScaleError(
                    "higher_is_better of a scale must be true or false, not "
                    f"{self.higher_is_better!r}"
                )
            values: tuple[object, ...] = (low, high, bool(self.higher_is_better), None)
        else:  # the cap determines all other fields
            cap = _finite(self.cap, "cap")
            if cap <= 0:
                raise ScaleError(f"the cap of a scale must be positive, not {cap:g}")
            values = (0.0, cap, False, cap)
        for name, value in zip(_PARTS, values):
            object.__setattr__(self, name, value)

    @property
    def span(self) -> float:
        """Width of the raw range (raw units)."""
        return self.high - self.low

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest raw score."""
        return self.low, self.high

    def agrees_with(self, scale: Scale) -> bool:
        """Return whether a raw score means the same on both: same ends, same direction.

        Examples
        --------
        >>> Scale(cap=100).agrees_with(Scale(0, 100, higher_is_better=False))
        True
        >>> Scale(0, 1).agrees_with(Scale(0, 100))
        False
        """
        return (self.ends, self.higher_is_better) == (scale.ends, scale.higher_is_better)

    def normalise(self, raw: ArrayLike) -> Floats:
        """Map raw scores to [0, 1], higher is better.

        Parameters
        ----------
        raw : array_like
            Raw scores of any shape; NaN means missing and passes through.

        Returns
        -------
        ndarray of float64
            Same shape, values in [0, 1] or NaN.

        Raises
        ------
        ScaleError
            A score lies outside the range by more than rounding; the message names some.
        """
        raw = np.asarray(raw, dtype=np.float64)
        self.check(raw)
        score = np.clip(raw, self.low, self.high)
        # Large tables are not copied where nothing changes.
        if self.low != 0.0:
            score = score - self.low
        if self.span != 1.0:
            score = score / self.span
        return np.asarray(score if self.higher_is_better else 1.0 - score)

    def normalise_number(self, raw: float) -> float:
        """Map a single raw score as `normalise` does, without the cost of an array.

        Examples
        --------
        >>> Scale(0, 100).normalise_number(25.0), Scale(cap=100).normalise_number(250.0)
        (0.25, 0.0)
        """
        if math.isnan(raw):
            return raw
        low, high = self.bounds
        if not low <= raw <= high:
            self.check(raw)
        score = (min(max(raw, self.low), self.high) - self.low) / self.span
        return score if self.higher_is_better else 1.0 - score

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest raw score that is accepted: the ends, with a margin for rounding.

        sacrebleu gives 100.00000000000004 for a perfect sentence. With a cap there is no highest.
        """
        slack = TOLERANCE * self.span
        highest = sys.float_info.max if self.cap is not None else self.high + slack
        return self.low - slack, highest

    def holds(self, raw: ArrayLike) -> bool:
        """Return whether every raw score lies on the scale, as missing ones (NaN) do.

        Examples
        --------
        >>> Scale(0, 100).holds([0.0, 100.00000000000004]), Scale(0, 100).holds([101.0])
        (True, False)
        """
        raw = np.asarray(raw, dtype=np.float64)
        if not raw.size:
            return True
        low, high = self.bounds
        # `fmin` and `fmax` pass over NaN.
        return not (np.fmin.reduce(raw, axis=None) < low or np.fmax.reduce(raw, axis=None) > high)

    def check(self, raw: ArrayLike) -> None:
        """Raise an error that names some of the raw scores off the scale, if there are any."""
        if self.holds(raw):
            return
        raw = np.asarray(raw, dtype=np.float64)
        low, high = self.bounds
        bad = (raw < low) | (raw > high)
        examples = ", ".join(f"{value:.6g}" for value in np.unique(raw[bad])[:3])
        raise OutsideScaleError(
            f"{int(bad.sum())} of {raw.size} scores lie outside the scale "
            f"{self.describe()}: {examples}"
        )

    def restore(self, score: ArrayLike) -> Floats:
        """Map scores in [0, 1] back to the raw scale (a capped score comes back as the cap)."""
        score = np.asarray(score, dtype=np.float64)
        if self.higher_is_better:
            return self.low + score * self.span
        return self.high - score * self.span

    def restore_error(self, se: ArrayLike) -> Floats:
        """Map a standard error in [0, 1] units to raw units."""
        return np.asarray(se, dtype=np.float64) * self.span

    def to_dict(self) -> dict[str, object]:
        """Return JSON values from which `from_dict` rebuilds the scale."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Scale:
        """Rebuild a scale from `to_dict`.

        Raises
        ------
        ScaleError
            A key is unknown, or a value is invalid.
        """
        unknown = set(values) - set(_PARTS)
        if unknown:
            raise ScaleError(f"unknown key in a scale: {', '.join(sorted(map(str, unknown)))}")
        return cls(**values)

    def describe(self) -> str:
        """Describe the scale in words, for messages and tables.

        >>> Scale(0, 100).describe()
        '0 to 100, higher is better'
        >>> Scale(cap=100).describe()
        '0 upwards, capped at 100, lower is better'
        """
        direction = "higher" if self.higher_is_better else "lower"
        if self.cap is not None:
            return f"0 upwards, capped at {self.cap:g}, {direction} is better"
        return f"{self.low:g} to {self.high:g}, {direction} is better"


def differing_scales(metric: str, first: tuple[str, Scale], second: tuple[str, Scale]) -> str:
    """Say how the scales of two sources of scores, each with its name, differ; "" if they do not.

    Examples
    --------
    >>> differing_scales("acc", ("old", Scale()), ("new", Scale(0, 100)))
    'different scales of acc: old 0 to 1, higher is better; new 0 to 100, higher is better'
    """
    (_, scale), (_, peer) = first, second
    if scale.agrees_with(peer):
        return ""
    described = "; ".join(f"{name} {scale.describe()}" for name, scale in (first, second))
    return f"different scales of {metric}: {described}"


def range_holding(raw: ArrayLike) -> tuple[float, float]:
    """Return the narrowest range of a usual kind that holds all finite raw scores.

    Examples
    --------
    >>> range_holding([0.2, 11.8]), range_holding(7), range_holding([-0.5, 2.0])
    ((0.0, 100.0), (0.0, 10.0), (-10.0, 10.0))
    """
    scores = np.asarray(raw, dtype=np.float64)
    scores = scores[np.isfinite(scores)]
    reach = max(float(np.abs(scores).max(initial=0.0)), 1.0)
    high = 10.0 ** math.ceil(math.log10(reach) - TOLERANCE)
    return (-high if scores.min(initial=0.0) < 0.0 else 0.0), high


def _finite(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ScaleError(f"the {what} of a scale must be a number, not {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ScaleError(
            f"the {what} of a scale must be finite, not {number}; "
            "for an unbounded metric, state a finite cap"
        )
    return number


#: What the names of metrics end with whose items were scaled one by one (`scores.item_scaling`).
ITEM_SCALED = "_item_scaled"
UNIT = Scale(0, 1)
PERCENT = Scale(0, 100)


@dataclass(frozen=True)
class Entry:
    """Scale of the metrics whose names match, in the tasks whose names match.

    Parameters
    ----------
    metrics : tuple of str
        Shell patterns of metric names.
    scale : Scale
        Their scale; a direction that a task's YAML states takes precedence.
    tasks : tuple of str
        Shell patterns of task names; all tasks by default.
    tells_direction : bool
        Whether such a name always means this direction. Where it does not, a task may give it to
        what it likes (``acc_drop``), and has to state the direction. A name that a pattern only
        fits never does if it has a word of error (`has_error_word`).
    """

    metrics: tuple[str, ...]
    scale: Scale
    tasks: tuple[str, ...] = ("*",)
    tells_direction: bool = True


# HF evaluate's bleu and rouge lie in [0, 1], where the harness's own bleu is a percentage.
_MEDICAL = (
    "meqsum*",
    "mediqa_qa2019*",
    "mimic_repsum*",
    "mts_dialog*",
    "olaph*",
    "meddialog*",
    "careqa*",
    "medtext*",
)

ENTRIES: tuple[Entry, ...] = (
    # One task or family.
    Entry(("bleu",), UNIT, _MEDICAL),
    # noreval/norsumm/utils.py: t5-style BLEU and ROUGE of one pair, both times 100. (bleurt has no
    # entry anywhere: its regression is trained on [0, 1] but not bounded by it.)
    Entry(("rougeL_avg", "bleu_avg"), PERCENT, ("norsumm*",)),
    # realtoxicityprompts/metric.py: Perspective's toxicity, and whether it passed the threshold.
    Entry(
        ("score", "perspective_api_toxicity_score"),
        Scale(0, 1, higher_is_better=False),
        ("realtoxicityprompts*",),
    ),
    # scrolls/task.py: acc_norm times 100.
    Entry(("em",), PERCENT, ("scrolls_*",)),
    # Right or wrong, or a share of parts that are right.
    Entry(
        ("acc", "acc_norm", "acc_mutual_info", "acc_bytes", "accuracy", "partial_accuracy"), UNIT
    ),
    Entry(("exact_match", "em", "exact", "numerical_match", "math_verify", "is_included"), UNIT),
    Entry(("pass@*", "pass_at_*", "prompt_level_*_acc", "verifiable_reward"), UNIT),
    Entry(("acc_*", "exact_match_*", "*_accuracy", "extraction_rate"), UNIT, tells_direction=False),
    Entry(
        ("json_validity", "schema_compliance", "r@*", "mrr", "contains", "quasi_exact_match"), UNIT
    ),
    Entry(("pct_*",), Scale(0, 1, higher_is_better=False), tells_direction=False),
    # Overlap of words or spans. squad-style F1 on 0-100 is a corpus statistic in the harness.
    Entry(("f1", "f1_abstractive", "flexible_f1", "fscore", "precision", "recall"), UNIT),
    Entry(("rouge1", "rouge2", "rougeL", "rougeLsum"), UNIT),
    # truthfulqa_gen and its translations (truthfulqa/utils.py): percentages and their differences.
    Entry(("bleu_acc", "rouge1_acc", "rouge2_acc", "rougeL_acc"), UNIT),
    Entry(("bleu_max", "rouge1_max", "rouge2_max", "rougeL_max"), PERCENT),
    Entry(("bleu_diff", "rouge1_diff", "rouge2_diff", "rougeL_diff"), Scale(-100, 100)),
    # code_x_glue/code-text/bleu.py
    Entry(("smoothed_bleu_4",), PERCENT),
    # Means of best cosine similarities, positive in practice. Rescaled by a baseline they can fall
    # below 0: such a task must declare its range.
    Entry(("bert_score", "bertscore", "bertscore_*", "bert_score_*"), UNIT),
    # longbench/metrics.py, longproc/metrics.py, infinitebench/utils.py: all shares.
    Entry(("score", "qa_f1_score", "qa_f1_zh_score", "rouge_score", "rouge_zh_score"), UNIT),
    Entry(
        (
            "classification_score",
            "code_sim_score",
            "count_score",
            "retrieval_score",
            "retrieval_*_score",
        ),
        UNIT,
    ),
    # eq_bench/utils.py: 100 - 7.477 x four differences of at most 10; random answers give 0.
    Entry(("eqbench",), Scale(100 - 7.477 * 40, 100)),
    Entry(("percent_parseable",), PERCENT),
    # HF evaluate metrics that a YAML may name.
    Entry(("google_bleu", "meteor", "character"), UNIT),
    Entry(("sacrebleu",), PERCENT),
    Entry(("wer", "cer", "word_error_rate"), Scale(cap=1.0)),
    # What `lm-eval-ccat score` writes, and this package's task_configs report.
    Entry(("comet",), UNIT),
    Entry(("judge_score",), Scale(1, 10)),
    Entry((f"*{ITEM_SCALED}",), UNIT),
    Entry(("sentence_bleu", "sentence_chrf", "sentence_chrf++"), PERCENT),
    Entry(("sentence_ter",), Scale(cap=100.0)),
)

#: Corpus metrics of the harness that this package scores per sentence (see `pairs`). TER has no
#: upper end; 100 is one edit per word of the reference.
PAIR_SCALES: dict[str, Scale] = {
    "bleu": PERCENT,
    "chrf": PERCENT,
    "chrf++": PERCENT,
    "ter": Scale(cap=100.0),
}

#: Metrics of HF `evaluate` that report on another scale than the harness, or under another name:
#: (metric, key of its result) -> scale.
HF_SCALES: dict[tuple[str, str], Scale] = {
    ("bleu", "bleu"): UNIT,
    ("sacrebleu", "score"): PERCENT,
    ("chrf", "score"): PERCENT,
    ("ter", "score"): Scale(cap=100.0),
    ("squad", "f1"): PERCENT,
    ("squad", "exact_match"): PERCENT,
    ("squad_v2", "f1"): PERCENT,
    ("squad_v2", "exact"): PERCENT,
}

CORPUS = "it is one statistic of the whole corpus and has no score per document"
_RUN_WHOLE = "run the task without --adaptive, or use a metric that the task reports per document"
USE_MEAN = "use acc, exact_match or another metric that the task reports per document"


class Refusal(NamedTuple):
    """Why a metric cannot become one score per document, and what to do instead."""

    why: str
    remedy: str


#: Metrics that cannot, by shell patterns of their names.
REFUSED: dict[str, Refusal] = {
    "mcc": Refusal(CORPUS, USE_MEAN),
    "matthews_correlation": Refusal(CORPUS, USE_MEAN),
    "pearsonr": Refusal(CORPUS, USE_MEAN),
    "spearmanr": Refusal(CORPUS, USE_MEAN),
    "acc_all": Refusal("it scores groups of documents together", USE_MEAN),
    "*perplexity": Refusal(
        "it is the exponential of a mean log-likelihood, without a scale", _RUN_WHOLE
    ),
    "bits_per_byte": Refusal("it divides sums over the whole corpus", _RUN_WHOLE),
    "brier_score": Refusal(
        "the harness reports probabilities per document and scores them together",
        USE_MEAN,
    ),
    "likelihood": Refusal("the harness reports log-likelihoods, not a score", USE_MEAN),
    "likelihood_diff": Refusal("it is a difference of log-likelihoods, without a scale", USE_MEAN),
    "bypass": Refusal(
        "it is a placeholder without a score", "name a metric that scores the documents"
    ),
}


#: Words in names of metrics that are better when they are low, as patterns.
_ERROR_WORD = re.compile(
    r"err|errors?|wrong(ly)?|mistakes?|incorrect|inaccura\w+|invalid|false|loss(es)?|lost|costs?|"
    r"dist|distances?|drop(s|ped)?|diffs?|differences?|gap|regret|penalt\w+|fail\w*|miss|missed|"
    r"misses|missing|violat\w+|degrad\w+|bias(es|ed)?|toxic\w*|hallucinat\w+|refus\w+|latency|"
    r"perplexity|ppl|wer|cer|ter"
)


def has_error_word(metric: str) -> bool:
    """Whether a word in a metric's name means an error, so that less of it may be better.

    Examples
    --------
    >>> [has_error_word(name) for name in ("pass@1_error", "passLoss", "retrieval_term_score")]
    [True, True, False]
    """
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", metric)
    return any(_ERROR_WORD.fullmatch(word.lower()) for word in words)


def lookup(metric: str, task: str = "") -> Scale | None:
    """Return the scale of a metric reported as a number per document; None if not in the table."""
    entry = _entry(metric, task)
    return None if entry is None else entry.scale


def tells_direction(metric: str, task: str = "") -> bool:
    """Whether a metric's name alone tells which end of its scale is better.

    Examples
    --------
    >>> tells_direction("pass@1"), tells_direction("pass@1_error"), tells_direction("bleu_diff")
    (True, False, True)
    """
    entry = _entry(metric, task)
    if entry is None or not entry.tells_direction:
        return False
    return metric in entry.metrics or not has_error_word(metric)


def refusal(metric: str) -> Refusal | None:
    """Return why a metric has no score per document, and the remedy; None if it may have one."""
    for pattern, refused in REFUSED.items():
        if fnmatchcase(metric, pattern):
            return refused
    return None


def _entry(metric: str, task: str) -> Entry | None:
    """Return the first entry that fits a metric and a task; None if none does."""

    def fits(name: str, patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    for entry in ENTRIES:
        if fits(metric, entry.metrics) and fits(task, entry.tasks):
            return entry
    return None
