"""The Ray executor on real local nodes, one of which is killed in the middle of a run."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.records import Tell

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


def ranked_while_a_node_is_lost(bench, server, cluster, code, **settings):
    """The result of a ranking. After 20 answers a node that has an actor is killed."""
    journal = bench.run() / "journal.jsonl"

    def lose():
        while not (journal.exists() and journal.read_bytes().count(b'"op": "tell"') >= 20):
            time.sleep(0.02)
        actors = ray._private.state.actors().values()
        where = next(a["Address"]["NodeID"] for a in actors if a["State"] == "ALIVE")
        [lost] = [node for node in cluster.worker_nodes if node.node_id == where]
        cluster.remove_node(lost, allow_graceful=False)

    threading.Thread(target=lose).start()
    executor = ["--executor", f"ray:{cluster.address}"]
    return bench.ranked(server, TWO, code, executor, max_items=50, stop="limits", **settings)


@pytest.mark.slow
def test_a_lost_node_costs_only_what_was_in_flight(bench, server, cluster):
    server.latency, one = 0.1, {"num_cpus": 1.0}
    content = ranked_while_a_node_is_lost(bench, server, cluster, (0, 3), entry=one)
    assert {m: b["n_items"] for m, b in content["models"].items()} == {"m03": 50, "m09": 50}
    records = JournalFile(bench.run() / "journal.jsonl").read_new()
    told = [record.pair for record in records if isinstance(record, Tell)]
    assert len(told) == len(set(told)) == 100
    repeated = Counter(server.asked) - Counter(set(server.asked))
    assert sum(repeated.values()) <= 2  # one of each model
    assert "its node was lost; starting it again" in (bench.run() / "run.log").read_text()


@pytest.mark.slow
def test_a_lost_node_without_another_sets_its_model_aside(bench, server, cluster):
    server.latency, two = 0.05, {"num_cpus": 2.0}
    failures = {"outage_minutes": 0.05}
    content = ranked_while_a_node_is_lost(
        bench, server, cluster, (4,), entry=two, failures=failures
    )
    [aside] = [block for block in content["models"].values() if block["set_aside"]]
    assert "no node had room for it within 3 s: it asks for 2 CPUs" in aside["set_aside"]
    assert aside["n_items"]


def test_a_model_behind_a_server_reserves_no_cpu():
    from lm_eval_ccat.live.spec import Spec

    kinds = ("hf", "vllm", "local-completions", "openai-chat-completions")
    entries = [{"name": kind, "model": kind} for kind in kinds]
    found = Spec.read({"task": "t", "models": entries}).models
    assert [model.cpus for model in found] == [1.0, 1.0, 0.0, 0.0]


def test_without_an_address_that_answers_the_error_is_one_line(bench, server, ccat):
    ray.shutdown()
    config = bench.config(server.url, TWO)
    err = ccat("rank", config, "--executor", "ray:not an address", code=2).err
    error = [line for line in err.splitlines() if line.startswith("lm-eval-ccat: error")]
    assert len(error) == 1 and "cannot connect to Ray" in error[0]
    assert not server.asked
