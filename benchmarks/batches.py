"""What asking in batches costs: items beyond those of asking one at a time, on real scores.

Local models answer a batch at a time, one model after the other. For each table, hold-out set and
batch size B the ranking is played to its own end, each model asked B documents at a time in turns
of 10, 20, 40 ... documents, as the scheduler has it. Reported:

- items: all items, relative to those of B = 1;
- overshoot: what the last batch of each model adds by its size alone, were its need that of B = 1;
- loss: the rest, items that were chosen or given worse for being asked together;
- loads: how often a model was loaded where only one fits, were loading to take no time (turns last
  at least as long as loading took, so that there are fewer).

`+-` is a standard error over the hold-out sets. Rankings of twins end only when all was asked, so
that the items of one ranking vary much; --max_items bounds them.

    python benchmarks/batches.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate

TABLES = {
    "wmt24_en-de": "chrf", "wmt24_en-es": "bleu", "wmt23_de-en": "rougeL",
    "alpaca_eval2_weighted": "weighted_winrate", "zeroeval_gsm": "acc",
    "wildbench_v20522_gpt4turbo": "judge_score",
}  # fmt: skip


def played(
    bank: ItemBank, scores: dict[str, np.ndarray], batch: int, most: int | None
) -> tuple[dict[str, int], int]:
    """Items of each model, and turns taken, of a ranking in which models take turns."""
    ranker = Ranker(bank, dict.fromkeys(scores, 1.0), warmup=10, max_items=most)
    turns, last, length, order = 0, "", 10, list(scores)
    while not ranker.done:
        for model in order:
            given = 0
            while given < length and (pairs := ranker.ask(batch, model=model)):
                for _, item in pairs:
                    ranker.tell(model, item, float(scores[model][bank.index[item]]))
                given += len(pairs)
                turns, last = turns + (last != model), model
        order.sort(key=lambda name: name != last)
        length *= 2
    return {m: len(items) for m, items in ranker.result().items.items()}, turns


def measured(
    table: ScoreTable, method: str, sizes: list[int], folds: int, holdout: int, most: int | None
) -> dict[int, list[tuple[float, float, float, float]]]:
    """(items, overshoot, loss, turns) by batch size, one for each fold."""
    rng = np.random.default_rng(0)
    found: dict[int, list[tuple[float, float, float, float]]] = {size: [] for size in sizes}
    for _ in range(folds):
        out = rng.choice(np.array(table.models, dtype=object), holdout, replace=False).tolist()
        rest = table.without(out)
        bank = (
            ItemBank.blank(table.doc_ids, method=method)
            if method == "sample"
            else calibrate(rest, method=method)
        )
        at = [table.doc_ids.index(d) for d in bank.doc_ids]
        scores = {m: table.select([m]).scores[0][at] for m in out}
        single = played(bank, scores, 1, most)[0]
        needed, limit = np.array([single[m] for m in out]), min(most or bank.n_items, bank.n_items)
        for size in sizes:
            items, turns = played(bank, scores, size, most)
            whole = np.minimum(np.ceil(needed / size) * size, limit).sum()
            total = sum(items.values())
            found[size].append(
                (total / needed.sum(), whole / needed.sum(), total / whole, turns / holdout)
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--methods", default="default,sample")
    parser.add_argument("--sizes", default="8,32,64")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--holdout", type=int, default=4)
    parser.add_argument("--max_items", type=int, help="most items per model")
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    started = time.monotonic()
    print(
        f"{'table':<28}{'method':<9}{'B':>4}{'items':>8}{'+-':>6}{'overshoot':>11}{'loss':>8}{'+-':>6}{'loads':>7}"
    )
    every: dict[tuple[str, int], list[tuple[float, float, float, float]]] = {}
    for name in args.tables.split(","):
        table = ScoreTable.read(args.data / "scores" / f"{name}.parquet", metric=TABLES[name])
        whole = np.isfinite(table.scores).all(axis=1)
        table = table.select([m for m, full in zip(table.models, whole) if full])
        for method in args.methods.split(","):
            for size, rows in measured(
                table, method, sizes, args.folds, args.holdout, args.max_items
            ).items():
                every.setdefault((method, size), []).extend(rows)
                _print(name, method, size, rows)
    for (method, size), rows in every.items():
        _print("all", method, size, rows)
    print(f"{time.monotonic() - started:.0f} s")


def _print(
    name: str, method: str, size: int, rows: list[tuple[float, float, float, float]]
) -> None:
    logs = np.log(np.array(rows))
    items, overshoot, loss, turns = np.exp(logs.mean(axis=0))
    error = logs.std(axis=0, ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else logs[0] * np.nan
    print(
        f"{name:<28}{method:<9}{size:>4}{items - 1:>+8.0%}{error[0]:>6.0%}{overshoot - 1:>+11.0%}"
        f"{loss - 1:>+8.0%}{error[2]:>6.0%}{turns:>7.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
