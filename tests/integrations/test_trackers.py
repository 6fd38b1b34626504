"""A result in a tracker: the real packages, offline."""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace

import pytest

from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.integrations.trackers import log_result, numbers, trackers_of

RESULT = {
    "headline": "b > a, at 95%, using 5% of the items",
    "signature": "task:t|metric:bleu",
    "metric": "sentence_bleu",
    "stopped_because": "every pair is decided",
    "models": {
        "o/b:7": {"rank": 1, "estimate": 31.5, "standard_error": 1.25, "n_items": 40, "cost": 0.2},
        "a": {"rank": 2, "estimate": 20.0, "standard_error": 1.0, "n_items": 30, "cost": None},
    },
    "cost": 0.2,
    "items_administered": 70,
    "exit_code": 0,
}


def test_a_quantity_without_a_value_is_left_out():
    found = numbers(RESULT)
    assert found["estimate/o/b:7"] == 31.5 and found["all/items_administered"] == 70
    assert "cost/a" not in found
    nothing_right = {"models": {"a": {"estimate": 0.0, "rank": None}}, "exit_code": 0}
    assert numbers(nothing_right) == {"estimate/a": 0.0, "all/exit_code": 0.0}


@pytest.mark.long
def test_mlflow_keeps_numbers_settings_and_the_whole_result(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    log_result(RESULT, "mlflow", project="ranking")
    [run] = mlflow.search_runs(experiment_names=["ranking"], output_format="list")
    assert run.data.metrics["estimate/o/b_7"] == 31.5
    assert run.data.params["headline"] == RESULT["headline"]
    [file] = (tmp_path / "store").rglob("result.json")
    assert json.loads(file.read_text()) == RESULT


@pytest.mark.long
def test_wandb_offline_writes_a_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    log_result(RESULT, "wandb", mode="offline", dir=str(tmp_path))
    [log] = tmp_path.rglob("run-*.wandb")
    wanted = [key.encode() for key in numbers(RESULT)]
    # W&B's own process writes the file, a moment after the run has ended on a busy machine. The
    # file is cut into blocks, at any place; one key may lie across a cut.
    end = time.monotonic() + 60
    while (found := sum(key in log.read_bytes() for key in wanted)) < len(wanted) - 1:
        assert time.monotonic() < end, f"{found} of {len(wanted)} quantities in the file"
        time.sleep(0.1)


def test_the_table_of_wandb_has_each_quantity_in_its_column(monkeypatch):
    rows, run = [], SimpleNamespace(log=lambda entry: None, summary={})
    table = SimpleNamespace(add_data=lambda *row: rows.append(row))

    def new_table(columns: list[str]) -> SimpleNamespace:
        table.columns = columns
        return table

    fake = SimpleNamespace(
        init=lambda **_: run, log=lambda values: None, finish=lambda: None, Table=new_table
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    block = {"n_items": 30, "estimate": 0.5, "more": 9, "rank": 1}
    log_result({"models": {"a": block}}, "wandb")
    [row] = [dict(zip(table.columns, row)) for row in rows]
    expected = {"model": "a", "rank": 1, "estimate": 0.5, "standard_error": None, "n_items": 30}
    assert row == expected | {"cost": None}


def test_a_tracker_is_asked_for_by_a_block_without_settings(monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", SimpleNamespace())
    assert trackers_of({"trackio_args": {}, "mlflow_args": None}) == {"trackio": {}}


def test_trackio_gets_the_same_numbers(monkeypatch):
    trackio = pytest.importorskip("trackio")
    logged: list[dict[str, float]] = []
    monkeypatch.setattr(trackio, "init", lambda **_: None)
    monkeypatch.setattr(trackio, "finish", lambda: None)
    monkeypatch.setattr(trackio, "log", lambda values, step=None: logged.append(values))
    log_result(RESULT, "trackio")
    assert logged == [numbers(RESULT)]


def test_a_tracker_that_is_missing_or_unknown_is_named(monkeypatch):
    with pytest.raises(UsageError, match="no tracker 'tensorboard'"):
        log_result(RESULT, "tensorboard")
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(UsageError, match=r"pip install '.*\[trackio\]'"):
        log_result(RESULT, "trackio")
