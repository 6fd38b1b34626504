"""What a plan says that items decide is what rankings decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from worlds.boards import draw

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.method import method_of
from lm_eval_ccat.ranker.looks import Looks
from lm_eval_ccat.simulation.newcomers import Newcomers
from lm_eval_ccat.simulation.power import Power, Spreads, spreads_of

N_ITEMS, ITEMS, RANKINGS = 300, 60, 40
FEW = 15  # rankings where nearly all, or hardly any, decide
NAMES = [f"m{n}" for n in range(20)]


@pytest.fixture(scope="module")
def world():
    """Right and wrong answers of models for a bank."""
    chance = draw(np.linspace(-1.2, 1.2, 20), N_ITEMS, seed=4, noise=0.0)
    return (np.random.default_rng(0).random(chance.shape) < chance).astype(float)


def share_decided(bank: ItemBank, gap: float, rankings: int = RANKINGS) -> float:
    """The share of rankings of two models, `gap` apart on the whole benchmark, that decide."""
    decided, skills = 0, np.linspace(0.0, 2.0, 200)
    means = draw(skills, N_ITEMS, seed=5, noise=0.0).mean(axis=1)
    skill = float(np.interp(gap, means - means[0], skills))
    chance = draw([0.5 * skill, -0.5 * skill], N_ITEMS, seed=6, noise=0.0)
    for seed in range(rankings):
        rng = np.random.default_rng([seed, 1])
        a, b = (rng.random(chance.shape) < chance).astype(float)
        # Chance alone makes the difference a little larger or smaller.
        while (off := a.mean() - b.mean() - gap) > 1.0 / N_ITEMS or off < 0.0:
            a[rng.choice(np.flatnonzero(a == (off > 0.0)))] = off < 0.0
        ranker = Ranker(bank, ["a", "b"], max_items=ITEMS, seed=seed)
        while pairs := ranker.ask(2):
            for model, item in pairs:
                ranker.tell(model, item, (a if model == "a" else b)[item])
        decided += ranker.result(parts=False).decisions["a", "b"] == "decided"
    return decided / rankings


@pytest.mark.long
def test_the_smallest_difference_is_decided_in_about_80_of_100_rankings(world):
    bank = calibrate(ScoreTable.from_arrays(world, [f"k{n}" for n in range(20)], task="t"))
    by_bank = Power.of_banks({"t": bank})
    blank = ItemBank.blank(range(N_ITEMS), task="t")
    at_random = Power.of_banks({"t": bank}, at_random=True)
    for of, power in ((bank, by_bank), (blank, at_random)):
        gap = power.smallest_difference(ITEMS)
        assert 0.6 < share_decided(of, gap) < 0.95  # a share of 40 rankings has an error of 0.07
        assert share_decided(of, 0.4 * gap, FEW) < 0.4


@pytest.mark.long
def test_no_bank_is_too_small_and_one_more_item_changes_little():
    """Of 8 items none is read, and reading after every eighth answer meets the last of 32."""
    chance = draw(np.linspace(-1.2, 1.2, 20), 33, seed=4, noise=0.1)

    def smallest(n_items: int, asked: int) -> float:
        table = ScoreTable.from_arrays(chance[:, :n_items], NAMES, task="t")
        return Power.of_banks({"t": calibrate(table)}).smallest_difference(asked)

    assert smallest(32, 25) == pytest.approx(smallest(33, 25), rel=0.25)
    assert smallest(8, 8) == 0.0 < smallest(8, 5)


@pytest.mark.long
def test_a_difference_outweighs_scores_of_0_that_are_still_to_come():
    """Two models that differ by the same on all items, and have no score of 0 so far."""
    graded = draw(np.linspace(0.8, 1.6, 20), N_ITEMS, seed=4, noise=0.1)
    bank = calibrate(ScoreTable.from_arrays(graded, NAMES, task="t"))
    gap = Power.of_banks({"t": bank}, at_random=True).smallest_difference(20)
    for share, decided in ((0.8, False), (1.2, True)):
        ranker = Ranker(ItemBank.blank(range(N_ITEMS)), ["a", "b"], max_items=20)
        while pairs := ranker.ask(2):
            for model, item in pairs:
                score = graded[10, item] - (0.0 if model == "a" else share * gap)
                ranker.tell(model, item, max(score, 0.0))
        assert (ranker.result(parts=False).decisions["a", "b"] == "decided") is decided


@pytest.mark.long
def test_random_items_take_what_the_formula_says():
    """The boundary of a ranking of at most n items, and 0.84 standard errors beyond it."""
    power = Power.of_random_items(Spreads.constant(0.4, 0.5), 1000)
    for n in (20, 100, 400):
        error = 0.4 * np.sqrt(1 / n - 1 / 1000)
        at = np.array([n - 1.0]), np.array([float(n)])
        looks = Looks(horizons=(n,), with_bank=False)
        reach = float(looks.half_width(0.05, *at, 1000)[0])
        assert power.smallest_difference(n) == pytest.approx((reach + 0.8416) * error, rel=1e-4)
    for gap in (0.3, 0.1, 0.02):
        n = power.items_for_difference(gap)
        assert power.smallest_difference(n) <= gap < power.smallest_difference(n - 1)
    assert power.items_for_difference(1e-9) == 1000 and power.smallest_difference(1000) == 0.0


def test_the_items_for_an_error_are_those_of_drawing_without_replacement():
    y = np.random.default_rng(0).normal(0.5, 0.2, 400)
    n = Power.of_random_items(Spreads.constant(0.1, float(y.std())), 400).items_for_error(0.02)
    assert y.var() * (1 / n - 1 / 400) <= 0.02**2 < y.var() * (1 / (n - 1) - 1 / 400)
    assert Power.of_random_items(Spreads.constant(0.1, 0.5), 400).items_for_error(0.0001) is None


def test_a_task_of_a_single_document_has_no_error_beyond_it():
    with np.errstate(all="raise"):
        power = Power.of_random_items(Spreads.constant(0.4, 0.5), 1)
    assert power.smallest_difference(1) == 0.0 and power.items_for_difference(0.1) == 1


@pytest.mark.long
def test_spreads_over_items_are_those_of_the_models_of_the_bank(world):
    newcomers = Newcomers.if_possible({"t": calibrate(ScoreTable.from_arrays(world, NAMES))})
    spreads = spreads_of(newcomers)
    assert spreads.score == pytest.approx(world.var(axis=1).mean() ** 0.5, rel=0.05)
    # Two models that are about as good differ on single items as much as two of the bank do.
    pairs = [
        a - b for n, a in enumerate(world) for b in world[:n] if abs(a.mean() - b.mean()) < 0.1
    ]
    assert spreads.of_pairs_apart(0.0).mean() == pytest.approx(
        np.std(pairs, axis=1).mean(), rel=0.1
    )


@pytest.mark.long
def test_newcomers_score_as_the_models_of_the_bank_did(world):
    chance = draw(np.linspace(-1.2, 1.2, 20), N_ITEMS, seed=4, noise=0.0)
    graded = np.random.default_rng(1).binomial(9, chance) / 9
    for scores in (world, graded):
        newcomers = Newcomers.if_possible({"t": calibrate(ScoreTable.from_arrays(scores, NAMES))})
        rng = np.random.default_rng(0)
        made_up = np.array([newcomers.scores(rng)["t"] for _ in range(400)])
        means, of_models = made_up.mean(axis=1), scores.mean(axis=1)
        assert means.mean() == pytest.approx(of_models.mean(), abs=0.03)
        assert means.std() == pytest.approx(of_models.std(), rel=0.15)
        # Two models differ as much on single items as two of the bank that are as far apart.
        assert np.corrcoef(made_up.mean(axis=0), scores.mean(axis=0))[0, 1] > 0.9
        spread = (made_up[:200] - made_up[200:]).var(axis=1).mean()
        pairs = [np.var(a - b) for n, a in enumerate(scores) for b in scores[:n]]
        assert spread == pytest.approx(np.mean(pairs), rel=0.15)


def with_abilities(bank, **abilities):
    """A bank whose report states these models, by their abilities from the bank's origin."""
    origin, provenance = method_of(bank).curves(bank).origin, bank.provenance
    stated = {model: origin + ability for model, ability in abilities.items()}
    report = {**provenance["report"], "abilities": stated}
    return replace(bank, provenance={**provenance, "report": report})


def level_and_spread(bank, other):
    """Mean of newcomers' scores, and their spread without the noise of answers.

    Answers to two tasks have noise of their own; the ability is one.
    """
    newcomers, rng = Newcomers({"t": bank, "u": other}), np.random.default_rng(0)
    means = [[s.mean() for s in newcomers.scores(rng).values()] for _ in range(800)]
    return np.mean(means), np.cov(np.transpose(means))[0, 1] ** 0.5


@pytest.mark.long
def test_newcomers_spread_as_the_few_models_do_that_they_are_drawn_from():
    chance = draw(np.linspace(-1.2, 1.2, 20) + 1.5, N_ITEMS, seed=4, noise=0.0)
    hit = (np.random.default_rng(0).random(chance.shape) < chance).astype(float)
    whole = calibrate(ScoreTable.from_arrays(hit, NAMES))
    abilities = {"a": -0.4, "b": 0.0, "c": 0.4}
    of_models = method_of(whole).curves(whole).expected(np.array([*abilities.values()]))
    of_models = of_models.mean(axis=1)
    bank = with_abilities(whole, **abilities)
    level, spread = level_and_spread(bank, bank)
    assert level == pytest.approx(of_models.mean(), abs=0.01)
    assert spread == pytest.approx(of_models.std(), rel=0.08)
    # One model that both banks have is no field of models: each bank's own are drawn from.
    other = with_abilities(whole, c=-0.4, d=0.0, e=0.4)
    level, spread = level_and_spread(bank, other)
    assert level == pytest.approx(of_models.mean(), abs=0.01)
    assert spread == pytest.approx(of_models.std(), rel=0.08)


@pytest.mark.long
def test_the_same_newcomer_answers_all_tasks(world):
    bank = calibrate(ScoreTable.from_arrays(world, NAMES))
    newcomers, rng = Newcomers.if_possible({"t": bank, "u": bank}), np.random.default_rng(0)
    means = np.array([[s.mean() for s in newcomers.scores(rng).values()] for _ in range(100)])
    assert np.corrcoef(means.T)[0, 1] > 0.95
    assert Newcomers.if_possible({"t": bank, "u": ItemBank.blank(range(9))}) is None


@pytest.mark.long
def test_one_sampled_answer_to_every_item_decides_only_large_differences():
    """All items asked once leave the noise of answers, so that no difference becomes exact."""
    p, n_items = 0.5, 60
    power = Power.of_random_items(
        Spreads.constant((2 * p * (1 - p)) ** 0.5, 0.5), n_items, sampled=True
    )
    gap = power.smallest_difference(n_items)
    assert (
        power.items_for_difference(0.9 * gap) is None
        and power.items_for_difference(1.1 * gap) <= n_items
    )
    assert power.items_for_error(0.5 / n_items**0.5 * 1.001) == n_items
    rng, decided = np.random.default_rng(3), 0
    for _ in range(RANKINGS):
        ranker = Ranker(ItemBank.blank(range(n_items)), ["a", "b"], sampled=True)
        while pairs := ranker.ask(8):
            for model, item in pairs:
                skill = p + gap / 2 if model == "a" else p - gap / 2
                ranker.tell(model, item, float(rng.random() < skill))
        decided += ranker.result(parts=False).decisions["a", "b"] == "decided"
    assert 0.65 < decided / RANKINGS < 0.95
