"""One look for all plots, and figures without global state."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import RunError, UsageError
from ...visible import visible_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, SOFT, LINE, ACCENT, BAD = "#1a1f27", "#5a6472", "#dfe4ea", "#1f5fbf", "#ad4e0b"
COLOURS = (
    "#1f5fbf", "#ad4e0b", "#1b7f5c", "#a3317f", "#6a4fb3", "#8a6d00", "#0b7d8e", "#8c3b2e",
)  # fmt: skip
TIE_FILL = "#fff1cc"

_RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "svg.hashsalt": "lm-eval-ccat",  # the same plot is the same file
    "svg.fonttype": "path",
}


def subplots(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (7.0, 4.0), **options: Any
) -> Any:
    """Axes of a new figure of our look, one or an array of them; inches.

    In a notebook, and wherever else pyplot is in use, the figure is one of pyplot's, so that it is
    shown as others are. Elsewhere it belongs to the caller alone, and no display is involved.

    Raises
    ------
    RunError
        Matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise RunError('plots need matplotlib: pip install "lm-eval-ccat[plot]"') from None
    pyplot = sys.modules.get("matplotlib.pyplot")
    make = Figure if pyplot is None else pyplot.figure
    with rc_context(_RC):
        return make(figsize=size, layout="constrained").subplots(rows, columns, **options)


def names(models: Iterable[str], longest: int = 28) -> list[str]:
    """Names of models as labels: visible characters, and not too many."""
    shown = [visible_line(m) for m in models]
    return [n if len(n) <= longest else n[: longest - 1] + "…" for n in shown]


def label_rows(ax: Axes, models: Sequence[str]) -> None:
    """Name the rows of a plot, the first on top."""
    # A name such as "$a_b" is a name, not mathematics.
    ax.set_yticks(range(len(models)), labels=names(models), parse_math=False)
    ax.set_ylim(len(models) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0, labelcolor=INK)


def title(ax: Axes, text: str) -> None:
    """A heading at the left, bold."""
    ax.set_title(text, loc="left", fontweight="bold", fontsize=11, color=INK)


def legend(ax: Axes, **options: Any) -> None:
    """A legend whose names are not read as mathematics."""
    made = ax.legend(frameon=False, **options)
    for text in made.get_texts():
        text.set_parse_math(False)


def save(plot: Any, stem: str | Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a plot as ``<stem>.<format>``; the same plot always gives the same bytes.

    Parameters
    ----------
    plot : Axes, array of Axes, or Figure
        The whole figure is written.
    stem : path
        Without a suffix; its folder is made.
    formats : sequence of {"png", "svg", "pdf"}

    Raises
    ------
    UsageError
        A file cannot be written.
    """
    from matplotlib import rc_context

    figure = _figure(plot)

    stem = Path(stem)
    written = []
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        for form in formats:
            target = stem.with_name(f"{stem.name}.{form}")
            undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
            with rc_context(_RC):
                figure.savefig(target, format=form, metadata=undated)
            written.append(target)
    except OSError as error:
        raise UsageError(f"cannot write plots at {stem}: {error.strerror or error}") from error
    return written


def close(plot: Any) -> None:
    """Forget a plot that is not to be shown."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(_figure(plot))


def _figure(plot: Any) -> Any:
    one = plot.flat[0] if isinstance(plot, np.ndarray) else plot
    return getattr(one, "figure", None) or one
