"""`Standing`: the ranker's own looks, and what turns and stopping rules are decided on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..methods.belief import Belief, References
from .ledger import Ledger
from .looks import Looks
from .verdicts import Verdicts
from .weighted import Weighted

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Standing:
    """What stopping rules look at. Models are the tested ones of `verdicts`, in their order.

    Attributes
    ----------
    judge : Judge
    items : ndarray of int, shape (n_tested,)
        Told and in flight.
    affordable : callable
        ``budget -> mask of shape (n_tested,)``: for whom some item fits it.
    committed : float
        Spent so far, with what is in flight at its expected cost.
    elapsed : float
        Seconds of the run, as it was last told.
    """

    judge: Judge
    items: NDArray[np.int64]
    affordable: Callable[[float], Mask]
    committed: float
    elapsed: float

    @cached_property
    def verdicts(self) -> Verdicts:
        """Verdicts on the models that take part, without those set aside."""
        return self.judge.verdicts()

    @property
    def nobody(self) -> Mask:
        """A mask that selects no model; its inverse, ``~nobody``, selects all."""
        return np.zeros(len(self.items), dtype=bool)

    @property
    def errors(self) -> NDArray[np.float64]:
        """Standard errors of the estimates, on [0, 1]; shape (n_tested,)."""
        return np.sqrt(self.verdicts.belief.on_scores.variance.diagonal())


@dataclass(eq=False)
class Judge:
    """Takes the looks of a ranking, and the verdicts.

    Attributes
    ----------
    score : Weighted
        What is ranked by.
    ledger : Ledger
    references : References or None
    confidence, min_difference : float
    familywise : bool
    question : {"benchmark", "population"}
    looks : Looks
        The latest.
    horizon : int or None
        Items of a pair that are possible at most by the limits in force.
    elapsed : float
        Seconds of the run.
    barred : set of frozenset of str
        Pairs of tested models that may not be decided.
    """

    score: Weighted
    ledger: Ledger
    references: References | None
    confidence: float
    min_difference: float
    familywise: bool
    question: str
    looks: Looks = field(default_factory=Looks)
    horizon: int | None = None
    elapsed: float = 0.0
    barred: set[frozenset[str]] = field(default_factory=set)
    _seen: Belief | None = None  # by which turns are decided
    _verdicts: tuple[object, Verdicts] | None = None

    def belief(self, question: str = "", score: Weighted | None = None) -> Belief:
        """The current state of all models."""
        found = (score or self.score).belief(question or self.question)
        return found if self.references is None else replace(found, references=self.references)

    def look(self) -> None:
        """Take a look: what is known now decides turns, until the next."""
        belief = self.belief()
        looks = self._joined()
        n = belief.n if belief.references is None else belief.pairs[3]
        if looks.horizons and n.max(initial=0.0) > looks.horizons[-1]:
            n = n.copy()
            n.flat[:: n.shape[1] + 1] = 0.0
            most = int(n.max(initial=0.0))
            if most > looks.horizons[-1]:
                looks = looks.raised(max(self.horizon or 10 * most, most + 1))
        if not looks.once:  # else a look is taken whenever the verdicts are asked for
            looks = looks.after(belief, 1.0 - self.confidence, self.min_difference)
        if looks.counts is not belief.counts:
            belief = replace(belief, counts=looks.counts)
        self.looks, self._seen = looks, belief

    def look_anew(self) -> None:
        """Decide turns by what is known at the moment; no look is taken."""
        self._seen = None

    @property
    def has_looked(self) -> bool:
        """Whether turns are decided by a look."""
        return self._seen is not None

    @property
    def seen(self) -> Belief:
        """The belief that turns are decided by."""
        return self.belief() if self._seen is None else self._seen

    def _joined(self) -> Looks:
        return self.looks.joined(len(self.ledger.accounts))

    def verdicts(self, latest: bool = False) -> Verdicts:
        """Verdicts by the belief that turns are decided by, or by the latest one."""
        belief = self.belief() if latest else self.seen
        key = belief, self.ledger.crew, frozenset(self.barred), self.looks
        if self._verdicts is None or self._verdicts[0] != key:
            self._verdicts = key, self._of(belief, self._joined())
        return self._verdicts[1]

    def first_look(self, score: Weighted | None = None, question: str = "") -> Verdicts:
        """Verdicts on another score or question by a first look, which is not kept."""
        belief = replace(self.belief(question, score), references=None)
        looks = self.looks.anew
        if score is not None and self.looks.horizons:
            looks = Looks()
        level, near = 1.0 - self.confidence, 0.0 if score is not None else self.min_difference
        return self._of(belief, looks.after(belief, level, near), near)

    def _of(self, belief: Belief, looks: Looks, near: float | None = None) -> Verdicts:
        active = self.ledger.active
        if looks.once:  # there is no other look than this
            looks = looks.after(belief, 1.0 - self.confidence, self.min_difference)
        belief, accounts = belief.only(active), self.ledger.accounts
        return Verdicts.of(
            belief,
            looks.only(active),
            [accounts[j].name for j in active],
            self.confidence,
            familywise=self.familywise,
            min_difference=self.min_difference if near is None else near,
            bar=self._barred(belief),
        )

    def _barred(self, belief: Belief) -> Mask | None:
        if not self.barred:
            return None
        names = [self.ledger.accounts[j].name for j in self.ledger.active]
        every = names + list(belief.references.names if belief.references else ())
        return np.array(
            [[frozenset((a, b)) in self.barred for b in every] for a in names], dtype=bool
        ).reshape(len(names), len(every))

    def standing(self) -> Standing:
        """What stopping rules look at."""
        ledger, active = self.ledger, self.ledger.active

        def affordable(budget: float) -> Mask:
            return ledger.able(ledger.left(budget))[active]

        return Standing(self, ledger.n[active], affordable, ledger.committed, self.elapsed)
