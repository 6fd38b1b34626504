"""Any sequence of calls on a ranking and its journal, whatever is ranked by whatever method."""

import json
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from worlds.boards import bank_of, draw
from worlds.journals import Teller

from lm_eval_ccat import Ranker, Ranking
from lm_eval_ccat.errors import CcatError
from lm_eval_ccat.journal import Journal
from lm_eval_ccat.records import Asks, Change, Tell

N_ITEMS = 24
PRICES = {"a": 1.0, "b": 0.5, "c": 2.0, "d": 1.0, "e": 1.0}
METHODS = ("default", "sample", "paper")
SHAPES = (
    "one task", "tasks", "outcomes", "references", "familywise", "repeats", "repeats of tasks",
    "single draws",
)  # fmt: skip
#: Items and repeats, beside a known model, of the shapes that repeat; "paper" draws without a bank.
FEW_ITEMS = 6
REPEATS = {
    "repeats": {"x": 3}, "repeats of tasks": {"x": 3, "y": 2, "z": 1}, "single draws": {"x": 1},
}  # fmt: skip
SKILL = np.array([-0.6, -0.1, 0.0, 0.5, 0.1])


@dataclass(frozen=True)
class World:
    """What is ranked: a method, and what of it there are several of."""

    method: str
    shape: str
    models: int
    binary: bool

    def bank(self) -> Any:
        if self.shape == "tasks":
            return {t: bank_of(self.method, N_ITEMS, n) for n, t in enumerate("xy")}
        if self.shape == "outcomes":
            return {"x": {k: bank_of(self.method, N_ITEMS, 0, k) for k in ("f1", "chrf")}}
        if self.shape in REPEATS:
            method = "sample" if self.method == "paper" else self.method
            return {t: bank_of(method, FEW_ITEMS, n) for n, t in enumerate(REPEATS[self.shape])}
        return replace(bank_of(self.method, N_ITEMS), task=None)

    def ranker(self) -> Ranker:
        more: dict[str, Any] = {"budget": 70.0, "warmup": 3}
        if self.shape == "references":
            more["known"] = {"r": 0.45, "s": 0.5, "t": 0.62}
        if self.shape == "familywise":
            more |= {"familywise": True, "min_difference": 0.05}
        if self.shape in REPEATS:
            more |= {
                "repeats": REPEATS[self.shape],
                "sampled": True,
                "known": {"r": (0.5, 0.06, 0.5)},
                "budget": 99.0,
            }
        names = list(PRICES)[: self.models]
        return Ranker(self.bank(), {m: PRICES[m] for m in names}, seed=7, **more)

    def items(self) -> list[Any]:
        if self.shape == "tasks":
            return [(t, i) for t in "xy" for i in range(N_ITEMS)]
        if self.shape in REPEATS:
            repeats = REPEATS[self.shape].items()
            slots = [
                (t, i, r) for t, k in repeats for r in range(1, k + 1) for i in range(FEW_ITEMS)
            ]
            return [(task, i, r) if r > 1 else (task, i) for task, i, r in slots]
        return [("x", i) for i in range(N_ITEMS)] if self.shape == "outcomes" else [*range(N_ITEMS)]

    def score(self, model: str, item: Any) -> Any:
        """What the model really scores on an item."""
        j, (task, i, *repeat) = (
            list(PRICES).index(model),
            item if isinstance(item, tuple) else ("x", item),
        )
        i += FEW_ITEMS * (repeat[0] - 1 if repeat else 0)
        values = [TRUTH[k][j, i] for k in (("x", "y") if self.shape == "outcomes" else task)]
        values = [float(v > 0.5) if self.binary else float(v) for v in values]
        return dict(zip(("f1", "chrf"), values)) if self.shape == "outcomes" else values[0]


TRUTH = {t: draw(SKILL, N_ITEMS, 3, n) for n, t in enumerate("xyz")}
WORLDS = st.builds(
    World,
    st.sampled_from(METHODS),
    st.sampled_from(SHAPES),
    st.integers(1, 4),
    st.booleans(),
)


# -- what holds of every ranking at every moment ------------------------------------------------

NEAR = 1e-9


def state(ranker: Ranker) -> str:
    """Everything that a ranking says, to be compared."""
    found = ranker.result()
    books = [ranker.done, ranker.decided, ranker.spent, ranker.committed, ranker.item_cap]
    return json.dumps([found.to_dict(), books, sorted(map(repr, ranker.in_flight))], default=repr)


def asked(ranking: Ranking) -> list[str]:
    """Models of the order that are asked items."""
    return [m for m in ranking.order if m not in ranking.known]


def probabilities_of_a_pair_add_up(ranking: Ranking) -> None:
    for (a, b), p in ranking.pairwise.items():
        assert 0.0 <= p <= 1.0 and abs(p + ranking.pairwise[b, a] - 1.0) < NEAR, (a, b)
        assert ranking.decisions[a, b] == ranking.decisions[b, a]


def the_order_is_that_of_the_models(ranking: Ranking) -> None:
    assert len(set(ranking.order)) == len(ranking.order)
    assert set(ranking.order) | set(ranking.set_aside) == set(ranking.estimates)
    assert not set(ranking.order) & set(ranking.set_aside)


def a_rank_lies_in_its_range(ranking: Ranking) -> None:
    n = len(ranking.order)
    for rank, model in enumerate(ranking.order, 1):
        best, worst = ranking.rank_ranges[model]
        assert 1 <= best <= rank <= worst <= n, model


def a_decided_pair_keeps_ranks_apart(ranking: Ranking) -> None:
    place = {m: i for i, m in enumerate(ranking.order)}
    for (a, b), what in ranking.decisions.items():
        if what == "decided" and place[a] < place[b]:
            (best_a, worst_a), (best_b, worst_b) = (ranking.rank_ranges[m] for m in (a, b))
            assert best_a < best_b and worst_a < worst_b, (a, b)


def ties_are_runs_of_neighbours_that_are_not_decided(ranking: Ranking) -> None:
    group = {m: i for i, tie in enumerate(ranking.ties) for m in tie}
    for a, b in pairwise(ranking.order):
        if a in ranking.known and b in ranking.known:
            continue
        tied = a in group and group[a] == group.get(b)
        assert tied == (ranking.decisions[a, b] != "decided"), (a, b)


def chances_of_the_top_add_up(ranking: Ranking) -> None:
    assert not asked(ranking) or abs(sum(ranking.p_best.values()) - 1.0) < 1e-6
    for k, chances in ranking.p_top.items():
        assert all(-NEAR <= p <= 1.0 + NEAR for p in chances.values())
        if len(chances) == len(ranking.order) >= k:
            assert abs(sum(chances.values()) - k) < 1e-6


def items_end_once(ranking: Ranking) -> None:
    for model, items in ranking.items.items():
        assert len(set(items)) == len(items)
        assert not set(items) & set(ranking.failed.get(model, {})), model
        assert {i for i, _ in ranking.draws.get(model, [])} <= set(items)
        assert all(0.0 < p <= 1.0 for _, p in ranking.draws.get(model, []))


def estimates_are_scores(ranking: Ranking) -> None:
    for model, estimate in ranking.estimates.items():
        low, high = ranking.interval(model)
        assert 0.0 <= estimate <= 1.0 and 0.0 <= low <= high <= 1.0, model
        assert ranking.standard_errors[model] >= 0.0


def what_is_in_flight_is_neither_told_nor_failed(ranker: Ranker, ranking: Ranking) -> None:
    for model, item in ranker.in_flight:
        assert item not in ranking.items[model] and item not in ranking.failed.get(model, {})
        assert model not in ranking.set_aside
    assert ranker.committed >= ranker.spent - NEAR


def open_pairs_are_open_neighbours(ranking: Ranking) -> None:
    place = {m: i for i, m in enumerate(ranking.order)}
    for pair in ranking.open_pairs:
        assert place[pair["b"]] == place[pair["a"]] + 1, (pair["a"], pair["b"])
        assert ranking.decisions[pair["a"], pair["b"]] == "open"
        assert all(n >= 0 for n in pair["items"].values()) and pair["cost"] >= 0.0


def decided_agrees_with_order_and_probability(ranking: Ranking) -> None:
    place = {m: i for i, m in enumerate(ranking.order)}
    for (a, b), what in ranking.decisions.items():
        if what == "decided" and place[a] < place[b]:
            assert ranking.pairwise[a, b] > 0.5, (a, b)
            assert ranking.estimates[a] >= ranking.estimates[b], (a, b)


def an_estimate_lies_in_its_interval(ranking: Ranking) -> None:
    for model in asked(ranking):
        low, high = ranking.interval(model)
        assert low - NEAR <= ranking.estimates[model] <= high + NEAR, model


def intervals_widen_with_confidence(ranking: Ranking) -> None:
    c = ranking.confidence
    for model in asked(ranking):
        ends = [ranking.interval(model, x) for x in (0.6, 0.8, c, 0.5 + 0.5 * c)]
        for (low, high), (lower, higher) in pairwise(ends):
            assert lower <= low + NEAR and high <= higher + NEAR, (model, ends)


def a_difference_excludes_0_if_and_only_if_its_pair_is_decided(ranking: Ranking) -> None:
    d = ranking.verdicts.min_difference
    for (a, b), what in ranking.decisions.items():
        gap, low, high = ranking.difference(a, b)
        assert low - NEAR <= gap <= high + NEAR, (a, b)
        if what == "equivalent":
            assert -d - NEAR <= low <= high <= d + NEAR, (a, b)
        else:
            assert (low > 0.0 or high < 0.0) == (what == "decided"), (a, b)


ALWAYS: tuple[Any, ...] = (
    a_difference_excludes_0_if_and_only_if_its_pair_is_decided,
    probabilities_of_a_pair_add_up,
    the_order_is_that_of_the_models,
    a_rank_lies_in_its_range,
    a_decided_pair_keeps_ranks_apart,
    ties_are_runs_of_neighbours_that_are_not_decided,
    chances_of_the_top_add_up,
    items_end_once,
    estimates_are_scores,
    open_pairs_are_open_neighbours,
    decided_agrees_with_order_and_probability,
    an_estimate_lies_in_its_interval,
    intervals_widen_with_confidence,
)


class AnyRanking(RuleBasedStateMachine):
    """The rules are the calls that a run makes; the journal must tell the same story."""

    @initialize(world=WORLDS)
    def open(self, world: World) -> None:
        note(repr(world))
        self.world = world
        self.lines: list[bytes] = []
        self.clock = iter(range(10**9))
        self.models = list(PRICES)[: world.models]
        self.rng = np.random.default_rng(0)
        self.seen: list[tuple[int, str]] = []
        self.run = self.fresh()

    def fresh(self) -> Teller:
        made = Teller(
            self.world.ranker(), Journal(self.lines), clock=lambda: float(next(self.clock))
        )
        made.read()
        return made

    @property
    def ranker(self) -> Ranker:
        return self.run.ranker

    def pick(self, data: st.DataObject, pairs: Any) -> Any:
        return data.draw(st.sampled_from(sorted(pairs, key=repr)))

    def some_model(self, data: st.DataObject) -> str:
        return str(data.draw(st.sampled_from(self.models)))

    # -- asking and answering -------------------------------------------------------------------

    @rule(n=st.integers(1, 6), data=st.data())
    def ask(self, n: int, data: st.DataObject) -> None:
        model = data.draw(st.none() | st.just(self.some_model(data)))
        before = self.ranker.in_flight
        pairs = self.run.ask(n, model)
        assert len(pairs) == len(set(pairs)) <= n and not set(pairs) & before
        assert model is None or {m for m, _ in pairs} <= {model}
        assert self.ranker.in_flight == before | set(pairs)
        if pairs and self.world.method == "default":  # others ask by mean prices, or warm up anyway
            assert self.ranker.committed <= self.ranker.budget * (1.0 + 1e-6)

    @rule(data=st.data(), least=st.sampled_from([0.0, 0.25]))
    def ask_among(self, data: st.DataObject, least: float) -> None:
        """A line asks like that; what it is handed is imposed, and journalled as asked."""
        room = data.draw(st.sets(st.sampled_from(self.models)))
        twin = self.fresh().ranker
        pairs = twin.ask(1, among=room, least_share=least)
        assert {m for m, _ in pairs} <= room
        if room == set(self.models):
            assert pairs == self.fresh().ranker.ask(1)
        for model, item in pairs:
            at = self.run.journal.item(item)
            draws = [twin.probability(model, item)]
            self.run.write([Asks(pairs=[(model, at)], draws=draws, after=[self.run.n_told])])

    @rule(data=st.data())
    @precondition(lambda self: self.ranker.in_flight)
    def tell(self, data: st.DataObject) -> None:
        model, item = self.pick(data, self.ranker.in_flight)
        cost = data.draw(st.sampled_from([PRICES[model], 0.0, 3.0 * PRICES[model]]))
        self.run.answer(model, item, self.world.score(model, item), cost)

    @rule()
    @precondition(lambda self: self.ranker.in_flight)
    def tell_all(self) -> None:
        for model, item in sorted(self.ranker.in_flight, key=repr):
            self.run.answer(model, item, self.world.score(model, item), PRICES[model])

    @rule(data=st.data())
    def tell_what_is_at_hand(self, data: st.DataObject) -> None:
        model, item = self.some_model(data), data.draw(st.sampled_from(self.world.items()))
        found = self.ranker.result()
        if item in found.items[model] or item in found.failed.get(model, {}):
            return
        score, at = self.world.score(model, item), self.run.journal.item(item)
        self.run.write([Tell(model=model, item=at, score=score, cost=0.0)])

    @rule(data=st.data(), cost=st.sampled_from([None, 0.0, 0.5]))
    @precondition(lambda self: self.ranker.in_flight)
    def fail(self, data: st.DataObject, cost: float | None) -> None:
        model, item = self.pick(data, self.ranker.in_flight)
        self.run.fail(model, item, "no answer", cost=cost)

    @rule(data=st.data())
    @precondition(lambda self: self.ranker.in_flight)
    def release(self, data: st.DataObject) -> None:
        self.run.release(*self.pick(data, self.ranker.in_flight))

    # -- what changes ---------------------------------------------------------------------------

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.run.drop(self.some_model(data), "its server is gone")

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.run.restore(self.some_model(data))

    @rule()
    @precondition(lambda self: "e" not in self.models)
    def add(self) -> None:
        self.models.append("e")
        self.run.write([Change(ranker={"add": {"e": PRICES["e"]}})])

    @rule()
    @precondition(lambda self: self.world.shape in REPEATS)
    def ask_items_more_often(self) -> None:
        repeats = {task: k + 1 for task, k in REPEATS[self.world.shape].items()}
        self.run.write([Change(ranker={"repeats": repeats})])

    @rule(change=st.sampled_from([{"budget": 90.0}, {"max_items": 20}, {"prices": {"a": 1.5}}]))
    def change(self, change: dict[str, Any]) -> None:
        self.run.write([Change(ranker=change)])

    @rule()
    @precondition(lambda self: len(self.lines) > 12)
    def stop(self) -> None:
        self.run.stop("a person pressed Ctrl-C")

    @rule(n=st.integers(1, 4))
    def kill(self, n: int) -> None:
        """A new process reads the journal: same state, same next asks."""
        before, self.run = self.run.ranker, self.fresh()
        assert state(self.ranker) == state(before)
        pairs = before.ask(n)
        assert self.run.ask(n) == pairs

    # -- what is refused ------------------------------------------------------------------------

    @rule(data=st.data(), cost=st.sampled_from([-1.0, math.nan, math.inf]))
    def refused(self, data: st.DataObject, cost: float) -> None:
        model = self.some_model(data)
        before, lines = state(self.ranker), len(self.lines)
        item, ranker = data.draw(st.sampled_from(self.world.items())), self.ranker
        asked = self.pick(data, ranker.in_flight) if ranker.in_flight else None
        score, found = self.world.score(model, item), ranker.result()
        calls = [
            lambda: ranker.tell(model, item, score, cost=cost),
            lambda: ranker.tell(model, item, 1.5),
            lambda: ranker.fail(model, item, "no", cost=cost),
            lambda: ranker.fail("nobody", item, "no"),
            lambda: ranker.drop("nobody"),
            lambda: self.run.drop("nobody", "gone"),
            lambda: ranker.change(add={model: 1.0}),
            lambda: ranker.change(budget=-1.0, add={"e": 1.0}),
            lambda: ranker.impose([(model, i, None) for i in (item, item)]),
        ]
        if asked:
            calls += [
                lambda: self.run.answer(*asked, score, cost),
                lambda: self.run.fail(*asked, "no", cost=cost),
                lambda: ranker.impose([(*asked, None)]),
            ]
        else:
            calls.append(lambda: ranker.release(model, item))
        for ended in (*found.items[model][:1], *list(found.failed.get(model, {}))[:1]):
            again = self.world.score(model, ended)
            calls += [
                lambda e=ended, s=again: ranker.tell(model, e, s),
                lambda e=ended: ranker.fail(model, e, "no", cost=1.0),
            ]
        for call in calls:
            with pytest.raises(CcatError):
                call()
        assert state(self.ranker) == before and len(self.lines) == lines

    # -- what holds -----------------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        ranker, ranking = self.ranker, self.ranker.result()
        for check in ALWAYS:
            check(ranking)
        what_is_in_flight_is_neither_told_nor_failed(ranker, ranking)
        if ranker.done:
            assert not ranker.in_flight and ranker.ask() == []
        cost = dict.fromkeys(ranking.cost, 0.0)  # the books are those of the journal
        for record in map(json.loads, self.lines):
            if record["op"] in ("tell", "fail"):
                cost[record["model"]] += record.get("cost") or 0.0
        assert ranking.cost == pytest.approx(cost)
        if self.rng.random() < 0.2:
            self.seen.append((len(self.lines), state(ranker)))

    def teardown(self) -> None:
        """Any prefix of the journal gives the state that the ranking then had."""
        if not hasattr(self, "world"):
            return
        for count, was in self.seen[-4:]:
            again = Teller(self.world.ranker(), Journal(self.lines[:count]))
            again.read()
            assert state(again.ranker) == was


AnyRanking.TestCase.settings = settings(
    max_examples=settings.default.max_examples // 3,
    stateful_step_count=20,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
TestAnyRanking = pytest.mark.long(AnyRanking.TestCase)
