"""Plots of a calibrated bank: its items, what they tell, and how well the model fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...bank import ItemBank
from ...errors import UsageError
from ...methods.curves import fit_abilities
from ...methods.registry import method_of
from ...scores import ScoreTable
from ..information import difficulty, discrimination, information_curve
from .style import ACCENT, SOFT, title
from .style import subplots as new_figure

BINS = 10
MOST_POINTS = 5_000


def plot_bank(bank: ItemBank, table: ScoreTable | None = None) -> Any:
    """Difficulty, discrimination and information of a bank, and its fit to scores.

    Parameters
    ----------
    bank : ItemBank
    table : ScoreTable, optional
        Full results of some models on the bank's items: adds how observed scores, and their
        variance, compare with what the response model expects.

    Returns
    -------
    ndarray of Axes
        Of shape (2,), with a table (4,).

    Raises
    ------
    UsageError
        The table's items are not the bank's.

    Examples
    --------
    >>> plot_bank(bank, table)[0].figure.savefig("bank.svg")  # doctest: +SKIP
    """
    axes = new_figure(1 if table is None else 2, 2, size=(9.0, 3.6 if table is None else 7))
    axes = axes.ravel()
    _items(axes[0], bank)
    _information(axes[1], bank)
    if table is not None:
        _fit(axes[2], axes[3], bank, table)
    return axes


def _items(ax: Any, bank: ItemBank) -> None:
    hard = difficulty(bank)[bank.kept]
    sharp = discrimination(bank)[bank.kept]
    ax.set_xlabel("difficulty (logits)")
    if np.ptp(sharp) < 1e-9:
        ax.hist(hard[np.isfinite(hard)], bins=40, color=ACCENT, alpha=0.75)
        title(ax, f"Difficulty of {len(hard):,} items")
        ax.set_ylabel("items")
        ax.annotate(
            f"discrimination {sharp[0]:.2f} for all", (0.98, 0.94), ha="right",
            xycoords="axes fraction", color=SOFT,
        )  # fmt: skip
        return
    step = max(1, len(hard) // MOST_POINTS)
    low, high = np.nanquantile(hard, [0.01, 0.99])
    ax.scatter(hard[::step], sharp[::step], s=9, color=ACCENT, alpha=0.4, lw=0)
    ax.set_xlim(low - 0.2, high + 0.2)
    title(ax, f"Difficulty and discrimination of {len(hard):,} items")
    ax.set_ylabel("discrimination (slope / √noise)")


def _information(ax: Any, bank: ItemBank) -> None:
    curve = information_curve(bank, np.array([]))
    ax.fill_between(curve.ability, curve.total, color=ACCENT, alpha=0.14, lw=0)
    ax.plot(curve.ability, curve.total, color=ACCENT)
    ax.set_ylim(bottom=0)
    title(ax, "Information of all items")
    ax.set_xlabel("ability (logits)")
    ax.set_ylabel("1 / logit²")


def _fit(level: Any, spread: Any, bank: ItemBank, table: ScoreTable) -> None:
    if table.doc_ids != bank.doc_ids:
        raise UsageError("the table's items are not the bank's; calibrate and plot with one table")
    observed = np.where(bank.kept, table.model_scores(), np.nan)
    shape = method_of(bank).curves(bank)
    expected = shape.expected(fit_abilities(shape, observed))
    use = np.isfinite(observed) & np.isfinite(expected)
    y, mu = observed[use], expected[use]
    noise = np.broadcast_to(shape.noise, observed.shape)[use]
    edges = np.unique(np.quantile(mu, np.linspace(0, 1, BINS + 1)))
    group = np.clip(np.searchsorted(edges, mu, side="right") - 1, 0, len(edges) - 2)
    count = np.bincount(group)
    mean_mu = np.bincount(group, mu) / count
    mean_y = np.bincount(group, y) / count
    seen = np.bincount(group, (y - mu) ** 2) / count
    said = np.bincount(group, noise * mu * (1 - mu)) / count
    level.plot([0, 1], [0, 1], color=SOFT, lw=1, ls="--")
    level.errorbar(mean_mu, mean_y, 2 * np.sqrt(seen / count), fmt="o", color=ACCENT, ms=5)
    title(level, "Fit of the mean")
    level.set_xlabel("expected score")
    level.set_ylabel("observed score")
    top = 1.1 * max(seen.max(), said.max())
    spread.plot([0, top], [0, top], color=SOFT, lw=1, ls="--")
    spread.plot(said, seen, "o", color=ACCENT, ms=5)
    total = ((seen - seen.mean()) ** 2).sum()
    r2 = 1.0 - ((seen - said) ** 2).sum() / total if total > 0 else float("nan")
    title(spread, f"Fit of the variance (R² {r2:.2f})")
    spread.set_xlabel("expected variance")
    spread.set_ylabel("observed variance")
    spread.set_xlim(0, top)
    spread.set_ylim(0, top)
