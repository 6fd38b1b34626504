"""Work as tasks of a Ray cluster gives what it gives here."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable, simulate
from lm_eval_ccat.cluster import as_ray_tasks, executing
from lm_eval_ccat.errors import ScoreTableError, UsageError
from lm_eval_ccat.parallel import in_processes


def scaled(piece, factor):
    if piece == 17:
        raise ScoreTableError("piece 17 is broken")
    return piece * factor, os.getpid()


def inner(piece, _):
    return list(in_processes(scaled, [1, 2], piece, processes=2)), os.getpid()


def test_an_executor_that_cannot_be_is_refused():
    with pytest.raises(UsageError, match="neither 'local', 'ray' nor"), executing("moon"):
        pass


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU, and a head that takes no work."""
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not find tests
    ray.shutdown()
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes.add_node(num_cpus=1)
    nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    yield nodes.address
    ray.shutdown()
    nodes.shutdown()


@pytest.mark.slow
def test_tasks_come_in_order_from_other_processes_and_fail_as_here(cluster):
    with executing(f"ray:{cluster}"):
        values, pids = zip(*in_processes(scaled, range(16), 3))
        assert values == tuple(range(0, 48, 3)) and os.getpid() not in pids
        [(within, pid), _] = in_processes(inner, [5, 6])
        assert [value for value, _ in within] == [5, 10] and {p for _, p in within} == {pid}
        with pytest.raises(ScoreTableError, match="piece 17 is broken"):
            list(in_processes(scaled, range(20), 1))
        assert [value for value, _ in as_ray_tasks(scaled, [1, 2], 1)] == [1, 2]


@pytest.mark.slow
def test_folds_replayed_on_two_nodes_are_those_replayed_here(cluster):
    logit = np.linspace(-1, 1, 12)[:, None] + np.random.default_rng(3).normal(size=(12, 60))
    table = ScoreTable.from_arrays(1 / (1 + np.exp(-logit)), [f"m{j}" for j in range(12)])
    replay = {"methods": ["paper", "common"], "folds": 4, "items_per_model": 8}
    here = simulate(table, processes=1, **replay)
    with executing(f"ray:{cluster}"):
        far = simulate(table, **replay)
    both = [[{**run, "seconds": 0} for run in each.runs] for each in (here, far)]
    assert len(here.runs) == 8 and both[0] == both[1]
