"""A model whose logs lack a part or have other names is read, or told by its name."""

import json
import re

import pytest
from scores.test_harness_logs import rows_of, write_old_run, write_run

from lm_eval_ccat.errors import CcatError
from lm_eval_ccat.scores import ScoreTable
from lm_eval_ccat.scores.table import READERS

#: What versions of the harness before 0.4.3 replaced in the arguments that a file's name holds.
REPLACED = {"0.4.0": "/", "0.4.2": "/|=", "later": r"[\"<>:/\|\\?\*\[\]]+"}


def test_results_whose_samples_are_gone_are_told_with_their_model(tmp_path):
    for model in "abc":
        file = write_run(tmp_path, model, rows_of([1, 0, 1]), day=1)
    file.unlink()
    write_run(tmp_path, "other", rows_of([1, 0, 1]), task="other_task").unlink()
    write_run(tmp_path, "a", rows_of([1, 1, 1]), day=2).unlink()  # `a` is not lost
    old = write_old_run(tmp_path / "old", "old", [1.0, 0.0])
    next(old.glob("*.jsonl")).unlink()
    table = ScoreTable.read(tmp_path, task="demo")
    assert table.models == ("a", "b")
    [warning] = table.warnings
    assert warning.startswith("1 model left out, as no samples of demo are beside the results: c (")
    assert "--log_samples" in warning
    write_old_run(tmp_path / "older", "older", [1.0, 0.0])
    assert "old (" in ScoreTable.read(tmp_path, task="arc_easy").warnings[0]


def test_damaged_results_without_samples_are_told(tmp_path):
    for model in "abc":
        file = write_run(tmp_path, model, rows_of([1, 0, 1]))
    file.unlink()
    [results] = (tmp_path / "c").glob("results_*.json")
    results.write_text(results.read_text()[:-9])
    [warning] = ScoreTable.read(tmp_path).warnings
    assert str(results) in warning and "its model is left out" in warning


@pytest.mark.parametrize("version", REPLACED)
@pytest.mark.parametrize("lines", [True, False])
def test_old_logs_are_read_whatever_their_version_put_into_names(tmp_path, version, lines):
    for n, model in enumerate(("org/a", "org/b[2]")):
        folder = write_old_run(tmp_path / str(n), model, [1.0, float(n)])
        [samples] = folder.glob("*.jsonl")
        rows = json.loads(samples.read_text())
        name = re.sub(REPLACED[version], "__", f"pretrained={model},dtype=float")
        samples.unlink()
        text = "\n".join(map(json.dumps, rows)) if lines else json.dumps(rows, indent=2)
        (folder / f"{name}_arc_easy.jsonl").write_text(text)
    table = ScoreTable.read(tmp_path)
    assert dict(zip(table.row_model, table.raw.tolist())) == {"org/a": [1, 0], "org/b[2]": [1, 1]}
    assert not table.warnings


def test_samples_of_which_nothing_tells_the_model_are_told(tmp_path):
    write_old_run(tmp_path / "a", "a", [1.0, 0.0])
    folder = write_old_run(tmp_path / "b", "b", [1.0, 0.0])
    [samples] = folder.glob("*.jsonl")
    moved = samples.rename(folder / "mine.jsonl")
    table = ScoreTable.read(tmp_path)
    assert table.models == ("a",) and str(moved) in table.warnings[0]
    with pytest.raises(CcatError, match="name them as the harness did") as refused:
        ScoreTable.read(folder)
    assert str(moved) in str(refused.value)


def test_spaces_around_the_name_of_a_model_are_no_part_of_it(tmp_path):
    write_run(tmp_path / "logs", " org/a", rows_of([1, 0]))
    write_run(tmp_path / "logs", "b", rows_of([1, 1]))
    assert set(ScoreTable.read(tmp_path / "logs").models) == {"org/a", "b"}
    folder = write_old_run(tmp_path / "old", "c", [1.0, 0.0])
    results = json.loads((folder / "results.json").read_text())
    results["config"]["model_args"] = "dtype=float, pretrained= c"
    (folder / "results.json").write_text(json.dumps(results))
    [samples] = folder.glob("*.jsonl")
    samples.rename(folder / "dtype__float, pretrained__ c_arc_easy.jsonl")
    assert ScoreTable.read(tmp_path / "old").models == ("c",)
    table = tmp_path / "t.csv"
    table.write_text("model,doc_id,score\n a,0,1\na,1,0\nb,0,1\n")
    assert ScoreTable.read(table).models == ("a", "b")
    table.write_text("model,0,1\n a,0,1\na,1,0\n")
    with pytest.raises(CcatError, match="2 scores of model 'a'"):
        ScoreTable.read(table)
    table.write_text("model,doc_id,score\n  ,0,1\nb,0,1\n")
    with pytest.raises(CcatError, match="1 rows name no model"):
        ScoreTable.read(table)


def test_a_task_whose_results_are_damaged_is_offered_by_its_rows(tmp_path):
    for model in "ab":
        write_run(tmp_path, model, rows_of([1, 0, 1]))
    for results in tmp_path.rglob("results_*.json"):
        results.write_text("null")
    [outcome] = READERS.get("lm_eval").outcomes(tmp_path)
    assert (outcome.task, outcome.metric, outcome.filter) == ("demo", "exact_match", "none")


def test_a_broken_log_beside_sound_ones_of_its_kind_is_told(tmp_path):
    """Of Inspect and of Every Eval Ever: what says the kind is what is broken."""
    header = {"version": 2, "eval": {"model": "m", "task": "t"}, "status": "success"}
    samples = [{"id": n, "epoch": 1, "scores": {"s": {"value": "C"}}} for n in range(3)]
    (tmp_path / "a.json").write_text(json.dumps({**header, "samples": samples}))
    whole = json.dumps({**header, "samples": samples})
    for text in (json.dumps({**header, "eval": 0, "samples": samples}), whole[:20], ""):
        (tmp_path / "b.json").write_text(text)
        with pytest.raises(CcatError, match=r"b\.json: not readable as inspect_ai"):
            ScoreTable.read(tmp_path)
    (tmp_path / "b.json").write_text(json.dumps({**header, "status": 0, "samples": 0}))
    words = "b.json: no scores of single items in it; its model is left out"
    assert any(words in text for text in ScoreTable.read(tmp_path).warnings)
    samples[1]["scores"] = {}
    (tmp_path / "b.json").write_text(json.dumps(
        {**header, "eval": {"model": "n", "task": "t"}, "samples": samples}
    ))  # fmt: skip
    assert "not all of the 3 documents are scored for: n 2" in ScoreTable.read(tmp_path).warnings
    row = {"evaluation_id": "e", "model_id": "m", "evaluation_name": "t", "sample_id": "1",
           "evaluation": {"score": 1.0}}  # fmt: skip
    records = tmp_path / "records"
    records.mkdir()
    (records / "a.jsonl").write_text(json.dumps(row) + "\n")
    other = json.dumps({**row, "model_id": "n"})
    (records / "b.jsonl").write_text("{broken, " + other + "\n" + other + "\n")
    table = ScoreTable.read(records)
    assert table.models == ("m", "n") and "1 lines are not instance-level" in table.warnings[0]
    (records / "a.json").write_text("null")
    assert "a.json: not readable as results" in ScoreTable.read(records).warnings[0]


def test_a_score_outside_its_scale_names_the_table(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(
        "model,doc_id,score,scale_min,scale_max,higher_is_better\na,1,7,0,1,true\nb,1,0,0,1,true\n"
    )
    with pytest.raises(CcatError, match=r"t\.csv: 1 of 2 scores lie outside .*; correct them, or"):
        ScoreTable.read(table)
