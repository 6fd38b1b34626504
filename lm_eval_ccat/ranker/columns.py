"""The table of models: what is known of each, and the columns, each declared once.

Terminal, page, Markdown and data frames show the same `COLUMNS`: a column is one entry of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

from ..content import ModelContent, RankingContent
from ..metrics.scale import Scale
from ..money import dollars
from ..shown import ShownTable, exact_percent, plural, whole_percent
from .headline import Lead, leads_of_next, number_format

#: Where a column may stand; Markdown and data frames are the grid.
TERMINAL, PAGE, GRID = "terminal", "page", "grid"


@dataclass(frozen=True)
class ModelCells:
    """One model of a ranking; texts are "" if there is nothing to show.

    Attributes
    ----------
    name : str
    row : dict
        The model's block in the result.
    rank : int or None
        1 is best; None for a model that was set aside.
    tie : int or None
        Number of its group among the ``ties`` of the result; None if it is in none.
    estimate, low, high, error : str
        Estimate, ends of its interval and standard error, with decimals to match the errors.
    best, worst : int
        Ranks that the decided pairs leave possible; 0 where they are not known.
    lead : Lead or None
        By how much the model leads the next one in the order; None of the last model.
    decided : bool
        Whether the next model is decided to be worse.
    waiting : int or None
        Asks of the model without an answer; None if the ranking is over.
    """

    name: str
    row: ModelContent
    rank: int | None
    tie: int | None
    estimate: str
    low: str
    high: str
    error: str
    best: int
    worst: int
    lead: Lead | None
    decided: bool
    waiting: int | None = None

    @property
    def known(self) -> bool:
        """Whether full results were given."""
        return bool(self.row.get("known"))

    @property
    def has_results(self) -> bool:
        """Whether the model was asked anything or has full results."""
        return self.known or self.row["n_items"] > 0

    @property
    def guessed(self) -> bool:
        """Whether its tokens, and so its cost, are estimated from the length of the texts."""
        return bool(self.row.get("tokens", {}).get("estimated"))

    @property
    def ranks(self) -> str:
        """The ranks that are possible, in words ("1 to 3")."""
        return f"{self.best} to {self.worst}" if self.best < self.worst else f"{self.best or ''}"

    @property
    def chance(self) -> str:
        """The probability of being the best."""
        chance = self.row.get("p_best")
        return "" if chance is None else f"{whole_percent(chance)}%"

    @property
    def asked_beyond(self) -> str:
        """How many answers were asked and paid, if these are more than count; else ""."""
        asked = self.row.get("asked", 0)
        # While a ranking runs, a column of its own has what is under way.
        unused = self.waiting is None and asked > self.row["n_items"]
        return f" of {asked} asked" if unused else ""

    @property
    def note(self) -> str:
        """Why the model was not asked, or not any more."""
        aside = self.row.get("set_aside")
        return f"set aside: {aside}" if aside else "full results" if self.known else ""


def model_cells(
    content: RankingContent, waiting: Mapping[str, int] | None = None
) -> list[ModelCells]:
    """Return every model of a ranking, best first; those set aside come last.

    `waiting` has the number of unanswered items of each model of a running ranking.
    """
    models, order = content["models"], list(content["order"])
    formatted = number_format(content)
    tie_of = {model: position for position, group in enumerate(content["ties"]) for model in group}
    lead_of = leads_of_next(content)
    neighbours = {*pairwise(order)}
    beats_next = {
        pair["a"]: pair["decision"] == "decided"
        for pair in content["pairwise"]
        if (pair["a"], pair["b"]) in neighbours
    }
    cells = []
    # Models that were set aside stand in no order, but readers look for them.
    for name in dict.fromkeys([*order, *models]):
        row, lead = models[name], lead_of.get(name)
        low, high = row["interval"]
        best, worst = row.get("rank_range") or (0, 0)
        cells.append(
            ModelCells(
                name,
                row,
                row["rank"],
                tie_of.get(name),
                estimate=formatted(row["estimate"]),
                low=formatted(low),
                high=formatted(high),
                error=formatted(row.get("standard_error", 0.0)),
                best=best,
                worst=worst,
                lead=lead,
                decided=beats_next.get(name, False),
                waiting=None if waiting is None else waiting.get(name, 0),
            )
        )
    return cells


def paid(model: ModelContent) -> float:
    """Return what a model cost in dollars: all its attempts, not only the answers that count."""
    usd = model.get("usd")
    return model["cost"] if usd is None else usd


# -- the columns -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the table of models.

    Attributes
    ----------
    name : str
        Its name in Markdown and data frames, and its class on the page.
    value : callable
        Number or text of a model, unrounded; the page sorts by numbers. None where there is none.
    text : callable, optional
        The same for readers; default: the value.
    title : str
        Its heading in the terminal and on the page; default: its name. ``{confidence}`` stands for
        the confidence of intervals, ``{asked}`` for what models are asked: items, or answers if
        these repeat.
    places : str
        Where it stands: ``terminal``, ``page``, ``grid`` (Markdown and data frames).
    applies : callable, optional
        Whether the terminal and the page show it for a result with these models.
    drop_order : int
        When a narrow terminal leaves it out: the largest number first, 0 never.
    left_aligned : bool
    beside : callable, optional
        What the page adds to its text in small letters.
    bold : callable, optional
        Whether the page prints it in bold.
    """

    name: str
    value: Callable[[ModelCells], Any] = lambda model: None
    text: Callable[[ModelCells], str] | None = None
    title: str = ""
    places: str = f"{TERMINAL} {PAGE} {GRID}"
    applies: Callable[[RankingContent, Sequence[ModelCells]], bool] = lambda content, models: True
    drop_order: int = 1
    left_aligned: bool = False
    beside: Callable[[ModelCells], str] = lambda model: ""
    bold: Callable[[ModelCells], bool] = lambda model: False

    def heading(self, content: RankingContent) -> str:
        """Return its heading for a result."""
        confidence = exact_percent(content["confidence"])
        title = self.title or self.name.replace("_", " ")
        return title.format(confidence=confidence, asked=what_is_asked(content))

    def cell(self, model: ModelCells) -> str:
        """Return its text for a model; "" if there is none."""
        if self.text is not None:
            return self.text(model)
        value = self.value(model)
        return "" if value is None else str(value)

    def sorts(self, model: ModelCells) -> float:
        """Return the number by which the page sorts; what has none comes last."""
        value = self.value(model)
        return float(value) if isinstance(value, Real) else -1e300


def what_is_asked(content: RankingContent) -> str:
    """Return "answers" where items have several, else "items"."""
    return "answers" if "answers_of_benchmark" in content else "items"


COLUMNS = (
    Column(name="rank", value=lambda model: model.rank, places=GRID),
    Column(name="model", value=lambda model: model.name, places=GRID),
    Column(
        name="estimate",
        value=lambda model: model.row["estimate"] if model.has_results else None,
        text=lambda model: model.estimate if model.has_results else "-",
        beside=lambda model: "full results" if model.known else f"{model.low} to {model.high}",
        drop_order=0,
    ),
    Column(
        name="standard_error",
        value=lambda model: model.row.get("standard_error", 0.0) if model.has_results else None,
        text=lambda model: "" if model.known else model.error,
        title="±\u2009SE",
        places=f"{PAGE} {GRID}",
    ),
    Column(
        name="interval",
        text=lambda model: f"{model.low} to {model.high}" if model.has_results else "-",
        title="{confidence} interval",
        places=TERMINAL,
        drop_order=0,
        left_aligned=True,
    ),
    Column(
        name="low",
        value=lambda model: model.row["interval"][0] if model.has_results else None,
        places=GRID,
    ),
    Column(
        name="high",
        value=lambda model: model.row["interval"][1] if model.has_results else None,
        places=GRID,
    ),
    Column(
        name="lead",
        value=lambda model: model.lead and model.lead.difference,
        text=lambda model: "" if model.lead is None else model.lead.in_words(),
        title="leads next by",
        applies=lambda content, models: any(model.lead for model in models),
        left_aligned=True,
        bold=lambda model: model.decided,
    ),
    Column(name="lead_low", value=lambda model: model.lead and model.lead.low, places=GRID),
    Column(name="lead_high", value=lambda model: model.lead and model.lead.high, places=GRID),
    Column(
        name="ranks",
        text=lambda model: model.ranks,
        places=TERMINAL,
        applies=lambda content, models: any(model.best < model.worst for model in models),
        drop_order=2,
    ),
    Column(name="best_rank", value=lambda model: model.best or None, places=GRID),
    Column(name="worst_rank", value=lambda model: model.worst or None, places=GRID),
    Column(
        name="p_best",
        value=lambda model: model.row.get("p_best"),
        text=lambda model: model.chance,
        title="best",
        places=f"{TERMINAL} {GRID}",
        applies=lambda content, models: any(model.best < model.worst for model in models),
        drop_order=4,
    ),
    Column(
        name="items",
        value=lambda model: model.row["n_items"],
        text=lambda model: (
            "known" if model.known else f"{model.row['n_items']}{model.asked_beyond}"
        ),
        title="{asked}",
        drop_order=3,
    ),
    Column(
        name="items_asked",
        value=lambda model: model.row.get("asked"),
        places=GRID,
        applies=lambda content, models: any(model.asked_beyond for model in models),
    ),
    Column(
        name="scatter",
        value=lambda model: model.row.get("scatter"),
        places=GRID,
        applies=lambda content, models: any("scatter" in model.row for model in models),
    ),
    Column(
        name="pass_at_k",
        value=lambda model: model.row["pass_at"]["estimate"] if "pass_at" in model.row else None,
        places=GRID,
        applies=lambda content, models: any("pass_at" in model.row for model in models),
    ),
    Column(
        name="k",
        value=lambda model: model.row["pass_at"]["k"] if "pass_at" in model.row else None,
        places=GRID,
        applies=lambda content, models: any("pass_at" in model.row for model in models),
    ),
    Column(
        name="asked",
        text=lambda model: str(model.waiting or ""),
        places=TERMINAL,
        applies=lambda content, models: any(model.waiting is not None for model in models),
        drop_order=3,
    ),
    Column(
        name="cost",
        value=lambda model: model.row["cost"],
        text=lambda model: dollars(paid(model.row)) + "~" * model.guessed,
        places=f"{TERMINAL} {GRID}",
        applies=lambda content, models: content.get("cost_unit") == "usd",
        drop_order=5,
    ),
    Column(
        name="tokens",
        value=lambda model: model.row["cost"],
        text=lambda model: f"{model.row['cost']:,.0f}" + "~" * model.guessed,
        places=TERMINAL,  # a data frame has them as the cost
        applies=lambda content, models: content.get("cost_unit") == "tokens",
        drop_order=5,
    ),
    Column(name="note", value=lambda model: model.note, places=GRID),
)


def columns_of(place: str, content: RankingContent, models: Sequence[ModelCells]) -> list[Column]:
    """Return the columns that stand in a place for a result."""
    return [
        column
        for column in COLUMNS
        if place in column.places.split() and column.applies(content, models)
    ]


def ranking_grid(content: RankingContent, title: str) -> ShownTable:
    """Build a table with one row per model, best first; models set aside come last.

    ``lead`` is by how much a model leads the next one. A column of empty texts is left out.

    Parameters
    ----------
    content : mapping
        As `Ranking.to_dict` and ``result.json`` have it, figures on the metric's own scale.
    title : str
    """
    models = model_cells(content)
    values = {
        what_is_asked(content) if column.name == "items" else column.name: [
            column.value(model) for model in models
        ]
        # A column that only the grid has must apply; one that other tables have, too, always stays.
        for column in COLUMNS
        if GRID in column.places.split()
        and (column.places != GRID or column.applies(content, models))
    }
    # A text column that is empty for all models would only widen the table.
    filled = {name: column for name, column in values.items() if set(column) != {""}}
    stopped = content["stopped_because"] or "not finished"
    scale = Scale.from_dict(content["scale"]).describe()
    unit, asked = content.get("cost_unit"), what_is_asked(content).removesuffix("s")
    failed = (
        f"{model.name} failed on {plural(len(failures), asked)}, not seen and not scored as 0"
        for model in models
        if (failures := model.row.get("failed"))
    )
    notes = (
        f"scale: {scale}", *([f"cost: in {unit}"] if unit else ()), f"stopped: {stopped}", *failed,
        *content.get("warnings", ()), content["signature"],
    )  # fmt: skip
    return ShownTable(title, tuple(filled), [list(row) for row in zip(*filled.values())], notes)
