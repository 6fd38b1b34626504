"""How well each method ranks, on real score tables: the figures that the documentation shows.

Models are held out four at a time, the others calibrate. Sections:

    fixed      Table 1: 10, 20, 50, 100 and 200 items per model for every method, at equal prices,
               no early stop, one look; random, frontier and family folds
    natural    Table 2: five models run until all is decided, by rules that hold at every look,
               familywise

    python benchmarks/ranking_quality.py [--quick] [--sections fixed,natural] [--folds 20]
        [--methods default,sample,paired] [--kinds random,frontier] [--tables choose]
        [--only wmt24_en-de] [--processes 2] [--out quality.json]

Constants are chosen on the score tables of ``--tables choose`` and confirmed on those of ``--tables
confirm``. The data are read from ``../shared/data`` (or ``$CCAT_SHARED/data``); ``--quick`` takes
minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from quality_data import CHOOSE, CONFIRM, DATASETS, SHARED, load
from quality_tables import FIXED, NATURAL, show, show_items, show_outside, table_figures

from lm_eval_ccat import simulate
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.methods.method import names as registered_names
from lm_eval_ccat.simulation.folds import KINDS as FOLD_KINDS
from lm_eval_ccat.simulation.strategies import Strategy

METHODS = "default,sample,paper,paired,paired_difference,static"
LOOKS = (10.0, 20.0, 50.0, 100.0, 200.0)
EACH = " (each pair)"  # of a method whose confidence is that of each pair by itself

#: Figures by method and score table; tables by what they are of.
ByMethod = dict[str, dict[str, dict[str, float]]]
Found = dict[str, ByMethod]


def fixed(args: argparse.Namespace) -> Found:
    """Table 1: the same number of items for every method, one look."""
    found: dict[tuple[str, float], ByMethod] = {}
    for dataset, metric in chosen(args):
        table, name = load(dataset, metric)[0], f"{dataset} {metric}"
        levels = [n for n in LOOKS if n <= table.n_items / 2]
        for kind in args.kinds:
            try:
                replayed = simulate(
                    table,
                    args.methods,
                    spend="fixed",
                    kind=kind,
                    folds=args.folds,
                    items_per_model=levels[0],
                    lengths=levels,
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
                        for o in replayed.replays
                        if o.method == method and o.items_per_model == level
                    ]
                    at = found.setdefault((kind, level), {}).setdefault(method, {})
                    at[name] = table_figures(own, table.n_items)
    kept: Found = {}
    for kind in FOLD_KINDS:
        for level in LOOKS:
            if by_method := found.get((kind, level)):
                kept[f"{kind}, {level:g} items"] = by_method
                number = len(next(iter(by_method.values())))
                show(
                    f"fixed: {kind} folds, {level:g} items per model, {number} score tables",
                    {m: list(of.values()) for m, of in by_method.items()},
                    FIXED,
                )
                show_outside(next(iter(by_method.values())))
    return kept


def natural(args: argparse.Namespace) -> Found:
    """Table 2: five models until all is decided, looked at after every item.

    The confidence is that of all pairs together (familywise) and, beside it, of each by itself. No
    model gets more than half the items, so that methods are compared at the same cap.
    """
    found: ByMethod = {}
    for dataset, metric in chosen(args):
        table, _ = load(dataset, metric)
        methods = [
            Strategy(
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
            own = [o for o in replayed.replays if o.method == method]
            found.setdefault(method, {})[f"{dataset} {metric}"] = table_figures(own, table.n_items)
        print(f"{dataset} {metric}: {replayed.settings['folds']} folds", flush=True)
    show(
        "natural: five models, until all is decided or half the items are asked",
        {m: list(of.values()) for m, of in found.items()},
        NATURAL,
    )
    show_items(found)
    return {"all": found}


def chosen(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The dataset-metrics asked for."""
    pairs = {"all": DATASETS, "choose": CHOOSE, "confirm": CONFIRM}[args.tables]
    pairs = [p for p in pairs if not args.only or any(o in "/".join(p) for o in args.only)]
    return pairs[:: max(len(pairs) // 4, 1)][:4] if args.quick else pairs


SECTIONS = {"fixed": fixed, "natural": natural}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="four dataset-metrics, five folds")
    parser.add_argument("--sections", default="fixed,natural", help="comma-separated")
    parser.add_argument("--methods", default=METHODS, help="comma-separated; the first is compared")
    parser.add_argument("--kinds", default=",".join(FOLD_KINDS), help="of folds (section fixed)")
    parser.add_argument("--tables", choices=("all", "choose", "confirm"), default="all")
    parser.add_argument("--folds", type=int, default=None, help="hold-out sets (default 20)")
    parser.add_argument("--only", action="append", help="dataset or metric; may be repeated")
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--out", help="write all figures as JSON")
    args = parser.parse_args()
    if not (SHARED / "data").is_dir():
        print(f"no data: {SHARED} is absent (set CCAT_SHARED)", file=sys.stderr)
        return 1
    args.methods, args.kinds = args.methods.split(","), args.kinds.split(",")
    args.folds = args.folds or (5 if args.quick else 20)
    found: dict[str, Found] = {}
    for name in args.sections.split(","):
        if name not in SECTIONS:
            parser.error(f"no section {name!r}; there are {', '.join(SECTIONS)}")
        print(f"\n== {name} ({args.folds} folds) ==", flush=True)
        found[name] = SECTIONS[name](args)
        if args.out:
            Path(args.out).write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
