"""Banks for every task and metric of some logs at once, and their page in words."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.testing.methods import example_table
from lm_eval_ccat.upkeep import tables
from lm_eval_ccat.upkeep.words import page_of, reveals


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
    arguments = ["calibrate", str(scores), "--task", "*", "--metric", "*", "-o", str(out)]
    assert main([*arguments, "--method", "paper"]) == 3
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
    assert main([*arguments[:4], "-o", str(out), "--method", "paper"]) == 2
    assert "task two reports acc, flat; name one (--metric)" in capsys.readouterr().err


def test_a_page_says_what_the_bank_is_and_what_it_reveals():
    bank = calibrate(example_table(), "paper", keep_scores=True)
    page = page_of(SuiteBank({"t": bank}), "cc-by-4.0")
    assert "license: cc-by-4.0" in page and bank.sha256 in page and "m03" in page
    assert any("every score of 12 models" in one for one in reveals(bank))
    hidden = calibrate(example_table(), "paper", hash_names=True)
    assert "m03" not in page_of(SuiteBank({"t": hidden})) and "a guess can" in reveals(hidden)[0]
    assert reveals(ItemBank.blank([1])) == []


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """Logs of six models on three tasks that were run as a group with a subgroup."""
    monkeypatch.setattr(tables, "_harness_group", lambda name: [])  # the harness takes seconds
    table = example_table()
    tasks = ("suite_a", "suite_b", "suite_c")
    for j, model in enumerate(table.models):
        folder, date = tmp_path / "logs" / model, f"2025-01-01T00-00-{j:02}.000000"
        folder.mkdir(parents=True)
        results = {
            "model_name": model,
            "results": {t: {"acc,none": 0.5} for t in tasks},
            "group_subtasks": {"suite": ["suite_sub", "suite_c"], "suite_sub": list(tasks[:2])},
        }
        (folder / f"results_{date}.json").write_text(json.dumps(results))
        for t, task in enumerate(tasks):
            rows = [
                {"doc_id": i, "filter": "none", "metrics": ["acc"], "acc": float(x)}
                for i, x in enumerate(np.roll(table.scores[j], t))
            ]
            text = "".join(json.dumps(r) + "\n" for r in rows)
            (folder / f"samples_{task}_{date}.jsonl").write_text(text)
    return tmp_path / "logs"


@pytest.mark.parametrize(
    ("task", "members"),
    [
        ("suite", ["suite_a", "suite_b", "suite_c"]),
        ("suite_c,suite_[ab]", ["suite_c", "suite_a", "suite_b"]),
    ],
)
def test_a_group_a_list_and_a_pattern_make_one_suite(logs, tmp_path, capsys, task, members):
    out = tmp_path / "banks"
    arguments = ["calibrate", str(logs), "--method", "paper", "-o", str(out)]
    assert main([*arguments, "--task", task, "--json", str(tmp_path / "r.json")]) == 0
    suite = SuiteBank.load(out)
    assert list(suite) == members and {b.metric for _, _, b in suite.banks()} == {"acc"}
    assert f"{len(members)} banks of {len(members)} tasks" in capsys.readouterr().out
    facts = json.loads((tmp_path / "r.json").read_text())
    assert list(facts["tasks"]) == members and not facts["without_bank"]


def test_one_task_of_many_is_one_bank_and_a_wrong_name_is_told(logs, tmp_path, capsys):
    out = tmp_path / "one.bank.json"
    arguments = ["calibrate", str(logs), "--method", "paper", "-o", str(out)]
    assert main([*arguments, "--task", "suite_b"]) == 0
    assert ItemBank.load(out).task == "suite_b" and len(ItemBank.load(out).models) == 12
    assert main([*arguments, "--task", "suite_b", "--exclude", "m00,m11"]) == 0
    assert set(ItemBank.load(out).models) == {f"m{j:02}" for j in range(1, 11)}
    assert main([*arguments, "--task", "suite_b", "--exclude", "m77"]) == 1
    assert "m77" in capsys.readouterr().err
    capsys.readouterr()
    assert main([*arguments, "--task", "suite_a,nowhere"]) == 2
    assert "no task, pattern or group 'nowhere'" in capsys.readouterr().err
    for samples in logs.glob("*/samples_suite_c*"):
        samples.unlink()
    assert main([*arguments, "--task", "suite"]) == 2
    assert "no scores of 1 of the 3 tasks of suite, suite_c" in capsys.readouterr().err
