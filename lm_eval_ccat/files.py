"""Files that are replaced in one step, so that nobody reads half of one, and safe file names."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import CcatError, RunError

#: Letters and bytes of a file's name: file systems take 255 bytes, with the hash and an ending.
_LONGEST_NAME = 120
_MOST_BYTES = 200
#: Beginnings of the paths of streams. A stream is written to and never replaced, even if the shell
#: redirects it to a file.
_STREAMS = ("/dev/std", "/dev/fd/", "/proc/")
#: Windows treats these names as devices, with any extension.
_DEVICES = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)),
}


@contextlib.contextmanager
def writing(path: Path, refusal: type[CcatError] = RunError) -> Iterator[None]:
    """Make the folder of a file that is written within the context.

    Raises
    ------
    CcatError
        The file cannot be written; of the class `refusal`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise refusal(f"{path}: cannot be written ({error.strerror or error})") from error


def replace_text(path: Path, text: str | Iterable[str], private: bool = False) -> None:
    """Write a text, or its pieces, to a file as UTF-8; see :func:`replace_bytes`."""
    pieces = [text] if isinstance(text, str) else text
    replace_bytes(path, (piece.encode("utf-8") for piece in pieces), private)


def replace_bytes(path: Path, data: bytes | Iterable[bytes], private: bool = False) -> None:
    """Write a file to disk, then put it in the place of the old one.

    A symbolic link stays a link; a pipe or device such as ``/dev/stdout`` is written to directly.

    Parameters
    ----------
    path : Path
    data : bytes, or iterable of bytes
        The content, or its pieces, which are made while it is written.
    private : bool, optional
        Whether only the file's owner may read it.

    Raises
    ------
    OSError
        If the file cannot be written; the old one is then untouched.
    """
    pieces = [data] if isinstance(data, bytes) else data
    # A rename would replace the pipe or device by a file.
    if path.exists() and (not path.is_file() or str(path).startswith(_STREAMS)):
        with path.open("wb") as stream:
            stream.writelines(pieces)
        return
    path = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(pieces)
            stream.flush()
            sync_file(stream.fileno())
        set_rights(Path(name), 0o600 if private else 0o644)
        _take_place(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _take_place(name: str, path: Path) -> None:
    """Rename a file; on Windows, which refuses while another process reads the old one, for 2 s."""
    for _ in range(40 if sys.platform == "win32" else 0):
        try:
            return os.replace(name, path)
        except PermissionError:
            time.sleep(0.05)
    os.replace(name, path)


def sync_file(handle: int) -> None:
    """Force a file to disk; on macOS past the drive's cache, where ``fsync`` stops."""
    if sys.platform == "darwin":
        import fcntl

        with contextlib.suppress(OSError):  # some network file systems lack it
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
    """Set a file's permission bits, if the file system has them."""
    with contextlib.suppress(OSError):
        os.chmod(path, mode)


def safe_name(name: str) -> str:
    """Return a file name for any text; different texts get different names.

    Letters, digits and ``-_.+`` stay. A text that contains anything else, begins or ends with a
    dot, is very long or names a Windows device gets a short hash of the whole text at its end. So
    does a text with capitals on Windows and macOS, where ``A`` and ``a`` are the same file.

    Examples
    --------
    >>> safe_name("gpt-4.1"), safe_name("org/model")
    ('gpt-4.1', 'org_model-c87c0c64')
    """
    plain = "".join(letter if letter.isalnum() or letter in "-_.+" else "_" for letter in name)
    if plain.startswith("."):
        plain = "_" + plain[1:]
    # Windows opens the device, whatever follows the dot.
    if plain.partition(".")[0].lower() in _DEVICES:
        plain = "_" + plain
    cut = plain[:_LONGEST_NAME].encode("utf-8", "surrogatepass")[:_MOST_BYTES]
    plain = cut.decode("utf-8", "ignore").rstrip(".") or "_"
    if plain == name and (name == name.lower() or sys.platform not in ("win32", "darwin")):
        return plain
    return f"{plain}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
