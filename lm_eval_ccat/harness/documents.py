"""A task's documents by id and hash, without any model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CcatError, HarnessError
from . import internals
from .shipped import with_shipped_tasks


@dataclass(frozen=True)
class TaskDocuments:
    """Documents of a task, in its order: the harness numbers them from 0."""

    task: str
    doc_ids: tuple[int, ...]
    doc_hashes: tuple[str, ...]
    filters: tuple[str, ...]


def task_documents(
    name: str, include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> TaskDocuments:
    """Load a task and hash its documents as the harness's logs do.

    Raises
    ------
    HarnessError
        No such task, a group of several, or its documents cannot be loaded.
    """
    try:
        manager = internals.task_manager([name], include_path, metadata)
        tasks = internals.load_from(manager, [name])["tasks"]
    except (KeyError, ValueError, OSError) as error:
        reason = " ".join(str(error.args[0] if error.args else error).split())
        raise HarnessError(f"cannot load task {name!r}: {reason}") from error
    if len(tasks) != 1:
        raise HarnessError(f"{name} is {len(tasks)} tasks; name one of them")
    [task] = tasks.values()
    docs = list(internals.documents(task))
    return TaskDocuments(
        internals.task_name(task),
        tuple(range(len(docs))),
        tuple(internals.document_hash(doc) for doc in docs),
        tuple(internals.filter_names(task)),
    )


def task_file(name: str, include_path: Any = None) -> tuple[dict[str, Any], Path]:
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
