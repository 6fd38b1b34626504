"""Rate and peak memory of reading harness logs, beside a plain loop of json.loads and pandas.

Writes sample files in the harness's layout (rows of about 4 kB, five-shot prompts), then reads them
in processes of their own: every way starts cold, and its peak memory is its own. The reader's
worker processes count towards its memory and its processor time. The last two columns are rates as
multiples of the plain loop's on the same files, by the clock and by processor time; each way runs
``--repeats`` times in turn and its fastest run counts, as a busy machine disturbs that least.

    python benchmarks/log_reading.py                       # 1,000 MB plain, 200 MB of them as .gz
    python benchmarks/log_reading.py --megabytes 100       # quick
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = (
    "the model reads a document and writes what it takes to be its summary in a few plain words "
    "whether or not «größere» parts of it, or an \\n escape, were left out of the prompt"
).split()

PLAIN, PACKED = "json.loads, one process", "json.loads, one process, .gz"
WAYS = {
    "lm-eval-ccat, plain": (
        "from lm_eval_ccat.scores import ScoreTable\n"
        "ScoreTable.read({plain!r}, metric='exact_match')"
    ),
    "lm-eval-ccat, .gz": (
        "from lm_eval_ccat.scores import ScoreTable\n"
        "ScoreTable.read({packed!r}, metric='exact_match')"
    ),
    "pandas.read_json, whole files": (
        "import glob, pandas\n"
        "frames = [pandas.read_json(f, lines=True)[['doc_id', 'exact_match', 'doc_hash']]\n"
        "          for f in sorted(glob.glob({plain!r} + '/*/*.jsonl'))]"
    ),
    "pandas.read_json, chunks of 1,000": (
        "import glob, pandas\n"
        "frames = [part[['doc_id', 'exact_match', 'doc_hash']]\n"
        "          for f in sorted(glob.glob({plain!r} + '/*/*.jsonl'))\n"
        "          for part in pandas.read_json(f, lines=True, chunksize=1000)]"
    ),
    PLAIN: (
        "import glob, json\n"
        "rows = [(r['doc_id'], r['exact_match'], r['doc_hash'])\n"
        "        for f in sorted(glob.glob({plain!r} + '/*/*.jsonl'))\n"
        "        for r in map(json.loads, open(f, 'rb'))]"
    ),
    PACKED: (
        "import glob, gzip, json\n"
        "rows = [(r['doc_id'], r['exact_match'], r['doc_hash'])\n"
        "        for f in sorted(glob.glob({packed!r} + '/*/*.jsonl.gz'))\n"
        "        for r in map(json.loads, gzip.open(f, 'rb'))]"
    ),
}

MEASURE = """
import resource, sys, time
start = time.perf_counter()
exec(sys.argv[1])
seconds = time.perf_counter() - start
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
work = sum(one.ru_utime + one.ru_stime for one in used)
print(seconds, work, *(one.ru_maxrss / 1024 for one in used))
"""


def text(rng: random.Random, words: int) -> str:
    """Some words, with quotes and line ends that JSON must escape."""
    return " ".join(rng.choices(WORDS, k=words)) + ' "so" it said.\n'


def rows(megabytes: float, seed: int):
    """Yield rows of about 4 kB, in the harness's key order, up to a size."""
    rng = random.Random(seed)
    prompts = [text(rng, 550) for _ in range(50)]
    written = 0
    doc_id = 0
    while written < megabytes * 1e6:
        question, answer = text(rng, 40), text(rng, 20)
        row = {
            "doc_id": doc_id,
            "doc": {"question": question, "answer": answer},
            "target": answer,
            "arguments": {"gen_args_0": {"arg_0": prompts[doc_id % 50] + question, "arg_1": {}}},
            "resps": [[answer]],
            "filtered_resps": [answer],
            "filter": "none",
            "metrics": ["exact_match"],
            "doc_hash": hashlib.sha256(str(doc_id).encode()).hexdigest(),
            "prompt_hash": hashlib.sha256(question.encode()).hexdigest(),
            "target_hash": hashlib.sha256(answer.encode()).hexdigest(),
            "exact_match": float(rng.random() < 0.5),
        }
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode()
        written += len(line)
        doc_id += 1
        yield line


def write(folder: Path, megabytes: float, models: int, packed: bool) -> float:
    """Write one sample file per model; return the size of the rows in MB."""
    total = 0
    for n in range(models):
        directory = folder / f"model-{n}"
        directory.mkdir(parents=True)
        name = directory / f"samples_demo_2026-01-{n + 1:02d}T00-00-00.000001.jsonl"
        name = name.with_name(name.name + ".gz") if packed else name
        stream = gzip.open(name, "wb", compresslevel=6) if packed else open(name, "wb")
        with stream:
            for line in rows(megabytes / models, n):
                stream.write(line)
                total += len(line)
    return total / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, default=1000.0)
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        plain, packed = Path(temporary) / "plain", Path(temporary) / "packed"
        size = write(plain, arguments.megabytes, arguments.models, packed=False)
        packed_size = write(packed, min(arguments.megabytes, 200), arguments.models, packed=True)
        # Once through the page cache, so that no way pays for the disk.
        for file in plain.rglob("*.jsonl"):
            with open(file, "rb") as stream:
                while stream.read(1 << 24):
                    pass
        print(f"{size:.0f} MB in {arguments.models} files, {packed_size:.0f} MB of rows as .gz\n")
        best: dict[str, list[float]] = {}
        for way in [way for _ in range(arguments.repeats) for way in WAYS]:
            code = WAYS[way].format(plain=str(plain), packed=str(packed))
            done = subprocess.run(
                [sys.executable, "-c", MEASURE, code], capture_output=True, text=True
            )
            if done.returncode:
                print(f"{way:36} not run: {done.stderr.strip().splitlines()[-1]}")
                continue
            found = list(map(float, done.stdout.split()))
            best[way] = list(map(min, found, best.get(way, found)))
        print(
            f"{'way':36} {'seconds':>8} {'MB/s':>7} {'CPU s':>7} {'peak MB':>8} {'+ worker':>9} "
            f"{'x json':>7} {'by CPU':>7}"
        )
        for way, (seconds, work, own, workers) in best.items():
            base = best[PACKED if ".gz" in way else PLAIN]
            rate = (packed_size if ".gz" in way else size) / seconds
            print(
                f"{way:36} {seconds:8.2f} {rate:7.0f} {work:7.2f} {own:8.0f} {workers:9.0f} "
                f"{base[0] / seconds:7.2f} {base[1] / work:7.2f}"
            )


if __name__ == "__main__":
    main()
