"""`plan`: what a ranking takes and what its items can show, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..money import Tokens
from ..ranker.ledger import SLACK
from ..ranker.stopping import has_goal
from ..simulation.power import CHANCE, PUBLISHED, STOPS, Power, spreads_of
from .line import WINDOW, turns_for
from .models import memory_of, taking_turns
from .plan import Plan, expected_tokens, with_public_bank
from .spec import ModelSpec, Spec

#: Differences between two models, on [0, 1], for which to forecast the number of items.
GAPS = (0.2, 0.1, 0.05, 0.02)
#: Items per model for which to forecast the smallest difference that they decide.
ITEMS = (20, 50, 100, 200, 500, 1000, 2000, 5000)
#: Standard error, on [0, 1], for which to say what a public bank saves.
OFFERED_ERROR = 0.05
#: Documents, of all tasks, from which to estimate tokens.
SOME = 200


def forecast(plan: Plan, gap: float | None = None) -> dict[str, Any]:
    """Return the least and most items and cost per model, and `prospects`, as JSON values.

    A ranking takes at least the warm-up and at most what the budget and ``max_items`` allow; the
    actual number depends on how close the models are, which is unknown beforehand.
    """
    spec, ranker = plan.spec, plan.new_ranker()
    kept = len(plan.offered)
    least = min(plan.first, kept)
    most = min(ranker.item_cap, kept)
    bound = plan.budget if plan.currency == "usd" else None
    answers = spec.budget.get("items", most * len(spec.models))
    # A model cannot spend what the others need at least.
    alone = max(least, min(most, int(answers) - least * (len(spec.models) - 1)))
    expected = [plan.forecasts[entry.name] for entry in spec.models]
    all_known, each_once = all(c.known for c in expected), sum(c.mean for c in expected)
    models: dict[str, dict[str, Any]] = {}
    for entry in spec.models:
        cost = plan.forecasts[entry.name]
        most = alone
        if bound is not None and cost.mean > 0.0 and all_known:
            others = least * (each_once - cost.mean)
            most = max(least, min(alone, math.ceil((bound - others) / cost.mean)))
        at_once = 1 if spec.ahead == 1 else _at_once(entry)
        models[entry.name] = {
            "price_known": cost.known,
            "cost_per_item": cost.mean if cost.known else None,
            "most_expensive_item": cost.largest if cost.known else None,
            "cost_estimated": entry.price.by_tokens or entry.price.by_time,
            "least_items": least,
            "most_items": most,
            "least_cost": cost.mean * least if cost.known else None,
            "most_cost": cost.mean * most if cost.known else None,
            "full_evaluation_cost": cost.mean * len(plan.items()) if cost.known else None,
            "in_flight_at_most": at_once,
            # Models work concurrently, unless the run asks one item at a time.
            "most_seconds_at_1s": most / at_once,
        }
    in_flight = sum(
        (m["most_expensive_item"] or 0.0) * m["in_flight_at_most"] for m in models.values()
    )
    items_most = sum(m["most_items"] for m in models.values())
    if "items" in spec.budget:
        items_most = min(items_most, max(int(spec.budget["items"]), least * len(models)))
    least_cost = most_cost = None
    if all_known:
        least_cost = least * each_once
        beyond = [m["most_items"] - least for m in models.values()]
        prices = np.sort(np.repeat([c.mean for c in expected], beyond))  # beyond the minimum
        if bound is not None:  # the most answers come from the cheapest models
            before = prices.cumsum() - prices
            affordable = (before < (bound - least_cost) * (1.0 - SLACK)) | (prices == 0.0)
            items_most = min(items_most, least * len(models) + int(affordable.sum()))
        # So many answers cost most if the dearest models give them.
        dearest = prices[::-1][: items_most - least * len(models)]
        most_cost = least_cost + float(dearest.sum())
    limits = [limit for limit in (most_cost, bound) if limit is not None]
    hashes = dict.fromkeys(outcome.bank.short_hash for outcome in plan.outcomes.values())
    return {
        "task": "+".join(plan.measured),
        "documents": len(plan.documents()),
        "bank": "+".join(hashes) if spec.bank else None,
        "metric": plan.label,
        "budget": dict(spec.budget),
        "models": models,
        **prospects(plan, gap),
        "least_items": least * len(models),
        "most_items": items_most,
        "least_cost": least_cost,
        "most_cost": min(limits) if limits else None,
        "overspend_at_most": in_flight if all_known and bound is not None else None,
        "judge_cost_per_item": spec.judge.item,
        "ahead": (spec.ahead or WINDOW) if has_goal(spec.rule) else 0,
        "one_at_a_time": spec.ahead == 1,
        "loads": _loads(spec, [(m["least_items"], m["most_items"]) for m in models.values()]),
    }


def _loads(spec: Spec, items: Sequence[tuple[int, int]]) -> dict[str, int] | None:
    """Return how often local weights are loaded, at least and at most; None if they stay."""
    turns = taking_turns(spec, {entry.name: memory_of(entry) for entry in spec.models})
    if not turns:
        return None
    bounds = [
        # The last model of one round is the first of the next, and stays loaded.
        len(turns) + (len(turns) - 1) * (turns_for(n, spec.ahead) - 1)
        for n in (min(least for least, _ in items), max(most for _, most in items))
    ]
    return dict(zip(("least", "most"), bounds))


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
    spreads = spreads_of(banks)
    if spreads is None:
        return {
            kind: Power.of_random_items(spreads, size, level) for kind, spreads in PUBLISHED.items()
        }
    of_bank = Power.of_banks(banks, level, weights=plan.weights or "documents")
    return {"bank": of_bank, "random": Power.of_random_items(spreads, size, level)}


def prospects(plan: Plan, gap: float | None = None) -> dict[str, Any]:
    """Return what numbers of items decide, and what deciding a difference takes, as JSON values.

    Parameters
    ----------
    plan : Plan
    gap : float, optional
        Difference of two models on the metric's own scale; default: several.

    Returns
    -------
    dict
        ``smallest_gap_by_items``, and by difference and way (see `powers`; ``full`` is a full run)
        the items of each model, tokens, dollars, and minutes if an answer takes a second.
    """
    spec, size, scale = plan.spec, len(plan.items()), plan.scale
    ways = powers(plan)
    if not spec.bank and (public := with_public_bank(plan)) is not None:
        by_bank, at_random = powers(public).values()
        ways = {f"bank {public.spec.bank}": by_bank, "random": at_random}
    counts = sorted({*(n for n in ITEMS if n < size), *filter(None, [spec.max_items]), size})
    smallest = {
        n: {way: float(scale.restore_error(power.smallest(n))) for way, power in ways.items()}
        for n in counts
        if n <= size
    }
    unit = float(scale.restore_error(1.0))
    tokens = _tokens_per_item(plan)
    costs = [plan.forecasts[entry.name] for entry in spec.models]
    usd = sum(cost.mean for cost in costs) if all(cost.known for cost in costs) else None
    by_gap: dict[str, dict[str, Any]] = {}
    for difference in GAPS if gap is None else [gap / unit]:
        items = {way: _at_least(plan, power.items(difference)) for way, power in ways.items()}
        by_gap[f"{difference * unit:g}"] = {
            way: {
                "items_per_model": n,
                "answers": n * len(spec.models),
                "input_tokens": round(n * len(spec.models) * tokens.input),
                "output_tokens": round(n * len(spec.models) * tokens.output),
                "usd": None if usd is None else n * usd,
                # Models work at the same time.
                "minutes_at_1s": n / min(map(_at_once, spec.models)) / 60.0,
            }
            for way, n in {**items, "full": size}.items()
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
        step = max(len(doc_ids) * len(plan.outcomes) // SOME, 1)
        documents = expected_tokens(plan.sessions[task], doc_ids[::step])
        lengths += [usual for usual, _ in documents.values()]
    read, written = (float(np.mean(part)) for part in zip(*((t.input, t.output) for t in lengths)))
    return Tokens(read, written, "estimate")


def _at_least(plan: Plan, items: int) -> int:
    return min(max(items, plan.first), len(plan.items()))


def need_in_words(plan: Plan) -> str:
    """Say in one line how many items a ranking without a bank is expected to need."""
    size, parts, ways = len(plan.items()), [], powers(plan).values()
    for gap in GAPS:
        numbers = dict.fromkeys(str(_at_least(plan, power.items(gap))) for power in ways)
        on_scale = float(plan.scale.restore_error(gap))
        parts.append(f"{' to '.join(numbers)} if they differ by {on_scale:g}")
    return (
        f"Expected items of each model to decide a pair by {plan.label}, in {CHANCE:.0%} of "
        f"rankings (fewer for graded scores, more for right or wrong): {', '.join(parts)}. The "
        f"task has {size}."
    )


def offer_in_words(plan: Plan) -> str:
    """Say in one line what a public bank would save; "" if none fits, or it would save nothing."""
    if plan.spec.bank or (public := with_public_bank(plan)) is None:
        return ""
    by_bank, at_random = powers(public).values()
    unit, size = float(plan.scale.restore_error(1.0)), len(plan.items())
    saved: list[str] = []
    for gap in GAPS:
        if not saved and (n := by_bank.items(gap)) < (others := at_random.items(gap)):
            saved.append(
                f"differences of {gap * unit:g} are decided after {n} items of each model, not "
                f"{others}"
            )
    n, others = (power.items_for_error(OFFERED_ERROR) or size for power in (by_bank, at_random))
    if n < others:
        saved.append(
            f"scores are known to a standard error of {OFFERED_ERROR * unit:g} after {n} items, "
            f"not {others}"
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
        few, many = (_at_least(plan, n or size) for n in items.values())
        number = f"{few} (graded scores) to {many} (right or wrong) of {size} documents"
    elif (n := items["bank"]) is not None:
        n = _at_least(plan, n)
        number = f"about {n} of {size} documents, more if the model departs from its bank"
    else:
        most = plan.new_ranker().item_cap
        more = f"more than {STOPS[-1]}" if most > STOPS[-1] else f"all {most} allowed"
        number = f"{more} of {size} documents"
    goes = (
        f"the run stops at a standard error of {target:g} (on a scale of 0 to 1), which is "
        f"expected to take {number}"
    )
    return f"by default {goes}; stop, max_items or a budget set another" if by_default else goes


def _at_once(entry: ModelSpec) -> int:
    """Return the number of concurrent documents that a model's configuration states, else 1."""
    for value in (entry.concurrency, entry.model_args.get("num_concurrent"), entry.batch_size):
        try:
            return max(1, int(value))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return 1
