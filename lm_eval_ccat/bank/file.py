"""The bank's file: where it lies, its text, and reading it though it may have been made to harm.

The checksum is of the canonical JSON of the content (keys sorted, no spaces). In the file each part
stands on a line of its own, in canonical form, so that a person can read its head and a diff shows
which part changed. Version 2 added sections that may be absent (observations, outcomes, checksums):
a document of version 1 is one of version 2 without them.

What a parser builds from 180 MB of brackets takes gigabytes, so brackets, commas and depth are
counted before anything is parsed, chunk by chunk, and reading ends at the first that is too many.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BankError
from ..metrics.scale import Scale
from ..plugins import Plugins
from ..scores.table import sorted_ids
from .observations import Observation

FORMAT = "lm-eval-ccat/bank"
VERSION = 2
#: Parts of every bank, in the order of the file; the items come last.
PARTS = (
    "method", "task", "metric", "filter", "scale", "constants", "models", "settings", "provenance",
    "self_check", "warnings",
)  # fmt: skip
#: Parts of the file that the checksum does not cover.
HEAD = ("format", "version", "sha256", "made")

MAX_BYTES = 256 << 20
MAX_DEPTH = 32
MAX_CONTAINERS = 4_000_000
MAX_VALUES = 30_000_000
_CHUNK = 1 << 20
_MOST_STRING = 8 << 20
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_LARGEST = 1e6
_MOST_TEXT = 10_000


@dataclass(frozen=True)
class Place:
    """Somewhere banks are kept.

    Attributes
    ----------
    name : str
        What stands before the colon.
    fetch : callable
        ``(rest of the name) -> Path`` of a local copy; it raises `BankError`.
    """

    name: str
    fetch: Callable[[str], Path]


PLACES = Plugins("bank place", Place, lambda: {"hub": "lm_eval_ccat.integrations.hub:PLACE"})


def located(path: str | Path) -> Path:
    """The file of a bank, fetched first where its name is one in a place.

    Raises
    ------
    BankError
        It cannot be had there.
    """
    place, colon, rest = str(path).partition(":")
    if colon and rest and place.isidentifier() and place in PLACES.names():
        return PLACES.get(place).fetch(rest)
    return Path(path)


# -- text ---------------------------------------------------------------------------------------


def as_text(value: Any) -> str:
    """Canonical JSON.

    Examples
    --------
    >>> as_text({"b": [1, None], "a": "x"})
    '{"a":"x","b":[1,null]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of a bank's content: everything but `HEAD`."""
    content = {k: v for k, v in document.items() if k not in HEAD}
    return hashlib.sha256(as_text(content).encode()).hexdigest()


def file_text(document: Mapping[str, Any]) -> str:
    """The file: parts in the order of the document, then the items, an array a line."""
    lines = [f"{json.dumps(k)}: {as_text(v)}" for k, v in document.items() if k != "items"]
    arrays = [f"  {json.dumps(k)}: {as_text(v)}" for k, v in document["items"].items()]
    return "{\n" + ",\n".join(lines) + ',\n"items": {\n' + ",\n".join(arrays) + "\n}}\n"


def plain(value: Any) -> Any:
    """JSON values only; NaN and infinities become null, arrays lists."""
    if isinstance(value, (np.ndarray, np.generic)):
        whole = value.dtype.kind != "f" or bool(np.isfinite(value).all())
        value = value.tolist()
        if whole:
            return value
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


# -- reading ------------------------------------------------------------------------------------


def read_json(path: Path, most: int | None = None) -> Any:
    """The JSON value of a regular file; NaN and infinities, which JSON does not know, are refused.

    Parameters
    ----------
    path : Path
    most : int, optional
        Largest size in bytes; default `MAX_BYTES`.

    Raises
    ------
    BankError
        Not a regular file, too large, nested too deeply, or too many values.
    OSError, ValueError, RecursionError
        It cannot be read, or is no JSON.
    """
    most = MAX_BYTES if most is None else most
    chunks: list[bytes] = []
    rest = b""  # the beginning of a string that ends in a later chunk
    size = depth = containers = values = 0
    # Before it is opened: opening a pipe would wait for somebody to write.
    if not stat.S_ISREG(path.stat().st_mode):
        raise BankError(f"{path}: not a regular file")
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > most:
                raise BankError(f"{path}: more than {most:,} bytes are too large for an item bank")
            chunks.append(chunk)
            outside, quote, begun = _STRING.sub(b"", rest + chunk).partition(b'"')
            rest = quote + begun
            if len(rest) > _MOST_STRING:
                raise BankError(f"{path}: a text in it never ends: not an item bank")
            codes = np.frombuffer(outside, dtype=np.uint8)
            opens, closes = (np.isin(codes, list(kind)) for kind in (b"[{", b"]}"))
            steps = np.cumsum(opens.astype(np.int64) - closes)
            if depth + int(steps.max(initial=0)) > MAX_DEPTH:
                raise BankError(f"{path}: nested more than {MAX_DEPTH} deep: not an item bank")
            depth += int(steps[-1]) if len(steps) else 0
            containers += int(opens.sum())
            values += outside.count(b",")
            if containers > MAX_CONTAINERS or values > MAX_VALUES:
                raise BankError(f"{path}: too many values for an item bank")
    return json.loads(b"".join(chunks).decode("utf-8"), parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number JSON knows")


def require_sound(document: Any, where: str) -> None:
    """Refuse what is no bank of a known version with its own checksum.

    Raises
    ------
    BankError
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BankError(f"{where}: not an item bank of lm-eval-ccat")
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise BankError(
            f"{where}: item bank of format version {version}; this package reads up to version "
            f"{VERSION}: update lm-eval-ccat"
        )
    if type(version) is not int or version < 1:
        raise BankError(
            f"{where}: unknown item bank format version {version!r}: calibrate again with "
            "`lm-eval-ccat calibrate`"
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


def fields_of(d: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `ItemBank` from the parsed file.

    Raises
    ------
    KeyError, TypeError, ValueError, AttributeError, OverflowError, ScaleError, ScoreTableError
        A part is missing, of the wrong type or size, or makes no sense.
    """
    items = d["items"]
    doc_ids = items["doc_id"]
    if not isinstance(doc_ids, list) or not doc_ids:
        raise ValueError("items.doc_id is not a list of ids")
    ordered, order = sorted_ids(doc_ids)
    n = len(ordered)
    if order != list(range(n)):
        raise ValueError("items.doc_id is not ascending")
    kept = _column(items["kept"], n, "kept")
    if not all(isinstance(v, bool) for v in kept) or not any(kept):
        raise ValueError("kept holds something else than true and false, or no item is kept")
    parameters: dict[str, NDArray[np.float64]] = {}
    for name, column in items["parameters"].items():
        # None becomes NaN; ragged or text raises.
        values = np.array(_column(column, n, name), dtype=np.float64)
        if values.ndim > 2:
            raise ValueError(f"{name} has too many dimensions")
        if not np.isfinite(values[np.array(kept)]).all():
            raise ValueError(f"parameter {name} of an item that is kept is not a number")
        if np.abs(values[np.isfinite(values)]).max(initial=0.0) > _LARGEST:
            raise ValueError(f"parameter {name} is absurdly large")
        parameters[_text(name, "parameter")] = values
    hashes = items.get("doc_hash")
    if hashes is not None:
        hashes = tuple(_column(hashes, n, "doc_hash"))
        if not all(h is None or isinstance(h, str) for h in hashes):
            raise ValueError("items.doc_hash does not fit the items")
    for part in ("constants", "settings", "provenance", "self_check"):
        if not isinstance(d[part], dict):
            raise ValueError(f"{part} is not an object")
    for part in ("models", "warnings"):
        if not isinstance(d[part], list):
            raise ValueError(f"{part} is not a list")
    return dict(
        doc_ids=ordered,
        kept=np.array(kept),
        parameters=parameters,
        scale=Scale.from_dict(d["scale"]),
        doc_hashes=hashes,
        observations=tuple(Observation.from_dict(o, n) for o in d.get("observations") or ()),
        **{p: _text(d[p], p) for p in ("method", "metric")},
        **{p: None if d.get(p) is None else _text(d[p], p) for p in ("task", "filter", "made")},
        **{p: d[p] for p in ("constants", "settings", "provenance", "self_check")},
        **{p: tuple(_text(x, p) for x in d[p]) for p in ("models", "warnings")},
    )


def _column(values: Any, n: int, name: str) -> list[Any]:
    if not isinstance(values, list) or len(values) != n:
        raise ValueError(f"{name} does not have one value for each of {n} items")
    return values


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise ValueError(f"{what} is not a text")
    return value
