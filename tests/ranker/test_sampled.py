"""Sampled answers: one answer is one draw, and equal models end tied."""

from collections import Counter

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.ranker.headline import question

MODELS = 14


def family(n_items: int, n_models: int, rng: np.random.Generator, ease: np.ndarray) -> np.ndarray:
    """Probabilities of a right answer; shape (n_models, n_items)."""
    skill, own = rng.normal(size=(n_models, 1)), 0.7 * rng.normal(size=(n_models, n_items))
    return 1.0 / (1.0 + np.exp(-(skill + ease + own)))


def bank_of(n_items: int, method: str) -> tuple[ItemBank, np.ndarray]:
    rng = np.random.default_rng(n_items)
    ease = rng.normal(0.0, 1.5, n_items)
    if method == "sample":
        return ItemBank.blank(range(n_items)), ease
    p = family(n_items, MODELS, rng, ease)
    names = [f"m{number}" for number in range(MODELS)]
    return calibrate(ScoreTable.from_arrays((rng.random(p.shape) < p).astype(float), names)), ease


def differing(n_items: int, method: str, rankings: int, about: str) -> int:
    """Rankings that call two models of equal probabilities different, asked to the end."""
    bank, ease = bank_of(n_items, method)
    wrong = 0
    for seed in range(rankings):
        rng = np.random.default_rng([seed, n_items])
        [p] = family(n_items, 1, rng, ease)
        ranker = Ranker(bank, ["a", "b"], seed=seed, sampled=True, question=about)
        while not ranker.done:
            for model, item in ranker.ask(8):
                ranker.tell(model, item, float(rng.random() < p[item]))
        wrong += ranker.result(parts=False).decisions["a", "b"] == "decided"
    return wrong


@pytest.mark.long
@pytest.mark.parametrize("method", ["sample", "default"])
@pytest.mark.parametrize(("n_items", "rankings", "allowed"), [(30, 40, 2), (100, 20, 3)])
def test_equal_models_end_tied_though_every_item_is_asked(
    n_items: int, rankings: int, allowed: int, method: str
) -> None:
    # Of 20 rankings with one in twenty called different, more than three are in 2%.
    assert differing(n_items, method, rankings, "benchmark") <= allowed


@pytest.mark.long
@pytest.mark.parametrize("method", ["sample", "default"])
def test_their_very_answers_differ_all_the_same(method: str) -> None:
    assert differing(30, method, 10, "run") >= 6


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sample", "default"])
@pytest.mark.parametrize(("n_items", "rankings"), [(30, 400), (100, 200), (442, 40)])
def test_equal_models_are_called_different_in_at_most_a_twentieth(
    n_items: int, rankings: int, method: str
) -> None:
    wrong = differing(n_items, method, rankings, "benchmark")
    assert wrong <= 0.05 * rankings + 2.0 * (0.05 * 0.95 * rankings) ** 0.5


def answered_by_all(n_items: int, **options: object) -> Ranker:
    ranker = Ranker(ItemBank.blank(range(n_items)), ["a", "b"], **options)
    for item in range(n_items):
        for model, score in (("a", float(item % 3 > 0)), ("b", float(item % 2))):
            ranker.tell(model, item, score)
    return ranker


@pytest.mark.long
def test_all_items_answered_once_leave_the_noise_of_answers() -> None:
    n_items = 60
    d = np.array([float(item % 3 > 0) - float(item % 2) for item in range(n_items)])
    sampled, these = answered_by_all(n_items, sampled=True), answered_by_all(n_items)
    error = sampled.belief().variance[0, 1] ** 0.5
    assert error == pytest.approx((d.var(ddof=1) / n_items) ** 0.5, rel=0.02)
    assert these.belief().variance[0, 1] == 0.0
    assert sampled.result().estimates == these.result().estimates
    low, high = sampled.result().interval("a")
    assert low < 2 / 3 < high


@pytest.mark.long
def test_a_result_names_its_question() -> None:
    content = {
        (sampled, about): answered_by_all(30, sampled=sampled, question=about).result().to_dict()
        for sampled in (False, True)
        for about in ("benchmark", "run", "population")
    }
    words = {key: question(result) for key, result in content.items()}
    assert words[True, "benchmark"] == "order of expected scores on these 30 items"
    assert words[True, "run"] == "order of these very answers to these 30 items"
    assert words[True, "population"] == "order of expected scores on items like these 30"
    assert (
        words[False, "run"] == words[False, "benchmark"] == "order of full runs of these 30 items"
    )


def test_full_results_of_a_known_model_have_the_noise_of_their_answers() -> None:
    n_items = 100
    for sampled, error in ((False, 0.0), (True, (0.6 * 0.4 / n_items) ** 0.5)):
        ranker = Ranker(
            ItemBank.blank(range(n_items)), ["new"], known={"old": 0.6}, sampled=sampled
        )
        references = ranker.belief().references
        assert references is not None
        assert float(references.error[0]) == pytest.approx(error)


def test_a_proof_for_scores_that_do_not_change_is_refused_for_sampled_ones() -> None:
    with pytest.raises(UsageError, match="question: run"):
        Ranker(ItemBank.blank(range(40)), ["a", "b"], sampled=True, guarantee="finite")


@pytest.mark.parametrize("about", ["benchmark", "population"])
def test_what_would_decide_single_answers_is_what_does(about: str) -> None:
    """Model a is right in an even three of four answers, and b in one; few are known so far."""
    ranker = Ranker(ItemBank.blank(range(60)), ["a", "b"], sampled=True, question=about)
    count, forecasts = Counter[str](), []
    while not ranker.done:
        for model, item in ranker.ask():
            count[model] += 1
            place = count[model] % 4
            ranker.tell(model, item, float(place == 0 if model == "b" else place != 1))
        if count["a"] == count["b"] in (12, 14):
            [pair] = ranker.result().open_pairs
            assert not pair["out_of_reach"]
            forecasts.append(count["a"] + pair["items"]["a"])
    assert len(forecasts) == 2
    assert all(abs(forecast - count["a"]) <= 2 for forecast in forecasts)


@pytest.mark.long
@pytest.mark.parametrize("about", ["benchmark", "population"])
def test_what_not_even_all_items_decide_is_out_of_reach(about: str) -> None:
    ranker = Ranker(ItemBank.blank(range(60)), ["a", "b"], sampled=True, question=about)
    for item in range(40):
        ranker.tell("a", item, float(item % 2))
        ranker.tell("b", item, float(item % 3 > 0))
    [pair] = ranker.result().open_pairs
    assert pair["out_of_reach"] and pair["items"] == {"a": 20, "b": 20}
    exact = Ranker(ItemBank.blank(range(60)), ["a", "b"])
    for item in range(40):
        exact.tell("a", item, float(item % 2))
        exact.tell("b", item, float(item % 3 > 0))
    assert not exact.result().open_pairs[0]["out_of_reach"]
