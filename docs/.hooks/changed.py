"""Says beside a figure, when the site is built, that the code that made it has changed since."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from typing import Any

stated = run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "sources.py"))["stated"]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Hook of MkDocs: the page with what has changed."""
    old = {figures.hash for figures in stated(markdown) if figures.changed}
    return re.sub(
        r"\bhash ([0-9a-f]{12})\b",
        lambda m: m[0] + " (the code has changed since)" * (m[1] in old),
        markdown,
    )
