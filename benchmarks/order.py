"""What the order of asks costs and gains: repeatability, money beside a rival in trouble, speed.

Rankings of three models without a bank, driven by the sender of a live run, whose models answer
from a table of scores after a random latency (lognormal, sigma 1). A seed draws scores, latencies
and items. Printed, with standard errors over the seeds:

- results: how many different results runs with 1, 4 and 8 slots and different latencies end with;
- trouble: answers that are paid, relative to a calm run, with one model 20 times slower, away
  (503) for a while, or hanging from the start; and the wall time, relative to what it may be: that
  of the slow model's requests alone, the outage or the patience with silence plus a calm run;
- wall time relative to `order: arrival`, and items told and answers paid relative to those of
  asking one at a time, with 8 slots.

    python benchmarks/order.py [--seeds 20] [--items 240] [--latency 0.01]
"""

from __future__ import annotations

import argparse
import heapq
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.harness.transport import ServerError
from lm_eval_ccat.journal import Journal
from lm_eval_ccat.live import channel
from lm_eval_ccat.live.models import Answer, Model
from lm_eval_ccat.live.result import Observer
from lm_eval_ccat.live.run import Run
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.money import Price
from lm_eval_ccat.records import Session
from lm_eval_ccat.runs.book import Book

NAMES, GAPS = ("a", "b", "c"), (0.0, 0.12, 0.24)
Trouble = Callable[[float], None]


class Simulated(Model):
    """A model behind a server that answers from a table of scores."""

    remote = True

    def __init__(self, name: str, scores: Any, slots: int, latency: float, seed: int) -> None:
        super().__init__(name, Price())
        self.scores, self.slots, self.latency = scores, slots, latency
        self.trouble: Trouble = lambda since: None
        self.answered = 0
        self._random, self._lock = np.random.default_rng(seed), threading.Lock()

    def open(self) -> None:
        self.opened = time.monotonic()

    def ask(self, items: Sequence[Any]) -> list[Answer]:
        with self._lock:
            seconds = self.latency * float(self._random.lognormal(0.0, 1.0))
        self.trouble(time.monotonic() - self.opened)
        time.sleep(seconds)
        with self._lock:
            self.answered += len(items)
        return [Answer(item=i, score=float(self.scores[i[1]]), raw=None) for i in items]


def refused(seconds: float) -> Trouble:
    """A server that is away for a while."""

    def look(since: float) -> None:
        if since < seconds:
            raise ServerError("status", "HTTP 503", status=503)

    return look


def hangs(since: float) -> None:
    """A server that never answers."""
    time.sleep(3600.0)


def ranked(
    args: argparse.Namespace, seed: int, latencies: int, *, slots: int = 8, slow: float = 1.0,
    trouble: Trouble | None = None, **options: Any,
) -> tuple[Any, int, int, float]:  # fmt: skip
    """(what it says, items told, answers paid, seconds) of one ranking."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(0.0, 0.15, args.items)
    noise = rng.normal(0.0, 0.2, (3, args.items))
    scores = np.clip(0.4 + np.array(GAPS)[:, None] + ease + noise, 0.0, 1.0)
    models = [
        Simulated(name, row, slots, args.latency, 1000 * latencies + n)
        for n, (name, row) in enumerate(zip(NAMES, scores))
    ]
    models[2].latency *= slow
    models[2].trouble = trouble or models[2].trouble
    rule = {"backoff": 0.05, "max_backoff": 0.2, "outage_minutes": 0.05}
    entries = [{"name": name, "model": "simulated"} for name in NAMES]
    spec = Spec.read({"task": "t", "models": entries, "failures": rule, **options})
    plan: Any = SimpleNamespace(
        spec=spec, measured={"t": {}}, known=None, seconds=None, rule=None,
        warmup=spec.warmup, charges=SimpleNamespace(
            currency="items", of_lost_attempt=lambda *_: (0.0, None), charge=lambda *_: (1.0, None)
        ),
    )  # fmt: skip
    bank = ItemBank.blank(range(args.items), metric="m")
    book = Book(Ranker(bank, dict.fromkeys(NAMES, 1.0), seed=seed), Journal())
    book.write([Session(event="start")])
    began = time.monotonic()
    run = Run(spec, observer=Observer(), plan=plan, models=lambda _: models, book=lambda _: book)
    with run:
        run.ask()
    seconds = time.monotonic() - began
    found = book.ranker.result()
    what = (found.order, found.estimates, found.pairs, found.items)
    told = sum(map(len, found.items.values()))
    return what, told, sum(model.answered for model in models), seconds


def lasting(items: int, slots: int) -> float:
    """Median latencies that a model needs by itself for so many items, as it gets them done."""
    rng, ends = np.random.default_rng(0), []
    for _ in range(400):
        free = [0.0] * slots
        for one in rng.lognormal(0.0, 1.0, items):
            heapq.heapreplace(free, free[0] + one)
        ends.append(max(free))
    return float(np.mean(ends))


def shown(values: Sequence[float]) -> str:
    """Mean and standard error."""
    x = np.array(values)
    return f"{x.mean():.3f} ± {x.std(ddof=1) / len(x) ** 0.5:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--items", type=int, default=240)
    parser.add_argument("--latency", type=float, default=0.01, help="median, in seconds")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    # A minute of silence, half of one before the first answer and a second before an ask is sent
    # again, all shortened as the latencies are: half a second would be usual.
    channel.SILENCE, channel.FIRST_PATIENCE, channel.LEAST_PATIENCE = 2.0, 1.0, 2.0 * args.latency
    runs = [ranked(args, 0, n, slots=(1, 4, 8)[n % 3]) for n in range(args.seeds)]
    different = {repr(run[0]) for run in runs}
    print(f"{len(runs)} runs with 1, 4 and 8 slots: {len(different)} result(s)", flush=True)
    ratios: dict[str, list[float]] = {}
    for seed in range(1, args.seeds + 1):
        troubles: dict[str, dict[str, Any]] = {
            "20 times slower": {"slow": 20.0},
            "away (503) for 1 s": {"trouble": refused(1.0)},
            "hanging": {"trouble": hangs},
        }
        _, _, calm, calm_seconds = ranked(args, seed, 2, slots=4)
        for name, how in troubles.items():
            what, _, cost, seconds = ranked(args, seed, 2, slots=4, **how)
            alone = 20.0 * args.latency * lasting(len(what[3]["c"]), 4)
            may = {"20 times slower": alone, "hanging": channel.SILENCE + calm_seconds}
            ratios.setdefault(f"paid, {name}, of a calm run's", []).append(cost / calm)
            ratios.setdefault(f"wall time, {name}, of what it may be", []).append(
                seconds / may.get(name, 1.0 + calm_seconds)
            )
        _, told, paid, seconds = ranked(args, seed, 1)
        arrival = ranked(args, seed, 1, order="arrival")
        ratios.setdefault("wall time, of that in order of arrival", []).append(seconds / arrival[3])
        single = ranked(args, seed, 1, ahead=1)
        ratios.setdefault("items told, of those asked one at a time", []).append(told / single[1])
        ratios.setdefault("answers paid, of those asked one at a time", []).append(paid / single[2])
    for name, values in ratios.items():
        print(f"{name:52} {shown(values)}   largest {max(values):.2f}", flush=True)


if __name__ == "__main__":
    main()
