"""Scale and direction of each metric that tasks of lm-eval report per document.

A new metric is one entry of `ENTRIES`::

    Entry(("my_metric",), Scale(0, 10)),

Names are shell patterns. Entries that name tasks stand before the general ones, and the first match
counts. Ranges were read from the tasks of lm-eval 0.4.13 (the comment names the file).
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from .scale import Scale

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
    """

    metrics: tuple[str, ...]
    scale: Scale
    tasks: tuple[str, ...] = ("*",)


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
        ("score", "perspective_api_toxicity_score"), Scale(0, 1, False), ("realtoxicityprompts*",)
    ),
    # scrolls/task.py: acc_norm times 100.
    Entry(("em",), PERCENT, ("scrolls_*",)),
    # Right or wrong, or a share of parts that are right.
    Entry(
        ("acc", "acc_*", "accuracy", "exact_match", "exact_match_*", "em", "exact", "*_accuracy"),
        UNIT,
    ),
    Entry(("pass@*", "pass_at_*", "prompt_level_*_acc", "math_verify", "is_included"), UNIT),
    Entry(("numerical_match", "extraction_rate", "partial_accuracy", "verifiable_reward"), UNIT),
    Entry(
        ("json_validity", "schema_compliance", "r@*", "mrr", "contains", "quasi_exact_match"), UNIT
    ),
    Entry(("pct_*",), Scale(0, 1, False)),
    # Overlap of words or spans. squad-style F1 on 0-100 is a corpus statistic in the harness.
    Entry(("f1", "f1_abstractive", "flexible_f1", "fscore", "precision", "recall"), UNIT),
    Entry(("rouge1", "rouge2", "rougeL", "rougeLsum"), UNIT),
    # truthfulqa_gen and its translations (truthfulqa/utils.py): percentages and their differences.
    Entry(("bleu_acc", "rouge*_acc"), UNIT),
    Entry(("bleu_max", "rouge*_max"), PERCENT),
    Entry(("bleu_diff", "rouge*_diff"), Scale(-100, 100)),
    # code_x_glue/code-text/bleu.py
    Entry(("smoothed_bleu_4",), PERCENT),
    # Means of best cosine similarities, positive in practice. Rescaled by a baseline they can fall
    # below 0: such a task must declare its range.
    Entry(("bert_score", "bertscore*", "bert_score_*"), UNIT),
    # longbench/metrics.py, longproc/metrics.py, infinitebench/utils.py: all shares.
    Entry(("score", "qa_f1_score", "qa_f1_zh_score", "rouge_score", "rouge_zh_score"), UNIT),
    Entry(("classification_score", "code_sim_score", "count_score", "retrieval_*score"), UNIT),
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
    Entry(("*_item_scaled",), UNIT),  # see scores/item_scaling.py
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

#: Metrics that cannot become one score per document: pattern -> (why, remedy).
REFUSED: dict[str, tuple[str, str]] = {
    "mcc": (CORPUS, USE_MEAN),
    "matthews_correlation": (CORPUS, USE_MEAN),
    "pearsonr": (CORPUS, USE_MEAN),
    "spearmanr": (CORPUS, USE_MEAN),
    "acc_all": ("it scores groups of documents together", USE_MEAN),
    "*perplexity": ("it is the exponential of a mean log-likelihood, without a scale", _RUN_WHOLE),
    "bits_per_byte": ("it divides sums over the whole corpus", _RUN_WHOLE),
    "brier_score": (
        "the harness reports probabilities per document and scores them together",
        USE_MEAN,
    ),
    "likelihood": ("the harness reports log-likelihoods, not a score", USE_MEAN),
    "likelihood_diff": ("it is a difference of log-likelihoods, without a scale", USE_MEAN),
    "bypass": ("it is a placeholder without a score", "name a metric that scores the documents"),
}


def lookup(metric: str, task: str = "") -> Scale | None:
    """Return the scale of a metric reported as a number per document; None if not in the table."""
    for entry in ENTRIES:
        if _matches(entry.metrics, metric) and _matches(entry.tasks, task):
            return entry.scale
    return None


def refusal(metric: str) -> tuple[str, str] | None:
    """Return why a metric has no score per document, and the remedy; None if it may have one."""
    for pattern, reason in REFUSED.items():
        if fnmatchcase(metric, pattern):
            return reason
    return None


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
