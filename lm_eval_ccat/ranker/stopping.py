"""Stopping rules: which models still need items, and why a ranking stopped.

Rules combine: ``a & b`` stops when both would, ``a | b`` when either would. A goal is what a
ranking is for (all pairs decided, a standard error); a limit is what it may use (money, items,
time). To write your own rule, subclass `StoppingRule` and define `wants` and `why`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cache, reduce
from operator import and_, or_
from typing import ClassVar, NamedTuple

import numpy as np

from ..errors import UsageError
from ..methods.policy import Mask
from ..options import ABOVE_0, number_of, whole
from ..plugins import Plugins
from .accounts import SLACK
from .standing import Standing
from .verdicts import EQUIVALENT, OPEN, Ints


class StoppingRule(ABC):
    """When a ranking stops.

    Attributes
    ----------
    goal : bool
        Whether reaching it counts as success; False for limits.
    looks : bool
        Whether it may stop because of verdicts, so that these have to hold at every look.
    word : str
        Its word in ``stop:``; "" if it has none.
    number : str
        Letter that stands for the number after the word in help; "" if there is none. The rule's
        only argument takes it.
    help : str
        When it stops, in words.

    Examples
    --------
    >>> AllDecided() & TargetError(0.02) | Budget(300) | MaxItems(50)
    (AllDecided(alone=True) & TargetError(se=0.02)) | Budget(amount=300) | MaxItems(n=50)
    """

    goal: ClassVar[bool] = True
    looks: ClassVar[bool] = True
    word: ClassVar[str] = ""
    number: ClassVar[str] = ""
    help: ClassVar[str] = ""

    @abstractmethod
    def wants(self, standing: Standing) -> Mask:
        """Return the models that this rule would give more items; shape (n_tested,)."""

    def open_pairs(self, standing: Standing) -> tuple[Ints, Ints]:
        """Return the pairs that the rule wants decided: their rows and columns in the verdicts."""
        none = np.zeros(0, dtype=np.intp)
        return none, none

    def why(self, standing: Standing) -> str:
        """Return why the rule stopped the ranking, in words; empty if it has no reason to give."""
        return ""

    def met(self, standing: Standing) -> bool:
        """Return whether the rule stops the ranking."""
        return not self.wants(standing).any()

    def parts(self) -> tuple[StoppingRule, ...]:
        """Return the single rules that this one is made of."""
        return (self,)

    def limits(self) -> tuple[StoppingRule, ...]:
        """Return the limits that hold whatever the rest of the rule says."""
        return () if self.goal else (self,)

    def __and__(self, rule: StoppingRule) -> StoppingRule:
        return _AllOf.of(self, rule)

    def __or__(self, rule: StoppingRule) -> StoppingRule:
        return _AnyOf.of(self, rule)


@dataclass(frozen=True)
class AllDecided(StoppingRule):
    """Every adjacent pair, and every new model's place among known ones, is decided or equivalent.

    Parameters
    ----------
    alone : bool, optional
        Whether a model without rivals goes on to its limit.
    """

    alone: bool = True
    word = "decided"
    help = "every pair of neighbours is"

    def wants(self, standing: Standing) -> Mask:
        verdicts = standing.verdicts
        # A single model has no pair.
        if len(verdicts.names) == 1:
            return standing.nobody | self.alone
        return verdicts.unsettled

    def open_pairs(self, standing: Standing) -> tuple[Ints, Ints]:
        return standing.verdicts.open_neighbours

    def why(self, standing: Standing) -> str:
        if standing.verdicts.belief.references is not None:
            return "the place of every model is decided"
        if len(standing.verdicts.names) < 2:
            return ""
        # Readers ask why no winner is named where a pair ended as equivalent.
        equivalent = (standing.verdicts.adjacent == EQUIVALENT).any()
        return "every adjacent pair is decided" + (" or equivalent" if equivalent else "")

    def met(self, standing: Standing) -> bool:
        return standing.verdicts.settled


@dataclass(frozen=True)
class _NumberRule(StoppingRule):
    """A rule with one number, which is checked."""

    def __post_init__(self) -> None:
        for argument in fields(self):
            kind = whole(1) if argument.type in ("int", int) else ABOVE_0
            kind.check(getattr(self, argument.name), f"{argument.name} of {type(self).__name__}")


@dataclass(frozen=True)
class TargetError(_NumberRule):
    """The standard error of every model's estimate, on [0, 1], is at most `se`."""

    se: float
    looks = False
    word, number = "se", "X"
    help = "every standard error is at most X, on a scale of 0 to 1"

    def wants(self, standing: Standing) -> Mask:
        return np.asarray(standing.errors > self.se)

    def why(self, standing: Standing) -> str:
        # Of one model, "every" would be odd.
        single = len(standing.items) == 1
        return "the target is reached" if single else f"every standard error is at most {self.se:g}"


class RankGoal(_NumberRule):
    """A goal on ranks: a model that misses it goes on as long as it has an open pair to decide."""

    @property
    @abstractmethod
    def goal_in_words(self) -> str:
        """What is true once the goal is met."""

    @abstractmethod
    def misses(self, standing: Standing) -> Mask:
        """Return the models that have not reached the goal yet; shape (n_tested,)."""

    def why(self, standing: Standing) -> str:
        # A model may miss the goal and have no open pair left.
        if self.met(standing):
            return self.goal_in_words
        return "equivalent models share ranks, which no further item tells apart"

    def wants(self, standing: Standing) -> Mask:
        verdicts = standing.verdicts
        return np.asarray(
            self.misses(standing) & ((verdicts.state == OPEN) & ~verdicts.barred).any(axis=1)
        )

    def open_pairs(self, standing: Standing) -> tuple[Ints, Ints]:
        verdicts, misses = standing.verdicts, self.misses(standing)
        rows, columns = ((verdicts.state == OPEN) & ~verdicts.barred & misses[:, None]).nonzero()
        return rows, columns

    def met(self, standing: Standing) -> bool:
        return not self.misses(standing).any()


@dataclass(frozen=True)
class TopDecided(RankGoal):
    """It is decided who the best `k` models are; their order among themselves need not be."""

    k: int
    word, number = "top", "K"
    help = "the best K are decided"

    def misses(self, standing: Standing) -> Mask:
        verdicts, out = standing.verdicts, standing.nobody
        if verdicts.belief.references is not None:
            best, worst = (bound[: len(out)] for bound in verdicts.ranges)
            # A model misses the goal if its ranks reach from inside the best K to outside. But
            # either of two equivalent models may be among the best, and no item tells them apart: a
            # model without an open pair does not miss it.
            open_ = verdicts.state == OPEN
            np.fill_diagonal(open_, False)
            return np.asarray((best <= self.k) & (worst > self.k) & open_.any(axis=1))
        # Only pairs across the boundary matter: within the best K, and below them, any order will
        # do.
        inside, outside = verdicts.best_first[: self.k], verdicts.best_first[self.k :]
        open_ = verdicts.state[np.ix_(inside, outside)] == OPEN
        out[inside[open_.any(axis=1)]] = out[outside[open_.any(axis=0)]] = True
        return out

    def open_pairs(self, standing: Standing) -> tuple[Ints, Ints]:
        rows, columns = super().open_pairs(standing)
        if standing.verdicts.belief.references is not None:
            return rows, columns
        inside = np.zeros(len(standing.nobody), dtype=bool)
        inside[standing.verdicts.best_first[: self.k]] = True
        across = inside[rows] != inside[columns]
        return rows[across], columns[across]

    @property
    def goal_in_words(self) -> str:
        return f"the best {self.k} are decided" if self.k > 1 else "the best model is decided"


@dataclass(frozen=True)
class RankWidth(RankGoal):
    """Every model's rank range spans at most `w` ranks; with 1, every rank is certain."""

    w: int
    word, number = "ranks", "W"
    help = "every rank is known to within W ranks"

    def misses(self, standing: Standing) -> Mask:
        return _spans(standing) + 1 > self.w

    @property
    def goal_in_words(self) -> str:
        return f"every rank is known to {self.w} rank{'s' if self.w > 1 else ''}"


@dataclass(frozen=True)
class Percentile(RankGoal):
    """Every model's rank range spans at most `p` per cent of all ranks."""

    p: float
    word, number = "percentile", "P"
    help = "every rank is known to within P per cent of all ranks"

    def misses(self, standing: Standing) -> Mask:
        return 100.0 * _spans(standing) > self.p * len(standing.verdicts.names)

    @property
    def goal_in_words(self) -> str:
        return f"every percentile is known to {self.p:g}"


def _spans(standing: Standing) -> Ints:
    """Return the number of ranks that each tested model may have, less one."""
    best, worst = (bound[: len(standing.items)] for bound in standing.verdicts.ranges)
    return np.asarray(worst - best)


def budget_used_up(amount: float, left: float, lost: float = 0.0) -> str:
    """Say in words that the budget ended a ranking."""
    # So little is a rounding error of the sum.
    left = 0.0 if left < SLACK * amount else left
    # Write hundredths of a cent without an exponent.
    plain = f"{left:.7f}" if 1e-6 <= left < 1e-4 else f"{left:.4g}"
    paid = f"; {lost:.4g} of it paid for lost and second attempts" if lost else ""
    return f"the budget is used up ({plain} of {amount:.6g} left{paid})"


class _Limit(_NumberRule):
    """A limit on what a ranking may use: reaching it is no success, and needs no verdicts."""

    goal = False
    looks = False


@dataclass(frozen=True)
class Unlimited(_Limit):
    """A rule that never stops: the ranking goes on to its limits."""

    word = "limits"
    help = "the budget, the limit of items or the last item is reached"

    def wants(self, standing: Standing) -> Mask:
        return ~standing.nobody


@dataclass(frozen=True)
class Budget(_Limit):
    """No remaining item fits into `amount`, the sum of price x units."""

    amount: float

    def wants(self, standing: Standing) -> Mask:
        return standing.affordable(self.amount)

    def why(self, standing: Standing) -> str:
        return budget_used_up(self.amount, self.amount - standing.committed)


@dataclass(frozen=True)
class MaxItems(_Limit):
    """Every model has `n` items."""

    n: int

    def wants(self, standing: Standing) -> Mask:
        return np.asarray(standing.items < self.n)

    def why(self, standing: Standing) -> str:
        largest = int(standing.items.max(initial=0))
        beyond = f" ({largest} in the warm-up)" if largest > self.n else ""
        return f"the limit of {self.n} items per model is reached{beyond}"


@dataclass(frozen=True)
class Time(_Limit):
    """The run has taken `seconds`, as reported through ``Ranker.change(elapsed=...)``."""

    seconds: float

    def wants(self, standing: Standing) -> Mask:
        return standing.nobody | (standing.elapsed < self.seconds)

    def why(self, standing: Standing) -> str:
        return f"the budget of {self.seconds:g} seconds is used up"


@dataclass(frozen=True, repr=False)
class _CombinedRules(StoppingRule):
    """Rules joined by `sign`.

    `_with_goal` and `_without_goal` are those of `rules` with a goal among their parts, and those
    that are only limits.
    """

    rules: tuple[StoppingRule, ...]
    sign: ClassVar[str] = ""

    @classmethod
    def of(cls, *rules: StoppingRule) -> StoppingRule:
        """Combine rules; one that is already of this kind contributes its own parts."""
        for rule in rules:
            if not isinstance(rule, StoppingRule):
                raise UsageError(f"{rule!r} is not a stopping rule")
        return cls(
            tuple(part for rule in rules for part in (rule.rules if type(rule) is cls else (rule,)))
        )

    def __repr__(self) -> str:
        inner = (
            f"({rule!r})" if isinstance(rule, _CombinedRules) else repr(rule) for rule in self.rules
        )
        return f" {self.sign} ".join(inner)

    def parts(self) -> tuple[StoppingRule, ...]:
        return tuple(part for rule in self.rules for part in rule.parts())

    def open_pairs(self, standing: Standing) -> tuple[Ints, Ints]:
        rows, columns = zip(*(part.open_pairs(standing) for part in self.parts()))
        return np.concatenate(rows), np.concatenate(columns)

    @property
    def _with_goal(self) -> list[StoppingRule]:
        return [rule for rule in self.rules if has_goal(rule)]

    @property
    def _without_goal(self) -> list[StoppingRule]:
        return [rule for rule in self.rules if not has_goal(rule)]


class _AllOf(_CombinedRules):
    """Stop when all of some rules would."""

    sign = "&"

    def wants(self, standing: Standing) -> Mask:
        # A model goes on as long as one of the rules wants that.
        return np.asarray(np.logical_or.reduce([rule.wants(standing) for rule in self.rules]))

    def why(self, standing: Standing) -> str:
        return " and ".join(filter(None, (rule.why(standing) for rule in self.rules)))

    def met(self, standing: Standing) -> bool:
        return all(rule.met(standing) for rule in self.rules)


class _AnyOf(_CombinedRules):
    """Stop when any of some goals would, or no model is within the limits."""

    sign = "|"

    def _wanted_by_goals(self, standing: Standing) -> Mask:
        """Return the models that the goals want more items for; all if there is no goal."""
        wants_of_goals = [goal.wants(standing) for goal in self._with_goal]
        if not wants_of_goals:
            return ~standing.nobody
        # One goal that wants nothing more ends the ranking, whatever other goals want.
        reached = any(not wants.any() for wants in wants_of_goals)
        return standing.nobody if reached else np.asarray(np.logical_or.reduce(wants_of_goals))

    def wants(self, standing: Standing) -> Mask:
        out = self._wanted_by_goals(standing)
        # A limit holds for each model by itself: one that has reached it gets no more items.
        for limit in self._without_goal:
            out = out & limit.wants(standing)
        return out

    def limits(self) -> tuple[StoppingRule, ...]:
        return tuple(limit for rule in self.rules for limit in rule.limits())

    def why(self, standing: Standing) -> str:
        goals = self._with_goal
        reached = [goal for goal in goals if goal.met(standing)]
        # A goal that is not met also stops the ranking if no item can bring it nearer.
        reached = reached or [goal for goal in goals if not goal.wants(standing).any()]
        if not reached:
            wanted = self._wanted_by_goals(standing)
            reached = [
                limit for limit in self._without_goal if (wanted & ~limit.wants(standing)).any()
            ]
        return " and ".join(filter(None, (rule.why(standing) for rule in reached)))

    def met(self, standing: Standing) -> bool:
        goals = self._with_goal
        return (
            any(goal.met(standing) for goal in goals) if goals else not self.wants(standing).any()
        )


# -- rules in words --------------------------------------------------------------------------------


@cache
def _own_rules() -> dict[str, type[StoppingRule]]:
    """Return the rules of this file that have a word of their own, by their words."""
    rules = [
        value
        for value in globals().values()
        if isinstance(value, type) and issubclass(value, StoppingRule)
    ]
    return {rule.word: rule for rule in rules if vars(rule).get("word")}


#: The rules that ``stop:`` names, and the way to add one.
RULES: Plugins[type[StoppingRule]] = Plugins(
    "stopping rule", StoppingRule, _own_rules, name="word", classes=True
)


def stop_words_in_words() -> str:
    """List the words of all rules with their meanings.

    Examples
    --------
    >>> stop_words_in_words().split(", ")[0]
    '`decided` (every pair of neighbours is)'
    """
    return ", ".join(f"`{in_words(rule)}` ({rule.help})" for rule in RULES)


def in_words(rule: type[StoppingRule]) -> str:
    """Return a rule's word, with the letter of its number."""
    return f"{rule.word} {rule.number}".rstrip()


def require_models_beyond_top(rule: StoppingRule, n_models: int) -> None:
    """Refuse to stop at the best K of no more than K models, which are known before any answer.

    Raises
    ------
    UsageError
    """
    for part in rule.parts():
        if isinstance(part, TopDecided) and part.k >= n_models:
            raise UsageError(
                f"stop 'top {part.k}': K in `top K` must be below the number of models, "
                f"{n_models}: else there is nothing to decide"
            )


def rule_of(words: str) -> StoppingRule:
    """Parse a stopping rule written in words, as in the option ``stop``.

    Parameters
    ----------
    words : str
        Words of `RULES` with their numbers, joined by ``and``, which binds tighter, and ``or``.

    Raises
    ------
    UsageError
        `words` does not follow this grammar.

    Examples
    --------
    >>> rule_of("top 3 or se 0.02")
    TopDecided(k=3) | TargetError(se=0.02)
    >>> rule_of("decided and se 0.02")
    AllDecided(alone=False) & TargetError(se=0.02)
    """
    alternatives = []
    for alternative in words.split(" or "):
        rules = [_rule_of_word(text, words) for text in alternative.split(" and ")]
        # Beside other goals, a single model goes on until these are met, not to its limit.
        if len(rules) > 1:
            rules = [
                AllDecided(alone=False) if isinstance(rule, AllDecided) else rule for rule in rules
            ]
        alternatives.append(reduce(and_, rules))
    return reduce(or_, alternatives)


def _rule_of_word(text: str, words: str) -> StoppingRule:
    """Return the rule of one word and its number, or refuse all `words`."""
    word, _, number = " ".join(text.split()).partition(" ")
    if word not in _own_rules() and word not in RULES.names():
        known = ", ".join(map(in_words, RULES))
        raise UsageError(f"stop {words!r} is not in the words {known}, joined by `and` and `or`")
    rule = RULES.get(word)
    if bool(rule.number) != bool(number):
        raise UsageError(f"stop {words!r}: write `{in_words(rule)}` ({rule.help})")
    if not number:
        return rule()
    try:
        return rule(number_of(number))  # type: ignore[call-arg]
    except UsageError as error:
        # The error begins with the name of a Python argument, which users of `stop:` do not know.
        demand = str(error).partition("` ")[2]
        raise UsageError(f"stop {words!r}: {rule.number} in `{in_words(rule)}` {demand}") from None


def has_goal(rule: StoppingRule) -> bool:
    """Return whether a rule has a goal, rather than only limits."""
    return any(part.goal for part in rule.parts())


def stopping_rule(stop: StoppingRule | str) -> StoppingRule:
    """Return the stopping rule that `stop` gives as words or as a rule."""
    if isinstance(stop, str):
        return rule_of(stop)
    if not isinstance(stop, StoppingRule):
        raise UsageError(f"stop {stop!r} is not a stopping rule")
    return stop


class Limits(NamedTuple):
    """Most that all models may spend together, and most items of one (None: the method's limit)."""

    budget: float
    max_items: int | None


def tightest_limits(rule: StoppingRule, budget: float | None, max_items: int | None) -> Limits:
    """Return the tightest limits among the arguments and those of the rule."""
    budgets = [limit.amount for limit in rule.limits() if isinstance(limit, Budget)]
    if budget is not None and budget != math.inf:
        budgets.append(ABOVE_0.check(budget, "budget"))
    items = [limit.n for limit in rule.limits() if isinstance(limit, MaxItems)]
    if max_items is not None:
        items.append(whole(1).check(max_items, "max_items"))
    return Limits(float(min(budgets, default=math.inf)), min(items, default=None))
