"""Readers of what other frameworks log: HELM, lighteval, and the schema of Every Eval Ever.

*HELM*: ``run_spec.json`` and ``per_instance_stats.json`` in a folder per run. The latter is a list
of ``{instance_id, train_trial_index, perturbation, stats}``; a stat is ``{name: {name, split, ...},
count, sum, mean, ...}``. Instances are numbered by the scenario, alike for every model. Perturbed
instances are left out, and trials count as configs. Layout: helm's ``benchmark/runner.py`` and
``benchmark/metrics/statistic.py`` (https://github.com/stanford-crfm/helm), unchanged from 0.2 to
0.5.

*lighteval*, whose details the first Open LLM Leaderboard published, too:
``details/<model>/<date>/details_<task>_<date>.parquet`` holds a row per sample: ``doc.id`` is its
place in the data set (rows are shuffled; older versions have no ``doc.id``, and their rows are in
the data set's order). Column ``metric`` (``metrics`` before 0.11) is an object of the sample's
scores, or, where Arrow could not store it, that object as text. On the leaderboard a model's folder
is the data set ``details_<organisation>__<model>``. Layout: ``logging/evaluation_tracker.py`` and
``logging/info_loggers.py`` (https://github.com/huggingface/lighteval).

*Every Eval Ever* (EvalEval Coalition): a ``.jsonl`` holds instance-level records
(``instance_level_eval.schema.json``), a line per sample and model: ``model_id``,
``evaluation_name``, ``sample_id``, ``sample_hash``, ``evaluation.score``. The ``.json`` beside it
(``eval.schema.json``), whose ``evaluation_id`` they name, says of each result which metric it is
and where its scores lie. Schemas: https://github.com/evaleval/every_eval_ever, version 0.2.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import ScaleError
from ...metrics.scale import Scale
from .bounded import json_value, lines
from .rows import Row, files_at, reader_of_rows

_STATS, _SPEC = "per_instance_stats.json", "run_spec.json"
_NAMING = ("model", "model_deployment")


def _helm_logs(path: Path) -> list[Path]:
    files = files_at(path, _STATS)
    return [f for f in files if f.name == _STATS and f.with_name(_SPEC).is_file()]


def _helm_rows(log: Path, notes: list[str]) -> Iterator[Row]:
    spec = json_value(log.with_name(_SPEC))
    # A run's name without its model: what was run, and how.
    scenario, _, arguments = str(spec["name"]).partition(":")
    kept = [a for a in arguments.split(",") if a and a.partition("=")[0] not in _NAMING]
    task = f"{scenario}:{','.join(kept)}" if kept else scenario
    for one in json_value(log):
        if one.get("perturbation"):
            continue
        config = f"trial={one.get('train_trial_index', 0)}"
        for stat in one["stats"]:
            if stat.get("count") and stat.get("mean") is not None:
                model, name = str(spec["adapter_spec"]["model"]), str(stat["name"]["name"])
                yield Row(model, task, name, str(one["instance_id"]), float(stat["mean"]), config)


_DETAILS = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.parquet")


def _lighteval_logs(path: Path) -> list[Path]:
    return [file for file in files_at(path, "details_*.parquet") if _DETAILS.fullmatch(file.name)]


def model_of(file: Path) -> str:
    """The model whose details of lighteval a file holds, by the folders above it.

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


def _lighteval_rows(log: Path, notes: list[str]) -> Iterator[Row]:
    from pyarrow import parquet

    data = parquet.ParquetFile(log)
    names = data.schema_arrow.names
    column = next((c for c in ("metric", "metrics") if c in names), None)
    if column is None:
        raise ValueError("no column 'metric' or 'metrics'")
    # Where the text of a sample stands, by version.
    text = next((c for c in ("doc", "full_prompt", "example") if c in names), None)
    content = data.read(columns=[column, text] if text else [column])
    scores = content[column].to_pylist()
    of = _DETAILS.fullmatch(log.name)
    assert of is not None  # by `_lighteval_logs`
    for n, document in enumerate(content[text].to_pylist() if text else [None] * len(scores)):
        stated = document.get("id") if isinstance(document, dict) else None
        place = n if not stated else int(stated) if str(stated).isdecimal() else str(stated)
        # Of the question: few-shot examples before it may differ between runs.
        asked = document.get("query") if isinstance(document, dict) else document
        sha = hashlib.sha256(asked.encode()).hexdigest() if isinstance(asked, str) else None
        values = scores[n]
        if isinstance(values, str):
            try:
                values = ast.literal_eval(values)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
        for name, score in values.items() if isinstance(values, dict) else ():
            if isinstance(score, (bool, int, float)):
                model, task, date = model_of(log), of["task"], of["date"]
                yield Row(model, task, name, place, float(score), doc_hash=sha, date=date)


_NEEDED = {"evaluation_id", "model_id", "evaluation_name", "sample_id", "evaluation"}
_HEAD_BYTES = 1 << 20


def _record_logs(path: Path) -> Iterator[Path]:
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


def _record_rows(log: Path, notes: list[str]) -> Iterator[Row]:
    results = _results_beside(log)
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
                    scale=_scale_of(result),
                )
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                broken += 1
                continue
            yield row
    if broken:
        notes.append(f"{log}: {broken} lines are not instance-level records and were left out")


def _results_beside(file: Path) -> dict[Any, dict[str, Any]]:
    """The metrics of the results files beside the records, by result's id and by name."""
    known: dict[Any, dict[str, Any]] = {}
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


def _scale_of(metric: dict[str, Any]) -> Scale | None:
    low, high = metric.get("min_score"), metric.get("max_score")
    try:
        return Scale(low, high, higher_is_better=not metric.get("lower_is_better"))  # type: ignore[arg-type]
    except ScaleError:
        return None


HELM = reader_of_rows("helm", "runs of HELM (per_instance_stats.json)", _helm_logs, _helm_rows)
LIGHTEVAL = reader_of_rows(
    "lighteval",
    "details of lighteval and of the first Open LLM Leaderboard (details_*.parquet)",
    _lighteval_logs,
    _lighteval_rows,
)
EVERY_EVAL_EVER = reader_of_rows(
    "every_eval_ever",
    "instance-level records of Every Eval Ever (.jsonl)",
    _record_logs,
    _record_rows,
)
