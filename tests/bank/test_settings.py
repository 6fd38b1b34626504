"""Which differences between a bank and a run are refused, and which are told."""

from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.bank.settings import check_bank, sampling
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
    usual = {"task": "t", "filters": ["none"], "settings": SETTINGS}
    return check_bank(bank, **{**usual, "doc_ids": IDS, "doc_hashes": HASHES, **changes})


def test_the_same_passes_in_silence(bank):
    assert check(bank) == []
    other_ways = {"task_version": "1.0", "system_instruction": ""}
    generation = {"until": "\n", "max_gen_toks": 64, "do_sample": False}
    assert check(bank, settings={**SETTINGS, **other_ways, "generation_kwargs": generation}) == []
    # A command line has the same numbers as text.
    as_text = {**SETTINGS["generation_kwargs"], "max_gen_toks": "64", "temperature": "0"}
    settings = {**SETTINGS, "task_version": "1", "num_fewshot": "5", "generation_kwargs": as_text}
    assert check(bank, settings=settings) == []


DRAWN = {"until": ["\n"], "max_gen_toks": 64, "temperature": 0.7}


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"num_fewshot": 0}, "num_fewshot is 0, the bank has 5"),
        ({"task_version": 2.0}, "task_version is 2.0, the bank has 1.0"),
        ({"system_instruction": "Be brief."}, "system_instruction is 'Be brief.'"),
        ({"generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 64}}, "setting until"),
        (
            {"generation_kwargs": {"until": ["\n"], "max_gen_toks": 8}},
            "max_gen_toks is 64 in the bank and 8",
        ),
        ({"generation_kwargs": {"until": ["\n", "Q:"], "max_gen_toks": 64}}, "setting until"),
        ({"generation_kwargs": DRAWN}, "temperature 0.7"),
        ({"generation_kwargs": {**DRAWN, "temperature": None, "do_sample": True}}, "of the model"),
    ],
)
def test_another_benchmark_is_refused_by_name(bank, changes, words):
    now = {**SETTINGS, **changes}
    with pytest.raises(BankMismatchError) as refused:
        check(bank, settings=now)
    assert words in str(refused.value) and "calibrate" in str(refused.value)
    turned = replace(bank, settings=now)  # nor the other way
    assert check(turned, settings=now) == []
    with pytest.raises(BankMismatchError):
        check(turned)


@pytest.mark.parametrize(
    "recorded, changes, words",
    [
        ({}, {"chat_template": False, "chat_template_sha": None},
         "without a chat template, the bank's models were run with; go on if that is right for "
         "each model, else set `apply_chat_template`"),
        ({"chat_template": False, "chat_template_sha": None}, {}, "else leave out `apply_chat_tem"),
        ({}, {"chat_template_sha": "bb"}, "differs from that of the calibration models"),
        ({}, {"fewshot_as_multiturn": False}, "fewshot_as_multiturn is False"),
        ({}, {"generation_kwargs": {**SETTINGS["generation_kwargs"], "top_p": 0.9}}, "top_p is"),
        ({}, {"generation_kwargs": {"until": ["\n"]}}, "max_gen_toks is 64 in the bank and none"),
        ({"generation_kwargs": DRAWN}, {"generation_kwargs": {**DRAWN, "temperature": 1.0}},
         "temperature is 0.7 in the bank and 1.0 in"),
    ],
)  # fmt: skip
def test_what_belongs_to_how_a_model_is_run_is_told(bank, recorded, changes, words):
    bank = replace(bank, settings={**SETTINGS, **recorded})
    [warning] = check(bank, settings={**SETTINGS, **changes})
    assert words in warning


@pytest.mark.parametrize(
    "of_bank, changes, words",
    [
        ({}, {"doc_hashes": ("x", "y", *HASHES[2:])}, r"2 of 12 documents differ.*doc_id 0, 1"),
        ({}, {"doc_ids": IDS[:8], "doc_hashes": HASHES[:8]}, "lacks 4 of the bank's 12"),
        ({"doc_hashes": None}, {"task": "renamed"}, "it is of task t and has no document hashes"),
        ({}, {"filters": ["strict"]}, "its filter is 'none'"),
        ({"filter": None}, {"filters": ["strict", "loose"]}, "names no filter"),
        ({"doc_ids": tuple(f"q{i:02}" for i in IDS)}, {}, "names its documents by text"),
    ],
)
def test_documents_and_filter_must_be_those_calibrated(bank, of_bank, changes, words):
    with pytest.raises(BankMismatchError, match=words):
        check(replace(bank, **of_bank), **changes)


def test_what_cannot_be_verified_is_told_and_what_decides_nothing_is_not(bank):
    [warning] = check(bank, doc_ids=(*IDS, 12), doc_hashes=(*HASHES, "more"))
    assert "knows 12 of the task's 13 documents" in warning
    [warning] = check(bank, task="renamed")
    assert "the bank is of task t" in warning
    assert check(replace(bank, filter=None)) == []
    first, second = check(replace(bank, settings={}, doc_hashes=None))
    assert "not verified" in first and "not verified" in second
    # A setting in which the calibration runs differed.
    mixed = {k: v for k, v in SETTINGS.items() if k != "chat_template"}
    mixed["differing"] = ["chat_template", "generation_kwargs.temperature"]
    changed = {**SETTINGS, "chat_template": False}
    changed["generation_kwargs"] = {**SETTINGS["generation_kwargs"], "temperature": 1.0}
    assert check(replace(bank, settings=mixed), settings=changed) == []


@pytest.mark.parametrize(
    ("stated", "drawn"),
    [
        ({"do_sample": True, "temperature": 0.0}, "greedy"),
        ({"do_sample": True, "temperature": 0.7}, "sampled"),
        ({"do_sample": False, "temperature": 0.7}, "greedy"),
        ({"temperature": "0.7"}, "sampled"),
    ],
)
def test_answers_are_sampled_at_a_temperature_unless_the_settings_say_no(stated, drawn):
    assert sampling(stated).how == drawn


@pytest.mark.parametrize("shots", [0, 5])
def test_the_seed_of_worked_examples_matters_where_there_are_some(bank, shots):
    stated = {**SETTINGS, "num_fewshot": shots, "fewshot_seed": 1234}
    seeded = replace(bank, settings=stated)
    warnings = check(seeded, settings={**stated, "fewshot_seed": 7})
    assert ["fewshot_seed is 7" in warning for warning in warnings] == [True] * (shots > 0)
