"""`calibrate` as a user runs it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lm_eval_ccat.bank import ItemBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable


def written(path, n_models=10, n_items=60, scale=None, contrary=()):
    rng = np.random.default_rng(1)
    eta = np.linspace(-1.5, 1.5, n_models)[:, None] + rng.normal(size=n_items)[None]
    eta[:, list(contrary)] = eta[::-1, list(contrary)]
    scores = np.clip(1 / (1 + np.exp(-eta)) + 0.05 * rng.normal(size=eta.shape), 0, 1)
    scale = scale or Scale()
    table = ScoreTable.from_arrays(
        scale.restore(scores), models=[f"m{n}" for n in range(n_models)], scale=scale, metric="my"
    )
    table.write(path)
    return table


def test_a_table_becomes_a_bank_and_a_report(tmp_path, capsys):
    written(tmp_path / "s.parquet", scale=Scale(0, 100), contrary=[3])
    bank_file = tmp_path / "my.bank.json"
    line = ["calibrate", str(tmp_path / "s.parquet"), "--method", "paper", "-o", str(bank_file)]
    assert main([*line, "--json", str(tmp_path / "report.json")]) == 0
    out = capsys.readouterr().out
    bank = ItemBank.load(bank_file)
    assert bank.sha256[:12] in out
    assert "59 kept of 60" in out and "doc_id 3: correlates" in out
    assert "10, from m9" in out
    assert "no problem was found in the scores" in out
    facts = json.loads((tmp_path / "report.json").read_text())
    assert facts["k"] == pytest.approx(bank.constants["k"])
    assert facts["discrimination"] == pytest.approx(bank.constants["k"] ** -0.5)
    assert list(facts["removed"]) == ["3"]


def test_doubts_are_printed_and_stored(tmp_path, capsys):
    written(tmp_path / "s.csv", n_models=4)
    line = ["calibrate", str(tmp_path / "s.csv"), "--method", "paper"]
    assert main([*line, "-o", str(tmp_path / "b.json")]) == 0
    captured = capsys.readouterr()
    assert "warning: only 4 models" in captured.err
    assert "read the 1 warning before relying" in captured.out
    assert any("only 4 models" in w for w in ItemBank.load(tmp_path / "b.json").warnings)


def test_a_range_goes_from_worst_to_best(tmp_path):
    table = written(tmp_path / "s.parquet", scale=Scale(-1, 1))
    arguments = ["calibrate", str(tmp_path / "s.parquet"), "--method", "paper"]
    assert main([*arguments, "--range", "-2,2", "-o", str(tmp_path / "b.json")]) == 0
    assert ItemBank.load(tmp_path / "b.json").scale == Scale(-2, 2)
    assert main([*arguments, "--range", "2,-2", "-o", str(tmp_path / "b.json")]) == 0
    assert ItemBank.load(tmp_path / "b.json").scale == Scale(-2, 2, higher_is_better=False)
    assert table.raw.min() < 0


@pytest.mark.parametrize(
    ("metric", "ends", "scale", "warned"),
    [
        ("ter", "0,100", Scale(cap=100), "write --range 100,0"),  # as `--range LO,HI` was read
        ("bleu", "0,100", Scale(0, 100), None),
        ("bleu", "100,0", Scale(0, 100, higher_is_better=False), "if that is not meant"),
        ("score", "100,0", Scale(0, 100, higher_is_better=False), None),
    ],
)
def test_a_range_that_contradicts_what_is_known_is_said(
    tmp_path, capsys, metric, ends, scale, warned
):
    table = written(tmp_path / "s.parquet", scale=Scale(0, 100))
    replace(table, metric=metric).write(tmp_path / "s.csv")
    frame = pd.read_csv(tmp_path / "s.csv")
    frame[["model", "doc_id", "score", "metric"]].to_csv(tmp_path / "s.csv", index=False)
    line = ["calibrate", str(tmp_path / "s.csv"), "--range", ends, "--method", "paper"]
    for more in ([], ["--metric", "*"]):
        assert main([*line, *more, "-o", str(tmp_path / f"b{len(more)}")]) == 0
        said = capsys.readouterr().err
        assert said.count(f"a {'lower' if metric == 'ter' else 'higher'} {metric} is known") == (
            warned is not None
        )
        assert warned is None or warned in said
    assert ItemBank.load(tmp_path / "b0").scale == scale


def test_names_can_be_kept_out_of_the_bank(tmp_path):
    table = written(tmp_path / "s.parquet")
    named = ScoreTable.from_arrays(
        table.raw, models=[f"secret-{m}" for m in table.models], metric="my"
    )
    named.write(tmp_path / "private.parquet")
    arguments = [
        "calibrate",
        str(tmp_path / "private.parquet"),
        "--method",
        "paper",
        "--hash_names",
    ]
    assert main([*arguments, "-o", str(tmp_path / "b.json")]) == 0
    text = (tmp_path / "b.json").read_text()
    assert "secret" not in text and "private.parquet" not in text
    assert len(ItemBank.load(tmp_path / "b.json").models) == 10


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere"], 2, "no such file or directory"),
        (["S", "--metric", "bleu"], 1, "bleu"),
        (["S", "--range", "5,5"], 2, "two numbers that differ"),
        (["C"], 1, "every document"),
    ],
)
def test_errors_are_one_line_and_a_code(tmp_path, capsys, arguments, code, said):
    written(tmp_path / "s.parquet")
    ScoreTable.from_arrays(np.full((9, 5), 0.5), models=list("abcdefghi")).write(
        tmp_path / "c.parquet"
    )
    named = {"S": str(tmp_path / "s.parquet"), "C": str(tmp_path / "c.parquet")}
    line = [named.get(a, a) for a in arguments]
    try:
        assert main(["calibrate", *line, "-o", str(tmp_path / "b.json")]) == code
    except SystemExit as stop:  # argparse's own
        assert stop.code == code
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err
    assert not (tmp_path / "b.json").exists()
