"""``lm-eval-ccat experiments``: the paper's experiments on any directory of score tables."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .parsing import add_exclude, names_of

RESCALE = ("range", "none", "holdout")
STUDIES = ("replay", "families", "sweep", "information", "conformance")

EPILOG = """\
example:
  lm-eval-ccat experiments --scores tables/ --out results/
  lm-eval-ccat experiments --scores tables/ --out results/ --families families.json \\
      --scales scales.json --items items/ --units_columns source_chars,input_chars

prices.json    {"model": price of one unit, ...}
families.json  {"family": ["model", ...], ...}
scales.json    {"metric": {"range": [0, 25], "lower_is_better": true, "item_scaling": true}, ...}
               (item_scaling: each item over the fold's calibration models, as for BioLaySumm)
exclude_from   {"table": ["model", ...], ...}

The defaults are the paper's: 5 hold-out sets of 4 models, 20 seeds. Every table
holds the rows that the paper prints beside the ones measured here. All results
are in OUT/experiments.json, and as CSV, Markdown and plots (with matplotlib, the
extra `plot`). An interrupted run goes on where it was.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``experiments`` to the command line."""
    parser = subparsers.add_parser(
        "experiments",
        help="the paper's experiments on any score tables",
        description="Run the experiments of arXiv:2601.13885 on any directory of score tables "
        "(several models, also at several temperatures), for each method with a bank.",
        epilog=EPILOG,
    )
    parser.add_argument("--scores", required=True, metavar="DIR", help=".parquet or .csv tables")
    parser.add_argument("--out", required=True, metavar="DIR", help="where to write")
    parser.add_argument("--methods", default="paper,default", help="default: %(default)s")
    parser.add_argument("--holdout", type=int, default=4, help="models per set (default: 4)")
    parser.add_argument("--folds", type=int, default=5, help="hold-out sets (default: 5)")
    parser.add_argument("--seeds", type=int, default=20, help="runs per set (default: 20)")
    parser.add_argument("--items_per_model", type=float, default=20.0, help="budget (default: 20)")
    parser.add_argument(
        "--levels", default="5,10,20,40,70,100", help="budgets of the sweep (default: %(default)s)"
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="default: 0.95")
    parser.add_argument(
        "--temperature",
        default="0",
        metavar="T",
        help="test held-out models at this temperature where they have several; 'all': at the mean "
        "of their configs (default: 0). All configs of the others calibrate",
    )
    parser.add_argument(
        "--rescale",
        default="range",
        choices=RESCALE,
        help="what the method `paper` rescales scores by: the range of the calibration scores, "
        "nothing, or the range of the held-out scores, as the authors do, which looks at what is "
        "to be predicted (default: range)",
    )
    parser.add_argument(
        "--prices",
        metavar="FILE",
        help="price of one unit of each model (default: drawn from 0.1 to 3.2, by the seed)",
    )
    parser.add_argument("--only", default="", metavar="TABLE[:METRIC],...", help="not all tables")
    parser.add_argument(
        "--studies",
        default=",".join(STUDIES),
        metavar="A,B",
        help="not all studies (default: %(default)s); `replay` fills the tables of the main "
        "comparison, ties, fixed length and spending",
    )
    parser.add_argument("--families", metavar="FILE", help="families, for the family hold-out")
    parser.add_argument("--scales", metavar="FILE", help="scales of metrics that are not known")
    add_exclude(parser)
    parser.add_argument("--exclude_from", metavar="FILE", help="models to leave out, per table")
    parser.add_argument(
        "--drop_duplicates",
        action="store_true",
        help="leave out a model whose scores all equal those of an earlier one",
    )
    parser.add_argument(
        "--max_models", type=int, metavar="N", help="larger tables are cut to a seeded sample"
    )
    parser.add_argument("--items", metavar="DIR", help="tables of items, of the same names")
    parser.add_argument(
        "--units_columns",
        default="",
        metavar="A,B",
        help="the first of these columns that a table of items has is the size of its items",
    )
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    parser.add_argument("--seed", type=int, default=0, help="of the sample of models (default: 0)")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Measure, write, and name what was written."""
    from ..experiments.design import Design
    from ..experiments.report import markdown, report
    from ..experiments.run import Setup, run_experiments
    from ..simulation.methods import chosen_methods

    methods = tuple(name for name in args.methods.split(",") if name)
    for method in chosen_methods(methods):
        if method.kind != "ranker":
            raise UsageError(f"{method.name!r} has no bank; name paper, default or both")
    design = Design(
        methods=methods,
        holdout=args.holdout,
        folds=args.folds,
        seeds=args.seeds,
        items_per_model=args.items_per_model,
        levels=_numbers("levels", args.levels),
        confidence=args.confidence,
        rescale=args.rescale,
        temperature=_temperature(args.temperature),
        prices=None if args.prices is None else _mapping(args.prices, (int, float)),
        families=None if args.families is None else _mapping(args.families, list),
    )
    setup = Setup(
        scales={} if args.scales is None else _mapping(args.scales, dict),
        exclude={
            "*": names_of(args.exclude),
            **({} if args.exclude_from is None else _mapping(args.exclude_from, list)),
        },
        drop_duplicates=args.drop_duplicates,
        max_models=args.max_models,
        only=tuple(part for part in args.only.split(",") if part),
        items=None if args.items is None else Path(args.items),
        units_columns=tuple(part for part in args.units_columns.split(",") if part),
        studies=_studies(args.studies),
        seed=args.seed,
    )
    out = Path(args.out)
    if args.fresh:
        for file in (out / "measured").glob("*.json"):
            file.unlink()
    measured = run_experiments(args.scores, out, design, setup, on_progress=_show)
    document, tables, notes = report(measured, design, out)
    for line in (markdown(tables[0]), *notes, f"{len(tables)} tables: {out / 'README.md'}"):
        print(line)
    for text in document["left_out"]:
        print(f"warning: {text}", file=sys.stderr)
    return 0


def _show(what: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K[{done}/{total}] {what}", end="" if done < total else "\n", file=sys.stderr)
    else:
        print(f"[{done}/{total}] {what}", file=sys.stderr)
    sys.stderr.flush()


def _numbers(flag: str, text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(",") if part)
    except ValueError:
        raise UsageError(f"--{flag} {text!r} is not a list of numbers") from None
    if not found:
        raise UsageError(f"--{flag} names no number")
    twice = [n for n in found if found.count(n) > 1]
    if twice:
        raise UsageError(f"--{flag} names {twice[0]:g} twice")
    return found


def _studies(text: str) -> tuple[str, ...]:
    wanted = {part for part in text.split(",") if part}
    for name in wanted.difference(STUDIES):
        raise UsageError(f"--studies {name!r}: unknown; choose from {', '.join(STUDIES)}")
    return tuple(name for name in STUDIES if name in wanted)


def _temperature(text: str) -> float | None:
    if text == "all":
        return None
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--temperature {text!r} is neither a number nor 'all'") from None


def _mapping(path: str, kind: type | tuple[type, ...]) -> dict[str, Any]:
    """Read a JSON object whose values are all of one kind."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(content, dict) or not all(isinstance(v, kind) for v in content.values()):
        shape = "a list of models" if kind is list else "an object" if kind is dict else "a number"
        raise UsageError(f"{path}: a JSON object whose values are each {shape} is needed")
    return content
