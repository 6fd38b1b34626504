"""The task configurations that come with the package."""

from __future__ import annotations

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
