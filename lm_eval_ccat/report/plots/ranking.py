"""Plots of a ranking: forest, pairwise matrix, course, information."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ranker import Ranking
from ..information import information_curve
from ..replay import History, history
from ..run import Run
from .style import ACCENT, BAD, COLOURS, INK, LINE, SOFT, TIE_FILL, label_rows, legend, names, title
from .style import subplots as new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A matrix of more models shows no numbers in its cells.
NUMBERS = 16


def facts(ranking: Ranking | Run) -> dict[str, Any]:
    """`Ranking.to_dict` of either; estimates on the metric's own scale."""
    return ranking.result if isinstance(ranking, Run) else ranking.to_dict()


def plot_ranking(ranking: Ranking | Run, ax: Axes | None = None) -> Axes:
    """Forest plot: every model's estimate with its interval, tie groups shaded.

    Parameters
    ----------
    ranking : Ranking or Run
    ax : Axes, optional
        Where to draw; default a figure of its own.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = plot_ranking(ranking)         # doctest: +SKIP
    >>> ax.set_title("Summaries")          # doctest: +SKIP
    >>> ax.figure.savefig("ranking.png")   # doctest: +SKIP
    """
    found = facts(ranking)
    order, models = found["order"], found["models"]
    if ax is None:
        ax = new_figure(size=(7.0, 0.9 + 0.32 * max(len(order), 2)))
    for group in found["ties"]:
        rows = [order.index(m) for m in group]
        ax.axhspan(min(rows) - 0.45, max(rows) + 0.45, color=TIE_FILL, lw=0, zorder=0.5)
    at = range(len(order))
    low, high = np.array([models[m]["interval"] for m in order], dtype=float).reshape(-1, 2).T
    ax.hlines(at, low, high, color=ACCENT, alpha=0.4, lw=5, capstyle="round")
    ax.plot([models[m]["estimate"] for m in order], at, "o", color=ACCENT, ms=5.5)
    label_rows(ax, order)
    ax.grid(axis="y", visible=False)
    ax.spines["left"].set_visible(False)
    tied = ", not separated where shaded" if found["ties"] else ""
    ax.set_xlabel(f"estimate with {100 * found['confidence']:g}% interval{tied}")
    return ax


def plot_pairwise(ranking: Ranking | Run, ax: Axes | None = None) -> Axes:
    """Matrix of ``P(row better than column)``, best model first; decided pairs are framed.

    Parameters
    ----------
    ranking : Ranking or Run
    ax : Axes, optional
        Where to draw; default a figure of its own.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    found = facts(ranking)
    order = found["order"]
    n = len(order)
    place = {m: i for i, m in enumerate(order)}
    p = np.full((n, n), np.nan)
    for pair in found["pairwise"]:
        p[place[pair["a"]], place[pair["b"]]] = pair["p"]
    side = min(9.0, 2.4 + 0.42 * n)
    if ax is None:
        ax = new_figure(size=(side + 0.6, side))
    colours = LinearSegmentedColormap.from_list("pairs", [BAD, "#f6f7f9", ACCENT])
    image = ax.imshow(p, cmap=colours, vmin=0, vmax=1, alpha=0.75)
    tail = (1.0 - found["confidence"]) / 2.0
    if n <= NUMBERS:
        for i, j in zip(*np.nonzero(np.isfinite(p))):
            decided = not tail <= p[i, j] <= 1.0 - tail
            text = (
                ">99" if p[i, j] >= 0.995 else "<1" if p[i, j] < 0.005 else f"{100 * p[i, j]:.0f}"
            )
            ax.text(j, i, text, ha="center", va="center", fontsize=8, color=INK)
            if decided:
                corner = (j - 0.46, i - 0.46)
                ax.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, ec=INK, lw=0.9))
    ax.set_xticks(range(n), labels=[str(i + 1) for i in range(n)])
    ax.set_yticks(
        range(n),
        labels=[f"{i + 1} {name}" for i, name in enumerate(names(order))],
        parse_math=False,
    )
    if n > NUMBERS:
        ax.set_xticks([])
        ax.tick_params(axis="y", labelsize=max(3, 8 - n // 40))
    ax.grid(visible=False)
    ax.tick_params(
        length=0, labelcolor=INK, top=True, bottom=False, labeltop=True, labelbottom=False
    )
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.5, aspect=16, ticks=[0, 0.5, 1])
    bar.set_label("P(row better than column)", color=SOFT)
    bar.outline.set_visible(False)
    return ax


def plot_progress(run: Run, coloured: int = len(COLOURS), past: History | None = None) -> Any:
    """How estimates, order and open pairs developed as answers came in.

    Parameters
    ----------
    run : Run
        A run directory as `read_run` reads it, with its bank.
    coloured : int, optional
        So many of the best models are drawn in colour, with their interval; the others grey.
    past : History, optional
        The run's course, where it is at hand.

    Returns
    -------
    ndarray of Axes
        Of shape (4,): estimates, places, open pairs, half width.
    """
    past = past or history(run)
    axes = new_figure(2, 2, size=(10.0, 6.4), height_ratios=[3, 2]).ravel()
    estimate, order, open_pairs, width = axes
    known = [m for m in run.models if m not in run.tested]
    for j, model in reversed(list(enumerate([*run.tested, *known]))):
        vivid = j < min(coloured, len(run.tested))
        colour = COLOURS[j % len(COLOURS)] if vivid else SOFT
        style = {"color": colour, "lw": 1.8 if vivid else 0.7, "alpha": 1.0 if vivid else 0.35}
        estimate.plot(past.items, past.estimates[model], **style)
        if vivid:
            estimate.fill_between(
                past.items, past.low[model], past.high[model], color=colour, alpha=0.08, lw=0
            )
        ranks = np.where(np.array(past.ranks[model]) > 0, past.ranks[model], np.nan)
        [line] = order.plot(past.items, ranks, **style)
        if vivid:
            line.set_label(names([model])[0])
    late = len(past.items) // 3
    ends = [v for m in run.models for e in (past.low, past.high) for v in e[m][late:]]
    estimate.set_ylim(np.nanmin(ends), np.nanmax(ends))
    title(estimate, f"Estimate of {run.facts['metric']}")
    title(order, "Place in the order")
    order.invert_yaxis()
    order.yaxis.get_major_locator().set_params(integer=True)
    handles, labels = order.get_legend_handles_labels()
    legend(order, handles=handles[::-1], labels=labels[::-1], loc="center left",
           bbox_to_anchor=(1.0, 0.5), fontsize=8)  # fmt: skip
    open_pairs.fill_between(past.items, past.undecided, color=ACCENT, alpha=0.15, step="post", lw=0)
    open_pairs.step(past.items, past.undecided, color=ACCENT, where="post")
    title(open_pairs, "Neighbouring pairs not decided")
    open_pairs.set_ylim(bottom=0)
    width.plot(past.items, past.half_width, color=ACCENT)
    title(width, "Half width of the median interval")
    width.set_ylim(0, 1.1 * max(past.half_width[late // 2 :]))
    for ax in axes:
        ax.set_xlim(left=0)
        ax.set_xlabel("answers")
    return axes


def plot_information(run: Run) -> Any:
    """The bank's information over ability, with every model's ability and items below it.

    Returns
    -------
    ndarray of Axes
        Of shape (2,): the information, the models.
    """
    assert run.bank is not None
    results, models = run.result["models"], run.tested
    abilities = np.array([results[m]["ability"] for m in models], dtype=float)
    curve = information_curve(run.bank, abilities)
    axes = top, below = new_figure(
        2, 1, size=(7.0, 2.6 + 0.26 * len(models)), sharex=True,
        height_ratios=[2.0, 0.26 * len(models) + 0.2],
    )  # fmt: skip
    top.fill_between(curve.ability, curve.total, color=ACCENT, alpha=0.14, lw=0)
    top.plot(curve.ability, curve.total, color=ACCENT)
    top.set_ylim(bottom=0)
    title(top, "Information of the bank")
    items: dict[str, list[int]] = {m: [] for m in models}
    for answer in run.answers:
        items[answer.model].append(run.bank.index[answer.doc])
    for row, model in enumerate(models):
        where = np.clip(curve.location[items[model]], curve.ability[0], curve.ability[-1])
        below.vlines(where, row - 0.34, row + 0.34, color=INK, alpha=0.35, lw=0.7)
        error = results[model]["ability_standard_error"]
        below.hlines(
            row, abilities[row] - error, abilities[row] + error,
            color=ACCENT, alpha=0.45, lw=5, capstyle="round",
        )  # fmt: skip
    below.plot(abilities, range(len(models)), "o", color=ACCENT, mec="white", ms=6)
    label_rows(below, models)
    below.grid(axis="y", visible=False)
    below.spines["left"].set_color(LINE)
    below.set_xlim(curve.ability[0], curve.ability[-1])
    below.set_xlabel("ability (logits): models as dots, the items they were given as ticks")
    return np.array(axes)
