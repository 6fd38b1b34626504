"""Items that drift, items that are retired, new versions of a task."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import BankError, BankMismatchError, UsageError
from lm_eval_ccat.upkeep.renew import retire
from lm_eval_ccat.upkeep.update import update

N = 60


def world(shift=(), models=44, seed=1):
    """Scores of models, the last 20 of them on items some of which have become easier."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=N)
    eta = rng.normal(size=(models, 1)) + ease
    eta[24:, list(shift)] += 2.5
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


def test_items_that_drifted_are_learned_from_the_new_models():
    shift = [3, 17, 40]
    table = world(shift)
    bank = calibrate(table.select(OLD))
    made = update(bank, table.select(NEW))
    assert any("3 items drifted" in w and "17" in w for w in made.warnings)
    fresh = calibrate(table.select(NEW))
    plain = bank_of(*OLD)

    def of(bank):
        return bank.parameters["intercept"][shift]

    # Nearer to what the new models alone say than to what was known before.
    assert (np.abs(of(made) - of(fresh)) < np.abs(of(made) - of(plain))).all()
    quiet = update(plain, world().select(NEW))
    assert not any("drifted" in w for w in quiet.warnings)


@pytest.mark.parametrize("method", ["default", "paper"])
def test_a_retired_item_is_never_asked_and_never_counted(method):
    table = world()
    bank = calibrate(table.select(OLD), method, keep_scores=True)
    made = retire(bank, [0, 9], "leaked")
    assert made.n_items == N - 2 and 9 not in made.index and made.doc_hashes[0] == "h1"
    assert made.provenance["retired"][0]["items"] == [0, 9]
    assert all(len(o.scores) == N - 2 for o in made.observations)
    row = table.select(["m30"]).unit[0]
    ranker = Ranker(made, {"m30": 1.0}, max_items=N, stop_when_decided=False)
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
    bank = calibrate(table.select(OLD))
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


@pytest.mark.parametrize("keeps", [False, True])
def test_new_documents_of_a_new_version_are_learned_from_its_models(keeps):
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
    bank = calibrate(before, keep_scores=keeps)
    assert update(bank, table.select(NEW[:-4])).doc_ids == tuple(old)
    made = update(bank, table.select(NEW[:-4]), new_version=True)
    assert made.doc_ids == tuple(range(N)) and made.doc_hashes[30] == "h30"
    assert any("5 new documents learned from 16 models" in w for w in made.warnings)
    if keeps:
        kept = made.observations[0]
        assert made.doc_ids[kept.items[0]] == old[0] and kept.scores[0] == pytest.approx(
            before.scores[0, 0], abs=1e-6
        )
    # The bank's own models, run on the new version, say of its documents as much as others do.
    again = update(bank, table.select(OLD), new_version=True)
    assert again.doc_ids == tuple(range(N)) and again.models == tuple(OLD)
    of_all = bank_of(*OLD).parameters["intercept"]
    assert np.abs((again.parameters["intercept"] - of_all)[fresh]).max() < 0.4 * of_all.std()
    # Nearly what a calibration on all scores would say of them.
    whole = bank_of(*OLD, *NEW[:-4])
    difference = (made.parameters["intercept"] - whole.parameters["intercept"])[fresh]
    assert np.abs(difference).max() < 0.4 * whole.parameters["intercept"].std()
    inside = 0
    for model in NEW[-4:]:
        row = table.select([model]).scores[0]
        ranker = Ranker(made, {model: 1.0}, max_items=20, stop_when_decided=False)
        while not ranker.done:
            for _, item in ranker.ask():
                ranker.tell(model, item, row[item])
        low, high = ranker.result().interval(model)
        inside += low <= row.mean() <= high
    assert inside >= 3
    paper = update(calibrate(before, "paper"), table.select(NEW), new_version=True)
    assert paper.n_items == N - 5
    assert any("takes none into a bank" in w for w in paper.warnings)


def test_the_command_retires(tmp_path, capsys):
    table = world()
    calibrate(table.select(OLD), "paper").save(tmp_path / "b.json")
    table.select(NEW).write(tmp_path / "new.parquet")
    arguments = ["bank", "update", str(tmp_path / "b.json"), "--scores"]
    arguments += [str(tmp_path / "new.parquet"), "-o", str(tmp_path / "c.json"), "--retire"]
    assert main([*arguments, "2,7"]) == 0
    assert ItemBank.load(tmp_path / "c.json").n_items == N - 2
    assert main([*arguments, "two"]) == 2
    assert "doc_ids are numbers" in capsys.readouterr().err
