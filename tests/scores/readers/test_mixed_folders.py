"""A folder that holds logs of several frameworks, beside files that are no logs at all."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from scores.test_harness_logs import rows_of, write_run

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UnknownScoresError

DATA = Path(__file__).parent / "data"
SCORES = {"a": [1, 0, 1, 1], "b": [0, 0, 1, 1], "c": [0, 1, 1, 0]}


@pytest.fixture
def folder(tmp_path):
    """Logs of the harness (task demo) and of Inspect (task sums), and what lies about."""
    for model, scores in SCORES.items():
        write_run(tmp_path / "logs", model, rows_of(scores))
    for file in DATA.glob("*.eval"):
        shutil.copy(file, tmp_path / "logs")
    (tmp_path / "logs" / "README.md").write_text("| model | doc_id | score |\n")
    (tmp_path / "logs" / "config.json").write_text(json.dumps({"model": "x", "task": "sums"}))
    (tmp_path / "logs" / "notes.txt").write_text("model,doc_id,score\n")
    return tmp_path / "logs"


def test_each_framework_s_task_of_a_mixed_folder_can_be_asked_for(folder):
    sums = ScoreTable.read(folder, "includes", "sums")
    assert sums.models == ("mockllm/good", "mockllm/poor") and sums.n_items == 4
    demo = ScoreTable.read(folder, "exact_match", "demo")
    assert {m: r.tolist() for m, r in zip(demo.models, demo.raw)} == SCORES
    assert not any("README" in text or "config" in text for text in sums.warnings + demo.warnings)
    with pytest.raises(UnknownScoresError, match=r"2 tasks \(demo, sums\); name one"):
        ScoreTable.read(folder)
    with pytest.raises(UnknownScoresError, match="no scores of task 'demos'"):
        ScoreTable.read(folder, task="demos")


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="names of HELM's folders hold a colon")
def test_calibrate_makes_a_bank_of_each_framework_s_task(folder, tmp_path):
    with zipfile.ZipFile(DATA / "helm.zip") as archive:
        archive.extractall(folder / "helm")
    out = tmp_path / "suite"
    call = ["calibrate", str(folder), "--task", "*", "--method", "paper", "-o", str(out)]
    assert main([*call, "--metric", "exact_match,includes"]) == 0
    tasks = SuiteBank.load(out)
    assert {"demo", "sums"} < set(tasks) and any("mcqa" in task for task in tasks)
    assert set(tasks["demo"]["exact_match"].models) == set(SCORES)


def test_scores_of_another_kind_are_named_where_they_are_left_out(folder, tmp_path, capsys):
    other = ScoreTable.from_arrays([[1, 1, 0, 0]], ["d"], metric="exact_match", task="demo")
    other.write(folder / "more.csv")
    (folder / "a" / "b").mkdir(parents=True)
    other.write(folder / "a" / "b" / "deep.csv")  # the one that is nearest is named
    call = ["calibrate", str(folder), "--task", "demo", "--metric", "exact_match"]
    assert main([*call, "--method", "paper", "-o", str(tmp_path / "b.json")]) == 0
    assert "more.csv: demo/exact_match of another kind of logs, left out" in capsys.readouterr().err
    assert set(ItemBank.load(tmp_path / "b.json").models) == set(SCORES)


def test_a_table_that_names_no_metric_beside_logs_is_of_the_one_that_is_asked_for(folder):
    (folder / "own.csv").write_text("model,doc_id,score\nd,0,1\nd,1,0\n")
    assert ScoreTable.read(folder, "my_score").models == ("d",)


def test_a_file_that_nobody_may_open_disturbs_no_logs_of_another_kind(folder, monkeypatch):
    """As an image of a locked folder: the reader of such files cannot look into it."""
    locked = folder / "locked.json"
    locked.write_text("{}")
    opened = Path.open

    def refuse(path, *how, **more):
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *how, **more)

    monkeypatch.setattr(Path, "open", refuse)
    assert ScoreTable.read(folder, "exact_match", "demo").n_items == 4


def test_a_table_that_is_none_disturbs_no_logs_beside_it(folder):
    (folder / "costs.csv").write_text("month,dollars\n1,20\n2,30\n")
    table = ScoreTable.read(folder, "exact_match", "demo")
    assert table.n_items == 4 and len(table.models) == 3
    assert any("costs.csv" in text and "left out" in text for text in table.warnings)
