"""A local model's batch size is found once and kept, and a batch too large is halved."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from worlds.weights import tiny_model

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.harness import TaskSession, internals

# To import PyTorch alone takes seconds.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    pytest.importorskip("transformers")
    return tiny_model(tmp_path_factory.mktemp("weights"))


def load(weights, batch_size):
    arguments = {"pretrained": weights, "dtype": "float32"}
    return internals.make_lm("hf", arguments, {"batch_size": batch_size, "max_batch_size": 16})


def test_a_model_is_made_as_the_harness_s_command_makes_it(bench, weights, monkeypatch):
    """On a machine without a card as on one with: the very same arguments reach the model type."""
    kind = internals.resolve("lm_eval.models.huggingface:HFLM")
    given, genuine = [], kind.__init__

    def init(self, **arguments):
        given.append(arguments)
        genuine(self, **arguments)

    monkeypatch.setattr(kind, "__init__", init)
    common = ["--tasks", "choices", "--include_path", str(bench.tasks), "--limit", "1"]
    arguments = ["--model", "hf", "--model_args", f"pretrained={weights},dtype=float32"]
    assert main(["run", *arguments, *common, "--batch_size", "2"]) == 0
    additional = {"batch_size": "2"}
    lm = internals.make_lm("hf", {"pretrained": weights, "dtype": "float32"}, additional)
    assert given[0] == given[1] and lm.device.type in ("cpu", "cuda")
    # What stands among the model's own arguments counts, and is not given twice.
    internals.make_lm("hf", {"pretrained": weights, "device": "cpu", "batch_size": 3}, additional)
    assert (given[2]["device"], given[2]["batch_size"]) == ("cpu", 3)


def test_a_folder_of_weights_that_is_not_there_is_named(tmp_path):
    """Transformers looks for it on the hub, and tells of its connection."""
    (tmp_path / "good").mkdir()
    missing, near = tmp_path / "godo", tmp_path / "good"
    with pytest.raises(OSError, match=f"no folder {missing}; did you mean {near}\\?"):
        internals.make_lm("hf", {"pretrained": str(missing)})


def test_auto_is_found_once_and_kept(bench, weights, monkeypatch):
    kind = internals.resolve("lm_eval.models.huggingface:HFLM")
    lengths, genuine = [], kind._detect_batch_size

    def detect(self, requests, pos):
        lengths.append(len(requests[pos][1]))
        return genuine(self, requests, pos)

    monkeypatch.setattr(kind, "_detect_batch_size", detect)
    lm = load(weights, "auto")
    results = bench.adaptive(["choices"], None, lm, max_items=8, ahead=2)
    assert results["adaptive"]["choices"]["items"] == 8
    assert len(lengths) == 1 and lengths[0] <= 288 and lm.batch_size == 16


@pytest.fixture
def session(bench, weights):
    """Opens sessions of `choices` with a model of a batch size."""
    [task] = bench.manager().load(["choices"])["tasks"].values()
    return lambda batch_size: TaskSession(task, load(weights, batch_size))


def test_a_model_loaded_again_keeps_the_size(session, weights, monkeypatch):
    sizes = iter([32])
    kind = internals.resolve("lm_eval.models.huggingface:HFLM")
    monkeypatch.setattr(kind, "_detect_batch_size", lambda *_: next(sizes))
    opened = session("auto")
    opened.administer([0])
    for repeat in (1, 2):
        opened.lm = load(weights, "auto")
        opened.ask([1], [repeat])()
        assert opened.lm.batch_size == 32


@pytest.mark.long
def test_out_of_memory_halves_the_batch_and_loses_nothing(session, monkeypatch, caplog):
    opened = session(16)
    genuine = opened.lm._model_call

    def tight(inputs, **arguments):
        if inputs.shape[0] > 4:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return genuine(inputs, **arguments)

    monkeypatch.setattr(opened.lm, "_model_call", tight)
    assert len(opened.administer(list(range(8)))) == 8 and opened.lm.batch_size == 4
    assert "continuing with 8" in caplog.text and "continuing with 4" in caplog.text
    monkeypatch.setattr(opened.lm, "_model_call", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        opened.administer([0])


@pytest.mark.parametrize(
    "about, at_once",
    [
        ({"batch_size": 6}, (1, 6)),
        ({"batch_size": "auto"}, (1, 64)),
        ({"batch_size": 2, "_batch_size": 2, "_concurrent": 8}, (8, 2)),
        ({}, (1, 1)),
    ],
)
def test_what_a_model_takes_at_once(about, at_once):
    assert internals.requests_at_once(SimpleNamespace(**about)) == at_once
