"""What a live ranking costs beyond its requests: speed, the Ranker's share, the journal, a crash.

A loopback server in a process of its own answers after a fixed latency, so the ideal is known:
requests at once / latency. Three things are timed beside each other, and their rates printed:

- stock: the harness's own `generate_until` on one model;
- pooled: the same prompts, one document a call from as many threads, through our transport;
- rank: four models at the same time, stopping off: the whole way with ranker and journal.

    python benchmarks/live.py                          # concurrency 1, 8, 32; then a crash
    python benchmarks/live.py --latency 0.2 --items 100
    python benchmarks/live.py --profile                # where the time of the last one goes
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import io
import json
import logging
import os
import pstats
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ["TQDM_DISABLE"] = "1"

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import loopback
from worlds.bench import Bench, make_bench
from worlds.server import CompletionsServer

from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.transport import Transport

MODELS = ["m01", "m05", "m07", "m11"]


def _timed(function: Any, spent: dict[str, float], what: str) -> Any:
    """A function, method or property that adds up the time it takes."""
    inner = function.fget if isinstance(function, property) else function

    def outer(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            spent[what] += time.perf_counter() - began

    return property(outer) if isinstance(function, property) else outer


def measured_run(config: Path) -> dict[str, float]:
    """Run a ranking in this process; times of its parts in seconds."""
    from lm_eval_ccat.cli.main import main
    from lm_eval_ccat.ranker import Ranker
    from lm_eval_ccat.runs.journal import JournalFile

    spent = {"ranker": 0.0, "journal": 0.0}
    timed = ((Ranker, ("ask", "tell", "decided"), "ranker"), (JournalFile, ("append",), "journal"))
    genuine = {(cls, name): cls.__dict__[name] for cls, names, _ in timed for name in names}
    for cls, names, what in timed:
        for name in names:
            setattr(cls, name, _timed(genuine[cls, name], spent, what))
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main(["rank", str(config), "--quiet"])
    finally:
        for (cls, name), before in genuine.items():
            setattr(cls, name, before)
    if code not in (0, 3):
        raise SystemExit(f"the run ended with code {code}")
    times, told = [], 0
    for line in (config.with_suffix(".run") / "journal.jsonl").open(encoding="utf-8"):
        record = json.loads(line)
        if record["op"] in ("ask", "tell"):
            times.append(record["time"])
            told += record["op"] == "tell"
    return {
        "items": told,
        "seconds": max(times) - min(times),
        **spent,
    }


def model(url: str, at_once: int) -> Any:
    arguments = {"model": "m01", "base_url": url, "tokenizer_backend": "none"}
    return internals.make_lm("local-completions", {**arguments, "num_concurrent": at_once})


def requests(n: int) -> list[Any]:
    make = internals.resolve("lm_eval.api.instance:Instance")
    settings = {"until": ["\n"], "max_gen_toks": 64}
    return [
        make(
            request_type="generate_until",
            doc={},
            arguments=(f"Repeat the numbers of document {i}.", settings),
            idx=0,
            metadata=("task", i, 1),
        )
        for i in range(n)
    ]


def stock_rate(url: str, at_once: int, n: int) -> float:
    """Requests per second of the harness's own loop."""
    lm, asked = model(url, at_once), requests(n)
    started = time.perf_counter()
    lm.generate_until(asked)
    return n / (time.perf_counter() - started)


def pooled_rate(url: str, at_once: int, n: int) -> float:
    """Requests per second of our transport, one document a call."""
    lm, asked = model(url, at_once), requests(n)
    transport = Transport(lm)
    with ThreadPoolExecutor(at_once) as threads:
        started = time.perf_counter()
        list(threads.map(lambda one: internals.send(lm, [one]), asked))
        seconds = time.perf_counter() - started
    transport.close()
    return n / seconds


def speed(bench: Bench, url: str, at_once: int, latency: float, items: int) -> None:
    """One line: requests per second of each way against the ideal, and where rank's time went."""
    n = max(40, min(len(bench.outputs["m01"]), round(3 * at_once / latency)))
    stock, pooled = stock_rate(url, at_once, n), pooled_rate(url, at_once, n)
    config = bench.config(
        url,
        MODELS,
        name=f"speed{at_once}",
        model_args={"num_concurrent": at_once},
        stop="limits",
        max_items=items,
    )
    found = measured_run(config)
    rate, ideal = found["items"] / found["seconds"], at_once / latency
    print(
        f"{at_once:>11} {ideal:>8.0f} {stock:>8.0f} {pooled:>8.0f} {pooled / stock:>8.2f} "
        f"{len(MODELS) * ideal:>9.0f} {rate:>8.0f} {rate / (len(MODELS) * ideal):>8.2f} "
        f"{100 * found['ranker'] / found['seconds']:>8.1f}% "
        f"{1e3 * found['ranker'] / found['items']:>8.2f} "
        f"{1e3 * found['journal'] / found['items']:>8.2f}"
    )


def crash(bench: Bench, latency: float, at_once: int, kills: int) -> None:
    """Kill a run again and again; how many requests were made twice."""
    with CompletionsServer(bench.outputs, latency=latency) as server:
        config = bench.config(
            server.url, MODELS, name="crash", model_args={"num_concurrent": at_once},
            stop="limits", max_items=50,
        )  # fmt: skip
        journal = config.with_suffix(".run") / "journal.jsonl"
        command = [sys.executable, "-m", "lm_eval_ccat.cli.main", "rank", str(config), "--quiet"]
        done = 0
        while True:
            resume = ["--resume"] if journal.exists() else []
            size = journal.stat().st_size if journal.exists() else 0
            child = subprocess.Popen(
                [*command, *resume], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            while done < kills and child.poll() is None:
                if journal.exists() and journal.stat().st_size > size + 12_000:
                    child.send_signal(signal.SIGKILL)
                    done += 1
                    break
                time.sleep(0.005)
            child.wait()
            if child.returncode >= 0:
                break
    told = sum('"op": "tell"' in line for line in journal.open(encoding="utf-8"))
    asked = sum(server.asked.values())
    print(
        f"\n{done} kills (SIGKILL) at {at_once} requests at once per model: {told} documents, "
        f"{asked} requests, {asked - told} of them repeated "
        f"(at most {done * at_once * len(MODELS)} were in flight)."
    )


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", type=float, default=0.05, help="seconds (default: 0.05)")
    parser.add_argument("--items", type=int, default=200, help="items of each model")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="profile the threads of rank")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder), n_docs=args.documents)
        outputs = Path(folder) / "outputs.json"
        outputs.write_text(json.dumps(bench.outputs))
        print(f"{args.latency:g} s latency, bank of {args.documents} items; requests per second")
        print(
            f"{'':>11} {'one model':>35} {f'rank, {len(MODELS)} models':>27}\n"
            f"{'concurrency':>11} {'ideal':>8} {'stock':>8} {'pooled':>8} {'/ stock':>8} "
            f"{'ideal':>9} {'rank':>8} {'/ ideal':>8} {'Ranker':>9} {'ms/item':>8} {'journal':>8}"
        )
        with loopback.running(outputs, args.latency) as url:
            for at_once in args.concurrency:
                speed(bench, url, at_once, args.latency, args.items)
            if args.profile:
                profile(bench, url, args.concurrency[-1], args.items)
        if args.kills:
            crash(bench, min(args.latency, 0.05), 8, args.kills)


def profile(bench: Bench, url: str, at_once: int, items: int) -> None:
    """Where the processor time of a ranking's threads goes; profiling itself slows them."""
    profiles: list[cProfile.Profile] = []
    genuine = threading.Thread.run

    def profiled(self: threading.Thread) -> None:
        one = cProfile.Profile(time.thread_time)
        profiles.append(one)
        one.runcall(genuine, self)

    threading.Thread.run = profiled  # type: ignore[method-assign]
    try:
        config = bench.config(
            url,
            MODELS,
            name="profile",
            model_args={"num_concurrent": at_once},
            stop="limits",
            max_items=items,
        )
        main_thread = cProfile.Profile(time.thread_time)
        main_thread.runcall(measured_run, config)
    finally:
        threading.Thread.run = genuine  # type: ignore[method-assign]
    stats = pstats.Stats(main_thread)
    for one in profiles:
        with contextlib.suppress(TypeError):  # a thread that never ran
            stats.add(one)
    stats.sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
