"""The head of the page: who is best, which ranks are possible, what would decide the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..money import dollars
from ..ranker.ranks import order_parts
from .axes import between
from .tables import model_cells
from .words import one_look, probability

#: Models of the order that the head of the page names.
IN_WORDS = 16
#: Open pairs that are shown at once.
_PAIRS = 8


def chain(result: Mapping[str, Any], most: int = IN_WORDS) -> list[dict[str, Any]]:
    """The order as the page prints it: what joins a part to the one before, its models, ranks.

    It reads as `Ranking.in_words`: models that are all open to each other or equivalent share a
    part; a run in which some pair is decided is a chain of parts joined by ``>~``.
    """
    parts: list[dict[str, Any]] = []
    apart = result.get("separated_within_ties", ())
    for part in order_parts(result["order"], result["ties"], apart):
        if most <= 0:
            break
        best, worst = result["models"][part.models[0]].get("rank_range") or (0, 0)
        ranks = f"({best} to {worst})" if part.chained and best < worst else ""
        names = list(part.models[:most])
        parts.append({"joint": part.joint.strip() or ">", "names": names, "ranks": ranks})
        most -= len(names)
    return parts


def rank_rows(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Rank range and P(best) of each model that was asked, with places in per cent of the axis.

    Returns
    -------
    dict or None
        None for one model, and for results of versions without rank ranges.
    """
    rows: list[dict[str, Any]] = [
        {
            "name": r.name, "rank": r.rank, "best": r.best, "worst": r.worst, "p_best": r.p_best,
            "ranks": r.ranks, "chance": r.chance,
        }
        for r in model_cells(result)
        if r.best and r.rank and not r.known
    ]  # fmt: skip
    size = max([len(result["order"]), *(r["worst"] for r in rows)], default=0)
    if not rows or size < 2:
        return None
    ranks = between(1, size, 8)
    marks = {1, size, *(round(t) for t in ranks.ticks if 1 < t < size - 0.06 * size)}
    for row in rows:
        row["low"] = round(100.0 * (row["best"] - 1) / size, 3)
        row["width"] = round(100.0 * (row["worst"] - row["best"] + 1) / size, 3)
        row["at"] = round(100.0 * (row["rank"] - 0.5) / size, 3)
        row["bar"] = round(100.0 * (row["p_best"] or 0.0), 2)
    return {
        "rows": rows,
        "size": size,
        "ticks": [{"at": 100.0 * (t - 0.5) / size, "label": f"{t:,}"} for t in sorted(marks)],
        "compact": len(rows) > 24,
    }


def pairs_decided(result: Mapping[str, Any]) -> dict[str, int]:
    """How many pairs, and how many pairs of neighbours, are decided, equivalent, and in all."""
    place = {m: i for i, m in enumerate(result["order"])}
    once = [
        (place[p["b"]] - place[p["a"]], p.get("decision"))
        for p in result["pairwise"]
        if p["a"] in place and place[p["a"]] < place.get(p["b"], -1)
    ]
    near = sum(gap == 1 for gap, _ in once)
    return {
        "pairs": len(once),
        "decided": sum(what == "decided" for _, what in once),
        "equivalent": sum(what == "equivalent" for _, what in once),
        "near": near,
        "near_decided": near - sum(len(g) - 1 for g in result["ties"]),
    }


def stands_beyond(result: Mapping[str, Any]) -> str | None:
    """How many decided pairs stand also for items like these, where that was looked at."""
    stands = [
        pair["population"]
        for pair in result["pairwise"]
        if pair.get("decision") == "decided" and "population" in pair
    ]
    if not stands:
        return None
    n, also = len(stands) // 2, sum(stands) // 2  # each pair is there either way
    if also == n:
        return "The verdicts hold for other items like these as well."
    which = "the pair is" if n == 1 else f"{n - also:,} of {n:,} decided pairs are"
    return f"For other items like these, {which} still open (--question population)."


def outlook(result: Mapping[str, Any], currency: str) -> dict[str, Any] | None:
    """What would decide the open neighbours, and what that costs.

    Returns
    -------
    dict or None
        None where nothing is open, and for results of versions that do not say.
    """
    pairs = result.get("open_pairs")
    if not pairs:
        return None
    rows = [
        {
            "a": p["a"],
            "b": p["b"],
            "p": probability(p["p"]),
            "items": [(m, n) for m, n in p["items"].items()],
            "total": sum(p["items"].values()),
            "cost": p["cost"],
            "cost_text": dollars(p["cost"]) if currency == "usd" else "",
            "all_items": p["all_items"],
        }
        for p in pairs
    ]
    # A model's further items serve all of its pairs.
    most: dict[str, int] = {}
    price: dict[str, float] = {}
    for p in pairs:
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
        "cost": dollars(cost) if currency == "usd" else None,
        "hopeless": sum(r["all_items"] for r in rows),
        "money": currency == "usd",
        "one_look": one_look(result),
    }
