"""Local weights that do not fit together, with tiny random models made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from worlds.bench import Bench, content_of
from worlds.weights import tiny_model

from lm_eval_ccat.cli.main import main


def test_models_that_do_not_fit_are_loaded_one_at_a_time(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from lm_eval_ccat.live import models as rank_models

    names = ["one", "two"]
    for seed, name in enumerate(names):
        tiny_model(tmp_path / name, seed, "Repeat the numbers of document .".split())
    content = {
        "task": "loopback_task",
        "bank": "bank.json",
        "memory": 10,
        "max_items": 25,
        "stop": "limits",
        "models": [
            {
                "name": n,
                "model": "hf",
                "model_args": {"pretrained": str(tmp_path / n), "dtype": "float32"},
                "batch_size": 5,
                "memory": 8,
                "price": {"input": 0.1, "output": 0.2},
            }
            for n in names
        ],
        "harness": {"include_path": "tasks", "gen_kwargs": {"max_gen_toks": 4}},
    }
    config = bench.folder / "weights.yaml"
    config.write_text(json.dumps(content))
    loads: list[str] = []
    there: set[str] = set()
    genuine_open, genuine_close = (
        rank_models.HarnessModel.open, rank_models.HarnessModel.close,
    )  # fmt: skip

    def note_open(self: rank_models.HarnessModel) -> None:
        loads.append(self.name)
        there.add(self.name)
        assert len(there) == 1
        genuine_open(self)

    def note_close(self: rank_models.HarnessModel) -> None:
        there.discard(self.name)
        genuine_close(self)

    monkeypatch.setattr(rank_models.HarnessModel, "open", note_open)
    monkeypatch.setattr(rank_models.HarnessModel, "close", note_close)
    assert main(["rank", str(config)]) in (0, 3)
    result = content_of(config)
    for name in names:
        block = result["models"][name]
        assert block["n_items"] == 25
        # The model's own tokenizer counts: six words and a full stop, and what was written.
        assert block["tokens"]["counted_by"] == ["tokenizer"]
        assert block["tokens"]["input"] == 7 * 25
    assert len(loads) <= 4
    assert not there


def test_a_model_larger_than_the_memory_is_refused_before_it_is_loaded(
    bench: Bench, capsys: pytest.CaptureFixture
) -> None:
    config = bench.folder / "weights.yaml"
    content = {
        "task": "loopback_task", "bank": "bank.json", "memory": 10,
        "models": [{"name": "big", "model": "hf", "model_args": {"pretrained": "x"}, "memory": 12}],
        "harness": {"include_path": "tasks"},
    }  # fmt: skip
    config.write_text(json.dumps(content))
    assert main(["rank", str(config)]) == 1
    assert "model big needs memory 12, more than the 10" in capsys.readouterr().err


CHOICES = """\
task: choices_task
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
  cache_dir: {cache}
test_split: test
output_type: multiple_choice
doc_to_text: "Repeat {{{{a}}}} of"
doc_to_choice: ["{{{{a}}}}", "{{{{b}}}}", "{{{{c}}}}"]
doc_to_target: 0
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0}}
"""


def test_multiple_choice_by_local_weights(tmp_path: Path) -> None:
    import numpy as np

    from lm_eval_ccat import ScoreTable, calibrate

    rng = np.random.default_rng(0)
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    with (tasks / "docs.jsonl").open("w") as out:
        for _ in range(40):
            a, b, c = rng.choice(100, 3, replace=False)
            out.write(json.dumps({"a": str(a), "b": str(b), "c": str(c)}) + "\n")
    (tasks / "choices_task.yaml").write_text(
        CHOICES.format(
            data=json.dumps(str(tasks / "docs.jsonl")), cache=json.dumps(str(tmp_path / "cache"))
        )
    )
    scores = (rng.random((10, 40)) < np.linspace(0.1, 0.9, 10)[:, None]).astype(float)
    table = ScoreTable.from_arrays(
        scores, models=[f"k{i}" for i in range(10)], doc_ids=list(range(40)), metric="acc"
    )
    calibrate(table, method="paper").save(tmp_path / "bank.json")
    names = ["one", "two"]
    for seed, name in enumerate(names):
        tiny_model(tmp_path / name, seed, "Repeat the numbers of document .".split())
    config = tmp_path / "choices.yaml"
    config.write_text(
        json.dumps(
            {
                "task": "choices_task",
                "bank": "bank.json",
                "stop": "limits",
                "max_items": 12,
                "models": [
                    {
                        "name": n,
                        "model": "hf",
                        "model_args": {"pretrained": str(tmp_path / n), "dtype": "float32"},
                        "batch_size": 6,
                        "price": {"input": 1.0, "output": 1.0},
                    }
                    for n in names
                ],
                "harness": {"include_path": "tasks"},
            }
        )
    )
    assert main(["rank", str(config)]) in (0, 3)
    result = content_of(config)
    for name in names:
        block = result["models"][name]
        assert block["n_items"] == 12
        # Three choices of a document, each read with the prompt; nothing is written.
        assert block["tokens"]["input"] >= 12 * 3 * 4 and block["tokens"]["output"] == 0
        assert block["tokens"]["counted_by"] == ["tokenizer"]
    rows = (config.with_suffix(".run") / "journal.jsonl").read_text().splitlines()
    tell = next(json.loads(r) for r in rows if json.loads(r)["op"] == "tell")
    assert len(tell["responses"]) == 3 and all(len(r[0]) == 2 for r in tell["responses"])
    assert tell["score"] in (0.0, 1.0)
