"""Time and peak memory of calibrations and decisions as items and models grow.

Each measurement runs in a process of its own, so that its peak memory is its own.

    python benchmarks/scale.py --quick                 # smaller sizes, a minute
    python benchmarks/scale.py --only calibrate        # calibration alone; some minutes

"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).resolve()
SHARED = Path(os.environ.get("CCAT_SHARED", HERE.parents[1].parent / "shared"))
REAL = SHARED / "data" / "scores" / "metabench_gsm8k_v1.parquet"

#: What is aimed at, by (measurement, largest size): seconds, or milliseconds per decision.
TARGETS = {
    "calibrate the real leaderboard": "5 s",
    "calibrate 5,000 x 20,000": "60 s, 2 GB",
    "calibrate 50 x 100,000": "20 s",
    "calibrate 20 x 10,000": "1 s",
    "decide at 100,000 items": "10 ms",
    "rank 100 models x 20,000 items": "20 s",
}


# -- what the measuring processes do --------------------------------------------------------------


def _scores(
    n_models: int, n_items: int, binary: bool = False, seed: int = 0, missing: float = 0.0
) -> Any:
    import numpy as np

    rng = np.random.default_rng(seed)
    ability, ease = rng.normal(size=(n_models, 1)) * 1.2, rng.normal(size=(1, n_items))
    scores = np.empty((n_models, n_items))
    for row, own in zip(scores, ability):  # nothing beside the scores themselves is to be measured
        row[:] = 1.0 / (1.0 + np.exp(-(own + ease[0] + 0.5 * rng.standard_normal(n_items))))
    if binary or missing:
        for row in scores:
            if binary:
                row[:] = rng.random(n_items) < row
            row[rng.random(n_items) < missing] = np.nan
    return scores


def _bank(n_items: int, method: str, n_models: int = 0) -> Any:
    """Return a bank, and the scores of further models on its items."""
    from lm_eval_ccat import ItemBank, ScoreTable, calibrate

    n = 12 if method == "paper" else 16
    scores = _scores(n + n_models, n_items)
    if method == "sample":
        return ItemBank.blank(range(n_items)), scores[n:]
    table = ScoreTable.from_arrays(scores[:n], [f"m{j}" for j in range(n)])
    return calibrate(table, method=method), scores[n:]


def calibrate_real(method: str) -> Callable[[], Any]:
    """From the Parquet file to a bank."""
    from lm_eval_ccat import ScoreTable, calibrate

    return lambda: calibrate(ScoreTable.read(REAL), method=method)


def calibrate_generated(
    method: str, models: int, items: int, binary: int = 0, missing: float = 0.0
) -> Callable:
    """From a matrix to a bank."""
    from lm_eval_ccat import ScoreTable, calibrate

    raw = _scores(models, items, bool(binary), missing=missing)
    names = [f"m{j}" for j in range(models)]
    _bank(50, method)  # what is imported on first use counts once, with the real leaderboard
    return lambda: calibrate(ScoreTable.from_arrays(raw, names), method=method)


def write_long(path: str, models: int, items: int) -> Callable[[], Any]:
    """A long Parquet file, a row per score, written model by model."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    def work() -> None:
        doc_ids = np.arange(items)
        writer = None
        for number, scores in enumerate(_scores(models, items)):
            columns = {
                "model": pa.array([f"m{number}"] * items).dictionary_encode(),
                "doc_id": doc_ids, "metric": pa.array(["acc"] * items).dictionary_encode(),
                "score": scores,
            }  # fmt: skip
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()

    return work


def calibrate_file(method: str, path: str) -> Callable[[], Any]:
    """From a long Parquet file to a bank."""
    from lm_eval_ccat import ScoreTable, calibrate

    _bank(50, method)
    return lambda: calibrate(ScoreTable.read(path, metric="acc"), method=method)


def fit_alone(models: int, items: int) -> Callable:
    """The curves of the method "default" without its self-check."""
    from lm_eval_ccat.methods.default.items import fit_items

    raw = _scores(models, items)
    fit_items(raw[:, :50])
    return lambda: fit_items(raw)


def rank(
    method: str, models: int, items: int, each: int, exposure: int = 1, stop: str = "limits"
) -> Callable[[], dict[str, float]]:
    """`each` items per model through the whole ask-and-tell loop."""
    import time

    from lm_eval_ccat import Ranker

    bank, scores = _bank(items, method, models)

    def work() -> dict[str, float]:
        ranker = Ranker(
            bank,
            {str(j): 1.0 for j in range(models)},
            budget=each * models,
            exposure=exposure,
            stop=stop,
        )
        n, slowest = 0, 0.0
        while not ranker.done:
            start = time.perf_counter()
            for model, item in ranker.ask():
                ranker.tell(model, item, float(scores[int(model), item]))
                n += 1
            slowest = max(slowest, time.perf_counter() - start)
        return {"decisions": n, "slowest_ms": 1e3 * slowest}

    return work


def end(models: int) -> Callable[[], Any]:
    """The result of a ranking of many models without a bank, written to a file."""
    from lm_eval_ccat import ItemBank, Ranker
    from lm_eval_ccat.ranker.headline import headline
    from lm_eval_ccat.runs.directory import RunDirectory

    scores = _scores(models, 10, binary=True)
    ranker = Ranker(ItemBank.blank(range(200)), [str(j) for j in range(models)], stop="limits")
    for model, item in ranker.ask(10 * models):
        ranker.tell(model, item, float(scores[int(model), item % 10]))

    def work() -> None:
        content = ranker.result().to_dict()
        with tempfile.TemporaryDirectory() as folder:
            words = {"headline": headline(content)}
            RunDirectory(folder).write_json("result.json", {**words, **content})

    return work


WORK = {
    work.__name__: work
    for work in (
        calibrate_real, calibrate_generated, write_long, calibrate_file, fit_alone, rank, end,
    )
}  # fmt: skip


def child(name: str, arguments: list[Any]) -> None:
    """Measure one piece of work and print JSON."""
    import resource
    import time

    work = WORK[name](*arguments)
    start, cpu = time.perf_counter(), time.process_time()
    more = work()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"seconds": seconds, "cpu": cpu, "peak_mb": peak}
    print(json.dumps({**found, **(more if isinstance(more, dict) and "decisions" in more else {})}))


# -- what is measured -----------------------------------------------------------------------------


def measure(name: str, *arguments: Any) -> dict[str, Any]:
    """One measurement in a process of its own; ``{"failed": reason}`` where it cannot run."""
    call = [sys.executable, str(HERE), "--child", name, json.dumps(arguments)]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def line(what: str, found: dict[str, Any]) -> None:
    """Print one row: time, of each decision where there are several, and peak memory."""
    if "failed" in found:
        print(f"{what:58} not run: {found['failed']}")
        return
    n = found.get("decisions")
    wall, cpu = (v * (1e3 / n if n else 1.0) for v in (found["seconds"], found["cpu"]))
    shown = f"{wall:8.2f} {cpu:8.2f} {'ms' if n else 's '}"
    slow = f"   slowest {found['slowest_ms']:.1f} ms" if "slowest_ms" in found else ""
    aim = next((f"   aim {t}" for k, t in TARGETS.items() if what.startswith(k)), "")
    print(f"{what:58} {shown}  {found['peak_mb']:7.0f} MB {aim}{slow}", flush=True)


def calibrations(method: str, quick: bool) -> None:
    """Measure calibration, of the leaderboard in the data and of generated tables."""
    if REAL.exists():
        line("calibrate the real leaderboard (5,041 x 249, 0/1)", measure("calibrate_real", method))
    else:
        print(f"calibrate the real leaderboard: not run, {REAL} is absent")
    small, long, big = (20, 10_000), (50, 100_000), (5000, 20_000)
    if quick:
        small, long, big = (20, 2000), (50, 10_000), (1000, 10_000)
    for size in (small, long, big):
        what = f"calibrate {size[0]:,} x {size[1]:,}"
        line(what, measure("calibrate_generated", method, *size))
    line(f"{what}, 0/1, a fifth missing", measure("calibrate_generated", method, *size, 1, 0.2))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "long.parquet"))
        measure("write_long", path, *size)
        what = f"calibrate {size[0]:,} x {size[1]:,}, a long Parquet file"
        line(what, measure("calibrate_file", method, path))
    if method == "default":
        line(f"  the curves alone of {small[0]:,} x {small[1]:,}", measure("fit_alone", *small))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--methods", default="default,paper")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--only", choices=["calibrate", "models"], help="this section alone")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], json.loads(args.child[1]))
        return
    quick = args.quick
    # Processor time is what a busy machine disturbs less.
    print(f"{'what':58} {'time':>8} {'cpu':>8}     {'peak':>7}")
    for n in () if args.only == "calibrate" else (250, 500, 1000):
        line(f"end a ranking of {n:,} models", measure("end", n))
        rankings = measure("rank", "sample", n, 1000, 15, 1, "decided")
        line(f"an answer of {n:,} models without a bank, 15 items each", rankings)
    for method in () if args.only == "models" else args.methods.split(","):
        print(f"\nmethod {method}")
        calibrations(method, quick)
        if args.only == "calibrate":
            continue
        few = 30 if method == "paper" else 20
        for n in (1000, 10_000, 100_000):
            line(f"decide at {n:,} items, 5 models", measure("rank", method, 5, n, few))
        line("decide at 10,000 items, exposure 5", measure("rank", method, 5, 10_000, few, 5))
        many = (20, 2000) if quick else (100, 20_000)
        found = measure("rank", method, *many, 20)
        line(f"rank {many[0]} models x {many[1]:,} items, 20 each", found)
        if "failed" not in found:
            print(f"{'':58} {found['seconds']:8.2f} {found['cpu']:8.2f} s  in all")


if __name__ == "__main__":
    main()
