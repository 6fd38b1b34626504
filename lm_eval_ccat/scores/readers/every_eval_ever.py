"""Reader of the schema of Every Eval Ever (EvalEval Coalition): a line per sample and model.

A ``.jsonl`` holds instance-level records (``instance_level_eval.schema.json``): ``model_id``,
``evaluation_name``, ``sample_id``, ``sample_hash``, ``evaluation.score``. The ``.json`` beside it
(``eval.schema.json``), whose ``evaluation_id`` they name, says of each result which metric it is
and where its scores lie. Schemas: https://github.com/evaleval/every_eval_ever, version 0.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import ScaleError
from ...metrics.scale import Scale
from .bounded import json_value, lines
from .rows import Row, files_at, reader_of_rows

_NEEDED = {"evaluation_id", "model_id", "evaluation_name", "sample_id", "evaluation"}
_HEAD_BYTES = 1 << 20


def logs(path: Path) -> Iterator[Path]:
    """The files of instance-level records at or below a path."""
    for file in files_at(path, "*.jsonl"):
        if file.suffix == ".jsonl":
            with file.open("rb") as stream:
                first = stream.readline(_HEAD_BYTES)
            try:
                record = json.loads(first)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict) and set(record) >= _NEEDED:
                yield file


def rows(log: Path, notes: list[str]) -> Iterator[Row]:
    """Every instance-level record of one file; see `reader_of_rows`."""
    results = _results(log)
    broken = 0
    with log.open("rb") as stream:
        for line in lines(stream, log):
            try:
                record = json.loads(line.decode("utf-8", "replace"))
                result = results.get(record.get("evaluation_result_id")) or results.get(
                    record["evaluation_name"], {}
                )
                row = Row(
                    str(record["model_id"]),
                    str(record["evaluation_name"]),
                    str(result.get("metric_id") or result.get("metric_name") or "score"),
                    record["sample_id"],
                    float(record["evaluation"]["score"]),
                    doc_hash=record.get("sample_hash"),
                    date=str(result.get("date") or ""),
                    scale=_scale(result),
                )
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                broken += 1
                continue
            yield row
    if broken:
        notes.append(f"{log}: {broken} lines are not instance-level records and were left out")


def _results(file: Path) -> dict[Any, dict[str, object]]:
    """The metrics of the results files beside the records, by result's id and by name."""
    known: dict[Any, dict[str, object]] = {}
    for beside in sorted(file.parent.glob("*.json")):
        if not file.stem.startswith(beside.stem):
            continue
        try:
            content = json_value(beside)
            for result in content["evaluation_results"]:
                date = result.get("evaluation_timestamp") or content.get("retrieved_timestamp")
                facts = {**result.get("metric_config", {}), "date": date}
                known.setdefault(result["evaluation_name"], facts)
                if result.get("evaluation_result_id"):
                    known[result["evaluation_result_id"]] = facts
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return known


def _scale(metric: Mapping[str, object]) -> Scale | None:
    low, high = metric.get("min_score"), metric.get("max_score")
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return None
    try:
        return Scale(low, high, higher_is_better=not metric.get("lower_is_better"))
    except ScaleError:
        return None


READER = reader_of_rows(
    "every_eval_ever", "instance-level records of Every Eval Ever (.jsonl)", logs, rows
)
