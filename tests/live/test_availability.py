"""What failures mean; an outage is waited for, probed by one request, and bounded."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.harness.transport import ServerError
from lm_eval_ccat.live.failures import Availability, Failure, Remedy, State
from lm_eval_ccat.live.spec import FailureRule
from lm_eval_ccat.money import ASSUMED, UNKNOWN

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
        out = [model.admit(now) for _ in range(slots)]
        assert sum(out) <= 1
        if any(out):
            assert model.state is State.PROBING
            model.failed(now, sent=now, reason="HTTP 503")
        if model.state is State.CLOSED:
            assert now - 0.5 >= 100.0
            assert not model.admit(now + 1e6)
            return
        assert model.wait(now) <= 8.0 + 1e-9
    assert now < 100.0 + 0.5 + max(pauses) + 8.0, (
        "the first probe that fails after the limit ends it"
    )


@pytest.mark.parametrize("timeout", [2.0, 10.0, 60.0])
def test_a_hung_server_costs_few_probes_and_is_noticed_after_a_minute(timeout):
    model, sent = Availability(limit=900.0), [0.0]
    model.failed(timeout, 0.0, "no answer", hung=True)
    while model.state is not State.CLOSED:
        sent.append(sent[-1] + timeout + model.wait(sent[-1] + timeout))
        assert model.admit(sent[-1])
        model.failed(sent[-1] + timeout, sent[-1], "no answer", hung=True)
    assert len(sent) <= 16 and sent[-1] >= 900.0
    assert max(np.diff(sent)) <= timeout + 75.0
    model = Availability(limit=900.0)
    for moment in (1.0, 3.0):  # a server that refuses costs nothing, and hung only once since
        model.failed(moment, moment, "refused")
        assert model.admit(moment + 2.0)
    model.failed(5.0, 5.0, "no answer", hung=True)
    assert model.wait(5.0) <= 2.0


@given(st.floats(0.0, 1000.0), st.floats(1.0, 500.0))
def test_retry_after_is_obeyed_whole_unless_the_limit_is_shorter(asked, limit):
    model = Availability(limit=limit, backoff=1.0, max_backoff=30.0)
    model.failed(moment=0.0, sent=0.0, reason="HTTP 429", retry_after=asked)
    assert model.wait(0.0) == min(max(asked, 1.0), limit)
    assert ("limit" in model.reason) == (asked > limit)
    assert not model.admit(min(asked, limit) * 0.99 - 1e-9)
    assert model.admit(max(1.0, min(asked, limit)))


def test_an_answer_from_before_the_outage_opens_nothing_and_the_probe_does():
    model = Availability(limit=60.0, backoff=2.0)
    model.failed(moment=10.0, sent=9.0, reason="no connection")
    model.succeeded(moment=10.5, sent=9.5)
    assert model.state is State.WAITING
    assert model.admit(12.0) and not model.admit(12.0)
    model.succeeded(moment=13.0, sent=9.9)
    assert model.state is State.PROBING
    model.succeeded(moment=13.5, sent=12.0)
    assert model.state is State.OPEN
    model.failed(moment=14.0, sent=11.0, reason="late")  # sent before it was open again
    assert model.state is State.OPEN


class Answered(Exception):
    def __init__(self, status: int, headers: dict | None = None) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers or {}


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(429, Remedy.AWAY), (500, Remedy.RETRY), (503, Remedy.AWAY), (408, Remedy.RETRY),
     (400, Remedy.DOCUMENT), (413, Remedy.DOCUMENT), (401, Remedy.MODEL), (404, Remedy.MODEL)],
)  # fmt: skip
def test_what_an_http_status_means(status, remedy):
    error = RuntimeError("wrapped by a client")
    error.__cause__ = Answered(status)
    failure = Failure(error)
    assert failure.status == status and failure.remedy is remedy


@pytest.mark.parametrize(
    ("error", "column"),
    [
        (ServerError("connection", "refused", sent=False), None),
        (ServerError("request", "no such address"), None),
        (ServerError("connection", "reset"), UNKNOWN),
        (ServerError("timeout", "no answer within 5 s"), UNKNOWN),
        (ServerError("answer", "no JSON"), ASSUMED),
        (ServerError("answer", "an error", status=502), None),
        (ServerError("status", "HTTP 502", status=502), UNKNOWN),
        (ServerError("status", "HTTP 500", status=500), ASSUMED),
        (ServerError("status", "HTTP 503", status=503), None),
        (Answered(429), None),
        (TimeoutError(), UNKNOWN),
        (KeyError("choices"), ASSUMED),
    ],
)
def test_what_a_failed_attempt_may_cost(error, column):
    assert Failure(error).column == column


def test_waiting_grows_is_bounded_and_listens_to_the_server():
    rule = FailureRule(backoff=1.0, max_backoff=10.0)
    pauses = [Failure(TimeoutError()).pause(rule, n) for n in (1, 2, 3, 4, 5, 5000)]
    assert pauses == [1, 2, 4, 8, 10, 10]
    for attempt, header, seconds in ((1, "6", 6), (3, "0.1", 4), (1, "600", 600)):
        refused = Answered(429, {"Retry-After": header})
        assert Failure(refused).pause(rule, attempt) == seconds
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < Failure(Answered(429, {"Retry-After": soon})).pause(rule, 1) <= 100


def test_errors_of_code_are_not_paid_for_again_and_again():
    rule = FailureRule(attempts=6)
    assert Failure(KeyError("choices")).attempts(rule) == 2
    for error in (ConnectionResetError(), TimeoutError(), Answered(502),
                  json.JSONDecodeError("x", "y", 0)):  # fmt: skip
        assert Failure(error).attempts(rule) == 6


def test_a_document_that_a_full_server_refuses_is_tried_three_times_as_often():
    rule = FailureRule(attempts=4)
    tries = {status: Failure(Answered(status)).attempts(rule) for status in (500, 502, 503, 529)}
    assert tries == {500: 4, 502: 4, 503: 12, 529: 12}
