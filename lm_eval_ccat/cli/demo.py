"""`demo`: a ranking of real systems on real documents, offline."""

from __future__ import annotations

import argparse
import time
from functools import partial

from ..demo import DOCUMENTS, LEAST, MOST
from .live import Display
from .parsing import Opt, Options

_THE_SAME = """\
The same for your own models:
  lm-eval-ccat check my_task                                     which metrics can be used
  lm-eval-ccat run --model hf --model_args pretrained=... --tasks my_task \\
      --log_samples --output_path logs                           a full run of each known model
  lm-eval-ccat calibrate logs --task my_task --metric bleu -o my_task.bank.json
  lm-eval-ccat rank models.yaml                                  the new models, adaptively
Files that can serve as an example:
  {config}
  {bank}
  {run_dir}
"""


OPTIONS: Options = {
    "--dir DIR": Opt("where to write", "ccat_demo"),
    "--documents N": Opt(f"documents, {LEAST} to {MOST}; fewer decide fewer pairs", DOCUMENTS),
}


def demo(args: argparse.Namespace) -> int:
    """Calibrate on some systems, rank others adaptively, compare with the truth.

    example:
      lm-eval-ccat demo
      lm-eval-ccat demo --dir my_demo --documents 600

    It needs no network and no weights, and takes under two minutes. Exit codes: 0
    every decided pair agrees with the full runs, 1 one does not, 2 usage.
    """
    from ..demo.story import demo

    started, say = time.monotonic(), partial(print, flush=True)
    # Its dollars are play money, so nobody is asked.
    shown = demo(args.dir, args.documents, say=say, observer=Display(yes=True))
    say(f"\nIt took {time.monotonic() - started:.0f} s.\n")
    say(_THE_SAME.format(config=shown.config, bank=shown.bank, run_dir=shown.run_dir))
    return 1 if shown.wrong else 0
