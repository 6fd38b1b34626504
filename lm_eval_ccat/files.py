"""Files and their names: replaced in one step, so nobody ever reads half of one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path

_LONGEST_NAME = 120
#: What a shell redirects may be a file, which is written to and not replaced.
_STREAMS = ("/dev/std", "/dev/fd/", "/proc/")
#: Windows takes these for devices, whatever follows a dot.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))}


def replace_text(path: Path, text: str, private: bool = False) -> None:
    """Write a text file as UTF-8; see :func:`replace_bytes`."""
    replace_bytes(path, text.encode("utf-8"), private)


def replace_bytes(path: Path, data: bytes, private: bool = False) -> None:
    """Write a file, on disk before it takes the place of what was there.

    A link stays one, and what is no file (a pipe, ``/dev/stdout``) is written to as it is.

    Parameters
    ----------
    path : Path
    data : bytes
    private : bool, optional
        Whether only the file's owner may read it.

    Raises
    ------
    OSError
        The folder or disk refuses it; the old file is then untouched.
    """
    if path.exists() and (not path.is_file() or str(path).startswith(_STREAMS)):
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
            f.flush()
            sync_file(f.fileno())
        set_rights(Path(name), 0o600 if private else 0o644)
        _take_place(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _take_place(name: str, path: Path) -> None:
    """Rename a file; Windows refuses that for as long as another process reads the old one."""
    for _ in range(40 if sys.platform == "win32" else 0):
        try:
            return os.replace(name, path)
        except PermissionError:
            time.sleep(0.05)
    os.replace(name, path)


def sync_file(handle: int) -> None:
    """Force a file to the disk; on macOS, whose ``fsync`` ends at the drive's cache, beyond it."""
    if sys.platform == "darwin":
        import fcntl

        with contextlib.suppress(OSError):  # a file system of the network may not know it
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
            return
    os.fsync(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can (Windows cannot)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):  # some network and FUSE file systems refuse it
            os.fsync(handle)
    finally:
        os.close(handle)


def set_rights(path: Path, mode: int) -> None:
    """Set a file's permission bits, where the file system has such."""
    with contextlib.suppress(OSError):
        os.chmod(path, mode)


def safe_name(name: str) -> str:
    """A file name for any text; different texts have different names.

    Letters, digits and ``-_.+`` stay.  A text that has anything else, begins with a dot, is very
    long or is the name of a Windows device gets a short hash of the whole at its end; on Windows
    and macOS, whose files ``A`` and ``a`` are one, so does a text with capitals.

    Examples
    --------
    >>> safe_name("gpt-4.1"), safe_name("org/model")
    ('gpt-4.1', 'org_model-c87c0c64')
    """
    plain = "".join(c if c.isalnum() or c in "-_.+" else "_" for c in name)
    if plain.startswith("."):
        plain = "_" + plain[1:]
    if plain.partition(".")[0].lower() in _DEVICES:
        plain = "_" + plain
    plain = plain[:_LONGEST_NAME].rstrip(".") or "_"
    if plain == name and (name == name.lower() or sys.platform not in ("win32", "darwin")):
        return plain
    return f"{plain}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
