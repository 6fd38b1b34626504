"""``lm-eval-ccat completion``: a shell's completion script, made from the parsers themselves."""

from __future__ import annotations

import argparse

EPILOG = """\
examples:
  eval "$(lm-eval-ccat completion bash)"            # in ~/.bashrc
  lm-eval-ccat completion zsh > ~/.zfunc/_lm-eval-ccat
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``completion`` to the command line."""
    parser = subparsers.add_parser(
        "completion",
        help="print a shell's completion script",
        description="Print the script by which a shell completes commands and flags.",
        epilog=EPILOG,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from .main import available_commands, command_parser

    commands = [c for c in available_commands().values() if not c.raw]
    print(shtab.complete(command_parser(commands), shell=args.shell))
    return 0
