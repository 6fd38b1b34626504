"""``rank --dry_run``: what a ranking may take, before anything is spent."""

from __future__ import annotations

import contextlib
import json
import math
from typing import TYPE_CHECKING, Any, TextIO

#: Differences of two models, on [0, 1], for which the items are forecast.
GAPS = (0.2, 0.1, 0.05, 0.02)
#: A test is played through to this many items at most, which takes a second or two.
MOST_PLAYED = 400

if TYPE_CHECKING:
    from .config import ModelConfig
    from .plan import Plan


def forecast(plan: Plan) -> dict[str, Any]:
    """Least and most items and cost per model, as JSON values.

    A ranking takes at least the warm-up and at most what the budget and ``max_items`` allow; where
    between depends on how close the models are, which nobody knows before.
    """
    config, ranker = plan.config, plan.new_ranker()
    kept = int(plan.bank.kept.sum())
    least = min(config.warmup, kept)
    most = min(ranker.item_cap, kept)
    models: dict[str, dict[str, Any]] = {}
    for entry in config.models:
        cost = plan.forecasts[entry.name]
        at_once = 1 if config.one_at_a_time else _at_once(entry)
        models[entry.name] = {
            "price_known": cost.known,
            "cost_per_item": cost.mean if cost.known else None,
            "most_expensive_item": cost.largest if cost.known else None,
            "cost_estimated": entry.price.by_tokens or entry.price.by_time,
            "least_items": least,
            "most_items": most,
            "least_cost": cost.mean * least if cost.known else None,
            "most_cost": cost.mean * most if cost.known else None,
            "full_evaluation_cost": cost.mean * plan.bank.n_items if cost.known else None,
            "in_flight_at_most": at_once,
            # Models work at the same time; one at a time they wait for each other.
            "most_seconds_at_1s": most / at_once,
        }
    known = all(m["price_known"] for m in models.values())
    bound = plan.budget if plan.currency == "usd" else None
    in_flight = sum(
        (m["most_expensive_item"] or 0.0) * m["in_flight_at_most"] for m in models.values()
    )
    total_most = sum(m["most_cost"] for m in models.values()) if known else None
    limits = [limit for limit in (total_most, bound) if limit is not None]
    items_most = most * len(models)
    if "items" in config.budget:
        items_most = min(items_most, max(int(config.budget["items"]), least * len(models)))
    return {
        "task": plan.probe.name,
        "documents": len(plan.probe.doc_ids),
        "bank": plan.bank.short_hash,
        "metric": plan.metric.label,
        "budget": dict(config.budget),
        "models": models,
        "items_per_model_by_gap": items_by_gap(plan),
        "least_items": least * len(models),
        "most_items": items_most,
        "least_cost": sum(m["least_cost"] for m in models.values()) if known else None,
        "most_cost": min(limits) if limits else None,
        "overspend_at_most": in_flight if known and bound is not None else None,
        "judge_cost_per_item": config.judge.item,
    }


def items_by_gap(plan: Plan) -> dict[str, int | None]:
    """Items per model that separate two neighbours, by how far apart they are.

    A single model's test is played through with just the scores that the bank expects; where its
    standard error has fallen far enough to tell two such models apart, they are separated.  Methods
    that compare models on shared items often need fewer.

    Returns
    -------
    dict of str to int or None
        Gap on the metric's own scale to items; None where all allowed items do not suffice.
    """
    from scipy.special import ndtri

    from ..ranker import Ranker

    config, bank = plan.config, plan.bank
    limit = min(plan.new_ranker().item_cap, MOST_PLAYED)
    ranker = Ranker(bank, {"one": 1.0}, max_items=limit, warmup=0, seed=config.seed)
    errors: list[float] = []
    while len(errors) < limit and (pairs := ranker.ask(1)):
        [(name, doc)] = pairs
        mu = float(ranker.expected(name)[bank.index[doc]])
        ranker.tell(name, doc, min(1.0, max(0.0, mu)))
        errors.append(ranker.estimate(name)[1])
    z = float(ndtri((1 + config.confidence) / 2))
    found: dict[str, int | None] = {}
    for gap in GAPS:
        enough = (n for n, se in enumerate(errors, 1) if z * math.sqrt(2) * se <= gap)
        items = next(enough, None)
        shown = f"{float(plan.metric.scale.restore_error(gap)):g}"
        found[shown] = None if items is None else max(items, config.warmup)
    return found


def _at_once(entry: ModelConfig) -> int:
    """Documents that a model will have at once, as far as the configuration says."""
    for value in (entry.concurrency, entry.model_args.get("num_concurrent"), entry.batch_size):
        try:
            return max(1, int(value))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return 1


def print_forecast(plan: Plan, as_json: bool, out: TextIO) -> None:
    """Print the forecast; nothing is asked and no model is loaded."""
    content = forecast(plan)
    if as_json:
        print(json.dumps(content, indent=2), file=out)
        return
    with contextlib.redirect_stdout(out):
        _print(plan, content)


def _print(plan: Plan, content: dict[str, Any]) -> None:
    print(
        f"Task {content['task']}: {content['documents']} documents, metric {content['metric']}, "
        f"bank {content['bank']}."
    )
    print(f"{'model':<24} {'items':>12} {'per item':>12} {'cost':>22} {'full run':>12}")
    for name, m in content["models"].items():
        items = f"{m['least_items']} to {m['most_items']}"
        mark = "~" if m["cost_estimated"] else ""
        print(
            f"{name[:24]:<24} {items:>12} {_money(m['cost_per_item'], mark):>12} "
            f"{_range(m['least_cost'], m['most_cost'], mark):>22} "
            f"{_money(m['full_evaluation_cost'], mark):>12}"
        )
    print(
        f"Together {content['least_items']} to {content['most_items']} items, "
        f"{_range(content['least_cost'], content['most_cost'], '')}."
    )
    print("Items per model, by how far apart two neighbours are:")
    for gap, items in content["items_per_model_by_gap"].items():
        print(f"  {gap:>6} of {content['metric']}: {items or 'more than are allowed'}")
    if content["overspend_at_most"] is not None:
        print(
            f"The budget is exceeded by at most what is in flight at the end: "
            f"{_money(content['overspend_at_most'], '~')}."
        )
    if content["judge_cost_per_item"]:
        print(f"Every item includes {_money(content['judge_cost_per_item'], '')} for the judge.")
    if any(m["cost_estimated"] for m in content["models"].values()):
        print(
            "~ token counts are guessed from the lengths of prompts and references, and times "
            "are not known yet."
        )
    if "seconds" in content["budget"]:
        print(f"It ends after {content['budget']['seconds']:g} s at the latest.")
    seconds = [m["most_seconds_at_1s"] for m in content["models"].values()]
    longest = sum(seconds) if plan.config.one_at_a_time else max(seconds)
    print(
        f"Time: at most {longest:.0f} s for each second that an answer takes"
        + ("." if plan.config.one_at_a_time else ", as the models work at the same time.")
    )
    print("Nothing was asked and no model was loaded.")


def _money(amount: float | None, mark: str) -> str:
    return "unknown" if amount is None else f"{mark}${amount:.4g}"


def _range(low: float | None, high: float | None, mark: str) -> str:
    if low is None or high is None:
        return "cost unknown"
    return f"{mark}${low:.4g} to ${max(low, high):.4g}"
