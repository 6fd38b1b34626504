"""The limit of items that local weights have by default where they take turns."""

from __future__ import annotations

import pytest
from worlds.bench import content_of

#: Of the 120 documents of the bench a quarter is less than 100.
LIMIT, ALL = 100, 120


def turn_takers(**settings):
    """Two models that answer alike, of which memory holds one."""
    models = [{"name": name, "model": "dummy", "memory": 8} for name in ("a", "b")]
    return {"bank": None, "models": models, "memory": 10, **settings}


def answered(config):
    """How many documents each model of a run has answered."""
    return {model["n_items"] for model in content_of(config)["models"].values()}


def test_close_models_that_take_turns_end_at_the_limit_and_go_on_if_it_is_raised(bench, ccat):
    config = bench.config("", [], **turn_takers())
    said = ccat("plan", config).out
    assert f"Each answers at most {LIMIT} documents unless max_items says otherwise." in said
    out, err = ccat("rank", config, code=3)
    assert f"({LIMIT} of each model)" in out + err
    assert f"--max_items {ALL} asks all" in out + err
    assert answered(config) == {LIMIT}
    ccat("verify", bench.run())
    ccat("rank", config, "--resume", "--max_items", str(ALL), code=(0, 3))
    assert answered(config) == {ALL}
    ccat("verify", bench.run())


@pytest.mark.parametrize(
    "settings",
    [
        {"max_items": ALL},
        {"stop": "limits"},
        {"budget": {"items": 2 * ALL}},
        {"memory": 16},
        {"stop": "decided and se 0.00001"},
    ],
    ids=["limit", "goal", "budget", "all fit", "another goal"],
)
def test_whoever_sets_a_goal_or_a_limit_is_given_no_other(bench, ccat, settings):
    config = bench.config("", [], **turn_takers(**settings))
    assert "unless max_items" not in ccat("plan", config).out
    ccat("rank", config, code=(0, 3))
    assert answered(config) == {ALL}
