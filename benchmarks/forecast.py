"""What `plan` says a ranking takes, beside what rankings of real models then took.

Models of real score tables are held out, at most eight at a time; the others make the bank. The
held-out models are ranked two, four and eight at once, each in one ranking of a size, in this
process and answering by their stored scores; `--served` ranks them also behind a server on this
machine, which says each score as text. Beside them stands what the plan expects of that many models
like the bank's. Printed by table and by number of models, of answers and of dollars: how often a
ranking took between half and twice the expected value, between the plan's 10 and 90% points, below
and above them, and between half the lower and twice the upper one; and how often a ranking that the
plan itself played lies so about the expected value of its others.

    python benchmarks/forecast.py [--folds 2] [--part choose] [--only wmt24_en-de] [--served]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

os.environ.update(OMP_NUM_THREADS="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import loopback
from quality_data import CHOOSE, CONFIRM, DATASETS, load

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.live import rehearsal
from lm_eval_ccat.live.forecast import powers
from lm_eval_ccat.live.outcomes import outcomes_of_banks
from lm_eval_ccat.live.plan import Plan, plan_of
from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.metrics.scale import Floats
from lm_eval_ccat.simulation.newcomers import Newcomers

#: Models ranked at once; models held out of a table that has twice as many, and of a smaller one.
SIZES, HELD_OUT, HELD_OUT_OF_FEW = (2, 4, 8), 8, 4
#: Items of each model in flight, and what the server says an item takes.
SLOTS, TOKENS = 8, {"input": 4.0, "output": 3.0}
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


@dataclass
class Case:
    """One ranking of held-out models, and the rankings that the plan played.

    Attributes
    ----------
    scores : str
        Name of the table.
    n_models : int
    took : dict
        ``answers`` and ``cost`` of the ranking.
    expects : dict
        For each of them ``expected``, ``low`` and ``high`` of the plan.
    played : dict
        For each of them what every ranking that the plan played took.
    served : int or None
        Answers that the same ranking took behind a server.
    """

    scores: str
    n_models: int
    took: dict[str, float]
    expects: dict[str, dict[str, float]]
    played: dict[str, list[float]]
    served: int | None = None


class StoredModels(Newcomers):
    """Held-out models in the place of a bank's newcomers: each in turn has its stored scores."""

    def __init__(self, rows: Floats) -> None:
        self._rows = iter(rows)

    def scores(self, rng: np.random.Generator) -> dict[str, Floats]:
        """Return the next model's scores, by `name_of` the outcome."""
        return {rehearsal.name_of("scores", "share"): next(self._rows)}


def cases_of(name: str, table: ScoreTable, args: argparse.Namespace) -> Iterator[Case]:
    """Plan and play rankings of a table's models."""
    rows, models = table.model_scores(), list(table.models)
    # Metrics of the same outputs would otherwise hold out the same models.
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    n_held_out = HELD_OUT if len(models) >= 2 * HELD_OUT else HELD_OUT_OF_FEW
    for _ in range(args.folds):
        order = rng.permutation(len(models))
        held_out, others = order[:n_held_out], order[n_held_out:]
        bank = calibrate(
            ScoreTable.from_arrays(rows[others], [models[j] for j in others], metric="share")
        )
        bank = replace(bank, task="scores", provenance={**bank.provenance, "tokens": TOKENS})
        prices = np.exp(rng.uniform(np.log(0.1), np.log(3.0), n_held_out)).round(3).tolist()
        for size in (size for size in args.sizes if size <= n_held_out):
            plan = plan_by(bank, prices[:size])
            slots = dict.fromkeys(plan.charges.forecasts, SLOTS)
            expects, played = planned(plan, slots)
            for first in range(0, n_held_out, size):
                ranked = held_out[first : first + size]
                took = played_to_end(plan, slots, rows[ranked])
                served = served_answers(bank, prices, rows[ranked]) if args.served else None
                yield Case(name, size, took, expects, played, served)


def spec_of(prices: Sequence[float], **more: Any) -> dict[str, Any]:
    """Return the configuration of a ranking of models with these prices."""
    models = [
        {"name": f"m{j}", "model": "local-completions", "concurrency": SLOTS,
         "price": {"input": price, "output": 4.0 * price}}
        for j, price in enumerate(prices)
    ]  # fmt: skip
    return {"task": "scores", "models": models, **more}


def plan_by(bank: ItemBank, prices: Sequence[float]) -> Plan:
    """Return the plan of a ranking by a bank, without a task or a server."""
    outcomes = outcomes_of_banks(bank, {}, "scores", only_task=True)
    return plan_of(Spec.read(spec_of(prices)), {"scores": outcomes}, {})


def amounts(played: rehearsal.Played) -> dict[str, float]:
    """Return what one ranking took, of answers and of dollars."""
    assert played.usd is not None
    return {"answers": sum(played.answers.values()), "cost": played.usd}


def planned(
    plan: Plan, slots: dict[str, int]
) -> tuple[dict[str, dict[str, float]], dict[str, list[float]]]:
    """Return what a plan expects, and what each ranking took that it played."""
    rankings, play = list[rehearsal.Played](), rehearsal._play
    bank = plan.outcome.bank
    newcomers = Newcomers({rehearsal.name_of("scores", "share"): bank})

    def play_and_record(*given: Any) -> rehearsal.Played:
        rankings.append(play(*given))
        return rankings[-1]

    rehearsal._play = play_and_record  # type: ignore[assignment]
    try:
        content = rehearsal.rehearse(
            plan, newcomers, slots, [bank.n_items] * len(slots), powers(plan)["bank"]
        )
    finally:
        rehearsal._play = play
    took = [amounts(ranking) for ranking in rankings]
    expects: dict[str, Any] = {"answers": content["answers"], "cost": content["cost"]}
    return expects, {kind: [amount[kind] for amount in took] for kind in expects}


def played_to_end(plan: Plan, slots: dict[str, int], rows: Floats) -> dict[str, float]:
    """Return what a ranking of models with these scores takes, however long it is."""
    limits = dict.fromkeys(slots, plan.outcome.bank.n_items)
    longest, rehearsal.MOST_ANSWERS = rehearsal.MOST_ANSWERS, sys.maxsize
    try:
        return amounts(rehearsal._play(plan, StoredModels(rows), slots, limits, 0, None))
    finally:
        rehearsal.MOST_ANSWERS = longest


def served_answers(bank: ItemBank, prices: Sequence[float], rows: Floats) -> int:
    """Return the answers of a run behind a server that says stored scores, to its end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [{"id": f"{n:03d}", "typical": said(0.5)} for n in range(bank.n_items)]
        data = folder / "docs.jsonl"
        data.write_text("".join(json.dumps(line) + "\n" for line in lines))
        task = TASK.format(data=json.dumps(str(data)), cache=json.dumps(str(folder / "cache")))
        (folder / "scores.yaml").write_text(task)
        (folder / "scoring.py").write_text(
            "def process_results(doc, results):\n"
            "    return {'share': float(results[0].replace(' ', ''))}\n"
        )
        bank.save(folder / "bank.json")
        outputs = {
            f"m{j}": {f"say one for {n:03d}": said(score) for n, score in enumerate(row)}
            for j, row in enumerate(rows)
        }
        (folder / "outputs.json").write_text(json.dumps(outputs))
        with loopback.running(folder / "outputs.json", 0.005) as url:
            config = spec_of(
                prices[: len(rows)], bank=str(folder / "bank.json"),
                harness={"include_path": str(folder)},
            )  # fmt: skip
            for entry in config["models"]:
                entry["model_args"] = {
                    "model": entry["name"], "base_url": url, "tokenizer_backend": "none"
                }  # fmt: skip
            return int(rank(config, run_dir=folder / "run").content["asked"])


def said(score: float) -> str:
    """What a model with this score says."""
    digits = f"{score:.7f}"
    return f"{digits[:3]} {digits[3:6]} {digits[6:]}"


def shares(cases: Sequence[Case], kind: str) -> Floats:
    """Return the shares of rankings: about the expected value, in the points, below, above, near.

    The last share is that of the plan's own rankings about the expected value of the others.
    """
    took = np.array([case.took[kind] for case in cases])
    expected, low, high = (
        np.array([case.expects[kind][part] for case in cases])
        for part in ("expected", "low", "high")
    )
    own = []
    for case in cases:
        played = np.array(case.played[kind])
        others = (played.sum() - played) / (len(played) - 1)
        own.append(float(np.mean(abs(np.log2(played / others)) <= 1)))
    return np.array(
        [
            np.mean(abs(np.log2(took / expected)) <= 1),
            np.mean((low <= took) & (took <= high)),
            np.mean(took < low),
            np.mean(took > high),
            np.mean((low / 2 <= took) & (took <= 2 * high)),
            np.mean(own),
        ]
    )


def line(label: str, cases: Sequence[Case], errors: bool = False) -> str:
    """Return a line of shares, of answers and of dollars; with standard errors over tables."""
    parts = []
    for kind in ("answers", "cost"):
        by_table = np.array(
            [
                shares([case for case in cases if case.scores == name], kind)
                for name in dict.fromkeys(case.scores for case in cases)
            ]
        )
        text = " ".join(f"{share:4.0%}" for share in shares(cases, kind))
        if errors and len(by_table) > 1:
            deviations = by_table.std(axis=0, ddof=1) / np.sqrt(len(by_table))
            text += " ±" + " ".join(f"{error:3.0%}" for error in deviations)
        parts.append(text)
    return f"{label:<40}{len(cases):>4} | {' | '.join(parts)}"


def main() -> None:
    """Print a line for each table as it is done, and the shares by size over all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--part", choices=("choose", "confirm", "all"), default="all")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", help="tables whose name contains this")
    parser.add_argument("--served", action="store_true", help="rank behind a server as well")
    parser.add_argument("--to", type=Path, help="file of JSON lines to append the cases to")
    args = parser.parse_args()
    cases: list[Case] = []
    print("about the expected value, in the points, below, above, near the points, plan's own")
    for dataset, metric in {"choose": CHOOSE, "confirm": CONFIRM, "all": DATASETS}[args.part]:
        name = f"{dataset} {metric}"
        if args.only and args.only not in name:
            continue
        table, _ = load(dataset, metric)
        scores = table.model_scores()
        complete = np.isfinite(scores).all(axis=0)
        table = ScoreTable.from_arrays(scores[:, complete], list(table.models), metric="share")
        found = list(cases_of(name, table, args))
        cases += found
        if args.to:
            with args.to.open("a") as file:
                file.writelines(json.dumps(asdict(case)) + "\n" for case in found)
        print(line(name, found), flush=True)
        if args.served:
            ratios = [case.served / case.took["answers"] for case in found if case.served]
            print("  behind a server, times as many:", *(f"{ratio:.2f}" for ratio in ratios))
    for size in SIZES:
        if of_size := [case for case in cases if case.n_models == size]:
            print(line(f"{size} models", of_size, errors=True))
    print(line("all", cases, errors=True))


if __name__ == "__main__":
    main()
