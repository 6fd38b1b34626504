"""``run --adaptive --ranking RUN_DIR --name A``: one process of a ranking that several share."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import RunError, UsageError
from ..files import safe_name
from ..harness import internals
from ..runs.directory import RunDirectory
from ..runs.identity import differences
from ..runs.journal import Record
from ..runs.journaled import JournaledRanker
from ..runs.rebuild import banks_at, rebuild
from .config import ModelConfig, RankConfig, from_public
from .engine import conduct
from .observer import Observer
from .plan import Plan, make_plan
from .prior import answers_at_hand
from .quiet import quiet_harness
from .ranking import make_workers, refuse_data_parallel
from .results import Result, result_of, state, write_model_results
from .tasks import require_model_types

#: Settings of the harness that decide what is asked; they belong to the ranking, not to a process.
FIXED = (
    "num_fewshot",
    "gen_kwargs",
    "apply_chat_template",
    "fewshot_as_multiturn",
    "system_instruction",
)


@dataclass(frozen=True)
class Joining:
    """How one process runs its model; what is left out is the ranking's.

    Attributes
    ----------
    model, model_args, batch_size, device
        As the harness takes them.
    tasks : list of str, optional
        If given, the ranking's.
    include_path : list of str
        Where this machine has the task's files.
    use_cache : str, optional
    settings : dict
        Of `FIXED`: if given, the ranking's.
    """

    model: str | None = None
    model_args: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int | str | None = None
    device: str | None = None
    tasks: list[str] = field(default_factory=list)
    include_path: list[str] = field(default_factory=list)
    use_cache: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


def join(
    run_dir: str | Path, name: str | None, joining: Joining, observer: Observer | None = None
) -> Result:
    """Work for one model of a shared ranking until the ranking ends.

    Parameters
    ----------
    run_dir : path
        That `rank --prepare` made.
    name : str
        The model's name there.
    joining : Joining
    observer : Observer, optional

    Returns
    -------
    Result
        The state of the ranking; its exit code is 4 after Ctrl-C.

    Raises
    ------
    RunError, UsageError
        It is no shared ranking, or not of this task and these settings.
    """
    refuse_data_parallel()
    folder, watcher = Path(run_dir), observer or Observer()
    if not name:
        raise UsageError("--ranking needs --name, the model's name in the ranking")
    directory = RunDirectory(folder)
    ranker, header = rebuild(folder, lock=True)
    if not header.get("shared"):
        raise RunError(
            f"{folder} is the run of one `rank` command; make one to join with "
            "`lm-eval-ccat rank CONFIG --prepare`"
        )
    config = from_public(header["config"], bank=str(banks_at(folder)))
    entry = _entry(config.model(name), joining)
    config = _with_paths(config, joining)
    _refuse_other_settings(config, joining)
    ended = True
    if ranker.done:
        watcher.warn(f"the ranking in {folder} has ended; nothing was asked")
    else:
        with quiet_harness(folder / f"run.{safe_name(ranker.owner)}.log", watcher.warn):
            require_model_types(replace(config, models=(entry,)))
            plan = make_plan(config)
            _require_same_task(header, plan, folder)
            internals.require_backends([str(entry.model)])
            ended = _work(plan, directory, ranker, entry, watcher)
    found = state(folder)
    if not ended:
        watcher.warn(f"interrupted; {folder} goes on with the processes that are left")
        found.content.update(interrupted=True, exit_code=4)
    watcher.finished(found)
    return found


def _work(
    plan: Plan,
    directory: RunDirectory,
    ranker: JournaledRanker,
    entry: ModelConfig,
    observer: Observer,
) -> bool:
    """Ask until the ranking ends; False after an interruption."""
    over = threading.Event()
    lease = plan.config.lease

    def beat() -> None:
        while not over.is_set():
            directory.beat(ranker.owner)
            over.wait(min(30.0, lease / 4))

    threading.Thread(target=beat, daemon=True).start()
    ranker.note("join", op="session", model=entry.name, by=ranker.owner)
    workers = make_workers(plan, [entry], observer)
    if plan.config.prior:
        names = [one.name for one in plan.config.models]
        found = answers_at_hand(plan.config.prior, names, list(plan.measured), plan.single)
        workers[0].at_hand = found[entry.name]
    try:
        ended = conduct(plan, ranker, workers, observer, lease=lease)
    finally:
        over.set()
    if not ended:
        # What this process still holds is free for the next one at once.
        for model, doc in ranker.unanswered(entry.name):
            if ranker.claims[model, doc].owner == ranker.owner:
                ranker.release(model, doc, why="interrupted")
        return False
    result = result_of(plan, ranker, directory.path)
    directory.write_json("result.json", result.content)
    for trouble in write_model_results(plan, ranker, workers, directory.path):
        observer.warn(trouble)
    return True


def _entry(known: ModelConfig, joining: Joining) -> ModelConfig:
    """The model as this process runs it; its price is the ranking's."""
    if not joining.model and known.model is None:
        raise UsageError(f"--model is missing: the ranking does not say how {known.name} is run")
    return replace(
        known,
        model=joining.model or known.model,
        model_args=dict(joining.model_args or known.model_args),
        batch_size=joining.batch_size or known.batch_size,
        device=joining.device or known.device,
        memory=None,
    )


def _with_paths(config: RankConfig, joining: Joining) -> RankConfig:
    """Paths may differ from machine to machine, so this process's come first."""
    harness = dict(config.harness)
    if joining.include_path:
        harness["include_path"] = joining.include_path
    if joining.use_cache:
        harness["use_cache"] = joining.use_cache
    return replace(config, harness=harness)


def _refuse_other_settings(config: RankConfig, joining: Joining) -> None:
    if joining.tasks and list(joining.tasks) != list(config.names):
        raise UsageError(
            f"the ranking is of task {', '.join(config.names)}, not of {', '.join(joining.tasks)}"
        )
    for key, value in joining.settings.items():
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
