"""`Ranking`: what a ranker has found, with everything needed to read and reproduce it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.special import ndtri

from ..metrics.scale import Scale
from .audit import AuditResult
from .known import Place
from .ties import order_in_words

_ALL_PAIRS = 100  # models up to which every pair is written down


def signature(parts: dict[str, Any]) -> str:
    """One line that lets a reader reproduce a number: ``task:gsm|metric:acc|...``.

    Examples
    --------
    >>> signature({"task": "gsm", "seed": 0})
    'task:gsm|seed:0'
    """
    return "|".join(f"{k}:{v}" for k, v in parts.items() if v is not None)


@dataclass(frozen=True)
class Ranking:
    """The result of a `Ranker`. Scores are on [0, 1], higher is better.

    Attributes
    ----------
    order : list of str
        Models, best first; those set aside are not in it.
    estimates, standard_errors : dict of str to float
        Estimated full-benchmark mean score of each model, and its standard error.
    abilities : dict of str to (float, float)
        Ability and its standard error, in logits.
    pairwise : dict of (str, str) to float
        ``P(a better than b)`` for every ordered pair.
    decisions : dict of (str, str) to str
        What the method says of every ordered pair: "decided", "equivalent" or "open".
    ties : list of tuple of str
        Groups of models that could not be separated (see `separated_within_ties`).
    separated_within_ties : list of (str, str)
        Pairs inside a tie group that are nevertheless decided: neighbours are not separated, but
        the two are.
    items : dict of str to list
        doc_ids each model was scored on, in the order they were told.
    failed : dict of str to dict of doc_id to str
        Documents a model could not do, with the reason.
    cost : dict of str to float
        What each model spent, in price x units.
    set_aside : dict of str to str
        Models dropped before the end, with the reason.
    stopped_because : str
        Why nothing more is asked, in words ("" while the ranking is running).
    confidence : float
        Two-sided confidence at which a pair counts as decided.
    n_items : int
        Items of the full benchmark.
    scale : Scale
        The metric's own scale.
    audits : dict of str to AuditResult
        With ``audit``: an estimate per model that does not rely on the response model.
    known : tuple of str
        Models with full results, in `order` as fixed points; they have no items and no ability.
    places : dict of str to Place
        With ``known``: where each new model stands, with its rank interval.
    signature : str
        Task, metric, bank, method, confidence, seed and versions, in one line.
    """

    order: list[str]
    estimates: dict[str, float]
    standard_errors: dict[str, float]
    abilities: dict[str, tuple[float, float]]
    pairwise: dict[tuple[str, str], float]
    ties: list[tuple[str, ...]]
    items: dict[str, list[Any]]
    cost: dict[str, float]
    stopped_because: str
    confidence: float
    n_items: int
    scale: Scale
    signature: str
    decisions: dict[tuple[str, str], str] = field(default_factory=dict)
    separated_within_ties: list[tuple[str, str]] = field(default_factory=list)
    failed: dict[str, dict[Any, str]] = field(default_factory=dict)
    set_aside: dict[str, str] = field(default_factory=dict)
    audits: dict[str, AuditResult] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    places: dict[str, Place] = field(default_factory=dict)

    @property
    def decided(self) -> bool:
        """Whether every adjacent pair of the order is decided."""
        return not self.ties

    def interval(self, model: str, confidence: float | None = None) -> tuple[float, float]:
        """Interval of the full-benchmark mean score, cut to [0, 1].

        Parameters
        ----------
        model : str
        confidence : float, optional
            Two-sided; default that of the ranking.
        """
        z = float(ndtri((1.0 + (confidence or self.confidence)) / 2.0))
        t, se = self.estimates[model], self.standard_errors[model]
        return max(0.0, t - z * se), min(1.0, t + z * se)

    def in_words(self) -> str:
        """The order as one line, ``B > A > {C, D} > E``."""
        return order_in_words(self.order, self.ties)

    def to_dict(self) -> dict[str, Any]:
        """JSON values, estimates on the metric's own scale and in its own direction."""
        return {
            "order": self.order,
            "ranking": self.in_words(),
            "models": {
                m: {
                    "rank": self.order.index(m) + 1 if m in self.order else None,
                    "estimate": float(self.scale.restore(self.estimates[m])),
                    "standard_error": float(self.scale.restore_error(self.standard_errors[m])),
                    "interval": sorted(float(self.scale.restore(v)) for v in self.interval(m)),
                    "known": m in self.known,
                    "place": self.places[m].to_dict() if m in self.places else None,
                    "ability": self.abilities.get(m, (None, None))[0],
                    "ability_standard_error": self.abilities.get(m, (None, None))[1],
                    "n_items": len(self.items[m]),
                    "items": list(self.items[m]),
                    "failed": [
                        {"doc_id": d, "reason": r} for d, r in self.failed.get(m, {}).items()
                    ],
                    "cost": self.cost[m],
                    "set_aside": self.set_aside.get(m),
                    "audit": self._audit_dict(m),
                }
                for m in self.estimates
            },
            "pairwise": [{"a": a, "b": b, "p": p} for (a, b), p in self._telling_pairs()],
            "ties": [list(g) for g in self.ties],
            "separated_within_ties": [list(p) for p in self.separated_within_ties],
            "confidence": self.confidence,
            "items_of_benchmark": self.n_items,
            "items_administered": sum(len(v) for v in self.items.values()),
            "cost": sum(self.cost.values()),
            "stopped_because": self.stopped_because,
            "signature": self.signature,
        }

    def _telling_pairs(self) -> list[tuple[tuple[str, str], float]]:
        """All pairs; of many known models only those that are open, or neighbours.

        A leaderboard has thousands of known models, nearly all of them far from a new one.
        """
        if len(self.order) <= _ALL_PAIRS:
            return list(self.pairwise.items())
        known = set(self.known)
        tail = (1.0 - self.confidence) / 2.0
        place = {m: i for i, m in enumerate(self.order)}
        return [
            ((a, b), p)
            for (a, b), p in self.pairwise.items()
            if not {a, b} & known or tail <= p <= 1.0 - tail or abs(place[a] - place[b]) == 1
        ]

    def _audit_dict(self, model: str) -> dict[str, Any] | None:
        if model not in self.audits:
            return None
        found, scale = self.audits[model], self.scale
        known = found.agrees is not None
        return {
            "n": found.n,
            "estimate": float(scale.restore(found.estimate)) if known else None,
            "standard_error": float(scale.restore_error(found.standard_error)) if known else None,
            "interval": sorted(float(scale.restore(v)) for v in found.interval) if known else None,
            "agrees": found.agrees,
            "fits_the_bank": found.fits,
            "misfit_p": found.misfit_p,
        }


def separated_pairs(
    ties: Sequence[Sequence[str]], pairwise: dict[tuple[str, str], float], confidence: float
) -> list[tuple[str, str]]:
    """Pairs of one tie group whose own probability leaves the undecided band."""
    tail = (1.0 - confidence) / 2.0
    return [
        (a, b)
        for group in ties
        for i, a in enumerate(group)
        for b in group[i + 1 :]
        if not tail <= pairwise[a, b] <= 1.0 - tail
    ]
