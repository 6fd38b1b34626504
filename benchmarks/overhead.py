"""What an adaptive run costs beyond the harness's own, when it runs every document all the same.

Both run the same task on the same model, in turn, several times; the ratio of the fastest runs is
printed, in wall time and in processor time, which a busy machine disturbs less. The model answers
at once but for a little wait for each answer, as a small and fast model would need; with
``--milliseconds 0`` only the harness's own work is left to compare with.

    python benchmarks/overhead.py [--documents 500] [--milliseconds 10] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ["TQDM_DISABLE"] = "1"

import numpy as np
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from lm_eval_ccat import ScoreTable, adaptive_evaluate, calibrate, simple_evaluate
from lm_eval_ccat.metrics import known_scale

TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
num_fewshot: 3
fewshot_config: {{split: test}}
doc_to_text: "{{{{source}}}} ->"
metadata: {{version: 1.0}}
"""
KINDS = {
    "generate_until": "doc_to_target: '{{target}}'\nmetric_list: [{metric: bleu}, {metric: chrf}]\n"
    "generation_kwargs: {until: ['\\n']}\n",
    "multiple_choice": "doc_to_target: 0\ndoc_to_choice: '{{options}}'\n"
    "metric_list: [{metric: acc}, {metric: acc_norm}]\n",
}
METRIC = {"generate_until": "bleu", "multiple_choice": "acc"}


class Slow(LM):
    """Answers with the prompt's own words, after a wait for each request."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def _answer(self, requests, make):
        if self.seconds:
            time.sleep(self.seconds * len(requests))
        return [make(request.args) for request in requests]

    def generate_until(self, requests):
        return self._answer(requests, lambda args: args[0][-70:-3])

    def loglikelihood(self, requests):
        return self._answer(requests, lambda args: (-float(len(args[1]) % 7), False))

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError


def write_task(folder: Path, kind: str, n: int) -> None:
    draw = random.Random(0)
    vocabulary = [f"{a}{b}{c}" for a in "bdfgklm" for b in "aeiou" for c in "nrst"]
    lines = []
    for _ in range(n):
        words = draw.choices(vocabulary, k=30)
        target = " ".join(draw.choices(vocabulary, k=20))
        options = [" ".join(draw.choices(vocabulary, k=4)) for _ in range(4)]
        lines.append(json.dumps({"source": " ".join(words), "target": target, "options": options}))
    data = folder / f"{kind}.jsonl"
    data.write_text("\n".join(lines) + "\n")
    (folder / f"{kind}.yaml").write_text(TASK.format(name=kind, data=data, kind=kind) + KINDS[kind])


def make_bank(kind: str, n: int, method: str):
    metric = METRIC[kind]
    rng = np.random.default_rng(1)
    logit = rng.normal(size=n) + np.linspace(-2, 2, 8)[:, None] + 0.5 * rng.normal(size=(8, n))
    unit = 1 / (1 + np.exp(-logit))
    if kind == "multiple_choice":
        unit = rng.random((8, n)) < unit
    scale = known_scale(metric)
    raw = np.asarray(scale.restore(unit.astype(float)))
    table = ScoreTable.from_arrays(
        raw, [f"m{i}" for i in range(8)], scale=scale, metric=metric, task=kind
    )
    return calibrate(table, method=method)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--milliseconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--method", default="default")
    parser.add_argument("--adaptive_batch_size", type=int, default=16)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in KINDS:
            write_task(folder, kind, args.documents)
        manager = TaskManager(include_path=str(folder), include_defaults=False)
        for kind in KINDS:
            bank = make_bank(kind, args.documents, args.method)
            common = {"tasks": [kind], "task_manager": manager, "bootstrap_iters": 0}

            def stock(common=common):
                return simple_evaluate(Slow(args.milliseconds / 1000), **common)

            def adaptive(common=common, bank=bank):
                return adaptive_evaluate(
                    Slow(args.milliseconds / 1000),
                    bank=bank,
                    max_items=args.documents,
                    adaptive_batch_size=args.adaptive_batch_size,
                    **common,
                )

            times = {stock: [], adaptive: []}
            results = {}
            for _ in range(args.repeats):
                for way in times:
                    started = time.perf_counter(), time.process_time()
                    results[way] = way()
                    wall, work = time.perf_counter() - started[0], time.process_time() - started[1]
                    times[way].append((wall, work))
            for key, value in results[stock]["results"][kind].items():
                assert results[adaptive]["results"][kind][key] == value, key
            best = {way: tuple(map(min, zip(*taken))) for way, taken in times.items()}
            ratios = [ours / theirs for ours, theirs in zip(best[adaptive], best[stock])]
            print(
                f"{kind:<16} {args.documents} documents, {args.milliseconds:g} ms a request: "
                f"stock {best[stock][0]:.2f} s, adaptive {best[adaptive][0]:.2f} s, "
                f"ratio {ratios[0]:.3f} (processor time alone {ratios[1]:.3f}, "
                f"{1000 * (best[adaptive][1] - best[stock][1]) / args.documents:.2f} ms a document)"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
