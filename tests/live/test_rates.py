"""How fast requests go out to a server that limits their rate."""

from __future__ import annotations

import heapq
import math
import random

import pytest

from lm_eval_ccat.live.failures import Pace

LATENCY, SLOTS, SECONDS = 0.5, 16, 900.0


def share_and_refusals(rate: float, burst: float, pauses: str) -> tuple[float, float]:
    """Of what a token bucket and the slots allow the share that is used, and the share of 429s.

    The server asks for no pauses (``"none"``), ``"exact"`` ones, or such of ``"whole"`` seconds.
    """
    rng, pace = random.Random(0), Pace()
    tokens, filled, now, wire, taken, refused = burst, 0.0, 0.0, 0, 0, 0
    events: list[tuple[float, str, float, float | None]] = []
    while now < SECONDS:
        while wire < SLOTS and pace.wait(now, wire) <= 0.0:
            pace.sent(now)
            wire += 1
            heapq.heappush(events, (now + 0.03 * rng.lognormvariate(0.0, 0.3), "there", now, None))
        wait = pace.wait(now, wire) if wire < SLOTS else math.inf
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
            pace.refused(now, sent, pause)
        else:
            taken += 1
            pace.answered()
    most = min(rate * SECONDS + burst, SLOTS / (LATENCY * math.exp(0.125) + 0.03) * SECONDS)
    return taken / most, refused / (taken + refused)


@pytest.mark.parametrize("pauses", ["none", "exact", "whole"])
@pytest.mark.parametrize(("rate", "burst"), [(1.0, 10.0), (20.0, 60.0), (30.0, 10.0)])
def test_a_token_bucket_is_used_and_seldom_refuses(rate, burst, pauses):
    share, refusals = share_and_refusals(rate, burst, pauses)
    assert share >= 0.9 and refusals < 0.03


@pytest.mark.parametrize("pause", [0.2, 1.0])
def test_a_server_that_refuses_half_of_all_requests_at_any_rate_is_used(pause):
    """A request in two pauses is enough; slower ones are refused as often."""
    rng, pace, now, taken = random.Random(0), Pace(), 0.0, 0
    while now < 300.0 * pause:
        now += pace.wait(now, 0)
        pace.sent(now)
        now += 0.02
        if rng.random() < 0.5:
            pace.refused(now, now - 0.02, pause)
        else:
            pace.answered()
            taken += 1
    assert taken > 60


def test_refusals_of_requests_under_way_at_the_last_one_are_one_event():
    pace = Pace()
    for i in range(10):
        pace.sent(i / 10)
        pace.answered()
    pace.refused(1.0, sent=0.95)
    assert pace.rate == 10.0  # ten answers in a second
    pace.sent(2.0)
    pace.refused(2.1, sent=2.0)
    again = pace.rate
    assert again < 10.0
    pace.refused(2.2, sent=2.05)
    assert pace.rate == again


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
            pace.refused(now, now)
    assert taken > 0.8 * 600
