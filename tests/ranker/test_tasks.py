"""Several tasks under one budget."""

import math
from dataclasses import replace

import numpy as np
import pytest
from worlds.boards import bank_of, draw
from worlds.boards import drive as drive_any

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.ranker.contents import Contents

METHODS = ["paper", "default"]
SIZES = {"small": 30, "middle": 60, "large": 120}
NAMES = ["a", "b", "c", "d"]
SKILLS = np.array([-1.2, -0.4, 0.4, 1.2])


SCORES = {t: draw(SKILLS, n, 100 + n, n) for t, n in SIZES.items()}


def banks_of(method: str) -> dict[str, ItemBank]:
    return {t: bank_of(method, n, n) for t, n in SIZES.items()}


def drive(suite: Ranker, scores=SCORES):
    return drive_any(suite, lambda m, item: float(scores[item[0]][NAMES.index(m), item[1]]))


def test_every_repeat_of_an_item_has_the_units_of_its_item():
    one, two = ItemBank.blank([7, 8, 9]), ItemBank.blank(["x", "y"])
    alone, both = Contents(one, repeats=2), Contents({"t": one, "u": two}, repeats={"t": 2, "u": 1})
    assert alone.units([1, 2, 3]).tolist() == [1, 2, 3] * 2
    assert alone.units({9: 3, 7: 1, 8: 2}).tolist() == [1, 2, 3] * 2
    assert both.units({"t": [1, 2, 3]}).tolist() == [1, 2, 3, 1, 2, 3, 1, 1]
    assert both.units(None).tolist() == [1] * 8
    for units, says in (
        ({"t": [1, 2, 3], "v": [1, 2]}, "'v', which has no bank"),
        ({0: 1.0, "t": [1, 2, 3]}, "0, which has no bank"),
        ([1, 2, 3, 4, 5], "by task"),
    ):
        with pytest.raises(UsageError, match=says):
            both.units(units)


def test_the_task_that_errs_most_in_the_sum_gets_the_items():
    """Scores of one task are 0 or 1, those of the other all but equal: half as many go there."""
    ranker = Ranker(
        {task: ItemBank.blank(range(60)) for task in "xy"}, ["a"], max_items=40, stop="limits"
    )
    drive_any(ranker, lambda model, item: item[1] % 2 if item[0] == "x" else 0.5 + item[1] / 1e4)
    count = {task: sum(item[0] == task for item in ranker.result().items["a"]) for task in "xy"}
    assert count["x"] > 2 * count["y"] and sum(count.values()) == 40


def test_the_warm_up_of_several_tasks_has_fifteen_items_of_them_all():
    """Before it ends no model is ahead; one that scores 1 against 0 is better once it has."""
    ranker = Ranker({task: ItemBank.blank(range(40)) for task in "uvwxy"}, ["a", "b"])
    answers = drive_any(ranker, lambda model, item: float(model == "a")).items
    assert [len(items) for items in answers.values()] == [15, 15]
    assert {
        task: sum(item[0] == task for item in answers["a"]) for task in "uvwxy"
    } == dict.fromkeys("uvwxy", 3)


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_the_aggregate_is_the_weighted_mean_of_its_tasks(method):
    weights = {"small": 3.0, "middle": 1.0, "large": 1.0}
    suite = Ranker(
        banks_of(method), dict.fromkeys(NAMES, 1.0), weights=weights, budget=90, across=False
    )
    result = drive(suite)
    for m in NAMES:
        parts = [(w, result.tasks[t]) for t, w in result.weights.items()]
        assert result.estimates[m] == pytest.approx(sum(w * r.estimates[m] for w, r in parts))
        variance = sum((w * r.standard_errors[m]) ** 2 for w, r in parts)
        for t, of in suite.shared_errors(m).items():
            variance += sum(result.weights[t] * result.weights[u] * c for u, c in of.items())
        assert result.standard_errors[m] == pytest.approx(math.sqrt(variance))


@pytest.mark.long
def test_groups_of_tasks_have_their_score_and_its_error():
    groups = {"both": ["small", "large"], "uneven": {"small": 3.0, "middle": 1.0}}
    untried = {
        t: replace(b, provenance={**b.provenance, "report": {}})  # nothing of models left out
        for t, b in banks_of("default").items()
    }
    ranker = Ranker(untried, dict.fromkeys(NAMES, 1.0), groups=groups, budget=150, across=False)
    result = drive(ranker)
    assert result.weights == {t: n / 210 for t, n in SIZES.items()}  # documents weigh alike
    for group, weights in (
        ("both", {"small": 0.5, "large": 0.5}),
        ("uneven", {"small": 0.75, "middle": 0.25}),
    ):
        found = result.groups[group]
        for m in NAMES:
            parts = [(w, result.tasks[t]) for t, w in weights.items()]
            assert found.estimates[m] == pytest.approx(sum(w * r.estimates[m] for w, r in parts))
            error = math.hypot(*(w * r.standard_errors[m] for w, r in parts))
            assert found.standard_errors[m] == pytest.approx(error)
            assert sorted(found.items[m]) == sorted(i for i in result.items[m] if i[0] in weights)
        assert set(found.rank_ranges) == set(NAMES)
