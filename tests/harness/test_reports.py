"""What servers report, and judges' ratings, read from answers written by hand."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import numpy as np
import pytest

from lm_eval_ccat.harness.judge.rater import Rating
from lm_eval_ccat.harness.judge.rating import Judge, agreement, reduced
from lm_eval_ccat.harness.served import Served, pause_of, seconds_to_wait
from lm_eval_ccat.harness.transport import ServerError, Target, _authorized, _checked, server_calls

ADDRESS = "http://host/v1/completions"
TARGET = Target(ADDRESS, {}, seconds=60.0)


def test_the_longest_limit_that_is_used_up_is_waited_for():
    limits = {
        "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2s",
        "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m6s",
        "x-ratelimit-remaining-images": "7", "x-ratelimit-reset-images": "1h",
    }  # fmt: skip
    assert pause_of(limits) == 66.0
    assert pause_of({**limits, "retry-after": "3"}) == 3.0
    assert pause_of({**limits, "retry-after": "3", "retry-after-ms": "1500"}) == 1.5


def usage(**counts):
    return Served.of({"usage": {"prompt_tokens": 10, "completion_tokens": 4, **counts}}).usage


def test_reasoning_is_paid_and_no_more_is_cached_than_was_read():
    assert (usage().input, usage().output, usage().cached) == (10, 4, 0)
    assert usage(total_tokens=90).output == 80
    assert usage(prompt_tokens_details={"cached_tokens": 6}).cached == 6
    assert usage(prompt_tokens_details={"cached_tokens": 60}).cached == 10


@pytest.mark.parametrize(
    ("asked", "served", "instead"),
    [("gpt-4o", "gpt-4o-2024-08-06", ""), ("org/qwen-7b", "Qwen-7B", ""),
     ("gpt-4o-2024-08-06", "gpt-4o", ""), ("gpt-4o", "llama-3", "gpt-4o")],
)  # fmt: skip
def test_a_dated_name_is_the_same_model(asked, served, instead):
    assert Served.of({"model": served}, body={"model": asked}).instead_of == instead


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [(200, {"error": {"message": "too long"}}, "too long"), (200, {"choices": []}, "no choices"),
     (503, {"choices": [{"text": "a"}]}, "HTTP 503"), (200, None, "not JSON")],
)  # fmt: skip
def test_an_error_in_any_form_is_no_answer(status, answer, words):
    body = b"<html>" if answer is None else json.dumps(answer).encode()
    with pytest.raises(ServerError, match=words):
        _checked(status, {}, body, TARGET, chat=False)
    keyless = TARGET._replace(headers={"Authorization": "Bearer "})
    with pytest.raises(ServerError, match="HTTP 401: no; OPENAI_API_KEY is not set"):
        _checked(401, {}, b"no", keyless, chat=False)
    cut = TARGET._replace(url=ADDRESS.removesuffix("/completions"))
    with pytest.raises(ServerError, match=f"HTTP 404, write base_url={ADDRESS}$"):
        _checked(404, {}, b"<html>", cut, chat=False)
    sound = {"choices": [{"text": "a"}], "error": None}
    assert _checked(200, {}, json.dumps(sound).encode(), TARGET, chat=False) == sound


@pytest.mark.parametrize("part", ["code", "type"])
def test_a_spent_quota_does_not_come_back(part):
    for code, final in (("insufficient_quota", True), ("rate_limit_exceeded", False)):
        with pytest.raises(ServerError) as raised:
            body = json.dumps({"error": {part: code}}).encode()
            _checked(429, {}, body, TARGET, chat=False)
        assert raised.value.final == final and raised.value.status == 429


def test_a_password_in_an_address_goes_into_the_header_alone():
    url, headers = _authorized(
        "https://me:s%40t@host:8000/v1", {"authorization": "Bearer key", "X-Team": "a"}
    )
    assert url == "https://host:8000/v1"
    assert headers == {"X-Team": "a", "Authorization": "Basic bWU6c0B0"}


def test_requests_share_a_call_only_with_their_own_settings():
    made = []
    lm = SimpleNamespace(
        _batch_size=8, tokenized_requests=False, _concurrent=2, _seed=1, create_message=list,
        _create_payload=lambda messages, **how: made.append((messages, how)) or {},
    )  # fmt: skip
    requests = [
        SimpleNamespace(args=(f"p{n}", {"temperature": n % 2}), request_type="generate_until")
        for n in range(5)
    ]
    calls = server_calls(lm, requests)
    assert [call.positions for call in calls] == [(0, 2, 4), (1, 3)]
    assert [messages for messages, _ in made] == [["p0", "p2", "p4"], ["p1", "p3"]]
    assert [how["gen_kwargs"] for _, how in made] == [{"temperature": 0}, {"temperature": 1}]


# -- ratings --------------------------------------------------------------------------------------


def test_several_ratings_are_reduced_as_stated():
    votes = [2.0, math.nan, 9.0, 9.0]
    assert [reduced(votes, how) for how in ("mode", "median", "mean")] == [9.0, 9.0, 20 / 3]
    assert reduced([2.0, 4.0, 9.0], "median") == 4.0 and math.isnan(reduced([math.nan], "mean"))


def test_agreement_is_over_the_pairs_of_ratings_of_each_answer():
    none = math.nan
    found = agreement([[1, 3, none], [5, none, 5], [9, 6, 6], [4, none, none]])
    gaps = [2, 0, 3, 3, 0]
    assert (found.answers, found.spread) == (3, pytest.approx(np.mean(gaps)))
    assert found.same == pytest.approx(2 / 5)


def test_one_repeat_that_fails_leaves_the_others():
    judge = Judge.__new__(Judge)
    judge.settings = SimpleNamespace(repeats=2, reducer="mean", model="j")
    judge._second, judge._rated = None, []
    replies = [Rating(math.nan, "", False, error="HTTP 500"), Rating(6.0, "6", False)]
    judge._rater = SimpleNamespace(rate=lambda answers, n: [replies[n]])
    [rating] = judge.rate_all([{"answer": "a"}])
    assert rating.score == 6.0 and rating.error == ""
    replies[1] = replies[0]
    assert judge.rate_all([{"answer": "a"}])[0].error == "HTTP 500"


@pytest.mark.parametrize("odd", [True, 5, 10**400, "x", {"a": 1}, [[]], [None]])
def test_an_answer_of_another_form_is_reported_without_what_it_does_not_say(odd):
    """A proxy, or a server that somebody wrote, may answer anything."""
    assert Served.of({"choices": odd}).finish == ()
    stated = usage(cost=odd)
    assert (stated.input, stated.usd) == (10, 5.0 if odd == 5 else None)


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"error": {"code": {"a": 1}, "type": []}}', b'{"error": {"code": [1]}}'],
)
def test_an_error_of_another_form_is_an_error(body):
    with pytest.raises(ServerError):
        _checked(200, {}, body, TARGET, chat=False)


@pytest.mark.parametrize(
    ("texts", "null"), [(["a"], False), ([None], True), (["a", None], True), (["", "b"], False)]
)
def test_an_answer_of_which_any_choice_has_no_text_is_none(texts, null):
    choices = [{"message": {"content": text}} for text in texts]
    assert Served.of({"choices": choices}).null is null


@pytest.mark.parametrize("seconds", [5, 90])
def test_a_time_to_come_back_at_is_so_many_seconds_away(seconds):
    """As seconds, as an epoch, as a date of HTTP and as one of ISO 8601."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    for header in (
        str(seconds), f"{moment.timestamp():.0f}", format_datetime(moment, usegmt=True),
        moment.isoformat(), f"{1000 * seconds}ms",
    ):  # fmt: skip
        assert seconds_to_wait(header) == pytest.approx(seconds, abs=2.0), header
