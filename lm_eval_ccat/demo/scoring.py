"""How the demo's task scores a summary: ROUGE-L against the docstring's first line."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=True)


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The harness's hook: what one answer is worth, on [0, 1]."""
    return {"rougeL": _scorer().score(doc["summary"], results[0])["rougeL"].fmeasure}
