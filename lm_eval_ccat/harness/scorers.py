"""Scorers: what computes a metric, such as a judge, an encoder or a version of a library.

A bank calibrated with one scorer is of no use with another. So the scorer is recorded in the
settings of a session (``scorer``), in the harness's results files (the task's metadata, key
``ccat_scorer``) and in banks made from them; it is part of a result's signature, and compared
before a run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from ..metrics.bertscore import BertScoreSettings
from ..metrics.registry import is_scored_by_task
from ..metrics.scale import ITEM_SCALED
from ..metrics.text_pairs import PAIR_METRICS, SENTENCE, parts_of, sacrebleu_signature
from ..records import Header
from ..scores.readers.logged_runs import SCORER
from . import internals
from .comet import checkpoint
from .judge import VARIABLE, active_judge, is_judged


def scorer_of(metric: str) -> dict[str, object] | None:
    """Return the scorer of a metric in this process; None if there is none beside the metric.

    A judge's metric has none either where no judge is configured: then nothing is scored by it.

    Raises
    ------
    UsageError
        The judge's file, or the settings of an encoder, cannot be used.

    Examples
    --------
    >>> scorer_of("exact_match") is None
    True
    """
    base = metric.removesuffix(ITEM_SCALED)
    if is_judged(base):
        return active_judge().settings.identity() if os.environ.get(VARIABLE) else None
    if base.startswith("bertscore"):
        settings = BertScoreSettings.from_environment()
        return {"encoder": settings.model, "layer": settings.layer, "baseline": settings.baseline}
    # BLEU, chrF and TER, also with a tokenizer (``bleu@zh``), which the signature states.
    if parts_of(base).base in PAIR_METRICS:
        return {"sacrebleu": sacrebleu_signature(base)}
    if base == "comet":
        return {"checkpoint": checkpoint()}
    return None


def scorers(metrics: Iterable[str], config: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    """Return the scorers of those metrics of a task, by its configuration, that have one."""
    by_metric = {metric: scorer_of(metric) for metric in metrics}
    # What a task's own code calls bleu, say, may not be sacrebleu's.
    return {
        metric: scorer
        for metric, scorer in by_metric.items()
        if scorer is not None and not ("sacrebleu" in scorer and is_scored_by_task(metric, config))
    }


def record_scorers() -> None:
    """Write the scorers into the results of every evaluation of the harness from now on."""
    internals.hook("after", add_scorers)


def add_scorers(results: Any) -> None:
    """Write the scorers into the harness's results, in each task's metadata."""
    if not isinstance(results, dict):
        return
    for name, config in results.get("configs", {}).items():
        # Keys are such as ``bleu,none``, ``bleu_stderr,none`` and ``alias``.
        keys = results.get("results", {}).get(name, {})
        metrics = dict.fromkeys(key.partition(",")[0] for key in keys if "," in key)
        reported = (metric.removeprefix(SENTENCE) for metric in metrics if "_stderr" not in metric)
        if isinstance(config, dict) and (by_metric := scorers(reported, config)):
            metadata = config.get("metadata")
            stated = metadata if isinstance(metadata, Mapping) else {}
            config["metadata"] = {**stated, SCORER: by_metric}


def signed(
    signature: str,
    task: str,
    scorer: Mapping[str, Any] | None = None,
    lm_eval: str | None = None,
    asking: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return a ranking's signature with the facts that only a live run knows.

    Parameters
    ----------
    signature : str
        Signature of a `Ranking`, whose bank may name the task differently or not at all.
    task : str
        The task that was run.
    scorer : mapping, optional
        What computed the metric (see `scorers`); the signature has eight hex digits of its hash.
    lm_eval : str, optional
        The harness's version.
    asking : sequence of mapping, optional
        Of each task `TaskSession.asking`; where tasks differ in it, the signature has eight hex
        digits of its hash.

    Examples
    --------
    >>> asking = [{"num_fewshot": 5, "generation_kwargs": {"temperature": 0.7}}]
    >>> signed("task:qa|seed:0", "qa", asking=asking)
    'task:qa|seed:0|fewshot:5|generation:{"temperature":0.7}'
    >>> asking = [{"num_fewshot": 0, "generation_kwargs": {}, "chat": True, "system": "0af23b91"}]
    >>> signed("task:qa|seed:0", "qa", asking=asking)
    'task:qa|seed:0|fewshot:0|chat:yes|system:0af23b91'
    >>> signed("task:qa|metric:acc|seed:0", "qa_adaptive", lm_eval="0.4.13")
    'task:qa_adaptive|metric:acc|seed:0|lm-eval:0.4.13'
    """
    parts = signature.split("|")
    if not parts[0].startswith("tasks:"):  # several tasks are named with their weights
        parts = [f"task:{task}", *(parts[1:] if parts[0].startswith("task:") else parts)]
    distinct = list(dict.fromkeys(map(_compact, asking)))
    # Else the signature would name one task's settings as those of all.
    if len(distinct) == 1:
        parts.append(f"fewshot:{asking[0]['num_fewshot']}")
        if asking[0].get("chat"):
            parts.append("chat:yes")
        if system := asking[0].get("system"):
            parts.append(f"system:{system}")
        if generation := asking[0]["generation_kwargs"]:
            parts.append(f"generation:{_compact(generation)}")
    elif distinct:
        parts.append(f"asked:{sha256(''.join(distinct).encode()).hexdigest()[:8]}")
    if scorer:
        parts.append(
            f"scorer:{sha256(json.dumps(scorer, sort_keys=True).encode()).hexdigest()[:8]}"
        )
    if lm_eval:
        parts.append(f"lm-eval:{lm_eval}")
    return "|".join(parts)


def _compact(settings: Mapping[str, Any]) -> str:
    """Return settings as JSON without the bar that separates the parts of a signature."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), default=str)
    return text.replace("|", "\\u007c")


def scorer_of_run(header: Header) -> dict[str, object] | None:
    """Return the scorer of a ranking's metric by the header of its journal; None without one."""
    task = header.task
    settings, outcomes = task.get("settings") or {}, task.get("outcomes") or {}
    # Each of several tasks has settings of its own, and the metric is that of the first.
    if len(outcomes) > 1:
        settings = settings.get(next(iter(outcomes))) or {}
    scorer = (settings.get("scorer") or {}).get(task.get("metric"))
    return dict(scorer) if scorer else None


def in_words(scorer: Mapping[str, Any]) -> str:
    """Describe a scorer in one line.

    Examples
    --------
    >>> in_words({"encoder": "roberta-large", "layer": 17, "baseline": None})
    'encoder roberta-large, layer 17'
    """
    return ", ".join(
        f"{key.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in scorer.items()
        if value is not None
    )
