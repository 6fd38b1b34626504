"""Servers that go away and come back, hang at the deadline, or leave one model alone."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.live import rank
from lm_eval_ccat.testing.bench import Bench, make_bench
from lm_eval_ccat.testing.server import CompletionsServer

THREE = ["m01", "m05", "m11"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return make_bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture
def bench(shared: Bench, tmp_path: Path) -> Bench:
    for name in ("tasks", "bank.json", "default.bank.json", "known.parquet"):
        (tmp_path / name).symlink_to(shared.folder / name)
    return Bench(tmp_path, shared.outputs, shared.truth, tmp_path / "bank.json", 120)


def content_of(config: Path) -> dict:
    return json.loads((config.with_suffix(".run") / "result.json").read_text())


@pytest.mark.parametrize("slots", [1, 6])
def test_an_outage_loses_neither_model_nor_document(bench: Bench, slots: int) -> None:
    began: list[float] = []

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        if model != "m05" or sum(n for (m, _), n in server.answered.items() if m == model) < 6:
            return None
        began.append(time.monotonic())
        return ("status", 503) if began[-1] - began[0] < 1.5 else None

    failures = {"attempts": 2, "backoff": 0.05, "max_backoff": 0.4, "outage_minutes": 1}
    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(
            server.url, THREE, max_items=20, stop_when_decided=False, failures=failures,
            model_args={"num_concurrent": slots},
        )  # fmt: skip
        assert main(["rank", str(config)]) in (0, 3)
    content = content_of(config)
    assert all(b["n_items"] == 20 and not b["failed"] for b in content["models"].values())
    during = [t for t in began if t - began[0] < 1.5]
    # Two requests of each slot, and one probe after each pause: 0.05, 0.1, 0.2, 0.4, 0.4 ...
    assert len(during) <= 2 * slots + 8


def test_retry_after_is_obeyed_whole(bench: Bench) -> None:
    asked: list[float] = []

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        if model == "m05":
            asked.append(time.monotonic())
            if len(asked) == 3:
                return ("say", 429, '{"error": "slow down"}', {"Retry-After": "2"})
        return None

    failures = {"backoff": 0.01, "max_backoff": 0.02}
    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(server.url, THREE, max_items=12, failures=failures)
        assert main(["rank", str(config)]) in (0, 3)
    assert asked[3] - asked[2] >= 2.0
    assert not content_of(config)["models"]["m05"]["failed"]


def test_nothing_is_spent_on_comparing_a_model_with_nobody(bench: Bench) -> None:
    def mood(model: str, prompt: str, before: int) -> tuple | None:
        return ("status", 401) if model == "m01" else None

    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(server.url, ["m01", "m11"], stop_when_decided=False)
        assert main(["rank", str(config)]) == 4
    content = content_of(config)
    assert "only m11 is left" in content["stopped_because"]
    assert content["models"]["m11"]["n_items"] < 10


def test_the_deadline_cancels_what_hangs(bench: Bench) -> None:
    def mood(model: str, prompt: str, before: int) -> tuple | None:
        return ("hang", 30.0) if model == "m05" else None

    with CompletionsServer(bench.outputs, latency=0.01, mood=mood) as server:
        config = bench.config(
            server.url, THREE, budget={"seconds": 3.0}, stop_when_decided=False,
            model_args={"timeout": 60, "num_concurrent": 3},
        )  # fmt: skip
        result = rank(config)
    content = result.content
    assert content["stopped_because"] == "the time budget of 3 seconds is used up"
    assert content["seconds"] < 3.0 + 2.5  # the run's own clock; hanging it would be 30 or more
    assert result.run_dir is None and not (bench.folder / "rank.run").exists()


def test_a_timed_out_attempt_counts_at_its_expected_cost(bench: Bench) -> None:
    def mood(model: str, prompt: str, before: int) -> tuple | None:
        return ("hang", 3.0) if before == 0 and "document 7." in prompt else None

    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(
            server.url, ["m01", "m11"], model_args={"timeout": 1}, stop_when_decided=False,
            entry={"price": {"item": 0.5}}, failures={"backoff": 0.01},
        )  # fmt: skip
        result = rank(config)
    prompt = "Repeat the numbers of document 7."
    lost = sum(server.asked[m, prompt] - 1 for m in ("m01", "m11") if server.asked[m, prompt])
    assert lost
    assert result.content["cost"] == pytest.approx(
        0.5 * (result.content["items_administered"] + lost)
    )
