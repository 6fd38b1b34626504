"""What servers say beside the text is told on the terminal, not only in the JSON."""

from __future__ import annotations

import html
import json

import pytest

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.harness.served import Served
from lm_eval_ccat.live.failures import Failure
from lm_eval_ccat.live.result import state


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_what_is_warned_of_when_a_ranking_begins_stays_in_its_result(bench, server, ccat, tmp_path):
    """In one list: nobody who reads the result later has seen the screen."""
    known = bench.folder / "known.parquet"
    names = bench.outputs.keys() - set(ScoreTable.read(known).models)
    config = bench.config(server.url, sorted(names)[:2], known=str(known), max_items=12)
    said = ccat("rank", config, "--json", code=(0, 3))
    content = json.loads((bench.run() / "result.json").read_text())
    given = [
        line.removeprefix("warning: ") for line in said.err.splitlines() if "warning: " in line
    ]
    assert {text for text in given if "prompts unknown" in text or "no hashes" in text}
    assert sorted(given) == sorted(content["warnings"]) == sorted(set(given))
    assert content["warnings"] == json.loads(said.out)["warnings"]
    assert set(content["warnings"]) >= set(state(bench.run()).warnings) != set()
    ccat("report", bench.run())
    page = html.unescape((bench.run() / "report.html").read_text())
    for text in content["warnings"]:  # the card of the bank has its warnings, too
        assert page.count(text) == 1, text
