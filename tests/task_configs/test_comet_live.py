"""The COMET task from full runs to a bank, an adaptive run and a ranking, through its worker.

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
import pytest
import yaml
from local_data import CONFIGS, N
from worlds import comet_checkpoint

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.harness import comet

TASK = "ccat_flores200_tur_eng_comet"
RANKED = ("m1", "m3", "m5")
# What unbabel-comet offers to the worker: here the share of the reference's words.
STAND_IN = """\
from types import SimpleNamespace
def download_model(name):
    return name
def load_from_checkpoint(path):
    with open("loaded.txt", "a") as file:
        file.write(path + "\\n")
    def share(row):
        words = row["ref"].split()
        return sum(word in row["mt"].split() for word in words) / len(words)
    def predict(rows, batch_size, gpus, progress_bar):
        assert all(row["src"].startswith("Cümle") for row in rows)
        return SimpleNamespace(scores=[share(row) for row in rows])
    return SimpleNamespace(predict=predict)
"""


@pytest.fixture(
    scope="module", params=["stand-in", pytest.param("unbabel-comet", marks=pytest.mark.slow)]
)
def scored_by(request, data, tmp_path_factory):
    """COMET's environment and checkpoint, set as a user sets them; the checkpoint's name."""
    folder = tmp_path_factory.mktemp("comet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(data)
        if request.param == "stand-in":
            (folder / "comet.py").write_text(STAND_IN)
            path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
            patch.setenv("PYTHONPATH", path)
            patch.setenv("CCAT_COMET_PYTHON", sys.executable)
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
        comet._worker.cache_clear()
        yield checkpoint
        comet._worker.cache_clear()


@pytest.fixture(scope="module")
def bank(scored_by, data, model_args, tmp_path_factory):
    """A bank, in the folder of the full runs that it was calibrated on."""
    logs = tmp_path_factory.mktemp("logs")
    for name in RANKED:
        assert main(["run", *given(model_args(name)), "--output_path", str(logs / name)]) == 0
    file = logs / "comet.bank.json"
    code = main(["calibrate", str(logs), "--metric", "comet", "--method", "paper", "-o", str(file)])
    assert code == 0
    return file


def given(arguments):
    named = ",".join(f"{key}={value}" for key, value in arguments.items())
    return [
        "--model", "ccat-forgetful", "--model_args", named, "--tasks", TASK,
        "--include_path", str(CONFIGS), "--log_samples",
    ]  # fmt: skip


def test_full_runs_say_which_checkpoint_scored_them(scored_by, bank):
    assert ItemBank.load(bank).settings["scorer"] == {"comet": {"checkpoint": scored_by}}
    table = ScoreTable.read(bank.parent, metric="comet")
    assert table.raw.shape == (len(RANKED), N) and (table.raw >= 0).all()


def test_a_ranking_asks_the_worker_as_a_full_run_does(
    scored_by, bank, data, model_args, tmp_path, monkeypatch, capsys
):
    config = {
        "task": TASK,
        "bank": str(bank),
        "budget": {"items": 8 * len(RANKED)},
        "harness": {"include_path": str(CONFIGS)},
        "models": [
            {"name": name, "model": "ccat-forgetful", "model_args": model_args(name)}
            for name in RANKED
        ],
    }
    (tmp_path / "rank.yaml").write_text(yaml.safe_dump(config))
    command = ["rank", str(tmp_path / "rank.yaml"), "--json", "--run_dir"]
    assert main([*command, str(tmp_path / "run")]) in (0, 3)
    content = json.loads(capsys.readouterr().out)
    assert set(content["order"]) == set(RANKED)
    assert content["scorer"] == {"checkpoint": scored_by} and "|scorer:" in content["signature"]
    table = ScoreTable.read(bank.parent, metric="comet")
    full = {
        m: dict(zip(table.doc_ids, row)) for m, row in zip(table.row_model, table.raw, strict=True)
    }
    told = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").open()]
    told = [record for record in told if record.get("op") == "tell"]
    assert len(told) == content["items_administered"] > 0
    for record in told:
        assert record["score"] == pytest.approx(full[record["model"]][record["item"]], abs=1e-5)
    [file] = (tmp_path / "run" / "m1").glob("results_*.json")
    [config] = json.loads(file.read_text())["configs"].values()
    assert config["metadata"]["ccat_scorer"] == {"comet": {"checkpoint": scored_by}}
    assert main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "page.html")]) == 0
    assert f"checkpoint {scored_by}" in (tmp_path / "page.html").read_text(encoding="utf-8")
    capsys.readouterr()
    monkeypatch.setenv("CCAT_COMET_MODEL", "Unbabel/another")
    assert main([*command, str(tmp_path / "again")]) == 1
    assert "checkpoint is 'Unbabel/another'" in capsys.readouterr().err
