"""Plots of what `simulate` found: how good a ranking is, over what it costs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from ...errors import UsageError
from .style import COLOURS, SOFT, legend, title
from .style import subplots as new_figure

#: Methods that are ours or the paper's keep their colour from plot to plot.
FIRST = ("default", "paper", "common", "static", "limit", "fixed", "random")
BAND = 0.95


def read_simulation(path: str | Path) -> dict[str, Any]:
    """Read a file of ``simulate --json``.

    Raises
    ------
    UsageError
        It cannot be read, or is something else.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not a readable JSON file ({error})") from None
    if not isinstance(content, dict) or not isinstance(content.get("sweep"), dict):
        raise UsageError(f"{path}: not a file of `lm-eval-ccat simulate --json`")
    return content


def curves(found: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Each method's summaries, by items per model; several replays are pooled into one curve."""
    points: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        for method, levels in one["sweep"].items():
            points.setdefault(method, []).extend(dict(level) for level in levels)
    for levels in points.values():
        levels.sort(key=lambda level: level["items_per_model"])
    known = [m for m in FIRST if m in points]
    return {m: points[m] for m in [*known, *(m for m in points if m not in known)]}


def plot_simulation(*found: Any) -> Any:
    """Kendall tau and accuracy of decided pairs over items per model, with 95% bands.

    Parameters
    ----------
    *found : Simulation, mapping or path
        What `simulate` returned, its ``to_dict``, or the file of ``--json``. Replays of one score
        table at several budgets make one curve.

    Returns
    -------
    ndarray of Axes
        Of shape (2,): tau, accuracy.

    Examples
    --------
    >>> tau, accuracy = plot_simulation("sim.json")  # doctest: +SKIP
    """
    methods = curves([_content(one) for one in found])
    axes = tau, right = new_figure(1, 2, size=(10.0, 4.0))
    z = float(ndtri((1 + BAND) / 2))
    for j, (method, levels) in enumerate(methods.items()):
        colour = COLOURS[j % len(COLOURS)]
        x = np.array([level["items_per_model"] for level in levels], dtype=float)
        y = np.array([level["tau"] for level in levels], dtype=float)
        se = np.array([level.get("tau_se") or 0.0 for level in levels], dtype=float)
        tau.fill_between(x, y - z * se, y + z * se, color=colour, alpha=0.12, lw=0)
        tau.plot(x, y, "o-", color=colour, ms=4, lw=1.8, label=method)
        sure = [v for v in levels if v.get("confident_accuracy") is not None]
        if sure:
            x = np.array([v["items_per_model"] for v in sure], dtype=float)
            y = np.array([v["confident_accuracy"] for v in sure], dtype=float)
            low, high = wilson(y, np.array([v["confident_pairs"] for v in sure], dtype=float), z)
            right.fill_between(x, 100 * low, 100 * high, color=colour, alpha=0.12, lw=0)
            right.plot(x, 100 * y, "o-", color=colour, ms=4, lw=1.8)
    settings = _content(found[0]).get("settings") or {}
    if settings.get("confidence"):
        right.axhline(100 * settings["confidence"], color=SOFT, lw=1, ls="--")
    title(tau, "Kendall tau with the true order")
    title(right, "Decided pairs in the true order, %")
    for ax in (tau, right):
        ax.set_xlabel("items per model")
        ax.set_xlim(left=0)
    tau.set_ylim(top=min(1.02, tau.get_ylim()[1]))
    right.set_ylim(top=100.5)
    legend(tau, loc="lower right", fontsize=8.5)
    return np.array(axes)


def wilson(share: Any, count: Any, z: float) -> tuple[Any, Any]:
    """Wilson's interval of a share seen in `count` trials.

    Examples
    --------
    >>> low, high = wilson(np.array([1.0]), np.array([20.0]), 1.96)
    >>> round(float(low[0]), 2), round(float(high[0]), 2)
    (0.84, 1.0)
    """
    n = np.maximum(count, 1.0)
    middle = share + z**2 / (2 * n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    return (middle - half) / scale, (middle + half) / scale


def _content(found: Any) -> Mapping[str, Any]:
    if isinstance(found, (str, Path)):
        return read_simulation(found)
    made: Mapping[str, Any] = found if isinstance(found, Mapping) else found.to_dict()
    return made
