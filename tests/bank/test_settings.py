"""Which differences between a bank and a run are refused, and which are told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.bank.settings import check_bank
from lm_eval_ccat.errors import BankMismatchError

SETTINGS = {
    "task_version": 1.0,
    "num_fewshot": 5,
    "chat_template": True,
    "chat_template_sha": "aa",
    "fewshot_as_multiturn": True,
    "system_instruction": None,
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 64, "temperature": 0.0},
}
IDS = tuple(range(12))
HASHES = tuple(f"hash-{i}" for i in IDS)


@pytest.fixture(scope="module")
def bank():
    rng = np.random.default_rng(0)
    table = ScoreTable.from_arrays(
        rng.random((5, len(IDS))), models=list("abcde"), doc_hashes=HASHES, task="t", filter="none"
    )
    return calibrate(replace(table, settings=SETTINGS), method="paper")


def check(bank, **changes):
    arguments = {
        "task": "t",
        "filters": ["none"],
        "settings": SETTINGS,
        "doc_ids": IDS,
        "doc_hashes": HASHES,
    }
    return check_bank(bank, **{**arguments, **changes})


def test_the_same_passes_in_silence(bank):
    assert check(bank) == []
    other_ways = {"task_version": "1.0", "system_instruction": ""}
    generation = {"until": "\n", "max_gen_toks": 64, "do_sample": False}
    assert check(bank, settings={**SETTINGS, **other_ways, "generation_kwargs": generation}) == []


@pytest.mark.parametrize(
    "key, value, words",
    [
        ("num_fewshot", 0, "num_fewshot is 0, the bank has 5"),
        ("task_version", 2.0, "task_version is 2.0, the bank has 1.0"),
        ("system_instruction", "Be brief.", "system_instruction is 'Be brief.'"),
        ("generation_kwargs", {"until": ["\n\n"], "max_gen_toks": 64}, "setting until"),
        ("generation_kwargs", {"until": ["\n"], "max_gen_toks": 8}, "setting max_gen_toks is 8"),
    ],
)
def test_another_benchmark_is_refused_by_name(bank, key, value, words):
    with pytest.raises(BankMismatchError) as refused:
        check(bank, settings={**SETTINGS, key: value})
    assert words in str(refused.value) and "calibrate" in str(refused.value)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"chat_template": False, "chat_template_sha": None}, "without a chat template"),
        ({"chat_template_sha": "bb"}, "differs from that of the calibration models"),
        ({"fewshot_as_multiturn": False}, "fewshot_as_multiturn is False"),
        (
            {"generation_kwargs": {**SETTINGS["generation_kwargs"], "top_p": 0.9}},
            "top_p is 0.9",
        ),
        ({"generation_kwargs": {"until": ["\n"]}}, "max_gen_toks is none"),
    ],
)
def test_what_belongs_to_how_a_model_is_run_is_told(bank, changes, words):
    [warning] = check(bank, settings={**SETTINGS, **changes})
    assert words in warning


@pytest.mark.parametrize(
    "sampled, words", [({"temperature": 0.7}, "temperature 0.7"), ({"do_sample": True}, "model")]
)
def test_sampled_answers_do_not_fit_a_bank_of_greedy_ones_nor_the_other_way(bank, sampled, words):
    greedy = {"until": ["\n"], "max_gen_toks": 64, "do_sample": False}
    drawn = {**greedy, **sampled}
    for then, now in ((greedy, drawn), (drawn, greedy)):
        recorded = replace(bank, settings={**SETTINGS, "generation_kwargs": then})
        with pytest.raises(BankMismatchError, match=words):
            check(recorded, settings={**SETTINGS, "generation_kwargs": now})
        assert check(recorded, settings={**SETTINGS, "generation_kwargs": then}) == []


def test_another_temperature_of_sampled_answers_is_told(bank):
    drawn = {**SETTINGS["generation_kwargs"], "temperature": 0.7}
    recorded = replace(bank, settings={**SETTINGS, "generation_kwargs": drawn})
    now = {**SETTINGS, "generation_kwargs": {**drawn, "temperature": 1.0}}
    [warning] = check(recorded, settings=now)
    assert "temperature is 1.0, the bank has 0.7" in warning


def test_documents_must_be_those_calibrated(bank):
    with pytest.raises(BankMismatchError, match=r"2 of 12 documents differ.*doc_id 0, 1"):
        check(bank, doc_hashes=("x", "y", *HASHES[2:]))
    with pytest.raises(BankMismatchError, match="lacks 4 of the bank's 12"):
        check(bank, doc_ids=IDS[:8], doc_hashes=HASHES[:8])
    [warning] = check(bank, doc_ids=(*IDS, 12), doc_hashes=(*HASHES, "more"))
    assert "knows 12 of the task's 13 documents" in warning


def test_a_renamed_task_needs_verified_documents(bank):
    [warning] = check(bank, task="renamed")
    assert "the bank is of task t" in warning
    with pytest.raises(BankMismatchError, match="it is of task t and has no document hashes"):
        check(replace(bank, doc_hashes=None), task="renamed")


def test_the_filter_must_be_there_and_be_told_apart(bank):
    with pytest.raises(BankMismatchError, match="its filter is 'none'"):
        check(bank, filters=["strict"])
    with pytest.raises(BankMismatchError, match="names no filter"):
        check(replace(bank, filter=None), filters=["strict", "loose"])
    assert check(replace(bank, filter=None)) == []


def test_what_the_bank_does_not_record_is_told(bank):
    bare = replace(bank, settings={}, doc_hashes=None)
    first, second = check(bare)
    assert "not verified" in first and "not verified" in second


def test_a_setting_in_which_the_calibration_runs_differed_decides_nothing(bank):
    mixed = {k: v for k, v in SETTINGS.items() if k != "chat_template"}
    mixed["differing"] = ["chat_template", "generation_kwargs.temperature"]
    changed = {**SETTINGS, "chat_template": False}
    changed["generation_kwargs"] = {**SETTINGS["generation_kwargs"], "temperature": 1.0}
    assert check(replace(bank, settings=mixed), settings=changed) == []


def test_text_ids_cannot_be_documents_of_the_harness(bank):
    named = replace(bank, doc_ids=tuple(f"q{i:02}" for i in IDS))
    with pytest.raises(BankMismatchError, match="names its documents by text"):
        check(named)
