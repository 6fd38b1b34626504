"""``lm-eval-ccat simulate``: replay logged scores; how few items would have been enough?"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .parsing import add_exclude, add_executor, add_json, names_of, prints_json, warn, write_json
from .reading import add_reading_arguments, progress, read_scores

if TYPE_CHECKING:
    from ..simulation import Method, Simulation

EPILOG = """\
example:
  lm-eval-ccat simulate --scores scores.parquet --metric bleu --json out.json
  lm-eval-ccat simulate --scores harness_logs/ --task my_task --metric exact_match \\
      --methods default,paper,common --holdout 4 --folds 20 --items_per_model 20

Models are held out in turn, the others calibrate, and every method ranks the held-out ones at
equal cost. Several tasks (all of the scores, or --task GROUP or A,B) are ranked by their weighted
mean. A mean tau of 1 is the true order every time. docs/simulate.md explains each column.
"""

# Column title, key of the summary, format.
_COLUMNS = (
    ("tau", "tau", "{:.3f}"),
    ("+-", "tau_se", "{:.3f}"),
    ("- paper", "tau_minus_paper", "{:+.3f}"),
    ("+-", "tau_minus_paper_se", "{:.3f}"),
    ("items/model", "items_per_model", "{:.1f}"),
    ("of all", "share_of_items", "{:.1%}"),
    ("cost", "cost", "{:.1f}"),
    ("tied", "tied_share", "{:.0%}"),
    ("tie F1", "tie_f1", "{:.2f}"),
    ("decided right", "confident_accuracy", "{:.1%}"),
    ("z rms", "z_rms", "{:.2f}"),
    ("coverage", "coverage", "{:.0%}"),
    ("rmse", "rmse", "{:.4f}"),
    ("z pairs", "z_rms_differences", "{:.2f}"),
    ("rmse pairs", "rmse_differences", "{:.4f}"),
)


def _item_count(text: str) -> float | None:
    if text.lower() == "none":
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a positive number nor 'none'")
    return number


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from None


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``simulate`` to the command line."""
    parser = subparsers.add_parser(
        "simulate",
        help="replay logged scores: how few items would have been enough?",
        description="Replay logged scores through the ranker that live runs use, and compare it "
        "with baselines at equal cost.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--scores",
        required=True,
        metavar="PATH",
        help="a score table (.parquet, .csv) or a directory of harness outputs",
    )
    add_reading_arguments(parser)
    parser.add_argument("--items", metavar="FILE", help="table of items, with a column doc_id")
    parser.add_argument("--units_column", metavar="C", help="its column of item sizes")
    parser.add_argument(
        "--methods",
        metavar="A,B",
        help="comma-separated (default: default,paper,random,common,limit,static,fixed; of several "
        "tasks default,paper,sample,random)",
    )
    parser.add_argument("--holdout", type=int, default=4, help="models per fold (default: 4)")
    parser.add_argument("--folds", type=int, default=20, help="hold-out sets (default: 20)")
    parser.add_argument("--seeds", type=int, default=1, help="runs per fold (default: 1)")
    parser.add_argument(
        "--items_per_model",
        type=_item_count,
        default=20.0,
        metavar="N",
        help="budget in items per model, or 'none' to let the ranker stop by itself (default: 20)",
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="two-sided (default: 0.95)")
    parser.add_argument(
        "--familywise",
        action="store_true",
        help="the confidence of the methods that rank adaptively is that of all pairs together",
    )
    parser.add_argument(
        "--spend",
        choices=("budget", "fixed"),
        default="budget",
        help="'fixed' gives every method the same number of items per model at equal prices, with "
        "no early stop and one look (default: the same budget)",
    )
    parser.add_argument(
        "--kind",
        choices=("random", "frontier", "family"),
        default="random",
        help="hold out any models, the best third with only models below it to calibrate, or "
        "whole families (default: random)",
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=1,
        metavar="B",
        help="show beside each adaptive method the same asking B items at once",
    )
    parser.add_argument("--warmup", type=int, default=10, help="first items of every model")
    parser.add_argument(
        "--item_scaling",
        action="store_true",
        help="scale each item over the fold's calibration models first",
    )
    parser.add_argument("--prices", metavar="FILE", help='JSON {"model": price of one unit}')
    parser.add_argument(
        "--wanted_tau", type=float, default=0.9, help="what the advice is for (default: 0.9)"
    )
    parser.add_argument(
        "--levels",
        type=_numbers,
        metavar="N,N",
        help="other budgets, in items per model, for the advice (default: half, 2 and 4 times; "
        "with --spend fixed 10,20,50,100,200)",
    )
    parser.add_argument(
        "--holdouts",
        metavar="FILE",
        help="JSON list of hold-out sets, each a list of models, in place of --holdout and --folds",
    )
    parser.add_argument(
        "--calibration_models",
        type=int,
        metavar="N",
        help="calibrate on a seeded draw of N of the other models",
    )
    parser.add_argument(
        "--weights",
        metavar="W",
        help="of several tasks: documents (default), equal, or a weight per task, a=2,b=1",
    )
    add_exclude(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the partitions (default: 0)")
    parser.add_argument("--processes", type=int, help="folds at once (default: one per core)")
    add_executor(parser, "folds are replayed", "in processes of this machine", "tasks")
    add_json(parser, "all runs and the summary")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Replay and print."""
    from ..cluster import executing

    with executing(args.executor, args.ray_address):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from ..simulation import simulate
    from ..simulation.run import DEFAULT_METHODS

    if (args.items is None) != (args.units_column is None):
        raise UsageError("--items and --units_column go together")
    from ..upkeep.tasks import names_one_task

    if not names_one_task(args.scores, args.task):
        return _run_suite(args)
    if args.weights is not None:
        raise UsageError("--weights is of several tasks (--task GROUP or A,B)")
    table = read_scores(args.scores, args)
    if names := names_of(args.exclude):
        table.select(names)  # an unknown name is an error, not a silent nothing
        table = table.without(names)
    with progress(f"replaying {args.folds} folds", "folds") as show:
        found = simulate(
            table,
            _methods(args.methods or ",".join(DEFAULT_METHODS), args.familywise),
            holdout=args.holdout,
            folds=args.folds,
            seeds=args.seeds,
            items_per_model=args.items_per_model,
            confidence=args.confidence,
            units=args.items,
            units_column=args.units_column,
            prices=args.prices,
            warmup=args.warmup,
            levels=args.levels,
            wanted_tau=args.wanted_tau,
            holdouts=None if args.holdouts is None else _hold_out_sets(args.holdouts),
            calibration_models=args.calibration_models,
            item_scaling=args.item_scaling,
            spend=args.spend,
            kind=args.kind,
            batch=args.batch,
            seed=args.seed,
            processes=args.processes,
            on_progress=show,
        )
    write_json(args.json, found.to_dict())
    if not prints_json(args.json):
        for line in report(found):
            print(line)
    for warning in found.warnings:
        warn(warning)
    return 0


#: Flags of one task that a suite's replay does not take, with what they are without being given.
_OF_ONE_TASK = {"items": None, "spend": "budget", "batch": 1, "item_scaling": False}


def _run_suite(args: argparse.Namespace) -> int:
    """Replay a ranking over several tasks."""
    from ..live.fields import Place
    from ..live.values import WEIGHTS
    from ..simulation.suite import DEFAULT_METHODS, simulate_suite
    from ..upkeep.build import tables_of

    for flag, usual in _OF_ONE_TASK.items():
        if getattr(args, flag) != usual:
            raise UsageError(f"--{flag} is for one task")
    tables = {
        task: table.without([m for m in names_of(args.exclude) if m in table.models])
        for task, table in tables_of(
            args.scores, names_of(args.task) or ("*",), names_of(args.metric) or None, args.filter,
            args.range, args.lower_is_better,
        ).items()
    }  # fmt: skip
    with progress(f"replaying {args.folds} folds", "folds") as show:
        found = simulate_suite(
            tables,
            _methods(args.methods or ",".join(DEFAULT_METHODS), args.familywise),
            weights=WEIGHTS.read(args.weights or "", Place("weights")) or "documents",
            holdout=args.holdout,
            folds=args.folds,
            seeds=args.seeds,
            items_per_model=args.items_per_model or 40.0,
            confidence=args.confidence,
            prices=args.prices,
            levels=args.levels,
            wanted_tau=args.wanted_tau,
            holdouts=None if args.holdouts is None else _hold_out_sets(args.holdouts),
            calibration_models=args.calibration_models,
            kind=args.kind,
            seed=args.seed,
            processes=args.processes,
            on_progress=show,
        )
    write_json(args.json, found.to_dict())
    if not prints_json(args.json):
        shares = ", ".join(f"{t} {w:.3g}" for t, w in found.settings["weights"].items())
        print(f"{len(tables)} tasks, their weights: {shares}")
        for line in report(found):
            print(line)
    for warning in found.warnings:
        warn(warning)
    return 0


def _methods(text: str, familywise: bool) -> list[str | Method]:
    from ..simulation.methods import chosen_methods

    chosen = chosen_methods([name.strip() for name in text.split(",") if name.strip()])
    if not familywise:
        return list(chosen)
    if not any(m.kind == "ranker" for m in chosen):
        raise UsageError(f"--familywise has no effect on {text}: none of them decides as it goes")
    together = {"familywise": True}
    return [replace(m, rank={**m.rank, **together}) if m.kind == "ranker" else m for m in chosen]


def _hold_out_sets(path: str) -> list[list[str]]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from error
    sets = list(content.values()) if isinstance(content, dict) else content
    if not isinstance(sets, list) or not all(isinstance(one, list) for one in sets):
        raise UsageError(f'{path}: hold-out sets are [["model", ...], ...]')
    return sets


def report(found: Simulation) -> list[str]:
    """Return the printed report: what was replayed, a table, and the advice."""
    s = found.settings
    spent = "no budget"
    if s["items_per_model"] is not None:
        sum_of = "" if s["spend"] == "fixed" else "budget of "
        spent = f"{sum_of}{s['items_per_model']:g} items per model"
    head = (
        f"{s['metric']}: {s['models']} models x {s['items_of_benchmark']} items, "
        f"{s['holdout']} held out in each of {s['folds']} folds, {s['seeds']} seed(s), {spent}, "
        f"confidence {s['confidence']:g}"
    )
    columns = [
        c for c in _COLUMNS if any(one.get(c[1]) is not None for one in found.summary.values())
    ]
    rows = [["method", *(title for title, _, _ in columns)]]
    for method, one in found.summary.items():
        rows.append([method, *(_cell(one.get(key), form) for _, key, form in columns)])
    lines = [head, "", *_aligned(rows)]
    if s["spend"] == "fixed" and len(next(iter(found.sweep.values()), [])) > 1:
        lines += ["", *_aligned(_sweep_rows(found))]
    if found.advice:
        lines += ["", *found.advice]
    return lines


def _sweep_rows(found: Simulation) -> list[list[str]]:
    """Mean tau, and the share of pairs decided, by number of items per model."""
    levels = [f"{p['asked_items_per_model']:g}" for p in next(iter(found.sweep.values()))]
    rows = [["tau, decided at", *(f"{level} items" for level in levels)]]
    for method, points in found.sweep.items():
        shown = [
            _cell(p["tau"], "{:.3f}")
            + ("" if p["tied_share"] is None else f", {1.0 - p['tied_share']:.0%}")
            for p in points
        ]
        rows.append([method, *shown])
    return rows


def _cell(value: Any, form: str) -> str:
    return "-" if value is None else form.format(value)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
