"""Files of tasks: those that come with the package, and those that the harness finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import CcatError, HarnessError
from . import internals


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
