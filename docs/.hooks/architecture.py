"""Draws `docs/architecture.svg`: the rooms of the package, and which imports from which.

A room stands above all that it imports from. A line that follows from two others is left out: the
ranker imports from the banks, but does so through the methods, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from lm_eval_ccat.report.chart import ACCENT, SOFT, Chart

ROOT = Path(__file__).resolve().parents[2] / "lm_eval_ccat"
BOX, GAP, ROW, MARGIN = (104, 32), 26, 74, 24


def rooms() -> list[str]:
    """The folders of the package that hold modules."""
    return sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def imports_of(path: Path) -> Iterator[str]:
    """Yield the rooms that a module imports from."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            stem = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            names = [stem[0] or alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").removeprefix("lm_eval_ccat.").split(".")[0]]
        elif isinstance(node, ast.Import):
            names = [alias.name.removeprefix("lm_eval_ccat.").split(".")[0] for alias in node.names]
        else:
            names = []
        yield from names


def edges() -> dict[str, set[str]]:
    """Return the rooms that each room imports from."""
    known = set(rooms())
    return {
        room: {name for path in (ROOT / room).rglob("*.py") for name in imports_of(path)} & known
        - {room}
        for room in known
    }  # fmt: skip


def floors(below: dict[str, set[str]]) -> dict[str, int]:
    """Return the floor of each room: one more than the highest that it imports from."""
    floor: dict[str, int] = {}
    while len(floor) < len(below):
        ready = [room for room in below if room not in floor and below[room] <= floor.keys()]
        if not ready:
            raise SystemExit(f"rooms import in a circle: {sorted(below.keys() - floor.keys())}")
        for room in ready:
            floor[room] = 1 + max((floor[name] for name in below[room]), default=-1)
    return floor


def direct(below: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports that do not follow from others."""

    def reach(room: str) -> set[str]:
        return below[room].union(*map(reach, below[room]))

    return {room: names - set().union(*map(reach, names)) for room, names in below.items()}


def picture() -> str:
    """The drawing."""
    below = edges()
    floor = floors(below)
    ...
    return ""


if __name__ == "__main__":
    b = edges(); f = floors(b); d = direct(b)
    for room in sorted(b, key=lambda r: -f[r]): print(f[room], room, sorted(d[room]), len(b[room]))
