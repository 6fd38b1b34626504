"""The statistics of repeats, against the equations written down directly."""

from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ItemBank
from lm_eval_ccat.methods.method import method
from lm_eval_ccat.methods.sample.first_pass import FirstPassPolicy
from lm_eval_ccat.methods.sample.passes import Passes, RepeatedPairs, RepeatsPolicy
from lm_eval_ccat.methods.sample.repeats import RepeatSums

N_ITEMS, REPEATS = 6, 3


def reference(a, b, n_items):
    """D, v and degrees of freedom of two models' answers: NaN or a score by (repeat, item)."""
    both = np.isfinite(a) & np.isfinite(b)
    n = both.sum(axis=0)
    items = np.flatnonzero(n)
    k, d = len(items), (a - b)[both]
    u2 = (d**4).sum() / (d**2).sum() if d.any() else 1.0
    means = [np.array([x[both[:, i], i].mean() for i in items]) for x in (a, b)]
    each = means[0] - means[1]
    ss = sum(
        ((x[both[:, i], i] - x[both[:, i], i].mean()) ** 2).sum() for x in (a, b) for i in items
    )
    f, again, s2 = k / n_items, n.sum() - k, each.var(ddof=1)
    return each.mean(), s2, k, f, again, ss, u2, (1.0 / n[items]).sum()


def stated(parts, s2_at_first):
    mean, s2, k, f, again, ss, u2, inverse = parts
    s1 = s2_at_first + u2 / k
    sigma2 = (u2 / 2 + ss) / (u2 / (2 * s1) + again)
    between, within = (1 - f) * s2 / k, f * sigma2 * inverse / k**2
    share = between / (between + within)
    df = 1 / (share**2 / (k - 1) + (1 - share) ** 2 / (6 + 4 * ss / u2)) if again else k - 1
    return mean, between + within, df


@pytest.mark.long
@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("failing", [0.0, 0.15])
def test_sums_answer_by_answer_are_the_equations(graded: bool, failing: float) -> None:
    rng = np.random.default_rng([graded, int(100 * failing)])
    for _ in range(20):
        passes = Passes(np.arange(N_ITEMS), N_ITEMS, REPEATS, int(rng.integers(99)))
        pairs = RepeatedPairs(2, passes, N_ITEMS, REPEATS)
        told = np.full((2, N_ITEMS * REPEATS), np.nan)
        at_first = 0.0
        for slot in passes.order:
            for model in (0, 1):
                score = rng.random() if graded else float(rng.random() < 0.6)
                told[model, slot] = np.nan if rng.random() < failing else score
                pairs.record(model, int(slot), told[model, slot])
            a, b = told.reshape(2, REPEATS, N_ITEMS)
            if (np.isfinite(a) & np.isfinite(b)).any(axis=0).sum() < 2:
                continue
            parts = reference(a, b, N_ITEMS)
            at_first = at_first if parts[4] else parts[1]
            figures = pairs.repeat_sums.figures()
            found = [float(figure[1]) for figure in figures[:3]]
            assert found == pytest.approx(stated(parts, at_first), rel=1e-9)
            assert float(figures.difference[2]) == pytest.approx(-parts[0])
            population = pairs.repeat_sums.figures(population=True)
            assert float(population.variance[1]) == pytest.approx(
                max(parts[1] / parts[2], 1e-12), rel=1e-9
            )


def test_answers_tell_the_same_in_one_table_as_one_by_one() -> None:
    passes = Passes(np.arange(N_ITEMS), N_ITEMS, REPEATS, 1)
    pairs = RepeatedPairs(2, passes, N_ITEMS, REPEATS)
    told = np.random.default_rng(5).random((2, N_ITEMS * REPEATS))
    for slot in passes.order:
        for model in (0, 1):
            pairs.record(model, int(slot), told[model, slot])
    in_one = RepeatSums.of_answers(*told.reshape(2, REPEATS, N_ITEMS)).figures()
    for found, expected in zip(in_one, pairs.repeat_sums.figures(), strict=True):
        assert found[0] == pytest.approx(expected[1])


def test_a_pair_counts_the_prefix_that_both_have() -> None:
    """A model that is ahead adds nothing to a pair until the other one has the slot, too."""
    rng = np.random.default_rng(3)
    passes = Passes(np.arange(N_ITEMS), N_ITEMS, REPEATS, 1)
    scores = rng.random((2, N_ITEMS * REPEATS))
    together, apart = (RepeatedPairs(2, passes, N_ITEMS, REPEATS) for _ in range(2))
    for slot in passes.order[:9]:
        for model in (0, 1):
            together.record(model, int(slot), scores[model, slot])
    for model, n in ((0, 18), (1, 9)):
        for slot in passes.order[:n]:
            apart.record(model, int(slot), scores[model, slot])
    for one, other in zip(together.repeat_sums.figures(), apart.repeat_sums.figures()):
        assert one[1:3].tolist() == pytest.approx(other[1:3].tolist())
    assert apart.repeat_sums.answers.tolist() == [18.0, 9.0, 9.0, 9.0]


def test_a_model_that_joins_is_as_one_that_was_there() -> None:
    rng = np.random.default_rng(4)
    passes = Passes(np.arange(N_ITEMS), N_ITEMS, REPEATS, 1)
    scores = rng.random((3, N_ITEMS * REPEATS))
    there, joins = (RepeatedPairs(n, passes, N_ITEMS, REPEATS) for n in (3, 2))
    for slot in passes.order[:11]:
        for model in range(3):
            there.record(model, int(slot), scores[model, slot])
            if model < 2:
                joins.record(model, int(slot), scores[model, slot])
    joins.add_model()
    for slot in passes.order[:11]:
        joins.record(2, int(slot), scores[2, slot])
    for one, other in zip(there.repeat_sums.figures(), joins.repeat_sums.figures()):
        assert one.tolist() == pytest.approx(other.tolist())


def test_a_pass_has_every_item_once_and_draws_with_known_probability() -> None:
    passes = Passes(np.arange(N_ITEMS), N_ITEMS, REPEATS, 5)
    by_pass = passes.order.reshape(REPEATS, N_ITEMS)
    assert [sorted((slots % N_ITEMS).tolist()) for slots in by_pass] == [list(range(N_ITEMS))] * 3
    assert [(slots // N_ITEMS).tolist() for slots in by_pass] == [[r] * N_ITEMS for r in range(3)]
    assert len({tuple((slots % N_ITEMS).tolist()) for slots in by_pass}) > 1
    chances = [passes.probability(int(slot)) for slot in passes.order]
    assert chances == pytest.approx([1 / n for n in (6, 5, 4, 3, 2, 1)] * 3)


def test_the_first_pass_has_almost_no_finite_population_correction_and_repeats_bring_it() -> None:
    """Deterministic models differ for certain once repeats show that there is no noise."""
    scores = np.tile([1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0], 2)
    variances = []
    sums, series, none = RepeatSums(1, 10), np.array([0]), np.zeros(1)
    for slot, score in enumerate(np.tile(scores[:10], 8)):
        count = np.array([float(slot // 10)])
        one = np.array([score])
        sums.learn(series, one, none, count, one, none)
        variances.append(float(sums.figures().variance[0]))
    once = scores[:10].var(ddof=1) / 10
    assert 1.0 < variances[9] / once < 1.6
    assert variances[79] < 0.02 * once


def test_a_first_pass_ends_with_the_items_that_the_bank_keeps():
    kept = np.array([True, False, True, True, False, True])
    bank = replace(ItemBank.blank(range(6)), kept=kept)
    first = method("sample").policy(bank, 2, seed=0)
    policy = FirstPassPolicy(bank, 2, first, repeats=3)
    for model, scores in enumerate(([0.1, 0.9, 0.4, 0.6], [0.5, 0.2, 0.8, 0.3])):
        for item, score in zip(np.flatnonzero(kept).tolist(), scores):
            policy.asked(model, item, 0.5)
            policy.told(model, item, score)
    by_answers = policy.passes.belief()
    assert policy.belief().variance == pytest.approx(by_answers.variance)
    assert by_answers.variance != pytest.approx(first.belief().variance)


def test_an_imposed_slot_comes_after_those_that_any_model_is_done_with() -> None:
    """What pairs of a fast model have counted would not be a beginning of the passes any more."""
    policy = RepeatsPolicy(ItemBank.blank(range(6)), 2, repeats=2)
    order = policy.sequence.order.copy()
    for slot in order[:3].tolist():
        policy.told(0, slot, 0.5)
    policy.asked(1, int(order[5]), 0.2)
    assert policy.sequence.order[:4].tolist() == [*order[:3].tolist(), order[5]]


def test_a_pair_may_differ_by_all_until_two_items_tell_and_then_by_one_event_more() -> None:
    policy = RepeatsPolicy(ItemBank.blank(range(N_ITEMS)), 2, repeats=2)
    # A score of 0 or 1 varies by 1/4 at most, the difference of two by 1.
    assert policy.belief().variance.tolist() == [[0.25, 1.0], [1.0, 0.25]]
    for n, slot in enumerate(policy.sequence.order[:4], start=1):
        for model in (0, 1):
            policy.told(model, int(slot), float(model == 1 or n > 1))
        assert policy.belief().pair_zero_loss[0, 1] == 1.0 / n


def test_noise_is_stated_from_the_tenth_second_answer_on() -> None:
    """Of few, the noise of the items between them would be taken for that of answers."""
    policy = RepeatsPolicy(ItemBank.blank(range(12)), 1, repeats=2)
    scores = np.random.default_rng(0).random(24)
    stated = []
    for slot in policy.sequence.order.tolist():
        policy.told(0, slot, float(scores[slot]))
        stated.append(policy.describe(0).noise is not None)
    assert stated == [False] * 21 + [True] * 3


@pytest.mark.long
def test_a_model_with_fewer_answers_errs_by_what_corrects_its_mean() -> None:
    """Beside an unrelated model that is through the first pass, that is more than its own error."""
    n_items, ratios = 60, []
    for seed in range(150):
        scores = np.random.default_rng(seed).integers(0, 2, (2, n_items)).astype(float)
        policy = RepeatsPolicy(ItemBank.blank(range(n_items)), 2, repeats=2, seed=seed)
        for model, n in ((0, n_items), (1, 15)):
            for slot in policy.sequence.order[:n]:
                policy.told(model, int(slot), scores[model, slot])
        belief = policy.belief()
        error = belief.location[1] - scores[1].mean()
        ratios.append(error**2 / belief.variance[1, 1])
    assert 0.7 < np.mean(ratios) < 1.25
