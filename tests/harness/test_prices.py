"""Prices of models and judges: what is refused, what adds up."""

from __future__ import annotations

import math

import pytest

from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.money import Price, Tokens, estimate_tokens
from lm_eval_ccat.options import OptionPlace


def test_the_parts_of_a_price_add_up() -> None:
    tokens = Tokens(1000, 200, "usage")
    assert Price(input=2.0, output=8.0).cost(tokens, 9.0) == pytest.approx(0.0036)
    assert Price(item=0.5, hour=7200.0).cost(None, 2.0) == pytest.approx(4.5)
    whole = Price(input=2.0, output=8.0, item=0.5, hour=3600.0)
    assert whole.cost(tokens, 2.0) == pytest.approx(0.0036 + 0.5 + 2.0)
    assert whole.cost(None, 0.0) == 0.5  # tokens that nobody counted cost nothing
    assert Price().cost(tokens, 1.0) == 0.0


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (3.0, r"`price` must be a mapping with input: and output:"),
        ({"usd": 1}, r"unknown key `price.usd`"),
        ({"item": -0.01}, r"`price.item` must be a number of at least 0, not -0.01"),
        ({"item": math.nan}, r"`price.item` must be a number"),
        ({"item": True}, r"`price.item` must be a number of at least 0, not True"),
        ({"item": "few"}, r"`price.item` must be a number of at least 0, not .few."),
        ({"output": 1.0}, r"`price` needs both input: and output:"),
    ],
)
def test_what_is_no_price_is_refused_by_name(block, says) -> None:
    with pytest.raises(UsageError, match=says):
        Price.read(block, OptionPlace("price"))


def test_a_price_is_read() -> None:
    for block, price in (
        ({"input": 1, "output": 0}, Price(input=1.0, output=0.0)),
        ({"item": 0}, Price(item=0.0)),
        ({"item": "5e-5"}, Price(item=5e-5)),  # as YAML reads it
    ):
        assert Price.read(block, OptionPlace("price")) == price


def test_tokens_add_up_and_are_as_sure_as_the_worse_count() -> None:
    assert Tokens(1, 2, "usage") + Tokens(10, 20, "usage") == Tokens(11, 22, "usage")
    assert Tokens(1, 2, "estimate") + Tokens(0, 0, "usage") == Tokens(1, 2, "estimate")
    assert (Tokens(1, 2, "usage") + Tokens(0, 0, "tokenizer")).source == "tokenizer"


def test_tokens_are_estimated_by_the_script() -> None:
    assert estimate_tokens("") == 0.0
    assert estimate_tokens("a" * 40) == pytest.approx(10.0)
    assert estimate_tokens("\u6a21\u578b" * 5) == 10.0
    assert estimate_tokens("ab\u6a21\u578b") == pytest.approx(2.5)
