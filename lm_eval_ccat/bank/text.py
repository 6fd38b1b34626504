"""The bank's file as text: canonical JSON, laid out one part a line.

The checksum is of the canonical JSON of the content (keys sorted, no spaces). In the file each part
stands on a line of its own, in canonical form, so that a person can read its head and a diff shows
which part changed. Version 2 added sections that may be absent (observations, outcomes, checksums):
a document of version 1 is one of version 2 without them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BankError
from ..metrics.scale import Scale
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


_LARGEST = 1e6
_MOST_TEXT = 10_000


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
    if order != list(range(len(order))):
        raise ValueError("items.doc_id is not ascending")
    n = len(ordered)
    kept = array_of(items["kept"], n, "kept", bool)
    parameters = {
        text_of(name, "parameter"): array_of(values, n, name, float)
        for name, values in items["parameters"].items()
    }
    for name, values in parameters.items():
        if not np.isfinite(values[kept]).all():
            raise ValueError(f"parameter {name} of an item that is kept is not a number")
        if np.abs(values[np.isfinite(values)]).max(initial=0.0) > _LARGEST:
            raise ValueError(f"parameter {name} is absurdly large")
    hashes = items.get("doc_hash")
    if hashes is not None and (
        not isinstance(hashes, list)
        or len(hashes) != n
        or not all(h is None or isinstance(h, str) for h in hashes)
    ):
        raise ValueError("items.doc_hash does not fit the items")
    if not kept.any():
        raise ValueError("no item is kept")
    objects = ("constants", "settings", "provenance", "self_check")
    return dict(
        doc_ids=ordered,
        kept=kept,
        parameters=parameters,
        scale=Scale.from_dict(d["scale"]),
        doc_hashes=None if hashes is None else tuple(hashes),
        observations=tuple(Observation.from_dict(o, n) for o in d.get("observations") or ()),
        **{p: text_of(d[p], p) for p in ("method", "metric")},
        **{p: None if d.get(p) is None else text_of(d[p], p) for p in ("task", "filter", "made")},
        **{p: _part(d, p, dict) for p in objects},
        **{p: tuple(text_of(x, p) for x in _part(d, p, list)) for p in ("models", "warnings")},
    )


def _part(d: dict[str, Any], name: str, kind: type) -> Any:
    if not isinstance(d[name], kind):
        raise ValueError(f"{name} is not {'an object' if kind is dict else 'a list'}")
    return d[name]


def plain(value: Any) -> Any:
    """JSON values only; NaN and infinities become null, arrays lists."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return [plain(v) for v in value.tolist()]
        return value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def array_of(values: Any, n: int, name: str, kind: type) -> NDArray[Any]:
    if not isinstance(values, list) or len(values) != n:
        raise ValueError(f"{name} does not have one value for each of {n} items")
    if kind is bool:
        if not all(isinstance(v, bool) for v in values):
            raise ValueError(f"{name} holds something else than true and false")
        return np.array(values, dtype=bool)
    array = np.array(values, dtype=np.float64)  # None becomes NaN; ragged or text raises
    if array.ndim > 2:
        raise ValueError(f"{name} has too many dimensions")
    return array


def text_of(value: Any, what: str) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise ValueError(f"{what} is not a text")
    return value
