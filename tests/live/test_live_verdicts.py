"""What failures mean, and configurations that are none."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from lm_eval_ccat.live.failures import Failure, Remedy
from lm_eval_ccat.live.spec import FailureRule


class Answered(Exception):
    def __init__(self, status: int, headers: dict | None = None) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers or {}


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(429, Remedy.AWAY), (500, Remedy.RETRY), (503, Remedy.AWAY), (408, Remedy.RETRY),
     (400, Remedy.DOCUMENT), (413, Remedy.DOCUMENT), (401, Remedy.MODEL), (404, Remedy.MODEL)],
)  # fmt: skip
def test_what_an_http_status_means(status: int, remedy: Remedy) -> None:
    try:
        try:
            raise Answered(status)
        except Answered as inner:
            raise RuntimeError("wrapped by a client") from inner
    except RuntimeError as error:
        failure = Failure(error)
        assert failure.status == status and failure.remedy is remedy


def test_waiting_grows_is_bounded_and_listens_to_the_server() -> None:
    rule = FailureRule(backoff=1.0, max_backoff=10.0)
    assert [Failure(TimeoutError()).pause(rule, n) for n in (1, 2, 3, 4, 5)] == [1, 2, 4, 8, 10]
    for attempt, header, seconds in ((1, "6", 6), (3, "0.1", 4), (1, "600", 600)):
        refused = Answered(429, {"Retry-After": header})
        assert Failure(refused).pause(rule, attempt) == seconds
    soon = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=100), usegmt=True)
    assert 90 < Failure(Answered(429, {"Retry-After": soon})).pause(rule, 1) <= 100


def test_errors_of_code_are_not_paid_for_again_and_again() -> None:
    rule = FailureRule(attempts=6)
    assert Failure(KeyError("choices")).attempts(rule) == 2
    for error in (ConnectionResetError(), TimeoutError(), Answered(503),
                  json.JSONDecodeError("x", "y", 0)):  # fmt: skip
        assert Failure(error).attempts(rule) == 6
