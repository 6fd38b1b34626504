"""``bank show | check | update`` as a person calls them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from scores.test_harness_logs import rows_of, write_run
from worlds.boards import draw

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.bank.bank import Observation
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.upkeep.forms import Form
from lm_eval_ccat.upkeep.words import (
    age_in_words,
    diff_banks,
    facts_of,
    facts_of_suite,
    in_lines,
    report,
    reveals,
)


def table(seed=0, prefix="m", shift=None) -> ScoreTable:
    """Scores of ten models; one item may be easier than it was."""
    skill = np.linspace(-1.5, 1.5, 10)
    scores = draw(skill, 80, seed, noise=0.3)
    if shift is not None:
        scores[:, shift] = draw(skill + 2.5, 80, seed, noise=0.3)[:, shift]
    names = [f"{prefix}{i}" for i in range(10)]
    return ScoreTable.from_arrays(100 * scores, names, scale=Scale(0, 100), metric="chrf")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calibrate(table(), method="paper").save("t.bank.json")
    table().write(tmp_path / "old.parquet")
    table(1, prefix="n").write(tmp_path / "new.parquet")
    table(2, prefix="d", shift=7).write(tmp_path / "drifted.parquet")
    return tmp_path


@pytest.mark.long
def test_show_says_what_it_rests_on(files, ccat):
    shown = " ".join(ccat("bank", "show", "t.bank.json").out.split())
    assert "metric chrf (0 to 100" in shown and "items 80 kept of 80" in shown
    assert "models 10: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9" in shown
    assert shown.startswith("trust ") and "[" not in shown
    facts = json.loads(ccat("bank", "show", "t.bank.json", "--json").out)
    assert facts["sha256"] == ItemBank.load("t.bank.json").sha256


@pytest.mark.long
def test_check_by_new_results(files, ccat):
    check = ["bank", "check", "t.bank.json"]
    ccat(*check)
    assert "nothing wrong found" in ccat(*check, "--scores", "new.parquet").out
    facts = json.loads(ccat(*check, "--scores", "drifted.parquet", "--json", code=3).out)
    (drift,) = [f for f in facts["findings"] if f["kind"] == "drifted_items"]
    assert not facts["ok"] and drift["items"] == [7]


@pytest.mark.long
def test_diff_and_update(files, ccat):
    call = ["bank", "update", "t.bank.json", "--scores", "new.parquet", "-o", "exact.bank.json"]
    assert "name them with --calibrated_on" in ccat(*call, code=1).err
    said = ccat(*call, "--calibrated_on", "old.parquet", "--json", "made.json").out
    [facts] = json.loads(Path("made.json").read_text())["banks"]
    assert "10 models added to 10" in said and facts["added"] == [f"n{j}" for j in range(10)]
    assert facts["sha256"] == ItemBank.load("exact.bank.json").sha256
    check = ["bank", "check", "t.bank.json"]
    ccat(*check, "t.bank.json")
    out = ccat(*check, "exact.bank.json", code=3).out
    assert "models added: 10 (n0, n1" in out and "parameters changed: 7 (" in out
    assert json.loads(ccat(*check, "exact.bank.json", "--json", code=3).out)["same"] is False


@pytest.mark.long
def test_a_place_that_takes_no_bank_is_refused_before_the_work(files, ccat, monkeypatch):
    """The work takes minutes, and its result would be lost."""

    def calibrated(*_, **__):
        raise AssertionError("was calibrated")

    Path("folder").mkdir()
    monkeypatch.setattr("lm_eval_ccat.cli.calibrate.bank_of", calibrated)
    monkeypatch.setattr("lm_eval_ccat.cli.calibrate.build", calibrated)
    monkeypatch.setattr("lm_eval_ccat.upkeep.update.update", calibrated)
    update = ("bank", "update", "t.bank.json", "--scores", "new.parquet")
    for call in (("calibrate", "new.parquet"), update):
        assert "folder is a folder: name a file" in ccat(*call, "-o", "folder", code=2).err
    suite = ("calibrate", "new.parquet", "--metric", "*", "-o", "t.bank.json")
    assert "t.bank.json is a file: name a folder" in ccat(*suite, code=2).err


def test_suites_differ_bank_by_bank(tmp_path, monkeypatch, ccat):
    monkeypatch.chdir(tmp_path)
    t, u = ItemBank.blank(range(4), task="t"), ItemBank.blank(range(3), task="u")
    SuiteBank({"t": t, "u": u}).save("old")
    SuiteBank({"t": ItemBank.blank(range(5), task="t"), "v": u}).save("new")
    assert "no difference" in ccat("bank", "check", "old", "old").out
    shown = ccat("bank", "check", "old", "new", code=3).out.splitlines()
    assert shown == ["v score: added", "u score: removed", "t score: items added: 1 (4)"]
    found = json.loads(ccat("bank", "check", "old", "new", "--json", code=3).out)
    assert not found["same"] and found["banks_added"] == [["v", "score"]]
    assert found["tasks"]["t"]["score"]["items_added"] == [4]
    SuiteBank({"t": t}).save("part")
    assert json.loads(ccat("bank", "check", "old", "part", "--json", code=3).out)["same"] is False
    t.save("t.bank.json")
    err = ccat("bank", "check", "old", "t.bank.json", code=2).err
    assert "one is a suite, the other a single bank" in err


@pytest.mark.long
@pytest.mark.parametrize(("drifts", "code"), [("t", 3), ("u", 3), ("", 0)])
def test_a_suite_is_in_order_if_all_of_its_banks_are(tmp_path, ccat, drifts, code):
    """Whichever of them comes last."""
    scores, known = tmp_path / "scores", replace(table(), task="t")
    scores.mkdir()
    banks = {task: calibrate(replace(known, task=task), "paper") for task in "tu"}
    SuiteBank(banks).save(tmp_path / "suite")
    for seed, task in enumerate("tu", start=1):
        fresh = table(seed, prefix="n", shift=7 if task == drifts else None)
        replace(fresh, task=task).write(scores / f"{task}.parquet")
    said = ccat("bank", "check", tmp_path / "suite", "--scores", scores, "--json", code=code)
    found = json.loads(said.out)
    assert found["ok"] == (code == 0)
    assert [found["tasks"][task]["chrf"]["ok"] for task in "tu"] == [drifts != "t", drifts != "u"]


@pytest.mark.long
def test_a_damaged_bank_is_listed_with_what_is_wrong(tmp_path, ccat):
    bank = ItemBank.blank(range(9), task="t")
    bank.save(tmp_path / "whole.bank.json")
    bank.save(tmp_path / "packed.bank.json.gz")
    for name, size in (("packed.bank.json.gz", 60), ("cut.bank.json", 200), ("empty.bank.json", 0)):
        file = tmp_path / name
        file.write_bytes(
            (file if file.exists() else tmp_path / "whole.bank.json").read_bytes()[:size]
        )
    (tmp_path / "edited.bank.json").write_text(
        (tmp_path / "whole.bank.json").read_text().replace("0,1,2", "0,1,3")
    )
    (tmp_path / "results.json").write_text("{}")
    said = ccat("bank", "list", tmp_path).out
    for name in ("cut.bank.json", "empty.bank.json", "packed.bank.json.gz"):
        assert f"{tmp_path / name}: damaged: not a readable item bank" in said
    assert f"{tmp_path / 'edited.bank.json'}: damaged: the content does not match its check" in said
    assert (
        f"{tmp_path / 'whole.bank.json'}: t, score, 9 items" in said and "results.json" not in said
    )
    listed = json.loads(ccat("bank", "list", tmp_path, "--json").out)["local"]
    assert [fact.get("damaged", "")[:9] for fact in listed.values()].count("") == 1
    said = ccat("bank", "check", tmp_path, code=1).err  # as banks they are refused by name
    assert "cut.bank.json: not a readable item bank" in said


def test_a_suite_is_told_by_its_documents_and_by_its_models():
    """Two metrics of one task are of the same documents, and a model of several banks is one."""

    def bank(task, size, metric, models):
        return replace(ItemBank.blank(range(size), task=task, metric=metric), models=models)

    t = {metric: bank("t", 4, metric, ("x", "y")) for metric in ("acc", "f1")}
    facts = facts_of_suite(SuiteBank({"t": t, "u": {"acc": bank("u", 5, "acc", ("y", "z"))}}))
    assert (facts["items"], facts["models"], facts["metrics"]) == (9, 3, ["acc", "f1"])


def test_kept_scores_reveal_those_of_as_many_models_as_they_are_of():
    rows = [Observation(model, "all", np.arange(2), np.ones(2), config=config)
            for model in "xy" for config in ("cold", "warm")]  # fmt: skip
    bank = replace(ItemBank.blank(range(2)), observations=tuple(rows), models=("x", "y"))
    assert "every score of 2 models" in reveals(bank)


def test_a_bank_is_to_be_renewed_after_a_year():
    bank = replace(ItemBank.blank(range(2)), made="2025-03-01")
    for day, old in ((1, False), (2, True)):
        assert ("renew it" in age_in_words(bank, date(2026, 3, day))) is old


def test_a_difference_of_two_banks_is_that_from_the_first_to_the_second():
    old = ItemBank.blank(range(3))
    new = replace(old, kept=np.array([True, False, True]))
    assert diff_banks(old, new)["removed_now"] == [1] and not diff_banks(old, new)["kept_now"]
    assert diff_banks(new, old)["kept_now"] == [1] and not diff_banks(new, old)["removed_now"]


@pytest.mark.long
def test_the_best_model_of_a_metric_of_which_less_is_better_comes_first():
    errors = table().raw
    worse = ScoreTable.from_arrays(errors, table().models, scale=Scale(0, 100, False), metric="ter")
    listed = list(report(worse, calibrate(worse, "paper"))["models"].values())
    assert listed == sorted(listed) and len(listed) == 10


@pytest.mark.long
def test_the_error_of_a_form_is_on_the_scale_of_its_metric(files, ccat):
    call = ["bank", "form", "t.bank.json", "--items", 10, "--scores", "old.parquet", "-o", "form"]
    said = ccat(*call).out
    form, points = Form.load("form"), float(re.search(r"squared error (\S+) over", said)[1])
    assert points == pytest.approx(100 * form.error, rel=0.01) and points > 0.05
    [facts] = json.loads(ccat(*call, "--json").out)["forms"]
    assert facts["error"] == pytest.approx(100 * form.error)


@pytest.mark.long
def test_a_check_says_what_is_doubtful_of_the_scores_that_it_is_given(tmp_path, ccat):
    for n in range(9):
        rows = rows_of(np.random.default_rng(n).random(40) < 0.1 + n / 11)
        write_run(tmp_path / "logs", f"m{n}", rows)
    bank = tmp_path / "b.json"
    ccat("calibrate", tmp_path / "logs", "--method", "paper", "-o", bank)
    part = {"limit": 3, "samples": {"original": 40, "effective": 3}}
    write_run(tmp_path / "logs", "cut", rows_of([1, 0, 1]), **part)
    found = json.loads(ccat("bank", "check", bank, "--scores", tmp_path / "logs", "--json").out)
    assert any("cut/samples_demo" in text for text in found["warnings"])


def test_a_bank_with_a_licence_and_without_sources_is_shown():
    facts = facts_of(replace(ItemBank.blank([0, 1]), provenance={"license": "MIT"}))
    assert [line for line in in_lines(facts) if line[0] in ("license", "source")] == [
        ("license", "MIT")
    ]


@pytest.mark.long
def test_a_list_of_many_removed_items_ends_with_how_many_more_there_are():
    bank = calibrate(table(), "paper")
    facts = {**report(table(), bank), "removed": {str(n): "why" for n in range(14)}}
    removed = [text for name, text in in_lines(facts) if name.strip() == "removed"]
    assert removed[9:] == ["doc_id 9: why", "4 more, listed in the bank"]


def test_what_differs_is_told_from_the_old_to_the_new_bank(tmp_path, monkeypatch, ccat):
    monkeypatch.chdir(tmp_path)
    old = ItemBank.blank(range(4), task="t", metric="acc")
    old.save("old.bank.json")
    replace(old, metric="f1", scale=Scale(0, 100)).save("new.bank.json")
    said = ccat("bank", "check", "old.bank.json", "new.bank.json", code=3).out.splitlines()
    assert 'metric: "acc" -> "f1"' in said
    [scale] = [line for line in said if line.startswith("scale: ")]
    assert scale.index("0 to 1,") < scale.index(" -> ") < scale.index("0 to 100")
