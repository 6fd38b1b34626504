"""`plan`: what a ranking takes, and what its items can show, before anything is spent."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..live import ranking_run
from ..live.surfaces import add_flags, given_by_flags
from ..options import ABOVE_0, OptionPlace
from ..report.plots import plot_power
from ..report.terminal import forecast_lines
from .live import Display
from .parsing import JSON, Opt, Options, emit, progress, warn

OPTIONS: Options = {
    "config=CONFIG?": "a YAML file of `rank`",
    "--models N": Opt("number of models, without a file (default: 2)", read=int),
    "--gap D": Opt(
        "difference of two models that is to be decided, on the metric's own scale (default: "
        "several)",
        read=lambda text: ABOVE_0.read(text, OptionPlace("--gap")),
    ),
    "-o --output SVG": "write the smallest difference by items as a chart",
    **JSON,
    "instead of a file": lambda group: add_flags(group, "plan"),
}


def plan(args: argparse.Namespace) -> int:
    """Say what a ranking takes and what its items can show, and spend nothing.

    examples:
      lm-eval-ccat plan models.yaml
      lm-eval-ccat plan --task gsm8k --models 4 --gap 0.02
      lm-eval-ccat plan --bank public
      lm-eval-ccat plan --task mmlu_pro_law --bank public --gap 0.05 -o law.svg

    The smallest difference that so many items of each model decide in 80% of rankings, and what a
    difference takes: items, tokens, dollars (by the prices in the file) and minutes, with a bank,
    with random items, and by full runs.  With a bank, rankings of two models are played with its
    own curves; without, spreads of published scores stand for yours.  `simulate` replays logs of
    your own.
    """
    flags: dict[str, Any] = given_by_flags(args, "plan")
    _require_one_source(args, flags)
    # The models are never asked. The harness's type `dummy` needs no weights and no server.
    models = [{"name": f"model {n + 1}", "model": "dummy"} for n in range(args.models or 2)]
    config = {**flags, "models": models} if args.config is None else Path(args.config)
    display = Display(json=args.json)
    with progress("rankings played") as show:
        content = ranking_run.dry_run(
            config, display, args.gap, documents=args.config is not None, on_progress=show
        )
    lines = forecast_lines(content)
    if args.output:
        path = Path(args.output)
        # What was planned is said in any case: rankings may have been played for minutes.
        try:
            chart = plot_power(content)
        except UsageError as error:
            warn(f"--output: {error}")
        else:
            files = chart.save(path.with_suffix(""), [path.suffix[1:] or "svg"])
            lines += [str(file) for file in files]
    # "+" joins the names of several tasks.
    lines.append(_next_step(args.config, flags, content["task"].split("+")))
    emit(args.json, content, lines)
    return 0


def _require_one_source(args: argparse.Namespace, flags: Mapping[str, Any]) -> None:
    """Refuse arguments that describe no run, or one twice: by a configuration file and by flags."""
    if args.config is None and not {"tasks", "bank"} & set(flags):
        raise UsageError("give a configuration file, --task, or --bank")
    if args.models is not None and args.models < 2:
        raise UsageError(
            "--models: a plan is of pairs of models, so of at least 2; one model's score is "
            "estimated by `run --adaptive`"
        )
    # The plan must be of the very run that the file describes, so no flag changes it.
    if args.config is not None and (args.models is not None or flags):
        flag = "models" if args.models is not None else next(iter(flags))
        raise UsageError(f"--{flag} cannot be combined with {args.config}; write it there")


def _next_step(config: str | None, flags: Mapping[str, Any], tasks: Sequence[str]) -> str:
    """Return the line that names the command that follows."""
    if config is not None:
        return f"Next: lm-eval-ccat rank {shlex.quote(config)}"
    words = ["--task", *(flags.get("tasks") or tasks[:1])]
    words += ["--bank", *flags["bank"]] if "bank" in flags else []
    # A public bank of many tasks: each is planned by itself.
    if "tasks" not in flags and len(tasks) > 1:
        return (
            f"Next: lm-eval-ccat plan {shlex.join(words)}, or another of these {len(tasks)} tasks"
        )
    return (
        f"Next: lm-eval-ccat rank {shlex.join(words)}, with --model and --model_args of each model"
    )
