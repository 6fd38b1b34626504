"""A bank that grows from ranking to ranking, and what a ranking takes of it."""

from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank.bank import PUBLISHED_ELSEWHERE, Observation
from lm_eval_ccat.errors import BankError
from lm_eval_ccat.methods.sample.method import ease_of
from lm_eval_ccat.ranker import Ranker
from lm_eval_ccat.scores.item_scaling import ItemScaling
from lm_eval_ccat.upkeep.score_tables import make_bank
from lm_eval_ccat.upkeep.update import (
    ANSWERS_TO_CALIBRATE,
    BY_HAND,
    MODELS_TO_CALIBRATE,
    grow,
    readiness,
    retire,
    without_models,
)

N = 120
RNG = np.random.default_rng(3)
EASE = RNG.normal(size=N)
SKILL = np.linspace(-1.0, 1.0, 12)
SCORES = np.round(1 / (1 + np.exp(-SKILL[:, None] - EASE + 0.3 * RNG.normal(size=(12, N)))), 6)
BLANK = ItemBank.blank(range(N), task="t", metric="score")


def seen(j: int, items: np.ndarray | None = None) -> Observation:
    at = np.arange(N) if items is None else items
    return Observation(f"m{j}", "all" if items is None else "drawn", at, SCORES[j, at])


def known(models: int = 12, items: int = N) -> ScoreTable:
    return ScoreTable.from_arrays(
        SCORES[:models, :items], [f"m{j}" for j in range(models)], task="t"
    )


@pytest.mark.long
def test_the_response_model_joins_in_once_models_and_items_are_enough(tmp_path):
    bank = grow(BLANK, [seen(j) for j in range(MODELS_TO_CALIBRATE - 1)], "2026-01-01")
    assert bank.method == "sample" and bank.made == "2026-01-01"
    now = f"(now {MODELS_TO_CALIBRATE - 1}, and {MODELS_TO_CALIBRATE - 1} for the least answered)"
    assert readiness(bank).endswith(now)
    bank.save(tmp_path / "b.json")
    bank = grow(ItemBank.load(tmp_path / "b.json"), [seen(MODELS_TO_CALIBRATE - 1)])
    assert bank.method == "default" and len(bank.models) == MODELS_TO_CALIBRATE
    # It is the bank that a calibration on the same scores makes.
    whole = calibrate(known(MODELS_TO_CALIBRATE)).parameters["intercept"]
    assert np.allclose(bank.parameters["intercept"], whole, atol=1e-3)
    assert without_models(bank, ["m0"])[0].method == "sample"  # without it they are too few
    half = grow(BLANK, [seen(j, np.arange(N // 2)) for j in range(11)])
    assert half.method == "sample"  # no item must be without answers
    assert f"{ANSWERS_TO_CALIBRATE} answers per item (now 11, and 0 for" in readiness(half)


def test_a_later_answer_counts_and_nothing_is_lost():
    first = Observation("a", "drawn", np.array([4, 2]), np.array([0.1, 0.2]), np.array([0.5, 0.25]))
    later = Observation("a", "adaptive", np.array([2, 7]), np.array([0.9, 0.3]))
    [one] = grow(grow(BLANK, [first]), [later]).observations
    assert dict(zip(one.items.tolist(), one.scores.tolist())) == {4: 0.1, 2: 0.9, 7: 0.3}
    assert one.chosen == "adaptive"
    np.testing.assert_array_equal(one.probabilities, [0.5, np.nan, np.nan])


@pytest.mark.long
def test_a_calibrated_bank_grows_where_it_keeps_its_scores():
    bank = grow(calibrate(known(8), keep_scores=True), [seen(9, np.arange(0, N, 3))])
    assert bank.models[-1] == "m9"
    for other in (calibrate(known(8)), calibrate(known(8), "paper", keep_scores=True)):
        with pytest.raises(BankError, match="save_bank needs one of method 'default' that keeps"):
            grow(other, [seen(9)])


def test_the_next_ranking_knows_how_easy_items_were_for_those_before():
    some = SCORES[[0, 5, 11]]
    wanted = (some - some.mean(axis=1, keepdims=True)).mean(axis=0)
    assert ease_of(grow(BLANK, [seen(j) for j in (0, 5, 11)])) == pytest.approx(wanted)
    assert ease_of(BLANK) is None


def test_ease_is_beside_the_items_that_an_estimate_is_about():
    hard = EASE < 0
    bank = replace(grow(BLANK, [seen(j) for j in (0, 5, 11)]), kept=hard)
    assert ease_of(bank)[hard].mean() == pytest.approx(0.0)


def test_an_item_is_easy_by_what_models_score_on_it_beyond_their_own_mean():
    """A model that had hard items alone makes none easy; one answer to an item says nothing."""
    had = {0: np.arange(6, N), 5: np.arange(4, 60), 11: np.arange(2, 8)}
    beyond = np.full((3, N), np.nan)
    for row, (model, items) in zip(beyond, had.items()):
        row[items] = SCORES[model, items] - SCORES[model, items].mean()
    expected = [np.nanmean(c) if np.isfinite(c).sum() > 1 else 0.0 for c in beyond.T]
    bank = grow(BLANK, [seen(model, items) for model, items in had.items()])
    assert ease_of(bank) == pytest.approx(np.array(expected) - np.mean(expected))
    assert ease_of(grow(BLANK, [seen(0), seen(5, np.arange(0))])) is None


@pytest.mark.long
@pytest.mark.parametrize("method", ["default", "paper", "grown"])
def test_a_model_that_is_ranked_does_not_calibrate_its_own_test(method, tmp_path):
    table = known(12, 40)
    if method == "grown":
        blank = ItemBank.blank(table.doc_ids, task="t", metric="score")
        bank = grow(blank, [Observation(m, "all", np.arange(40), s)
                            for m, s in zip(table.models, table.scores)])  # fmt: skip
    else:
        bank = calibrate(table, method, keep_scores=True)
    bank.save(tmp_path / "b.json")
    left, warning = without_models(ItemBank.load(tmp_path / "b.json"), ["m3", "new"])
    assert "calibrated on m3 too, whose scores are left out" in warning
    rest = calibrate(table.without(["m3"]), bank.method)
    assert len(left.models) == 11 and len(left.observations) == 11 and left.method == bank.method
    assert set(left.parameters) == set(rest.parameters)
    for name, values in rest.parameters.items():
        np.testing.assert_allclose(left.parameters[name], values, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_what_cannot_be_left_out_stays_and_is_told():
    names = known().models
    bare, kept = (calibrate(known(12, 40), "paper", keep_scores=keep) for keep in (False, True))
    for bank, models, words in (
        (bare, names[:5], "of t was calibrated on m0, m1, m2, ... too, so estimates of that are"),
        (kept, names[1:], "cannot do without them"),
        (kept, ["new"], ""),
    ):
        same, warning = without_models(bank, models)
        assert same is bank and words in warning and bool(words) == bool(warning)


@pytest.mark.long
def test_what_a_bank_grew_to_is_asked_as_before_and_dated_as_before():
    settings = {"num_fewshot": 3}
    asked = replace(BLANK, settings=settings)
    bank = grow(asked, [seen(j) for j in range(12)], "2026-01-01")
    left, _ = without_models(bank, ["m0"])
    assert bank.method == left.method == "default"
    assert (bank.settings, left.settings) == (settings, settings)
    assert bank.made == left.made == "2026-01-01"
    kept = calibrate(replace(known(), settings=settings), keep_scores=True)
    kept = replace(kept, made="2026-02-02", provenance={**kept.provenance, "license": "mit"})
    remade, _ = without_models(kept, ["m0"])
    assert (remade.settings, remade.made) == (settings, "2026-02-02")
    assert remade.provenance["license"] == "mit"


@pytest.mark.long
def test_rankings_with_one_seed_fill_a_bank_that_grows():
    """Sixteen rankings of two models and half the items: each item has its three answers."""
    bank, rng = ItemBank.blank(range(40), task="t", metric="score"), np.random.default_rng(0)
    for night in range(16):
        scores = {f"m{night}{side}": rng.random(40) for side in "ab"}
        ranker = Ranker(bank, list(scores), seed=0, max_items=20, stop="limits")
        items = {model: [] for model in scores}
        while not ranker.done:
            for model, item in ranker.ask():
                ranker.tell(model, item, scores[model][item])
                items[model].append(item)
        observed = [
            Observation(model, "drawn", np.array(items[model]), scores[model][items[model]])
            for model in scores
        ]
        bank = grow(bank, observed, response_model=False)
    answered = np.bincount(np.concatenate([seen.items for seen in bank.observations]))
    assert len(answered) == 40 and answered.min() >= 3


@pytest.mark.long
@pytest.mark.parametrize(
    "made_anew",
    [
        lambda bank: grow(bank, [seen(11, np.arange(60))]),
        lambda bank: without_models(bank, ["m3"])[0],
    ],
)
def test_a_bank_made_anew_keeps_what_its_scores_do_not_say(made_anew):
    """Prompts of published scores are unknown however often the bank is calibrated."""
    table = known(9)
    bank = make_bank(table, scale_items=True, published_elsewhere=True, keep_scores=True)
    anew = made_anew(retire(bank, [5], BY_HAND))
    assert anew.provenance["prompts"] == PUBLISHED_ELSEWHERE
    assert anew.constants["draws"] == 1.0  # every item is drawn, as of such a bank
    # A later update scales scores as the first calibration did, and leaves out what had leaked.
    raw = table.raw[2, 7]
    scaled = (raw - table.raw[:, 7].min()) / np.ptp(table.raw[:, 7])
    assert ItemScaling.of_bank(anew.constants).score(7, raw) == pytest.approx(scaled)
    assert [entry["items"] for entry in anew.provenance["retired"]] == [[5]]
