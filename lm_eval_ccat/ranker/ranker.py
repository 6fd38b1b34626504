"""`Ranker`: several adaptive tests under one budget, by ask and tell."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import UsageError
from ..methods.belief import BENCHMARK, POPULATION, RUN, Belief, References
from ..methods.method import method_of
from ..methods.policy import Choice, Policy, ReportedPolicy
from ..methods.sample.first_pass import FirstPassPolicy
from ..metrics.scale import Floats
from ..options import AT_LEAST_0, SWITCH, choice, whole
from ..shown import plural, some
from .accounts import SLACK, Account, Accounts
from .across import PriorAcrossTasks, Replays
from .arguments import checked_options, price_of, prices_of
from .builder import RankingBuilder
from .contents import Banks, Contents, Weights
from .join import JoinTests, remembered
from .looks import Looks
from .ranking import Ranking
from .references import Known, references_of, refuse_known
from .standing import PairTest, Standing
from .stopping import (
    Limits,
    StoppingRule,
    has_goal,
    require_models_beyond_top,
    stopping_rule,
    tightest_limits,
)
from .turns import Turns, warmup_per_task
from .verdicts import Verdicts
from .weighted import WeightedSum

#: Local names of `Ranker.__init__` that `JoinTests` does not begin a ranking again with.
_NOT_STATED = ("self", "options")


def _policy_of(
    outcome: Outcome,
    leader: ItemBank,
    n_models: int,
    repeats: Mapping[str, int],
    options: Mapping[str, Any],
    **stated: Any,
) -> Policy:
    """Return the policy that estimates an outcome.

    Parameters
    ----------
    outcome : Outcome
    leader : ItemBank
        The bank whose method chooses the items of the outcome's task.
    n_models : int
    repeats : mapping of task to int
        Most answers of an item.
    options : mapping
        Options of the method.
    **stated
        What the ranker tells every method.
    """
    bank, most_answers = outcome.bank, repeats[outcome.task]
    method = method_of(bank)
    if bank.method == leader.method:
        checked: dict[str, Any] = checked_options(method, options)
        return method.rank(bank, n_models, repeats=most_answers, **stated, **checked)
    # One method chooses a task's items; outcomes of another are estimated from its draws.
    beside = ReportedPolicy(bank, n_models, stated["sampled"])
    if most_answers == 1:
        return beside
    return FirstPassPolicy(bank, n_models, beside, repeats=most_answers, seed=stated["seed"])


def _ranked_score(contents: Contents, sizes: Floats, *, across: bool) -> WeightedSum:
    """Return the weighted sum of all outcomes; with `across`, tasks may inform each other.

    `sizes` are the units of the items of all tasks.
    """
    prior = PriorAcrossTasks.of(contents.tasks) if across else None
    replays = Replays.of([task.states[0].outcome.bank for task in contents.tasks])
    # All tasks are in the ranked score, with their own weights.
    equal_factors = dict.fromkeys(range(len(contents.tasks)), 1.0)
    units = np.array([sizes[task.positions].mean() for task in contents.tasks])
    score = WeightedSum(contents, units, prior, replays, equal_factors)
    # Only replays say whether the prior helps, and they know each task by one outcome. Where they
    # say that it does not, the sum is made without it.
    one_outcome_each = len(score.outcomes) == len(contents.tasks)
    if prior and replays and one_outcome_each and not replays.gains(score.weights, prior):
        return WeightedSum(contents, units, None, replays, equal_factors)
    return score


class Ranker:
    """Rank models with few items, asking for the most informative ones.

    The ranker does no I/O and calls no model: a loop asks it for (model, item) pairs, scores them
    in any way, and tells it the scores. Its state is a pure function of its arguments and the
    calls on it, so a journal of the calls rebuilds it.

    The arguments that most rankings need come first. Those after `seed`, by keyword alone, say what
    is ranked besides (`known` to `groups`), what a verdict claims (`question` to `looks`), what an
    answer is (`sampled`, `repeats`), when to stop, and how items are chosen.

    Parameters
    ----------
    bank : ItemBank, or mapping of task to ItemBank or to (mapping of outcome to ItemBank)
        Calibrated items; their method decides how the ranking works. With tasks, items are
        (task, doc_id); with several outcomes of a task, one answer is told as {outcome: score}.
    models : mapping of str to float, or sequence of str
        Price of one unit of each model, at least 0.
    units : mapping of doc_id to float, or array_like of shape (n_items,), optional
        Size of each item (tokens, say), in bank order if an array; default 1 each. With tasks a
        mapping of task to such units.
    confidence : float, optional
        Two-sided, over all looks together: if two models are equal, at most ``1 - confidence`` of
        rankings ever call one of them better.
    warmup : int, optional
        Items that every model answers before models are compared; default 10, with several
        tasks of each, but at most 15 in all and at least 2 of each.
    budget : float, optional
        Most to spend, as the sum of price x units; default no limit. Items in flight count as
        spent.
    max_items : int, optional
        Maximum number of items per model, which cuts the warm-up except that of ``paper``; default
        the method's limit. Looks that go on decide no pair on fewer than 10 items.
    seed : int, optional
        Seed of all random draws: those of the method and of `exposure`.
    known : mapping of str to float, or ScoreTable, optional
        Models with full results: their full-benchmark means on [0, 1], or their scores. They are
        fixed points of the ranking and are never asked; a new model is tested until it is
        separated from its neighbours among them.
    weights : {"documents", "equal"} or mapping, optional
        Weights by task, by outcome, or by task and outcome; an outcome of weight 0 is only
        reported. Default: tasks by their number of documents, outcomes equally.
    groups : mapping of str to (mapping of task to float, or sequence of tasks), optional
        Groups of tasks to report a score for as well, with weights of their tasks (default
        equal).
    question : {"benchmark", "population", "run"}, optional
        Whether to estimate the order on these items, or on all items like these, of which the
        benchmark is a sample. For the latter, `known` needs scores or standard errors. "run" is
        about these very answers, even where answers are sampled.
    min_difference : float, optional
        On the metric's own scale ([0, 1] if the outcomes differ in scale). Models that surely
        differ by less are called equivalent, and their pair no longer keeps the ranking open.
        Default 0: only exactly equal full results are equivalent.
    familywise : bool, optional
        Whether `confidence` holds for all pairs together instead of for each pair separately.
    looks : {"every", "one"}, optional
        Whether verdicts hold however often the ranker looks as answers come, or only for one look
        at a number of items fixed in advance. A rule that does not stop on verdicts (a target
        error, a budget alone) takes one look whatever this says.
    sampled : bool, optional
        Whether answers are sampled. An answer is then one draw, and the order is that of expected
        scores: all items answered once leave noise, so that two equal models end tied.
    repeats : int, or mapping of task to int, optional
        Most answers of an item, in passes over the items that are the same for all models; above
        1, answers are sampled. With tasks, an item is one answer: (task, doc_id) the first,
        ``(task, doc_id, 2)`` the second. A bare doc_id is the next.
    stop : StoppingRule or str, optional
        When to stop: ``TopDecided(3) | Budget(200)``, say, or in words, ``"top 3 or se 0.02"``;
        see `lm_eval_ccat.ranker.stopping`. Default: once every adjacent pair is decided; a single
        model goes on to its limit.
    exposure : int, optional
        Draw each item at random from this many most informative ones, so that not every model
        gets the same few items; default 1, always the most informative.
    across : bool, optional
        Whether answers in one task inform the estimates of other tasks, as far as the calibration
        models' abilities correlate between tasks; at least ten models must be in all banks.
    **options
        Options of the method (``information="full"`` of "paper", for instance).

    Attributes
    ----------
    join : JoinTests
        Tests whether banks say anything about the documents (`lm_eval_ccat.ranker.join`); if one
        says nothing, the ranking goes on as if it had begun without banks, and its result says so.

    Raises
    ------
    UsageError
        An argument has the wrong type or is out of range, or units or weights do not fit the banks.

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
    >>> ranker
    <Ranker: m0, m7; 20 answers, done>
    >>> ranker.result().in_words()
    'm7 > m0'
    """

    def __init__(
        self,
        bank: Banks,
        models: Mapping[str, float] | Sequence[str],
        units: Any = None,
        confidence: float = 0.95,
        warmup: int | None = None,
        budget: float | None = None,
        max_items: int | None = None,
        seed: int = 0,
        *,
        # What is ranked.
        known: Known | None = None,
        weights: Weights = None,
        groups: Mapping[str, Mapping[str, float] | Sequence[str]] | None = None,
        # What a verdict claims.
        question: str = BENCHMARK,
        min_difference: float = 0.0,
        familywise: bool = False,
        looks: str = "every",
        # What an answer is.
        sampled: bool = False,
        repeats: int | Mapping[str, int] = 1,
        # When it stops, and how items are chosen.
        stop: StoppingRule | str = "decided",
        exposure: int = 1,
        across: bool = True,
        **options: Any,
    ) -> None:
        # A ranking whose bank proves wrong begins again with these, but without banks. Above this
        # line nothing may be assigned: `locals` are the arguments alone.
        arguments = {name: value for name, value in locals().items() if name not in _NOT_STATED}
        prices = prices_of(models)
        self._seed = whole().check(seed, "seed")
        self._one_look = choice("every", "one").check(looks, "looks") == "one"
        contents = self._contents = Contents(bank, weights, repeats)
        test = PairTest.of(contents.scale, confidence, question, min_difference, familywise)
        sampled = SWITCH.check(sampled, "sampled") or contents.asks_repeatedly
        # Question 'run' is about these very answers: that others could have come is no error.
        self._sampled = sampled and question != RUN
        self._require_expected_scores()
        self._begin_tasks(len(prices), options, test, looks, placing=known is not None)
        sizes = contents.units(units)
        score = _ranked_score(contents, sizes, across=SWITCH.check(across, "across"))
        references = self._placed(known, score, test, prices)
        rule = stopping_rule(stop)
        n_known = len(references.names) if references else 0
        require_models_beyond_top(rule, len(prices) + n_known)
        limits = tightest_limits(rule, budget, max_items)
        self._max_items = limits.max_items
        self._accounts = Accounts(
            contents, prices, sizes, limits.budget, affords_mean=score.leader.affords_mean
        )
        self._standing = Standing(score, self._accounts, references, test)
        self._begin_turns(rule, warmup, exposure)
        if contents.asks_repeatedly:
            self._require_a_pass(prices, limits)
        self._set_looks()
        self.join = JoinTests(contents, arguments)
        # The signature leaves out options that are None. These two are left out at their defaults,
        # 0 and False.
        stated = {"min_difference": min_difference or None, "familywise": familywise or None}
        self._builder = RankingBuilder(
            self._turns, groups or {}, {**stated, **options}, self.join, question, sampled
        )

    def __repr__(self) -> str:
        accounts = self._accounts
        answers = plural(sum(len(account.scored) for account in accounts), "answer")
        state = "done" if self.done else "not done"
        return f"<Ranker: {some([account.name for account in accounts])}; {answers}, {state}>"

    def _begin_tasks(
        self,
        n_models: int,
        options: Mapping[str, Any],
        test: PairTest,
        looks: str,
        *,
        placing: bool,
    ) -> None:
        """Give each task its policies; `placing` says whether there are known models."""
        policy_of = partial(
            _policy_of, n_models=n_models, repeats=self._contents.repeats, options=options,
            seed=self._seed, min_difference=test.min_difference, placing=placing, looks=looks,
            sampled=self._sampled,
        )  # fmt: skip
        for task in self._contents.tasks:
            task.begin(n_models, policy_of)

    def _require_expected_scores(self) -> None:
        """Refuse repeats under question 'run', where every answer counts as it is."""
        if self._contents.asks_repeatedly and not self._sampled:
            raise UsageError(
                "question 'run' is about one answer to every item; ask about expected scores "
                "(question: benchmark), or leave repeats out"
            )

    def _placed(
        self, known: Known | None, score: WeightedSum, test: PairTest, new: Iterable[str]
    ) -> References | None:
        """Return the known models, placed among those to be ranked, whose names are `new`."""
        if known is None:
            return None
        # The mean of sampled full results is noisy: it is over one draw per item.
        answers = sum(task.bank.n_items for task in self._contents.tasks) if self._sampled else None
        population = test.question == POPULATION
        return references_of(
            known, score.only_outcome, new=new, population=population, answers=answers
        )

    def _begin_turns(self, rule: StoppingRule, warmup: int | None, exposure: int) -> None:
        """Set up the turns, with a warm-up of at most as many items as the largest task has."""
        usual = warmup_per_task(len(self._contents.tasks))
        items = usual if warmup is None else whole().check(warmup, "warmup")
        self._turns = Turns(
            standing=self._standing,
            rule=rule,
            warmup=min(items, int(self._contents.n_kept.max())),
            cap=self._cap(),
            seed=self._seed,
            exposure=whole(1).check(exposure, "exposure"),
        )

    def _cap(self) -> int:
        """Return the most items per model: `max_items` if given, else the method's limit."""
        n_kept = int(self._contents.n_kept.sum())
        if self._max_items is not None:
            return min(self._max_items, n_kept)
        return min(self._standing.score.item_cap(), n_kept)

    def _require_a_pass(self, prices: Mapping[str, float], limits: Limits) -> None:
        """Refuse limits that do not pay one answer of every model to every item."""
        tasks = self._contents.tasks
        n_kept = sum(int(task.bank.kept.sum()) for task in tasks)
        if limits.max_items is not None and limits.max_items < n_kept:
            raise UsageError(
                f"max_items {limits.max_items} does not pay one pass: repeats begin once every "
                f"model has answered every item, which takes at least {n_kept} answers of each"
            )
        units = sum(
            self._accounts.units[task.positions][: task.bank.n_items][task.bank.kept].sum()
            for task in tasks
        )
        one_pass = float(units) * sum(prices.values())
        answers = n_kept * len(prices)
        takes = f"at least {answers} answers" if one_pass == answers else f"about {one_pass:g}"
        if one_pass > limits.budget * (1.0 + SLACK):
            raise UsageError(
                f"the budget {limits.budget:g} does not pay one pass: repeats begin once "
                f"every model has answered every item, which takes {takes}"
            )

    def _set_looks(self) -> None:
        """Choose the looks that suit the stopping rule and the most items that a pair can get."""
        standing, parts = self._standing, self._turns.rule.parts()
        # Many looks err more often than one because a rule stops at the look that decides a pair.
        # Without a pair, or without a rule that stops by verdicts, one look is enough.
        without_pair = len(self._accounts) == 1 and standing.references is None
        single_look = self._one_look or without_pair or not any(part.looks for part in parts)
        standing.horizon = self._horizon()
        # Looks that were taken have spent part of the level by their boundary: keep it. A single
        # look is taken only when a result is read, so that until then nothing is spent.
        if standing.looks.evidence is None or (standing.looks.single_look and not single_look):
            horizons = () if single_look or not standing.horizon else (standing.horizon,)
            contents = self._contents
            standing.looks = Looks(
                single_look,
                horizons,
                pass_length=contents.pass_length,
                with_bank=contents.with_bank,
            )

    def _horizon(self) -> int | None:
        """Return the most items that a pair can get; None if that is all of them."""
        n_kept = int(self._contents.n_kept.sum())
        limits_of_items = [] if self._max_items is None else [self._turns.cap]
        if math.isfinite(self._accounts.budget):
            # A pair may take all of the budget; a known model takes none of it.
            n_payers = 2 if self._standing.references is None else 1
            limits_of_items.append(
                self._accounts.items_affordable(self._turns.warmup_items, n_payers)
            )
        # Not even all items make a pair of sampled models known in full: they are a limit, too.
        if self._sampled:
            return min([n_kept, *limits_of_items])
        horizon = min(limits_of_items, default=n_kept)
        return horizon if horizon < n_kept else None

    # -- the loop -----------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether nothing is in flight and nothing more would be asked."""
        return self._turns.done

    @property
    def in_flight(self) -> set[tuple[str, Any]]:
        """(model, item) pairs asked for and not yet told, failed or released."""
        return self._accounts.in_flight

    @property
    def decided(self) -> bool:
        """Whether the stopping rule's goal is met now, regardless of what is in flight.

        A ranking without a goal (only a budget, say) is never decided: it ends when it is `done`.
        """
        rule = self._turns.rule
        # Models are not compared before the warm-up is over.
        if not has_goal(rule) or self._turns.warming().any():
            return False
        return rule.met(self._standing)

    def ask(
        self,
        n: int = 1,
        model: str | None = None,
        among: Collection[str] | None = None,
        least_share: float = 0.0,
    ) -> list[tuple[str, Any]]:
        """Return the items to run next; they then count as in flight.

        Parameters
        ----------
        n : int, optional
            At most this many pairs.
        model : str, optional
            Return only items of this model, which then waits for no other.
        among : collection of str, optional
            Models that can take an item now; choose the best item among theirs.
        least_share : float, optional
            With `among`: return nothing while that choice is worth, for its price, less than this
            share of the best choice among all models.

        Returns
        -------
        list of (str, item)
            Empty while everything left is in flight or not worth it, and once the ranking is done.

        Examples
        --------
        >>> from lm_eval_ccat import ItemBank
        >>> ranker = Ranker(ItemBank.blank(range(50)), {"a": 1.0, "b": 1.0})
        >>> sorted({m for m, _ in ranker.ask(4)}), {m for m, _ in ranker.ask(4, among=["b"])}
        (['a', 'b'], {'b'})
        """
        only = None if model is None else self._accounts.of(model)
        models = None if among is None else self._accounts.numbers(among)
        asked: list[tuple[str, Any]] = []
        while len(asked) < n:
            turns = self._turns
            # A model that asks for itself runs at its own pace and competes with nobody.
            turn = turns.best(models, least_share) if only is None else turns.turn_of(only)
            if turn is None:
                break
            asked.append(self._record_ask(turn.model, self._turns.item(turn)))
        return asked

    def impose(self, pairs: Iterable[tuple[str, Any, float | None]]) -> None:
        """Mark pairs as asked, in place of `ask`: to replay a journal, for instance.

        Parameters
        ----------
        pairs : iterable of (str, item, float or None)
            Model, item, and the probability of its draw (None: the item was chosen).

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.impose([("a", 7, 0.01)])
        >>> ranker.in_flight
        {('a', 7)}
        """
        # All pairs are checked before the first is placed, so that a refusal changes nothing.
        choices: dict[tuple[int, int], Choice] = {}
        for model, item, probability in pairs:
            account = self._accounts.of(model)
            askable = (
                position
                for position in self._contents.positions_of(item)
                if account.available[position] and (account.number, position) not in choices
            )
            if (position := next(askable, None)) is None:
                raise UsageError(f"model {model!r} cannot be asked doc_id {item!r} again")
            choices[account.number, position] = Choice(position, probability)
        for (number, _), imposed in choices.items():
            self._record_ask(number, imposed)

    def _record_ask(self, number: int, choice: Choice) -> tuple[str, Any]:
        """Record that the model of a number was asked an item; return the names of both."""
        account = self._accounts[number]
        task, in_task = self._contents.task_and_position(choice.item)
        self._accounts.ask(account, choice.item, choice.probability)
        task.asked(number, in_task, choice.probability)
        name, item = account.name, self._contents.name_as_asked(choice.item)
        # If the ranking begins again without banks, this item counts as chosen: a bank drew it.
        self.join.note(self, "impose", ([(name, item, None)],), {})
        return name, item

    def _answer(self, model: str, item: Any, repeat: int | None) -> tuple[Account, int]:
        """Return a model's account and the position of an answer: by default the item's next."""
        account, contents = self._accounts.of(model), self._contents
        if repeat is not None:
            return account, contents.position(item, repeat)
        # By default an answer is the item's first that has neither score nor failure.
        answers = contents.positions_of(item)
        to_come = (
            position
            for position in answers
            if position not in account.scored and position not in account.failed
        )
        return account, next(to_come, answers[-1])

    @remembered
    def tell(
        self,
        model: str,
        item: Any,
        score: Any,
        cost: float | None = None,
        repeat: int | None = None,
    ) -> None:
        """Take in a score.

        Parameters
        ----------
        model : str
        item : doc_id, or (task, doc_id)
            Usually one that was asked for; a score that you already have may be told as well.
        score : float, or mapping of outcome to float
            On [0, 1], higher is better. An outcome may be missing (its judge failed, say).
        cost : float, optional
            What the answer really cost; default price x units. Such costs correct the price of
            the items to come.
        repeat : int, optional
            Which answer to the item it is, from 1; by default a bare doc_id's next one. Each is
            told once.

        Raises
        ------
        UsageError
            The model, item or outcome is unknown, or the item already has a score.
        ScaleError
            The score is not a number in [0, 1].

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> for model, item in ranker.ask(2):
        ...     ranker.tell(model, item, 0.5)
        >>> ranker.spent
        2.0
        """
        account, position = self._answer(model, item, repeat)
        task, in_task = self._contents.task_and_position(position)
        scores = task.read(model, in_task, self._contents.name(position), score)
        self._accounts.end(account, position, cost)
        task.told(account.number, in_task, scores)
        self._turns.answer_came()

    @remembered
    def fail(
        self,
        model: str,
        item: Any,
        reason: str,
        cost: float | None = None,
        repeat: int | None = None,
    ) -> None:
        """Record that a model failed on an item, which gets no score and is not asked again.

        `cost` is the cost of the attempt, by default nothing; `repeat` is that of `tell`.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> [(model, item)] = ranker.ask(1)
        >>> ranker.fail(model, item, "HTTP 400: the prompt is too long")
        >>> ranker.result().failed[model] == {item: "HTTP 400: the prompt is too long"}
        True
        """
        account, position = self._answer(model, item, repeat)
        task, in_task = self._contents.task_and_position(position)
        self._accounts.end(account, position, cost, str(reason))
        task.failed(account.number, in_task)
        self._turns.answer_came()

    @remembered
    def release(self, model: str, item: Any, repeat: int | None = None) -> None:
        """Give back an item that was asked for but not run.

        `repeat` is that of `tell`; default the first in flight.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> [(model, item)] = ranker.ask(1)
        >>> ranker.release(model, item)
        >>> ranker.in_flight
        set()
        """
        account, contents = self._accounts.of(model), self._contents
        positions: Sequence[int] = contents.positions_of(item)
        if repeat is not None:
            positions = [contents.position(item, repeat)]
        in_flight = (position for position in positions if position in account.pending)
        position = next(in_flight, positions[0])
        if position not in account.pending:
            raise UsageError(f"doc_id {item!r} of model {model!r} is not in flight")
        task, in_task = self._contents.task_and_position(position)
        self._accounts.release(account, position)
        task.released(account.number, in_task)

    @remembered
    def drop(self, model: str, reason: str = "set aside") -> None:
        """Set a model aside: it gets no more items, and no pair waits for it.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.drop("a", "its server is away")
        >>> ranker.result().set_aside
        {'a': 'its server is away'}
        """
        account = self._accounts.of(model)
        # What is in flight goes back, so that its budget serves the models that stay.
        for position in list(account.pending):
            self.release(model, self._contents.name_as_asked(position))
        self._accounts.set_aside(account, str(reason))

    @remembered
    def restore(self, model: str) -> None:
        """Take back a model that was set aside; it continues where it stopped.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.drop("a")
        >>> ranker.restore("a")
        >>> ranker.result().set_aside
        {}
        """
        self._accounts.set_aside(self._accounts.of(model), None)

    @remembered
    def stop(self, reason: str) -> None:
        """Stop asking (a deadline has passed, or a person pressed Ctrl-C).

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.stop("the time is up")
        >>> ranker.done, ranker.result().stopped_because
        (True, 'the time is up')
        """
        self._turns.stopped = str(reason)

    @remembered
    def lose(self, cost: float) -> None:
        """Lower the budget by the cost of an attempt that brought no answer.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"], budget=30)
        >>> ranker.lose(2.5)
        >>> ranker.budget
        27.5
        """
        self._accounts.lost += AT_LEAST_0.check(cost, "cost")
        self._accounts.note_change()
        self._set_looks()

    @remembered
    def bar(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Keep exactly these pairs of tested models open, whatever the evidence.

        No item is asked for their sake. ``bar(())`` lifts all bars.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.bar([("a", "b")])
        >>> ranker.decided
        False
        """
        self._standing.barred = {
            frozenset(self._accounts.of(name).name for name in pair) for pair in pairs
        }
        self._accounts.note_change()

    @remembered
    def change(
        self,
        *,
        budget: float | None = None,
        max_items: int | None = None,
        prices: Mapping[str, float] | None = None,
        add: Mapping[str, float] | None = None,
        stop: StoppingRule | str | None = None,
        elapsed: float | None = None,
        repeats: int | Mapping[str, int] | None = None,
    ) -> None:
        """Change a running ranking, and lift an earlier `stop`; arguments left out change nothing.

        Parameters
        ----------
        budget : float, optional
            New budget, infinite for none; it includes what is already spent.
        max_items : int, optional
            New limit of items per model.
        prices : mapping of str to float, optional
            New prices of one unit.
        add : mapping of str to float, optional
            Models that join, with their prices.
        stop : StoppingRule or str, optional
            New stopping rule, its limits included.
        elapsed : float, optional
            Seconds of the run so far, for the rule `Time`; given alone, it lifts no `stop`.
        repeats : int, or mapping of task to int, optional
            New limit of answers per item, not below the present one.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.change(budget=30, add={"c": 2.0})
        >>> ranker.budget, ranker.result().order
        (30.0, ['a', 'b', 'c'])
        """
        rule = self._turns.rule if stop is None else stopping_rule(stop)
        limits = self._new_limits(rule, budget, max_items, stop)
        add = {name: price_of(name, price) for name, price in (add or {}).items()}
        prices = {name: price_of(name, price) for name, price in (prices or {}).items()}
        self._require_new(add)
        for name in prices:
            self._accounts.of(name)
        references = self._standing.references
        n_known = len(references.names) if references else 0
        require_models_beyond_top(rule, len(self._accounts) + len(add) + n_known)
        if elapsed is not None:
            self._standing.elapsed = AT_LEAST_0.check(elapsed, "elapsed")
        if repeats is not None:
            # Repeats may be refused, which must leave the limits, models and prices unchanged.
            self.require_repeats(repeats, budget=budget, max_items=max_items, stop=stop)
            before = self._contents.n_kept
            moved_to = self._contents.raise_repeats(repeats, self._seed)
            self._accounts.grow(moved_to, self._contents.n_kept - before)
        raised = any(limit is not None for limit in (budget, max_items, stop, repeats))
        # A limit that is raised, or a model that joins, gives a stopped ranking something to do.
        if raised or prices or add:
            self._turns.stopped = None
        self._accounts.stated_budget, self._max_items = limits
        self._turns.rule = rule
        self._join(add)
        self._accounts.reprice(prices)
        self._turns.cap = self._cap()
        self._set_looks()
        if raised:
            self._standing.raise_horizon()

    def _new_limits(
        self,
        rule: StoppingRule,
        budget: float | None,
        max_items: int | None,
        stop: StoppingRule | str | None,
    ) -> Limits:
        """Return the limits in force after a change, whose rule is `rule`."""
        limits = tightest_limits(rule, budget, max_items)
        # A limit stays until it is stated anew, or a new rule replaces the old one and its limits.
        if budget is None and stop is None:
            limits = limits._replace(budget=self._accounts.stated_budget)
        if max_items is None and stop is None:
            limits = limits._replace(max_items=self._max_items)
        return limits

    def _require_new(self, names: Collection[str]) -> None:
        """Refuse to add models that are in the ranking, or known."""
        for name in names:
            if name in self._accounts.number_of:
                raise UsageError(f"model {name!r} is in this ranking already")
        if self._standing.references is not None:
            refuse_known(self._standing.references.names, names)

    def _join(self, add: Mapping[str, float]) -> None:
        """Add models, by their prices; the evidence is then looked at anew."""
        if add:
            self._standing.belief_at_look = None
        for name, price in add.items():
            self._accounts.add(name, price)
            for task in self._contents.tasks:
                task.add_model()

    def require_repeats(
        self,
        repeats: int | Mapping[str, int],
        *,
        budget: float | None = None,
        max_items: int | None = None,
        stop: StoppingRule | str | None = None,
    ) -> None:
        """Refuse, without changing anything, a number of repeats that `change` would refuse.

        Raises
        ------
        UsageError
            A number falls, answers are not sampled, the method asks every item once, or the limits
            do not pay one answer of every model to every item.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(30)), ["a", "b"], sampled=True)
        >>> ranker.require_repeats(8)
        """
        # Where items are repeated already, the checks below were passed when that began.
        was_repeated = self._contents.asks_repeatedly
        becomes = self._contents.checked_repeats(repeats)
        if was_repeated or max(becomes.values()) == 1:
            return
        if not self._sampled:
            raise UsageError(
                f"repeats {repeats}: this ranking is about single answers, as none is sampled or "
                "its question is 'run'; begin another one (sampled=True)"
            )
        rule = self._turns.rule if stop is None else stopping_rule(stop)
        limits = self._new_limits(rule, budget, max_items, stop)
        prices = {account.name: self._accounts.price(account) for account in self._accounts}
        left = max(limits.budget - self._accounts.lost, 0.0)
        self._require_a_pass(prices, limits._replace(budget=left))

    # -- what is known ------------------------------------------------------------------------

    @property
    def bank(self) -> ItemBank:
        """The bank; with several tasks, that of the first."""
        return self._contents.tasks[0].bank

    @property
    def budget(self) -> float:
        """Most that may be spent, less what `lose` recorded; infinite without a limit."""
        return self._accounts.budget

    @property
    def item_cap(self) -> int:
        """Most items that one model may get."""
        return self._turns.cap

    @property
    def spent(self) -> float:
        """Amount spent so far, without items in flight."""
        return self._accounts.spent

    @property
    def committed(self) -> float:
        """Amount spent so far, plus the expected cost of items in flight."""
        return self._accounts.committed

    def probability(self, model: str, item: Any, repeat: int = 1) -> float | None:
        """Return the probability with which `item` was drawn for `model`; None if it was not drawn.

        `repeat` is that of `tell`.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> [(model, item)] = ranker.ask(1)
        >>> 0 < ranker.probability(model, item) <= 1
        True
        """
        return self._accounts.of(model).probability(self._contents.position(item, repeat))

    @property
    def verdicts(self) -> Verdicts:
        """The verdicts on the models that take part."""
        return self._standing.current_verdicts

    def belief(self, question: str | None = None) -> Belief:
        """Return where all models stand, in the order given.

        `question` replaces the question of the ranking.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.belief().location.shape, ranker.belief().variance.shape
        ((2,), (2, 2))
        """
        return self._standing.belief(question or "")

    def estimate(self, model: str) -> tuple[float, float]:
        """Estimate the full-benchmark mean of one model, with its standard error, on [0, 1].

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> for model, item in ranker.ask(20):
        ...     ranker.tell(model, item, 0.25)
        >>> round(ranker.estimate("a")[0], 2)
        0.25
        """
        number, belief = self._accounts.of(model).number, self.belief().on_scores
        return float(belief.location[number]), float(belief.variance[number, number] ** 0.5)

    def shared_errors(self, model: str, group: str = "") -> dict[str, dict[str, float]]:
        """Return covariances of the errors of one model's tasks, on [0, 1], by task and other task.

        With `group`, those of the group's tasks, which the group's standard error contains. Empty
        if tasks are independent.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.shared_errors("a")  # one task shares nothing
        {}
        """
        number = self._accounts.of(model).number
        return self._builder.groups.get(group, self._standing.score).shared_errors(number)

    def expected(self, model: str) -> Floats:
        """Return one model's expected score on every item, on [0, 1], in bank order.

        Shape (n_items,); several tasks follow one another, each by its outcome of largest weight.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.expected("a").shape
        (100,)
        """
        number, tasks = self._accounts.of(model).number, self._contents.tasks
        return np.concatenate([task.leader.policy.expected(number) for task in tasks])

    def result(self, parts: bool = True) -> Ranking:
        """Return the current ranking; may be called at any time.

        Parameters
        ----------
        parts : bool, optional
            Whether to rank by each task, outcome and group as well, and to check which pairs also
            hold for items like these. False is faster if you call this often.

        Examples
        --------
        >>> ranker = Ranker(ItemBank.blank(range(100)), ["a", "b"])
        >>> ranker.result().decisions
        {('a', 'b'): 'open', ('b', 'a'): 'open'}
        """
        return self._builder.ranking(done=self.done, parts=parts)

    @property
    def signature(self) -> str:
        """One line with everything that a reader needs to reproduce the ranking."""
        return self._builder.signature
