"""``run --adaptive --ranking RUN_DIR --name A``: one process of a ranking that several share."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cli.rank_output import PARTIAL
from ..errors import RunError, UsageError
from ..runs.identity import differences
from ..runs.rebuild import BANK_FILE, rebuild
from .config import ModelConfig, RankConfig, from_public

if TYPE_CHECKING:
    from ..runs.directory import RunDirectory
    from ..runs.journal import Record
    from ..runs.journaled import JournaledRanker
    from .plan import Plan

#: Flags of the harness that decide what is asked; they belong to the ranking, not to a process.
_FIXED = (
    "num_fewshot",
    "gen_kwargs",
    "apply_chat_template",
    "fewshot_as_multiturn",
    "system_instruction",
)


def join(
    args: argparse.Namespace, ranking: str, name: str | None, other_flags: Sequence[str]
) -> int:
    """Work for one model of a shared ranking until the ranking ends.

    Parameters
    ----------
    args : Namespace
        As the harness's ``run`` parses them.
    ranking : str
        Run directory that `rank --prepare` made.
    name : str
        The model's name there.
    other_flags : sequence of str
        Flags of a single adaptive run that were given too; refused.

    Returns
    -------
    int
        The exit code of the ranking (0, 3 or 4).
    """
    from ..cli.live import make_console, quiet_harness
    from ..runs.directory import RunDirectory
    from .ranking import refuse_data_parallel

    refuse_data_parallel()
    folder = Path(ranking)
    if other_flags:
        raise UsageError(
            f"--{other_flags[0]} belongs to the ranking's configuration, not to one process of it"
        )
    if not name:
        raise UsageError("--ranking needs --name, the model's name in the ranking")
    directory = RunDirectory(folder)
    ranker, header = rebuild(folder, lock=True)
    if not header.get("shared"):
        raise RunError(
            f"{folder} is the run of one `rank` command; make one to join with "
            "`lm-eval-ccat rank CONFIG --prepare`"
        )
    config = from_public(header["config"], bank=str(folder / BANK_FILE))
    entry = _entry(config.model(name), args)
    config = _with_paths(config, args)
    _refuse_other_settings(config, args)
    if ranker.done:
        print(f"The ranking in {folder} has ended; nothing was asked.")
        return _show(folder)
    console = make_console(quiet=True)
    with quiet_harness(folder / f"run.{_file_name(ranker.owner)}.log", console):
        from ..harness import internals
        from .models import require_model_types
        from .plan import make_plan

        require_model_types(replace(config, models=(entry,)))
        plan = make_plan(config)
        _require_same_task(header, plan, folder)
        internals.require_backends([str(entry.model)])
        try:
            _work(plan, directory, ranker, entry, console)
        except KeyboardInterrupt:
            print(f"Interrupted; {folder} goes on with the processes that are left. So far:")
            _show(folder)
            return PARTIAL
    return _show(folder)


def _work(
    plan: Plan, directory: RunDirectory, ranker: JournaledRanker, entry: ModelConfig, console: Any
) -> None:
    from ..cli.live import Display
    from .ranking import TerminateAsInterrupt, make_workers
    from .results import result_content, write_model_results
    from .scheduler import Scheduler

    config = plan.config
    ended = threading.Event()

    def beat() -> None:
        while not ended.is_set():
            directory.beat(ranker.owner)
            ended.wait(min(30.0, config.lease / 4))

    threading.Thread(target=beat, daemon=True).start()
    ranker.note("join", op="session", model=entry.name, by=ranker.owner)
    workers = make_workers(plan, console, [entry])
    scheduler = Scheduler(
        ranker,
        workers,
        config.failures,
        seconds=config.budget.get("seconds"),
        lease=config.lease,
    )
    display = Display(
        console, ranker, plan.metric.scale, plan.metric.label, plan.currency, plan.budget,
        config.budget.get("seconds"), plain=True,
    )  # fmt: skip
    try:
        with TerminateAsInterrupt(), display:
            scheduler.run(display.tick)
    except KeyboardInterrupt:
        # What this process still holds is free for the next one at once.
        for model, doc in ranker.unanswered(entry.name):
            if ranker.claims[model, doc].owner == ranker.owner:
                ranker.release(model, doc, why="interrupted")
        ranker.note("interrupted", by=ranker.owner)
        raise
    finally:
        ended.set()
    with ranker.changed:
        ranking = replace(ranker.ranker.result(), scale=plan.metric.scale)
        content = result_content(plan, ranking, ranker, directory, interrupted=False)
    directory.write_json("result.json", content)
    write_model_results(plan, directory, ranker, workers, ranking, console)


def _entry(known: ModelConfig, args: argparse.Namespace) -> ModelConfig:
    """The model as this process runs it; its price is the ranking's."""
    given = vars(args)
    if not given.get("model") and known.model is None:
        raise UsageError(f"--model is missing: the ranking does not say how {known.name} is run")
    return replace(
        known,
        model=given.get("model") or known.model,
        model_args=dict(given.get("model_args") or known.model_args),
        batch_size=given.get("batch_size") or known.batch_size,
        device=given.get("device") or known.device,
        memory=None,
    )


def _with_paths(config: RankConfig, args: argparse.Namespace) -> RankConfig:
    """Paths may differ from machine to machine, so the command line's come first."""
    from ..cli.harness_passthrough import shipped_tasks

    harness = dict(config.harness)
    # `run` puts the shipped tasks in front of the user's own folders.
    own = [p for p in (args.include_path or []) if p != str(shipped_tasks())]
    if own:
        harness["include_path"] = own
    if getattr(args, "use_cache", None):
        harness["use_cache"] = args.use_cache
    return replace(config, harness=harness)


def _refuse_other_settings(config: RankConfig, args: argparse.Namespace) -> None:
    given = vars(args)
    if given.get("tasks") and list(given["tasks"]) != [config.task]:
        raise UsageError(
            f"the ranking is of task {config.task}, not of {', '.join(given['tasks'])}"
        )
    for key in _FIXED:
        value = given.get(key)
        if value not in (None, False, {}) and value != config.harness.get(key):
            raise UsageError(
                f"--{key} is {value!r} here and {config.harness.get(key)!r} in the ranking; "
                "leave it out, all models are asked in the same way"
            )


def _require_same_task(header: Record, plan: Plan, folder: Path) -> None:
    now: Mapping[str, Any] = plan.identity()
    found = differences(header, {**now, "config": header["config"]}).refused
    if found:
        raise RunError(f"cannot join {folder}, here it is something else: {'; '.join(found[:8])}")


def _file_name(owner: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in owner)


def _show(folder: Path) -> int:
    from ..cli.rank_state import show_state

    return show_state(folder, as_json=False)
