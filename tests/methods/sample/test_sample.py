"""The method "sample": what it says of models from shared random items, and how sure it may be."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom
from worlds.boards import drive

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.methods.belief import Gaps, as_of_many, tail
from lm_eval_ccat.methods.sample.bets import FEWEST_ITEMS, Betting, betting_interval
from lm_eval_ccat.methods.sample.effects import Effects
from lm_eval_ccat.methods.sample.method import EASE, SamplePolicy
from lm_eval_ccat.methods.sample.pairs import SharedSequence, Sums
from lm_eval_ccat.ranker.looks import Looks
from lm_eval_ccat.ranker.verdicts import DECIDED, EQUIVALENT, Verdicts


def policy(n_items: int, n_models: int, **options) -> SamplePolicy:
    bank = ItemBank.blank(range(n_items), task="t", metric="acc")
    return SamplePolicy(bank, n_models, **options)


def give(p: SamplePolicy, scores: np.ndarray, model: int, times: int = 1) -> None:
    """The next items of the sequence to one model; NaN is a failure."""
    for _ in range(times):
        left = ~p.pairs.done[model]
        [choice] = p.next(model, left, (), np.ones(scores.shape[1]))
        p.asked(model, choice.item, choice.probability)
        score = scores[model, choice.item]
        if np.isnan(score):
            p.failed(model, choice.item)
        else:
            p.told(model, choice.item, float(score))


def verdicts(p: SamplePolicy, confidence=0.95, d=0.0, familywise=False) -> Verdicts:
    """What a first look at a policy decides."""
    belief = p.belief()
    looks = Looks().after(belief, 1.0 - confidence, d)
    names = [f"m{j}" for j in range(len(belief.location))]
    return Verdicts(belief, looks, names, confidence, min_difference=d, familywise=familywise)


def answers(seed: int, n_models: int, n_items: int, kind: str = "binary") -> np.ndarray:
    rng = np.random.default_rng(seed)
    skill = rng.uniform(0.2, 0.8, n_models)[:, None]
    ease = rng.normal(0.0, 0.2, n_items)
    if kind == "binary":
        return (rng.random((n_models, n_items)) < skill + ease).astype(float)
    return np.clip(skill + ease + rng.normal(0.0, 0.1, (n_models, n_items)), 0.0, 1.0)


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_items=st.integers(2, 40),
    kind=st.sampled_from(["binary", "continuous"]),
    guarantee=st.sampled_from(["asymptotic", "finite"]),
)
def test_seen_in_full_everything_is_known(seed, n_items, kind, guarantee):
    y = answers(seed, 3, n_items, kind)
    p = policy(n_items, 3, seed=seed, guarantee=guarantee)
    for model in (1, 0, 2):
        give(p, y, model, n_items)
    mean, belief = y.mean(axis=1), p.belief()
    found = verdicts(p)
    assert belief.location == pytest.approx(mean, abs=1e-9)
    assert belief.variance == pytest.approx(np.zeros((3, 3)), abs=1e-9)
    for j in range(3):
        for i in range(j):
            tied = abs(mean[i] - mean[j]) < 1e-12
            assert found.state[i, j] == (EQUIVALENT if tied else DECIDED)
            assert found.better[i, j] == (0.5 if tied else float(mean[i] > mean[j]))


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6), guarantee=st.sampled_from(["asymptotic", "finite"]))
def test_the_order_of_the_models_does_not_matter(seed, guarantee):
    y, turn = answers(seed, 4, 90), np.random.default_rng(seed).permutation(4)
    p, q = (policy(90, 4, seed=7, guarantee=guarantee) for _ in range(2))
    for k, n in enumerate((60, 35, 80, 50)):
        give(p, y, k, n)
    for k in np.argsort(turn):
        give(q, y[turn], int(k), (60, 35, 80, 50)[turn[k]])
    one, other = p.belief().only(turn), q.belief()
    i, j = np.indices((4, 4))
    if guarantee == "finite":
        np.testing.assert_allclose(one.proof.at(i, j), other.proof.at(i, j), atol=1e-9)
    for part in ("location", "variance", "df"):
        np.testing.assert_allclose(getattr(one, part), getattr(other, part), atol=1e-9)


def test_a_score_that_is_not_there_is_expected_as_the_sum_of_the_effects():
    """Scores that are sums of effects are found again wherever models and items hang together."""
    ability, ease = np.array([-0.1, 0.0, 0.25]), np.array([0.3, 0.6, 0.4, 0.5, 0.7, 0.2])
    scores = ability[:, None] + ease
    effects = Effects(3, 7)  # the last item is nobody's
    for model, items in enumerate(([0, 1, 2], [2, 3, 4], [4, 5])):
        for item in items:
            effects.learn(model, item, scores[model, item])
    for model in range(3):
        expected = effects.expected(model)
        assert expected[:6] == pytest.approx(scores[model])
        assert expected[6] == pytest.approx(scores[model].mean())


def test_a_model_without_an_item_of_the_others_may_have_any_mean():
    scores = np.array([[0.5, 0.6, 0.4, 0.5, 0.6, 0.4], [0.2, 0.4, 0.3, 0.2, 0.4, 0.3]])
    p = policy(6, 2)
    for item in p.sequence.order[:4]:
        p.failed(0, int(item))
        p.told(1, int(item), float(scores[1, item]))
    p.told(0, int(p.sequence.order[4]), 0.5)
    assert p.belief().variance[0, 0] >= 1.0


@pytest.mark.long
def test_a_model_with_fewer_items_errs_by_what_is_stated():
    """Its mean is corrected by a model that errs, too."""
    ratios = []
    for seed in range(100):
        y, p = answers(seed, 2, 60, "graded"), policy(60, 2, seed=seed)
        for model, n in enumerate((40, 8)):
            for item in p.sequence.order[:n]:
                p.told(model, int(item), float(y[model, item]))
        belief = p.belief()
        ratios.append((belief.location[1] - y[1].mean()) ** 2 / belief.variance[1, 1])
    assert 0.6 < np.mean(ratios) < 1.6


def test_answers_that_come_back_early_wait_for_those_before_them():
    """Else quick answers would be a sample of what is quick to answer."""
    y = answers(5, 2, 100)
    p = policy(100, 2)
    give(p, y, 0, 40)
    order = p.sequence.order[:40]
    for item in order[1:]:
        p.asked(1, int(item), 0.01)
        p.told(1, int(item), y[1, item])
    assert p.pairs.sums.items(np.array([1]))[0] == 0
    p.asked(1, int(order[0]), 0.01)
    p.told(1, int(order[0]), y[1, order[0]])
    assert p.pairs.sums.items(np.array([1]))[0] == 40


def eased(ease: np.ndarray, seed: int = 0, n_models: int = 1) -> SamplePolicy:
    bank = ItemBank.blank(range(len(ease)), task="t", metric="acc")
    return SamplePolicy(replace(bank, parameters={EASE: ease}), n_models, seed=seed)


@pytest.mark.long
@pytest.mark.parametrize("relevant", [1.0, 0.0])
def test_the_error_of_a_mean_beside_ease_is_that_of_its_estimates(relevant):
    """Ease that goes with the scores lowers the error, to a quarter, and what is stated of it."""
    rng, n_items, errors, variances = np.random.default_rng(5), 200, [], []
    for seed in range(150):
        ease = rng.uniform(0.2, 0.8, n_items)
        level = 0.5 + relevant * (ease - 0.5)
        y = np.clip(level + rng.normal(0.0, 0.1, n_items), 0.0, 1.0)[None]
        p = eased(ease, seed)
        give(p, y, 0, 25)
        errors.append(p.belief().location[0] - y.mean())
        variances.append(p.belief().variance[0, 0])
    assert 0.55 < np.mean(np.square(errors)) / np.mean(variances) < 1.3


def test_before_there_is_a_slope_ease_may_mean_nothing_or_all():
    """The mean of all items moves by half of what the ease of those drawn departs, give or take."""
    ease = np.linspace(0.2, 0.8, 40)
    p, q = eased(ease), policy(40, 1)
    item = int(p.sequence.order[0])
    for policy_of_one in (p, q):
        policy_of_one.asked(0, item, 1 / 40)
        policy_of_one.told(0, item, 0.5)
    away = ease[item] - ease.mean()
    assert p.belief().location[0] - q.belief().location[0] == pytest.approx(-0.5 * away)
    assert p.belief().variance[0, 0] - q.belief().variance[0, 0] == pytest.approx(0.25 * away**2)


#: Wrong answers of 100, and the score of a right one.
RIGHT = [(50, 1.0), (10, 1.0), (10, 0.8), (5, 0.8)]


def test_a_failed_item_counts_for_no_pair_of_its_model():
    y = answers(6, 3, 40)
    y[1, ::4] = np.nan
    p = policy(40, 3)
    for model in range(3):
        give(p, y, model, 40)
    belief = p.belief()
    assert belief.n.tolist() == [[40, 30, 40], [30, 30, 30], [40, 30, 40]]
    assert belief.variance[0, 2] == 0.0 < min(belief.variance[0, 1], belief.variance[1, 1])
    assert verdicts(p).state[0, 2] == DECIDED


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "top", "other", "horizon"),
    [
        *((*right, other, 30) for right in RIGHT for other in ("known", "tested")),
        (10, 1.0, "tested", 100),
        (30, 1.0, "tested", 70),
        (5, 0.8, "tested", 100),
    ],
)
def test_equals_of_which_one_scores_0_now_and_then_are_told_apart_once_in_20_at_most(
    wrong, top, other, horizon
):
    """By enumeration: whether they are depends on the numbers of items and of scores of 0."""
    n_items, least, level = 100, math.log(20.0), top * (100 - wrong) / 100
    known = policy(n_items, 1).references(("k",), *np.array([[level], [level], [0.0]]))
    chance, different, played, told = {0: 1.0}, 0.0, {}, Counter()
    for n in range(1, min(horizon + 1, n_items)):
        before, chance = chance, {}
        for zeros, p in before.items():
            for more, ways in ((1, wrong - zeros), (0, n_items - n + 1 - (wrong - zeros))):
                if p * ways > 1e-9:
                    at = zeros + more
                    chance[at] = chance.get(at, 0.0) + p * ways / (n_items - n + 1)
        for zeros in list(chance) if n >= FEWEST_ITEMS else ():
            # The scores of 0 come first, so that each further item has a right answer.
            found = played.setdefault(zeros, policy(n_items, 1 + (other == "tested")))
            for k in range(told[zeros], n):
                item = int(found.sequence.order[k])
                for model, score in enumerate(
                    (top * (k >= zeros), level)[: len(found.effects.counts)]
                ):
                    found.asked(model, item)
                    found.told(model, item, score)
            told[zeros] = n
            belief = found.belief()
            belief = belief if other == "tested" else replace(belief, references=known)
            looks = Looks(horizons=(horizon,), with_bank=False)
            evidence = looks.after(belief, 0.05).evidence
            if max(evidence.better[0, 1], evidence.worse[0, 1]) >= least:
                different += chance.pop(zeros)
    assert different <= 0.05


@pytest.mark.parametrize(("wins", "losses"), [(5, 15), (3, 13), (1, 11), (0, 10)])
@pytest.mark.parametrize(
    "looks", [Looks(), Looks(horizons=(200,), with_bank=False)], ids=["unlimited", "horizon"]
)
def test_a_candidate_that_loses_rarely_passes_a_margin_falsely_once_in_20_at_most(
    wins, losses, looks
):
    """By enumeration of right-or-wrong answers alike: of 200, the candidate loses by the margin."""
    n_items, margin = 200, 0.05 - 1e-9
    won, lost = np.indices((wins + 1, losses + 1)).reshape(2, -1)
    chance, passed = np.zeros((wins + 1, losses + 1)), 0.0
    chance[0, 0] = 1.0
    for n in range(1, n_items):
        before, left = chance.ravel(), n_items - n + 1
        equal = before * np.maximum(n_items - wins - losses - (n - 1 - won - lost), 0)
        chance = equal.reshape(wins + 1, -1) / left
        chance[1:] += (before * (wins - won) / left).reshape(wins + 1, -1)[:-1]
        chance[:, 1:] += (before * (losses - lost) / left).reshape(wins + 1, -1)[:, :-1]
        if n < FEWEST_ITEMS:
            continue
        mean, none = (won - lost) / n, np.zeros(len(won))
        variance = (won + lost - n * mean**2 + 0.5) / (n - 1) / n * (1 - n / n_items)
        zero = none + 1.0 / as_of_many(np.array(float(n)), n_items)
        on_top = none, none, none > 0.0, none, none
        figures = (mean + margin, variance, none + n - 1, none + n, *on_top, zero, zero)
        gaps = Gaps(*figures, lost.astype(float), won.astype(float), none, none + 1)
        passes = looks.evidence_of_gaps(gaps, n_items, 0.05).better >= math.log(20.0)
        passed += chance.ravel()[passes].sum()
        chance = np.where(passes.reshape(chance.shape), 0.0, chance)
    assert passed <= 0.05


@pytest.mark.long
def test_large_differences_that_have_not_come_are_neither_ruled_out_nor_called_equivalent():
    """Most scores are near 0 and few near 1; a true difference is that of all 900 items."""
    ruled_out = equivalent = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        ease = rng.normal(0.4, 0.2, 900)
        scores = np.clip(ease + rng.normal([[0.0], [0.08]], 0.1, (2, 900)), 0.0, 1.0) ** 12
        truth = scores[0].mean() - scores[1].mean()
        about = {"max_items": 50, "stop": "limits", "min_difference": 0.9 * abs(truth)}
        ranker, wrong = Ranker(ItemBank.blank(range(900)), ["a", "b"], seed=seed, **about), False
        while not ranker.done:
            for model, item in ranker.ask(2):
                ranker.tell(model, item, float(scores["ab".index(model), item]))
            low, high = (float(end[0, 1]) for end in ranker.verdicts.intervals())
            wrong |= not low <= truth <= high
        ruled_out += wrong
        equivalent += ranker.verdicts.state[0, 1] == EQUIVALENT
    assert max(ruled_out, equivalent) <= 0.05 * 60


@pytest.mark.parametrize("finite", [True, False])
def test_the_error_of_a_mean_is_that_of_the_textbook_and_half_an_item(finite):
    """Differences far from 0 have no more variance than those around it."""
    rng, n_items = np.random.default_rng(2), 60
    values = np.array([[-0.4], [0.0], [0.4]]) + rng.uniform(-0.5, 0.5, (3, 40))
    values[1, 5] = np.nan
    sums = Sums(3, n_items)
    for of_item in values.T:
        sums.learn(np.arange(3), of_item)
    for series, row in enumerate(values):
        row = row[np.isfinite(row)]
        n, largest = len(row), np.abs(row).max()
        of_one = row.var(ddof=1) + 0.5 * largest**2 / (n - 1)
        [of_mean], [variance] = sums.variances(np.array([series]), finite=finite)
        assert variance == pytest.approx(of_one)
        assert of_mean == pytest.approx(of_one / n * (1 - n / n_items if finite else 1))
        assert sums.means(np.array([series])) == pytest.approx(row.mean())


@pytest.mark.long
@pytest.mark.parametrize("changed", [0.02, 0.5], ids=["two alike", "all unlike"])
def test_the_error_of_a_model_that_left_early_is_its_own(changed):
    """Two models go on to the last item, and tell of the third by how it departs from both."""
    n_items, errors, variances = 60, [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        first, leaver = (rng.random((2, n_items)) < [[0.7], [0.45]]).astype(float)
        second = np.where(rng.random(n_items) < changed, 1.0 - first, first)
        p, scores = policy(n_items, 3, seed=seed), np.stack([first, second, leaver])
        for model, n_answers in enumerate((n_items, n_items, 20)):
            give(p, scores, model, n_answers)
        belief = p.belief()
        errors.append(belief.location[2] - leaver.mean())
        variances.append(belief.variance[2, 2])
    assert np.sqrt(np.mean(variances)) == pytest.approx(np.std(errors), rel=0.2)


def test_a_model_without_a_right_answer_may_have_some_to_come():
    scores = np.repeat([[1.0], [1.0], [0.0]], 80, axis=1)
    p = policy(80, 3)
    for model, n_answers in enumerate((80, 80, 20)):
        give(p, scores, model, n_answers)
    # One right answer in 20 of 80 items is missed with a probability of 1 in 20 at a share of 0.12.
    assert np.sqrt(p.belief().variance[2, 2]) > 0.02


def test_a_single_look_forecasts_what_its_own_errors_ask_for():
    rng = np.random.default_rng(0)
    y = np.clip(np.array([[0.9], [0.894]]) + 0.03 * rng.normal(size=(2, 900)), 0.0, 1.0)
    ranker = Ranker(ItemBank.blank(range(900)), ["a", "b"], max_items=40, looks="one")
    found = drive(ranker, y)
    [pair], belief = found.open_pairs, found.verdicts.belief
    gap, per_item = np.diff(belief.location)[0], belief.variance[0, 1] / (1 / 40 - 1 / 900)
    n = np.arange(41, 901)
    enough = abs(gap) >= 1.96 * np.sqrt(per_item * (1 / n - 1 / 900))
    assert 40 + pair["items"]["a"] == pytest.approx(n[enough][0], abs=15)


@pytest.mark.long
def test_an_interval_of_random_items_holds_whatever_the_share_of_right_answers():
    """By enumeration of the numbers of errors among 50 of 300 items, at one look."""
    bank, ends = ItemBank.blank(range(300)), []
    for wrong in range(50):
        ranker = Ranker(bank, ["a"], max_items=50, looks="one", stop="se 0.0001")
        at = iter(range(50))
        found = drive(ranker, lambda model, item, at=at, wrong=wrong: float(next(at) >= wrong))
        ends.append(found.interval("a", 0.95))
    low, high = np.array(ends).T
    for wrong in (6, 15, 60, 150):
        chance = hypergeom.pmf(np.arange(50), 300, wrong, 50)
        right = 1.0 - wrong / 300
        assert chance @ ((low <= right) & (right <= high)) >= 0.95, wrong


@pytest.mark.long
def test_betting_holds_at_every_look_and_takes_what_is_missing_for_missing():
    y = (np.random.default_rng(2).random((2, 120)) < np.array([[0.9], [0.8]])).astype(float)
    missed = 0
    for seed in range(20):
        x = 0.5 + 0.5 * (y[0] - y[1])[np.random.default_rng(seed).permutation(120)]
        low, high = betting_interval(x[:80], 120, 0.1, grid=201)
        missed += not low <= x.mean() <= high
    assert missed <= 2
    y[0, :10] = np.nan
    p = policy(120, 2, guarantee="finite")
    for model in (0, 1):
        give(p, y, model, 120)
    assert np.isfinite(p.belief().location).all()


@pytest.mark.long
@pytest.mark.parametrize(("gap", "decision"), [(0.0, "equivalent"), (0.4, "decided")])
def test_bets_call_models_equivalent_only_within_the_margin(gap, decision):
    noise = np.random.default_rng(6).uniform(-0.1, 0.1, 120)
    scores = {"a": np.full(120, 0.5 + gap), "b": 0.5 + noise}
    for names in ("ab", "ba"):
        ranker = Ranker(
            ItemBank.blank(range(120)), list(names), guarantee="finite", min_difference=0.3,
            max_items=80, seed=1,
        )  # fmt: skip
        ranking = drive(ranker, lambda model, item: float(scores[model][item]))
        assert ranking.decisions["a", "b"] == decision


@pytest.mark.long
def test_each_end_of_a_difference_that_bets_refute_has_its_own_level():
    betting, rng = Betting(500.0, 0.0), np.random.default_rng(4)
    betting.start(2)
    for _ in range(150):
        a, b = (rng.random(2) < (0.9, 0.5)).astype(float)
        betting.learn(0, a, np.zeros(0, dtype=np.intp), np.zeros(0))
        betting.learn(1, b, np.array([0]), np.array([a]))
    levels = np.full((2, 2), 0.001), np.full((2, 2), 0.2)
    low, high = betting.evidence().interval(*levels)
    # Turned round, the lower end is the upper one of the other level.
    other_low, other_high = betting.evidence().interval(*levels[::-1])
    assert np.allclose(low, -other_high.T) and np.allclose(high, -other_low.T)
    assert low[0, 1] < other_low[0, 1] < other_high[0, 1]


def test_a_sequence_that_is_fixed_item_by_item_knows_where_each_item_stands():
    """As a journal imposes its order; the rest keep their probabilities of being drawn next."""
    items = np.arange(3, 12)
    sequence, imposed = SharedSequence(items, seed=0), [7, 3, 11, 5]
    for number, item in enumerate(imposed):
        sequence.fix(item)
        assert sequence.probability(item) == pytest.approx(1 / (len(items) - number))
    assert sequence.order[:4].tolist() == imposed and sorted(sequence.order) == items.tolist()
    assert sequence.position[sequence.order].tolist() == list(range(len(items)))


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_result_solves_for_all_models_as_often_with_many_models_as_with_few(repeats, monkeypatch):
    """With a thousand, to solve anew for the row of each would take minutes."""
    solved, solve = [], Effects.means
    monkeypatch.setattr(Effects, "means", lambda effects: solved.append(effects) or solve(effects))
    counts = []
    for n_models in (3, 12):
        names = [f"m{j}" for j in range(n_models)]
        ranker = Ranker(ItemBank.blank(range(30)), names, stop="limits", repeats=repeats)
        for model, item in ranker.ask(10 * n_models):
            ranker.tell(model, item, 0.5)
        solved.clear()
        ranker.result().to_dict()
        counts.append(len(solved))
    assert counts[0] == counts[1]


def test_few_degrees_of_freedom_stay_in_doubt_at_any_number_of_errors():
    """With one, Student's distribution is Cauchy's, whose tail is ``1/2 - atan(t) / pi``."""
    sizes = np.array([1.0, 39.0, 41.0, 1e4])
    chance = tail(sizes, np.ones(4), np.ones(4))
    assert chance == pytest.approx(0.5 - np.arctan(sizes) / np.pi, rel=1e-6)


@pytest.mark.long
def test_figures_of_pairs_are_the_same_whether_models_change_together_or_one_after_another():
    # More models than are computed together.
    scores = np.random.default_rng(3).random((70, 4))
    often, at_once = (SamplePolicy(ItemBank.blank(range(9)), 70) for _ in range(2))
    for model, item in np.ndindex(scores.shape):
        for policy in (often, at_once):
            policy.told(model, int(policy.sequence.order[item]), scores[model, item])
        often.belief()
    for question in ("benchmark", "population"):
        beliefs = often.belief(question), at_once.belief(question)
        for name in ("location", "variance", "n", "rare_loss"):
            figures, figures_at_once = (getattr(belief, name) for belief in beliefs)
            assert np.array_equal(figures, figures_at_once)
