"""`simulate` as a user runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from worlds.boards import draw

from lm_eval_ccat import ItemBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable
from lm_eval_ccat.testing.methods import example_table


@pytest.fixture
def scores(tmp_path):
    scores, path = draw(np.linspace(-1.2, 1.2, 12), 120, seed=0), tmp_path / "s.parquet"
    ScoreTable.from_arrays(scores, models=[f"m{n}" for n in range(12)], metric="my").write(path)
    return path


@pytest.mark.long
def test_table_advice_and_json(scores, tmp_path, capsys):
    out = tmp_path / "deep" / "out.json"
    code = main(
        f"simulate --scores {scores} --metric my --methods paper,common,limit --holdout 3 "
        f"--folds 2 --items_per_model 15 --json {out}".split()
    )
    assert code == 0
    printed = capsys.readouterr().out
    assert "12 models x 120 items, 3 held out in each of 2 folds, 1 seed" in printed
    assert [line.split()[0] for line in printed.splitlines()[3:6]] == ["paper", "common", "limit"]
    assert "for a mean tau of 0.9" in printed and "of the pairs decided at 95% with" in printed
    written = json.loads(out.read_text())
    assert list(written)[:2] == ["runs", "summary"] and len(written["runs"]) == 3 * 2
    assert printed.endswith(f"Next: lm-eval-ccat report {out} --plots figures\n")


@pytest.mark.long
def test_natural_stopping_and_models_left_out(scores, ccat):
    line = f"simulate --scores {scores} --methods paper --items_per_model none --folds 2"
    line += f" --seed 3 --kind frontier --json {scores.parent / 'all.json'}"
    out = ccat(*line.split(), "--exclude", "m0,m1").out
    settings = json.loads((scores.parent / "all.json").read_text())["settings"]
    assert settings["seed"] == 3 and settings["kind"] == "frontier"
    assert "10 models x 120 items" in out and "no budget" in out
    following = out.splitlines()[-1].removeprefix("Next: lm-eval-ccat ").split()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(scores.parent)
        ccat(*following)
    assert (scores.parent / following[-1]).exists()


@pytest.mark.long
@pytest.mark.parametrize("ends", ["0,100", "100,0"])
def test_the_command_that_follows_reads_the_scores_on_the_scale_that_was_stated(
    ends, tmp_path, ccat, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    table = example_table(12, 40)
    rows = [[name, *map(str, 100.0 * row)] for name, row in zip(table.models, table.raw)]
    header = ["model", *(f"d{n}" for n in range(40))]
    Path("judged.csv").write_text("\n".join(map(",".join, [header, *rows])))
    call = "simulate --scores judged.csv --metric judge --methods random --folds 2"
    out = ccat(*call.split(), "--items_per_model", 5, "--range", ends).out
    following = out.splitlines()[-1].removeprefix("Next: lm-eval-ccat ").split()
    assert main(following) == 0
    bank = ItemBank.load("bank.json")
    assert bank.scale == Scale(0, 100, ends == "0,100")


@pytest.mark.long
def test_a_range_against_its_metric_is_doubted_also_of_several_tasks(tmp_path, ccat):
    for task in ("t", "u"):
        table = example_table(12, 40)
        table = replace(table, task=task, metric="bleu", raw=100 * table.raw, scale=Scale(0, 100))
        table.write(tmp_path / f"{task}.csv")
    call = ["simulate", "--scores", tmp_path, "--methods", "random", "--folds", 2]
    call += ["--items_per_model", 5, "--metric", "bleu"]
    for ends, doubted in (("0,100", False), ("100,0", True)):
        assert ("if that is not meant" in ccat(*call, "--range", ends).err) == doubted
