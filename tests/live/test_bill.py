"""The bill as the server writes it: tokens outside the count, the cache, stated costs, cuts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.harness.served import Served
from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.money import Price, Tokens
from lm_eval_ccat.records import Lost

PRICE = {"input": 1000.0, "output": 4000.0}
LIMITS = {"max_items": 20, "stop": "limits", "bank": None}


def billed(server: Any, model: str, price: dict[str, float]) -> float:
    """What a model's answers cost by the server's own counts."""
    sums = [
        price["input"] * (usage["prompt_tokens"])
        + price["output"] * (usage["total_tokens"] - usage["prompt_tokens"])
        for usage in server.bills[model]
    ]
    return sum(sums) / 1e6


@pytest.fixture
def billing(server):
    """A server whose answers take 3 to 300 tokens of reasoning, which only the total counts."""
    server.bills = {}

    def says(model: str, n: int) -> dict[str, Any]:
        usage = {"prompt_tokens": 8, "completion_tokens": 10, "total_tokens": 21 + 33 * (n % 10)}
        server.bills.setdefault(model, []).append(usage)
        return {"usage": usage}

    server.usage, server.says = False, says
    return server


@pytest.mark.long
def test_reasoning_outside_the_completion_is_billed_and_told(bench, billing, capsys):
    content = bench.ranked(billing, ["m01", "m11"], entry={"price": PRICE}, **LIMITS)
    capsys.readouterr()
    for name, block in content["models"].items():
        assert block["money"]["billed"] == pytest.approx(billed(billing, name, PRICE))
        outside = sum(one["total_tokens"] - 18 for one in billing.bills[name])
        assert block["tokens"]["outside"] == outside
        assert any(
            f"the server of {name} counts {outside:,} tokens in its total alone" in warning
            for warning in content["warnings"]
        )


@pytest.mark.long
def test_a_total_below_the_prompt_is_told_and_not_counted(bench, server):
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 5}
    server.usage, server.says = False, lambda model, n: {"usage": usage}
    content = bench.ranked(server, ["m01", "m11"], entry={"price": PRICE}, **LIMITS)
    for name, block in content["models"].items():
        each = (10 * PRICE["input"] + 4 * PRICE["output"]) / 1e6
        assert block["money"]["billed"] == pytest.approx(block["asked"] * each)
        said = f"the server of {name} reports impossible token counts: 5 tokens in all for 10 read"
        assert any(said in warning for warning in content["warnings"])


@pytest.mark.long
def test_answers_at_another_tier_than_was_asked_for_are_told(bench, server):
    """Half of them come at a tier of their own, whose price nobody stated."""
    server.says = lambda model, n: {"service_tier": "priority" if n % 2 else "default"}
    content = bench.ranked(server, ["m01", "m11"], entry={"price": PRICE}, **LIMITS)
    told = [text for text in content["warnings"] if "tier" in text]
    assert told == [
        f"the server of {name} served 10 answers at the tier 'priority', which was not asked for; "
        "the bill has the price that you state"
        for name in ("m01", "m11")
    ]


@pytest.mark.long
def test_a_budget_holds_where_reasoning_is_outside_the_completion(bench, billing):
    budget = 24.0
    content = bench.ranked(
        billing, ["m01", "m11"], entry={"price": PRICE}, budget={"usd": budget}, stop="limits",
        bank=None,
    )  # fmt: skip
    paid = sum(billed(billing, name, PRICE) for name in ("m01", "m11"))
    dearest = (8 * 1000 + 313 * 4000) / 1e6
    # What is in flight when the budget is used up was asked at the mean cost so far.
    assert paid <= budget + 8 * dearest and content["usd"] == pytest.approx(paid)


@pytest.mark.long
@pytest.mark.parametrize("share", [3, 10])
def test_connections_cut_after_billing_lie_within_the_stated_range(bench, billing, share):
    """A tenth or three tenths of the requests are billed, and their answers are lost."""
    billing.mood = lambda model, prompt, before: (
        ("cut",) if not before and int(prompt.rstrip(".").split()[-1]) % 10 < share % 10 else None
    )
    content = bench.ranked(
        billing, ["m01", "m11"], entry={"price": PRICE}, failures={"backoff": 0.01},
        **LIMITS,
    )  # fmt: skip
    lost = sum(sum(block.get("attempts_lost", {}).values()) for block in content["models"].values())
    mean = sum(billed(billing, name, PRICE) for name in ("m01", "m11")) / 40
    money = content["money"]
    assert (lost > 5) == (share == 3)
    truth = money["billed"] + lost * mean
    assert money["billed"] <= truth <= money["billed"] + money["unknown"] + 1e-9


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        # Reasoning inside the completion, outside it, and a total that cannot be.
        ({"prompt_tokens": 10, "completion_tokens": 80, "total_tokens": 90}, (10, 80, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 90}, (10, 80, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 5}, (10, 4, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": "90"}, (10, 4, 0)),
        (
            {"prompt_tokens": 10, "completion_tokens": 4,
             "prompt_tokens_details": {"cached_tokens": 8}},
            (10, 4, 8),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 4,
             "prompt_tokens_details": {"cached_tokens": 800}},
            (10, 4, 10),
        ),
    ],
)  # fmt: skip
def test_the_tokens_of_a_usage(usage, tokens):
    stated = Served.of({"usage": usage}).usage
    assert (stated.input, stated.output, stated.cached) == tokens


def test_cached_tokens_have_their_price():
    tokens = Tokens(1000, 100, "usage", cached=600)
    assert Price(input=1, output=2, cached=0.1).cost(tokens, 0.0) == pytest.approx(
        (400 * 1 + 600 * 0.1 + 100 * 2) / 1e6
    )
    assert Price(input=1, output=2).cost(tokens, 0.0) == pytest.approx(1200 / 1e6)


@pytest.mark.long
@pytest.mark.parametrize("price", [{}, PRICE])
def test_the_dollars_that_a_server_states_are_the_bill(bench, server, price):
    usage = {"prompt_tokens": 8, "completion_tokens": 10, "cost": 0.002}
    server.usage, server.says = False, lambda model, n: {"usage": usage}
    config = bench.config(server.url, ["m01", "m11"], entry={"price": price}, **LIMITS)
    content = rank(config).content
    assert content["money"]["billed"] == pytest.approx(0.002 * 40)
    assert content["models"]["m01"]["tokens"]["usd"] == pytest.approx(0.002 * 20)


# -- a budget in tokens ------------------------------------------------------------------------


def counted(server: Any) -> int:
    """All tokens that a server has counted."""
    return sum(usage["total_tokens"] for bill in server.bills.values() for usage in bill)


@pytest.mark.long
def test_a_budget_in_tokens_holds_without_prices_and_every_surface_counts_them(
    bench, billing, capsys
):
    """Answers take 21 to 318 tokens where lengths of references promise about 24."""
    budget = 6000
    content = bench.ranked(
        billing, ["m01", "m11"], budget={"tokens": budget}, stop="limits", bank=None,
    )  # fmt: skip
    printed = " ".join(capsys.readouterr().out.split())
    spent = counted(billing)
    # What is in flight when the budget is used up was asked at the mean cost so far.
    assert 0.8 * budget < spent <= budget + 8 * 318
    assert (content["cost_unit"], content["cost"]) == ("tokens", spent)
    assert content["usd"] is None and "budget" in content["stopped_because"]
    full = sum(120 * row["cost"] / row["n_items"] for row in content["models"].values())
    told = f"{spent:,} tokens of about {full:,.0f} tokens"
    assert told in content["headline"] and f"Spent {spent:,} tokens." in printed
    for row in content["models"].values():
        assert f" {row['cost']:,.0f} " in printed


@pytest.mark.long
def test_lost_requests_take_their_part_of_a_budget_in_tokens(bench, billing):
    """Every third request is billed, and its answer is lost: its tokens are those of the others."""
    billing.mood = lambda model, prompt, before: (
        ("cut",) if not before and int(prompt.rstrip(".").split()[-1]) % 3 == 0 else None
    )
    content = bench.ranked(
        billing, ["m01", "m11"], budget={"tokens": 5000}, stop="limits", bank=None,
        failures={"backoff": 0.01},
    )  # fmt: skip
    records = list(JournalFile(bench.run() / "journal.jsonl").read_new())
    lost = [record.cost for record in records if isinstance(record, Lost)]
    assert len(lost) > 3 and all(21 <= cost <= 318 for cost in lost)
    assert 4000 < content["cost"] + sum(lost) <= 5000 + 8 * 318


@pytest.mark.long
def test_a_budget_in_tokens_below_the_first_items_is_refused(bench, billing, capsys):
    config = bench.config(billing.url, ["m01", "m11"], budget={"tokens": 100}, bank=None)
    assert main(["rank", str(config)]) == 2
    assert "give at least {tokens: " in capsys.readouterr().err
    config = bench.config(billing.url, ["m01", "m11"], budget={"tokens": 2000}, bank=None)
    assert main(["plan", str(config)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    fewest, most = map(int, re.search(r"Together (\d+) to (\d+) items", told).groups())
    assert fewest == 20 < most < 240 and "at most 2,000 tokens" in told
