"""What an answer, a lost attempt and a document are charged, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lm_eval_ccat import ItemBank
from lm_eval_ccat.live import charges as module
from lm_eval_ccat.live.charges import Charges, Forecast, expected_tokens
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.money import ASSUMED, BILLED, UNKNOWN, Tokens, estimate_tokens
from lm_eval_ccat.records import Item
from lm_eval_ccat.runs.tally import Tally

PRICE = {"input": 1000.0, "output": 4000.0, "item": 0.25}


def charges(price: dict[str, float], currency: str = "usd", **settings: Any) -> Charges:
    entry = {"name": "a", "model": "dummy", "price": price}
    spec = Spec.read({"task": "t", "models": [entry], **settings})
    return Charges(
        spec, {"a": Forecast(2.0, 9.0, True)}, {"a": 2.0}, {Item(("t", 0)): 1.5}, currency
    )


def test_an_answer_that_was_paid_before_costs_its_judging_alone():
    made = charges(PRICE)
    tokens = Tokens(100, 50, "usage")
    assert made.charge("a", tokens, seconds=3.0, judge_usd=0.5) == pytest.approx(
        (0.1 + 0.2 + 0.25 + 0.5,) * 2
    )
    assert made.charge("a", tokens, seconds=3.0, judge_usd=0.5, prior=True) == (0.5, 0.5)
    assert made.charge("a", None, seconds=0.0, judge_usd=0.0, prior=True) == (0.0, 0.0)
    for currency, cost in (("items", 1.0), ("tokens", 150)):  # a budget of these counts new ones
        of_budget = charges(PRICE, currency)
        assert of_budget.charge("a", tokens, seconds=3.0, judge_usd=0.5)[0] == cost
        assert of_budget.charge("a", tokens, seconds=3.0, judge_usd=0.5, prior=True)[0] == 0.0


def test_a_lost_attempt_costs_what_is_usual_and_may_cost_the_most():
    """Before the first answer tells, of a document half as long again as the mean."""
    made = charges(PRICE)
    for column in (BILLED, ASSUMED):
        assert made.of_lost_attempt("a", Item(("t", 0)), column, Tally()) == (3.0, 3.0)
    assert made.of_lost_attempt("a", Item(("t", 0)), UNKNOWN, Tally()) == (9.0, 9.0)


def test_a_document_reads_the_prompts_of_all_its_requests(monkeypatch):
    choices, repeated = ("How many? One", "How many? Two, or more"), ("Again?",)
    session: Any = SimpleNamespace(
        task=None, token_limit=10, prompts={0: choices, 1: repeated}.__getitem__,
        n_requests={0: 2, 1: 3}.__getitem__,
    )  # fmt: skip
    stated = {"output_type": "multiple_choice", "documents": {0: {}, 1: {}}}
    for name, value in stated.items():
        monkeypatch.setattr(module.internals, name, lambda task, value=value: value)
    found = expected_tokens(session, ItemBank.blank([0, 1]), [0, 1])
    read = sum(estimate_tokens(prompt) for prompt in choices), 3 * estimate_tokens(repeated[0])
    assert [usual.input for usual, _ in found.values()] == pytest.approx(read)
    assert all(usual.output == limit.output == 0.0 for usual, limit in found.values())


def test_before_the_first_answer_a_lost_attempt_counts_the_tokens_that_are_expected():
    made, tally, item = charges(PRICE, "tokens"), Tally(), Item(("t", 0))
    assert made.of_lost_attempt("a", item, BILLED, tally)[0] == made.expected("a", item) == 3.0
    tally.lengths["a"] = SimpleNamespace(of_lost_attempt=lambda column: 120.0)
    assert made.of_lost_attempt("a", item, BILLED, tally)[0] == 120.0


BY_TOKENS = {"input": 1000.0, "output": 4000.0}


@pytest.mark.parametrize(
    ("prices", "follows"), [((BY_TOKENS, BY_TOKENS), True), ((BY_TOKENS, {"item": 0.25}), False)]
)
def test_documents_have_sizes_where_every_price_follows_their_length(monkeypatch, prices, follows):
    """Two documents, of 100 and 300 tokens to read; answers take 10, and 50 at the limit."""
    tokens = {
        doc: module.ExpectedTokens(Tokens(read, 10, "estimate"), Tokens(read, 50, "estimate"))
        for doc, read in ((0, 100), (1, 300))
    }
    monkeypatch.setattr(module, "expected_tokens", lambda *_: tokens)
    models = [{"name": n, "model": "dummy", "price": p} for n, p in zip("ab", prices)]
    settings = {"budget": {"usd": 9}, "judge": {"item": 0.5}}
    spec = Spec.read({"task": "t", "models": models, **settings})
    outcome = SimpleNamespace(bank=ItemBank.blank(range(2)), weight=1.0)
    made = Charges.of(spec, {"t": {"acc": outcome}}, {"t": None})
    assert made.forecasts["a"].mean == pytest.approx((0.14 + 0.34) / 2 + 0.5)
    assert made.forecasts["a"].largest == pytest.approx(0.3 + 0.2 + 0.5)
    sizes = {Item(("t", 0)): 0.14 / 0.24, Item(("t", 1)): 0.34 / 0.24}
    assert made.units == (pytest.approx(sizes) if follows else None)
