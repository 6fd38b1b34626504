"""The tables: what the paper prints and what was measured, row by row.

What the paper prints is data, `paper.json` beside this module: ``headline``, ``design``, ``pairs``,
and ``tables`` by our names. Each says ``where`` it stands; its rows are in the order of ``pairs``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Measured = Mapping[str, Mapping[str, Any]]
Row = list[Any]

PRINTED = "printed"
NO_SCORES = "printed; no scores to be had"
_FIRST = ("table", "metric", "figures")
_COUNTS = ("models", "items", "sets", "calibrated on", "share")  # not pooled over tables


@cache
def printed() -> Mapping[str, Any]:
    """The paper's figures."""
    content = Path(__file__).with_name("paper.json").read_text(encoding="utf-8")
    return dict(json.loads(content))


def pair_of(table: str, metric: str) -> int | None:
    """Position among the paper's pairs of a score table of that name and metric, or None.

    Examples
    --------
    >>> pair_of("ccat_flores200_tur_eng", "bleu"), pair_of("wmt24_en-de", "bleu")
    (6, None)
    """
    metric = metric.removesuffix("_item_scaled")
    for number, pair in enumerate(printed()["pairs"]):
        if table in pair["tables"] and metric in pair["metrics"]:
            return number
    return None


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
        The first are table, metric and whose the figures are: printed in the paper, or the method
        that was measured here. A column "x sd" holds the standard deviation of "x" over runs.
    rows : list of list
        Numbers unrounded; None where there is no figure.
    formats : dict of str to str
        How Markdown shows a column; by default three decimals.
    """

    name: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[Row]
    formats: Mapping[str, str] = field(default_factory=dict)


def _usable(measured: Measured, study: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(facts, what the study measured) of every table where it could be made."""
    return [
        (entry["facts"], entry[study])
        for entry in measured.values()
        if entry.get(study) and "skipped" not in entry[study]
    ]


def _beside(
    name: str,
    title: str,
    note: str,
    columns: Sequence[str],
    here: Sequence[Row],
    formats: Mapping[str, str],
    mean: str = "mean",
    pool: Callable[[Any], Any] = np.mean,
) -> Table:
    """A table of the paper's rows, each followed by ours of the same data, then all other rows.

    Parameters
    ----------
    here : list of list
        Ours: table, metric, method, then a value for each of `columns`.
    mean : str
        Label of the row that `pool` makes of each column, for each method.
    """
    known = printed()
    theirs = known["tables"][name]
    where = [theirs["columns"].index(c) if c in theirs["columns"] else None for c in columns]

    def shown(values: Sequence[Any]) -> Row:
        return [None if n is None else values[n] for n in where]

    rows: list[Row] = []
    for number, (pair, values) in enumerate(zip(known["pairs"], theirs["rows"])):
        label = [pair["dataset"], pair["metric"]]
        own = [row for row in here if pair_of(row[0], row[1]) == number]
        rows += [[*label, PRINTED if own else NO_SCORES, *shown(values)], *own]
    rows += [row for row in here if pair_of(row[0], row[1]) is None]
    for kind in ("mean", "total"):
        if theirs.get(kind):
            rows.append([kind, "", PRINTED, *shown(theirs[kind])])
    for method in dict.fromkeys(row[2] for row in here):
        own = [row for row in here if row[2] == method]
        pooled = [
            None if c in _COUNTS or c.endswith(" sd") else _pooled(own, n + 3, pool)
            for n, c in enumerate(columns)
        ]
        rows.append([mean, "", method, *pooled])
    note = f"{note} Printed: {theirs['where']}."
    return Table(name, title, note, (*_FIRST, *columns), rows, formats)


def _pooled(rows: Sequence[Row], n: int, pool: Callable[[Any], Any]) -> float | None:
    values = [row[n] for row in rows if isinstance(row[n], (int, float))]
    return float(pool(values)) if values else None


def _baselines(summary: Mapping[str, Any], shown: bool) -> list[Any]:
    """Tau of the paper's baselines and its spread; beside the first method of a table only."""
    both = [(b, key) for b in ("random", "static") for key in ("tau", "tau_sd")]
    return [summary[b][key] if shown else None for b, key in both]


def main_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Discrimination, tau of every method at equal cost, items asked and share used."""
    rows: list[Row] = []
    for facts, found in _usable(measured, "replay"):
        s = found["summary"]
        for method in methods:
            first = method == methods[0]
            rows.append(
                [
                    facts["table"], facts["metric"], method, facts["models"], facts["items"],
                    found["discrimination"] if method == "paper" else None,
                    s[method]["tau"], s[method]["tau_sd"], *_baselines(s, first),
                    *[s[b]["tau"] if first else None for b in ("common", "limit")],
                    s[method]["asked"], s[method]["asked_sd"],
                    100.0 * s[method]["asked"] / (found["holdout"] * facts["items"]),
                ]
            )  # fmt: skip
    return _beside(
        "main",
        "Ranking at equal cost",
        "Kendall's tau with the order by full scores, ± its standard deviation over runs. All "
        "methods of a hold-out set spend what `paper` spent; `random` and `static` are the paper's "
        "baselines, `common` gives all models the same random items, `limit` the first ones. "
        "*a* is 1/sqrt(k), the mean over hold-out sets; *asked* counts the items of all held-out "
        "models.",
        (
            "models", "items", "a", "tau", "tau sd", "random", "random sd", "static", "static sd",
            "common", "limit", "asked", "asked sd", "% used",
        ),
        rows,
        {"models": "{:.0f}", "items": "{:.0f}", "a": "{:.2f}", "asked": "{:.0f}",
         "asked sd": "{:.0f}", "% used": "{:.1f}", "tau sd": "{:.2f}", "random sd": "{:.2f}",
         "static sd": "{:.2f}"},
    )  # fmt: skip


def tie_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Pairs left undecided against true ties, and how often decided pairs are right."""
    keys = ("tied", "truly_tied", "precision", "recall", "F1", "confident_accuracy")
    rows = [
        [facts["table"], facts["metric"], method, *(found["summary"][method][k] for k in keys)]
        for facts, found in _usable(measured, "replay")
        for method in methods
    ]
    return _beside(
        "ties",
        "Tie detection",
        "A pair counts as tied where the method leaves it undecided, and as truly tied where the "
        "95% bootstrap intervals of the full means overlap. Precision, recall and F1 are means "
        "over runs, as the paper's are: recall is 1 in a run without true ties.",
        tuple(k.replace("_", " ") for k in keys),
        rows,
        {"tied": "{:.0%}", "truly tied": "{:.0%}"},
    )


def fixed_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Adaptive stopping and allocation against fixed length."""
    columns = ("tau", "tau fixed", "fixed - adaptive", "item savings", "cost savings")
    rows = [
        [facts["table"], facts["metric"], m, *(found["fixed_length"][m][c] for c in columns)]
        for facts, found in _usable(measured, "replay")
        for m in methods
    ]
    return _beside(
        "fixed_length",
        "Adaptive against fixed length",
        "The fixed-length test gives every model as many items as the ranker gave the one it "
        "tested longest in the same run; savings are shares of what it used.",
        columns,
        rows,
        {"item savings": "{:.0%}", "cost savings": "{:.0%}", "fixed - adaptive": "{:+.3f}"},
    )


def family_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Three models of three unseen families."""
    rows: list[Row] = []
    for facts, found in _usable(measured, "families"):
        s = found["summary"]
        for method in methods:
            first = method == methods[0]
            rows.append(
                [
                    facts["table"], facts["metric"], method, len(found["sets"]),
                    float(np.mean([one["calibration"] for one in found["sets"]])),
                    s[method]["tau"], s[method]["tau_sd"], *_baselines(s, first),
                    s["common"]["tau"] if first else None, s[method]["confident_accuracy"],
                ]
            )  # fmt: skip
    return _beside(
        "families",
        "Unseen families",
        "Three models are ranked, one from each of three families that calibration has not seen. "
        "The paper has one such set; here there are several (*sets*), and *calibrated on* "
        "is the mean number of models left.",
        (
            "sets", "calibrated on", "tau", "tau sd", "random", "random sd", "static", "static sd",
            "common", "confident accuracy",
        ),
        rows,
        {"sets": "{:.0f}", "calibrated on": "{:.0f}", "tau sd": "{:.2f}", "random sd": "{:.2f}",
         "static sd": "{:.2f}"},
    )  # fmt: skip


def conformance_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Observed against predicted variance."""
    rows: list[Row] = []
    for facts, found in _usable(measured, "conformance"):
        entry = next(e for e in measured.values() if e.get("facts") is facts)
        summary = entry.get("replay", {}).get("summary", {})
        for method in (m for m in methods if m in found):
            own = found[method]
            rows.append(
                [
                    facts["table"], facts["metric"], method, own["discrimination"], own["r2"],
                    own["r2_residual"], own["r2_configs"], summary.get(method, {}).get("tau"),
                ]
            )  # fmt: skip
    return _beside(
        "conformance",
        "Distributional conformance",
        "All models calibrate. *R2* is the paper's definition: in ten bins of the expected score, "
        "1 - residual / total sum of squares between the variance of the scores within a bin and "
        "k mu (1 - mu). The paper does not say how it cuts the bins; here they hold equally many "
        "observations. R2 is negative where a constant would predict better. *R2 residual* takes "
        "the mean squared residual as what is observed. The released code computes something else "
        "(*r2 configs*): the squared correlation, over pairs of model and item, of the variance "
        "over temperatures with k m (1 - m), where m is the mean score of the pair. It cannot be "
        "negative, so the printed table was not made by it; and it needs several temperatures.",
        ("a", "R2", "R2 residual", "r2 configs", "tau"),
        rows,
        {"a": "{:.2f}", "R2": "{:.4g}", "R2 residual": "{:.3g}", "r2 configs": "{:.3g}"},
        pool=np.median,
        mean="median",
    )


def spend_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Spend per ranking, adaptive and in full."""
    rows = []
    for facts, found in _usable(measured, "replay"):
        full = found["cost"]["full / model"] * found["holdout"]
        for method in methods:
            spent = found["summary"][method]["spent"]
            rows.append([facts["table"], facts["metric"], method, spent, full, spent / full])
    return _beside(
        "spend",
        "Spend per ranking",
        "Price x units of one ranking, adaptive and by full runs of the held-out models. Printed "
        "figures are USD; ours are USD where --prices states USD per unit, else multiples of a "
        "drawn price.",
        ("spent", "full", "share"),
        rows,
        {"spent": "{:.4g}", "full": "{:.4g}", "share": "{:.1%}"},
        mean="total",
        pool=np.sum,
    )


def break_even_table(measured: Measured, methods: Sequence[str]) -> Table:
    """When calibration has paid for itself."""
    columns = ("calibration", "full / model", "adaptive / model", "break-even")
    rows = [
        [facts["table"], facts["metric"], methods[0], *(found["cost"][c] for c in columns)]
        for facts, found in _usable(measured, "replay")
    ]
    return _beside(
        "break_even",
        "Calibration cost and break-even",
        "*Calibration* is the cost of running the calibration models on all items, in all their "
        "configs; *break-even* the number of new models after which that is paid: calibration / "
        "(full - adaptive). With full results at hand calibration costs nothing.",
        columns,
        rows,
        dict.fromkeys(columns[:3], "{:.4g}") | {"break-even": "{:.0f}"},
        mean="median",
        pool=np.median,
    )


def information_table(measured: Measured) -> Table:
    """Full against first-term information."""
    columns = (
        "a", "tau first", "tau first sd", "tau full", "tau full sd", "same ranking", "overlap",
    )  # fmt: skip
    rows: list[Row] = []
    for facts, found in _usable(measured, "information"):
        entry = next(e for e in measured.values() if e.get("facts") is facts)
        a = entry.get("replay", {}).get("discrimination")
        rows.append([facts["table"], facts["metric"], "paper", a, *(found[c] for c in columns[1:])])
    return _beside(
        "information",
        "Full against first-term information",
        "Item selection by the first term of the information and by both. *Same ranking* is the "
        "share of runs with the same final ranking, *overlap* the mean Jaccard overlap of the "
        "items of a model. For a above sqrt(2) = 1.41 both order items alike.",
        columns,
        rows,
        {"a": "{:.2f}", "tau first sd": "{:.2f}", "tau full sd": "{:.2f}",
         "same ranking": "{:.0%}", "overlap": "{:.2f}"},
    )  # fmt: skip


def sweep_table(measured: Measured, methods: Sequence[str]) -> Table:
    """Tau and tie detection against the budget, with stopping disabled."""
    rows: list[Row] = []
    sums: dict[tuple[str, float], list[Row]] = {}
    usable = _usable(measured, "sweep")
    for facts, found in usable:
        for method in (*methods, "random"):
            for s in found.get(method, ()):
                values = [
                    s["asked"] / s["holdout"], s["tau"], s["tau_sd"], s["precision"], s["recall"],
                ]  # fmt: skip
                rows.append([facts["table"], facts["metric"], method, s["budget"], *values])
                sums.setdefault((method, s["budget"]), []).append(values)
    # A level that small tables do not have would compare different tables.
    for (method, budget), values in sums.items():
        if len(values) == len(usable):
            means = [_pooled(values, n, np.mean) for n in range(len(values[0]))]
            rows.append(["mean", "", method, budget, *means])
    note = (
        "Stopping is disabled, selection of models and items is as ever. Tau, and precision and "
        "recall of ties, against the budget in items per model; `random` goes on to all items. "
        f"The paper has {printed()['tables']['budget_sweep']['where']}."
    )
    columns = ("budget", "asked per model", "tau", "tau sd", "precision", "recall")
    return Table(
        "budget_sweep", "Budget sweep", note, (*_FIRST, *columns), rows,
        {"budget": "{:.0f}", "asked per model": "{:.1f}", "tau sd": "{:.2f}"},
    )  # fmt: skip


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
    return [*tables, information_table(measured)] if "paper" in methods else tables
