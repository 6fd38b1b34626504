"""What is said and asked before money is spent, and mistakes that are said at once."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from worlds.boards import draw, drive

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.live.charges import Charges
from lm_eval_ccat.live.forecast import target_in_words
from lm_eval_ccat.live.plan import Plan
from lm_eval_ccat.live.spec import Spec


@pytest.mark.long
def test_without_a_budget_it_says_what_it_takes_at_most(bench, server, ccat):
    config = bench.config(
        server.url, ["m01", "m11"], bank="default.bank.json", entry={"price": {"item": 0.5}}
    )
    refused = ccat("rank", config, code=2).err
    assert "up to about $120" in refused and "--budget_usd X" in refused
    assert not server.asked and not config.with_suffix(".run").joinpath("journal.jsonl").exists()
    said = " ".join(ccat("rank", config, "--yes").err.split())
    assert "at most 240 answers (120 of each model), about $120." in said
    few = {"bank": "default.bank.json", "max_items": 3}
    few = bench.config(server.url, ["m01", "m11"], name="few", **few)
    asked = sum(server.asked.values())
    said = " ".join(ccat("rank", few, code=(0, 3)).err.split())
    assert "at most 6 answers (3 of each model)" in said
    assert sum(server.asked.values()) == asked + 6


@pytest.mark.long
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 2)])
def test_on_a_terminal_it_asks_before_money_without_a_limit(
    bench, server, ccat, monkeypatch, answer, code
):
    stdin = StringIO(answer)
    monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", stdin)
    config = bench.config(server.url, ["m01", "m11"], entry={"price": {"item": 0.5}})
    said = ccat("rank", config, code=code).err
    assert "if models are equal. Start? [y/N]" in said
    assert bool(server.asked) == (code == 0)
    assert ("not started" in said) == (code == 2)


@pytest.mark.long
def test_without_a_bank_it_says_what_differences_take(bench, server, ccat):
    config = bench.config(server.url, ["m01", "m11"], bank=None, budget={"items": 40})
    said = " ".join(ccat("rank", config).err.split())
    assert "Expected items of each model to decide a pair by share" in said
    assert re.search(r"\d+ to \d+ if they differ by 0\.2, \d+ to \d+ if they differ by 0\.1", said)


def test_a_model_without_an_address_is_refused_before_another_is_asked(bench, server, ccat):
    without = {"m05": {"model_args": {"model": "m05", "tokenizer_backend": "none"}}}
    config = bench.config(server.url, ["m01", "m05", "m11"], max_items=10, of=without)
    assert "model m05 has no server to ask: give base_url" in ccat("rank", config, code=1).err
    assert not server.asked


@pytest.mark.long
def test_the_forecast_of_a_standard_error_is_what_right_or_wrong_answers_take():
    rng = np.random.default_rng(0)
    chance = draw(rng.normal(size=12), 200, seed=0, noise=0.0)
    right = (rng.random(chance.shape) < chance).astype(float)
    table = ScoreTable.from_arrays(right[:10], [f"m{i}" for i in range(10)], list(range(200)))
    bank = calibrate(table, method="default")
    taken = []
    for new in right[10:]:
        ranker = Ranker(bank, {"new": 1.0}, stop="se 0.04", seed=1)
        taken.append(len(drive(ranker, {"new": new}).items["new"]))
    charges = Charges(Spec(), prices={"new": 1.0})
    plan = Plan(Spec(stop="se 0.04"), {"t": {"x": Outcome.of(bank, "t", "x")}}, {}, charges)
    words = target_in_words(plan, by_default=False)
    forecast = int(words.split(" about ")[1].split()[0])
    assert 0.7 * min(taken) < forecast < 1.3 * max(taken), (forecast, taken)


@pytest.mark.parametrize(("target", "reached"), [(0.03, False), (0.2, True)])
def test_a_standard_error_below_the_noise_of_single_sampled_answers_is_not_promised(
    target: float, reached: bool, monkeypatch
) -> None:
    """Answers of which half are right have an error of .5 / 30 ** .5 = .09 once all are known."""
    outcomes = {"t": {"x": Outcome.of(ItemBank.blank(range(30)), "t", "x")}}
    monkeypatch.setattr(Plan, "sampled", True)
    spec = Spec(stop=f"se {target}")
    plan = Plan(spec, outcomes, {}, Charges(spec, prices={"new": 1.0}))
    words = target_in_words(plan, by_default=False)
    assert ("30 documents is not expected to reach" in words) is not reached
    assert ("is expected to take" in words) is reached and "30 of 30" not in words
    monkeypatch.setattr(Plan, "most_repeats", 8)
    words = target_in_words(plan, by_default=False)
    assert ("is not expected to reach (up to 8 are asked)" in words) is not reached


@pytest.mark.long
def test_the_cost_says_whose_lengths_it_takes_and_what_the_token_limit_allows(bench, server, ccat):
    """Ten numbers of two digits are the reference, and the task's limit is 64 tokens."""
    price = {"price": {"input": 0, "output": 1e6}}  # a dollar a token
    settings = {"max_items": 5, "entry": price}
    config = bench.config(server.url, ["m01", "m11"], **settings, bank=None)
    said = " ".join(ccat("rank", config, "--yes", code=(0, 3)).err.split())
    about, dearest = re.search(
        r"10 answers \(5 of each model\), about \$(\S+) if answers are as long as their "
        r"references, \$(\S+) at the token limit\.", said
    ).groups()  # fmt: skip
    assert float(dearest.replace(",", "")) == 10 * 64
    assert 10 * 5 < float(about.replace(",", "")) < 10 * 20
    # A bank of logs knows how long its models' answers were.
    known = ItemBank.load(bench.bank)
    provenance = {**known.provenance, "tokens": {"input": 9, "output": 40}}
    replace(known, provenance=provenance).save(bench.folder / "logs.bank.json")
    judge = {"bank": "logs.bank.json", "judge": {"item": 2}}  # dollars an answer
    config = bench.config(server.url, ["m01"], **settings, **judge, name="logs")
    said = " ".join(ccat("rank", config, "--yes", code=(0, 3)).err.split())
    n = int(re.search(r"at most (\d+) answers", said)[1])
    assert f"about ${42 * n}.00 if answers are as long as those of the bank's models, " in said
