"""What servers say beside the text is told on the terminal, not only in the JSON."""

from __future__ import annotations

import pytest

from lm_eval_ccat.harness.served import Served
from lm_eval_ccat.live.failures import Failure


@pytest.mark.parametrize(
    "text", ["I cannot help with that.", "I'm sorry, but no.", "Sorry, I can't do that."]
)
def test_refusals_are_told(bench, server, capsys, text):
    asked = {prompt: n for n, prompt in enumerate(bench.outputs["m01"])}
    server.outputs = {
        **bench.outputs,
        "m01": {
            prompt: text if asked[prompt] % 3 == 0 else answer
            for prompt, answer in bench.outputs["m01"].items()
        },
    }
    content = bench.ranked(server, ["m01", "m11"], (0, 3), bank=None, max_items=30, stop="limits")
    refused = sum(asked[prompt] % 3 == 0 for model, prompt in server.asked if model == "m01")
    [warning] = content["warnings"]
    assert warning.startswith(f"{refused} of 30 answers of m01 ({refused / 30:.0%}) are refusals")
    assert warning in " ".join(capsys.readouterr().out.split())


def test_another_model_than_the_one_asked_for_is_told(bench, server, capsys):
    server.says = lambda model, n: {"model": "small-one" if model == "m11" else "m01-2026-11"}
    content = bench.ranked(server, ["m01", "m11"], bank=None, max_items=20, stop="limits")
    [warning] = content["warnings"]
    assert warning == "the server of m11 was asked for m11, and says that small-one answered"
    assert warning in " ".join(capsys.readouterr().out.split())


def test_names_of_versions_and_folders_are_the_same_model():
    for asked, served in (("org/model", "model"), ("gpt-4o", "gpt-4o-2024-08-06"), ("m", None)):
        assert not Served.of({"model": served}, {}, {"model": asked}).instead_of


def test_a_failed_assertion_of_the_harness_names_its_cause():
    """As of a continuation that is longer than the model's context: it has no message."""
    continuation_enc, max_length = [1, 2, 3], 2
    try:
        assert len(continuation_enc) <= max_length
    except AssertionError as error:
        error.args = ()  # pytest writes a message
        text = Failure(error).text
    assert text == "AssertionError: assert len(continuation_enc) <= max_length"
