"""Argument parsing for all commands: help texts, suggestions for typos, ``--json [FILE]``.

Its second part reads the scores that several commands take.
"""

from __future__ import annotations

import argparse
import inspect
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO, cast

from rich.console import Console
from rich.progress import Progress

from ..bank import ItemBank
from ..errors import UsageError
from ..files import replace_text, writing
from ..metrics.registry import known_scale
from ..plugins import did_you_mean, existing
from ..scores import ScoreTable
from ..scores.reading import UNNAMED, Query, task_name
from ..scores.table import reader_of
from ..shown import plural, visible_json, visible_line, with_escapes
from ..upkeep import score_tables

WIDTH = 80
#: Where ``--json`` without a file writes.
STANDARD_OUTPUT = "-"


class ForeignFlags(NamedTuple):
    """Flags of the harness or of another command, and what is said where a user tries one.

    Attributes
    ----------
    flags : tuple of str
    beside : str
        A flag of the commands that say it.
    remedy : str
        What is said.
    """

    flags: tuple[str, ...]
    beside: str
    remedy: str


FOREIGN_FLAGS = (
    ForeignFlags(
        ("--limit", "--samples", "-L"),
        "--max_items",
        "documents are chosen for you; --max_items bounds their number",
    ),
    ForeignFlags(
        ("--log_samples", "-s", "--output_path", "-o"),
        "--run_dir",
        "results and all answers are always kept, in --run_dir",
    ),
    ForeignFlags(
        ("--model", "--model_args"),
        "--gap",
        "plan takes models as a CONFIG of `rank`, or their number by --models N",
    ),
    ForeignFlags(
        ("--dry_run",),
        "--help",
        "`lm-eval-ccat plan` says what is asked and what that costs, and asks none",
    ),
)


class Help(argparse.RawDescriptionHelpFormatter):
    """Formats help within 80 columns: wraps a single paragraph, leaves examples as written."""

    def __init__(self, prog: str, **options: Any) -> None:
        options.setdefault("width", min(WIDTH, shutil.get_terminal_size().columns) - 2)
        super().__init__(prog, **options)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Return a description or epilog as it is printed; one of several lines holds examples."""
        if "\n" in text.strip():
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """An argument parser that suggests close flags and accepts no abbreviations."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options["allow_abbrev"] = False
        options["formatter_class"] = Help
        super().__init__(*args, **options)
        # `--range -1,1`: with a leading minus, argparse accepts only plain numbers as values.
        self._negative_number_matcher = re.compile(r"-[\d.][\d.,e-]*$")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments; refuse an unknown flag, and name the one that may be meant."""
        parsed, left = super().parse_known_args(args, namespace)
        # Only flags are refused here; argparse itself refuses surplus arguments.
        unknown = [argument.partition("=")[0] for argument in left if argument.startswith("-")]
        if unknown:
            known = self._option_string_actions
            hint = did_you_mean(unknown[0], known, listing=False)
            for foreign in FOREIGN_FLAGS:
                if unknown[0] in foreign.flags and foreign.beside in known:
                    hint = f": {foreign.remedy}"
            self.error(f"unknown option {unknown[0]}{hint}")
        return parsed, left

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices, and name the one that may be meant."""
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            what = "/".join(action.option_strings) or action.metavar or action.dest
            hint = did_you_mean(str(value), choices)
            raise argparse.ArgumentError(None, f"{what}: no {value!r}{hint}")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with code 2; ``--help`` shows the usage."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


#: As a default: the option is required.
REQUIRED = object()


class Opt(NamedTuple):
    """An option: its help, default, reader of the text, and its value if the flag stands bare."""

    help: str
    default: Any = None
    read: Callable[[str], Any] | None = None
    bare: Any = STANDARD_OUTPUT


#: Options of a command by the keys that `add_options` reads. A title is the key of a group: its
#: options, or a function that adds them to the group.
Options = Mapping[str, "str | Opt | Options | Callable[[Any], None]"]
#: The function that a command or action runs; it returns the exit code.
Run = Callable[[argparse.Namespace], int]

JSON: Options = {"--json [FILE]": "write JSON to FILE, or to standard output in place of text"}
EXCLUDE: Options = {"--exclude A,B": Opt("models to leave out", "")}
INCLUDE_PATH: Options = {"--include_path DIR": "folder with further task files"}


def executor(text: str) -> str:
    """Read the PLACE of ``--executor``."""
    if text != "local":
        from ..cluster import address_of

        # Refuses a place that is none; whoever opens it takes the text.
        address_of(text)
    return text


EXECUTOR: Options = {
    "--executor PLACE": Opt(
        "'local', 'ray' (a Ray cluster on this machine) or 'ray:ADDRESS' (another); a model waits "
        "for a node as long as `failures: {outage_minutes: n}` of its file says",
        "local",
        executor,
    )
}


MODELS: Options = {
    "--model TYPE,": "model type of lm_eval; once per model",
    "--model_args A=B,C=D,": "its arguments; once per model",
}


def models_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the entries of ``models:`` that ``--model``, ``--model_args`` and so on stand for.

    The n-th ``--model`` goes with the n-th of each other flag; a single ``--price`` is that of all.

    Raises
    ------
    UsageError
        If a flag is given more or fewer times than ``--model``.
    """
    kinds = args.model or []
    flags = {name: getattr(args, name, None) for name in ("model", "model_args", "name", "price")}
    values_of = {name: values for name, values in flags.items() if values}
    if kinds and len(values_of.get("price", ())) == 1:
        values_of["price"] = values_of["price"] * len(kinds)
    for flag, values in values_of.items():
        if len(values) != len(kinds):
            raise UsageError(
                f"--model is given {plural(len(kinds), 'time')}, --{flag} {len(values)}; give each "
                "once per model, in the same order"
            )
    return [dict(zip(values_of, values)) for values in zip(*values_of.values())]


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
        A docstring: its first paragraph describes the command; the rest follows the options.
    """
    summary, _, epilog = inspect.cleandoc(text or "").partition("\n\n")
    summary = " ".join(summary.split())
    parser = cast(
        CommandParser, subparsers.add_parser(name, help=summary, description=summary, epilog=epilog)
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
        ``"-o --output FILE"`` takes a value, ``"--yes"`` none, ``"--json [FILE]"`` an optional one;
        ``"--logs DIR..."`` takes several values, ``"--name NAME,"`` may be repeated,
        ``"--price PART...,"`` both; ``"--kind a|b"`` takes one of these, by default the first or
        what its `Opt` says.
        A key without a dash is a positional argument: ``"RUN"``, ``"a=BASELINE?"`` (named ``a``,
        optional), ``"PATH..."`` (at least one), ``"LOGS*"`` (any number).

    Examples
    --------
    >>> parser = CommandParser(prog="p")
    >>> add_options(parser, {"RUN": "a run", "--kind near|far": "which", "--n N": Opt("many", 3)})
    >>> parser.parse_args(["x", "--n", "4"])
    Namespace(run='x', kind='near', n=4)
    """
    for key, entry in options.items():
        if isinstance(entry, Mapping):
            add_options(parser.add_argument_group(key), entry)
        elif callable(entry):
            add_to_group = entry
            add_to_group(parser.add_argument_group(key))
        else:
            _add_option(parser, key, entry)


def _add_option(parser: Any, key: str, help_or_opt: str | Opt) -> None:
    """Add one option, whose key says its form as `add_options` has it."""
    *flags, last = key.split()
    option = Opt(help_or_opt) if isinstance(help_or_opt, str) else help_or_opt
    # A key that ends with a flag takes no value.
    if last.startswith("-"):
        parser.add_argument(*flags, last, action="store_true", help=option.help)
        return
    # A positional argument may have another name than its value: ``a=BASELINE?``.
    name, form = ("", last) if flags or "=" not in last else last.split("=", 1)
    # What stands for the value, without the signs that say how many there may be.
    plain = form.strip("[]").rstrip(".*?,")
    choices = plain.split("|")
    # The first of several choices is meant, unless an `Opt` says that there is no default.
    first_is_default = len(choices) > 1 and isinstance(help_or_opt, str)
    default = choices[0] if first_is_default else option.default
    arguments: dict[str, Any] = {"help": option.help, **_arity_of(form, option)}
    if len(choices) > 1:
        arguments["choices"] = choices
    else:
        arguments["metavar"] = plain
    if option.read or isinstance(default, int | float):
        arguments["type"] = option.read or type(default)
    if default is REQUIRED:
        arguments["required"] = True
    # An empty default is none to a reader.
    elif default is not None:
        arguments["default"] = default
        arguments["help"] += f" (default: {default})" if default not in ("", (), []) else ""
    parser.add_argument(*(flags or [(name or plain).lower()]), **arguments)


def _arity_of(form: str, option: Opt) -> dict[str, Any]:
    """Return how many values an option takes, and whether it may be repeated, as argparse says it.

    Examples
    --------
    >>> _arity_of("PART...,", Opt("a price"))
    {'nargs': '+', 'action': 'append'}
    """
    arity: dict[str, Any] = {}
    if form[0] == "[":
        arity = {"nargs": "?", "const": option.bare}
    elif form.rstrip(",").endswith("..."):
        arity["nargs"] = "+"
    elif form[-1] in "*?":
        arity["nargs"] = form[-1]
    if form[-1] == ",":
        arity["action"] = "append"
    return arity


def prints_json(target: str | None) -> bool:
    """Whether standard output carries JSON alone."""
    return target == STANDARD_OUTPUT


def emit(
    target: str | None, content: Any, lines: Iterable[str] = (), out: TextIO | None = None
) -> None:
    """Write JSON if ``--json`` asks for it, and print the text unless JSON takes its place.

    Parameters
    ----------
    target : str or None
        Value of ``--json``: a file, `STANDARD_OUTPUT`, or None if the flag is absent.
    content : JSON values
        Any other object is written as its text.
    lines : iterable of str, optional
        Lines of the text; consumed only if they are printed.
    out : text stream, optional
        Stream to use as standard output.

    Raises
    ------
    RunError
        If the file cannot be written.
    """
    if target is not None:
        text = visible_json(content)
        # Other lines would break the JSON.
        if prints_json(target):
            print(text, file=out or sys.stdout, flush=True)
            return
        write_file(Path(target), text + "\n")
    for line in lines:
        print(line, file=out or sys.stdout)


def columns(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield a table of names and texts, pair by pair; long texts are wrapped into a column."""
    width = max(len(name) for name, _ in pairs) + 2
    for name, text in pairs:
        lines = textwrap.wrap(text, WIDTH - width, break_long_words=False, break_on_hyphens=False)
        yield f"{name:<{width}}" + f"\n{' ' * width}".join(lines)


def write_file(path: Path, text: str) -> None:
    """Write a file that the user named; see `lm_eval_ccat.files.writing`."""
    with writing(path):
        replace_text(path, text)


def require_place(output: str, *, is_folder: bool) -> None:
    """Refuse a folder as the place of a file, or a file as that of a folder.

    Asked before work that takes minutes, whose result would be lost.

    Raises
    ------
    UsageError
    """
    path = Path(output)
    if path.exists() and path.is_dir() != is_folder:
        kind, right_kind = ("a file", "a folder") if is_folder else ("a folder", "a file")
        raise UsageError(f"{output} is {kind}: name {right_kind} to write (-o)")


def names_of(text: str | None) -> list[str]:
    """Split the value ``A,B`` of a flag into names; an absent flag has none.

    Examples
    --------
    >>> names_of("a, b,"), names_of(None)
    (['a', 'b'], [])
    """
    return [name for name in (part.strip() for part in (text or "").split(",")) if name]


def warn(*texts: str) -> None:
    """Print warnings on standard error, one per line."""
    for text in texts:
        print(f"warning: {visible_line(text)}", file=sys.stderr)


def range_of(text: str) -> tuple[float, float]:
    """Parse ``WORST,BEST``."""
    try:
        worst, best = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not WORST,BEST, such as 0,100") from None
    if worst == best or not math.isfinite(worst - best):
        raise argparse.ArgumentTypeError(f"{text!r}: give two numbers that differ")
    return worst, best


# -- scores that a command reads ------------------------------------------------------------------


def task_names(text: str) -> str:
    """Read the value ``A,B`` of ``--task`` where logs have the task's name, never its file."""
    return ",".join(map(task_name, text.split(",")))


#: Options of every command that reads scores from logs or a table.
READING: Options = {
    "--metric M": "metric; needed where the scores hold several",
    "--task --tasks T": Opt("task; needed where the logs hold several", read=task_names),
    "--filter F": "filter of the task; needed where it has several",
    "--range WORST,BEST": Opt(
        "worst and best possible score of a metric without a known scale, such as 0,100, or 25,0 "
        "if a lower score is better (0,25 will do for a metric known as such)",
        read=range_of,
    ),
}


def reading_of(args: argparse.Namespace) -> Query:
    """Return the filter and scale that the flags of `READING` state; not all commands have both."""
    filter = getattr(args, "filter", None)
    if not args.range:
        return Query(filter=filter)
    low, high = sorted(args.range)
    # A falling range sets the direction; a rising one leaves it to what is known of the metric.
    falls = True if args.range[0] == high else None
    return Query(filter=filter, range=(low, high), lower_is_better=falls)


def doubts_of_range(args: argparse.Namespace, metric: str, higher_is_better: bool) -> list[str]:
    """Return a warning if ``--range`` contradicts what is known of which end of a metric is better.

    Parameters
    ----------
    args : argparse.Namespace
    metric : str
    higher_is_better : bool
        Direction in which its scores were read.
    """
    if not args.range:
        return []
    # Of scores whose file names no metric, nothing is known.
    (first, last), known = args.range, known_scale(metric)
    if first < last and not higher_is_better:
        return [
            f"a lower {metric} is known to be better, so {first:g} is its best score and {last:g} "
            f"its worst: write --range {last:g},{first:g}"
        ]
    if first > last and metric != UNNAMED and known is not None and known.higher_is_better:
        return [
            f"a higher {metric} is known to be better, but --range {first:g},{last:g} makes "
            f"{last:g} its best score: write --range {last:g},{first:g} if that is not meant"
        ]
    return []


def read_scores(path: str | Path, args: argparse.Namespace, repeats: bool = False) -> ScoreTable:
    """Read a score table or logs as the arguments say, showing progress on long reads.

    With `repeats` all runs of one sampled configuration are read, as repeats; else the latest.
    """
    with progress("reading logs") as show:
        query = replace(reading_of(args), metric=args.metric, task=args.task, repeats=repeats)
        table = reader_of(Path(path)).read(Path(path), query, show)
    warn(*doubts_of_range(args, table.metric, table.scale.higher_is_better))
    return table


def scores_for(bank: ItemBank, path: str, partial: bool = False) -> ScoreTable:
    """Read scores of a bank's metric, task and filter, on its scale."""
    existing(path)
    with progress("reading logs") as show:
        return score_tables.scores_for(bank, path, partial=partial, on_progress=show)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show progress on a terminal; yield None where standard error is not one.

    The display does not refresh itself: none of its threads may be alive when processes are forked.
    """
    if not sys.stderr.isatty():
        yield None
        return
    console = Console(file=with_escapes(sys.stderr))
    with Progress(console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int) -> None:
            """Draw how much is done."""
            bar.update(task, completed=done, total=total, refresh=True)

        yield show
