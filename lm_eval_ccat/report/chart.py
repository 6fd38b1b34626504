"""The chart engine: SVG drawings for the page, notebooks and files.

SVG suits both the page (it scales and loads nothing) and papers; PNG and PDF are converted from it.
Axes and paths in per cent also serve the page's templates, whose charts stretch with the window.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RunError, UsageError
from ..files import replace_bytes, writing
from ..masking import mask_text
from ..plugins import needed, our_extra
from ..shown import visible_line


def asset(name: str, package: str = __package__) -> str:
    """Return the text of a file in a package's folder of templates."""
    return (resources.files(package) / "templates" / name).read_text(encoding="utf-8")


#: The colours of the page by daylight, by name, as its style sheet states them for old browsers.
_PAGE_COLOURS = dict(re.findall(r"--(\w+):(#\w+)", asset("style.css")))
INK, SOFT, LINE, ACCENT, BAD, TIE_FILL = (
    _PAGE_COLOURS[name] for name in ("ink", "soft", "line", "accent", "bad", "tie")
)
COLOURS = tuple(_PAGE_COLOURS[f"c{n}"] for n in range(8))
FORMATS = ("svg", "png", "pdf")
#: Width in pixels of a letter at 11 px.
LETTER = 6.3
#: Largest number of letters in a label.
_MAX_LETTERS = 44
_FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"


# -- axes and paths -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """A linear axis, with places in per cent of it, which serve as percentages of a width.

    Attributes
    ----------
    low, high : float
        The values at its ends.
    ticks : tuple of float
    labels : tuple of str
        One for each tick.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]

    def percent_at(self, value: float) -> float:
        """Return a value's place in per cent of the axis, cut to [0, 100]."""
        return min(100.0, max(0.0, self.uncut_percent(value)))

    def uncut_percent(self, value: float) -> float:
        """Return a value's place in per cent of the axis; beyond the axis, below 0 or over 100."""
        return round(100.0 * (value - self.low) / (self.high - self.low), 3)

    def marks(self, down: bool = False) -> list[dict[str, Any]]:
        """Return place (``at``) and label of each tick; `down` if places count from the top."""
        return [
            {
                "at": round(100.0 - self.percent_at(tick), 3) if down else self.percent_at(tick),
                "label": label,
            }
            for tick, label in zip(self.ticks, self.labels)
        ]


def axis(values: Iterable[float], *, n_ticks: int = 5, pad: float = 0.05) -> Axis:
    """Make an axis that covers all finite values, with about `n_ticks` round ticks.

    Examples
    --------
    >>> axis([0.12, 0.88], pad=0.0).labels
    ('0.2', '0.4', '0.6', '0.8')
    """
    # A model without an answer has no figures, and a chart without models still has axes.
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    # Equal values need some room, or the axis has no length.
    if high - low < 1e-12 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    margin = pad * (high - low)
    return between(low - margin, high + margin, n_ticks=n_ticks)


def between(low: float, high: float, *, n_ticks: int = 5) -> Axis:
    """Make an axis from exactly `low` to `high`, with about `n_ticks` round ticks inside it.

    Examples
    --------
    >>> between(-0.01, 0.01, n_ticks=2).labels
    ('-0.01', '0.00', '0.01')
    """
    wanted_step = (high - low) / max(n_ticks, 1)
    power = 10.0 ** math.floor(math.log10(wanted_step))
    # The next step that is 1, 2, 5 or 10 times a power of ten; sums of floats err a little.
    step = power * next(
        (factor for factor in (1.0, 2.0, 5.0) if wanted_step <= factor * power * 1.0000001), 10.0
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple(step * i for i in range(first, last + 1))
    # With as many decimals as the step needs, and no minus before a zero that rounding made.
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    labels = (f"{round(tick, decimals) + 0.0:,.{decimals}f}" for tick in ticks)
    return Axis(low, high, ticks, tuple(labels))


@dataclass(frozen=True)
class Box:
    """A plotting area: converts figures to places and SVG paths.

    Attributes
    ----------
    across, up : Axis
    width, height : float
        Size in pixels; by default, places are in per cent.

    Examples
    --------
    >>> box = Box(between(0, 100), between(0, 10), 100, 10)
    >>> box.line([0, 50, 100], [10, math.nan, 0]), box.area([0, 100], [10, 5])
    ('M0 0M100 10', 'M0 0L100 5L100 10L0 10Z')
    """

    across: Axis
    up: Axis
    width: float = 100.0
    height: float = 100.0

    def x(self, value: float) -> float:
        """Return where a value of the horizontal axis lies, kept inside."""
        return round(self.width * self.across.percent_at(value) / 100.0, 3)

    def y(self, value: float) -> float:
        """Return where a value of the vertical axis lies, kept inside; 0 is at the top."""
        return round(self.height * (1.0 - self.up.percent_at(value) / 100.0), 3)

    def _points(self, xs: Iterable[float], ys: Iterable[float]) -> list[str]:
        """Return where each point lies, as SVG has it; it may lie above or below the area."""

        def depth(y: float) -> float:
            """Return how far below the top a value lies."""
            return round(self.height * (1.0 - self.up.uncut_percent(y) / 100.0), 3)

        return [f"{self.x(x):g} {depth(y):g}" for x, y in zip(xs, ys)]

    def line(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        """Return an SVG path through points; a NaN breaks it."""
        parts, pen = [], "M"
        ys = list(ys)
        for y, point in zip(ys, self._points(xs, ys)):
            if math.isfinite(y):
                parts.append(pen + point)
            # After a gap the pen is lifted.
            pen = "L" if math.isfinite(y) else "M"
        return "".join(parts)

    def area(
        self, xs: Iterable[float], high: Iterable[float], low: Iterable[float] | None = None
    ) -> str:
        """Return a closed SVG path between two lines, or down to the bottom, without NaNs."""
        bottom = itertools.repeat(self.up.low)
        rows = [row for row in zip(xs, high, low or bottom) if all(map(math.isfinite, row))]
        # One point has no area.
        if len(rows) < 2:
            return ""
        xs, high, low = zip(*rows)
        forth, back = self._points(xs, high), reversed(self._points(xs, low))
        return f"M{'L'.join((*forth, *back))}Z"


# -- drawings -------------------------------------------------------------------------------------


def label(name: str) -> str:
    """Return a model's name as a label, with visible characters and a limited length."""
    text = visible_line(name)
    return text if len(text) <= _MAX_LETTERS else text[: _MAX_LETTERS - 1] + "…"


def element(tag: str, content: str = "", **attributes: Any) -> str:
    """Return an SVG element; attributes that are None are left out.

    Examples
    --------
    >>> element("text", "a", x=1.5, text_anchor="end", fill=None)
    '<text x="1.5" text-anchor="end">a</text>'
    """
    pairs = "".join(
        f' {key.replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{pairs}>{content}</{tag}>" if content else f"<{tag}{pairs}/>"


class Chart:
    """A drawing of some size, in pixels; the top left is (0, 0).

    Further keywords of its methods are SVG attributes, with ``_`` for ``-``.

    Parameters
    ----------
    width, height : float
    words : str
        Text alternative of the drawing.

    Examples
    --------
    >>> chart = Chart(80, 20, "a dot")
    >>> chart.dot(10, 10, opacity=0.5)
    >>> chart.svg.count("<circle")
    1
    """

    def __init__(self, width: float, height: float, words: str = "") -> None:
        self.width, self.height, self.words = width, height, words
        self._parts: list[str] = []

    def draw(self, tag: str, content: str = "", **attributes: Any) -> None:
        """Add an SVG element."""
        self._parts.append(element(tag, content, **attributes))

    def text(
        self, x: float, y: float, words: object, anchor: str | None = None, fill: str = INK,
        **style: Any,
    ) -> None:  # fmt: skip
        """Write words on the base line `y`; `x` is their start, or their `anchor`: middle, end."""
        escaped = escape(visible_line(words))
        self.draw("text", escaped, x=x, y=y, text_anchor=anchor, fill=fill, **style)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, stroke: str = LINE, width: float = 1,
        **style: Any,
    ) -> None:  # fmt: skip
        """Draw a straight line."""
        self.draw("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, stroke_width=width, **style)

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, **style: Any
    ) -> None:
        """Draw a rectangle."""
        self.draw("rect", x=x, y=y, width=width, height=height, fill=fill, **style)

    def dot(
        self, x: float, y: float, radius: float = 3.5, fill: str = ACCENT, **style: Any
    ) -> None:
        """Draw a filled circle."""
        self.draw("circle", cx=x, cy=y, r=radius, fill=fill, **style)

    @property
    def svg(self) -> str:
        """The drawing; the same chart always gives the same text."""
        return mask_text(
            f'<svg class="paper" xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" '
            f'height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'font-family="{_FONT}" font-size="11" role="img" aria-label="{escape(self.words)}">'
            f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(self._parts)}</svg>'
        )

    def _repr_svg_(self) -> str:
        """The drawing in a notebook."""
        return self.svg

    def save(self, stem: str | Path, formats: Sequence[str] = ("svg",)) -> list[Path]:
        """Write the drawing as ``<stem>.<format>``; the same chart always gives the same bytes.

        Parameters
        ----------
        stem : path
            Path without suffix; its folder is created if necessary.
        formats : sequence of {"svg", "png", "pdf"}
            PNG and PDF need the extra ``plot``.

        Raises
        ------
        RunError
            If the extra is not installed, or a file cannot be written.
        UsageError
            If there is no such format.
        """
        stem, written = Path(stem), []
        for form in formats:
            if form not in FORMATS:
                raise UsageError(f"charts are written as svg, png and pdf, not {form!r}")
            content = self.svg.encode("utf-8")
            if form != "svg":
                converter = needed("vl_convert", form, our_extra("plot"), RunError)
                if form == "pdf":
                    content = bytes(converter.svg_to_pdf(self.svg))
                else:
                    content = bytes(converter.svg_to_png(self.svg, scale=2.0))
            target = stem.with_name(f"{stem.name}.{form}")
            with writing(target):
                replace_bytes(target, content)
            written.append(target)
        return written


class Area(NamedTuple):
    """A rectangle of a chart, in pixels from its top left."""

    left: float
    top: float
    width: float
    height: float


class Panel:
    """A part of a chart with axes: converts figures to places on the chart.

    Parameters
    ----------
    chart : Chart
    area : Area
        The plotting area.
    across : Axis
    up : Axis, optional
        Without it, the panel has no horizontal grid lines and no labels at its left.
    title, name : str, optional
        Title above the panel at the left, and name of the horizontal axis below it at the right.
    """

    def __init__(
        self, chart: Chart, area: Area, across: Axis,
        up: Axis | None = None, title: str = "", name: str = "",
    ) -> None:  # fmt: skip
        x, y, width, height = area
        self.chart, self._left, self._top = chart, x, y
        self._box = Box(across, up or between(0.0, 1.0), width, height)
        if title:
            chart.text(x, y - 9, title, font_size=12, font_weight="bold")
        for tick in across.marks():
            position = x + width * tick["at"] / 100.0
            chart.line(position, y, position, y + height)
            chart.text(position, y + height + 15, tick["label"], anchor="middle", fill=SOFT)
        for tick in up.marks(down=True) if up else ():
            position = y + height * tick["at"] / 100.0
            chart.line(x, position, x + width, position)
            chart.text(x - 6, position + 4, tick["label"], anchor="end", fill=SOFT)
        if name:
            chart.text(x + width, y + height + 30, name, anchor="end", fill=SOFT)

    def x(self, value: float) -> float:
        """Return where a value of the horizontal axis lies on the chart."""
        return self._left + self._box.x(value)

    def y(self, value: float) -> float:
        """Return where a value of the vertical axis lies on the chart."""
        return self._top + self._box.y(value)

    def curve(
        self, xs: Sequence[float], ys: Sequence[float], stroke: str = ACCENT, dots: bool = False
    ) -> None:
        """Draw a line through points, cut off at the edges; a NaN breaks it."""
        path = self._box.line(xs, ys)
        self._inside(path, stroke=stroke, fill="none", stroke_width=1.8)
        for x, y in zip(xs, ys) if dots else ():
            if math.isfinite(y):
                self.chart.dot(self.x(x), self.y(y), radius=2.8, fill=stroke)

    def band(
        self, xs: Sequence[float], high: Sequence[float], low: Sequence[float] | None = None,
        fill: str = ACCENT, opacity: float = 0.13,
    ) -> None:  # fmt: skip
        """Fill the area between two lines, or down to the bottom, cut off at the edges."""
        self._inside(self._box.area(xs, high, low), fill=fill, opacity=opacity)

    def _inside(self, path: str, **style: Any) -> None:
        """Draw a path of `Box`, cut off at the edges of the plotting area."""
        box, drawn = self._box, element("path", d=path, **style) if path else ""
        self.chart.draw("svg", drawn, x=self._left, y=self._top, width=box.width, height=box.height)


def _number(value: object) -> str:
    """Return a value as an SVG attribute has it: a number by six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
