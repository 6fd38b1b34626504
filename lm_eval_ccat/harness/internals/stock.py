"""The harness's own task files, looked through as text: to read them all as YAML takes long."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import UsageError
from .names import resolve

_DEFINED = re.compile(rb"^(task|group)[ \t]*:[ \t]*[\"']?([\w./:+-]+)[\"']?[ \t]*$", re.MULTILINE)


def stock_entries(names: Sequence[str]) -> dict[str, Any] | None:
    """Entries of the harness's index for tasks that one file of its own defines.

    Returns
    -------
    dict of str to Entry, or None
        None where a name may be a group's or a tag's, or stands in several files: only the whole
        index tells.

    Raises
    ------
    UsageError
        A name stands in none of the files; with close names.
    """
    files: dict[str, list[Path]] = {}
    kinds: dict[str, str] = {}
    members = {name: False for name in names}
    for path, text in _texts():
        for kind, found in _DEFINED.findall(text):
            known = found.decode()
            files.setdefault(known, []).append(path)
            kinds[known] = kind.decode()
        for name in names:
            members[name] = members[name] or bool(_listed(name).search(text))
    for name in names:
        if name not in files and not members[name]:
            close = difflib.get_close_matches(name, files, n=3)
            meant = f"; close names: {', '.join(close)}" if close else ""
            raise UsageError(
                f"cannot load task {name!r}: no task, group or tag has that name{meant} "
                "(`lm_eval ls tasks` lists all, --include_path adds a folder)"
            )
    alone = {n: files[n][0] for n in names if len(files.get(n, ())) == 1 and kinds[n] == "task"}
    if len(alone) < len(names) or any(f.suffix != ".yaml" for f in alone.values()):
        return None
    entries = {name: _entry(file) for name, file in alone.items()}
    return entries if all(e.name == name for name, e in entries.items()) else None


def _entry(file: Path) -> Any:
    entry = resolve("lm_eval.tasks._index:TaskIndex.entry_from_path")(file)
    entry.cfg = resolve("lm_eval.tasks._yaml_loader:load_yaml")(file, resolve_func=False)
    return entry


def _texts() -> Iterator[tuple[Path, bytes]]:
    # Templates, which tasks include, may lack the dot of the suffix.
    root = Path(resolve("lm_eval.tasks:__file__")).parent
    for here, _, files in os.walk(root):
        for name in files:
            if name.endswith("yaml"):
                path = Path(here, name)
                yield path, path.read_bytes()


def _listed(name: str) -> re.Pattern[bytes]:
    """Where a name stands as a tag, as a group's member, or as another value of a task."""
    quoted = re.escape(name.encode())
    start = rb"(?:[ \t]*-[ \t]*|(?:task|group|tag)[ \t]*:[^\n]*?)"
    return re.compile(rb"^" + start + rb"[\"']?\b" + quoted + rb"[\"']?[ \t]*(?:$|[,\]#])", re.M)
