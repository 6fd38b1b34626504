"""`Ranker`: several adaptive tests under one budget, by ask and tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..errors import UsageError
from ..methods.policy import Choice, Differences
from .across import Across
from .arguments import (
    flag,
    limits,
    make_policy,
    number,
    prices_of,
    stopping_rule,
    whole,
)
from .audit import Audits
from .changes import Change
from .contents import Banks, Contents, Weights
from .known import Known, KnownModels
from .ledger import Ledger
from .outcomes import Outcomes
from .result import Ranking
from .standing import Standing
from .stopping import StoppingRule, has_goal
from .summary import Summary
from .turn import Turn, Turns
from .weighted import WeightedPolicy


class Ranker:
    """Decide which model is better with few items, asking for the most informative ones.

    The ranker does no I/O and calls no model: a loop asks it for (model, item) pairs, gets them
    scored somehow, and tells it. Its state is a pure function of its arguments and the sequence
    of calls, so a journal of the calls rebuilds it.

    Parameters
    ----------
    bank : ItemBank, or mapping of task to ItemBank or to (mapping of outcome to ItemBank)
        Calibrated items; their method decides how the ranking works. With tasks, items are
        (task, doc_id); with several outcomes of a task, one answer is told as {outcome: score}.
    models : mapping of str to float
        Price of one unit of each model, at least 0; only ratios matter for the allocation.
    units : mapping of doc_id to float, or array_like of shape (n_items,), optional
        Size of each item (tokens, say), in bank order if an array; default 1 each. With tasks a
        mapping of task to such units.
    confidence : float, optional
        Two-sided: a pair is decided when P(a better) leaves ``[(1-c)/2, 1-(1-c)/2]``.
    warmup : int, optional
        Items every model gets (of every task) before anything is compared; default 10, and 5 of
        each of several tasks.
    budget : float, optional
        Most that may be spent, as the sum of price x units; default no limit. What is in flight
        counts as spent.
    max_items : int, optional
        Most items per model; the default is the method's.
    seed : int, optional
        Seed of a method that draws at random.
    weights : {"documents", "equal"} or mapping, optional
        How much counts, by task, by outcome, or by task and outcome: a weight of 0 is an outcome
        that is only reported. Default: tasks by their number of documents, outcomes alike.
    groups : mapping of str to (mapping of task to float, or sequence of tasks), optional
        Groups of tasks whose score is reported as well, with the weights of their tasks (default
        alike to each other).
    stop : StoppingRule or str, optional
        When to stop, ``TopDecided(3) | Budget(200)`` say, or in words, ``"top 3 or se 0.02"``; see
        `lm_eval_ccat.ranker.stopping`. By default once every adjacent pair is decided (and
        `target_se` is reached).
    target_se : float, optional
        Keep testing a model until the standard error of its estimate, on [0, 1], is at most
        this, also when its place is decided. With a single model this is the stopping rule.
    stop_when_decided : bool, optional
        If false, spend the whole budget (or all items) instead of stopping once all is decided.
    rank_width : int, optional
        Stop once every model's rank range spans at most so many ranks, in place of all decided.
    percentile : float, optional
        Stop once every model's rank range spans at most so many per cent of all ranks.
    audit : float, optional
        Share of each model's items, in [0, 1), that is drawn at random instead of selected; from
        them `result` reports an estimate that holds whatever the response model gets wrong. A
        method that draws by itself (`default`, `sample`) draws no more: its own draws are reported.
    exposure : int, optional
        Draw each item at random (by `seed`) among this many most informative ones, so that no
        few items are asked of everyone; default 1, always the most informative.
    known : mapping of str to float, or ScoreTable, optional
        Models with full results: their full-benchmark means on [0, 1], or their scores. They are
        fixed points of the ranking and are never asked; a new model is tested until it is
        separated from its neighbours among them.
    known_sampled : bool, optional
        Whether the benchmark's items count as a sample of a larger population, so that the means
        of known models have a sampling error, too.
    min_difference : float, optional
        On the metric's own scale (with several outcomes on [0, 1]): models whose difference is
        surely smaller are called equivalent, and their pair holds nothing open. Default 0: no
        pair is.
    familywise : bool, optional
        Whether `confidence` is that of all pairs together instead of each by itself.
    across : bool, optional
        Whether answers in one task tell of the others, as far as the abilities of the calibration
        models are correlated between tasks (at least ten models that all banks know).
    **options
        Options of the method (``information="full"`` of "paper", for instance).

    Raises
    ------
    UsageError
        An argument is of a wrong type or out of range, or units or weights do not fit the banks.

    Examples
    --------
    >>> import numpy as np
    >>> from lm_eval_ccat import Ranker, ScoreTable, calibrate
    >>> rng = np.random.default_rng(0)
    >>> skill, ease = np.linspace(-1, 1, 8)[:, None], rng.normal(size=40)[None]
    >>> scores = 1 / (1 + np.exp(-skill - ease + 0.1 * rng.normal(size=(8, 40))))
    >>> table = ScoreTable.from_arrays(scores, models=[f"m{i}" for i in range(8)])
    >>> bank = calibrate(table.without(["m0", "m7"]), method="paper")
    >>> ranker = Ranker(bank, models={"m0": 1.0, "m7": 1.0})
    >>> while not ranker.done:
    ...     for model, item in ranker.ask():
    ...         ranker.tell(model, item, table.select([model]).scores[0, item])
    >>> ranker.result().in_words()
    'm7 > m0'
    """

    def __init__(
        self,
        bank: Banks,
        models: Mapping[str, float],
        units: Any = None,
        confidence: float = 0.95,
        warmup: int | None = None,
        budget: float | None = None,
        max_items: int | None = None,
        seed: int = 0,
        *,
        weights: Weights = None,
        groups: Mapping[str, Mapping[str, float] | Sequence[str]] | None = None,
        stop: StoppingRule | str | None = None,
        target_se: float | None = None,
        stop_when_decided: bool = True,
        rank_width: int | None = None,
        percentile: float | None = None,
        audit: float = 0.0,
        exposure: int = 1,
        known: Known | None = None,
        known_sampled: bool = False,
        min_difference: float = 0.0,
        familywise: bool = False,
        across: bool = True,
        **options: Any,
    ) -> None:
        prices = prices_of(models)
        self.confidence = number(confidence, "confidence", 0.5, 1.0)
        self.seed = whole(seed, "seed")
        rule = stopping_rule(stop, target_se, stop_when_decided, rank_width, percentile)
        limit, self._max_items = limits(rule, budget, max_items)
        number(min_difference, "min_difference", 0.0)
        flag(familywise, "familywise")
        contents = Contents(bank, weights)
        most = int(contents.n_kept.max())
        usual = 10 if len(contents.tasks) == 1 else 5
        ahead = min(usual if warmup is None else whole(warmup, "warmup", 0), most)

        def new_policy(bank: ItemBank, n_models: int) -> Any:
            return make_policy(bank, n_models, self.seed, options)

        self._contents = contents
        self._outcomes = Outcomes(contents, len(prices), new_policy)
        units = contents.units(units)
        lent: Across | None = None
        self._policy = self._outcomes.of_task[0][0].policy
        if not contents.single:
            shares = {t: task.weights for t, task in enumerate(contents.tasks)}
            lent = Across.of(self._outcomes) if flag(across, "across") else None
            self._policy = WeightedPolicy(self._outcomes, units, shares, lent)
        self._ledger = Ledger(contents, prices, units, limit, self._policy.affords_mean)
        sampled = flag(known_sampled, "known_sampled")
        self._across = lent
        self._known: KnownModels | None = None
        if known is not None:
            only = contents.tasks[0].bank if contents.single else None
            self._known = KnownModels(known, only, self._policy, list(prices), sampled)
        span = contents.scale.span if contents.single else 1.0
        self._standing = Standing(
            self._policy,
            self._outcomes,
            self._ledger,
            self._known,
            self.confidence,
            float(min_difference) / span,
            familywise,
        )
        self._turns = Turns(
            self._standing,
            rule,
            ahead,
            self._cap(),
            self.seed,
            number(audit, "audit", 0.0, 1.0),
            whole(exposure, "exposure", 1),
        )
        self._audits = Audits(self._turns.audit)
        self._summary = Summary(
            contents,
            self._outcomes,
            self._standing,
            self._turns,
            self._audits,
            groups or {},
            lent,
            {"min_difference": min_difference or None, "familywise": familywise or None, **options},
        )

    def _cap(self) -> int:
        """Most items per model: as given, else the method's."""
        n_kept = int(self._contents.n_kept.sum())
        if self._max_items is not None:
            return min(self._max_items, n_kept)
        return min(self._policy.item_cap(n_kept), n_kept)

    # -- the loop -----------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether nothing is in flight and nothing more would be asked."""
        return not self._ledger.n_in_flight and not self._turns.candidates()

    @property
    def in_flight(self) -> set[tuple[str, Any]]:
        """Pairs asked for and not yet told, failed or released."""
        return self._ledger.in_flight

    @property
    def decided(self) -> bool:
        """Whether the goal of the stopping rule is met now, whatever is in flight.

        A ranking without a goal (a budget alone, say) is never decided: it ends when it is `done`.
        """
        rule = self._turns.rule
        return has_goal(rule) and not self._turns.warming() and rule.met(self._turns.standing)

    def ask(
        self,
        n: int = 1,
        model: str | None = None,
        among: Collection[str] | None = None,
        least: float = 0.0,
    ) -> list[tuple[str, Any]]:
        """Ask which items to run next.

        Parameters
        ----------
        n : int, optional
            At most this many pairs.
        model : str, optional
            Only items of this model, which then waits for no other.
        among : collection of str, optional
            Models that have room: the best choice among them is asked.
        least : float, optional
            With `among`: ask nothing while that is worth less than this part of what the best
            choice of all would be worth, for its price.

        Returns
        -------
        list of (str, item)
            Empty while all that is left is in flight, or not worth it, and when the ranking is
            done.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank
        >>> ranker = Ranker(ItemBank.blank(range(50)), {"a": 1.0, "b": 1.0})
        >>> sorted({m for m, _ in ranker.ask(4)}), {m for m, _ in ranker.ask(4, among=["b"])}
        (['a', 'b'], {'b'})
        """
        only = None if model is None else self._ledger.account(model)
        room = None if among is None else {self._ledger.account(name).at for name in among}
        asked: list[tuple[str, Any]] = []
        while len(asked) < n:
            if only is not None:
                turn = next(iter(self._turns.alone(only)), None)
            else:
                turn = self._turns.best(room, least)
            if turn is None:
                break
            choice = self._turns.item(turn)
            self._place(turn.model, choice)
            name = self._ledger.accounts[turn.model].name
            asked.append((name, self._contents.item(choice.item)))
        return asked

    def impose(self, pairs: Iterable[tuple[str, Any, float | None]]) -> None:
        """Take pairs as asked, in place of `ask`: what a journal recorded, whoever selected it.

        Parameters
        ----------
        pairs : iterable of (str, item, float or None)
            Model, item, and the probability of the draw (None: the item was chosen).
        """
        wanted: dict[tuple[int, int], Choice] = {}
        for model, item, probability in pairs:
            account, i = self._ledger.account(model), self._contents.position(item)
            if not account.available[i] or (account.at, i) in wanted:
                raise UsageError(f"model {model!r} cannot be asked doc_id {item!r} again")
            wanted[account.at, i] = Choice(i, probability)
        for (j, _), choice in wanted.items():
            self._place(j, choice)

    def _place(self, j: int, choice: Choice) -> None:
        account = self._ledger.accounts[j]
        self._audits.note(j, account, choice, self._outcomes)
        self._ledger.place(account, choice.item, choice.probability)
        self._outcomes.place(j, choice.item, choice.probability)

    def audit_draw(self, model: str, item: Any) -> float | None:
        """`probability` of what the audit would draw now; for journals that did not record it."""
        self._ledger.account(model)
        choice = self._turns.audited(Turn(self._ledger.position[model]))
        at = self._contents.position(item)
        return choice.probability if choice and choice.item == at else None

    def tell(self, model: str, item: Any, score: Any, cost: float | None = None) -> None:
        """Take in a score.

        Parameters
        ----------
        model : str
        item : doc_id, or (task, doc_id)
            Usually one asked for; a score that is at hand anyway may be told as well.
        score : float, or mapping of outcome to float
            On [0, 1], higher is better. An outcome may be missing (its judge failed, say).
        cost : float, optional
            What it really cost; default price x units. Costs told move the price of one unit
            that the allocation uses.

        Raises
        ------
        UsageError
            Unknown model, item or outcome, or a second score for it.
        ScaleError
            The score is not a number in [0, 1].
        """
        account, i = self._ledger.account(model), self._contents.position(item)
        scores = self._outcomes.read(model, i, score)
        self._ledger.tell(account, i, cost)
        self._outcomes.tell(self._ledger.position[model], i, scores)
        self._turns.learned()

    def fail(self, model: str, item: Any, reason: str, cost: float | None = None) -> None:
        """Record that a model cannot do an item; it is not scored and not asked again.

        The attempt cost `cost`, by default nothing.
        """
        account, i = self._ledger.account(model), self._contents.position(item)
        self._ledger.fail(account, i, cost, str(reason))
        self._outcomes.skip(self._ledger.position[model], i)
        self._turns.learned()

    def release(self, model: str, item: Any) -> None:
        """Give back an item that was asked for and not run."""
        account, i = self._ledger.account(model), self._contents.position(item)
        if i not in account.pending:
            raise UsageError(f"doc_id {item!r} of model {model!r} is not in flight")
        j = self._ledger.position[model]
        self._ledger.release(account, i)
        task = self._contents.tasks[self._contents.task_at(i)]
        self._audits.forget(j, task.name, i - task.start)
        self._outcomes.unplace(j, i)

    def drop(self, model: str, reason: str = "set aside") -> None:
        """Set a model aside: nothing more is asked of it and no pair waits for it."""
        account = self._ledger.account(model)
        for i in list(account.pending):
            self.release(model, self._contents.item(i))
        self._ledger.set_aside(account, str(reason))

    def restore(self, model: str) -> None:
        """Take back a model that was set aside; it goes on where it stood."""
        self._ledger.set_aside(self._ledger.account(model), None)

    def stop(self, reason: str) -> None:
        """Ask nothing more (a deadline has passed, a person pressed Ctrl-C)."""
        self._turns.stopped = str(reason)

    def change(
        self,
        *,
        budget: float | None = None,
        max_items: int | None = None,
        prices: Mapping[str, float] | None = None,
        add: Mapping[str, float] | None = None,
        stop: StoppingRule | str | None = None,
        elapsed: float | None = None,
    ) -> None:
        """Change a running ranking; what is not given stays. An earlier `stop` is lifted.

        Parameters
        ----------
        budget : float, optional
            New budget, infinite for none; what was spent counts.
        max_items : int, optional
            New limit of items per model.
        prices : mapping of str to float, optional
            New prices of one unit.
        add : mapping of str to float, optional
            Models that join, with their prices.
        stop : StoppingRule, optional
            New stopping rule, its limits included.
        elapsed : float, optional
            Seconds of the run so far, for the rule `Time`; told alone it lifts no `stop`.
        """
        found = Change.of(self._turns.rule, stop, budget, max_items, prices, add)
        found.check(self._ledger, self._known)
        if elapsed is not None:
            self._turns.elapsed(number(elapsed, "elapsed", 0.0))
        if any(given is not None for given in (budget, max_items, prices, add, stop)):
            self._turns.stopped = None
        if budget is not None or stop is not None:
            self._ledger.budget = found.budget
        if max_items is not None or stop is not None:
            self._max_items = found.max_items
        self._turns.rule = found.rule
        if found.add:
            self._turns.look_anew()
        for name, price in found.add.items():
            self._ledger.add(name, price)
            self._outcomes.add_model()
            if not self._contents.single:
                self._policy.add_model()
        self._ledger.reprice(found.prices)
        self._turns.cap = self._cap()

    # -- what is known ------------------------------------------------------------------------

    @property
    def bank(self) -> ItemBank:
        """The bank; of several the first task's."""
        return self._contents.tasks[0].bank

    @property
    def budget(self) -> float:
        """Most that may be spent; infinite without a limit."""
        return self._ledger.budget

    @property
    def item_cap(self) -> int:
        """Most items that one model may get."""
        return self._turns.cap

    @property
    def spent(self) -> float:
        """Spent so far, without what is in flight."""
        return self._ledger.spent

    @property
    def committed(self) -> float:
        """Spent so far, with what is in flight at its expected cost."""
        return self._ledger.committed

    def reserved(self, model: str, item: Any) -> float | None:
        """What an item in flight is expected to cost, as it was asked; None for others."""
        return self._ledger.account(model).pending.get(self._contents.position(item))

    def probability(self, model: str, item: Any) -> float | None:
        """Of the draw that asked `item` of `model`; None if it was chosen, or never asked."""
        return self._ledger.account(model).probability.get(self._contents.position(item))

    def estimate(self, model: str) -> tuple[float, float]:
        """Estimated full-benchmark mean of one model and its standard error, on [0, 1]."""
        self._ledger.account(model)
        return self._policy.estimate(self._ledger.position[model])

    def shared_errors(self, model: str) -> dict[str, dict[str, float]]:
        """Covariances of the errors of one model's tasks, on [0, 1], by task and other task.

        Empty where tasks are independent.
        """
        self._ledger.account(model)
        at = self._ledger.position[model]
        return {} if self._across is None else self._across.shared_errors(at)

    def expected(self, model: str) -> NDArray[np.float64]:
        """Expected score of one model on every item, on [0, 1]; shape (n_items,), bank order.

        With several tasks one after the other, of the outcome that counts most.
        """
        self._ledger.account(model)
        return self._outcomes.expected(self._ledger.position[model])

    def differences(self) -> Differences:
        """Estimates and the variances of their differences; models in the order given."""
        return self._policy.differences()

    def critical(self, level: float) -> NDArray[np.float64]:
        """Half of each difference's interval that errs with probability `level`, in its errors."""
        return self._policy.critical(level)

    def result(self) -> Ranking:
        """The ranking as it stands; may be called at any time."""
        return self._summary.ranking(self.done)

    @property
    def signature(self) -> str:
        """What a reader needs to reproduce the ranking, in one line."""
        return self._summary.signature
