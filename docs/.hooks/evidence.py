"""Two charts of what was measured, drawn from docs/evidence/measured.

The chart of methods, order and decided pairs over the items per model, which ``measured.py`` writes
as docs/evidence/methods.svg; and items needed over the gap of two models, which ``front.py`` writes
as docs/gap.svg.
"""

from __future__ import annotations

import math
from typing import Any

#: Method, its name in the chart, colour, width of its line.
_METHODS = (
    ("default", "default", "#1f5fbf", 3.0),
    ("paper", "paper", "#6a4fb3", 1.6),
    ("static", "fixed subset", "#8a6d00", 1.6),
    ("paired", "random items, paired t-test", "#ad4e0b", 1.6),
    ("sample", "sample (no bank)", "#1b7f5c", 1.6),
)
_PANELS = (
    ("tau", "Agreement with the full order (Kendall's tau)", 0.5, 1.0, "{:.1f}"),
    ("decided", "Pairs decided", 0.0, 0.8, "{:.0%}"),
)
_WIDTH, _HEIGHT, _TOP, _LEFT, _GAP = 300, 200, 34, 46, 70
#: What takes the place of each colour where the reader's screen is dark, as on the page of a run.
_DARK = {
    "#ffffff": "#0f1319", "#1a1f27": "#e4e8ee", "#5a6472": "#9aa5b4", "#e2e6ec": "#2a323d",
    "#1f5fbf": "#7db3ff", "#6a4fb3": "#b79dff", "#8a6d00": "#e5c84a", "#ad4e0b": "#ff9e57",
    "#1b7f5c": "#4fd1a1",
}  # fmt: skip


def drawing(parts: list[str], width: int, height: int, size: int, words: str) -> str:
    """An SVG drawing that needs no style sheet, in dark colours where the screen is dark."""
    rules = "".join(
        f'[{where}="{light}"]{{{where}:{dark}}}'
        for light, dark in _DARK.items()
        for where in ("fill", "stroke")
    )
    first = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="{size}" role="img" aria-label="{words}">',
        f"<style>@media(prefers-color-scheme:dark){{{rules}}}</style>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    return "\n".join([*first, *parts, "</svg>\n"])


def chart(measured: dict[str, Any]) -> str:
    """An SVG drawing: order and decided pairs of each method over the items per model."""
    sizes = sorted(
        int(key.removeprefix("random, ").removesuffix(" items"))
        for key in measured["tables"]
        if key.startswith("random, ")
    )
    first = measured["tables"][f"random, {sizes[0]} items"]["default"]
    width = 2 * (_LEFT + _WIDTH) + _GAP - 20
    height = _TOP + _HEIGHT + 40 + 20 * ((len(_METHODS) + 2) // 3)
    title = f"{first['tables']} published score tables, four held-out models at a time, equal items"
    parts: list[str] = []
    for n, panel in enumerate(_PANELS):
        parts += _panel(measured, sizes, _LEFT + n * (_WIDTH + _GAP), *panel)
    for n, (_, name, colour, thick) in enumerate(_METHODS):
        x, y = _LEFT + 215 * (n % 3), _TOP + _HEIGHT + 46 + 20 * (n // 3)
        parts.append(
            f'<line x1="{x}" x2="{x + 22}" y1="{y}" y2="{y}" stroke="{colour}" '
            f'stroke-width="{thick}"/><text x="{x + 28}" y="{y + 4}" fill="#1a1f27">{name}</text>'
        )
    return drawing(parts, width, height, 11, title)


def _panel(
    measured: dict[str, Any],
    sizes: list[int],
    left: int,
    key: str,
    title: str,
    low: float,
    high: float,
    form: str,
) -> list[str]:
    def x(n: int) -> float:
        return left + _WIDTH * math.log(n / sizes[0]) / math.log(sizes[-1] / sizes[0])

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (high - value) / (high - low)

    bottom = _TOP + _HEIGHT
    parts = [f'<text x="{left}" y="16" font-weight="bold" fill="#1a1f27">{title}</text>']
    steps = round((high - low) / 0.1)
    for step in range(0, steps + 1, 1 if steps <= 5 else 2):
        value = low + 0.1 * step
        parts.append(
            f'<line x1="{left}" x2="{left + _WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
            f'stroke="#e2e6ec"/><text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end" '
            f'fill="#5a6472">{form.format(value)}</text>'
        )
    parts += [
        f'<text x="{x(n):.1f}" y="{bottom + 15}" text-anchor="middle" fill="#5a6472">{n}</text>'
        for n in sizes
    ]
    middle = left + _WIDTH / 2
    parts.append(
        f'<text x="{middle:g}" y="{bottom + 30}" text-anchor="middle" fill="#5a6472">'
        "documents per model</text>"
    )
    for method, _, colour, thick in reversed(_METHODS):
        found = [(n, measured["tables"][f"random, {n} items"].get(method, {})) for n in sizes]
        points = [(x(n), y(of[key])) for n, of in found if of.get(key) is not None]
        if not points:
            continue
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{thick}"/>'
        )
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
    return parts


#: A way to compare two models, its name in the chart, colour and dashes of its line.
_WAYS = (
    ("limit", "--limit, by the printed errors", "#ad4e0b", ""),
    ("weaker", "with a bank of weaker models", "#1f5fbf", "6 4"),
    ("none", "without a bank", "#1b7f5c", ""),
    ("bank", "with a bank", "#1f5fbf", ""),
    ("test", "t-test at the end, N guessed right", "#8a6d00", "2 3"),
)
_LEAST = 10


def items_over_gap(measured: dict[str, Any]) -> str:
    """An SVG drawing: items after which most pairs are decided, by how far apart they are."""
    width, height, left, top, wide, high = 720, 370, 60, 36, 400, 270
    gaps, most = measured["gaps"], measured["items"]

    def y(items: float) -> float:
        return top + high * (1 - math.log(items / _LEAST) / math.log(most / _LEAST))

    xs = [left + wide * (n + 0.5) / len(gaps) for n in range(len(gaps))]
    title = f"Items per model until {measured['shares'][-1]:.0%} of the pairs are decided rightly"
    parts = [f'<text x="{left}" y="18" font-weight="bold" fill="#1a1f27">{title}</text>']
    for items in (10, 20, 50, 100, 200, 400, most):
        parts.append(
            f'<line x1="{left}" x2="{left + wide}" y1="{y(items):.1f}" y2="{y(items):.1f}" '
            f'stroke="#e2e6ec"/><text x="{left - 6}" y="{y(items) + 4:.1f}" text-anchor="end" '
            f'fill="#5a6472">{items}</text>'
        )
    for n, (x, of_gap) in enumerate(zip(xs, gaps)):
        end = f"\u2013{gaps[n + 1]['from']:g}" if n + 1 < len(gaps) else "+"
        parts.append(
            f'<text x="{x:.1f}" y="{top + high + 18}" text-anchor="middle" fill="#5a6472">'
            f"{of_gap['from']:g}{end}</text>"
        )
    parts.append(
        f'<text x="{left + wide / 2:g}" y="{top + high + 38}" text-anchor="middle" '
        'fill="#5a6472">gap between the two models, in points of 100</text>'
    )
    for n, (way, name, colour, dashes) in enumerate(_WAYS):
        points = [(x, y(of_gap[way][-1])) for x, of_gap in zip(xs, gaps) if of_gap[way]]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        stroke = f'stroke="{colour}" stroke-width="2.2"{dashed}'
        parts.append(f'<polyline points="{line}" fill="none" {stroke}/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        x, row = left + wide + 16, top + 14 + 24 * n
        parts.append(
            f'<line x1="{x}" x2="{x + 24}" y1="{row}" y2="{row}" {stroke}/>'
            f'<text x="{x + 30}" y="{row + 4}" fill="#1a1f27">{name}</text>'
        )
    pairs = sum(of_gap["pairs"] for of_gap in gaps)
    parts.append(
        f'<text x="{left}" y="{height - 8}" fill="#5a6472" font-size="11">{pairs} pairs of real '
        f"models on {measured['tables']} published tables, {most} items each; {most} is a full "
        "run.</text>"
    )
    return drawing(parts, width, height, 12, f"{title}, over the gap between two models")
