"""The Ray executor on real local nodes, one of which is killed in the middle of a run."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worlds.bench import content_of

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.runs.journal import JournalFile

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
TWO = ["m03", "m09"]


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of two nodes of two CPUs, and a head that takes no work."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=2)
    cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def lose_a_node_that_works(cluster: Any, journal: Path) -> None:
    """Once 20 documents are answered, kill a node that has an actor."""
    while not (journal.exists() and journal.read_bytes().count(b'"op": "tell"') >= 20):
        time.sleep(0.02)
    actors = ray._private.state.actors().values()
    where = next(a["Address"]["NodeID"] for a in actors if a["State"] == "ALIVE")
    [lost] = [node for node in cluster.worker_nodes if node.node_id == where]
    cluster.remove_node(lost, allow_graceful=False)


@pytest.mark.slow
def test_new_models_are_placed_among_known_ones_from_two_nodes(bench, server, cluster, ccat):
    config = bench.config(
        server.url, TWO, entry={"num_cpus": 1.5}, bank="default.bank.json", known="known.parquet",
        max_items=20, stop="limits",
    )  # fmt: skip
    arguments = ["--executor", f"ray:{cluster.address}"]
    ccat("rank", config, *arguments, code=(0, 3))  # one model fits on a node
    content = content_of(config)
    assert len(content["order"]) == 8 and {m for m, _ in server.asked} == set(TWO)
    truth = sorted([*[*bench.truth][::2], *TWO], key=lambda m: -bench.truth[m])
    for name in TWO:
        assert content["models"][name]["n_items"] == 20
        low, high = content["models"][name]["place"]["rank_interval"]
        assert low <= truth.index(name) + 1 <= high


@pytest.mark.slow
def test_a_lost_node_costs_only_what_was_in_flight(bench, server, cluster, ccat):
    server.latency = 0.1
    config = bench.config(server.url, TWO, entry={"num_cpus": 1.0}, max_items=50, stop="limits")
    journal = config.with_suffix(".run") / "journal.jsonl"
    threading.Thread(target=lose_a_node_that_works, args=(cluster, journal)).start()
    arguments = ["--executor", f"ray:{cluster.address}"]
    ccat("rank", config, *arguments, code=(0, 3))
    content = content_of(config)
    assert {m: b["n_items"] for m, b in content["models"].items()} == {"m03": 50, "m09": 50}
    records = JournalFile(journal).read_new()
    told = [(r["model"], r["item"]) for r in records if r["op"] == "tell"]
    assert len(told) == len(set(told)) == 100
    repeated = Counter(server.asked) - Counter(set(server.asked))
    assert sum(repeated.values()) <= 2  # one of each model
    log = (config.with_suffix(".run") / "run.log").read_text()
    assert "its node was lost; starting it again" in log


@pytest.mark.slow
def test_a_lost_node_without_another_sets_its_model_aside(bench, server, cluster, ccat):
    server.latency = 0.05
    config = bench.config(
        server.url, TWO, entry={"num_cpus": 2.0}, max_items=50, stop="limits",
        failures={"outage_minutes": 0.05},
    )  # fmt: skip
    journal = config.with_suffix(".run") / "journal.jsonl"
    threading.Thread(target=lose_a_node_that_works, args=(cluster, journal)).start()
    arguments = ["--executor", f"ray:{cluster.address}"]
    ccat("rank", config, *arguments, code=4)
    models = content_of(config)["models"]
    [aside] = [block for block in models.values() if block["set_aside"]]
    assert "no node had room for it within 3 s: it asks for 2 CPUs" in aside["set_aside"]
    assert aside["n_items"]


def test_a_model_behind_a_server_reserves_no_cpu():
    from lm_eval_ccat.live.spec import Spec

    kinds = ("hf", "vllm", "local-completions", "openai-chat-completions")
    entries = [{"name": kind, "model": kind} for kind in kinds]
    found = Spec.read({"task": "t", "models": entries}).models
    assert [model.cpus for model in found] == [1.0, 1.0, 0.0, 0.0]


def test_without_an_address_that_answers_the_error_is_one_line(bench, server, capsys):
    ray.shutdown()
    config = bench.config(server.url, TWO)
    arguments = ["--executor", "ray:not an address"]
    assert main(["rank", str(config), *arguments]) == 2
    error = [e for e in capsys.readouterr().err.splitlines() if e.startswith("lm-eval-ccat: error")]
    assert len(error) == 1 and "cannot connect to Ray" in error[0]
    assert not server.asked
