"""What a run takes over: means of known models, and answers of earlier runs."""

from __future__ import annotations

import numpy as np
import pytest
from scores.test_harness_logs import rows_of, write_run

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.live.earlier import known_means, latest_prior_answers, logged_config
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.scores.configuration import configuration_of


def test_the_error_of_a_weighted_mean_of_tasks_is_that_of_a_sum_of_independent_means(tmp_path):
    rng, weights = np.random.default_rng(3), {"first": 3.0, "second": 1.0}
    scores = {"first": rng.random(40), "second": rng.random(25)}
    outcomes_by_task = {}
    for task, row in scores.items():
        table = ScoreTable.from_arrays([row, row / 2], ["known", "other"], metric="acc", task=task)
        table.write(tmp_path / f"{task}.csv")
        bank = ItemBank.blank(range(len(row)), task=task, metric="acc")
        outcomes_by_task[task] = {"acc": Outcome.of(bank)}
    files = {task: str(tmp_path / f"{task}.csv") for task in scores}
    spec = Spec(known=files, question="population")
    means = known_means(spec, outcomes_by_task, ["new"], weights)
    assert means is not None
    mean, error, _ = means["known"]
    share = {"first": 0.75, "second": 0.25}
    assert mean == pytest.approx(sum(share[task] * scores[task].mean() for task in scores))
    variances = {task: scores[task].var(ddof=1) / len(scores[task]) for task in scores}
    assert error**2 == pytest.approx(
        sum(share[task] ** 2 * variances[task] for task in scores), rel=0.05
    )
    others = known_means(spec, outcomes_by_task, ["known"], weights)
    assert others is not None and list(others) == ["other"]


@pytest.mark.parametrize(("question", "sampled", "exact"), [
    ("benchmark", False, True), ("benchmark", True, False), ("population", False, False),
])  # fmt: skip
def test_a_known_mean_over_all_items_is_exact_unless_answers_or_items_are_drawn(
    tmp_path, question, sampled, exact
):
    scores = np.random.default_rng(1).random(40)
    ScoreTable.from_arrays([scores], ["known"], metric="acc").write(tmp_path / "t.csv")
    outcomes = {"acc": Outcome.of(ItemBank.blank(range(40), task="t", metric="acc"))}
    spec = Spec(known=str(tmp_path / "t.csv"), question=question)
    means = known_means(spec, {"t": outcomes}, ["new"], {}, sampled=sampled)
    assert means is not None
    error = 0.0 if exact else float((scores.var(ddof=1) / 40) ** 0.5)
    assert means["known"].error == pytest.approx(error, rel=0.05)


def test_answers_of_logs_are_those_of_the_model_that_they_are_named_for(tmp_path):
    for model, scores in (("a", [1, 0, 1]), ("b", [0, 0, 1])):
        write_run(tmp_path, model, rows_of(scores, answer=f"says {model}"))
    for prior, answered in (({"a": []}, ["a"]), ({"b": []}, ["b"]), ({"": []}, ["a", "b"])):
        named = {name: [str(tmp_path)] for name in prior}
        found = latest_prior_answers(named, ["a", "b", "c"], {"demo": 1}, lambda text: None)
        assert [model for model, answers in found.items() if answers] == answered
        for model in answered:
            assert {a.responses[0][0] for a in found[model].values()} == {f"says {model}"}
            assert list(found[model]) == [("demo", n) for n in range(3)]


@pytest.mark.parametrize("repeats", [1, 2])
def test_repeats_of_a_log_are_one_answer_where_an_item_is_asked_once(tmp_path, repeats):
    rows = [{**row, "resps": [["first", "second"]]} for row in rows_of([1, 0])]
    write_run(tmp_path, "a", rows)
    prior = {"": [str(tmp_path)]}
    found = latest_prior_answers(prior, ["a"], {"demo": repeats}, lambda text: None)["a"]
    by_item = {tuple(item): answer.responses for item, answer in found.items()}
    if repeats == 1:
        assert by_item == {("demo", n): [["first", "second"]] for n in range(2)}
    else:
        assert by_item == {
            ("demo", n, *repeat): [[text]]
            for n in range(2)
            for repeat, text in (((), "first"), ((2,), "second"))
        }


ARGUMENTS = {"a": {"model": "a"}, "b": {"model": "b", "revision": "step2"}}
RANKED = {"demo": {n: configuration_of(n, args, {}) for n, args in ARGUMENTS.items()}}


def test_answers_of_another_configuration_are_named_and_not_used(tmp_path):
    """The harness names a model by its path alone, so a name says nothing of a revision."""
    said: list[str] = []

    def found(logs, prior="", names=("a", "b"), repeats=1):
        return latest_prior_answers(
            {prior: [str(logs)]}, names, {"demo": repeats}, said.append, RANKED
        )  # fmt: skip

    for folder, a, b in (("one", {}, {"revision": "step1"}), ("two", {}, {"revision": "step2"})):
        for model, arguments in (("a", a), ("b", b)):
            config = {"model_args": {"model": model, **arguments}}
            write_run(tmp_path / folder, model, rows_of([1, 0, 1]), config=config)
    assert [len(answers) for answers in found(tmp_path / "one").values()] == [3, 0]
    of_b = "of b are of another configuration (revision is step1 there, and step2 here)"
    assert said == [f"{tmp_path / 'one'}: its answers {of_b}; its documents are asked"]
    for prior in ("b", ""):
        said.clear()
        assert not found(tmp_path / "one" / "b", prior, ["b"])["b"] and of_b in said[0]
    said.clear()
    # Of logs of both the ones that fit are used, although both are of the model b.
    write_run(tmp_path / "two", "b", rows_of([1, 0]), day=2, config={"model_args": {"model": "b"}})
    assert [len(answers) for answers in found(tmp_path / "two").values()] == [3, 3] and not said
    write_run(tmp_path / "warm", "a", rows_of([1]), generation={"temperature": 0.7})
    assert not found(tmp_path / "warm", "a")["a"]
    assert "(temperature is 0.7 there, and not stated here)" in said[0]


def test_the_latest_of_several_adaptive_runs_is_the_one_to_complete(tmp_path):
    for day, shots in ((2, 2), (3, 5), (1, 0)):
        about = {"day": day, "shots": shots, "adaptive": {"demo": {"items": 3}}}
        about |= {"config": {"model": "hf"}, "samples": {"original": 9, "effective": 3}}
        write_run(tmp_path, "x", rows_of([1, 0, 1]), **about)
    assert logged_config(tmp_path).harness["num_fewshot"] == 5
