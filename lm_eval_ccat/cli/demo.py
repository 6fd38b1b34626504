"""`demo`: a ranking of real systems on real documents, offline."""

from __future__ import annotations

import argparse
import time
from functools import partial

from ..demo import MAX_DOCUMENTS, MIN_DOCUMENTS, N_DOCUMENTS
from ..report import write_report
from .live import Display
from .parsing import Opt, Options

_LAST = """
It took {seconds:.0f} s, and its dollars are made up. The same for your own models:
  lm-eval-ccat calibrate LOGS -o BANK    if you have logs of others (lm_eval --log_samples)
  lm-eval-ccat rank --task TASK --model hf --model_args pretrained=A \\
      --model hf --model_args pretrained=B [--bank BANK]
The page of this ranking: {page}"""


OPTIONS: Options = {
    "--dir DIR": Opt("where to write", "ccat_demo"),
    "documents=DOCUMENTS?": Opt(
        f"documents, {MIN_DOCUMENTS} to {MAX_DOCUMENTS}; fewer decide fewer pairs", N_DOCUMENTS
    ),
}


def demo(args: argparse.Namespace) -> int:
    """Calibrate on some systems, rank others adaptively, compare with the truth.

    example:
      lm-eval-ccat demo
      lm-eval-ccat demo 600 --dir my_demo

    It needs no network and no weights, and takes under two minutes. Exit codes: 0
    every decided pair agrees with the full runs, 1 one does not, 2 usage.
    """
    from ..demo.story import demo

    started, say = time.monotonic(), partial(print, flush=True)
    # Its dollars are play money, so nobody is asked.
    result = demo(args.dir, args.documents, say=say, observer=Display(yes=True))
    page = write_report(result.run_dir)
    say(_LAST.format(seconds=time.monotonic() - started, page=page))
    return 1 if result.wrong else 0
