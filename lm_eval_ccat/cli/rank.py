"""``lm-eval-ccat rank``: several models, one task, a few items, and how sure the order is."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ..errors import CcatError, UsageError
from ..files import safe_name
from ..live.surfaces import add_flags, given_by_flags
from .entries import MODELS, models_of
from .parsing import (
    EXECUTOR,
    JSON,
    Opt,
    Options,
    add_command,
    add_options,
    prints_json,
    seconds,
    write_json,
)  # fmt: skip
from .removed import refuse_removed_keys

EPILOG = """\
without any preparation:
  lm-eval-ccat rank --task gsm8k --model hf --model_args pretrained=a \\
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


OPTIONS: Options = {
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
}
_MODELS: Options = {
    **MODELS,
    "--name NAME,": "its name in results; once per model",
    "--price PART=X...,": "what it costs: input=0.4 output=1.6 ($ per million tokens), item=0.01, "
    "hour=2.5; once per model, or once for all",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``rank`` to the command line."""
    what = "Rank several models on one task, stopping as soon as the order is clear."
    parser = add_command(subparsers, "rank", run, OPTIONS, what, EPILOG)
    add_options(parser.add_argument_group("instead of models: in a YAML file"), _MODELS)
    add_flags(parser.add_argument_group("options of the run, in place of the file's"), "rank")


def run(args: argparse.Namespace) -> int:
    """Run, resume, forecast or show a ranking."""
    from ..live.ranking import dry_run, rank
    from ..live.spec import Spec, content_of
    from ..report.forecast import forecast_lines
    from ..runs.store import stored
    from .live import Display, show

    flags = given_by_flags(args, "rank")
    models = models_of(args)
    if args.init:
        from .rank_init import write_starter

        write_starter(Path(args.init), {**flags, **({"models": models} if models else {})})
        return 0
    written = args.config is None and "tasks" in flags
    if args.config is None and not written and not Path("journal.jsonl").exists():
        raise UsageError(
            "give a configuration file, or --task and --model; this directory holds no ranking "
            "to show"
        )
    path = Path(args.config or ".")
    if path.is_dir() and not written:
        from ..live.result import state

        result = state(path)
        show(result, args.json, sys.stdout)
        return result.exit_code
    display = Display(json=args.json, yes=args.yes)
    if written:
        if not models:
            raise UsageError("--task needs the models: --model TYPE --model_args A=B, once each")
        config = Spec.read({**flags, "models": models}, warn=display.warn)
        path = Path(safe_name(Path(config.tasks[0]).stem if config.tasks else "run"))
    else:
        if models or "tasks" in flags:
            flag = "model" if models else "task"
            raise UsageError(f"--{flag} cannot be combined with {path}; write it there")
        refuse_removed_keys(content_of(path))
        if "include_path" in flags.get("harness", {}):
            flags["harness"]["include_path"] = str(
                Path(flags["harness"]["include_path"]).absolute()
            )
        config = Spec.read(path, flags, warn=display.warn)
    run_dir = args.run_dir or f"{path.with_suffix('')}.run"
    if args.probe and not args.dry_run:
        raise UsageError("--probe goes with --dry_run; a run asks each model one request first")
    if args.dry_run:
        content = dry_run(config, display, probe=args.probe)
        write_json(args.json, content)
        if not prints_json(args.json):
            print("\n".join(forecast_lines(content)))
        return 0 if all(answer["ok"] for answer in content.get("probe", {}).values()) else 1
    with stored(run_dir, args.resume, display.warn) as folder:
        with _live_page(folder, args.watch, display):
            result = rank(
                config,
                run_dir=folder,
                resume=args.resume,
                retry=args.retry or False,
                executor=args.executor,
                observer=display,
            )
        if args.watch:
            _report(folder)
    return result.exit_code


def _live_page(folder: Path, seconds: float | None, display: Any) -> AbstractContextManager[Any]:
    if seconds is None:
        return nullcontext()
    from ..report import LivePage

    display.note(f"Live page: {folder / 'report.html'}")
    return LivePage(folder, seconds)


def _report(folder: Path) -> None:
    from ..report import write_report

    try:
        print(f"Report: {write_report(folder)}", file=sys.stderr)
    except CcatError as error:  # the ranking itself is done and kept
        print(f"warning: no report: {error}", file=sys.stderr)
