"""Calibrating many tasks on two local Ray nodes beside one process, and whether banks are the same.

    python benchmarks/cluster.py [--tasks 8] [--models 300] [--items 1000]

Both nodes are on this machine, with one CPU each: twice the rate of one process is the most there
can be, and what Ray itself takes shows in what is missing to it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import ray
from ray.cluster_utils import Cluster

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cluster import executing
from lm_eval_ccat.upkeep.build import build


def write(path: Path, tasks: int, models: int, items: int) -> None:
    """One table of several tasks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    parts = []
    for n in range(tasks):
        logit = rng.normal(size=(models, 1)) + rng.normal(size=(1, items))
        raw = (rng.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(float)
        names = [f"m{j}" for j in range(models)]
        one = ScoreTable.from_arrays(raw, names, metric="acc", task=f"task{n}")
        one.write(path.with_name("one.parquet"))
        parts.append(pq.read_table(path.with_name("one.parquet")))
    pq.write_table(pa.concat_tables(parts), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--items", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "scores.parquet"
        write(path, args.tasks, args.models, args.items)
        start = time.perf_counter()
        here = build(path)
        alone = time.perf_counter() - start
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        try:
            with executing("ray", cluster.address):
                build(path, tasks=["task0", "task1"])  # the workers import what they need
                start = time.perf_counter()
                far = build(path)
                spread = time.perf_counter() - start
        finally:
            ray.shutdown()
            cluster.shutdown()
    same = all(
        np.array_equal(one.parameters[name], far[task][outcome].parameters[name])
        for task, outcome, one in here.banks()
        for name in one.parameters
    )
    print(
        f"{args.tasks} tasks of {args.models} models x {args.items} items, {os.cpu_count()} cores"
    )
    print(f"one process {alone:.1f} s, two nodes of one CPU {spread:.1f} s: {alone / spread:.2f} x")
    print("the same banks" if same else "THE BANKS DIFFER")


if __name__ == "__main__":
    main()
