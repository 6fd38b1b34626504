"""Logs of other tools, by the layouts that they document; those of Inspect are its own."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.scores.readers.registry import READERS
from lm_eval_ccat.testing.readers import ReaderSuite

DATA = Path(__file__).parent / "data"


class TestInspect(ReaderSuite):
    """Two runs of a task of four sums, written by inspect_ai 0.3.285 and its mock model."""

    reader = READERS.get("inspect_ai")
    wanted = {"metric": "includes", "task": "sums"}  # noqa: RUF012

    def write(self, folder: Path) -> Path:
        for file in DATA.glob("*.eval"):
            shutil.copy(file, folder)
        return folder

    def expected(self) -> ScoreTable:
        models = ["mockllm/good", "mockllm/poor"]
        return ScoreTable.from_arrays(
            [[1, 1, 1, 1], [1, 0, 1, 0]], models, ["q0", "q1", "q2", "q3"]
        )


def inspect_log(path: Path, model: str, samples: list[dict], status: str = "success") -> None:
    header = {"version": 2, "status": status, "eval": {"model": model, "task": "t"}}
    if path.suffix == ".json":
        path.write_text(json.dumps({**header, "samples": samples}))
        return
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for s in samples:
            archive.writestr(f"samples/{s['id']}_epoch_{s['epoch']}.json", json.dumps(s))


@pytest.mark.parametrize("ending", ["eval", "json"])
def test_values_epochs_and_unfinished_runs_of_inspect(tmp_path, ending):
    values = [[True, "P"], ["yes", {"x": 0.25}], ["0.5", ["no", "number"]]]
    samples = [
        {"id": i, "epoch": e + 1, "scores": {"s": {"value": v}}}
        for i, both in enumerate(values)
        for e, v in enumerate(both)
    ]
    inspect_log(tmp_path / f"a.{ending}", "m", samples, status="error")
    table = ScoreTable.read(tmp_path, metric="s")
    assert table.row_config == ("epoch=1", "epoch=2")
    assert np.array_equal(table.raw, [[1, 1, 0.5], [0.5, np.nan, np.nan]], equal_nan=True)
    assert "did not finish" in table.warnings[0]
    assert ScoreTable.read(tmp_path, metric="s/x").raw.tolist() == [[0.25]]


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    from lm_eval_ccat.scores.readers import inspect_ai

    monkeypatch.setattr(inspect_ai, "_MOST_BYTES", 10)
    shutil.copy(DATA / "sums_1.eval", tmp_path)
    with pytest.raises(ScoreTableError, match=r"header\.json has [\d,]+ bytes"):
        ScoreTable.read(tmp_path)


def helm_stat(name: str, mean: float | None) -> dict:
    return {"name": {"name": name, "split": "test"}, "count": mean is not None, "mean": mean}


class TestHelm(ReaderSuite):
    reader = READERS.get("helm")
    wanted = {"metric": "exact_match", "task": "mmlu:subject=art"}  # noqa: RUF012

    def write(self, folder: Path) -> Path:
        for model, scores in (("o/a", [1.0, 0.0]), ("o/b", [0.0, 0.0])):
            name = f"mmlu:subject=art,model={model.replace('/', '_')}"
            run = folder / "runs" / "v1" / name
            run.mkdir(parents=True)
            spec = {"name": name, "adapter_spec": {"model": model}}
            (run / "run_spec.json").write_text(json.dumps(spec))
            stats = [
                {
                    "instance_id": f"id{i}",
                    "train_trial_index": 0,
                    "stats": [helm_stat("exact_match", s), helm_stat("training_co2_cost", None)],
                }
                for i, s in enumerate(scores)
            ]
            stats.append({**stats[0], "perturbation": {"name": "typos"}})
            (run / "per_instance_stats.json").write_text(json.dumps(stats, indent=2))
        return folder

    def expected(self) -> ScoreTable:
        return ScoreTable.from_arrays([[1, 0], [0, 0]], ["o/a", "o/b"], ["id0", "id1"])


def write_details(folder: Path, name: str, columns: dict[str, list]) -> None:
    folder.mkdir(parents=True)
    parquet.write_table(pa.table(columns), folder / name)


class TestLighteval(ReaderSuite):
    reader = READERS.get("lighteval")
    wanted = {"metric": "em", "task": "lighteval|gsm8k|0"}  # noqa: RUF012
    date = "2025-03-01T10-00-00.123456"

    def write(self, folder: Path) -> Path:
        for model, scores in (("o/a", [1.0, 0.0]), ("b", [0.0, 0.5])):
            write_details(
                folder / "details" / model / self.date,
                f"details_lighteval|gsm8k|0_{self.date}.parquet",
                {
                    "doc": [{"query": f"question {i}", "id": str(i)} for i in range(2)],
                    "metric": [{"em": s, "other": 1} for s in scores],
                },
            )
        return folder

    def expected(self) -> ScoreTable:
        return ScoreTable.from_arrays([[1, 0], [0, 0.5]], ["o/a", "b"])


def test_details_of_the_first_open_llm_leaderboard(tmp_path):
    date = "2023-09-03T10-57-04.203304"
    write_details(
        tmp_path / "details_org__model" / date,
        f"details_harness|arc:challenge|25_{date}.parquet",
        {"full_prompt": ["p", "q"], "metrics": ["{'acc': 1.0, 'acc_norm': 0.0}"] * 2},
    )
    table = ScoreTable.read(tmp_path, metric="acc")
    assert table.models == ("org/model",) and table.task == "harness|arc:challenge|25"
    assert table.raw.tolist() == [[1.0, 1.0]] and len(set(table.doc_hashes)) == 2


class TestEveryEvalEver(ReaderSuite):
    reader = READERS.get("every_eval_ever")
    wanted = {"task": "gsm", "metric": "points"}  # noqa: RUF012

    def write(self, folder: Path) -> Path:
        for model, scores in (("o/a", [10, 0]), ("o/b", [5, 2.5])):
            place = folder / "data" / "gsm" / model
            place.mkdir(parents=True)
            config = {"metric_name": "points", "min_score": 0, "max_score": 10}
            result = {
                "evaluation_name": "gsm",
                "evaluation_result_id": "r1",
                "metric_config": {**config, "lower_is_better": False},
            }
            content = {"evaluation_id": f"gsm/{model}/1", "evaluation_results": [result]}
            (place / "u1.json").write_text(json.dumps(content))
            lines = [
                {
                    "schema_version": "0.2.2",
                    "evaluation_id": f"gsm/{model}/1",
                    "model_id": model,
                    "evaluation_name": "gsm",
                    "evaluation_result_id": "r1",
                    "sample_id": f"gsm_{i}",
                    "sample_hash": f"h{i}",
                    "evaluation": {"score": s, "is_correct": s > 5},
                }
                for i, s in enumerate(scores)
            ]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (place / "u1_samples.jsonl").write_text(text)
        return folder

    def expected(self) -> ScoreTable:
        return ScoreTable.from_arrays(
            [[10, 0], [5, 2.5]], ["o/a", "o/b"], ["gsm_0", "gsm_1"], scale=Scale(0, 10)
        )


def old_log(folder: Path, rows: list[dict], results: bool = True, name: str = "jsonl") -> None:
    """A run of lm-eval 0.4.5: a row has no filter, and rows come filter by filter."""
    date = "2024-10-08T00-00-00.1"
    folder.mkdir()
    file = folder / f"samples_gsm_{date}.{name}"
    file.write_text(
        json.dumps(rows) if name == "json" else "".join(json.dumps(r) + "\n" for r in rows)
    )
    if results:
        content = {
            "model_name": folder.name,
            "results": {"gsm": {"exact_match,flexible": 1.0, "exact_match,strict": 0.5}},
            "configs": {"gsm": {"filter_list": [{"name": "strict"}, {"name": "flexible"}]}},
        }
        (folder / f"results_{date}.json").write_text(json.dumps(content))


ROWS = [
    {"doc_id": i, "doc": {}, "doc_hash": f"h{i}", "exact_match": s}
    for values in ((1.0, 0.0, 0.0), (1.0, 1.0, 0.0))
    for i, s in enumerate(values)
]


@pytest.mark.parametrize("name", ["jsonl", "json"])
def test_two_filters_that_rows_of_an_older_harness_do_not_name(tmp_path, name):
    old_log(tmp_path / "m", ROWS, name=name)
    with pytest.raises(ScoreTableError, match="name one"):
        ScoreTable.read(tmp_path)
    strict = ScoreTable.read(tmp_path, filter="strict")
    assert strict.raw.tolist() == [[1.0, 0.0, 0.0]] and strict.filter == "strict"
    assert ScoreTable.read(tmp_path, filter="flexible").raw.tolist() == [[1.0, 1.0, 0.0]]


def test_filters_that_nothing_names_are_asked_for(tmp_path):
    old_log(tmp_path / "m", ROWS, results=False)
    with pytest.raises(ScoreTableError, match=r"put the run's results_<date>\.json beside"):
        ScoreTable.read(tmp_path, metric="exact_match")
