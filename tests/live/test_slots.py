"""More slots make a run faster, and neither dearer nor another run."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from worlds.bench import facts

from lm_eval_ccat.errors import RunError, ScaleError
from lm_eval_ccat.live import sender as sending
from lm_eval_ccat.live.failures import Availability
from lm_eval_ccat.live.models import taking_turns
from lm_eval_ccat.live.pace import Pace
from lm_eval_ccat.live.sender import Sender
from lm_eval_ccat.records import Item

FOUR = ["m01", "m05", "m07", "m11"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("models", "bank"),
    [(FOUR, "default.bank.json"), (["m01", "m11"], None), (["m05", "m07"], None)],
)  # fmt: skip
def test_more_slots_cost_no_more_and_change_nothing(bench, server, capsys, models, bank):
    server.latency = 0.03
    contents = []
    for slots in (8, 64):
        before = sum(server.asked.values())
        entry = {"concurrency": slots}
        contents.append(bench.ranked(server, models, bank=bank, entry=entry, name=f"of{slots}"))
        received = sum(server.asked.values()) - before
        used, asked = contents[-1]["items_administered"], contents[-1]["asked"]
        assert asked == received <= 1.15 * used + 16 * len(models)
        assert asked == sum(block["asked"] for block in contents[-1]["models"].values())
        every = bench.n_docs * len(models)
        beyond = f", used {used}" if asked > used else ""
        said = f"asked {asked}{beyond} of {every}"
        assert contents[-1]["headline"].endswith(said) and said in capsys.readouterr().out
    few, many = map(facts, contents)
    assert few == many


@pytest.mark.long
def test_a_run_to_its_limits_uses_all_slots_and_every_answer(bench, server):
    server.latency = 0.5
    content = bench.ranked(
        server, ["m01", "m11"], bank=None, stop="limits", max_items=60, entry={"concurrency": 32}
    )
    assert content["asked"] == content["items_administered"] == 120
    assert max(server.most_at_once.values()) > 16


@pytest.mark.long
def test_a_run_that_waits_for_first_answers_sleeps(bench, server, monkeypatch):
    server.latency, waits = 0.5, []
    genuine = Sender.collect
    monkeypatch.setattr(
        Sender, "collect", lambda *args, **named: (waits.append(args), genuine(*args, **named))
    )
    models, entry = ["m01", "m05", "m11"], {"concurrency": 8}
    bench.ranked(server, models, stop="limits", max_items=4, warmup=4, entry=entry)
    assert len(waits) < 40  # by a look every 2 ms, 250 before the first answer


@pytest.mark.parametrize(
    ("limit", "ahead", "memory", "turns"),
    [
        (None, None, {"a": math.inf, "b": math.inf, "server": None}, {"a", "b"}),
        (None, None, {"a": math.inf, "b": math.inf, "c": 3.0}, {"a", "b"}),
        (None, None, {"a": math.inf, "server": None}, set()),
        (None, 1, {"a": math.inf, "b": math.inf}, set()),
        (4.0, None, {"a": 2.0, "b": 2.0, "server": None}, set()),
        (4.0, None, {"a": 2.0, "b": 2.5}, {"a", "b"}),
        (4.0, None, {"a": 2.0, "b": math.inf}, {"a", "b"}),
        (4.0, None, {"a": math.inf, "server": None}, set()),
        (0.3, None, {"a": 0.1, "b": 0.2}, set()),
    ],
)
def test_models_take_turns_that_do_not_fit_together_or_may_not(limit, ahead, memory, turns):
    assert taking_turns(SimpleNamespace(memory=limit, ahead=ahead), memory) == turns


def test_a_model_that_fits_nowhere_is_refused_even_alone():
    with pytest.raises(RunError, match="model a needs memory 5, more than the 4"):
        taking_turns(SimpleNamespace(memory=4.0, ahead=None), {"a": 5.0})


def sender(**parts):
    """A sender of stand-ins: its own methods on what they ask of others."""
    made = object.__new__(Sender)
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def noted(places, channel, idle):
    """Note which model is given a place, and whose; there is one."""
    places.append((channel.name, [holder.name for holder in idle]))
    return True


def test_models_on_nodes_take_turns_beside_those_that_take_turns_here(monkeypatch):
    monkeypatch.setattr(sending, "taking_turns", lambda spec, memory: {"here"})
    for fits, names in ((False, {"here", "a", "b"}), (True, {"here"})):
        models = [
            SimpleNamespace(
                name=name, memory=None, bundle=bundle, fits_beside=lambda _, fits=fits: fits
            )
            for name, bundle in (("here", None), ("a", {"GPU": 1}), ("b", {"GPU": 1}))
        ]
        part = sender(plan=SimpleNamespace(spec=None), models=models)
        assert part._names_taking_turns() == names


def test_the_model_at_the_head_of_the_line_gets_the_place_of_one_with_open_asks():
    """All wait for its answer; a further model waits until the holder has no open ask."""
    for order, given in ((["b", "a"], [("b", ["a"])]), (["a", "b"], [("b", [])])):
        a, b = (SimpleNamespace(name=name, to_open=False) for name in "ab")
        places = []
        part = sender(
            _taking_turns=[a, b], _holders=[a], channels={"a": a, "b": b},
            book=SimpleNamespace(unanswered=[SimpleNamespace(model=name) for name in order]),
            _is_busy=lambda holder: False,
            _give_place=partial(noted, places),
        )  # fmt: skip
        part.take_turns()
        assert places == given


def test_a_run_begins_without_a_model_for_which_a_cluster_has_no_room_only_after_a_while(
    monkeypatch,
):
    moments = iter(range(0, 10_000, 10))
    monkeypatch.setattr(sending, "clock", lambda: next(moments))
    monkeypatch.setattr(sending.time, "sleep", lambda _: None)
    waiting, fed = SimpleNamespace(to_open=True, model=SimpleNamespace(missing="GPU")), []
    part = sender(
        _models_to_open_first=lambda: [waiting], feed=fed.append,
        interrupts=SimpleNamespace(heed=lambda: None),
    )  # fmt: skip
    part.open_first()
    assert 10 * len(fed) > sending.REPORT >= 10 * (len(fed) - 1)


def test_a_model_that_hangs_is_waited_for_until_two_others_are_done():
    """One alone could not be ranked."""
    for compares_only, n_others, done in ((True, 1, False), (True, 2, True), (False, 1, True)):
        names = ["hangs", *"ab"[:n_others]]
        channels = {name: SimpleNamespace(name=name, wire=[], retries=[]) for name in names}
        part = sender(
            channels=channels, book=SimpleNamespace(tally=SimpleNamespace(set_aside=["hangs"])),
            line=SimpleNamespace(compares_only=compares_only, has_next=lambda name: False),
        )  # fmt: skip
        assert part._others_are_done() is done


def test_a_model_without_a_node_says_so_every_ten_seconds_until_it_is_set_aside():
    told, aside = [], []
    model = SimpleNamespace(missing="GPU 1", too_large=False, close=lambda: None)
    channel = SimpleNamespace(
        name="a", model=model, outage_limit=60.0, set_aside=aside.append, to_open=True
    )
    waiting = sender(
        _waiting_for_node={}, _holders=[channel], observer=SimpleNamespace(warn=told.append)
    )
    for second in range(61):
        waiting._wait_for_node(channel, 100.0 + second)
    assert told == ["a is waiting for a node: GPU 1"] * 5
    assert aside == ["no node had room for it within 60 s: GPU 1"] and waiting._holders == []


@pytest.mark.parametrize(("told", "refused"), [({"a": 9}, True), ({"a": 2}, False)])
def test_scores_above_a_cap_are_refused_once_all_models_that_are_left_have_their_first(
    told, refused
):
    """Of b, which is set aside, nothing is to come."""
    answers = {("a", Item(("t", n))): SimpleNamespace(raw=250.0) for n in range(9)}
    book = SimpleNamespace(
        tally=SimpleNamespace(set_aside={"b": "gone"}),
        n_told_by_model={"b": 0, **told},
        answers=answers,
    )
    outcome = SimpleNamespace(task="t", scale=SimpleNamespace(cap=100.0))
    checking = sender(
        book=book, _capped=[("ter", outcome)], channels=dict.fromkeys("ab"),
        line=SimpleNamespace(warmup=5),
    )  # fmt: skip
    with pytest.raises(ScaleError) if refused else nullcontext():
        checking._require_below_caps()


def opened(**models: Any) -> Any:
    """A sender whose models are open, each with its account and the number of its next ask."""
    channels, asks = {}, {}
    for name, (account, number) in models.items():
        model = SimpleNamespace(open=lambda: None, remote=False, account=account)
        channels[name] = SimpleNamespace(
            name=name, model=model, pace=Pace(), median=None, opened=False, to_open=True,
            availability=Availability(60.0), free_slots=4, kept_slots=0, retries=[], wire=[],
        )  # fmt: skip
        asks[name] = None if number is None else SimpleNamespace(number=number)
    part = sender(
        channels=channels, line=SimpleNamespace(first=asks.get), _limits={},
        _waiting_for_node={}, interrupts=SimpleNamespace(wait=False),
    )  # fmt: skip
    for channel in channels.values():
        part._open(channel)
    return part


def test_models_share_a_rate_limit_if_their_host_and_key_are_the_same():
    part = opened(a=(("host", "key"), 1), b=(("host", "key"), 2), c=(("host", "other"), 3),
                  d=(None, 4), e=(None, 5))  # fmt: skip
    a, b, *others = (channel.pace.limit for channel in part.channels.values())
    assert a is b and len({id(limit) for limit in (a, *others)}) == 4


def test_a_limited_rate_leaves_the_next_request_to_the_oldest_ask_that_can_be_sent():
    part = opened(a=("host", 3), b=("host", 1), c=("host", 2), d=("elsewhere", 0), e=("host", None))
    a, b, c, d, e = part.channels.values()
    earlier = partial(part._has_earlier, moment=1.0)
    assert not any(map(earlier, (a, b, c, d, e)))  # no limit is known
    a.pace.limit.rate = 5.0
    assert [*map(earlier, (a, b, c, d, e))] == [True, False, True, False, False]
    b.pace._paused_until = 2.0
    assert earlier(a) and not earlier(c)
    c.free_slots = 0
    assert not earlier(a)


def test_a_break_of_the_run_is_noted_once():
    noted_breaks: list[tuple[float, float]] = []
    channel = SimpleNamespace(note_break=lambda *ends: noted_breaks.append(ends))
    part = sender(channels={"a": channel}, _heard_until=5.0)
    for moment in (5.1, 7.0, 7.1):
        part._note_break(moment)
    assert noted_breaks == [(5.0, 7.0)]
