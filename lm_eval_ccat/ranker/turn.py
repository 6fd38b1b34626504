"""Whose turn it is: which model gets the next item, which item, and whether any is left to ask."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..methods.policy import Choice, Policy
from .audit import draw, is_due
from .exposure import draw_one
from .ledger import Account, Ledger
from .standing import Standing
from .stopping import StoppingRule

#: How much more an item of another model must be worth before a model that is asked for by itself
#: leaves its turn. The worth falls with the square of the items, so 4 lets a quick model run ahead
#: to twice the items that it would get in turn.
_PATIENCE = 4.0


@dataclass(frozen=True)
class Turn:
    """The model that may get an item, and the task it is of while the warm-up says so."""

    model: int
    task: int | None = None


class Turns:
    """Decides who is next; it changes nothing.

    Parameters
    ----------
    standing : Standing
    rule : StoppingRule
        Who still needs items after the warm-up.
    warmup : int
        Items that every model gets of every task first.
    cap : int
        Most items per model; the warm-up is not cut by it.
    seed : int
    audit : float
        Share of the items of each model and task that is drawn at random.
    exposure : int
        Items among which each one is drawn.
    """

    def __init__(
        self,
        standing: Standing,
        rule: StoppingRule,
        warmup: int,
        cap: int,
        seed: int,
        audit: float,
        exposure: int,
    ) -> None:
        self.live = standing
        self.standing = standing  # what turns are decided on
        self.rule = rule
        self.cap = cap
        self.warmup = warmup
        self.seed = seed
        self.audit = audit
        self.exposure = exposure
        self.stopped: str | None = None
        self._found: tuple[int, list[Turn]] | None = None
        self._answers = 0  # since the last look
        self._made: list[list[Turn]] = []

    @property
    def _ledger(self) -> Ledger:
        return self.standing.ledger

    @property
    def _policy(self) -> Policy:
        return self.live.policy

    def learned(self) -> None:
        """An answer has come in, or will not come.

        Where a look at all models together is expensive, turns are decided on one that is some
        answers old. When it is taken depends on what was told, not on who looks.
        """
        every = self._policy.answers_per_look
        if every == 1:
            return
        self._answers += 1
        if self._warming().any():
            self.look_anew()
        elif self.standing is self.live or self._answers >= every:
            self.standing, self._answers = self.live.still(), 0

    def elapsed(self, seconds: float) -> None:
        """So long has the run taken."""
        self.live.elapsed = self.standing.elapsed = seconds

    def look_anew(self) -> None:
        """Decide on what is known at the moment, until the next answer."""
        self.standing = self.live

    def forget(self) -> None:
        """Something else than the ledger has changed: a rule, a stop."""
        self._found = None

    def candidates(self) -> list[Turn]:
        """Who may get the next item; depends on the state alone, so it is kept."""
        if self.stopped is not None:
            return []
        if self._found is None or self._found[0] != self._ledger.changes:
            self._found = (self._ledger.changes, self._find())
        return self._found[1]

    def _find(self) -> list[Turn]:
        ledger, left = self._ledger, self._ledger.left()
        warming = self._warming()
        if warming.any():
            able = warming & ledger.affordable(self._free())
            if able.any():
                fewest = ledger.loads[able].min()
                return self._listed(able & (ledger.loads == fewest))
        wanted = self.rule.wants(self.standing) & ledger.there & (ledger.n < self.cap)
        wanted &= ledger.able(left)
        made = self._turns()[-1]
        return [made[j] for j in wanted.nonzero()[0].tolist()]

    def _free(self) -> float:
        """What an item of the warm-up may cost."""
        return math.inf if self._policy.warmup_ignores_budget else self._ledger.left()

    def _warming(self) -> NDArray[np.bool_]:
        """Where models have first items ahead of them; shape (n_models, n_tasks)."""
        ledger = self._ledger
        found = (ledger.loads < self.warmup) & (ledger.remaining > 0)
        found &= ledger.there[:, None]
        return np.asarray(found)

    def _listed(self, where: NDArray[np.bool_]) -> list[Turn]:
        """Turns of the warm-up, task by task."""
        made = self._turns()
        return [made[t][j] for t, j in np.argwhere(where.T).tolist()]

    def _turns(self) -> list[list[Turn]]:
        """Turns of every task, and at last those of none, by model: the same ones every time."""
        ledger = self._ledger
        if not self._made or len(self._made[0]) < len(ledger.accounts):
            models, tasks = range(len(ledger.accounts)), range(len(ledger.contents.tasks))
            self._made = [[Turn(j, t) for j in models] for t in (*tasks, None)]
        return self._made

    def warming(self) -> list[Turn]:
        """Models with their first items of some task ahead of them."""
        return self._listed(self._warming())

    def unsettled(self) -> list[int]:
        """Models that the stopping rule would give more items."""
        wanted = self.rule.wants(self.standing)
        return [j for j in self._ledger.active if wanted[j]]

    def _load(self, turn: Turn) -> int:
        return int(self._ledger.accounts[turn.model].load[turn.task or 0])

    def alone(self, account: Account) -> list[Turn]:
        """The turn of one model if it may get an item now, else nothing.

        Asked for by itself a model waits for no other: it takes its whole warm-up at once and goes
        on while others are still warming up, whose warm-up stays reserved in the budget. Only
        where the budget is too small for all does it leave the turn to a model whose next item is
        worth much more for its price.
        """
        j = self._ledger.position[account.name]
        if self.stopped is not None or account.dropped is not None:
            return []
        warming, left, free = self.warming(), self._ledger.left(), self._free()
        own = [t for t in warming if t.model == j]
        if own:
            able = [t for t in own if self._ledger.affords(account, free, t.task)]
            return sorted(able, key=self._load)[:1]
        if not math.isinf(left):
            for t in warming:
                other = self._ledger.accounts[t.model]
                now = math.inf if self._policy.warmup_ignores_budget else left
                if t.task is not None and self._ledger.affords(other, now, t.task):
                    missing = self.warmup - self._load(t)
                    left -= self._ledger.mean_price(other, t.task) * missing
        open_ = account.n < self.cap and j in self.unsettled()
        if not (open_ and self._ledger.affords(account, left)):
            return []
        return [] if self._others_are_worth_more(j, warming, left) else [Turn(j)]

    def _others_are_worth_more(self, j: int, warming: Sequence[Turn], left: float) -> bool:
        if math.isinf(left):
            return False
        ledger = self._ledger
        rivals = sorted({t.model for t in (*self.candidates(), *warming)} | {j})
        needed = sum(
            ledger.mean_price(a) * (self.cap - a.n) for a in (ledger.accounts[k] for k in rivals)
        )
        if needed <= left:
            return False
        paid = {k: p for k in rivals if (p := ledger.price(ledger.accounts[k])) > 0.0}
        if j not in paid:
            return False
        worth = dict(zip(paid, self._worth(list(paid), list(paid.values())).tolist()))
        return bool(worth[j] * _PATIENCE < max(worth.values()))

    def best(self, room: Collection[int] | None = None, least: float = 0.0) -> Turn | None:
        """Who is next among models with room (None: all), or nobody.

        Nobody, too, where that choice is worth less than `least` of the choice among all.
        """
        every = self.candidates()
        able = every if room is None else [t for t in every if t.model in room]
        if not able:
            return None
        turn = self.choose(able)
        if len(able) == len(every) or turn.task is not None or not least:
            return turn
        first = self.choose(every)
        price, other = self._ledger.prices[[turn.model, first.model]].tolist()
        if price == 0.0 or first == turn:
            return turn
        if other == 0.0:  # a free model comes first, whatever the others would tell
            return None
        worth = self._worth([turn.model, first.model], [price, other])
        return turn if worth[0] >= least * worth[1] else None

    def choose(self, candidates: Sequence[Turn]) -> Turn:
        """Who of the candidates is next."""
        first = candidates[0]
        if len(candidates) == 1 or first.task is not None:
            return first
        models = [t.model for t in candidates]
        prices = self._ledger.prices[models].tolist()
        if 0.0 in prices:  # a free model comes first, whatever the others would tell
            candidates = [t for t, p in zip(candidates, prices) if p == 0.0]
            models, prices = [t.model for t in candidates], [1.0] * len(candidates)
        return candidates[int(np.argmax(self._worth(models, prices)))]

    def _worth(self, models: Sequence[int], prices: Sequence[float]) -> NDArray[np.float64]:
        pending: list[tuple[int, ...]] = [()] * len(models)
        if self._ledger.n_in_flight:
            pending = [tuple(self._ledger.accounts[j].pending) for j in models]
        return self.standing.policy.priorities(models, pending, prices)

    # -- which item ---------------------------------------------------------------------------

    def item(self, turn: Turn) -> Choice:
        """The item that a model gets next."""
        drawn = None if self._policy.draws else self.audited(turn)
        if drawn is not None:
            return drawn
        account = self._ledger.accounts[turn.model]
        asking = self._asking(turn)
        choice = self._policy.select(turn.model, *asking)
        if self.exposure == 1 or choice.probability is not None:
            return choice  # what is drawn at random is not drawn again
        best = self._policy.shortlist(turn.model, *asking, self.exposure)
        task = self._ledger.contents.task_at(best[0])
        return Choice(draw_one(best, self.seed, turn.model, int(account.asked[task])))

    def _asking(self, turn: Turn) -> tuple[NDArray[np.bool_], tuple[int, ...], NDArray[np.float64]]:
        """What the policy is asked with: items that may be chosen, those in flight, prices."""
        ledger, account = self._ledger, self._ledger.accounts[turn.model]
        choosable = ledger.choosable(account, self._limit(turn))
        if turn.task is not None and len(ledger.contents.tasks) > 1:
            where = ledger.contents.tasks[turn.task].where
            here, choosable = choosable, np.zeros_like(choosable)
            choosable[where] = here[where]
        return choosable, tuple(account.pending), ledger.price(account) * ledger.units

    def _limit(self, turn: Turn) -> float:
        """What the item may cost: all that is left, or no limit in a warm-up without one."""
        by_mean = self._ledger.by_mean and turn.task is not None
        return math.inf if by_mean else self._ledger.left()

    def audited(self, turn: Turn) -> Choice | None:
        """The item that the audit draws now, if one is due in the task that the model is in.

        Near the end of the budget nothing is drawn once any item left is too dear: drawing among
        the affordable ones only would not be a draw among all.
        """
        if not self.audit:
            return None
        ledger, account = self._ledger, self._ledger.accounts[turn.model]
        contents, task = ledger.contents, turn.task or 0
        if turn.task is None and len(contents.tasks) > 1:
            task = contents.task_at(self._policy.select(turn.model, *self._asking(turn)).item)
        where = contents.tasks[task].where
        left, n_asked = account.available[where], int(account.asked[task])
        if not left.any() or not is_due(n_asked, self.audit):
            return None
        if float(ledger.price(account) * ledger.units[where][left].max()) > ledger.left():
            return None
        item = where.start + draw(left, self.seed, turn.model, n_asked)
        return Choice(item, 1.0 / int(left.sum()))
