"""The rows of a result as formatted cells, for the terminal, the page and the charts.

Functions take the content of `Ranking.to_dict` or ``result.json``, with figures on the metric's
own scale.
"""

from __future__ import annotations

import datetime
import json
from typing import NamedTuple

from ..content import OpenPairContent, RankingContent
from ..ranker.columns import ModelCells, model_cells
from ..ranker.headline import number_format, order_parts
from ..ranker.verdicts import ALL_PAIRS
from .chart import Axis, between

#: Largest number of models in the order at the head of the page.
MAX_NAMES = 16


# -- the order --------------------------------------------------------------------------------


class Link(NamedTuple):
    """A part of the order on the page: the sign that joins it to the last, models and ranks."""

    joint: str
    names: list[str]
    ranks: str


def chain(result: RankingContent, max_names: int = MAX_NAMES) -> list[Link]:
    """Return the order as the page prints it.

    Models that are all open to each other or equivalent share a part. Neighbours that are open in a
    row, while some pair among them is decided, have a part each, after ``>~`` and with their ranks.
    """
    parts: list[Link] = []
    apart = result.get("separated_within_ties", ())
    for part in order_parts(result["order"], result["ties"], apart):
        # A sentence of a hundred names is none; the table has them all.
        if max_names <= 0:
            break
        best, worst = result["models"][part.models[0]].get("rank_range") or (0, 0)
        ranks = f"({best} to {worst})" if part.chained and best < worst else ""
        names = list(part.models[:max_names])
        parts.append(Link(part.joint.strip() or ">", names, ranks))
        max_names -= len(names)
    return parts


class RankRows(NamedTuple):
    """The models whose ranks are drawn, and the axis of ranks."""

    cells: list[ModelCells]
    axis: Axis


def rank_rows(result: RankingContent) -> RankRows | None:
    """Return every model that was asked, and an axis on which rank r covers r - 1 to r.

    None for a single model, or if no rank ranges are known.
    """
    cells = [cell for cell in model_cells(result) if cell.best and cell.rank and not cell.known]
    size = max([len(result["order"]), *(cell.worst for cell in cells)], default=0)
    if not cells or size < 2:
        return None
    # A mark right before the last one would overlap it.
    round_ranks = (
        round(tick) for tick in between(1, size, n_ticks=8).ticks if 1 < tick < 0.94 * size
    )
    marks = sorted({1, size, *round_ranks})
    labels = tuple(f"{mark:,}" for mark in marks)
    return RankRows(cells, Axis(0, size, tuple(mark - 0.5 for mark in marks), labels))


# -- pairs ------------------------------------------------------------------------------------


class PairCounts(NamedTuple):
    """Numbers of pairs with a tested model, and of those that are neighbours."""

    pairs: int
    decided: int
    equivalent: int
    neighbours: int
    decided_neighbours: int


def count_pairs(result: RankingContent) -> PairCounts:
    """Count the pairs with a tested model.

    Beyond `ALL_PAIRS` models a result does not list the decided pairs of a tested and a known model
    that are no neighbours. They count here all the same.
    """
    position = {model: i for i, model in enumerate(result["order"])}
    known = {model for model, row in result["models"].items() if row.get("known")}
    pairs = [pair for pair in result["pairwise"] if not known.issuperset((pair["a"], pair["b"]))]
    neighbours = [pair for pair in pairs if position[pair["b"]] - position[pair["a"]] == 1]
    n_left_out = 0
    if len(position) > ALL_PAIRS:
        n_tested = len(position.keys() - known)
        n_known = len(position) - n_tested
        n_left_out = n_tested * (n_tested - 1) // 2 + n_tested * n_known - len(pairs)
    return PairCounts(
        pairs=len(pairs) + n_left_out,
        decided=sum(pair.get("decision") == "decided" for pair in pairs) + n_left_out,
        equivalent=sum(pair.get("decision") == "equivalent" for pair in pairs),
        neighbours=len(neighbours),
        decided_neighbours=sum(pair.get("decision") == "decided" for pair in neighbours),
    )


def beyond_these_items(result: RankingContent) -> str | None:
    """Say how many decided pairs also hold for other items like these, if that was tested."""
    holds = [
        pair["population"]
        for pair in result["pairwise"]
        if pair.get("decision") == "decided" and "population" in pair
    ]
    if not holds:
        return None
    n, n_holding = len(holds), sum(holds)
    # The good news is said without numbers.
    if n_holding == n:
        what = "decided pair holds" if n == 1 else "decided pairs hold"
        return f"The {what} for other items like these as well."
    does = "does" if n - n_holding == 1 else "do"
    which = "the decided pair" if n == 1 else f"{n - n_holding:,} of the {n:,} decided pairs"
    question = "a new run with --question population asks about those"
    return f"For other items like these, {which} {does} not hold yet; {question}."


class Outlook(NamedTuple):
    """What would decide the open neighbours.

    Attributes
    ----------
    pairs : list of OpenPairContent
        The cheapest first.
    out_of_reach : int
        Number of these pairs that not even all answers that remain would decide.
    answers : int
        Answers that would decide all of them: a model's further items serve all of its pairs.
    cost : float or None
        Their cost in dollars; None if costs are counted in items or tokens.
    """

    pairs: list[OpenPairContent]
    out_of_reach: int
    answers: int
    cost: float | None


def outlook(result: RankingContent, currency: str) -> Outlook | None:
    """Return what would decide the open neighbours, and its cost; None if none is open.

    Parameters
    ----------
    result : mapping
    currency : str
        What costs are counted in: "usd", "tokens" or "items".
    """
    if not (pairs := result.get("open_pairs")):
        return None
    answers_needed: dict[str, int] = {}
    for pair in pairs:
        for model, n in pair["items"].items():
            # A model's answers serve both of its neighbours.
            answers_needed[model] = max(n, answers_needed.get(model, 0))
    spent = {model: result["models"][model] for model in answers_needed}
    cost = sum(
        answers_needed[model] * row["cost"] / row["n_items"]
        for model, row in spent.items()
        if row["n_items"]
    )
    out_of_reach = sum(pair.get("out_of_reach", False) for pair in pairs)
    answers = sum(answers_needed.values())
    return Outlook(pairs, out_of_reach, answers, cost if currency == "usd" else None)


# -- parts ------------------------------------------------------------------------------------


class PartCell(NamedTuple):
    """A model in one part: texts, and the estimate itself."""

    estimate: str
    error: str
    rank: str
    value: float


class PartColumn(NamedTuple):
    """A part of a result: its kind ("metric" or "task"), name, weight as a text and order by it.

    `cells` are those of models by name; a model that was not asked has none.
    """

    kind: str
    name: str
    weight: str
    ranking: str
    cells: dict[str, PartCell]


def parts(result: RankingContent) -> list[PartColumn]:
    """Return a column for each metric and each task; none for one metric of one task."""
    kinds = (
        ("task", result.get("tasks")),
        ("metric", result.get("outcomes")),
        ("metric", result.get("further")),
    )
    weights, columns = result.get("weights") or {}, []
    for kind, blocks in kinds:
        for name, block in (blocks or {}).items():
            formatted = number_format(block)
            cells = {
                model: PartCell(
                    formatted(row["estimate"]),
                    formatted(row["standard_error"]),
                    str(row["rank"] or ""),
                    row["estimate"],
                )
                for model, row in block["models"].items()
                if row["n_items"]
            }
            weight = f"{block.get('weight', weights.get(name, 0.0)):.3g}"
            columns.append(PartColumn(kind, name, weight, block["ranking"], cells))
    return columns


# -- numbers as the page writes them --------------------------------------------------------------

# In JSON inside a <script>, these could end the element, open a comment or an entity.
_SCRIPT_ENDING = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def one_look(result: RankingContent) -> str | None:
    """Explain why a pair that one look would decide is still open; None if there is none."""
    if not any(pair.get("one_look") for pair in result.get("open_pairs") or ()):
        return None
    return (
        "These percentages hold for one look. Because results are checked repeatedly, a pair needs "
        "stronger evidence to be decided."
    )


def duration(seconds: float) -> str:
    """Format a duration in words.

    Examples
    --------
    >>> duration(42), duration(3700)
    ('42 s', '1 h 2 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def percent(part: float, total: float) -> str:
    """Format a share in per cent, with one decimal if it is small."""
    if not total:
        return "0%"
    share = 100 * part / total
    return f"{share:.1f}%" if share < 10 else f"{share:.0f}%"


def date(when: float | None) -> str | None:
    """Format a time, in seconds of the epoch, in UTC."""
    if when is None:
        return None
    moment = datetime.datetime.fromtimestamp(when, tz=datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def plain(value: object) -> str:
    """Format a JSON value as a short text."""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:297] + "..."


def script_json(value: object) -> str:
    r"""Write JSON that is safe inside a ``<script>`` element, whatever texts it holds.

    The output is ASCII, without characters that HTML could read as markup.

    Examples
    --------
    >>> script_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    # NaN is no JSON, and a page that a browser cannot parse is empty.
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_SCRIPT_ENDING)
