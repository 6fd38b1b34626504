"""Answers take effect in the order in which they were asked: equal runs end equally."""

from __future__ import annotations

import math
import queue
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.bench import facts
from worlds.boards import bank_of
from worlds.server import CompletionsServer, trouble

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.journal import Journal
from lm_eval_ccat.live import channel
from lm_eval_ccat.live.charges import Charges
from lm_eval_ccat.live.line import GROWTH_IN_TURNS, WINDOW, Line
from lm_eval_ccat.live.models import Answer, HarnessModel
from lm_eval_ccat.live.plan import Plan
from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.live.sender import new_line, windows_of
from lm_eval_ccat.live.spec import ModelSpec, Spec
from lm_eval_ccat.records import Item, Lost, Tell
from lm_eval_ccat.runs.book import OPEN, Ask, Book

THREE = ["m01", "m03", "m05"]


def bank() -> ItemBank:
    return replace(bank_of("paper", 40), task="")


def fresh(journal: Journal) -> Book:
    prices = {"a": 1.0, "b": 2.0, "c": 1.5}
    book = Book(Ranker(bank(), prices, warmup=3, max_items=12), journal)
    book.read()
    return book


def played(
    seed: int | None, arrival: bool = False, away: bool = False, before: Sequence[bytes] = ()
) -> Book:
    """A run over a line, from a journal's lines to its end.

    Answers come as they are asked. With a seed asks are sent, put back and answered in any order;
    with `away`, models go and come back, and answers come to asks that have left the line.
    """
    rng, book, wire = random.Random(seed), fresh(Journal([*before])), list[Ask]()
    line = Line(book, {"a": 2, "b": 3, "c": 6}, arrival=arrival, warmup=3)
    line.start()
    while line.end_reason is None:
        free = [ask for ask in book.unanswered if ask not in wire]
        for model in "abc":
            waiting = [ask for ask in free if ask.model == model]
            sent = line.next(model, 9 if seed is None else rng.randrange(4))
            assert sent == waiting[: len(sent)], "oldest first, and only what is open"
            assert line.has_next(model) == (len(waiting) > len(sent))
            wire += sent
        assert line.head == next(iter(book.unanswered), None)
        if seed is not None:
            rng.shuffle(wire)
            line.put_back(wire[4:])
            wire = wire[:4]
        if away and not rng.randrange(6):
            model = rng.choice("abc")
            line.take_up(model) if model in line.away else line.set_aside(model, "503", away=True)
        elif away and line.away and not wire:
            line.take_up(min(line.away))
        now, wire = wire[:2], wire[2:]
        line.arrive([
            Tell(
                n=None if arrival else ask.number, model=ask.model, item=ask.item, cost=1.0,
                score=random.Random(f"{ask.pair}").random() / 2 + "abc".index(ask.model) / 5,
            )
            for ask in now
            if not (arrival and ask.state != OPEN)
        ])  # fmt: skip
    return book


@pytest.mark.long
@given(st.integers(0, 2**32), st.floats(0, 1))
def test_neither_the_order_of_answers_nor_a_kill_changes_a_result(seed, cut):
    calm, whole = played(None), played(seed)
    lines = whole.journal.lines[: int(cut * len(whole.journal.lines))]
    assert calm.ranker.result() == whole.ranker.result()
    assert calm.ranker.result() == played(seed + 1, before=lines).ranker.result()


@pytest.mark.long
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_a_journal_replays_to_what_the_run_ended_with(seed, arrival, away):
    book = played(seed, arrival, away)
    assert book.ended and book.ended.reason == "", "whoever is away, it ends by itself"
    again = fresh(Journal(book.journal.lines))
    again.settle()
    assert again.ranker.result() == book.ranker.result() and again.done
    assert again.n_told == book.n_told == len(book.answers) and not again.ranker.in_flight
    tells = [r for r in Journal(book.journal.lines).read_new() if isinstance(r, Tell)]
    assert len({tell.pair for tell in tells}) == len(tells), "none is asked twice"


@pytest.mark.long
def test_models_that_take_turns_are_loaded_a_few_times_and_asked_little_too_much():
    bank = ItemBank.blank(range(400))
    ranker = Ranker(bank, dict.fromkeys("abcd", 1.0), max_items=200, stop="limits")
    book = Book(ranker, Journal())
    growth = dict.fromkeys("abcd", GROWTH_IN_TURNS)
    line = Line(book, dict.fromkeys("abcd", WINDOW), growth, warmup=10)
    line.start()
    loaded, loads, answered = "", 0, Counter[str]()
    while line.end_reason is None:
        head = line.head
        assert head is not None
        if not line.has_next(loaded or head.model) or not loaded:
            loaded, loads = head.model, loads + 1
        asks = line.next(loaded, 8)
        answered[loaded] += len(asks)
        assert answered[loaded] <= 1.5 * book.n_told_by_model[loaded] + 16
        line.arrive([
            Tell(n=ask.number, model=loaded, item=ask.item, score=0.5)
            for ask in asks
        ])  # fmt: skip
    assert answered == dict.fromkeys("abcd", 200)
    assert loads <= 4 * math.log2(200 / 10)


def test_a_run_to_its_limits_lets_no_model_wait_for_another():
    """One model is far below two close ones, and is asked as fast all the same."""
    prices, scores = dict.fromkeys("abc", 1.0), random.Random(0)
    means = {"a": 0.1, "b": 0.6, "c": 0.62}
    book = Book(Ranker(ItemBank.blank(range(80)), prices, max_items=40, stop="limits"), Journal())
    line = Line(book, dict.fromkeys("abc", 12), warmup=10, ends_at_goal=False)
    line.start()
    while line.end_reason is None:
        open_asks = Counter(ask.model for ask in book.unanswered)
        for model in "abc":
            assert open_asks[model] == min(12, 40 - book.n_told_by_model[model])
        [ask] = book.unanswered[:1]
        score = means[ask.model] + 0.3 * (scores.random() - 0.5) * (ask.model != "a")
        line.arrive([Tell(n=ask.number, model=ask.model, item=ask.item, score=score)])


def first(seconds: float) -> Callable[..., bool]:
    """Whether less than so many seconds have passed since the first call."""
    began: list[float] = []

    def holds(*_: Any) -> bool:
        began.append(time.monotonic())
        return began[-1] - began[0] < seconds

    return holds


@pytest.mark.long
def test_a_rival_in_trouble_costs_what_a_calm_one_does(bench, monkeypatch):
    def spent(seconds=0.004, mood=None, slots=4):
        """What the server billed, and the result, where m05 takes so many seconds an answer."""
        latency = {**dict.fromkeys(THREE, 0.004), "m05": seconds}
        with CompletionsServer(bench.outputs, latency=latency, mood=mood) as server:
            config = bench.config(
                server.url, THREE, bank="default.bank.json", seed=1,
                model_args={"num_concurrent": slots, "timeout": 60},
                entry={"price": {"item": 0.001}},
                failures={"backoff": 0.1, "max_backoff": 0.5, "outage_minutes": 0.04},
            )  # fmt: skip
            content = rank(config).content
            return 0.001 * sum(server.answered.values()), content

    calm, result = spent()
    slow, content = spent(0.08, slots=8)
    assert facts(content) == facts(result)
    outage, content = spent(mood=trouble("status", 503, of="m05", when=first(1.0)), slots=1)
    assert facts(content) == facts(result)
    monkeypatch.setattr(channel, "SILENCE", 2.0)
    monkeypatch.setattr(channel, "FIRST_PATIENCE", 1.0)
    hanging, content = spent(mood=trouble("hang", 40.0, of="m05"))
    # Who takes requests and answers none is not waited for once the others are done.
    assert content["models"]["m05"]["set_aside"] == "no answer, not even to a second request"
    assert content["money"]["unknown"] >= 0.001
    for cost in (slow, outage, hanging):  # behind the deciding answer: a window of either model
        assert cost <= 1.1 * calm + 0.001 * 2 * 16


@pytest.mark.long
def test_answers_that_come_while_a_run_stands_still_are_not_asked_for_again(bench, server):
    """Ctrl-Z and `fg`, or a busy machine: all asks in flight are old, and all were answered."""
    server.latency = 0.3
    config = bench.config(
        server.url, ["m01", "m11"], bank=None, stop="limits", max_items=40,
        model_args={"num_concurrent": 8},
    )  # fmt: skip
    command = [sys.executable, "-m", "lm_eval_ccat", "rank", str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        for answers in (20, 36, 52):
            while sum(server.answered.values()) < answers and run.poll() is None:
                time.sleep(0.01)
            run.send_signal(signal.SIGSTOP)
            time.sleep(2.0)
            run.send_signal(signal.SIGCONT)
    assert run.returncode in (0, 3)
    assert sum(server.asked.values()) == 2 * 40


@pytest.mark.long
def test_whom_nothing_can_be_ranked_without_is_waited_for(bench, server, monkeypatch):
    wakes_late = trouble("hang", 1.5, of="m05", when=first(1.2))
    monkeypatch.setattr(channel, "SILENCE", 0.6)
    monkeypatch.setattr(channel, "FIRST_PATIENCE", 0.3)
    server.mood = wakes_late
    config = bench.config(
        server.url, ["m05", "m11"], max_items=12, stop="limits",
        model_args={"num_concurrent": 2}, failures={"outage_minutes": 1, "backoff": 0.1},
    )  # fmt: skip
    content = rank(config).content
    assert not content["models"]["m05"]["set_aside"]
    assert [block["n_items"] for block in content["models"].values()] == [12, 12]


@pytest.mark.long
def test_every_model_works_at_its_full_width(bench, server):
    server.latency = 0.1
    config = bench.config(
        server.url, THREE, model_args={"num_concurrent": 8}, stop="limits", max_items=24
    )
    rank(config)
    assert sum(server.answered.values()) == 72
    # Every model was given as much at once as it takes; times would be spoilt by a busy machine.
    assert server.most_at_once == dict.fromkeys(THREE, 8)


def test_slots_stay_full_while_the_oldest_answer_is_slow():
    """A window is counted from it: what all slots take meanwhile must find room there, too."""
    plan = SimpleNamespace(spec=Spec(stop="limits"), rule=None, known=())
    slots = {"a": 1, "b": 500}
    assert all(window >= 2 * slots[name] for name, window in windows_of(plan, slots).items())
    plan.spec = Spec(stop="decided")  # where an answer may come too late, few are out
    assert set(windows_of(plan, slots).values()) == {WINDOW}


BY_TOKENS, BY_ITEM = {"input": 1.0, "output": 1.0}, {"item": 0.5}


@pytest.mark.parametrize(
    ("models", "options", "expected"),
    [
        # Pairs decide, so a model that is left alone has nothing to be asked for.
        ("ab", {}, {"compares_only": True, "max_untold": None, "warmup_at_once": True}),
        ("a", {}, {"compares_only": False}),
        ("ab", {"stop": "decided and se 0.02"}, {"compares_only": False}),
        ("ab", {"ahead": 1}, {"max_untold": 1, "warmup_at_once": False}),
        ("ab", {"ahead": 4}, {"max_untold": None, "warmup_at_once": False}),
        ("ab", {"order": "arrival"}, {"arrival": True}),
        # What an answer costs is known once one has come, unless the price is by the item.
        ("ab", {"budget": {"tokens": 900}}, {"first_alone": True}),
        ("ab", {"budget": {"usd": 9.0}, "price": BY_TOKENS}, {"first_alone": True}),
        ("ab", {"budget": {"usd": 9.0}, "price": BY_ITEM}, {"first_alone": False}),
        ("ab", {"budget": {"items": 90}, "price": BY_TOKENS}, {"first_alone": False}),
    ],
)
def test_a_line_asks_ahead_as_its_run_allows(models, options, expected):
    price = {"price": options["price"]} if "price" in options else {}
    entries = [{"name": name, "model": "hf", **price} for name in models]
    rest = {key: value for key, value in options.items() if key != "price"}
    spec = Spec.read({"task": "t", "models": entries, **rest})
    plan = Plan(spec, {"t": {"x": Outcome.of(bank(), "t", "x")}}, {}, Charges(spec))
    line = new_line(plan, fresh(Journal([])), dict.fromkeys(models, 2))
    assert {name: getattr(line, name) for name in expected} == expected
    assert line.warmup == plan.warmup_items == 10 and set(line.growth) == {*models}


def test_a_model_that_lives_elsewhere_has_no_session_here():
    class Far(HarnessModel):
        def ask(self, items: Sequence[Any]) -> list[Answer]:
            return [Answer(item=item, score=0.5) for item in items]

    came: queue.SimpleQueue[Any] = queue.SimpleQueue()
    Far(ModelSpec("a", "hf"), Spec(), {"t": {}}, print).start([Item(("t", 7))], came.put)
    assert came.get(timeout=10.0) == [Answer(item=Item(("t", 7)), score=0.5)]


def test_a_budget_that_shrinks_gives_back_the_youngest_asks():
    book = Book(Ranker(bank(), {"a": 1.0, "b": 1.0}, warmup=3, budget=12.0), Journal())
    book.read()
    line = Line(book, {"a": 4, "b": 4}, warmup=3)
    line.start()
    numbers = sorted(ask.number for ask in book.unanswered)
    line.record_lost(Lost(model="a", item=book.unanswered[0].item, why="cut", cost=8.5))
    left = sorted(ask.number for ask in book.unanswered)
    assert 0 < len(left) < len(numbers) and left == numbers[: len(left)]


def line_of(models: str, windows: int = 2, warmup: int = 1, **options: Any) -> Line:
    """A line of models that may each be asked twelve items, which has started."""
    ranker = Ranker(bank(), dict.fromkeys(models, 1.0), warmup=warmup, max_items=12, stop="limits")
    line = Line(Book(ranker, Journal()), dict.fromkeys(models, windows), warmup=warmup, **options)
    line.start()
    return line


def answer(line: Line, model: str) -> None:
    """Answer the oldest ask of a model that waits."""
    [ask] = line.next(model)
    line.arrive([Tell(n=ask.number, model=model, item=ask.item, score=0.5, cost=1.0)])


def test_a_model_that_is_left_alone_is_asked_nothing_unless_it_may_be():
    line = line_of("ab")
    line.set_aside("b", "HTTP 401")
    assert line.end_reason == "only a is left, with no model to compare it to"
    line = line_of("a", compares_only=False)
    assert line.end_reason is None and line.has_next("a")
    line.set_aside("a", "HTTP 401")
    assert line.end_reason == "every model was set aside"


def test_a_first_answer_tells_a_price_before_anything_else_is_asked():
    line = line_of("ab", windows=6, warmup=4, first_alone=True)
    assert Counter(ask.model for ask in line.book.unanswered) == {"a": 1, "b": 1}
    answer(line, "a")
    assert Counter(ask.model for ask in line.book.unanswered)["b"] == 1
    answer(line, "b")
    assert min(Counter(ask.model for ask in line.book.unanswered).values()) > 1


def test_a_run_waits_for_a_model_that_is_away_and_ends_without_one_that_is_gone():
    line = line_of("abc")
    line.set_aside("b", "HTTP 503", away=True)
    while waiting := [model for model in "ac" if line.has_next(model)]:
        answer(line, waiting[0])
    assert line.book.n_told_by_model["a"] == line.book.n_told_by_model["c"] == 12
    assert line.end_reason is None and line.away == {"b"}
    line.set_aside("b", "away for 30 minutes")
    assert line.end_reason == "" and not line.away
    count = line.book.journal.count
    line.set_aside("b", "HTTP 401")
    assert line.book.tally.set_aside["b"] == "away for 30 minutes"
    assert line.book.journal.count == count


def test_a_run_that_is_over_keeps_its_reason():
    line = line_of("ab")
    line.end("the 60 seconds are used up")
    count = line.book.journal.count
    line.end("interrupted")
    assert line.end_reason == "the 60 seconds are used up" and line.book.journal.count == count


@pytest.mark.long
def test_an_answer_takes_as_many_steps_among_many_models_as_among_few():
    def calls_an_answer(n_models: int) -> float:
        models, calls = [f"m{n}" for n in range(n_models)], Counter[str]()
        book = Book(Ranker(ItemBank.blank(range(200)), models, stop="limits"), Journal())
        line = Line(book, dict.fromkeys(models, 4), ends_at_goal=False)
        line.start()
        asks = [ask for _ in range(3) for model in models for ask in line.next(model, 1)]
        sys.setprofile(lambda frame, event, _: calls.update([event]))
        for ask in asks:
            line.arrive([Tell(n=ask.number, model=ask.model, item=ask.item, score=0.5)])
        sys.setprofile(None)
        return calls["call"] / len(asks)

    assert calls_an_answer(80) < 1.2 * calls_an_answer(20)
