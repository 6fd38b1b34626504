"""`rank`: several models, in order, with few items each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from ..content import PAGE
from ..errors import CcatError, UsageError
from ..files import replace_text, safe_name
from ..journal import JOURNAL
from ..live import ranking_run
from ..live.result import state
from ..live.spec import Spec
from ..live.surfaces import add_flags, given_by_flags, starter
from ..options import OptionPlace, Values, number
from ..report import LivePage, write_report
from ..report.page import SECONDS
from ..scores.reading import YAML
from .live import Display, show
from .parsing import EXECUTOR, JSON, MODELS, Opt, Options, models_of

OPTIONS: Options = {
    "config=CONFIG_OR_RUN_DIR?": "a YAML file, or a run directory to show (default: this folder)",
    "--run_dir DIR": "run directory (default: the configuration's name + .run)",
    "--init [FILE]": Opt(
        "write a commented configuration (default: models.yaml) from --task, --model and the other "
        "flags given, and exit",
        bare="models.yaml",
    ),
    "--resume": "continue an unfinished run",
    "--retry [MODEL]": Opt(
        "with --resume: retry models that were set aside, all or the one named", bare=True
    ),
    "--yes": "skip the confirmation of a run without a limit",
    **EXECUTOR,
    **JSON,
    "--watch [SECONDS]": Opt(
        f"write an HTML page, {PAGE} in the run directory, every SECONDS ({SECONDS:g}) during the "
        "run",
        read=lambda text: number(1.0, 86_400.0).read(text, OptionPlace("--watch")),
        bare=SECONDS,
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
    r"""Rank several models on one or more tasks, stopping as soon as the order is clear.

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
      bank: suite.banks              # a suite: calibrate LOGS --task mmlu,gsm8k

      lm-eval-ccat rank --init --task T --model ...  write models.yaml
      lm-eval-ccat plan models.yaml                  what it will take; spends nothing
      lm-eval-ccat rank models.yaml                  run; the run directory is models.run
      lm-eval-ccat rank models.yaml --resume         go on after a crash or Ctrl-C
      lm-eval-ccat rank models.yaml --watch          with a live page in the run directory
      lm-eval-ccat rank models.run                   the state of a run, at any time

    exit codes: 0 every pair decided, 3 ties left, 4 partial (a model failed, or interrupted),
    2 usage, 1 error; a RUN_DIR exits with that of its run, and with 3 while it is unfinished
    (--json says `finished`)
    """
    flags, models = given_by_flags(args, "rank"), models_of(args)
    if args.init:
        _write_starter(Path(args.init), {**flags, **({"models": models} if models else {})})
        return 0
    # Flags that name a task need no file of a configuration.
    has_flags_alone = args.config is None and "tasks" in flags
    if args.config is None and not has_flags_alone and not Path(JOURNAL).exists():
        raise UsageError(
            "give a configuration file, or --task and --model; this directory holds no ranking "
            "to show"
        )
    path = Path(args.config or ".")
    if path.is_dir() and not has_flags_alone:
        # Options of a run that is only shown would be passed over in silence.
        if flags or models or args.resume:
            raise UsageError(
                f"{path} is a run directory, which is only shown; to resume it, repeat the command "
                "that began it with --resume"
            )
        result = state(path)
        show(result, args.json, sys.stdout)
        return result.exit_code
    return _run(args, None if has_flags_alone else path, flags, models)


def _run(args: argparse.Namespace, file: Path | None, flags: Values, models: list[Any]) -> int:
    """Rank by a configuration file, or by flags alone where there is none; return the exit code."""
    display = Display(json=args.json, yes=args.yes)
    config = Spec.read(*_layers(file, flags, models))
    folder = Path(args.run_dir or _usual_folder(file, config.tasks))
    if args.watch:
        display.note(f"Live page: {folder / PAGE}")
    with LivePage(folder, args.watch) if args.watch else nullcontext():
        result = ranking_run.rank(
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


def _usual_folder(file: Path | None, tasks: Sequence[str]) -> Path:
    """Return the run directory of a configuration file, or of flags that name tasks.

    Examples
    --------
    >>> [str(_usual_folder(None, [task])) for task in ("sums-v1.1", "tasks/sums.yaml")]
    ['sums-v1.1.run', 'sums.run']
    """
    if file is not None:
        return file.with_suffix(".run")
    task = tasks[0] if tasks else "run"
    # Without the ending of a file, but with the dot of a name: v1.0 and v1.1 are two tasks.
    return Path(f"{safe_name(Path(task).stem if task.endswith(YAML) else task)}.run")


def _layers(file: Path | None, flags: Values, models: list[Any]) -> tuple[Any, Any]:
    """Return the layers of the configuration: the file and the flags, or the flags and models."""
    if file is None:
        if not models:
            raise UsageError("--task needs the models: --model TYPE --model_args A=B, once each")
        return flags, {"models": models}
    if models or "tasks" in flags:
        flag = "model" if models else "task"
        raise UsageError(f"--{flag} cannot be combined with {file}; write it there")
    # Paths of the file start from its folder, but that of a flag from where the command is given.
    if include := flags.get("harness", {}).get("include_path"):
        flags["harness"]["include_path"] = str(Path(include).absolute())
    return file, flags


def _write_starter(file: Path, values: Values) -> None:
    """Write a configuration that `rank` runs as it is."""
    if file.exists():
        raise UsageError(f"{file} exists; choose another name: --init FILE")
    replace_text(file, starter(Spec.read(values).require_ranking()))
    print(f"Wrote {file}. See what it will take: lm-eval-ccat plan {file}")
