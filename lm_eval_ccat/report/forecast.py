"""The forecast of a dry run, in lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..money import dollars
from ..visible import visible_line


def forecast_lines(content: Mapping[str, Any]) -> list[str]:
    """Format what `lm_eval_ccat.live.ranking.dry_run` returns as lines of text."""
    models, one_at_a_time = content["models"], content["one_at_a_time"]
    bank = f"bank {content['bank']}." if content["bank"] else "no bank: random documents."
    lines = [
        f"Task {content['task']}: {content['documents']} documents, metric {content['metric']}, "
        + bank,
        f"{'model':<24} {'items':>12} {'per item':>12} {'cost':>22} {'full run':>12}",
    ]
    for name, m in models.items():
        items = f"{m['least_items']} to {m['most_items']}"
        mark = "~" if m["cost_estimated"] else ""
        lines.append(
            f"{name[:24]:<24} {items:>12} {_usd(m['cost_per_item'], mark):>12} "
            f"{_range(m['least_cost'], m['most_cost'], mark):>22} "
            f"{_usd(m['full_evaluation_cost'], mark):>12}"
        )
    lines += [
        f"Together {content['least_items']} to {content['most_items']} items, "
        f"{_range(content['least_cost'], content['most_cost'])}.",
        "Items per model, by how far apart two neighbours are:",
    ]
    for gap, number in content["items_per_model_by_gap"].items():
        lines.append(f"  {gap:>6} of {content['metric']}: {number or 'more than are allowed'}")
    if content["overspend_at_most"] is not None:
        over = _usd(content["overspend_at_most"], "~")
        lines.append(f"Requests in flight at the end may exceed the budget, by at most {over}.")
    if content["judge_cost_per_item"]:
        judge = _usd(content["judge_cost_per_item"])
        lines.append(f"Every item includes {judge} for the judge.")
    if any(m["cost_estimated"] for m in models.values()):
        lines.append("~ guessed from the lengths of prompts and references.")
    if "seconds" in content["budget"]:
        lines.append(f"It ends after {content['budget']['seconds']:g} s at the latest.")
    longest = (sum if one_at_a_time else max)(m["most_seconds_at_1s"] for m in models.values())
    at_once = "." if one_at_a_time else ", as the models work at the same time."
    lines.append(f"Time: at most {longest:.0f} s for each second that an answer takes{at_once}")
    if "probe" not in content:
        return [*lines, "Nothing was asked and no model was loaded."]
    lines.append("One document was asked of each model:")
    for name, probe in content["probe"].items():
        text = visible_line(probe["answer"] if probe["ok"] else probe["error"])[:120]
        lines.append(f"  {visible_line(name)} {'answers' if probe['ok'] else 'fails'}: {text}")
    return lines


def _usd(amount: float | None, mark: str = "") -> str:
    return "unknown" if amount is None else mark + dollars(amount)


def _range(low: float | None, high: float | None, mark: str = "") -> str:
    if low is None or high is None:
        return "cost unknown"
    return f"{_usd(low, mark)} to {_usd(max(low, high))}"
