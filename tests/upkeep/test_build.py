"""Banks for every task and metric of some logs at once, and their page in words."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.testing.methods import example_table
from lm_eval_ccat.upkeep.card import bank_card, reveals


@pytest.fixture
def scores(tmp_path):
    """Two tasks; on one of them every score is the same."""
    lines = ["model,task,doc_id,metric,score"]
    table = example_table()
    for j, model in enumerate(table.models):
        for i in range(table.n_items):
            lines.append(f"{model},one,{i},acc,{table.raw[j, i]}")
            lines.append(f"{model},two,{i},acc,{table.raw[j, -1 - i]}")
            lines.append(f"{model},two,{i},flat,0.5")
    (tmp_path / "s.csv").write_text("\n".join(lines))
    return tmp_path / "s.csv"


def test_build_makes_a_suite_and_says_what_it_could_not(scores, tmp_path, capsys):
    out = tmp_path / "board"
    arguments = ["bank", "build", "--leaderboard", str(scores), "-o", str(out)]
    assert main([*arguments, "--method", "paper"]) == 0
    shown = capsys.readouterr()
    assert "one acc: " in shown.out and "two flat: no bank: " in shown.err
    suite = SuiteBank.load(out)
    assert {t: list(o) for t, o in suite.items()} == {"one": ["acc"], "two": ["acc"]}
    assert suite["one"]["acc"].made
    assert np.allclose(
        suite["two"]["acc"].parameters["difficulty"],
        suite["one"]["acc"].parameters["difficulty"][::-1],
    )
    assert main([*arguments, "--task", "t*", "--metric", "flat"]) == 2
    assert "no outcome could be calibrated" in capsys.readouterr().err


def test_a_card_says_what_the_bank_is_and_what_it_reveals(tmp_path, capsys):
    bank = calibrate(example_table(), "paper", keep_scores=True)
    card = bank_card(bank, "cc-by-4.0")
    assert "license: cc-by-4.0" in card and bank.sha256 in card and "m03" in card
    assert any("every score of 12 models" in one for one in reveals(bank))
    hidden = calibrate(example_table(), "paper", hash_names=True)
    assert "m03" not in bank_card(hidden) and "a guess can test" in reveals(hidden)[0]
    assert reveals(ItemBank.blank([1])) == []
    bank.save(tmp_path / "b.bank.json")
    assert main(["bank", "card", str(tmp_path / "b.bank.json")]) == 0
    assert "# Item bank of toy_task, toy" in capsys.readouterr().out
