"""`calibrate` as a user runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scores.test_harness_logs import rows_of, write_run
from worlds.boards import draw

from lm_eval_ccat.bank import ItemBank, SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable


def written(path, n_models=10, n_items=60, scale=None, contrary=(), prefix="m"):
    scores = draw(np.linspace(-1.5, 1.5, n_models), n_items, seed=1)
    scores[:, list(contrary)] = scores[::-1, list(contrary)]
    scale, names = scale or Scale(), [f"{prefix}{n}" for n in range(n_models)]
    table = ScoreTable.from_arrays(scale.restore(scores), names, scale=scale, metric="my")
    table.write(path)
    return table


@pytest.fixture
def calibrated(tmp_path):
    """Calibrates by the method "paper"; the bank."""

    def calibrate(scores, *options):
        call = ["calibrate", str(scores), "--method", "paper", *options]
        assert main([*call, "-o", str(tmp_path / "b.json")]) == 0
        return ItemBank.load(tmp_path / "b.json")

    return calibrate


@pytest.mark.long
def test_a_table_becomes_a_bank_and_a_report(tmp_path, calibrated, capsys):
    written(tmp_path / "s.parquet", scale=Scale(0, 100), contrary=[3])
    report = tmp_path / "report.json"
    bank, out = calibrated(tmp_path / "s.parquet", "--json", str(report)), capsys.readouterr().out
    assert bank.sha256[:12] in out and "10, from m9" in out
    assert "59 kept of 60" in out and "doc_id 3: correlates" in out
    assert "no problem was found in the scores" in out
    assert f"Next: lm-eval-ccat rank --task TASK --bank {tmp_path / 'b.json'}, with" in out
    facts = json.loads(report.read_text())
    assert facts["constants"]["k"] == bank.constants["k"]
    assert list(facts["removed"]) == ["3"]


@pytest.mark.long
def test_doubts_are_printed_and_stored(tmp_path, calibrated, capsys):
    written(tmp_path / "s.csv", n_models=4)
    bank, captured = calibrated(tmp_path / "s.csv"), capsys.readouterr()
    assert "warning: only 4 models" in captured.err
    assert "read the 1 warning before you rely" in captured.out
    assert any("only 4 models" in w for w in bank.warnings)


@pytest.mark.long
@pytest.mark.parametrize(
    ("metric", "ends", "scale", "warned"),
    [
        ("my", "-2,102", Scale(-2, 102), None),
        ("ter", "0,100", Scale(cap=100), "write --range 100,0"),  # as `--range LO,HI` was read
        ("bleu", "0,100", Scale(0, 100), None),
        ("bleu", "100,0", Scale(0, 100, higher_is_better=False), "if that is not meant"),
        ("score", "100,0", Scale(0, 100, higher_is_better=False), None),
    ],
)
def test_a_range_goes_from_worst_to_best_and_a_contradiction_is_said(
    tmp_path, ccat, calibrated, metric, ends, scale, warned
):
    table = written(tmp_path / "s.parquet", scale=Scale(0, 100))
    lines = ["model,doc_id,metric,score"]
    for model, row in zip(table.models, table.raw):
        lines += [f"{model},{doc},{metric},{score}" for doc, score in enumerate(row)]
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    line = ["calibrate", str(tmp_path / "s.csv"), "--range", ends, "--method", "paper"]
    for more in ([], ["--metric", "*"]):
        said = ccat(*line, *more, "-o", tmp_path / f"b{len(more)}").err
        assert (f"{metric} is known to be better" in said) == (warned is not None)
        assert warned is None or warned in said
    assert ItemBank.load(tmp_path / "b0").scale == scale


@pytest.mark.long
def test_metrics_separated_by_commas_are_a_suite_of_banks(tmp_path, ccat):
    scores = draw(np.linspace(-1.5, 1.5, 10), 12, seed=1)
    lines = [f"m{m},{doc},{metric},{scores[m, doc]}" for metric in ("acc", "bleu", "f1")
             for m in range(10) for doc in range(12)]  # fmt: skip
    (tmp_path / "s.csv").write_text("\n".join(["model,doc_id,metric,score", *lines]) + "\n")
    call = ["calibrate", tmp_path / "s.csv", "--metric", "acc,f1", "--method", "paper"]
    ccat(*call, "-o", tmp_path / "banks")
    banks = [bank.metric for _, _, bank in SuiteBank.load(tmp_path / "banks").banks()]
    assert banks == ["acc", "f1"]


@pytest.mark.long
def test_copies_are_named_once_and_can_be_left_out(tmp_path, capsys):
    tables = tmp_path / "tables"
    tables.mkdir()
    scores = draw(np.linspace(-1.5, 1.5, 10), 60, seed=1)
    names = [f"m{n}" for n in range(12)]
    for task in "abc":
        table = ScoreTable.from_arrays(np.vstack([scores, scores[:2]]), names, task=task)
        table.write(tables / f"{task}.csv")
    call = ["calibrate", str(tables), "--method", "paper", "-o", str(tmp_path / "banks")]
    assert main(call) == 0
    assert main(["bank", "check", str(tmp_path / "banks")]) == 0
    out = capsys.readouterr().out
    assert out.count("equal scores on every item") == 1 and "3 of 3 (a score, b score" in out
    assert main([*call, "--drop_copies"]) == 0
    err = capsys.readouterr().err
    assert err.count("2 models are left out") == 1 and "m10 (m0), m11 (m1)" in err
    assert ItemBank.load(tmp_path / "banks" / "a.score.bank.json").models == tuple(names[:10])


@pytest.mark.long
def test_numbers_written_as_texts_are_named_before_a_task_refuses_them(tmp_path, capsys):
    scores = draw(np.linspace(-1.5, 1.5, 10), 12, seed=1)
    ids, names = [str(n) for n in range(12)], [f"m{n}" for n in range(10)]
    ScoreTable.from_arrays(scores, names, ids).write(tmp_path / "s.parquet")
    bank = str(tmp_path / "b.json")
    assert main(["calibrate", str(tmp_path / "s.parquet"), "-o", bank, "--method", "paper"]) == 0
    assert "numbers written as texts ('0')" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(("share", "what"), [(0.02, "hard"), (0.98, "easy"), (0.5, None)])
def test_a_benchmark_that_hardly_anybody_solves_is_said_to_be_hard(tmp_path, ccat, share, what):
    path = tmp_path / "s.parquet"
    scores = np.random.default_rng(0).random((10, 400)) < share
    ScoreTable.from_arrays(scores, list("abcdefghij"), metric="my").write(path)
    said = ccat("calibrate", path, "--method", "paper", "-o", tmp_path / "b.json").err
    named = [word for word in ("hard", "easy") if f"too {word} for these models" in said]
    assert named == ([what] if what else [])


@pytest.mark.long
def test_what_is_doubtful_of_the_scores_is_said_beside_what_is_of_the_bank(tmp_path, ccat):
    for n in range(6):
        rows = rows_of(np.random.default_rng(n).random(40) < 0.2 + n / 10)
        write_run(tmp_path / "logs", f"m{n}", rows)
    write_run(
        tmp_path / "logs",
        "cut",
        rows_of([1, 0, 1]),
        limit=3,
        samples={"original": 40, "effective": 3},
    )
    said = ccat("calibrate", tmp_path / "logs", "--method", "paper", "-o", tmp_path / "b.json").err
    assert "cut/samples_demo" in said and "only 7 models" in said
