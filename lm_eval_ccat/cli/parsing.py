"""Parsing that all commands share: help that fits, close names, ``--json [FILE]``."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
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


#: Options of a command, as `add_options` reads them, with their help or more. Under a title stands
#: a group of options, or what adds them to the group.
Options = Mapping[str, "str | Opt | Options | Callable[[Any], None]"]
#: What a command, or an action of one, runs; its exit code.
Run = Callable[[argparse.Namespace], int]

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


MODELS: Options = {
    "--model TYPE,": "model type of lm_eval; once per model",
    "--model_args A=B,C=D,": "its arguments; once per model",
}


def models_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The entries of ``models:`` that the flags write, ``--model TYPE --model_args A=B`` and so on.

    Raises
    ------
    UsageError
        A flag is given for some of the models only.
    """
    kinds = args.model or []
    flags = {name: getattr(args, name, None) for name in ("model", "model_args", "name", "price")}
    stated = {name: values for name, values in flags.items() if values}
    if kinds and len(stated.get("price", ())) == 1:
        stated["price"] *= len(kinds)
    for flag, values in stated.items():
        if len(values) != len(kinds):
            raise UsageError(
                f"--{flag} is given {len(values)} times and --model {len(kinds)} times; "
                "give each once per model, in the same order"
            )
    return [dict(zip(stated, values)) for values in zip(*stated.values())]


def add_command(
    subparsers: Any, name: str, run: Run, options: Options, text: str | None
) -> CommandParser:
    """Add a command, or an action of one.

    Parameters
    ----------
    subparsers : argparse action
    name : str
    run : callable
    options : mapping
        As `add_options` takes them.
    text : str or None
        A docstring: its first paragraph describes the command, what follows stands below the
        options.
    """
    about, _, epilog = inspect.cleandoc(text or "").partition("\n\n")
    about = " ".join(about.split())
    parser = cast(
        CommandParser, subparsers.add_parser(name, help=about, description=about, epilog=epilog)
    )
    add_options(parser, options)
    parser.set_defaults(func=run)
    return parser


def add_options(parser: Any, options: Options) -> None:
    """Add a table of options to a parser or a group.

    Parameters
    ----------
    parser : argparse parser or group
    options : mapping of str to str, Opt, mapping or callable
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
        if isinstance(row, Mapping):
            add_options(parser.add_argument_group(key), row)
        elif callable(row):
            row(parser.add_argument_group(key))
        else:
            _add_option(parser, key, Opt(row) if isinstance(row, str) else row)


def _add_option(parser: Any, key: str, one: Opt) -> None:
    *flags, last = key.split()
    if last.startswith("-"):
        parser.add_argument(*flags, last, action="store_true", help=one.help)
        return
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


def emit(
    target: str | None, content: Any, lines: Iterable[str] = (), out: TextIO | None = None
) -> None:
    """Write what ``--json`` asks for, and print the text, unless JSON takes its place.

    Parameters
    ----------
    target : str or None
        What ``--json`` gives: a file, `STANDARD_OUTPUT`, or None where the flag is absent.
    content : JSON values
        What is none of these is written as its text.
    lines : iterable of str, optional
        The text; made only where it is printed.
    out : text stream, optional
        What stands for standard output.

    Raises
    ------
    UsageError
        The file cannot be written.
    """
    if target is not None:
        text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
        if prints_json(target):
            print(text, file=out or sys.stdout, flush=True)
            return
        write_file(Path(target), text + "\n")
    for line in lines:
        print(line, file=out or sys.stdout)


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


def warn(*texts: str) -> None:
    """Print warnings, one a line, on standard error."""
    for text in texts:
        print(f"warning: {text}", file=sys.stderr)
