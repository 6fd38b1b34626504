"""Work in processes or as tasks of a Ray cluster: order, shared data, errors, no nesting."""

from __future__ import annotations

import os
import sys

import pytest

from lm_eval_ccat import cluster, simulate
from lm_eval_ccat.cluster import executing, in_processes
from lm_eval_ccat.errors import ScoreTableError, UsageError
from lm_eval_ccat.testing.methods import example_table


def scaled(piece, factor):
    if piece == 17:
        raise ScoreTableError("piece 17 is broken")
    return piece * factor, os.getpid()


def nested(piece, _):
    return [pid for _, pid in in_processes(scaled, [1, 2], 1, processes=2)], os.getpid()


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_pieces_and_errors_as_they_are(processes):
    results = in_processes(scaled, range(20), 3, processes)
    values, pids = zip(*(next(results) for _ in range(17)))
    assert values == tuple(range(0, 51, 3))
    assert (os.getpid() in pids) == (processes == 1)
    with pytest.raises(ScoreTableError, match="piece 17 is broken"):
        next(results)


@pytest.mark.long
def test_a_worker_starts_no_workers_and_leaving_early_ends_it():
    results = in_processes(nested, list(range(50)), processes=2)
    for _ in range(3):
        pids, outer = next(results)
        assert set(pids) == {outer}
    results.close()  # hangs or leaves processes behind if the pool is not shut down


def test_pieces_go_to_the_cluster_unless_they_are_near_and_another_executor_is_refused(monkeypatch):
    def elsewhere(work, pieces, shared):
        return (("elsewhere", work(piece, shared)) for piece in pieces)

    monkeypatch.setattr(cluster, "_as_ray_tasks", elsewhere)
    monkeypatch.setattr(cluster, "connect", lambda address: None)
    with executing("ray"):
        assert list(in_processes(pow, [2, 3], 2)) == [("elsewhere", 4), ("elsewhere", 9)]
        assert list(in_processes(pow, [2, 3], 2, processes=1, local=True)) == [4, 9]
    assert list(in_processes(pow, [2, 3], 2, processes=1)) == [4, 9]
    with pytest.raises(UsageError, match="neither 'local', 'ray' nor"), executing("moon"):
        pass


@pytest.fixture(scope="module")
def nodes():
    """Two nodes of one CPU, and a head that takes no work."""
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not find tests
    ray.shutdown()
    head = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    head.add_node(num_cpus=1)
    head.add_node(num_cpus=1)
    head.wait_for_nodes()
    yield head.address
    ray.shutdown()
    head.shutdown()


@pytest.mark.slow
def test_tasks_of_a_cluster_come_in_order_and_give_what_they_give_here(nodes):
    table = example_table(12, 60)
    replay = {"methods": ["paper", "common"], "folds": 4, "items_per_model": 8}
    here = simulate(table, processes=1, **replay)
    with executing(f"ray:{nodes}"):
        values, pids = zip(*in_processes(scaled, range(16), 3))
        assert values == tuple(range(0, 48, 3)) and os.getpid() not in pids
        for inner, pid in in_processes(nested, [5, 6]):
            assert set(inner) == {pid} != {os.getpid()}
        with pytest.raises(ScoreTableError, match="piece 17 is broken"):
            list(in_processes(scaled, range(20), 1))
        far = simulate(table, **replay)
    both = [[{**run, "seconds": 0} for run in each.runs] for each in (here, far)]
    assert len(here.runs) == 8 and both[0] == both[1]


def test_a_task_of_one_processor_has_one_thread(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    for name in ("_inside_worker", "_shared_here"):
        monkeypatch.setattr(cluster, name, getattr(cluster, name))
    assert cluster._work_alone(lambda *_: os.environ["OMP_NUM_THREADS"], 0, None) == "1"
