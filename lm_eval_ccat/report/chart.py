"""The one chart engine: drawings in SVG, for the page, a notebook, and files.

SVG is what the page needs (it scales, follows no library's style sheet, and loads nothing) and what
a paper takes; PNG and PDF are the same drawing, converted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import import_module
from math import isfinite, nan
from pathlib import Path
from typing import Any

from ..errors import RunError, UsageError
from ..files import replace_bytes
from ..masking import mask_text
from ..visible import visible_line
from .axes import Axis
from .shapes import Ticks, band, path, ticks

INK, SOFT, LINE, ACCENT, BAD = "#1a1f27", "#5a6472", "#dfe4ea", "#1f5fbf", "#ad4e0b"
COLOURS = (
    "#1f5fbf", "#ad4e0b", "#1b7f5c", "#a3317f", "#6a4fb3", "#8a6d00", "#0b7d8e", "#8c3b2e",
)  # fmt: skip
TIE_FILL = "#fff1cc"
FORMATS = ("svg", "png", "pdf")
#: Pixels of a letter at 11 px, and letters that a label keeps.
LETTER = 6.3
_LONGEST = 44
_FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"


def label(name: str, longest: int = _LONGEST) -> str:
    """A model's name as a label: visible characters, and not too many."""
    shown = visible_line(name)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


class Chart:
    """A drawing of some size, in pixels; the top left is (0, 0).

    Parameters
    ----------
    width, height : float
    words : str
        What is seen, for who cannot see it.

    Examples
    --------
    >>> chart = Chart(80, 20, "a dot")
    >>> chart.dot(10, 10)
    >>> chart.svg.count("<circle")
    1
    """

    def __init__(self, width: float, height: float, words: str = "") -> None:
        self.width, self.height, self.words = width, height, words
        self._parts: list[str] = []

    def _add(self, tag: str, content: str = "", **attributes: object) -> None:
        pairs = "".join(
            f' {key.replace("_", "-")}="{escape(_number(value))}"'
            for key, value in attributes.items()
            if value is not None
        )
        self._parts.append(f"<{tag}{pairs}>{content}</{tag}>" if content else f"<{tag}{pairs}/>")

    def text(
        self, x: float, y: float, words: object, anchor: str | None = None, colour: str = INK,
        size: float | None = None, bold: bool = False,
    ) -> None:  # fmt: skip
        """Write on the base line `y`; `anchor` is "middle", "end", or the start."""
        self._add(
            "text", escape(visible_line(words)), x=x, y=y, text_anchor=anchor, fill=colour,
            font_size=size, font_weight="bold" if bold else None,
        )  # fmt: skip

    def line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str = LINE, width: float = 1,
        dash: str | None = None, opacity: float | None = None,
    ) -> None:  # fmt: skip
        """A straight line."""
        self._add(
            "line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=width,
            stroke_dasharray=dash, stroke_opacity=opacity,
        )  # fmt: skip

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str,
        stroke: str | None = None, opacity: float | None = None,
    ) -> None:  # fmt: skip
        """A rectangle."""
        self._add(
            "rect", x=x, y=y, width=width, height=height, fill=fill, stroke=stroke,
            fill_opacity=opacity,
        )  # fmt: skip

    def dot(
        self, x: float, y: float, r: float = 3.5, fill: str = ACCENT, opacity: float | None = None
    ) -> None:
        """A filled circle."""
        self._add("circle", cx=x, cy=y, r=r, fill=fill, fill_opacity=opacity)

    def path(
        self, d: str, stroke: str | None = None, fill: str = "none", width: float = 1.8,
        opacity: float | None = None,
    ) -> None:  # fmt: skip
        """An SVG path, in pixels."""
        if d:
            stroke_width = None if stroke is None else width
            self._add(
                "path", d=d, stroke=stroke, fill=fill, stroke_width=stroke_width, opacity=opacity
            )

    def shape(self, d: str, box: tuple[float, float, float, float], **look: Any) -> None:
        """A path in per cent of a box (left, top, width, height), cut off at its edges."""
        x, y, width, height = box
        inner = Chart(width, height)
        inner.path(scaled(d, width, height), **look)
        self._add("svg", "".join(inner._parts), x=x, y=y, width=width, height=height)

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
            Without a suffix; its folder is made.
        formats : sequence of {"svg", "png", "pdf"}
            PNG and PDF need the extra ``plot``.

        Raises
        ------
        RunError
            The extra is not installed.
        UsageError
            A file cannot be written, or there is no such format.
        """
        stem, written = Path(stem), []
        for form in formats:
            content = self._as(form)
            target = stem.with_name(f"{stem.name}.{form}")
            try:
                stem.parent.mkdir(parents=True, exist_ok=True)
                replace_bytes(target, content)
            except OSError as error:
                raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
            written.append(target)
        return written

    def _as(self, form: str) -> bytes:
        if form == "svg":
            return self.svg.encode("utf-8")
        if form not in FORMATS:
            raise UsageError(f"charts are written as svg, png and pdf, not {form!r}")
        try:
            converter = import_module("vl_convert")
        except ImportError:
            raise RunError(f'{form} needs a converter: pip install "lm-eval-ccat[plot]"') from None
        if form == "pdf":
            return bytes(converter.svg_to_pdf(self.svg))
        return bytes(converter.svg_to_png(self.svg, scale=2.0))


def frame(
    chart: Chart, title: str, across: Ticks, x: float, y: float, width: float, height: float,
    up: Ticks,
) -> Callable[..., None]:  # fmt: skip
    """Draw title, grid and labels of a panel; what draws shapes in per cent of it."""
    if title:
        chart.text(x, y - 9, title, size=12, bold=True)
    for tick in across:
        at = x + width * tick["at"] / 100.0
        chart.line(at, y, at, y + height)
        chart.text(at, y + height + 15, tick["label"], "middle", SOFT)
    for tick in up:
        at = y + height * tick["at"] / 100.0
        chart.line(x, at, x + width, at)
        chart.text(x - 6, at + 4, tick["label"], "end", SOFT)
    return lambda d, **look: chart.shape(d, (x, y, width, height), **look)


class Panel:
    """A part of a chart with axes; figures go in, places on the chart come out.

    Parameters
    ----------
    chart : Chart
    x, y, width, height : float
        Of the plotting area.
    across, up : Axis
    title, name : str, optional
        Above it at the left, and below it at the right.
    """

    def __init__(
        self, chart: Chart, x: float, y: float, width: float, height: float, across: Axis, up: Axis,
        title: str = "", name: str = "",
    ) -> None:  # fmt: skip
        self.chart, self._across, self._up = chart, across, up
        self._box = x, y, width, height
        frame(chart, title, ticks(across), x, y, width, height, ticks(up, down=True))
        if name:
            chart.text(x + width, y + height + 30, name, "end", SOFT)

    def x(self, value: float) -> float:
        """Where a value of the horizontal axis lies."""
        return self._box[0] + self._box[2] * self._across.place(value) / 100.0

    def y(self, value: float) -> float:
        """Where a value of the vertical axis lies."""
        return self._box[1] + self._box[3] * (1.0 - self._up.place(value) / 100.0)

    def curve(
        self, xs: Iterable[float], ys: Iterable[float], colour: str = ACCENT, dots: bool = False
    ) -> None:
        """A line through points; a NaN breaks it."""
        points = [(self.x(a), self.y(b) if isfinite(b) else nan) for a, b in zip(xs, ys)]
        self.chart.path(path([p[0] for p in points], [p[1] for p in points]), colour)
        for at, up in points if dots else ():
            if isfinite(up):
                self.chart.dot(at, up, 2.8, colour)

    def band(
        self, xs: Iterable[float], low: Iterable[float], high: Iterable[float], colour: str = ACCENT
    ) -> None:
        """The area between two lines."""
        at = [self.x(v) for v in xs]
        shape = band(at, [self.y(v) for v in low], [self.y(v) for v in high])
        self.chart.path(shape, fill=colour, opacity=0.13)


def scaled(d: str, width: float, height: float) -> str:
    """A path in per cent, put into a box.

    Examples
    --------
    >>> scaled("M0 50L100 0", 200, 40)
    'M0 20L200 0'
    """

    def put(match: re.Match[str]) -> str:
        return f"{width * float(match[1]) / 100:.6g} {height * float(match[2]) / 100:.6g}"

    return re.sub(r"(-?[\d.e+-]+) (-?[\d.e+-]+)", put, d)


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
