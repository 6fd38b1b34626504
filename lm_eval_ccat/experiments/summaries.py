"""Means over runs as the paper averages them: each run counts once, ties of each run by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..simulation.outcome import Outcome


def of_runs(runs: Sequence[Outcome]) -> dict[str, Any]:
    """Summarise the runs of one method.

    Returns
    -------
    dict
        ``tau``, ``asked`` (items over all held-out models) and ``spent``, each also with ``_sd``
        over runs; ``tied`` and ``truly_tied`` (shares of pairs); ``precision``, ``recall``, ``F1``
        of ties and ``confident_accuracy``, None for a method that states no confidence.
    """
    found: dict[str, Any] = {"runs": len(runs)}
    for name, values in (
        ("tau", [r.tau for r in runs if r.tau is not None]),
        ("asked", [r.items for r in runs]),
        ("spent", [r.cost for r in runs]),
    ):
        found[name] = float(np.mean(values)) if values else None
        found[f"{name}_sd"] = float(np.std(values)) if values else None
    found["truly_tied"] = float(np.mean([r.true_ties / r.pairs for r in runs]))
    stated = [r for r in runs if r.ties is not None]
    scores = np.array([tie_scores(r) for r in stated]).reshape(-1, 3)
    right = [(r.confident_right or 0) / r.confident for r in stated if r.confident]
    found |= dict.fromkeys(("tied", "precision", "recall", "F1", "confident_accuracy"))
    if stated:
        found["tied"] = float(np.mean([(r.ties or 0) / r.pairs for r in stated]))
        found |= dict(zip(("precision", "recall", "F1"), scores.mean(axis=0).tolist()))
        found["confident_accuracy"] = float(np.mean(right)) if right else None
    return found


def tie_scores(run: Outcome) -> tuple[float, float, float]:
    """Precision, recall and F1 of the ties of one run.

    As the authors' code has it: recall is 1 where nothing is truly tied; precision is 1 where
    nothing is tied nor called so, and 0 where all of several ties are missed.
    """
    said, true, hits = run.ties or 0, run.true_ties, run.tie_hits or 0
    precision = hits / said if said else float(true == 0)
    recall = hits / true if true else 1.0
    both = precision + recall
    return precision, recall, 2.0 * precision * recall / both if both else 0.0
