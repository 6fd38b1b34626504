"""Rankings to play: a task, models behind a server, banks, and the score of every answer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .bench import HELD_OUT, PROMPT, TASK, make_bench

#: Translation systems that are far apart, so that who is better is beyond doubt.
SYSTEMS = ("CycleL", "TSU-HITs", "MSLC", "IKUN-C", "Claude-3.5")

TRANSLATION = """\
task: real_outputs
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
  cache_dir: {cache}
test_split: test
output_type: generate_until
doc_to_text: "English phrase: {{{{source}}}}\\nGerman phrase:"
doc_to_target: "{{{{reference}}}}"
process_results: !function scoring.process_results
generation_kwargs: {{until: ["\\n"]}}
metric_list:
  - {{metric: chrf, aggregation: chrf, higher_is_better: true}}
metadata: {{version: 1.0}}
"""


@dataclass(frozen=True)
class Stage:
    """What is ranked.

    Attributes
    ----------
    task : str
    folder : Path
        With the task's files.
    outputs : mapping of model to mapping of prompt to text
    items : mapping of prompt to doc_id
    banks : sequence of Path or None
        Of which one may be drawn; None is no bank.
    metric : str
    score : callable
        Of an item and a text, on the metric's own scale.
    """

    task: str
    folder: Path
    outputs: Mapping[str, Mapping[str, str]]
    items: Mapping[str, int]
    banks: tuple[Path | None, ...]
    metric: str
    score: Callable[[int, str], float]

    @cached_property
    def means(self) -> dict[str, float]:
        """The full benchmark's score of each model."""
        return {
            model: sum(self.score(item, said[prompt]) for prompt, item in self.items.items())
            / len(self.items)
            for model, said in self.outputs.items()
        }


def made_stage(folder: Path) -> Stage:
    """The small made-up benchmark: systems that copy numbers with more or fewer mistakes."""
    bench = make_bench(folder)
    wanted = [
        json.loads(line)["numbers"].split()
        for line in (folder / "tasks" / "docs.jsonl").read_text().splitlines()
    ]
    items = {PROMPT.format(id=i): i for i in range(bench.n_docs)}
    outputs = {name: bench.outputs[name] for name in HELD_OUT[1:]}

    def score(item: int, text: str) -> float:
        return sum(a == b for a, b in zip(text.split(), wanted[item])) / 10

    banks = (None, folder / "bank.json", folder / "default.bank.json")
    return Stage(TASK, folder / "tasks", outputs, items, banks, "share", score)


def real_stage(folder: Path, data: Path, n_items: int = 150) -> Stage:
    """Translations of real systems.

    Parameters
    ----------
    folder : Path
        Where the task and its banks are written.
    data : Path
        Holds ``texts/wmt24_en-de.jsonl.gz`` and ``scores/wmt24_en-de.parquet``.
    n_items : int, optional
        Segments, whose sources all differ.
    """
    import sacrebleu

    from lm_eval_ccat import ScoreTable, calibrate

    with gzip.open(data / "texts" / "wmt24_en-de.jsonl.gz", "rt", encoding="utf-8") as stream:
        rows = {r["source"]: r for r in map(json.loads, stream) if "\n" not in r["source"].strip()}
    chosen = list(rows.values())[:n_items]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scoring.py").write_text(
        "def process_results(doc, results):\n    return {'chrf': (doc['reference'], results[0])}\n"
    )
    file = folder / "rows.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for row in chosen:
            kept = {"source": row["source"], "reference": row["reference"]}
            out.write(json.dumps(kept) + "\n")
    (folder / "real_outputs.yaml").write_text(
        TRANSLATION.format(data=json.dumps(str(file)), cache=json.dumps(str(folder / "cache")))
    )
    prompts = [f"English phrase: {row['source']}\nGerman phrase:" for row in chosen]
    outputs = {
        name: {p: row["outputs"][name] for p, row in zip(prompts, chosen)} for name in SYSTEMS
    }

    def score(item: int, text: str) -> float:
        return sacrebleu.sentence_chrf(text, [chosen[item]["reference"]]).score

    table = ScoreTable.read(data / "scores" / "wmt24_en-de.parquet", metric="chrf")
    table = table.without(list(SYSTEMS))
    at = [table.doc_ids.index(int(row["doc_id"])) for row in chosen]
    table = ScoreTable.from_arrays(
        table.scores[:, at], table.models, doc_ids=list(range(len(chosen))), metric="chrf"
    )
    for method in ("paper", "default"):
        calibrate(table, method=method).save(folder / f"{method}.bank.json")
    banks = (None, folder / "paper.bank.json", folder / "default.bank.json")
    items = {prompt: i for i, prompt in enumerate(prompts)}
    return Stage("real_outputs", folder, outputs, items, banks, "chrf", score)
