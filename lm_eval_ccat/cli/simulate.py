"""``lm-eval-ccat simulate``: replay logged scores; how few items would have been enough?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .parsing import (
    EXCLUDE,
    EXECUTOR,
    JSON,
    REQUIRED,
    Opt,
    Options,
    add_command,
    names_of,
    prints_json,
    warn,
    write_json,
)  # fmt: skip
from .reading import READING, progress, read_scores

if TYPE_CHECKING:
    from ..scores import ScoreTable
    from ..simulation import Simulation

EPILOG = """\
example:
  lm-eval-ccat simulate --scores scores.parquet --metric bleu --json out.json
  lm-eval-ccat simulate --scores harness_logs/ --task my_task --metric exact_match \\
      --methods default,paper,common --holdout 4 --folds 20 --items_per_model 20

Models are held out in turn, the others calibrate, and every method ranks the held-out ones at
equal cost. Several tasks (all of the scores, or --task GROUP or A,B) are ranked by their weighted
mean. A mean tau of 1 is the true order every time; docs/howto/simulate.md explains each column.
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


OPTIONS: Options = {
    "--scores PATH": Opt(
        "a score table (.parquet, .csv) or a directory of harness outputs", REQUIRED
    ),
    **READING,
    "--items FILE": "table of items, with a column doc_id (and task)",
    "--units_column C": "its column of item sizes",
    "--methods A,B": "by commas (default: default,paper,random,common,limit,static,fixed)",
    "--holdout N": Opt("models per fold", 4),
    "--folds N": Opt("hold-out sets", 20),
    "--seeds N": Opt("runs per fold", 1),
    "--items_per_model N": Opt(
        "budget in items per model, or 'none' to let the ranker stop by itself", 20.0, _item_count
    ),
    "--confidence C": Opt("two-sided", 0.95),
    "--prices FILE": 'JSON {"model": price of one unit}',
    "--seed N": Opt("of the partitions", 0),
    "--spend budget|fixed": "'fixed': every method asks the same number of items per model, at "
    "equal prices, with one look and no early stop",
    "--kind random|frontier|family": "hold out any models, the best third (calibrating below it), "
    "or whole families",
    **EXCLUDE,
    **EXECUTOR,
    **JSON,
}
#: Of these, what `simulate` takes under the same name.
_TAKEN = ("units_column", "holdout", "folds", "seeds", "items_per_model", "confidence", "prices",
          "seed", "spend", "kind")  # fmt: skip


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add ``simulate`` to the command line."""
    what = (
        "Replay logged scores through the ranker that live runs use, and compare it with baselines "
        "at equal cost."
    )
    add_command(subparsers, "simulate", run, OPTIONS, what, EPILOG)


def run(args: argparse.Namespace) -> int:
    """Replay and print."""
    from ..cluster import executing
    from ..simulation import simulate
    from ..simulation.run import DEFAULT_METHODS

    if (args.items is None) != (args.units_column is None):
        raise UsageError("--items and --units_column go together")
    options = {name: getattr(args, name) for name in _TAKEN}
    methods = names_of(args.methods) or DEFAULT_METHODS
    with executing(args.executor):
        tables = _tables(args)
        with progress(f"replaying {args.folds} folds", "folds") as show:
            how = {"units": args.items, "levels": None, "on_progress": show, **options}
            replayed = simulate(tables, methods, **how)
    write_json(args.json, replayed.to_dict())
    if not prints_json(args.json):
        print("\n".join(report(replayed)))
    for warning in replayed.warnings:
        warn(warning)
    return 0


def _tables(args: argparse.Namespace) -> dict[str, ScoreTable]:
    """The scores of each task, without the models to leave out."""
    from ..upkeep.tasks import names_one_task, tables_of

    if names_one_task(args.scores, args.task):
        table = read_scores(args.scores, args)
        tables = {table.task or "": table}
    else:
        tables = tables_of(
            args.scores, names_of(args.task) or ("*",), names_of(args.metric) or None, args.filter,
            args.range, args.lower_is_better,
        )  # fmt: skip
    out = set(names_of(args.exclude))
    if unknown := out - {m for t in tables.values() for m in t.models}:
        next(iter(tables.values())).select(sorted(unknown))  # which says what there is
    return {task: table.without(sorted(out & set(table.models))) for task, table in tables.items()}


def report(replayed: Simulation) -> list[str]:
    """Return the printed report: what was replayed, a table, and the advice."""
    s = replayed.settings
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
        c for c in _COLUMNS if any(one.get(c[1]) is not None for one in replayed.summary.values())
    ]
    rows = [["method", *(title for title, _, _ in columns)]]
    for method, one in replayed.summary.items():
        rows.append([method, *(_cell(one.get(key), form) for _, key, form in columns)])
    lines = [head, "", *_aligned(rows)]
    if "weights" in s:
        shares = ", ".join(f"{t} {w:.3g}" for t, w in s["weights"].items())
        lines.insert(0, f"{len(s['tasks'])} tasks, their weights: {shares}")
    if s["spend"] == "fixed" and len(next(iter(replayed.sweep.values()), [])) > 1:
        lines += ["", *_aligned(_sweep_rows(replayed))]
    if replayed.advice:
        lines += ["", *replayed.advice]
    return lines


def _sweep_rows(replayed: Simulation) -> list[list[str]]:
    """Mean tau, and the share of pairs decided, by number of items per model."""
    levels = [f"{p['asked_items_per_model']:g}" for p in next(iter(replayed.sweep.values()))]
    rows = [["tau, decided at", *(f"{level} items" for level in levels)]]
    for method, points in replayed.sweep.items():
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
