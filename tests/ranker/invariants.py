"""What holds of every ranking at every moment; each function raises where it does not."""

import json
from itertools import pairwise
from typing import Any

from lm_eval_ccat import Ranker, Ranking

NEAR = 1e-9


def state(ranker: Ranker) -> str:
    """Everything that a ranking says, to be compared."""
    found = ranker.result()
    books = [ranker.done, ranker.decided, ranker.spent, ranker.committed, ranker.item_cap]
    return json.dumps([found.to_dict(), books, sorted(map(repr, ranker.in_flight))], default=repr)


def tested(ranking: Ranking) -> list[str]:
    """Models of the order that are asked items."""
    return [m for m in ranking.order if m not in ranking.known]


def probabilities_of_a_pair_add_up(ranking: Ranking) -> None:
    for (a, b), p in ranking.pairwise.items():
        assert 0.0 <= p <= 1.0 and abs(p + ranking.pairwise[b, a] - 1.0) < NEAR, (a, b)
        assert ranking.decisions[a, b] == ranking.decisions[b, a]


def the_order_is_that_of_the_models(ranking: Ranking) -> None:
    assert len(set(ranking.order)) == len(ranking.order)
    assert set(ranking.order) | set(ranking.set_aside) == set(ranking.estimates)
    assert not set(ranking.order) & set(ranking.set_aside)


def a_rank_lies_in_its_range(ranking: Ranking) -> None:
    n = len(ranking.order)
    for rank, model in enumerate(ranking.order, 1):
        best, worst = ranking.rank_ranges[model]
        assert 1 <= best <= rank <= worst <= n, model


def a_decided_pair_keeps_ranks_apart(ranking: Ranking) -> None:
    place = {m: i for i, m in enumerate(ranking.order)}
    for (a, b), what in ranking.decisions.items():
        if what == "decided" and place[a] < place[b]:
            (best_a, worst_a), (best_b, worst_b) = (ranking.rank_ranges[m] for m in (a, b))
            assert best_a < best_b and worst_a < worst_b, (a, b)


def ties_are_runs_of_neighbours_that_are_not_decided(ranking: Ranking) -> None:
    group = {m: i for i, tie in enumerate(ranking.ties) for m in tie}
    for a, b in pairwise(ranking.order):
        if a in ranking.known and b in ranking.known:
            continue
        tied = a in group and group[a] == group.get(b)
        assert tied == (ranking.decisions[a, b] != "decided"), (a, b)


def chances_of_the_top_add_up(ranking: Ranking) -> None:
    assert not tested(ranking) or abs(sum(ranking.p_best.values()) - 1.0) < 1e-6
    for k, chances in ranking.p_top.items():
        assert all(-NEAR <= p <= 1.0 + NEAR for p in chances.values())
        if len(chances) == len(ranking.order) >= k:
            assert abs(sum(chances.values()) - k) < 1e-6


def items_end_once(ranking: Ranking) -> None:
    for model, items in ranking.items.items():
        assert len(set(items)) == len(items)
        assert not set(items) & set(ranking.failed.get(model, {})), model
        assert {i for i, _ in ranking.draws.get(model, [])} <= set(items)
        assert all(0.0 < p <= 1.0 for _, p in ranking.draws.get(model, []))


def estimates_are_scores(ranking: Ranking) -> None:
    for model, estimate in ranking.estimates.items():
        low, high = ranking.interval(model)
        assert 0.0 <= estimate <= 1.0 and 0.0 <= low <= high <= 1.0, model
        assert ranking.standard_errors[model] >= 0.0


def what_is_in_flight_is_neither_told_nor_failed(ranker: Ranker, ranking: Ranking) -> None:
    for model, item in ranker.in_flight:
        assert item not in ranking.items[model] and item not in ranking.failed.get(model, {})
        assert model not in ranking.set_aside
    assert ranker.committed >= ranker.spent - NEAR


def open_pairs_are_open_neighbours(ranking: Ranking) -> None:
    place = {m: i for i, m in enumerate(ranking.order)}
    for pair in ranking.open_pairs:
        assert place[pair["b"]] == place[pair["a"]] + 1, (pair["a"], pair["b"])
        assert ranking.decisions[pair["a"], pair["b"]] == "open"
        assert all(n >= 0 for n in pair["items"].values()) and pair["cost"] >= 0.0


def decided_agrees_with_order_and_probability(ranking: Ranking) -> None:
    place = {m: i for i, m in enumerate(ranking.order)}
    for (a, b), what in ranking.decisions.items():
        if what == "decided" and place[a] < place[b]:
            assert ranking.pairwise[a, b] > 0.5, (a, b)
            assert ranking.estimates[a] >= ranking.estimates[b], (a, b)


def an_estimate_lies_in_its_interval(ranking: Ranking) -> None:
    for model in tested(ranking):
        low, high = ranking.interval(model)
        assert low - NEAR <= ranking.estimates[model] <= high + NEAR, model


def intervals_widen_with_confidence(ranking: Ranking) -> None:
    c = ranking.confidence
    for model in tested(ranking):
        ends = [ranking.interval(model, x) for x in (0.6, 0.8, c, 0.5 + 0.5 * c)]
        for (low, high), (lower, higher) in pairwise(ends):
            assert lower <= low + NEAR and high <= higher + NEAR, (model, ends)


ALWAYS: tuple[Any, ...] = (
    probabilities_of_a_pair_add_up,
    the_order_is_that_of_the_models,
    a_rank_lies_in_its_range,
    a_decided_pair_keeps_ranks_apart,
    ties_are_runs_of_neighbours_that_are_not_decided,
    chances_of_the_top_add_up,
    items_end_once,
    estimates_are_scores,
    open_pairs_are_open_neighbours,
    decided_agrees_with_order_and_probability,
    an_estimate_lies_in_its_interval,
    intervals_widen_with_confidence,
)
