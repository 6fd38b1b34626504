"""COMET's worker: loaded once, asked often, its failures told; the real one where there is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from worlds import comet_checkpoint

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import MetricError
from lm_eval_ccat.harness import comet
from lm_eval_ccat.harness.comet import comet_scores

# What unbabel-comet offers to the worker: the length of a translation over 100.
COMET = """\
import os, sys
from types import SimpleNamespace
print("libraries print what they like")
def download_model(name):
    return name
def load_from_checkpoint(path):
    with open(os.environ["LOADED"], "a") as file:
        file.write(path + "\\n")
    def predict(rows, batch_size, gpus, progress_bar):
        print("to standard output too")
        if rows[0]["mt"] == "die":
            sys.exit("killed by the system")
        if rows[0]["mt"] == "fail":
            raise RuntimeError("CUDA out of memory")
        return SimpleNamespace(scores=[len(row["mt"]) / 100 for row in rows])
    return SimpleNamespace(predict=predict)
"""


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    (tmp_path / "comet.py").write_text(COMET)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CCAT_COMET_PYTHON", sys.executable)
    monkeypatch.setenv("LOADED", str(tmp_path / "loaded.txt"))
    comet._worker.cache_clear()
    yield tmp_path / "loaded.txt"
    comet._worker.cache_clear()


def score(*translations):
    return comet_scores(["s"] * len(translations), translations, ["r"] * len(translations))


def test_the_model_is_loaded_once_and_a_failed_call_does_not_end_it(loaded, monkeypatch):
    assert score("four", "", "ab") == [0.04, 0.0, 0.02]
    assert score("x" * 200) == [1.0]  # clipped
    with pytest.raises(MetricError, match="RuntimeError: CUDA out of memory"):
        score("fail")
    assert score("four") == [0.04]
    assert loaded.read_text().split() == ["Unbabel/wmt22-comet-da"]
    monkeypatch.setenv("CCAT_COMET_MODEL", "another")
    assert score("four") == [0.04]
    assert loaded.read_text().split() == ["Unbabel/wmt22-comet-da", "another"]


def test_a_worker_that_died_says_why_and_is_started_again(loaded):
    with pytest.raises(MetricError, match="killed by the system"):
        score("die")
    assert score("four") == [0.04]


def test_nothing_is_started_where_nothing_is_to_be_scored(loaded):
    assert score("", " ") == [0.0, 0.0]
    assert not loaded.exists()


def test_setup_makes_an_environment_and_says_what_failed(tmp_path, monkeypatch, capsys):
    steps = []

    def run(step, **_):
        steps.append(step)
        broken = "install" in step and len(steps) > 3
        return subprocess.CompletedProcess(step, int(broken), stderr="ERROR: no such version")

    monkeypatch.setattr(comet.subprocess, "run", run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["score", "comet", "--setup"]) == 0
    folder = tmp_path / "lm-eval-ccat" / "comet"
    made = str(folder / "bin" / "python")
    assert steps[0][1:] == ["-m", "venv", str(folder)]
    assert steps[1][0] == made and {"unbabel-comet==2.2.7", "setuptools<81"} <= set(steps[1])
    assert made in capsys.readouterr().out
    assert main(["score", "comet", "--setup"]) == 1
    assert "ERROR: no such version" in capsys.readouterr().err


def test_a_python_too_new_is_named(monkeypatch):
    monkeypatch.setattr(comet.sys, "version_info", (3, 14))
    monkeypatch.setattr(comet.shutil, "which", lambda name: None)
    with pytest.raises(MetricError, match=r"Python 3\.10 to 3\.12"):
        comet._fitting_python()


def test_a_real_checkpoint_scores_as_comet_itself(tmp_path):
    python = os.environ.get("CCAT_COMET_PYTHON")
    if not python:
        pytest.skip("no environment with unbabel-comet here: CCAT_COMET_PYTHON is not set")
    folder = tmp_path / "checkpoint"
    script = Path(comet_checkpoint.__file__)
    subprocess.run([python, str(script), str(folder)], check=True, capture_output=True)
    texts = [["abc def", "hello there", "hello where"], ["ghi", "x y", "x z"]]
    rows = [dict(zip(("src", "mt", "ref"), text)) for text in texts]
    direct = (
        "import json; from comet import load_from_checkpoint\n"
        f"model = load_from_checkpoint({str(folder / 'checkpoints' / 'model.ckpt')!r})\n"
        f"scores = model.predict({rows!r}, batch_size=16, gpus=0, progress_bar=False).scores\n"
        "print(json.dumps([float(score) for score in scores]))"
    )
    done = subprocess.run([python, "-c", direct], check=True, capture_output=True, text=True)
    expected = json.loads(done.stdout.splitlines()[-1])
    found = comet_scores(*zip(*texts), python=python, model=str(folder))
    assert found == [min(max(score, 0.0), 1.0) for score in expected]
