"""COMET through its worker: alone, on finished logs, and from full runs to a bank and a ranking.

By default what runs in COMET's environment is a stand-in of the package `comet`; the worker, its
process and its protocol are the real ones. Where `CCAT_COMET_PYTHON` names an environment with
unbabel-comet, the same goes through COMET itself with a checkpoint of random weights.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import lm_eval.tasks
import numpy as np
import pytest
import yaml
from local_data import CONFIGS, N, run_command
from scores.test_harness_logs import sample_row, write_run
from worlds import comet_checkpoint
from worlds.logs import logged

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import MetricError
from lm_eval_ccat.harness import comet
from lm_eval_ccat.harness.comet import comet_scores
from lm_eval_ccat.upkeep.rescore import rescore

TASK = "ccat_flores200_tur_eng_comet"
RANKED = ("m1", "m3", "m5")
# What unbabel-comet offers to the worker: here the share of the reference's words, and 2% on top.
STAND_IN = """\
import os, sys
from types import SimpleNamespace
print("libraries print what they like")
def download_model(name):
    return name
def load_from_checkpoint(path):
    with open(os.environ["LOADED"], "a") as file:
        file.write(path + "\\n")
    def share(row):
        assert row["src"].startswith(("s", "Cümle"))
        words = row["ref"].split()
        return 1.02 * sum(word in row["mt"].split() for word in words) / len(words)
    def predict(rows, batch_size, gpus, progress_bar):
        print("to standard output too")
        assert (batch_size, gpus, progress_bar) == (16, 0, False)
        if rows[0]["mt"] == "die":
            sys.exit("killed by the system")
        if rows[0]["mt"] == "fail":
            raise RuntimeError("CUDA out of memory")
        return SimpleNamespace(scores=[share(row) for row in rows])
    return SimpleNamespace(predict=predict)
"""


def stand_in(folder, patch):
    """Make this Python COMET's, with a stand-in of the package; the file of loaded checkpoints."""
    (folder / "comet.py").write_text(STAND_IN)
    patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    patch.setenv("CCAT_COMET_PYTHON", sys.executable)
    patch.setenv("LOADED", str(folder / "loaded.txt"))
    comet._worker.cache_clear()
    return folder / "loaded.txt"


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    yield stand_in(tmp_path, monkeypatch)
    comet._worker.cache_clear()


def score(*translations):
    return comet_scores(["s"] * len(translations), translations, ["a b"] * len(translations))


def test_a_worker_that_is_killed_as_it_answers_is_told_in_a_sentence(loaded, monkeypatch, tmp_path):
    script = tmp_path / "python"
    script.write_text("""#!/bin/sh
echo '{"ready": "m"}'
read rows
printf '{"scores": [0.'
kill -9 $$
""")
    script.chmod(0o755)
    monkeypatch.setenv("CCAT_COMET_PYTHON", str(script))
    with pytest.raises(MetricError, match=r"failed in .*: it was killed by signal 9; has the"):
        score("a")


def test_the_model_is_loaded_once_and_a_failed_call_does_not_end_it(loaded, monkeypatch, tmp_path):
    assert score("", " ") == [0.0, 0.0] and not loaded.exists()
    assert score("a", "", "a b") == [0.51, 0.0, 1.0]  # clipped
    with pytest.raises(MetricError, match="RuntimeError: CUDA out of memory"):
        score("fail")
    assert score("b") == [0.51]
    assert loaded.read_text().split() == ["Unbabel/wmt22-comet-da"]
    monkeypatch.setenv("CCAT_COMET_MODEL", "another")
    with pytest.raises(MetricError, match="killed by the system"):
        score("die")
    assert score("b") == [0.51]  # started again
    assert loaded.read_text().split() == ["Unbabel/wmt22-comet-da", "another", "another"]
    # COMET's own command writes a folder, in which the checkpoint has this place.
    (tmp_path / "trained").mkdir()
    monkeypatch.setenv("CCAT_COMET_MODEL", str(tmp_path / "trained"))
    assert score("b") == [0.51]
    trained = tmp_path / "trained" / "checkpoints" / "model.ckpt"
    assert loaded.read_text().splitlines()[-1] == str(trained)


@pytest.mark.parametrize("model", [None, "another"])
def test_scores_of_logs_name_the_checkpoint_that_made_them(loaded, tmp_path, model):
    rows = [sample_row(k, {"acc": 1.0}, doc={"source": f"s {k}"}, answer="a") for k in range(2)]
    write_run(tmp_path / "logs", "m", rows)
    table = rescore(tmp_path / "logs", "comet", source_field="source", model=model)
    assert loaded.read_text().split() == [model or "Unbabel/wmt22-comet-da"]
    assert table.settings["scorer"] == {"comet": {"checkpoint": loaded.read_text().strip()}}


def test_what_a_failed_worker_wrote_is_quoted_in_whatever_encoding(tmp_path):
    (python := tmp_path / "python").write_text("#!/bin/sh\nprintf 'm\\351moire' >&2\n")
    python.chmod(0o755)
    with pytest.raises(MetricError, match=r"m\ufffdmoire$"):
        comet.CometWorker(str(python), "m")


def test_setup_makes_an_environment_and_says_what_failed(tmp_path, monkeypatch, capsys):
    steps, failing = [], [None]

    def run(step, **_):
        steps.append(step)
        broken = failing[-1] in step
        tells = "pip" in step and "--disable-pip-version-check" not in step
        written = "ERROR: no such version\n" + "[notice] of a newer pip" * tells
        return subprocess.CompletedProcess(step, int(broken), stderr=written)

    monkeypatch.setattr(comet.subprocess, "run", run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["score", "comet", "--setup"]) == 0
    folder = tmp_path / "lm-eval-ccat" / "comet"
    made = str(folder / "bin" / "python")
    assert steps[0][1:] == ["-m", "venv", str(folder)]
    assert steps[1][0] == made and {"unbabel-comet==2.2.7", "setuptools<81"} <= set(steps[1])
    assert made in capsys.readouterr().out
    for broken_step in ("install", "import comet"):
        failing.append(broken_step)
        assert main(["score", "comet", "--setup"]) == 1
        assert "ERROR: no such version" in capsys.readouterr().err
    monkeypatch.setattr(comet.sys, "version_info", (3, 14))
    monkeypatch.setattr(comet.shutil, "which", lambda name: None)
    with pytest.raises(MetricError, match=r"Python 3\.10 to 3\.12"):
        comet.make_environment(folder)


@pytest.fixture(scope="module")
def two_logs(data, model_args, tmp_path_factory):
    """The harness's logs of one model on two tasks."""
    folder = tmp_path_factory.mktemp("logs")
    manager = lm_eval.tasks.TaskManager(include_path=str(CONFIGS), include_defaults=False)
    tasks = ["ccat_flores200_tur_eng", "ccat_govreport"]
    about = {"model_args": model_args("m1"), "tasks": tasks, "task_manager": manager}
    logged(folder, "ccat-forgetful", **about)
    return folder


@pytest.mark.parametrize(
    ("python", "task", "code", "words"),
    [
        (None, "flores200_tur_eng", 1, "lm-eval-ccat score comet --setup"),
        (sys.executable, "flores200_tur_eng", 1, "No module named 'comet'"),
        ("/no/such/python", "flores200_tur_eng", 1, "cannot run /no/such/python"),
        (sys.executable, "govreport", 2, "--source_field (it has report, summary)"),
    ],
)
def test_it_says_what_is_missing(
    two_logs, tmp_path, capsys, monkeypatch, python, task, code, words
):
    monkeypatch.delenv("CCAT_COMET_PYTHON", raising=False)
    if python:
        monkeypatch.setenv("CCAT_COMET_PYTHON", python)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    out = str(tmp_path / "x.csv")
    assert main(["score", "comet", str(two_logs), "--task", f"ccat_{task}", "-o", out]) == code
    assert words in capsys.readouterr().err


@pytest.fixture(
    scope="module", params=["stand-in", pytest.param("unbabel-comet", marks=pytest.mark.slow)]
)
def scored_by(request, data, tmp_path_factory):
    """COMET's environment and checkpoint, set as a user sets them; the checkpoint's name."""
    folder = tmp_path_factory.mktemp("comet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(data)
        if request.param == "stand-in":
            stand_in(folder, patch)
            checkpoint = "Unbabel/wmt22-comet-da"
        else:
            python = os.environ.get("CCAT_COMET_PYTHON")
            if not python:
                pytest.skip("no environment with unbabel-comet: CCAT_COMET_PYTHON is not set")
            checkpoint = str(folder / "random")
            made = [python, str(Path(comet_checkpoint.__file__)), checkpoint]
            subprocess.run(made, check=True, capture_output=True)
            patch.setenv("CCAT_COMET_MODEL", checkpoint)
        # The harness reads its own ten thousand task files at every command.
        manager = partial(lm_eval.tasks.TaskManager, include_defaults=False)
        patch.setattr(lm_eval.tasks, "TaskManager", manager)
        yield checkpoint
        comet._worker.cache_clear()


@pytest.fixture(scope="module")
def bank(scored_by, data, model_args, tmp_path_factory):
    """A bank, in the folder of the full runs that it was calibrated on."""
    folder = tmp_path_factory.mktemp("logs")
    for name in RANKED:
        assert main(run_command(model_args(name), [TASK], str(folder / name))) == 0
    file = folder / "comet.bank.json"
    command = ["calibrate", str(folder), "--metric", "comet", "--method", "paper", "-o", str(file)]
    assert main(command) == 0
    return file


def test_full_runs_name_the_checkpoint_and_score_as_finished_logs_are_scored(
    scored_by, bank, tmp_path, capsys
):
    assert ItemBank.load(bank).settings["scorer"] == {"comet": {"checkpoint": scored_by}}
    live = ScoreTable.read(bank.parent, metric="comet")
    assert live.raw.shape == (len(RANKED), N) and (live.raw >= 0).all() and live.raw.max() <= 1
    if not Path(scored_by).is_dir():
        assert (np.diff(live.raw.mean(axis=1)) > 0).all()
    out = tmp_path / "comet.parquet"
    call = ["score", "comet", str(bank.parent), "--task", TASK, "-o", str(out), "--json"]
    assert main(call) == 0
    said, table = json.loads(capsys.readouterr().out), ScoreTable.read(out, metric="comet")
    assert (said["file"], said["models"]) == (str(out), list(table.models))
    assert (said["metric"], said["scale"]) == ("comet", "0 to 1, higher is better")
    np.testing.assert_allclose(table.raw, live.raw, atol=1e-5)
    assert (table.models, table.doc_hashes, table.task) == (live.models, live.doc_hashes, TASK)
    assert table.scale.describe() == "0 to 1, higher is better"


def test_the_worker_scores_as_comet_itself(scored_by):
    if not Path(scored_by).is_dir():
        pytest.skip("only COMET itself can tell")
    texts = [["abc def", "hello there", "hello where"], ["ghi", "x y", "x z"]]
    rows = [dict(zip(("src", "mt", "ref"), text)) for text in texts]
    direct = (
        "import json; from comet import load_from_checkpoint\n"
        f"model = load_from_checkpoint({scored_by + '/checkpoints/model.ckpt'!r})\n"
        f"scores = model.predict({rows!r}, batch_size=16, gpus=0, progress_bar=False).scores\n"
        "print(json.dumps([float(score) for score in scores]))"
    )
    python = os.environ["CCAT_COMET_PYTHON"]
    done = subprocess.run([python, "-c", direct], check=True, capture_output=True, text=True)
    expected = json.loads(done.stdout.splitlines()[-1])
    found = comet_scores(*zip(*map(dict.values, rows)))
    assert found == [min(max(score, 0.0), 1.0) for score in expected]


@pytest.mark.long
def test_a_ranking_asks_the_worker_as_a_full_run_does(
    scored_by, bank, data, model_args, tmp_path, monkeypatch, capsys
):
    models = [{"name": name, "model": "ccat-forgetful", "model_args": model_args(name)}
              for name in RANKED]  # fmt: skip
    config = {"task": TASK, "bank": str(bank), "budget": {"items": 8 * len(RANKED)}}
    config |= {"harness": {"include_path": str(CONFIGS)}, "models": models}
    (tmp_path / "rank.yaml").write_text(yaml.safe_dump(config))
    command = ["rank", str(tmp_path / "rank.yaml"), "--json", "--run_dir"]
    assert main([*command, str(tmp_path / "run")]) in (0, 3)
    content = json.loads(capsys.readouterr().out)
    assert set(content["order"]) == set(RANKED)
    assert content["scorer"] == {"checkpoint": scored_by} and "|scorer:" in content["signature"]
    table = ScoreTable.read(bank.parent, metric="comet")
    full = {m: dict(zip(table.doc_ids, row)) for m, row in zip(table.row_model, table.raw)}
    told = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").open()]
    told = [record for record in told if record.get("op") == "tell"]
    assert len(told) == content["items_administered"] > 0
    for record in told:
        assert record["score"] == pytest.approx(full[record["model"]][record["item"]], abs=1e-5)
    [file] = (tmp_path / "run" / "m1").glob("results_*.json")
    [settings] = json.loads(file.read_text())["configs"].values()
    assert settings["metadata"]["ccat_scorer"] == {"comet": {"checkpoint": scored_by}}
    assert main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "page.html")]) == 0
    assert f"checkpoint {scored_by}" in (tmp_path / "page.html").read_text(encoding="utf-8")
    capsys.readouterr()
    monkeypatch.setenv("CCAT_COMET_MODEL", "Unbabel/another")
    assert main([*command, str(tmp_path / "again")]) == 2
    assert "checkpoint is 'Unbabel/another'" in capsys.readouterr().err
