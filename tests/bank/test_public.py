"""Public banks: by name, compressed, and with what a stranger has to know of them."""

import gzip
from pathlib import Path

import pytest

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.bank.bank import PUBLISHED_ELSEWHERE
from lm_eval_ccat.bank.file import public_banks
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.live.outcomes import banks_of

TASK = "mmlu_pro_history"


def test_public_banks_are_small_and_say_what_they_rest_on():
    folder = public_banks()["mmlu_pro"]
    assert sum(file.stat().st_size for file in folder.parent.rglob("*")) < 2_000_000
    suite = SuiteBank.load("mmlu_pro")
    banks = [bank for _, _, bank in suite.banks()]
    assert len(banks) == 14 and sum(bank.n_items for bank in banks) == 12032 - 48
    for bank in banks:
        assert bank.provenance["license"] == "Apache-2.0"
        assert bank.provenance["prompts"] == PUBLISHED_ELSEWHERE
        assert "TIGER-AI-Lab/MMLU-Pro" in bank.provenance["sources"][0]
        assert len(bank.models) == 20 and bank.made and bank.self_check["range"]
        assert bank.filter == "custom-extract" and all(bank.doc_hashes)


def test_a_public_bank_draws_every_item():
    bank = SuiteBank.load("public", [TASK])[TASK]["exact_match"]
    ranker = Ranker(bank, {"a": 1.0, "b": 1.0}, max_items=12)
    for n in range(12):
        for model in "ab":
            [(_, item)] = ranker.ask(1, model=model)
            ranker.tell(model, item, float(n % 2))
    assert {model: len(draws) for model, draws in ranker.result().draws.items()} == {
        "a": 12,
        "b": 12,
    }


def test_a_name_gives_the_task_its_bank_unless_a_file_has_the_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("public", "mmlu_pro", public_banks()["mmlu_pro"]):
        assert list(banks_of(name, TASK)) == ["exact_match"]
    assert banks_of("public", "gsm8k", only=False) == {}
    with pytest.raises(BankError, match="public has no bank of task gsm8k; it has: mmlu_pro_bio"):
        banks_of("public", "gsm8k")
    ItemBank.blank(range(3), task="mine").save("mmlu_pro")
    assert ItemBank.load("mmlu_pro").task == "mine"
    with pytest.raises(UsageError, match="no such item bank"):
        ItemBank.load("mmlu")


def test_a_compressed_bank_is_the_bank_and_damage_is_refused_by_name(tmp_path):
    bank = ItemBank.blank(range(300), task="t")
    file = tmp_path / "t.bank.json.gz"
    bank.save(file)
    assert ItemBank.load(file).sha256 == bank.sha256
    assert gzip.decompress(file.read_bytes()).startswith(b"{")
    assert list(SuiteBank.load(tmp_path)) == ["t"]
    whole = file.read_bytes()
    for damaged in (whole[:200], whole[:50] + b"xxxx" + whole[54:], b"no gzip", b""):
        file.write_bytes(damaged)
        with pytest.raises(BankError, match=r"t\.bank\.json\.gz: not a readable item bank"):
            ItemBank.load(file)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("lm_eval_ccat.bank.file.MAX_BYTES", 1 << 20)
    file = Path(tmp_path / "b.bank.json.gz")
    file.write_bytes(gzip.compress(b" " * (64 << 20)))
    with pytest.raises(BankError, match="too large"):
        ItemBank.load(file)
