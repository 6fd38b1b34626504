"""How well each method ranks, on real score tables: the figures that the README shows.

Models are held out four at a time, the others calibrate; every method of a fold spends what the
method "paper" spent there. Sections:

    quality    every method at 20 items per model: Kendall tau, paired differences to "paper", ties,
               confident pairs, z-scores and coverage, error against `common` with three times
               the items
    curve      tau against items per model, with a plot
    hard       held-out models all better than every calibration model, or all of one family; few
               calibration models
    stopping   five models run to natural stopping: wrong confident pairs, with and without the
               familywise rule
    ablation   the method "default" with one part switched off

    python benchmarks/ranking_quality.py [--quick] [--sections quality,curve] [--folds 20]
        [--only wmt24_en-de] [--processes 2] [--out quality.json] [--plot quality.png]

The data are read from ``../shared/data`` (or ``$CCAT_SHARED/data``); ``--quick`` takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from quality_data import DATASETS, SHARED, best_together, families, load
from quality_report import (
    Results,
    curve_plot,
    print_curve,
    print_hard,
    print_quality,
    print_stopping,
)

from lm_eval_ccat import simulate
from lm_eval_ccat.simulation.methods import Method

SECTIONS = ("quality", "curve", "hard", "stopping", "ablation")
BASELINES = ["paper", "random", "common", "limit", "static"]
LEVELS = (10.0, 15.0, 20.0, 30.0, 45.0)


def variant(name: str, calibrate: dict[str, Any] | None = None, **rank: Any) -> Method:
    """The method "default" with options."""
    return Method(name, "ranker", "default", calibrate=calibrate or {}, rank=rank)


ABLATIONS = [
    variant("no discrimination", {"discrimination": False}),
    variant("no factors", {"factors": 0}),
    variant("no inflation", {"inflation": False}),
    variant("allocate by variance", allocation="variance"),
    variant("no random draws", draws=False),
    variant("gain whatever the price", item_price=0.0),
    variant("gain per price", item_price=1.0),
]


def quality(args: argparse.Namespace, results: Results) -> None:
    for dataset, metric in chosen(args):
        table, notes = load(dataset, metric)
        found = simulate(table, ["default", *BASELINES], folds=args.folds, processes=args.processes)
        triple = simulate(
            table, ["common"], folds=args.folds, items_per_model=60, processes=args.processes
        )
        results.add("quality", dataset, metric, found.outcomes, notes=notes)
        results.add("triple", dataset, metric, triple.outcomes)
        print_quality(results, dataset, metric)
    print_quality(results)


def curve(args: argparse.Namespace, results: Results) -> None:
    for dataset, metric in chosen(args):
        table, _ = load(dataset, metric)
        found = simulate(
            table,
            ["default", "paper", "common", "static", "limit"],
            folds=args.folds,
            levels=LEVELS,
            processes=args.processes,
        )
        results.add("curve", dataset, metric, found.outcomes)
    print_curve(results)
    if args.plot:
        curve_plot(results, args.plot)


def hard(args: argparse.Namespace, results: Results) -> None:
    for dataset, metric in chosen(args):
        table, _ = load(dataset, metric)
        cases: list[tuple[str, dict[str, Any]]] = [
            ("better than all", {"holdouts": best_together(table), "seeds": 5})
        ]
        if family := families(table):
            cases.append(("one family", {"holdouts": family, "seeds": 5}))
        for few in (8, 12):
            if len(table.models) - 4 > few:
                cases.append((f"{few} models", {"folds": args.folds, "calibration_models": few}))
        for name, how in cases:
            found = simulate(table, ["default", "paper"], processes=args.processes, **how)
            results.add(name, dataset, metric, found.outcomes)
            print_hard(results, name, dataset, metric)
    for name in ("better than all", "one family", "8 models", "12 models"):
        print_hard(results, name)


def stopping(args: argparse.Namespace, results: Results) -> None:
    methods: list[str | Method] = [
        "paper",
        variant("default"),
        variant("familywise", familywise=True),
    ]
    for dataset, metric in chosen(args):
        table, _ = load(dataset, metric)
        found = simulate(
            table,
            methods,
            holdout=5,
            folds=args.folds,
            items_per_model=None,
            processes=args.processes,
        )
        results.add("stopping", dataset, metric, found.outcomes)
        print_stopping(results, dataset, metric)
    print_stopping(results)


def ablation(args: argparse.Namespace, results: Results) -> None:
    for dataset, metric in chosen(args):
        table, _ = load(dataset, metric)
        found = simulate(
            table,
            ["paper", "default", *ABLATIONS],
            folds=args.folds,
            processes=args.processes,
            units=None if args.units is None else item_sizes(table, dataset, args.units),
        )
        results.add("ablation", dataset, metric, found.outcomes)
        print_quality(results, dataset, metric, section="ablation")
    print_quality(results, section="ablation")


def item_sizes(table: Any, dataset: str, column: str) -> Any:
    """Lengths of the items, where the data have them; else 1 each."""
    import pyarrow.parquet as parquet

    path = SHARED / "data" / "items" / f"{dataset}.parquet"
    data = parquet.read_table(path).to_pydict()
    lengths = next((n for n in (column, "source_chars", "input_chars") if n in data), None)
    if lengths is None:
        return None
    of = dict(zip(data["doc_id"], data[lengths]))
    values = np.array([max(float(of[d]), 1.0) for d in table.doc_ids])
    return values / values.mean()


def chosen(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The dataset-metrics asked for."""
    pairs = DATASETS[::4] if args.quick else DATASETS
    return [p for p in pairs if not args.only or any(o in "/".join(p) for o in args.only)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="four dataset-metrics, five folds")
    parser.add_argument("--sections", default="quality", help="comma-separated, or 'all'")
    parser.add_argument("--folds", type=int, default=None, help="hold-out sets (default 20)")
    parser.add_argument("--only", action="append", help="dataset or metric; may be repeated")
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--units", help="price items by this column of the item files (ablation)")
    parser.add_argument("--out", help="write all figures as JSON")
    parser.add_argument("--plot", help="write tau against items per model (section curve)")
    args = parser.parse_args()
    if not (SHARED / "data").is_dir():
        print(f"no data: {SHARED} is absent (set CCAT_SHARED)", file=sys.stderr)
        return 1
    args.folds = args.folds or (5 if args.quick else 20)
    sections = SECTIONS if args.sections == "all" else args.sections.split(",")
    results = Results()
    for name in sections:
        if name not in SECTIONS:
            parser.error(f"no section {name!r}; there are {', '.join(SECTIONS)}")
        print(f"\n== {name} ({args.folds} folds) ==", flush=True)
        globals()[name](args, results)
        if args.out:
            Path(args.out).write_text(json.dumps(results.to_dict(), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
