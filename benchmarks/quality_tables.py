"""Tables 1 and 2 of `ranking_quality.py`: methods side by side, pooled over score tables.

Every score table weighs the same.  Standard errors, those of differences to the first method too,
are clustered by score table: folds of one table share its items and models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lm_eval_ccat.simulation.judging import Replay, coverage, quantiles, z_scores

RESAMPLES = 1000
FEWEST_SETS = 5
#: Where the bootstrap interval of a table's z should reach into.
TRUE_ENOUGH = (0.8, 1.25)

#: Title, key, format; a second entry for those of which the difference to the first is shown.
FIXED = [
    ("tau", "tau", "{:.3f}"),
    ("decided", "decided", "{:.1%}"),
    ("right", "right", "{:.2%}"),
    ("RMSE", "rmse", "{:.4f}"),
    ("RMSE pairs", "rmse_pairs", "{:.4f}"),
    ("bias", "bias", "{:+.4f}"),
    ("z", "z", "{:.2f}"),
    ("z pairs", "z_pairs", "{:.2f}"),
    ("cover", "cover", "{:.1%}"),
    ("cover pairs", "cover_pairs", "{:.1%}"),
    ("any wrong", "any_wrong", "{:.1%}"),
]
NATURAL = [
    ("items/model", "items", "{:.1f}"),
    ("of all", "share", "{:.1%}"),
    ("decided", "decided", "{:.1%}"),
    ("any wrong", "any_wrong", "{:.2%}"),
    ("tau", "tau", "{:.3f}"),
    ("z pairs", "z_pairs", "{:.2f}"),
]


def table_figures(own: Sequence[Replay], n_items: int) -> dict[str, float]:
    """What one method's runs on one score table come to; squares where roots are pooled later."""
    errors = np.concatenate([o.errors for o in own])
    out = {
        "tau": float(np.mean([o.tau for o in own if o.tau is not None] or [np.nan])),
        "rmse": float(np.mean(errors**2)),
        "bias": float(np.mean(errors)),
        "items": sum(o.items for o in own) / sum(len(o.holdout) for o in own),
    }
    out["share"] = out["items"] / n_items
    stated = [o for o in own if o.standard_errors is not None]
    if stated:
        z = np.concatenate([z_scores(o.errors, np.asarray(o.standard_errors)) for o in stated])
        out["z"] = float(np.mean(z**2))
        out["cover"] = coverage(stated) or 0.0
        scores = [z_scores(o.errors, np.asarray(o.standard_errors)) for o in stated]
        out |= bootstrapped("z", scores)
    pairs = [o for o in own if o.difference_errors is not None]
    if pairs:
        e, s, df = (
            np.concatenate([np.asarray(getattr(o, f"difference_{what}")) for o in pairs])
            for what in ("errors", "standard_errors", "df")
        )
        z = z_scores(e, s)
        out["rmse_pairs"], out["z_pairs"] = float(np.mean(e**2)), float(np.mean(z**2))
        out["cover_pairs"] = float(np.mean(np.abs(z) <= quantiles(0.95, df)))
        scores = [
            z_scores(np.asarray(o.difference_errors), np.asarray(o.difference_standard_errors))
            for o in pairs
        ]
        out |= bootstrapped("z_pairs", scores)
    sure = [o for o in own if o.decided is not None]
    if sure:
        said, right = sum(o.decided or 0 for o in sure), sum(o.decided_right or 0 for o in sure)
        out["decided"] = said / sum(o.pairs for o in sure)
        out["said"], out["hits"] = said, right
        out["any_wrong"] = float(np.mean([o.decided_right != o.decided for o in sure]))
    return out


def bootstrapped(key: str, by_set: Sequence[np.ndarray]) -> dict[str, float]:
    """95% percentile bootstrap interval of the root mean square, hold-out sets drawn whole.

    Models of one hold-out set share their draws, so that their errors are no independent cases.
    Fewer than `FEWEST_SETS` sets say nothing.
    """
    if len(by_set) < FEWEST_SETS:
        return {}
    squares = np.array([np.sum(z**2) for z in by_set])
    counts = np.array([len(z) for z in by_set])
    drawn = np.random.default_rng(0).integers(len(by_set), size=(RESAMPLES, len(by_set)))
    found = np.sqrt(squares[drawn].sum(axis=1) / np.maximum(counts[drawn].sum(axis=1), 1))
    low, high = np.quantile(found, [0.025, 0.975])
    return {f"{key}_low": float(low), f"{key}_high": float(high)}


def outside(tables: Mapping[str, Mapping[str, float]], key: str) -> dict[str, tuple[float, float]]:
    """Score tables whose interval of `key` lies wholly outside `TRUE_ENOUGH`, with it."""
    low, high = TRUE_ENOUGH
    return {
        name: (of[f"{key}_low"], of[f"{key}_high"])
        for name, of in tables.items()
        if f"{key}_low" in of and (of[f"{key}_low"] > high or of[f"{key}_high"] < low)
    }


def show_outside(tables: Mapping[str, Mapping[str, float]]) -> None:
    """Print which score tables' z is surely not near 1, for the first method."""
    if not any("z_low" in of for of in tables.values()):
        return
    for key, what in (("z", "z"), ("z_pairs", "z of pairs")):
        found = outside(tables, key)
        names = ", ".join(f"{n} ({a:.2f} to {b:.2f})" for n, (a, b) in found.items())
        low, high = TRUE_ENOUGH
        print(f"  {what} wholly outside {low:g} to {high:g}: {len(found)} of {len(tables)} {names}")


_COMPARED = (("tau", "{:+.3f} +- {:.3f}", 22), ("decided", "{:+.1%} +- {:.1%}", 26))
ROOTS = ("rmse", "rmse_pairs", "z", "z_pairs")


def pooled(tables: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over score tables, roots of mean squares, and standard errors by table."""
    out: dict[str, float] = {}
    for key in sorted({k for t in tables for k in t}):
        values = np.array([t[key] for t in tables if key in t])
        mean = float(np.nanmean(values))
        out[key] = float(np.sqrt(mean)) if key in ROOTS else mean
        if len(values) > 1 and key not in ROOTS:
            out[f"{key}_se"] = float(np.nanstd(values, ddof=1) / np.sqrt(len(values)))
    said = sum(t.get("said", 0.0) for t in tables)
    if said:
        out["right"] = sum(t.get("hits", 0.0) for t in tables) / said
    return out


def difference(
    one: Sequence[dict[str, float]], other: Sequence[dict[str, float]], key: str
) -> tuple[float, float] | None:
    """Mean difference over score tables and its standard error."""
    d = [a[key] - b[key] for a, b in zip(one, other) if key in a and key in b]
    if not d:
        return None
    error = float(np.std(d, ddof=1) / np.sqrt(len(d))) if len(d) > 1 else float("nan")
    return float(np.mean(d)), error


def show(title: str, by_method: dict[str, list[dict[str, float]]], columns: Sequence[Any]) -> None:
    """Print a table: a row per method, the first method's difference to each at the end."""
    first = next(iter(by_method))
    print(f"\n{title}")
    head = "".join(f"{name:>12}" for name, _, _ in columns)
    print(f"{'':20}{head}{f'tau: {first} - it':>22}{f'decided: {first} - it':>26}")
    for method, tables in by_method.items():
        row = pooled(tables)
        cells = "".join(
            f"{form.format(row[key]) if key in row else '':>12}" for _, key, form in columns
        )
        for key, form, width in _COMPARED:
            d = None if method == first else difference(by_method[first], tables, key)
            cells += f"{'' if d is None else form.format(*d):>{width}}"
        print(f"  {method:18}{cells}", flush=True)


def show_items(by_method: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Print what each method asks, table by table, in items of the first method."""
    first, *others = by_method
    for other in others:
        ratio = {
            name: by_method[first][name]["items"] / of["items"]
            for name, of in by_method[other].items()
        }
        worst = max(ratio, key=lambda name: ratio[name])
        mean = sum(ratio.values()) / len(ratio)
        print(
            f"  items of {first} per item of {other}: mean {mean:.2f}, worst {ratio[worst]:.2f} "
            f"({worst})"
        )
