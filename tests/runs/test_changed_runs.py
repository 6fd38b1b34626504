"""A run that is resumed with another budget, price, URL, or one more model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from worlds.boards import bank_of, draw, of
from worlds.journals import Teller

from lm_eval_ccat.errors import RunError
from lm_eval_ccat.live.surfaces import may_change
from lm_eval_ccat.records import Header
from lm_eval_ccat.runs.differences import differences
from lm_eval_ccat.runs.directory import BANK_FILE, RunDirectory, rebuild

BANK = bank_of("paper", 40)
SCORES = of(draw([-0.8, -0.6, 0.8], 40, seed=2), ("m1", "m2", "m10"))


def identity(budget: float | None = 24.0, **changes: Any) -> Header:
    prices = changes.get("prices", {"m1": 1.0, "m2": 1.0})
    args = {"base_url": changes.get("url", "http://a/v1"), "num_concurrent": 4}
    if "temperature" in changes:
        args["temperature"] = changes["temperature"]
    models = [{"name": m, "price": {"item": p}, "model_args": args} for m, p in prices.items()]
    return Header(
        config={"task": "t", "seed": changes.get("seed", 0), "budget": {"items": budget},
                "models": models},
        bank_sha256=BANK.sha256,
        task={"name": "t", "documents_sha256": changes.get("documents", "0")},
        versions={"lm_eval_ccat": changes.get("version", "0.1.0")},
        ranker={"models": prices, "units": None, "confidence": 0.999, "warmup": 4,
                "budget": budget, "max_items": None, "seed": 0, "options": {}},
        report={"currency": changes.get("currency", "items")},
    )  # fmt: skip


def work(folder: Path, limit: int = 1000) -> list[tuple[str, Any]]:
    """Answer what is asked, until the ranking is done; the pairs that were answered now."""
    ranker = Teller.of(folder)
    answered = []
    while len(answered) < limit and (pairs := ranker.ask(1)):
        for model, item in pairs:
            ranker.answer(model, item, SCORES(model, item), 1.0)
            answered.append((model, item))
    ranker.journal.close()
    return answered


def resume(folder: Path, now: Header) -> list[str]:
    before = RunDirectory(folder).present_identity()
    found = differences(before, now, may_change()).require_same_run(str(folder))
    ranker = Teller.of(folder)
    ranker.change(found, now)
    ranker.journal.close()
    return found.changes


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = RunDirectory(tmp_path / "run")
    folder.make()
    BANK.save(folder.path / BANK_FILE)
    folder.start(identity())
    folder.journal.close()
    return folder.path


@pytest.mark.long
def test_a_larger_budget_goes_on_and_pays_for_nothing_twice(run):
    first = work(run)
    assert len(first) == 24 and work(run) == []
    assert resume(run, identity(32.0)) == ["config.budget.items: 24 -> 32"]
    second = work(run)
    assert len(second) == 8 and not set(first) & set(second)
    assert resume(run, identity(32.0)) == []  # compared with what it is now
    assert resume(run, identity(None)) == ["config.budget.items: 32 -> null"]
    assert len(work(run)) == 8  # to half of the items, where the method paper ends
    ranker = rebuild(run)
    assert [len(change.settings) for change in ranker.tally.changes] == [1, 1]
    assert sum(ranker.ranker.result().cost.values()) == sum(ranker.tally.answered.values())


@pytest.mark.long
def test_a_model_joins_and_a_price_changes(run):
    work(run, 10)
    now = identity(60.0, prices={"m1": 1.0, "m2": 3.0, "m10": 0.5})
    assert resume(run, now) == [
        "config.budget.items: 24 -> 60",
        "config.models[m10]: joins",
        "config.models[m2].price.item: 1 -> 3",
    ]
    assert "m10" in dict(work(run))
    assert resume(run, now) == []
    order = rebuild(run).ranker.result().order
    assert sorted(order) == ["m1", "m10", "m2"] and order[0] == "m10"


def test_what_makes_it_another_run_is_refused(run):
    work(run, 5)
    for other, named in (
        (identity(seed=3), "config.seed: 0 -> 3"),
        (identity(temperature=0.7), "temperature: null -> 0.7"),
        (identity(documents="1"), "task.documents_sha256"),
        (identity(prices={"m1": 1.0}), r"models\[m2\]"),
        (identity(currency="usd"), "report.currency"),
    ):
        with pytest.raises(RunError, match=named):
            resume(run, other)


def test_a_url_and_a_version_may_change():
    found = differences(identity(), identity(url="http://b/v1", version="9.9"), may_change())
    assert not found.refused and not found.ranker and len(found.changes) == 3


def test_more_time_goes_on_where_the_time_was_used_up(run):
    ranker = Teller.of(run)
    ranker.stop("the budget of 5 seconds is used up")
    ranker.journal.close()
    assert work(run) == []
    now = identity()
    now.config["budget"] = {"seconds": 60}
    assert resume(run, now) == [
        "config.budget.items: 24 -> null",
        "config.budget.seconds: null -> 60",
    ]
    assert work(run)


def test_a_header_without_a_ranker_asks_no_change_of_it():
    ranker = {"models": {"a": 1.0}, "budget": 3.0}
    for old, new in ((Header(), Header(ranker=ranker)), (Header(ranker=ranker), Header())):
        assert differences(old, new, may_change()).ranker == {}
    dearer = {"models": {"a": 2.0, "b": 1.0}, "budget": None}
    found = differences(Header(ranker=ranker), Header(ranker=dearer), may_change()).ranker
    assert found == {"budget": "none", "prices": {"a": 2.0}, "add": {"b": 1.0}}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"max_items": 9}, {"max_items": 9}),
        ({"budget": None}, {"budget": "none"}),
        # A new rule, or none in place of `max_items`, comes with all that limits it.
        ({"stop": "top 1"}, {"budget": 5.0, "max_items": 7, "stop": "top 1"}),
        ({"max_items": None}, {"budget": 5.0, "max_items": "none", "stop": "order"}),
        ({"repeats": 3}, {"repeats": 3}),
    ],
)
def test_the_ranker_is_told_of_the_limits_that_change(changed, told):
    ranker = {"budget": 5.0, "max_items": 7, "stop": "order", "models": {"a": 1.0}}
    now = Header(ranker={**ranker, **changed})
    assert differences(Header(ranker=ranker), now, may_change()).ranker == told


def test_a_setting_may_change_by_its_whole_path():
    old, new = (Header(config={"seed": n, "seeds": n}) for n in (1, 2))
    found = differences(old, new, re.compile(r"config\.seed"))
    assert (found.changes, found.refused) == (["config.seed: 1 -> 2"], ["config.seeds: 1 -> 2"])


def test_a_list_that_grew_is_one_change_and_a_value_in_one_of_the_same_length_is_its_own():
    def changes(old, new):
        sides = (Header(config={"seeds": seeds}) for seeds in (old, new))
        return differences(*sides, re.compile(r"config\.seeds.*")).changes

    assert changes([1, 2], [1, 3]) == ["config.seeds[1]: 2 -> 3"]
    assert changes([1, 2], [1, 2, 3]) == ["config.seeds: [1, 2] -> [1, 2, 3]"]
