"""Availability: an outage is waited for, probed by one request, and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.live.failures import Availability, State

PAUSES = st.lists(st.floats(0.01, 50.0), min_size=1, max_size=60)


@given(PAUSES, st.integers(1, 8))
def test_one_request_probes_and_parallel_failures_are_one_event(pauses, slots):
    """A server that never comes back: bounded, and never two requests at a time."""
    model = Availability(limit=100.0, backoff=1.0, max_backoff=8.0)
    now = 0.0
    for _ in range(slots):  # all in flight when it went away
        model.failed(now + 0.5, sent=now, reason="HTTP 503")
    waited = model.wait(now + 0.5)
    assert waited == 1.0, "several failures of one outage make no longer pause than one"
    now += 0.5
    for pause in pauses:
        now += pause
        out = [model.may_ask(now) for _ in range(slots)]
        assert sum(out) <= 1
        if any(out):
            assert model.state is State.PROBING
            model.failed(now, sent=now, reason="HTTP 503")
        if model.state is State.CLOSED:
            assert now - 0.5 >= 100.0
            assert not model.may_ask(now + 1e6)
            return
        assert model.wait(now) <= 8.0 + 1e-9
    assert now < 100.0 + 0.5 + max(pauses) + 8.0 or model.state is not State.CLOSED


@given(st.floats(0.0, 1000.0), st.floats(1.0, 500.0))
def test_retry_after_is_obeyed_whole_unless_the_limit_is_shorter(asked, limit):
    model = Availability(limit=limit, backoff=1.0, max_backoff=30.0)
    model.failed(now=0.0, sent=0.0, reason="HTTP 429", retry_after=asked)
    assert model.wait(0.0) == min(max(asked, 1.0), limit)
    assert ("limit" in model.reason) == (asked > limit)
    assert not model.may_ask(min(asked, limit) * 0.99 - 1e-9)
    assert model.may_ask(max(1.0, min(asked, limit)))


def test_an_answer_from_before_the_outage_opens_nothing_and_the_probe_does():
    model = Availability(limit=60.0, backoff=2.0)
    model.failed(now=10.0, sent=9.0, reason="no connection")
    model.succeeded(now=10.5, sent=9.5)
    assert model.state is State.WAITING
    assert model.may_ask(12.0) and not model.may_ask(12.0)
    model.succeeded(now=13.0, sent=9.9)
    assert model.state is State.PROBING
    model.succeeded(now=13.5, sent=12.0)
    assert model.state is State.OPEN
    model.failed(now=14.0, sent=11.0, reason="late")  # sent before it was open again
    assert model.state is State.OPEN
