"""`plan`: what a ranking takes and what its items can show, before anything is spent."""

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
from ..ranker.stopping import has_goal
from ..simulation.newcomers import Newcomers
from ..simulation.power import CHANCE, PUBLISHED, STOPS, Power
from .charges import expected_tokens
from .line import WINDOW, turns_for
from .models import memory_of, taking_turns
from .plan import Plan, with_public_bank
from .rehearsal import name_of, rehearse
from .spec import ModelSpec, Spec

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
    """Return the least and most items and cost per model, and `prospects`, as JSON values.

    A ranking takes at least the warm-up and at most what the budget and ``max_items`` allow; the
    actual number depends on how close the models are, which is unknown beforehand. For
    `on_progress` see `rehearse`.
    """
    spec, least_items = plan.spec, _least_items(plan)
    plan_with_bank = plan if spec.bank else with_public_bank(plan)
    ways = powers(plan_with_bank or plan)
    power = ways.get("bank")
    if plan_with_bank is not None and power is not None and not spec.bank:
        ways = {f"bank {plan_with_bank.spec.bank}": power, "random": ways["random"]}
    models = {
        entry.name: _model_forecast(plan, entry, most_items)
        for entry, most_items in zip(spec.models, _most_items(plan))
    }
    totals = _totals(plan, list(models.values()))
    budget = _budget_in_money(plan)
    limits = [limit for limit in (totals.most_cost, budget) if limit is not None]
    hashes = dict.fromkeys(outcome.bank.short_hash for outcome in plan.outcomes.values())
    in_flight_cost = sum(
        (model["most_expensive_item"] or 0.0) * model["in_flight_at_most"]
        for model in models.values()
    )
    return {
        "task": "+".join(plan.outcomes_by_task),
        "documents": len(plan.documents() or plan.items()),
        "bank": "+".join(hashes) if spec.bank else None,
        "metric": plan.label,
        "budget": dict(spec.budget),
        "models": models,
        **prospects(plan, ways, gap),
        "least_items": least_items * len(models),
        "most_items": totals.most_items,
        "least_cost": totals.least_cost,
        "most_cost": min(limits) if limits else None,
        "rehearsal": _rehearsal(
            plan,
            plan_with_bank,
            [model["most_items"] for model in models.values()],
            power,
            on_progress,
        ),
        "overspend_at_most": (
            in_flight_cost if budget is not None and totals.least_cost is not None else None
        ),
        "judge_cost_per_item": spec.judge.item,
        "ahead": (spec.ahead or WINDOW) if has_goal(spec.rule) else 0,
        "one_at_a_time": spec.ahead == 1,
        "loads": _loads(spec, list(models.values())),
    }


def _rehearsal(
    plan: Plan,
    plan_with_bank: Plan | None,
    most_items: Sequence[int],
    power: Power | None,
    on_progress: Callable[[int, int], None] | None,
) -> RehearsalContent | None:
    """Play rankings of models as the banks know them; None without a bank that tells."""
    # A bank has one score of each item, and does not say how repeats vary.
    if plan_with_bank is None or plan.most_repeats > 1:
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
    return rehearse(plan, newcomers, slots, most_items, power, on_progress)


def _least_items(plan: Plan) -> int:
    """Return the items that every model is asked, whatever it answers."""
    return min(plan.warmup_items, len(plan.offered))


def _budget_in_money(plan: Plan) -> float | None:
    return plan.charges.budget if plan.charges.currency == "usd" else None


def _budget_and_prices(plan: Plan) -> tuple[float, list[float]] | None:
    """Return a budget in dollars or tokens and what an item of each model takes of it."""
    charges = plan.charges
    if charges.currency == "items" or charges.budget is None:
        return None
    return charges.budget, [charges.prices[entry.name] for entry in plan.spec.models]


def _mean_costs(plan: Plan) -> list[float] | None:
    """Return the expected cost of one item of each model; None if a price is unknown."""
    costs = [plan.charges.forecasts[entry.name] for entry in plan.spec.models]
    return [cost.mean for cost in costs] if all(cost.known for cost in costs) else None


def _most_items(plan: Plan) -> list[int]:
    """Return the most items of each model: it cannot spend what the others need at least."""
    spec, least_items = plan.spec, _least_items(plan)
    n_models, limit = len(spec.models), plan.new_ranker().item_cap
    answers = spec.budget.get("items", limit * n_models)
    alone = max(least_items, min(limit, int(answers) - least_items * (n_models - 1)))
    if (limited := _budget_and_prices(plan)) is None:
        return [alone] * n_models
    budget, costs = limited
    left_for_model = [budget - least_items * (sum(costs) - cost) for cost in costs]
    return [
        max(least_items, min(alone, math.ceil(money / cost))) if cost > 0.0 else alone
        for money, cost in zip(left_for_model, costs)
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
    """What all models take: most items, and least and most cost before the budget, if known."""

    most_items: int
    least_cost: float | None = None
    most_cost: float | None = None


def _totals(plan: Plan, models: Sequence[ModelForecastContent]) -> _Totals:
    """Return what all models take within the budget."""
    least_items, n_models = _least_items(plan), len(models)
    most_items = sum(model["most_items"] for model in models)
    if "items" in plan.spec.budget:
        most_items = min(most_items, max(int(plan.spec.budget["items"]), least_items * n_models))
    further_items = [model["most_items"] - least_items for model in models]
    if (limited := _budget_and_prices(plan)) is not None:
        # The most answers come from the cheapest models.
        budget, amounts = limited
        further = np.sort(np.repeat(amounts, further_items))
        left = (budget - least_items * sum(amounts)) * (1.0 - SLACK)
        affordable = (further.cumsum() - further < left) | (further == 0.0)
        most_items = min(most_items, least_items * n_models + int(affordable.sum()))
    if (costs := _mean_costs(plan)) is None:
        return _Totals(most_items)
    least_cost = least_items * sum(costs)
    prices = np.sort(np.repeat(costs, further_items))
    # So many answers cost most if the dearest models give them.
    dearest = prices[::-1][: most_items - least_items * n_models]
    return _Totals(most_items, least_cost, least_cost + float(dearest.sum()))


def _loads(spec: Spec, models: Sequence[ModelForecastContent]) -> LoadsContent | None:
    """Return how often local weights are loaded, at least and at most; None if they stay."""
    turns = taking_turns(spec, {entry.name: memory_of(entry) for entry in spec.models})
    if not turns:
        return None

    def loads(items: int) -> int:
        # The last model of one round is the first of the next, and stays loaded.
        return len(turns) + (len(turns) - 1) * (turns_for(items, spec.ahead) - 1)

    return {
        "least": loads(min(model["least_items"] for model in models)),
        "most": loads(max(model["most_items"] for model in models)),
    }


def powers(plan: Plan) -> dict[str, Power]:
    """Return what items show, by the way in which they are chosen.

    ``bank``: by the plan's banks, and ``random``: the same random items for all models. Without a
    bank nobody knows how scores vary, so random items stand there as ``graded`` and ``right or
    wrong``, by published spreads of such scores.
    """
    spec, size = plan.spec, len(plan.items())
    pairs = len(spec.models) * (len(spec.models) - 1) // 2 if spec.familywise else 1
    level = (1.0 - spec.confidence) / max(pairs, 1)
    banks = {task: outcome.bank for task, outcome in plan.outcomes.items()}
    sampled = plan.noisy
    if all(method_of(bank).has_curves for bank in banks.values()):
        weights = plan.weights or "documents"
        return {
            way: Power.of_banks(banks, level, sampled, way == "random", weights=weights)
            for way in ("bank", "random")
        }
    kinds = PUBLISHED
    if {outcome.metric.name for outcome in plan.weighted_outcomes} <= RIGHT_OR_WRONG:
        # The metric says which of the two kinds of scores it has.
        kinds = {kind: PUBLISHED[kind] for kind in ("right or wrong",)}
    return {
        kind: Power.of_random_items(spreads, size, level, sampled)
        for kind, spreads in kinds.items()
    }


def prospects(plan: Plan, ways: Mapping[str, Power], gap: float | None = None) -> ProspectsContent:
    """Return what numbers of items decide, and what deciding a difference takes, as JSON values.

    Parameters
    ----------
    plan : Plan
    ways : mapping of str to Power
        Of the plan, or of the public bank that fits it, by way (see `powers`).
    gap : float, optional
        Difference of two models on the metric's own scale; default: several.

    Returns
    -------
    dict
        ``smallest_gap_by_items``, and by difference and way (see `powers`; ``full`` is a full run)
        the items of each model, tokens, dollars, and minutes if an answer takes a second. A
        difference that one sampled answer to every item does not decide has no ways. Both are
        empty for repeats: nobody knows how much of what differs is noise within items.
    """
    spec, size, scale = plan.spec, len(plan.items()), plan.scale
    repeated = plan.most_repeats > 1
    item_counts = {*(n for n in ITEMS if n < size), *filter(None, [spec.max_items]), size}
    counts = [] if repeated else sorted(item_counts)
    smallest = {
        n: {
            way: float(scale.restore_error(power.smallest_difference(n)))
            for way, power in ways.items()
        }
        for n in counts
        if n <= size
    }
    unit = float(scale.restore_error(1.0))
    # Such a gap is a slip, as of points of 100 for a metric on 0 to 1.
    if gap is not None and gap > scale.span:
        raise UsageError(
            f"--gap {gap:g} is more than two models can differ by: {plan.label} has the scale "
            f"{scale.describe()}"
        )
    tokens = _tokens_per_item(plan)
    costs = [plan.charges.forecasts[entry.name] for entry in spec.models]
    usd = sum(cost.mean for cost in costs) if all(cost.known for cost in costs) else None
    by_gap: dict[str, dict[str, WayContent]] = {}
    for difference in () if repeated else GAPS if gap is None else [gap / unit]:
        items = {
            way: _items_asked(plan, n)
            for way, power in ways.items()
            if (n := power.items_for_difference(difference)) is not None
        }
        if items:
            items["full"] = size
        by_gap[f"{difference * unit:g}"] = {
            way: {
                "items_per_model": n,
                "answers": n * len(spec.models),
                "input_tokens": round(n * len(spec.models) * tokens.input),
                "output_tokens": round(n * len(spec.models) * tokens.output),
                "usd": None if usd is None else n * usd,
                # Models work at the same time.
                "minutes_at_1s": n / min(map(_concurrent_items, spec.models)) / 60.0,
            }
            for way, n in items.items()
        }
    return {
        "chance": CHANCE,
        "confidence": spec.confidence,
        "familywise": spec.familywise,
        "smallest_gap_by_items": smallest,
        "by_gap": by_gap,
    }


def _tokens_per_item(plan: Plan) -> Tokens:
    """Estimate the mean tokens of an item, from a part of very many."""
    lengths: list[Tokens] = []
    for task, outcome in plan.outcomes.items():
        doc_ids = outcome.bank.doc_ids
        step = max(len(doc_ids) * len(plan.outcomes) // DOCUMENTS_LOOKED_AT, 1)
        documents = expected_tokens(plan.sessions.get(task), outcome.bank, doc_ids[::step])
        lengths += [tokens.usual for tokens in documents.values()]
    read, written = (
        float(np.mean(part)) for part in zip(*((tokens.input, tokens.output) for tokens in lengths))
    )
    return Tokens(read, written, "estimate")


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
        on_scale = float(plan.scale.restore_error(gap))
        parts.append(f"{' to '.join(numbers)} if they differ by {on_scale:g}")
    kinds = " (fewer for graded scores, more for right or wrong)" if len(ways) > 1 else ""
    return (
        f"Expected items of each model to decide a pair by {plan.label}, in {CHANCE:.0%} of "
        f"rankings{kinds}: {', '.join(parts)}. The task has {size}."
    )


def offer_in_words(plan: Plan) -> str:
    """Say in one line what a public bank would save; "" if none fits, or it would save nothing."""
    if plan.spec.bank or (public := with_public_bank(plan)) is None:
        return ""
    power_by_way = powers(public)
    by_bank, at_random = power_by_way["bank"], power_by_way["random"]
    unit, size = float(plan.scale.restore_error(1.0)), len(plan.items())
    saved: list[str] = []
    for gap in GAPS:
        n, at_random_items = by_bank.items_for_difference(gap), at_random.items_for_difference(gap)
        if not saved and n is not None and at_random_items is not None and n < at_random_items:
            saved.append(
                f"differences of {gap * unit:g} are decided after {n} items of each model, not "
                f"{at_random_items}"
            )
    n, at_random_items = (
        power.items_for_error(OFFERED_ERROR) or size for power in (by_bank, at_random)
    )
    if n < at_random_items:
        saved.append(
            f"scores are known to a standard error of {OFFERED_ERROR * unit:g} after {n} items, "
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
    if "bank" not in items:
        # Of sampled answers not even one to every document makes the error 0.
        all_documents = f"more than {size}" if plan.noisy else f"{size}"
        by_kind = {
            kind: all_documents if n is None else str(_items_asked(plan, n))
            for kind, n in items.items()
        }
        number = by_kind.popitem()[1]
        if by_kind:
            number = f"{by_kind['graded']} (graded scores) to {number} (right or wrong)"
        number += f" of {size} documents"
    elif (n := items["bank"]) is not None:
        n = _items_asked(plan, n)
        number = f"about {n} of {size} documents, more if the model departs from its bank"
    else:
        item_cap = plan.new_ranker().item_cap
        bound = f"all {item_cap} allowed"
        if plan.noisy or item_cap > STOPS[-1]:
            bound = f"more than {min(item_cap, STOPS[-1])}"
        number = f"{bound} of {size} documents"
    sentence = f"the run stops at a standard error of {target:g} (on a scale of 0 to 1), which "
    if plan.noisy and not any(items.values()):
        sentence += f"one sampled answer to each of {size} documents is not expected to reach"
        if plan.most_repeats > 1:
            sentence += f" (up to {plan.most_repeats} are asked)"
    else:
        sentence += f"is expected to take {number}"
    return (
        f"by default {sentence}; stop, max_items or a budget set another"
        if by_default
        else sentence
    )


def _concurrent_items(entry: ModelSpec) -> int:
    """Return the number of concurrent documents that a model's configuration states, else 1."""
    for value in (entry.concurrency, entry.model_args.get("num_concurrent"), entry.batch_size):
        try:
            return max(1, int(value))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return 1
