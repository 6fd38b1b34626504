"""The commands that read scores, and how they read: score, calibrate, simulate."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from ..bank import ItemBank
from ..errors import UsageError
from ..metrics.registry import known_scale
from ..scores import ScoreTable
from ..scores.reading import Logged, Wanted
from ..shown import plural, to_draw
from ..upkeep import tables
from ..upkeep.build import bank_of, build
from ..upkeep.rescore import rescore
from ..upkeep.words import Facts, in_lines, report
from .parsing import (
    EXCLUDE,
    EXECUTOR,
    JSON,
    REQUIRED,
    Opt,
    Options,
    Run,
    emit,
    names_of,
    prints_json,
    warn,
)

# -- reading ---------------------------------------------------------------------------------------


def range_of(text: str) -> tuple[float, float]:
    """Parse ``WORST,BEST``."""
    try:
        worst, best = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not WORST,BEST, such as 0,100") from None
    if worst == best or not math.isfinite(worst - best):
        raise argparse.ArgumentTypeError(f"{text!r}: give two numbers that differ")
    return worst, best


#: How scores are read, in every command that reads logs or a table.
READING: Options = {
    "--metric M": "metric; needed where the scores hold several",
    "--task T": "task; needed where the logs hold several",
    "--filter F": "filter of the task; needed where it has several",
    "--range WORST,BEST": Opt(
        "worst and best possible score of a metric whose scale is not known, such as 0,100, or "
        "25,0 where a lower score is better; where that is known of the metric, 0,25 means 25,0",
        None,
        range_of,
    ),
}


def reading_of(args: argparse.Namespace) -> Wanted:
    """Filter and scale, as the flags of `READING` give them."""
    if not args.range:
        return Wanted(filter=args.filter)
    low, high = sorted(args.range)
    # A range that falls says so; one that rises leaves the direction to what is known.
    falls = True if args.range[0] == high else None
    return Wanted(filter=args.filter, range=(low, high), lower_is_better=falls)


def warn_of_range(args: argparse.Namespace, metric: str, higher_is_better: bool) -> None:
    """Warn where ``--range`` and what is known of a metric differ on which end is better.

    Parameters
    ----------
    args : argparse.Namespace
    metric : str
    higher_is_better : bool
        As its scores have been read.
    """
    if not args.range:
        return
    # Scores of which the file does not say what they are bear the name "score".
    (first, last), known = args.range, known_scale(metric)
    if first < last and not higher_is_better:
        warn(
            f"a lower {metric} is known to be better, so {first:g} is its best score and {last:g} "
            f"its worst: write --range {last:g},{first:g}"
        )
    elif first > last and metric != "score" and known is not None and known.higher_is_better:
        warn(
            f"a higher {metric} is known to be better, but --range {first:g},{last:g} makes "
            f"{last:g} its best score: write --range {last:g},{first:g} if that is not meant"
        )


def read_scores(path: str, args: argparse.Namespace) -> ScoreTable:
    """Read a score table or logs as the arguments say, showing progress on long reads."""
    with progress("reading logs") as show:
        wanted = replace(reading_of(args), metric=args.metric, task=args.task)
        table = ScoreTable.read(path, **vars(wanted), on_progress=show)
    warn_of_range(args, table.metric, table.scale.higher_is_better)
    return table


def scores_for(bank: ItemBank, path: str, partial: bool = False) -> ScoreTable:
    """Read scores of a bank's metric, task and filter, on its scale."""
    if not Path(path).exists():
        raise UsageError(f"{path}: no such file or directory of scores")
    with progress("reading logs") as show:
        return tables.scores_for(bank, path, partial=partial, on_progress=show)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show progress on a terminal; yield None where standard error is not one.

    Nothing refreshes by itself: no thread of the display may be alive when processes are forked.
    """
    if not sys.stderr.isatty():
        yield None
        return
    console = Console(file=to_draw(sys.stderr))
    with Progress(console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, refresh=True)

        yield show


# -- score -----------------------------------------------------------------------------------------


_OF_RESCORE = ("task", "filter", "source_field", "judge", "model")


SCORE: Options = {
    "METRIC": "comet, judge, bertscore, rouge1, rouge2, rougeL, rougeLsum, bleu, chrf, chrf++ or "
    "ter; with one of sacrebleu's tokenizers as bleu@zh",
    "LOGS?": "harness logs: a folder or a file",
    "-o --output TABLE": "score table to write, .parquet or .csv",
    "--task T": "needed where the logs hold several",
    "--filter F": "needed where the task has several",
    "--source_field FIELD": "comet: the documents' field with the source text, such as "
    "translation.de (default: source_text, source or src)",
    "--setup [DIR]": Opt(
        "comet: make its environment, in DIR or the user's cache, and stop there", None, None, ""
    ),
    "--model NAME": "comet: model name or checkpoint",
    "--judge FILE": "judge: its YAML file",
}


def score(args: argparse.Namespace) -> int:
    """Score the answers in harness logs (run with --log_samples) by a metric that the task did not
    have, and write a score table.

    examples:
      # COMET needs numpy < 2 and transformers < 5, so it lives in an environment of its own
      lm-eval-ccat score comet --setup
      lm-eval-ccat score comet logs/ --task ccat_flores200_tur_eng -o comet.parquet

      # a judge's ratings of logged answers
      lm-eval-ccat score judge logs/ --task ccat_truthfulqa_gen --judge judge.yaml -o judge.parquet

      # use the table like any other
      lm-eval-ccat calibrate comet.parquet --metric comet -o flores.comet.bank.json
    """
    if args.setup is not None:
        return _setup(args)
    if args.logs is None or args.output is None:
        raise UsageError("name the logs to score and the table to write (LOGS -o TABLE)")
    output = Path(args.output)
    if output.suffix not in (".parquet", ".csv"):
        raise UsageError(f"a score table is a .parquet or a .csv file, not {output.name}")
    options = {name: getattr(args, name) for name in _OF_RESCORE}
    table = rescore(
        args.logs, args.metric, **options, note=lambda text: print(text, file=sys.stderr)
    )
    warn(*table.warnings)
    table.write(output)
    print(f"{output}: {table.metric} ({table.scale.describe()}) of {len(table.models)} models")
    return 0


def _setup(args: argparse.Namespace) -> int:
    """Make the environment that COMET needs."""
    from ..harness.comet import VARIABLE, environment, make_environment

    if args.metric != "comet":
        raise UsageError(f"{args.metric} needs no environment of its own; --setup is for comet")
    folder = Path(args.setup) if args.setup else environment()
    print(f"making {folder}; this downloads torch and takes minutes", file=sys.stderr)
    python = make_environment(folder)
    print(python)
    if args.setup:
        print(f"set {VARIABLE}={python}", file=sys.stderr)
    return 0


# -- calibrate -------------------------------------------------------------------------------------


CALIBRATE: Options = {
    "scores=LOGS_OR_TABLE*": "harness outputs (run with --log_samples), data sets on the hub "
    "(hub:OWNER/NAME), or a .parquet or .csv table; may be left out with --borrow",
    "--borrow BANK_OR_SCORES...": Opt(
        "for a task that few or no models have run: borrow the items' parameters from at least "
        "three tasks on the same documents (logs, tables, or banks made with --keep_scores)",
        (),
    ),
    **READING,
    "--method NAME": Opt(
        "'default', 'paper' (exactly the paper) or another installed one", "default"
    ),
    "--scale_items": "scale each item's scores to [0, 1] over the calibration models first, as the "
    "paper scales BioLaySumm; the bank keeps the ends",
    **EXCLUDE,
    "--hash_names": "write hashes in place of model names and paths into the bank",
    "--keep_scores": "keep the scores in the bank; it grows, and reveals them",
    **JSON,
    "-o --output BANK": Opt("file to write; a folder for several tasks", REQUIRED),
}


def calibrate(args: argparse.Namespace) -> int:
    r"""Make an item bank from the scores of several models, and say whether to trust it.

    example:
      lm-eval-ccat calibrate harness_logs/ --task my_task --metric bleu -o my_task.bank.json
      lm-eval-ccat calibrate scores.parquet --metric mqm --range 25,0 -o mqm.bank.json
      lm-eval-ccat calibrate harness_logs/ --task mmlu --metric acc -o mmlu.banks
      lm-eval-ccat calibrate hub:open-llm-leaderboard/A__x-details \
          hub:open-llm-leaderboard/B__y-details --metric '*' -o board.banks
      lm-eval-ccat calibrate two_runs/ --task en-uk --borrow other_pairs/ --metric chrf \
          -o uk.bank.json

    Several tasks (a table with several, a group such as mmlu, a,b, or 'mmlu_*') make a suite: a
    folder with a bank per task and metric.  Every command that takes a bank takes a suite.
    """
    from ..integrations.hub import logs_of

    if not (args.scores or args.borrow):
        raise UsageError("no scores: name logs or a table, or tasks to --borrow from")
    with logs_of(args.scores) as place:
        args.scores = None if place is None else str(place)
        several = set(args.metric or "") & set("*?,")
        one = place is None or (not several and tables.names_one_task(args.scores, args.task))
        return _one_bank(args) if one else _suite_of_banks(args)


def _how(args: argparse.Namespace) -> dict[str, Any]:
    """How every bank is made."""
    named = ("method", "borrow", "hash_names", "keep_scores", "scale_items")
    return {**{n: getattr(args, n) for n in named}, "exclude": names_of(args.exclude)}


def _one_bank(args: argparse.Namespace) -> int:
    table, how = None, _how(args)
    if args.scores is not None:
        table = read_scores(args.scores, args)
        if set(how["exclude"]) >= set(table.models):
            raise UsageError("--exclude leaves no model")
        if how["exclude"]:
            table.select(how["exclude"])  # which says what there is
    wanted = replace(reading_of(args), metric=args.metric, task=args.task)
    table, bank = bank_of(table, wanted, **how)
    bank.save(args.output)
    facts = report(table, bank)
    bank_line = f"{args.output} (sha256 {bank.short_hash}); --json shows every figure"
    lines = [*in_lines(facts), ("bank", bank_line)]
    width = max(len(name) for name, _ in lines)
    emit(args.json, facts, (f"{name:<{width}}  {text}" for name, text in lines))
    warn(*facts["warnings"])
    return 0


def _suite_of_banks(args: argparse.Namespace) -> int:
    facts: dict[str, dict[str, Facts]] = {}
    lacking: list[str] = []

    def show(outcome: Logged, bank: ItemBank | str, report: Facts) -> None:
        name = f"{outcome.task} {outcome.metric}"
        full = f"{name},{outcome.filter}" if outcome.filter else name
        if isinstance(bank, str):
            lacking.append(name)
            warn(f"{full}: no bank: {bank}")
            return
        facts.setdefault(outcome.task or "", {})[outcome.metric] = report
        warn_of_range(args, bank.metric, bank.scale.higher_is_better)
        if not prints_json(args.json):
            items = f"{report['items_kept']} of {report['items']} items kept"
            models = f"{len(report['models'])} models; {report['trust']}"
            print(f"{full}: {items}, {models}", flush=True)

    tasks, metrics = names_of(args.task) or ("*",), names_of(args.metric) or None
    suite = build(args.scores, tasks, metrics, reading_of(args), show, **_how(args))
    suite.save(args.output)
    banks = f"{plural(len(list(suite.banks())), 'bank')} of {len(suite)} tasks"
    content = {"tasks": facts, "without_bank": lacking}
    emit(args.json, content, [f"{args.output}: {banks}"])
    return 3 if lacking else 0


# -- simulate --------------------------------------------------------------------------------------


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


SIMULATE: Options = {
    "--scores PATH": Opt(
        "a score table (.parquet, .csv) or a directory of harness outputs", REQUIRED
    ),
    **READING,
    "--methods A,B": "by commas (default: default,paper,random,common,limit,static,fixed)",
    "--holdout N": Opt("models per fold", 4),
    "--folds N": Opt("hold-out sets", 20),
    "--items_per_model N": Opt(
        "budget in items per model, or 'none' to let the ranker stop by itself", 20.0, _item_count
    ),
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
    from ..simulation.run import DEFAULT_METHODS

    options = {name: getattr(args, name) for name in _TAKEN}
    methods = names_of(args.methods) or DEFAULT_METHODS
    with executing(args.executor):
        scores = _tables(args)
        with progress(f"replaying {args.folds} folds") as show:
            replayed = simulate(scores, methods, levels=None, on_progress=show, **options)
    emit(args.json, replayed.to_dict(), [replayed.to_text()])
    warn(*replayed.warnings)
    return 0


def _tables(args: argparse.Namespace) -> dict[str, ScoreTable]:
    """The scores of each task, without the models to leave out."""
    if tables.names_one_task(args.scores, args.task):
        table = read_scores(args.scores, args)
        of_task = {table.task or "": table}
    else:
        tasks, metrics = names_of(args.task) or ("*",), names_of(args.metric) or None
        of_task = tables.tables_of(args.scores, tasks, metrics, reading_of(args))
        for table in of_task.values():
            warn_of_range(args, table.metric, table.scale.higher_is_better)
    out = set(names_of(args.exclude))
    if unknown := out - {m for table in of_task.values() for m in table.models}:
        next(iter(of_task.values())).select(sorted(unknown))  # which says what there is
    return {task: table.without(out & set(table.models)) for task, table in of_task.items()}


COMMANDS: dict[str, tuple[Run, Options]] = {
    "score": (score, SCORE),
    "calibrate": (calibrate, CALIBRATE),
    "simulate": (simulate, SIMULATE),
}
