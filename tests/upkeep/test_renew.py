"""Items that drift, items that are retired, new versions of a task."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import BankError, BankMismatchError, UsageError
from lm_eval_ccat.upkeep.update import retire, update

N = 60


def world(models=44):
    """Scores of models."""
    rng = np.random.default_rng(1)
    ease = rng.normal(size=N)
    eta = rng.normal(size=(models, 1)) + ease
    x = np.clip(1 / (1 + np.exp(-eta)) + 0.08 * rng.normal(size=eta.shape), 0, 1)
    return ScoreTable.from_arrays(
        x,
        [f"m{j:02}" for j in range(models)],
        metric="acc",
        doc_hashes=[f"h{i}" for i in range(N)],
        settings={"task_version": 1.0, "num_fewshot": 0},
    )


OLD, NEW = [f"m{j:02}" for j in range(24)], [f"m{j:02}" for j in range(24, 44)]


@cache
def bank_of(*models: str) -> ItemBank:
    """Of the world as it is; made once."""
    return calibrate(world().select(models))


@pytest.mark.parametrize("method", ["default", "paper"])
def test_a_retired_item_is_never_asked_and_never_counted(method):
    table = world()
    bank = calibrate(table.select(OLD), method, keep_scores=True)
    made = retire(bank, [0, 9], "leaked")
    assert made.n_items == N - 2 and 9 not in made.index and made.doc_hashes[0] == "h1"
    assert made.provenance["retired"][0]["items"] == [0, 9]
    assert all(len(o.scores) == N - 2 for o in made.observations)
    row = table.select(["m30"]).scores[0]
    ranker = Ranker(made, {"m30": 1.0}, max_items=N, stop="limits")
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, row[item])
    assert ranker.estimate("m30")[0] == pytest.approx(np.delete(row, [0, 9]).mean(), abs=0.05)
    assert retire(bank, [], "none") is bank
    with pytest.raises(UsageError, match="no item with doc_id 99"):
        retire(bank, [99], "x")
    with pytest.raises(BankError, match="no item of the bank would be left"):
        retire(bank, bank.doc_ids, "x")


def test_a_new_version_retires_what_changed():
    table = world()
    bank = calibrate(table.select(OLD), keep_scores=True)
    hashes = tuple("other" if i == 5 else h for i, h in enumerate(table.doc_hashes))
    newer = replace(
        table.select(NEW), doc_hashes=hashes, settings={"task_version": 2.0, "num_fewshot": 0}
    )
    with pytest.raises(BankMismatchError, match="task_version is 2"):
        update(bank, newer)
    made = update(bank, newer, new_version=True)
    assert made.n_items == N and len(made.models) == 44
    assert made.doc_hashes[5] == "other"  # retired, and learned anew
    assert made.settings["task_version"] == 2.0
    assert any("1 document changed" in w for w in made.warnings)
    few = update(bank, newer.select(NEW[:4]), new_version=True)
    assert few.n_items == N - 1 and 5 not in few.index
    assert any("left out: fewer than 5 models" in w for w in few.warnings)
    with pytest.raises(BankMismatchError, match="needs document hashes"):
        update(replace(bank, doc_hashes=None), newer, new_version=True)


@pytest.mark.parametrize("stated", [False, True])
def test_new_documents_of_a_new_version_are_learned_from_its_models(stated):
    table = world()
    fresh = [0, 7, 30, 31, 59]
    old = [i for i in range(N) if i not in fresh]
    before = table.select(OLD)
    before = ScoreTable.from_arrays(
        before.scores[:, old],
        OLD,
        doc_ids=old,
        metric="acc",
        doc_hashes=[f"h{i}" for i in old],
        settings=before.settings,
    )
    bank, known = calibrate(before, keep_scores=not stated), before if stated else None
    assert update(bank, table.select(NEW), known).doc_ids == tuple(old)
    made = update(bank, table.select(NEW), known, new_version=True)
    assert made.doc_ids == tuple(range(N)) and made.doc_hashes[30] == "h30"
    assert any("5 new documents learned from 20 models" in w for w in made.warnings)
    leaked = update(bank, table.select(NEW), known, retired=[2], new_version=True)
    assert set(range(N)) - set(leaked.doc_ids) == {2}, "what leaked is not learned anew"
    # Nearly what a calibration on all scores would say of them.
    whole = bank_of(*OLD, *NEW)
    difference = (made.parameters["intercept"] - whole.parameters["intercept"])[fresh]
    assert np.abs(difference).max() < 0.4 * whole.parameters["intercept"].std()
    # The bank's own models, run on the new version, say of its documents as much as others do.
    again = update(bank, table.select(OLD), known, new_version=True)
    assert again.doc_ids == tuple(range(N)) and again.models == tuple(OLD)


def test_the_command_retires(tmp_path, capsys):
    table = world()
    calibrate(table.select(OLD), "paper", keep_scores=True).save(tmp_path / "b.json")
    table.select(NEW).write(tmp_path / "new.parquet")
    arguments = ["bank", "update", str(tmp_path / "b.json"), "--scores"]
    arguments += [str(tmp_path / "new.parquet"), "-o", str(tmp_path / "c.json"), "--retire"]
    assert main([*arguments, "2,7"]) == 0
    assert ItemBank.load(tmp_path / "c.json").n_items == N - 2
    assert main([*arguments, "two"]) == 2
    assert "doc_ids are numbers" in capsys.readouterr().err
