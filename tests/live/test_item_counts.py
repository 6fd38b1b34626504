"""`rank` counts beside a bank that is counted which items it asked, and counts them once."""

from __future__ import annotations

import json

import yaml
from bench import Bench
from loopback import CompletionsServer

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.upkeep.usage import read_usage, start_usage


def test_items_are_counted_beside_the_bank_and_once(
    bench: Bench, server: CompletionsServer
) -> None:
    config = bench.config(server.url, ["m01", "m11"])
    bank = config.parent / yaml.safe_load(config.read_text())["bank"]
    start_usage(bank)
    before = read_usage(bank)
    assert main(["rank", str(config)]) == 0
    now = read_usage(bank)
    assert now.tests == before.tests + 2
    result = json.loads((config.with_suffix(".run") / "result.json").read_text())
    asked = result["items_administered"]
    assert sum(now.counts.values()) - sum(before.counts.values()) == asked
    main(["rank", str(config), "--resume"])
    assert read_usage(bank) == now
