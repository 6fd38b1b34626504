"""A bank beside no bank, live: five models rank on the harness's own task mmlu_pro_history.

A server on loopback gives the published answers of seven models. Every set of five of these is
ranked twice, at most 200 of the 381 items of each: without a bank, and with one of the published
scores of the fifteen other models. Printed are, ± over sets, the answers that were asked and used,
the pairs that are decided, those of them that the full scores contradict, and of pairs that both
decide alone the ratio of their answers.

The bank's models answered other prompts, which a ranking takes into account; `--same_prompts` says
that they are the same, as they are on this server.

    python benchmarks/history.py [--same_prompts] [--sets 21] [--max_items 200]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

os.environ.update(OMP_NUM_THREADS="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from worlds import mmlu_pro
from worlds.server import CompletionsServer

from benchmarks.public_banks import tables
from benchmarks.quality_data import SHARED
from lm_eval_ccat import ScoreTable, rank
from lm_eval_ccat.upkeep.score_tables import make_bank

CATEGORY, N_MODELS = "history", 5
TASK = mmlu_pro.task_of(CATEGORY)


class Live(NamedTuple):
    """What a live ranking took, and which pairs it decided: (better, worse)."""

    asked: int
    used: int
    decided: set[tuple[str, str]]


def ranked(url: str, models: tuple[str, ...], bank: Path | None, max_items: int, seed: int) -> Live:
    """Rank models behind a server."""
    entries: list[dict[str, Any]] = [
        {
            "name": model,
            "model": "local-completions",
            "model_args": {"model": model, "base_url": url, "tokenizer_backend": "none"},
        }
        for model in models
    ]
    config: dict[str, Any] = {
        "task": TASK, "metrics": ["exact_match"], "models": entries, "max_items": max_items,
        "seed": seed, **({"bank": str(bank)} if bank else {}),
    }  # fmt: skip
    content = rank(config).content
    decided = {
        (pair["a"], pair["b"]) if pair["p"] > 0.5 else (pair["b"], pair["a"])
        for pair in content["pairwise"]
        if pair["decision"] == "decided"
    }
    rows = content["models"].values()
    return Live(sum(row["asked"] for row in rows), sum(len(row["items"]) for row in rows), decided)


def bank_without(table: ScoreTable, models: tuple[str, ...], path: Path, elsewhere: bool) -> Path:
    """Write the bank of the models of a table but some; return its path."""
    make_bank(table.without(models), published_elsewhere=elsewhere).save(path)
    return path


def main() -> None:
    """Rank each set of models in both ways, and print a line for each and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=21, help="sets of five models (default: all)")
    parser.add_argument("--max_items", type=int, default=200)
    same = "take the prompts of the bank's models for those of the task"
    parser.add_argument("--same_prompts", action="store_true", help=same)
    args = parser.parse_args()
    data, table = SHARED / "data", tables()[TASK]
    full = dict(zip(table.models, np.nanmean(table.raw, axis=1)))
    figures: dict[str, list[list[float]]] = {"no bank": [], "bank": []}
    differences: list[list[float]] = []
    with tempfile.TemporaryDirectory() as place:
        mmlu_pro.write_data(Path(place), data, (CATEGORY,))
        os.chdir(place)
        outputs = {model: mmlu_pro.Answers(data, model) for model in mmlu_pro.MODELS}
        with CompletionsServer(outputs) as server:
            sets = list(combinations(mmlu_pro.MODELS, N_MODELS))
            for seed, models in enumerate(sets[:: max(1, len(sets) // args.sets)][: args.sets]):
                path = Path(place, "fifteen.bank.json")
                bank = bank_without(table, models, path, not args.same_prompts)
                both = []
                for way, chosen in (("no bank", None), ("bank", bank)):
                    run = ranked(server.url, models, chosen, args.max_items, seed)
                    wrong = sum(full[better] < full[worse] for better, worse in run.decided)
                    row = [run.asked, run.used, len(run.decided), wrong]
                    figures[way].append([float(x) for x in row])
                    both.append(run)
                without, with_bank = both
                differences.append(
                    [
                        with_bank.asked / without.asked,
                        len(with_bank.decided) - len(without.decided),
                    ]
                )
                print(
                    f"{', '.join(models)}: {without.asked} asked without a bank, {with_bank.asked} "
                    f"with; {len(without.decided)} and {len(with_bank.decided)} pairs decided, "
                    f"{len(without.decided & with_bank.decided)} by both",
                    flush=True,
                )
    for way, rows in figures.items():
        means = [f"{statistics.mean(x):.1f}" for x in zip(*rows)]
        print(f"{way:>8}: asked, used, decided, wrong:", *means)
    for name, column in zip(("asked, ratio", "decided more"), zip(*differences)):
        error = statistics.stdev(column) / len(column) ** 0.5
        print(f"{name}: {statistics.mean(column):.3f} ± {error:.3f}")


if __name__ == "__main__":
    main()
