"""The rows of a ranking as cells: terminal, page and figures print these and format no figure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from ..content import RankingContent
from .axes import decimals_for
from .words import probability, whole_percent


@dataclass(frozen=True)
class ModelCells:
    """One model of a ranking; texts are "" where there is nothing to tell.

    Attributes
    ----------
    name : str
    rank : int or None
        1 is best; None for a model that was set aside.
    tie : int or None
        Number of the group of neighbours that are not decided.
    value, low_value, high_value, error_value : float
        Estimate, ends of its interval and standard error, on the metric's own scale.
    estimate, low, high, error : str
        The same with the decimals that the errors bear.
    best, worst : int
        Ranks that the decided pairs leave possible; 0 where they are not known.
    ranks, chance : str
        These in words ("1 to 3"), and the probability of being the best.
    p_best : float or None
    items : int
    cost : float
    next : float or None
        Probability of being better than the next of the order.
    over_next : str
    decided : bool
        Whether the next is decidedly worse.
    known : bool
        Whether full results were given.
    set_aside : str or None
    """

    name: str
    rank: int | None
    tie: int | None
    value: float
    low_value: float
    high_value: float
    error_value: float
    estimate: str
    low: str
    high: str
    error: str
    best: int
    worst: int
    ranks: str
    chance: str
    p_best: float | None
    items: int
    cost: float
    next: float | None
    over_next: str
    decided: bool
    known: bool
    set_aside: str | None

    @property
    def seen(self) -> bool:
        """Whether anything is known of the model."""
        return self.known or self.items > 0


def model_cells(content: RankingContent) -> list[ModelCells]:
    """Every model of a ranking, best first; those set aside come last.

    Parameters
    ----------
    content : mapping
        As `Ranking.to_dict` and ``result.json`` have it, figures on the metric's own scale.
    """
    models, order = content["models"], list(content["order"])
    number = numbers(content)
    tie_of = {m: n for n, group in enumerate(content["ties"]) for m in group}
    after = dict(pairwise(order))
    sure = {p["a"]: p["p"] for p in content["pairwise"] if after.get(p["a"]) == p["b"]}
    cells = []
    for name in [*order, *(m for m in models if m not in after and m not in order[-1:])]:
        one = models[name]
        low, high = one["interval"]
        best, worst = one.get("rank_range") or (0, 0)
        chance, following = one.get("p_best"), after.get(name, "")
        over = sure.get(name)
        cells.append(
            ModelCells(
                name=name,
                rank=one["rank"],
                tie=tie_of.get(name),
                value=one["estimate"],
                low_value=low,
                high_value=high,
                error_value=one.get("standard_error", 0.0),
                estimate=number(one["estimate"]),
                low=number(low),
                high=number(high),
                error=number(one.get("standard_error", 0.0)),
                best=best,
                worst=worst,
                ranks=f"{best} to {worst}" if best < worst else f"{best or ''}",
                chance="" if chance is None else f"{whole_percent(chance)}%",
                p_best=chance,
                items=one["n_items"],
                cost=one["cost"],
                next=over,
                over_next="" if over is None else probability(over),
                decided=over is not None and tie_of.get(name, -1) != tie_of.get(following, -2),
                known=bool(one.get("known")),
                set_aside=one.get("set_aside"),
            )
        )
    return cells


def numbers(content: RankingContent) -> Any:
    """``value -> text`` with the decimals that the median standard error bears."""
    asked = [m for m in content["models"].values() if m["n_items"]] or content["models"].values()
    decimals = decimals_for(median([m.get("standard_error", 0.0) for m in asked] or [0.0]))
    return lambda value: f"{value:.{decimals}f}"
