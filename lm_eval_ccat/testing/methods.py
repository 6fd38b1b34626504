"""A conformance suite for methods; see `MethodSuite`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from ..bank import ItemBank
from ..errors import BankError, UsageError
from ..methods import calibrate
from ..methods.belief import BENCHMARK, POPULATION, Belief
from ..methods.curves import fit_abilities
from ..methods.method import Method, method, method_of, names
from ..methods.policy import Policy
from ..metrics.scale import Floats
from ..ranker import Ranker
from ..scores import ScoreTable
from ..simulation import simulate


def example_table(n_models: int = 12, n_items: int = 40, seed: int = 0) -> ScoreTable:
    """Return scores in (0, 1) of clearly different models on clearly different items."""
    rng = np.random.default_rng(seed)
    skill = np.linspace(-1.2, 1.2, n_models)[:, None]
    mean = expit(skill + rng.normal(size=n_items)[None, :])
    raw = expit(logit(mean) + 0.4 * rng.normal(size=mean.shape))
    return ScoreTable.from_arrays(
        raw,
        models=[f"m{j:02d}" for j in range(n_models)],
        doc_ids=[f"d{i:02d}" for i in range(n_items)],
        doc_hashes=[f"h{i}" for i in range(n_items)],
        metric="toy",
        task="toy_task",
    )


class PolicyStep(NamedTuple):
    """A model's and an item's position, and the probability if the item was drawn at random."""

    model: int
    item: int
    probability: float | None


#: Banks that suites have calibrated, by suite and models left out.
_BANKS: dict[tuple[type, tuple[str, ...]], ItemBank] = {}


def follow(policy: Policy, scores: Floats, n_items: int) -> list[PolicyStep]:
    """Ask every model `n_items` items that the policy chooses, and tell it their scores.

    Parameters
    ----------
    policy : Policy
        May have been followed before; it then goes on.
    scores : ndarray of shape (n_models, n_items of the bank)
        Scores on [0, 1], which the policy is told item by item.
    n_items : int
        Further items per model; the models take turns.
    """
    price = np.ones(scores.shape[1])
    steps: list[PolicyStep] = []
    # A policy need not know what was asked: the suite notes it on the policy, for later calls.
    asked = policy.__dict__.setdefault("_asked_by_suite", [[] for _ in scores])
    for _ in range(n_items):
        for model, model_scores in enumerate(scores):
            available = np.ones(scores.shape[1], dtype=bool)
            available[asked[model]] = False
            [choice] = policy.next(model, available, [], price)
            policy.asked(model, choice.item, choice.probability)
            policy.told(model, choice.item, float(model_scores[choice.item]))
            asked[model].append(choice.item)
            steps.append(PolicyStep(model, choice.item, choice.probability))
    return steps


class MethodSuite:
    """Checks that every method must pass; derive from it and set `method`.

    Attributes
    ----------
    method : Method
        The method to test, registered or installed.
    error : float
        Largest error of an estimate, on [0, 1], after all items of `example_table`. Raise it for a
        method whose estimates are rough by design.
    """

    method: Method
    error = 0.1

    def table(self) -> ScoreTable:
        """Return the scores that the suite works on."""
        return example_table()

    def bank(self, leave_out: Sequence[str] = ("m02", "m06", "m09")) -> ItemBank:
        """Return a bank of all models but `leave_out`, calibrated once per suite."""
        key = type(self), tuple(leave_out)
        if key not in _BANKS:
            _BANKS[key] = calibrate(self.table().without(leave_out), self.method.name)
        return _BANKS[key]

    def new_scores(self) -> Floats:
        """Return the scores of the models left out of the bank."""
        return self.table().select(["m02", "m06", "m09"]).model_scores()

    # -- the object ---------------------------------------------------------------------------

    def test_it_is_found_by_its_name(self) -> None:
        assert method(self.method.name) is self.method
        assert self.method.name in names() and self.method.summary

    def test_an_unknown_option_is_refused_by_name(self) -> None:
        for make in (
            lambda: calibrate(self.table(), self.method.name, no_such_option=1),
            lambda: Ranker(self.bank(), {"a": 1.0}, no_such_option=1),
        ):
            assert "no_such_option" in str(_error_of(make, UsageError))

    # -- the bank -----------------------------------------------------------------------------

    def test_a_bank_comes_back_from_its_file_as_it_was(self) -> None:
        bank = self.bank()
        with tempfile.TemporaryDirectory() as folder:
            bank.save(Path(folder) / "a.bank.json")
            loaded = ItemBank.load(Path(folder) / "a.bank.json")
        assert loaded.sha256 == bank.sha256 and loaded.method == self.method.name
        assert method_of(loaded) is self.method
        scores = self.new_scores()
        first, second = (self.method.policy(item_bank, 3, seed=1) for item_bank in (bank, loaded))
        assert follow(first, scores, 5) == follow(second, scores, 5)
        assert np.allclose(first.belief().location, second.belief().location)

    def test_a_bank_that_lacks_a_part_is_refused_or_used_never_crashed_on(self) -> None:
        bank = self.bank()
        for part in ("parameters", "constants"):
            for name in getattr(bank, part):
                less = {key: value for key, value in getattr(bank, part).items() if key != name}
                changed: dict[str, Any] = {part: less}
                broken = replace(bank, **changed)
                try:
                    Ranker(broken, {"a": 1.0}).ask()
                except BankError:
                    pass

    # -- the policy ---------------------------------------------------------------------------

    def policy(self, n_models: int = 3, seed: int = 0) -> Policy:
        """Return a policy on `bank`."""
        return self.method.policy(self.bank(), n_models, seed=seed)

    def test_choosing_changes_nothing(self) -> None:
        policy, scores = self.policy(), self.new_scores()
        follow(policy, scores, 3)
        available = np.ones(scores.shape[1], dtype=bool)
        before = policy.belief()
        choices = [policy.next(0, available, [], np.ones(scores.shape[1])) for _ in range(3)]
        assert choices[0] == choices[1] == choices[2]
        assert _same(policy.belief(), before)

    def test_only_what_is_available_is_chosen_and_draws_have_a_probability(self) -> None:
        policy, n = self.policy(), self.new_scores().shape[1]
        for left in (1, 2, n):
            available = np.zeros(n, dtype=bool)
            available[n - left :] = True
            for k in (1, 3):
                choices = policy.next(0, available, [], np.ones(n), k)
                items = [choice.item for choice in choices]
                # A policy may choose fewer than k items, but none twice.
                assert 1 <= len(set(items)) == len(choices) <= k and available[items].all()
                assert all(
                    choice.probability is None or 0.0 < choice.probability <= 1.0
                    for choice in choices
                )

    def test_the_state_is_what_was_asked_and_told(self) -> None:
        scores = self.new_scores()
        live, rebuilt = self.policy(), self.policy()
        steps = follow(live, scores, 8)
        # So that `follow` goes on below as if it had asked these items.
        rebuilt.__dict__["_asked_by_suite"] = [
            [step.item for step in steps if step.model == model] for model in range(3)
        ]
        for model, item, probability in steps:
            rebuilt.asked(model, item, probability)
            rebuilt.told(model, item, float(scores[model, item]))
        assert _same(rebuilt.belief(), live.belief())
        assert follow(rebuilt, scores, 2) == follow(live, scores, 2)

    def test_what_is_known_makes_sense_at_every_look(self) -> None:
        policy, scores = self.policy(), self.new_scores()
        for _ in range(6):
            for question in (BENCHMARK, POPULATION):
                belief = policy.belief(question)
                assert belief.question == question and np.isfinite(belief.location).all()
                for matrix in (belief.variance, belief.df, belief.n):
                    assert matrix.shape == (3, 3) and np.allclose(matrix, matrix.T)
                    assert (matrix >= 0.0).all()
                assert ((belief.estimate >= 0.0) & (belief.estimate <= 1.0)).all()
            for j in range(3):
                expected = policy.expected(j)
                assert expected.shape == (scores.shape[1],)
                assert (expected >= 0.0).all() and (expected <= 1.0).all()
                description = policy.describe(j)
                assert np.isfinite((description.ability, description.ability_error)).all()
                # At twice the price an item must not be worth more. A method without priorities
                # lets models take turns.
                dear, cheap = (policy.priorities([j], [[]], [price]) for price in (2.0, 1.0))
                assert dear is None or cheap is None or dear[0] <= cheap[0]
            follow(policy, scores, 1)

    def test_a_score_outside_the_scale_or_twice_is_refused(self) -> None:
        policy = self.policy()
        for score in (-0.1, 1.1, float("nan")):
            _error_of(lambda score=score: policy.told(0, 0, score), ValueError)
        policy.asked(0, 0)
        policy.told(0, 0, 0.5)
        _error_of(lambda: policy.told(0, 0, 0.5), ValueError)

    def test_a_model_may_join_later(self) -> None:
        policy, scores = self.policy(2), self.new_scores()
        follow(policy, scores[:2], 3)
        policy.add_model()
        assert policy.belief().variance.shape == (3, 3)
        policy.asked(2, 0)
        policy.told(2, 0, float(scores[2, 0]))

    # -- the ranking --------------------------------------------------------------------------

    def rank(self, **options: Any) -> Ranker:
        """Rank the models left out of the bank until the ranking stops."""
        table, bank = self.table(), self.bank()
        names = ["m02", "m06", "m09"]
        ranker = Ranker(bank, dict.fromkeys(names, 1.0), **options)
        scores = dict(zip(names, table.select(names).model_scores()))
        while not ranker.done:
            pairs = ranker.ask(4)
            assert pairs and len(pairs) <= 4
            for model, item in pairs:
                ranker.tell(model, item, float(scores[model][bank.index[item]]))
        return ranker

    def test_models_that_differ_clearly_are_ranked_right(self) -> None:
        result = self.rank(stop="limits", max_items=self.table().n_items).result()
        assert result.order == ["m09", "m06", "m02"]
        truth = self.table().select(result.order).model_scores().mean(axis=1)
        # Results cut estimates to what the answers leave possible; the belief is the method's own.
        locations = result.verdicts.belief.on_scores.location
        estimates = dict(zip(result.verdicts.tested, locations.tolist()))
        for model, mean in zip(result.order, truth):
            assert abs(estimates[model] - mean) < self.error

    def test_a_ranking_is_the_same_each_time_and_keeps_to_its_budget(self) -> None:
        first, second = (self.rank(budget=45, seed=3).result() for _ in range(2))
        assert first.items == second.items and first.estimates == second.estimates
        assert sum(first.cost.values()) <= 45 and first.stopped_because

    def test_simulate_replays_it(self) -> None:
        replayed = simulate(self.table(), [self.method.name], folds=2, holdout=3, processes=1)
        tau = replayed.summary[self.method.name]["tau"]
        assert tau is not None and tau > 0.5

    # -- upkeep -------------------------------------------------------------------------------

    def test_item_curves_expect_more_of_better_models(self) -> None:
        # Curves, the expected score by ability, are what a method may lack.
        if not self.method.has_curves:
            return
        bank = self.bank()
        for curves in (self.method.curves(bank), self.method.tested_curves(bank)):
            low, high = curves.expected(np.array([-1.0, 1.0]))
            assert low.shape == (bank.n_items,) and high.mean() > low.mean()
            assert (curves.noise > 0.0).all()
        theta = fit_abilities(self.method.curves(bank), self.new_scores())
        assert np.isfinite(theta).all() and theta[0] < theta[1] < theta[2]


def _same(first: Belief, second: Belief) -> bool:
    """Whether two beliefs are equal to the last bit, in all that depends on what they were told."""
    parts = ("location", "variance", "df", "n")
    return all(np.array_equal(getattr(first, part), getattr(second, part)) for part in parts)


def _error_of(call: Any, kind: type[Exception]) -> Exception:
    """Return the error of a kind that a call raises; fail if it raises none."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")
