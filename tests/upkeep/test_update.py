"""Adding models to a bank gives what a calibration on all of them gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.bank.names import hashed_name
from lm_eval_ccat.errors import BankError, BankMismatchError
from lm_eval_ccat.upkeep.diff import diff_banks
from lm_eval_ccat.upkeep.update import update

METHODS = ["paper", "default"]


def table(n_models=16, n_items=50, seed=0, missing=0.0, **known) -> ScoreTable:
    rng = np.random.default_rng(seed)
    skill, ease = np.linspace(-1.5, 1.5, n_models)[:, None], rng.normal(size=n_items)
    raw = 1 / (1 + np.exp(-skill - ease - 0.4 * rng.normal(size=(n_models, n_items))))
    raw[rng.random(raw.shape) < missing] = np.nan
    names = [f"model{j}" for j in rng.permutation(n_models)]
    return ScoreTable.from_arrays(raw, names, **known)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 500), n_old=st.integers(8, 14), missing=st.sampled_from([0.0, 0.2]))
def test_difficulties_of_paper_are_those_of_all_models(seed, n_old, missing):
    whole = table(seed=seed, missing=missing)
    old, new = whole.models[:n_old], whole.models[n_old:]
    made = update(calibrate(whole.select(old), "paper"), whole.select(new))
    want = calibrate(whole, "paper")
    np.testing.assert_allclose(
        made.parameters["difficulty"], want.parameters["difficulty"], atol=1e-9
    )
    assert 0.4 < made.constants["k"] / want.constants["k"] < 2.5  # pooled, not fitted again
    assert set(made.models) == set(want.models)


def test_the_noise_of_the_models_before_stays_in_an_update():
    whole = table(n_models=13)
    clean = ScoreTable.from_arrays(
        1 / (1 + np.exp(-np.log(whole.raw[:1] / (1 - whole.raw[:1])).mean(axis=0))),
        ["clean"],
        whole.doc_ids,
    )
    bank = calibrate(whole.select(whole.models[:12]), "default")
    made = update(bank, clean)
    before, after = bank.parameters["noise"], made.parameters["noise"]
    # One model beside twelve, and the ten that the prior counts as, moves no item's noise far.
    assert (after > before * 22 / 23 - 1e-12).all() and (after < before * 22 / 23 + 5 / 23).all()
    assert made.constants["log_noise"][:12] == bank.constants["log_noise"]
    assert len(made.constants["log_noise"]) == 13
    paper = calibrate(whole.select(whole.models[:12]), "paper")
    assert 0.85 < update(paper, clean).constants["k"] / paper.constants["k"] < 1.5


@pytest.mark.parametrize("method", METHODS)
def test_with_the_old_scores_an_update_is_a_calibration(method):
    whole = table()
    old, new = whole.select(whole.models[:9]), whole.select(whole.models[9:])
    made = update(calibrate(old, method), new, old)
    want = calibrate(whole, method)
    for name, values in want.parameters.items():
        np.testing.assert_array_equal(made.parameters[name], values)
    assert made.constants == want.constants


@pytest.mark.parametrize("method", METHODS)
def test_an_updated_bank_ranks_and_says_where_it_comes_from(method, tmp_path):
    whole = table()
    bank = calibrate(whole.select(whole.models[:8]), method)
    made = update(bank, whole.select(whole.models[8:14]))
    again = update(made, whole.select(whole.models[14:]))
    steps = again.provenance["updates"]
    assert [s["previous"] for s in steps] == [bank.sha256, made.sha256]
    assert [len(s["models"]) for s in steps] == [6, 2]
    assert sum("self-check" in w for w in again.warnings) == 1
    again.save(tmp_path / "b.json")
    ranker = Ranker(type(again).load(tmp_path / "b.json"), {"a": 1.0, "b": 1.0}, max_items=12)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, 0.9 if model == "a" else 0.1)
    assert ranker.result().order == ["a", "b"]


def test_models_already_there_are_passed_over():
    whole = table()
    bank = calibrate(whole.select(whole.models[:8]), "paper")
    made = update(bank, whole.select(whole.models[6:10]))
    assert len(made.models) == 10 and any("were skipped" in w for w in made.warnings)
    with pytest.raises(BankError, match="already"):
        update(bank, whole.select(whole.models[:3]))


def test_other_settings_and_scores_are_refused():
    known = {"settings": {"num_fewshot": 5, "task_version": 1.0}}
    old = table(**known)
    bank = calibrate(old.select(old.models[:8]), "paper")
    other = table(settings={"num_fewshot": 0, "task_version": 1.0})
    with pytest.raises(BankMismatchError, match="num_fewshot"):
        update(bank, other.select(other.models[8:]))
    with pytest.raises(BankError, match="other models"):
        update(bank, old.select(old.models[8:]), old.select(old.models[:5]))


def test_hashed_names_stay_hashed():
    whole = table(warnings=("model3 has no score on 2 documents",))
    old, new = whole.select(whole.models[:8]), whole.select(whole.models[8:])
    bank = calibrate(old, "paper", hash_names=True)
    text = str(bank._content())
    assert not any(m in text for m in whole.models)
    assert bank.models == tuple(hashed_name(m) for m in old.models)
    assert update(bank, new).models == tuple(hashed_name(m) for m in whole.models)
    assert update(bank, new, old).models == tuple(hashed_name(m) for m in whole.models)
    with pytest.raises(BankError, match="already"):
        update(bank, old)


def test_diff_tells_what_changed():
    whole = table(doc_hashes=[f"h{i}" for i in range(50)])
    bank = calibrate(whole.select(whole.models[:8]), "paper")
    assert diff_banks(bank, bank).same
    found = diff_banks(bank, update(bank, whole.select(whole.models[8:])))
    assert (
        not found.same
        and len(found.lists["models_added"]) == 8
        and not found.lists["models_removed"]
    )
    assert found.parameters["difficulty"]["largest_change"] > 0
    assert "constants.k" in found.fields and "provenance.updates" in found.fields
    fewer = ScoreTable.from_arrays(
        whole.raw[:, 1:],
        whole.row_model,
        range(1, 50),
        doc_hashes=["other", *whole.doc_hashes[2:]],
    )
    found = diff_banks(bank, calibrate(fewer, "paper"))
    assert found.lists["items_removed"] == (0,) and found.lists["documents_changed"] == (1,)


def adaptive_scores(bank, whole, models, n=15) -> ScoreTable:
    """What an adaptive run of each model by `bank` would have seen."""
    raw = np.full((len(models), whole.n_items), np.nan)
    for j, model in enumerate(models):
        full = whole.select([model]).scores[0]
        ranker = Ranker(bank, {model: 1.0}, max_items=n, target_se=1e-9)
        while not ranker.done:
            for _, item in ranker.ask():
                ranker.tell(model, item, float(full[item]))
                raw[j, item] = full[item]
    return ScoreTable.from_arrays(raw, models, whole.doc_ids, chosen=("adaptive",) * len(models))


def test_adaptive_runs_update_a_bank_and_say_less_than_full_results():
    whole = table(n_models=24, n_items=60)
    old, new = list(whole.models[:10]), list(whole.models[10:20])
    bank = calibrate(whole.select(old), "default")
    seen = adaptive_scores(bank, whole, new)
    partial, full = update(bank, seen), update(bank, whole.select(new))
    assert len(partial.models) == 20
    asked = np.isfinite(seen.raw).any(axis=0)

    def variance(one):
        return one.parameters["covariance"][:, 0]

    np.testing.assert_allclose(variance(partial)[~asked], variance(bank)[~asked], rtol=1e-6)
    assert (variance(partial)[asked] <= variance(bank)[asked] + 1e-9).all()
    assert variance(full).mean() < variance(partial).mean() < variance(bank).mean()
    for model in whole.models[20:]:
        truth = float(whole.select([model]).scores[0].mean())
        alone = adaptive_scores(partial, whole, [model], n=20)
        ranker = Ranker(partial, {model: 1.0}, max_items=20)
        for i in np.flatnonzero(np.isfinite(alone.raw[0])):
            ranker.tell(model, whole.doc_ids[i], float(alone.raw[0, i]))
        estimate, error = ranker.estimate(model)
        assert abs(estimate - truth) < 4 * error


def test_the_method_paper_takes_no_adaptive_runs():
    whole = table()
    bank = calibrate(whole.select(whole.models[:9]), "paper")
    with pytest.raises(BankError, match="chosen by what it had scored"):
        update(bank, adaptive_scores(bank, whole, list(whole.models[9:11])))


@pytest.mark.parametrize("hashed", [False, True])
def test_a_bank_that_keeps_its_scores_is_calibrated_anew(hashed):
    whole = table()
    old, new = whole.select(whole.models[:9]), whole.select(whole.models[7:])
    made = update(calibrate(old, keep_scores=True, hash_names=hashed), new)
    # Of the two models in both the new rows count, which stand behind the others.
    want = calibrate(whole, keep_scores=True, hash_names=hashed)
    for name, values in want.parameters.items():
        np.testing.assert_allclose(made.parameters[name], values, atol=2e-4)
    assert made.models == want.models and len(made.observations) == 16
    assert not any("self-check" in w for w in made.warnings)
    text = str(made._content())
    assert hashed != any(m in text for m in whole.models)
    assert len(update(made, new).models) == 16  # their new scores count in place of the old


def error_of(bank: ItemBank, whole: ScoreTable, models, n=40) -> float:
    """Root mean squared error of estimates by `n` items of each model, the same for any bank."""
    off = []
    for j, model in enumerate(models):
        row = whole.select([model]).scores[0]
        ranker = Ranker(bank, {model: 1.0}, max_items=bank.n_items)
        for i in np.random.default_rng([j, 0]).permutation(len(row))[:n]:
            ranker.tell(model, bank.doc_ids[i], row[i])
        off.append(ranker.estimate(model)[0] - row.mean())
    return float(np.sqrt(np.mean(np.square(off))))


def test_a_bank_updated_with_many_models_is_as_good_as_a_fresh_one(shared):
    scores = parquet.read_table(shared / "data" / "benchpred" / "musr.parquet")
    raw = np.column_stack([scores[str(n)].to_numpy() for n in range(756)]).astype(float)
    rng = np.random.default_rng(0)
    raw = raw[rng.permutation(448)[:170]][:, rng.permutation(756)[:110]]
    whole = ScoreTable.from_arrays(raw, [f"m{j}" for j in range(170)])
    old, both, tested = whole.models[:30], whole.models[:120], whole.models[120:]
    few = calibrate(whole.select(old))
    made = update(few, whole.select(both[30:]))
    assert made.models == both and made.self_check != few.self_check
    assert not any("self-check" in w for w in made.warnings)
    fresh = error_of(calibrate(whole.select(both)), whole, tested)
    assert error_of(made, whole, tested) <= 1.02 * fresh < 0.9 * error_of(few, whole, tested)
