"""Level and power of what warns a board's operator: copies, and items that were known.

    python benchmarks/cheats.py MATRIX.parquet ...
    python benchmarks/cheats.py --texts TEXTS.parquet

Each file holds a row per model and a column per item, scores 0 or 1. Two thirds of the models have
full results and make the bank; the others are placed by 100 items, half of them among those that
the bank would ask, of which 40 earlier models saw 100 each. A cheat is right on a share of the
fifth of items that were shown most.

Of the same models, without those whose scores all equal another's, each new one and changed copies
of 40 known ones are compared with all known ones, by 60, 100, 200 and all answers. How near an
honest model truly is to the known one that it is said to be like is the share of the items on which
models that err by themselves would differ and these do, over all items; the largest is printed.

With ``--texts`` (columns model, question_id, text; scores beside it), each model is placed after
all others, half of its items shared with them, and once more after a copy of itself, of whose
answers a share has another end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from join import table_of

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.board.cheats import (
    KNOWN_CHANCE,
    Likeness,
    PeerScores,
    gain_on_shown_items,
    same_texts,
)
from lm_eval_ccat.methods.curves import fit_abilities
from lm_eval_ccat.methods.method import method_of

SHARES = (0.0, 0.5, 0.8, 1.0)
CHANGED = (0.0, 0.05, 0.2)
ALTERED = (0.0, 0.01, 0.02, 0.05, 0.1)
SCORES = "scores.parquet"


def texts(path: Path) -> None:
    """Print how often word-for-word answers are said of other models, and of copies."""
    rows, scores = (pq.read_table(file).to_pylist() for file in (path, path.with_name(SCORES)))
    imperfect = {(row["model"], row["question_id"]) for row in scores if row["score"] < 1.0}
    written: dict[str, dict[int, str]] = {}
    for row in rows:
        written.setdefault(row["model"], {})[row["question_id"]] = row["text"]
    questions, rng = sorted(next(iter(written.values()))), np.random.default_rng(0)

    def answers(model: str, asked: list[int], changed: float = 0.0) -> dict[tuple[str, int], str]:
        return {
            ("", item): written[model][item] + " ." * (rng.random() < changed)
            for item in asked
            if (model, item) in imperfect
        }

    for items in (20, 60, 200):
        others: list[bool] = []
        copies: dict[float, list[bool]] = {share: [] for share in CHANGED}
        for _ in range(40):
            asked = rng.choice(questions, 3 * items // 2, replace=False).tolist()
            first, second = asked[:items], asked[items // 2 :]
            for model in written:
                placed = {other: answers(other, first) for other in written if other != model}
                others.append(bool(same_texts(answers(model, second), placed)))
                for share, hits in copies.items():
                    copy = answers(model, second, share)
                    hits.append(bool(same_texts(copy, {"": answers(model, first)})))
        said = {share: f"{np.mean(hits):.2f}" for share, hits in copies.items()}
        print(f"{items} items: {sum(others)} of {len(others)} other models; copies, by share of "
              f"answers changed: {said}", flush=True)  # fmt: skip


def copies(table: ScoreTable) -> None:
    """Print how often honest models and changed copies are said to score like a known one."""
    rng = np.random.default_rng(2)
    order = rng.permutation(len(table.models))[:200]
    _, distinct = np.unique(table.scores[order], axis=0, return_index=True)
    order = order[rng.permutation(distinct)]
    known, new = np.split(order, [2 * len(order) // 3])
    bank = calibrate(table.select([table.models[n] for n in known]))
    full = {table.models[n]: {"": table.scores[n]} for n in known}
    among = PeerScores({"": bank}, full)
    curves = method_of(bank).curves(bank)

    def differing(n: int, name: str) -> float:
        """Of the items on which models by themselves would differ, the share on which they do."""
        theirs = full[name][""]
        [right] = curves.expected(fit_abilities(curves, table.scores[n][None]))
        expected = np.where(theirs == 1.0, 1.0 - right, right).sum()
        return float((table.scores[n] != theirs).sum() / expected)

    def likenesses(scores: np.ndarray, items: int) -> list[Likeness]:
        asked = np.full(bank.n_items, np.nan)
        drawn = rng.choice(bank.n_items, items, replace=False)
        asked[drawn] = scores[drawn]
        return among.like({"": asked})

    for items in sorted({min(items, bank.n_items) for items in (60, 100, 200, 10_000)}):
        honest = [(n, likenesses(table.scores[n], items)) for n in new]
        nearest = [differing(n, found[0].model) for n, found in honest if found]
        hits: dict[float, list[bool]] = {share: [] for share in ALTERED}
        for n in known[:40]:
            for share in ALTERED:
                changed = rng.permutation(bank.n_items) < round(share * bank.n_items)
                found = likenesses(np.where(changed, 1.0 - table.scores[n], table.scores[n]), items)
                hits[share].append(table.models[n] in {likeness.model for likeness in found})
        said = {share: f"{np.mean(found):.2f}" for share, found in hits.items()}
        print(f"  {items} items: {len(nearest)} of {len(new)} honest models score alike (the least "
              f"alike differs on {max(nearest, default=0.0):.2f}); copies, by share of answers "
              f"changed: {said}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("matrices", nargs="*")
    parser.add_argument("--texts", type=Path, metavar="TEXTS.parquet")
    args = parser.parse_args()
    if args.texts:
        texts(args.texts)
    for named in args.matrices:
        rng, table = np.random.default_rng(1), table_of(named)
        complete = np.isfinite(table.scores).all(axis=1)
        table = table.select([name for name, whole in zip(table.models, complete) if whole])
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
                chances[share].append(gain_on_shown_items(bank, seen, times, known)[1])
        print(
            named,
            "warned of known items:",
            {s: f"{np.mean(np.array(p) < KNOWN_CHANCE):.3f}" for s, p in chances.items()},
            f"honest p below .05: {np.mean(np.array(chances[0.0]) < 0.05):.3f}",
            flush=True,
        )
        copies(table)


if __name__ == "__main__":
    main()
