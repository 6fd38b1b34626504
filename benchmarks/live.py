"""What a live ranking costs beyond its requests: speed, the Ranker's share, the journal, a crash.

A loopback server answers after a fixed latency, so the ideal is known: items x latency / requests
at once.  Four models run at the same time with stopping off.

    python benchmarks/live.py                          # concurrency 1, 8, 32; then a crash
    python benchmarks/live.py --latency 0.05 --items 200
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
# The bench and the server of the tests are what is measured against.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "runs"))

from bench import Bench, make_bench
from loopback import CompletionsServer

MODELS = ["m01", "m05", "m07", "m11"]


def measured_run(config: Path) -> dict[str, float]:
    """Run a ranking in this process; times of its parts in seconds."""
    from lm_eval_ccat.cli.main import main
    from lm_eval_ccat.runs import journaled

    made: list[journaled.JournaledRanker] = []
    genuine = journaled.JournaledRanker.__init__

    def keep(self: journaled.JournaledRanker, *args: object, **kwargs: object) -> None:
        genuine(self, *args, **kwargs)  # type: ignore[arg-type]
        made.append(self)

    journaled.JournaledRanker.__init__ = keep  # type: ignore[method-assign]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = main(["rank", str(config), "--quiet"])
    finally:
        journaled.JournaledRanker.__init__ = genuine  # type: ignore[method-assign]
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
        "ranker": made[0].ranker_seconds,
        "journal": made[0].journal_seconds,
    }


def speed(bench: Bench, at_once: int, latency: float, items: int) -> None:
    """One line: items per second against the ideal, and where the time went."""
    with CompletionsServer(bench.outputs, latency=latency) as server:
        config = bench.config(
            server.url,
            MODELS,
            name=f"speed{at_once}",
            model_args={"num_concurrent": at_once},
            stop_when_decided=False,
            max_items=items,
        )
        found = measured_run(config)
    ideal = -(-items // at_once) * latency
    print(
        f"{at_once:>11} {found['items']:>6.0f} {found['items'] / found['seconds']:>9.1f} "
        f"{found['items'] / ideal:>9.1f} {found['seconds'] / ideal:>7.2f} "
        f"{100 * found['ranker'] / found['seconds']:>9.1f}% "
        f"{1e3 * found['ranker'] / found['items']:>10.2f} "
        f"{1e3 * found['journal'] / found['items']:>11.2f}"
    )


def crash(bench: Bench, latency: float, at_once: int, kills: int) -> None:
    """Kill a run again and again; how many requests were made twice."""
    with CompletionsServer(bench.outputs, latency=latency) as server:
        config = bench.config(
            server.url, MODELS, name="crash", model_args={"num_concurrent": at_once},
            stop_when_decided=False, max_items=50,
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
    parser.add_argument("--latency", type=float, default=0.2, help="seconds (default: 0.2)")
    parser.add_argument("--items", type=int, default=100, help="items of each model")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--kills", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder), n_docs=args.documents)
        print(f"{len(MODELS)} models, {args.latency:g} s latency, bank of {args.documents} items")
        print(
            f"{'concurrency':>11} {'items':>6} {'items/s':>9} {'ideal':>9} {'x ideal':>7} "
            f"{'in Ranker':>10} {'ms/item':>10} {'journal ms':>11}"
        )
        for at_once in args.concurrency:
            speed(bench, at_once, args.latency, args.items)
        crash(bench, min(args.latency, 0.05), 8, args.kills)


if __name__ == "__main__":
    main()
