"""Time and peak memory of reading long tables of scores, beside a bare loop over Arrow's batches.

Writes a table of models x documents in long form (Parquet, sorted by model or by document, or in no
order), then reads it in processes of their own, each way in turn; the fastest run counts. The bare
loop is what nobody can be below: `iter_batches`, codes of names, one assignment into a matrix whose
shape it is told.

    python benchmarks/tables.py                              # 2,000 x 5,000
    python benchmarks/tables.py --models 5000 --documents 20000 --repeats 1
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

BARE = """
import numpy as np
from pyarrow import parquet
file = parquet.ParquetFile({path!r}, read_dictionary=["model"])
raw = np.full(({models}, {documents}), np.nan)
row = {{}}
for batch in file.iter_batches(1 << 20, columns=["model", "doc_id", "score"]):
    model = batch["model"]
    at = np.array([row.setdefault(m, len(row)) for m in model.dictionary.to_pylist()])
    codes = at[np.frombuffer(model.indices.buffers()[1], dtype=np.int32, count=len(batch))]
    ids = np.frombuffer(batch["doc_id"].buffers()[1], dtype=np.int64, count=len(batch))
    raw[codes, ids] = np.frombuffer(batch["score"].buffers()[1], dtype=np.float64, count=len(batch))
"""
OURS = """
from lm_eval_ccat import ScoreTable
table = ScoreTable.read({path!r})
assert table.raw.shape == ({models}, {documents}), table.raw.shape
"""
MEASURE = """
import resource, sys, time
start = time.perf_counter()
exec(sys.argv[1])
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def write(path: Path, models: int, documents: int, order: str) -> float:
    """Write the table; its size in MB."""
    rng = np.random.default_rng(0)
    names = pa.array([f"organisation/model-{j:05}" for j in range(models)])
    schema = pa.schema(
        [("model", pa.dictionary(pa.int32(), pa.string())), ("doc_id", pa.int64()),
         ("metric", pa.dictionary(pa.int32(), pa.string())), ("score", pa.float64())]
    )  # fmt: skip
    step = max(1, (1 << 22) // documents)
    with parquet.ParquetWriter(path, schema) as out:
        for start in range(0, models, step):
            rows = np.arange(start, min(start + step, models))
            model, doc = np.repeat(rows, documents), np.tile(np.arange(documents), len(rows))
            if order != "model":  # by document, or in no order, within a part of the models
                at = np.argsort(doc, kind="stable") if order == "document" else None
                at = rng.permutation(len(doc)) if at is None else at
                model, doc = model[at], doc[at]
            columns = [
                pa.DictionaryArray.from_arrays(pa.array(model.astype(np.int32)), names),
                pa.array(doc),
                pa.DictionaryArray.from_arrays(
                    pa.array(np.zeros(len(doc), dtype=np.int32)), pa.array(["acc"])
                ),
                pa.array(np.round(rng.random(len(doc)), 3)),
            ]
            out.write_table(pa.Table.from_arrays(columns, schema=schema))
    return path.stat().st_size / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--orders", default="model,document,none")
    args = parser.parse_args()
    shape = {"models": args.models, "documents": args.documents}
    print(f"{args.models:,} models x {args.documents:,} documents")
    with tempfile.TemporaryDirectory() as folder:
        for order in args.orders.split(","):
            path = Path(folder) / "t.parquet"
            print(f"\nrows by {order}: {write(path, **shape, order=order):.0f} MB")
            best: dict[str, list[float]] = {}
            for name, code in [("bare loop", BARE), ("ScoreTable.read", OURS)] * args.repeats:
                text = code.format(path=str(path), **shape)
                done = subprocess.run(
                    [sys.executable, "-c", MEASURE, text], capture_output=True, text=True
                )
                if done.returncode:
                    print(done.stderr)
                    continue
                figures = list(map(float, done.stdout.split()))
                best[name] = list(map(min, figures, best.get(name, figures)))
            for name, (seconds, cpu, peak) in best.items():
                print(f"{name:16} {seconds:6.2f} s {cpu:6.2f} CPU s {peak:8.0f} MB")


if __name__ == "__main__":
    main()
