"""Servers that limit their rate by a bucket of tokens, played in virtual time.

Of 54 buckets (1 to 100 tokens a second, 1 to 60 tokens, pauses asked for or not) the share of what
they allow that is used, and the share of requests that they refuse; and whether some constant rate
would hold, for one who knew it.

    python benchmarks/buckets.py [--latency 0.5] [--slots 16] [--seconds 900]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "live"))

from test_rates import share_and_refusals

from lm_eval_ccat.live.failures import Pace

RATES, BURSTS, PAUSES = (1.0, 3.0, 10.0, 20.0, 30.0, 100.0), (1.0, 10.0, 60.0), "none exact whole"
#: Constant rates that are tried, as parts of the bucket's or of what the slots take.
CONSTANT = (0.9, 0.92, 0.95, 0.97, 0.99, 1.0, 1.05, 1.1)


class Constant(Pace):
    """Requests at a rate that no answer changes."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate, self._at_once = rate, 10**6

    def answered(self) -> None:
        pass

    def refused(self, now: float, sent: float, pause: float | None = None) -> None:
        self._pause = max(self._pause, now + (pause or 0.0))
        self._next = max(self._next, now)


def main() -> None:
    """Print a line for each bucket, and how many hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", type=float, default=0.5, help="seconds (default: 0.5)")
    parser.add_argument("--slots", type=int, default=16, help="requests at once (default: 16)")
    parser.add_argument("--seconds", type=float, default=900.0, help="of a run (default: 900)")
    args, held, can = vars(parser.parse_args()), 0, 0
    for rate, burst, pauses in itertools.product(RATES, BURSTS, PAUSES.split()):
        share, refused = share_and_refusals(rate, burst, pauses, **args)
        most = min(rate, args["slots"] / args["latency"])
        good = share >= 0.9 and refused < 0.03
        constant = (
            share_and_refusals(rate, burst, pauses, **args, pace=Constant(part * most))
            for part in CONSTANT
        )
        reachable = good or any(s >= 0.9 and r < 0.03 for s, r in constant)
        held, can = held + good, can + reachable
        print(
            f"{rate:>5g}/s, {burst:>2g} tokens, pauses {pauses:<5}: {share:6.1%} used, "
            f"{refused:5.1%} refused"
            + ("" if good else ", missed" if reachable else ", out of reach")
        )
    print(f"{held} of 54 hold: 90% used, under 3% refused; {can} are within reach")


if __name__ == "__main__":
    main()
