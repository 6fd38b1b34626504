"""`SuiteRanking`: the overall ranking of a suite, and each task's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scipy.special import ndtri

from ..metrics.scale import Scale
from .result import Ranking
from .ties import order_in_words


@dataclass(frozen=True)
class SuiteRanking:
    """The result of a `SuiteRanker`. Scores are on [0, 1], higher is better.

    Attributes
    ----------
    order : list of str
        Models by aggregate, best first; those set aside are not in it.
    estimates, standard_errors : dict of str to float
        Estimated aggregate of each model over all documents of all tasks, and its standard error.
    pairwise : dict of (str, str) to float
        ``P(a better than b)`` overall.
    ties : list of tuple of str
        Groups of models that could not be separated overall.
    tasks : dict of str to Ranking
        What is known of each task by itself; which pairs it decides was not what was asked.
    weights : dict of str to float
        Of the tasks in the aggregate, summing to 1.
    cost : dict of str to float
    set_aside : dict of str to str
    stopped_because : str
    confidence : float
    """

    order: list[str]
    estimates: dict[str, float]
    standard_errors: dict[str, float]
    pairwise: dict[tuple[str, str], float]
    ties: list[tuple[str, ...]]
    tasks: dict[str, Ranking]
    weights: dict[str, float]
    cost: dict[str, float]
    stopped_because: str
    confidence: float
    set_aside: dict[str, str] = field(default_factory=dict)

    @property
    def decided(self) -> bool:
        """Whether every adjacent pair of the overall order is decided."""
        return not self.ties

    @property
    def items(self) -> dict[str, dict[str, list[Any]]]:
        """doc_ids by model and task."""
        return {m: {t: r.items[m] for t, r in self.tasks.items()} for m in self.estimates}

    @property
    def scale(self) -> Scale:
        """The tasks' own scale where they share one, else [0, 1]."""
        scales = [r.scale for r in self.tasks.values()]
        return scales[0] if all(s == scales[0] for s in scales) else Scale()

    @property
    def signature(self) -> str:
        """The tasks' signatures, each with its weight."""
        return " + ".join(f"{self.weights[t]:.4g} x {r.signature}" for t, r in self.tasks.items())

    def interval(self, model: str) -> tuple[float, float]:
        """Interval of the aggregate at the ranking's confidence, cut to [0, 1]."""
        z = float(ndtri((1.0 + self.confidence) / 2.0))
        t, se = self.estimates[model], self.standard_errors[model]
        return max(0.0, t - z * se), min(1.0, t + z * se)

    def in_words(self) -> str:
        """The overall order as one line."""
        return order_in_words(self.order, self.ties)

    def to_dict(self) -> dict[str, Any]:
        """JSON values, aggregates on the tasks' own scale where they share one."""
        scale = self.scale
        return {
            "order": self.order,
            "ranking": self.in_words(),
            "models": {
                m: {
                    "rank": self.order.index(m) + 1 if m in self.order else None,
                    "estimate": float(scale.restore(self.estimates[m])),
                    "standard_error": float(scale.restore_error(self.standard_errors[m])),
                    "interval": sorted(float(scale.restore(v)) for v in self.interval(m)),
                    "n_items": {t: len(r.items[m]) for t, r in self.tasks.items()},
                    "cost": self.cost[m],
                    "set_aside": self.set_aside.get(m),
                }
                for m in self.estimates
            },
            "pairwise": [{"a": a, "b": b, "p": p} for (a, b), p in self.pairwise.items()],
            "ties": [list(g) for g in self.ties],
            "weights": self.weights,
            "tasks": {t: r.to_dict() for t, r in self.tasks.items()},
            "confidence": self.confidence,
            "cost": sum(self.cost.values()),
            "stopped_because": self.stopped_because,
            "signature": self.signature,
        }
