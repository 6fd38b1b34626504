"""A ranking in words and as a table: its headline, and its order in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..content import RankingContent
from ..methods.belief import POPULATION
from ..shown import ShownTable, visible_name
from .verdicts import EQUIVALENT, WORDS

#: Longest order, in characters, that serves as the headline itself.
LINE = 72


def headline(content: RankingContent) -> str:
    """Summarize a ranking in one sentence that fits a line.

    Parameters
    ----------
    content : mapping
        As `Ranking.to_dict` and ``result.json`` have it, figures on the metric's own scale.

    Examples
    --------
    >>> models = {
    ...     "a": {"rank_range": [1, 2], "p_best": 0.92, "n_items": 10, "interval": [0.5, 0.7]},
    ...     "b": {"rank_range": [1, 3], "p_best": 0.07, "n_items": 10, "interval": [0.4, 0.6]},
    ...     "c": {"rank_range": [2, 3], "p_best": 0.01, "n_items": 10, "interval": [0.3, 0.5]},
    ... }
    >>> content = {"order": ["a", "b", "c"], "models": models, "confidence": 0.95,
    ...            "items_of_benchmark": 100, "ranking": "a (1 to 2) >~ b (1 to 3) >~ c (2 to 3)"}
    >>> headline(content)
    'a is probably the best (92%); 2 of 3 may be, using 10% of the items'
    """
    models = content["models"].values()
    aside = [one["set_aside"] for one in models if one.get("set_aside")]
    unseen = [one for one in models if not (one.get("known") or one["n_items"])]
    if aside and len(models) > 1 and len(models) - len(unseen) <= 1:
        loaded = all(str(why).startswith("cannot be loaded") for why in aside)
        return (
            f"No ranking: {len(aside)} of {len(models)} models could not be "
            f"{'loaded' if loaded else 'asked'}"
        )
    if not any(one["n_items"] for one in models):
        return "nothing is ranked: no model has answered"
    asked = [one for one in models if not one.get("known")]
    every = content["items_of_benchmark"] * len(asked)
    share = 100.0 * sum(one["n_items"] for one in asked) / every if every else 0.0
    percent = f"{share:.1f}%" if share < 10 else f"{share:.0f}%"
    return f"{_finding(content)}, using {percent} of the items"


def question(content: RankingContent) -> str:
    """Say in words what the order sorts by.

    Examples
    --------
    >>> question({"items_of_benchmark": 800, "question": "benchmark"})
    'order of full runs of these 800 items'
    """
    items = f"these {content['items_of_benchmark']:,}"
    if content.get("question") == POPULATION:
        return f"order on items like {items}"
    return f"order of full runs of {items} items"


def held(looks: str | None, confidence: float) -> str:
    """Say in a sentence at which looks the intervals hold; empty if `looks` is not known.

    Examples
    --------
    >>> held("one", 0.95)
    'The 95% intervals hold for one look, the one at which the run ended.'
    """
    when = {
        "one": "hold for one look, the one at which the run ended",
        "every": "hold at every look, however often the results are checked",
    }.get(looks or "")
    return f"The {100 * confidence:g}% intervals {when}." if when else ""


def _finding(content: RankingContent) -> str:
    order, models, line = content["order"], content["models"], content.get("ranking", "")
    placed = [(m, place) for m in order if (place := models[m].get("place"))]
    if not order:
        return "no model was ranked"
    if placed:
        (first, place), more = placed[0], len(placed) - 1
        best, worst = place["rank_interval"]
        ranks = f" ({best} to {worst})" if best < worst else ""
        return (
            f"{visible_name(first)} has rank {place['rank']:,} of {place['models']:,}{ranks}"
            + f"; {more} more below" * bool(more)
        )
    if len(order) == 1:
        low, high = models[order[0]]["interval"]
        only = ", the only model left" * (len(models) > 1)
        return f"{visible_name(order[0])}{only} scores {low:.4g} to {high:.4g}"
    level = f"at {100 * content['confidence']:g}%"
    may = [m for m in order if (models[m].get("rank_range") or [1])[0] == 1]
    if len(may) == 1:
        if len(line) <= LINE:
            return f"{line}, each {level}"
        return f"{visible_name(may[0])} is the best of {len(order):,} models {level}"
    leaders = set(may)
    pairs = content.get("pairwise", ())
    if {p.get("decision") for p in pairs if {p["a"], p["b"]} <= leaders} == {WORDS[EQUIVALENT]}:
        names = " and ".join(map(visible_name, may)) if len(may) == 2 else f"{len(may)} models"
        return f"{names} are equivalent {level}" + (", the best" * (len(may) < len(order)))
    likely = max(may, key=lambda m: models[m].get("p_best") or 0.0)
    leader, chance = visible_name(likely), models[likely].get("p_best")
    sure = "" if chance is None else f" ({min(max(100 * chance, 1), 99):.0f}%)"
    if chance is None or chance <= 0.5:
        return f"{leader} leads{sure}; {len(may)} of {len(order)} may be the best"
    if len(order) == 2:
        other = next(visible_name(m) for m in order if visible_name(m) != leader)
        return f"{leader} is probably better than {other}{sure}"
    return f"{leader} is probably the best{sure}; {len(may)} of {len(order)} may be"


def order_in_words(
    order: Sequence[str],
    ties: Sequence[Sequence[str]],
    separated: Sequence[tuple[str, str]] = (),
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> str:
    """Write the order as one line, quoting any name that could be mistaken for part of it.

    Parameters
    ----------
    order : sequence of str
        Models, best first.
    ties : sequence of sequence of str
        Runs of models whose neighbours are not separated.
    separated : sequence of (str, str), optional
        Pairs within these runs that are decided all the same, which makes their run a chain.
    ranges : mapping of str to (int, int), optional
        Best and worst rank of each model, shown after the names of a chain.

    Examples
    --------
    >>> order_in_words(["B", "A", "C", "D", "E"], [("C", "D")])
    'B > A > {C, D} > E'
    >>> ranges = {"A": (1, 2), "B": (1, 3), "C": (2, 3)}
    >>> order_in_words(["A", "B", "C"], [("A", "B", "C")], [("A", "C")], ranges)
    'A (1 to 2) >~ B (1 to 3) >~ C (2 to 3)'
    """

    def shown(model: str, chained: bool) -> str:
        best, worst = (ranges or {}).get(model, (0, 0))
        return visible_name(model) + f" ({best} to {worst})" * (chained and best < worst)

    line = ""
    for part in order_parts(order, ties, separated):
        names = ", ".join(shown(m, part.chained) for m in part.models)
        line += part.joint + (f"{{{names}}}" if len(part.models) > 1 else names)
    return line


class OrderPart(NamedTuple):
    """A part of the order: models that share a place, and the sign that joins it to the last."""

    joint: str
    models: tuple[str, ...]
    chained: bool = False


def order_parts(
    order: Sequence[str],
    ties: Iterable[Sequence[str]],
    separated: Iterable[Sequence[str]] = (),
) -> Iterator[OrderPart]:
    """Yield the parts of the order (see `order_in_words`), one for each model of a chain."""
    group_of = {m: tuple(g) for g in ties for m in g}
    chained = {group_of[a] for a, _ in separated if a in group_of}
    joint = ""
    for group in dict.fromkeys(group_of.get(m, (m,)) for m in order):
        if group in chained:
            for n, model in enumerate(group):
                yield OrderPart(" >~ " if n else joint, (model,), True)
        else:
            yield OrderPart(joint, group)
        joint = " > "


COLUMNS = (
    "rank", "model", "estimate", "standard_error", "low", "high", "best_rank", "worst_rank",
    "p_best", "items", "cost", "note",
)  # fmt: skip


def ranking_grid(content: RankingContent, title: str) -> ShownTable:
    """Build a table with one row per model, best first; models set aside come last.

    Parameters
    ----------
    content : mapping
        As `Ranking.to_dict` and ``result.json`` have it, figures on the metric's own scale.
    title : str
    """
    models = content["models"]
    order = [*content["order"], *(m for m in models if m not in content["order"])]
    rows = []
    for name in order:
        block = models[name]
        ranks = block.get("rank_range") or (None, None)
        seen = block["known"] or block["n_items"] > 0
        figures = [block["estimate"], block["standard_error"], *block["interval"]]
        aside = block.get("set_aside")
        note = f"set aside: {aside}" if aside else "full results" if block["known"] else ""
        rows.append(
            [
                block["rank"], name, *(figures if seen else [None] * 4), *ranks,
                block.get("p_best"), block["n_items"], block["cost"], note,
            ]
        )  # fmt: skip
    if not any(row[-1] for row in rows):
        rows = [row[:-1] for row in rows]
    stopped = content["stopped_because"] or "not finished"
    notes = (f"stopped: {stopped}", *content.get("warnings", ()), content["signature"])
    return ShownTable(title, COLUMNS[: len(rows[0])] if rows else COLUMNS, rows, notes)
