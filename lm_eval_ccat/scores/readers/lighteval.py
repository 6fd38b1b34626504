"""Reader of lighteval's details, which the first Open LLM Leaderboard published, too.

``details/<model>/<date>/details_<task>_<date>.parquet`` holds a row per sample: ``doc.id`` is its
place in the data set (rows are shuffled; older versions have no ``doc.id``, and their rows are in
the data set's order). Column ``metric`` (``metrics`` before 0.11) is an object of the sample's
scores, or, where Arrow could not store it, that object as text. On the leaderboard a model's folder
is the data set ``details_<organisation>__<model>``. Layout: ``logging/evaluation_tracker.py`` and
``logging/info_loggers.py`` (https://github.com/huggingface/lighteval).
"""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import Any

from .rows import Row, files_at, reader_of_rows

_NAME = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.parquet")
_SCORES = ("metric", "metrics")
#: Where the text of a sample stands, by version.
_TEXTS = ("doc", "full_prompt", "example")


def logs(path: Path) -> list[Path]:
    """The files of details at or below a path."""
    return [file for file in files_at(path, "details_*.parquet") if _NAME.fullmatch(file.name)]


def model_of(file: Path) -> str:
    """The model whose details a file holds, by the folders above it.

    Examples
    --------
    >>> model_of(Path("out/details/org/model/2025-01-01T00-00-00/details_t_2025.parquet"))
    'org/model'
    >>> model_of(Path("details_org__model/2023-09-03T10-57-04/details_t_2023.parquet"))
    'org/model'
    """
    folders = file.parent.parent.parts
    if "details" in folders:
        at = len(folders) - folders[::-1].index("details")
        if folders[at:]:
            return "/".join(folders[at:])
    name = folders[-1] if folders else file.parent.name
    return name.removeprefix("details_").removesuffix("_private").replace("__", "/", 1)


def rows(log: Path, notes: list[str]) -> list[Row]:
    """Every score of one file; see `reader_of_rows`."""
    from pyarrow import parquet

    data = parquet.ParquetFile(log)
    names = data.schema_arrow.names
    column = next((c for c in _SCORES if c in names), None)
    if column is None:
        raise ValueError("no column 'metric' or 'metrics'")
    text = next((c for c in _TEXTS if c in names), None)
    content = data.read(columns=[column, text] if text else [column])
    scores = content[column].to_pylist()
    texts = content[text].to_pylist() if text else [None] * len(scores)
    name_of = _NAME.fullmatch(log.name)
    assert name_of is not None  # by `logs`
    model, task, date = model_of(log), name_of["task"], name_of["date"]
    return [
        Row(
            model,
            task,
            name,
            _place(document, n),
            float(value),
            doc_hash=_hash(document),
            date=date,
        )
        for n, (one, document) in enumerate(zip(scores, texts))
        for name, value in _object(one).items()
        if isinstance(value, (bool, int, float))
    ]


def _object(value: Any) -> dict[str, object]:
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _place(document: Any, row: int) -> int | str:
    """The sample's place in the data set, where it is stated; else its row."""
    stated = document.get("id") if isinstance(document, dict) else None
    return row if not stated else int(stated) if str(stated).isdecimal() else str(stated)


def _hash(document: Any) -> str | None:
    """Of the question: few-shot examples before it may differ between runs."""
    text = document.get("query") if isinstance(document, dict) else document
    return hashlib.sha256(text.encode()).hexdigest() if isinstance(text, str) else None


READER = reader_of_rows(
    "lighteval",
    "details of lighteval and of the first Open LLM Leaderboard (details_*.parquet)",
    logs,
    rows,
)
