"""`simulate`: a replay of logged scores."""

from __future__ import annotations

import argparse
from typing import Any

from ..options import ABOVE_0, OptionPlace
from ..report.following import after_simulation
from ..scores import ScoreTable
from ..simulation.simulation import DEFAULT_METHODS
from ..upkeep import score_tables
from .parsing import (
    EXCLUDE,
    EXECUTOR,
    JSON,
    READING,
    REQUIRED,
    Opt,
    Options,
    doubts_of_range,
    emit,
    names_of,
    prints_json,
    progress,
    read_scores,
    reading_of,
    warn,
)


def _item_count(text: str) -> Any:
    """Return the number of items per model; None for the word that means no limit."""
    return None if text == "none" else ABOVE_0.read(text, OptionPlace("--items_per_model"))


OPTIONS: Options = {
    "--scores PATH": Opt(
        "a score table (.parquet, .csv) or a directory of harness outputs", REQUIRED
    ),
    **READING,
    "--methods A,B": f"methods to replay (default: {','.join(DEFAULT_METHODS)})",
    "--holdout N": Opt("models per fold", 4),
    "--folds N": Opt("hold-out sets", 20),
    "--items_per_model N": Opt(
        "budget in items per model, or 'none' to let the ranker stop by itself", 20.0, _item_count
    ),
    "--seed N": Opt("seed of the partitions", 0),
    "--spend budget|fixed": "'fixed': every method asks the same number of items per model, at "
    "equal prices, with one look and no early stop",
    "--kind random|frontier|family": "hold out any models, the best third (calibrating below it), "
    "or whole families",
    **EXCLUDE,
    **EXECUTOR,
    **JSON,
}
#: Options that `simulate` takes as arguments of the same name.
_TAKEN = ("holdout", "folds", "items_per_model", "seed", "spend", "kind")


def simulate(args: argparse.Namespace) -> int:
    r"""Replay logged scores through the ranker that live runs use, and compare it with baselines at
    equal cost.

    example:
      lm-eval-ccat simulate --scores scores.parquet --metric bleu --json out.json
      lm-eval-ccat simulate --scores harness_logs/ --task my_task --metric exact_match \
          --methods default,paper,common --holdout 4 --folds 20 --items_per_model 20

    Models are held out in turn, the others calibrate, and every method ranks the held-out ones
    at equal cost. Several tasks (all of the scores, or --task GROUP or A,B) are ranked by their
    weighted mean. A mean tau of 1 is the true order every time; docs/howto/simulate.md explains
    each column.
    """
    from ..cluster import executing
    from ..simulation import simulate

    options = {name: getattr(args, name) for name in _TAKEN}
    methods = names_of(args.methods) or DEFAULT_METHODS
    with executing(args.executor):
        scores = _tables(args)
        with progress(f"replaying {args.folds} folds") as show:
            # `lengths=None`: at other numbers of items per model, too, for the advice in the text.
            replayed = simulate(scores, methods, lengths=None, on_progress=show, **options)
    file = None if prints_json(args.json) else args.json
    scale = ",".join(f"{end:g}" for end in args.range or ())
    next_step = after_simulation(
        args.scores, file, task=args.task, metric=args.metric, filter=args.filter, range=scale
    )
    emit(args.json, replayed.to_dict(), [replayed.to_text(), f"\n{next_step}"])
    warn(*replayed.warnings)
    return 0


def _tables(args: argparse.Namespace) -> dict[str, ScoreTable]:
    """Return the scores of each task without the models of ``--exclude``."""
    if score_tables.names_one_task(args.scores, args.task):
        table = read_scores(args.scores, args)
        table_of = {table.task or "": table}
    else:
        tasks, metrics = names_of(args.task) or ("*",), names_of(args.metric) or None
        table_of = score_tables.tables_of(args.scores, tasks, metrics, reading_of(args))
        for table in table_of.values():
            warn(*doubts_of_range(args, table.metric, table.scale.higher_is_better))
    excluded = set(names_of(args.exclude))
    if unknown := excluded - {model for table in table_of.values() for model in table.models}:
        next(iter(table_of.values())).select(sorted(unknown))  # its error lists the models
    return {task: table.without(excluded & set(table.models)) for task, table in table_of.items()}
