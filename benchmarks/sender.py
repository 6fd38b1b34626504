"""What our sender adds to aiohttp: rate and processor time of the same requests by both.

A loopback server answers after a fixed latency. A bare aiohttp session posts the bodies and reads
the JSON; `Transport` does so over its own session, and knows cancels, refusals and the bill.

    python benchmarks/sender.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import aiohttp
import loopback

from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.transport import Transport, server_calls


def calls_of(url: str, slots: int, n: int) -> tuple[Any, list[Any]]:
    """Return a model, and requests of a text each."""
    arguments = {"model": "m", "base_url": url, "tokenizer_backend": "none"}
    lm = internals.make_lm("local-completions", {**arguments, "num_concurrent": slots})
    prompts = [f"Repeat the numbers of document {i}, and say what they are." for i in range(n)]
    requests = internals.requests_for(prompts, {"until": ["\n"], "max_gen_toks": 64})
    return lm, [server_calls(lm, [request])[0] for request in requests]


def bare(url: str, slots: int, n: int) -> None:
    """Post every request by aiohttp alone."""
    _, calls = calls_of(url, slots, n)

    async def post_all() -> None:
        free = asyncio.Semaphore(slots)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def post(call: Any) -> Any:
                async with free, session.post(url, json=call.payload) as response:
                    return json.loads(await response.read())

            await asyncio.gather(*map(post, calls))

    asyncio.run(post_all())


def ours(url: str, slots: int, n: int) -> None:
    """Send every request by a model's transport."""
    lm, calls = calls_of(url, slots, n)
    transport = Transport(lm)
    transport.submit(calls)
    transport.close()


def measured(send: Callable[[str, int, int], None], *about: Any) -> tuple[float, float]:
    """Return requests a second, and milliseconds of processor time a request."""
    began, processor = time.perf_counter(), time.process_time()
    send(*about)
    n = about[-1]
    taken = time.process_time() - processor
    return n / (time.perf_counter() - began), 1e3 * taken / n


def main() -> None:
    """Print a line for each latency and number of slots: medians over the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    head = f"{'latency':>8}{'slots':>6}{'requests/s: ours':>18}{'aiohttp':>9}{'ratio':>7}"
    print(f"{head}{'ms of processor: ours':>23}{'aiohttp':>9}{'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder, "outputs.json")
        outputs.write_text("{}")
        for latency in (0.01, 0.3):
            with loopback.running(outputs, latency) as url:
                for slots in (8, 128):
                    n = 800 if latency < 0.1 or slots > 8 else 160
                    for send in (bare, ours):  # imports, and the first loop
                        send(url, slots, slots)
                    rounds = [
                        [measured(send, url, slots, n) for send in (ours, bare)]
                        for _ in range(args.rounds)
                    ]
                    cells = []
                    for figure in range(2):
                        figures = [
                            statistics.median(pair[sender][figure] for pair in rounds)
                            for sender in range(2)
                        ]
                        cells.append((*figures, figures[0] / figures[1]))
                    (rate, bare_rate, rates), (ms, bare_ms, times) = cells
                    print(
                        f"{latency:>8}{slots:>6}{rate:>18.0f}{bare_rate:>9.0f}{rates:>7.2f}"
                        f"{ms:>23.2f}{bare_ms:>9.2f}{times:>7.2f}", flush=True,
                    )  # fmt: skip


if __name__ == "__main__":
    main()
