"""Readers do what the conformance suite asks; `test_contributing.py` adds one from outside."""

import json
from pathlib import Path

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.scores.table import READERS
from lm_eval_ccat.testing.methods import example_table
from lm_eval_ccat.testing.readers import ReaderSuite


class TestLongForm(ReaderSuite):
    reader = READERS.get("long_form")
    wanted = {"metric": "toy", "task": "toy_task"}  # noqa: RUF012

    def write(self, folder: Path) -> Path:
        example_table().write(folder / "scores.csv")
        return folder / "scores.csv"

    def expected(self) -> ScoreTable:
        return example_table()


class TestHarnessLogs(ReaderSuite):
    reader = READERS.get("lm_eval")
    wanted = {"metric": "exact_match"}  # noqa: RUF012

    def write(self, folder: Path) -> Path:
        for model, scores in (("a", [1.0, 0.0]), ("b", [0.0, 0.0])):
            (folder / model).mkdir()
            rows = [
                {
                    "doc_id": i,
                    "doc": {},
                    "filter": "none",
                    "metrics": ["exact_match"],
                    "doc_hash": f"h{i}",
                    "exact_match": s,
                }
                for i, s in enumerate(scores)
            ]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / model / "samples_t_2026-01-01T00-00-00.0.jsonl").write_text(text)
            results = {"results": {"t": {"exact_match,none": 0.5}}, "model_name": model}
            results_file = folder / model / "results_2026-01-01T00-00-00.0.json"
            results_file.write_text(json.dumps(results))
        return folder

    def expected(self) -> ScoreTable:
        return ScoreTable.from_arrays([[1.0, 0.0], [0.0, 0.0]], ["a", "b"])
