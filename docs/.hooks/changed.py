"""Says beside a figure, when the site is built, that the files that made it have changed since."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

_STATED = re.compile(r"`python (benchmarks/\w+\.py)[^`]*`[^`]*?with sources of hash ([0-9a-f]{12})")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Hook of MkDocs: the page with what has changed."""
    from sources import sources

    return _STATED.sub(
        lambda m: m[0] + (" (the code has changed since)" if sources(m[1]) != m[2] else ""),
        markdown,
    )
