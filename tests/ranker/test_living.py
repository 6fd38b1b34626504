"""A ranking that changes while it runs, and one that is rebuilt from what was recorded."""

import numpy as np
import pytest
from worlds.boards import bank_of, draw, drive, of

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.errors import UsageError

SCORES = draw([-0.8, -0.1, 0.1, 0.8], 80, 4)
TELL = of(SCORES, "abcd")


@pytest.mark.parametrize(
    "change", [{"budget": 50}, {"max_items": 30}, {"prices": {"a": 2.0}}, {"add": {"c": 1.0}}],
    ids=str,
)  # fmt: skip
def test_a_change_lifts_a_stop_and_the_passing_of_time_does_not(change):
    ranker = Ranker(bank_of("default"), {"a": 1.0, "b": 1.0}, budget=40)
    ranker.stop("the budget of 60 seconds is used up")
    ranker.change(elapsed=61.0)
    assert ranker.done
    ranker.change(**change)
    assert not ranker.done


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"item_price": "x"}, "`item_price` must .* not 'x'"),
        ({"draws": "no"}, "`draws` must .* not 'no'"),
        ({"models": "a"}, "models 'a' is neither a list of names nor"),
        ({"models": ["a", "a"]}, "names one twice"),
        ({"models": {3: 1.0}}, "model 3 is not a name"),
        ({"warmup": 2.0}, "`warmup` must .* not 2.0"),
        ({"seed": "1"}, "`seed` must .* not '1'"),
        ({"familywise": "yes"}, "`familywise` must .* not 'yes'"),
        ({"min_difference": -0.1}, "`min_difference` must .* not -0.1"),
        ({"min_difference": 1.0}, "min_difference 1 calls all models equivalent"),
        ({"units": "many"}, "units 'many' are not numbers"),
        ({"known": 0.5}, "known 0.5"),
        ({"known": {"k": "high"}}, "known 'high'"),
        ({"known": {"k": 0.5}, "question": "population"}, "'population' needs"),
        ({"weights": "docs"}, "weights 'docs'"),
        ({"models": {}}, "at least one model"),
        ({"models": {"a": -1.0}}, "`price of a` must .* not -1.0"),
        ({"confidence": 0.2}, "`confidence` must .* not 0.2"),
        ({"budget": 0.0}, "`budget` must .* not 0.0"),
        ({"max_items": 0}, "`max_items` must .* not 0"),
        ({"exposure": 0}, "`exposure` must .* not 0"),
        ({"stop": "se -1"}, "stop 'se -1': X in `se X` must be a number above 0, not -1"),
        ({"units": [1.0, 2.0]}, "2 values for 80 items"),
        ({"units": np.zeros(80)}, "80 of 80 items have no positive units"),
        ({"nonsense": 3}, "nonsense"),
        ({"item_price": -1.0}, "`item_price` must .* not -1.0"),
        (
            lambda: {"bank": bank_of("sample"), "guarantee": "exact"},
            "`guarantee` must .* not 'exact'",
        ),
        ({"bank": {}}, "at least one task"),
        (lambda: {"bank": {"t": bank_of("default")}, "units": {"huge": 1.0}}, "huge"),
    ],
)
def test_options_of_a_wrong_type_are_refused_by_name(options, says):
    options = options() if callable(options) else options
    with pytest.raises(UsageError, match=says):
        Ranker(**{"bank": bank_of("default"), "models": {"a": 1.0, "b": 1.0}, **options})


@pytest.mark.long
def test_a_pair_that_is_barred_is_neither_decided_nor_asked_for():
    ranker = Ranker(bank_of("default"), {"a": 1.0, "b": 1.0}, max_items=60)
    for pair in ranker.ask(20):
        ranker.tell(*pair, TELL(*pair))
    ranker.bar([("a", "b")])
    assert ranker.done and ranker.ask() == []
    found = ranker.result()
    assert found.decisions["a", "b"] == "open" and found.pairs[0].barred and not found.goal_met
    assert found.stopped_because == "no open pair may be decided"
    ranker.bar(())
    assert drive(ranker, TELL).pairs[0].barred is False


def test_of_many_models_just_the_pairs_that_are_barred_stay_open():
    level = {"a": 0.1, "gone": 0.3, "b": 0.5, "c": 0.9}
    ranker = Ranker(ItemBank.blank(range(40)), dict.fromkeys(level, 1.0), stop="limits")
    for model, item in ranker.ask(4 * 40):
        ranker.tell(model, item, level[model] + 0.001 * (item % 3))
    ranker.bar([("c", "a"), ("gone", "b")])
    ranker.drop("gone", "its server is away")
    found = ranker.result()
    assert {(row.a, row.b) for row in found.pairs if row.barred} == {("c", "a")}
    decided = {pair for pair, decision in found.decisions.items() if decision == "decided"}
    assert decided == {("c", "b"), ("b", "c"), ("b", "a"), ("a", "b")}


@pytest.mark.long
def test_a_horizon_is_raised_with_the_limit_from_the_next_look_on():
    twins = np.clip(SCORES[1] + np.array([[0.05], [-0.05]]) * (-1.0) ** np.arange(80), 0.0, 1.0)
    ranker = Ranker(bank_of("default"), {"a": 1.0, "b": 1.0}, max_items=30, seed=1)
    for _ in range(32):
        for pair in ranker.ask():
            ranker.tell(*pair, of(twins)(*pair))
    least = min(map(len, ranker.result().items.values()))
    ranker.change(max_items=40)
    found = drive(ranker, of(twins))
    assert found.verdicts.looks.horizons == (30, 40)
    assert found.verdicts.looks.starts == (10, least + 1) and 10 < least < 30
    ranker.change(max_items=60)
    found = drive(ranker, of(twins))
    assert found.verdicts.looks.horizons == (30, 40, 60) and found.verdicts.looks.starts[2] == 41
    assert {len(i) for i in found.items.values()} == {60}


@pytest.mark.long
def test_a_limit_that_is_lifted_leaves_a_horizon_of_ten_times_what_was_asked():
    """A horizon at every look would leave each of them next to no level."""
    ranker = Ranker(ItemBank.blank(range(2000)), ["a", "b"], max_items=20)
    drive(ranker, lambda model, item: float(item % 2))
    ranker.change(max_items=2000)
    for _ in range(30):
        for model, item in ranker.ask():
            ranker.tell(model, item, float(item % 2))
    assert ranker.verdicts.looks.horizons == (20, 210)
