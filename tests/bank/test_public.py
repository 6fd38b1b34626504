"""Public banks: by name, compressed, and with what a stranger has to know of them."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.bank import SuiteBank, file
from lm_eval_ccat.bank.bank import PUBLISHED_ELSEWHERE
from lm_eval_ccat.bank.file import public_banks
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.live import forecast
from lm_eval_ccat.live.outcomes import banks_of, tasks_of_bank
from lm_eval_ccat.live.plan import plan_of_banks
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.metrics import Scale

TASK = "mmlu_pro_history"


@pytest.mark.long
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


def test_a_data_set_on_the_hub_without_banks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "fetch", lambda name, wanted: tmp_path)
    with pytest.raises(BankError, match="hub:me/logs: it holds neither"):
        file.located("hub:me/logs")
    SuiteBank({"t": ItemBank.blank([0], task="t")}).save(tmp_path)
    assert file.located("hub:me/banks") == tmp_path


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


def test_a_name_gives_the_task_its_bank_and_one_here_of_the_name_is_never_taken_unsaid(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("public", "mmlu_pro", public_banks()["mmlu_pro"]):
        assert list(banks_of(name, TASK)) == ["exact_match"]
    assert banks_of("public", "gsm8k", only_task=False) == {}
    with pytest.raises(UsageError, match="public has no bank of task gsm8k; it has: mmlu_pro_b"):
        banks_of("public", "gsm8k")
    Path("public").mkdir()  # a folder of something else hides no bank
    assert list(banks_of("public", TASK)) == ["exact_match"]
    ItemBank.blank(range(3), task="mine").save("mmlu_pro")
    ItemBank.blank(range(3), task="mine").save("public/mine.bank.json")
    for name in ("mmlu_pro", "public"):
        with pytest.raises(UsageError, match=f"{name}: a public bank and a bank here .* ./{name}"):
            SuiteBank.load(name)
        for here in (f"./{name}", Path(name), str(Path(name).resolve())):
            assert list(SuiteBank.load(here)) == ["mine"] and banks_of(here, "mine")
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


@pytest.mark.long
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("lm_eval_ccat.bank.file.MAX_BYTES", 1 << 20)
    file = Path(tmp_path / "b.bank.json.gz")
    file.write_bytes(gzip.compress(b" " * (64 << 20)))
    with pytest.raises(BankError, match="too large"):
        ItemBank.load(file)


@pytest.mark.long
def test_a_public_bank_plans_without_its_documents(few_plays, ccat, tmp_path, monkeypatch):
    """By name, or where a file's documents cannot be loaded; a bank without lengths cannot."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    of_task = ["plan", "--task", TASK, "--bank", "public", "--gap", 0.1, "--json"]
    said = ccat(*of_task)
    assert "no document was loaded" in said.err
    content = json.loads(said.out)
    assert content["documents"] == 381 and content["task"] == TASK
    takes = content["by_gap"]["0.1"]
    assert list(takes) == ["bank", "random", "full"]
    # Five worked examples, a question and an answer, of two models.
    assert 1000 < takes["full"]["input_tokens"] / (2 * 381) < 3000
    models = [{"name": n, "model": "dummy", "price": {"input": 1.0, "output": 1.0}} for n in "ab"]
    config = {"task": TASK, "bank": "public", "models": models, "max_items": 20}
    (tmp_path / "c.yaml").write_text(json.dumps(config))
    said = ccat("plan", tmp_path / "c.yaml", "--gap", 0.1, "--json")
    assert "cannot load task" in said.err and "no document was loaded" in said.err
    full = json.loads(said.out)["by_gap"]["0.1"]["full"]
    tokens = full["input_tokens"] + full["output_tokens"]
    assert full["usd"] == pytest.approx(tokens / 1e6, rel=1e-3)
    known = SuiteBank.load("public", [TASK])[TASK]["exact_match"]
    facts = {key: value for key, value in known.provenance.items() if key != "tokens"}
    replace(known, provenance=facts).save(tmp_path / "silent.json")
    (tmp_path / "c.yaml").write_text(json.dumps({**config, "bank": str(tmp_path / "silent.json")}))
    assert "cannot load task" in ccat("plan", tmp_path / "c.yaml", code=1).err


@pytest.mark.long
def test_a_plan_of_a_bank_alone_is_of_all_its_tasks(ccat):
    suite = SuiteBank.load("mmlu_pro")
    assert tasks_of_bank("public") == tasks_of_bank("public", ["mmlu_pro"]) == list(suite)
    models = [{"model": "dummy"}]
    plan = plan_of_banks(Spec.read({"tasks": ["mmlu_pro"], "bank": "public", "models": models}))
    assert plan is not None and len(plan.items()) == 12032 - 48
    for bank in (bank for _, _, bank in suite.banks()):
        read, written = bank.tokens
        assert 500 < read < 5000 and 50 < written < 300


@pytest.mark.parametrize(
    "stated", ["many", {"input": 3}, {"input": -1, "output": 1}, {"input": []}]
)
def test_a_bank_of_nonsense_lengths_states_none(stated):
    assert replace(ItemBank.blank([1]), provenance={"tokens": stated}).tokens is None


@pytest.mark.long
def test_a_board_begins_with_a_public_bank_of_the_tasks_that_are_named(tmp_path, ccat, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source, task, n in (
        ("mmlu_pro", TASK, 1),
        ("public", "mmlu_pro", 14),
        (public_banks()["mmlu_pro"], "*_history,mmlu_pro_law", 2),
    ):
        out = ccat("board", "init", f"of_{n}", "--from", source, "--task", task).out
        assert TASK in out and len(list(Path(f"of_{n}", "suite").glob("*.bank.json"))) == n
    said = ccat("board", "init", "none", "--from", "mmlu_pro", "--task", "gsm8k", code=2).err
    assert "no bank of task gsm8k" in said and not Path("none").exists()


def test_a_public_bank_is_offered_where_it_saves_items(monkeypatch):
    def offer(by_bank, at_random):
        ways = {
            way: SimpleNamespace(
                items_for_difference=lambda gap: None, items_for_error=lambda error, n=n: n
            )
            for way, n in (("bank", by_bank), ("random", at_random))
        }
        monkeypatch.setattr(forecast, "powers", lambda plan: ways)
        return forecast.offer_in_words(plan)

    spec = SimpleNamespace(bank=None)
    plan = SimpleNamespace(spec=spec, scale=Scale(), items=lambda: range(100))
    public = SimpleNamespace(spec=SimpleNamespace(bank="public"))
    monkeypatch.setattr(forecast, "with_public_bank", lambda plan: public)
    assert "after 40 items, not 41" in offer(40, 41) and offer(40, 40) == ""
