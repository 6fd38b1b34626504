"""Whose turn it is: which model gets the next item, which item, and whether any is left to ask."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..methods.belief import Floats
from ..methods.policy import Choice
from . import audit
from .ledger import Account
from .standing import Judge
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


@dataclass(eq=False)
class Turns:
    """Decides who is next; it changes nothing but what it has looked up.

    Parameters
    ----------
    judge : Judge
    rule : StoppingRule
        Who still needs items after the warm-up.
    warmup : int
        Items that every model gets of every task first.
    cap : int
        Most items per model; the warm-up is not cut by it.
    seed : int
    audit_share : float
        Share of the items of each model and task that is drawn at random.
    exposure : int
        Items among which each one is drawn.
    """

    judge: Judge
    rule: StoppingRule
    warmup: int
    cap: int
    seed: int
    audit_share: float
    exposure: int
    stopped: str | None = None
    _found: tuple[int, list[Turn]] | None = None
    _answers: int = 0  # since the last look
    _made: list[list[Turn]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger, self._policy = self.judge.ledger, self.judge.score.leader

    def learned(self) -> None:
        """An answer has come in, or will not come: the ranker looks, once its warm-up is over.

        Where a look at all models together is expensive, turns are decided on one that is some
        answers old. When it is taken depends on what was told, not on who reads a result.
        """
        every = 1 if self.judge.score.alone is None else self._policy.answers_per_look
        self._answers += 1
        if (every == 1 and self.judge.looks.once) or self._warming().any():
            self.judge.look_anew()
        elif every == 1 or not self.judge.has_looked or self._answers >= every:
            self.judge.look()
            self._answers = 0

    def candidates(self) -> list[Turn]:
        """Who may get the next item; depends on the state alone, so it is kept."""
        if self.stopped is not None:
            return []
        if self._found is None or self._found[0] != self.ledger.changes:
            self._found = (self.ledger.changes, self._find())
        return self._found[1]

    def forget(self) -> None:
        """Drop what was kept: a rule, or which pairs are barred, has changed."""
        self._found = None

    def _find(self) -> list[Turn]:
        ledger = self.ledger
        warming = self._warming()
        if warming.any():
            able = warming & ledger.affordable(self._free())
            if able.any():
                return self._listed(able & (ledger.loads == ledger.loads[able].min()))
        wanted = self._wanted() & (ledger.n < self.cap) & ledger.able(ledger.left())
        made = self._turns()[-1]
        return [made[j] for j in wanted.nonzero()[0].tolist()]

    def _wanted(self) -> NDArray[np.bool_]:
        """Models that the stopping rule would give more items; shape (n_models,)."""
        out = self.ledger.there.copy()
        if out.any():
            out[out] = self.rule.wants(self.judge.standing())
        return out

    def _free(self) -> float:
        """The most that an item of the warm-up may cost."""
        return math.inf if self._policy.warmup_ignores_budget else self.ledger.left()

    def _warming(self) -> NDArray[np.bool_]:
        """Which models still have warm-up items ahead of them; shape (n_models, n_tasks)."""
        ledger = self.ledger
        found = (ledger.loads < self.warmup) & (ledger.remaining > 0)
        found &= ledger.there[:, None]
        return np.asarray(found)

    def _listed(self, where: NDArray[np.bool_]) -> list[Turn]:
        """Turns of the warm-up, task by task."""
        made = self._turns()
        return [made[t][j] for t, j in np.argwhere(where.T).tolist()]

    def _turns(self) -> list[list[Turn]]:
        """Turns by task and model, the last row for no task; made once and used again."""
        ledger = self.ledger
        if not self._made or len(self._made[0]) < len(ledger.accounts):
            models, tasks = range(len(ledger.accounts)), range(len(ledger.contents.tasks))
            self._made = [[Turn(j, t) for j in models] for t in (*tasks, None)]
        return self._made

    def warming(self) -> list[Turn]:
        """Models with their first items of some task ahead of them."""
        return self._listed(self._warming())

    def unsettled(self) -> list[int]:
        """Models that the stopping rule would give more items."""
        return np.flatnonzero(self._wanted()).tolist()

    def _load(self, turn: Turn) -> int:
        return int(self.ledger.accounts[turn.model].load[turn.task or 0])

    def alone(self, account: Account) -> Turn | None:
        """The turn of one model if it may get an item now.

        Asked for by itself a model waits for no other: it takes its whole warm-up at once and goes
        on while others are still warming up, whose warm-up stays reserved in the budget. Only
        where the budget is too small for all does it leave the turn to a model whose next item is
        worth much more for its price.
        """
        j = account.at
        if self.stopped is not None or account.dropped is not None:
            return None
        warming, left, free = self.warming(), self.ledger.left(), self._free()
        own = [t for t in warming if t.model == j]
        if own:
            able = [t for t in own if self.ledger.affords(account, free, t.task)]
            return min(able, key=self._load, default=None)
        if not math.isinf(left):
            for t in warming:
                other = self.ledger.accounts[t.model]
                now = math.inf if self._policy.warmup_ignores_budget else left
                if t.task is not None and self.ledger.affords(other, now, t.task):
                    missing = self.warmup - self._load(t)
                    left -= self.ledger.mean_price(other, t.task) * missing
        open_ = account.n < self.cap and bool(self._wanted()[j])
        if not (open_ and self.ledger.affords(account, left)):
            return None
        return None if self._others_are_worth_more(j, warming, left) else Turn(j)

    def _others_are_worth_more(self, j: int, warming: Sequence[Turn], left: float) -> bool:
        if math.isinf(left):
            return False
        ledger = self.ledger
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
        """The turn to take next among models with room (None: all models), or None.

        Nobody, too, where that choice is worth less than `least` of the choice among all.
        """
        every = self.candidates()
        able = every if room is None else [t for t in every if t.model in room]
        if not able:
            return None
        if every[0].task is not None or len(every) == 1:
            return able[0]
        of = self.ledger.prices.tolist()
        free = {t.model for t in every if of[t.model] == 0.0}
        if free:  # a free model comes first, whatever the others would tell
            able = [t for t in able if t.model in free] or ([] if least else able)
            every, of = able, [price or 1.0 for price in of]
            if not able:
                return None
        models = [t.model for t in every]
        worth = dict(zip(models, self._worth(models, [of[j] for j in models]).tolist()))
        turn = max(able, key=lambda t: worth[t.model])
        return None if worth[turn.model] < least * max(worth.values()) else turn

    def _worth(self, models: Sequence[int], prices: Sequence[float]) -> Floats:
        pending: list[tuple[int, ...]] = [()] * len(models)
        if self.ledger.n_in_flight:
            pending = [tuple(self.ledger.accounts[j].pending) for j in models]
        return self.judge.score.priorities(self.judge.seen, models, pending, prices)

    # -- which item ---------------------------------------------------------------------------

    def item(self, turn: Turn) -> Choice:
        """The item that a model gets next."""
        drawn = None if self._policy.draws else self.audited(turn)
        if drawn is not None:
            return drawn
        account = self.ledger.accounts[turn.model]
        best = self._next(turn, self.exposure)
        if len(best) == 1 or best[0].probability is not None:
            return best[0]  # what is drawn at random is not drawn again
        # The "randomesque" rule of computerized adaptive testing: a draw among the K most
        # informative spreads use, for a test that asks the most informative asks the same first
        # items of everyone, and who learns those gains rank.
        task = self.ledger.contents.task_at(best[0].item)
        n_asked = int(account.asked[task])
        rng = np.random.default_rng([self.seed, 0xE4905, turn.model, n_asked])
        return best[int(rng.integers(len(best)))]

    def _next(self, turn: Turn, k: int = 1) -> list[Choice]:
        """The items that the policy would ask next."""
        ledger, account = self.ledger, self.ledger.accounts[turn.model]
        choosable = ledger.choosable(account, self._limit(turn))
        if turn.task is not None and len(ledger.contents.tasks) > 1:
            where = ledger.contents.tasks[turn.task].where
            here, choosable = choosable, np.zeros_like(choosable)
            choosable[where] = here[where]
        price = ledger.price(account) * ledger.units
        return self.judge.score.next(turn.model, choosable, tuple(account.pending), price, k)

    def _limit(self, turn: Turn) -> float:
        """The most that the item may cost: what is left; no limit in a warm-up without one."""
        by_mean = self.ledger.by_mean and turn.task is not None
        return math.inf if by_mean else self.ledger.left()

    def audited(self, turn: Turn) -> Choice | None:
        """The item that the audit draws now, if one is due in the task that the model is in.

        Near the end of the budget nothing is drawn once any item left is too dear: drawing among
        the affordable ones only would not be a draw among all.
        """
        if not self.audit_share:
            return None
        ledger, account = self.ledger, self.ledger.accounts[turn.model]
        contents, task = ledger.contents, turn.task or 0
        if turn.task is None and len(contents.tasks) > 1:
            task = contents.task_at(self._next(turn)[0].item)
        where = contents.tasks[task].where
        left, n_asked = account.available[where], int(account.asked[task])
        if not left.any() or not audit.is_due(n_asked, self.audit_share):
            return None
        if float(ledger.price(account) * ledger.units[where][left].max()) > ledger.left():
            return None
        item = where.start + audit.draw(left, self.seed, turn.model, n_asked)
        return Choice(item, 1.0 / int(left.sum()))
