"""Local weights that do not fit together, with tiny random models made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import Bench

from lm_eval_ccat.cli.main import main


def make_model(folder: Path, seed: int) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words = ["<eos>", "<unk>", *map(str, range(100)), *"Repeat the numbers of document .".split()]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", unk_token="<unk>", pad_token="<eos>"
    )
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(words), n_positions=128, n_embd=16, n_layer=1, n_head=2,
                   bos_token_id=0, eos_token_id=0)
    )  # fmt: skip
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def test_models_that_do_not_fit_are_loaded_one_at_a_time(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from lm_eval_ccat.cli import rank_models

    names = ["one", "two"]
    for seed, name in enumerate(names):
        make_model(tmp_path / name, seed)
    content = {
        "task": "loopback_task",
        "bank": "bank.json",
        "memory": 10,
        "max_items": 25,
        "stop_when_decided": False,
        "models": [
            {
                "name": n,
                "model": "hf",
                "model_args": {"pretrained": str(tmp_path / n), "dtype": "float32"},
                "device": "cpu",
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
        rank_models.HarnessWorker.open, rank_models.HarnessWorker.close,
    )  # fmt: skip

    def note_open(self: rank_models.HarnessWorker) -> None:
        loads.append(self.name)
        there.add(self.name)
        assert len(there) == 1
        genuine_open(self)

    def note_close(self: rank_models.HarnessWorker) -> None:
        there.discard(self.name)
        genuine_close(self)

    monkeypatch.setattr(rank_models.HarnessWorker, "open", note_open)
    monkeypatch.setattr(rank_models.HarnessWorker, "close", note_close)
    assert main(["rank", str(config)]) in (0, 3)
    result = json.loads((config.with_suffix(".run") / "result.json").read_text())
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
