"""How the demo's task scores a summary: ROUGE-L against the docstring's first line."""

from __future__ import annotations

from typing import Any

from ..metrics.rouge import rouge


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The harness's hook: what one answer is worth, on [0, 1]."""
    return rouge(results[0], doc["summary"])
