"""What people read and wait for: progress of many models, wrong addresses, signals, an outage.

Printed are, from runs on this machine,

- progress: letters of the longest line, and lines of the longest table on a terminal of 80 x 24;
- a wrong address of one of two models: seconds until the run ends, and requests that the other,
  whose server takes .2 s, has cost by then;
- signals to a run in mid-flight, whose server takes .3 s: seconds until the process is gone, and
  what its result says;
- an outage of 20 s of one of two models: seconds from the server's return to its next answer.

    python benchmarks/troubles.py [--models 4,30,300,945] [--outage 20]
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from worlds.bench import Bench, content_of, make_bench
from worlds.server import CompletionsServer, untrusted_server

from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.live.result import Observer
from lm_eval_ccat.report.terminal import Progress

CODE = "import sys; from lm_eval_ccat.cli.main import main; sys.exit(main(sys.argv[1:]))"
#: Signals that a run gets, one after the other, by what sends them.
SIGNALS = {
    "Ctrl-C": [signal.SIGINT],
    "SIGTERM": [signal.SIGTERM],
    "SIGTERM, and again": [signal.SIGTERM, signal.SIGTERM],
    "SIGHUP": [signal.SIGHUP],
}


class Watched(Progress):
    """Keeps the length of the longest line and table that it would show."""

    letters = lines = 0

    def tick(self) -> None:
        """Measure what a terminal would show now."""
        self.measure()

    def end(self) -> None:
        """Measure what a terminal shows last."""
        self.measure()
        super().end()

    def measure(self) -> None:
        """Compare what a terminal would show with the longest so far."""
        self.letters = max(self.letters, len(self.line()))
        console = Console(file=io.StringIO(), width=80, height=24)
        console.print(self.table())
        self.lines = max(self.lines, len(console.file.getvalue().splitlines()))  # type: ignore[attr-defined]


def print_progress(bench: Bench, numbers: list[int]) -> None:
    """Print how long progress gets with each number of models."""
    for n_models in numbers:
        entries = [
            {"name": f"system-with-a-rather-long-name-{n:03}", "model": "dummy"}
            for n in range(n_models)
        ]
        config = bench.config(
            "", [], name=f"many{n_models}", models=entries, bank=None, max_items=5, stop="limits"
        )
        watched = Watched()
        rank(config, observer=watched)
        print(
            f"progress of {n_models} models: a line of {watched.letters} letters, "
            f"a table of {watched.lines} lines",
            flush=True,
        )


@contextmanager
def wrong_addresses(server: CompletionsServer, folder: Path) -> Iterator[dict[str, str]]:
    """Yield addresses at which no request can be answered, by what is wrong with them."""
    path = "/v1/completions"
    with socket.socket() as closed, untrusted_server(folder) as untrusted:
        closed.bind(("127.0.0.1", 0))
        yield {
            "a certificate that nobody trusts": untrusted,
            "https on a port of http": server.url.replace("http:", "https:"),
            "a host that nobody knows": f"http://nowhere.invalid{path}",
            "a port on which nobody listens": f"http://127.0.0.1:{closed.getsockname()[1]}{path}",
        }


def print_wrong_addresses(bench: Bench, server: CompletionsServer) -> None:
    """Print what each wrong address of one model costs until the run ends."""
    server.latency = 0.2
    with wrong_addresses(server, bench.folder) as address_by_trouble:
        for number, (trouble, url) in enumerate(address_by_trouble.items()):
            model_args = {"model": "m05", "base_url": url, "tokenizer_backend": "none"}
            config = bench.config(
                server.url, ["m11", "m05"], name=f"wrong{number}", bank=None,
                of={"m05": {"model_args": model_args}}, entry={"concurrency": 64},
            )  # fmt: skip
            before, began = server.requests("m11"), time.perf_counter()
            content = rank(config, observer=Observer()).content
            seconds, spent = time.perf_counter() - began, server.requests("m11") - before
            assert f"wrong address {url}: " in (content["models"]["m05"]["set_aside"] or "")
            print(f"{trouble}: {seconds:.1f} s, {spent} requests of the other model", flush=True)


def print_signals(bench: Bench, server: CompletionsServer) -> None:
    """Print how long a run takes to end that gets a signal, and what it leaves."""
    server.latency = 0.3
    for number, (name, signals) in enumerate(SIGNALS.items()):
        config = bench.config(server.url, ["m01", "m11"], name=f"signal{number}", stop="limits")
        journal = bench.run(f"signal{number}") / "journal.jsonl"
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, "rank", str(config)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=bench.folder,
        )  # fmt: skip
        while not (journal.exists() and b'"op":"tell"' in journal.read_bytes()):
            time.sleep(0.01)
        began = time.perf_counter()
        for number_of_signal in signals:
            process.send_signal(number_of_signal)
            time.sleep(0.05)
        code = process.wait(60)
        seconds, content = time.perf_counter() - began, content_of(config)
        print(
            f"{name}: gone after {seconds:.1f} s with exit code {code}; its result has "
            f"{content['items_administered']} answers, interrupted: {content['interrupted']}",
            flush=True,
        )


def print_outage(bench: Bench, server: CompletionsServer, outage: float) -> None:
    """Print how soon a run goes on whose server was away."""
    server.latency, gone = 0.02, list[float]()
    before = server.answers("m01")

    def mood(model: str, prompt: str, times: int) -> tuple[Any, ...] | None:
        if model != "m01":
            return None
        if server.answers("m01") - before >= 8 and not gone:
            gone.append(time.time())
        return ("status", 503) if gone and time.time() - gone[0] < outage else None

    server.mood = mood
    config = bench.config(
        server.url, ["m01", "m11"], name="outage", bank=None, stop="limits", max_items=30
    )
    rank(config, observer=Observer())
    back = gone[0] + outage
    answers = [moment for moment, model, _, kind in server.log if (model, kind) == ("m01", "")]
    late = min(moment for moment in answers if moment >= back) - back
    print(f"a server that was away for {outage:g} s: asked again {late:.1f} s after its return")


def main() -> None:
    """Print what each trouble takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="4,30,300,945", help="numbers of models")
    parser.add_argument("--outage", type=float, default=20.0, help="seconds (default: 20)")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder))
        print_progress(bench, [int(n_models) for n_models in args.models.split(",")])
        with CompletionsServer(bench.outputs) as server:
            print_wrong_addresses(bench, server)
            print_signals(bench, server)
            print_outage(bench, server, args.outage)


if __name__ == "__main__":
    main()
