"""``lm-eval-ccat rank``: several models, one task, a few items, and how sure the order is."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ..errors import CcatError, UsageError
from ..files import safe_name
from .parsing import add_executor, add_json, add_watch, prints_json, write_json

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

  lm-eval-ccat rank models.yaml --dry_run        what it may take, before anything is spent
  lm-eval-ccat rank models.yaml                  run; the run directory is models.run
  lm-eval-ccat rank models.yaml --resume         go on after a crash or Ctrl-C
  lm-eval-ccat rank models.yaml --watch          with a page in the run directory that follows it
  lm-eval-ccat rank models.run                   the state of a run, at any time

exit codes: 0 every pair decided, 3 ties left, 4 partial (a model failed, or interrupted),
2 usage, 1 error; for RUN_DIR the same, 3 also while the ranking is not finished (--json says
`finished`)
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``rank`` to the command line."""
    parser = subparsers.add_parser(
        "rank",
        help="rank several models on one task with few items",
        description="Rank several models on one task, stopping as soon as the order is clear.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "config",
        metavar="CONFIG_OR_RUN_DIR",
        nargs="?",
        help="a YAML file, or a run directory to look into (default: the one that you are in)",
    )
    plain = parser.add_argument_group("instead of a YAML file")
    plain.add_argument("--task", metavar="TASK", help="task, group, list a,b or YAML file")
    plain.add_argument(
        "--model", action="append", metavar="TYPE", help="model type of lm_eval; once per model"
    )
    plain.add_argument(
        "--model_args", action="append", metavar="A=B,C=D", help="its arguments; once per --model"
    )
    plain.add_argument(
        "--name", action="append", metavar="NAME", help="its name in the ranking; once per --model"
    )
    plain.add_argument(
        "--metric",
        action="append",
        metavar="METRIC[=WEIGHT]",
        help="metric to rank by; several times for a weighted sum, weight 0 to report only; "
        "replaces metrics:",
    )
    plain.add_argument(
        "--weights",
        metavar="W",
        help="of several tasks: documents, equal, or a weight per task or group, a=2,b=1; replaces "
        "weights:",
    )
    plain.add_argument("--include_path", metavar="DIR", help="folder of task configurations")
    plain.add_argument("--num_fewshot", type=int, metavar="N", help="few-shot examples")
    plain.add_argument(
        "--apply_chat_template", action="store_true", help="prompts by the models' chat templates"
    )
    parser.add_argument(
        "--run_dir", help="run directory (default: the configuration's name + .run)"
    )
    parser.add_argument("--resume", action="store_true", help="go on with an unfinished run")
    parser.add_argument(
        "--retry",
        nargs="?",
        const=True,
        default=False,
        metavar="MODEL",
        help="with --resume: retry models that were set aside, all or the one named",
    )
    parser.add_argument(
        "--fail_on_empty",
        type=float,
        metavar="SHARE",
        help="exit code 4 where more than this share of a model's answers is empty",
    )
    parser.add_argument(
        "--dry_run", action="store_true", help="print expected items, cost and time, and end"
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="with --dry_run: also ask each model one document; exit code 1 where one cannot",
    )
    parser.add_argument("--bank", help="replaces bank: of the configuration")
    parser.add_argument(
        "--prior",
        action="append",
        metavar="[NAME=]LOGS",
        help="earlier answers (harness logs with samples, or a run directory): not paid again",
    )
    parser.add_argument(
        "--save_bank",
        metavar="FILE",
        help="keep what is observed in a bank that grows from ranking to ranking",
    )
    parser.add_argument("--confidence", type=float, help="replaces confidence:")
    parser.add_argument("--budget_items", type=float, help="replaces budget: by {items: N}")
    parser.add_argument("--budget_usd", type=float, help="replaces budget: by {usd: X}")
    parser.add_argument("--budget_seconds", type=float, help="replaces budget: by {seconds: S}")
    parser.add_argument("--max_items", type=int, help="most items per model")
    parser.add_argument(
        "--rank_width", type=int, metavar="W", help="stop once every rank is known to W ranks"
    )
    parser.add_argument(
        "--percentile",
        type=float,
        metavar="P",
        help="stop once every rank is known to P per cent of the board",
    )
    parser.add_argument(
        "--yes", action="store_true", help="do not ask before a run that only the documents limit"
    )
    parser.add_argument("--seed", type=int, help="replaces seed:")
    parser.add_argument(
        "--one_at_a_time",
        action="store_true",
        help="one request in flight in the whole run: slower, and reproducible to the last bit",
    )
    add_executor(parser, "the models run", "in this process", "actors")
    add_json(parser)
    parser.add_argument(
        "--report", action="store_true", help="write an HTML page, report.html in the run directory"
    )
    add_watch(parser, "write that page every SECONDS (default: 10) while the ranking runs")
    parser.add_argument("--quiet", action="store_true", help="plain log lines, no live table")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run, resume, forecast or show a ranking."""
    written = args.config is None and args.task is not None
    if args.config is None and not written and not Path("journal.jsonl").exists():
        raise UsageError(
            "name a configuration, or give --task and --model; this directory holds no ranking to "
            "look into"
        )
    path = Path(args.config or ".")
    if path.is_dir() and not written:
        from ..live.results import state
        from .rank_output import show

        result = state(path)
        show(result, args.json, sys.stdout)
        return result.exit_code
    from ..live.config import load_config, parse_config
    from ..live.ranking import dry_run, rank
    from .live import Display

    if written:
        config = parse_config({**_written(args), **_overrides(args)})
        path = Path(safe_name(Path(args.task).stem))
    else:
        for flag in ("task", "model", "model_args", "name"):
            if getattr(args, flag):
                raise UsageError(f"--{flag} is for a ranking without {path}; write it there")
        config = load_config(path, _overrides(args))
    folder = Path(args.run_dir) if args.run_dir else Path(f"{path.with_suffix('')}.run")
    display = Display(args.quiet, args.json, args.yes)
    if args.probe and not args.dry_run:
        raise UsageError("--probe goes with --dry_run; a run asks each model one request first")
    if args.dry_run:
        content = dry_run(config, display, probe=args.probe)
        write_json(args.json, content)
        if not prints_json(args.json):
            from .rank_forecast import print_forecast

            print_forecast(content)
        return 0 if all(found["ok"] for found in content.get("probe", {}).values()) else 1
    with _live_page(folder, args.watch, display):
        result = rank(
            config,
            run_dir=folder,
            resume=args.resume,
            retry=args.retry,
            executor=args.executor,
            ray_address=args.ray_address,
            observer=display,
        )
    if args.report or args.watch:
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


def _written(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags say in place of a YAML file."""
    types, given, names = args.model or [], args.model_args or [], args.name or []
    if not types:
        raise UsageError("--task needs the models: --model TYPE --model_args A=B, once per model")
    for flag, values in (("model_args", given), ("name", names)):
        if values and len(values) != len(types):
            raise UsageError(
                f"--{flag} is given {len(values)} times and --model {len(types)} times; "
                "give each once per model, in the same order"
            )
    arguments = given or [""] * len(types)
    return {
        "task": args.task,
        "models": [
            {"name": name, "model": kind, "model_args": text}
            for name, kind, text in zip(names or _names(types, arguments), types, arguments)
        ],
    }


def _names(types: list[str], arguments: list[str]) -> list[str]:
    """The shortest arguments that tell the models apart."""
    found = []
    for kind, text in zip(types, arguments):
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        name = next((parts[k] for k in ("pretrained", "model", "path") if parts.get(k)), "")
        found.append(Path(name).name or kind)
    if len(set(found)) == len(found):
        return found
    full = [f"{kind}:{text}" for kind, text in zip(types, arguments)]
    if len(set(full)) < len(full):
        raise UsageError("two models have the same --model and --model_args; give each a --name")
    return full


def _overrides(args: argparse.Namespace) -> dict[str, Any]:
    budgets = {
        kind: getattr(args, f"budget_{kind}")
        for kind in ("items", "usd", "seconds")
        if getattr(args, f"budget_{kind}") is not None
    }
    if len(budgets) > 1:
        raise UsageError("give one of --budget_items, --budget_usd and --budget_seconds")
    given: dict[str, Any] = {
        key: getattr(args, key)
        for key in (
            "bank",
            "confidence",
            "max_items",
            "rank_width",
            "percentile",
            "seed",
            "fail_on_empty",
            "prior",
            "save_bank",
            "weights",
        )
        if getattr(args, key) is not None
    }
    if args.metric:
        given["metrics"] = args.metric
    folder = args.include_path
    if folder and args.config:  # seen from here, not from beside the configuration
        folder = str(Path(folder).absolute())
    harness = {
        "include_path": folder,
        "num_fewshot": args.num_fewshot,
        "apply_chat_template": args.apply_chat_template or None,
    }
    if settings := {key: value for key, value in harness.items() if value is not None}:
        given["harness"] = settings
    if budgets:
        given["budget"] = budgets
    if args.one_at_a_time:
        given["one_at_a_time"] = True
    return given
