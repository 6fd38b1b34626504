"""How fast requests go out to a server that limits their rate."""

from __future__ import annotations

import heapq
import math
import random

import pytest

from lm_eval_ccat.live.failures import Pace

LATENCY = 0.5


def share_and_refusals(
    rate: float, burst: float, pauses: str, slots: int = 16, seconds: float = 900.0
) -> tuple[float, float]:
    """Of what a token bucket and the slots allow the share that is used, and the share of 429s.

    The server asks for no pauses (``"none"``), ``"exact"`` ones, or such of ``"whole"`` seconds.
    The first request is alone until it is answered.
    """
    rng, pace = random.Random(0), Pace()
    tokens, filled, now, wire, taken, refused = burst, 0.0, 0.0, 0, 0, 0
    events: list[tuple[float, str, float, float | None]] = []
    while now < seconds:
        room = slots if taken or refused else 1
        while wire < room and pace.wait(now, wire) <= 0.0:
            pace.sent(now)
            wire += 1
            heapq.heappush(events, (now + 0.03 * rng.lognormvariate(0.0, 0.3), "there", now, None))
        wait = pace.wait(now, wire) if wire < room else math.inf
        if not events or now + wait < events[0][0]:
            now += wait
            continue
        now, what, sent, pause = heapq.heappop(events)
        if what == "there":
            tokens, filled = min(burst, tokens + rate * (now - filled)), now
            if tokens >= 1.0:
                tokens -= 1.0
                heapq.heappush(events, (now + LATENCY * rng.lognormvariate(0, 0.5), "", sent, None))
            else:
                wait = (1.0 - tokens) / rate
                asked = {"none": None, "exact": wait, "whole": math.ceil(wait)}[pauses]
                heapq.heappush(events, (now + 0.03, "no", sent, asked))
            continue
        wire -= 1
        if what == "no":
            refused += 1
            pace.refused(now, sent, wire, pause)
        else:
            taken += 1
            pace.answered()
    most = min(rate * seconds + burst, slots / (LATENCY * math.exp(0.125) + 0.03) * seconds)
    return taken / most, refused / (taken + refused)


@pytest.mark.parametrize("pauses", ["none", "exact", "whole"])
@pytest.mark.parametrize(("rate", "burst"), [(1.0, 10.0), (20.0, 60.0), (30.0, 10.0)])
def test_a_token_bucket_is_used_and_seldom_refuses(rate, burst, pauses):
    share, refusals = share_and_refusals(rate, burst, pauses)
    assert share >= 0.9 and refusals < 0.04


@pytest.mark.parametrize("pauses", ["none", "exact", "whole"])
@pytest.mark.parametrize(("rate", "burst"), [(5.0, 60.0), (20.0, 20.0), (30.0, 10.0)])
def test_a_limit_that_all_of_128_slots_meet_at_once_is_known_within_two_minutes(
    rate, burst, pauses
):
    share, _ = share_and_refusals(rate, burst, pauses, slots=128, seconds=120.0)
    assert share >= 0.85


@pytest.mark.parametrize("pause", [0.2, 1.0])
def test_a_server_that_refuses_half_of_all_requests_at_any_rate_is_used(pause):
    """A request in two pauses is enough; slower ones are refused as often."""
    rng, pace, now, taken = random.Random(0), Pace(), 0.0, 0
    while now < 300.0 * pause:
        now += pace.wait(now, 0)
        pace.sent(now)
        now += 0.02
        if rng.random() < 0.5:
            pace.refused(now, now - 0.02, 0, pause)
        else:
            pace.answered()
            taken += 1
    assert taken > 60


def answers_of_a_server_that_refuses_by_lot(share: float, slots: int, seed: int) -> int:
    """How many requests are answered in two minutes if a share is refused, at any rate."""
    rng, pace, now, taken = random.Random(seed), Pace(), 0.0, 0
    answers: list[tuple[float, float, bool]] = []
    while now < 120.0:
        has_room = len(answers) < slots
        wait = pace.wait(now, len(answers)) if has_room else math.inf
        if not wait:
            refused = rng.random() < share
            pace.sent(now)
            heapq.heappush(answers, (now + (0.03 if refused else LATENCY), now, refused))
        elif not answers or now + wait < answers[0][0]:
            now += wait
        else:
            now, sent, refused = heapq.heappop(answers)
            if refused:
                pace.refused(now, sent, len(answers))
            else:
                pace.answered()
                taken += 1
    return taken


@pytest.mark.long
@pytest.mark.parametrize("slots", [8, 128])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.2, 0.3])
def test_a_server_that_refuses_some_at_any_rate_and_asks_for_no_pause_is_used(share, slots):
    """Slower requests are refused as often, so most of what the slots allow is sent."""
    taken = [answers_of_a_server_that_refuses_by_lot(share, slots, seed) for seed in range(4)]
    assert sum(taken) > 0.75 * len(taken) * 120.0 * slots / LATENCY


def test_refusals_of_requests_under_way_at_the_last_one_are_one_event():
    pace = Pace()
    for i in range(10):
        pace.sent(i / 10)
        pace.answered()
    pace.refused(1.0, sent=0.95, in_flight=0)
    assert pace.rate == 10.0  # ten answers in a second
    pace.sent(2.0)
    pace.refused(2.1, sent=2.0, in_flight=0)
    again = pace.rate
    assert again < 10.0
    pace.refused(2.2, sent=2.05, in_flight=0)
    assert pace.rate == again


def test_what_is_in_flight_at_the_first_refusal_counts_as_taken_until_it_is_refused():
    pace = Pace()
    for _ in range(12):
        pace.sent(0.0)
    pace.answered()
    pace.refused(1.0, sent=0.5, in_flight=10)
    assert pace.rate == 11.0
    for _ in range(6):  # noticed together
        pace.refused(1.1, sent=0.5, in_flight=4)
    assert pace.rate == 5.0


def test_a_run_that_had_nothing_to_ask_for_a_while_asks_as_often_afterwards():
    pace, rates = Pace(), []
    for began in (0.0, 3.0):
        for i in range(10):
            pace.sent(began + i / 10)
            pace.answered()
        pace.refused(began + 1.0, sent=began + 0.95, in_flight=0)
        rates.append(pace.rate)
    assert rates[0] == 10.0 and rates[1] > 9.0


def test_a_limit_by_the_minute_that_states_no_pause_is_used():
    """Sixty a minute: what is refused until the minute is over says nothing of the rate."""
    pace, now, taken, in_minute = Pace(), 0.0, 0, -1
    while now < 600.0:
        now += max(pace.wait(now, 0), 1e-6)
        if int(now // 60) != in_minute:
            in_minute, left = int(now // 60), 60
        pace.sent(now)
        if left:
            left, taken = left - 1, taken + 1
            now += 0.1
            pace.answered()
        else:
            pace.refused(now, now, 0)
    assert taken > 0.8 * 600
