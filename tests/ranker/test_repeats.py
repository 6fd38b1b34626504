"""Repeats in a ranking: 6 items x 3 answers, whatever fails, joins, is known or differs in K."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from worlds.boards import bank_of

from lm_eval_ccat import ItemBank, Ranker, ScoreTable
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.methods.sample.repeats import RepeatSums, pass_at
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.ranker.boundary import WITHIN, clock_of_passes
from lm_eval_ccat.ranker.difference import compare_scores
from lm_eval_ccat.ranker.looks import Looks
from lm_eval_ccat.ranker.references import means_of_known
from lm_eval_ccat.report.trust import remarks_on_models

N_ITEMS, REPEATS = 6, 3
NAMES = ("a", "b", "c")


def answers_of(model: str, seed: int = 0) -> np.ndarray:
    """Scores by (repeat, item): 0 or 1, and noisy."""
    rng = np.random.default_rng([seed, NAMES.index(model)])
    p = rng.beta(0.7, 0.7, N_ITEMS)
    return (rng.random((REPEATS, N_ITEMS)) < p) * 1.0


def a_ranker(models: Any = ("a", "b"), **more: Any) -> Ranker:
    return Ranker(ItemBank.blank(range(N_ITEMS)), models, repeats=REPEATS, **more)


def told(ranker: Ranker, fails: Any = lambda model, item, repeat: False, most: int = 99) -> Counter:
    """Answer what is asked; the answers of each item by model, for the caller to compare."""
    had: Counter = Counter()
    while not ranker.done and sum(had.values()) < most:
        for model, item in ranker.ask():
            had[model, item] += 1
            repeat = had[model, item]
            if fails(model, item, repeat):
                ranker.fail(model, item, "HTTP 500")
            else:
                ranker.tell(model, item, answers_of(model)[repeat - 1, item])
    return had


def figures(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The difference and its variance on the slots that both have, once all items are seen."""
    both = np.isfinite(a) & np.isfinite(b)
    n, k = both.sum(axis=0), N_ITEMS
    d = (a - b)[both]
    u2 = (d**4).sum() / (d**2).sum() if d.any() else 1.0
    each = [np.where(both, x, np.nan) for x in (a, b)]
    means = [np.nanmean(x, axis=0) for x in each]
    ss = sum(float(np.nansum((x - m) ** 2)) for x, m in zip(each, means))
    s1 = (a - b)[0].var(ddof=1) + u2 / k
    sigma2 = (u2 / 2 + ss) / (u2 / (2 * s1) + (n - 1).sum())
    return float((means[0] - means[1]).mean()), sigma2 * float((1 / n).sum()) / k**2


def test_passes_ask_the_same_slots_of_all_models_and_state_avg_of_all_answers() -> None:
    ranker = a_ranker(("a", "b", "c"), stop="limits")
    order: dict[str, list[int]] = {model: [] for model in NAMES}
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, answers_of(model)[order[model].count(item), item])
            order[model].append(item)
    assert order["a"] == order["b"] == order["c"] and len(order["a"]) == N_ITEMS * REPEATS
    for number in range(REPEATS):
        one_pass = order["a"][N_ITEMS * number : N_ITEMS * (number + 1)]
        assert sorted(one_pass) == list(range(N_ITEMS))


def test_all_answers_give_the_figures_of_all_answers() -> None:
    ranker = a_ranker()
    for model, item, repeat in itertools.product("ab", range(N_ITEMS), range(1, REPEATS + 1)):
        ranker.tell(model, item, answers_of(model)[repeat - 1, item], repeat=repeat)
    a, b = answers_of("a"), answers_of("b")
    difference, variance = figures(a, b)
    belief = ranker.belief()
    assert belief.location.tolist() == pytest.approx([a.mean(), b.mean()])
    assert float(belief.variance[0, 1]) == pytest.approx(variance)
    assert belief.location[0] - belief.location[1] == pytest.approx(difference)
    assert belief.n[0, 1] == N_ITEMS * REPEATS and belief.n_items == np.inf
    assert ranker.done


def test_a_bare_item_is_its_next_answer_and_a_named_repeat_is_told_once() -> None:
    ranker = a_ranker()
    for _ in range(REPEATS):
        ranker.tell("a", 4, 1.0)
    with pytest.raises(UsageError, match="already has a score on doc_id 4"):
        ranker.tell("a", 4, 1.0)
    ranker.tell("b", 4, 1.0, repeat=2)
    with pytest.raises(UsageError, match="already has a score"):
        ranker.tell("b", 4, 1.0, repeat=2)
    ranker.tell("b", 4, 0.0)
    ranker.tell("b", 4, 0.0)
    assert ranker.result().items["b"] == [4, 4, 4]
    with pytest.raises(UsageError, match=r"no repeat 4 of doc_id 4: .*up to 3 times"):
        ranker.tell("b", 4, 0.0, repeat=4)


@pytest.mark.parametrize("who", ["a", "b"])  # the first and the last to answer
@pytest.mark.parametrize("lost", [(0, 1), (2, 2), (5, 3)])
def test_an_answer_that_fails_counts_for_neither_of_a_pair(lost: tuple[int, int], who: str) -> None:
    ranker = a_ranker(stop="limits")
    a, b = answers_of("a"), answers_of("b")
    (a if who == "a" else b)[lost[1] - 1, lost[0]] = np.nan
    for repeat, item in itertools.product(range(REPEATS), range(N_ITEMS)):
        for model, answers in (("a", a), ("b", b)):
            if np.isfinite(answers[repeat, item]):
                ranker.tell(model, item, answers[repeat, item], repeat=repeat + 1)
            else:
                ranker.fail(model, item, "HTTP 500", repeat=repeat + 1)
    if lost[1] > 1:  # else the first pass, whose variance the reference takes, lacks the item
        assert float(ranker.belief().variance[0, 1]) == pytest.approx(figures(a, b)[1])
    estimates = ranker.result().estimates
    assert estimates["a"] == pytest.approx(float(np.nanmean(a, axis=0).mean()))
    assert estimates["b"] == pytest.approx(float(np.nanmean(b, axis=0).mean()))
    assert len(ranker.result().items[who]) == N_ITEMS * REPEATS - 1


def test_models_with_unequal_numbers_of_answers_are_compared_on_those_that_both_have() -> None:
    ranker = a_ranker()
    for model, most in (("a", 3), ("b", 2)):
        for repeat, item in itertools.product(range(most), range(N_ITEMS)):
            ranker.tell(model, item, answers_of(model)[repeat, item])
    a, b = answers_of("a"), answers_of("b")
    assert float(ranker.belief().variance[0, 1]) == pytest.approx(figures(a[:2], b[:2])[1])
    assert ranker.belief().n.tolist() == [[18.0, 12.0], [12.0, 12.0]]


def test_a_model_joins_and_another_leaves() -> None:
    ranker, whole = a_ranker(stop="limits"), a_ranker(("a", "b", "c"), stop="limits")
    told(ranker, most=20)
    ranker.change(add={"c": 1.0})
    ranker.drop("b", "its server is away")
    had = Counter((m, i) for m, items in ranker.result().items.items() for i in items)
    while not ranker.done:
        for model, item in ranker.ask():
            had[model, item] += 1
            ranker.tell(model, item, answers_of(model)[had[model, item] - 1, item])
    told(whole)
    both = ranker.belief().variance[0, 2], whole.belief().variance[0, 2]
    assert both[0] == pytest.approx(both[1])
    assert len(ranker.result().items["c"]) == N_ITEMS * REPEATS
    assert len(ranker.result().items["b"]) < N_ITEMS * REPEATS


def test_a_known_model_has_the_noise_of_its_own_answers() -> None:
    """Full results of K answers are known with their error: mean, standard error, mean."""
    for error in (0.02, 0.1):
        ranker = a_ranker(("a",), known={"old": (0.5, error, 0.5)}, stop="limits")
        told(ranker)
        _, variance, _, _ = ranker.belief().pairs
        alone = max(float(ranker.belief().variance[0, 0]), 0.0)
        assert float(variance[0, 1]) >= alone + error**2 - 1e-12


@pytest.mark.parametrize("looks", ["one", "every"])
@pytest.mark.parametrize("right", [0, 3, 9, 18])
def test_a_known_mean_is_passed_from_below_as_from_above(looks: str, right: int) -> None:
    """An event of noise goes either way: mirrored answers have the mirrored interval."""

    def interval(mean: float, score: float) -> tuple[float, float]:
        ranker = a_ranker(("a",), known={"old": (mean, 0.0, mean)}, stop="limits", looks=looks)
        for n in range(N_ITEMS * REPEATS):
            ranker.tell("a", n % N_ITEMS, score if n < right else 1.0 - score)
        _, low, high = ranker.result().difference("a", "old")
        return low, high

    low, high = interval(0.35, 1.0)
    assert interval(0.65, 0.0) == pytest.approx((-high, -low))


@pytest.mark.long
def test_full_results_of_several_answers_have_the_noise_of_their_mean() -> None:
    """Tables of eight answers an item, drawn again and again, scatter by what is stated."""
    rng, repeats, tables = np.random.default_rng(5), 8, 400
    p, bank = rng.random(N_ITEMS), ItemBank.blank(range(N_ITEMS))
    means, errors = [], []
    for _ in range(tables):
        answers = (rng.random((repeats, N_ITEMS)) < p) * 1.0
        table = ScoreTable.from_arrays(answers, ["old"] * repeats, configs=[*map(str, range(8))])
        mean, error, _ = means_of_known(table, bank, sampled=True)["old"]
        means.append(mean)
        errors.append(error**2)
    assert np.var(means) == pytest.approx(np.mean(errors), rel=0.2)
    # Single answers do not tell noise from what the items differ by, nor do they for a population.
    single = table.select(["old"]).scores[:1]
    alone = ScoreTable.from_arrays(single, ["old"])
    wider = single.var(ddof=1) / N_ITEMS
    assert means_of_known(alone, bank, sampled=True)["old"][1] ** 2 == pytest.approx(wider)
    of_population = means_of_known(table, bank, True, sampled=True)["old"][1]
    assert of_population > np.sqrt(np.mean(errors))


def test_tasks_may_differ_in_repeats() -> None:
    banks = {task: ItemBank.blank(range(N_ITEMS)) for task in ("x", "y")}
    ranker = Ranker(banks, ["a", "b"], repeats={"x": 3, "y": 1}, stop="limits")
    asked: list[tuple[str, Any]] = []
    while not ranker.done:
        for model, item in ranker.ask():
            asked.append((model, item))
            ranker.tell(model, item, float((item[1] + len(item)) % 2))
    named = [item for model, item in asked if model == "a"]
    assert len(named) == len(set(named)) == 4 * N_ITEMS
    assert {item for item in named if len(item) == 3} == {
        ("x", i, r) for i in range(N_ITEMS) for r in (2, 3)
    }
    with pytest.raises(UsageError, match="not one number for each task"):
        Ranker(banks, ["a"], repeats={"x": 3})


def test_a_ranking_is_rebuilt_from_its_asks_and_answers() -> None:
    ranker, again = (a_ranker(seed=s) for s in (5, 6))  # another order, which is imposed
    for _ in range(25):
        for model, item in ranker.ask():
            repeat = 1 + ranker.result().items[model].count(item)
            drawn = ranker.probability(model, item, repeat)
            score = answers_of(model)[repeat - 1, item]
            ranker.tell(model, item, score)
            again.impose([(model, item, drawn)])
            again.tell(model, item, score)
    assert (ranker.belief().variance == again.belief().variance).all()
    assert ranker.result().to_dict()["models"] == again.result().to_dict()["models"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"repeats": 0}, "repeats"),
        ({"repeats": 1.5}, "repeats"),
        ({"repeats": 10_001, "max_items": 40}, "repeats.*at most 10000"),
        ({"repeats": 3, "budget": 11.0}, "does not pay one pass.*at least 12 answers"),
        ({"repeats": 3, "question": "run"}, "question 'run' is about one answer"),
    ],
)
def test_what_repeats_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Ranker(ItemBank.blank(range(N_ITEMS)), ["a", "b"], **arguments)


def test_the_result_says_what_was_asked_of_all_answers() -> None:
    ranker = a_ranker(stop="limits")
    told(ranker)
    content = ranker.result().to_dict()
    assert content["answers_of_benchmark"] == N_ITEMS * REPEATS and content["sampled"]
    assert "repeats:3" in content["signature"]
    a = answers_of("a")
    right = a.sum(axis=0)
    assert content["models"]["a"]["pass_at"] == {
        "k": REPEATS, "estimate": pytest.approx(float((right > 0).mean()))
    }  # fmt: skip
    scatter = content["models"]["a"]["scatter"]
    assert 0.0 < scatter < 0.5 / (N_ITEMS * REPEATS) ** 0.5 * 1.5


@pytest.mark.long
def test_what_a_full_run_scatters_by_is_unknown_before_answers_are_repeated() -> None:
    """Items of which each has one answer for ever: a full run scatters by nothing."""
    ranker = Ranker(ItemBank.blank(range(40)), ["a", "b"], repeats=8, stop="limits", max_items=80)
    stated = {}
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(item % 2))
        row = ranker.result().to_dict()["models"]["a"]
        stated[row["n_items"]] = row.get("scatter")
    assert [stated[n] for n in range(1, 41)] == [None] * 40
    assert stated[60] < 0.5 * 0.5 / 320**0.5


def test_pass_at_k_is_the_share_of_choices_with_a_right_answer() -> None:
    rng = np.random.default_rng(1)
    right = [rng.random(5) < 0.4 for _ in range(7)]
    for k in (1, 2, 4, 5):
        chosen = [
            np.mean([any(of[list(c)]) for c in itertools.combinations(range(5), k)]) for of in right
        ]
        counts = np.array([of.sum() for of in right], dtype=float)
        assert pass_at(counts, np.full(7, 5.0), k) == pytest.approx(float(np.mean(chosen)))


def test_the_clock_of_passes_is_one_over_the_variance_of_item_means() -> None:
    for n in range(1, N_ITEMS * REPEATS + 1):
        counts = np.bincount(np.arange(n) % N_ITEMS, minlength=N_ITEMS)
        seen = counts > 0
        k = int(seen.sum())
        between = (1.0 - k / N_ITEMS) * (1.0 - WITHIN) / k
        within = WITHIN * float((1.0 / counts[seen]).sum()) / k**2
        clock = clock_of_passes(np.array([float(n)]), N_ITEMS)
        assert float(clock[0]) == pytest.approx(1.0 / (between + within))


def test_equal_models_leave_the_boundary_of_passes_in_one_of_twenty_rankings() -> None:
    """Gaussian answers of equal models, drawn slot by slot, with known variances."""
    rng, n_items, repeats, rankings = np.random.default_rng(4), 12, 4, 20_000
    n = np.arange(1.0, n_items * repeats + 1.0)
    time = clock_of_passes(n, n_items)
    steps = rng.standard_normal((rankings, len(n))) * np.sqrt(np.diff(time, prepend=0.0))
    z = np.abs(steps.cumsum(axis=1)) / np.sqrt(time)
    limit = Looks(horizons=(len(n),), pass_length=n_items).boundary(0.05, n, np.inf)
    left = float((z >= limit).any(axis=1).mean())
    assert 0.038 < left <= 0.05
    # The boundary of single answers would spend less of the level early.
    single = Looks(horizons=(len(n),)).boundary(0.05, n, np.inf)
    assert (limit[9:15] < single[9:15]).all() and limit[-1] > single[-1]


def test_a_ranker_of_repeats_decides_by_the_boundary_of_its_passes() -> None:
    ranker = Ranker(ItemBank.blank(range(30)), ["a", "b"], repeats=8)
    for item in range(20):
        for model in "ab":
            ranker.tell(model, item, float(model == "a" and item % 3 > 0))
    looks = ranker.verdicts.looks
    assert looks.pass_length == 30 and looks.horizons == (240,)


def test_several_tasks_are_decided_by_the_boundary_of_their_passes_together() -> None:
    banks = {task: ItemBank.blank(range(n)) for task, n in (("x", 12), ("y", 20))}
    ranker = Ranker(banks, ["a", "b"], repeats={"x": 4, "y": 2})
    assert (ranker.verdicts.looks.pass_length, ranker.verdicts.looks.horizons) == (32, (88,))
    one_without = Ranker(banks, ["a", "b"], repeats={"x": 4, "y": 1})
    assert one_without.verdicts.looks.pass_length == 0


def test_raised_repeats_are_the_passes_of_a_ranking_with_as_many_from_the_start() -> None:
    whole = a_ranker(stop="limits")
    raised = Ranker(ItemBank.blank(range(N_ITEMS)), ["a", "b"], repeats=2, stop="limits")
    told(raised)
    assert raised.done and raised.verdicts.looks.horizons == ()
    raised.change(repeats=REPEATS)
    assert not raised.done and raised.item_cap == N_ITEMS * REPEATS
    had = Counter((m, i) for m, items in raised.result().items.items() for i in items)
    while not raised.done:
        for model, item in raised.ask():
            had[model, item] += 1
            raised.tell(model, item, answers_of(model)[had[model, item] - 1, item])
    told(whole)
    assert raised.result().items == whole.result().items
    assert (raised.belief().variance == whole.belief().variance).all()
    assert raised.signature == whole.signature and raised.spent == 2 * N_ITEMS * REPEATS


def test_a_raise_is_a_later_horizon_that_gets_what_is_left_of_the_level() -> None:
    ranker = Ranker(ItemBank.blank(range(12)), ["a", "b"], repeats=2)
    rng = np.random.default_rng(2)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(rng.random() < 0.5))
    assert ranker.verdicts.looks.horizons == (24,)
    ranker.change(repeats=4)
    assert ranker.verdicts.looks.horizons == (24, 48) and not ranker.done


def names_of(ranking: Any, model: str) -> list[Any]:
    return sorted(map(str, ranking.items[model]))


@pytest.mark.parametrize("method", ["sample", "default"])
@pytest.mark.parametrize("most", [3, 2 * N_ITEMS])
def test_single_draws_become_the_first_pass_of_those_asked_again(method: str, most: int) -> None:
    """In the middle of the first pass, with an answer in flight and one failed, and at its end."""
    bank = bank_of(method, N_ITEMS)

    def ranker(repeats: int) -> Ranker:
        return Ranker(bank, ["a", "b"], sampled=True, repeats=repeats, stop="limits", warmup=2)

    def play(ranker: Ranker, had: Counter, most: int = 99) -> None:
        while not ranker.done and sum(had.values()) < most:
            for model, item in ranker.ask():
                had[model, item] += 1
                repeat = had[model, item]
                if (model, item, repeat) == ("b", 2, 1):
                    ranker.fail(model, item, "HTTP 500")
                else:
                    ranker.tell(model, item, answers_of(model)[repeat - 1, item])

    whole, raised, had = ranker(REPEATS), ranker(1), Counter()
    play(whole, Counter())
    play(raised, had, most)
    flying = raised.ask()
    raised.change(repeats=REPEATS)
    for model, item in flying:
        had[model, item] += 1
        if (model, item) == ("b", 2):
            raised.fail(model, item, "HTTP 500")
        else:
            raised.tell(model, item, answers_of(model)[had[model, item] - 1, item])
    play(raised, had)
    for model in ("a", "b"):
        assert names_of(raised.result(), model) == names_of(whole.result(), model)
    assert raised.belief().location == pytest.approx(whole.belief().location)
    assert raised.belief().variance == pytest.approx(whole.belief().variance)
    assert np.all(raised.belief().zero_losses_at(*np.indices((2, 2)))[2:] == np.zeros((2, 2)))
    assert raised.signature == whole.signature and raised.spent == whole.spent


@pytest.mark.long
def test_of_several_tasks_each_takes_its_place_when_repeats_rise() -> None:
    """Scores are of task, item and repeat; one answer failed, and one is in flight."""
    banks = {task: ItemBank.blank(range(n)) for task, n in (("x", N_ITEMS), ("y", 4))}
    units = {"x": dict.fromkeys(range(N_ITEMS), 1.0), "y": dict.fromkeys(range(4), 3.0)}
    lost = "b", ("y", 2)

    def ranker(**repeats: int) -> Ranker:
        return Ranker(banks, ["a", "b"], units=units, repeats=repeats, sampled=True, stop="limits")

    def answer(ranker: Ranker, model: str, item: Any) -> None:
        rng = np.random.default_rng([NAMES.index(model), *map(ord, str(item))])
        if (model, item) == lost:
            ranker.fail(model, item, "HTTP 500")
        else:
            ranker.tell(model, item, float(rng.random() < 0.5))

    def play(ranker: Ranker, until: Any = None) -> list[tuple[str, Any]]:
        asked: list[tuple[str, Any]] = []
        while not ranker.done and until not in asked:
            for pair in ranker.ask():
                asked.append(pair)
                answer(ranker, *pair)
        return asked

    whole, raised = ranker(x=3, y=2), ranker(x=2, y=1)
    play(whole)
    told = play(raised, until=lost)
    [flying] = raised.ask()
    drawn = {pair: raised.probability(*pair) for pair in (*told, flying) if pair != lost}
    assert any(drawn.values())
    raised.change(repeats={"x": 3, "y": 2})
    assert raised.in_flight == {flying}
    assert raised.result().failed["b"] == {("y", 2): "HTTP 500"}
    assert {pair: raised.probability(*pair) for pair in drawn} == drawn
    answer(raised, *flying)
    play(raised)
    for model in ("a", "b"):
        assert names_of(raised.result(), model) == names_of(whole.result(), model)
    assert raised.spent == whole.spent == 2 * (3 * N_ITEMS + 3.0 * 2 * 4) - 3.0
    assert raised.belief().location == pytest.approx(whole.belief().location)
    assert raised.belief().variance == pytest.approx(whole.belief().variance)
    # Both are asked in passes now, and whoever looks only once does so by their boundary.
    assert raised.verdicts.looks.pass_length == N_ITEMS + 4


@pytest.mark.long
def test_repeats_never_fall_and_rise_only_where_answers_are_sampled_and_a_pass_is_paid() -> None:
    bank = ItemBank.blank(range(N_ITEMS))

    def refused(match: str, ranker: Ranker, **change: Any) -> None:
        before = ranker.result().to_dict()
        with pytest.raises(UsageError, match=match):
            ranker.change(**change)
        assert ranker.result().to_dict() == before

    refused("3 cannot become 2: in a run they only rise", a_ranker(), repeats=2)
    single = Ranker(bank, ["a", "b"], sampled=True, max_items=3)
    refused("max_items 3 does not pay one pass", single, repeats=2)
    single.change(repeats=2, max_items=N_ITEMS)
    refused("this ranking is about single answers", Ranker(bank, ["a", "b"]), repeats=2)
    these = Ranker(bank, ["a", "b"], sampled=True, question="run")
    refused("this ranking is about single answers", these, repeats=2)
    poor = Ranker(bank, ["a", "b"], sampled=True, budget=20.0)
    poor.lose(9.0)
    refused("the budget 11 does not pay one pass", poor, repeats=2)
    refused("the budget 10 does not pay one pass", poor, repeats=2, budget=19.0)
    poor.change(repeats=2, budget=30.0)
    paper = bank_of("paper", N_ITEMS)
    refused("asks every item once", Ranker(paper, ["a"], sampled=True), repeats=2)
    two = Ranker({"x": bank, "y": bank}, ["a", "b"], repeats={"x": 2, "y": 1}, sampled=True)
    refused("2, 1 cannot become 1, 2", two, repeats={"x": 1, "y": 2})


def test_a_model_that_joins_in_the_first_pass_of_a_bank_is_asked_as_often_as_the_others() -> None:
    ranker = Ranker(bank_of("default", N_ITEMS), ["a", "b"], repeats=2, sampled=True, stop="limits")
    told = Counter[str]()
    while not ranker.done:
        for model, item in ranker.ask(1):
            ranker.tell(model, item, answers_of(model)[0, item])
            told[model] += 1
        if told.total() == 4:
            ranker.change(add={"c": 1.0})
    assert told == {"a": 2 * N_ITEMS, "b": 2 * N_ITEMS, "c": 2 * N_ITEMS}


def test_an_outcome_that_is_only_reported_has_repeats_too() -> None:
    """Beside the bank of `default` that leads, of which draws name the later answers."""
    led, beside = bank_of("default", N_ITEMS), ItemBank.blank(range(N_ITEMS), metric="x")
    ranker = Ranker(
        {"t": {"acc": led, "x": beside}}, ["a", "b"], weights={"acc": 1.0, "x": 0.0},
        repeats=REPEATS, stop="limits",
    )  # fmt: skip
    had: Counter = Counter()
    while not ranker.done:
        for model, item in ranker.ask():
            repeat = item[2] if len(item) > 2 else 1
            had[model, repeat] += 1
            score = answers_of(model)[repeat - 1, item[1]]
            ranker.tell(model, item, {"acc": score, "x": 1.0 - score})
    assert set(had.values()) == {N_ITEMS}
    of_x = ranker.result().tasks["t"].outcomes["x"]
    for model in ("a", "b"):
        assert of_x.estimates[model] == pytest.approx(1.0 - answers_of(model).mean())


def test_pass_at_k_is_of_right_answers_and_not_of_errors() -> None:
    def result(higher: bool) -> Any:
        bank = ItemBank.blank(range(N_ITEMS), scale=Scale(0.0, 100.0, higher_is_better=higher))
        ranker = Ranker(bank, ["a", "b"], repeats=REPEATS, stop="limits")
        told(ranker)
        return ranker.result().to_dict()

    better, error = result(True), result(False)["models"]["a"]
    assert better["models"]["a"]["pass_at"]["k"] == REPEATS
    assert "pass_at" not in error and "scatter" in error
    # It is a share of the items on every scale.
    share = (answers_of("a").sum(axis=0) > 0).mean()
    [said, _] = [text for topic, text in remarks_on_models(better) if topic == "Repeats"]
    assert said.endswith(f"pass@{REPEATS} is {100 * share:.3g}%.")


def test_max_items_below_one_pass_are_refused() -> None:
    with pytest.raises(UsageError, match="takes at least 6"):
        a_ranker(max_items=N_ITEMS - 1)
    a_ranker(max_items=N_ITEMS)


def test_repeats_of_one_item_say_how_noisy_answers_are_and_not_how_far_models_are_apart() -> None:
    figures = RepeatSums.of_answers(np.array([[1.0], [0.0]]), np.array([[0.0], [0.0]])).figures()
    assert figures.difference == 0.5 and np.isinf(figures.variance)
    assert 0.0 < figures.noise < 1.0


def verdict_on_tables(answers: np.ndarray) -> str:
    figures = RepeatSums.of_answers(*answers).figures()
    return compare_scores(*answers.mean(axis=1), repeats=figures, these_items=True).verdict


def verdict_of_one_look(answers: np.ndarray) -> str:
    bank = ItemBank.blank(range(N_ITEMS))
    ranker = Ranker(bank, ["a", "b"], repeats=len(answers[0]), stop="limits", looks="one")
    for model, repeat, item in np.ndindex(answers.shape):
        ranker.tell("ab"[model], item, answers[model, repeat, item])
    return ranker.result().decisions["a", "b"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("verdict", "repeats"),
    [*((verdict_on_tables, repeats) for repeats in (4, 16, 32)), (verdict_of_one_look, 16)],
)
def test_noise_of_one_item_calls_equal_models_different_in_at_most_a_twentieth(
    verdict: Any, repeats: int
) -> None:
    """Two equal models answer six items several times; half of the answers to one are right."""
    chance = 0.0
    right_by_first = {
        right: np.random.default_rng(right).permutation(repeats) < right
        for right in range(repeats + 1)
    }
    for rights in itertools.product(range(repeats + 1), repeat=2):
        weight = math.prod(math.comb(repeats, right) for right in rights) / 4.0**repeats
        if rights[0] < rights[1]:  # as in the mirror
            continue
        if weight < 1e-4:  # as if it were called different
            chance += 2.0 * weight
            continue
        answers = np.tile(np.arange(N_ITEMS) % 2.0, (2, repeats, 1))
        for scores, right in zip(answers, rights):
            scores[:, 0] = right_by_first[right]
        if verdict(answers) in ("better", "worse", "decided"):
            chance += 2.0 * weight
    assert chance <= 0.05


def test_every_failed_answer_is_told_and_its_document_once() -> None:
    ranker = a_ranker(stop="limits")
    told(ranker, fails=lambda model, item, repeat: model == "a" and item + repeat > 6)
    result = ranker.result()
    content = result.to_dict()
    failed = [
        (failure["doc_id"], failure["reason"]) for failure in content["models"]["a"]["failed"]
    ]
    assert sorted(failed) == [(4, "HTTP 500"), *[(5, "HTTP 500")] * 2]
    assert result.failed["a"].keys() == {4, 5}
    [sentence] = [text for topic, text in remarks_on_models(content) if topic == "Failed"]
    assert sentence.startswith("a failed on 3 answers to 2 documents; they count as not seen")


def test_markdown_names_answers_and_says_how_far_a_full_run_scatters() -> None:
    ranker = a_ranker(stop="limits")
    told(ranker)
    result = ranker.result()
    heads, _, first_row = (
        [cell.strip() for cell in line.split("|")]
        for line in result.to_markdown().splitlines()[2:5]
    )
    cells, content = dict(zip(heads, first_row)), result.to_dict()
    row = content["models"][cells["model"]]
    assert "items" not in heads and cells["answers"] == str(N_ITEMS * REPEATS)
    assert float(cells["scatter"]) == pytest.approx(row["scatter"], rel=1e-3)
    assert float(cells["pass at k"]) == pytest.approx(row["pass_at"]["estimate"], rel=1e-3)
    assert cells["k"] == str(REPEATS)
    single = Ranker(ItemBank.blank(range(N_ITEMS)), ["a", "b"]).result().to_markdown()
    assert "| items |" in single and "scatter" not in single and "pass at" not in single


def test_the_answers_that_would_decide_are_those_that_do() -> None:
    """Model a is right in an even three of four answers, and b in one; few are known so far."""
    ranker, count = Ranker(ItemBank.blank(range(30)), ["a", "b"], repeats=8), Counter[str]()
    forecasts = []
    while not ranker.done:
        for model, item in ranker.ask():
            count[model] += 1
            place = count[model] % 4
            ranker.tell(model, item, float(place == 0 if model == "b" else place != 1))
        if count["a"] == count["b"] in (8, 12, 16):
            [pair] = ranker.result().open_pairs
            forecasts.append(count["a"] + pair["items"]["a"])
    decided_after = count["a"]
    assert len(forecasts) == 3
    assert all(decided_after <= forecast <= decided_after + 2 for forecast in forecasts)


def test_items_that_a_bank_removed_are_asked_in_no_pass() -> None:
    kept = np.array([True, False, False, True])
    bank = replace(ItemBank.blank(range(4)), kept=kept)
    ranker, asked = Ranker(bank, ["a", "b"], repeats=2, stop="limits"), Counter()
    while pairs := ranker.ask():
        for model, item in pairs:
            asked[model, item] += 1
            ranker.tell(model, item, 0.5)
    assert asked == {(model, item): 2 for model in "ab" for item in (0, 3)}
