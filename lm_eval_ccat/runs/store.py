"""A run directory in an object store, such as ``s3://bucket/models.run``.

Object stores cannot append to a file, sync it or lock it, all of which a journal needs. So the run
lies in a folder on this machine, and what resuming it needs is copied to the store while it lasts,
everything at its end. A copy of the journal at any moment is that of a run that was killed then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import RunError, UsageError

#: Between two copies of a run that goes on.
SECONDS = 60.0
_NEEDED = ("journal.jsonl", "config.json", "bank.json", "banks")


def is_stored(run_dir: str | Path | None) -> bool:
    """Whether a run directory lies in an object store."""
    return isinstance(run_dir, str) and "://" in run_dir


def local_folder(run_dir: str | Path) -> Path:
    """Where the run lies on this machine.

    Examples
    --------
    >>> str(local_folder("s3://bucket/runs/models.run/"))
    'models.run'
    """
    text = str(run_dir)
    return Path(text.rstrip("/").rpartition("/")[2] if is_stored(text) else text)


@contextmanager
def stored(url: str, resume: bool, warn: Callable[[str], None]) -> Iterator[Path]:
    """Copy a run to an object store while it lasts; yield its folder on this machine.

    Parameters
    ----------
    url : str
        Of any file system that fsspec knows.
    resume : bool
        Fetch the run from there first, unless the folder has it.
    warn : callable
        Is told once if copying fails; the run goes on.

    Raises
    ------
    UsageError
        The package that this kind of store needs is not installed.
    RunError
        The store holds a run that is not resumed, or cannot be read.
    """
    try:
        store, root = import_module("fsspec").url_to_fs(url.rstrip("/"))
    except (ImportError, ValueError) as error:
        raise UsageError(f"--run_dir {url}: {error}") from None
    folder = local_folder(url)
    try:
        begun, here = store.exists(f"{root}/journal.jsonl"), (folder / "journal.jsonl").exists()
        if begun and not resume:
            raise RunError(f"{url} holds a run; continue it with --resume, or choose another")
        if begun and not here:
            store.get(f"{root}/", str(folder), recursive=True)
    except OSError as error:
        raise RunError(f"{url}: cannot read the store ({error})") from error
    copy, over = _Copy(store, root, folder, url, warn), threading.Event()

    def often() -> None:
        while not over.wait(SECONDS):
            copy(_NEEDED)

    thread = threading.Thread(target=often, daemon=True)
    thread.start()
    try:
        yield folder
    finally:
        over.set()
        thread.join()
        copy()


class _Copy:
    """Copies what has changed since the last time."""

    def __init__(
        self, store: Any, root: str, folder: Path, url: str, warn: Callable[[str], None]
    ) -> None:
        self._store, self._root, self._folder, self._url = store, root, folder, url
        self._warn, self._failed = warn, False
        self._seen: dict[Path, tuple[int, int]] = {}

    def __call__(self, names: tuple[str, ...] = ()) -> None:
        try:
            for file in sorted(self._folder.rglob("*")):
                try:
                    self._put(file, names)
                except FileNotFoundError:
                    if file.exists():  # else it was a file that is being replaced
                        raise
        except Exception as error:  # what a store raises is its own
            if not self._failed:
                self._warn(f"cannot copy the run to {self._url} ({error}); it is in {self._folder}")
            self._failed = True

    def _put(self, file: Path, names: tuple[str, ...]) -> None:
        name, state = file.relative_to(self._folder), file.stat()
        stamp = state.st_mtime_ns, state.st_size
        wanted = file.is_file() and file.suffix != ".lock" and self._seen.get(name) != stamp
        if wanted and (not names or name.parts[0] in names):
            self._store.put_file(str(file), f"{self._root}/{name.as_posix()}")
            self._seen[name] = stamp
