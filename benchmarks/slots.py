"""What more slots cost: answers that a server gives, beside those that decide, and time.

Four models with a bank, and two clearly different ones without a bank, are ranked on a server with
a fixed latency. Printed for each number of slots: answers that the server was asked for, answers
that the result uses, their ratio beyond the first 16 of each model, and seconds, relative to those
with 8 slots.

    python benchmarks/slots.py [--beside OLDER] [--slots 8,32,128] [--latency 0.3] [--order arrival]
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
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_DATASETS_OFFLINE="1", TQDM_DISABLE="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import loopback
from worlds.bench import make_bench

HERE = Path(__file__).resolve().parents[1]
#: Models and further settings of each ranking.
RANKINGS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "four models, a bank": (["m01", "m05", "m07", "m11"], {}),
    "two models, no bank": (["m01", "m11"], {"bank": None}),
    "two close models, no bank": (["m05", "m06"], {"bank": None}),
}
CODE = "import sys; from lm_eval_ccat.cli.main import main; sys.exit(main(sys.argv[1:]))"


def main() -> None:
    """Print a line for each ranking, tree and number of slots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", type=Path, help="another checkout of the package")
    parser.add_argument("--slots", default="8,32,128", help="requests at once of each model")
    parser.add_argument("--latency", type=float, default=0.3, help="seconds (default: 0.3)")
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--order", help="`arrival` tells answers as they come")
    args = parser.parse_args()
    trees = [*([args.beside.resolve()] if args.beside else []), HERE]
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(Path(folder), n_docs=args.items)
        outputs = Path(folder, "outputs.json")
        outputs.write_text(json.dumps(bench.outputs))
        print(f"{'':<28}{'slots':>6}{'asked':>7}{'used':>6}{'beyond':>8}{'seconds':>9}{'ratio':>7}")
        with loopback.running(outputs, args.latency) as url:
            for label, (models, settings) in RANKINGS.items():
                for tree in trees:
                    first = 0.0
                    for slots in map(int, args.slots.split(",")):
                        name = f"run{loopback.received(url)}"
                        config = bench.config(
                            url, models, name=name, entry={"concurrency": slots},
                            **({"order": args.order} if args.order else {}), **settings,
                        )  # fmt: skip
                        before, began = loopback.received(url), time.perf_counter()
                        done = subprocess.run(
                            [sys.executable, "-c", CODE, "rank", str(config)],
                            env={**os.environ, "PYTHONPATH": str(tree)}, cwd=tree,
                            capture_output=True, text=True,
                        )  # fmt: skip
                        if done.returncode not in (0, 3):
                            raise SystemExit(done.stderr)
                        asked = loopback.received(url) - before
                        content = json.loads((bench.run(name) / "result.json").read_text())
                        used, seconds = content["items_administered"], content["seconds"]
                        first = first or seconds
                        beyond = (asked - 16 * len(models)) / used
                        where = label if tree == HERE else f"{label} (beside)"
                        print(
                            f"{where:<28}{slots:>6}{asked:>7}{used:>6}{beyond:>8.2f}"
                            f"{seconds:>9.1f}{seconds / first:>7.2f}  "
                            f"({time.perf_counter() - began:.0f} s in all)", flush=True,
                        )  # fmt: skip


if __name__ == "__main__":
    main()
