"""`score`: harness logs scored by COMET (in another environment), a judge and text metrics."""

from __future__ import annotations

import os
import re
import sys

import numpy as np
import pytest
import yaml
from judge_server import JudgeServer

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.harness import comet as harness_comet

# What unbabel-comet offers to the worker, with a score that can be told: shared words over all.
COMET = """\
from types import SimpleNamespace
def download_model(name):
    assert name == "Unbabel/wmt22-comet-da", name
    return "checkpoint"
def load_from_checkpoint(path):
    assert path == "checkpoint"
    def predict(rows, batch_size, gpus, progress_bar):
        assert (batch_size, gpus, progress_bar) == (16, 0, False)
        assert all(row["src"].startswith("Cümle") for row in rows)
        words = [(set(row["mt"].split()), set(row["ref"].split())) for row in rows]
        scores = [len(mt & ref) / len(mt | ref) for mt, ref in words]
        return SimpleNamespace(scores=[1.02 if score == 1 else score for score in scores])
    return SimpleNamespace(predict=predict)
"""


@pytest.fixture
def comet(tmp_path, monkeypatch):
    (tmp_path / "comet.py").write_text(COMET)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CCAT_COMET_PYTHON", sys.executable)
    yield
    harness_comet._worker.cache_clear()  # a worker outlives the environment that it was made in


def test_comet_scores_become_a_table_that_calibrates(logs, comet, tmp_path, capsys):
    out = tmp_path / "comet.parquet"
    arguments = ["score", "comet", str(logs), "--task", "ccat_flores200_tur_eng", "-o", str(out)]
    assert main(arguments) == 0
    assert "comet (0 to 1, higher is better)" in capsys.readouterr().out
    table = ScoreTable.read(out, metric="comet")
    assert table.models == ("m1", "m3", "m5")
    assert table.doc_hashes is not None and table.task == "ccat_flores200_tur_eng"
    means = table.raw.mean(axis=1)
    assert (np.diff(means) > 0).all() and table.raw.max() <= 1  # 1.02 was clipped
    bank = calibrate(table, method="paper")
    assert bank.metric == "comet" and bank.scale.describe() == "0 to 1, higher is better"


def test_comet_says_what_is_missing(logs, tmp_path, capsys, monkeypatch):
    out = ["-o", str(tmp_path / "x.csv")]
    flores = ["score", "comet", str(logs), "--task", "ccat_flores200_tur_eng", *out]
    monkeypatch.delenv("CCAT_COMET_PYTHON", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(flores) == 1
    assert "lm-eval-ccat score comet --setup" in capsys.readouterr().err
    monkeypatch.setenv("CCAT_COMET_PYTHON", sys.executable)
    assert main(flores) == 1  # this environment has no comet
    assert "No module named 'comet'" in capsys.readouterr().err
    monkeypatch.setenv("CCAT_COMET_PYTHON", "/no/such/python")
    assert main(flores) == 1
    assert "cannot run /no/such/python" in capsys.readouterr().err
    report = ["score", "comet", str(logs), "--task", "ccat_govreport", *out]
    assert main(report) == 2
    assert "--source_field (it has report, summary)" in capsys.readouterr().err


def test_a_judge_rates_logged_answers_once(logs, tmp_path, capsys):
    def rate(messages, n):
        answer = re.search(r"<answer \w+>\n(.*)\n</answer", messages[0]["content"], re.DOTALL)[1]
        return f"Rating: [[{10 if 'hum' not in answer.split() else 2}]]"

    out = tmp_path / "judge.csv"
    with JudgeServer(rate) as server:
        settings = {"model": "a-judge", "base_url": server.base_url, "cache": "c.jsonl"}
        path = tmp_path / "judge.yaml"
        path.write_text(yaml.safe_dump({**settings, "price": {"input": 1, "output": 1}}))
        command = ["score", "judge", str(logs), "--task", "ccat_truthfulqa_gen", "-o", str(out)]
        assert main([*command, "--judge", str(path)]) == 0
        asked = len(server.requests)
        assert main([*command, "--judge", str(path)]) == 0
        assert len(server.requests) == asked  # all from the cache
        assert "$0.0000" in capsys.readouterr().err
        path.write_text(yaml.safe_dump({**settings, "model": "m3"}))
        assert main([*command, "--judge", str(path)]) == 2
        assert "judge m3 is one of the judged models" in capsys.readouterr().err
        assert len(server.requests) == asked
    table = ScoreTable.read(out, metric="judge_score")
    assert table.scale.low == 1 and table.scale.high == 10
    assert set(np.unique(table.raw)) <= {2.0, 10.0}
    assert main(command) == 2 and "--judge FILE" in capsys.readouterr().err


def test_text_metrics_of_logs_equal_those_of_the_task(logs, tmp_path):
    metric = "rougeL"
    out = tmp_path / "table.parquet"
    command = ["score", metric, str(logs), "--task", "ccat_biolaysumm_plos", "-o", str(out)]
    assert main(command) == 0
    again = ScoreTable.read(out, metric=metric)
    task = ScoreTable.read(logs, task="ccat_biolaysumm_plos", metric=metric)
    np.testing.assert_allclose(again.raw, task.raw, atol=1e-9)
    assert again.scale == task.scale and again.doc_hashes == task.doc_hashes


def test_mistakes_are_named(logs, tmp_path, capsys):
    assert main(["score", "rougeL", str(logs), "-o", str(tmp_path / "x.parquet")]) == 1
    assert "name one (--task)" in capsys.readouterr().err
    assert main(["score", "rougeL", str(logs), "--task", "ccat_govreport", "-o", "x.txt"]) == 2
    assert ".parquet or a .csv" in capsys.readouterr().err
    assert main(["score", "blue", str(logs), "-o", str(tmp_path / "x.parquet")]) == 2
    assert "did you mean bleu" in capsys.readouterr().err


def test_a_tokenizer_makes_another_metric_of_logged_answers(logs, tmp_path):
    tables = {}
    for metric in ("bleu", "bleu@char"):
        out = tmp_path / f"{metric}.parquet"
        assert main(["score", metric, str(logs), "--task", "ccat_govreport", "-o", str(out)]) == 0
        tables[metric] = ScoreTable.read(out)
        assert tables[metric].metric == metric and tables[metric].scale.high == 100
    assert (tables["bleu"].raw != tables["bleu@char"].raw).any()
