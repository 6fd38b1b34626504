"""What a ranking observed is kept in a bank that grows, and the next ranking takes it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lm_eval_ccat import ItemBank
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.live.keep import _observed, growing_banks
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.records import Item, Tell


@pytest.mark.long
def test_a_bank_grows_from_ranking_to_ranking(bench, server, tmp_path, capsys):
    kept, first = str(tmp_path / "kept.bank.json"), {"bank": None, "budget": {"items": 60}}
    bench.ranked(server, ["m05", "m07"], name="first", save_bank=kept, **first)
    said = capsys.readouterr().err
    assert "Adaptive selection starts at 8 models and 3 answers per item (now 2" in said
    bank = ItemBank.load(kept)
    assert bank.method == "sample" and bank.models == ("m05", "m07")
    second = {"bank": "kept.bank.json", "save_bank": kept, "budget": {"items": 30}}
    bench.ranked(server, ["m01", "m07"], name="second", **second)
    grown = ItemBank.load(kept)
    assert grown.models == ("m05", "m07", "m01")
    before, after = (
        {o.model: set(o.items.tolist()) for o in b.observations} for b in (bank, grown)
    )
    assert after["m05"] == before["m05"] and after["m07"] >= before["m07"]
    # A run goes on with what it began with, though the file has grown since.
    bench.ranked(server, ["m01", "m07"], name="second", more=["--resume"], **second)


@pytest.mark.long
def test_a_folder_with_other_files_takes_the_bank_of_a_first_run(bench, server, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "notes.json").write_text("{}")
    kept = str(tmp_path / "kept")
    bench.ranked(server, ["m05", "m07"], bank=None, max_items=10, save_bank=kept)
    assert [bank.metric for _, _, bank in SuiteBank.load(tmp_path / "kept").banks()] == ["share"]


def test_a_file_of_another_benchmark_is_refused_before_any_request(bench, server, tmp_path, ccat):
    for items, about in ((7, {}), (bench.n_docs, {"scale": Scale(0, 100)})):
        bank = ItemBank.blank(range(items), metric="share", task="loopback_task", **about)
        bank.save(tmp_path / "other.json")
        other = str(tmp_path / "other.json")
        config = bench.config(server.url, ["m05", "m07"], bank=None, save_bank=other)
        err = ccat("rank", config, code=2).err
        assert "holds no bank of share on the items of this run" in err
    assert not server.asked


@pytest.mark.long
def test_a_model_that_answered_every_item_is_saved_with_the_score_of_each(bench, server, tmp_path):
    kept = tmp_path / "kept.bank.json"
    bench.ranked(server, ["m05", "m07"], bank=None, stop="limits", save_bank=str(kept))
    bank, table = ItemBank.load(kept), bench.table
    [saved] = [o for o in bank.observations if o.model == "m05"]
    truth = dict(zip(table.doc_ids, table.scores[table.models.index("m05")]))
    assert len(saved.items) == bank.n_items == bench.n_docs, "it answered all"
    for item, score in zip(saved.items, saved.scores):
        assert score == pytest.approx(truth[bank.doc_ids[item]], abs=1e-6)


def test_a_bank_takes_the_first_answer_of_an_item_and_names_models_as_the_user_does():
    answers = {
        ("m", Item(("t", n, *repeat))): Tell(model="m", item=Item(("t", n, *repeat)), score=score)
        for n, repeat, score in ((0, (), 1.0), (0, (2,), 0.0), (3, (2,), 0.0), (3, (), 0.5))
    }
    ranker = SimpleNamespace(probability=lambda model, item: 0.5)
    models = [SimpleNamespace(name=name) for name in ("m", "silent")]
    plan = SimpleNamespace(spec=SimpleNamespace(models=models))
    book = SimpleNamespace(answers=answers, ranker=ranker)
    [kept] = _observed(plan, book, "t", "acc", ItemBank.blank(range(4)), {"m": "org/m"})
    assert (kept.model, kept.items.tolist(), kept.scores.tolist()) == ("org/m", [0, 3], [1.0, 0.5])


def test_each_bank_of_a_folder_is_read_once_however_many_tasks_grow(tmp_path, monkeypatch):
    blank = {
        task: {"acc": ItemBank.blank(range(4), task=task, metric="acc")} for task in ("a", "b", "c")
    }
    SuiteBank(blank).save(tmp_path)
    outcomes = {
        task: {name: SimpleNamespace(bank=bank) for name, bank in banks.items()}
        for task, banks in blank.items()
    }
    sessions = {task: SimpleNamespace(marks={}) for task in blank}
    load, files = ItemBank.load, []
    monkeypatch.setattr(ItemBank, "load", lambda file: files.append(file) or load(file))
    banks = growing_banks(SimpleNamespace(outcomes_by_task=outcomes, sessions=sessions), tmp_path)
    assert {task: bank["acc"].sha256 for task, bank in banks.items()} == {
        task: bank["acc"].sha256 for task, bank in blank.items()
    }
    assert len(files) == len(set(files)) == 3


@pytest.mark.parametrize(
    ("draws", "chosen"), [((0.5, 0.25), "drawn"), ((0.5, None), "adaptive"), ((), "adaptive")]
)
def test_answers_are_a_random_sample_if_all_of_them_were_drawn(draws, chosen):
    """Chosen ones among them may be the easy ones."""
    probability = dict(enumerate(draws))
    answers = {
        ("m", Item(("t", n))): Tell(model="m", item=Item(("t", n)), score=1.0) for n in (0, 1)
    }
    ranker = SimpleNamespace(probability=lambda model, item: probability.get(item.doc_id))
    plan = SimpleNamespace(spec=SimpleNamespace(models=[SimpleNamespace(name="m")]))
    book = SimpleNamespace(answers=answers, ranker=ranker)
    [observed] = _observed(plan, book, "t", "acc", ItemBank.blank(range(4)), {})
    assert observed.chosen == chosen and (observed.probabilities is None) == (not draws)
