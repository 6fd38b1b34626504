"""Open tasks by their names: sessions with a model, and the files of tasks without one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CcatError, HarnessError, UsageError
from ..plugins import existing
from ..shown import some
from . import internals
from .session import TaskSession


def open_session(task: Any, lm: Any, **options: Any) -> TaskSession:
    """Load one task and bind it to a model; see `open_sessions` for several.

    Parameters
    ----------
    task : str, dict or Task
        A task's name, its configuration, or a loaded task.
    lm : LM
        The model.
    **options
        See `open_sessions`.

    Raises
    ------
    UsageError
        If the name is unknown.
    HarnessError
        If the name stands for several tasks, or the task cannot be used.
    """
    sessions, _ = open_sessions([task], lm, **options)
    if len(sessions) != 1:
        named = some(list(sessions), 6)
        raise HarnessError(f"{task} is {len(sessions)} tasks ({named}); name one of them")
    return next(iter(sessions.values()))


def open_sessions(
    names: Sequence[Any],
    lm: Any,
    *,
    num_fewshot: int | None = None,
    gen_kwargs: Mapping[str, Any] | None = None,
    fewshot_seed: int | None = internals.DEFAULT_SEED,
    include_path: Any = None,
    metadata: Mapping[str, Any] | None = None,
    confirm_run_unsafe_code: bool = False,
    count_tokens: bool = False,
    **options: Any,
) -> tuple[dict[str, TaskSession], dict[str, object]]:
    """Load tasks and bind each to a model, with the overrides that `simple_evaluate` would apply.

    Parameters
    ----------
    names : sequence of str
        Tasks, groups or tags; also configurations, or loaded tasks.
    lm : LM
        The model.
    num_fewshot, gen_kwargs, fewshot_seed, include_path, metadata, confirm_run_unsafe_code
        As in the harness.
    count_tokens, **options
        See `TaskSession`.

    Returns
    -------
    sessions : dict of task to TaskSession
    groups : dict of name to Group
        The harness's groups among the names, subgroups included.

    Raises
    ------
    UsageError
        If a name is unknown.
    HarnessError
        If a task cannot be used.
    """
    groups: dict[str, object] = {}
    if all(isinstance(name, (str, dict)) for name in names):
        tasks, groups = _load(names, include_path, metadata)
    # The caller has loaded them already, so only their names are looked up.
    else:
        tasks = {internals.task_name(task): task for task in names}
    # Few-shot examples become turns of the conversation, as the harness's command line makes them.
    if options.get("apply_chat_template") and options.get("fewshot_as_multiturn") is None:
        options["fewshot_as_multiturn"] = True
    sessions = {}
    for name, task in tasks.items():
        refuse_unsafe(task, confirm_run_unsafe_code)
        apply_overrides(task, num_fewshot, gen_kwargs)
        sessions[name] = TaskSession(task, lm, dict(options), count_tokens, fewshot_seed)
    return sessions, groups


def _load(
    names: Sequence[Any], include_path: Any, metadata: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, object]]:
    """Return the tasks of names or configurations, and the groups among them, both by name.

    Raises
    ------
    UsageError
        A name is unknown, or that of a folder.
    HarnessError
        The harness cannot load a task.
    """
    listing = ", ".join(map(repr, names))
    try:
        return internals.load_tasks(internals.task_manager(names, include_path, metadata), names)
    except (KeyError, ValueError, OSError) as error:
        # `os.path.isdir`, as a name may be longer than that of a file, for which `Path` raises.
        if folders := [name for name in names if isinstance(name, str) and os.path.isdir(name)]:
            raise UsageError(
                f"{folders[0]} is a folder: name a task in it, and the folder by --include_path"
            ) from error
        # A KeyError's text is in quotes, which its argument is not.
        reason = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
        reason = " ".join(reason.split())
        reason += start_of_path(error)
        raise HarnessError(f"cannot load task {listing}: {reason}") from error
    # The harness takes the first document of a task without asking whether there is one, and its
    # data library the first line of an empty file.
    except (IndexError, StopIteration) as error:
        raise HarnessError(
            f"cannot load task {listing}: {str(error) or 'nothing to read'}, as of a data set "
            "without documents; check the split, the data files and the filter (process_docs) of "
            "the task's file"
        ) from error


def start_of_path(error: Exception) -> str:
    """Say where a relative path in a task's ``data_files`` starts, if this file is not found.

    Examples
    --------
    >>> start_of_path(FileNotFoundError(f"Unable to find '{Path.cwd()}/data/a.jsonl'"))[:64]
    '; a relative path in `data_files` starts from the folder of the '
    """
    folder = Path.cwd()
    if not isinstance(error, FileNotFoundError) or str(folder) not in str(error):
        return ""
    return f"; a relative path in `data_files` starts from the folder of the command, {folder}"


def refuse_unsafe(task: Any, confirmed: bool) -> None:
    """Raise a `HarnessError` if a task runs code that the model writes, unless `confirmed`."""
    if internals.runs_written_code(task) and not confirmed:
        raise HarnessError(
            f"task {internals.task_name(task)} runs code that the model writes; "
            "pass --confirm_run_unsafe_code if you accept that"
        )


def apply_overrides(
    task: Any, num_fewshot: int | None, gen_kwargs: Mapping[str, Any] | None
) -> None:
    """Override a task's few-shot number and generation settings as `simple_evaluate` does."""
    if gen_kwargs and task.get_config("output_type") == "generate_until":
        task.set_config("generation_kwargs", dict(gen_kwargs), update=True)
    default = task.get_config("num_fewshot")
    # A task that says 0 cannot be asked with examples, and the harness leaves it so.
    if num_fewshot is not None and default != 0:
        task.set_config("num_fewshot", num_fewshot)
    elif num_fewshot is None and default is None:
        task.set_config("num_fewshot", 0)


def ignored_fewshot(task: Any, num_fewshot: int | None) -> str | None:
    """Return a warning if a requested few-shot number has no effect on the task; else None.

    The harness ignores the number, too, but says so only in verbose logs.
    """
    if not num_fewshot or task.get_config("num_fewshot") != 0:
        return None
    return (
        f"num_fewshot {num_fewshot} is ignored, as lm_eval does: the YAML of task "
        f"{internals.task_name(task)} says num_fewshot: 0; remove that line to set the number "
        "yourself"
    )


def shipped_tasks() -> Path | None:
    """The folder of task configurations that comes with the package, or None.

    In an installed wheel it is inside the package, in a source checkout next to it.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "task_configs", package.parent / "task_configs"):
        if folder.is_dir():
            return folder
    return None


def with_shipped_tasks(folders: Sequence[str]) -> list[str]:
    """Return the folder of shipped tasks, then the user's folders.

    If two folders define a name, the harness takes the later definition and warns; so the shipped
    folder is listed only once.

    Raises
    ------
    UsageError
        If a folder does not exist.
    """
    for folder in folders:
        existing(folder, "folder of tasks")
    shipped = shipped_tasks()
    if shipped is None:
        return list(folders)
    user_folders = [folder for folder in folders if Path(folder).resolve() != shipped.resolve()]
    return [str(shipped), *user_folders]


def task_file(name: str, include_path: Any = None) -> tuple[dict[str, object], Path]:
    """Return a task's configuration, with functions as text, and its YAML file; load no documents.

    Raises
    ------
    HarnessError
        If the harness has no such task, or it has no YAML file.
    """
    folders = with_shipped_tasks([include_path] if include_path else [])
    try:
        manager = internals.task_manager([name], folders)
        config = internals.static_configs(manager, name)[name]
        path = internals.index_entry(manager, name).file
    except (KeyError, OSError, CcatError):
        raise HarnessError(f"the harness has no task {name!r} (--include_path?)") from None
    # Tasks that are made in code have none.
    if path is None:
        raise HarnessError(f"task {name} has no YAML file")
    return config, path
