"""`rehearse`: what rankings of made-up models take, played before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..content import RehearsalContent, SpreadContent
from ..journal import Journal
from ..metrics.scale import Floats
from ..records import Item, Tell
from ..runs.book import Ask, Book
from ..simulation.newcomers import Newcomers
from ..simulation.power import Power
from .identity import header_of_plan
from .plan import Plan
from .sender import new_line

#: Fewest and most rankings that are played. After the fewest, playing stops once they have taken
#: this many answers together.
FEWEST_RANKINGS, MOST_RANKINGS, ENOUGH_ANSWERS = 8, 20, 3000
#: Most answers of a ranking of one task that is played; with several tasks a ranking is played up
#: to this number divided by theirs, because an answer then takes longer.
MOST_ANSWERS = 2500
#: Quantiles of what rankings take that are stated beside the mean.
QUANTILES = (0.1, 0.9)


@dataclass
class Played:
    """What one ranking took: answers by model, and dollars; and whether it met its goal.

    Its result uses `used` of the answers; the others were in flight at the deciding one.
    """

    answers: dict[str, int]
    usd: float | None = 0.0
    decided: bool = False
    used: int = 0

    def add(self, model: str, n_answers: int, usd: float | None) -> None:
        """Count answers of a model; one cost that is not known makes the sum unknown."""
        self.answers[model] += n_answers
        self.usd = None if usd is None or self.usd is None else self.usd + usd


def rehearse(
    plan: Plan,
    newcomers: Newcomers,
    slots: Mapping[str, int],
    most_items: Sequence[int],
    power_of_bank: Power | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> RehearsalContent:
    """Play rankings of models like those of the banks, and return what they take.

    Parameters
    ----------
    plan : Plan
    newcomers : Newcomers
        Of all outcomes, named by `name_of`.
    slots : mapping of model to int
        Items of each model in flight at once.
    most_items : sequence of int
        Most items of each model, in the order of `slots`.
    power_of_bank : Power, optional
        Of the banks: where a ranking is not played on, its models take the items that decide their
        true differences; without it, all that the limits allow.
    on_progress : callable, optional
        Called with the rankings played so far, and the most that are.

    Returns
    -------
    dict
        ``rankings``, the share ``decided``, and ``answers`` and ``cost`` (None where a price is
        unknown): ``expected``, ``low`` and ``high``, the mean and the 10 and 90% points. ``used``
        is the mean of the answers that results use, of all that are asked and paid.
    """
    limits = dict(zip(slots, most_items))
    rankings: list[Played] = []
    while len(rankings) < MOST_RANKINGS:
        if len(rankings) >= FEWEST_RANKINGS and sum(map(_total, rankings)) >= ENOUGH_ANSWERS:
            break
        rankings.append(_play(plan, newcomers, slots, limits, len(rankings), power_of_bank))
        if on_progress:
            on_progress(len(rankings), MOST_RANKINGS)
    costs = [ranking.usd for ranking in rankings if ranking.usd is not None]
    return {
        "rankings": len(rankings),
        "decided": float(np.mean([ranking.decided for ranking in rankings])),
        "answers": _spread([_total(ranking) for ranking in rankings]),
        "used": float(np.mean([ranking.used for ranking in rankings])),
        "cost": _spread(costs) if costs else None,
    }


def name_of(task: str, outcome: str) -> str:
    """Return the name of an outcome among those of all tasks."""
    return f"{task} {outcome}"


def _total(ranking: Played) -> int:
    return sum(ranking.answers.values())


def _spread(values: Sequence[float]) -> SpreadContent:
    """Return the mean of what rankings took, and its 10 and 90% points."""
    # One more ranking would lie between Weibull's quantiles in 80% of cases. Between numpy's usual
    # ones, of so few rankings, it would in two of three.
    low, high = (float(point) for point in np.quantile(values, QUANTILES, method="weibull"))
    return {"expected": float(np.mean(values)), "low": low, "high": high}


def _play(
    plan: Plan,
    newcomers: Newcomers,
    slots: Mapping[str, int],
    limits: Mapping[str, int],
    seed: int,
    power_of_bank: Power | None,
) -> Played:
    """Play one ranking of made-up models up to `MOST_ANSWERS`; return what it takes to its end.

    Every model answers all that its slots take, round after round. What a ranking that is longer
    than that takes from there on is calculated.

    Parameters
    ----------
    plan, newcomers, slots, power_of_bank
        See `rehearse`.
    limits : mapping of model to int
        Most items of each model.
    seed : int
        Of the models' scores.
    """
    rng, charges = np.random.default_rng(seed), plan.charges
    scores = {model: newcomers.scores(rng) for model in slots}
    journal = Journal()
    journal.append([header_of_plan(plan)])
    book = Book(plan.new_ranker(), journal)
    line = new_line(plan, book, slots)
    played = Played(dict.fromkeys(slots, 0))
    most_answers = MOST_ANSWERS // len(plan.outcomes_by_task)  # an answer to more tasks is slower
    line.start()
    while line.end_reason is None and _total(played) < most_answers:
        asks = [ask for model, n in slots.items() for ask in line.next(model, n)]
        # Nobody may be asked any more, although no rule has ended the ranking.
        if not asks:
            break
        for ask in asks:
            played.add(ask.model, 1, charges.expected_usd(*ask.pair))
        line.arrive([_answer(plan, scores[ask.model], ask) for ask in asks])
    if line.end_reason is not None:
        return replace(played, decided=book.ranker.decided, used=book.n_told)
    # Only of the rule `decided` is it known from the true differences when it will stop; under
    # another rule, models take all that they may.
    decides = plan.spec.stop == "decided"
    needed = _needed(plan, scores, power_of_bank) if power_of_bank and decides else {}
    used = book.n_told
    for model, limit in limits.items():
        most_items = min(needed.get(model, limit), limit)
        remaining = max(math.ceil(most_items - played.answers[model]), 0)
        forecast = charges.forecasts[model]
        played.add(model, remaining, forecast.mean * remaining if forecast.known else None)
        used += remaining
    decided = bool(needed) and all(needed[model] <= limit for model, limit in limits.items())
    return replace(played, decided=decided, used=used)


def _answer(plan: Plan, scores: Mapping[str, Floats], ask: Ask) -> Tell:
    """Return a made-up model's answer to an ask, of the expected cost."""
    score, cost = _score(plan, scores, ask.item), plan.charges.expected(*ask.pair)
    return Tell(n=ask.number, model=ask.model, item=ask.item, score=score, cost=cost)


def _score(plan: Plan, scores: Mapping[str, Floats], item: Item) -> Any:
    """Return what a model scores on an item: a number, or numbers by outcome if there are several.

    Parameters
    ----------
    plan : Plan
    scores : mapping of str to ndarray
        The model's scores on all items in bank order, by `name_of` an outcome.
    item : Item
    """
    by_outcome = {
        name: float(scores[name_of(item.task, name)][outcome.bank.index[item.doc_id]])
        for name, outcome in plan.outcomes_by_task[item.task].items()
    }
    return by_outcome if len(by_outcome) > 1 else next(iter(by_outcome.values()))


def _needed(
    plan: Plan, scores: Mapping[str, Mapping[str, Floats]], power_of_bank: Power
) -> dict[str, float]:
    """Return how many items of each model decide its true differences from its neighbours.

    Neighbours are the next better and the next worse model. Where not even all items decide a
    difference, the number is infinite.
    """
    weights = {
        name_of(task, name): weight
        for task, weights_of_task in plan.outcome_weights().items()
        for name, weight in weights_of_task.items()
    }
    total = sum(weights.values())
    means = {
        model: sum(weight * float(model_scores[name].mean()) for name, weight in weights.items())
        / total
        for model, model_scores in scores.items()
    }
    order = sorted(means, key=means.__getitem__)
    needed = dict.fromkeys(order, 0.0)
    # Models closer than this are equivalent as soon as it would be decided.
    closest = plan.spec.min_difference / float(plan.scale.restore_error(1.0))
    for a, b in pairwise(order):
        items = power_of_bank.items_for_difference(max(means[b] - means[a], closest))
        for model in (a, b):
            needed[model] = max(needed[model], math.inf if items is None else items)
    return needed
