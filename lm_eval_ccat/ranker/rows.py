"""The rows of a ranking: what is known of one model, and of two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..content import ModelContent, PairContent, PlaceContent, SampleContent
from ..methods.policy import Drawn
from ..metrics.scale import Scale
from .audit import AuditResult
from .looks import Looks
from .verdicts import Verdicts


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
    of_method : callable, optional
        ``confidence -> (low, high)``, where the method has an interval of its own.
    """

    mean: float
    error: float
    df: float = np.inf
    n: float = np.inf
    n_items: float = np.inf
    lean: float = 0.0
    looks: Looks = field(default=Looks(once=True), compare=False)
    of_method: Callable[[float], tuple[float, float]] | None = field(default=None, compare=False)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Two-sided interval, cut to [0, 1]."""
        if self.of_method is not None:
            low, high = self.of_method(confidence)
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
    place : Placement or None
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
    place: Placement | None = None

    def to_dict(self, scale: Scale, confidence: float) -> ModelContent:
        """JSON values, estimates on a metric's own scale."""

        def ends(interval: tuple[float, float]) -> list[float]:
            return sorted(float(scale.restore(v)) for v in interval)

        sample: SampleContent | None = None
        if (s := self.sample) is not None:
            sample = {
                "n": s.n,
                "estimate": float(scale.restore(s.estimate)),
                "standard_error": float(scale.restore_error(s.standard_error)),
                "interval": ends(s.interval(confidence)),
            }
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
            "sample": sample,
            "audit": None if self.audit is None else self.audit.to_dict(scale),
        }


_SHOWN = 6  # models of a long tie that are named in words


@dataclass(frozen=True)
class Placement:
    """Where a new model stands among all models, known and new.

    Attributes
    ----------
    rank : int
        By the point estimates, 1 is best.
    best, worst : int
        Rank interval: one more than the number of models decidedly better, and the number of
        models less those decidedly worse.
    n_models : int
    above, below : str or None
        The nearest model that is decidedly better, and the nearest decidedly worse.
    tied_with : tuple of str
        Models from which it could not be separated, best first.
    """

    rank: int
    best: int
    worst: int
    n_models: int
    above: str | None
    below: str | None
    tied_with: tuple[str, ...]

    @classmethod
    def of(cls, v: Verdicts, name: str) -> Placement:
        """The place that verdicts leave to a tested model."""
        i, order = v.names.index(name), v.rows.tolist()
        signs = [0 if j == i else v.pair(i, j)[0] for j in order]  # best first
        best, worst = (int(x[i]) for x in v.ranges)
        better = [v.names[j] for j, sign in zip(order, signs) if sign < 0]
        worse = [v.names[j] for j, sign in zip(order, signs) if sign > 0]
        tied = [v.names[j] for j, sign in zip(order, signs) if not sign and j != i]
        above, below = better[-1] if better else None, worse[0] if worse else None
        return cls(order.index(i) + 1, best, worst, len(order), above, below, tuple(tied))

    def in_words(self) -> str:
        """One line.

        Examples
        --------
        >>> Placement(4, 3, 4, 9, "X", "Y", ("Z",)).in_words()
        'rank 4 of 9 (3 to 4), between X and Y, tied with Z'
        """
        ranks = f"{self.best} to {self.worst}" if self.best < self.worst else "decided"
        words = [f"rank {self.rank} of {self.n_models} ({ranks})"]
        if self.above and self.below:
            words.append(f"between {self.above} and {self.below}")
        elif self.above:
            words.append(f"below {self.above}")
        elif self.below:
            words.append(f"above {self.below}")
        if self.tied_with:
            # The nearest ones: they stand around the model's own place among those tied with it.
            start = min(
                max(self.rank - self.best - _SHOWN // 2, 0), max(len(self.tied_with) - _SHOWN, 0)
            )
            near = self.tied_with[start : start + _SHOWN]
            more = len(self.tied_with) - len(near)
            words.append(f"tied with {', '.join(near)}" + (f" and {more:,} more" if more else ""))
        return ", ".join(words)

    def to_dict(self) -> PlaceContent:
        """JSON values."""
        return {
            "rank": self.rank,
            "rank_interval": [self.best, self.worst],
            "models": self.n_models,
            "above": self.above,
            "below": self.below,
            "tied_with": list(self.tied_with),
            "in_words": self.in_words(),
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
