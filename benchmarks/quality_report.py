"""Tables and the plot of `ranking_quality.py`, from outcomes of replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lm_eval_ccat.simulation.judging import Replay, coverage

Key = tuple[str, str]


class Results:
    """Outcomes by section and dataset-metric."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[Key, list[Replay]]] = {}
        self.notes: dict[str, list[str]] = {}
        self.tables: dict[str, Any] = {}

    def add(
        self,
        section: str,
        dataset: str,
        metric: str,
        outcomes: Sequence[Replay],
        notes: Sequence[str] = (),
    ) -> None:
        self.outcomes.setdefault(section, {})[dataset, metric] = list(outcomes)
        if notes:
            self.notes[f"{dataset} {metric}"] = list(notes)

    def pick(
        self, section: str, dataset: str = "", metric: str = "", level: float | None = None
    ) -> dict[str, list[tuple[Any, Replay]]]:
        """Outcomes by method, each with a key that says which fold it is of."""
        chosen: dict[str, list[tuple[Any, Replay]]] = {}
        for key, outcomes in self.outcomes.get(section, {}).items():
            if dataset and key != (dataset, metric):
                continue
            for o in outcomes:
                if level is None or o.items_per_model == level:
                    chosen.setdefault(o.method, []).append(((key, o.fold, o.seed), o))
        return chosen

    def to_dict(self) -> dict[str, Any]:
        """Figures of every section, per dataset-metric and overall."""
        found: dict[str, Any] = {"left_out": self.notes, **self.tables}
        for section, tables in self.outcomes.items():
            rows = found.setdefault(section, {})
            for key in [*tables, ("", "")]:
                by_method = self.pick(section, *key)
                rows[" ".join(key).strip() or "overall"] = {
                    m: figures([o for _, o in own]) | paired(own, by_method.get("paper"))
                    for m, own in by_method.items()
                }
        return found


def figures(own: Sequence[Replay]) -> dict[str, Any]:
    """What the runs of one method come to, pooled."""
    taus = [o.tau for o in own if o.tau is not None]
    errors = np.concatenate([o.errors for o in own])
    out: dict[str, Any] = {
        "runs": len(own),
        "tau": float(np.mean(taus)) if taus else None,
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "items_per_model": sum(o.items for o in own) / sum(len(o.holdout) for o in own),
    }
    stated = [o for o in own if o.standard_errors is not None]
    if stated:
        z = np.concatenate([_z(o) for o in stated])
        out["z_rms"] = float(np.sqrt(np.mean(z**2)))
        out["coverage"] = coverage(stated)
    sure = [o for o in own if o.confident is not None]
    if sure:
        confident = sum(o.confident or 0 for o in sure)
        right = sum(o.confident_right or 0 for o in sure)
        said, true = sum(o.ties or 0 for o in sure), sum(o.true_ties for o in sure)
        out["confident"] = confident
        out["right"] = right / confident if confident else None
        out["tied"] = said / sum(o.pairs for o in sure)
        out["tie_f1"] = 2 * sum(o.tie_hits or 0 for o in sure) / max(said + true, 1)
        out["any_wrong"] = float(np.mean([o.confident_right != o.confident for o in sure]))
    return out


def _z(o: Replay) -> Any:
    """Errors in standard errors; a model whose every item was run has neither."""
    return np.where(np.abs(o.errors) < 1e-9, 0.0, o.errors / np.maximum(o.standard_errors, 1e-9))


def paired(own: Sequence[tuple[Any, Replay]], paper: Sequence[Any] | None) -> dict[str, Any]:
    """Mean difference of tau to the method "paper" on the same folds, and its standard error."""
    if not paper:
        return {}
    base = {key: o.tau for key, o in paper}
    d = [o.tau - base[k] for k, o in own if o.tau is not None and base.get(k) is not None]
    if not d:
        return {}
    return {
        "minus_paper": float(np.mean(d)),
        "minus_paper_se": float(np.std(d, ddof=1) / np.sqrt(len(d))) if len(d) > 1 else None,
    }


_COLUMNS: list[tuple[str, str, Callable[[Any], str]]] = [
    ("tau", "tau", "{:.3f}".format),
    ("minus_paper", "- paper", "{:+.3f}".format),
    ("minus_paper_se", "+-", "{:.3f}".format),
    ("right", "right", "{:.3f}".format),
    ("tied", "tied", "{:.2f}".format),
    ("tie_f1", "tie F1", "{:.2f}".format),
    ("z_rms", "z RMS", "{:.2f}".format),
    ("coverage", "cover", "{:.2f}".format),
    ("rmse", "RMSE", "{:.4f}".format),
    ("items_per_model", "items", "{:.0f}".format),
]


def _table(title: str, rows: dict[str, dict[str, Any]], columns: Sequence[Any] = _COLUMNS) -> None:
    print(f"\n{title}")
    print(" " * 22 + "".join(f"{head:>9}" for _, head, _ in columns))
    for method, row in rows.items():
        cells = [fmt(row[k]) if row.get(k) is not None else "" for k, _, fmt in columns]
        print(f"  {method:20}" + "".join(f"{c:>9}" for c in cells), flush=True)


def print_quality(
    results: Results, dataset: str = "", metric: str = "", section: str = "quality"
) -> None:
    """One dataset-metric, or all together."""
    by_method = results.pick(section, dataset, metric)
    paper = by_method.get("paper")
    rows = {m: figures([o for _, o in own]) | paired(own, paper) for m, own in by_method.items()}
    title = f"{dataset} {metric}".strip() or "overall (mean over all folds)"
    for what in results.notes.get(title, []):
        title += f"; left out: {what}" if "drawn" not in what else f"; {what}"
    triple = results.pick("triple", dataset, metric)
    if section == "quality" and triple:
        rows["common, 3x items"] = {
            k: v
            for k, v in figures([o for _, o in triple["common"]]).items()
            if k in ("rmse", "items_per_model")
        }
    _table(title, rows)


def print_curve(results: Results) -> None:
    """Mean tau by method and items per model, over all dataset-metrics."""
    levels = _levels(results)
    by_method = {lv: results.pick("curve", level=lv) for lv in levels}
    print("\nmean tau" + " " * 14 + "".join(f"{lv:>8.0f}" for lv in levels) + "  items per model")
    for method in by_method[levels[0]]:
        taus = [figures([o for _, o in by_method[lv][method]])["tau"] for lv in levels]
        print(f"  {method:20}" + "".join(f"{t:8.3f}" for t in taus))


def curve_plot(results: Results, path: str) -> None:
    """The same as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    levels = _levels(results)
    by_method = {lv: results.pick("curve", level=lv) for lv in levels}
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for method, marker in zip(by_method[levels[0]], "osD^vP"):
        runs = [[o.tau for _, o in by_method[lv][method] if o.tau is not None] for lv in levels]
        mean = [float(np.mean(r)) for r in runs]
        error = [float(np.std(r) / np.sqrt(len(r))) for r in runs]
        axes.errorbar(levels, mean, error, marker=marker, capsize=2, label=method)
    axes.set_xlabel("items per model (at the cost of the paper's method)")
    axes.set_ylabel("Kendall's tau with the full benchmark's order")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _levels(results: Results) -> list[float]:
    return sorted(
        {
            o.items_per_model
            for outcomes in results.outcomes["curve"].values()
            for o in outcomes
            if o.items_per_model is not None
        }
    )
