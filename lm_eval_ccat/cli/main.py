"""The command line: find the command, run it, turn errors into one line and an exit code.

A command is a module with a function of the same name, whose docstring is its help, and a table of
``OPTIONS``. (A command with subcommands has ``ACTIONS`` instead; ``run`` adds the harness's own
parser.) A command's module is imported only for that command, so that ``--help`` costs nothing.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Sequence

from .. import __version__
from ..errors import CcatError, UsageError
from ..masking import remember_credentials
from ..plugins import did_you_mean
from ..shown import safe_streams, visible_line

DEBUG_VARIABLE = "LM_EVAL_CCAT_DEBUG"

GROUPS: dict[str, dict[str, str]] = {
    "start here": {
        "demo": "rank real systems on real documents, offline, in seconds",
        "check": "which metrics of a task work adaptively, before you spend",
        "plan": "what items can show, and what that takes, before you spend",
    },
    "ask models": {
        "rank": "put several models in order with few items each",
        "compare": "is one model better, worse, or not worse than another?",
        "run": "lm_eval's run; --adaptive estimates one model's full score",
        "complete": "top an adaptive run up to the full benchmark",
    },
    "read results": {
        "report": "make an HTML page of a finished or running ranking",
        "verify": "recompute what a run says, or compare it with full results",
        "simulate": "replay logged scores: how few items would have been enough?",
    },
    "reuse the logs of other models": {
        "score": "score harness logs by COMET, a judge, BERTScore ...",
        "calibrate": "make an item bank from logs or a score table",
        "bank": "show, check, update and push item banks",
        "board": "keep a public leaderboard that anybody can check",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
#: Commands that take the harness's own arguments.
RAW = {"run"}

SHELLS = ("bash", "zsh", "tcsh")

EPILOG = """\
examples:
  lm-eval-ccat demo
  lm-eval-ccat rank models.yaml
  lm-eval-ccat compare logs/old logs/new --metric bleu
  lm-eval-ccat calibrate logs/ --task my_task --metric bleu -o my_task.bank.json
  lm-eval-ccat run --model hf --model_args pretrained=gpt2 --tasks my_task \\
      --adaptive --bank my_task.bank.json

exit codes:
  0  done; the goal of the run is met
  1  an error
  2  an invalid command or file; what it names is not there or does not fit
  3  not decided: ties at the budget, no answer yet; or a check found something
  4  partial: a model failed, or the run was interrupted
  5  `compare`: worse by more than the margin

`lm-eval-ccat COMMAND --help` explains one command. --debug shows the traceback
of an error. `eval "$(lm-eval-ccat --completion bash)"` completes commands and
flags, in zsh and tcsh as well."""


def overview() -> str:
    """Return the text of ``lm-eval-ccat --help``."""
    width = max(map(len, COMMANDS))
    lines = [
        "usage: lm-eval-ccat [--help] [--version] [--debug] COMMAND ...",
        "",
        "Adaptive testing for the lm-evaluation-harness: rank language models with a part",
        "of the items, and know how sure you are.",
        "",
    ]
    for title, commands in GROUPS.items():
        rows = (f"  {name:<{width}}  {summary}" for name, summary in commands.items())
        lines += [f"{title}:", *rows, ""]
    return "\n".join([*lines, EPILOG])


def command_parser(
    commands: Iterable[str], kind: type[argparse.ArgumentParser] | None = None
) -> argparse.ArgumentParser:
    """Return a parser of some commands, by default ours; import their modules."""
    # Not above: Ctrl-C while NumPy and the like are imported ends the command in one line.
    from .parsing import CommandParser, add_command

    parser = (kind or CommandParser)(prog="lm-eval-ccat")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in commands:
        module = importlib.import_module(f".{name}", __package__)
        # The harness parses its own command, and our options are added to it.
        if name in RAW:
            module.add_parser(subparsers)
        elif hasattr(module, "ACTIONS"):
            # The parser requires an action, so that the command alone never runs.
            actions = add_command(subparsers, name, lambda args: 2, {}, module.__doc__)
            inner = actions.add_subparsers(dest="action", metavar="ACTION", required=True)
            for action, (run, options) in module.ACTIONS.items():
                add_command(inner, action, run, options, run.__doc__)
        else:
            run = getattr(module, name)
            add_command(subparsers, name, run, module.OPTIONS, run.__doc__)
    return parser


def parsed(argv: Sequence[str]) -> argparse.Namespace | None:
    """Parse ``argv``, which lacks the program's name; None if only a text was to be printed."""
    name, *arguments = argv or ["--help"]
    if name in ("-h", "--help", "help"):
        print(overview())
    elif name in ("-V", "--version"):
        print(f"lm-eval-ccat {__version__}")
    elif name == "--completion":
        import shtab

        if (shell := "".join(arguments[:1])) not in SHELLS:
            raise UsageError(f"--completion {shell!r}: choose from {', '.join(SHELLS)}")
        print(shtab.complete(command_parser(COMMANDS), shell=shell))
    else:
        if name.startswith("-"):
            # As in the harness, `--model ...` is short for `run --model ...`.
            name, arguments = "run", list(argv)
        if name not in COMMANDS:
            raise UsageError(f"no command {name!r}{did_you_mean(name, COMMANDS)}")
        # A harness command uses the harness's parser; without arguments it shows its help.
        kind = argparse.ArgumentParser if name in RAW else None
        arguments = arguments or ["--help"] * (name in RAW)
        return command_parser([name], kind).parse_args([name, *arguments])
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``lm-eval-ccat``, and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = bool(os.environ.get(DEBUG_VARIABLE)) or "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    # First of all, because whatever is printed from here on may repeat the command line.
    remember_credentials(arguments)
    # The harness's own commands colour what they print.
    is_of_harness = bool(arguments) and (arguments[0] in RAW or arguments[0].startswith("-"))
    with safe_streams(escapes=is_of_harness):
        try:
            args = parsed(arguments)
            return 0 if args is None else int(args.func(args) or 0)
        except KeyboardInterrupt:
            print("lm-eval-ccat: interrupted", file=sys.stderr)
            # As shells report a command that SIGINT (2) ended: 128 more than the signal's number.
            return 130
        except BrokenPipeError:
            # The reader of our output (`| head`) closed the pipe, which is SIGPIPE (13). Avoid a
            # second error when the interpreter flushes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        except Exception as error:
            if debug:
                traceback.print_exc()
            text = visible_line(" ".join(str(error).split()))
            # An error of this package says what is wrong; for any other, a traceback is needed.
            if not isinstance(error, CcatError):
                hint = "" if debug else " (--debug shows the traceback)"
                text = f"{type(error).__name__}: {text}{hint}"
            print(f"lm-eval-ccat: error: {text}", file=sys.stderr)
            return error.exit_code if isinstance(error, CcatError) else 1


if __name__ == "__main__":
    sys.exit(main())
