"""The score of a group of which some tasks were run in part, against the algebra of its terms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lm_eval_ccat.harness.estimates import (
    _estimated,
    _why,
    correct_group,
    estimand,
    shared_error,
)
from lm_eval_ccat.metrics import Scale

KEY, STDERR = "m,none", "m_stderr,none"
SIZES = {"a": 10, "b": 40, "whole": 50}
ERRORS = {"a": 3.0, "b": 2.0, "whole": 7.0}


def run(name: str, covariances: dict[str, dict[str, float]], key: str = KEY) -> Any:
    """A task that was run in part, on a scale from 0 to 100."""
    return SimpleNamespace(
        session=SimpleNamespace(name=name, doc_ids=range(SIZES[name])), key=key, further=(),
        covariances=covariances, outcome=SimpleNamespace(scale=Scale(0, 100)), administered={},
    )  # fmt: skip


@pytest.mark.parametrize("by_size", [True, False])
@pytest.mark.parametrize("other", [False, True])
def test_the_error_of_a_group_is_that_of_its_estimates_and_of_what_they_share(by_size, other):
    """A covariance is of one metric; a task that was run in full has no error."""
    shared = 2e-4
    partial = {
        "a": run("a", {"g": {"b": shared}, "": {"b": 1.0}}),
        "b": run("b", {"": {"a": shared}}, "other,none" if other else KEY),
    }
    metrics = {
        name: {KEY: 50.0, STDERR: error, "sample_len": 5 if name in partial else SIZES[name]}
        for name, error in ERRORS.items()
    }
    metrics["g"] = {"alias": "g", KEY: 50.0, STDERR: 99.0, "sample_len": 60}
    group: Any = SimpleNamespace(
        name="g", has_aggregation=True,
        get_all_tasks=lambda: [SimpleNamespace(task_name=name) for name in SIZES],
        aggregate_metric_list=[
            SimpleNamespace(metric="m", filter_list=["none"], weight_by_size=by_size)
        ],
    )  # fmt: skip
    block = correct_group(metrics, group, partial)
    weights = np.array(list(SIZES.values())) / 100 if by_size else np.full(3, 1 / 3)
    covariance = 0.0 if other else 100 * 100 * shared
    errors = np.array([[9.0, covariance, 0.0], [covariance, 4.0, 0.0], [0.0, 0.0, 0.0]])
    assert metrics["g"][STDERR] == pytest.approx(np.sqrt(weights @ errors @ weights))
    assert block is not None and block["tasks"] == ["a", "b"] and block["items_total"] == 100
    assert block["scores"][KEY]["standard_error"] == metrics["g"][STDERR]
    assert list(block["scores"][KEY]["weights"].values()) == pytest.approx(weights)


def test_an_estimate_says_of_which_documents_it_is_and_why_it_ended():
    """A bank of 30 of the task's 36 documents says nothing of the other six."""
    metric = SimpleNamespace(in_words="accuracy")
    ranking = SimpleNamespace(
        question="benchmark", expected=False, set_aside={"m": "gone"}, stopped_because="the budget"
    )
    for known, words in ((30, "the bank's 30 of 36 documents"), (36, "all 36 documents")):
        run = SimpleNamespace(
            administered=range(9), complete=False, answers_in_full=None, ranking=ranking, name="m",
            outcome=SimpleNamespace(metric=metric, bank=SimpleNamespace(n_items=known)),
            session=SimpleNamespace(name="t", doc_ids=range(36)),
        )  # fmt: skip
        assert estimand(run) == f"estimate of the accuracy over {words} of t, from 9 of them"
        assert _why(run) == "the model was set aside: gone"
        assert _why(SimpleNamespace(**{**vars(run), "name": "other"})) == "the budget"


def test_errors_that_two_tasks_share_are_on_the_scales_of_both():
    """A covariance of .01 on [0, 1] is 40 where one score goes to 100 and the other to 40."""

    def run(name, key, span, covariances):
        outcome = SimpleNamespace(scale=Scale(0, span))
        session = SimpleNamespace(name=name)
        return SimpleNamespace(session=session, key=key, outcome=outcome, covariances=covariances)

    own, alone = {"g": {"u": 0.01}, "": {"u": 0.02}}, {"": {"u": 0.02}}
    second = run("u", "acc,none", 40, {})
    for covariances, shared in ((own, 40.0), (alone, 80.0), ({}, 0.0)):
        first = run("t", "acc,none", 100, covariances)
        assert shared_error(first, second, "g", "acc,none") == pytest.approx(shared)
        # Of metrics that a group does not average, nothing is shared in its score.
        assert shared_error(first, second, "g", "f1,none") == 0.0
        assert shared_error(first, run("u", "f1,none", 40, {}), "g", "acc,none") == 0.0


@pytest.mark.parametrize("expected", [False, True])
def test_a_run_of_all_documents_is_exact_unless_its_answers_are_draws(expected):
    metric = SimpleNamespace(in_words="accuracy", name="acc")
    ranking = SimpleNamespace(
        question="benchmark", expected=expected, sampled=expected, looks="every",
        interval=lambda name: (0.5, 0.7),
    )  # fmt: skip
    outcome = SimpleNamespace(
        metric=metric, scale=Scale(0, 50), filter="none", bank=SimpleNamespace(n_items=9)
    )
    run = SimpleNamespace(
        administered=range(9), complete=True, answers_in_full=None, ranking=ranking, name="m",
        outcome=outcome, estimate=(30.0, 2.0), key="acc,none",
        session=SimpleNamespace(name="t", doc_ids=range(9)),
    )  # fmt: skip
    assert _estimated(run)["interval"] == pytest.approx([25.0, 35.0] if expected else [30.0, 30.0])
