"""The commands that run live: rank, compare, complete, demo."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from ..errors import CcatError, UsageError
from ..files import replace_text, safe_name
from ..live import comparison, ranking
from ..live.result import Result, state
from ..live.spec import Spec, content_of
from ..live.surfaces import add_flags, given_by_flags, starter
from ..report import LivePage, write_report
from ..report.plain import format_of, lines
from ..report.terminal import Progress, forecast_lines, print_result
from ..runs.store import stored
from ..shown import plural, to_draw
from .parsing import (
    EXECUTOR,
    JSON,
    MODELS,
    Opt,
    Options,
    Run,
    emit,
    models_of,
    prints_json,
    seconds,
    warn,
    write_file,
)
from .removed import refuse_removed_keys
from .scores import READING, reading_of, warn_of_range

# -- what they show -------------------------------------------------------------------------------


#: Columns of a file or a pipe, which no edge folds.
_UNBOUND = 10_000


class Display(Progress):
    """Progress of a run on the command line.

    Parameters
    ----------
    quiet : bool
        As `Progress` has it.
    json : str or None
        Where the result is written as JSON, as ``--json`` says.
    yes : bool
        Answer what is asked before money is spent.
    """

    def __init__(self, quiet: bool = False, json: str | None = None, yes: bool = False) -> None:
        super().__init__(quiet)
        self.json = json
        self.yes = yes
        # What tasks and models print goes to standard error while the ranking runs.
        self._out = sys.stdout

    def confirm(self, question: str) -> bool:
        """Ask the person; without a terminal nobody is there to answer."""
        if self.yes:
            return True
        if not sys.stdin.isatty():
            raise UsageError(
                f"{question.removesuffix(' Start?')} Give a limit (--budget_usd X), or --yes to "
                "start without one"
            )
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def finished(self, result: Result) -> None:
        """Print the result."""
        if prints_json(self.json):  # else the printed result has them
            for warning in result.warnings:
                self.warn(warning)
        show(result, self.json, self._out)


def show(result: Result, target: str | None, out: TextIO) -> None:
    """Print a result or the state of a run, or write it where ``--json`` says."""
    content = result.content
    emit(target, content, out=out)
    if prints_json(target):
        return
    console = Console(file=to_draw(out), highlight=False)
    if not console.is_terminal:
        console.width = _UNBOUND
    print_result(console, content)
    if content["interrupted"] and result.run_dir is not None:
        print(f"Continue with --resume; all answers are kept in {result.run_dir}.", file=out)
    if not content.get("finished", True):
        asked = plural(len(content["in_flight"]), "document")
        print(f"Not finished; {asked} unanswered.", file=out)


# -- rank ------------------------------------------------------------------------------------------


RANK: Options = {
    "config=CONFIG_OR_RUN_DIR?": "a YAML file, or a run directory to look into (default: this one)",
    "--run_dir DIR": "run directory (default: the configuration's name + .run); s3://BUCKET/NAME "
    "and the like are copies of a local folder NAME",
    "--init [FILE]": Opt(
        "write a commented configuration (default: models.yaml) from the flags given or from "
        "questions, and end",
        None,
        None,
        "models.yaml",
    ),
    "--resume": "continue an unfinished run",
    "--retry [MODEL]": Opt(
        "with --resume: retry models that were set aside, all or the one named", None, None, True
    ),
    "--dry_run": "print expected items, cost and time, and end",
    "--probe": "with --dry_run: also ask each model one document; exit code 1 where one cannot",
    "--yes": "skip the confirmation of a run without a limit",
    **EXECUTOR,
    **JSON,
    "--watch [SECONDS]": Opt(
        "write an HTML page, report.html in the run directory, every SECONDS (10) during the run",
        None,
        seconds,
        10.0,
    ),
    "instead of models: in a YAML file": {
        **MODELS,
        "--name NAME,": "its name in results; once per model",
        "--price PART=X...,": "what it costs: input=0.4 output=1.6 ($ per million tokens), "
        "item=0.01, hour=2.5; once per model, or once for all",
    },
    "options of the run, in place of the file's": partial(add_flags, command="rank"),
}


def rank(args: argparse.Namespace) -> int:
    r"""Rank several models on one task, stopping as soon as the order is clear.

    without any preparation:
      lm-eval-ccat rank --task gsm8k --model hf --model_args pretrained=a \
          --model hf --model_args pretrained=b --model hf --model_args pretrained=c

    example (models.yaml):
      task: my_task
      bank: my_task.bank.json        # left out: the same random documents for all models
      confidence: 0.95
      budget: {items: 80}            # or {usd: 2.5}, or {seconds: 600}
      models:
        - {name: a, model: local-completions, model_args: {model: a, base_url: "http://..."},
           price: {input: 0.4, output: 1.6}}
        - {name: b, model: hf, model_args: {pretrained: ./b}, price: {item: 0.001}}
      harness: {num_fewshot: 0}

    several tasks are ranked together by their weighted mean:
      tasks: [mmlu, gsm8k]           # tasks and groups; or task: mmlu
      weights: equal                 # or documents, or {mmlu: 2, gsm8k: 1}
      bank: board.banks              # a suite: calibrate LOGS --task mmlu,gsm8k

      lm-eval-ccat rank --init                       write models.yaml; asks what it needs
      lm-eval-ccat rank models.yaml --dry_run        what it will take; spends nothing
      lm-eval-ccat rank models.yaml                  run; the run directory is models.run
      lm-eval-ccat rank models.yaml --resume         go on after a crash or Ctrl-C
      lm-eval-ccat rank models.yaml --watch          with a live page in the run directory
      lm-eval-ccat rank models.run                   the state of a run, at any time

    exit codes: 0 every pair decided, 3 ties left, 4 partial (a model failed, or interrupted),
    2 usage, 1 error; for RUN_DIR the same, 3 also while the ranking is not finished (--json says
    `finished`)
    """
    flags, models = given_by_flags(args, "rank"), models_of(args)
    if args.init:
        _write_starter(Path(args.init), {**flags, **({"models": models} if models else {})})
        return 0
    written = args.config is None and "tasks" in flags
    if args.config is None and not written and not Path("journal.jsonl").exists():
        raise UsageError(
            "give a configuration file, or --task and --model; this directory holds no ranking "
            "to show"
        )
    path = Path(args.config or ".")
    if path.is_dir() and not written:
        result = state(path)
        show(result, args.json, sys.stdout)
        return result.exit_code
    display = Display(json=args.json, yes=args.yes)
    stated = _stated(None if written else path, flags, models)
    config = Spec.read(*stated, warn=display.warn)
    if written:
        path = Path(safe_name(Path(config.tasks[0]).stem if config.tasks else "run"))
    if args.probe and not args.dry_run:
        raise UsageError("--probe goes with --dry_run; a run asks each model one request first")
    if args.dry_run:
        content = ranking.dry_run(config, display, probe=args.probe)
        emit(args.json, content, forecast_lines(content))
        return 0 if all(answer["ok"] for answer in content.get("probe", {}).values()) else 1
    with stored(args.run_dir or f"{path.with_suffix('')}.run", args.resume, display.warn) as folder:
        if args.watch:
            display.note(f"Live page: {folder / 'report.html'}")
        with LivePage(folder, args.watch) if args.watch else nullcontext():
            result = ranking.rank(
                config,
                run_dir=folder,
                resume=args.resume,
                retry=args.retry or False,
                executor=args.executor,
                observer=display,
            )
        if args.watch:
            try:
                print(f"Report: {write_report(folder)}", file=sys.stderr)
            except CcatError as error:  # the ranking itself is done and kept
                print(f"warning: no report: {error}", file=sys.stderr)
    return result.exit_code


def _stated(file: Path | None, flags: dict[str, Any], models: list[Any]) -> tuple[Any, Any]:
    """What is run: a file with the flags over it, or the flags and the models that they write."""
    if file is None:
        if not models:
            raise UsageError("--task needs the models: --model TYPE --model_args A=B, once each")
        return flags, {"models": models}
    if models or "tasks" in flags:
        flag = "model" if models else "task"
        raise UsageError(f"--{flag} cannot be combined with {file}; write it there")
    refuse_removed_keys(content_of(file))
    if include := flags.get("harness", {}).get("include_path"):
        flags["harness"]["include_path"] = str(Path(include).absolute())
    return file, flags


# -- --init ---------------------------------------------------------------------------------------


def _write_starter(file: Path, values: dict[str, Any]) -> None:
    """Write a configuration that `rank` runs as it is; ask for what the flags do not give."""
    if file.exists():
        raise UsageError(f"{file} exists; choose another name: --init FILE")
    if not (values.get("tasks") and values.get("models")):
        if not sys.stdin.isatty():
            raise UsageError(
                "--init needs --task and the models (--model TYPE --model_args A=B, once each), "
                "or a terminal to ask for them"
            )
        _ask(values)
    replace_text(file, starter(Spec.read(values).require_ranking()))
    print(f"Wrote {file}. See what it will take: lm-eval-ccat rank {file} --dry_run")


def _ask(values: dict[str, Any]) -> None:
    def answer(question: str) -> str:
        print(f"{question}: ", end="", file=sys.stderr, flush=True)
        if not (line := sys.stdin.readline()):
            raise UsageError("--init: the input ended before the last question")
        return line.strip()

    while not values.get("tasks"):
        values["tasks"] = answer("Task (a name of lm_eval's, or a YAML file)")
    models = values["models"] = list(values.get("models") or [])
    while kind := answer(
        f"Model {len(models) + 1}, its type (hf, vllm, local-completions, ...)"
        + ("; Enter ends the list" if len(models) > 1 else "")
    ):
        models.append({"model": kind, "model_args": answer("  its arguments (pretrained=PATH)")})
    if not {"budget", "max_items"} & values.keys() and (
        most := answer("Maximum number of answers in all (Enter: no maximum)")
    ):
        values["budget"] = {"items": int(most) if most.isdigit() else most}


# -- compare ---------------------------------------------------------------------------------------


_SIDE = "logs, a score table, an adaptive run, or a YAML file of `rank` with one model"
COMPARE: Options = {
    "a=A?": f"the baseline: {_SIDE}",
    "b=B?": "the candidate: the same",
    "--models A,B": "which models, if the logs hold several",
    "--filter F": "filter of the task (default: all in common)",
    "--range WORST,BEST": READING["--range WORST,BEST"],
    "--margin D": Opt("largest loss to accept, on the metric's own scale", 0.0),
    "--question population|benchmark": "which question logs decide: about documents like these, or "
    "about these documents; both answers are printed",
    "--by FIELD": "also compare each group of documents",
    "--cluster FIELD": "treat documents with equal values as one cluster",
    **JSON,
    "-o --output FILE,": Opt(
        "also write, by its ending, a comment for a pull request (.md), a test report (.xml) or a "
        "page (.html); once per file",
        [],
    ),
    "options of the comparison": partial(add_flags, command="compare"),
    "live models, asked random documents of --task until the answer is known": {
        **MODELS,
        "--run_dir DIR": "where the answers are kept",
    },
}


def compare(args: argparse.Namespace) -> int:
    r"""Compare a candidate with a baseline on the documents that both have.

    examples:
      lm-eval-ccat compare logs/base logs/candidate --metric exact_match --margin 0.01
      lm-eval-ccat compare logs/ --models base,candidate --by subject
      lm-eval-ccat compare logs/base --task gsm8k --model hf --model_args pretrained=new \
          --margin 0.02 --max_items 500
      lm-eval-ccat compare logs/base candidate.yaml -o comment.md -o compare.xml

    Exit code 0: the candidate is not worse by more than the margin. 5: it is worse.
    3: not known. docs/howto/recipes.md has a workflow for CI.
    """
    outputs = [(Path(name), format_of(Path(name))) for name in args.output]
    sides = [*(side for side in (args.a, args.b) if side is not None), *models_of(args)]
    names = (args.models or ",").split(",")
    if len(names) != 2:
        raise UsageError(f"--models {args.models!r} is not BASELINE,CANDIDATE")
    if len(sides) == 1 and all(names):
        sides *= 2
    if len(sides) != 2:
        raise UsageError(
            "compare takes two sides, logs or runs (A B) or live models (--model), or one that "
            f"holds both models (A --models BASELINE,CANDIDATE), not {len(sides)}"
        )
    (a, b), wanted = sides, reading_of(args)
    compared = comparison.compare(
        a,
        b,
        margin=args.margin,
        question=args.question,
        models=(names[0] or None, names[1] or None),
        by=args.by,
        cluster=args.cluster,
        settings=given_by_flags(args, "compare"),
        run_dir=args.run_dir,
        observer=Display(quiet=True),
        filter=wanted.filter,
        range=wanted.range,
        lower_is_better=wanted.lower_is_better,
    )
    for path, text in outputs:
        write_file(path, text(compared))
    emit(args.json, compared.to_dict(), lines(compared))
    for one in compared.outcomes:
        warn_of_range(args, one.metric, one.higher_is_better)
    warn(*compared.warnings)
    return compared.exit_code


# -- complete --------------------------------------------------------------------------------------


COMPLETE: Options = {
    "RUN_DIR": "run directory of `rank`, or output folder of `run --adaptive --log_samples`",
    "--name NAME,": "model to complete (default: all)",
    "--config FILE": "the run's YAML file, if it holds credentials",
    "--include_path DIR,": Opt(
        "folder of task configurations, for an output folder of `run --adaptive`", []
    ),
    **JSON,
}


def complete(args: argparse.Namespace) -> int:
    """Ask a ranking's models the remaining documents; score all as lm_eval does.

    example:
      lm-eval-ccat rank models.yaml                  some documents decide the order
      lm-eval-ccat complete models.run --name best   all documents of the winner
      lm-eval-ccat complete logs                     of the models in the output of `run --adaptive`

    No document is asked twice. RUN_DIR/full (for a folder of logs: logs.run/full) then holds what
    lm_eval gives for the same answers. If interrupted, run the command again to continue.
    """
    from ..live.complete import FOLDER, complete, directory_of

    completed = complete(
        args.run_dir, args.name, args.config, Display(quiet=True), include_path=args.include_path
    )
    content = {
        name: {
            task: {one.key: one.estimate[0] for one in (run, *run.beside)}
            for task, run in runs.items()
        }
        for name, runs in completed.items()
    }
    lines = [
        f"{name}, all documents of {task}: "
        + ", ".join(f"{key} = {score:.4g}" for key, score in scores.items())
        for name, tasks in content.items()
        for task, scores in tasks.items()
    ]
    where = f"Results and samples files are in {directory_of(args.run_dir)}/{FOLDER}."
    emit(args.json, content, [*lines, where])
    return 0


# -- demo ------------------------------------------------------------------------------------------


_THE_SAME = """\
The same for your own models:
  lm-eval-ccat check my_task                                     which metrics can be used
  lm-eval-ccat run --model hf --model_args pretrained=... --tasks my_task \\
      --log_samples --output_path logs                           a full run of each known model
  lm-eval-ccat calibrate logs --task my_task --metric bleu -o my_task.bank.json
  lm-eval-ccat rank models.yaml                                  the new models, adaptively
What was written here can serve as an example:
  {config}
  {bank}
  {run_dir}
"""


DEMO: Options = {
    "--dir DIR": Opt("where to write", "ccat_demo"),
    "--documents N": Opt("documents, 100 to 5000; fewer decide fewer pairs", 800),
}


def demo(args: argparse.Namespace) -> int:
    """Calibrate on some systems, rank others adaptively, compare with the truth.

    example:
      lm-eval-ccat demo
      lm-eval-ccat demo --dir my_demo --documents 600

    It needs no network, no weights and under two minutes. Exit codes: 0 every
    decided pair agrees with the full runs, 1 one does not, 2 usage.
    """
    from ..demo.story import demo

    started, say = time.monotonic(), partial(print, flush=True)
    # Its dollars are play money.
    shown = demo(args.dir, args.documents, say=say, observer=Display(yes=True))
    say(f"\nIt took {time.monotonic() - started:.0f} s.\n")
    say(_THE_SAME.format(config=shown.config, bank=shown.bank, run_dir=shown.run_dir))
    return 1 if shown.wrong else 0


COMMANDS: dict[str, tuple[Run, Options]] = {
    "rank": (rank, RANK),
    "compare": (compare, COMPARE),
    "complete": (complete, COMPLETE),
    "demo": (demo, DEMO),
}
