"""Credentials are masked by their value, wherever they came from."""

from __future__ import annotations

import base64
import html
import json
import logging
import shlex
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.masking import (
    MASK,
    forget,
    in_json,
    is_secret_name,
    mask,
    mask_file,
    mask_text,
    mask_values,
    remember,
    remember_credentials,
)
from lm_eval_ccat.records import Fail, Item

KEY = 'sk-"1\\2/ä+34567'
PLAIN = "sk-12345"
BASIC = base64.b64encode(f"me:{PLAIN}".encode()).decode()


@pytest.fixture(autouse=True)
def nothing_remembered():
    forget()
    yield
    forget()


@pytest.mark.parametrize(
    ("configuration", "key"),
    [
        *(
            ({name: KEY}, KEY)
            for name in ("api_key", "apiKey", "bearer", "credentials", "db-pwd", "pat", "pass")
        ),
        ({"headers": {"Authorization": f"Bearer {KEY}"}}, KEY),
        ({"model_args": {"client": [{"auth": {"user": "me", "value": KEY}}]}}, KEY),
        ({"harness": {"metadata": {"password": 12345678}}}, "12345678"),
        ({"base_url": f"https://me:{PLAIN}@host/v1"}, PLAIN),
        ({"base_url": f"https://{PLAIN}@host/v1"}, PLAIN),
        ({"base_url": f"https://me:{PLAIN}@host/v1"}, BASIC),
        ({"headers": {"Authorization": f"Basic {BASIC}"}}, PLAIN),
        (["rank", "--model_args", f'model=m,api_key="{PLAIN}, 2"'], f"{PLAIN}, 2"),
        ({"base_url": f"https://host/v1?key={PLAIN}&n=3"}, PLAIN),
        (["rank", "--model_args", f"model=m,api-key={PLAIN},n=3"], PLAIN),
        (["run", "--metadata", json.dumps({"token": KEY})], KEY),
        (["run", "--metadata", "\n " + json.dumps({"token": KEY})], KEY),
    ],
)
def test_a_key_is_masked_however_it_is_given(configuration, key, tmp_path) -> None:
    remember(configuration)
    body = json.dumps({"m": key})
    echoes = (key, f"401: no such key {key}!", body, repr([key]), json.dumps({"error": body}))
    echoes += (html.escape(key), quote_plus(key), shlex.quote(key))
    for text in echoes:
        assert key not in mask_text(text) and MASK in mask_text(text), text
    assert mask_values({"reason": (key, 3, None)}) == {"reason": (MASK, 3, None)}
    assert key not in repr(mask({"reason": [f"echo {key}"]}))
    answer = {"api_key": "write to ftp://me@host"}  # a model's words are not a configuration
    assert mask_values(answer) == answer
    (tmp_path / "log").write_text(echoes[1], encoding="utf-8")
    mask_file(tmp_path / "log")
    assert key not in (tmp_path / "log").read_text(encoding="utf-8")


def test_a_key_of_digits_is_masked_in_json_and_numbers_that_hold_its_digits_stay(tmp_path) -> None:
    remember({"api_key": 12345678})
    line = '{"score": 0.12345678, "n": 912345678, "key": 12345678, "why": "no key \\"12345678\\""}'
    read = {"score": 0.12345678, "n": 912345678, "key": MASK, "why": f'no key "{MASK}"'}
    for name in ("results.json", "samples.jsonl"):
        (tmp_path / name).write_text(line, encoding="utf-8")
        mask_file(tmp_path / name)
        assert json.loads((tmp_path / name).read_text(encoding="utf-8")) == read
    # Half a line, as a process that was killed leaves it, holds no key either.
    (tmp_path / "samples.jsonl").write_text(f"{line}\n{line[:-10]}", encoding="utf-8")
    mask_file(tmp_path / "samples.jsonl")
    whole, half = (tmp_path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(whole) == read and '"key": ***' in half


def test_a_key_of_the_environment_is_masked_in_log_records_too(monkeypatch, caplog) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-from-env")
    remember_credentials([])
    caplog.set_level(logging.WARNING)  # whatever a library has set the root logger to
    logging.getLogger("any.library").warning("sent %s", {"h": "sk-from-env"})
    assert "sk-from-env" not in caplog.text and MASK in caplog.text


def test_ordinary_settings_and_short_values_elsewhere_stay() -> None:
    plain = {
        "tokenizer": "gpt2", "tokenized_requests": False, "max_gen_toks": 9, "max_tokens": 9,
        "eos_token": "</s>", "keywords": "ab", "base_url": "http://host:80/v1", "key": None,
        "headers": None, "norm_pass": "acc_norm", "n_pass": 1234567, "pat": ["first", 2],
    }  # fmt: skip
    remember([plain, {"token": "x"}])
    assert mask(plain) == plain and mask_text(repr(plain)) == repr(plain)
    assert not any(map(is_secret_name, ("monkey", "pass_at_1", "pass@k", "patience", "pattern")))
    assert mask({"db_pass": "x7-Kq", "key": "first"}) == {"db_pass": MASK, "key": MASK}
    assert mask({"token": "x", "text": "xylophone"}) == {"token": MASK, "text": "xylophone"}


@given(st.text(min_size=6, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_no_value_that_was_remembered_comes_out(key: str, before: str, after: str) -> None:
    forget()
    remember({"api_key": key})
    masked = mask_text(before + key + after)
    assert MASK in masked
    if key not in before + MASK + after:
        assert key not in masked
    # Whatever is masked is found in JSON, which alone decides whether a file is looked through.
    for text in (before + key, after, before + MASK, json.dumps([key]), repr(key), quote_plus(key)):
        assert in_json(json.dumps(text, ensure_ascii=False)) >= (mask_values(text) != text)


def test_an_item_that_holds_a_key_is_masked_and_stays_an_item() -> None:
    remember({"api_key": PLAIN})
    written = Fail(model="m", item=Item(("task", f"doc {PLAIN}", 2)), reason="").masked()
    assert written.item == ("task", f"doc {MASK}", 2) and written.item.repeat == 2
