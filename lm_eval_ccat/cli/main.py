"""The command line: finds the command, runs it, and turns errors into one line and an exit code.

Each command is a module with ``add_parser(subparsers)``; it is imported only when it is the one
asked for, so that ``--help`` costs nothing.  Exit codes, the same in every command: see EXIT_CODES.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import __version__
from ..errors import CcatError, UsageError
from ..masking import remember_credentials
from ..visible import visible_line
from .parsing import CommandParser, close_names
from .streams import safe_streams

DEBUG_VARIABLE = "LM_EVAL_CCAT_DEBUG"


@dataclass(frozen=True)
class Command:
    """One entry of the command table.

    ``module`` holds ``add_parser``; with ``raw`` it holds ``main(argv)`` instead, because its
    arguments are the harness's own.
    """

    summary: str
    module: str
    raw: bool = False


COMMANDS: dict[str, Command] = {
    "demo": Command("rank real systems on real documents, no network needed", "demo"),
    "check": Command("which metrics of a task can be used adaptively, before spending", "check"),
    "score": Command("score harness logs by COMET, a judge, BERTScore ...", "score"),
    "setup": Command("make the environment that COMET needs", "setup"),
    "scale": Command("scale each item's scores over the calibration configs", "scale"),
    "calibrate": Command("make an item bank from logs or a score table", "calibrate"),
    "bank": Command("look into an item bank", "bank"),
    "rank": Command("rank several models on one task with few items", "rank"),
    "run": Command("lm_eval's run, with --adaptive for one model", "run", raw=True),
    "simulate": Command("replay logged scores: how few items would have been enough?", "simulate"),
    "complete": Command("top an adaptive run up to the full benchmark", "complete"),
    "compare": Command("is one model better, worse, or not worse than another?", "compare"),
    "score-form": Command("the whole score from the logs of a fixed form", "score_form"),
    "audit": Command("compare what a run claimed with full results", "audit"),
    "experiments": Command("the paper's experiments on any score tables", "experiments"),
    "report": Command("make an HTML page of a finished or running ranking", "report"),
    "journal": Command("check the journal of a run, or salvage a damaged one", "journal"),
    "completion": Command("print a shell's completion script", "completion"),
    "ls": Command("lm_eval's ls: list tasks", "harness_passthrough", raw=True),
    "validate": Command("lm_eval's validate: check task names", "harness_passthrough", raw=True),
}

EXIT_CODES = """\
exit codes:
  0  done; the goal of the run is met
  1  an error
  2  an invalid command, configuration or argument
  3  not decided: ties at the budget, or no answer yet
  4  partial: a model failed, or the run was interrupted
  5  `compare`: worse by more than the margin
"""
EPILOG = f"""\
examples:
  lm-eval-ccat demo
  lm-eval-ccat calibrate logs/ --task my_task --metric bleu -o my_task.bank.json
  lm-eval-ccat rank models.yaml
  lm-eval-ccat run --model hf --model_args pretrained=gpt2 --tasks my_task \\
      --adaptive --bank my_task.bank.json

{EXIT_CODES}
`lm-eval-ccat COMMAND --help` explains one command. --debug shows the traceback
of an error. `eval "$(lm-eval-ccat completion bash)"` completes commands and flags.
"""


def available_commands() -> dict[str, Command]:
    """The commands whose module is installed, in the order in which ``--help`` lists them."""
    return {
        name: command
        for name, command in COMMANDS.items()
        if importlib.util.find_spec(f"{__package__}.{command.module}") is not None
    }


def overview() -> str:
    """The text of ``lm-eval-ccat --help``."""
    commands = available_commands()
    width = max(map(len, commands))
    lines = [
        "usage: lm-eval-ccat [--help] [--version] [--debug] COMMAND ...",
        "",
        "Adaptive testing for the lm-evaluation-harness: rank language models with a few",
        "per cent of the items, and know how sure you are.",
        "",
        "commands:",
        *(f"  {name:<{width}}  {command.summary}" for name, command in commands.items()),
        "",
        EPILOG,
    ]
    return "\n".join(lines)


def command_parser(commands: Iterable[Command]) -> CommandParser:
    """A parser of some commands; their modules are imported."""
    parser = CommandParser(prog="lm-eval-ccat")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in commands:
        importlib.import_module(f".{command.module}", __package__).add_parser(subparsers)
    return parser


def dispatch(argv: Sequence[str]) -> int:
    """Run the command that ``argv`` (without the programme's name) asks for; its exit code."""
    argv = list(argv)
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"lm-eval-ccat {__version__}")
        return 0
    if argv[0].startswith("-"):
        # The harness takes `lm_eval --model ... --tasks ...` for `lm_eval run ...`; so do we.
        argv.insert(0, "run")
    name = argv[0]
    commands = available_commands()
    if name not in commands:
        near = close_names(name, commands) or f"; there are: {', '.join(commands)}"
        raise UsageError(f"no command {name!r}{near}")
    command = commands[name]
    if command.raw:
        if name == "run":
            from ..demo import register_models

            register_models()
        module = importlib.import_module(f".{command.module}", __package__)
        arguments = argv if command.module == "harness_passthrough" else argv[1:]
        return int(module.main(arguments) or 0)
    args = command_parser([command]).parse_args(_with_negative_ranges(argv))
    return int(args.func(args) or 0)


def _with_negative_ranges(argv: Sequence[str]) -> list[str]:
    """``--range -1,1`` as ``--range=-1,1``: argparse takes what begins with a minus for a flag."""
    joined: list[str] = []
    for argument in argv:
        if joined and joined[-1] == "--range" and argument[:1] == "-" and argument[1:2].isdigit():
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``lm-eval-ccat``.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the programme's name; ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = bool(os.environ.get(DEBUG_VARIABLE)) or "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    remember_credentials(arguments)
    first = arguments[0] if arguments else ""
    harness = first.startswith("-") or (first in COMMANDS and COMMANDS[first].raw)
    with safe_streams(drawn=harness):
        return _answer(arguments, debug)


def _answer(arguments: Sequence[str], debug: bool) -> int:
    try:
        return dispatch(arguments)
    except CcatError as error:
        if debug:
            traceback.print_exc()
        print(f"lm-eval-ccat: error: {_one_line(error)}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print("lm-eval-ccat: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output (`| head`) went away; leave without a second complaint when
        # the interpreter flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            print(
                f"lm-eval-ccat: error: {type(error).__name__}: {_one_line(error)} "
                "(--debug shows the traceback)",
                file=sys.stderr,
            )
        return 1


def _one_line(error: BaseException) -> str:
    return visible_line(" ".join(str(error).split()))


if __name__ == "__main__":
    sys.exit(main())
