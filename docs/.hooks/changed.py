"""Says beside a figure, when the site is built, that the files that made it have changed since."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from typing import Any

sources = run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "sources.py"))[
    "sources"
]
_STATED = re.compile(
    r"`python (benchmarks/[\w/]+\.py)[^`]*`[^`]*?with sources of hash ([0-9a-f]{12})"
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Hook of MkDocs: the page with what has changed."""
    since = " (the code has changed since)"
    return _STATED.sub(lambda m: m[0] + since * (sources(m[1]) != m[2]), markdown)
