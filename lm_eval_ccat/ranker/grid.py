"""The table of a ranking, from its JSON values."""

from __future__ import annotations

from ..content import RankingContent
from ..shown import Grid

COLUMNS = (
    "rank", "model", "estimate", "standard_error", "low", "high", "best_rank", "worst_rank",
    "p_best", "items", "cost", "note",
)  # fmt: skip


def ranking_grid(content: RankingContent, title: str) -> Grid:
    """One row per model, best first; models set aside come last.

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
    return Grid(title, COLUMNS[: len(rows[0])] if rows else COLUMNS, rows, notes)
