"""Draws `docs/architecture.svg`: the rooms of the package, and which imports from which.

A room stands above all that it imports from. A line that follows from others is left out: `live`
imports from `bank`, but does so through `upkeep`, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lm_eval_ccat.report.chart import ACCENT, LINE, Chart

ROOT = Path(__file__).resolve().parents[2] / "lm_eval_ccat"
WIDTH, ROW, BOX = 560, 52, (110, 28)


def imports_of(path: Path) -> Iterator[str]:
    """Yield the rooms that a module imports from, and names of what is no room."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = list(package[: len(package) - node.level + 1])
            modules = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (".".join([*above, module]).split(".")[0] for module in modules)


@cache
def rooms_below() -> dict[str, set[str]]:
    """Return the rooms that each room imports from."""
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    below = {
        room: {name for path in (ROOT / room).rglob("*.py") for name in imports_of(path)}
        for room in rooms
    }
    return {room: names & rooms - {room} for room, names in below.items()}


def floors(below: dict[str, set[str]]) -> list[list[str]]:
    """Return the rooms of each floor, the ground first: all that they import from lies lower."""
    house: list[list[str]] = []
    column: dict[str, float] = {}  # of each room that stands: 0 on the left, 1 on the right
    lines = direct(below)

    def over(room: str) -> tuple[float, str]:
        return sum(column[name] for name in lines[room]) / max(len(lines[room]), 1), room

    while column.keys() < below.keys():
        ready = {room for room in below.keys() - column.keys() if below[room] <= column.keys()}
        house.append(sorted(ready, key=over))
        column |= {room: (n + 0.5) / len(ready) for n, room in enumerate(house[-1])}
    return house


def direct(below: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports that do not follow from others."""

    def reach(room: str, above: tuple[str, ...] = ()) -> set[str]:
        if room in above:
            raise SystemExit(f"rooms import in a circle: {', '.join((*above, room))}")
        return below[room].union(*(reach(name, (*above, room)) for name in below[room]))

    return {room: names - set().union(*map(reach, names)) for room, names in below.items()}


def picture() -> str:
    """Return the drawing."""
    below = rooms_below()
    house = floors(below)
    chart = Chart(WIDTH, ROW * len(house), "The rooms of the package, each above what it imports")
    place = {
        room: (WIDTH * (n + 0.5) / len(floor), ROW * (len(house) - height - 0.5))
        for height, floor in enumerate(house)
        for n, room in enumerate(floor)
    }
    for room, names in sorted(direct(below).items()):
        for name in sorted(names):
            (x, y), (end, ground) = place[room], place[name]
            middle = (y + ground) / 2
            curve = f"M{x:g} {y:g}C{x:g} {middle:g} {end:g} {middle:g} {end:g} {ground:g}"
            chart.draw("path", d=curve, fill="none", stroke=ACCENT, stroke_width=1.2)
    width, height = BOX
    for room, (x, y) in sorted(place.items()):
        box = {"fill": "#ffffff", "stroke": LINE, "rx": 5}
        chart.rect(x - width / 2, y - height / 2, width, height, **box)
        chart.text(x, y + 4, room, "middle", font_size=13, font_weight="bold")
    return chart.svg


if __name__ == "__main__":
    print(picture())
