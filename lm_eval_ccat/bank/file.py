"""The file of a bank: its location, its text, and safe reading of files that may be malicious.

The checksum covers the canonical JSON of the content (keys sorted, no spaces). In the file, each
part is on its own line, in canonical form, so that a person can read its head and a diff shows
which part changed.

A parser turns 180 MB of brackets into gigabytes. The reader therefore counts brackets, commas and
depth chunk by chunk before it parses anything, and stops at the first one too many.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from ..errors import BankError, UsageError
from ..fetching import fetch
from ..files import replace_bytes, writing

FORMAT = "lm-eval-ccat/bank"
VERSION = 2
#: Names of the files of a bank and of a suite of banks in a data set on the hub.
BANK, SUITE = "bank.json", "suite.json"
#: Name of all banks that come with the package.
PUBLIC = "public"
#: End of the name of a file that should hold a bank.
_BANK_NAME = re.compile(r"\.bank\.json(\.gz)?$")
#: Parts of the file that the checksum does not cover.
HEAD = ("format", "version", "sha256", "made")

#: Limits of a bank's file: its bytes, and its lists and objects, their nesting and their values.
MAX_BYTES = 256 << 20
MAX_DEPTH = 32
MAX_CONTAINERS = 4_000_000
MAX_VALUES = 30_000_000
#: Bytes that are read at a time, and that a text in the file may have.
_CHUNK, _MAX_TEXT = 1 << 20, 8 << 20
#: A whole text in JSON.
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
#: By how much each byte changes the depth of nesting.
_DEPTH_CHANGE = np.zeros(256, dtype=np.int64)
_DEPTH_CHANGE[list(b"[{")], _DEPTH_CHANGE[list(b"]}")] = 1, -1


def located(path: str | Path) -> Path:
    """Return the path of a bank's file, or of a folder of banks.

    Parameters
    ----------
    path : path or str
        A path, or ``hub:owner/name``, which is fetched first; as a str also the name of a public
        bank, which comes with the package (``public`` means all of them).

    Raises
    ------
    BankError
        The hub does not provide it.
    UsageError
        A public bank and a bank here have the name; ``./name`` is the one here.

    Examples
    --------
    >>> sorted(public_banks())
    ['mmlu_pro']
    >>> located("mmlu_pro") == public_banks()["mmlu_pro"]
    True
    """
    if (name := str(path)).startswith("hub:"):
        fetched = fetch(name, BANK)
        if fetched.is_dir() and not (fetched / SUITE).is_file():
            raise BankError(f"{name}: it holds neither {BANK} nor {SUITE}")
        return fetched
    public = {PUBLIC: _public_folder(), **public_banks()}
    # A `Path` is never the name of a public bank; a text may be one.
    if isinstance(path, Path) or name not in public:
        return Path(path)
    # The name may mean either: do not guess.
    if _may_hold_banks(Path(path)):
        raise UsageError(
            f"{name}: a public bank and a bank here have this name; name the one here ./{name}, or "
            "rename it"
        )
    return public[name]


def bank_files(folder: Path) -> list[Path]:
    """Return the files in a folder that hold a bank, or by their names should (``*.bank.json``)."""
    files = sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")])
    return [file for file in files if _BANK_NAME.search(file.name) or _begins_as_bank(file)]


def _begins_as_bank(file: Path) -> bool:
    """Whether the first bytes of a file name the format of banks."""
    try:
        with opened(file) as stream:
            return FORMAT.encode() in stream.read(256)
    except OSError:
        return False


def _may_hold_banks(path: Path) -> bool:
    """Whether a path is the file of a bank, a suite, or a folder with one in it."""
    if not path.is_dir():
        return path.is_file() and _begins_as_bank(path)
    return bool(bank_files(path)) or any(path.glob(SUITE)) or any(path.glob(f"*/{SUITE}"))


def public_banks() -> dict[str, Path]:
    """Return the folders of the suites of banks that come with the package, by name."""
    folder = _public_folder()
    folders = sorted(folder.iterdir()) if folder.is_dir() else []
    return {suite.name: suite for suite in folders if suite.is_dir()}


def _public_folder() -> Path:
    """Return the folder of public banks: in an installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "banks"
    return inside if inside.is_dir() else package.parent / "banks"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a bank's file to read; it is compressed if its name ends with ``.gz``.

    Raises
    ------
    OSError
        The file cannot be read, or its compression is damaged.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield cast(BinaryIO, stream)
    except (EOFError, zlib.error) as error:
        raise OSError(f"damaged compression: {error}") from None


def write_file(path: Path, document: Mapping[str, Any]) -> None:
    """Write a bank's file, compressed if its name ends with ``.gz``; replace it atomically."""
    text = file_text(document).encode()
    # Without the time, the same bank is the same file.
    packed = gzip.compress(text, mtime=0) if path.suffix == ".gz" else text
    with writing(path, BankError):
        replace_bytes(path, packed)


# -- text ---------------------------------------------------------------------------------------


def as_text(value: Any) -> str:
    """Return a value as canonical JSON.

    Examples
    --------
    >>> as_text({"b": [1, None], "a": "x"})
    '{"a":"x","b":[1,null]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checksum(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a bank's content, which is everything but `HEAD`."""
    content = {key: value for key, value in document.items() if key not in HEAD}
    return hashlib.sha256(as_text(content).encode()).hexdigest()


def file_text(document: Mapping[str, Any]) -> str:
    """Return the file's text: the parts in order, then the items, with one array per line."""
    lines = [
        f"{json.dumps(key)}: {as_text(value)}" for key, value in document.items() if key != "items"
    ]
    arrays = [f"  {json.dumps(key)}: {as_text(value)}" for key, value in document["items"].items()]
    return "{\n" + ",\n".join(lines) + ',\n"items": {\n' + ",\n".join(arrays) + "\n}}\n"


def plain(value: Any) -> Any:
    """Convert to JSON values: NaN and infinities become null, arrays become lists."""
    if isinstance(value, (np.ndarray, np.generic)):
        # Arrays of millions go through once, and not value by value.
        all_finite = value.dtype.kind != "f" or bool(np.isfinite(value).all())
        value = value.tolist()
        if all_finite:
            return value
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


# -- reading ------------------------------------------------------------------------------------


def read_json(path: Path, max_bytes: int | None = None) -> Any:
    """Read the JSON value of a regular file; refuse NaN and infinities, which are not JSON.

    Parameters
    ----------
    path : Path
    max_bytes : int, optional
        Largest size in bytes; default `MAX_BYTES`.

    Raises
    ------
    BankError
        It is not a regular file, too large, too deeply nested, or has too many values.
    OSError, ValueError, RecursionError
        It cannot be read, or is not JSON.
    """
    max_bytes = MAX_BYTES if max_bytes is None else max_bytes
    chunks: list[bytes] = []
    remainder = b""  # the beginning of a text that ends in a later chunk
    # To parse a hostile file may take many times its size in memory: measure its content first.
    # Commas stand for values.
    size = depth = containers = values = 0
    # Check before opening: opening a pipe would block until somebody writes to it.
    if path.exists() and not path.is_file():
        raise BankError(f"{path}: not a regular file")
    with opened(path) as stream:
        while chunk := stream.read(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            # Brackets and commas are counted outside texts alone: whole texts are cut out, and a
            # quote that is left begins a text of which the end is still to come.
            outside, quote, begun = _TEXT.sub(b"", remainder + chunk).partition(b'"')
            remainder = quote + begun
            steps = _DEPTH_CHANGE[np.frombuffer(outside, dtype=np.uint8)]
            depths = depth + np.cumsum(steps)
            depth += int(steps.sum())
            containers += int((steps > 0).sum())
            values += outside.count(b",")
            excess = ""
            if size > max_bytes:
                excess = f"more than {max_bytes:,} bytes are too large for an item bank"
            elif len(remainder) > _MAX_TEXT:
                excess = "a text in it never ends: not an item bank"
            elif depths.max(initial=0) > MAX_DEPTH:
                excess = f"nested more than {MAX_DEPTH} deep: not an item bank"
            elif containers > MAX_CONTAINERS or values > MAX_VALUES:
                excess = "too many values for an item bank"
            if excess:
                raise BankError(f"{path}: {excess}")
    return json.loads(b"".join(chunks).decode("utf-8"), parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    """Refuse NaN and infinities, which `json` would read."""
    raise ValueError(f"{name} is not a number JSON knows")


def require_sound(document: Any, where: str) -> None:
    """Refuse anything but a bank of this version whose checksum matches.

    Raises
    ------
    BankError
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BankError(
            f"{where}: not an item bank of lm-eval-ccat; get it again or calibrate again"
        )
    version = document.get("version")
    # `True` is an int to Python, and no version.
    if type(version) is not int or version != VERSION:
        newer = type(version) is int and version > VERSION
        raise BankError(
            f"{where}: item bank of format version {version!r}; this package reads version "
            f"{VERSION}: " + ("update lm-eval-ccat" if newer else "calibrate again")
        )
    try:
        sound = checksum(document) == document.get("sha256")
    except (ValueError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise BankError(
            f"{where}: the content does not match its checksum; the file was edited or damaged, "
            "get it again or calibrate again"
        )
