"""``rank --dry_run``: a forecast of items and cost, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from ..methods.method import method_of
from ..methods.sample.pairs import (
    GRADED,
    GRADED_SCORE,
    RIGHT_OR_WRONG,
    RIGHT_OR_WRONG_SCORE,
    items_for_error,
    items_needed,
)
from ..ranker import Ranker
from ..ranker.ledger import SLACK
from .line import turns_for
from .models import memory_of, taking_turns
from .plan import Plan
from .spec import ModelSpec, Spec

#: Differences between two models, on [0, 1], for which to forecast the number of items.
GAPS = (0.2, 0.1, 0.05, 0.02)
#: Most items of a simulated test, which takes a second or two.
MOST_PLAYED = 400
#: Multiples of it are spread evenly over [0, 1), in whatever number they are taken.
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


def forecast(plan: Plan) -> dict[str, Any]:
    """Return the least and most items and cost per model, as JSON values.

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
        "items_per_model_by_gap": items_by_gap(plan),
        "least_items": least * len(models),
        "most_items": items_most,
        "least_cost": least_cost,
        "most_cost": min(limits) if limits else None,
        "overspend_at_most": in_flight if all_known and bound is not None else None,
        "judge_cost_per_item": spec.judge.item,
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


def needed_without_bank(plan: Plan) -> dict[str, tuple[int | None, int | None]]:
    """Return the expected items per model of a ranking by random items, by difference.

    Returns
    -------
    dict of str to (int or None, int or None)
        Items for graded and for 0/1 scores, by the difference on the metric's own scale; None if
        it takes all.
    """
    spec, size = plan.spec, len(plan.items())
    pairs = len(spec.models) * (len(spec.models) - 1) // 2 if spec.familywise else 1
    alpha = (1.0 - spec.confidence) / max(pairs, 1)
    needed = {}
    for gap in GAPS:
        graded, binary = (items_needed(gap, s, size, alpha) for s in (GRADED, RIGHT_OR_WRONG))
        needed[_on_scale(plan, gap)] = _at_least(plan, graded), _at_least(plan, binary)
    return needed


def _at_least(plan: Plan, items: int | None) -> int | None:
    return None if items is None else max(items, plan.warmup * len(plan.measured))


def _on_scale(plan: Plan, gap: float) -> str:
    return f"{float(plan.scale.restore_error(gap)):g}"


def need_in_words(plan: Plan) -> str:
    """Say in one line how many items a ranking without a bank is expected to need."""
    size, parts = len(plan.items()), []
    for gap, both in needed_without_bank(plan).items():
        numbers = dict.fromkeys(str(size if n is None else n) for n in both)
        parts.append(f"{' to '.join(numbers)} if they differ by {gap}")
    return (
        f"Expected items of each model to decide a pair by {plan.label} (fewer for graded scores, "
        f"more for right or wrong): {', '.join(parts)}. The task has {size}."
    )


def items_by_gap(plan: Plan) -> dict[str, int | None]:
    """Return the items per model that separate two neighbours, by how far apart they are.

    Two models count as separated once the standard error of one is small enough to tell them
    apart. Methods that compare models on shared items often need fewer.

    Returns
    -------
    dict of str to int or None
        Items by gap on the metric's own scale; None if a bank says that all allowed items are not
        enough.
    """
    if plan.outcome.bank.method == "sample":
        return {gap: most for gap, (_, most) in needed_without_bank(plan).items()}
    z, errors = float(ndtri((1 + plan.spec.confidence) / 2)), list(_expected_errors(plan))
    by_gap: dict[str, int | None] = {}
    for gap in GAPS:
        enough = (n for n, se in enumerate(errors, 1) if z * math.sqrt(2) * se <= gap)
        by_gap[_on_scale(plan, gap)] = _at_least(plan, next(enough, None))
    return by_gap


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
    if plan.outcome.bank.method == "sample":
        few, many = (items_for_error(target, s, size) for s in (GRADED_SCORE, RIGHT_OR_WRONG_SCORE))
        number = f"{few} (graded scores) to {many} (right or wrong) of {size} documents"
    else:
        reached = (n for n, se in enumerate(_expected_errors(plan), 1) if se <= target)
        if (items := _at_least(plan, next(reached, None))) is not None:
            number = f"about {items} of {size} documents, more if the model departs from its bank"
        else:
            most = plan.new_ranker().item_cap
            more = f"more than {MOST_PLAYED}" if most > MOST_PLAYED else f"all {most} allowed"
            number = f"{more} of {size} documents"
    goes = (
        f"the run stops at a standard error of {target:g} (on a scale of 0 to 1), which is "
        f"expected to take {number}"
    )
    return f"by default {goes}; stop, max_items or a budget set another" if by_default else goes


def _expected_errors(plan: Plan) -> Iterator[float]:
    """Yield one model's standard error after each item, if it scores as its bank expects.

    The test is simulated, for at most `MOST_PLAYED` items, with scores that vary as the bank says:
    a golden-ratio sequence stands for chance, so that few items show their whole variance.
    """
    spec, banks = plan.spec, {task: o.bank for task, o in plan.outcomes.items()}
    limit = min(plan.new_ranker().item_cap, MOST_PLAYED)
    about: dict[str, Any] = {"max_items": limit, "warmup": 0, "seed": spec.seed}
    ranker = Ranker(banks, {"one": 1.0}, weights=plan.weights or "documents", **about)
    at = {item: n for n, item in enumerate((t, d) for t, b in banks.items() for d in b.doc_ids)}
    known = [method_of(b).curves(b).noise if method_of(b).has_curves else np.zeros(b.n_items)
             for b in banks.values()]  # fmt: skip
    noise = np.clip(np.concatenate(known), 1e-6, 1.0 - 1e-6)
    for n in range(1, limit + 1):
        if not (pairs := ranker.ask(1)):
            return
        [(name, item)] = pairs
        mu = min(1.0 - 1e-6, max(1e-6, float(ranker.expected(name)[at[item]])))
        width = 1.0 / noise[at[item]] - 1.0  # a beta's, whose variance is noise mu (1 - mu)
        score = betaincinv(mu * width, (1.0 - mu) * width, n * GOLDEN % 1.0)
        ranker.tell(name, item, float(score))
        yield ranker.estimate(name)[1]


def _at_once(entry: ModelSpec) -> int:
    """Return the number of concurrent documents that a model's configuration states, else 1."""
    for value in (entry.concurrency, entry.model_args.get("num_concurrent"), entry.batch_size):
        try:
            return max(1, int(value))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return 1
