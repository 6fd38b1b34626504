"""Credentials are masked by their value, wherever they came from."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.masking import (
    MASK,
    forget,
    is_secret_name,
    mask,
    mask_text,
    remember,
    remember_credentials,
)

KEY = 'sk-"1\\2/ä+34567'


@pytest.fixture(autouse=True)
def nothing_remembered():
    forget()
    yield
    forget()


@pytest.mark.parametrize(
    "given_as",
    [
        {"api_key": KEY},
        {"api-key": KEY},
        {"apiKey": KEY},
        {"bearer": KEY},
        {"credentials": KEY},
        {"headers": {"Authorization": f"Bearer {KEY}"}},
        {"model_args": {"client": [{"auth": {"user": "me", "value": KEY}}]}},
        {"harness": {"metadata": {"password": KEY}}},
        {"base_url": "https://me:sk-12345@host/v1"},
        {"base_url": "https://host/v1?key=sk-12345&n=3"},
        ["rank", "--model_args", "model=m,api-key=sk-12345,n=3"],
        ["run", "--metadata", json.dumps({"token": KEY})],
    ],
)
def test_a_key_is_masked_however_it_is_given(given_as) -> None:
    remember(given_as)
    key = KEY if KEY in repr(given_as) or repr(KEY)[1:-1] in repr(given_as) else "sk-12345"
    key = "sk-12345" if "sk-12345" in repr(given_as) else KEY
    for text in (key, f"401: no such key {key}!", json.dumps({"m": key}), repr([key])):
        assert key not in mask_text(text) and MASK in mask_text(text), text
    assert key not in repr(mask(given_as)) or isinstance(given_as, list)
    assert key not in repr(mask({"reason": [f"echo {key}"]}))


def test_a_key_of_the_environment_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-from-env")
    remember_credentials([])
    assert mask_text("x sk-from-env y") == f"x {MASK} y"


def test_log_records_carry_no_key(caplog: pytest.LogCaptureFixture) -> None:
    remember({"token": "sk-in-a-log"})
    caplog.set_level(logging.WARNING)  # whatever a library has set the root logger to
    logging.getLogger("any.library").warning("sent %s", {"h": "sk-in-a-log"})
    assert "sk-in-a-log" not in caplog.text and MASK in caplog.text


def test_ordinary_settings_stay() -> None:
    plain = {
        "tokenizer": "gpt2", "tokenized_requests": False, "max_gen_toks": 9, "max_tokens": 9,
        "eos_token": "</s>", "keywords": "ab", "base_url": "http://host:80/v1", "key": None,
        "headers": None,
    }  # fmt: skip
    remember(plain)
    assert mask(plain) == plain
    assert mask_text(repr(plain)) == repr(plain)
    assert not is_secret_name("monkey")


def test_short_values_are_masked_in_place_but_not_searched_for() -> None:
    remember({"token": "x"})
    assert mask({"token": "x", "text": "xylophone"}) == {"token": MASK, "text": "xylophone"}


@given(st.text(min_size=6, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_no_value_that_was_remembered_comes_out(key: str, before: str, after: str) -> None:
    forget()
    remember({"api_key": key})
    masked = mask_text(before + key + after)
    assert MASK in masked
    if key not in before + MASK + after:
        assert key not in masked
