"""`plan`: what a ranking takes and what its items can show, before anything is spent.

How many items a ranking takes depends on who chooses them. Each *way* of choosing has a name, by
which results are kept: "bank" (an item bank does), "random", "full" (all items are asked), and, as
long as nobody knows how scores vary, "graded" and "right or wrong" for two kinds of scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..content import (
    ForecastContent,
    LoadsContent,
    ModelForecastContent,
    ProspectsContent,
    RehearsalContent,
    WayContent,
)
from ..errors import UsageError
from ..methods.method import method_of
from ..money import Tokens
from ..ranker.accounts import SLACK
from ..ranker.families import equal_at_most
from ..ranker.stopping import has_goal
from ..simulation.newcomers import Newcomers
from ..simulation.power import CHANCE, PUBLISHED, STOPS, Power
from .charges import expected_tokens
from .line import WINDOW, turns_for
from .models import memory_of, taking_turns
from .plan import Plan, with_public_bank
from .rehearsal import name_of, rehearse
from .spec import ModelSpec

#: Differences between two models, on [0, 1], for which to forecast the number of items.
GAPS = (0.2, 0.1, 0.05, 0.02)
#: Items per model for which to forecast the smallest difference that they decide.
ITEMS = (20, 50, 100, 200, 500, 1000, 2000, 5000)
#: Standard error, on [0, 1], for which to say what a public bank saves.
OFFERED_ERROR = 0.05
#: Metrics of which every score is 0 or 1.
RIGHT_OR_WRONG = {"acc", "acc_norm", "exact_match"}
#: About how many documents, of all tasks, to estimate tokens from.
DOCUMENTS_LOOKED_AT = 200


def forecast(
    plan: Plan,
    gap: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ForecastContent:
    """Return what a ranking takes and what its items can show, as JSON values.

    Each model is asked at least the warm-up, and at most what the budget and ``max_items`` allow.
    Where between the two the ranking ends depends on how close the models are, which nobody knows
    beforehand. Rankings of models like those of a bank are played to tell, see `rehearse`; that
    takes most of the time.

    Parameters
    ----------
    plan : Plan
    gap : float, optional
        Difference of two models on the metric's own scale; default: several.
    on_progress : callable, optional
        See `rehearse`.

    Raises
    ------
    UsageError
        `gap` is larger than the metric's scale.
    """
    # First, as all that follows takes long.
    if gap is not None:
        _require_possible(plan, gap)
    spec = plan.spec
    # A run without a bank is forecast with the public bank that fits, to show what it would save.
    public = None if spec.bank else with_public_bank(plan)
    plan_with_bank = public or plan
    power_by_way = powers(plan_with_bank)
    # The user knows the run's own bank, and not which public one it would be.
    bank_in_words = "bank" if public is None else f"bank {public.spec.bank}"
    power_in_words = {
        bank_in_words if way == "bank" else way: power for way, power in power_by_way.items()
    }
    models = {
        entry.name: _model_forecast(plan, entry, most_items)
        for entry, most_items in zip(spec.models, _most_items(plan))
    }
    model_contents = list(models.values())
    totals = _totals(plan, model_contents)
    bank_hashes = dict.fromkeys(outcome.bank.short_hash for outcome in plan.outcomes.values())
    return {
        "task": "+".join(plan.outcomes_by_task),
        "documents": len(plan.documents() or plan.items()),
        "repeats": plan.most_repeats,
        "bank": "+".join(bank_hashes) if spec.bank else None,
        "metric": plan.label,
        "budget": dict(spec.budget),
        "models": models,
        **prospects(plan, power_in_words, gap),
        "least_items": _least_items(plan) * len(models),
        "most_items": totals.most_items,
        "least_cost": totals.least_cost,
        "most_cost": totals.most_cost,
        "rehearsal": _rehearsal(
            plan,
            plan_with_bank,
            [model["most_items"] for model in model_contents],
            power_by_way.get("bank"),
            on_progress,
        ),
        "overspend_at_most": totals.overspend,
        "judge_cost_per_item": plan.charges.judge_usd or None,
        # Without a goal all is asked that may be, so no answer comes too late to count.
        "ahead": (spec.ahead or WINDOW) if has_goal(spec.rule) else 0,
        "one_at_a_time": spec.ahead == 1,
        "loads": _loads(plan, model_contents),
    }


def _rehearsal(
    plan: Plan,
    plan_with_bank: Plan,
    most_items: Sequence[int],
    power_of_bank: Power | None,
    on_progress: Callable[[int, int], None] | None,
) -> RehearsalContent | None:
    """Play rankings of models like those that a bank was made of; None if no bank tells of them.

    Parameters
    ----------
    plan : Plan
        What is rehearsed.
    plan_with_bank : Plan
        A plan of the same tasks whose banks know such models; of blank banks nothing is played.
    most_items : sequence of int
        Most items of each model.
    power_of_bank : Power, optional
        From it `rehearse` calculates the end of a ranking that is too long to be played.
    on_progress : callable, optional
        See `rehearse`.
    """
    # A bank has one score of each item, and does not say how repeats vary.
    if plan.most_repeats > 1:
        return None
    newcomers = Newcomers.if_possible(
        {
            name_of(task, name): outcome.bank
            for task, outcomes in plan_with_bank.outcomes_by_task.items()
            for name, outcome in outcomes.items()
        }
    )
    if newcomers is None:
        return None
    slots = {entry.name: _concurrent_items(entry) for entry in plan.spec.models}
    return rehearse(plan, newcomers, slots, most_items, power_of_bank, on_progress)


def _least_items(plan: Plan) -> int:
    """Return the items that every model is asked, whatever it answers."""
    return min(plan.warmup_items, len(plan.offered))


def _budget_and_prices(plan: Plan) -> tuple[float, list[float]] | None:
    """Return a budget in dollars or tokens, and what an item of each model takes of it.

    None if there is no budget, or it is a number of items.
    """
    charges = plan.charges
    if charges.currency == "items" or charges.budget is None:
        return None
    return charges.budget, [charges.prices[entry.name] for entry in plan.spec.models]


def _mean_costs(plan: Plan) -> list[float] | None:
    """Return the expected cost of one item of each model; None if a price is unknown."""
    costs = [plan.charges.forecasts[entry.name] for entry in plan.spec.models]
    return [cost.mean for cost in costs] if all(cost.known for cost in costs) else None


def _most_items(plan: Plan) -> list[int]:
    """Return the most items of each model, which leave the other models their least items."""
    spec, least_items = plan.spec, _least_items(plan)
    n_models, item_cap = len(spec.models), plan.new_ranker().item_cap
    item_budget = int(spec.budget.get("items", item_cap * n_models))
    items_left = item_budget - least_items * (n_models - 1)
    most_items = max(least_items, min(item_cap, items_left))
    if (limited := _budget_and_prices(plan)) is None:
        return [most_items] * n_models
    # A budget in dollars or tokens buys fewer items of a dear model than of a cheap one.
    budget, prices = limited
    budgets_left = [budget - least_items * (sum(prices) - price) for price in prices]
    return [
        max(least_items, min(most_items, math.ceil(left / price))) if price > 0.0 else most_items
        for left, price in zip(budgets_left, prices)
    ]


def _model_forecast(plan: Plan, entry: ModelSpec, most_items: int) -> ModelForecastContent:
    """Return what asking one model takes, with `most_items` items at most."""
    cost, least_items = plan.charges.forecasts[entry.name], _least_items(plan)
    concurrent_items = 1 if plan.spec.ahead == 1 else _concurrent_items(entry)
    return {
        "price_known": cost.known,
        "cost_per_item": cost.mean if cost.known else None,
        "most_expensive_item": cost.largest if cost.known else None,
        "cost_estimated": entry.price.by_tokens or entry.price.by_time,
        "least_items": least_items,
        "most_items": most_items,
        "least_cost": cost.mean * least_items if cost.known else None,
        "most_cost": cost.mean * most_items if cost.known else None,
        "full_evaluation_cost": cost.mean * plan.n_answers if cost.known else None,
        "in_flight_at_most": concurrent_items,
        # Models work concurrently, unless the run asks one item at a time.
        "most_seconds_at_1s": most_items / concurrent_items,
    }


class _Totals(NamedTuple):
    """What all models take within the budget.

    Attributes
    ----------
    most_items : int
    least_cost, most_cost : float or None
        In dollars; None if not known.
    overspend : float or None
        Dollars by which answers in flight at the end may exceed a budget; None if there is none in
        dollars, or prices are not known.
    """

    most_items: int
    least_cost: float | None = None
    most_cost: float | None = None
    overspend: float | None = None


def _totals(plan: Plan, models: Sequence[ModelForecastContent]) -> _Totals:
    """Return what all models take within the budget, by what each takes."""
    least_items, n_models = _least_items(plan), len(models)
    budget_in_money = plan.charges.budget if plan.charges.currency == "usd" else None
    most_items = sum(model["most_items"] for model in models)
    if "items" in plan.spec.budget:
        most_items = min(most_items, max(int(plan.spec.budget["items"]), least_items * n_models))
    further_items = [model["most_items"] - least_items for model in models]
    if (limited := _budget_and_prices(plan)) is not None:
        # The budget buys the most answers from the cheapest models. (`SLACK` allows for rounding.)
        budget, prices = limited
        cheapest_first = np.sort(np.repeat(prices, further_items))
        left = (budget - least_items * sum(prices)) * (1.0 - SLACK)
        # An item is asked as long as anything is left, even if it then costs more than that, and
        # always if it is free.
        spent_before = cheapest_first.cumsum() - cheapest_first
        affordable = (spent_before < left) | (cheapest_first == 0.0)
        most_items = min(most_items, least_items * n_models + int(affordable.sum()))
    if (costs := _mean_costs(plan)) is None:
        return _Totals(most_items, most_cost=budget_in_money)
    least_cost = least_items * sum(costs)
    # Of that many answers the dearest models may give most, which costs most.
    dearest_first = np.sort(np.repeat(costs, further_items))[::-1]
    dearest = dearest_first[: most_items - least_items * n_models]
    most_cost = least_cost + float(dearest.sum())
    if budget_in_money is None:
        return _Totals(most_items, least_cost, most_cost)
    # Answers that are on their way when the budget is spent are paid all the same.
    overspend = sum(
        (model["most_expensive_item"] or 0.0) * model["in_flight_at_most"] for model in models
    )
    return _Totals(most_items, least_cost, min(most_cost, budget_in_money), overspend)


def _loads(plan: Plan, models: Sequence[ModelForecastContent]) -> LoadsContent | None:
    """Return how often local weights are loaded, at least and at most; None if they stay."""
    spec = plan.spec
    turns = taking_turns(spec, {entry.name: memory_of(entry) for entry in spec.models})
    if not turns:
        return None

    def loads(items: int) -> int:
        # The last model of one round is the first of the next, and stays loaded.
        return len(turns) + (len(turns) - 1) * (turns_for(items, spec.ahead) - 1)

    return {
        "least": loads(min(model["least_items"] for model in models)),
        "most": loads(max(model["most_items"] for model in models)),
        "default_max_items": plan.max_items if plan.limited_by_default else None,
    }


def powers(plan: Plan) -> dict[str, Power]:
    """Return what a number of items shows of a difference, by the way in which items are chosen.

    With banks that have item curves (expected scores by ability), the ways are ``bank`` (the banks
    choose the items) and ``random`` (all models get the same random items). Without such banks
    nobody knows how scores vary. The ways are then ``graded`` and ``right or wrong``: random items
    whose scores vary as published scores of that kind do.
    """
    spec, size = plan.spec, len(plan.items())
    known_means = (plan.known or {}).values()
    is_exact = not any(known_mean.error for known_mean in known_means)
    n_pairs = equal_at_most(len(spec.models), len(known_means), is_exact) if spec.familywise else 1
    # Of several pairs each has an equal part of the chance of an error (Bonferroni).
    level = (1.0 - spec.confidence) / max(n_pairs, 1)
    banks = {task: outcome.bank for task, outcome in plan.outcomes.items()}
    sampled = plan.noisy
    if all(method_of(bank).has_curves for bank in banks.values()):
        weights = plan.weights or "documents"
        return {
            way: Power.of_banks(banks, level, sampled, way == "random", weights=weights)
            for way in ("bank", "random")
        }
    # Some metrics say which of the two kinds of scores they have.
    metrics = {outcome.metric.name for outcome in plan.weighted_outcomes}
    kinds = ["right or wrong"] if metrics <= RIGHT_OR_WRONG else list(PUBLISHED)
    return {kind: Power.of_random_items(PUBLISHED[kind], size, level, sampled) for kind in kinds}


def _require_possible(plan: Plan, gap: float) -> None:
    """Refuse a difference that no two models can have, on the metric's own scale."""
    # It is a slip, as of points of 100 for a metric on 0 to 1.
    if gap > plan.scale.span:
        raise UsageError(
            f"--gap {gap:g} is more than two models can differ by: {plan.label} has the scale "
            f"{plan.scale.describe()}"
        )


def prospects(
    plan: Plan, power_by_way: Mapping[str, Power], gap: float | None = None
) -> ProspectsContent:
    """Return which differences some numbers of items decide, and what deciding one takes.

    Parameters
    ----------
    plan : Plan
    power_by_way : mapping of str to Power
        What items show, as `powers` returns it.
    gap : float, optional
        Difference of two models on the metric's own scale; default: several.

    Returns
    -------
    dict
        JSON values. ``smallest_gap_by_items`` has the smallest difference that each number of items
        decides; ``by_gap`` has what deciding each difference takes. Both are by way of choosing the
        items, and both are empty where items are asked repeatedly: nobody knows beforehand how much
        of the answers' spread is noise within items.
    """
    spec = plan.spec
    span = plan.scale.span
    smallest_gap_by_items: dict[int, dict[str, float]] = {}
    by_gap: dict[str, dict[str, WayContent]] = {}
    if plan.most_repeats == 1:
        smallest_gap_by_items = _smallest_gaps(plan, power_by_way)
        tokens = _tokens_per_item(plan)
        differences = GAPS if gap is None else [gap / span]
        for difference in differences:
            needed_items = _items_needed(plan, power_by_way, difference)
            by_gap[f"{difference * span:g}"] = {
                way: _way_content(plan, n, tokens) for way, n in needed_items.items()
            }
    return {
        "chance": CHANCE,
        "confidence": spec.confidence,
        "familywise": spec.familywise,
        "smallest_gap_by_items": smallest_gap_by_items,
        "by_gap": by_gap,
    }


def _smallest_gaps(plan: Plan, power_by_way: Mapping[str, Power]) -> dict[int, dict[str, float]]:
    """Return the smallest difference that each number of items decides, by way.

    Differences are on the metric's own scale. The numbers are `ITEMS`, the run's own limit and all.
    """
    size, max_items = len(plan.items()), plan.max_items
    limits = [size] if max_items is None else [max_items, size]
    item_counts = sorted({n for n in (*ITEMS, *limits) if n <= size})
    return {
        n: {
            way: power.smallest_difference(n) * plan.scale.span
            for way, power in power_by_way.items()
        }
        for n in item_counts
    }


def _items_needed(
    plan: Plan, power_by_way: Mapping[str, Power], difference: float
) -> dict[str, int]:
    """Return the items of each model that decide a difference on [0, 1], by way.

    The way ``full`` is a full run, for comparison. It is left out, as all ways are, where even one
    answer to every item does not decide the difference.
    """
    needed_items = {
        way: _items_asked(plan, n)
        for way, power in power_by_way.items()
        if (n := power.items_for_difference(difference)) is not None
    }
    return {**needed_items, "full": len(plan.items())} if needed_items else {}


def _way_content(plan: Plan, items_per_model: int, tokens: Tokens) -> WayContent:
    """Return what `items_per_model` items of every model take, each of so many `tokens`."""
    models = plan.spec.models
    answers, costs = items_per_model * len(models), _mean_costs(plan)
    return {
        "items_per_model": items_per_model,
        "answers": answers,
        "input_tokens": round(answers * tokens.input),
        "output_tokens": round(answers * tokens.output),
        "usd": None if costs is None else items_per_model * sum(costs),
        # If an answer takes a second. All models work at the same time, so the slowest one counts.
        "minutes_at_1s": items_per_model / min(map(_concurrent_items, models)) / 60.0,
    }


def _tokens_per_item(plan: Plan) -> Tokens:
    """Estimate the mean tokens of an item, from about equally many documents of each task."""
    means, sizes = [], []
    for task, outcome in plan.outcomes.items():
        doc_ids = outcome.bank.doc_ids
        step = max(len(doc_ids) * len(plan.outcomes) // DOCUMENTS_LOOKED_AT, 1)
        documents = expected_tokens(plan.sessions.get(task), outcome.bank, doc_ids[::step])
        lengths = [(tokens.usual.input, tokens.usual.output) for tokens in documents.values()]
        means.append(np.mean(lengths, axis=0))
        sizes.append(len(doc_ids))
    # A large task has more of all items than a small one, as it has of what answers cost.
    read, written = np.average(means, axis=0, weights=sizes)
    return Tokens(float(read), float(written), "estimate")


def _items_asked(plan: Plan, items: int) -> int:
    """Return the items that a model is asked where `items` decide: the warm-up at least."""
    return min(max(items, plan.warmup_items), len(plan.items()))


def need_in_words(plan: Plan) -> str:
    """Say in one line how many items a ranking without a bank is expected to need.

    Of repeats nobody knows: it depends on how much of what differs is noise within items.
    """
    if plan.most_repeats > 1:
        return (
            f"Answers come in passes over all documents, up to {plan.most_repeats} to each. Most "
            "pairs are decided early; how early depends on the noise of single answers."
        )
    size, parts, ways = len(plan.items()), [], powers(plan).values()
    for gap in GAPS:
        needed = [power.items_for_difference(gap) for power in ways]
        numbers = dict.fromkeys(
            f"more than {size}" if n is None else str(_items_asked(plan, n)) for n in needed
        )
        parts.append(f"{' to '.join(numbers)} if they differ by {gap * plan.scale.span:g}")
    kinds = " (fewer for graded scores, more for right or wrong)" if len(ways) > 1 else ""
    n_tasks = len(plan.outcomes_by_task)
    there_are = "The task has" if n_tasks == 1 else f"The {n_tasks} tasks have"
    return (
        f"Expected items of each model to decide a pair by {plan.label}, in {CHANCE:.0%} of "
        f"rankings{kinds}: {', '.join(parts)}. {there_are} {size}."
    )


def offer_in_words(plan: Plan) -> str:
    """Say in one line what a public bank would save; "" if none fits, or it would save nothing."""
    if plan.spec.bank or (public := with_public_bank(plan)) is None:
        return ""
    power_by_way = powers(public)
    by_bank, at_random = power_by_way["bank"], power_by_way["random"]
    span, size = plan.scale.span, len(plan.items())
    saved: list[str] = []
    for gap in GAPS:
        n, at_random_items = by_bank.items_for_difference(gap), at_random.items_for_difference(gap)
        # The first difference, which is the largest, is enough as an example.
        if not saved and n is not None and at_random_items is not None and n < at_random_items:
            saved.append(
                f"differences of {gap * span:g} are decided after {n} items of each model, not "
                f"{at_random_items}"
            )
    n, at_random_items = (
        power.items_for_error(OFFERED_ERROR) or size for power in (by_bank, at_random)
    )
    if n < at_random_items:
        saved.append(
            f"scores are known to a standard error of {OFFERED_ERROR * span:g} after {n} items, "
            f"not {at_random_items}"
        )
    if not saved:
        return ""
    return (
        f"A public bank fits: with `bank: {public.spec.bank}` (--bank {public.spec.bank}) it is "
        f"expected that {' and '.join(saved)}."
    )


def target_in_words(plan: Plan, by_default: bool) -> str:
    """Say in one line how many items one model needs to reach a standard error.

    Parameters
    ----------
    plan : Plan
        With a ``target_se``.
    by_default : bool
        Whether the target is the default.
    """
    target, size = plan.spec.target_se, len(plan.items())
    assert target is not None
    items = {way: power.items_for_error(target) for way, power in powers(plan).items()}
    sentence = f"the run stops at a standard error of {target:g} (on a scale of 0 to 1), which "
    if plan.noisy and not any(items.values()):
        sentence += f"one sampled answer to each of {size} documents is not expected to reach"
        if plan.most_repeats > 1:
            sentence += f" (up to {plan.most_repeats} are asked)"
    else:
        sentence += f"is expected to take {_documents_in_words(plan, items)}"
    if by_default:
        return f"by default {sentence}; stop, max_items or a budget set another"
    return sentence


def _documents_in_words(plan: Plan, items: Mapping[str, int | None]) -> str:
    """Say how many documents of all it takes, by the items that each way needs, None for too many.

    See `powers`.
    """
    size = len(plan.items())
    if "bank" not in items:
        # Of sampled answers not even one to every document makes the error 0.
        all_documents = f"more than {size}" if plan.noisy else f"{size}"
        *graded, right_or_wrong = (
            all_documents if n is None else str(_items_asked(plan, n)) for n in items.values()
        )
        number = right_or_wrong
        if graded:
            number = f"{graded[0]} (graded scores) to {right_or_wrong} (right or wrong)"
        return f"{number} of {size} documents"
    if (n := items["bank"]) is not None:
        n = _items_asked(plan, n)
        return f"about {n} of {size} documents, more if the model departs from its bank"
    # What a bank saves is calculated up to the last of `STOPS`.
    item_cap = plan.new_ranker().item_cap
    if plan.noisy or item_cap > STOPS[-1]:
        return f"more than {min(item_cap, STOPS[-1])} of {size} documents"
    return f"all {item_cap} allowed of {size} documents"


def _concurrent_items(entry: ModelSpec) -> int:
    """Return the number of concurrent documents that a model's configuration states, else 1."""
    for value in (entry.concurrency, entry.model_args.get("num_concurrent"), entry.batch_size):
        try:
            return max(1, int(value))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return 1
