"""Time from the start of an evaluation to its first request, on a task of many documents.

Stock ``lm_eval`` and an adaptive run, each in a process of its own, in turn; the fastest of
``--repeats`` runs counts, by the clock and by processor time. Imports are done before; loading the
documents, building requests, comparing them with the bank and choosing the first are in it.

    python benchmarks/first_request.py [--documents 50000] [--fewshot 0] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "HF_DATASETS_OFFLINE": "1", "TQDM_DISABLE": "1"}

TASK = """
task: many
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
num_fewshot: {fewshot}
fewshot_config: {{split: test}}
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"]}}
metric_list: [{{metric: exact_match}}]
metadata: {{version: 1.0}}
"""


def prepare(folder: Path, documents: int, fewshot: int, method: str) -> None:
    """The task, and a bank of it that knows its documents by their hashes."""
    import numpy as np
    from lm_eval.utils import handle_non_serializable, hash_string

    from lm_eval_ccat import ScoreTable, calibrate

    rng = np.random.default_rng(0)
    words = [f"{a}{b}{c}" for a in "bdfgklm" for b in "aeiou" for c in "nrst"]
    rows = [
        {"question": " ".join(rng.choice(words, 25)), "answer": str(i)} for i in range(documents)
    ]
    data = folder / "many.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "many.yaml").write_text(TASK.format(data=data, fewshot=fewshot))
    dumped = (
        json.dumps(row, indent=2, default=handle_non_serializable, ensure_ascii=False)
        for row in rows
    )
    logit = rng.normal(size=(16, 1)) + rng.normal(size=documents)
    table = ScoreTable.from_arrays(
        (rng.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(float),
        [f"m{j}" for j in range(16)],
        metric="exact_match",
        task="many",
        doc_hashes=[hash_string(text) for text in dumped],
    )
    calibrate(table, method).save(folder / "bank.json")


def first(way: str, folder: Path) -> None:
    """Evaluate until the first request; print the seconds, and those of processor time."""
    logging.disable(logging.WARNING)
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    from lm_eval_ccat.live import adaptive_evaluate, simple_evaluate

    class Asked(BaseException):
        pass

    class Model(LM):
        def generate_until(self, requests, disable_tqdm=False):
            raise Asked

        loglikelihood = loglikelihood_rolling = generate_until

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    start = time.perf_counter(), time.process_time()
    common = {"tasks": ["many"], "task_manager": manager, "bootstrap_iters": 0}
    try:
        if way == "stock":
            simple_evaluate(Model(), **common)
        else:
            adaptive_evaluate(Model(), bank=folder / "bank.json", max_items=20, **common)
    except Asked:
        print(time.perf_counter() - start[0], time.process_time() - start[1], flush=True)
        os._exit(0)
    raise SystemExit("no request was made")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--fewshot", type=int, default=0)
    parser.add_argument("--method", default="default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        first(args.child[0], Path(args.child[1]))
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), args.documents, args.fewshot, args.method)
        best: dict[str, list[float]] = {}
        for _ in range(args.repeats):
            for way in ("stock", "adaptive"):
                command = [sys.executable, __file__, "--child", way, name]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(done.stderr)
                found = [float(x) for x in done.stdout.split()[-2:]]
                best[way] = list(map(min, found, best.get(way, found)))
    print(f"first request of {args.documents:,} documents, {args.fewshot}-shot, {args.method}")
    for way, (seconds, work) in best.items():
        print(f"{way:10} {seconds:7.2f} s, {work:6.2f} s of processor time")
    ratios = [ours / theirs for ours, theirs in zip(best["adaptive"], best["stock"])]
    print(f"ratio {ratios[0]:.2f}, by processor time {ratios[1]:.2f}")


if __name__ == "__main__":
    main()
