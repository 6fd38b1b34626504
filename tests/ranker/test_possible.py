"""No interval leaves what the answers prove, whatever those to come score."""

import numpy as np
import pytest
from worlds.boards import bank_of

from lm_eval_ccat import ItemBank, Ranker


def ends_if_the_others_score(ranker, answers, score, weights):
    """The score over all tasks if every item that was not asked has this score."""
    return sum(
        weight * np.mean([answers.get((task, item), score) for item in range(80)])
        for task, weight in weights.items()
    )


@pytest.mark.long
@pytest.mark.parametrize("method", ["default", "sample", "paper"])
@pytest.mark.parametrize("told", [0.0, 1.0, "mixed"])
def test_an_interval_lies_within_what_the_answers_leave_open(method, told):
    """Chosen answers, as those of logs, of which most are missing or few are."""
    rng, weights = np.random.default_rng(4), {"t0": 0.75, "t1": 0.25}
    banks = {task: bank_of(method, task=n) for n, task in enumerate(weights)}
    for n_items in (6, 40, 78):
        ranker = Ranker(banks, ["a"], weights=weights, warmup=0, stop="limits")
        answers = {
            (task, item): float(rng.random() < 0.5) if told == "mixed" else told
            for task in weights
            for item in rng.permutation(80)[:n_items].tolist()
        }
        for item, score in answers.items():
            ranker.tell("a", item, score)
        result = ranker.result()
        for ranking, part in [(result, weights), *((result.tasks[t], {t: 1.0}) for t in weights)]:
            least, largest = (
                ends_if_the_others_score(ranker, answers, score, part) for score in (0.0, 1.0)
            )
            for confidence in (None, 0.999999):
                low, high = ranking.interval("a", confidence)
                assert least - 1e-12 <= low <= ranking.estimates["a"] <= high <= largest + 1e-12


def test_what_failed_is_open_and_what_is_drawn_proves_no_expected_score():
    def told(question, sampled=False, failed=0):
        ranker = Ranker(ItemBank.blank(range(20)), ["a"], question=question, sampled=sampled)
        while not ranker.done:
            for model, item in ranker.ask():
                if item < failed:
                    ranker.fail(model, item, "no answer")
                else:
                    ranker.tell(model, item, 1.0)
        return ranker.result().row("a").estimate

    assert told("benchmark").interval(0.99) == (1.0, 1.0)
    assert told("benchmark", failed=5).possible == pytest.approx((0.75, 1.0))
    assert told("run", sampled=True).possible == pytest.approx((1.0, 1.0))
    for open_to_chance in (told("benchmark", sampled=True), told("population")):
        assert open_to_chance.possible == (0.0, 1.0) and open_to_chance.interval(0.99)[0] < 1.0
