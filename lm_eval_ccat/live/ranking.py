"""One `rank`, from a checked plan to its result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import CcatError, HarnessError, RunError

if TYPE_CHECKING:
    from ..harness import TaskSession
    from ..runs.directory import RunDirectory
    from ..runs.journaled import JournaledRanker
    from .config import ModelConfig, RankConfig
    from .models import HarnessWorker
    from .plan import Plan


@dataclass(frozen=True)
class Switches:
    """What the flags of `rank` say, beside the configuration."""

    resume: bool = False
    prepare: bool = False
    dry_run: bool = False
    as_json: bool = False
    quiet: bool = False
    report: bool = False
    executor: str = "local"
    ray_address: str | None = None


def rank(
    config: RankConfig,
    folder: Path,
    switches: Switches | None = None,
) -> int:
    """Run a ranking in a run directory; the exit code of the command.

    Parameters
    ----------
    config : RankConfig
    folder : Path
        The run directory.
    switches : Switches, optional
        What the command's flags say.
    """
    switches = switches or Switches()
    refuse_data_parallel()
    resume, prepare, dry_run = switches.resume, switches.prepare, switches.dry_run
    from ..cli.live import make_console, quiet_harness
    from ..runs.directory import RunDirectory

    console = make_console(switches.quiet)
    directory = RunDirectory(folder)
    _check_directory(directory, resume, dry_run)
    log_file = None
    # What tasks and models print goes where progress goes; standard output is for the result.
    out = sys.stdout
    if not dry_run:
        directory.take()
        log_file = folder / "run.log"
    try:
        with quiet_harness(log_file, console), contextlib.redirect_stdout(sys.stderr):
            from ..harness import internals
            from .models import require_model_types
            from .plan import make_plan

            if not prepare:
                require_model_types(config)
            plan = make_plan(config)
            if dry_run:
                from .forecast import print_forecast

                print_forecast(plan, switches.as_json, out)
                return 0
            if not prepare and switches.executor == "local":
                internals.require_backends(str(entry.model) for entry in config.models)
            _begin(directory, plan, resume, shared=prepare)
            if prepare:
                print(f"{folder} is ready; join with: lm-eval-ccat run --model ... --adaptive "
                      f"--ranking {folder} --name NAME", file=out)  # fmt: skip
                return 0
            for warning in plan.bank.warnings[:3]:
                console.print(f"bank: {warning}", highlight=False, markup=False)
            code = _run(plan, directory, console, switches, out)
            if switches.report:
                _report(folder, console)
            return code
    finally:
        if not dry_run:
            directory.release()


def refuse_data_parallel() -> None:
    """Refuse to be one of several data-parallel processes, before anything is loaded.

    Raises
    ------
    HarnessError
        With the remedy.
    """
    size = os.environ.get("WORLD_SIZE", "1")
    if size.isdigit() and int(size) > 1:
        raise HarnessError(
            f"this is one of {size} processes of accelerate or torchrun, each of which would run "
            "the ranking; start `rank` once, or one process per GPU that joins a shared ranking: "
            "`rank CONFIG --prepare`, then `run --adaptive --ranking RUN_DIR --name NAME`"
        )


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
    switches: Switches,
    out: TextIO,
) -> int:
    from ..cli.live import Display
    from ..cli.run_after import count_new_items
    from ..runs.journaled import JournaledRanker
    from .scheduler import Scheduler

    config = plan.config
    ranker = JournaledRanker(plan.new_ranker(), directory.journal)
    ranker.sync()
    if directory.journal.torn:
        console.print(
            "The last line of the journal was torn by a crash and is dropped; "
            "its document is asked again.",
            highlight=False,
        )
    ranker.note("resume" if switches.resume else "start", op="session")
    before = ranker.ranker.result().items
    workers = _executor(switches)(plan, console)
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
        plain=switches.quiet,
    )
    interrupted = False
    try:
        with TerminateAsInterrupt(), display:
            scheduler.run(display.tick)
    except KeyboardInterrupt:
        interrupted = True
        ranker.note("interrupted")
    finally:
        if switches.executor == "ray":  # an actor would hold its GPU as long as this process lives
            for worker in workers:
                worker.close()
    count_new_items(config.bank, before, ranker.ranker.result().items)
    return _finish(plan, directory, ranker, workers, console, interrupted, switches.as_json, out)


def _executor(switches: Switches) -> Callable[[Plan, Any], Sequence[HarnessWorker]]:
    if switches.executor == "local":
        return make_workers
    from .ray import connect, make_ray_workers

    connect(switches.ray_address)
    return make_ray_workers


def make_workers(
    plan: Plan, console: Any, entries: Sequence[ModelConfig] | None = None
) -> list[HarnessWorker]:
    """One worker per model of the configuration (or per entry given); opens none of them."""
    from .models import HarnessWorker
    from .plan import check_session

    told: set[str] = set()

    def check(session: TaskSession) -> None:
        for warning in check_session(plan.bank, session):
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
    out: TextIO,
) -> int:
    from dataclasses import replace

    from rich.console import Console

    from ..cli.rank_output import exit_code, print_result
    from .results import result_content, write_model_results

    with ranker.changed:
        ranking = replace(ranker.ranker.result(), scale=plan.metric.scale)
        content = result_content(plan, ranking, ranker, directory, interrupted)
    if as_json:
        print(json.dumps(content, indent=2, ensure_ascii=False), file=out, flush=True)
    else:
        print_result(Console(file=out, highlight=False), content)
        if interrupted:
            print(f"Go on with --resume; everything is kept in {directory.path}.", file=out)
    # After the printing: on a full disk the person has the result all the same.
    directory.write_json("result.json", content)
    if not interrupted:
        write_model_results(plan, directory, ranker, workers, ranking, console)
    return exit_code(ranking, interrupted)


class TerminateAsInterrupt:
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
