"""Stopping rules: what each waits for, how they combine, and what they say."""

import numpy as np
import pytest
from worlds.boards import bank_of, draw, drive, of

from lm_eval_ccat import ItemBank, Ranker, ScoreTable
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.ranker import (
    AllDecided,
    Budget,
    MaxItems,
    Percentile,
    RankWidth,
    TargetError,
    Time,
    TopDecided,
    Unlimited,
)


def bank():
    return bank_of("default", 120)


FAR = draw([-1.0, -1.0, 1.0], 120, 3)  # c far above a and b, which are next to equal
FAR[1] = np.clip(FAR[0] + 0.1 * (np.arange(120) % 2 - 0.45), 0.0, 1.0)
EVEN = {"a": 1.0, "b": 1.0, "c": 1.0}


def run(stop, models=EVEN, **options):
    return drive(Ranker(bank(), models, stop=stop, warmup=5, **options), of(FAR))


@pytest.mark.parametrize(
    ("stop", "models", "says", "goal_met"),
    [
        (AllDecided() | MaxItems(7), EVEN, "the limit of 7 items per model is reached", False),
        (AllDecided() | Budget(17), EVEN, "the budget is used up (0 of 17 left)", False),
        (Unlimited() | MaxItems(20), EVEN, "the limit of 20 items per model is reached", False),
        (Unlimited() | MaxItems(20), "ac", "the limit of 20 items per model is reached", True),
        (TopDecided(1), "ac", "the best model is decided", True),
    ],
    ids=repr,
)
def test_limits_stop_a_ranking_and_a_goal_says_whether_it_succeeded(stop, models, says, goal_met):
    """A rule without a goal is judged by what is decided: a and b are next to equal."""
    result = run(stop, dict.fromkeys(models, 1.0))
    assert (result.stopped_because, result.goal_met) == (says, goal_met)


@pytest.mark.parametrize(
    ("stop", "says", "goal_met"),
    [
        ("top 1", "the best model is decided", True),
        ("ranks 1", "equivalent models share ranks, which no further item tells apart", False),
        (
            "ranks 1 or se 0.0001",
            "equivalent models share ranks, which no further item tells apart",
            False,
        ),
    ],
)
def test_a_model_that_is_equivalent_to_the_best_known_one_ends_a_ranking(stop, says, goal_met):
    """As among new models alone; but ranks that two models share are not known to one rank."""
    full = np.clip(0.7 + 0.02 * np.random.default_rng(0).normal(size=200), 0.0, 1.0)
    known = ScoreTable.from_arrays([full, full - 0.4], ["best", "low"], task="t")
    blank = ItemBank.blank(range(200), task="t")
    ranker = Ranker(blank, ["new"], known=known, min_difference=0.1, stop=stop)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(full[item]) - 0.01 * (item % 2))
    result = ranker.result()
    assert (result.stopped_because, result.goal_met) == (says, goal_met)
    assert result.rank_ranges["new"] == (1, 2)


@pytest.mark.parametrize("limits", [(12, 7, 17, 9), (17, 9, 12, 7)])
def test_of_several_limits_the_tightest_holds(limits):
    budget, items, *more = limits
    stop = AllDecided() | Budget(more[0]) | MaxItems(more[1])
    ranker = Ranker(bank(), EVEN, stop=stop, budget=budget, max_items=items)
    assert (ranker.budget, ranker.item_cap) == (12.0, 7)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TargetError(0.0), "`se of TargetError` must .* not 0.0"),
        (lambda: TopDecided(0), "TopDecided"),
        (lambda: RankWidth(0), "w of RankWidth"),
        (lambda: Percentile(0.0), "p of Percentile"),
        (lambda: MaxItems(0), "`n of MaxItems` must .* not 0"),
        (lambda: Time(0.0), "`seconds of Time` must .* not 0.0"),
        (lambda: Budget(0.0), "`amount of Budget` must .* not 0.0"),
        (lambda: MaxItems(True), "`n of MaxItems` must .* not True"),
        (lambda: TopDecided(1.5), "must be a whole number of at least 1, not 1.5"),
        (lambda: Budget("x"), "`amount of Budget` must .* not 'x'"),
        (
            lambda: Ranker(bank(), EVEN, stop="soon"),
            "stop 'soon' is not in the words decided, se X,",
        ),
        (lambda: Ranker(bank(), EVEN, stop="top 0"), "stop 'top 0': .* whole number of at least 1"),
        (lambda: Ranker(bank(), ["a", "b"], stop="top 2"), "must be below the number of models, 2"),
        (
            lambda: Ranker(bank(), list("ab"), stop=TopDecided(2)),
            "below the number of models, 2",
        ),
        (
            lambda: Ranker(bank(), list("ab")).change(stop="top 3", add={"c": 1.0}),
            "below the number of models, 3",
        ),
        (lambda: Ranker(bank(), EVEN, stop="se x"), "stop 'se x': .* must be a number, not 'x'"),
        (lambda: Ranker(bank(), EVEN, stop="top"), r"stop 'top': write `top K` \(the best K are"),
        (lambda: Ranker(bank(), EVEN, stop="limits 3"), "stop 'limits 3': write `limits`"),
        (lambda: Ranker(bank(), EVEN, target=0.1), "no option 'target'"),
        (lambda: AllDecided() & "soon", "'soon' is not a stopping rule"),
    ],
)
def test_what_is_no_rule_is_refused(make, says):
    with pytest.raises(UsageError, match=says):
        make()


def test_time_is_told():
    ranker = Ranker(bank(), EVEN, stop=AllDecided() | Time(60), warmup=5)
    for pair in ranker.ask(20):
        ranker.tell(*pair, 0.5)
    assert not ranker.done
    ranker.change(elapsed=60)
    assert ranker.done
    ranker.change(stop=AllDecided() | Time(120))
    assert not ranker.done
