"""How well each method ranks, on real score tables: the figures that the documentation shows.

Models are held out four at a time, the others calibrate. Sections:

    fixed      Table 1: 10, 20, 50, 100 and 200 items per model for every method, at equal prices,
               no early stop, one look; random, frontier and family folds
    natural    Table 2: five models run until all is decided, by rules that hold at every look,
               familywise
    worlds     Table 1 on synthetic scores whose truth is known
    quality    the paper's protocol of prices, every method spending what "paper" spent at 20 items
               per model: Kendall tau, paired differences to "paper", ties, confident pairs,
               z-scores and coverage, error against `common` with three times the items
    curve      tau against items per model, with a plot
    ablation   the method "default" with one part switched off

    python benchmarks/ranking_quality.py [--quick] [--sections fixed,natural] [--folds 20]
        [--methods default,sample,paired] [--kinds random,frontier] [--tables choose]
        [--only wmt24_en-de] [--processes 2] [--out quality.json] [--plot quality.png]

Constants are chosen on the score tables of ``--tables choose`` and confirmed on those of ``--tables
confirm``. The data are read from ``../shared/data`` (or ``$CCAT_SHARED/data``); ``--quick`` takes
minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from made_worlds import WORLDS, world
from quality_data import CHOOSE, CONFIRM, DATASETS, SHARED, load
from quality_report import Results, curve_plot, print_curve, print_quality
from quality_tables import FIXED, NATURAL, show, show_items, show_outside, table_figures

from lm_eval_ccat import simulate
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.methods.method import names as registered_names
from lm_eval_ccat.simulation.folds import KINDS as FOLD_KINDS
from lm_eval_ccat.simulation.methods import Method

SECTIONS = ("fixed", "natural", "worlds", "quality", "curve", "ablation")
METHODS = "default,sample,paper,paired,paired_difference,static"
LOOKS = (10.0, 20.0, 50.0, 100.0, 200.0)
BASELINES = ["paper", "random", "common", "limit", "static"]
EACH = " (each pair)"  # of a method whose confidence is that of each pair by itself
LEVELS = (10.0, 15.0, 20.0, 30.0, 45.0)


def variant(name: str, calibrate: dict[str, Any] | None = None, **rank: Any) -> Method:
    """The method "default" with options."""
    return Method(name, "ranker", "default", calibrate=calibrate or {}, rank=rank)


ABLATIONS = [
    variant("no factors", {"factors": 0}),
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


def fixed(args: argparse.Namespace, results: Results) -> None:
    """Table 1: the same number of items for every method, one look."""
    tables: list[tuple[str, Any, Sequence[str]]] = [
        (f"{d} {m}", load(d, m)[0], args.kinds) for d, m in chosen(args)
    ]
    fixed_numbers(args, results, "fixed", tables)


def worlds(args: argparse.Namespace, results: Results) -> None:
    """Table 1 on synthetic scores."""
    for name, what in WORLDS.items():
        print(f"\n{name}: {what}")
        kinds = ["frontier"] if name == "frontier" else ["random"]
        size = (16, 300) if args.quick else (30, 800)
        tables = [(f"{name} {s}", world(name, *size, seed=s), kinds) for s in range(3)]
        fixed_numbers(args, results, f"world {name}", tables)


def fixed_numbers(
    args: argparse.Namespace,
    results: Results,
    section: str,
    tables: Sequence[tuple[str, Any, Sequence[str]]],
) -> None:
    found: dict[tuple[str, float], dict[str, dict[str, dict[str, float]]]] = {}
    for name, table, kinds in tables:
        levels = [n for n in LOOKS if n <= table.n_items / 2]
        for kind in kinds:
            try:
                replayed = simulate(
                    table,
                    args.methods,
                    spend="fixed",
                    kind=kind,
                    folds=args.folds,
                    items_per_model=levels[0],
                    levels=levels,
                    processes=args.processes,
                )
            except UsageError as error:
                print(f"{name}, {kind}: {error}", file=sys.stderr)
                continue
            print(f"{name}, {kind}: {replayed.settings['folds']} folds", flush=True)
            for level in levels:
                for method in replayed.summary:
                    own = [
                        o
                        for o in replayed.outcomes
                        if o.method == method and o.items_per_model == level
                    ]
                    at = found.setdefault((kind, level), {}).setdefault(method, {})
                    at[name] = table_figures(own, table.n_items)
    kept = results.tables.setdefault(section, {})
    for kind in FOLD_KINDS:
        for level in LOOKS:
            if by_method := found.get((kind, level)):
                kept[f"{kind}, {level:g} items"] = by_method
                number = len(next(iter(by_method.values())))
                show(
                    f"{section}: {kind} folds, {level:g} items per model, {number} score tables",
                    {m: list(of.values()) for m, of in by_method.items()},
                    FIXED,
                )
                show_outside(next(iter(by_method.values())))


def natural(args: argparse.Namespace, results: Results) -> None:
    """Table 2: five models until all is decided, looked at after every item.

    The confidence is that of all pairs together (familywise) and, beside it, of each by itself. No
    model gets more than half the items, so that methods are compared at the same cap.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for dataset, metric in chosen(args):
        table, _ = load(dataset, metric)
        methods = [
            Method(
                name + ("" if together else EACH),
                "ranker",
                name,
                rank={"familywise": together, "max_items": table.n_items // 2},
            )
            for name in args.methods
            if name in registered_names()
            for together in (True, False)
        ]
        replayed = simulate(
            table,
            methods,
            holdout=5,
            folds=args.folds,
            items_per_model=None,
            prices=dict.fromkeys(table.models, 1.0),
            processes=args.processes,
        )
        for method in replayed.summary:
            own = [o for o in replayed.outcomes if o.method == method]
            found.setdefault(method, {})[f"{dataset} {metric}"] = table_figures(own, table.n_items)
        print(f"{dataset} {metric}: {replayed.settings['folds']} folds", flush=True)
    results.tables["natural"] = {"all": found}
    show(
        "natural: five models, until all is decided or half the items are asked",
        {m: list(of.values()) for m, of in found.items()},
        NATURAL,
    )
    show_items(found)


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
    pairs = {"all": DATASETS, "choose": CHOOSE, "confirm": CONFIRM}[args.tables]
    pairs = [p for p in pairs if not args.only or any(o in "/".join(p) for o in args.only)]
    return pairs[:: max(len(pairs) // 4, 1)][:4] if args.quick else pairs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="four dataset-metrics, five folds")
    parser.add_argument("--sections", default="fixed,natural", help="comma-separated, or 'all'")
    parser.add_argument("--methods", default=METHODS, help="comma-separated; the first is compared")
    parser.add_argument("--kinds", default=",".join(FOLD_KINDS), help="of folds (section fixed)")
    parser.add_argument("--tables", choices=("all", "choose", "confirm"), default="all")
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
    args.methods, args.kinds = args.methods.split(","), args.kinds.split(",")
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
