"""A ranking in one sentence, from its JSON values: who is best, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

from ..content import RankingContent
from ..visible import visible_name

#: Letters up to which the order itself is the sentence.
LINE = 72


def headline(content: RankingContent) -> str:
    """What a ranking found, in one sentence that fits a line.

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
    if said := _no_ranking(content):
        return said
    if not any(block["n_items"] for block in content["models"].values()):
        return "nothing is ranked: no model has answered"
    return f"{_finding(content)}, using {_share(content)} of the items"


def _no_ranking(content: RankingContent) -> str:
    """The sentence for several models of which at most one was asked."""
    models = content["models"]
    aside = [one["set_aside"] for one in models.values() if one.get("set_aside")]
    unseen = [one for one in models.values() if not (one.get("known") or one["n_items"])]
    if not aside or len(models) - len(unseen) > 1 or len(models) < 2:
        return ""
    loaded = all(str(why).startswith("cannot be loaded") for why in aside)
    return (
        f"No ranking: {len(aside)} of {len(models)} models could not be "
        f"{'loaded' if loaded else 'asked'}"
    )


def question(content: RankingContent) -> str:
    """The quantity that the order sorts by, in words.

    Examples
    --------
    >>> question({"items_of_benchmark": 800, "question": "benchmark"})
    'order of full runs of these 800 items'
    """
    items = f"these {content['items_of_benchmark']:,}"
    if content.get("question") == "population":
        return f"order on items like {items}"
    return f"order of full runs of {items} items"


def held(looks: str | None, confidence: float) -> str:
    """At which looks the intervals hold, in a sentence; empty where nothing states it.

    Examples
    --------
    >>> held("one", 0.95)
    'The 95% intervals hold for one look, at a number of items fixed in advance.'
    """
    when = {
        "one": "hold for one look, at a number of items fixed in advance",
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
        (low, high), only = (
            models[order[0]]["interval"],
            ", the only model left" * (len(models) > 1),
        )
        return f"{visible_name(order[0])}{only} scores {low:.4g} to {high:.4g}"
    level = f"at {100 * content['confidence']:g}%"
    may = [m for m in order if (models[m].get("rank_range") or [1])[0] == 1]
    if len(may) == 1:
        if len(line) <= LINE:
            return f"{line}, each {level}"
        return f"{visible_name(may[0])} is the best of {len(order):,} models {level}"
    if _equivalent(content, may):
        names = " and ".join(map(visible_name, may)) if len(may) == 2 else f"{len(may)} models"
        return f"{names} are equivalent {level}" + (", the best" * (len(may) < len(order)))
    leader = max(may, key=lambda m: models[m].get("p_best") or 0.0)
    return _lead(visible_name(leader), models[leader].get("p_best"), may, order)


def _lead(leader: str, chance: float | None, may: Sequence[str], order: Sequence[str]) -> str:
    sure = "" if chance is None else f" ({min(max(100 * chance, 1), 99):.0f}%)"
    if chance is None or chance <= 0.5:
        return f"{leader} leads{sure}; {len(may)} of {len(order)} may be the best"
    if len(order) == 2:
        other = next(visible_name(m) for m in order if visible_name(m) != leader)
        return f"{leader} is probably better than {other}{sure}"
    return f"{leader} is probably the best{sure}; {len(may)} of {len(order)} may be"


def _equivalent(content: RankingContent, names: Sequence[str]) -> bool:
    """Whether these models surely differ by less than the smallest difference that matters."""
    among = set(names)
    found = [
        pair.get("decision")
        for pair in content.get("pairwise", ())
        if pair["a"] in among and pair["b"] in among
    ]
    return bool(found) and all(decision == "equivalent" for decision in found)


def _share(content: RankingContent) -> str:
    asked = [block for block in content["models"].values() if not block.get("known")]
    every = content["items_of_benchmark"] * len(asked)
    share = 100.0 * sum(block["n_items"] for block in asked) / every if every else 0.0
    return f"{share:.1f}%" if share < 10 else f"{share:.0f}%"
