"""The conformance suites pass a right method and reader, and fail one with a known defect."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.methods.belief import Belief
from lm_eval_ccat.methods.method import METHODS, Method
from lm_eval_ccat.methods.policy import Choice, Description, Policy
from lm_eval_ccat.scores.readers.frameworks import Row, reader_of_rows
from lm_eval_ccat.scores.table import READERS
from lm_eval_ccat.testing.methods import MethodSuite
from lm_eval_ccat.testing.readers import ReaderSuite

CHOOSES = "test_choosing_changes_nothing"
DRAWS = "test_only_what_is_available_is_chosen_and_draws_have_a_probability"
STATE = "test_the_state_is_what_was_asked_and_told"
SENSE = "test_what_is_known_makes_sense_at_every_look"
SCORES = "test_a_score_outside_the_scale_or_twice_is_refused"
JOINS = "test_a_model_may_join_later"
RIGHT = "test_models_that_differ_clearly_are_ranked_right"
SAME = "test_a_ranking_is_the_same_each_time_and_keeps_to_its_budget"


class Means(Policy):
    """Items in the bank's order, and the mean with two scores of 1/2 before it."""

    weight = 2.0

    def __init__(self, bank, n_models, *, seed=0):
        self.n_items, self.scores = bank.n_items, [{} for _ in range(n_models)]

    def add_model(self):
        self.scores.append({})

    def told(self, model, item, score):
        if not 0.0 <= score <= 1.0 or item in self.scores[model]:
            raise ValueError(f"score {score!r} of item {item}")
        self.scores[model][item] = score

    def belief(self, question="benchmark"):
        n = np.array([len(scores) for scores in self.scores])
        total = np.array([sum(scores.values()) for scores in self.scores])
        mean = (total + 0.5 * self.weight) / (n + self.weight)
        error = 0.5 * np.sqrt((1.0 - n / self.n_items) / (n + self.weight))
        return Belief.independent(mean, error, n=n, n_items=self.n_items, question=question)

    def expected(self, model):
        return np.full(self.n_items, self.belief().location[model])

    def describe(self, model):
        belief = self.belief()
        mean, variance = belief.location[model], belief.variance[model, model]
        return Description(math.log(mean / (1.0 - mean)), math.sqrt(variance) / (mean * (1 - mean)))

    def next(self, model, available, pending, price, k=1):
        return [Choice(int(item)) for item in np.flatnonzero(available)[:k]]


class RemembersChoices(Means):
    def next(self, model, available, pending, price, k=1):
        self.weight += 0.1
        return super().next(model, available, pending, price, k)


class ChoosesWhatIsGone(Means):
    def next(self, model, available, pending, price, k=1):
        both = [*np.flatnonzero(available)[:1], *np.flatnonzero(~available)[: k - 1]]
        return [Choice(int(item)) for item in both]


class DrawsWithoutChance(Means):
    def next(self, model, available, pending, price, k=1):
        choices = super().next(model, available, pending, price, k)
        return [replace(choice, probability=0.0) for choice in choices]


class TakesNaN(Means):
    def told(self, model, item, score):
        super().told(model, item, 0.5 if math.isnan(score) else score)


class DependsOnOrder(Means):
    def belief(self, question="benchmark"):
        belief = super().belief(question)
        return replace(belief, variance=belief.variance + np.triu(np.ones((3, 3)), 1))


class EstimatesHalf(Means):
    def belief(self, question="benchmark"):
        belief = super().belief(question)
        return replace(belief, location=belief.location / 3, score=None)


class ChoosesByChance(Means):
    def next(self, model, available, pending, price, k=1):
        items = np.random.default_rng().permutation(np.flatnonzero(available))
        return [Choice(int(item)) for item in items[:k]]


class ForgetsNewcomers(Means):
    def add_model(self):
        pass


@pytest.mark.parametrize(
    "policy, check",
    [(RemembersChoices, CHOOSES), (RemembersChoices, STATE), (ChoosesWhatIsGone, DRAWS),
     (DrawsWithoutChance, DRAWS), (TakesNaN, SCORES), (DependsOnOrder, SENSE),
     (EstimatesHalf, RIGHT), (ChoosesByChance, SAME), (ForgetsNewcomers, JOINS)],
)  # fmt: skip
def test_a_defect_of_a_method_fails_the_check_that_is_made_for_it(policy, check):
    for kind in (Means, policy):
        method = METHODS.register(Method(f"mean-{kind.__name__}", "a mean", kind))
        suite = type("Suite", (MethodSuite,), {"method": method, "error": 0.2})()
        try:
            if kind is Means:
                getattr(suite, check)()
            else:
                with pytest.raises(AssertionError):
                    getattr(suite, check)()
        finally:
            METHODS.unregister(method.name)


def rows(log, notes):
    for line in log.read_text(encoding="utf-8").splitlines():
        model, task, metric, item, score = line.split("\t")
        yield Row(model, task, metric, int(item), float(score))


TSV = reader_of_rows(
    "tab", "a .tab file", lambda path: [path] if path.suffix == ".tab" else [], rows
)


def crashing(path, query, on_progress=None):
    if not path.read_text(encoding="utf-8").endswith("\n"):
        raise ZeroDivisionError
    return TSV.read(path, query, on_progress)


def renaming(path, query, on_progress=None):
    table = TSV.read(path, query, on_progress)
    return replace(table, doc_ids=tuple(doc_id + 1 for doc_id in table.doc_ids))


class Tabs(ReaderSuite):
    query = {"task": "t", "metric": "acc"}  # noqa: RUF012

    def write(self, folder):
        (folder / "x.tab").write_text("a\tt\tacc\t3\t1.0\nb\tt\tacc\t3\t0.5\n")
        return folder / "x.tab"

    def expected(self):
        return ScoreTable.from_arrays([[1.0], [0.5]], ["a", "b"], [3])


@pytest.mark.parametrize(
    "defect, check",
    [({"can_read": lambda path: path.suffix in (".tab", ".bin")},
      "test_it_leaves_the_logs_of_others_alone"),
     ({"read": renaming}, "test_the_scores_are_those_of_the_log"),
     ({"read": crashing}, "test_a_log_cut_off_is_read_in_part_or_refused")],
)  # fmt: skip
def test_a_defect_of_a_reader_fails_the_check_that_is_made_for_it(defect, check):
    for reader in (TSV, replace(TSV, **defect)):
        suite = Tabs()
        suite.reader = READERS.register(reader)
        try:
            if reader is TSV:
                getattr(suite, check)()
            else:
                with pytest.raises((AssertionError, ZeroDivisionError)):
                    getattr(suite, check)()
        finally:
            READERS.unregister(reader.name)
