"""The Ranker and its journal together: what is on disk when, who holds what, what adds up."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import RunError
from lm_eval_ccat.runs.identity import Differences
from lm_eval_ccat.runs.journal import MemoryJournal
from lm_eval_ccat.runs.journaled import CUT_OFF, LOST, JournaledRanker


def make_bank() -> Any:
    rng = np.random.default_rng(0)
    logits = np.linspace(-1, 1, 8)[:, None] + rng.normal(size=(1, 30)) + rng.normal(size=(8, 30))
    scores = 1.0 / (1.0 + np.exp(-logits))
    table = ScoreTable.from_arrays(scores, models=[f"m{j}" for j in range(8)])
    return calibrate(table, method="paper")


BANK = make_bank()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fresh() -> Ranker:
    return Ranker(BANK, {"a": 1.0, "b": 2.0}, warmup=4, max_items=8)


def journaled(lines: list[bytes] | None = None, clock: Clock | None = None) -> JournaledRanker:
    ranker = JournaledRanker(fresh(), MemoryJournal(lines), clock=clock or Clock())
    ranker.sync()
    return ranker


class Recorder(MemoryJournal):
    """Says what happened in which order, and may refuse."""

    def __init__(self, happened: list[str]) -> None:
        super().__init__()
        self.happened = happened
        self.full = False

    def append(self, records: Any) -> None:
        if self.full:
            raise RunError("No space left on device")
        records = list(records)
        super().append(records)
        self.happened += [f"written {r['op']}" for r in records]

    def make_durable(self) -> None:
        self.happened.append("durable")


def test_a_score_is_on_disk_before_the_ranker_knows_it() -> None:
    happened: list[str] = []
    journal = Recorder(happened)
    ranker = JournaledRanker(fresh(), journal, clock=Clock())
    [(model, item)] = ranker.ask(1)
    tell = ranker.ranker.tell

    def told(*args: Any, **kwargs: Any) -> None:
        happened.append("applied")
        tell(*args, **kwargs)

    ranker.ranker.tell = told  # type: ignore[method-assign]
    ranker.tell(model, item, 0.5, 1.0)
    assert happened == ["written ask", "written tell", "applied", "durable"]


def test_what_the_disk_refuses_the_ranker_never_hears() -> None:
    journal = Recorder([])
    ranker = JournaledRanker(fresh(), journal, clock=Clock())
    [(model, item)] = ranker.ask(1)
    journal.full = True
    calls: list[Callable[[], Any]] = [
        lambda: ranker.tell(model, item, 0.5, 1.0),
        lambda: ranker.fail(model, item, "HTTP 400"),
        lambda: ranker.release(model, item),
        lambda: ranker.drop(model, "HTTP 401"),
        lambda: ranker.stop("time"),
    ]
    for call in calls:
        with pytest.raises(RunError, match="No space"):
            call()
    result = ranker.ranker.result()
    assert result.items[model] == [] and not result.set_aside and not ranker.done
    assert ranker.unanswered() == [(model, item)] and not ranker.answers


def test_an_answer_that_comes_late_is_paid_and_does_not_count() -> None:
    lines: list[bytes] = []
    ranker = journaled(lines)
    [(model, item)] = ranker.ask(1)
    ranker.release(model, item)
    ranker.tell(model, item, 0.5, 1.0)
    assert ranker.ranker.result().items[model] == []
    last = MemoryJournal(lines).read_new()[-1]
    assert (last["op"], last["event"], last["cost"]) == ("note", "late tell", 1.0)


def test_what_the_journal_says_adds_up_and_is_read_back() -> None:
    lines: list[bytes] = []
    clock = Clock()
    ranker = journaled(lines, clock=clock)
    ranker.note("start", op="session")
    tokens = {"input": 100, "output": 7, "source": "usage"}
    spent = {"a": 0.0, "b": 0.0}
    for n in range(6):
        for model, item in ranker.ask(1):
            clock.now += 2.0
            if n == 3:
                ranker.fail(model, item, "HTTP 400", cost=0.25, seconds=0.5)
                spent[model] += 0.25
            elif n == 4:
                ranker.release(model, item, why="interrupted")
            else:
                ranker.tell(model, item, 0.5, 1.5, seconds=0.5, tokens=tokens, empty=n == 0)
                spent[model] += 1.5
    clock.now += 1000.0  # nobody was there
    ranker.note("resume", op="session")
    clock.now += 3.0
    ranker.note("interrupted")
    again = journaled(lines, clock=clock)
    for one in (ranker, again):
        tally = one.tally
        assert {m: tally.costs.get(m, 0.0) for m in spent} == spent
        assert sum(tally.answered.values()) == 4
        assert sum(tally.seconds.values()) == pytest.approx(2.5)
        assert sum(tally.input_tokens.values()) == 400
        assert sum(tally.output_tokens.values()) == 28
        assert sum(tally.empty_outputs.values()) == 1
        assert {s for found in tally.token_sources.values() for s in found} == {"usage"}
        [[failure]] = tally.failures.values()
        assert failure[1] == "HTTP 400"
        assert tally.elapsed == pytest.approx(15.0) and tally.resumed == 1
        assert len(one.answers) == 4 and not one.claims
    assert ranker.elapsed() == again.elapsed() == pytest.approx(15.0)
    clock.now += 1.0
    assert again.elapsed() == pytest.approx(16.0)
    assert again.ranker.result().to_dict() == ranker.ranker.result().to_dict()


def test_a_model_set_aside_holds_nothing_and_is_set_aside_once() -> None:
    lines: list[bytes] = []
    ranker = journaled(lines)
    pairs = ranker.ask(4)
    ranker.drop("a", "HTTP 401")
    ranker.drop("a", "again")
    assert ranker.tally.set_aside == {"a": "HTTP 401"}
    assert ranker.unanswered() == [p for p in pairs if p[0] == "b"]
    assert ranker.unanswered("b") == [p for p in pairs if p[0] == "b"]
    ranker.stop("enough")
    ranker.stop("more than enough")
    ops = [r["op"] for r in MemoryJournal(lines).read_new()]
    assert ops.count("drop") == 1 and ops.count("stop") == 2 - ranker.done
    again = journaled(lines)
    assert again.tally.set_aside == {"a": "HTTP 401"} and again.claims == ranker.claims


def test_a_model_set_aside_can_be_taken_back() -> None:
    lines: list[bytes] = []
    ranker = journaled(lines)
    ranker.restore("a")  # it is not set aside: nothing to write
    assert not lines
    ranker.drop("a", "HTTP 503")
    ranker.restore("a")
    for one in (ranker, journaled(lines)):
        assert not one.tally.set_aside and not one.ranker.result().set_aside
        assert "a" in one.ranker.result().order


def test_asking_in_vain_writes_nothing() -> None:
    lines: list[bytes] = []
    ranker = journaled(lines)
    while ranker.ask(4):
        pass
    before = len(lines)
    assert ranker.ask(4) == [] and len(lines) == before


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan"), "0.5", None])
def test_a_score_that_is_none_is_refused_before_it_is_written(score: Any) -> None:
    lines: list[bytes] = []
    ranker = journaled(lines)
    [(model, item)] = ranker.ask(1)
    for wrong in (score, {"bleu": 0.5, "chrf": score}):
        with pytest.raises(RunError, match=rf"of {model} on item {item} is not in \[0, 1\]"):
            ranker.tell(model, item, wrong, 1.0)
    assert len(lines) == 1


def test_a_record_of_a_later_version_is_refused() -> None:
    lines: list[bytes] = []
    MemoryJournal(lines).append([{"op": "merge"}])
    with pytest.raises(RunError, match="'merge' that this version does not know"):
        journaled(lines)


@pytest.mark.parametrize("method", ["paper", "default"])
def test_selection_derives_again_what_was_recorded(method: str) -> None:
    rng = np.random.default_rng(1)
    scores = np.clip(rng.beta(2, 2, size=(10, 40)) + np.linspace(-0.2, 0.2, 10)[:, None], 0, 1)
    table = ScoreTable.from_arrays(scores, models=[f"m{j}" for j in range(10)])
    bank = calibrate(table.without(["m2", "m7"]), method=method)

    def ranker() -> Ranker:
        return Ranker(bank, {"m2": 1.0, "m7": 2.0}, warmup=3, max_items=12, audit=0.2, seed=5)

    lines: list[bytes] = []
    live = JournaledRanker(ranker(), MemoryJournal(lines), clock=Clock())
    while pairs := live.ask(3):
        for model, item in pairs:
            live.tell(model, item, float(table.select([model]).scores[0, item]), 1.0)
    selecting = ranker()
    drawn = 0
    for record in MemoryJournal(lines).read_new():
        if record["op"] == "ask":
            assert selecting.ask(record["count"], model=record["model"]) == record["pairs"]
            draws = [selecting.probability(*pair) for pair in record["pairs"]]
            assert draws == record["draws"]
            drawn += sum(p is not None for p in draws)
        else:
            selecting.tell(record["model"], record["item"], record["score"], cost=record["cost"])
    assert drawn > 0
    imposed = JournaledRanker(ranker(), MemoryJournal(lines))
    imposed.sync()
    assert imposed.ranker.result().to_dict() == selecting.result().to_dict()


def test_every_attempt_is_in_the_costs_or_in_doubt_until_its_record_takes_it_over() -> None:
    lines: list[bytes] = []
    ranker = journaled(lines)
    items = [item for _, item in ranker.ask(4, model="a")]
    for item in items[:3]:
        ranker.note(LOST, model="a", item=item, cost=0.5)
    ranker.tell("a", items[0], 0.4, 1.5)  # its cost holds the lost attempt
    ranker.release("a", items[1], why="deadline", cost=1.0)
    ranker.note(CUT_OFF, model="a", item=items[3], cost=1.0)
    ranker.drop("a", "away")
    ranker.tell("a", items[3], 0.4, 0.25)  # too late
    for one in (ranker, journaled(lines)):
        assert one.tally.lost == {("a", items[2]): 0.5}
        assert one.tally.in_doubt["a"] == 0.5 + 1.0 + 1.0 + 0.25
        assert one.tally.cost_in_doubt == 3.25


def test_earlier_answers_are_counted() -> None:
    ranker = journaled()
    for n, (model, item) in enumerate(ranker.ask(5, model="a")):
        ranker.tell(model, item, 0.5, 0.0, prior="old.json" if n < 2 else None)
    assert ranker.tally.prior == {"a": 2} and ranker.tally.answered == {"a": 5}


def test_a_change_counts_at_once_and_nothing_is_written_where_nothing_changed() -> None:
    lines: list[bytes] = []
    ranker = journaled(lines)
    ranker.change(Differences([], [], {}), {})
    assert not lines
    prices = {"a": 1.0, "b": 3.0}
    ranker.change(Differences([], ["a URL"], {}), {"bank_sha256": "0", "run": "r"})
    ranker.change(Differences([], ["a price"], {"prices": prices}), {"ranker": {"models": prices}})
    for one in (ranker, journaled(lines)):
        assert [c["settings"] for c in one.tally.changes] == [["a URL"], ["a price"]]
        identities = [c["identity"] for c in one.tally.changes]
        assert identities == [{"bank_sha256": "0"}, {"ranker": {"models": prices}}]
        one.ranker.ask(1, model="b")
        assert one.ranker.committed == 3.0


def test_time_of_its_own_is_what_passed_between_two_looks(monkeypatch) -> None:
    ticks = iter(range(1000))
    clock = SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    monkeypatch.setattr("lm_eval_ccat.runs.journaled.time", clock)
    ranker = journaled()
    assert (ranker.ranker_seconds, ranker.journal_seconds, ranker.sync_seconds) == (0.0, 0.0, 0.0)
    [(model, item)] = ranker.ask(1)
    assert (ranker.ranker_seconds, ranker.journal_seconds, ranker.sync_seconds) == (1.0, 1.0, 0.0)
    ranker.tell(model, item, 0.5, 1.0)
    assert (ranker.ranker_seconds, ranker.journal_seconds, ranker.sync_seconds) == (2.0, 2.0, 1.0)
