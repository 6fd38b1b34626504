"""Placing new models on a board of 3,700 known ones, against fixed forms.

The models of metabench's GSM8K table are split into new and known ones. A new model's rank is the
number of known models with a higher mean; the error is that of the rank by the estimate, as a share
of the board. `adaptive` is the Ranker with method `default`, looked at after each number of items;
`form` is the fixed form of `bank form`, `random + ridge` random items with ridge regression. Ranges
are the ranks within the 95% interval of the estimate, `hold` the share that contain the true rank.

`least` is what ranges cannot fall below, twice: by a linear form whose error is that left over on
all models at once, the new ones among them; and by adaptive items without a draw if the bank's
response model were true to the last digit, so that nothing but the scores not seen is open.

    nice -n 15 python benchmarks/boards.py --data ../shared/data

With `--together` newcomers are placed on a board of several tasks, so many in one call, by items of
their own and by a common sequence, for several numbers of calibration models:

    python benchmarks/boards.py --together 1,20 --suite openllm --calibrate 20,40,100,200,400
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from forms import ridge
from suite import drive, tables_of

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.default import method as policy
from lm_eval_ccat.methods.default.field import Field
from lm_eval_ccat.methods.default.fit import model_of
from lm_eval_ccat.upkeep.forms import make_form


def adaptive(
    rows: np.ndarray,
    bank: ItemBank,
    means: dict[str, float],
    levels: list[int],
) -> tuple[dict[int, np.ndarray], float]:
    """Estimate, lower and upper end at each level, shape (n_new, 3), and seconds per decision."""
    at = {d: i for i, d in enumerate(bank.doc_ids)}
    found = {n: np.zeros((len(rows), 3)) for n in levels}
    start, asked = time.perf_counter(), 0
    for j, row in enumerate(rows):
        ranker = Ranker(bank, {"new": 1.0}, known=means, max_items=max(levels), stop="limits")
        told = 0
        while not ranker.done:
            for _, item in ranker.ask():
                ranker.tell("new", item, float(row[at[item]]))
                told += 1
                if told in found:
                    estimate = ranker.estimate("new")[0]
                    found[told][j] = estimate, *ranker.result().interval("new")
        asked += told
    return found, (time.perf_counter() - start) / asked


def least(
    table: ScoreTable, bank: ItemBank, new: list[str], n: int, board: np.ndarray
) -> tuple[float, float]:
    """Ranks within 95% intervals that no linear form, and no estimate by this bank, goes below."""
    whole = table.model_scores()
    form = make_form(whole, table.doc_ids, n)
    left = form.variance - form.with_mean @ np.linalg.solve(form.covariance, form.with_mean)
    widths: tuple[list[int], list[int]] = ([], [])
    for row in table.select(new).model_scores():
        field, free = Field(model_of(bank), 1, draws=False), np.ones(len(row), dtype=bool)
        for _ in range(n):
            [item], _probability = field.next(0, free)
            field.asked(0, item, None)
            field.learn(0, [item], [float(row[item])])
            free[item] = False
        posterior = field.members[0].posterior
        for width, at, variance in zip(
            widths, (row.mean(), posterior.estimate), (left, posterior.variance)
        ):
            low, high = ranks(at + 1.96 * np.sqrt(variance) * np.array([1.0, -1.0]), board)
            width.append(high - low + 1)
    return float(np.mean(widths[0])), float(np.mean(widths[1]))


def ranks(at: np.ndarray, sorted_means: np.ndarray) -> np.ndarray:
    """Number of known models above each mean."""
    return len(sorted_means) - np.searchsorted(sorted_means, at, side="right")


def together(args: argparse.Namespace) -> None:
    """Place newcomers of a suite, some in one call."""
    tables = tables_of(args.data, args.suite)
    every = list(next(iter(tables.values())).models)
    for first, n_cal in ((f, int(n)) for f in range(args.folds) for n in args.calibrate.split(",")):
        order = [every[i] for i in np.random.default_rng(first).permutation(len(every))]
        new, known = order[: args.new], order[args.new : args.new + args.known]
        whole, truth = (
            np.mean([np.nanmean(t.select(m).model_scores(), axis=1) for t in tables.values()], 0)
            for m in (known, new)
        )
        board, true_rank = np.sort(whole), ranks(truth, np.sort(whole))
        banks = {t: calibrate(x.select(known[:n_cal])) for t, x in tables.items()}
        for size, apart in ((int(s), a) for s in args.together.split(",") for a in (True, False)):
            policy.APART = 0 if apart else 10**9
            at, z2 = [], []
            for start in range(0, len(new), size):
                some = new[start : start + size]
                ranker = Ranker(
                    banks,
                    some,
                    known=dict(zip(known, whole.tolist())),
                    stop="limits",
                    max_items=args.each * len(banks),
                    warmup=5,
                    weights="equal",
                    exposure=args.exposure,
                )
                result = drive(ranker, {t: x.select(some) for t, x in tables.items()}).result()
                at += [(result.estimates[m], *result.interval(m)) for m in some]
                a, b = np.triu_indices(len(some), 1)
                off = np.array([e for e, *_ in at[start:]]) - truth[start : start + size]
                z2 += ((off[a] - off[b]) ** 2 / ranker.belief().variance[a, b]).tolist()
            found = np.array(at)
            low, high = ranks(found[:, 2], board), ranks(found[:, 1], board)
            error = np.abs(found[:, 0] - truth)
            rank = np.abs(ranks(found[:, 0], board) - true_rank) / len(board)
            print(
                f"fold {first}, {n_cal} calibrate, {size} at once, "
                f"{'own' if apart else 'common'} items: error {error.mean():.4f} +- "
                f"{error.std(ddof=1) / len(new) ** 0.5:.4f}, rank error {rank.mean():.2%} +- "
                f"{rank.std(ddof=1) / len(new) ** 0.5:.2%}, range "
                f"{np.mean(high - low + 1) / len(board):.1%}, "
                f"{((low <= true_rank) & (true_rank <= high)).mean():.0%} hold; error / stated "
                f"of pairs {np.mean(z2) ** 0.5 if z2 else np.nan:.2f}",
                flush=True,
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--known", type=int, default=3700)
    parser.add_argument("--new", type=int, default=120)
    parser.add_argument("--levels", default="20,40,100")
    parser.add_argument("--draws", type=float, help="option of the calibration")
    parser.add_argument(
        "--seen", type=float, default=0.0, help="share of the items that new models know by heart"
    )
    parser.add_argument("--together", help="newcomers in one call: numbers")
    parser.add_argument("--suite", default="openllm", help="or chrf, bleu")
    parser.add_argument("--calibrate", default="40,400", help="with --together")
    parser.add_argument("--each", type=int, default=8, help="items a task, with --together")
    parser.add_argument("--folds", type=int, default=1, help="with --together")
    parser.add_argument("--exposure", type=int, default=1, help="with --together")
    args = parser.parse_args()
    if args.together:
        return together(args)
    levels = [int(n) for n in args.levels.split(",")]
    table = ScoreTable.read(args.data / "scores" / "metabench_gsm8k_v1.parquet")
    order = np.random.default_rng(0).permutation(table.models).tolist()
    new, known = order[: args.new], order[args.new : args.new + args.known]
    truth = table.select(new).model_scores().mean(axis=1)
    whole = table.select(known).model_scores()
    means = dict(zip(table.select(known).models, whole.mean(axis=1).tolist()))
    board = np.sort(whole.mean(axis=1))
    true_rank = ranks(truth, board)
    mine = table.select(new).model_scores()
    if args.seen:
        by_heart = np.random.default_rng(1).permutation(mine.shape[1])
        mine[:, by_heart[: round(args.seen * mine.shape[1])]] = 1.0
        truth = mine.mean(axis=1)
        true_rank = ranks(truth, board)
    for calibrators in (known,) if args.seen else (known[:40], known):
        x = table.select(calibrators).model_scores()
        print(f"\n{len(calibrators)} calibration models, board of {len(known)}, {len(new)} new")
        bank = calibrate(table.select(calibrators), draws=args.draws)
        found, seconds = adaptive(mine, bank, means, levels)
        for n in levels:
            form = make_form(x, table.doc_ids, n)
            told = [form.estimate(dict(zip(table.doc_ids, row))) for row in mine]
            ends = [form.interval(e, se) for e, se in told]
            items = np.random.default_rng(n).choice(mine.shape[1], n, replace=False)
            rows = {
                "adaptive": found[n],
                "form": np.array([[e, *end] for (e, _), end in zip(told, ends)]),
                "random + ridge": ridge(x, mine, items)[:, None],
            }
            for name, at in rows.items():
                off = np.abs(ranks(at[:, 0], board) - true_rank) / len(board)
                line = f"  {n:4} items  {name:15} rank error {off.mean():.2%} +- " + (
                    f"{off.std(ddof=1) / np.sqrt(len(off)):.2%}"
                )
                if at.shape[1] == 3:
                    low, high = ranks(at[:, 2], board), ranks(at[:, 1], board)
                    hold = ((low <= true_rank) & (true_rank <= high)).mean()
                    line += f", range {np.mean(high - low + 1):.0f} ranks, {hold:.0%} hold"
                print(line, flush=True)
            linear, exact = least(table, bank, new, n, board)
            print(f"  {n:4} items  least            range {linear:.0f} ranks (linear form), "
                  f"{exact:.0f} (this bank, were it exact)", flush=True)  # fmt: skip
        print(f"  {1000 * seconds:.2f} ms a decision")


if __name__ == "__main__":
    main()
