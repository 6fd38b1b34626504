"""The head of the page: who is best, which ranks are possible, what would decide the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from .axes import between
from .words import money, one_look, probability, whole_percent

#: Models of the order that the head of the page names.
IN_WORDS = 16
#: Models that may be the best that the headline names.
_NAMED = 4
#: Open pairs that are shown at once.
_PAIRS = 8


def headline(result: Mapping[str, Any]) -> str:
    """What was found, in one sentence.

    Examples
    --------
    >>> models = {"a": {"rank_range": [1, 2], "p_best": 0.6}, "b": {"rank_range": [1, 2]}}
    >>> headline({"order": ["a", "b"], "models": models, "confidence": 0.95})
    'The best is a or b: not yet decided at 95% confidence.'
    """
    order, models = result["order"], result["models"]
    tested = [m for m in order if not models[m].get("known")]
    if not tested:
        return "No model was ranked."
    placed = [(m, models[m]["place"]) for m in tested if models[m].get("place")]
    if placed:
        first, place = placed[0]
        more = f" {len(placed) - 1} more stand below." if len(placed) > 1 else ""
        return f"{first}: {place['in_words']}.{more}"
    if len(order) == 1:
        return f"{order[0]} was estimated; there is no other model to compare it with."
    may = [m for m in order if (models[m].get("rank_range") or [1])[0] == 1]
    if len(may) == 1:
        chance = models[may[0]].get("p_best")
        said = "" if chance is None else f", with probability {probability(chance)}"
        return f"{may[0]} is the best of {len(order)} models{said}."
    level = f"not yet decided at {100 * result['confidence']:g}% confidence"
    if len(may) <= _NAMED:
        return f"The best is {', '.join(may[:-1])} or {may[-1]}: {level}."
    return f"{len(may)} of {len(order)} models may be the best: {level}."


def chain(result: Mapping[str, Any], most: int = IN_WORDS) -> list[dict[str, Any]]:
    """The order as the page prints it: what joins a part to the one before, its models, ranks.

    It reads as `Ranking.in_words`: models that are all open to each other or equivalent share a
    part; a run in which some pair is decided is a chain of parts joined by ``>~``.
    """
    order, models = list(result["order"]), result["models"]
    chained = {m for pair in result.get("separated_within_ties", []) for m in pair}
    parts: list[dict[str, Any]] = []

    def add(joint: str, names: Sequence[str], ranks: str = "") -> None:
        parts.append({"joint": joint, "names": list(names), "ranks": ranks})

    group_of = {m: tuple(g) for g in result["ties"] for m in g}
    done: set[str] = set()
    for model in order:
        if model in done:
            continue
        group = group_of.get(model, (model,))
        done.update(group)
        if not chained & set(group):
            add(">", group)
            continue
        for n, m in enumerate(group):
            best, worst = models[m].get("rank_range") or (0, 0)
            add(">~" if n else ">", [m], f"({best} to {worst})" if best < worst else "")
    return _first_of(parts, most)


def _first_of(parts: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    made = []
    for part in parts:
        if most <= 0:
            break
        made.append({**part, "names": part["names"][:most]})
        most -= len(part["names"])
    return made


def rank_rows(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Rank range and P(best) of each model that was asked, with places in per cent of the axis.

    Returns
    -------
    dict or None
        None for one model, and for results of versions without rank ranges.
    """
    models = result["models"]
    rows = [
        {
            "name": m,
            "rank": block["rank"],
            "best": block["rank_range"][0],
            "worst": block["rank_range"][1],
            "p_best": block.get("p_best"),
        }
        for m in result["order"]
        if (block := models[m]).get("rank_range") and not block.get("known")
    ]
    size = max([len(result["order"]), *(r["worst"] for r in rows)], default=0)
    if not rows or size < 2:
        return None
    ranks = between(1, size, 8)
    marks = {1, size, *(round(t) for t in ranks.ticks if 1 < t < size - 0.06 * size)}
    for row in rows:
        row["low"] = round(100.0 * (row["best"] - 1) / size, 3)
        row["width"] = round(100.0 * (row["worst"] - row["best"] + 1) / size, 3)
        row["at"] = round(100.0 * (row["rank"] - 0.5) / size, 3)
        row["ranks"] = (
            str(row["best"]) if row["best"] == row["worst"] else f"{row['best']} to {row['worst']}"
        )
        chance = row["p_best"]
        row["chance"] = "" if chance is None else whole_percent(chance) + "%"
        row["bar"] = round(100.0 * (chance or 0.0), 2)
    return {
        "rows": rows,
        "size": size,
        "ticks": [{"at": 100.0 * (t - 0.5) / size, "label": f"{t:,}"} for t in sorted(marks)],
        "compact": len(rows) > 24,
    }


def pairs_decided(result: Mapping[str, Any]) -> dict[str, int]:
    """How many pairs, and how many pairs of neighbours, are decided, equivalent, and in all."""
    said = {(p["a"], p["b"]): p.get("decision") for p in result["pairwise"]}
    place = {m: i for i, m in enumerate(result["order"])}
    once = [d for (a, b), d in said.items() if place.get(a, 0) < place.get(b, 0)]
    near = [p for p in pairwise(result["order"]) if p in said]
    grouped = {frozenset(p) for g in result["ties"] for p in pairwise(g)}
    return {
        "pairs": len(once),
        "decided": once.count("decided"),
        "equivalent": once.count("equivalent"),
        "near": len(near),
        "near_decided": sum(frozenset(p) not in grouped for p in near),
    }


def outlook(result: Mapping[str, Any], currency: str) -> dict[str, Any] | None:
    """What would decide the open neighbours, and what that costs.

    Returns
    -------
    dict or None
        None where nothing is open, and for results of versions that do not say.
    """
    found = result.get("open_pairs")
    if not found:
        return None
    rows = [
        {
            "a": p["a"],
            "b": p["b"],
            "p": probability(p["p"]),
            "items": [(m, n) for m, n in p["items"].items()],
            "total": sum(p["items"].values()),
            "cost": p["cost"],
            "cost_text": money(p["cost"]) if currency == "usd" else "",
            "all_items": p["all_items"],
        }
        for p in found
    ]
    # A model's further items serve all of its pairs.
    most: dict[str, int] = {}
    price: dict[str, float] = {}
    for p in found:
        for m, n in p["items"].items():
            if n > most.get(m, 0):
                most[m] = n
        spent = {m: result["models"][m] for m in p["items"]}
        price.update({m: b["cost"] / b["n_items"] for m, b in spent.items() if b["n_items"]})
    every = sum(most.values())
    cost = sum(n * price.get(m, 0.0) for m, n in most.items())
    return {
        "rows": rows[:_PAIRS],
        "more": rows[_PAIRS:],
        "answers": f"{every:,}",
        "cost": money(cost) if currency == "usd" else None,
        "hopeless": sum(r["all_items"] for r in rows),
        "money": currency == "usd",
        "one_look": one_look(result),
    }
