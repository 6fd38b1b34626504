"""Turns: which model gets the next item, which item that is, and whether any is left to ask."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..methods.policy import Choice, Mask, rounded
from ..metrics.scale import Floats
from .accounts import Account
from .standing import Standing
from .stopping import StoppingRule, has_goal
from .verdicts import Verdicts

#: How much more an item of another model must be worth before a model that asks for itself gives up
#: its turn. The worth falls with the square of the number of items, so 4 lets a fast model run
#: ahead to twice the items that it would get in turn.
_PATIENCE = 4.0
#: Up to `FEW` models, a look is taken once every model that may be asked has got one more item, or
#: after ten answers if they are more, because a pair counts the items that both of its models have;
#: and no sooner than further items may decide a pair (`Verdicts.items_to_wait`). With more models
#: it is taken after as many answers as a fifth of them, and beyond 200 after one for so many
#: pairs: it takes time for every pair, of which 500 models have 125,000.
FEW, SHARE_PER_LOOK, PAIRS_PER_ANSWER = 50, 5, 500
#: Models of a pair go ahead if at most half as many items as it has decide it (about). If pairs
#: that need more went ahead, other pairs would lose more than these gain
#: (`benchmarks/allocation.py`).
_SOON = 0.5
#: Items of a single task that every model answers before models are compared, by default.
WARMUP = 10
#: Items of all tasks together that every model answers before models are compared, if there are
#: several tasks.
WARMUP_OF_ALL = 15
#: Number that keeps the draws of `Turns.item` independent of others with their seed.
_EXPOSURE_STREAM = 0xE4905


def warmup_per_task(n_tasks: int, warmup: int = WARMUP) -> int:
    """Return the items of each task to begin with: of several at most 15 in all, at least 2 each.

    Examples
    --------
    >>> [warmup_per_task(n) for n in (1, 2, 5, 57)]
    [10, 7, 3, 2]
    """
    return warmup if n_tasks == 1 else min(warmup, max(2, WARMUP_OF_ALL // n_tasks))


class Turn(NamedTuple):
    """The model that may get an item, and during the warm-up the item's task."""

    model: int
    task: int | None = None


class Candidates(NamedTuple):
    """Models that may get the next item, and during the warm-up the task of each."""

    models: list[int]
    tasks: list[int] | None = None

    @property
    def in_warmup(self) -> bool:
        """Whether these are candidates of the warm-up."""
        return self.tasks is not None

    def turn(self, index: int) -> Turn:
        """Return the turn of the candidate at a position."""
        return Turn(self.models[index], None if self.tasks is None else self.tasks[index])


@dataclass(eq=False)
class Turns:
    """Decides which model is next; a decision changes no state except caches.

    Parameters
    ----------
    standing : Standing
    rule : StoppingRule
        Says which models still need items after the warm-up.
    warmup : int
        Items of every task that every model gets first.
    cap : int
        Most items per model.
    seed : int
    exposure : int
        Number of most informative items from which each item is drawn.
    stopped : str, optional
        Why nothing more is asked, whatever the rule says; None while asking goes on.
    """

    standing: Standing
    rule: StoppingRule
    warmup: int
    cap: int
    seed: int
    exposure: int
    stopped: str | None = None
    # Results of `candidates` and `warming`, with `Accounts.changes` as it was when computed, and of
    # `_soon_decided`, with the verdicts.
    _candidates: tuple[int, Candidates] | None = None
    _warming: tuple[int, Mask] | None = None
    _soon: tuple[Verdicts, Mask] | None = None
    #: Answers since the last look, and how many are to come between two looks.
    _answers: int = 0
    _answers_per_look: int = 1

    def __post_init__(self) -> None:
        self.accounts, self._policy = self.standing.accounts, self.standing.score.leader

    def answer_came(self) -> None:
        """Take a look if one is due now that an answer has come in or has failed.

        No look is due in the warm-up. Afterwards a look is due after `_answers_per_look` answers,
        and after the last answer of all; until then turns are decided by the look before. When a
        look is taken depends only on what was asked and told, not on who reads a result.
        """
        standing, few = self.standing, len(self.accounts) <= FEW
        self._answers += 1
        on_current_belief = few or self._policy.looks_after_every_answer
        # Once every model has its last item, limits alone leave no turn that a look could decide.
        if not has_goal(self.rule):
            on_current_belief |= not (self.accounts.n < self.cap).any()
        # With a single look turns are decided on the current belief, unless there are too many
        # models to form it after each answer.
        if (standing.looks.single_look and on_current_belief) or self.warming().any():
            standing.belief_at_look = None
        elif (
            standing.belief_at_look is None or self._answers >= self._answers_per_look or self.done
        ):
            standing.look()
            self._candidates, self._answers = None, 0
            self._answers_per_look = self._answers_to_next_look()

    def _answers_to_next_look(self) -> int:
        """Return how many answers, of all models together, come before the next look; see `FEW`."""
        n_models = len(self.accounts)
        if self._policy.looks_after_every_answer:
            return 1
        if n_models > FEW:
            return max(n_models // SHARE_PER_LOOK, n_models**2 // (2 * PAIRS_PER_ANSWER))
        answers = min(len(self.candidates().models), FEW // SHARE_PER_LOOK)
        # A goal that is no verdict may be reached at any answer.
        if any(part.goal and not part.looks for part in self.rule.parts()):
            return answers
        # No open pair is likely to be decided before each of its models has so many more items.
        return answers * max(self.standing.verdicts.items_to_wait, 1)

    @property
    def done(self) -> bool:
        """Whether nothing is in flight and nothing more would be asked."""
        return not self.accounts.n_in_flight and not self.candidates().models

    # -- who is next --------------------------------------------------------------------------

    @property
    def warmup_items(self) -> int:
        """Items of every task that every model gets first, as far as the cap allows it."""
        return self.warmup if self._policy.warmup_ignores_limits else min(self.warmup, self.cap)

    def warming(self) -> Mask:
        """Return which models still have warm-up items ahead; shape (n_models, n_tasks)."""
        accounts = self.accounts
        if self._warming is None or self._warming[0] != accounts.changes:
            ahead = accounts.n_of_task < self.warmup_items
            # Before most answers the warm-up is over, and nothing is left to rule out.
            if np.count_nonzero(ahead):
                ahead &= accounts.remaining > 0
                able = accounts.active
                # A cap below the warm-up of all tasks leaves some tasks with fewer items.
                if not self._policy.warmup_ignores_limits:
                    able &= accounts.n < self.cap
                ahead &= able[:, None]
            self._warming = accounts.changes, ahead
        return self._warming[1]

    def wanted(self) -> Mask:
        """Return the models that the stopping rule would give more items; shape (n_models,)."""
        active = self.accounts.active
        # Rules know only the models that are not set aside.
        if active.any():
            active[active] = self.rule.wants(self.standing)
        return active

    def candidates(self) -> Candidates:
        """Return who may get the next item; cached, because it depends only on the state."""
        accounts = self.accounts
        if self.stopped is not None:
            return Candidates([])
        if self._candidates is None or self._candidates[0] != accounts.changes:
            able = self.warming()
            if in_warmup := np.count_nonzero(able):
                able = able & accounts.affordable(self._warmup_budget)
            # Whoever has fewest items of a task comes first, so that all models advance together.
            if in_warmup and np.count_nonzero(able):
                candidates = _of_warmup(
                    able & (accounts.n_of_task == accounts.n_of_task[able].min())
                )
            else:
                able = self.wanted() & (accounts.n < self.cap)
                able &= np.logical_or.reduce(accounts.affordable(accounts.left()), 1)
                candidates = Candidates(able.nonzero()[0].tolist())
            self._candidates = accounts.changes, candidates
        return self._candidates[1]

    @property
    def _warmup_budget(self) -> float:
        """Most that an item of the warm-up may cost."""
        return math.inf if self._policy.warmup_ignores_limits else self.accounts.left()

    def turn_of(self, account: Account) -> Turn | None:
        """Return the turn of one model, which asks for itself, if it may get an item now.

        The model waits for no other: it takes its whole warm-up at once, and goes on while others
        are still warming up. The budget keeps the price of their warm-up for them. Only if the
        budget does not take all models to the cap does it leave its turn to a model whose next item
        is worth `_PATIENCE` times as much for its price.
        """
        accounts, number = self.accounts, account.number
        if self.stopped is not None or account.dropped is not None:
            return None
        ahead = self.warming()
        if warmup_tasks := ahead[number].nonzero()[0].tolist():
            affordable = accounts.affordable(self._warmup_budget)[number]
            able = [task for task in warmup_tasks if affordable[task]]
            if not able:
                return None
            # Of the tasks of the warm-up, that with fewest items is next.
            return Turn(number, min(able, key=accounts.n_of_task[number].__getitem__))
        left = self._left_after(ahead)
        goes_on = account.n < self.cap and self.wanted()[number]
        if not (goes_on and accounts.affordable(left)[number].any()):
            return None
        return None if self._gives_way(account, ahead, left) else Turn(number)

    def _left_after(self, ahead: Mask) -> float:
        """Return the budget left after the warm-up items to come, as far as it pays these."""
        accounts, left = self.accounts, self.accounts.left()
        # Task by task, as turns are given: where the budget ends, the first tasks have theirs.
        for task, model in np.argwhere(ahead.T).tolist() if math.isfinite(left) else ():
            budget = math.inf if self._policy.warmup_ignores_limits else left
            if accounts.affordable(budget)[model, task]:
                items_ahead = self.warmup_items - int(accounts.n_of_task[model, task])
                left -= accounts.mean_price(accounts[model], task) * items_ahead
        return left

    def _gives_way(self, account: Account, ahead: Mask, left: float) -> bool:
        """Return whether a model leaves its turn to another, whose next item is worth much more.

        No if the budget left takes all models to the cap, or if the model's own items are free.
        """
        # Whoever may still draw on the budget. Of models in the warm-up, `candidates` has those
        # with the fewest items alone.
        warming = np.flatnonzero(ahead.any(axis=1)).tolist()
        models = sorted({*self.candidates().models, *warming, account.number})
        # Nobody's item is at the cost of another's.
        if not self._is_short(models, left):
            return False
        # A free model takes nothing of the budget: it neither gives way nor is given way to.
        accounts = self.accounts
        rivals = [accounts[model] for model in models]
        prices = {rival.number: price for rival in rivals if (price := accounts.price(rival)) > 0.0}
        if account.number not in prices:
            return False
        worth = dict(zip(prices, self._worth([*prices], [*prices.values()]).tolist()))
        return bool(worth[account.number] * _PATIENCE < max(worth.values()))

    def _is_short(self, models: Sequence[int], left: float) -> bool:
        """Return whether what is left of the budget does not take these models to the cap."""
        return math.isfinite(left) and self.accounts.price_to_cap(models, self.cap) > left

    def best(self, models: Collection[int] | None = None, least_share: float = 0.0) -> Turn | None:
        """Return the turn of that one of `models` (numbers; default all) whose item is worth most.

        None if none of them may get one. None, too, after the warm-up, if that item is worth less
        than `least_share` of the next item of any candidate, busy ones included: it is better to
        wait.
        """
        candidates = self.candidates()
        # Positions, among the candidates, of `models`. Without `models` all are askable: to go
        # through hundreds one by one would take as long as all else here.
        askable: Sequence[int] = range(len(candidates.models))
        if models is not None:
            askable = [
                position for position, model in enumerate(candidates.models) if model in models
            ]
        # These models get no more items now, although others may.
        if not askable:
            return None
        # What an item is worth matters only beside others; in the warm-up all are worth the same,
        # and the task comes with the candidate.
        alone = len(candidates.models) == 1 or (len(askable) == 1 and not least_share)
        if candidates.in_warmup or alone:
            return candidates.turn(askable[0])
        prices = self.accounts.prices[candidates.models].tolist()
        # A worth is for the price: one of 0 has no ratio to others.
        if 0.0 in prices:
            askable_free = [position for position in askable if prices[position] == 0.0]
            # A free model is busy: wait for it.
            if least_share and not askable_free:
                return None
            askable = askable_free or askable
            worth = self._worth_beside_free(candidates.models, prices, askable)
        else:
            worth = self._worth(candidates.models, prices)
        best = int(worth.argmax())
        # The best of all is not among `models`: take the best that is.
        if best not in askable:
            best = askable[int(worth[askable].argmax())]
        # That is too little beside the best of all, whose model is busy: wait for it.
        if least_share and worth[best] < least_share * worth.max():
            return None
        return candidates.turn(best)

    def _worth_beside_free(
        self, models: Sequence[int], prices: Sequence[float], askable: Sequence[int]
    ) -> Floats:
        """Return what the next item of each model is worth for its price, where some are free.

        For its price, a free item is worth infinitely more than any other. So if free models may be
        asked, free models alone compete. All positions that do not compete get 0.
        """
        # Positions of the models that compete.
        rivals = askable
        if prices[askable[0]] == 0.0:
            rivals = [position for position, price in enumerate(prices) if price == 0.0]
        worth = np.zeros(len(prices))
        # Free models get the price 1: among them alone, the price decides nothing.
        worth[rivals] = self._worth(
            [models[position] for position in rivals],
            [prices[position] or 1.0 for position in rivals],
        )
        return worth

    def _worth(self, models: Sequence[int], prices: Sequence[float]) -> Floats:
        """Return how much the next item of each model is worth for its price; only ratios count.

        The method may say what it is (`Policy.priorities`). Otherwise it is ``1 / (n + 1)^2`` after
        n items, so that models take turns: a pair counts the items that both of its models have, so
        more items of one of them alone serve none of its pairs. If the budget does not take all
        models to the cap, the models of a pair that the stopping rule wants decided, and that a few
        more items decide, count `_PATIENCE` times as much: a budget that ends early then decides
        more pairs.
        """
        outcome = self.standing.score.only_outcome
        if outcome is not None:
            # Read only by a method that needs them: hundreds of models take long to go through.
            pending = (tuple(self.accounts[model].pending) for model in models)
            if (worth := outcome.policy.priorities(models, pending, prices)) is not None:
                return rounded(worth)
        n_after = self.accounts.n[models] + 1.0
        worth = 1.0 / (n_after * n_after)
        looked = self.standing.belief_at_look is not None
        if looked and self._is_short(models, self.accounts.left()):
            worth[self._soon_decided()[models]] *= _PATIENCE
        return np.asarray(worth)

    def _soon_decided(self) -> Mask:
        """Return the models of pairs that the rule wants decided and a few more items decide.

        A mask of shape (n_models,). Cached until the verdicts change, by a look or as models come
        or leave.
        """
        accounts, verdicts = self.accounts, self.standing.verdicts
        if self._soon is not None and self._soon[0] is verdicts:
            return self._soon[1]
        rows, columns = self.rule.open_pairs(self.standing)
        items = verdicts.belief.gaps_at(rows, columns).n
        soon = verdicts.items_to_go(rows, columns) <= _SOON * items
        active = np.flatnonzero(accounts.active)
        models = np.concatenate([rows[soon], columns[soon]])
        out = np.zeros(len(accounts), dtype=bool)
        # Columns beyond the tested models are known ones, which get no items.
        out[active[models[models < len(active)]]] = True
        self._soon = verdicts, out
        return out

    # -- which item ---------------------------------------------------------------------------

    def item(self, turn: Turn) -> Choice:
        """Return the item that a model gets next."""
        choices = self._next(turn, self.exposure)
        # An item that the policy drew at random, with a probability, is not drawn again.
        if len(choices) == 1 or choices[0].probability is not None:
            return choices[0]
        # The "randomesque" rule of computerized adaptive testing: drawing among the K most
        # informative items spreads their use. A test that always asks the most informative one
        # asks the same first items of everyone, and a model that learns those gains rank.
        task = self.accounts.contents.task_at(choices[0].item)
        n_asked = int(self.accounts.asked[turn.model, task])
        rng = np.random.default_rng([self.seed, _EXPOSURE_STREAM, turn.model, n_asked])
        return choices[int(rng.integers(len(choices)))]

    def _next(self, turn: Turn, k: int = 1) -> list[Choice]:
        """Return the items that the policy would ask next."""
        accounts, account = self.accounts, self.accounts[turn.model]
        # Where the mean price has to fit, an item of the warm-up may cost more than is left.
        unlimited = accounts.affords_mean and turn.task is not None
        choosable = accounts.choosable(account, math.inf if unlimited else accounts.left())
        if turn.task is not None and len(accounts.contents.tasks) > 1:
            in_task = np.zeros_like(choosable)
            in_task[accounts.contents.tasks[turn.task].positions] = True
            choosable = choosable & in_task
        price = accounts.price(account) * accounts.units
        return self.standing.score.next(turn.model, choosable, tuple(account.pending), price, k)


def _of_warmup(may_get: Mask) -> Candidates:
    """Return the candidates of the warm-up, task by task, from a mask (n_models, n_tasks)."""
    tasks, models = may_get.T.nonzero()
    return Candidates(models.tolist(), tasks.tolist())
