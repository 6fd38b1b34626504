"""`Ranking`: what a ranker has found, with everything needed to read and reproduce it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scipy.special import ndtri

from ..methods.policy import Drawn
from ..metrics.scale import Scale
from ..shown import Grid, Shown
from .audit import AuditResult
from .grid import ranking_grid
from .outlook import OpenPair
from .place import Place
from .ranks import order_in_words

_ALL_PAIRS = 100  # models up to which every pair is written down
Pair = tuple[str, str]


def signature(parts: dict[str, Any]) -> str:
    """One line that lets a reader reproduce a number: ``task:gsm|metric:acc|...``.

    Examples
    --------
    >>> signature({"task": "gsm", "seed": 0})
    'task:gsm|seed:0'
    """
    return "|".join(f"{k}:{v}" for k, v in parts.items() if v is not None)


@dataclass(frozen=True, repr=False)
class Ranking(Shown):
    """The result of a `Ranker`. Scores are on [0, 1], higher is better.

    Attributes
    ----------
    order : list of str
        Models, best first; those set aside are not in it.
    estimates, standard_errors : dict of str to float
        Estimated full-benchmark mean score of each model, and its standard error; with several
        tasks or outcomes of the weighted sum.
    abilities : dict of str to (float, float)
        Ability and its standard error, in logits; of one outcome alone.
    pairwise : dict of (str, str) to float
        ``P(a better than b)`` for every ordered pair. It describes; `decisions` decides.
    decisions : dict of (str, str) to str
        "decided", "equivalent" (they surely differ by less than ``min_difference``) or "open".
    ties : list of tuple of str
        The coarse view of it: runs of models whose neighbours are not decided (see
        `separated_within_ties`).
    separated_within_ties : list of (str, str)
        Pairs inside a tie group that are nevertheless decided: neighbours are not separated, but
        the two are.
    rank_ranges : dict of str to (int, int)
        The ranks that the decided pairs leave possible, 1 best.
    p_best : dict of str to float
        Probability of being the best.
    p_top : dict of int to (dict of str to float)
        Probability of being among the best k, for some k.
    open_pairs : list of OpenPair
        Open neighbours of the order, and what would decide them; the cheapest first.
    expected_wrong : float
        How many of the decided pairs are expected to be wrong, by `pairwise`.
    items : dict of str to list
        Items each model was scored on, in the order they were told: doc_ids, or (task, doc_id).
    draws : dict of str to list of (item, float)
        Those of them that were drawn at random, with the probability of the draw.
    failed : dict of str to dict of item to str
        Documents that a model failed on, with the reason.
    cost : dict of str to float
        What each model spent, in price x units.
    set_aside : dict of str to str
        Models dropped before the end, with the reason.
    stopped_because : str
        Why nothing more is asked, in words ("" while the ranking is running).
    goal_met : bool
        Whether what the ranking is for is reached: all decided or equivalent, or the goal of the
        stopping rule asked for.
    confidence : float
        Two-sided confidence at which a pair counts as decided.
    n_items : int
        Items of the full benchmark.
    scale : Scale
        The metric's own scale; [0, 1] where outcomes of several scales are summed.
    intervals : dict of str to (float, float)
        Of the estimates, at `confidence`.
    findings : dict of str to list of str
        Where the bank does not speak for a model: ends of a sentence that begins with its name.
    samples : dict of str to Drawn
        What the items drawn at random say by themselves, beside `estimates`, which are made of
        bank and draws; for methods that have both.
    audits : dict of str to AuditResult
        With ``audit``: an estimate per model that does not rely on the response model.
    known : tuple of str
        Models with full results, in `order` as fixed points; they have no items and no ability.
    places : dict of str to Place
        With ``known``: where each new model stands, with its rank interval.
    tasks, outcomes, groups : dict of str to Ranking
        With several of them: what is known of each by itself. Which pairs it decides was not what
        was asked.
    weights : dict of str to float
        Of the tasks (or of the outcomes of one task) in the score that is ranked by.
    signature : str
        Task, metric, bank, method, confidence, seed and versions, in one line.
    """

    order: list[str]
    estimates: dict[str, float]
    standard_errors: dict[str, float]
    abilities: dict[str, tuple[float, float]]
    pairwise: dict[Pair, float]
    ties: list[tuple[str, ...]]
    items: dict[str, list[Any]]
    cost: dict[str, float]
    stopped_because: str
    confidence: float
    n_items: int
    scale: Scale
    signature: str
    separated_within_ties: list[Pair] = field(default_factory=list)
    failed: dict[str, dict[Any, str]] = field(default_factory=dict)
    set_aside: dict[str, str] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)
    samples: dict[str, Drawn] = field(default_factory=dict)
    audits: dict[str, AuditResult] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    places: dict[str, Place] = field(default_factory=dict)
    decisions: dict[Pair, str] = field(default_factory=dict)
    rank_ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    p_best: dict[str, float] = field(default_factory=dict)
    p_top: dict[int, dict[str, float]] = field(default_factory=dict)
    open_pairs: list[OpenPair] = field(default_factory=list)
    expected_wrong: float = 0.0
    draws: dict[str, list[tuple[Any, float]]] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    goal_met: bool = False
    tasks: dict[str, Ranking] = field(default_factory=dict)
    outcomes: dict[str, Ranking] = field(default_factory=dict)
    groups: dict[str, Ranking] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

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
        if confidence in (None, self.confidence) and model in self.intervals:
            return self.intervals[model]
        z = float(ndtri((1.0 + (confidence or self.confidence)) / 2.0))
        t, se = self.estimates[model], self.standard_errors[model]
        return max(0.0, t - z * se), min(1.0, t + z * se)

    def in_words(self) -> str:
        """The order as one line, ``B > A > {C, D} > E``.

        Models in braces are all open to each other, or equivalent. A run in which some pair is
        decided though no neighbours are is a chain, ``C (3 to 4) >~ D (3 to 5) >~ E (4 to 5)``,
        with the ranks that each may have.
        """
        return order_in_words(self.order, self.ties, self.separated_within_ties, self.rank_ranges)

    def _grid(self) -> Grid:
        return ranking_grid(self.to_dict(), self.in_words() or "no model was ranked")

    def to_dict(self) -> dict[str, Any]:
        """JSON values, estimates on the metric's own scale and in its own direction."""
        rank, known = {m: i + 1 for i, m in enumerate(self.order)}, set(self.known)
        parts = {
            what: {name: r.to_dict() for name, r in found.items()}
            for what in ("tasks", "outcomes", "groups")
            if (found := getattr(self, what))
        }
        return {
            "order": self.order,
            "ranking": self.in_words(),
            "models": {m: self._model_dict(m, rank.get(m), m in known) for m in self.estimates},
            "pairwise": [
                {"a": a, "b": b, "p": p, "decision": self.decisions.get((a, b), "open")}
                for (a, b), p in self._telling_pairs()
            ],
            "ties": [list(g) for g in self.ties],
            "separated_within_ties": [list(p) for p in self.separated_within_ties],
            "open_pairs": [pair.to_dict() for pair in self.open_pairs],
            "expected_wrong_pairs": self.expected_wrong,
            "confidence": self.confidence,
            "items_of_benchmark": self.n_items,
            "items_administered": sum(len(v) for v in self.items.values()),
            "cost": sum(self.cost.values()),
            "stopped_because": self.stopped_because,
            "goal_met": self.goal_met,
            "signature": self.signature,
            **({"weights": self.weights} if self.weights else {}),
            **parts,
        }

    def _model_dict(self, m: str, rank: int | None, known: bool) -> dict[str, Any]:
        return {
            "rank": rank,
            "rank_range": list(self.rank_ranges[m]) if m in self.rank_ranges else None,
            "p_best": self.p_best.get(m),
            "p_top": {str(k): found[m] for k, found in self.p_top.items() if m in found},
            "estimate": float(self.scale.restore(self.estimates[m])),
            "standard_error": float(self.scale.restore_error(self.standard_errors[m])),
            "interval": sorted(float(self.scale.restore(v)) for v in self.interval(m)),
            "known": known,
            "place": self.places[m].to_dict() if m in self.places else None,
            "ability": self.abilities.get(m, (None, None))[0],
            "ability_standard_error": self.abilities.get(m, (None, None))[1],
            "n_items": len(self.items[m]),
            "items": list(self.items[m]),
            "draws": [[item, p] for item, p in self.draws.get(m, [])],
            "failed": [{"doc_id": d, "reason": r} for d, r in self.failed.get(m, {}).items()],
            "cost": self.cost[m],
            "set_aside": self.set_aside.get(m),
            "findings": self.findings.get(m, []),
            "sample": self._sample_dict(m),
            "audit": self._audit_dict(m),
        }

    def _sample_dict(self, model: str) -> dict[str, Any] | None:
        if model not in self.samples or self.samples[model].n < 2:
            return None
        found, scale = self.samples[model], self.scale
        return {
            "n": found.n,
            "estimate": float(scale.restore(found.estimate)),
            "standard_error": float(scale.restore_error(found.standard_error)),
            "interval": sorted(float(scale.restore(v)) for v in found.interval(self.confidence)),
        }

    def _telling_pairs(self) -> list[tuple[Pair, float]]:
        """All pairs; of many known models only those that are open, or neighbours.

        A leaderboard has thousands of known models, nearly all of them far from a new one.
        """
        if len(self.order) <= _ALL_PAIRS:
            return list(self.pairwise.items())
        known = set(self.known)
        place = {m: i for i, m in enumerate(self.order)}
        return [
            ((a, b), p)
            for (a, b), p in self.pairwise.items()
            if not {a, b} & known
            or self.decisions[a, b] != "decided"
            or abs(place[a] - place[b]) == 1
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
