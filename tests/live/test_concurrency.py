"""Models work at the same time, each as wide as its backend wants, and wait for nobody."""

from __future__ import annotations

import json

from worlds.bench import Bench
from worlds.server import CompletionsServer

from lm_eval_ccat.cli.main import main

FOUR = ["m01", "m05", "m07", "m11"]


def test_every_model_works_at_its_full_width(bench: Bench) -> None:
    with CompletionsServer(bench.outputs, latency=0.2) as server:
        config = bench.config(
            server.url, FOUR, model_args={"num_concurrent": 8}, stop="limits", max_items=40
        )
        assert main(["rank", str(config)]) in (0, 3)
    assert sum(server.answered.values()) == 160
    # Every model was given as much at once as it takes; times would be spoilt by a busy machine.
    assert server.most_at_once == dict.fromkeys(FOUR, 8)


def test_a_slow_model_holds_nobody_up(bench: Bench) -> None:
    latency = {"m01": 0.05, "m05": 0.001, "m07": 0.001, "m11": 0.001}
    with CompletionsServer(bench.outputs, latency=latency) as server:
        config = bench.config(server.url, FOUR, stop="limits", max_items=20, budget={"items": 80})
        assert main(["rank", str(config)]) in (0, 3)
    last: dict[str, float] = {}
    for line in (config.with_suffix(".run") / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["op"] == "tell":
            last[record["model"]] = record["time"]
    for name in FOUR[1:]:
        assert last[name] < last["m01"]
