"""The tables of `experiments`: rows from what was measured, written as CSV and Markdown."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .studies import BASELINES, break_even

Measured = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes
    ----------
    name : str
        Of its files.
    title, note : str
        What it shows, and how to read it.
    columns : tuple of str
    rows : list of list
        Numbers unrounded; None where there is nothing to tell.
    formats : dict of str to str
        How Markdown shows a column; by default three decimals.
    """

    name: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[list[Any]]
    formats: Mapping[str, str]


def _usable(measured: Measured, study: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(facts, what the study measured) of every table where it could be made."""
    return [
        (entry["facts"], entry[study])
        for entry in measured.values()
        if entry.get(study) and "skipped" not in entry[study]
    ]


def _mean_row(label: str, rows: Sequence[Sequence[Any]], first: int) -> list[Any]:
    """Mean of each column from ``first`` on over the rows that have it."""
    means: list[Any] = [label, *[""] * (first - 1)]
    for n in range(first, len(rows[0]) if rows else first):
        values = [row[n] for row in rows if isinstance(row[n], (int, float))]
        means.append(float(np.mean(values)) if values else None)
    return means


def main_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Discrimination, tau of every method at equal cost, items and share used."""
    shown = [*methods, *BASELINES]
    against = [m for m in methods if m != "paper"] if "paper" in methods else []
    rows = []
    for facts, found in _usable(measured, "replay"):
        summary = found["summary"]
        entry = next(e for e in measured.values() if e.get("facts") is facts)
        paper = entry.get("calibration", {}).get("paper", {})
        lead = summary[methods[0]]
        rows.append(
            [
                facts["table"], facts["metric"], facts["models"], facts["items"],
                paper.get("discrimination"),
                *[summary[m]["tau"] for m in shown],
                *[
                    summary[m][key]
                    for m in against
                    for key in ("tau_minus_paper", "tau_minus_paper_se")
                ],
                lead["items_per_model"], 100.0 * lead["share_of_items"],
            ]
        )  # fmt: skip
    if rows:
        mean = _mean_row("mean", rows, 4)
        first = 5 + len(shown) + 1  # where the standard errors stand, every other column
        for n in range(first, first + 2 * len(against), 2):
            errors = np.array([row[n] for row in rows], dtype=np.float64)
            known = np.isfinite(errors).all()  # one fold has no standard error
            mean[n] = float(np.sqrt((errors**2).sum()) / len(errors)) if known else None
        rows.append(mean)
    return Table(
        "main",
        "Ranking at equal cost",
        "Kendall's tau with the order by full scores, mean over hold-out sets. All methods of a "
        "hold-out set spend what `paper` spent. Discrimination is 1/sqrt(k) of a `paper` bank of "
        f"all models; items per model and share used are those of `{methods[0]}`; +- is the "
        "standard error of the paired difference over hold-out sets.",
        (
            "table", "metric", "models", "items", "discrimination",
            *[f"tau {m}" for m in shown],
            *[title for m in against for title in (f"{m} - paper", f"{m} +-")],
            "items per model", "% used",
        ),
        rows,
        {
            "models": "{:.0f}", "items": "{:.0f}", "discrimination": "{:.2f}",
            "items per model": "{:.1f}", "% used": "{:.2f}",
            **{f"{m} - paper": "{:+.3f}" for m in against},
        },
    )  # fmt: skip


def tie_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Pairs left undecided against true ties, and how often decided pairs are right."""
    rows = []
    totals: dict[str, dict[str, float]] = {}
    for facts, found in _usable(measured, "replay"):
        for method in methods:
            s = found["summary"][method]
            pairs = s["ties"] + s["confident_pairs"]
            hits = (s["tie_precision"] or 0.0) * s["ties"]
            right = (s["confident_accuracy"] or 0.0) * s["confident_pairs"]
            total = totals.setdefault(method, dict.fromkeys(("h", "s", "t", "p", "c", "r"), 0.0))
            for key, value in zip(
                "hstpcr",
                (hits, s["ties"], s["true_ties"], pairs, s["confident_pairs"], right),
            ):
                total[key] += value
            rows.append(
                [
                    facts["table"], facts["metric"], method, s["tie_precision"], s["tie_recall"],
                    s["tie_f1"], s["confident_accuracy"], s["ties"] / pairs, s["true_ties"] / pairs,
                ]
            )  # fmt: skip
    for method, t in totals.items():
        rows.append(
            [
                "all pairs", "", method, _ratio(t["h"], t["s"]), _ratio(t["h"], t["t"]),
                _ratio(2 * t["h"], t["s"] + t["t"]), _ratio(t["r"], t["c"]),
                _ratio(t["s"], t["p"]), _ratio(t["t"], t["p"]),
            ]
        )  # fmt: skip
    return Table(
        "ties",
        "Tie detection",
        "A pair counts as tied where the method leaves it undecided, and as truly tied where the "
        "95% bootstrap intervals of the full means overlap.",
        (
            "table", "metric", "method", "precision", "recall", "F1", "confident accuracy",
            "tied share", "true tied share",
        ),
        rows,
        {},
    )  # fmt: skip


def fixed_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Adaptive stopping and allocation against fixed length."""
    keys = (
        "tau_adaptive", "tau_equal_cost", "tau_equal_length", "length", "tau_difference",
        "item_savings", "cost_savings",
    )  # fmt: skip
    rows = [
        [facts["table"], facts["metric"], method, *[found["fixed_length"][method][k] for k in keys]]
        for facts, found in _usable(measured, "replay")
        for method in methods
    ]
    for method in methods:
        own = [row for row in rows if row[2] == method and row[0] != "mean"]
        if own:
            rows.append(["mean", "", method, *_mean_row("", own, 3)[3:]])
    return Table(
        "fixed_length",
        "Adaptive against fixed length",
        "A fixed-length test gives every model the same number of items. At *equal cost* it may "
        "spend what the ranker may. At *equal length* every model gets as many items as the ranker "
        "gave the one it tested longest (*length*), so that the closest pairs are tested as long; "
        "tau difference (adaptive - fixed) and savings are against this one.",
        ("table", "metric", "method", *(k.replace("_", " ") for k in keys)),
        rows,
        {"item savings": "{:.1%}", "cost savings": "{:.1%}", "tau difference": "{:+.3f}",
         "length": "{:.1f}"},
    )  # fmt: skip


def family_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Whole families held out."""
    rows = []
    for facts, found in _usable(measured, "families"):
        entry = next(e for e in measured.values() if e.get("facts") is facts)
        mixed = entry.get("replay", {}).get("summary", {})
        for method in [*methods, "common"]:
            s = found["summary"][method]
            rows.append(
                [
                    facts["table"], facts["metric"], len(found["families"]), method, s["tau"],
                    mixed.get(method, {}).get("tau"), s["confident_accuracy"], s["z_rms"],
                    s["coverage"],
                ]
            )  # fmt: skip
    return Table(
        "families",
        "Family hold-out",
        "Every family held out as a whole, so that calibration has seen no relative; beside it tau "
        "of the mixed hold-out sets of the main table.",
        (
            "table", "metric", "families", "method", "tau", "tau mixed", "confident accuracy",
            "z rms", "coverage",
        ),
        rows,
        {"families": "{:.0f}", "z rms": "{:.2f}"},
    )  # fmt: skip


def conformance_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Observed against predicted variance."""
    rows = [
        [facts["table"], facts["metric"], method, found[method]["r2"],
         found[method]["correlation2"]]
        for facts, found in _usable(measured, "calibration")
        for method in methods
        if method in found
    ]  # fmt: skip
    return Table(
        "conformance",
        "Distributional conformance",
        "R2 between observed and predicted variance of the scores, in ten bins of the expected "
        "score with equally many observations: 1 - residual / total sum of squares, so it is "
        "negative where a constant would predict better, and the squared correlation.",
        ("table", "metric", "method", "R2", "squared correlation"),
        rows,
        {},
    )


def spend_table(measured: Measured, methods: Sequence[str]) -> Table:
    """What each method spends for one ranking."""
    rows = []
    for facts, found in _usable(measured, "replay"):
        for method in [*methods, *BASELINES]:
            s = found["summary"][method]
            rows.append(
                [
                    facts["table"], facts["metric"], facts["units"], method, s["items"], s["cost"],
                    100.0 * s["share_of_items"], s["seconds"],
                ]
            )  # fmt: skip
    return Table(
        "spend",
        "Spend per method",
        "Items and cost (price x units) of one ranking, share of the items of full runs, and the "
        "time of choosing them.",
        ("table", "metric", "units", "method", "items", "cost", "% of full", "seconds"),
        rows,
        {"items": "{:.1f}", "cost": "{:.1f}", "% of full": "{:.2f}"},
    )


def break_even_table(measured: Measured, methods: Sequence[str]) -> Table:
    """When calibration has paid for itself."""
    rows = []
    for facts, found in _usable(measured, "replay"):
        entry = next(e for e in measured.values() if e.get("facts") is facts)
        calibrated = entry.get("calibration", {})
        models = facts["models"] - found["settings"]["holdout"]
        for method in methods:
            per_model = found["summary"][method]["items_per_model"]
            rows.append(
                [
                    facts["table"], facts["metric"], method, models, models * facts["items"],
                    calibrated.get(method, {}).get("seconds"), per_model,
                    break_even(models, facts["items"], per_model),
                ]
            )  # fmt: skip
    return Table(
        "calibration_cost",
        "Calibration cost and break-even",
        "Items it takes to run the calibration models in full, seconds of the calibration itself, "
        "and the number of new models from which on calibrating and testing adaptively takes fewer "
        "items than running them in full. With full results at hand the break-even is at once.",
        (
            "table", "metric", "method", "calibration models", "calibration items", "seconds",
            "items per new model", "break-even models",
        ),
        rows,
        {"calibration models": "{:.0f}", "calibration items": "{:.0f}", "seconds": "{:.2f}",
         "items per new model": "{:.1f}", "break-even models": "{:.0f}"},
    )  # fmt: skip


def sweep_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Tau and tie detection against the budget."""
    rows = []
    for facts, found in _usable(measured, "replay"):
        for method in [*methods, *BASELINES]:
            for s in found["sweep"].get(method, ()):
                rows.append(
                    [
                        facts["table"], facts["metric"], method, s["asked_items_per_model"],
                        s["items_per_model"], s["tau"], s["tie_precision"], s["tie_recall"],
                        s["tie_f1"], s["tied_share"],
                    ]
                )  # fmt: skip
    return Table(
        "budget_sweep",
        "Budget sweep",
        "Tau, and precision and recall of ties, against the budget in items per model.",
        (
            "table", "metric", "method", "budget per model", "items per model", "tau",
            "tie precision", "tie recall", "tie F1", "tied share",
        ),
        rows,
        {"budget per model": "{:.0f}", "items per model": "{:.1f}"},
    )  # fmt: skip


def information_table(measured: Measured) -> Table:
    """Full against first-term information."""
    rows = [
        [facts["table"], facts["metric"], found["runs"], found["identical_runs"],
         found["jaccard"], found["tau_first"], found["tau_full"]]
        for facts, found in _usable(measured, "information")
    ]  # fmt: skip
    if rows:
        rows.append(_mean_row("mean", rows, 3))
    return Table(
        "information",
        "Full against first-term information",
        "Method `paper`: share of runs that ask the same items in the same order, Jaccard overlap "
        "of the items of a model, and tau of both.",
        ("table", "metric", "runs", "identical runs", "Jaccard", "tau first", "tau full"),
        rows,
        {"runs": "{:.0f}"},
    )


def all_tables(measured: Measured, methods: Sequence[str]) -> list[Table]:
    """Every table, in the order of the report."""
    tables = [
        main_table(measured, methods),
        tie_table(measured, methods),
        fixed_table(measured, methods),
        family_table(measured, methods),
        conformance_table(measured, methods),
        spend_table(measured, methods),
        break_even_table(measured, methods),
        sweep_table(measured, methods),
    ]
    if "paper" in methods:
        tables.append(information_table(measured))
    return tables


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def write_csv(table: Table, folder: Path) -> Path:
    """Write one table as CSV, numbers unrounded."""
    path = folder / f"{table.name}.csv"
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(table.columns)
        writer.writerows([["" if v is None else v for v in row] for row in table.rows])
    return path


def markdown(table: Table) -> str:
    """Return one table as Markdown, with its title and note."""
    lines = [f"## {table.title}", "", table.note, ""]
    if not table.rows:
        return "\n".join([*lines, "Nothing to show for these tables.", ""])
    numeric = [
        any(isinstance(row[n], (int, float)) for row in table.rows)
        for n in range(len(table.columns))
    ]
    lines.append("| " + " | ".join(table.columns) + " |")
    lines.append("|" + "|".join(" ---: " if is_number else " --- " for is_number in numeric) + "|")
    for row in table.rows:
        cells = [
            _shown(value, table.formats.get(c, "{:.3f}")) for value, c in zip(row, table.columns)
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _shown(value: Any, form: str) -> str:
    if value is None:
        return "-"
    return form.format(value) if isinstance(value, (int, float)) else str(value)
