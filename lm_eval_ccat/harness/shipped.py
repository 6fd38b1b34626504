"""The task configurations that come with the package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


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
    own = [folder for folder in folders if Path(folder).resolve() != shipped.resolve()]
    return [str(shipped), *own]
