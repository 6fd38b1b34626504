"""Which outcome a bank is of in a loaded task, and which of several leads."""

from __future__ import annotations

import pytest
from local_bench import N_DOCS, Copyist

from lm_eval_ccat import ItemBank
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.errors import BankMismatchError, MetricError, UsageError
from lm_eval_ccat.harness import open_session
from lm_eval_ccat.harness.task_metrics import blank_outcome, leading, outcome_of
from lm_eval_ccat.metrics import Scale


def test_a_bank_is_of_some_of_a_tasks_documents_and_of_its_metrics_direction(bench):
    session = open_session("choices", Copyist(), include_path=str(bench.tasks))

    def bank(n_items: int, higher: bool = True) -> ItemBank:
        about = {"task": "choices", "metric": "acc", "scale": Scale(0, 1, higher)}
        return ItemBank.blank(range(n_items), **about)

    for n_items in (N_DOCS, N_DOCS - 3):
        assert outcome_of(bank(n_items), session).bank.n_items == n_items
    with pytest.raises(BankMismatchError, match=rf"lacks 2 .* \(the first is doc_id {N_DOCS}\)"):
        outcome_of(bank(N_DOCS + 2), session)
    with pytest.raises(MetricError, match=r"metric acc of task choices is .*; calibrate again"):
        outcome_of(bank(N_DOCS, higher=False), session)


def test_the_outcome_that_weighs_most_leads_and_the_first_of_several():
    def outcomes(*weights: float) -> dict[str, Outcome]:
        bank = ItemBank.blank(range(9), task="t")
        return {f"m{n}": Outcome.of(bank, weight=weight) for n, weight in enumerate(weights)}

    for weights, first in (((0.2, 0.5, 0.3), 1), ((0.0, 0.5, 0.5), 1), ((1.0, 0.0), 0)):
        given = outcomes(*weights)
        assert leading(given) is given[f"m{first}"]


def test_a_task_without_a_bank_is_scored_by_the_filter_that_is_named(bench, monkeypatch):
    session = open_session("choices", Copyist(), include_path=str(bench.tasks))
    monkeypatch.setattr(type(session), "filters", ["strict", "loose"])
    for given, taken in ((None, "strict"), ("loose", "loose")):
        assert blank_outcome(session, filter=given).filter == taken
    with pytest.raises(UsageError, match="no filter 'other'; it has: strict, loose"):
        blank_outcome(session, filter="other")
