"""Four calls are all that an adaptive run needs of an evaluation."""

from __future__ import annotations

import inspect

import pytest
from local_bench import N_DOCS, Copyist

from lm_eval_ccat import Ranker
from lm_eval_ccat.harness.estimates import TaskRun
from lm_eval_ccat.harness.evaluation import Evaluation
from lm_eval_ccat.harness.task_metrics import blank_outcome, score_of


class Drawn:
    """The smallest selector: a mean over documents drawn at random, until so many are run."""

    def __init__(self, tasks, most):
        self.tasks, self.most, self.answers = tasks, most, {}

    def start(self, evaluation):
        self.sessions = {name: evaluation.open(name) for name in self.tasks}
        self.outcomes = {n: blank_outcome(s) for n, s in self.sessions.items()}
        self.rankers = {
            name: Ranker(o.bank, {"model": 1.0}, max_items=self.most)
            for name, o in self.outcomes.items()
        }

    def next(self):
        return [
            (name, item)
            for name, ranker in self.rankers.items()
            for _, item in ranker.ask(5, model="model")
        ]

    def administer(self, documents):
        return {(name, doc): self.sessions[name].administer([doc])[0] for name, doc in documents}

    def scored(self, answers):
        self.answers |= answers
        for name, item in reversed(answers):
            _, score = score_of(self.outcomes[name], answers[name, item])
            self.rankers[name].tell("model", item, score)

    def finish(self):
        found = {name: {} for name in self.tasks}
        for (task, doc), answer in self.answers.items():
            found[task][doc] = answer
        return {
            name: TaskRun(
                self.sessions[name], self.outcomes[name], found[name], "model", ranker.result(),
                None, 0.0,
            )
            for name, ranker in self.rankers.items()
        }  # fmt: skip


def evaluate(bench, tasks, selector, lm, **arguments):
    """What `lm_eval.evaluate` would do that makes the calls itself."""
    from lm_eval.evaluator import evaluate as hooked

    stock = getattr(hooked, "_ccat", hooked)
    loaded = bench.manager().load(tasks)
    for task in loaded["tasks"].values():
        task.set_fewshot_seed(seed=1234)
    named = {"lm": lm, "task_dict": loaded, "bootstrap_iters": 10, **arguments}
    bound = inspect.signature(stock).bind(**named)
    bound.apply_defaults()
    evaluation = Evaluation(stock, bound.arguments)
    if selector is None:
        return stock(**named)
    selector.start(evaluation)
    while documents := selector.next():
        selector.scored(selector.administer(documents))
    return evaluation.results(selector.finish())


@pytest.mark.long
def test_all_documents_in_any_order_are_the_harness_s_own_results(bench):
    ours, theirs = Copyist(), Copyist()
    stock = evaluate(bench, ["all_of_it", "texts"], None, theirs)
    selector = Drawn(["choices", "texts"], N_DOCS)
    results = evaluate(bench, ["all_of_it", "texts"], selector, ours)
    adaptive = results.pop("adaptive")
    for block in adaptive.values():
        assert block["items"] == N_DOCS and block["stopped_because"] == "every document was run"
    # The estimate stands beside the corpus score, where that is not the mean over documents.
    for name in ("sentence_bleu", "sentence_bleu_stderr"):
        results["results"]["texts"].pop(f"{name},none")
    results["higher_is_better"]["texts"].pop("sentence_bleu")
    assert results == stock and list(results["results"]) == list(stock["results"])
    assert sorted(map(str, ours.seen)) == sorted(map(str, theirs.seen))


@pytest.mark.long
def test_some_documents_give_the_very_rows_and_an_estimate(bench):
    stock = evaluate(bench, ["texts"], None, Copyist())
    results = evaluate(bench, ["texts"], Drawn(["texts"], 12), Copyist())
    rows = {row["doc_id"]: row for row in stock["samples"]["texts"]}
    assert len(results["samples"]["texts"]) == 12
    assert all(row == rows[row["doc_id"]] for row in results["samples"]["texts"])
    assert "bleu,none" not in results["results"]["texts"]
    assert results["results"]["texts"]["sentence_bleu_stderr,none"] > 0
