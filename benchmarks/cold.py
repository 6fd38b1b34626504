"""Borrowed banks: what tasks on the same documents are worth to one that few models have run.

    python benchmarks/cold.py --data FOLDER [--kind metrics | passed] [--sets 2] [--own 0,1,2]

`pairs`: each of the five language pairs of WMT24 in turn is new and the four others are donors, of
ten systems each, without the four that are ranked; by chrF and BLEU. `metrics`: one score of the
same answers is new and the others are donors: human recall and five metrics of REALSumm's
summaries, BLEU, chrF, ROUGE-L and TER of two WMT24 pairs. `passed`: the five pairs by whether chrF
exceeds the median of all systems and documents of the pair, 0 or 1. The four new systems of a hold-
out set are ranked together at 10, 20 and 50 items and looked at once. Beside the borrowed banks
stand random items with the t-test (`random`) and by the method `sample`, banks of own runs alone
(`bank of 2` to `of 8`), and banks whose donors' documents are shuffled, all in the same way
(`shuffled`, without own runs: with own runs such donors are refused). RMSE is relative to what the
mean of random items has in expectation over all draws, a mean over tables with its standard error
over tables; `to sample` is the same relative to `sample` on the same draws.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import pandas as pd
from rivals import Estimates, figures, paired

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.errors import CcatError
from lm_eval_ccat.methods.default.field import Field
from lm_eval_ccat.methods.default.fit import model_of
from lm_eval_ccat.methods.default.selfcheck import advance
from lm_eval_ccat.methods.sample.method import SamplePolicy
from lm_eval_ccat.metrics.scale import Floats
from lm_eval_ccat.upkeep.borrow import borrow

PAIRS = ("en-de", "en-es", "en-hi", "en-uk", "en-zh")
OF_PAIRS = ("chrf", "bleu")
SUMMARIES = (
    "litepyramid_recall", "rouge_1_f_score", "rouge_2_f_score", "rouge_l_f_score",
    "bert_f_score", "mover_score",
)  # fmt: skip
ITEMS, NEW, DONORS, DRAWS = (10, 20, 50), 4, 10, 20


def groups(kind: str, data: Path) -> Iterator[tuple[str, dict[str, ScoreTable]]]:
    """Tasks that can lend to one another."""
    if kind == "passed":
        read = {p: ScoreTable.read(data / f"wmt24_{p}.parquet", "chrf") for p in PAIRS}
        yield "passed", {p: passed(table) for p, table in read.items()}
    elif kind == "pairs":
        for metric in OF_PAIRS:
            yield metric, {p: ScoreTable.read(data / f"wmt24_{p}.parquet", metric) for p in PAIRS}
    else:
        # By one name: `borrow` refuses donors of another metric, because of what is seen here.
        for name in ("realsumm_abs", "wmt24_en-de", "wmt24_en-es"):
            metrics = SUMMARIES if name == "realsumm_abs" else ("chrf", "bleu", "rougeL", "ter")
            yield name, {m: of_any_metric(data / f"{name}.parquet", m) for m in metrics}


def passed(table: ScoreTable) -> ScoreTable:
    """1 for a score above the median of all of its table, else 0."""
    raw = (table.raw > np.nanmedian(table.raw)).astype(float)
    return ScoreTable.from_arrays(raw, table.row_model, table.doc_ids, metric="passed")


def of_any_metric(file: Path, metric: str) -> ScoreTable:
    """Scores on [0, 1], what lies beyond cut off."""
    table = ScoreTable.read(file, metric, range=(-1e3, 1e3), lower_is_better=metric == "ter")
    raw = 1.0 - table.raw if metric == "ter" else table.raw
    return ScoreTable.from_arrays(
        np.clip(raw, 0.0, 1.0), table.row_model, table.doc_ids, metric="any"
    )


def shuffled(table: ScoreTable) -> ScoreTable:
    """The same scores on other documents."""
    at = np.random.default_rng(5).permutation(table.n_items)
    return ScoreTable.from_arrays(
        table.raw[:, at], table.row_model, table.doc_ids, scale=table.scale, metric=table.metric
    )


Look = tuple[int, Estimates, bool]


def ranked(bank: ItemBank, y: Floats, seed: int) -> Iterator[Look]:
    """One ranking by a bank's method, looked at after so many items, and whether it finds fault."""
    if bank.method == "sample":
        yield from drawn(bank, y, seed)
        return
    field = Field(model_of(bank), len(y), seed=seed)
    for n in ITEMS:
        advance(field, y, n)
        r = field.result()
        sd = r.variance**0.5
        yield n, Estimates(r.estimate, sd.diagonal(), r.df.diagonal(), sd, r.df), False


def drawn(bank: ItemBank, y: Floats, seed: int) -> Iterator[Look]:
    """The same by the method "sample"."""
    # Tables of the same documents are to differ in their draws.
    policy = SamplePolicy(bank, len(y), seed=crc32(y.tobytes()) + seed)
    for n, item in enumerate(policy.sequence.order[: max(ITEMS)].tolist(), 1):
        for a, score in enumerate(y[:, item].tolist()):
            policy.asked(a, item)
            policy.told(a, item, score)
        if n in ITEMS:
            b = policy.belief()
            sd = b.variance**0.5
            found = Estimates(b.location, sd.diagonal(), b.df.diagonal(), sd, b.df)
            yield n, found, bool(policy.describe(0).findings)


def banks(
    new: str,
    tasks: dict[str, ScoreTable],
    tested: list[str],
    rest: list[str],
    own: list[int],
    alone: list[int],
) -> Iterator[tuple[str, ItemBank]]:
    """Every bank of a hold-out set that can be made."""
    donors = {}
    for name, table in tasks.items():
        if name != new:
            lent = table.without([m for m in tested if m in table.models])
            donors[name] = lent.select(lent.models[:DONORS])
    target = tasks[new]
    for k in own:
        yield f"borrow {k}", borrow(donors, target.select(rest[:k]) if k else None)[1]
    if 0 in own:
        yield "shuffled", borrow({n: shuffled(t) for n, t in donors.items()})[1]
        yield "sample", ItemBank.blank(target.doc_ids, scale=target.scale)
    for k in alone:
        if len(rest) >= k:
            yield f"bank of {k}", calibrate(target.select(rest[:k]))


def measured(found: Estimates, y: Floats, n: int) -> dict[str, float]:
    """Figures, with the squared error in units of that of the mean of random items."""
    of_random = y.var(axis=1, ddof=1).mean() * (1.0 / n - 1.0 / y.shape[1])
    square = float(np.mean((found.mean - y.mean(axis=1)) ** 2))
    return {**figures(found, y), "square": square / of_random}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of score tables")
    parser.add_argument("--kind", choices=("pairs", "metrics", "passed"), default="pairs")
    parser.add_argument("--sets", type=int, default=2)
    parser.add_argument("--own", default="0,1,2")
    parser.add_argument("--alone", default="2,4,6,8", help="own runs of banks that do not borrow")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    own, alone = ([int(k) for k in x.split(",") if k] for x in (args.own, args.alone))
    found: dict[tuple[str, int], dict[str, list[dict[str, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for group, tasks in groups(args.kind, args.data):
        for new, target in tasks.items():
            name = f"{group} {new}"
            for fold in range(args.sets):
                models = np.random.default_rng(fold).permutation(target.models).tolist()
                tested, rest = models[:NEW], models[NEW:]
                y = target.select(tested).scores
                for draw in range(DRAWS):
                    at = np.random.default_rng([fold, draw, 7]).permutation(y.shape[1])
                    for n in (n for n in ITEMS if n <= y.shape[1] // 2):
                        found["random", n][name].append(measured(paired(y, at[:n]), y, n))
                try:
                    for arm, bank in banks(new, tasks, tested, rest, own, alone):
                        for seed in range(args.seeds):
                            for n, one, fault in ranked(bank, y, 10 * fold + seed):
                                of_one = measured(one, y, n) | {"fault": float(fault)}
                                found[arm, n][name].append(of_one)
                except CcatError as error:
                    print(f"{name}: {error}")
            print(name, file=sys.stderr, flush=True)
    print(
        "bank       items  rmse/random  (worst)  to sample   cover (least) z pairs  decided  fault"
    )
    squares = {
        key: pd.Series({name: pd.DataFrame(rows).square.mean() for name, rows in of.items()})
        for key, of in found.items()
    }
    for (arm, n), of in sorted(found.items(), key=lambda f: (f[0][0], f[0][1])):
        f = pd.DataFrame({name: pd.DataFrame(rows).mean() for name, rows in of.items()}).T
        ratio, same = f.square**0.5, squares.get(("sample", n))
        beside = "" if same is None else "{:.2f} +- {:.2f}".format(*over((f.square / same) ** 0.5))
        print(
            "{:10s} {:5d}   {:.2f} +- {:.2f}".format(arm, n, *over(ratio))
            + f" ({ratio.max():.2f})   {beside:12s}   {f.cover.mean():.3f} ({f.cover.min():.2f})   "
            f"{f.z2.mean() ** 0.5:.2f}   {f.decided.mean():.3f}, "
            f"{f.right.sum() / max(f.decided.sum(), 1e-9):.2%} right   "
            f"{f.get('fault', pd.Series([0.0])).mean():.0%}"
        )


def over(tables: pd.Series) -> tuple[float, float]:
    """Mean over tables, and its standard error."""
    return float(tables.mean()), float(tables.std() / len(tables) ** 0.5)


if __name__ == "__main__":
    main()
