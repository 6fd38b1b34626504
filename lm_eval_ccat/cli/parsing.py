"""What every command's arguments have in common: help that fits, close names, ``--json [FILE]``."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from ..errors import UsageError
from ..files import replace_text
from ..plugins import did_you_mean

WIDTH = 80
#: Where ``--json`` without a file writes.
STANDARD_OUTPUT = "-"


class Help(argparse.RawDescriptionHelpFormatter):
    """Help within 80 columns; a text of one paragraph is wrapped, examples stay as written."""

    def __init__(self, prog: str, **options: Any) -> None:
        options.setdefault("width", min(WIDTH, shutil.get_terminal_size().columns) - 2)
        super().__init__(prog, **options)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text.strip():
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """An argument parser that names close flags and never guesses at abbreviations."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options["allow_abbrev"] = False
        options["formatter_class"] = Help
        super().__init__(*args, **options)
        # `--range -1,1`: argparse takes only plain numbers that begin with a minus for values.
        self._negative_number_matcher = re.compile(r"-[\d.][\d.,e-]*$")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        found, left = super().parse_known_args(args, namespace)
        # A parser of subcommands passes on what they did not know; they have complained already.
        unknown = [a.split("=", 1)[0] for a in left if a.startswith("-")]
        if unknown:
            near = did_you_mean(unknown[0], self._option_string_actions, listing=False)
            self.error(f"unknown option {unknown[0]}{near}")
        return found, left

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(c) for c in action.choices]
            what = "/".join(action.option_strings) or action.metavar or action.dest
            near = did_you_mean(str(value), choices)
            raise argparse.ArgumentError(None, f"{what}: no {value!r}{near}")

    def error(self, message: str) -> NoReturn:
        """One line and exit code 2; the usage is a ``--help`` away."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def add_json(parser: argparse.ArgumentParser, what: str = "the result") -> None:
    """Add ``--json [FILE]``, which means the same in every command."""
    parser.add_argument(
        "--json",
        nargs="?",
        const=STANDARD_OUTPUT,
        metavar="FILE",
        help=f"write {what} as JSON to FILE, or to standard output in place of text",
    )


def prints_json(target: str | None) -> bool:
    """Whether standard output is for JSON alone."""
    return target == STANDARD_OUTPUT


def write_json(target: str | None, content: Any, out: TextIO | None = None) -> None:
    """Write what ``--json`` asks for; nothing where the flag was not given.

    Parameters
    ----------
    target : str or None
        A file, or `STANDARD_OUTPUT`.
    content : JSON values
        What is none of these is written as its text.
    out : text stream, optional
        What stands for standard output.

    Raises
    ------
    UsageError
        The file cannot be written.
    """
    if target is None:
        return
    text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
    if target == STANDARD_OUTPUT:
        print(text, file=out or sys.stdout, flush=True)
        return
    try:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        replace_text(Path(target), text + "\n")
    except OSError as error:
        raise UsageError(f"{target}: cannot be written ({error.strerror or error})") from error


def add_executor(parser: argparse.ArgumentParser, what: str, near: str, far: str) -> None:
    """Add ``--executor`` and ``--ray_address``: `what` runs `near` or `far`."""
    parser.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help=f"where {what}: {near}, or as {far} of a Ray cluster",
    )
    parser.add_argument(
        "--ray_address", metavar="ADDRESS", help="an existing Ray cluster (default: a local one)"
    )


def add_watch(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--watch [SECONDS]``."""

    def seconds(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 1.0 <= value <= 86_400.0:
            raise argparse.ArgumentTypeError(f"SECONDS is a number from 1 to 86400, not {text!r}")
        return value

    parser.add_argument(
        "--watch", nargs="?", const=10.0, type=seconds, metavar="SECONDS", help=what
    )


def add_exclude(
    parser: argparse.ArgumentParser, what: str = "models to leave out, by commas"
) -> None:
    """Add ``--exclude A,B``, which is written the same in every command that reads scores."""
    parser.add_argument("--exclude", default="", metavar="A,B", help=what)


def names_of(text: str | None) -> list[str]:
    """The names that a flag gives as ``A,B``; none where it was not given.

    Examples
    --------
    >>> names_of("a, b,"), names_of(None)
    (['a', 'b'], [])
    """
    return [name for name in (part.strip() for part in (text or "").split(",")) if name]


def warn(text: str) -> None:
    """One warning, on standard error."""
    print(f"warning: {text}", file=sys.stderr)
