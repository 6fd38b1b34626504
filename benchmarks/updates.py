"""Does a bank stay honest when it learns from adaptive runs? On real scores.

A bank is calibrated on some models and updated with others, whose scores it gets in one of several
ways: none at all, all items, items that an adaptive test chose, or as many at random. Beside these
stand a bank that keeps its scores, and a fresh bank of all scores. Then further models are tested
with a few items. `coverage` is the share of their full scores within the 95%
interval, `rmse` the error of the estimates, `of fresh` its ratio to that of the fresh bank, with a
standard error over tests.

    nice -n 15 python benchmarks/updates.py --data ../shared/data
    nice -n 15 python benchmarks/updates.py --old 40 --new 150 --kinds none,all,kept,fresh
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.upkeep.update import update

DATA = ("openllm_gsm8k", "openllm_mmlu", "openllm_truthfulqa", "openllm_winogrande")


def asked(
    bank: ItemBank, row: np.ndarray, n: int, seed: int
) -> tuple[np.ndarray, tuple[float, float]]:
    """Scores that an adaptive test of `n` items sees, and its estimate with its error."""
    ranker = Ranker(bank, {"m": 1.0}, max_items=n, stop="limits", seed=seed)
    out = np.full(len(row), np.nan)
    while not ranker.done:
        for model, item in ranker.ask():
            at = bank.index[item]
            ranker.tell(model, item, float(row[at]))
            out[at] = row[at]
    return out, ranker.estimate("m")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--old", type=int, default=20)
    parser.add_argument("--new", type=int, default=40)
    parser.add_argument("--tested", type=int, default=60)
    parser.add_argument("--items", type=int, default=30, help="of each new model")
    parser.add_argument("--test_items", type=int, default=20)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--kinds", default="none,all,kept,adaptive,random,fresh")
    args = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {}
    for name in DATA:
        table = ScoreTable.read(args.data / "suite" / f"{name}.parquet", metric="acc")
        for seed in range(args.splits):
            rng = np.random.default_rng(seed)
            order = rng.permutation(table.models).tolist()
            ends = np.cumsum([args.old, args.new, args.tested])
            old, new, tested = (order[a:b] for a, b in zip([0, *ends], ends))
            bank = calibrate(table.select(old))
            whole = table.select(new)
            scores, wanted = whole.model_scores(), args.kinds.split(",")
            kinds = {
                "none": lambda: bank,  # noqa: B023
                "all": lambda: update(bank, whole),  # noqa: B023
                "kept": lambda: update(calibrate(table.select(old), keep_scores=True), whole),  # noqa: B023
                "fresh": lambda: calibrate(table.select([*old, *new])),  # noqa: B023
            }
            kinds = {kind: make() for kind, make in kinds.items() if kind in wanted}
            for kind in sorted({"adaptive", "random"} & set(wanted)):
                seen = np.full(scores.shape, np.nan)
                for j, row in enumerate(scores):
                    if kind == "adaptive":
                        seen[j] = asked(bank, row, args.items, j)[0]
                    else:
                        at = rng.choice(len(row), args.items, replace=False)
                        seen[j, at] = row[at]
                part = ScoreTable.from_arrays(
                    seen, new, table.doc_ids, metric="acc",
                    chosen=("adaptive" if kind == "adaptive" else "drawn",) * len(new),
                )  # fmt: skip
                kinds[kind] = update(bank, part)
            for row in table.select(tested).model_scores():
                for kind, one in kinds.items():
                    estimate, error = asked(one, row, args.test_items, seed)[1]
                    found.setdefault(kind, []).append((estimate - row.mean(), error))
    first = next(iter(found.values()))
    print(f"{args.old} models, updated with {args.new} of {args.items} items each, tested with "
          f"{args.test_items}; {len(first)} tests on {len(DATA)} tasks")  # fmt: skip
    for kind, rows in found.items():
        off, error = np.array(rows).T
        inside = np.abs(off) <= 1.96 * error
        spread, z = inside.std() / np.sqrt(len(off)), np.sqrt(np.mean((off / error) ** 2))
        of_fresh = np.array(found.get("fresh", rows))[:, 0]
        ratio = np.sqrt(np.mean(off**2) / np.mean(of_fresh**2))
        # By the delta method, on differences of squares of the same tests.
        se = np.std(off**2 / ratio**2 - of_fresh**2) / np.mean(of_fresh**2) / 2 * ratio
        print(
            f"  updated by {kind:10} coverage {inside.mean():.1%} +- {spread:.1%}, "
            f"z rms {z:.2f}, rmse {np.sqrt(np.mean(off**2)):.4f}, "
            f"of fresh {ratio:.3f} +- {se / np.sqrt(len(off)):.3f}"
        )


if __name__ == "__main__":
    main()
