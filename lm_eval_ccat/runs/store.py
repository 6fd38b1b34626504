"""A run directory in an object store, such as ``s3://bucket/models.run``.

Object stores cannot append to a file, sync it or lock it, all of which a journal needs. So the run
uses a folder on this machine; while it lasts, the files needed to resume it are copied to the
store, and at its end all files. A copy of the journal equals that of a run killed at that moment.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import RunError, UsageError

#: Seconds between two copies during a run.
SECONDS = 60.0
_JOURNAL = "journal.jsonl"
_NEEDED = (_JOURNAL, "config.json", "bank.json", "banks")


def is_stored(run_dir: str | Path | None) -> bool:
    """Whether a run directory is in an object store."""
    return isinstance(run_dir, str) and "://" in run_dir


@contextmanager
def stored(run_dir: str | Path, resume: bool, warn: Callable[[str], None]) -> Iterator[Path]:
    """Copy a run to an object store while it lasts; yield its folder on this machine.

    Copying starts once the run has started or resumed, so that a refused run changes no store.

    Parameters
    ----------
    run_dir : str or path
        URL of any file system of fsspec; a local folder is yielded unchanged.
    resume : bool
        Fetch the run from the store first, unless the folder has it.
    warn : callable
        Called once if copying fails; the run goes on.

    Raises
    ------
    UsageError
        The URL has no name, or the package for this kind of store is not installed.
    RunError
        The store or the folder holds a run and `resume` is false, they hold different runs, or the
        store cannot be read.
    """
    if not is_stored(run_dir):
        yield Path(run_dir)
        return
    url = str(run_dir).rstrip("/")
    name = url.partition("://")[2].rpartition("/")[2]
    if name in ("", ".", ".."):
        raise UsageError(f"--run_dir {run_dir}: a name is missing, as in s3://bucket/models.run")
    try:
        store, root = import_module("fsspec").url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UsageError(f"--run_dir {url}: {error}") from None
    folder = Path(name)
    try:
        _agree(store, root, folder, url, resume)
    except RunError:
        raise
    except Exception as error:  # what a store raises is its own
        raise RunError(f"{url}: cannot read the store ({error})") from error
    begun, over = _stamp(folder / _JOURNAL), threading.Event()
    copied: dict[Path, tuple[int, int]] = {}
    troubles: list[Exception] = []

    def copy(needed: bool) -> None:
        """Copy the files changed since the last copy, once the journal has changed."""
        if not copied and _stamp(folder / _JOURNAL) == begun:
            return
        # Unlike Path.rglob, this tolerates folders that vanish.
        for file in sorted(Path(at, one) for at, _, files in os.walk(folder) for one in files):
            name, stamp = file.relative_to(folder), _stamp(file)
            left_out = file.suffix in (".lock", ".part") or (
                needed and name.parts[0] not in _NEEDED
            )
            if left_out or stamp is None or copied.get(name) == stamp:
                continue
            try:
                _put(store, file, f"{root}/{name.as_posix()}")
                copied[name] = stamp
            except Exception as error:  # what a store raises is its own
                if not file.exists():  # it is being replaced
                    continue
                if not troubles:
                    warn(f"cannot copy the run to {url} ({error}); it is in {folder}")
                troubles.append(error)

    def often() -> None:
        while not over.wait(SECONDS):
            copy(True)

    thread = threading.Thread(target=often, daemon=True)
    thread.start()
    try:
        yield folder
    finally:
        over.set()
        thread.join()
        copy(False)


def _put(store: Any, file: Path, to: str) -> None:
    try:
        store.put_file(str(file), to)
    except FileNotFoundError:  # where folders are real, create them first
        store.makedirs(to.rpartition("/")[0], exist_ok=True)
        store.put_file(str(file), to)


def _agree(store: Any, root: str, folder: Path, url: str, resume: bool) -> None:
    """Make sure that the folder holds the run to resume, or that no run exists."""
    far, here = store.exists(f"{root}/{_JOURNAL}"), (folder / _JOURNAL).exists()
    if (far or here) and not resume:
        place = url if far else f"the folder {folder.absolute()}"
        remedy = "choose another" if far else "move the folder away"
        raise RunError(f"{place} holds a run; continue it with --resume, or {remedy}")
    if not far:
        return
    if here:
        # Whole lines only: a copy or a crash may have cut off the last one.
        theirs = store.cat_file(f"{root}/{_JOURNAL}").rpartition(b"\n")[0]
        ours = (folder / _JOURNAL).read_bytes().rpartition(b"\n")[0]
        if ours.startswith(theirs):
            return
        if not theirs.startswith(ours):
            raise RunError(
                f"the folder {folder.absolute()} holds another run than {url}, or the same one "
                "continued elsewhere; move the folder away to go on with that in the store"
            )
    # The journal last: with it the run counts as present.
    for far_file in sorted(store.find(root), key=lambda name: name.endswith(f"/{_JOURNAL}")):
        to = folder / PurePosixPath(far_file).relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        store.get_file(far_file, str(part := to.with_name(f"{to.name}.part")))
        part.replace(to)


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return a stamp that changes with the file; None without the file."""
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
