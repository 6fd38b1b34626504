"""``lm-eval-ccat experiments``: the paper's experiments on any directory of score tables."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..errors import UsageError

EPILOG = """\
example:
  lm-eval-ccat experiments --scores tables/ --out results/
  lm-eval-ccat experiments --scores tables/ --out results/ --families families.json \\
      --scales scales.json --items items/ --units_columns source_chars,input_chars

families.json  {"family": ["model", ...], ...}
scales.json    {"metric": {"range": [0, 25], "lower_is_better": true, "item_scaling": true}, ...}
               (item_scaling: each item over the fold's calibration models, as for BioLaySumm)
exclude.json   {"table": ["model", ...], ...}

Every result is written as CSV, Markdown and a plot (with matplotlib, the extra `plot`). An
interrupted run goes on where it was.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``experiments`` to the command line."""
    parser = subparsers.add_parser(
        "experiments",
        help="the paper's experiments on any score tables",
        description="Run the experiments of arXiv:2601.13885 on any directory of score tables "
        "(several models, also at several temperatures), for each method with a bank.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scores", required=True, metavar="DIR", help=".parquet or .csv tables")
    parser.add_argument("--out", required=True, metavar="DIR", help="where to write")
    parser.add_argument("--methods", default="paper,default", help="default: %(default)s")
    parser.add_argument("--holdout", type=int, default=4, help="models per fold (default: 4)")
    parser.add_argument("--folds", type=int, default=20, help="hold-out sets (default: 20)")
    parser.add_argument("--seeds", type=int, default=1, help="runs per fold (default: 1)")
    parser.add_argument("--items_per_model", type=float, default=20.0, help="budget (default: 20)")
    parser.add_argument(
        "--levels", default="5,10,20,40,80", help="budgets of the sweep (default: %(default)s)"
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="default: 0.95")
    parser.add_argument("--only", default="", metavar="TABLE[:METRIC],...", help="not all tables")
    parser.add_argument("--families", metavar="FILE", help="families, for the family hold-out")
    parser.add_argument("--scales", metavar="FILE", help="scales of metrics that are not known")
    parser.add_argument("--exclude", metavar="FILE", help="models to leave out, per table")
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
    from ..experiments.run import Setup, run_experiments
    from ..experiments.studies import Design
    from ..simulation.methods import chosen_methods

    methods = tuple(name for name in args.methods.split(",") if name)
    for method in chosen_methods(methods):
        if method.kind != "ranker":
            raise UsageError(f"{method.name!r} has no bank; name paper, default or both")
    families = None if args.families is None else _mapping(args.families, list)
    design = Design(
        methods=methods,
        holdout=args.holdout,
        folds=args.folds,
        seeds=args.seeds,
        items_per_model=args.items_per_model,
        levels=_numbers(args.levels),
        confidence=args.confidence,
        families=families,
    )
    setup = Setup(
        scales={} if args.scales is None else _mapping(args.scales, dict),
        exclude={} if args.exclude is None else _mapping(args.exclude, list),
        drop_duplicates=args.drop_duplicates,
        max_models=args.max_models,
        only=tuple(part for part in args.only.split(",") if part),
        items=None if args.items is None else Path(args.items),
        units_columns=tuple(part for part in args.units_columns.split(",") if part),
        seed=args.seed,
    )
    out = Path(args.out)
    if args.fresh:
        for file in (out / "measured").glob("*.json"):
            file.unlink()
    measured = run_experiments(args.scores, out, design, setup, on_progress=_show)
    written = write_report(measured, methods, out, _settings(args, design))
    for line in written:
        print(line)
    for label, entry in measured.items():
        for text in _skipped(entry):
            print(f"warning: {label}: {text}", file=sys.stderr)
    return 0


def write_report(
    measured: dict[str, dict[str, Any]], methods: tuple[str, ...], out: Path, settings: list[str]
) -> list[str]:
    """Write every table as CSV and Markdown, the plots, and one page of it all.

    Returns
    -------
    list of str
        Lines for the user: the summary, and where it lies.
    """
    from ..experiments.tables import all_tables, markdown, write_csv

    tables = all_tables(measured, methods)
    drawn: list[str] = []
    notes = []
    try:
        from ..experiments.plots import draw

        drawn = draw(tables, measured, methods, out)
    except ImportError:
        notes.append("no plots: matplotlib is not installed (pip install 'lm-eval-ccat[plot]')")
    page = ["# Experiments", "", *settings, ""]
    for table in tables:
        write_csv(table, out)
        text = markdown(table)
        if table.name in drawn:
            text += f"\n![{table.title}]({table.name}.png)\n"
        (out / f"{table.name}.md").write_text(text, encoding="utf-8")
        page.append(text)
    left_out = [
        f"- {label}: {text}" for label, entry in measured.items() for text in _skipped(entry)
    ]
    if left_out:
        page += ["## Left out", "", *left_out, ""]
    (out / "README.md").write_text("\n".join(page), encoding="utf-8")
    lines = [line for line in markdown(tables[0]).splitlines() if line.startswith("|")]
    return [*lines, "", *notes, f"{len(tables)} tables: {out / 'README.md'}"]


def _settings(args: argparse.Namespace, design: Any) -> list[str]:
    from .. import __version__

    return [
        f"lm-eval-ccat {__version__}; {design.folds} hold-out sets of {design.holdout} models, "
        f"{design.seeds} seed(s), budget of {design.items_per_model:g} items per model, confidence "
        f"{design.confidence:g}; prices log-uniform from 0.1 to 3.2 per model.",
    ]


def _skipped(entry: dict[str, Any]) -> list[str]:
    if "skipped" in entry:
        return [entry["skipped"]]
    return [
        f"{study}: {found['skipped']}"
        for study, found in entry.items()
        if isinstance(found, dict) and "skipped" in found
    ]


def _show(what: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K[{done}/{total}] {what}", end="" if done < total else "\n", file=sys.stderr)
    else:
        print(f"[{done}/{total}] {what}", file=sys.stderr)
    sys.stderr.flush()


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part)
    except ValueError:
        raise UsageError(f"--levels {text!r} is not a list of numbers") from None


def _mapping(path: str, kind: type) -> dict[str, Any]:
    """Read a JSON object whose values are all of one kind."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(content, dict) or not all(isinstance(v, kind) for v in content.values()):
        shape = "a list of models" if kind is list else "an object"
        raise UsageError(f"{path}: a JSON object whose values are each {shape} is needed")
    return content
