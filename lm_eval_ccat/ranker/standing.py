"""What a ranking knows at a moment: order, decisions, ranks; what stopping rules look at."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from ..methods.policy import DECIDED, OPEN, Floats, Policy
from .known import KnownModels
from .ledger import Ledger
from .outcomes import Outcomes
from .ranks import rank_ranges

Mask = NDArray[np.bool_]


class Standing:
    """The state of a ranking as far as it matters for going on; it changes nothing.

    Models are positions; arrays over models hold those set aside, too, which are in no order and
    in no mask. What depends on scores alone is kept until one more is told.

    Attributes
    ----------
    elapsed : float
        Seconds of the run, as it was last told.
    """

    def __init__(
        self,
        policy: Policy,
        outcomes: Outcomes,
        ledger: Ledger,
        known: KnownModels | None,
        confidence: float,
        min_difference: float = 0.0,
        familywise: bool = False,
    ) -> None:
        self.policy = policy
        self.ledger = ledger
        self.known = known
        self.confidence = confidence
        self.min_difference = min_difference
        self.familywise = familywise
        self.elapsed = 0.0
        self._outcomes = outcomes
        self._still = False
        self._key: tuple[int, int] | None = None
        self._forget()

    def of(self, policy: Policy) -> Standing:
        """The same by another policy, of one task alone, say; without known models."""
        return Standing(
            policy, self._outcomes, self.ledger, None, self.confidence, 0.0, self.familywise
        )

    def still(self) -> Standing:
        """The same as it stands now, whatever is told from now on."""
        found = copy(self)
        found.policy, found._still = self.policy.still(), True
        found._key = None
        return found

    def _forget(self) -> None:
        self._order: list[int] | None = None
        self._decisions: NDArray[np.int8] | None = None
        self._placed: set[int] | None = None
        self._errors: Floats | None = None

    def _current(self) -> None:
        key = 0 if self._still else sum(self._outcomes.changes), self.ledger.crew
        if key != self._key:
            self._key = key
            self._forget()

    @property
    def n_models(self) -> int:
        """Models of the ranking, those set aside included."""
        return len(self.ledger.accounts)

    @property
    def order(self) -> list[int]:
        """Active models, best first; equal ones in the order they were given."""
        self._current()
        if self._order is None:
            at = self.policy.locations().tolist()
            self._order = sorted(self.ledger.active, key=lambda j: -at[j])
        return self._order

    @property
    def decisions(self) -> NDArray[np.int8]:
        """What is known of each pair, as `Policy.decisions` has it; shape (n_models, n_models)."""
        self._current()
        if self._decisions is None:
            self._decisions = self.policy.decisions(
                self.confidence, self.min_difference, familywise=self.familywise
            )
        return self._decisions

    def adjacent(self) -> NDArray[np.int8]:
        """Decisions of the neighbours in the order; shape (n_active - 1,)."""
        o = np.asarray(self.order, dtype=np.intp)
        if len(o) < 2:
            return np.empty(0, dtype=np.int8)
        return self.decisions[o[:-1], o[1:]]

    def mask(self, models: list[int] | set[int]) -> Mask:
        """These models as a mask of shape (n_models,)."""
        out = np.zeros(self.n_models, dtype=bool)
        out[list(models)] = True
        return out

    def unsettled(self) -> Mask:
        """Models with an open neighbour, among the new models or the known ones."""
        order = self.order
        out = np.zeros(self.n_models, dtype=bool)
        ranked, open_ = np.array(order, dtype=np.intp), self.adjacent() == OPEN
        out[ranked[:-1][open_]] = out[ranked[1:][open_]] = True
        if self.known is not None:
            if self._placed is None:
                self._placed = self.known.open_models(
                    self.policy, order, self.confidence, self.min_difference
                )
            out |= self.mask(self._placed)
        return out

    def errors(self) -> Floats:
        """Standard error of every model's estimate; shape (n_models,)."""
        self._current()
        if self._errors is None:
            self._errors = np.array([self.policy.estimate(j)[1] for j in range(self.n_models)])
        return self._errors

    def loads(self) -> NDArray[np.int64]:
        """Items told and in flight of every model; shape (n_models,)."""
        return self.ledger.n.copy()

    def affordable(self, budget: float) -> Mask:
        """Models for which some item fits `budget`; shape (n_models,)."""
        return self.ledger.able(self.ledger.left(budget))

    def ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Best and worst rank that is possible for each model, and the number of ranks.

        With known models the ranks are among all of them. Shapes (n_models,); 0 for models set
        aside.
        """
        order = np.asarray(self.order, dtype=np.intp)
        decided = self.decisions[np.ix_(order, order)] == DECIDED
        best, worst = rank_ranges(decided)
        n = len(order)
        if self.known is not None:
            better, worse = self.known.decided(self.policy, self.order, self.confidence)
            best, worst = best + better, worst + len(self.known.names) - worse
            n += len(self.known.names)
        out = np.zeros((2, self.n_models), dtype=np.int64)
        out[:, order] = best, worst
        return out[0], out[1], n
