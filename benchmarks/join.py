"""How often a ranking sets aside a bank that was joined to other documents, and a right one.

    python benchmarks/join.py [--folds 8] [--models 3] [--items 100] TABLE:METRIC ...

Of each score table (Parquet, long form; or a matrix of models by items) some models are held out
and ranked with a bank of the others, once as it is and with shares of its items shuffled, until
each model has had so many items. Prints how many rankings set the bank aside, and after how many
answers a model; and of `bank check --scores` with the same models' full results, how often it says
that the bank, or a part of it, is of other documents.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.upkeep.check import check_scores


def table_of(named: str) -> ScoreTable:
    """A score table, or a matrix whose columns are items."""
    path, _, metric = named.partition(":")
    if metric:
        return ScoreTable.read(path, metric)
    from pyarrow import parquet

    columns = parquet.read_table(path)
    numbers = [column for column in columns.columns if "string" not in str(column.type)]
    raw = np.array([c.to_numpy() for c in numbers], dtype=float).T
    return ScoreTable.from_arrays(raw, [f"m{n}" for n in range(len(raw))], task=Path(path).stem)


#: Shares of a bank's items that are joined to other documents.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def shuffled(bank: ItemBank, seed: int, share: float) -> ItemBank:
    """The bank, the parameters of a share of its items joined to others of these."""
    rng, order = np.random.default_rng(seed), np.arange(bank.n_items)
    moved_items = rng.choice(bank.n_items, round(share * bank.n_items), replace=False)
    order[moved_items] = rng.permutation(moved_items)
    moved = {
        name: values[order] if len(values) == bank.n_items else values
        for name, values in bank.parameters.items()
    }
    return replace(bank, parameters=moved, kept=bank.kept[order], doc_hashes=None)


def aside_after(bank: ItemBank, table: ScoreTable, most: int) -> float:
    """Answers per model until the bank is set aside; infinite if it stays."""
    scores = dict(zip(table.models, table.model_scores()))
    ranker = Ranker(bank, list(scores), max_items=most, confidence=0.9999)
    answers = 0
    while not ranker.done:
        for model, item in ranker.ask(len(scores)):
            score = scores[model][table.doc_ids.index(item)]
            if np.isfinite(score):
                ranker.tell(model, item, float(score))
            else:
                ranker.fail(model, item, "missing")
            answers += 1
        if ranker.join.findings:
            return answers / len(scores)
    return float("inf")


def refused(bank: ItemBank, table: ScoreTable) -> bool:
    """Whether `bank check --scores` says that the bank is joined to other documents, or a part."""
    kinds = {"unrelated", "partly_unrelated"}
    return any(finding.kind in kinds for finding in check_scores(bank, table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE:METRIC")
    parser.add_argument("--folds", type=int, default=8)
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--items", type=int, default=100, help="0: only `bank check`")
    args = parser.parse_args()
    every: dict[float, list[float]] = {share: [] for share in SHARES}
    checked: dict[float, list[bool]] = {share: [] for share in SHARES}
    for named in args.tables:
        table = table_of(named)
        here: dict[float, list[float]] = {share: [] for share in SHARES}
        for fold in range(args.folds):
            names = np.random.default_rng(fold).permutation(list(table.models))[: args.models]
            bank = calibrate(table.without(names.tolist()))
            new = table.select(names.tolist())
            for share in SHARES:
                joined = shuffled(bank, fold, share)
                checked[share].append(refused(joined, new))
                if args.items:
                    here[share].append(aside_after(joined, new, args.items))
        for share, after in here.items():
            every[share] += after
        print(named, {k: [f"{a:.0f}" for a in after] for k, after in here.items()}, flush=True)
    for share, hits in checked.items():
        print(f"bank check: {share:.0%} shuffled: {np.mean(hits):.3f} of {len(hits)} called wrong")
    for share, after in every.items() if args.items else ():
        aside = np.isfinite(after)
        error = float(np.sqrt(aside.mean() * (1 - aside.mean()) / max(len(after), 1)))
        print(f"{share:.0%} shuffled: {aside.mean():.3f} ± {error:.3f} of {len(after)} set aside, "
              f"in the median after {float(np.median(after)):.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
