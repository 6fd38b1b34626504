"""A bank that grows from ranking to ranking."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.bank.bank import Observation
from lm_eval_ccat.errors import BankError
from lm_eval_ccat.upkeep.update import ANSWERS, MODELS, grow, of_others, readiness

N = 120
RNG = np.random.default_rng(3)
EASE = RNG.normal(size=N)
SKILL = np.linspace(-1.0, 1.0, 12)
SCORES = 1 / (1 + np.exp(-SKILL[:, None] - EASE + 0.3 * RNG.normal(size=(12, N))))


def seen(j: int, items: np.ndarray | None = None) -> Observation:
    at = np.arange(N) if items is None else items
    return Observation(f"m{j}", "all" if items is None else "drawn", at, SCORES[j, at])


def blank() -> ItemBank:
    return ItemBank.blank(range(N), task="t", metric="score")


def test_the_response_model_joins_in_once_models_and_items_are_enough(tmp_path):
    bank = grow(blank(), [seen(j) for j in range(MODELS - 1)], "2026-01-01")
    assert bank.method == "sample" and bank.made == "2026-01-01"
    now = f"(now {MODELS - 1}, and {MODELS - 1} for the least answered)"
    assert readiness(bank).endswith(now)
    bank.save(tmp_path / "b.json")
    bank = grow(ItemBank.load(tmp_path / "b.json"), [seen(MODELS - 1)])
    assert bank.method == "default" and len(bank.models) == MODELS
    # It is the bank that a calibration on the same scores makes.
    table = ScoreTable.from_arrays(np.round(SCORES[:MODELS], 6), bank.models, task="t")
    whole = calibrate(table).parameters["intercept"]
    assert np.allclose(bank.parameters["intercept"], whole, atol=1e-3)
    bank.save(tmp_path / "b.json")
    again = grow(ItemBank.load(tmp_path / "b.json"), [seen(9)])
    assert again.method == "default" and "m9" in again.models
    half = [seen(j, np.arange(N // 2)) for j in range(11)]
    assert grow(blank(), half).method == "sample"  # no item must be without answers
    assert f"{ANSWERS} answers per item (now 11, and 0 for" in readiness(grow(blank(), half))


def test_a_later_answer_counts_and_nothing_is_lost():
    first = Observation("a", "drawn", np.array([4, 2]), np.array([0.1, 0.2]), np.array([0.5, 0.25]))
    later = Observation("a", "adaptive", np.array([2, 7]), np.array([0.9, 0.3]))
    [one] = grow(grow(blank(), [first]), [later]).observations
    assert dict(zip(one.items.tolist(), one.scores.tolist())) == {4: 0.1, 2: 0.9, 7: 0.3}
    assert one.chosen == "adaptive" and one.probabilities is not None
    assert one.probabilities[0] == 0.5 and np.isnan(one.probabilities[1:]).all()


def test_a_model_does_not_calibrate_its_own_test():
    bank = grow(blank(), [seen(j) for j in range(MODELS + 1)])
    rest, _ = of_others(bank, ["m0"])
    assert rest.method == "default" and "m0" not in rest.models
    assert of_others(bank, ["m0", "m1"])[0].method == "sample"


def test_a_calibrated_bank_grows_where_it_keeps_its_scores():
    table = ScoreTable.from_arrays(SCORES[:8], [f"m{j}" for j in range(8)], task="t")
    bank = grow(calibrate(table, keep_scores=True), [seen(9, np.arange(0, N, 3))])
    assert bank.models[-1] == "m9"
    for other in (calibrate(table), calibrate(table, "paper", keep_scores=True)):
        with pytest.raises(BankError, match="save_bank needs one of method 'default' that keeps"):
            grow(other, [seen(9)])


def test_the_next_ranking_starts_better():
    """Estimates after 24 items a model are nearer the truth with groups of like difficulty."""
    known = grow(blank(), [seen(j) for j in (0, 5, 11)])
    errors = {}
    for name, bank in (("blank", blank()), ("grown", known)):
        squares = []
        for seed in range(8):
            ranker = Ranker(bank, {"m4": 1.0, "m7": 1.0}, max_items=24, seed=seed,
                            stop="limits")  # fmt: skip
            while not ranker.done:
                for model, item in ranker.ask(2):
                    ranker.tell(model, item, float(SCORES[int(model[1:]), item]))
            truth = SCORES[[4, 7]].mean(axis=1)
            estimates = [ranker.estimate(m)[0] for m in ("m4", "m7")]
            squares.append(np.square(np.array(estimates) - truth))
        errors[name] = float(np.sqrt(np.mean(squares)))
    assert errors["grown"] < 0.8 * errors["blank"]


# -- a bank that names a model does not calibrate that model's test


def known() -> ScoreTable:
    names = [f"m{j}" for j in range(12)]
    return ScoreTable.from_arrays(np.round(SCORES[:, :40], 6), names, task="t")


@pytest.mark.parametrize(("method", "hashed"), [("default", False), ("paper", True)])
def test_scores_that_the_bank_holds_of_a_ranked_model_are_left_out(method, hashed, tmp_path):
    calibrate(known(), method, keep_scores=True, hash_names=hashed).save(tmp_path / "b.json")
    found, warning = of_others(ItemBank.load(tmp_path / "b.json"), ["m3", "new"])
    assert "calibrated on m3 too: its scores of them are left out" in warning
    rest = calibrate(known().without(["m3"]), method)
    assert len(found.models) == 11 and found.method == method and len(found.observations) == 11
    assert set(found.parameters) == set(rest.parameters)
    for name, values in rest.parameters.items():
        np.testing.assert_allclose(found.parameters[name], values, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_left_out_stays_and_is_told():
    bare = calibrate(known(), "paper", hash_names=True)
    found, warning = of_others(bare, known().models[:5])
    assert found is bare and "of t was calibrated on m0, m1, m2, ... too" in warning
    assert "--keep_scores" in warning
    bank = calibrate(known(), "paper", keep_scores=True)
    found, warning = of_others(bank, known().models[1:])
    assert found is bank and "cannot do without them" in warning
    assert of_others(bank, ["new"]) == (bank, "")
