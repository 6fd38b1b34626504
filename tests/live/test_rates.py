"""How fast requests go out to a server that limits their rate."""

from __future__ import annotations

import heapq
import math
import random

import pytest

from lm_eval_ccat.live.pace import Pace, RateLimit

LATENCY = 0.5


class Bucket:
    """A token bucket, as a server has it."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst, self.tokens, self.filled = rate, burst, burst, 0.0

    def pause(self, now: float) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        gained = self.rate * (now - self.filled) if now > self.filled else 0.0
        self.tokens = min(self.burst, self.tokens + gained)
        self.filled = now
        if self.tokens < 1.0:
            return (1.0 - self.tokens) / self.rate
        self.tokens -= 1.0
        return 0.0


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


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_once_slower_requests_are_seen_to_be_refused_as_often_the_rate_is_what_it_was(seed):
    rng, pace, now, before, rates = random.Random(seed), Pace(), 0.0, math.inf, [0.0]
    while rates[-1] < before:  # until it rises at a refusal
        now += pace.wait(now, 0)
        pace.sent(now)
        now += 0.02
        if rng.random() < 0.2:
            before = pace.limit.rate
            pace.refused(now, now - 0.02, 0)
            rates.append(pace.limit.rate)
        else:
            pace.answered()
    # At the first refusal the rate is guessed, at the second it is first compared.
    assert rates[-1] == rates[2] and len(rates) > 6


def test_refusals_of_requests_under_way_at_the_last_one_are_one_event():
    pace = Pace()
    for i in range(10):
        pace.sent(i / 10)
        pace.answered()
    pace.refused(1.0, sent=0.95, in_flight=0)
    assert pace.limit.rate == 10.0  # ten answers in a second
    pace.sent(2.0)
    pace.refused(2.1, sent=2.0, in_flight=0)
    again = pace.limit.rate
    assert again < 10.0
    pace.refused(2.2, sent=2.05, in_flight=0)
    assert pace.limit.rate == again


def test_what_is_in_flight_at_the_first_refusal_counts_as_taken_until_it_is_refused():
    pace = Pace()
    for _ in range(12):
        pace.sent(0.0)
    pace.answered()
    pace.refused(1.0, sent=0.5, in_flight=10)
    assert pace.limit.rate == 11.0
    for _ in range(6):  # noticed together
        pace.refused(1.1, sent=0.5, in_flight=4)
    assert pace.limit.rate == 5.0


def test_a_run_that_had_nothing_to_ask_for_a_while_asks_as_often_afterwards():
    pace, rates = Pace(), []
    for began in (0.0, 3.0):
        for i in range(10):
            pace.sent(began + i / 10)
            pace.answered()
        pace.refused(began + 1.0, sent=began + 0.95, in_flight=0)
        rates.append(pace.limit.rate)
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


def answers_of_one_host(
    buckets: list[Bucket], pauses: str, slots: int, seconds: float, ahead: float = math.inf
) -> list[int]:
    """How many requests of each model are answered if each takes from its bucket of `buckets`.

    The models share a `RateLimit` at first. The one with the fewest answers and requests in flight
    is asked first, and no model is `ahead` of it by more.
    """
    rng, limit, paces = random.Random(0), RateLimit(), [Pace() for _ in buckets]
    for pace in paces:
        pace.share(limit)
    taken, wire, now = [0] * len(paces), [0] * len(paces), 0.0
    events: list[tuple[float, int, str, float, float | None]] = []
    while now < seconds:
        asked = [answers + flight for answers, flight in zip(taken, wire)]
        waits = {
            model: paces[model].wait(now, wire[model])
            for model in sorted(range(len(paces)), key=asked.__getitem__)
            if wire[model] < (slots if now else 1) and asked[model] < min(asked) + ahead
        }
        if (model := next((model for model, wait in waits.items() if not wait), None)) is not None:
            paces[model].sent(now)
            wire[model] += 1
            arrival = now + 0.01 * rng.lognormvariate(0.0, 0.3)
            heapq.heappush(events, (arrival, model, "there", now, None))
            continue
        wait = min(waits.values(), default=math.inf)
        if not events or now + wait < events[0][0]:
            now += max(wait, 1e-6)
            continue
        now, model, what, sent, pause = heapq.heappop(events)
        if what == "there":
            pause = buckets[model].pause(now)
            after, what = (0.01, "no") if pause else (LATENCY * rng.lognormvariate(0.0, 0.3), "")
            asks = {"none": None, "exact": pause, "whole": math.ceil(pause)}[pauses]
            heapq.heappush(events, (now + after, model, what, sent, asks))
            continue
        wire[model] -= 1
        if what == "no":
            paces[model].refused(now, sent, wire[model], pause)
        else:
            taken[model] += 1
            paces[model].answered()
    return taken


@pytest.mark.parametrize("pauses", ["none", "exact", "whole"])
@pytest.mark.parametrize("slots", [8, 32])
@pytest.mark.parametrize(("rate", "burst"), [(10.0, 10.0), (20.0, 60.0), (5.0, 5.0)])
def test_models_of_one_host_use_a_bucket_that_they_share_and_one_that_each_has(
    rate, burst, slots, pauses
):
    seconds = 30.0
    shared = answers_of_one_host([Bucket(rate, burst)] * 4, pauses, slots, seconds)
    assert sum(shared) > 0.85 * (rate * (seconds - LATENCY) + burst)
    each = [Bucket(rate, burst) for _ in range(4)]
    most = min(rate * (seconds - LATENCY) + burst, slots * seconds / (1.046 * LATENCY + 0.01))
    assert sum(answers_of_one_host(each, pauses, slots, seconds, ahead=2 * slots)) > 0.85 * 4 * most


@pytest.mark.long
@pytest.mark.parametrize(("shared", "least"), [(False, 0.75), (True, 0.8)])
def test_pauses_longer_than_a_bucket_takes_to_fill_are_soon_few(shared, least, monkeypatch):
    """A pause of a second loses what a bucket of twenty cannot hold, so few may be asked for."""
    monkeypatch.setattr("test_rates.LATENCY", 0.3)
    buckets = [Bucket(60.0, 20.0)] * 4 if shared else [Bucket(60.0, 20.0) for _ in range(4)]
    answers = sum(answers_of_one_host(buckets, "whole", 32, seconds=15.0, ahead=64))
    assert answers > least * (1 if shared else 4) * (60.0 * 14.7 + 20.0)


@pytest.mark.long
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("rate", "burst"), [(60.0, 20.0), (30.0, 5.0)])
def test_a_bucket_that_holds_little_is_used_in_spite_of_pauses(rate, burst, shared, monkeypatch):
    """A pause of a second costs as many requests as the bucket takes in, but for what it holds."""
    monkeypatch.setattr("test_rates.LATENCY", 0.3)
    buckets = [Bucket(rate, burst)] * 4 if shared else [Bucket(rate, burst) for _ in range(4)]
    answers = sum(answers_of_one_host(buckets, "whole", 32, seconds=60.0, ahead=64))
    assert answers > 0.8 * (1 if shared else 4) * (rate * 59.7 + burst)


@pytest.mark.parametrize("pauses", ["none", "exact", "whole"])
@pytest.mark.parametrize("others", [1, 3])
def test_no_model_is_held_back_by_a_limit_of_another(pauses, others):
    unlimited = [Bucket(math.inf, math.inf)] * others
    alone = answers_of_one_host(unlimited, pauses, 8, 20.0)
    limited, *free = answers_of_one_host([Bucket(1.0, 1.0), *unlimited], pauses, 8, 20.0)
    assert limited >= 12 and min(free) > 0.9 * min(alone)


def test_requests_that_the_run_sends_a_moment_late_take_nothing_from_the_rate():
    pace, now = Pace(), 0.0
    pace.sent(now)
    pace.refused(now, now, 0, pause=0.1)
    pace.limit.rate = 10.0
    for _ in range(100):
        now += pace.wait(now, 0) + 0.03
        pace.sent(now)
    assert 9.8 < now < 10.3
    # What was not sent for longer is not made up for at once.
    now += 60.0
    pace.sent(now)
    assert pace.wait(now, 0) == pytest.approx(0.1)
