"""Reader of the logs of Inspect (inspect_ai): ``.eval`` archives, and the older ``.json``.

An ``.eval`` file is a zip archive with ``header.json`` (what was run), ``summaries.json`` (an entry
per sample, its scores among them) and ``samples/<id>_epoch_<n>.json``. Since 2025 its members are
compressed with zstd, which Python's zipfile does not unpack before 3.14; Arrow does. A score is
a number, a truth value, one of the letters C, P, I, N, or an object of these. Written against logs
of inspect_ai 0.3.285; format: https://inspect.aisi.org.uk/eval-logs.html.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .bounded import MAX_LINE, MAX_VALUE, json_value
from .rows import Row, files_at, reader_of_rows

_ZSTD = 93
_JSON_HEAD = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"')
_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def logs(path: Path) -> Iterator[Path]:
    """The logs of Inspect at or below a path."""
    for file in files_at(path, "*"):
        if file.suffix == ".eval" and zipfile.is_zipfile(file):
            yield file
        elif file.suffix == ".json":
            with file.open("rb") as stream:
                if _JSON_HEAD.match(stream.read(200)):
                    yield file


def rows(log: Path, notes: list[str]) -> list[Row]:
    """Every score of a log; see `reader_of_rows`."""
    header: Any
    samples: Iterable[Any]
    if log.suffix == ".eval":
        header, samples = _unpacked(log)
    else:
        header = json_value(log)
        samples = header.get("samples") or []
    run = header["eval"]
    model, task, date = str(run["model"]), str(run["task"]), str(run.get("created") or "")
    scores = [row for sample in samples for row in _scores(sample, model, task, date)]
    if header.get("status", "started") != "success":
        notes.append(
            f"{log}: the run did not finish; documents that it did not run count as missing"
        )
    return scores


def _unpacked(log: Path) -> tuple[Any, Iterable[Any]]:
    with zipfile.ZipFile(log) as archive:
        names = set(archive.namelist())
        # A run that was cut off has only what it started with.
        head = "header.json" if "header.json" in names else "_journal/start.json"
        header = json.loads(_member(archive, head, MAX_LINE))
        if "summaries.json" in names:
            return header, json.loads(_member(archive, "summaries.json", MAX_VALUE))
    samples = sorted(n for n in names if n.startswith("samples/") and n.endswith(".json"))
    return header, _members(log, samples)


def _members(log: Path, names: Iterable[str]) -> Iterator[Any]:
    """One at a time: what all of them unpack to is no matter."""
    with zipfile.ZipFile(log) as archive:
        for name in names:
            yield json.loads(_member(archive, name, MAX_LINE))


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    info = archive.getinfo(name)
    if info.file_size > most:
        raise ValueError(f"{name} has {info.file_size:,} bytes, more than {most:,}")
    if info.compress_type != _ZSTD:
        return archive.read(info)
    import pyarrow as pa

    stream = archive.fp
    assert stream is not None
    stream.seek(info.header_offset + 26)
    name_size, extra_size = struct.unpack("<HH", stream.read(4))
    stream.seek(info.header_offset + 30 + name_size + extra_size)
    packed = stream.read(info.compress_size)
    try:
        return bytes(pa.Codec("zstd").decompress(packed, decompressed_size=info.file_size))
    except pa.ArrowException as e:
        raise ValueError(f"{name}: {e}") from None


def _scores(sample: Any, model: str, task: str, date: str) -> Iterator[Row]:
    for scorer, score in (sample.get("scores") or {}).items():
        value = score.get("value") if isinstance(score, dict) else None
        parts = value if isinstance(value, dict) else {"": value}
        for part, one in parts.items():
            number = _number(one)
            if number is not None:
                yield Row(
                    model,
                    task,
                    f"{scorer}/{part}" if part else str(scorer),
                    sample["id"],
                    number,
                    config=f"epoch={sample.get('epoch', 1)}",
                    date=date,
                )


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        value = _WORDS.get(value, _WORDS.get(value.lower(), value))
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


READER = reader_of_rows("inspect_ai", "logs of Inspect (.eval)", logs, rows)
