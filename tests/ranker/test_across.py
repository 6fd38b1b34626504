"""A prior across tasks, and errors of a mean over them by models that banks were left without."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.belief import Belief
from lm_eval_ccat.methods.policy import AbilityEffects, Refusals
from lm_eval_ccat.ranker.across import (
    FEWEST_MODELS,
    PRIOR_MODELS,
    REFUSED,
    REFUSED_BESIDE_KNOWN,
    USUAL_FACTOR,
    KnownScores,
    PriorAcrossTasks,
    Replays,
    correlation,
    known_scores,
)

N_KNOWN, N_ITEMS = 30, 40


def abilities(x: np.ndarray) -> list[dict[str, float]]:
    return [{f"m{i}": float(v) for i, v in enumerate(column)} for column in x.T]


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(FEWEST_MODELS, 40))
def test_a_correlation_can_always_be_inverted_and_is_never_larger_than_found(seed, tasks, models):
    """Models that one task lacks do not count."""
    x = np.random.default_rng(seed).normal(size=(models, tasks)) + 0.5 * np.arange(models)[:, None]
    known = abilities(x)
    found = correlation([{**known[0], "stranger": 9.0}, *known[1:]])
    assert (np.diag(found) == 1.0).all() and (found == found.T).all()
    assert np.linalg.eigvalsh(found).min() > 0.0
    apart = ~np.eye(tasks, dtype=bool)
    assert (np.abs(found[apart]) <= np.abs(np.corrcoef(x.T)[apart]) + 1e-12).all()


def test_tasks_that_stand_apart_are_shrunk_to_none_and_kindred_ones_are_not():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 2))
    assert abs(correlation(abilities(x))[0, 1]) < 0.05
    assert correlation(abilities(x[: FEWEST_MODELS - 1])) is None
    assert correlation(abilities(np.ones((20, 2)))) is None
    few = rng.normal(size=(12, 8))  # by chance alone each pair correlates at about .3
    apart = ~np.eye(8, dtype=bool)
    found, by_chance = (r[apart] ** 2 for r in (correlation(abilities(few)), np.corrcoef(few.T)))
    assert found.mean() < 0.5 * by_chance.mean()
    x[:, 1] = x[:, 0] + 0.3 * rng.normal(size=400)
    assert correlation(abilities(x))[0, 1] == pytest.approx(np.corrcoef(x.T)[0, 1], abs=0.01)


def across(effects: list[AbilityEffects], r: np.ndarray) -> PriorAcrossTasks:
    def part(x: AbilityEffects) -> Any:
        policy = SimpleNamespace(ability_effects=lambda belief: x)
        scores = [{}] * len(x.ability)
        state = SimpleNamespace(policy=policy, belief=lambda *at: None, scores=scores)
        return SimpleNamespace(states=[state], changes=0)

    return PriorAcrossTasks({t: part(x) for t, x in enumerate(effects)}, r)


def test_abilities_are_those_of_the_normal_distribution_given_all_answers():
    """The same by the textbook's conditional distribution: answers are abilities plus noise."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3)) + rng.normal(size=(60, 1))
    r, p = correlation(abilities(x)), np.array([1.5, 0.7, 2.0])
    noise, seen = np.array([0.3, 1.0, 4.0]), np.array([1.0, -0.4, 0.2])
    prior = p[:, None] * r * p
    gain = prior @ np.linalg.inv(prior + np.diag(noise))
    mean, covariance = gain @ seen, prior - gain @ prior
    alone = p**2 / (p**2 + noise)
    slope, error, share = np.array([0.2, 0.1, 0.3]), np.array([0.05, 0.02, 0.4]), 0.75
    effects = [
        AbilityEffects(
            *(np.array([v]) for v in (alone[t] * seen[t], alone[t] * noise[t])),
            p[t] ** 2,
            *(np.array([v]) for v in (slope[t], error[t], share)),
        )
        for t in range(3)
    ]
    joint = across(effects, r)
    joint.refresh()
    assert joint.shift[:, 0] == pytest.approx(slope * (mean - alone * seen))
    w = np.array([0.5, 0.3, 0.2])
    hangs = np.sqrt(share * error / (alone * noise))
    expected = (w * hangs) @ covariance @ (w * hangs) - share * w**2 @ error
    assert joint.change_of_sum(w)[0] == pytest.approx(expected)


@pytest.fixture(scope="module")
def world():
    """Banks of three tasks, two of them of one ability and the third of another; new scores."""
    rng = np.random.default_rng(5)
    skill = rng.normal(size=(N_KNOWN + 2, 1))
    skill[-2:, 0] = 1.5, -1.5
    other = rng.permutation(skill[:, 0])[:, None]
    of = {"a": skill, "b": skill + 0.1 * rng.normal(size=skill.shape), "apart": other}
    names = [f"m{i}" for i in range(N_KNOWN)] + ["strong", "weak"]
    tables = {}
    for t, x in of.items():
        p = 1.0 / (1.0 + np.exp(-x - rng.normal(size=(1, N_ITEMS))))
        scores = (rng.uniform(size=p.shape) < p).astype(float)
        tables[t] = ScoreTable.from_arrays(scores, names, task=t)
    banks = {t: calibrate(x.select(names[:N_KNOWN])) for t, x in tables.items()}
    return banks, {t: x.select(["strong", "weak"]) for t, x in tables.items()}


def untried(bank):
    """Of too few models to leave any out: the prior is used without a trial."""
    report = {k: v for k, v in bank.provenance["report"].items() if k != "left_out"}
    return replace(bank, provenance={**bank.provenance, "report": report})


def told(world, across: bool, tasks=("a",), n: int = 25) -> Ranker:
    """A ranking in which the models have answered items of some tasks only."""
    banks, tables = {t: untried(b) for t, b in world[0].items()}, world[1]
    ranker = Ranker(banks, {"strong": 1.0, "weak": 1.0}, weights="equal", across=across)
    for t in tasks:
        for m, row in zip(tables[t].models, tables[t].scores):
            for i in range(n):
                ranker.tell(m, (t, i), float(row[i]))
    return ranker


def error_of_the_mean(ranker: Ranker, model: str) -> tuple[float, float, float]:
    """The stated error, that of independent tasks, and that of errors that are all alike."""
    found = ranker.result()
    alone = np.array([found.tasks[t].standard_errors[model] for t in found.tasks])
    return found.standard_errors[model], math.sqrt(alone @ alone) / 3.0, alone.sum() / 3.0


@pytest.mark.long
@pytest.mark.parametrize("across", [True, False])
def test_errors_and_what_they_share_make_the_error_of_the_mean(world, across):
    ranker = told(world, across, ("a", "b", "apart"), 4)
    shared = ranker.shared_errors("strong")
    stated, independent, _ = error_of_the_mean(ranker, "strong")
    both = sum(c for of in shared.values() for c in of.values())
    assert 9.0 * stated**2 == pytest.approx(9.0 * independent**2 + both)
    assert shared["a"]["b"] == pytest.approx(shared["b"]["a"])
    if across:
        assert shared["a"]["b"] > abs(shared["a"]["apart"])


@pytest.mark.long
def test_what_tasks_share_of_these_items_is_not_said_of_items_like_these(world):
    alone, together = (told(world, across, ("a", "b"), 12) for across in (False, True))
    wider, apart = (ranker.belief("population") for ranker in (together, alone))
    assert (wider.location == apart.location).all() and (wider.variance == apart.variance).all()
    assert (together.belief().location != alone.belief().location).all()


@pytest.mark.long
def test_a_model_beyond_all_banks_errs_to_the_same_side_in_every_task(world):
    """One that answers everything wrongly is beyond the banks; one that answers half is not."""
    banks = {t: untried(b) for t, b in world[0].items()}
    ranker = Ranker(banks, {"strong": 1.0, "weak": 1.0}, weights="equal", across=False)
    for task in banks:
        for item in range(24):
            ranker.tell("weak", (task, item), 0.0)
            ranker.tell("strong", (task, item), float(item % 2))
    stated, independent, alike = error_of_the_mean(ranker, "weak")
    assert independent < 0.7 * alike and stated > 0.9 * alike
    stated, independent, _ = error_of_the_mean(ranker, "strong")
    assert stated < 1.2 * independent


@pytest.mark.long
def test_an_interval_reaches_farther_only_where_it_lies_away_from_the_banks(world):
    banks = {task: untried(bank) for task, bank in world[0].items()}
    ranker = Ranker(banks, ["strong", "weak"], weights="equal", across=False)
    for task in banks:
        for item in range(24):
            ranker.tell("weak", (task, item), 0.0)
            ranker.tell("strong", (task, item), 1.0)
    rows = {row.name: row for row in ranker.result().models}
    for model, inner, outer in (("weak", 1, 0), ("strong", 0, 1)):
        stated, independent, _ = error_of_the_mean(ranker, model)
        sides = rows[model].estimate.end_shares
        assert sides[outer] == 1.0 and sides[inner] * stated == pytest.approx(independent)
        estimate = replace(rows[model].estimate, possible=(0.0, 1.0))
        wider, ends = (
            replace(estimate, end_shares=(1.0, 1.0)).interval(0.95),
            estimate.interval(0.95),
        )
        assert ends[outer] == wider[outer] and abs(ends[inner] - wider[inner]) > 0.01
    assert set(ranker.result().tasks["a"].models[0].estimate.end_shares) == {1.0}


def test_a_factor_below_1_does_not_lower_the_chance_that_a_model_is_beyond_the_banks(
    world, monkeypatch
):
    beliefs = {}
    for factor in (1.0, 0.25):
        monkeypatch.setattr(Replays, "factors", lambda *_, factor=factor: np.full(2, factor))
        ranker = Ranker(world[0], ["weak"], weights="equal", across=False)
        for task in world[0]:
            for item in range(9):
                ranker.tell("weak", (task, item), 0.0)
        beliefs[factor] = ranker.belief()
    excess = {factor: belief.beyond_banks[0, 0] for factor, belief in beliefs.items()}
    variance = {factor: beliefs[factor].variance[0, 0] - excess[factor] for factor in beliefs}
    assert variance[0.25] == pytest.approx(0.25 * variance[1.0])
    # Both ends are (1 - o) v + o V by the same o and V.
    chance = (excess[0.25] - excess[1.0]) / (variance[1.0] - variance[0.25])
    lowest = min(known_scores([*world[0].values()], np.full(3, 1.0 / 3.0)).values())
    away = (lowest - beliefs[1.0].location[0]) / variance[1.0] ** 0.5
    assert 0.1 < chance < 0.95 and chance == pytest.approx(ndtr(away))


def test_errors_of_tasks_are_opposite_as_far_as_a_factor_below_1_says(world, monkeypatch):
    monkeypatch.setattr(Replays, "factors", lambda *_: np.full(2, 0.5))
    ranker = Ranker(world[0], ["strong"], weights="equal", across=False)
    for task in world[0]:
        for item in range(24):
            ranker.tell("strong", (task, item), float(item % 2))
    stated, independent, _ = error_of_the_mean(ranker, "strong")
    both = sum(c for of in ranker.shared_errors("strong").values() for c in of.values())
    assert stated**2 == pytest.approx(0.5 * independent**2, rel=0.1)
    assert 9.0 * stated**2 == pytest.approx(9.0 * independent**2 + both)


def test_how_far_a_model_is_beyond_the_banks_is_told_by_its_mean_over_the_tasks_that_have_one():
    first = {f"m{i}": 0.1 + 0.05 * i for i in range(6)}
    second = {f"m{i}": 0.35 - 0.03 * i for i in range(6)} | {"other": 0.05}
    known = KnownScores.of([first, {}, second])
    assert known.places == [0, 2]
    assert known.mean_ends == pytest.approx([0.45, 0.55])  # of m0 and m5, the others between them
    location = np.array([[0.2, 0.3], [0.3, 0.3], [0.25, 0.27]])
    beyond = known.beyond(location.sum(axis=0), np.full(2, 0.02), location)
    assert beyond[0] == pytest.approx([0.5, 9.87e-10], rel=0.01)  # six errors above the weakest
    assert beyond[1] == pytest.approx([2.87e-7, 0.84134], rel=0.01)
    fewer = KnownScores.of([first, {f"x{i}": s for i, s in enumerate(second.values())}])
    assert fewer.mean_ends == pytest.approx([0.15, 0.7])  # the ends of the tasks
    assert KnownScores.of([first, {}]) is None


def test_only_tasks_of_one_metric_whose_banks_know_the_same_models_share_a_prior(world):
    banks, _ = world
    others = {"abilities": {f"x{i}": float(i) for i in range(20)}}
    strange = replace(banks["b"], provenance={**banks["b"].provenance, "report": others})
    for shown, tasks in (
        (banks, (0, 1, 2)),
        ({**banks, "b": strange}, None),
        ({**banks, "a": {"x": banks["a"], "y": banks["a"]}}, (1, 2)),
    ):
        found = PriorAcrossTasks.of(Ranker(shown, {"strong": 1.0})._contents.tasks)
        assert (found and found.tasks) == tasks


# -- errors of a mean over tasks ---------------------------------------------------------------


def test_errors_that_have_nothing_in_common_are_those_of_a_sum_by_hand(world):
    banks = list(world[0].values())
    replays, w = Replays.of(banks), np.array([0.5, 0.3, 0.2])
    squares, ratios = replays.sum_errors(w, None)
    for k, n in enumerate(replays.n):
        for m, name in enumerate(_left_out(banks[0])):
            rows = [_left_out(b)[name][str(int(n))] for b in banks]
            error = sum(x * row[0] for x, row in zip(w, rows))
            variance = sum(x * x * row[1] for x, row in zip(w, rows))
            df = variance**2 / sum((x * x * row[1]) ** 2 / row[2] for x, row in zip(w, rows))
            assert squares[k, m] == pytest.approx(error**2)
            assert ratios[k, m] == pytest.approx(error**2 / variance * (1.0 - 2.0 / df))
    _, late = replays.factors(w, None)
    n = ratios.shape[1]
    by_model = ratios[replays.n > 10].mean(axis=0)
    assert late == pytest.approx(
        (by_model.sum() + PRIOR_MODELS * USUAL_FACTOR) / (n + PRIOR_MODELS)
    )
    report = {**banks[2].provenance["report"], "left_out": {**_left_out(banks[2])}}
    last, first = list(report["left_out"])[-1], int(replays.n[0])
    stops = {n: row for n, row in report["left_out"][last].items() if n != str(first)}
    report["left_out"][last] = stops  # of one model in one bank
    fewer = [*banks[:2], replace(banks[2], provenance={"report": report})]
    assert Replays.of(fewer).n.tolist() == replays.n.tolist()[1:]


def test_the_error_of_a_mean_is_widened_by_the_factor_of_its_own_weights(world, monkeypatch):
    banks, tables = world

    def by_largest_weight(replays, weights, across):
        return np.array([1.0, 1.0 + weights.max()])

    monkeypatch.setattr(Replays, "factors", by_largest_weight)
    w = np.array([0.7, 0.1, 0.2])
    weights = dict(zip(banks, w.tolist()))
    ranker = Ranker(banks, ["strong"], weights=weights, across=False)
    for t in banks:
        for i in range(25):
            ranker.tell("strong", (t, i), float(tables[t].scores[0, i]))
    found = ranker.result()
    alone = sum((x * found.tasks[t].standard_errors["strong"]) ** 2 for t, x in weights.items())
    # A thousandth more, for the chance that the model is beyond all of the bank.
    assert found.standard_errors["strong"] ** 2 == pytest.approx(1.7 * alone, rel=0.002)


def _left_out(bank):
    return bank.provenance["report"]["left_out"]


@pytest.mark.parametrize(("share", "gains"), [(0.5, True), (0.0, False), (-0.5, False)])
def test_a_prior_across_tasks_is_used_where_the_models_left_out_gained_by_it(share, gains):
    rng, n_models = np.random.default_rng(2), 20
    rows = np.ones((2, 7, 2, n_models))
    rows[:, 0] = rng.normal(size=(2, 2, n_models))

    class Prior:
        """Takes away a share of each error."""

        tasks = (0, 1)

        def refresh(self) -> None:
            self.stop = iter(rows)

        def given_all(self, x, s):
            return np.zeros((n_models, 2, 2)), -share * next(self.stop)[0].T

    replays = Replays(np.array([5.0, 10.0]), rows)
    assert replays.gains(np.array([0.5, 0.5]), Prior()) is gains


def test_a_factor_below_1_is_that_of_means_and_not_of_their_differences():
    """Replays judge means; a model that errs less by itself need not differ by less."""
    rows = np.ones((2, 7, 2, 40))
    rows[:, 2] = 1e9  # degrees of freedom
    rows[0, 0], rows[1, 0] = 0.5, 1.0  # errors of both tasks, of variance 1
    replays = Replays(np.array([5.0, 20.0]), rows)
    factors = replays.factors(np.array([0.5, 0.5]), None)
    shrunk = (40.0 * np.array([0.5, 2.0]) + PRIOR_MODELS * USUAL_FACTOR) / (40.0 + PRIOR_MODELS)
    assert factors == pytest.approx(shrunk) and factors[0] < 1.0 < factors[1]
    for n_items, factor in zip((10, 40), factors):
        belief = Belief.independent([0.5, 0.4], [0.03, 0.02], n=[n_items] * 2, n_items=900)
        judged = replays.judge(belief, factors, 2).variance / belief.variance
        assert judged.diagonal() == pytest.approx(factor)
        assert judged[0, 1] == judged[1, 0] == pytest.approx(max(factor, 1.0))


@pytest.mark.parametrize("models, cases", [(6, [6, 6]), (40, [10, 25])])
def test_the_error_of_a_mean_rests_on_as_many_cases_as_were_left_out_of_its_tasks(models, cases):
    """Five groups of each task, but never more than there are models; and no more than stated."""
    belief = Belief.independent([0.5, 0.4], [0.03, 0.03], n=[99, 99], n_items=900)
    for n_tasks, n_cases in zip((2, 5), cases):
        replays = Replays(np.array([5.0]), np.ones((1, 7, n_tasks, models)))
        for df in (math.inf, 3.0):
            stated = replace(belief, df=np.full((2, 2), df))
            found = replays.judge(stated, np.ones(2), n_tasks).df
            assert (found == min(n_cases + PRIOR_MODELS - 2.0, df)).all()


def test_the_lower_end_of_a_mean_allows_for_the_refusals_that_all_tasks_leave_possible(world):
    """The mean square of their share, integrated over it, in place of one more score of 0."""
    banks, tables = world
    weights = {"a": 0.5, "b": 0.3, "apart": 0.2}
    ranker, board = (
        Ranker(banks, ["strong"], weights=weights, known=known) for known in (None, {"a": 0.5})
    )
    for task in banks:
        for item in range(20):
            score = tables[task].scores[0, item] * (item % 5 > 0)
            ranker.tell("strong", (task, item), float(score))
            board.tell("strong", (task, item), float(score))
    found = [task.states[0].policy.refusals(0) for task in ranker._contents.tasks]
    score, information = (sum(getattr(r, name) for r in found) for name in Refusals._fields[:2])
    effect = sum(w * r.effect for w, r in zip(weights.values(), found))

    def likely(share, refused):
        return math.exp(score * share - 0.5 * information * share**2 - 0.5 * (share / refused) ** 2)

    square, beside_known = (
        quad(lambda share, sd: share**2 * likely(share, sd), 0.0, 3.0, (refused,))[0]
        / quad(likely, 0.0, 3.0, (refused,))[0]
        for refused in (REFUSED, REFUSED_BESIDE_KNOWN)
    )
    assert board.belief().refusal_variance == pytest.approx(effect**2 * beside_known)
    result = ranker.result()
    estimate = result.models[0].estimate
    assert 0.01 < estimate.zero_loss == pytest.approx(effect * square**0.5)
    without, with_refusals = (
        replace(estimate, zero_loss=loss).interval(0.95) for loss in (0.0, estimate.zero_loss)
    )
    assert with_refusals[0] < without[0] and with_refusals[1] == without[1]
    # A single task's answers are too few: its lower end allows for one more score of 0.
    only = result.tasks["a"].models[0].estimate
    assert only.zero_loss == pytest.approx(only.mean / (-N_ITEMS * math.log(1.0 - 20 / N_ITEMS)))
