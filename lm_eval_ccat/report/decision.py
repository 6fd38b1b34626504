"""The head of the page: who is best, which ranks are possible, what would decide the rest."""

from __future__ import annotations

from dataclasses import dataclass

from ..content import RankingContent
from ..money import dollars
from ..ranker.ranks import order_parts
from .axes import between
from .tables import model_cells
from .words import one_look, probability

#: Models of the order that the head of the page names.
IN_WORDS = 16
#: Open pairs that are shown at once.
_PAIRS = 8


@dataclass(frozen=True)
class Link:
    """A part of the order as the page prints it: what joins it to the one before, models, ranks."""

    joint: str
    names: list[str]
    ranks: str


def chain(result: RankingContent, most: int = IN_WORDS) -> list[Link]:
    """The order as the page prints it.

    It reads as `Ranking.in_words`: models that are all open to each other or equivalent share a
    part; a run in which some pair is decided is a chain of parts joined by ``>~``.
    """
    parts: list[Link] = []
    apart = result.get("separated_within_ties", ())
    for part in order_parts(result["order"], result["ties"], apart):
        if most <= 0:
            break
        best, worst = result["models"][part.models[0]].get("rank_range") or (0, 0)
        ranks = f"({best} to {worst})" if part.chained and best < worst else ""
        names = list(part.models[:most])
        parts.append(Link(part.joint.strip() or ">", names, ranks))
        most -= len(names)
    return parts


@dataclass(frozen=True)
class RankRow:
    """Rank range and P(best) of a model, and its places in per cent of the axis."""

    name: str
    ranks: str
    chance: str
    low: float
    width: float
    at: float
    bar: float


@dataclass(frozen=True)
class RankRows:
    """Such rows, the ticks of their axis, and whether they are many."""

    rows: list[RankRow]
    ticks: list[dict[str, object]]
    compact: bool


def rank_rows(result: RankingContent) -> RankRows | None:
    """Rank range and P(best) of each model that was asked.

    Returns
    -------
    RankRows or None
        None for one model, and for results of versions without rank ranges.
    """
    cells = [r for r in model_cells(result) if r.best and r.rank and not r.known]
    size = max([len(result["order"]), *(r.worst for r in cells)], default=0)
    if not cells or size < 2:
        return None
    ranks = between(1, size, 8)
    marks = {1, size, *(round(t) for t in ranks.ticks if 1 < t < size - 0.06 * size)}
    rows = [
        RankRow(
            r.name,
            r.ranks,
            r.chance,
            low=round(100.0 * (r.best - 1) / size, 3),
            width=round(100.0 * (r.worst - r.best + 1) / size, 3),
            at=round(100.0 * ((r.rank or 0) - 0.5) / size, 3),
            bar=round(100.0 * (r.p_best or 0.0), 2),
        )
        for r in cells
    ]
    ticks: list[dict[str, object]] = [
        {"at": 100.0 * (t - 0.5) / size, "label": f"{t:,}"} for t in sorted(marks)
    ]
    return RankRows(rows, ticks, compact=len(rows) > 24)


def pairs_decided(result: RankingContent) -> dict[str, int]:
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


def stands_beyond(result: RankingContent) -> str | None:
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


@dataclass(frozen=True)
class OpenRow:
    """An open pair of neighbours, with the further items of each model that would decide it."""

    a: str
    b: str
    p: str
    items: list[tuple[str, int]]
    cost_text: str
    all_items: bool


@dataclass(frozen=True)
class Outlook:
    """What would decide the open neighbours.

    Attributes
    ----------
    rows, more : list of OpenRow
        Those that are shown at once, the cheapest first, and the others.
    answers : str
        Answers that would decide all of them.
    cost : str or None
        What these cost; None where it is counted in items.
    hopeless : int
        Pairs that nothing short of nearly all items would decide.
    money : bool
        Whether costs are in dollars.
    one_look : str or None
        Why a pair is open that one look would decide.
    """

    rows: list[OpenRow]
    more: list[OpenRow]
    answers: str
    cost: str | None
    hopeless: int
    money: bool
    one_look: str | None


def outlook(result: RankingContent, currency: str) -> Outlook | None:
    """What would decide the open neighbours, and what that costs.

    Returns
    -------
    Outlook or None
        None where nothing is open, and for results of versions that do not say.
    """
    pairs, money = result.get("open_pairs"), currency == "usd"
    if not pairs:
        return None
    rows = [
        OpenRow(
            p["a"],
            p["b"],
            probability(p["p"]),
            list(p["items"].items()),
            dollars(p["cost"]) if money else "",
            p["all_items"],
        )
        for p in pairs
    ]
    # A model's further items serve all of its pairs.
    most: dict[str, int] = {}
    for p in pairs:
        for m, n in p["items"].items():
            most[m] = max(n, most.get(m, 0))
    spent = {m: result["models"][m] for m in most}
    cost = sum(most[m] * one["cost"] / one["n_items"] for m, one in spent.items() if one["n_items"])
    return Outlook(
        rows[:_PAIRS],
        rows[_PAIRS:],
        answers=f"{sum(most.values()):,}",
        cost=dollars(cost) if money else None,
        hopeless=sum(r.all_items for r in rows),
        money=money,
        one_look=one_look(result),
    )
