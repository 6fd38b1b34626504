"""``bank show | check | update`` as a person calls them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.metrics.scale import Scale

N = 80


def table(seed=0, n_models=10, prefix="m", shift=None) -> ScoreTable:
    rng = np.random.default_rng(seed)
    ease = np.random.default_rng(99).normal(size=N)
    if shift is not None:
        ease[shift] += 2.5
    skill = np.linspace(-1.5, 1.5, n_models)[:, None]
    raw = 100 / (1 + np.exp(-skill - ease - 0.3 * rng.normal(size=(n_models, N))))
    names = [f"{prefix}{i}" for i in range(n_models)]
    return ScoreTable.from_arrays(raw, names, scale=Scale(0, 100), metric="chrf")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calibrate(table(), method="paper").save("t.bank.json")
    table().write(tmp_path / "old.parquet")
    table(1, prefix="n").write(tmp_path / "new.parquet")
    table(2, prefix="d", shift=7).write(tmp_path / "drifted.parquet")
    return tmp_path


def test_show_says_what_it_rests_on(files, capsys):
    assert main(["bank", "show", "t.bank.json"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "metric chrf (0 to 100" in shown and "items 80 kept of 80" in shown
    assert "models 10: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9" in shown
    assert shown.startswith("trust ") and "[" not in shown
    assert main(["bank", "show", "t.bank.json", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["sha256"] == ItemBank.load("t.bank.json").sha256


def test_check_by_new_results(files, capsys):
    assert main(["bank", "check", "t.bank.json"]) == 0
    assert main(["bank", "check", "t.bank.json", "--scores", "new.parquet"]) == 0
    assert "nothing wrong found" in capsys.readouterr().out
    assert main(["bank", "check", "t.bank.json", "--scores", "drifted.parquet", "--json"]) == 3
    facts = json.loads(capsys.readouterr().out)
    (drift,) = [f for f in facts["findings"] if f["kind"] == "drifted_items"]
    assert not facts["ok"] and drift["items"] == [7]


def test_diff_and_update(files, capsys):
    call = ["bank", "update", "t.bank.json", "--scores", "new.parquet", "-o", "exact.bank.json"]
    assert main(call) == 1
    assert "name them with --calibrated_on" in capsys.readouterr().err
    assert main([*call, "--calibrated_on", "old.parquet"]) == 0
    assert "10 models added to 10" in capsys.readouterr().out
    check = ["bank", "check", "t.bank.json"]
    assert main([*check, "t.bank.json"]) == 0 and main([*check, "exact.bank.json"]) == 3
    out = capsys.readouterr().out
    assert "models added: 10 (n0, n1" in out and "parameters changed: 6 (" in out
    assert main([*check, "exact.bank.json", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["same"] is False


def test_suites_differ_bank_by_bank(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    t, u = ItemBank.blank(range(4), task="t"), ItemBank.blank(range(3), task="u")
    SuiteBank({"t": t, "u": u}).save("old")
    SuiteBank({"t": ItemBank.blank(range(5), task="t"), "v": u}).save("new")
    assert main(["bank", "check", "old", "old"]) == 0
    assert "no difference" in capsys.readouterr().out
    assert main(["bank", "check", "old", "new"]) == 3
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["v score: added", "u score: removed", "t score: items added: 1 (4)"]
    assert main(["bank", "check", "old", "new", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert not found["same"] and found["banks_added"] == [["v", "score"]]
    assert found["tasks"]["t"]["score"]["items_added"] == [4]
    t.save("t.bank.json")
    assert main(["bank", "check", "old", "t.bank.json"]) == 2
    assert "one is a suite, the other a single bank" in capsys.readouterr().err
