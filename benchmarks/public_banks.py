"""Makes the public banks that come with the package, from scores that others have published.

``python benchmarks/public_banks.py`` writes `banks/mmlu_pro`, fourteen banks as one suite, from the
published answers of models to MMLU-Pro (repository TIGER-AI-Lab/MMLU-Pro, folder eval_results,
Apache-2.0). An item carries the hash that the harness gives to its document, made from the eight
columns of the data set; it was never compared with the hub's copy of the data set.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.quality_data import SHARED
from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.bank.bank import PUBLISHED_ELSEWHERE
from lm_eval_ccat.harness.internals.task import hash_text

ROOT = Path(__file__).resolve().parents[1]
DATA = SHARED / "data" / "mmlu_pro"
SOURCE = "https://github.com/TIGER-AI-Lab/MMLU-Pro, eval_results, commit f418b11"
MADE = "2026-11-23"
#: Questions of which the published answers hold two versions; they stay out.
TWO_VERSIONS = frozenset(map(int, """
    94 96 120 143 305 321 1289 2129 2253 2394 2453 2634 2817 3983 5457 5664 5666 6392 6921 7063
    7780 8015 8110 8122 8142 8230 8236 8263 8410 8419 8447 8547 8572 8582 8584 8618 8630 8680 8693
    8757 8762 8780 8881 8882 8884 8933 8955 11289
""".split()))  # fmt: skip


def tables() -> dict[str, ScoreTable]:
    """The published scores of every `mmlu_pro_*` task of the harness, by task.

    A document is named by its place among those of its category, as the harness counts them.
    """
    documents: dict[str, list[dict[str, object]]] = {}
    for document in pq.read_table(DATA / "documents.parquet").to_pylist():
        documents.setdefault(str(document["category"]), []).append(document)
    columns = pq.read_table(DATA / "scores.parquet").to_pydict()
    scores = dict(zip(zip(columns["model"], columns["question_id"]), columns["score"]))
    models = sorted(set(columns["model"]))
    by_task = {}
    for category, of_category in sorted(documents.items()):
        task = f"mmlu_pro_{category.replace(' ', '_')}"
        items = {
            doc_id: document
            for doc_id, document in enumerate(of_category)
            if document["question_id"] not in TWO_VERSIONS
        }
        asked = [document["question_id"] for document in items.values()]
        by_task[task] = ScoreTable.from_arrays(
            np.array([[scores.get((model, q), np.nan) for q in asked] for model in models]),
            models,
            list(items),
            metric="exact_match",
            filter="custom-extract",
            task=task,
            doc_hashes=[
                hash_text(json.dumps(d, indent=2, ensure_ascii=False)) for d in items.values()
            ],
            settings={"num_fewshot": 5},
        )
    return by_task


def _hash(document: dict[str, object]) -> str:
    return hash_text(json.dumps(document, indent=2, ensure_ascii=False))


def public(table: ScoreTable) -> ItemBank:
    """A bank of published scores, which says where they come from.

    Every item is drawn, because models that get other prompts may depart from the bank in ways that
    no model left out of it shows: where 30% of a new model's scores are replaced by chance, its
    estimates after chosen items err by up to 1.5 times what they state, after draws by 0.8 to 1.1.
    """
    bank = calibrate(table, keep_scores=True, draws=1.0)
    facts = {"sources": [SOURCE], "license": "Apache-2.0", "prompts": PUBLISHED_ELSEWHERE}
    return replace(bank, made=MADE, provenance={**bank.provenance, **facts})


if __name__ == "__main__":
    suite = SuiteBank({task: public(table) for task, table in tables().items()})
    suite.save(ROOT / "banks" / "mmlu_pro", compressed=True)
    print(suite, sum(f.stat().st_size for f in (ROOT / "banks").rglob("*.gz")), "bytes")
