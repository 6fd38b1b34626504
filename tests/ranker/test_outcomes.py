"""Several outcomes of one answer: told together, weighed, correlated as their residuals are."""

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from worlds.boards import bank_of, draw, drive, of

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.errors import ScaleError, UsageError
from lm_eval_ccat.methods.belief import Belief
from lm_eval_ccat.methods.policy import ReportedPolicy

N = 80
FIRST = draw([-0.6, 0.0, 0.6], N, 5)
OTHER = draw([-0.6, 0.0, 0.6], N, 6)


def banks(method: str = "default", other: str | None = None):
    first, second = bank_of(method, N, 0, "x"), bank_of(other or method, N, 0, "y")
    return {"t": {"bleu": first, "chrf": second}}


def run(second=OTHER, models="abc", n=3, of_banks=("default",), **options):
    """A ranking whose answers have a score of each of two outcomes."""
    bleu, chrf = of(FIRST), of(second)
    ranker = Ranker(banks(*of_banks), dict.fromkeys(models, 1.0), **options)
    return drive(ranker, lambda m, item: {"bleu": bleu(m, item[1]), "chrf": chrf(m, item[1])}, n)


@pytest.mark.long
@pytest.mark.parametrize("of_banks", [("paper",), ("default",), ("default", "sample")])
def test_an_outcome_of_weight_0_is_reported_and_does_not_steer(of_banks):
    """Also one without a bank, beside a method that has one."""
    several = run(of_banks=of_banks, weights={"bleu": 1, "chrf": 0}, max_items=40, stop="limits")
    bank, models = bank_of(of_banks[0], N, 0, "x"), dict.fromkeys("abc", 1.0)
    ranker = Ranker({"t": bank}, models, max_items=40, stop="limits")
    alone = drive(ranker, lambda model, item: of(FIRST)(model, item[1]), 3)
    assert several.items == alone.items
    assert several.estimates == pytest.approx(alone.estimates)
    assert several.standard_errors == pytest.approx(alone.standard_errors)
    found = several.tasks["t"].outcomes["chrf"].row("c").estimate
    assert abs(found.mean - OTHER[2].mean()) < 4 * found.error < 1.0


def test_an_outcome_beside_itself_is_that_outcome_and_a_task_beside_itself_counts_all_zeros():
    belief = replace(
        Belief.independent([0.6, 0.5], [0.02, 0.03], n=[40, 50], n_items=500),
        zero_count=np.array([[3.0, 1.0], [2.0, 4.0]]),
        rare_loss=np.array([[0.01, 0.02], [0.03, 0.04]]),
    )
    again = Belief.sum([belief, belief], [0.5, 0.5], correlation=np.ones((2, 2)))
    for name in ("location", "variance", "n", "zero_loss", "zero_count", "rare_loss"):
        np.testing.assert_allclose(getattr(again, name), getattr(belief, name))
    # An answer that scores 0 is of one task, and lowers the mean of two by half.
    tasks = Belief.sum([belief, belief], [0.5, 0.5])
    np.testing.assert_allclose(tasks.zero_loss, 0.5 * belief.zero_loss)
    np.testing.assert_allclose(tasks.rare_loss, 0.5 * belief.rare_loss)
    np.testing.assert_allclose(tasks.zero_count, 2.0 * belief.zero_count)


def test_the_correlation_of_outcomes_is_that_of_the_answers_that_have_both():
    task = Ranker(banks("sample"), {"b": 1.0}, seed=3)._contents.tasks[0]
    rng, pairs = np.random.default_rng(8), []
    for item in range(60):
        x, y = rng.random(2).tolist()
        lacks = item % 3  # as where a judge fails on two answers of three
        expected = [o.policy.expected(0)[item] for o in task.states]
        if not lacks:
            pairs.append((x - expected[0], (x + y) / 2 - expected[1]))
        task.asked(0, item)
        task.told(0, item, [x, None if lacks else (x + y) / 2])
    a, b = np.transpose(pairs)
    found = (a @ b) / math.sqrt((a @ a) * (b @ b))
    assert task.correlation()[0, 1] == pytest.approx((20 * found + 5) / 25)


@pytest.mark.long
def test_the_outcome_that_errs_most_in_the_sum_chooses_the_item():
    """No answer has a score of bleu, so its error stays while that of chrf falls."""
    of_task, weights = banks("paper"), {"bleu": 1.0, "chrf": 20.0}
    both = Ranker(of_task, ["c"], weights=weights, stop="limits", max_items=12)
    alone = {k: Ranker(b, ["c"], stop="limits") for k, b in of_task["t"].items()}
    chose = []
    while not both.done:
        most = max(weights, key=lambda k: weights[k] * alone[k].estimate("c")[1])
        ((_, item),) = alone[most].ask()
        assert both.ask() == [("c", ("t", item))]
        score = float(OTHER[2, item])
        both.tell("c", ("t", item), {"chrf": score})
        alone["chrf"].tell("c", item, score)
        alone["bleu"].fail("c", item, "its judge failed")
        chose.append(most)
    assert set(chose) == set(weights)


@pytest.mark.parametrize(
    ("told", "error", "says"),
    [
        (0.5, UsageError, "a score of each"),
        ({"rouge": 0.5}, UsageError, "unknown outcome 'rouge'"),
        ({}, UsageError, "no outcome that counts"),
        ({"bleu": 1.5, "chrf": 0.1}, ScaleError, "1.5"),
        ({"bleu": None, "chrf": None}, UsageError, "no outcome that counts"),
    ],
)
def test_scores_that_do_not_fit_are_refused_and_change_nothing(told, error, says):
    ranker = Ranker(banks(), {"a": 1.0})
    ((model, item),) = ranker.ask()
    with pytest.raises(error, match=says):
        ranker.tell(model, item, told)
    assert ranker.in_flight == {(model, item)} and ranker.result().items["a"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"weights": {"bleu": 0, "chrf": 0}}, "above 0"),
        ({"weights": {"bleu": 1}}, "weights {.bleu.: 1} are neither"),
        ({"weights": {"t": {"bleu": 1}}}, "not one per outcome"),
        ({"weights": {"t": {"bleu": 1, "chrf": 1}, "u": {"bleu": 1}}}, "ranking: t$"),
        ({"weights": {"u": {"bleu": 1, "chrf": 1}}}, "stated for u; .*: t$"),
        ({"weights": {"bleu": -1, "chrf": 1}}, "`weight` must .* not -1"),
        ({"weights": {"bleu": "1", "chrf": 1}}, "`weight` must .* not '1'"),
        ({"bank": {"t": {}}}, "'t' has no bank"),
        ({"bank": {"t": "t.bank.json"}}, "'t.bank.json' is no bank"),
        ({"bank": {"t": {"bleu": None}}}, "None is no bank"),
        (
            lambda: {"bank": {"t": {"x": bank_of("default", 80), "y": bank_of("default", 30)}}},
            "of other items",
        ),
        (lambda: {"bank": {"t": bank_of("default"), "u": bank_of("paper")}}, "several methods"),
        ({"bank": 3}, "3 is no bank"),
        ({"bank": [Outcome.of(ItemBank.blank(range(9)), "t")] * 2}, "have one name: score, score"),
        ({"units": [1.0]}, "by task"),
        ({"groups": {"g": ["u"]}}, "group 'g' has no task 'u'"),
    ],
)
def test_banks_and_weights_that_do_not_fit_are_refused(arguments, says):
    arguments = arguments() if callable(arguments) else arguments
    with pytest.raises(UsageError, match=says):
        Ranker(**{"bank": banks(), "models": {"a": 1.0}, **arguments})


def test_equal_means_of_a_part_of_the_items_are_not_equivalent_by_an_outcome():
    """`min_difference` is for the ranked score; by an outcome the other items may tell."""
    places = {}

    def scores(model, item):  # one or the other model is better, in turns
        turn = places.setdefault(item, len(places)) % 2
        return dict.fromkeys(("bleu", "chrf"), 0.5 + 0.1 * (turn == (model == "a")))

    ranker = Ranker(banks("sample"), ["a", "b"], looks="one", min_difference=0.2, max_items=40)
    ranking = drive(ranker, scores, 2)
    assert ranking.decisions["a", "b"] == "equivalent"
    [pair] = ranking.tasks["t"].outcomes["bleu"].to_dict()["pairwise"]
    assert pair["decision"] == "open" and pair["low"] < pair["difference"] == 0.0 < pair["high"]


def test_the_mean_over_all_draws_is_the_benchmarks_whatever_was_chosen_before():
    y = np.array([0.9, 0.2, 0.4, 0.7, 0.0])
    values = []
    for drawn in permutations(range(1, 5), 2):
        policy = ReportedPolicy(ItemBank.blank(range(5)), 1)
        policy.asked(0, 0)
        policy.told(0, 0, y[0])
        for k, item in enumerate(drawn):
            policy.asked(0, item, 1 / (4 - k))
            policy.told(0, item, y[item])
        belief = policy.belief()
        values.append(np.nanmean(policy._means(0)))
        assert belief.location[0] == pytest.approx(np.clip(values[-1], 0.0, 1.0))
        assert belief.n[0, 0] == 2 and belief.n_items == 5
    assert np.mean(values) == pytest.approx(y.mean())


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_a_reported_model_that_scores_alike_everywhere_has_that_mean(score):
    policy = ReportedPolicy(ItemBank.blank(range(9)), 1)
    for n in range(4):
        policy.asked(0, n, 1 / (9 - n))
        policy.told(0, n, score)
    described = policy.describe(0)
    assert described.drawn.estimate == policy.belief().location[0] == score
    assert np.isfinite([described.ability, described.ability_error]).all()


def test_a_pair_of_a_reported_outcome_errs_by_what_its_models_do_not_share():
    """Draws of equal chance: the variance of the mean difference of two models that are alike."""
    rng, policy = np.random.default_rng(3), ReportedPolicy(ItemBank.blank(range(400)), 2)
    noise, common = 0.02 * rng.normal(size=(2, 40)), rng.uniform(0.2, 0.8, 40)
    for n, item in enumerate(rng.permutation(400)[:40].tolist()):
        for model in (0, 1):
            policy.asked(model, item, 1 / (400 - n))
            policy.told(model, item, common[n] + noise[model, n])
    variance = policy.belief().variance
    assert variance[0, 0] == pytest.approx(common.var() / 40, rel=0.2)
    assert 0.02**2 / 40 < variance[0, 1] == variance[1, 0] < variance[0, 0] / 10


@pytest.mark.long
def test_weights_within_a_task_and_costs_are_its_own():
    first, second = bank_of("default", N, 0, "x"), bank_of("default", N, 1, "x")
    weights = {"t": {"bleu": 3.0, "chrf": 1.0}, "u": {"bleu": 4.0}}
    ranker = Ranker(
        {"t": {"bleu": first, "chrf": first}, "u": {"bleu": second}}, {"a": 2.0, "b": 1.0},
        weights=weights, budget=60, across=False,
    )  # fmt: skip
    result = drive(ranker, lambda m, item: dict.fromkeys(weights[item[0]], 0.5))
    assert result.tasks["t"].weights == {"bleu": 0.75, "chrf": 0.25}
    assert result.weights == {"t": 0.5, "u": 0.5}
    for model, price in (("a", 2.0), ("b", 1.0)):
        for task, of_task in result.tasks.items():
            asked = [item for item in result.items[model] if item[0] == task]
            assert of_task.row(model).cost == price * len(asked) > 0.0


def test_weights_are_of_tasks_of_outcomes_or_of_both_as_their_names_say():
    """A task of 30 items and one of 60; in the last case tasks have the names of outcomes."""
    small, large = ItemBank.blank(range(30)), ItemBank.blank(range(60))
    both = {"t": {"x": small, "y": small}, "u": {"x": large, "y": large}}
    alike = {"x": {"x": small, "y": small}, "y": {"x": large, "y": large}}
    for banks, weights, shares in (
        (both, None, [[1 / 6, 1 / 6], [1 / 3, 1 / 3]]),
        (both, "equal", [[1 / 4, 1 / 4], [1 / 4, 1 / 4]]),
        (both, {"t": 3, "u": 1}, [[3 / 8, 3 / 8], [1 / 8, 1 / 8]]),
        (both, {"x": 3, "y": 1}, [[1 / 4, 1 / 12], [1 / 2, 1 / 6]]),
        (both, {"t": {"x": 3, "y": 1}, "u": {"x": 2, "y": 2}}, [[3 / 8, 1 / 8], [1 / 4, 1 / 4]]),
        (alike, {"x": 3, "y": 1}, [[3 / 8, 3 / 8], [1 / 8, 1 / 8]]),
    ):
        ranking = Ranker(banks, ["a", "b"], weights=weights).result()
        assert list(ranking.weights.values()) == pytest.approx([sum(share) for share in shares])
        for part, share in zip(ranking.tasks.values(), shares):
            in_task = [weight / sum(share) for weight in share]
            assert list(part.weights.values()) == pytest.approx(in_task)


def test_a_task_has_its_own_failures_alone():
    ranker = Ranker({"t": ItemBank.blank(range(30)), "u": ItemBank.blank(range(9))}, ["a", "b"])
    ranker.fail("a", ("t", 5), "too long")
    ranker.fail("a", ("u", 7), "refused")
    ranking = ranker.result()
    assert ranking.failed["a"] == {("t", 5): "too long", ("u", 7): "refused"}
    assert ranking.tasks["t"].failed["a"] == {5: "too long"}
    assert ranking.tasks["u"].failed["a"] == {7: "refused"}


def test_an_answer_whose_only_score_is_reported_alone_is_refused():
    """Nothing that counts is known of it, so it would pass for an answer of no weight."""
    blank = ItemBank.blank(range(20))
    both = {"t": {"bleu": blank, "chrf": blank}}
    ranker = Ranker(both, ["a", "b"], weights={"bleu": 1, "chrf": 0})
    with pytest.raises(UsageError, match="no outcome that counts has a score"):
        ranker.tell("a", ("t", 3), {"chrf": 0.5})
    ranker.tell("a", ("t", 3), {"bleu": 0.5})


def test_an_answer_without_a_score_by_one_outcome_is_no_item_of_it():
    ranker = Ranker(banks("sample"), ["a", "b"], stop="limits", max_items=12)
    bleu, asked = of(FIRST), {"a": [], "b": []}
    while not ranker.done:
        for model, item in ranker.ask(2):
            scores = {"bleu": bleu(model, item[1]), "chrf": 0.5}
            # As where a judge fails on every third answer.
            if len(asked[model]) % 3 == 2:
                del scores["chrf"]
            asked[model].append(item[1])
            ranker.tell(model, item, scores)
    outcomes = ranker.result().tasks["t"].outcomes
    for model, items in asked.items():
        judged = [item for n, item in enumerate(items) if n % 3 != 2]
        for name, counted in (("bleu", items), ("chrf", judged)):
            assert outcomes[name].items[model] == counted


@pytest.mark.parametrize("right", [0.95, 0.99])
def test_a_few_equal_scores_of_a_reported_outcome_are_no_exact_mean(right):
    """Four draws of a model that fails on one item in twenty are all right in 81% of cases."""
    y = (np.arange(200) < 200 * right).astype(float)
    held = []
    for seed in range(100):
        policy, order = ReportedPolicy(ItemBank.blank(range(200)), 2), np.random.default_rng(seed)
        for n, item in enumerate(order.permutation(200)[:4].tolist()):
            for model in (0, 1):
                policy.asked(model, item, 1 / (200 - n))
                policy.told(model, item, y[item])
        low, high = policy.describe(0).drawn.interval(0.95)
        held.append(low <= y.mean() <= high)
        assert policy.belief().variance.min() > 0.0  # nor are two models known to be equal
    assert np.mean(held) > 0.9
