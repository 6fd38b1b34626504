"""When a verdict over local models comes, beside full runs of them, and how often each is loaded.

Models of random weights answer 1,000 multiple-choice documents, so they are about as good as one
another; for the ranking of models apart, the right choice of most documents is what the first one
prefers. Their memory lets only one be loaded at a time. Printed: seconds of the harness's own full
runs of all models without the search for tasks, seconds until the result, their ratio, answers
used, those asked beside them (the window is to keep this below 1.5), and loads.

    python benchmarks/turns.py [--models 2,4,8] [--items 1000] [--batch 8] [--max_items 200]

With `--places 2`, each ranking also as actors of a Ray cluster on this machine, on which so many
models fit at a time (line `ray`, without loads, which happen elsewhere); its start is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")
os.environ.update(TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from worlds.weights import tiny_model

from lm_eval_ccat import rank
from lm_eval_ccat.live.models import HarnessModel

TASK = """\
task: preferences
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}, cache_dir: {cache}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{text}}}}"
doc_to_choice: "{{{{options}}}}"
doc_to_target: "{{{{gold}}}}"
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0}}
"""
#: Of the documents of models apart, how many are right by what the first model prefers.
APART = 0.7


def write_task(folder: Path, gold: list[int], seed: int = 0) -> None:
    """Write a task of as many documents, with these right choices."""
    folder.mkdir(exist_ok=True)
    rng, data = np.random.default_rng(seed), folder / "docs.jsonl"
    with data.open("w") as stream:
        for right in gold:
            words = rng.integers(10, 99, 12).tolist()
            text, options = " ".join(map(str, words[:8])), [str(word) for word in words[8:]]
            stream.write(json.dumps({"text": text, "options": options, "gold": right}) + "\n")
    cache = json.dumps(str(folder / "cache"))
    (folder / "preferences.yaml").write_text(TASK.format(data=json.dumps(str(data)), cache=cache))


def connect_to(places: int) -> None:
    """Start a Ray cluster on this machine that holds so many models at a time."""
    import ray

    ray.init(num_cpus=places, include_dashboard=False, log_to_driver=False)


def full_run(pretrained: str, folder: Path, batch: int) -> tuple[float, list[int]]:
    """Run all documents by the harness itself; return seconds, and the preferred choices."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    # The harness looks through all its tasks for each run, which is no time of a model.
    tasks = TaskManager(include_path=str(folder))
    began = time.perf_counter()
    found: Any = lm_eval.simple_evaluate(
        "hf", model_args=f"pretrained={pretrained},dtype=float32", batch_size=batch, device="cpu",
        tasks=["preferences"], task_manager=tasks,
        bootstrap_iters=0, verbosity="ERROR",
    )  # fmt: skip
    samples = sorted(found["samples"]["preferences"], key=lambda sample: sample["doc_id"])
    likes = [[float(answer[0]) for answer in sample["filtered_resps"]] for sample in samples]
    return time.perf_counter() - began, [int(np.argmax(row)) for row in likes]


def main() -> None:
    """Print a line for each number of models, close and apart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="2,4,8", help="numbers of models (default: 2,4,8)")
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--max_items", type=int, help="the most of a model (default: no limit)")
    parser.add_argument("--places", type=int, help="models that fit a Ray cluster (default: none)")
    args = parser.parse_args()
    executors = ["local"]
    if args.places:
        connect_to(args.places)
        executors.append("ray")
    counts = [int(n) for n in args.models.split(",")]
    loads: list[str] = []
    genuine = HarnessModel.open

    def opened(model: HarnessModel) -> None:
        loads.append(model.name)
        genuine(model)

    HarnessModel.open = opened  # type: ignore[method-assign]
    print(
        f"{'models':>6} {'':<8}{'full runs':>10}{'result':>9}{'ratio':>7}{'used':>16}"
        f"{'asked/used':>12}{'loads':>7}"
    )
    with tempfile.TemporaryDirectory() as place:
        root, rng = Path(place), np.random.default_rng(1)
        weights = [tiny_model(root / f"m{n}", seed=n) for n in range(max(counts))]
        at_random = rng.integers(0, 4, args.items)
        write_task(root / "close", at_random.tolist())
        runs = [full_run(weight, root / "close", args.batch) for weight in weights]
        preferred = np.where(rng.random(args.items) < APART, runs[0][1], at_random)
        write_task(root / "apart", preferred.tolist())
        for n in counts:
            for kind in ("close", "apart"):
                models = [
                    {
                        "name": f"m{j}", "model": "hf", "device": "cpu", "memory": 1,
                        "batch_size": args.batch,
                        "model_args": {"pretrained": weights[j], "dtype": "float32"},
                    }
                    for j in range(n)
                ]  # fmt: skip
                for executor in executors:
                    loads.clear()
                    began = time.perf_counter()
                    result = rank(
                        task="preferences", models=models, memory=1,
                        harness={"include_path": str(root / kind)}, max_items=args.max_items,
                        executor=executor,
                    )  # fmt: skip
                    seconds, full = time.perf_counter() - began, sum(run[0] for run in runs[:n])
                    n_used = result.content["items_administered"]
                    used = f"{n_used:,} of {n * args.items:,}"
                    asked = result.content["asked"] / n_used
                    label = kind if executor == "local" else executor
                    print(
                        f"{n:>6} {label:<8}{full:>9.1f}s{seconds:>8.1f}s{seconds / full:>7.2f}"
                        f"{used:>16}{asked:>12.2f}{len(loads):>7}  "
                        f"{result.content['ranking']}", flush=True,
                    )  # fmt: skip


if __name__ == "__main__":
    main()
