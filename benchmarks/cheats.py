"""Level and power of what warns a board's operator: copies, and items that were known.

    python benchmarks/cheats.py MATRIX.parquet ...

Each file holds a row per model and a column per item, scores 0 or 1. Two thirds of the models have
full results and make the bank; the others are placed by 100 items, half of them among those that
the bank would ask, of which 40 earlier models saw 100 each. A cheat is right on a share of the
fifth of items that were shown most. A copy is of 60 and of 200 random answers of a known model.
"""

from __future__ import annotations

import argparse

import numpy as np
from join import table_of

from lm_eval_ccat import calibrate
from lm_eval_ccat.board.cheats import KNOWN_CHANCE, alike, known_items

SHARES = (0.0, 0.5, 0.8, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("matrices", nargs="*")
    for named in parser.parse_args().matrices:
        rng, table = np.random.default_rng(1), table_of(named)
        order = rng.permutation(len(table.models))[:180]
        known, new = np.split(table.scores[order], [2 * len(order) // 3])
        names = [table.models[n] for n in order[: len(known)]]
        bank = calibrate(table.select(names))
        n = bank.n_items
        liked = np.exp(-6.0 * np.abs(known.mean(axis=0) - 0.5))
        times = np.zeros(n)
        for _ in range(40):
            times[rng.choice(n, 100, replace=False, p=liked / liked.sum())] += 1
        often = times > np.quantile(times, 0.8)
        chances: dict[float, list[float]] = {share: [] for share in SHARES}
        for scores in np.repeat(new, 3, axis=0):
            asked = rng.choice(n, 100, replace=False, p=0.5 * liked / liked.sum() + 0.5 / n)
            for share in SHARES:
                seen = np.full(n, np.nan)
                seen[asked] = np.where(often & (rng.random(n) < share), 1.0, scores)[asked]
                chances[share].append(known_items(bank, seen, times, known)[1])
        full = {name: {"": scores} for name, scores in zip(names, known)}
        said: dict[str, list[bool]] = {"others": []}
        for items in (60, 200):
            for number, scores in enumerate((*known[:20], *new[:20])):
                seen = np.full(n, np.nan)
                drawn = rng.choice(n, items, replace=False)
                seen[drawn] = scores[drawn]
                kind = f"copies at {items}" if number < 20 else "others"
                text = alike({"": bank}, {"": seen}, full)
                said.setdefault(kind, []).append(bool(text))
        print(
            named,
            "warned of known items:",
            {s: f"{np.mean(np.array(p) < KNOWN_CHANCE):.3f}" for s, p in chances.items()},
            f"honest p below .05: {np.mean(np.array(chances[0.0]) < 0.05):.3f};",
            {kind: f"{np.mean(hits):.2f} of {len(hits)}" for kind, hits in said.items()},
            flush=True,
        )


if __name__ == "__main__":
    main()
