"""How much of a server's rate limit a ranking uses whose models share one, or have one each.

Four models are ranked to their limits on a server whose token bucket refuses with ``Retry-After``.
Printed: seconds, those that the bucket alone would take, their ratio, and the share of requests
that were refused.

    python benchmarks/limits.py [--beside OLDER] [--slots 32] [--items 60]

With `--outage`, a server that is away for so long in the middle of a ranking: requests that it saw
while away, and seconds from its return to the next one. With `--bill`, what a server billed beside
what the ranking says of it, where tokens are counted in its total alone, prompts were cached, or
connections are cut after the answer was made, three of ten; "most" is all that may be paid.

    python benchmarks/limits.py --outage 20
    python benchmarks/limits.py --bill
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import loopback
from slots import CODE
from worlds.bench import Bench, make_bench
from worlds.server import CompletionsServer

from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.live.result import Observer
from lm_eval_ccat.money import COLUMNS

HERE = Path(__file__).resolve().parents[1]
MODELS = ["m01", "m05", "m07", "m11"]
LATENCY = 0.3
#: Tokens a second and the most that a bucket holds: of all models, or of each.
BUCKETS = ((10.0, 10.0), (20.0, 60.0), (60.0, 20.0))


def played(tree: Path, bench: Bench, limit: loopback.Limit, slots: int, items: int) -> str:
    """Rank the models on a server of its own; return the figures of a line."""
    name = f"of{len([*bench.folder.iterdir()])}"
    config = bench.config(
        "URL",
        MODELS,
        name=name,
        stop="limits",
        max_items=items,
        bank=None,
        entry={"concurrency": slots},
    )
    with loopback.running(bench.folder / "outputs.json", LATENCY, limit) as url:
        config.write_text(config.read_text().replace("URL", url))
        done = subprocess.run(
            [sys.executable, "-c", CODE, "rank", str(config)],
            env={**os.environ, "PYTHONPATH": str(tree)}, cwd=tree, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode not in (0, 3):
            raise SystemExit(done.stderr)
        counted = loopback.counted(url)
    answers = counted["received"] - counted["refused"]
    taken = answers if limit.shared else answers / len(MODELS)
    # The slots may allow less than the bucket.
    least = max((taken - limit.burst) / limit.rate, 0.0) + LATENCY
    least = max(least, LATENCY * answers / (slots * len(MODELS)))
    seconds, refused = counted["seconds"], counted["refused"] / counted["received"]
    return f"{seconds:>9.1f}{least:>8.1f}{least / seconds:>7.2f}{refused:>9.1%}"


class Quiet(Observer):
    """Hears of a run, and says nothing."""

    def warn(self, message: str) -> None:
        """Say nothing of a warning."""


def print_outage(bench: Bench, seconds: float) -> None:
    """Print what a server that goes away for so many seconds sees of a ranking, and when."""
    began = time.time() + 1e9
    with CompletionsServer(bench.outputs, latency=0.1) as server:

        def mood(model: str, prompt: str, before: int) -> tuple[str] | None:
            nonlocal began
            if sum(server.answered.values()) >= 100:
                began = min(began, time.time())
            return ("drop",) if 0.0 <= time.time() - began < seconds else None

        server.mood = mood
        config = bench.config(
            server.url, MODELS[:2], bank=None, stop="limits", max_items=100,
            entry={"concurrency": 8},
        )  # fmt: skip
        content = rank(config, observer=Quiet()).content
        moments = [moment for moment, *_ in server.log]
    # A request arrives a latency before its mood is asked for.
    back = began + seconds
    asked_away = sum(began < moment < back - server.latency for moment in moments)
    lag = min(moment for moment in moments if moment >= back - server.latency) - back
    print(
        f"away for {seconds:g} s: {asked_away} requests while away, the next {max(lag, 0):.1f} s "
        f"after its return; {content['items_administered']} answers"
    )


#: Dollars per million tokens; as many prompt tokens has each request, and as many are cached.
PRICE = {"input": 1000.0, "output": 4000.0, "cached": 100.0}
READ, CACHED = 500, 400


def usage_of(kind: str, written: int) -> dict[str, Any]:
    """Return what a server states of a request whose answer has so many tokens."""
    usage: dict[str, Any] = {"prompt_tokens": READ, "completion_tokens": written}
    if kind == "reasoning in the total":
        usage |= {"completion_tokens": 10, "total_tokens": READ + written}
    if kind == "cached prompts":
        usage["prompt_tokens_details"] = {"cached_tokens": CACHED}
    return usage


def print_bill(bench: Bench, kind: str) -> None:
    """Print what a server billed and what a ranking says of it, by the way of the server."""
    rng, bills = random.Random(0), list[float]()
    cached = CACHED if kind == "cached prompts" else 0

    def bill() -> int:
        written = rng.randint(10, 200)
        read = PRICE["input"] * (READ - cached) + PRICE["cached"] * cached
        bills.append((read + PRICE["output"] * written) / 1e6)
        return written

    def mood(model: str, prompt: str, before: int) -> tuple[str] | None:
        is_cut = kind == "cut connections" and rng.random() < 0.3
        return ("cut",) if is_cut and bill() else None

    def says(model: str, n: int) -> dict[str, Any]:
        return {"usage": usage_of(kind, bill())}

    with CompletionsServer(bench.outputs, 0.02, mood, False, says) as server:
        config = bench.config(
            server.url, MODELS, bank=None, stop="limits", max_items=60, name=kind[:3],
            entry={"price": PRICE, "concurrency": 8}, failures={"backoff": 0.05},
        )  # fmt: skip
        money = rank(config, observer=Quiet()).content["money"] or {}
    parts, server_bill = [money[column] for column in COLUMNS], sum(bills)
    figures = "".join(f"{usd:>9.3f}" for usd in (server_bill, *parts))
    stated = sum(parts[:2]) / server_bill
    print(f"{kind:<24}{figures}{stated:>15.3f}{sum(parts) / server_bill:>13.3f}", flush=True)


def main() -> None:
    """Print a line for each tree, number of slots and limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, help="another checkout of the package")
    parser.add_argument("--slots", default="32", help="requests at once of each model")
    parser.add_argument("--items", type=int, default=60, help="of each model (default: 60)")
    parser.add_argument("--outage", type=float, help="seconds that a server is away, alone")
    parser.add_argument("--bill", action="store_true", help="what a server bills, alone")
    args = parser.parse_args()
    if args.outage or args.bill:
        logging.disable(logging.CRITICAL)
        with tempfile.TemporaryDirectory() as folder:
            bench = make_bench(Path(folder), n_docs=200)
            if args.outage:
                return print_outage(bench, args.outage)
            heads = ("server", *COLUMNS)
            print(f"{'':<24}{''.join(f'{head:>9}' for head in heads)}  stated/server  most/server")
            for kind in ("plain", "reasoning in the total", "cached prompts", "cut connections"):
                print_bill(bench, kind)
            return None
    trees = [*([args.beside.resolve()] if args.beside else []), HERE]
    head = f"{'bucket':<22}{'Retry-After':<12}{'slots':>6}"
    print(f"{head}{'seconds':>9}{'least':>8}{'ratio':>7}{'refused':>9}")
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder), n_docs=1000)
        Path(folder, "outputs.json").write_text(json.dumps(bench.outputs))
        for shared in (True, False):
            for rate, burst in BUCKETS:
                for whole in (False, True):
                    for slots in map(int, args.slots.split(",")):
                        for tree in trees:
                            limit = loopback.Limit(rate, burst, shared, whole)
                            figures = played(tree, bench, limit, slots, args.items)
                            kind = f"{rate:g}/s, {burst:g} {'of all' if shared else 'of each'}"
                            pause = "whole" if whole else "exact"
                            beside = "" if tree == HERE else "  (beside)"
                            line = f"{kind:<22}{pause:<12}{slots:>6}{figures}{beside}"
                            print(line, flush=True)


if __name__ == "__main__":
    main()
