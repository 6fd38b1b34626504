"""Draws of known probability find out what the bank does not know, and say it without bias."""

import itertools
from dataclasses import fields, replace
from functools import cache
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from artificial import world
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t, ttest_ind

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.belief import _independent
from lm_eval_ccat.methods.default.departures import SCALES, UNKNOWN, VAGUE, posterior, spread
from lm_eval_ccat.methods.default.field import (
    EXCESS_ALONE,
    NU0,
    Field,
    ItemSequence,
    Joint,
    Moments,
    Move,
)
from lm_eval_ccat.methods.default.fit import model_of
from lm_eval_ccat.methods.default.method import UNLIKE, DefaultPolicy
from lm_eval_ccat.methods.sample.method import SamplePolicy


@cache
def tiny():
    return calibrate(world(12, 7, seed=2))


@pytest.mark.long
@settings(max_examples=2, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7), st.integers(0, 10**6))
def test_the_estimate_from_draws_is_unbiased_whatever_rule_chose(scores, rule):
    """Over all outcomes of three draws, exactly; the rule sees every score before."""
    model, n = model_of(tiny()), 7

    def expectation(path: list[tuple[int, float | None]]) -> float:
        field = Field(model, 1)
        for item, p in path:
            field.asked(0, item, p)
            field.learn(0, [item], [scores[item]])
        if sum(p is not None for _, p in path) == 3:
            return field.members[0].mean_by_draws().estimate
        left = np.flatnonzero(field.sequence.left)
        told = round(sum(scores[i] for i, _ in path), 6)
        if len(left) > 3 and hash((rule, told, len(path))) % 3 == 0:  # chooses, by what it saw
            item = int(left[hash((rule, told)) % len(left)])
            return expectation([*path, (item, None)])
        size = field.draw_sizes()[left]
        p = size / size.sum()
        return sum(q * expectation([*path, (int(i), float(q))]) for i, q in zip(left, p))

    assert expectation([]) == pytest.approx(sum(scores) / n, abs=1e-9)


@pytest.mark.long
def test_what_is_drawn_stands_for_the_items_that_are_held_back():
    """Over all ways of holding two of seven items back, and over all draws, exactly."""
    scores, found = np.array([0.1, 0.9, 0.4, 0.7, 0.2, 0.0, 1.0]), []
    for back in combinations(range(7), 2):
        kept = ~np.isin(np.arange(7), back)
        field = Field(model_of(replace(tiny(), kept=kept)), 1)
        assert (field.sequence.left == kept).all()
        # No score counts more than twice what it would in a simple random sample.
        assert (field.draw_sizes() >= 0.5 * field.draw_sizes().mean()).all()
        p = np.where(kept, field.draw_sizes(), 0.0)
        for item in np.flatnonzero(kept).tolist():
            one = Field(field.model, 1)
            one.asked(0, item, probability := float(p[item] / p.sum()))
            one.learn(0, [item], [scores[item]])
            found.append(probability * one.members[0].mean_by_draws().estimate)
    assert sum(found) / 21 == pytest.approx(scores.mean(), abs=1e-9)


@pytest.mark.long
def test_draws_are_as_frequent_as_they_state():
    size, count = np.array([1.0, 2.0, 5.0]), np.zeros((3, 3))
    for seed in range(2000):
        sequence = ItemSequence(3, seed)
        first, p = sequence.draw(size)
        sequence.append(first, p, 1.0)
        second, q = sequence.draw(size)
        count[first, second] += 1
        assert p == pytest.approx(size[first] / 8.0) and first != second
        assert q == pytest.approx(size[second] / (8.0 - size[first]))
    chance = np.outer(size / 8.0, size) / (8.0 - size[:, None])
    np.fill_diagonal(chance, 0.0)
    assert count / 2000 == pytest.approx(chance, abs=0.03)


def test_the_mean_of_even_draws_is_that_of_a_random_sample_whatever_level_the_bank_expected():
    """What the bank learns of a model's level between two draws makes neither count for more."""
    scores, sequence, totals, weights = np.array([0.2, 0.9, 0.4, 0.7]), ItemSequence(4, 0), [], []
    for item, level in enumerate((0.001, 0.1, 0.5)):
        totals.append(scores[:item].sum() + (4 - item) * scores[item])
        weights.append(sequence.weight(np.full(4, level)))
        sequence.append(item, 1.0 / (4 - item), weights[-1])
    assert np.average(totals, weights=weights) == pytest.approx(4 * scores[:3].mean())


@pytest.mark.parametrize("drawn", [[0, 1, 2], [0, 2], []])
def test_the_posterior_of_departures(drawn):
    M = np.array([[0.04, 0.02, 0.01], [0.02, 0.05, 0.03], [0.01, 0.03, 0.06]])
    T = np.diag([0.01, 0.02, 0.015]) + 0.001
    rbar, without = np.array([0.2, -0.1, 0.3]), np.setdiff1d(range(3), drawn)
    of_draws, D = T[np.ix_(drawn, drawn)], np.eye(3)[drawn]
    T[without, without], rbar[without] = UNKNOWN, 9.9
    mean, covariance = posterior(M, T, rbar)
    # Independent figures: the mixture summed directly, by densities of scipy's.
    from scipy.stats import invgamma, multivariate_normal

    weights, means, parts = [], [], []
    for s in SCALES:
        of_rbar = D @ (s * M) @ D.T + of_draws
        density = multivariate_normal.pdf(rbar[drawn], cov=of_rbar) if drawn else 1.0
        weights.append(invgamma.pdf(s, 2.5, scale=1.5) * s * density)
        gain = s * M @ D.T @ np.linalg.inv(of_rbar)
        means.append(gain @ rbar[drawn])
        parts.append(s * M - gain @ D @ (s * M))
    weights = np.array(weights) / sum(weights)
    assert mean == pytest.approx(weights @ means)
    expected = sum(w * (p + np.outer(m - mean, m - mean)) for w, p, m in zip(weights, parts, means))
    assert covariance == pytest.approx(expected)


def test_the_variance_of_a_difference_is_that_of_the_differences():
    draws = np.random.default_rng(0).multivariate_normal([0, 0, 0], np.eye(3) + 0.8, size=50)
    found = spread(np.cov(draws.T))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert found[i, j] == pytest.approx(np.var(draws[:, i] - draws[:, j], ddof=1))


def test_a_doubted_bank_promises_no_more_than_one_of_which_nothing_was_measured():
    narrow = replace(VAGUE, single=VAGUE.single / 9, pair=VAGUE.pair / 9, floor=0.0, df=60.0)
    wide = replace(VAGUE, single=VAGUE.single * 9, pair=VAGUE.pair * 9, floor=0.3, df=2.0)
    for measured, expected in ((narrow, VAGUE), (wide, wide)):
        found, other = measured.doubted().to_dict(), expected.to_dict()
        assert {key: found[key] for key in ("single", "pair", "floor", "df")} == {
            key: other[key] for key in ("single", "pair", "floor", "df")
        }


ABILITY = SimpleNamespace(z=[0.0], covariance=np.eye(1), slope=1.0, score=np.zeros(200))
DRAWN = ("drawn", "draw_weights", "draw_residuals", "draw_noises")
REST = dict(
    refresh=lambda d: None, estimate=0.5, open_variance=0.1, misfit=1.0, inflation=1.0, n_left=9,
    mean_residual=0.0, unseen_noise=0.1, score_variance=0.2,
)  # fmt: skip


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10_000))
def test_sums_over_draws_are_those_of_the_matrices(n_models, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(120).tolist()  # more draws than there is room for at first
    joint = Joint(120)
    c, e, noise = np.zeros((3, n_models, 120))
    for item in order:
        joint.add_draw(item)
    for a in range(n_models):
        joint.add_model()
        for q in sorted(rng.integers(1, 121, 2)):
            items = order[:q]
            values = rng.random(q), rng.normal(size=q), rng.random(q)
            c[a, items], e[a, items], noise[a, items] = values
            drawn = dict(zip(DRAWN, (np.array(items), *values)))
            member = SimpleNamespace(posterior=ABILITY, **drawn, **REST)
            joint.put(a, member, replace(VAGUE, noise=1.5, floor=0.02))
    x, sums = c * e, joint.sums
    assert sums.mean_residual == pytest.approx(x @ x.T)
    expected = c * np.sqrt(1.5 * noise + 0.02)
    assert sums.alike == pytest.approx(expected @ expected.T)
    assert sums.residual == pytest.approx((np.sqrt(c) * e) @ (np.sqrt(c) * e).T)
    gaps = x[:, None] - x
    gaps[range(n_models), range(n_models)] = x
    q = (c > 0.0).sum(axis=1)
    for a, b in itertools.product(range(n_models), repeat=2):
        few = min(q[a], q[b])
        squares, quartics = (gaps[a, b] ** 2).sum(), (gaps[a, b] ** 4).sum()
        scatter = quartics - squares**2 / few
        df = 2.0 * squares**2 / scatter if scatter > 0.0 else np.inf
        assert joint.df_of_draws(q.astype(float))[a, b] == pytest.approx(min(df, few - 1))


@pytest.mark.long
def test_degrees_of_freedom_of_draws_are_those_of_a_variance_of_differences():
    # Outside the field: of 4,000 samples of 50 draws of differences that are seldom not 0, the
    # variances scatter as those of a scaled chi squared with so many degrees of freedom.
    rng = np.random.default_rng(0)
    y = np.where(rng.random((4000, 50)) < 0.3, rng.normal(size=(4000, 50)), 0.0)
    variances = (y**2).sum(axis=1)
    df = 2.0 * variances.mean() ** 2 / variances.var()
    values = [_df_of(differences) for differences in y[:200]]
    assert np.median(values) == pytest.approx(df, rel=0.25)


def _df_of(differences):
    joint, drawn = Joint(120), np.arange(len(differences))
    for item in drawn:
        joint.add_draw(item)
    for values in (differences, np.zeros(len(differences))):
        joint.add_model()
        ones = np.ones(len(drawn))
        draws = dict(zip(DRAWN, (drawn, ones, values, ones)))
        member = SimpleNamespace(posterior=ABILITY, **draws, **REST)
        joint.put(len(joint.sums.alike) - 1, member, replace(VAGUE, floor=0.0))
    return joint.df_of_draws(np.full(2, float(len(drawn))))[0, 1]


@pytest.mark.long
def test_a_draw_that_is_given_back_weighs_nothing_when_its_item_is_chosen_later():
    scores = [0.3, 0.8, 0.1, 0.9, 0.5, 0.6, 0.2]

    def departure(given_back: bool) -> tuple[list[int], float]:
        field = Field(model_of(tiny()), 1)
        for item in (0, 1, 2):
            field.asked(0, item, 1.0 / (7 - item))
            field.learn(0, [item], [scores[item]])
        if given_back:
            field.asked(0, 4, 0.25)
            field.members[0].give_back(4)
        field.asked(0, 4, None)
        field.learn(0, [4], [scores[4]])
        member = field.members[0]
        member.refresh(field.model.departures)
        return member.drawn.tolist(), member.mean_residual

    assert departure(True) == departure(False) and departure(True)[0] == [0, 1, 2]


@pytest.mark.parametrize(
    ("inflation", "drawn", "n_drawn", "alone"),
    [
        (4.0, 0.002, 20, True),
        (1.0, 0.002, 20, False),
        (4.0, 0.1, 20, False),
        (4.0, 0.002, 3, False),
    ],
)
def test_draws_speak_alone_where_they_state_less_than_the_bank_and_they_together(
    inflation, drawn, n_drawn, alone
):
    """Two models, 60 of 100 items left: the mean of the draws has no other error than its own."""
    each, both = np.ones(2), np.eye(2)
    t, rbar = np.array([0.5, 0.4]), np.array([0.1, -0.1])
    moments = Moments(
        t, 0.01 * each, each, each, 60.0 * each, n_drawn * each, rbar, 0.0 * each, each, each,
        each, each, 0.04 * both, 0.001 * both, drawn * both, 20.0 * np.ones((2, 2)),
        2 * 0.04 * np.ones((2, 2)), 2 * drawn * np.ones((2, 2)),
    )  # fmt: skip
    departures = replace(VAGUE, inflation_of_pairs=inflation, df=60.0)
    belief = moments.result(departures, 100.0)
    of_draws = 0.6**2 * (2 * 0.04 / 60 + 2 * drawn)
    gap = belief.location[0] - belief.location[1]
    assert moments.rest_on_draws(departures, 100.0) == alone
    if alone:
        assert gap == pytest.approx(0.1 + 0.6 * 0.2)
        assert belief.variance[0, 1] == pytest.approx(of_draws)
        assert belief.df[0, 1] == n_drawn - 1
        assert belief.variance[0, 0] == pytest.approx(EXCESS_ALONE * of_draws / 2)
    else:
        assert 0.1 < gap < 0.1 + 0.6 * 0.2


@settings(max_examples=10, deadline=None)
@given(st.integers(10, 60), st.booleans(), st.integers(0, 1000))
def test_draws_of_equal_weight_tell_of_a_pair_what_random_items_tell(q, alike, seed):
    """The variance is that of the mean of paired differences, as the method `sample` states it."""
    rng = np.random.default_rng(seed)
    scores = np.clip(rng.normal(0.5, 0.2, (2, q)), 0.0, 1.0)
    scores[1] = scores[0] if alike else scores[1]
    n_items = 10 * q
    policy = SamplePolicy(ItemBank.blank(range(n_items)), 2)
    joint, drawn = Joint(120), np.arange(q)
    for item in range(q):
        joint.add_draw(item)
    for a in range(2):
        for item, score in zip(policy.sequence.order.tolist(), scores[a].tolist()):
            policy.told(a, item, score)
        joint.add_model()
        weights = np.full(q, 1.0 / q)
        residuals = scores[a] - scores[a].mean()
        draws = dict(zip(DRAWN, (drawn, weights, residuals, weights)))
        posterior = SimpleNamespace(**{**vars(ABILITY), "score": scores[a]})
        joint.put(a, SimpleNamespace(posterior=posterior, **draws, **REST), VAGUE)
    of_item, of_mean = joint.variances_by_draws(np.full(2, float(q)), scores.var(axis=1, ddof=1))
    left = n_items - q
    found = (left / n_items) ** 2 * (of_mean + of_item / left)[0, 1]
    assert found == pytest.approx(policy.belief().variance[0, 1], rel=0.02)


@pytest.mark.long
def test_a_model_that_refuses_items_is_known_less_well_from_its_first_answers_on():
    """Scores as the bank expects leave its variances alone; a tenth of refusals widens them."""
    values = world(31, 60, seed=3).model_scores()
    bank, scores = (
        calibrate(ScoreTable.from_arrays(values[:30], [f"m{k}" for k in range(30)], metric="acc")),
        values[30],
    )

    def variances(scores):
        field = Field(model_of(bank), 1, draws=False)
        for item in range(20):
            field.asked(0, item, None)
        field.learn(0, list(range(20)), scores[:20].tolist())
        moments = field.moments()
        return (
            float(moments.open_variance[0]),
            field.members[0].unseen_noise,
            field.members[0].misfit,
        )

    refusing = scores.copy()
    refusing[[3, 11]] = 0.0
    (v, noise, misfit), (wide_v, wide_noise, wide_misfit) = map(variances, (scores, refusing))
    assert misfit == pytest.approx(1.0, abs=0.3) and wide_misfit > 1.5 * misfit
    assert wide_v > v and wide_noise > noise


@pytest.mark.long
def test_what_two_models_refuse_is_known_of_neither_from_the_other():
    """Each refuses other items: what this adds to their variances, it adds to the difference."""
    values = world(32, 60, seed=3).model_scores()
    names = [f"m{k}" for k in range(30)]
    bank = calibrate(ScoreTable.from_arrays(values[:30], names, metric="acc"))
    refusing = values[30:].copy()
    refusing[0, [3, 11]] = refusing[1, [5, 17]] = 0.0
    field = Field(model_of(bank), 2, draws=False)
    for a in range(2):
        for item in range(20):
            field.asked(a, item, None)
        field.learn(a, list(range(20)), refusing[a, :20].tolist())
    found, departures = field.moments(), field.model.departures
    usual = departures.prior(found.open_variance, np.ones(2), found.estimate, found.inflation)
    added = (found.prior - usual).diagonal()
    assert added == pytest.approx(departures.single[0] * (found.misfit - 1.0) * found.open_variance)
    assert added.min() > 0.3 * usual.diagonal().min()
    assert (spread(found.prior) - spread(usual))[0, 1] == pytest.approx(added.sum())


@pytest.mark.long
@pytest.mark.parametrize("n_items", [10, 50])
def test_the_interval_of_a_model_that_refuses_items_holds_from_its_first_answers_on(n_items):
    """One in three of them has refused none of the first ten items: nothing shows it yet."""
    rng, held = np.random.default_rng(0), []
    values = np.clip(rng.normal(0.6, 0.05, (90, 1)) + rng.normal(0.0, 0.08, (90, 200)), 0.0, 1.0)
    bank = calibrate(ScoreTable.from_arrays(values[:30], [f"m{k}" for k in range(30)]))
    for k, scores in enumerate(values[30:] * (rng.random((60, 200)) > 0.1)):
        ranker = Ranker(bank, ["new"], max_items=n_items, stop="limits", looks="one", seed=k)
        while asked := ranker.ask():
            for model, item in asked:
                ranker.tell(model, item, float(scores[bank.index[item]]))
        low, high = ranker.result().interval("new")
        held.append(low <= scores.mean() <= high)
    assert np.mean(held) >= 0.93


def test_a_draw_with_an_item_in_flight_before_it_says_nothing_until_that_item_has_ended():
    """Its estimate needs the score on that item, or, if it failed, what was expected there."""
    field, score = Field(model_of(tiny()), 1), 0.9
    member = field.members[0]
    before = member.posterior.mu.copy()
    field.asked(0, 4, 0.25)
    field.asked(0, 2, 0.2)
    field.learn(0, [2], [score])
    assert member.mean_by_draws() is None
    member.stop_waiting(4)
    left = before.sum() - before[4] + member.posterior.mu[4]
    expected = (left + (score - before[2]) / 0.2) / 7
    assert member.mean_by_draws().estimate == pytest.approx(expected)


@pytest.mark.long
def test_as_few_models_like_those_of_the_bank_are_called_unlike_as_is_stated():
    """Departures beyond the quantile of either side are found, and none within it."""
    policy = DefaultPolicy(calibrate(world(12, 30, seed=2)), 1)
    for item in range(20):
        policy.asked(0, item, 1.0 / (30 - item))
        policy.told(0, item, 0.5)
    field = policy.fields[0]
    moments = field.moments()
    edge = t.isf(UNLIKE / 2.0, field.model.departures.df)
    for away, word in ((0.95, ""), (-0.95, ""), (1.05, "more"), (-1.05, "less")):
        variances = (moments.prior + moments.mean_covariance).diagonal()
        mean_residual = away * edge * np.sqrt(variances)
        field._moments = replace(moments, mean_residual=mean_residual)
        found = [text for text in policy.describe(0).findings if "is unlike" in text]
        assert len(found) == bool(word) and all(f" {word} than" in text for text in found)


@pytest.mark.parametrize(
    ("told", "positions", "n_items", "n_drawn", "move"),
    [
        ((5,), (1.2,), 5, 0, Move.DRAW),
        ((5,), (-1.2,), 5, 0, Move.DRAW),
        ((5,), (0.95,), 5, 0, Move.CHOOSE),  # near the edge is not beyond it
        ((4,), (1.2,), 5, 0, Move.CHOOSE),
        ((9, 4), (3.0, 0.0), 9, 0, Move.CHOOSE),  # of one of them too little is known
        ((12,), (0.0,), 11, 0, Move.DRAW),
        ((12,), (0.0,), 11, 1, Move.CHOOSE),  # a half of two are drawn
        ((12,), (0.0,), 12, 1, Move.DRAW),
    ],
)
def test_items_are_drawn_where_the_models_stand_and_as_often_as_the_bank_states(
    told, positions, n_items, n_drawn, move
):
    """Ten items are chosen first, then half are drawn, as the bank states."""
    field = Field(replace(model_of(tiny()), share=0.5), 0)
    field.members = [
        SimpleNamespace(n_told=n, position=place, refresh=lambda departures: None)
        for n, place in zip(told, positions)
    ]
    field.sequence.items, field.sequence.n_drawn = list(range(n_items)), n_drawn
    assert field.model.first == 10 and field._next_move() is move


def test_an_item_is_drawn_among_all_that_are_left_or_not_at_all():
    drawing = replace(model_of(tiny()), share=1.0)
    for seed in range(12):
        field = Field(drawing, 2, seed)
        # The second model was asked an item outside the sequence, in which it lags.
        for model, item in ((0, 0), (1, 5), (1, 0)):
            field.asked(model, item, None)
        [item], probability = field.next(1, np.isin(range(7), (1, 2, 3, 4, 6)))
        assert item in (1, 2, 3, 4, 6) and (probability is None or 0.0 < probability < 1.0)
    # Where its budget does not allow an item that is left, it gets none by chance.
    assert field.next(1, np.isin(range(7), (1, 2, 3, 4))).probability is None
    assert field.next(0, np.arange(7) > 0).probability is not None


@pytest.mark.parametrize(("prior", "drawn"), [(0.01, 0.01), (0.01, 0.002), (0.002, 0.01)])
def test_a_variance_is_as_sure_as_the_bank_and_the_draws_that_tell_it(prior, drawn):
    """Twice the inverse of the variance of what scatters as their chi-squares do, mean 1."""
    rng, of_model, of_pair = np.random.default_rng(0), np.full(1, 0.5), np.full((1, 1), 9.0)
    values = dict.fromkeys([figure.name for figure in fields(Moments)], of_model)
    values |= dict.fromkeys(("n_left", "n_draws"), np.full(1, 10.0))
    values |= {"mean_residual": np.zeros(1), "item_covariance": np.zeros((1, 1))}
    values |= {"mean_covariance": np.full((1, 1), drawn), "prior": np.full((1, 1), prior)}
    moments = Moments(**{**values, "df_of_draws": of_pair})
    [[found]] = moments._combined(replace(VAGUE, df=30.0), 20.0).df
    _, [[left]] = posterior(moments.prior, moments.mean_covariance, moments.mean_residual)
    share, n = left / prior, 400_000
    by_bank, by_draws = (rng.chisquare(df, n) / df for df in (30.0, NU0 + 9.0))
    assert found == pytest.approx(
        2.0 / np.var(share * by_bank + (1.0 - share) * by_draws), rel=0.03
    )


def test_the_freedom_of_a_sum_of_independent_means_is_that_of_welch_s_test():
    rng = np.random.default_rng(4)
    first, second = rng.normal(0, 1, 7), rng.normal(0, 3, 12)
    variance = np.array([sample.var(ddof=1) / len(sample) for sample in (first, second)])
    freedom = np.array([len(first) - 1.0, len(second) - 1.0])
    total, df = _independent(variance[:, None, None].copy(), freedom[:, None, None], np.ones(2))
    welch = ttest_ind(first, second, equal_var=False)
    assert df.item() == pytest.approx(welch.df)
    gap = first.mean() - second.mean()
    assert gap / np.sqrt(total.item()) == pytest.approx(welch.statistic)
