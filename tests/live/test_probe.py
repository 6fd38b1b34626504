"""One request to each model before money is spent, and mistakes that are said at once."""

from __future__ import annotations

import pytest
from bench import Bench
from loopback import CompletionsServer

from lm_eval_ccat.cli.main import main


def test_a_dry_run_with_probe_asks_each_model_once_and_says_who_cannot(
    bench: Bench, capsys: pytest.CaptureFixture
) -> None:
    def mood(model: str, prompt: str, before: int) -> tuple | None:
        return ("say", 401, '{"error": "no such key\\u001b[2J"}') if model == "m05" else None

    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(server.url, ["m01", "m05", "m11"])
        assert main(["rank", str(config), "--dry_run", "--probe"]) == 1
        out = capsys.readouterr().out
        assert sum(server.asked.values()) == 3 and not config.with_suffix(".run").exists()
        assert "m01: answers: " in out and "m05: cannot: HTTP 401: no such key" in out
        assert "\x1b" not in out and "Nothing was asked" not in out
        config = bench.config(server.url, ["m01", "m11"])
        assert main(["rank", str(config), "--dry_run", "--probe"]) == 0
    assert main(["rank", str(config), "--probe"]) == 2


def test_a_bank_is_no_configuration(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    assert main(["rank", str(bench.bank)]) == 2
    assert "is an item bank, not a configuration: write `bank: " in capsys.readouterr().err


def test_without_a_budget_it_says_what_it_takes_at_most(
    bench: Bench, server: CompletionsServer, capsys: pytest.CaptureFixture
) -> None:
    config = bench.config(
        server.url, ["m01", "m11"], bank="default.bank.json", entry={"price": {"item": 0.5}}
    )
    assert main(["rank", str(config)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "at most 240 answers (120 of each model), about $120." in said
