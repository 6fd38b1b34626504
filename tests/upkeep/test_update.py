"""An updated bank is a fresh one of the same data; items leave it, a new version brings others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import BankError, BankMismatchError, UsageError
from lm_eval_ccat.upkeep.update import retire, union, update
from lm_eval_ccat.upkeep.words import diff_banks, diff_in_words


def table(n_models=16, n_items=50, seed=0, missing=0.0, **known) -> ScoreTable:
    rng = np.random.default_rng(seed)
    skill, ease = np.linspace(-1.5, 1.5, n_models)[:, None], rng.normal(size=n_items)
    raw = 1 / (1 + np.exp(-skill - ease - 0.4 * rng.normal(size=(n_models, n_items))))
    raw[rng.random(raw.shape) < missing] = np.nan
    names = [f"model{j}" for j in rng.permutation(n_models)]
    return ScoreTable.from_arrays(raw, names, **known)


def halves(method="default", **known) -> tuple[ItemBank, ScoreTable, ScoreTable]:
    """A bank that keeps its scores, those scores, and those of six other models and two of its."""
    whole = table()
    old = whole.select(whole.models[:10])
    return calibrate(old, method, keep_scores=True, **known), old, whole.select(whole.models[8:])


@pytest.mark.parametrize(
    ("method", "hashed"), [("paper", False), ("paper", True), ("default", False)]
)
def test_an_update_is_a_calibration_on_all_scores(method, hashed):
    bank, old, new = halves(method, hash_names=hashed)
    want = calibrate(table(), method, keep_scores=True, hash_names=hashed)
    for made in (update(bank, new), update(bank, new, old)):
        for name, values in want.parameters.items():
            np.testing.assert_allclose(made.parameters[name], values, atol=2e-4)
        # Of the two models in both the new rows count, which stand behind the others.
        assert made.models == want.models and len(made.observations) == 16
        assert made.provenance["updates"][0]["previous"] == bank.sha256
        assert hashed != any(m in str(made._content()) for m in new.models)
        assert len(update(made, new).provenance["updates"]) == 2
    with pytest.raises(BankError, match="name them with --calibrated_on"):
        update(calibrate(old, method), new)


def test_other_settings_and_scores_are_refused():
    known = {"settings": {"num_fewshot": 5, "task_version": 1.0}}
    old = table(**known)
    bank = calibrate(old.select(old.models[:8]), "paper", keep_scores=True)
    other = table(settings={"num_fewshot": 0, "task_version": 1.0})
    with pytest.raises(BankMismatchError, match="num_fewshot"):
        update(bank, other.select(other.models[8:]))
    with pytest.raises(BankError, match="other models"):
        update(bank, old.select(old.models[8:]), old.select(old.models[:5]))


def test_diff_tells_what_changed():
    whole = table(doc_hashes=[f"h{i}" for i in range(50)])
    bank = calibrate(whole.select(whole.models[:8]), "paper", keep_scores=True)
    assert diff_banks(bank, bank)["same"]
    found = diff_banks(bank, update(bank, whole.select(whole.models[8:])))
    assert not found["same"] and len(found["models_added"]) == 8 and not found["models_removed"]
    assert found["parameters"]["difficulty"]["largest_change"] > 0
    assert "constants.k" in found["fields"] and "provenance.updates" in found["fields"]
    assert len(diff_in_words(found)) < 6 and "differ (--json)" in diff_in_words(found)[-1]
    fewer = ScoreTable.from_arrays(
        whole.raw[:, 1:],
        whole.row_model,
        range(1, 50),
        doc_hashes=["other", *whole.doc_hashes[2:]],
    )
    found = diff_banks(bank, calibrate(fewer, "paper"))
    assert found["items_removed"] == [0] and found["documents_changed"] == [1]


def adaptive_scores(bank, whole, models, n=15) -> ScoreTable:
    """What an adaptive run of each model by `bank` would have seen."""
    raw = np.full((len(models), whole.n_items), np.nan)
    for j, model in enumerate(models):
        full = whole.select([model]).scores[0]
        ranker = Ranker(bank, {model: 1.0}, max_items=n, stop="decided and se 1e-9")
        while not ranker.done:
            for _, item in ranker.ask():
                ranker.tell(model, item, float(full[item]))
                raw[j, item] = full[item]
    return ScoreTable.from_arrays(raw, models, whole.doc_ids, chosen=("adaptive",) * len(models))


def test_what_was_chosen_in_adaptive_runs_is_remembered():
    bank, _, _ = halves()
    seen = adaptive_scores(bank, table(), list(table().models[12:14]))
    made = update(bank, seen)
    assert [o.chosen for o in made.observations] == ["all"] * 10 + ["adaptive"] * 2
    assert update(made, seen).models == made.models
    paper, _, _ = halves("paper")
    with pytest.raises(BankError, match="chose the items of"):
        update(paper, seen)


def test_new_scores_of_a_model_replace_its_old_ones_and_old_ones_fill_the_rest():
    old = ScoreTable.from_arrays([[0.1, 0.2, 0.3], [0.5, 0.5, 0.5]], ["again", "stays"])
    new = ScoreTable.from_arrays([[0.9, np.nan, 0.7]], ["again"], doc_ids=[1, 2, 3])
    both = union(old, new)
    rows = dict(zip(both.row_model, both.raw.tolist()))
    assert rows["again"][:2] == [0.1, 0.9] and rows["again"][2:] == [0.3, 0.7]
    assert rows["stays"][:3] == [0.5, 0.5, 0.5] and np.isnan(rows["stays"][3])


# -- items that leave, and new versions

N = 60


def world(models=44) -> ScoreTable:
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


def test_a_retired_item_is_never_asked_and_never_counted():
    table = world()
    bank = calibrate(table.select(OLD), "paper", keep_scores=True)
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
    bank = calibrate(table.select(OLD), "paper", keep_scores=True)
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
    assert any("1 document retired, which the new version changes" in w for w in made.warnings)
    few = update(bank, newer.select(NEW[:4]), new_version=True)
    assert few.n_items == N - 1 and 5 not in few.index
    assert any("left out: fewer than 5 models" in w for w in few.warnings)
    with pytest.raises(BankMismatchError, match="needs document hashes"):
        update(replace(bank, doc_hashes=None), newer, new_version=True)


def test_new_documents_of_a_new_version_are_learned_from_its_models():
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
    bank, known = calibrate(before), before
    assert update(bank, table.select(NEW), known).doc_ids == tuple(old)
    made = update(bank, table.select(NEW), known, new_version=True)
    assert made.doc_ids == tuple(range(N)) and made.doc_hashes[30] == "h30"
    assert any("5 new documents learned from 20 models" in w for w in made.warnings)
    # Nearly what a calibration on all scores would say of them.
    whole = calibrate(table)
    difference = (made.parameters["intercept"] - whole.parameters["intercept"])[fresh]
    assert np.abs(difference).max() < 0.4 * whole.parameters["intercept"].std()
    # The bank's own models, run on the new version, say of its documents as much as others do.
    again = update(bank, table.select(OLD), known, retired=[2], new_version=True)
    assert again.models == tuple(OLD)
    assert set(range(N)) - set(again.doc_ids) == {2}, "what leaked is not learned anew"


def test_the_command_retires(tmp_path, capsys):
    table = world(20)
    bank, new = str(tmp_path / "b.json"), str(tmp_path / "new.parquet")
    calibrate(table.select(OLD[:12]), "paper", keep_scores=True).save(bank)
    table.select(OLD[12:20]).write(new)
    line = ["bank", "update", bank, "--scores", new, "-o", str(tmp_path / "c.json"), "--retire"]
    assert main([*line, "2,7"]) == 0
    assert set(range(N)) - set(ItemBank.load(tmp_path / "c.json").doc_ids) == {2, 7}
    assert main([*line, "two"]) == 2
    assert "doc_ids are numbers" in capsys.readouterr().err
