"""`score`: harness logs scored by a judge and text metrics (by COMET: test_comet.py)."""

from __future__ import annotations

import re

import numpy as np
import pytest
import yaml
from judge_server import JudgeServer
from local_data import LOGGED, N
from scores.test_harness_logs import sample_row, write_run

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cli.main import main

TASK, QUESTIONS = "ccat_govreport", "ccat_truthfulqa_gen_judge"


def test_a_judge_rates_logged_answers_once(logs_of, tmp_path, capsys):
    def rate(messages, n):
        answer = re.search(r"<answer \w+>\n(.*)\n</answer", messages[0]["content"], re.DOTALL)[1]
        return f"Rating: [[{10 if 'hum' not in answer.split() else 2}]]"

    out = tmp_path / "judge.csv"
    with JudgeServer(rate) as server:
        settings = {"model": "a-judge", "base_url": server.base_url, "cache": "c.jsonl"}
        settings["concurrency"] = 1  # so that there are several batches of 16 answers
        path = tmp_path / "judge.yaml"
        path.write_text(yaml.safe_dump({**settings, "price": {"input": 1, "output": 1}}))
        command = ["score", "judge", str(logs_of(QUESTIONS)), "--task", QUESTIONS]
        command += ["-o", str(out)]
        assert main([*command, "--judge", str(path)]) == 0
        asked = len(server.requests)
        assert main([*command, "--judge", str(path)]) == 0
        assert len(server.requests) == asked  # all from the cache
        printed = capsys.readouterr()
        assert "$0.0000" in printed.err
        # In portions, of which the last ends with the last answer.
        portions = [int(n) for n in re.findall(rf"rated (\d+) of {len(LOGGED) * N}", printed.err)]
        assert portions[-1] == len(LOGGED) * N and portions[0] == 16
        assert printed.out.endswith(f"Next: lm-eval-ccat calibrate {out} -o bank.json\n")
        path.write_text(yaml.safe_dump({**settings, "model": "m3"}))
        assert main([*command, "--judge", str(path)]) == 2
        assert "judge m3 is one of the judged models" in capsys.readouterr().err
        assert len(server.requests) == asked
    table = ScoreTable.read(out, metric="judge_score")
    assert table.scale.low == 1 and table.scale.high == 10
    assert set(np.unique(table.raw)) <= {2.0, 10.0} and table.raw.size > 16


def test_answers_without_a_rating_are_counted_apart(logs_of, tmp_path, capsys):
    def rate(messages, n):
        answer = re.search(r"<answer \w+>\n(.*)\n</answer", messages[0]["content"], re.DOTALL)[1]
        return "I cannot say" if "hum" in answer.split() else "Rating: [[5]]"

    out, path = tmp_path / "judge.csv", tmp_path / "judge.yaml"
    with JudgeServer(rate) as server:
        path.write_text(yaml.safe_dump({"model": "a-judge", "base_url": server.base_url}))
        command = ["score", "judge", str(logs_of(QUESTIONS)), "--task", QUESTIONS]
        command += ["-o", str(out)]
        assert main([*command, "--judge", str(path)]) == 0
    said = re.search(r"(\d+) answers .* are scored; (\d+) have no score", capsys.readouterr().err)
    scored, missing = map(int, said.groups())
    assert scored == np.isfinite(ScoreTable.read(out, metric="judge_score").raw).sum()
    assert missing == len(LOGGED) * N - scored > 0


def test_text_metrics_of_logs_equal_those_of_the_task(logs_of, tmp_path):
    metric, logs = "rougeL", logs_of(TASK)
    out = tmp_path / "table.parquet"
    assert main(["score", metric, str(logs), "--task", TASK, "-o", str(out)]) == 0
    again = ScoreTable.read(out, metric=metric)
    task = ScoreTable.read(logs, task=TASK, metric=metric)
    np.testing.assert_allclose(again.raw, task.raw, atol=1e-9)
    assert again.scale == task.scale and again.doc_hashes == task.doc_hashes
    for model in task.models:
        assert again.prompt_marks(model) == task.prompt_marks(model)
        assert all(task.prompt_marks(model).values())


def test_mistakes_are_named(logs_of, capsys):
    for command, code, words in (
        ("rougeL LOGS -o x.parquet", 2, "name one (--task)"),
        ("rougeL LOGS --task ccat_govreport -o x.txt", 2, ".parquet or a .csv"),
        ("blue LOGS -o x.parquet", 2, "did you mean bleu"),
        ("judge LOGS --task ccat_govreport -o x.csv", 2, "--judge FILE"),
        (
            "comet LOGS --task ccat_flores200_tur_eng -o x.csv --source_field nowhere",
            2,
            "under nowhere; name the field",
        ),
    ):
        assert main(["score", *command.replace("LOGS", str(logs_of(TASK))).split()]) == code
        assert words in capsys.readouterr().err


def test_of_several_filters_the_one_that_is_named_is_scored(tmp_path, ccat):
    rows = [
        sample_row(k, {"acc": 1.0}, filter=name, answer=answer, target="one two three four")
        for k in range(3)
        for name, answer in (("strict", "one two three four"), ("loose", "of something else"))
    ]
    write_run(tmp_path / "logs", "m", rows, filters=("strict", "loose"))
    score = ["score", "bleu", tmp_path / "logs", "-o", tmp_path / "bleu.csv"]
    assert "2 filters (loose, strict); name one" in ccat(*score, code=2).err
    for name, expected in (("strict", 100.0), ("loose", 0.0)):
        ccat(*score, "--filter", name)
        assert ScoreTable.read(tmp_path / "bleu.csv").raw == pytest.approx(expected, abs=5.0)


def test_a_run_of_some_documents_is_told_beside_its_scores(tmp_path, ccat):
    rows = [sample_row(k, {"acc": 1.0}, answer="one two", target="one two") for k in range(5)]
    write_run(tmp_path / "logs", "whole", rows)
    part = {"limit": 2, "samples": {"original": 5, "effective": 2}}
    write_run(tmp_path / "logs", "cut", rows[:2], **part)
    said = ccat("score", "bleu", tmp_path / "logs", "-o", tmp_path / "bleu.csv").err
    assert "cut/samples_demo" in said and "whole/samples_demo" not in said
