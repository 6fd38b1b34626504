"""`run --adaptive --leaderboard`: a new model is placed among full results of others."""

from __future__ import annotations

import json

import pytest

from lm_eval_ccat.cli.main import main


@pytest.fixture
def place(bench, tmp_path):
    """The block of a new model's run among the logs that its bank was calibrated on."""
    bank, out = tmp_path / "texts.bank.json", tmp_path / "out"
    bench.bank("texts", "chrf").save(bank)

    def run(skill, *flags):
        command = ["run", "--model", "copyist", "--include_path", str(bench.tasks)]
        command += ["--model_args", f"skill={skill},model=new", "--tasks", "texts", "--adaptive"]
        command += ["--bank", str(bank), "--leaderboard", str(bench.folder / "logs" / "texts")]
        assert main([*command, "--output_path", str(out), *flags]) == 0
        newest = max(out.rglob("results_*.json"), key=lambda p: p.stat().st_mtime_ns)
        return json.loads(newest.read_text())["adaptive"]["texts"]

    return run


@pytest.mark.long
def test_a_new_model_is_placed_and_its_own_results_are_left_out(bench, place, capsys):
    block = place(0.97)
    assert "new: rank 1 of 7" in capsys.readouterr().out
    assert block["items"] < 36
    assert (block["place"]["rank"], block["place"]["models"]) == (1, 7)
    known = bench.bank("texts", "chrf").models[0]
    block = place(0.5, "--max_items", "12", "--leaderboard_name", known)
    assert block["place"]["models"] == 6


@pytest.mark.long
def test_results_of_others_for_a_task_that_is_not_run_are_refused(bench, tmp_path, ccat):
    bench.bank("texts", "chrf").save(bank := tmp_path / "texts.bank.json")
    words = ["run", "--model", "copyist", "--model_args", "skill=0.9,model=new", "--tasks", "texts"]
    words += ["--include_path", bench.tasks, "--adaptive", "--bank", bank]
    words += ["--leaderboard", f"text={bench.folder / 'logs' / 'texts'}"]
    said = ccat(*words, code=2).err
    assert "leaderboard: this run has no task 'text'; did you mean texts?" in said


@pytest.mark.long
def test_it_stops_once_the_rank_is_known_well_enough(place):
    found = {}
    for flag in ((), ("--stop", "ranks 4"), ("--question", "population")):
        block = place(0.6, *flag)
        low, high = block["place"]["rank_interval"]
        found[flag[:1]] = block["items"], high - low + 1, block["stopped_because"]
        about = "documents like these 36" if "population" in flag else "all 36 documents"
        assert f"over {about} of texts, from" in block["estimand"]
    items, width, why = found["--stop",]
    assert width <= 4 and "known to 4 ranks" in why and items < found[()][0]
    assert found["--question",][1] >= found[()][1]  # the known are not known so well, then
