"""The rows of a ranking: what is known of one model, and of two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from ..content import ModelContent, OpenPairContent, PairContent, SampleContent
from ..methods.policy import Drawn
from ..metrics.scale import Scale
from .audit import AuditResult
from .headline import Place
from .looks import Looks


@dataclass(frozen=True)
class Estimate:
    """An estimated mean score on [0, 1], with what an interval of it needs.

    Attributes
    ----------
    mean, error : float
        Estimate and standard error.
    df, n, n_items : float
        Degrees of freedom of the error; items behind it, and items of the benchmark.
    lean : float
        By how much it may be too high (below 0: too low) because some answers failed.
    looks : Looks
        By which intervals hold.
    own : callable, optional
        ``confidence -> (low, high)``, where the method has an interval of its own.
    """

    mean: float
    error: float
    df: float = np.inf
    n: float = np.inf
    n_items: float = np.inf
    lean: float = 0.0
    looks: Looks = field(default=Looks(once=True), compare=False)
    own: Callable[[float], tuple[float, float]] | None = field(default=None, compare=False)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Two-sided interval, cut to [0, 1]."""
        if self.own is not None:
            low, high = self.own(confidence)
        else:
            n = min((self.n, *self.looks.horizons))  # a model alone may get beyond what a pair can
            at = np.array([self.df]), np.array([n]), self.n_items
            half = self.error and float(self.looks.reach(1.0 - confidence, *at)[0]) * self.error
            low, high = self.mean - half, self.mean + half
        return max(0.0, low - max(self.lean, 0.0)), min(1.0, high + max(-self.lean, 0.0))


@dataclass(frozen=True)
class ModelRow:
    """What is known of one model. Scores are on [0, 1], higher is better.

    Attributes
    ----------
    name : str
    known : bool
        Whether it is a reference model, whose full results were given.
    rank : int or None
        1 is best; None for a model that was set aside.
    rank_range : (int, int) or None
        The ranks that the decided pairs leave possible.
    p_top : dict of int to float
        Probability of being among the best k, for some k.
    estimate : Estimate
        Of the full-benchmark mean; with several tasks or outcomes of the weighted sum.
    interval : (float, float)
        Of it, at the ranking's confidence.
    bound : (float, float) or None
        That interval if every item that failed had scored 0, or 1: it holds whatever the failures
        depend on. None where none failed.
    ability : (float, float) or None
        And its standard error, in logits; of one outcome alone.
    items : list
        Items it was scored on, in the order they were told: doc_ids, or (task, doc_id).
    draws : list of (item, float)
        Those of them that were drawn at random, with the probability of the draw.
    failed : dict of item to str
        Items that it failed on, with the reason.
    cost : float
        What it spent, in price x units.
    set_aside : str or None
        Why it was dropped before the end.
    findings : list of str
        Where the bank says little about it: the rest of a sentence that begins with its name.
    sample : Drawn or None
        What the items drawn at random say by themselves, beside `estimate`, which is made of bank
        and draws; for methods that have both.
    audit : AuditResult or None
        With ``audit``: an estimate that does not rely on the response model.
    place : Place or None
        Among reference models: where it stands, with its rank range.
    """

    name: str
    estimate: Estimate
    interval: tuple[float, float]
    known: bool = False
    rank: int | None = None
    rank_range: tuple[int, int] | None = None
    p_top: dict[int, float] = field(default_factory=dict)
    bound: tuple[float, float] | None = None
    ability: tuple[float, float] | None = None
    items: list[Any] = field(default_factory=list)
    draws: list[tuple[Any, float]] = field(default_factory=list)
    failed: dict[Any, str] = field(default_factory=dict)
    cost: float = 0.0
    set_aside: str | None = None
    findings: list[str] = field(default_factory=list)
    sample: Drawn | None = None
    audit: AuditResult | None = None
    place: Place | None = None

    def to_dict(self, scale: Scale, confidence: float) -> ModelContent:
        """JSON values, estimates on a metric's own scale."""

        def ends(interval: tuple[float, float]) -> list[float]:
            return sorted(float(scale.restore(v)) for v in interval)

        return {
            "rank": self.rank,
            "rank_range": self.rank_range and list(self.rank_range),
            "p_best": self.p_top.get(1),
            "p_top": {str(k): p for k, p in self.p_top.items()},
            "estimate": float(scale.restore(self.estimate.mean)),
            "standard_error": float(scale.restore_error(self.estimate.error)),
            "interval": ends(self.interval),
            "bound": None if self.bound is None else ends(self.bound),
            "known": self.known,
            "place": None if self.place is None else self.place.to_dict(),
            "ability": self.ability and self.ability[0],
            "ability_standard_error": self.ability and self.ability[1],
            "n_items": len(self.items),
            "items": list(self.items),
            "draws": [[item, p] for item, p in self.draws],
            "failed": [{"doc_id": d, "reason": r} for d, r in self.failed.items()],
            "cost": self.cost,
            "set_aside": self.set_aside,
            "findings": self.findings,
            "sample": self._sample_dict(scale, confidence),
            "audit": None if self.audit is None else self.audit.to_dict(scale),
        }

    def _sample_dict(self, scale: Scale, confidence: float) -> SampleContent | None:
        if (s := self.sample) is None:
            return None
        return {
            "n": s.n,
            "estimate": float(scale.restore(s.estimate)),
            "standard_error": float(scale.restore_error(s.standard_error)),
            "interval": sorted(float(scale.restore(v)) for v in s.interval(confidence)),
        }


class PairRow(NamedTuple):
    """Two models of the order, `a` before `b`.

    Attributes
    ----------
    a, b : str
    p : float
        P(a better), as if looked at once. It describes; `decision` decides.
    needed : float
        What it would have to be now for the pair to be decided: more than the confidence, since a
        pair that is looked at after every answer has many chances to look different.
    decision : str
        "decided", "equivalent" (they surely differ by less than ``min_difference``) or "open".
    population : bool or None
        Whether it stands also for items like these; None where that is not asked.
    barred : bool
        Whether the pair may not be decided (`Ranker.bar`).
    """

    a: str
    b: str
    p: float
    needed: float
    decision: str
    population: bool | None = None
    barred: bool = False

    def to_dict(self) -> PairContent:
        """JSON values."""
        content: PairContent = {
            "a": self.a, "b": self.b, "p": self.p, "decision": self.decision, "needed": self.needed,
        }  # fmt: skip
        if self.population is not None:
            content["population"] = self.population
        if self.barred:
            content["barred"] = True
        return content


@dataclass(frozen=True)
class OpenPair:
    """Two neighbours of the order that are not decided, and what would decide them.

    Attributes
    ----------
    a, b : str
        `a` stands before `b`.
    p : float
        P(a better than b), as if looked at once.
    items : dict of str to int
        Further items of each tested one, if the difference stays what it is now; all that are left
        where no number within reach would do.
    cost : float
        Of these items, at what each model's items cost so far.
    all_items : bool
        Whether nothing short of nine tenths of the benchmark would do.
    one_look : bool
        Whether the pair would be decided now if this were the only look.
    """

    a: str
    b: str
    p: float
    items: dict[str, int]
    cost: float
    all_items: bool
    one_look: bool = False

    def to_dict(self) -> OpenPairContent:
        """JSON values."""
        return cast(OpenPairContent, dict(vars(self)))
