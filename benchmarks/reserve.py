"""What it costs to hold a fifth of a bank's items back, as `board place` does.

New models of four tasks of the Open LLM Leaderboard are placed one by one among 40 known ones, each
item drawn among the five most informative ones: once with all items, once without one part of five,
another part for each model.

    python benchmarks/reserve.py [--items 60] [--new 40] [--data ../shared/data]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.board.folder import Reserve, without_reserve

KNOWN, PARTS, EXPOSURE = 40, 5, 5


def placed(bank: ItemBank, row: np.ndarray, full: dict[str, float], items: int, seed: int):
    """Error of the estimate, width of its interval, and whether it holds the truth."""
    ranker = Ranker(
        bank, {"new": 1.0}, known=full, max_items=items, stop="limits", exposure=EXPOSURE, seed=seed
    )
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(row[bank.index[item]]))
    ranking, truth = ranker.result(), float(row.mean())
    low, high = ranking.interval("new")
    return ranking.estimates["new"] - truth, high - low, low <= truth <= high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--new", type=int, default=40)
    args = parser.parse_args()
    found: dict[str, list[tuple[float, float, bool]]] = {"all items": [], "four fifths": []}
    for file in sorted((args.data / "suite").glob("openllm_*.parquet")):
        table = ScoreTable.read(file)
        models = np.random.default_rng(1).permutation(table.models).tolist()
        known = table.select(models[args.new : args.new + KNOWN])
        full = dict(zip(known.models, known.model_scores().mean(axis=1).tolist()))
        bank = calibrate(known)
        for k, row in enumerate(table.select(models[: args.new]).model_scores()):
            for (way, results), reserve in zip(found.items(), (None, Reserve(k % PARTS, PARTS))):
                offered = without_reserve(bank, way, reserve)
                results.append(placed(offered, row, full, args.items, k))
    for way, results in found.items():
        error, width, holds = np.array(results).T
        squares, root = error**2, len(error) ** 0.5
        rms, hold = squares.mean() ** 0.5, 100 * holds
        print(
            f"{way}: error {rms:.4f} ± {squares.std() / root / 2 / rms:.4f}, "
            f"width {width.mean():.3f}, intervals that hold "
            f"{hold.mean():.1f} ± {hold.std() / root:.1f}% of {len(hold)}"
        )


if __name__ == "__main__":
    main()
