"""What `plan` says a ranking takes, beside what rankings of real models then took.

Models of real score tables are held out four at a time; the others make the bank. A server on
this machine says each held-out model's score of a document as text, so answers, tokens and the
bill are those of a whole run. Printed for each table: the forecast's mean and points and the mean
of the runs in dollars, and over all tables how often a run lay within a factor of two of the mean,
and within (and within a factor of two of) the 10 and 90% points; and how often a ranking that the
plan played lay within a factor of two of the mean of its others, which no plan can exceed by much.

    python benchmarks/forecast.py [--folds 6] [--only wmt24_en-de] [--methods default,sample]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

os.environ.update(OMP_NUM_THREADS="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import loopback
import yaml
from numpy.typing import NDArray
from quality_data import DATASETS, load

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.live import rehearsal
from lm_eval_ccat.live.ranking_run import dry_run, rank

#: Of words of three letters, which are tokens of the server and of the estimate alike.
PROMPT = "say one for {id}"
TASK = """\
task: scores
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}, cache_dir: {cache}}}
test_split: test
output_type: generate_until
doc_to_text: "say one for {{{{id}}}}"
doc_to_target: typical
process_results: !function scoring.process_results
generation_kwargs: {{until: ["\\n"], max_gen_toks: 16}}
metric_list: [{{metric: share, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0, ccat_scales: {{share: {{range: [0, 1]}}}}}}
"""
#: Models ranked at once, and most items of a table.
HELD_OUT, ITEMS = 4, 2000


def said(score: float) -> str:
    """What a model with this score says."""
    digits = f"{score:.7f}"
    return f"{digits[:3]} {digits[3:6]} {digits[6:]}"


def write_task(folder: Path, table: ScoreTable) -> None:
    """Write the task whose answers are scores."""
    data = folder / "docs.jsonl"
    lines = [{"id": f"{n:03d}", "typical": said(0.5)} for n in range(table.n_items)]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = TASK.format(data=json.dumps(str(data)), cache=json.dumps(str(folder / "cache")))
    (folder / "scores.yaml").write_text(task)
    (folder / "scoring.py").write_text(
        "def process_results(doc, results):\n"
        "    return {'share': float(results[0].replace(' ', ''))}\n"
    )


def compare(table: ScoreTable, args: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Forecast and run rankings of a table's models."""
    write_task(folder, table)
    rows, names = table.model_scores(), list(table.models)
    outputs = {
        model: {PROMPT.format(id=f"{n:03d}"): said(score) for n, score in enumerate(row)}
        for model, row in zip(names, rows)
    }
    (folder / "outputs.json").write_text(json.dumps(outputs))
    found, played = [], list[Sequence[float]]()
    spread = rehearsal._spread
    rehearsal._spread = lambda values: played.append(values) or spread(values)
    rng = np.random.default_rng(0)
    with loopback.running(folder / "outputs.json", 0.005) as url:
        for fold in range(args.folds):
            held = [names[j] for j in rng.permutation(len(names))[:HELD_OUT]]
            calibration = ScoreTable.from_arrays(
                [row for name, row in zip(names, rows) if name not in held],
                [name for name in names if name not in held],
                metric="share",
            )
            calibrate(calibration).save(folder / "bank.json")
            prices = np.exp(rng.uniform(np.log(0.1), np.log(3.0), HELD_OUT)).round(3).tolist()
            arguments = {"base_url": url, "tokenizer_backend": "none"}
            config = {
                "task": "scores", "bank": str(folder / "bank.json"),
                "harness": {"include_path": str(folder)},
                "models": [
                    {"name": name, "model": "local-completions", "concurrency": 8,
                     "model_args": {"model": name, **arguments},
                     "price": {"input": price, "output": 4.0 * price}}
                    for name, price in zip(held, prices)
                ],
            }  # fmt: skip
            path = folder / f"fold{fold}.yaml"
            path.write_text(yaml.safe_dump(config))
            played.clear()
            forecast = dry_run(path)["rehearsal"]
            close = share_close(np.array(played[0]))  # of answers; the second are costs
            content = rank(path, run_dir=folder / f"fold{fold}.run").content
            found.append(
                {**forecast, "close": close, "usd": content["usd"], "asked": content["asked"]}
            )
    rehearsal._spread = spread
    return found


def share_close(values: NDArray[np.float64]) -> float:
    """Return the share of values within a factor of two of the mean of the others."""
    others = (values.sum() - values) / (len(values) - 1)
    return float(np.mean(abs(np.log2(values / others)) <= 1))


def main() -> None:
    """Print a line for each table, and the shares over all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, default=6)
    parser.add_argument("--only", help="tables whose name contains this")
    args = parser.parse_args()
    every: list[dict[str, Any]] = []
    print(f"{'':<44}{'forecast':>24}{'runs':>26}{'within x2':>10}")
    for dataset, metric in DATASETS:
        if args.only and args.only not in f"{dataset} {metric}":
            continue
        table, _ = load(dataset, metric)
        scores = table.model_scores()
        complete = np.isfinite(scores).all(axis=0)
        columns = np.flatnonzero(complete)[:ITEMS]
        table = ScoreTable.from_arrays(scores[:, columns], list(table.models), metric="share")
        with tempfile.TemporaryDirectory() as folder:
            found = compare(table, args, Path(folder))
        every += found
        asked = [run["asked"] for run in found]
        means = [run["answers"]["expected"] for run in found]
        ratio = np.array(asked) / np.array(means)
        low, high = (np.mean([run["answers"][end] for run in found]) for end in ("low", "high"))
        print(
            f"{dataset + ' ' + metric:<44}{np.mean(means):>8,.0f} ({low:,.0f} to {high:,.0f})"
            f"   {np.mean(asked):>8,.0f} ({min(asked):,} to {max(asked):,})"
            f"   {np.mean(abs(np.log2(ratio)) <= 1):.2f}", flush=True,
        )  # fmt: skip
    for what, value in (("answers", "asked"), ("cost", "usd")):
        runs = np.array([run[value] for run in every])
        expected, low, high = (
            np.array([run[what][part] for run in every]) for part in ("expected", "low", "high")
        )
        print(
            f"{what}: {len(runs)} runs; within a factor of two of the expected value "
            f"{np.mean(abs(np.log2(runs / expected)) <= 1):.2f}; between the points "
            f"{np.mean((low <= runs) & (runs <= high)):.2f}; within a factor of two of them "
            f"{np.mean((low / 2 <= runs) & (runs <= 2 * high)):.2f}; mean of runs over that of "
            f"forecasts {runs.mean() / expected.mean():.2f}"
        )
    close = np.mean([run["close"] for run in every])
    print(
        f"rankings that were played, within a factor of two of the mean of the others: {close:.2f}"
    )


if __name__ == "__main__":
    main()
