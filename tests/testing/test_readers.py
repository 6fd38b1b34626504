"""Every reader does what the conformance suite asks, one from outside the package too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.scores.readers.frameworks import Row, reader_of_rows
from lm_eval_ccat.scores.table import READERS, register
from lm_eval_ccat.testing.methods import example_table
from lm_eval_ccat.testing.readers import ReaderSuite


def toy_logs(path):
    return [path] if path.suffix == ".toy" else []


def toy_rows(log, notes):
    content = json.loads(log.read_text())
    for model, scores in content["scores"].items():
        for item, score in zip(content["items"], scores):
            yield Row(model, "play", "joy", item, score)


TOY = reader_of_rows("toy", "a .toy file", toy_logs, toy_rows)


@pytest.fixture(autouse=True, scope="module")
def known():
    register(TOY)
    yield
    READERS.unregister("toy")


class TestToy(ReaderSuite):
    reader = TOY

    def write(self, folder: Path) -> Path:
        scores = {"a": [0.1, 0.2], "b": [0.5, 1.0]}
        (folder / "x.toy").write_text(json.dumps({"scores": scores, "items": [4, 7]}))
        return folder / "x.toy"

    def expected(self) -> ScoreTable:
        return ScoreTable.from_arrays([[0.1, 0.2], [0.5, 1.0]], ["a", "b"], [4, 7])


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


def test_the_command_line_reads_what_a_reader_from_outside_reads(tmp_path, capsys):
    table = example_table()
    scores = dict(zip(table.models, table.raw.tolist()))
    log = tmp_path / "x.toy"
    log.write_text(json.dumps({"scores": scores, "items": table.doc_ids}))
    assert main(["calibrate", str(log), "--method", "paper", "-o", str(tmp_path / "b.json")]) == 0
    assert "play" in capsys.readouterr().out
    (tmp_path / "x.dat").write_text("")
    assert main(["calibrate", str(tmp_path / "x.dat"), "-o", str(tmp_path / "b.json")]) == 1
    assert "a .toy file" in capsys.readouterr().err
