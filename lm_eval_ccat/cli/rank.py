"""``lm-eval-ccat rank``: several models, one task, a few items, and how sure the order is."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CcatError, RunError, UsageError

if TYPE_CHECKING:
    from ..harness import TaskSession
    from ..runs.config import ModelConfig, RankConfig
    from ..runs.directory import RunDirectory
    from ..runs.journaled import JournaledRanker
    from .rank_models import HarnessWorker
    from .rank_plan import Plan

EPILOG = """\
example (models.yaml):
  task: my_task
  bank: my_task.bank.json
  confidence: 0.95
  budget: {items: 80}            # or {usd: 2.5}, or {seconds: 600}
  models:
    - {name: a, model: local-completions, model_args: {model: a, base_url: "http://..."},
       price: {input: 0.4, output: 1.6}}
    - {name: b, model: hf, model_args: {pretrained: ./b}, price: {item: 0.001}}
  harness: {num_fewshot: 0}

  lm-eval-ccat rank models.yaml --dry_run        what it may take, before anything is spent
  lm-eval-ccat rank models.yaml                  run; the run directory is models.run
  lm-eval-ccat rank models.yaml --resume         go on after a crash or Ctrl-C
  lm-eval-ccat rank models.run                   the state of a run, at any time

exit codes: 0 every pair decided, 3 ties left, 4 partial (a model failed, or interrupted),
2 usage, 1 error
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
        "config", metavar="CONFIG_OR_RUN_DIR", help="a YAML file, or a run directory to look into"
    )
    parser.add_argument(
        "--run_dir", help="run directory (default: the configuration's name + .run)"
    )
    parser.add_argument("--resume", action="store_true", help="go on with an unfinished run")
    parser.add_argument(
        "--prepare",
        action="store_true",
        help="make the run directory for processes that join with `run --ranking`, and end",
    )
    parser.add_argument(
        "--dry_run", action="store_true", help="print expected items, cost and time, and end"
    )
    parser.add_argument("--bank", help="replaces bank: of the configuration")
    parser.add_argument("--confidence", type=float, help="replaces confidence:")
    parser.add_argument("--budget_items", type=float, help="replaces budget: by {items: N}")
    parser.add_argument("--budget_usd", type=float, help="replaces budget: by {usd: X}")
    parser.add_argument("--budget_seconds", type=float, help="replaces budget: by {seconds: S}")
    parser.add_argument("--max_items", type=int, help="most items per model")
    parser.add_argument("--seed", type=int, help="replaces seed:")
    parser.add_argument(
        "--one_at_a_time",
        action="store_true",
        help="one request in flight in the whole run: slower, and reproducible to the last bit",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--report", action="store_true", help="write an HTML page, report.html in the run directory"
    )
    parser.add_argument("--quiet", action="store_true", help="plain log lines, no live table")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run, resume, prepare, forecast or show a ranking."""
    path = Path(args.config)
    if path.is_dir():
        from .rank_state import show_state

        return show_state(path, as_json=args.json)
    from ..runs.config import load_config

    config = load_config(path, _overrides(args))
    folder = Path(args.run_dir) if args.run_dir else path.with_suffix(".run")
    return rank(config, folder, resume=args.resume, prepare=args.prepare, dry_run=args.dry_run,
                as_json=args.json, quiet=args.quiet, report=args.report)  # fmt: skip


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
        for key in ("bank", "confidence", "max_items", "seed")
        if getattr(args, key) is not None
    }
    if budgets:
        given["budget"] = budgets
    if args.one_at_a_time:
        given["one_at_a_time"] = True
    return given


def rank(
    config: RankConfig,
    folder: Path,
    *,
    resume: bool = False,
    prepare: bool = False,
    dry_run: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    report: bool = False,
) -> int:
    """Run a ranking in a run directory; the exit code of the command.

    Parameters
    ----------
    config : RankConfig
    folder : Path
        The run directory.
    resume, prepare, dry_run, as_json, quiet, report : bool
        As the flags of the command.
    """
    from ..runs.directory import RunDirectory
    from .live import make_console, quiet_harness

    console = make_console(quiet)
    directory = RunDirectory(folder)
    _check_directory(directory, resume, dry_run)
    log_file = None
    if not dry_run:
        directory.take()
        log_file = folder / "run.log"
    try:
        with quiet_harness(log_file, console):
            from .rank_models import require_model_types
            from .rank_plan import make_plan

            if not prepare:
                require_model_types(config)
            plan = make_plan(config)
            if dry_run:
                from .rank_forecast import print_forecast

                print_forecast(plan, as_json)
                return 0
            _begin(directory, plan, resume, shared=prepare)
            if prepare:
                print(f"{folder} is ready; join with: lm-eval-ccat run --model ... --adaptive "
                      f"--ranking {folder} --name NAME")  # fmt: skip
                return 0
            code = _run(plan, directory, console, resume=resume, as_json=as_json, quiet=quiet)
            if report:
                _report(folder, console)
            return code
    finally:
        if not dry_run:
            directory.release()


def _check_directory(directory: RunDirectory, resume: bool, dry_run: bool) -> None:
    exists = directory.journal.exists()
    if resume and not exists:
        raise RunError(f"nothing to resume: {directory.path} holds no ranking")
    if exists and not resume and not dry_run:
        raise RunError(
            f"{directory.path} already holds a ranking; go on with --resume, look at it with "
            f"`lm-eval-ccat rank {directory.path}`, or choose another --run_dir"
        )


def _begin(directory: RunDirectory, plan: Plan, resume: bool, shared: bool) -> None:
    from ..runs.rebuild import BANK_FILE

    if resume:
        if directory.read_header().get("shared"):
            raise RunError(
                f"{directory.path} was made with --prepare; it goes on by itself when processes "
                "join it with `lm-eval-ccat run --adaptive --ranking`"
            )
        directory.require_same(plan.identity())
    else:
        # The bank first: a journal without it could not be read back.
        plan.bank.save(directory.path / BANK_FILE)
        directory.start({**plan.identity(), "shared": shared, "command": _command()})


def _report(folder: Path, console: Any) -> None:
    from ..report import write_report

    try:
        said = f"Report: {write_report(folder)}"
    except CcatError as error:
        said = f"warning: no report: {error}"  # the ranking itself is done and kept
    console.print(said, markup=False, highlight=False)


def _command() -> list[str] | None:
    """The arguments that this process was started with, for a reader who wants to do it again."""
    ours = Path(sys.argv[0]).name.startswith(("lm-eval-ccat", "lm_eval_ccat", "__main__"))
    return sys.argv[1:] if ours else None


def _run(
    plan: Plan,
    directory: RunDirectory,
    console: Any,
    *,
    resume: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    from ..runs.journaled import JournaledRanker
    from ..runs.scheduler import Scheduler
    from .live import Display

    config = plan.config
    ranker = JournaledRanker(plan.new_ranker(), directory.journal)
    ranker.sync()
    if directory.journal.torn:
        console.print(
            "The last line of the journal was torn by a crash and is dropped; "
            "its document is asked again.",
            highlight=False,
        )
    ranker.note("resume" if resume else "start", op="session")
    workers = make_workers(plan, console)
    scheduler = Scheduler(
        ranker,
        workers,
        config.failures,
        one_at_a_time=config.one_at_a_time,
        memory=config.memory,
        seconds=config.budget.get("seconds"),
    )
    display = Display(
        console,
        ranker,
        plan.metric.scale,
        plan.metric.label,
        plan.currency,
        plan.budget,
        config.budget.get("seconds"),
        plain=quiet,
    )
    interrupted = False
    try:
        with _terminate_as_interrupt(), display:
            scheduler.run(display.tick)
    except KeyboardInterrupt:
        interrupted = True
        ranker.note("interrupted")
    return _finish(plan, directory, ranker, workers, console, interrupted, as_json)


def make_workers(
    plan: Plan, console: Any, entries: Sequence[ModelConfig] | None = None
) -> list[HarnessWorker]:
    """One worker per model of the configuration (or per entry given); opens none of them."""
    from .rank_models import HarnessWorker
    from .rank_plan import check_session

    told: set[str] = set()

    def check(session: TaskSession) -> None:
        for warning in check_session(plan, session):
            if warning not in told:
                told.add(warning)
                console.print(f"warning: {warning}", highlight=False, markup=False)

    return [
        HarnessWorker(
            entry,
            plan.config,
            plan.bank,
            plan.metric,
            plan.filter,
            plan.cost_of(entry),
            check,
            cache=plan.config.harness.get("use_cache"),
        )
        for entry in (plan.config.models if entries is None else entries)
    ]


def _finish(
    plan: Plan,
    directory: RunDirectory,
    ranker: JournaledRanker,
    workers: Sequence[HarnessWorker],
    console: Any,
    interrupted: bool,
    as_json: bool,
) -> int:
    from dataclasses import replace

    from rich.console import Console

    from .rank_output import exit_code, print_result
    from .rank_results import result_content, write_model_results

    with ranker.changed:
        ranking = replace(ranker.ranker.result(), scale=plan.metric.scale)
        content = result_content(plan, ranking, ranker, directory, interrupted)
    directory.write_json("result.json", content)
    if not interrupted:
        write_model_results(plan, directory, ranker, workers, ranking, console)
    if as_json:
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print_result(Console(highlight=False), content)
        if interrupted:
            print(f"Go on with --resume; everything is kept in {directory.path}.")
    return exit_code(ranking, interrupted)


class _terminate_as_interrupt:
    """A polite kill (SIGTERM, as batch systems send it) ends the run as Ctrl-C does."""

    def __enter__(self) -> None:
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._raise)

    @staticmethod
    def _raise(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    def __exit__(self, *exc: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
