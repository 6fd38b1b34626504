"""Parsing that all commands share: help that fits, close names, ``--json [FILE]``."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO, cast

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
        parsed, left = super().parse_known_args(args, namespace)
        # A parser of subcommands passes on what they did not know; they have complained already.
        unknown = [a.split("=", 1)[0] for a in left if a.startswith("-")]
        if unknown:
            near = did_you_mean(unknown[0], self._option_string_actions, listing=False)
            self.error(f"unknown option {unknown[0]}{near}")
        return parsed, left

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(c) for c in action.choices]
            what = "/".join(action.option_strings) or action.metavar or action.dest
            near = did_you_mean(str(value), choices)
            raise argparse.ArgumentError(None, f"{what}: no {value!r}{near}")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with code 2; ``--help`` shows the usage."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


#: As a default: the option has to be there.
REQUIRED = object()


class Opt(NamedTuple):
    """An option: its help, its default, what reads the text, and its value if it is given bare."""

    help: str
    default: Any = None
    read: Callable[[str], Any] | None = None
    bare: Any = STANDARD_OUTPUT


#: Options of a command, as `add_options` reads them, with their help or more.
Options = Mapping[str, str | Opt]

JSON: Options = {"--json [FILE]": "write JSON to FILE, or to standard output in place of text"}
EXCLUDE: Options = {"--exclude A,B": Opt("models to leave out", "")}
INCLUDE_PATH: Options = {"--include_path DIR": "folder with further task files"}


def executor(text: str) -> str:
    """Read the PLACE of ``--executor``."""
    if text != "local":
        from ..cluster import address_of

        address_of(text)
    return text


EXECUTOR: Options = {
    "--executor PLACE": Opt(
        "'local', 'ray' (a Ray cluster on this machine) or 'ray:ADDRESS' (another)",
        "local",
        executor,
    )
}


def add_command(
    subparsers: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    options: Options,
    description: str,
    epilog: str = "",
) -> CommandParser:
    """Add a command, or an action of one, with a table of its options."""
    about = {"help": description.partition(". ")[0].rstrip("."), "description": description}
    parser = cast(CommandParser, subparsers.add_parser(name, **about, epilog=epilog))
    add_options(parser, options)
    parser.set_defaults(func=run)
    return parser


def add_options(parser: Any, options: Options) -> None:
    """Add a table of options to a parser or a group.

    Parameters
    ----------
    parser : argparse parser or group
    options : mapping of str to str or Opt
        ``"-o --output FILE"`` takes a value, ``"--yes"`` none, ``"--json [FILE]"`` may;
        ``"--logs DIR..."`` takes several values, ``"--name NAME,"`` is given several times,
        ``"--price PART...,"`` both; ``"--kind a|b"`` takes one of these, by default the first.
        Without a dash it is an argument: ``"RUN"``, ``"a=BASELINE?"`` (called ``a``; may be left
        out), ``"PATH..."``, ``"LOGS*"`` (any number).

    Examples
    --------
    >>> parser = CommandParser(prog="p")
    >>> add_options(parser, {"RUN": "a run", "--kind near|far": "which", "--n N": Opt("many", 3)})
    >>> parser.parse_args(["x", "--n", "4"])
    Namespace(run='x', kind='near', n=4)
    """
    for key, row in options.items():
        one = Opt(row) if isinstance(row, str) else row
        *flags, last = key.split()
        if last.startswith("-"):
            off = False if isinstance(row, str) else one.default
            parser.add_argument(*flags, last, action="store_true", default=off, help=one.help)
            continue
        name, shown = ("", last) if flags or "=" not in last else last.split("=", 1)
        plain = shown.strip("[]").rstrip(".*?,")
        choices = plain.split("|")
        default = one.default if len(choices) == 1 else choices[0]
        about: dict[str, Any] = {"help": one.help}
        if len(choices) > 1:
            about["choices"] = choices
        else:
            about["metavar"] = plain
        if shown[0] == "[":
            about |= {"nargs": "?", "const": one.bare}
        elif shown.rstrip(",").endswith("..."):
            about["nargs"] = "+"
        elif shown[-1] in "*?":
            about["nargs"] = shown[-1]
        if shown[-1] == ",":
            about["action"] = "append"
        if one.read or isinstance(default, int | float):
            about["type"] = one.read or type(default)
        if default is REQUIRED:
            about["required"] = True
        elif default is not None:
            about["default"] = default
            about["help"] += f" (default: {default})" if default not in ("", (), []) else ""
        parser.add_argument(*(flags or [(name or plain).lower()]), **about)


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
    write_file(Path(target), text + "\n")


def write_file(path: Path, text: str) -> None:
    """Write a file that the user named.

    Raises
    ------
    UsageError
        It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror or error})") from error


def seconds(text: str) -> float:
    """Read the SECONDS of ``--watch``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1.0 <= value <= 86_400.0:
        raise argparse.ArgumentTypeError(f"SECONDS is a number from 1 to 86400, not {text!r}")
    return value


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
