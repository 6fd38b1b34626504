"""How much of a server's rate limit a ranking uses whose models share one, or have one each.

Four models are ranked to their limits on a server whose token bucket refuses with ``Retry-After``.
Printed: seconds, those that the bucket alone would take, their ratio, and the share of requests
that were refused.

    python benchmarks/limits.py [--beside OLDER] [--slots 32] [--items 60]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import loopback
from slots import CODE
from worlds.bench import Bench, make_bench

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


def main() -> None:
    """Print a line for each tree, number of slots and limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, help="another checkout of the package")
    parser.add_argument("--slots", default="32", help="requests at once of each model")
    parser.add_argument("--items", type=int, default=60, help="of each model (default: 60)")
    args = parser.parse_args()
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
