"""`Standing`: the ranker's own looks, and the state that turns and stopping rules depend on.

A *look* judges all pairs by the belief of that moment. All looks share one level (1 less the
confidence), up to the *horizon*, the most items that a pair can get.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import UsageError
from ..methods.belief import BENCHMARK, POPULATION, RUN, Belief, References
from ..methods.policy import Mask
from ..metrics.scale import Floats, Scale
from ..options import AT_LEAST_0, CONFIDENCE, SWITCH, choice
from .accounts import Accounts
from .looks import Looks
from .verdicts import Ints, Verdicts, most_items
from .weighted import WeightedSum


@dataclass(frozen=True)
class PairTest:
    """What the verdict on a pair of models is about, and how sure it is.

    Attributes
    ----------
    confidence : float
        Two-sided, over all looks together.
    question : {"benchmark", "population"}
        Of which items the means are compared: of these, or of all items like these.
    min_difference : float
        Models that differ by less, on [0, 1], are equivalent.
    familywise : bool
        Whether `confidence` holds for all pairs together.
    """

    confidence: float
    question: str
    min_difference: float
    familywise: bool

    @classmethod
    def of(
        cls,
        scale: Scale,
        confidence: float,
        question: str,
        min_difference: float,
        familywise: bool,
    ) -> PairTest:
        """Check arguments of `Ranker`, whose `min_difference` is on the metric's own scale."""
        choice(BENCHMARK, POPULATION, RUN).check(question, "question")
        share_of_scale = AT_LEAST_0.check(min_difference, "min_difference") / scale.span
        # No two models differ by more than the whole scale.
        if share_of_scale >= 1.0:
            raise UsageError(
                f"min_difference {min_difference:g} calls all models equivalent: scores are on a "
                f"scale of {scale.describe()}; state a smaller one"
            )
        return cls(
            CONFIDENCE.check(confidence, "confidence"),
            # Question 'run' is about these items, too; only its answers have no noise.
            BENCHMARK if question == RUN else question,
            share_of_scale,
            SWITCH.check(familywise, "familywise"),
        )


@dataclass(eq=False)
class Standing:
    """Takes a ranking's looks, holds its verdicts, and is what stopping rules read.

    Arrays by model have the models that take part, in the order of `Verdicts.tested`.

    Attributes
    ----------
    score : WeightedSum
        The ranked score.
    accounts : Accounts
    references : References or None
    test : PairTest
    looks : Looks
        The latest looks.
    horizon : int or None
        Most items that a pair can get under the limits in force.
    elapsed : float
        Seconds of the run, as last passed to `Ranker.change`.
    barred : set of frozenset of str
        Pairs of tested models that may not be decided.
    belief_at_look : Belief or None
        The belief at the last look, on which turns are decided; None if they are decided on the
        current belief.
    """

    score: WeightedSum
    accounts: Accounts
    references: References | None
    test: PairTest
    looks: Looks = field(default_factory=Looks)
    horizon: int | None = None
    elapsed: float = 0.0
    barred: set[frozenset[str]] = field(default_factory=set)
    belief_at_look: Belief | None = None
    _cached: tuple[object, Verdicts] | None = None

    # -- what stopping rules look at ----------------------------------------------------------

    @property
    def verdicts(self) -> Verdicts:
        """Verdicts from the belief on which turns are decided."""
        return self._verdicts(self.belief_of_turns)

    @property
    def items(self) -> Ints:
        """Number of items told or in flight, by model; shape (n_tested,)."""
        return np.asarray(self.accounts.n[self.accounts.active])

    @property
    def nobody(self) -> Mask:
        """A mask that selects no model; its inverse, ``~nobody``, selects all."""
        return np.zeros(np.count_nonzero(self.accounts.active), dtype=bool)

    @property
    def errors(self) -> Floats:
        """Standard errors of the estimates, on [0, 1]; shape (n_tested,)."""
        return np.sqrt(self.verdicts.belief.on_scores.variance.diagonal())

    @property
    def committed(self) -> float:
        """Amount spent so far, plus the expected cost of items in flight."""
        return self.accounts.committed

    def affordable(self, budget: float) -> Mask:
        """Return for which models some item fits a budget; shape (n_tested,)."""
        able = self.accounts.affordable(self.accounts.left(budget))[self.accounts.active]
        return np.asarray(able.any(axis=1))

    # -- looks --------------------------------------------------------------------------------

    def belief(self, question: str = "", score: WeightedSum | None = None) -> Belief:
        """Return the current belief about all models; default on the ranked question and score."""
        score = score or self.score
        belief = score.belief(question or self.test.question)
        if self.references is None:
            return belief
        return replace(belief, references=self.references, refusal_variance=score.refusal_variance)

    @property
    def belief_of_turns(self) -> Belief:
        """The belief on which turns are decided."""
        return self.belief() if self.belief_at_look is None else self.belief_at_look

    def look(self) -> None:
        """Take a look: the current belief decides turns until the next look."""
        belief, looks = self.belief(), self.looks.with_models(len(self.accounts))
        # A pair may get more items than its limit, if scores are told that nobody asked for. No
        # boundary holds beyond the horizon, so the horizon is raised: to the limit in force,
        # without one to ten times the items. Pairs are counted only if a model has more than that.
        if looks.horizons and belief.n.max(initial=0.0) > (end := looks.horizons[-1]):
            if (longest := most_items(belief)) > end:
                looks = looks.with_horizon(max(self.horizon or 10 * longest, longest + 1), end)
        # A single look is taken whenever the verdicts are read.
        if not looks.single_look:
            looks = looks.after(belief, 1.0 - self.test.confidence, self.test.min_difference)
        self.looks, self.belief_at_look = looks, belief

    def raise_horizon(self) -> None:
        """Give the looks to come the horizon of the limits in force, if it is later than theirs.

        The later horizon spends the part of the level that the looks so far have left.
        """
        if self.horizon is not None and self.looks.last is not None:
            self.looks = self.looks.with_horizon(self.horizon, most_items(self.looks.last))

    # -- verdicts -----------------------------------------------------------------------------

    @property
    def current_verdicts(self) -> Verdicts:
        """Verdicts from the current belief."""
        return self._verdicts(self.belief())

    def _verdicts(self, belief: Belief) -> Verdicts:
        """Return verdicts on the ranked score from the looks so far; cached.

        If the rule is a single look, it is taken now, on `belief`.
        """
        key = belief, self.accounts.active.tobytes(), frozenset(self.barred), self.looks
        if self._cached is None or self._cached[0] != key:
            looks = self.looks.with_models(len(self.accounts))
            if looks.single_look:
                looks = looks.after(belief, 1.0 - self.test.confidence, self.test.min_difference)
            self._cached = key, self._verdicts_of(belief, looks, self.test.min_difference)
        return self._cached[1]

    def first_look(self, score: WeightedSum | None = None, question: str = "") -> Verdicts:
        """Return verdicts on another score or question from a first look, which is not kept.

        On another score no difference is too small to matter: ``min_difference`` is for the ranked
        one.
        """
        belief = replace(self.belief(question, score), references=None)
        # The looks so far were at the ranked score or question. Another one has all of its level.
        looks, min_difference = self.looks.before_first_look, self.test.min_difference
        # A horizon counts items of the ranked score, of which another score has a part.
        if score is not None:
            looks, min_difference = Looks() if looks.horizons else looks, 0.0
        return self._verdicts_of(
            belief, looks.after(belief, 1.0 - self.test.confidence, min_difference), min_difference
        )

    def _verdicts_of(self, belief: Belief, looks: Looks, min_difference: float) -> Verdicts:
        """Return verdicts by looks that were taken already, on the models that take part."""
        # Belief and looks are of all models, also of those set aside.
        active = self.accounts.active.nonzero()[0].tolist()
        belief, bar = belief.only(active), None
        names = [self.accounts[model].name for model in active]
        if self.barred:
            columns = names + list(belief.references.names if belief.references else ())
            bar = np.zeros((len(names), len(columns)), dtype=bool)
            numbers = {name: number for number, name in enumerate(names)}
            for pair in self.barred:
                # A model that was set aside has no row.
                if len(rows := [numbers[name] for name in pair if name in numbers]) == 2:
                    bar[rows, rows[::-1]] = True
        return Verdicts(
            belief,
            looks.only(active),
            names,
            self.test.confidence,
            familywise=self.test.familywise,
            min_difference=min_difference,
            bar=bar,
        )
