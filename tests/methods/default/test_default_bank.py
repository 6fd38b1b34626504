"""Calibration by the method "default": what it must not depend on, refuse, and say of itself."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from artificial import world
from worlds.boards import drive

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import BankError, CcatError
from lm_eval_ccat.methods.default.departures import (
    PRIOR_DF,
    VAGUE,
    SquaredDepartures,
    fit_components,
)
from lm_eval_ccat.methods.default.fit import _config_noise, summary
from lm_eval_ccat.methods.default.items import (
    MANY,
    CurveFit,
    Unexplained,
    _item_noise,
    _means,
    fit_items,
    packed,
)
from lm_eval_ccat.methods.default.selfcheck import (
    Checkpoint,
    Excess,
    Group,
    Judged,
    _observed,
    departures_of,
    fit_departures,
    groups,
    inflation,
    left_out,
    replay_groups,
)
from lm_eval_ccat.scores.table import Overview


def table_of(scores: np.ndarray, **kwargs) -> ScoreTable:
    return ScoreTable.from_arrays(scores, models=[f"m{i}" for i in range(len(scores))], **kwargs)


def test_finds_the_items_that_are_noisy():
    rng = np.random.default_rng(1)
    mu = 1.0 / (1.0 + np.exp(-rng.normal(size=(40, 1)) - rng.normal(size=60)))
    size = np.r_[np.full(30, 3.0), np.full(30, 60.0)]
    noise = fit_items(rng.beta(size * mu, size * (1 - mu))).items.noise
    # The variance of a beta score is mu (1 - mu) / (size + 1).
    assert np.median(noise[:30]) == pytest.approx(1 / 4.0, rel=0.3)
    assert np.median(noise[30:]) < np.median(noise[:30]) / 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_models", "trust"), [(2, "no"), *((n, "with care") for n in (4, 5, 7)), (24, "yes")]
)
def test_says_in_words_whether_it_can_be_trusted(n_models, trust):
    bank = calibrate(world(n_models, 5 * n_models, second_skill=0.0))
    check = bank.self_check
    assert all(np.isfinite(v).all() for v in bank.parameters.values())
    assert check["trust"].startswith(trust) and bank.constants["departures"]["inflation"] >= 0.7
    assert any("models" in w for w in bank.warnings) == (check["trust"] in bank.warnings)
    assert (check["trust"] in bank.warnings) == (trust != "yes")
    if trust == "yes":
        assert check["models_left_out"] == 24
        assert 0.6 < check["z_rms"] < 1.5 and check["rms_error"] < 0.1


def test_a_bank_of_a_single_item_says_so():
    table = ScoreTable.from_arrays([[0.1], [0.5], [0.9]], ["a", "b", "c"])
    assert "3 models and 1 item are too few" in calibrate(table).self_check["trust"]


def test_a_bank_whose_errors_are_far_larger_than_stated_is_trusted_with_care():
    """Errors of ten left-out models after 30 items, beside the standard errors of the fit."""
    table, n = world(10, 60), np.full(10, 30.0)
    judged = Judged(np.arange(10.0), n, np.full(10, 0.1), n / 600, n, n, n, n)
    for factor, trust in ((1.9, "yes"), (2.1, "with care")):
        facts, warnings = summary(table, judged, replace(VAGUE, inflation=factor), {})
        assert facts["trust"].startswith(trust) and len(warnings) == (trust != "yes")
        assert facts["rms_standard_error"] == pytest.approx(0.05 * factor**0.5)


def test_an_error_within_1_96_standard_errors_is_covered_at_95_percent():
    n = np.full(10, 30.0)
    judged = Judged(np.arange(10.0), n, np.full(10, 0.09), n / 600, n * 1e6, n, n, n)
    facts, _ = summary(world(10, 60), judged, replace(VAGUE, inflation=1.0), {})
    assert facts["coverage_95"] == 1.0 and facts["z_rms"] == pytest.approx(1.8)


@pytest.mark.parametrize(("numbers", "quoted"), [([10, 20, 45], 20), ([5, 10], 10)])
def test_errors_are_quoted_from_twenty_items_or_from_the_most_there_are(numbers, quoted):
    n = np.repeat(np.array(numbers, dtype=float), 4)
    judged = Judged(np.tile(np.arange(4.0), len(numbers)), n, n / 1000, n / 500, n * 1e6, n, n, n)
    facts, _ = summary(world(10, 60), judged, replace(VAGUE, inflation=4.0), {})
    assert (facts["items"], facts["models_left_out"]) == (quoted, 4)
    assert facts["rms_error"] == pytest.approx(quoted / 1000)
    assert facts["rms_standard_error"] == pytest.approx(2 * quoted / 500)


@pytest.mark.long
def test_abilities_in_a_report_are_the_logits_of_mean_scores():
    table = world(9, 40)
    bank = calibrate(table)
    abilities = bank.provenance["report"]["abilities"]
    means = dict(zip(table.models, table.raw.mean(axis=1).tolist()))
    assert {m: 1 / (1 + np.exp(-x)) for m, x in abilities.items()} == pytest.approx(means)
    assert bank.constants["prior_sd"] == pytest.approx(1.5 * bank.constants["spread"])


@pytest.mark.parametrize(("n_models", "bends"), [(7, 0), (8, 1), (15, 2), (30, 3)])
def test_curves_bend_as_many_models_allow(n_models, bends):
    assert fit_items(world(n_models, 40).model_scores()).report["bends"] == bends


def test_a_model_that_ran_the_hard_items_alone_is_no_weak_model():
    """Scores are those of a model and of an item, added; each model lacks half of the items."""
    ease, skill = np.linspace(-0.3, 0.3, 60), np.linspace(-0.1, 0.1, 12)
    scores = 0.5 + skill[:, None] + ease
    scores[::2, 30:], scores[1::2, :30] = np.nan, np.nan
    scores[:2] = 0.5 + skill[:2, None] + ease  # two ran them all
    overview = Overview.of([(slice(None), scores.copy())], *scores.shape)
    means = _means(scores.__getitem__, overview)
    assert np.corrcoef(means, skill)[0, 1] > np.corrcoef(np.nanmean(scores, axis=1), skill)[0, 1]
    assert means == pytest.approx(0.5 + skill, abs=0.05)


@pytest.mark.long
def test_what_a_table_leaves_open_is_said_in_words():
    """Items alike for every model, and configurations: they are no models of their own."""
    base = world(9, 40).raw
    base[:, :4] = 1.0
    names, configs = zip(*((f"m{i}", str(c)) for i in range(9) for c in range(2)))
    table = ScoreTable.from_arrays(np.repeat(base, 2, axis=0), models=names, configs=configs)
    bank = calibrate(table)
    assert any(w.startswith("10% of the items have the same score") for w in bank.warnings)
    assert bank.self_check["models_left_out"] == 9
    with pytest.raises(CcatError, match="factors"):
        calibrate(table, factors=9)


def test_averages_over_configurations_take_noise_that_an_item_keeps():
    """Of two draws a model and item, the mean has half the variance within them."""
    rng = np.random.default_rng(0)
    mu = rng.uniform(0.3, 0.7, (20, 300))
    draws = mu + 0.1 * rng.choice([-1.0, 1.0], (2, 20, 300))
    names = [f"m{i}" for i in range(20)] * 2
    table = ScoreTable.from_arrays(np.vstack(draws), names, configs=["a"] * 20 + ["b"] * 20)
    removed = 0.1**2 / 2 / (draws.mean(axis=0) * (1 - draws.mean(axis=0))).mean()
    assert _config_noise(table) == pytest.approx(removed, rel=0.03)
    plain, wider = (fit_items(mu, config_noise=noise).items.noise for noise in (0.0, removed))
    assert wider - plain == pytest.approx(removed)


def test_left_out_models_are_judged_by_what_was_fitted_without_their_group():
    scores = world(8, 40).model_scores()
    sets = [Group(np.arange(k, 8, 2), np.arange(k, 8, 2)) for k in (0, 1)]
    checkpoints, known = replay_groups(scores, sets, 1, 0.0)
    wide = replace(known, single=9 * known.single, inflation=4.0)
    alone, mixed = (
        Judged.by(checkpoints, {0: known, 1: of_second, -1: of_all})
        for of_second, of_all in ((known, known), (wide, wide))
    )
    first = np.isin(alone.model, sets[0][0])
    assert (mixed.standard_error == alone.standard_error)[first].all()
    assert (mixed.standard_error > alone.standard_error)[~first].all()


def test_the_noise_of_an_item_is_that_of_the_same_scores_turned_round():
    """Right-or-wrong answers, whose noise is 1, also of items that nobody, or everybody, solves."""
    rng = np.random.default_rng(4)
    ease = np.r_[np.full(60, -4.5), np.linspace(-2, 2, 60), np.full(60, 4.5)]
    chance = 1.0 / (1.0 + np.exp(-rng.normal(size=(30, 1)) - ease))
    right = (rng.random(chance.shape) < chance).astype(float)
    noise, turned = (fit_items(scores, 0).items.noise for scores in (right, 1.0 - right))
    assert noise == pytest.approx(turned, rel=1e-6)
    alike = np.ptp(right, axis=0) == 0.0
    assert 20 < alike.sum() < 110 and 0.6 < noise[alike].min() < noise[alike].max() < 1.5


def test_curves_in_other_coordinates_leave_an_item_the_same_noise():
    """The degrees of freedom that a curve takes are a trace, which no basis changes."""
    rng, n_items, n_models = np.random.default_rng(0), 30, 12
    hessian = np.array([m @ m.T for m in rng.normal(size=(n_items, 2, 5))])
    inverse = np.linalg.inv(hessian + 0.5 * np.eye(2))
    other = np.array([[1.0, 0.8], [0.0, 1.0]])
    back, mean = np.linalg.inv(other), rng.uniform(0.2, 0.8, n_items)
    overview = SimpleNamespace(
        item_count=np.full(n_items, float(n_models)), item_sum=n_models * mean
    )
    noises = []
    for h, v in ((hessian, inverse), (other.T @ hessian @ other, back @ inverse @ back.T)):
        row, column = packed(2)[:2]
        coefficients = np.column_stack([np.log(mean / (1 - mean)), np.ones(n_items)])
        curves = CurveFit(coefficients, v[:, row, column], np.ones(n_models), 1.0, 1.0)
        mass = n_models * mean * (1 - mean)
        unexplained = Unexplained(np.zeros((n_items, 0)), 0.3 * mass, mass, h[:, row, column])
        noises.append(_item_noise(curves, unexplained, overview))
    assert noises[0] == pytest.approx(noises[1], rel=1e-9)


def test_models_and_pairs_are_each_widened_by_what_they_showed(monkeypatch):
    """Before draws by the prior, and counted as models; after draws by a factor, and as groups."""
    scores, names, counted = world(10, 40).model_scores(), [f"m{k}" for k in range(10)], []
    sets = [Group(np.arange(k, 10, 2), np.arange(k, 10, 2)) for k in (0, 1)]
    checkpoints, known = replay_groups(scores, sets, 1, 0.0)
    fitted = fit_departures(checkpoints, known, np.array([], dtype=int), many=False)

    def excess(judged, selects, n, usual=1.0):
        counted.append(n)
        return Excess(4.0, 9.0)

    monkeypatch.setattr(Judged, "excess", excess)
    found = departures_of(checkpoints, known, many=False, names=names).departures
    assert counted == [10, 2]
    assert found.single == pytest.approx(4.0 * fitted.single)
    assert found.pair == pytest.approx(9.0 * fitted.pair)
    assert (found.inflation, found.inflation_of_pairs) == (4.0, 9.0)


def test_a_bank_says_which_harness_and_data_its_scores_are_of():
    settings = {"lm_eval_version": "0.4.9", "dataset_path": "d", "dataset_revision": "r"}
    provenance = calibrate(replace(world(3, 12), settings=settings)).provenance
    assert provenance["harness"] == "0.4.9" and provenance["rows"] == 3
    assert provenance["dataset"] == {"path": "d", "name": None, "revision": "r"}


def test_groups_are_of_equal_sizes_and_those_left_over_are_dealt_one_to_each():
    mean = np.random.default_rng(0).random(23)
    left_out = [group.left_out for group in groups(mean, [f"own{i}" for i in range(23)])]
    assert sorted(len(models) for models in left_out[:5]) == [4, 4, 5, 5, 5]
    assert all((np.diff(mean[models]) < 0).all() for models in left_out)
    best_first = np.argsort(-mean)
    assert [models.tolist() for models in left_out[5:]] == [
        best_first[:4].tolist(),
        best_first[-4:].tolist(),
    ]


def test_mean_residuals_without_a_departure_have_none_squared_in_the_mean():
    """Correlated residuals on 50 items, nothing else: squares are what noise adds, and no more."""
    rng, n_left = np.random.default_rng(0), 50.0
    covariance = np.array([[1.0, 0.7, 0.0], [0.7, 1.0, -0.4], [0.0, -0.4, 2.0]])
    even = np.ones(3)
    moments = SimpleNamespace(
        estimate=0.5 * even, inflation=even, n_left=n_left * even, open_variance=even, misfit=even
    )
    squares = []
    for beta in rng.multivariate_normal(np.zeros(3), covariance / n_left, 1500):
        checkpoint = Checkpoint(np.arange(3), 0, 10, moments, even, beta, covariance, 0.5)
        found = _observed(checkpoint, np.array([], dtype=int))
        squares.append(np.hstack([found.of_models.square, found.of_pairs.square]))
    error = np.std(squares, axis=0) / np.sqrt(len(squares))
    assert (np.abs(np.mean(squares, axis=0)) < 3.5 * error).all()
    assert found.correlations == pytest.approx([0.7, 0.0, -0.4 / np.sqrt(2.0)])
    without = _observed(checkpoint, np.array([1]))
    assert without.of_models.key.tolist() == [0, 2] and len(without.of_pairs.key) == 1


def test_a_group_is_ranked_on_a_bank_of_the_other_models():
    scores = world(8, 40).model_scores()
    sets = [Group(np.arange(k, 8, 2), np.arange(k, 8, 2)) for k in (0, 1)]
    checkpoints, _ = replay_groups(scores, sets, 1, 0.0)
    for checkpoint in checkpoints:
        others = np.arange(1 - checkpoint.group, 8, 2)
        assert checkpoint.centre == pytest.approx(scores[others].mean())
        assert checkpoint.truth == pytest.approx(scores[checkpoint.models].mean(axis=1))


def test_the_self_check_leaves_families_out_together():
    mean = np.linspace(0.2, 0.8, 12)
    families = ["gpt", "llama", "qwen", *(f"own{i}" for i in range(6)), "gpt", "llama", "qwen"]
    together = groups(mean, families)[:-2]
    for family in ("gpt", "llama", "qwen"):
        own = {i for i, f in enumerate(families) if f == family}
        assert sum(bool(own & set(out.tolist())) for out, _ in together) == 1
    assert sorted(np.concatenate([out for out, _ in together]).tolist()) == list(range(12))
    # One name for all says nothing: the groups are then those of no families.
    alone, all_one = groups(mean, [*"abcdefghijkl"]), groups(mean, ["m"] * 12)
    assert all((a == b).all() for (a, _), (b, _) in zip(alone, all_one))


@pytest.mark.parametrize("last", ["qwen-7b", "llama-1b"])
def test_four_models_all_or_nearly_all_of_one_family(last):
    """What a family leaves over may be too little to calibrate on; the others are checked."""
    rng = np.random.default_rng(0)
    logit = rng.normal(size=60) - np.linspace(-1, 1, 4)[:, None] + 0.3 * rng.normal(size=(4, 60))
    names = ["llama-7b", "llama-13b", "llama-70b", last]
    bank = calibrate(ScoreTable.from_arrays(1 / (1 + np.exp(logit)), names))
    assert np.isfinite(bank.parameters["slope"]).all() and bank.constants["prior_sd"] > 0


def test_a_model_that_was_replayed_often_counts_once():
    found = inflation(np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 9.0]), 2)
    assert found == pytest.approx((2 * 5.0 + PRIOR_DF) / (2 + PRIOR_DF))


def test_what_replays_say_of_a_left_out_model_is_its_estimate_less_the_truth():
    scores, names = world(8, 40).model_scores(), [f"m{k}" for k in range(8)]
    checkpoints, known = replay_groups(scores, [Group(np.arange(4), np.arange(4))], 1, 0.0)
    records = left_out(checkpoints, {0: known}, names)
    for checkpoint in checkpoints:
        located = checkpoint.moments.result(replace(known, centre=checkpoint.centre), 40.0).location
        for k in range(4):
            error = located[k] - scores[k].mean()
            assert records[names[k]][str(checkpoint.n)][0] == pytest.approx(error, abs=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(("n_models", "share"), [(4, 0.8), (6, 0.4)])
def test_few_models_left_out_promise_no_more_than_they_can_show(n_models, share):
    departures = calibrate(world(n_models, 30)).constants["departures"]
    assert (departures["single"] >= share * VAGUE.single - 1e-6).all()


# -- hundreds of models ----------------------------------------------------------------------------

N = 60
TABLE = world(MANY + 8, N, second_skill=0.8)
NEW = TABLE.models[50:-50:14][:8]  # within what the others know


@cache
def many_bank():
    return calibrate(TABLE.without(NEW))


@pytest.mark.long
def test_their_bank_says_so():
    bank = many_bank()
    departures = bank.constants["departures"]
    assert len(bank.models) == MANY and bank.constants["draws"] == 0.2
    assert departures["single"][1:] == departures["pair"][1:] == [0.0, 0.0]
    with pytest.raises(BankError, match="share of draws"):
        Ranker(replace(bank, constants={**bank.constants, "draws": 3.0}), {"a": 1.0})


@pytest.mark.long
def test_the_share_of_draws_is_an_option():
    """Of all draws, if it is 1: what no model left out has confirmed chooses no item."""
    for bank in (calibrate(world(8, 30), draws=1.0), calibrate(world(3, 30))):
        ranker = Ranker(bank, {"m": 1.0, "n": 1.0}, max_items=12, stop="limits")
        found = drive(ranker, lambda model, item: 0.5)
        assert [len(draws) for draws in found.draws.values()] == [12, 12]
    with pytest.raises(CcatError, match="draws"):
        calibrate(world(8, 30), draws=1.5)


def test_departures_of_many_are_a_multiple_of_what_is_open():
    rng = np.random.default_rng(0)
    v = rng.uniform(0.001, 0.01, 4000)
    key = np.repeat(np.arange(800.0), 5)
    e2 = 3.0 * v * rng.standard_normal(4000) ** 2
    records = SquaredDepartures(key, e2, v, np.zeros(4000), np.ones(4000))
    c, m, g = fit_components(records, 800, many=True)
    assert c == pytest.approx(3.0, rel=0.1) and m == g == 0.0
    still = records._replace(square=np.zeros(4000))
    assert fit_components(still, 800, many=True)[0] == 1.4


@pytest.mark.parametrize("many", [True, False])
def test_the_same_departures_of_few_models_promise_less(many):
    v = np.full(400, 0.004)
    records = SquaredDepartures(np.arange(400.0), 2.0 * v, v, np.full(400, 0.01), np.ones(400))
    few, of_many = (
        float(np.array([0.004, 1.0, 0.01]) @ fit_components(records, n, many=many))
        for n in (6, 100_000)
    )
    assert of_many == pytest.approx(0.008, rel=0.01)  # as they are
    assert few > 1.1 * of_many


def test_a_factor_that_is_not_there_makes_no_item_surer():
    """Of eight models' noise one factor explains a part by chance; degrees of freedom return it."""
    noise, found = 0.05, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, ease = np.linspace(-1.5, 1.5, 8)[:, None], rng.normal(0, 0.7, size=100)
        mean = 1 / (1 + np.exp(-x - ease))
        precision = (
            1 / noise - 1
        )  # of a Beta distribution with the variance noise * mean (1 - mean)
        fit = fit_items(rng.beta(mean * precision, (1 - mean) * precision), factors=2)
        found += [fit.report["noise"]] * (fit.report["factors"] > 0)
    assert len(found) > 5 and np.mean(found) == pytest.approx(noise, rel=0.08)
