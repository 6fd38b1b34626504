"""Memory and time of opening, verifying, resuming and reporting a run of many answers.

A run of twenty models without a bank is written as `rank` leaves it, each answer with a text of
some 300 characters. Each command then reads it in a process of its own, whose peak memory is
printed, in all and beyond that of a run of 2,000 answers, by answer.

    python benchmarks/journal.py --answers 1000000 --left 1000000      # half an hour
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from lm_eval_ccat import __version__
from lm_eval_ccat.bank import ItemBank
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.money import Tokens
from lm_eval_ccat.records import Header, Session, Tell, Windows
from lm_eval_ccat.runs.book import Book, NewAsk
from lm_eval_ccat.runs.directory import RunDirectory, load_banks, make_ranker, save_banks

MODELS, SMALL = 20, 2000
#: What a process does with the run directory that its first argument names.
COMMANDS = {
    "open": "from lm_eval_ccat.runs.directory import rebuild; rebuild(sys.argv[1])",
    "show": "from lm_eval_ccat.live.result import state; state(sys.argv[1]).content",
    "verify": "from lm_eval_ccat.live.verify import verify; print(verify(sys.argv[1]).words)",
    "resume": "sys.path.insert(0, sys.argv[2]); import journal; journal.resume(sys.argv[1])",
    "report": "from lm_eval_ccat.report import write_report; write_report(sys.argv[1])",
}
MEASURED = """
import json, resource, sys, time
began = time.perf_counter()
{}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([time.perf_counter() - began, peak]))
"""


def write_run(folder: Path, n_answers: int, n_left: int = 1000) -> None:
    """Write a run directory of this many answers, with others left, of which `resume` asks some."""
    n_items = -(-(n_answers + n_left) // MODELS)
    names, bank = [f"m{j:02d}" for j in range(MODELS)], ItemBank.blank(range(n_items), task="t")
    report = {
        "metric": "acc", "key": "acc,none", "scale": Scale().to_dict(), "currency": "items",
        "estimand": f"Estimates are of the mean over all {n_items} documents",
    }  # fmt: skip
    run = RunDirectory(folder)
    save_banks(bank, folder)
    arguments = {"models": dict.fromkeys(names, 1.0), "stop": "limits", "options": {}}
    config = {"task": "t", "models": [{"name": name, "model": "dummy"} for name in names]}
    task = {"name": "t", "metric": "acc", "filter": "none", "documents": n_items, "prompts": {}}
    run.start(
        Header(
            config=config,
            bank_sha256=bank.sha256,
            task=task,
            ranker=arguments,
            report=report,
            versions={"lm_eval_ccat": __version__, "lm_eval": None},
        )
    )
    book = Book(make_ranker(bank, run.read_header()), run.journal)
    run.journal.make_durable = lambda: None  # type: ignore[method-assign]
    book.read()
    book.write([Session(event="start"), Windows(windows={}, wire={})])
    answer_some(book, n_answers)
    run.journal.close()


def answer_some(book: Book, n_answers: int) -> None:
    """Ask and answer some items, in batches."""
    rng, told = np.random.default_rng(book.n_told), 0
    while told < n_answers:
        asks = [book.add_ask(*pair) for pair in book.ranker.ask(200)]
        book.write_asks([NewAsk(ask, book.n_told) for ask in asks])
        book.write(
            [
                Tell(
                    n=ask.number, model=ask.model, item=ask.item, score=float(score), cost=1.0,
                    raw=float(score), seconds=0.3, tokens=Tokens(120, 60, "usage"),
                    prompt_sha256=f"{rng.integers(1 << 62):064x}",
                    responses=[[" ".join(map(str, rng.integers(100, 999, 75)))]],
                    served=[{"request_id": f"cmpl-{ask.number:032x}", "model": ask.model,
                             "finish": ["stop"]}],
                )
                for ask, score in zip(asks, rng.random(len(asks)) < 0.6)
            ]
        )  # fmt: skip
        while (ask := book.next_told) is not None:
            book.tell(ask)
        told += len(asks)


def resume(folder: Path | str) -> None:
    """Take a run up, and ask and answer two hundred items more."""
    run = RunDirectory(folder)
    book = Book(make_ranker(load_banks(run.path), run.read_header()), run.journal)
    book.read()
    book.write([Session(event="resume")])
    answer_some(book, 200)


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=50_000)
    parser.add_argument("--left", type=int, default=1000, help="answers that were not asked for")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--keep", type=Path, help="where to keep the runs for another call")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        places = {}
        for n in (SMALL, args.answers):
            places[n] = folder = (args.keep or Path(temporary)) / str(n)
            if not folder.exists():
                began = time.perf_counter()
                write_run(folder, n, max(args.left * n // args.answers, 1000))
                size = (folder / "journal.jsonl").stat().st_size / n
                print(f"{n:,} answers of {size:,.0f} bytes: {time.perf_counter() - began:.0f} s")
        print(f"{'':<8}{'seconds':>9}{'MB':>7}{'bytes an answer':>17}")
        for command in args.commands.split(","):
            code, peaks = MEASURED.format(COMMANDS[command]), []
            for folder in places.values():
                call = [sys.executable, "-c", code, str(folder), str(Path(__file__).parent)]
                done = subprocess.run(call, capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(done.stderr)
                seconds, peak = json.loads(done.stdout.splitlines()[-1])
                peaks.append(peak)
            more = (peaks[1] - peaks[0]) * 2**20 / (args.answers - SMALL)
            print(f"{command:<8}{seconds:>9.1f}{peaks[1]:>7.0f}{more:>17,.0f}", flush=True)


if __name__ == "__main__":
    main()
