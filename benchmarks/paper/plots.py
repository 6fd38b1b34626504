"""The plots of the tables; they need matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .tables import NO_SCORES, PRINTED, Table

# Distinguishable in grey and to the colour-blind: line style and marker differ as well.
_STYLES = {
    PRINTED: ("#56B4E9", "-", "D"),
    "default": ("#0072B2", "-", "o"),
    "paper": ("#D55E00", "-", "s"),
    "common": ("#009E73", "--", "^"),
    "random": ("#666666", ":", "v"),
    "limit": ("#CC79A7", "-.", "+"),
    "static": ("#E69F00", "--", "x"),
}


def draw(
    tables: Sequence[Table],
    measured: Mapping[str, Mapping[str, Any]],
    methods: Sequence[str],
    folder: Path,
) -> list[str]:
    """Draw a plot for every table that has rows; return the names of the tables drawn.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    import matplotlib

    matplotlib.use("Agg")
    by_name = {table.name: table for table in tables if table.rows}
    drawn = []
    for name, plot in _PLOTS.items():
        if name not in by_name:
            continue
        figure = plot(by_name[name], measured, methods)
        figure.savefig(folder / f"{name}.png", dpi=100, bbox_inches="tight")
        figure.clear()
        drawn.append(name)
    return drawn


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, np.atleast_1d(figure.subplots(1, columns))


def _records(table: Table) -> list[dict[str, Any]]:
    """Rows by column, those of single score tables only, each with a label of its place."""
    rows = [dict(zip(table.columns, row)) for row in table.rows]
    return [
        {
            **r,
            "figures": PRINTED if r["figures"] == NO_SCORES else r["figures"],
            "place": f"{r['table']} {r['metric']}",
        }
        for r in rows
        if r["metric"]
    ]


def _dots(
    table: Table,
    panels: Mapping[str, Mapping[str, tuple[str, str | None]]],
) -> Any:
    """A row per score table; in each panel a dot per series.

    ``panels``: for each axis label the series, by the column and the rows (by whose figures they
    are, all if None) that they are taken from.
    """
    rows = _records(table)
    places = list(dict.fromkeys(r["place"] for r in rows))
    figure, axes = _figure(3.2 * len(panels) + 3.0, 1.5 + 0.22 * len(places), len(panels))
    for (label, series), panel in zip(panels.items(), axes):
        for name, (column, whose) in series.items():
            own = [r for r in rows if whose in (None, r["figures"]) and r[column] is not None]
            colour, _, marker = _STYLES.get(name, ("black", "-", "."))
            if own:
                panel.plot(
                    [r[column] for r in own],
                    [places.index(r["place"]) for r in own],
                    marker,
                    color=colour,
                    label=name,
                    alpha=0.85,
                )
        panel.set_yticks(range(len(places)), places if panel is axes[0] else [])
        panel.set_ylim(len(places) - 0.5, -0.5)
        panel.set_xlabel(label)
        panel.grid(alpha=0.3)
    axes[-1].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _each(*columns: str) -> Any:
    """Panels of one column each, a series per method beside what is printed."""

    def plot(table: Table, measured: Any, methods: Sequence[str]) -> Any:
        return _dots(table, {c: {m: (c, m) for m in (PRINTED, *methods)} for c in columns})

    return plot


def _against_baselines(*baselines: str) -> Any:
    def plot(table: Table, measured: Any, methods: Sequence[str]) -> Any:
        series: dict[str, tuple[str, str | None]] = {m: ("tau", m) for m in (PRINTED, *methods)}
        return _dots(
            table, {"Kendall's tau": {**series, **{b: (b, methods[0]) for b in baselines}}}
        )

    return plot


def _information(table: Table, measured: Any, methods: Sequence[str]) -> Any:
    return _dots(
        table,
        {
            "Kendall's tau": {c: (c, "paper") for c in ("tau first", "tau full")},
            "share": {c: (c, "paper") for c in ("same ranking", "overlap")},
        },
    )


def _sweep(table: Table, measured: Any, methods: Sequence[str]) -> Any:
    """Mean over tables against the budget: tau, and precision and recall of ties."""
    figure, axes = _figure(11, 3.6, 3)
    rows = [dict(zip(table.columns, row)) for row in table.rows]
    for panel, column in zip(axes, ("tau", "precision", "recall")):
        for method in (*methods, "random"):
            points = sorted(
                (r["budget"], r[column])
                for r in rows
                if r["table"] == "mean" and r["figures"] == method and r[column] is not None
            )
            if points:
                colour, line, marker = _STYLES.get(method, ("black", "-", "."))
                panel.plot(*zip(*points), line, marker=marker, color=colour, label=method)
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter("{x:.0f}")
        panel.set_xlabel("budget, items per model")
        panel.set_ylabel(f"{column}, mean over tables")
        panel.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    return figure


def _conformance(table: Table, measured: Any, methods: Sequence[str]) -> Any:
    """Observed against predicted variance, a point per bin and table."""
    from matplotlib.ticker import NullFormatter

    figure, axes = _figure(4.6 * len(methods), 4.2, len(methods))
    for method, panel in zip(methods, axes):
        seen: list[float] = []
        for entry in measured.values():
            bins = entry.get("conformance", {}).get(method, {}).get("bins", ())
            pairs = [(b["predicted"], b["observed"]) for b in bins]
            pairs = [p for p in pairs if min(p) > 0]  # the axes are logarithmic
            if pairs:
                panel.plot(*zip(*pairs), ".", alpha=0.6)
                seen += [v for p in pairs for v in p]
        if seen:
            ends = [min(seen), max(seen)]
            panel.loglog(ends, ends, color="black", linewidth=0.8)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_minor_formatter(NullFormatter())
        panel.set_title(method)
        panel.set_xlabel("predicted variance")
        panel.set_ylabel("mean squared residual")
        panel.grid(alpha=0.3)
    return figure


_PLOTS = {
    "main": _against_baselines("random", "static", "common"),
    "ties": _each("precision", "recall", "F1", "confident accuracy"),
    "fixed_length": _each("fixed - adaptive", "item savings", "cost savings"),
    "families": _against_baselines("random", "static"),
    "conformance": _conformance,
    "spend": _each("share"),
    "break_even": lambda t, m, k: _each("break-even")(t, m, k[:1]),
    "budget_sweep": _sweep,
    "information": _information,
}
