"""Placing one model on a board of thousands from the command line, beside stock's start-up.

Each command runs in a process of its own, against a loopback server, in turn; the fastest of
``--repeats`` runs counts. Stock ``lm_eval`` runs the first 20 documents of the same task on the
same model: what it takes is the harness's own start-up, imports and tasks, which the other shares.
Stock indexes all its tasks where a folder of one's own is named; `imports` is what no command of
the harness can spare: its evaluator, with `datasets`.

    python benchmarks/placing.py [--models 3800] [--items 1300] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from loopback import running

from lm_eval_ccat import ScoreTable, calibrate

TASK = """
task: placed
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{source}}}}"
doc_to_target: "{{{{target}}}}"
generation_kwargs: {{until: ["\\n"]}}
metric_list: [{{metric: exact_match}}]
metadata: {{version: 1.0}}
"""


def prepare(folder: Path, models: int, items: int, calibrators: int) -> None:
    """A task, the full results of many models on it, and a bank of some of them."""
    rng = np.random.default_rng(0)
    logit = rng.normal(size=(models, 1)) + rng.normal(size=(1, items))
    raw = (rng.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(float)
    names = [f"organisation/model-{j}" for j in range(models)]
    table = ScoreTable.from_arrays(raw, names, metric="exact_match", task="placed")
    table.write(folder / "known.parquet")
    calibrate(table.select(names[:calibrators])).save(folder / "bank.json")
    rows = [
        {"source": f"question {i}", "target": f"question {i}" if i % 2 else "no"}
        for i in range(items)
    ]
    data = folder / "placed.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "placed.yaml").write_text(TASK.format(data=data))
    (folder / "outputs.json").write_text("{}")


def commands(folder: Path, url: str) -> dict[str, list[str]]:
    """Command lines by what they do."""
    arguments = f"model=new,base_url={url},tokenizer_backend=none,num_concurrent=8"
    common = ["--model", "local-completions", "--model_args", arguments, "--tasks", "placed"]
    common += ["--include_path", str(folder)]
    placing = ["--adaptive", "--bank", str(folder / "bank.json"), "--max_items", "20"]
    placing += ["--leaderboard", str(folder / "known.parquet")]
    ours = [sys.executable, "-m", "lm_eval_ccat.cli.main", "run", *common, *placing]
    stock = [sys.executable, "-m", "lm_eval", "run", *common, "--limit", "20"]
    saved = ["--output_path", str(folder / "out"), "--log_samples"]
    return {
        "imports": [sys.executable, "-c", "import lm_eval.evaluator"],
        "placing": ours,
        "placing, with --output_path": ours + saved,
        "stock --limit 20": stock,
        "stock --limit 20, with --output_path": stock + saved,
    }


def measured(command: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of processor time and peak memory in MB of one command."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = child.stdout.read() if child.stdout else ""
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"{' '.join(command)}\n{output[-2000:]}")
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=3800)
    parser.add_argument("--items", type=int, default=1300)
    parser.add_argument("--calibrators", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", action="append", help="one of the rows")
    args = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Elsewhere: a child's peak memory is never below what its parent has when it is made.
        making = multiprocessing.Process(
            target=prepare, args=(folder, args.models, args.items, args.calibrators)
        )
        making.start()
        making.join()
        with running(folder / "outputs.json", 0.0) as url:
            rows = commands(folder, url)
            rows = {k: v for k, v in rows.items() if args.only is None or k in args.only}
            best: dict[str, tuple[float, ...]] = {}
            for _ in range(args.repeats):
                for row, command in rows.items():
                    found = measured(command)
                    best[row] = tuple(map(min, found, best.get(row, found)))
    print(f"{args.models:,} models x {args.items:,} items, 20 asked, {os.cpu_count()} cores")
    print(f"{'':38} {'seconds':>8} {'CPU s':>7} {'peak MB':>8}")
    for row, found in best.items():
        print(f"{row:38} {found[0]:8.2f} {found[1]:7.2f} {found[2]:8.0f}")


if __name__ == "__main__":
    main()
