"""The Ray executor on real local nodes, one of which is killed in the middle of a run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from worlds.bench import facts

from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live.failures import ModelGone, PlaceLost
from lm_eval_ccat.live.ray import LOSSES, OPEN_SECONDS, Nodes, RayModel
from lm_eval_ccat.records import Tell

TWO = ["m03", "m09"]
FOUR = ["m01", "m03", "m09", "m11"]


#: Whatever happens to places, windows of this many asks make runs alike.
ALIKE = {"max_items": 50, "stop": "limits", "ahead": 8}


@pytest.fixture(autouse=True)
def ray() -> Any:
    """The package, imported by the worker that plays these tests and not by all that collect."""
    return pytest.importorskip("ray", reason="the extra `ray` is not installed")


@pytest.fixture
def cluster(ray: Any) -> Iterator[Any]:
    """A cluster of a head that takes no work; tests add nodes."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def two_places() -> Iterator[Any]:
    """A cluster that tests share: a head that takes no work, and two nodes of one CPU."""
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    with_nodes(cluster, 1, 1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def with_nodes(cluster, *cpus):
    for n in cpus:
        cluster.add_node(num_cpus=n)
    cluster.wait_for_nodes()


def alive_actors() -> list[dict[str, Any]]:
    from ray._private.state import actors

    return [a for a in actors().values() if a["State"] == "ALIVE"]


def ranked_on(cluster, bench, server, models, event=None, after=20, code=(0, 3), **settings):
    """The result of a ranking on a cluster, during which something happens after some answers."""
    journal = bench.run("cluster") / "journal.jsonl"

    def wait():
        while not (journal.exists() and journal.read_bytes().count(b'"op":"tell"') >= after):
            time.sleep(0.02)
        event()

    if event is not None:
        threading.Thread(target=wait).start()
    executor = ["--executor", f"ray:{cluster.address}"]
    settings = {"entry": {"num_cpus": 1.0}, **ALIKE, **settings}
    return bench.ranked(server, models, code, executor, name="cluster", **settings)


def lose_a_node(cluster):
    """Kill a node that has an actor."""
    where = alive_actors()[0]["Address"]["NodeID"]
    [lost] = [node for node in cluster.worker_nodes if node.node_id == where]
    cluster.remove_node(lost, allow_graceful=False)


def kill_an_actor(cluster):
    """Kill the process of an actor."""
    os.kill(alive_actors()[0]["Pid"], signal.SIGKILL)


def local(bench, server, models, **settings):
    return facts(bench.ranked(server, models, (0, 3), name="local", **{**ALIKE, **settings}))


def log_of(bench) -> str:
    return (bench.run("cluster") / "run.log").read_text()


def told(bench) -> list[Any]:
    records = list(JournalFile(bench.run("cluster") / "journal.jsonl").read_new())
    return [record.pair for record in records if isinstance(record, Tell)]


#: As a run ends that nobody has told when: at its goal, by the default window.
DECIDED = {"max_items": 60, "stop": "decided", "ahead": None}
#: Threads that take turns, as four models on two places do: their windows grow faster.
IN_TURNS = {"memory": 1.0, "entry": {"memory": 1.0}}


# `.ci/run` plays those of the slow ones that have `at_two_places` in their names.


@pytest.mark.slow
def test_four_models_at_two_places_end_as_threads_do(bench, server, two_places, capfd):
    content = ranked_on(two_places, bench, server, FOUR, **DECIDED)
    assert "waiting for a node" not in "".join(capfd.readouterr())  # for what never comes
    assert facts(content) == local(bench, server, FOUR, **DECIDED, **IN_TURNS)


@pytest.mark.slow
def test_a_killed_actor_at_two_places_costs_only_what_was_in_flight(bench, server, two_places):
    """By the default window, to the deciding answer; each model has a place to itself."""
    server.latency = 0.1
    close = ["m05", "m07"]
    content = ranked_on(
        two_places, bench, server, close, lambda: kill_an_actor(two_places), after=10, **DECIDED
    )
    assert "its node was lost; starting it again" in log_of(bench)
    server.latency = 0.0
    assert len(told(bench)) == len(set(told(bench)))
    assert facts(content) == local(bench, server, close, **DECIDED)


@pytest.mark.slow
def test_a_model_whose_node_is_lost_at_two_places_waits_for_one_of_its_size(
    bench, server, two_places, capfd, monkeypatch
):
    """The others have no room for it, and go on; a node that joins is used."""
    monkeypatch.setattr("lm_eval_ccat.live.sender.REPORT", 0.5)
    large = two_places.add_node(num_cpus=2)
    two_places.wait_for_nodes()
    warnings, ended = [], threading.Event()
    monkeypatch.setattr("lm_eval_ccat.cli.live.Display.warn", lambda _, text: warnings.append(text))

    def lose_the_large_node():
        two_places.remove_node(large, allow_graceful=False)
        while "m01 is waiting for a node: it asks for 2 CPUs" not in " ".join(warnings):
            time.sleep(0.1)
        with mock.patch("signal.signal"):  # only the main thread may set one
            two_places.add_node(num_cpus=2)
        ended.wait()  # nodes end with the thread that began them

    server.latency = 0.1
    content = ranked_on(
        two_places, bench, server, ["m01", *TWO], lose_the_large_node, after=9,
        max_items=30, of={"m01": {"num_cpus": 2.0}},
    )  # fmt: skip
    ended.set()
    assert {block["n_items"] for block in content["models"].values()} == {30}
    assert not any(block["set_aside"] for block in content["models"].values())
    server.latency = 0.0
    assert facts(content) == local(bench, server, ["m01", *TWO], max_items=30)


@pytest.mark.slow
@pytest.mark.parametrize("event", [lose_a_node, kill_an_actor])
def test_a_lost_node_or_actor_costs_only_what_was_in_flight(bench, server, cluster, event, capfd):
    server.latency = 0.1
    with_nodes(cluster, 2, 2)
    content = ranked_on(cluster, bench, server, TWO, lambda: event(cluster))
    assert {m: b["n_items"] for m, b in content["models"].items()} == {"m03": 50, "m09": 50}
    assert len(told(bench)) == len(set(told(bench))) == 100
    repeated = Counter(server.asked) - Counter(set(server.asked))
    assert sum(repeated.values()) <= 2  # one of each model
    assert "its node was lost; starting it again" in log_of(bench)
    # What nodes say of it is kept beside, and no line of it is on the terminal.
    assert "lm_eval_ccat.cluster raylet: " in log_of(bench)
    assert "raylet" not in "".join(capfd.readouterr())
    server.latency = 0.0
    assert facts(content) == local(bench, server, TWO)


@pytest.mark.slow
def test_four_models_take_turns_on_two_places(bench, server, cluster, ray):
    with_nodes(cluster, 1, 1)
    most, done = 0, threading.Event()

    def watch():
        nonlocal most
        while not done.wait(0.1):
            if ray.is_initialized():
                most = max(most, len(alive_actors()))

    threading.Thread(target=watch).start()
    try:
        began = time.monotonic()
        content = ranked_on(cluster, bench, server, FOUR)
    finally:
        done.set()
    assert most == 2  # both places, and no more
    assert time.monotonic() - began < 600.0
    assert facts(content) == local(bench, server, FOUR)


@pytest.mark.slow
def test_models_take_turns_on_what_a_lost_node_leaves(bench, server, cluster):
    with_nodes(cluster, 1, 1)
    content = ranked_on(cluster, bench, server, TWO, lambda: lose_a_node(cluster))
    assert len(told(bench)) == len(set(told(bench))) == 100
    assert facts(content) == local(bench, server, TWO)


@pytest.mark.slow
def test_a_node_that_joins_late_is_used(bench, server, cluster, ray):
    """As an autoscaler adds one for a place that is asked for."""
    with_nodes(cluster, 1)
    loads = set()

    def join():
        with mock.patch("signal.signal"):  # only the main thread may set one, and none is needed
            cluster.add_node(num_cpus=1)
        while len(loads) < 2 and ray.is_initialized():
            loads.clear()
            loads.update(actor["Address"]["NodeID"] for actor in alive_actors())
            time.sleep(0.05)

    server.latency = 0.1
    content = ranked_on(cluster, bench, server, TWO, join, after=9, max_items=100)
    assert len(loads) == 2  # one model on each node
    assert {b["n_items"] for b in content["models"].values()} == {100}


@pytest.mark.slow
def test_a_model_that_no_node_holds_is_set_aside_and_the_others_go_on(bench, server, cluster):
    with_nodes(cluster, 1, 2)
    content = ranked_on(
        cluster, bench, server, ["m01", *TWO], code=(4,),
        of={"m01": {"num_cpus": 3.0}}, failures={"outage_minutes": 0.05},
    )  # fmt: skip
    assert [name for name, block in content["models"].items() if block["set_aside"]] == ["m01"]
    reason = content["models"]["m01"]["set_aside"]
    assert "no node had room for it within 3 s: it asks for 3 CPUs" in reason
    assert {content["models"][m]["n_items"] for m in TWO} == {50}


@pytest.mark.slow
def test_a_model_beyond_what_an_autoscaler_states_is_set_aside_at_once(
    bench, server, cluster, monkeypatch
):
    from lm_eval_ccat.live.ray import Nodes

    monkeypatch.setattr(Nodes, "addable_nodes", [{"CPU": 2.0}])
    with_nodes(cluster, 1, 1)
    began = time.monotonic()
    content = ranked_on(
        cluster, bench, server, ["m01", *TWO], code=(4,), of={"m01": {"num_cpus": 3.0}}
    )
    assert [name for name, block in content["models"].items() if block["set_aside"]] == ["m01"]
    assert "none that may join has" in content["models"]["m01"]["set_aside"]
    assert {content["models"][m]["n_items"] for m in TWO} == {50}
    assert time.monotonic() - began < 600.0  # others would be waited for 15 minutes


def test_the_nodes_that_may_join_are_those_that_the_autoscaler_states(monkeypatch):
    from lm_eval_ccat.live.ray import Nodes

    nodes, stated = Nodes(), [({"CPU": 8.0, "GPU": 1.0}, 2), ({"CPU": 64.0}, 0)]  # none of these
    groups = [SimpleNamespace(resources=amounts, max_count=n) for amounts, n in stated]
    config = SimpleNamespace(node_group_configs=groups)
    monkeypatch.setattr(Nodes, "amounts", [{"CPU": 16.0}])
    monkeypatch.setattr("ray._private.state.state.get_cluster_config", lambda: config)
    sizes = [{"CPU": 16.0}, {"GPU": 1.0, "CPU": 8.0}, {"CPU": 17.0}, {"GPU": 2.0}]
    assert [nodes.may_hold([size]) for size in sizes] == [True, True, False, False]
    large, small = {"CPU": 16.0}, {"GPU": 1.0}
    assert nodes.may_hold([large, small, small]) and not nodes.may_hold([large, *[small] * 3])
    monkeypatch.setattr(Nodes, "amounts", [{"CPU": 8.0, "GPU": 1.0, "memory": 1e9}])
    assert len(nodes.addable_nodes) == 1  # one of two is there
    groups[0].max_count = -1  # no maximum
    assert nodes.may_hold([small] * 50) and not nodes.may_hold([large])
    monkeypatch.setattr("ray._private.state.state.get_cluster_config", lambda: None)
    assert all(nodes.may_hold([size]) for size in sizes)  # without an autoscaler any node may join


@pytest.mark.slow
def test_a_model_placed_on_a_node_that_is_gone_unnoticed_is_placed_elsewhere(
    bench, server, cluster, ray, monkeypatch
):
    """It falls silent between the place on it and the actor there; Ray notices later."""
    from ray.util import placement_group_table

    lost, start = [], RayModel._start

    def started(model):
        if not lost:
            [node_id] = placement_group_table(model._place)["bundles_to_node_id"].values()
            [node] = [node for node in cluster.worker_nodes if node.node_id == node_id]
            lost.append(node.all_processes["raylet"][0].process.pid)
            os.kill(lost[0], signal.SIGSTOP)
        start(model)

    monkeypatch.setattr(RayModel, "_start", started)
    with_nodes(cluster, 2, 2)
    began = time.monotonic()
    try:
        content = ranked_on(cluster, bench, server, TWO)
    finally:
        os.kill(lost[0], signal.SIGCONT)
    assert {m: b["n_items"] for m, b in content["models"].items()} == {"m03": 50, "m09": 50}
    assert time.monotonic() - began < OPEN_SECONDS / 3


@pytest.mark.slow
def test_places_are_asked_for_at_once_as_far_as_an_autoscaler_states(
    bench, server, cluster, ray, monkeypatch
):
    """Of four models, two on the two nodes that may join, and the others take turns with them."""
    states = []

    def addable(nodes):
        return [{"CPU": 1.0}] * (2 - sum(node.get("CPU", 0.0) == 1.0 for node in nodes.amounts))

    def join():
        while not ray.is_initialized():
            time.sleep(0.05)
        from ray.util import placement_group_table

        end = time.monotonic() + 20.0
        while states[-3:] != [2, 2, 2] and time.monotonic() < end:
            places = placement_group_table().values()
            states.append(sum(place["state"] == "PENDING" for place in places))
            time.sleep(0.2)
        with mock.patch("signal.signal"):
            with_nodes(cluster, 1, 1)
        while ray.is_initialized():  # nodes end with the thread that began them
            time.sleep(0.1)

    monkeypatch.setattr(Nodes, "addable_nodes", property(addable))
    threading.Thread(target=join, daemon=True).start()
    content = ranked_on(cluster, bench, server, FOUR)
    assert max(states) == 2
    assert facts(content) == local(bench, server, FOUR)


def test_a_node_that_is_gone_has_nothing_to_give(monkeypatch, ray):
    from lm_eval_ccat.live.ray import Nodes

    nodes = [{"Alive": there, "Resources": {"CPU": n}} for there, n in ((True, 2.0), (False, 9.0))]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    assert Nodes().amounts == [{"CPU": 2.0}]


def test_a_model_that_is_lost_too_often_while_it_answers_is_given_up(monkeypatch, ray):
    def lose(*_: Any) -> None:
        raise ray.exceptions.RayError("the node died")

    monkeypatch.setattr(ray, "get", lose)
    monkeypatch.setattr(ray, "kill", lambda actor: None)
    entry = SimpleNamespace(name="m", cpus=0.0, num_gpus=0.0)
    model = object.__new__(RayModel)
    vars(model).update(entry=entry, name="m", bundle={}, _lock=threading.Lock(), _losses=0)
    vars(model).update(_place=None, _opening=None)
    for _ in range(LOSSES + 1):
        model._actor = SimpleNamespace(ask=SimpleNamespace(remote=lambda items: None))
        with pytest.raises(PlaceLost):
            model.ask([1])
    with pytest.raises(ModelGone, match=f"lost {LOSSES + 1} times"):
        model.ask([1])


def test_a_model_behind_a_server_reserves_no_cpu():
    from lm_eval_ccat.live.spec import Spec

    kinds = ("hf", "vllm", "local-completions", "openai-chat-completions")
    entries = [{"name": kind, "model": kind} for kind in kinds]
    found = Spec.read({"task": "t", "models": entries}).models
    assert [model.cpus for model in found] == [1.0, 1.0, 0.0, 0.0]


def test_without_an_address_that_answers_the_error_is_one_line(bench, server, ccat, ray):
    ray.shutdown()
    config = bench.config(server.url, TWO)
    err = ccat("rank", config, "--executor", "ray:not an address", code=2).err
    error = [line for line in err.splitlines() if line.startswith("lm-eval-ccat: error")]
    assert len(error) == 1 and "cannot connect to Ray" in error[0]
    assert not server.asked


def test_a_small_model_leaves_the_large_node_to_the_model_that_needs_it(monkeypatch):
    for amounts, fits in (([4, 2], True), ([2, 4], True), ([4, 1], False)):
        monkeypatch.setattr(Nodes, "amounts", [{"CPU": float(n)} for n in amounts])
        assert Nodes().hold([{"CPU": 2.0}, {"CPU": 4.0}]) is fits
