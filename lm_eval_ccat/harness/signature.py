"""The line that lets a reader reproduce a number of a live run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any


def signed(
    signature: str, task: str, scorer: Mapping[str, Any] | None = None, lm_eval: str | None = None
) -> str:
    """A ranking's signature with what only a live run knows.

    Parameters
    ----------
    signature : str
        Of a `Ranking`. Its bank may know its task by another name, or not at all.
    task : str
        The task that was run.
    scorer : mapping, optional
        What computed the metric (see `scorers`); eight hex digits stand for it.
    lm_eval : str, optional
        The harness's version.

    Examples
    --------
    >>> signed("task:qa|metric:acc|seed:0", "qa_adaptive", lm_eval="0.4.13")
    'task:qa_adaptive|metric:acc|seed:0|lm-eval:0.4.13'
    """
    parts = signature.split("|")
    if not parts[0].startswith("tasks:"):  # several tasks are named with their weights
        parts = [f"task:{task}", *(parts[1:] if parts[0].startswith("task:") else parts)]
    if scorer:
        parts.append(
            f"scorer:{sha256(json.dumps(scorer, sort_keys=True).encode()).hexdigest()[:8]}"
        )
    if lm_eval:
        parts.append(f"lm-eval:{lm_eval}")
    return "|".join(parts)


def scorer_of_run(header: Mapping[str, Any]) -> dict[str, object] | None:
    """What computed the metric of a ranking, from its journal's header."""
    task = header.get("task") or {}
    scorer = ((task.get("settings") or {}).get("scorer") or {}).get(task.get("metric"))
    return dict(scorer) if scorer else None


def in_words(scorer: Mapping[str, Any]) -> str:
    """A scorer in one line.

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
