"""What failures mean, and configurations that are none."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.harness.transport import ServerError
from lm_eval_ccat.live.config import FailureRule, load_config, parse_config
from lm_eval_ccat.live.failures import Verdict, attempts_for, http_status, judge, pause


class Answered(Exception):
    def __init__(self, status: int, headers: dict | None = None) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers or {}


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(429, Verdict.AWAY), (500, Verdict.RETRY), (503, Verdict.AWAY), (408, Verdict.RETRY),
     (400, Verdict.DOCUMENT), (413, Verdict.DOCUMENT), (401, Verdict.MODEL), (404, Verdict.MODEL)],
)  # fmt: skip
def test_what_an_http_status_means(status: int, verdict: Verdict) -> None:
    try:
        try:
            raise Answered(status)
        except Answered as inner:
            raise RuntimeError("wrapped by a client") from inner
    except RuntimeError as error:
        assert http_status(error) == status
        assert judge(error) is verdict


def test_waiting_grows_is_bounded_and_listens_to_the_server() -> None:
    rule = FailureRule(backoff=1.0, max_backoff=10.0)
    assert [pause(rule, n, TimeoutError()) for n in (1, 2, 3, 4, 5)] == [1, 2, 4, 8, 10]
    assert pause(rule, 1, Answered(429, {"Retry-After": "6"})) == 6
    assert pause(rule, 1, Answered(429, {"Retry-After": "600"})) == 600
    soon = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=100), usegmt=True)
    assert 90 < pause(rule, 1, Answered(429, {"Retry-After": soon})) <= 100


def test_errors_of_code_are_not_paid_for_again_and_again() -> None:
    rule = FailureRule(attempts=6)
    assert attempts_for(rule, KeyError("choices")) == 2
    for error in (ConnectionResetError(), TimeoutError(), Answered(503),
                  json.JSONDecodeError("x", "y", 0)):  # fmt: skip
        assert attempts_for(rule, error) == 6


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["confidence", "budget", "warmup", "models", "failures", "harness", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=6,
        ),
    )
)
def test_no_configuration_makes_more_than_a_usage_error(content: dict) -> None:
    try:
        parse_config({"task": "t", "bank": "b", **content})
    except UsageError as error:
        assert "`" in str(error)
    else:
        json.dumps(content)


def test_an_address_that_cannot_be_is_no_outage() -> None:
    assert judge(ServerError("request", "the request cannot be sent")) is Verdict.MODEL


def test_a_mistyped_file_is_answered_with_the_one_that_is_there(tmp_path) -> None:
    (tmp_path / "models.yaml").write_text("task: t\n")
    with pytest.raises(
        UsageError, match=r"no configuration file .*; did you mean .*models\.yaml\?"
    ):
        load_config(tmp_path / "models.yml")
    with pytest.raises(UsageError, match=r"no configuration file .*other\.yaml$"):
        load_config(tmp_path / "nothing" / "other.yaml")
