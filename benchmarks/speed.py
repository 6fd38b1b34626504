"""Processor time and rate of `rank` with four models behind a server of fixed latencies.

The server is a process of its own, and tells the time from the first request to the last answer. So
is each ranking, with answers in their order and as they arrive; its processor time is that from the
first tenth of its answers to the last. Beside it what a bare client (aiohttp) and the harness's own
`generate_until` take for as many requests with as many in flight, which are then not scored, ranked
or kept. *Free* is a ranking whose connections cost nothing: each request waits for the latency in
this process and has a fixed answer, so that no process for connections alone could be faster. A
round asks of each of four models five items a slot, at least 200.

    python benchmarks/speed.py [--beside OLDER] [--slots 8,32,128] [--latency 10,100,300]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import loopback
from worlds.bench import make_bench

HERE = Path(__file__).resolve().parents[1]
MODELS = ["m01", "m05", "m07", "m11"]

#: Run in a tree of the package: milliseconds of processor time a request, those of the main thread
#: and of the connections' thread.
RANKING = """
import json, sys, threading, time
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.journal import JournalFile
marks, append = [], JournalFile.append
def marked(self, records):
    places = append(self, records := list(records))
    if n := sum(record.kind == "tell" for record in records):
        n += marks[-1][0] if marks else 0
        by = {t.name: t.ident for t in threading.enumerate()}
        own = (time.pthread_getcpuclockid(by[t]) for t in ("MainThread", "ccat-transport"))
        marks.append((n, time.process_time(), *map(time.clock_gettime, own)))
    return places
JournalFile.append = marked
code = main(["rank", sys.argv[1]])
first, last = next(m for m in marks if 10 * m[0] >= marks[-1][0]), marks[-1]
n, *processor = (b - a for a, b in zip(first, last))
rate = [len(moments) / 2 / (moments[-1] - moments[0])] if "moments" in globals() else []
print(json.dumps([*(1e3 * t / n for t in processor), *rate]))
sys.exit(code)
"""
#: Before the rest of `RANKING`: its requests go nowhere, and it tells how many a second.
FREE = """
import asyncio
from types import SimpleNamespace
from lm_eval_ccat.harness.transport import Transport
latency, moments = float(sys.argv[2]), []
choice = {"text": "1 2 3 4", "finish_reason": "stop", "index": 0}
usage = {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
body = json.dumps({"id": "x", "model": "m", "choices": [choice], "usage": usage}).encode()
async def posted(self, target, data):
    async with self._slots:
        moments.append(time.perf_counter())
        await asyncio.sleep(latency)
    moments.append(time.perf_counter())
    return SimpleNamespace(status=200, headers={}), body
Transport._posted = posted
"""
STOCK = """
import json, sys, time
from lm_eval_ccat.harness import internals
url, in_flight, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
arguments = {"model": "m01", "base_url": url, "tokenizer_backend": "none"}
lm = internals.make_lm("local-completions", {**arguments, "num_concurrent": in_flight})
prompts = [f"Repeat the numbers of document {i}." for i in range(n)]
asked = internals.requests_for(prompts, {"until": ["\\n"], "max_gen_toks": 64})
began = time.process_time()
lm.generate_until(asked)
print(json.dumps([1e3 * (time.process_time() - began) / n, 0, 0]))
"""
BARE = """
import asyncio, json, sys, time
import aiohttp
url, in_flight, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
async def post_all():
    numbers, connector = iter(range(n)), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        async def post():
            for i in numbers:
                body = {"model": "m01", "prompt": f"Repeat the numbers of document {i}."}
                async with session.post(url, json=body) as response:
                    json.loads(await response.read())
        await asyncio.gather(*(post() for _ in range(in_flight)))
began = time.process_time()
asyncio.run(post_all())
print(json.dumps([1e3 * (time.process_time() - began) / n, 0, 0]))
"""


def child(url: str, code: str, tree: Path, *arguments: object) -> list[float]:
    """What code prints in a process that imports the package from a tree, and requests a second."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    env, before = {**os.environ, "PYTHONPATH": str(tree)}, loopback.received(url)
    # Python looks in the working directory first, whatever PYTHONPATH says.
    done = subprocess.run(command, env=env, cwd=tree, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    requests, seconds = loopback.traffic(url)
    figures: list[float] = json.loads(done.stdout.splitlines()[-1])
    # Requests that go nowhere are counted where they are made.
    return figures if requests == before else [*figures, (requests - before) / seconds]


def main() -> None:
    """Print a line for each way and number of slots: means, and standard errors over the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, help="another checkout of the package")
    slots = "requests at once of each model (default: 8,32,128)"
    parser.add_argument("--slots", default="8,32,128", help=slots)
    latency = "milliseconds of an answer (default: 10,100,300)"
    parser.add_argument("--latency", default="10,100,300", help=latency)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--items", type=int, help="of each model (default: see above)")
    args = parser.parse_args()
    trees = [*([args.beside.resolve()] if args.beside else []), HERE]
    taken: dict[tuple[str, str, str], list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as servers:
        bench = make_bench(Path(folder), n_docs=1000)
        outputs = Path(folder, "outputs.json")
        outputs.write_text(json.dumps(bench.outputs))
        urls = {
            latency: servers.enter_context(loopback.running(outputs, float(latency) / 1e3))
            for latency in args.latency.split(",")
        }
        for k, latency, slots in product(range(args.rounds), urls, args.slots.split(",")):
            url, items = urls[latency], args.items or min(1000, max(200, 5 * int(slots)))
            in_flight, n = int(slots) * len(MODELS), items * len(MODELS)
            stock, bare = (child(url, code, HERE, url, in_flight, n) for code in (STOCK, BARE))
            runs = {"generate_until": stock, "aiohttp": bare}
            for tree, order in product(trees, ("", "arrival")):
                config = bench.config(
                    url, MODELS, name=f"{k}-{latency}-{slots}-{trees.index(tree)}{order}",
                    model_args={"num_concurrent": int(slots)}, stop="limits",
                    max_items=items, **({"order": order} if order else {}),
                )  # fmt: skip
                runs[f"{tree.name} {order}".strip()] = child(url, RANKING, tree, config)
            config = bench.config(
                url, MODELS, name=f"{k}-{latency}-{slots}-free", stop="limits", max_items=items,
                model_args={"num_concurrent": int(slots)}, order="arrival",
            )  # fmt: skip
            code = RANKING.replace("marks, append", f"{FREE}marks, append", 1)
            runs["free, arrival"] = child(url, code, HERE, config, float(latency) / 1e3)
            for what, run in runs.items():
                taken.setdefault((latency, slots, what), []).append([*run, run[-1] / stock[-1]])
    heads = ("ms a request", "main thread", "connections", "requests/s", "of stock's")
    print(f"{'latency':>8} {'slots':>5} {'':>24} " + " ".join(f"{head:>14}" for head in heads))
    for (latency, slots, what), rounds in sorted(
        taken.items(), key=lambda x: (float(x[0][0]), int(x[0][1]))
    ):
        cells = [
            f"{statistics.mean(x):.2f} ± {statistics.stdev(x) / len(x) ** 0.5:.2f}"
            if len(x) > 1
            else f"{x[0]:.2f}"
            for x in zip(*rounds)
        ]
        print(f"{latency:>8} {slots:>5} {what:>24}" + "".join(f" {cell:>14}" for cell in cells))


if __name__ == "__main__":
    main()
