"""Write what `experiments` found: JSON, CSV, Markdown and plots, all from the same tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..files import replace_text
from .design import Design
from .tables import Measured, Table, all_tables

DIGITS = 6  # significant, in JSON


def report(
    measured: Measured, design: Design, folder: Path
) -> tuple[dict[str, Any], list[Table], list[str]]:
    """Write every table, the plots, and one page of it all.

    Parameters
    ----------
    measured : dict
        Of :func:`~.run.run_experiments`.
    design : Design
    folder : Path

    Returns
    -------
    document : dict
        What ``experiments.json`` holds: ``settings``, ``tables`` and ``left_out``.
    tables : list of Table
    notes : list of str
        What could not be written.
    """
    tables = all_tables(measured, design.methods)
    document = {
        "settings": settings_in_words(design),
        "tables": [_rounded(asdict(table)) for table in tables],
        "left_out": left_out(measured),
    }
    replace_text(folder / "experiments.json", dump(document))
    notes, drawn = [], []
    try:
        from .plots import draw

        drawn = draw(tables, measured, design.methods, folder)
    except ImportError:
        notes.append("no plots: matplotlib is not installed (pip install 'lm-eval-ccat[plot]')")
    for table in tables:
        write_csv(table, folder)
        replace_text(folder / f"{table.name}.md", section(table, drawn))
    replace_text(folder / "README.md", page(document, drawn))
    return document, tables, notes


def dump(document: Mapping[str, Any]) -> str:
    """The document as JSON, one row of a table per line."""
    tables = [{**table, "rows": f"rows {n}"} for n, table in enumerate(document["tables"])]
    text = json.dumps({**document, "tables": tables}, indent=1, allow_nan=False)
    for n, table in enumerate(document["tables"]):
        rows = ",\n".join("    " + json.dumps(row, allow_nan=False) for row in table["rows"])
        text = text.replace(f'"rows {n}"', f"[\n{rows}\n   ]", 1)
    return text + "\n"


def page(document: Mapping[str, Any], plots: Sequence[str] = (), at: str = "") -> str:
    """One Markdown page of what ``experiments.json`` holds.

    Parameters
    ----------
    plots : sequence of str
        Names of the tables that have a plot.
    at : str
        Where the plots lie, as a prefix of their file names.
    """
    parts = [f"# Experiments\n\n{document['settings']}\n"]
    parts += [section(Table(**table), plots, at) for table in document["tables"]]
    if document["left_out"]:
        parts.append("\n".join(["## Left out", "", *(f"- {t}" for t in document["left_out"]), ""]))
    return "\n".join(parts)


def section(table: Table, plots: Sequence[str] = (), at: str = "") -> str:
    """One table with its title, note and plot."""
    picture = f"\n![{table.title}]({at}{table.name}.png)\n" if table.name in plots else ""
    return f"## {table.title}\n\n{table.note}\n\n{markdown(table)}{picture}"


def settings_in_words(design: Design) -> str:
    """What was run, in one paragraph."""
    rescale = {
        "range": "scores told to `paper` are rescaled by the range of the calibration scores",
        "none": "scores told to `paper` are not rescaled",
        "holdout": "scores told to `paper` are rescaled by the range of the held-out scores",
    }[design.rescale]
    tested = (
        "the mean of their configs"
        if design.temperature is None
        else f"temperature {design.temperature:g} where they have several"
    )
    prices = "given" if design.prices else "drawn log-uniformly from 0.1 to 3.2 per seed"
    return (
        f"lm-eval-ccat {__version__}. {design.folds} hold-out sets of {design.holdout} models, "
        f"{design.seeds} seeds each; budget of {design.items_per_model:g} items per model; "
        f"confidence {design.confidence:g}. Held-out models are tested at {tested}; all configs of "
        f"the others calibrate. Prices are {prices}; {rescale}."
    )


def left_out(measured: Measured) -> list[str]:
    """What could not be measured, and why."""
    said = []
    for label, entry in measured.items():
        if "skipped" in entry:
            said.append(f"{label}: {entry['skipped']}")
            continue
        said += [
            f"{label}: {study}: {found['skipped']}"
            for study, found in entry.items()
            if isinstance(found, dict) and "skipped" in found
        ]
    return said


def write_csv(table: Table, folder: Path) -> Path:
    """Write one table as CSV, numbers unrounded."""
    path = folder / f"{table.name}.csv"
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(table.columns)
    writer.writerows([["" if v is None else v for v in row] for row in table.rows])
    replace_text(path, stream.getvalue())
    return path


def markdown(table: Table) -> str:
    """One table as Markdown; a column "x sd" goes into that of "x", behind +-."""
    if not table.rows:
        return "Nothing to show for these tables.\n"
    at = {c: n for n, c in enumerate(table.columns)}
    shown = [c for c in table.columns if not (c.endswith(" sd") and c[:-3] in at)]
    numeric = {c for c in shown if any(isinstance(r[at[c]], (int, float)) for r in table.rows)}
    lines = [
        "| " + " | ".join(shown) + " |",
        "|" + "|".join(" ---: " if c in numeric else " --- " for c in shown) + "|",
    ]
    for row in table.rows:
        cells = []
        for c in shown:
            cell = _shown(row[at[c]], table.formats.get(c, "{:.3f}"))
            sd = row[at[f"{c} sd"]] if f"{c} sd" in at else None
            cells.append(cell if sd is None else f"{cell} ± {_shown(sd, table.formats[f'{c} sd'])}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _shown(value: Any, form: str) -> str:
    if value is None:
        return "–"
    return form.format(value) if isinstance(value, (int, float)) else str(value)


def _rounded(value: Any) -> Any:
    """The value with floats cut to the digits that JSON keeps."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, (list, tuple)) else value
