"""Time and peak memory as items and models grow, beside the obvious alternatives.

Each measurement runs in a process of its own, so that its peak memory is its own; the peers (girth
for calibrating 0/1 scores, catsim for choosing items) may live in another environment:

    python -m venv peers && peers/bin/pip install catsim girth
    python benchmarks/scale.py --peers peers/bin/python --plot scale.png
    python benchmarks/scale.py --quick                 # smaller sizes, a minute
    python benchmarks/scale.py --only calibrate        # calibration alone; some minutes

"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).resolve()
SHARED = Path(os.environ.get("CCAT_SHARED", HERE.parents[1].parent / "shared"))
REAL = SHARED / "data" / "scores" / "metabench_gsm8k_v1.parquet"

#: What is aimed at, by (measurement, largest size): seconds, or milliseconds per decision.
TARGETS = {
    "calibrate the real leaderboard": "5 s",
    "calibrate 5,000 x 20,000": "60 s, 2 GB",
    "calibrate 50 x 100,000": "20 s",
    "calibrate 20 x 10,000": "1 s",
    "save 100,000 items": "2 s",
    "load 100,000 items": "2 s",
    "decide at 100,000 items": "10 ms",
    "rank 100 models x 20,000 items": "20 s",
    "first question of 50,000 documents": "2 s",
}


# -- what the measuring processes do --------------------------------------------------------------


def _scores(
    n_models: int, n_items: int, binary: bool = False, seed: int = 0, missing: float = 0.0
) -> Any:
    import numpy as np

    rng = np.random.default_rng(seed)
    ability, ease = rng.normal(size=(n_models, 1)) * 1.2, rng.normal(size=(1, n_items))
    scores = np.empty((n_models, n_items))
    for row, own in zip(scores, ability):  # nothing beside the scores themselves is to be measured
        row[:] = 1.0 / (1.0 + np.exp(-(own + ease[0] + 0.5 * rng.standard_normal(n_items))))
    if binary or missing:
        for row in scores:
            if binary:
                row[:] = rng.random(n_items) < row
            row[rng.random(n_items) < missing] = np.nan
    return scores


def _bank(n_items: int, method: str) -> Any:
    from lm_eval_ccat import ScoreTable, calibrate

    n = 12 if method == "paper" else 16
    table = ScoreTable.from_arrays(_scores(n, n_items), [f"m{j}" for j in range(n)])
    return calibrate(table, method=method)


def calibrate_real(method: str) -> Callable[[], Any]:
    """From the Parquet file to a bank."""
    from lm_eval_ccat import ScoreTable, calibrate

    return lambda: calibrate(ScoreTable.read(REAL), method=method)


def calibrate_generated(
    method: str, models: int, items: int, binary: int = 0, missing: float = 0.0
) -> Callable:
    """From a matrix to a bank."""
    from lm_eval_ccat import ScoreTable, calibrate

    raw = _scores(models, items, bool(binary), missing=missing)
    names = [f"m{j}" for j in range(models)]
    _bank(50, method)  # what is imported on first use counts once, with the real leaderboard
    return lambda: calibrate(ScoreTable.from_arrays(raw, names), method=method)


def fit_alone(models: int, items: int) -> Callable:
    """The curves of the method "default" without its self-check."""
    from lm_eval_ccat.methods.default.items import fit_items

    raw = _scores(models, items)
    fit_items(raw[:, :50])
    return lambda: fit_items(raw)


def save(method: str, items: int) -> Callable[[], Any]:
    """A bank with document hashes to its file."""
    from dataclasses import replace

    bank = replace(_bank(items, method), doc_hashes=tuple(f"{i:064x}" for i in range(items)))
    path = Path(tempfile.mkdtemp()) / "b.json"
    return lambda: bank.save(path)


def load(method: str, items: int) -> Callable[[], Any]:
    """The same file to a bank."""
    from dataclasses import replace

    from lm_eval_ccat import ItemBank

    path = Path(tempfile.mkdtemp()) / "b.json"
    bank = replace(_bank(items, method), doc_hashes=tuple(f"{i:064x}" for i in range(items)))
    bank.save(path)
    return lambda: ItemBank.load(path)


def rank(
    method: str, models: int, items: int, each: int, exposure: int = 1
) -> Callable[[], dict[str, float]]:
    """`each` items per model through the whole ask-and-tell loop."""
    import time

    from lm_eval_ccat import Ranker

    bank, scores = _bank(items, method), _scores(models, items, seed=1)

    def work() -> dict[str, float]:
        ranker = Ranker(
            bank,
            {str(j): 1.0 for j in range(models)},
            budget=each * models,
            exposure=exposure,
            stop="limits",
        )
        n, slowest = 0, 0.0
        while not ranker.done:
            start = time.perf_counter()
            for model, item in ranker.ask():
                ranker.tell(model, item, float(scores[int(model), item]))
                n += 1
            slowest = max(slowest, time.perf_counter() - start)
        return {"decisions": n, "slowest_ms": 1e3 * slowest}

    return work


def first_question(items: int) -> Callable[[], Any]:
    """From a loaded zero-shot task to the first question: bank compared, document chosen, built."""
    import logging

    logging.disable(logging.WARNING)
    os.environ["TQDM_DISABLE"] = "1"
    os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    from lm_eval_ccat import Ranker
    from lm_eval_ccat.bank.settings import check_bank
    from lm_eval_ccat.harness import TaskSession

    class Silent(LM):
        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            return ["" for _ in requests]

        loglikelihood = loglikelihood_rolling = None  # type: ignore[assignment]

    Silent.__abstractmethods__ = frozenset()
    folder = Path(tempfile.mkdtemp())
    with open(folder / "docs.jsonl", "w") as stream:
        for i in range(items):
            stream.write(json.dumps({"q": f"What is {i} and {i + 1}?", "a": str(2 * i + 1)}) + "\n")
    (folder / "t.yaml").write_text(
        "task: many\ndataset_path: json\n"
        f"dataset_kwargs: {{data_files: {{test: {folder / 'docs.jsonl'}}}}}\n"
        "test_split: test\noutput_type: generate_until\nnum_fewshot: 0\n"
        'doc_to_text: "Q: {{q}}\\nA:"\ndoc_to_target: "{{a}}"\n'
        "generation_kwargs: {until: ['\\n']}\nmetric_list: [{metric: exact_match}]\n"
    )
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    [task] = manager.load(["many"])["tasks"].values()
    list(task.eval_docs)  # the data are loaded
    bank = _bank(items, "paper")

    def work() -> Any:
        session = TaskSession(task, Silent(), {})
        check_bank(
            bank,
            task=session.name,
            filters=session.filters,
            settings=session.settings,
            doc_ids=session.doc_ids,
            doc_hashes=session.doc_hashes,
        )
        ranker = Ranker(bank, {"m": 1.0})
        [(_, doc_id)] = ranker.ask()
        return session.prompts(doc_id)

    return work


def girth(models: int, items: int) -> Callable[[], Any]:
    """Marginal maximum likelihood of the 2PL model by girth, on 0/1 scores."""
    from girth import twopl_mml

    raw = _scores(models, items, binary=True).T.astype(int)
    return lambda: twopl_mml(raw)


def catsim(items: int, each: int) -> Callable[[], dict[str, float]]:
    """One examinee: maximum information selection and ability estimation by catsim."""
    import numpy as np
    from catsim.estimation import NumericalSearchEstimator
    from catsim.item_bank import ItemBank
    from catsim.selection import MaxInfoSelector

    rng = np.random.default_rng(0)
    bank = ItemBank(np.c_[np.ones(items), rng.normal(size=items), np.zeros(items), np.ones(items)])
    answers = rng.random(items) < 0.5

    def work() -> dict[str, float]:
        select, estimate = MaxInfoSelector(), NumericalSearchEstimator()
        theta, asked, told = 0.0, [], []
        for _ in range(each):
            item = int(
                select.select(item_bank=bank, administered_items=asked, est_theta=theta) or 0
            )
            asked.append(item)
            told.append(bool(answers[item]))
            theta = estimate.estimate(
                item_bank=bank, administered_items=asked, response_vector=told, est_theta=theta
            )
        return {"decisions": each}

    return work


WORK = {
    f.__name__: f
    for f in (
        calibrate_real,
        calibrate_generated,
        fit_alone,
        save,
        load,
        rank,
        first_question,
        girth,
        catsim,
    )
}


def child(name: str, arguments: list[Any]) -> None:
    """Measure one piece of work and print JSON."""
    import resource
    import time

    work = WORK[name](*arguments)
    start, cpu = time.perf_counter(), time.process_time()
    more = work()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"seconds": seconds, "cpu": cpu, "peak_mb": peak}
    print(json.dumps({**found, **(more if isinstance(more, dict) and "decisions" in more else {})}))


# -- what is measured, and beside what ------------------------------------------------------------


def measure(name: str, *arguments: Any, python: str = sys.executable) -> dict[str, Any]:
    """One measurement in a process of its own; ``{"failed": reason}`` where it cannot run."""
    call = [python, str(HERE), "--child", name, json.dumps(arguments)]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def line(what: str, found: dict[str, Any], base: dict[str, Any] | None = None) -> None:
    """Print one row; with `base` the ratio of its time (per decision) to ours."""
    if "failed" in found:
        print(f"{what:58} not run: {found['failed']}")
        return
    n = found.get("decisions")
    wall, cpu = (v * (1e3 / n if n else 1.0) for v in (found["seconds"], found["cpu"]))
    shown = f"{wall:8.2f} {cpu:8.2f} {'ms' if n else 's '}"
    ratio = ""
    if base is not None and "failed" not in base:
        own = base["seconds"] / base.get("decisions", 1)
        ratio = f"{found['seconds'] / (n or 1) / own:8.1f} x"
    slow = f"   slowest {found['slowest_ms']:.1f} ms" if "slowest_ms" in found else ""
    aim = next((f"   aim {t}" for k, t in TARGETS.items() if what.startswith(k)), "")
    print(f"{what:58} {shown}  {found['peak_mb']:7.0f} MB {ratio:10}{aim}{slow}", flush=True)


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Exponent p of ``seconds ~ size^p`` over the larger half of the sizes."""
    import math

    a, b = len(sizes) // 2, -1
    return math.log(seconds[b] / seconds[a]) / math.log(sizes[b] / sizes[a])


def growth(
    title: str, sizes: list[int], one: Callable[[int], dict[str, Any]]
) -> tuple[str, list[int], list[float]]:
    """Processor time at several sizes, and the power with which it grows."""
    found = [one(n) for n in sizes]
    seconds = [f["cpu"] / f.get("decisions", 1) for f in found]
    values = ", ".join(f"{n:,}: {1e3 * s:.3g} ms" for n, s in zip(sizes, seconds))
    print(f"{title:58} grows with power {slope(sizes, seconds):.2f}   ({values})", flush=True)
    return title, sizes, seconds


def plot(curves: list[tuple[str, list[int], list[float]]], path: str) -> None:
    """Cost against size, both logarithmic: one panel per curve, one row per method."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    rows = -(-len(curves) // 4)
    figure, axes = plt.subplots(rows, 4, figsize=(13.6, 3.2 * rows), squeeze=False)
    for axis, (title, sizes, seconds) in zip(axes.flat, curves):
        axis.loglog(sizes, seconds, "o-")
        linear = [seconds[-1] * n / sizes[-1] for n in sizes]
        axis.loglog(sizes, linear, ":", color="grey", label="linear")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(title.rsplit(" ", 1)[-1])
        axis.set_ylabel("seconds of processor time")
        axis.legend(fontsize=8)
        for side in (axis.xaxis, axis.yaxis):
            side.set_minor_formatter(NullFormatter())
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"plot: {path}")


def calibrations(method: str, quick: bool, peers: str) -> None:
    """Measure calibration, of the leaderboard in the data and of generated tables."""
    if REAL.exists():
        line("calibrate the real leaderboard (5,041 x 249, 0/1)", measure("calibrate_real", method))
    else:
        print(f"calibrate the real leaderboard: not run, {REAL} is absent")
    small, long, big = (20, 10_000), (50, 100_000), (5000, 20_000)
    if quick:
        small, long, big = (20, 2000), (50, 10_000), (1000, 10_000)
    for size in (small, long, big):
        what = f"calibrate {size[0]:,} x {size[1]:,}"
        line(what, measure("calibrate_generated", method, *size))
    line(f"{what}, 0/1, a fifth missing", measure("calibrate_generated", method, *size, 1, 0.2))
    if method == "default":
        line(f"  the curves alone of {small[0]:,} x {small[1]:,}", measure("fit_alone", *small))
    ours = measure("calibrate_generated", method, 300 if quick else 1000, 249, 1)
    line("calibrate 0/1 scores of girth's size", ours)
    peer = measure("girth", 300 if quick else 1000, 249, python=peers)
    line("  girth twopl_mml on the same", peer, ours)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--methods", default="default,paper")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--only", choices=["calibrate"], help="this section alone")
    parser.add_argument("--peers", default=sys.executable, help="Python that has girth and catsim")
    parser.add_argument("--plot", metavar="PNG")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], json.loads(args.child[1]))
        return
    quick, peers = args.quick, args.peers
    # Processor time is what a busy machine disturbs less.
    print(f"{'what':58} {'time':>8} {'cpu':>8}     {'peak':>7}    {'ratio to ours'}")
    curves = []
    for method in args.methods.split(","):
        print(f"\nmethod {method}")
        calibrations(method, quick, peers)
        if args.only == "calibrate":
            continue
        for what in ("save", "load"):
            line(f"{what} 100,000 items", measure(what, method, 100_000))
        few = 30 if method == "paper" else 20
        for n in (1000, 10_000, 100_000):
            ours = measure("rank", method, 5, n, few)
            line(f"decide at {n:,} items, 5 models", ours)
            if method == "paper" or n == 10_000:
                line(
                    "  catsim MaxInfo + its estimator",
                    measure("catsim", n, few, python=peers),
                    ours,
                )
        line("decide at 10,000 items, exposure 5", measure("rank", method, 5, 10_000, few, 5))
        many = (20, 2000) if quick else (100, 20_000)
        found = measure("rank", method, *many, 20)
        line(f"rank {many[0]} models x {many[1]:,} items, 20 each", found)
        if "failed" not in found:
            print(f"{'':58} {found['seconds']:8.2f} {found['cpu']:8.2f} s  in all")
        sizes = [500, 2000, 8000] if quick else [1000, 4000, 16_000, 64_000]
        counts = [25, 50, 100] if quick else [50, 100, 200, 400]
        curves += [
            growth(f"{method}: calibration, by items", sizes,
                   lambda n, m=method: measure("calibrate_generated", m, 40, n)),
            growth(f"{method}: calibration, by models", counts,
                   lambda n, m=method: measure("calibrate_generated", m, n, 1000)),
            growth(f"{method}: one decision, by items", sizes,
                   lambda n, m=method: measure("rank", m, 4, n, 20)),
            growth(f"{method}: one decision, by models", [5, 10, 20] if quick else [10, 30, 90],
                   lambda n, m=method: measure("rank", m, n, 2000, 15)),
        ]  # fmt: skip
    if args.only:
        return
    print("\nharness")
    n = 5000 if quick else 50_000
    line(f"first question of {n:,} documents, zero-shot", measure("first_question", n))
    if args.plot:
        plot(curves, args.plot)


if __name__ == "__main__":
    main()
