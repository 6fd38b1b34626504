"""``lm-eval-ccat demo``: the whole way, from logs to a ranking, on this computer alone."""

from __future__ import annotations

import argparse
import time

from .parsing import Opt, Options, add_command

EPILOG = """\
example:
  lm-eval-ccat demo
  lm-eval-ccat demo --dir my_demo --documents 600

It needs no network, no weights and under two minutes. Exit codes: 0 every
decided pair agrees with the full runs, 1 one does not, 2 usage.
"""

COMMANDS = """\
The same for your own models:
  lm-eval-ccat check my_task                                     which metrics can be used
  lm-eval-ccat run --model hf --model_args pretrained=... --tasks my_task \\
      --log_samples --output_path logs                           a full run of each known model
  lm-eval-ccat calibrate logs --task my_task --metric bleu -o my_task.bank.json
  lm-eval-ccat rank models.yaml                                  the new models, adaptively
What was written here can serve as an example:
  {config}
  {bank}
  {run_dir}
"""


OPTIONS: Options = {
    "--dir DIR": Opt("where to write", "ccat_demo"),
    "--documents N": Opt("documents, 100 to 5000; fewer decide fewer pairs", 800),
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``demo`` to the command line."""
    what = "Calibrate on some systems, rank others adaptively, compare with the truth."
    add_command(subparsers, "demo", run, OPTIONS, what, EPILOG)


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 if every confident pair agrees with full evaluation."""
    from ..demo.story import demo
    from .live import Display

    started = time.monotonic()
    # Its dollars are play money.
    shown = demo(args.dir, args.documents, say=_say, observer=Display(yes=True))
    _say(f"\nIt took {time.monotonic() - started:.0f} s.\n")
    _say(COMMANDS.format(config=shown.config, bank=shown.bank, run_dir=shown.run_dir))
    return 1 if shown.wrong else 0


def _say(text: str) -> None:
    print(text, flush=True)
