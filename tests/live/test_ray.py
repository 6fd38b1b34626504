"""The Ray executor on real local nodes, one of which is killed in the middle of a run."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from bench import Bench
from loopback import CompletionsServer

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.runs.journal import JournalFile

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
TWO = ["m03", "m09"]


@pytest.fixture
def two_nodes() -> Iterator[tuple[Any, Any]]:
    """A cluster with a head that takes no work and two nodes; (cluster, the node to lose)."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=2, resources={"stays": 1})
    lost = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    yield cluster, lost
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.slow
def test_a_local_ray_is_started_by_the_command(bench: Bench, server: CompletionsServer) -> None:
    ray.shutdown()
    config = bench.config(server.url, TWO, entry={"num_cpus": 0.5}, max_items=20)
    try:
        assert main(["rank", str(config), "--executor", "ray"]) in (0, 3)
    finally:
        ray.shutdown()
    content = json.loads((config.with_suffix(".run") / "result.json").read_text())
    assert content["order"] == ["m09", "m03"]
    assert content["items_administered"] == sum(server.answered.values())
    assert list((config.with_suffix(".run") / "m03").glob("results_*.json"))


@pytest.mark.slow
def test_a_lost_node_costs_only_what_was_in_flight(
    bench: Bench, two_nodes: tuple[Any, Any]
) -> None:
    cluster, lost = two_nodes
    with CompletionsServer(bench.outputs, latency=0.1) as server:
        config = bench.config(
            server.url, TWO, entry={"num_cpus": 1.0}, max_items=50, stop_when_decided=False,
        )  # fmt: skip
        journal = config.with_suffix(".run") / "journal.jsonl"
        killed: list[float] = []

        def kill() -> None:
            while not (journal.exists() and journal.read_bytes().count(b'"op": "tell"') >= 20):
                time.sleep(0.02)
            cluster.remove_node(lost, allow_graceful=False)
            killed.append(time.monotonic())

        threading.Thread(target=kill, daemon=True).start()
        arguments = ["--executor", "ray", "--ray_address", cluster.address]
        assert main(["rank", str(config), *arguments]) in (0, 3)
    assert killed
    content = json.loads((config.with_suffix(".run") / "result.json").read_text())
    assert {m: b["n_items"] for m, b in content["models"].items()} == {"m03": 50, "m09": 50}
    records = JournalFile(journal).read_new()
    told = [(r["model"], r["item"]) for r in records if r["op"] == "tell"]
    assert len(told) == len(set(told)) == 100
    repeated = Counter(server.asked) - Counter(set(server.asked))
    assert sum(repeated.values()) <= 1
    log = (config.with_suffix(".run") / "run.log").read_text()
    assert "its node was lost; starting it again" in log


def test_without_an_address_that_answers_the_error_is_one_line(
    bench: Bench, server: CompletionsServer, capsys: pytest.CaptureFixture
) -> None:
    ray.shutdown()
    config = bench.config(server.url, TWO)
    arguments = ["--executor", "ray", "--ray_address", "not an address"]
    assert main(["rank", str(config), *arguments]) == 2
    error = [e for e in capsys.readouterr().err.splitlines() if e.startswith("lm-eval-ccat: error")]
    assert len(error) == 1 and "cannot connect to Ray" in error[0]
    assert not server.asked
