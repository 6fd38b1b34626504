"""``rank --dry_run``: what a ranking may take, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..report.words import money
from ..visible import visible_line


def print_forecast(content: Mapping[str, Any]) -> None:
    """Print what `lm_eval_ccat.live.ranking.dry_run` returns."""
    print(
        f"Task {content['task']}: {content['documents']} documents, metric {content['metric']}, "
        + (f"bank {content['bank']}." if content["bank"] else "no bank: random documents.")
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
    longest = sum(seconds) if content["one_at_a_time"] else max(seconds)
    print(
        f"Time: at most {longest:.0f} s for each second that an answer takes"
        + ("." if content["one_at_a_time"] else ", as the models work at the same time.")
    )
    if "probe" not in content:
        print("Nothing was asked and no model was loaded.")
        return
    print("One document was asked of each model:")
    for name, found in content["probe"].items():
        said = visible_line(found["answer"] if found["ok"] else found["error"])
        print(f"  {visible_line(name)}: {'answers' if found['ok'] else 'cannot'}: {said[:120]}")


def _money(amount: float | None, mark: str) -> str:
    return "unknown" if amount is None else mark + money(amount)


def _range(low: float | None, high: float | None, mark: str) -> str:
    if low is None or high is None:
        return "cost unknown"
    return f"{mark}{money(low)} to {money(max(low, high))}"
