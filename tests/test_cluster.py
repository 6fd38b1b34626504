"""Work as tasks of a Ray cluster gives what it gives here."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.cluster import as_ray_tasks, executing
from lm_eval_ccat.errors import ScoreTableError, UsageError
from lm_eval_ccat.parallel import in_processes, spreading


def scaled(piece, shared):
    return piece * shared["factor"], os.getpid()


def inner(piece, shared):
    return list(in_processes(scaled, [1, 2], {"factor": piece}, processes=2)), os.getpid()


def failing(piece, shared):
    if piece == 3:
        raise ScoreTableError("piece 3 is broken")
    return piece


def one_after_the_other(work, pieces, shared):
    for piece in pieces:
        yield "elsewhere", work(piece, shared)


def test_pieces_go_where_they_are_spread_unless_they_are_near():
    with spreading(one_after_the_other):
        assert list(in_processes(pow, [2, 3], 2)) == [("elsewhere", 4), ("elsewhere", 9)]
        assert list(in_processes(pow, [2, 3], 2, processes=1, near=True)) == [4, 9]
    assert list(in_processes(pow, [2, 3], 2, processes=1)) == [4, 9]


@pytest.mark.parametrize(
    "executor, address, words",
    [("moon", None, "neither 'local' nor 'ray'"), ("local", "a:1", "--ray_address means nothing")],
)
def test_an_executor_that_cannot_be_is_refused(executor, address, words):
    with pytest.raises(UsageError, match=words), executing(executor, address):
        pass


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU, and a head that takes no work."""
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not find tests
    ray.shutdown()
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    found.add_node(num_cpus=1)
    found.add_node(num_cpus=1)
    found.wait_for_nodes()
    yield found.address
    ray.shutdown()
    found.shutdown()


@pytest.mark.slow
def test_tasks_come_in_order_from_other_processes_and_fail_as_here(cluster):
    with executing("ray", cluster):
        found = list(in_processes(scaled, list(range(20)), {"factor": 3}))
        assert [value for value, _ in found] == list(range(0, 60, 3))
        assert os.getpid() not in {pid for _, pid in found}
        [(within, pid), _] = in_processes(inner, [5, 6])
        assert [value for value, _ in within] == [5, 10] and {p for _, p in within} == {pid}
        with pytest.raises(ScoreTableError, match="piece 3 is broken"):
            list(in_processes(failing, list(range(9))))
        assert list(as_ray_tasks(failing, [1, 2])) == [1, 2]


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Twelve models on three tasks of sixty items."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("scores")
    parts = []
    for task in ("a", "b", "c"):
        logit = np.linspace(-1, 1, 12)[:, None] + rng.normal(size=(12, 60))
        raw = 1 / (1 + np.exp(-logit))
        table = ScoreTable.from_arrays(raw, [f"m{j}" for j in range(12)], metric="f1", task=task)
        table.write(folder / "one.parquet")
        parts.append(pq.read_table(folder / "one.parquet"))
    pq.write_table(pa.concat_tables(parts), folder / "scores.parquet")
    return folder / "scores.parquet"


@pytest.mark.slow
def test_tasks_calibrated_on_two_nodes_are_those_calibrated_here(cluster, scores, tmp_path):
    common = ["calibrate", str(scores), "--task", "a,b,c", "--metric", "f1", "-o"]
    assert main([*common, str(tmp_path / "here")]) == 0
    far = ["--executor", "ray", "--ray_address", cluster]
    assert main([*common, str(tmp_path / "far"), *far]) == 0
    here, far = SuiteBank.load(tmp_path / "here"), SuiteBank.load(tmp_path / "far")
    assert set(here) == set(far) == {"a", "b", "c"}
    for task in here:
        [one], [other] = here[task].values(), far[task].values()
        assert one.parameters.keys() == other.parameters.keys()
        for name, values in one.parameters.items():
            np.testing.assert_allclose(values, other.parameters[name], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_folds_replayed_on_two_nodes_are_those_replayed_here(cluster, scores, tmp_path):
    common = ["simulate", "--scores", str(scores), "--task", "a", "--metric", "f1", "--folds", "4"]
    common += ["--methods", "paper,common", "--items_per_model", "8", "--json"]
    assert main([*common, str(tmp_path / "here.json"), "--processes", "1"]) == 0
    far = ["--executor", "ray", "--ray_address", cluster]
    assert main([*common, str(tmp_path / "far.json"), *far]) == 0
    runs = [json.loads((tmp_path / f"{n}.json").read_text())["runs"] for n in ("here", "far")]
    here, far = [[{k: v for k, v in r.items() if k != "seconds"} for r in one] for one in runs]
    assert len(here) == 8 and here == far
