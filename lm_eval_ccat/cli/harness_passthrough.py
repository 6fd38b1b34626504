"""``ls`` and ``validate``: the harness's own commands, with our shipped tasks in view."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..harness.shipped import shipped_tasks


def main(argv: Sequence[str]) -> int:
    """Hand ``argv`` (``["ls", ...]`` or ``["validate", ...]``) to the harness's command line."""
    from ..harness import internals

    arguments = list(argv)
    folder = shipped_tasks()
    given = any(a == "--include_path" or a.startswith("--include_path=") for a in arguments)
    asks_for_help = any(a in ("-h", "--help") for a in arguments)
    if folder is not None and len(arguments) > 1 and not given and not asks_for_help:
        arguments += ["--include_path", str(folder)]
    # The harness reads sys.argv itself.
    before = sys.argv
    sys.argv = ["lm-eval-ccat", *arguments]
    try:
        internals.command_line()()
    finally:
        sys.argv = before
    return 0
