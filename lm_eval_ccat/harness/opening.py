"""Loading tasks, those that come with the package among them, and binding them to a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CcatError, HarnessError
from . import internals
from .session import TaskSession


def open_session(task: Any, lm: Any, **how: Any) -> TaskSession:
    """Load one task and bind it to a model, as `open_sessions` does.

    Parameters
    ----------
    task : str, dict or Task
        A task's name, its configuration, or a loaded task.
    lm : LM
        The model.
    **how
        See `open_sessions`.

    Raises
    ------
    HarnessError
        The name is a group's, is not known, or the task cannot be used.
    """
    sessions, _ = open_sessions([task], lm, **how)
    if len(sessions) != 1:
        some = ", ".join(list(sessions)[:6])
        raise HarnessError(f"{task} is {len(sessions)} tasks ({some}, ...); name one of them")
    return next(iter(sessions.values()))


def open_sessions(
    names: Sequence[Any],
    lm: Any,
    *,
    num_fewshot: int | None = None,
    gen_kwargs: Mapping[str, Any] | None = None,
    fewshot_seed: int | None = 1234,
    include_path: Any = None,
    metadata: Mapping[str, Any] | None = None,
    confirm_run_unsafe_code: bool = False,
    count_tokens: bool = False,
    **options: Any,
) -> tuple[dict[str, TaskSession], dict[str, object]]:
    """Load tasks, apply the overrides that `simple_evaluate` would, and bind them to a model.

    Parameters
    ----------
    names : sequence of str
        Tasks, groups or tags; also configurations, or loaded tasks.
    lm : LM
        The model.
    num_fewshot, gen_kwargs, fewshot_seed, include_path, metadata, confirm_run_unsafe_code
        As the harness takes them.
    count_tokens, **options
        See `TaskSession`.

    Returns
    -------
    sessions : dict of task to TaskSession
    groups : dict of name to Group
        The harness's groups among what is named, subgroups included.

    Raises
    ------
    HarnessError
        A name is not known, or a task cannot be used.
    """
    groups: dict[str, object] = {}
    if all(isinstance(name, (str, dict)) for name in names):
        tasks, groups = _loaded(names, include_path, metadata)
    else:
        tasks = {internals.task_name(task): task for task in names}
    if options.get("apply_chat_template") and options.get("fewshot_as_multiturn") is None:
        options["fewshot_as_multiturn"] = True  # the harness's command line does the same
    sessions = {}
    for name, task in tasks.items():
        refuse_unsafe(task, confirm_run_unsafe_code)
        apply_overrides(task, num_fewshot, gen_kwargs)
        sessions[name] = TaskSession(task, lm, dict(options), count_tokens, fewshot_seed)
    return sessions, groups


def refuse_unsafe(task: Any, confirmed: bool) -> None:
    """Refuse a task that runs code which the model writes, unless that was accepted.

    Raises
    ------
    HarnessError
    """
    if internals.runs_written_code(task) and not confirmed:
        raise HarnessError(
            f"task {internals.task_name(task)} runs code that the model writes; "
            "pass --confirm_run_unsafe_code if you accept that"
        )


def _loaded(
    names: Sequence[Any], include_path: Any, metadata: Mapping[str, Any] | None
) -> tuple[dict[str, object], dict[str, object]]:
    """Tasks and groups of the harness."""
    try:
        return internals.load_tasks(names, include_path, metadata)
    except (KeyError, ValueError, OSError) as error:
        shown = ", ".join(map(repr, names))
        answer = " ".join(str(error.args[0] if error.args else error).split())
        raise HarnessError(f"cannot load task {shown}: {answer}") from error


def apply_overrides(
    task: Any, num_fewshot: int | None, gen_kwargs: Mapping[str, Any] | None
) -> None:
    """Override a task's few-shot number and generation settings as `simple_evaluate` does."""
    if gen_kwargs and internals.setting(task, "output_type") == "generate_until":
        internals.override(task, "generation_kwargs", dict(gen_kwargs), merge=True)
    default = internals.setting(task, "num_fewshot")
    if num_fewshot is not None and default != 0:
        internals.override(task, "num_fewshot", num_fewshot)
    elif num_fewshot is None and default is None:
        internals.override(task, "num_fewshot", 0)


def ignored_fewshot(task: Any, num_fewshot: int | None) -> str | None:
    """Return a warning if a requested few-shot number has no effect on the task; else None.

    The harness then leaves the task as it is and says so only at a verbose level.
    """
    if not num_fewshot or internals.setting(task, "num_fewshot") != 0:
        return None
    return (
        f"num_fewshot {num_fewshot} is ignored, as lm_eval does: the YAML of task "
        f"{internals.task_name(task)} says num_fewshot: 0; take that line out to set it from "
        "outside"
    )


def shipped_tasks() -> Path | None:
    """The folder of task configurations that comes with the package, or None.

    In an installed wheel it lies inside the package; in a source checkout beside it.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "task_configs", package.parent / "task_configs"):
        if folder.is_dir():
            return folder
    return None


def with_shipped_tasks(folders: Sequence[str]) -> list[str]:
    """The shipped tasks, then the user's folders.

    Of two configurations of one name the harness takes that of the later folder, and warns of each;
    a folder that is the shipped one stands there once.
    """
    shipped = shipped_tasks()
    if shipped is None:
        return list(folders)
    others = [folder for folder in folders if Path(folder).resolve() != shipped.resolve()]
    return [str(shipped), *others]


def task_file(name: str, include_path: Any = None) -> tuple[dict[str, object], Path]:
    """A task's configuration, functions as text, and its YAML file; no documents are loaded.

    Raises
    ------
    HarnessError
        The harness knows no such task by a file.
    """
    folders = with_shipped_tasks([include_path] if include_path else [])
    try:
        manager = internals.task_manager([name], folders)
        config = internals.static_configs(manager, name)[name]
        path = internals.listed(manager, name).file
    except (KeyError, OSError, CcatError):
        raise HarnessError(f"the harness has no task {name!r} (--include_path?)") from None
    if path is None:
        raise HarnessError(f"task {name} has no YAML file")
    return config, path
