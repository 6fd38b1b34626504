"""``lm-eval-ccat setup comet``: an environment of its own for what does not go with the rest."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EPILOG = """\
examples:
  lm-eval-ccat setup comet
  lm-eval-ccat setup comet --folder comet-env --python python3.12
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``setup`` to the command line."""
    parser = subparsers.add_parser(
        "setup",
        help="make the environment that COMET needs",
        description="Makes a virtual environment with unbabel-comet and versions that go with it.",
        epilog=EPILOG,
    )
    parser.add_argument("what", choices=("comet",), help="what to set up")
    parser.add_argument("--folder", metavar="DIR", help="where (default: in the user's cache)")
    parser.add_argument("--python", help="a Python from 3.10 to 3.12 (default: this one)")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Make the environment."""
    from ..harness.comet import VARIABLE, environment, make_environment

    folder = Path(args.folder) if args.folder else environment()
    print(f"making {folder}; this downloads torch and takes minutes", file=sys.stderr)
    python = make_environment(folder, args.python)
    print(python)
    if args.folder:
        print(f"set {VARIABLE}={python}, or give it with --python", file=sys.stderr)
    return 0
