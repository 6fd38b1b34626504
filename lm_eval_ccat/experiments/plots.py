"""The plots of `experiments`; needs matplotlib, the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .studies import BASELINES
from .tables import Table

# Distinguishable in grey and to the colour-blind: line style and marker differ as well.
_STYLES = {
    "default": ("#0072B2", "-", "o"),
    "paper": ("#D55E00", "-", "s"),
    "common": ("#009E73", "--", "^"),
    "random": ("#666666", ":", "v"),
    "limit": ("#CC79A7", "-.", "D"),
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
        figure.savefig(folder / f"{name}.png", dpi=120, bbox_inches="tight")
        figure.clear()
        drawn.append(name)
    return drawn


def _column(table: Table, name: str) -> int:
    return table.columns.index(name)


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def _label(row: Sequence[Any]) -> str:
    return f"{row[0]} {row[1]}".strip()


def _by_method(table: Table, columns: Sequence[str]) -> Any:
    """One panel per column: a dot per method at each table."""
    places = list(dict.fromkeys(_label(row) for row in table.rows))
    at_method = _column(table, "method")
    figure, axes = _figure(3.0 * len(columns) + 2.5, 1.5 + 0.24 * len(places), len(columns))
    for column, panel in zip(columns, np.atleast_1d(axes)):
        at = _column(table, column)
        for method in dict.fromkeys(row[at_method] for row in table.rows):
            own = {_label(r): r[at] for r in table.rows if r[at_method] == method}
            there = [(v, places.index(p)) for p, v in own.items() if v is not None]
            colour, _, marker = _STYLES.get(method, ("black", "-", "."))
            if there:
                panel.plot(*zip(*there), marker, color=colour, label=method)
        panel.set_yticks(range(len(places)), places if panel is np.atleast_1d(axes)[0] else [])
        panel.set_ylim(len(places) - 0.5, -0.5)
        panel.set_xlabel(column)
        panel.grid(alpha=0.3)
    np.atleast_1d(axes)[-1].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _main(table: Table, measured: Any, methods: Sequence[str]) -> Any:
    """A row per table, a dot per method."""
    rows = table.rows
    figure, axes = _figure(7.5, 1.5 + 0.24 * len(rows))
    for method in (*methods, *BASELINES):
        at = _column(table, f"tau {method}")
        there = [(row[at], n) for n, row in enumerate(rows) if row[at] is not None]
        colour, _, marker = _STYLES.get(method, ("black", "-", "."))
        axes.plot(*zip(*there), marker, color=colour, label=method, alpha=0.85)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("Kendall's tau")
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.grid(alpha=0.3)
    return figure


def _sweep(table: Table, measured: Any, methods: Sequence[str]) -> Any:
    """Mean over tables against the budget: tau, and precision and recall of ties."""
    figure, axes = _figure(11, 3.6, 3)
    budget = _column(table, "budget per model")
    for panel, column in zip(axes, ("tau", "tie precision", "tie recall")):
        at = _column(table, column)
        for method in (*methods, *BASELINES):
            own = [row for row in table.rows if row[_column(table, "method")] == method]
            # A level that small tables do not have would compare different tables.
            levels = _common_levels(table)
            points = []
            for level in levels:
                values = [r[at] for r in own if r[budget] == level and r[at] is not None]
                if values:
                    points.append((level, float(np.mean(values))))
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


def _common_levels(table: Table) -> list[float]:
    """Levels of spending that every table was replayed at."""
    budget = _column(table, "budget per model")
    levels: dict[str, set[float]] = {}
    for row in table.rows:
        levels.setdefault(_label(row), set()).add(row[budget])
    return sorted(set.intersection(*levels.values()))


def _conformance(table: Table, measured: Any, methods: Sequence[str]) -> Any:
    """Observed against predicted variance, a point per bin and table."""
    from matplotlib.ticker import NullFormatter

    figure, axes = _figure(4.6 * len(methods), 4.2, len(methods))
    for method, panel in zip(methods, np.atleast_1d(axes)):
        seen: list[float] = []
        for entry in measured.values():
            bins = entry.get("calibration", {}).get(method, {}).get("bins", ())
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
        panel.set_ylabel("observed variance")
        panel.grid(alpha=0.3)
    return figure


def _information(table: Table, measured: Any, methods: Sequence[str]) -> Any:
    """A panel for overlap and one for tau."""
    rows = table.rows
    figure, axes = _figure(9.5, 1.5 + 0.24 * len(rows), 2)
    for panel, columns in zip(axes, (("identical runs", "Jaccard"), ("tau first", "tau full"))):
        for column, marker in zip(columns, "os"):
            at = _column(table, column)
            there = [(row[at], n) for n, row in enumerate(rows) if row[at] is not None]
            panel.plot(*zip(*there), marker, label=column, alpha=0.8)
        panel.set_yticks(
            range(len(rows)), [_label(row) for row in rows] if panel is axes[0] else []
        )
        panel.set_ylim(len(rows) - 0.5, -0.5)
        panel.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        panel.grid(alpha=0.3)
    return figure


_PLOTS = {
    "main": _main,
    "ties": lambda t, m, k: _by_method(t, ("precision", "recall", "F1", "confident accuracy")),
    "fixed_length": lambda t, m, k: _by_method(
        t, ("tau difference", "item savings", "cost savings")
    ),
    "families": lambda t, m, k: _by_method(t, ("tau", "tau mixed")),
    "conformance": _conformance,
    "spend": lambda t, m, k: _by_method(t, ("items", "% of full")),
    "calibration_cost": lambda t, m, k: _by_method(t, ("break-even models", "items per new model")),
    "budget_sweep": _sweep,
    "information": _information,
}
