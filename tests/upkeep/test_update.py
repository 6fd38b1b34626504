"""An updated bank is a fresh one of the same data."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import BankError, BankMismatchError
from lm_eval_ccat.upkeep.update import update
from lm_eval_ccat.upkeep.words import diff_banks, diff_in_words

METHODS = ["paper", "default"]


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


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("method", METHODS)
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
    with pytest.raises(BankError, match="give those it was calibrated on"):
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


def test_the_method_paper_takes_no_adaptive_runs():
    whole = table()
    bank = calibrate(whole.select(whole.models[:9]), "paper", keep_scores=True)
    with pytest.raises(BankError, match="chosen by what it had scored"):
        update(bank, adaptive_scores(bank, whole, list(whole.models[9:11])))
