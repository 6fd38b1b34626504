"""Local weights that do not fit together, with tiny random models made here."""

from __future__ import annotations

import json
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from worlds.bench import content_of
from worlds.weights import tiny_model

from lm_eval_ccat.harness import TaskSession
from lm_eval_ccat.live.models import HarnessModel

# To import PyTorch alone takes seconds.
pytestmark = pytest.mark.long

TWO = ["one", "two"]


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Two models as a configuration names them."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("weights")
    for seed, name in enumerate(TWO):
        tiny_model(folder / name, seed, "Repeat the numbers of document .".split())
    return [
        {
            "name": name, "model": "hf", "batch_size": 5, "price": {"input": 0.1, "output": 0.2},
            "model_args": {"pretrained": str(folder / name), "dtype": "float32"},
        }
        for name in TWO
    ]  # fmt: skip


@pytest.mark.parametrize("memory", [8, None])  # which the models state, of 10
def test_models_that_do_not_fit_are_loaded_one_at_a_time(bench, entries, monkeypatch, ccat, memory):
    loads, there, batches = [], set(), []

    def opened(model):
        loads.append(model.name)
        there.add(model.name)
        assert len(there) == 1

    def note(name, before):
        genuine = getattr(HarnessModel, name)

        def call(self, *args):
            before(self, *args)
            return genuine(self, *args)

        monkeypatch.setattr(HarnessModel, name, call)

    note("open", opened)
    note("close", lambda model: there.discard(model.name))
    genuine_ask = TaskSession.ask

    def ask(session, docs, *more):
        batches.append(len(docs))
        return genuine_ask(session, docs, *more)

    monkeypatch.setattr(TaskSession, "ask", ask)
    config = bench.config(
        "", [], models=[{**entry, "memory": memory} for entry in entries], memory=10,
        max_items=25, stop="limits",
        harness={"include_path": "tasks", "gen_kwargs": {"max_gen_toks": 4}},
    )  # fmt: skip
    said = ccat("plan", config).out
    assert "Local weights take turns: 2 to 3 loads, 1 to 1.5 minutes at half a minute each." in said
    ccat("rank", config, code=(0, 3))
    for name in TWO:
        block = content_of(config)["models"][name]
        assert block["n_items"] == 25
        # The model's own tokenizer counts: six words and a full stop, and what was written.
        assert block["tokens"]["counted_by"] == ["tokenizer"]
        assert block["tokens"]["input"] == 7 * 25
    assert loads == [*TWO, TWO[0]] and max(batches) == 5, "as forecast"
    assert not there


def test_an_attempt_that_is_to_be_repeated_keeps_a_model_in_its_place(
    bench, entries, monkeypatch, ccat
):
    loads, batches = [], []
    genuine_open, genuine_ask = HarnessModel.open, TaskSession.ask
    monkeypatch.setattr(
        HarnessModel, "open", lambda model: (loads.append(model.name), genuine_open(model))
    )

    def ask(session, docs, *more):
        batches.append(len(docs))
        if len(batches) == 3:  # the last of one's
            raise RuntimeError("a hiccup")
        return genuine_ask(session, docs, *more)

    monkeypatch.setattr(TaskSession, "ask", ask)
    config = bench.config(
        "", [], models=[{**entry, "memory": 8} for entry in entries], memory=10, max_items=15,
        stop="limits", failures={"backoff": 0.2},
        harness={"include_path": "tasks", "gen_kwargs": {"max_gen_toks": 4}},
    )  # fmt: skip
    ccat("rank", config, code=(0, 3))
    assert loads == TWO and sum(batches) == 35, "each loaded once, and one batch asked twice"


def test_the_next_model_is_loaded_while_the_last_answers_are_scored(
    bench, entries, monkeypatch, ccat
):
    genuine_open, genuine_read = HarnessModel.open, TaskSession._score_call
    opened, weights = threading.Event(), list[weakref.ref[Any]]()

    def open_model(model):
        freed = [lm() for lm in weights] == [None] * len(weights)
        assert freed, "the weights of the model before are freed"
        genuine_open(model)
        weights.append(weakref.ref(model._lm))
        if model.name == TWO[1]:
            opened.set()

    def read(session, call):
        if len(scored) == 3:  # the last of one's first window of 16
            assert opened.wait(60)
        scored.append(len(call.doc_ids))
        return genuine_read(session, call)

    scored = list[int]()
    monkeypatch.setattr(HarnessModel, "open", open_model)
    monkeypatch.setattr(TaskSession, "_score_call", read)
    config = bench.config(
        "", [], models=entries, max_items=16, stop="limits",
        harness={"include_path": "tasks", "gen_kwargs": {"max_gen_toks": 4}},
    )  # fmt: skip
    ccat("rank", config, code=(0, 3))
    assert scored == [5, 5, 5, 1] * 2 and len(weights) == 2


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


def test_multiple_choice_by_local_weights(bench, tmp_path, entries, ccat):
    rng = np.random.default_rng(0)
    tasks = tmp_path / "choices"
    tasks.mkdir()
    rows = [dict(zip("abc", map(str, rng.choice(100, 3, replace=False)))) for _ in range(40)]
    (tasks / "docs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    paths = (json.dumps(str(path)) for path in (tasks / "docs.jsonl", tmp_path / "cache"))
    text = CHOICES.format(**dict(zip(("data", "cache"), paths)))
    (tasks / "choices_task.yaml").write_text(text)
    config = bench.config(
        "", [], models=entries, task="choices_task", bank=None, stop="limits", max_items=12,
        harness={"include_path": "choices"},
    )  # fmt: skip
    ccat("rank", config, code=(0, 3))
    for name in TWO:
        block = content_of(config)["models"][name]
        assert block["n_items"] == 12
        # Three choices of a document, each read with the prompt; nothing is written.
        assert block["tokens"]["input"] >= 12 * 3 * 4 and block["tokens"]["output"] == 0
        assert block["tokens"]["counted_by"] == ["tokenizer"]
    lines = (bench.run() / "journal.jsonl").read_text().splitlines()
    tell = next(record for record in map(json.loads, lines) if record["op"] == "tell")
    assert len(tell["responses"]) == 3 and all(len(r[0]) == 2 for r in tell["responses"])
    assert tell["score"] in (0.0, 1.0)
