"""What servers say of their answers is kept, told, and bars what it casts doubt on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from worlds.bench import TASK
from worlds.server import trouble

from lm_eval_ccat.live.adaptive import adaptive_evaluate
from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.live.result import doubts, state
from lm_eval_ccat.records import Item, Tell
from lm_eval_ccat.runs.tally import Tally

THREE = ["m01", "m05", "m11"]


def swapped(model: str, n: int) -> Mapping[str, Any]:
    name = f"{model}-{2 if model == 'm11' and n > 6 else 1}"
    return {"model": name, "system_fingerprint": "fp", "id": f"r{n}"}


@pytest.mark.long
def test_a_swapped_model_is_told_and_decides_nothing_unless_that_is_accepted(bench, server):
    server.says = swapped
    config = bench.config(server.url, THREE, entry={"price": {"item": 1.0}})
    run = bench.run()
    content = rank(config, run_dir=run).content
    said = [w for w in content["warnings"] if "the server of m11 changed" in w]
    assert said and "m11-1 (fp), then m11-2 (fp)" in said[0]
    decisions = {(p["a"], p["b"]): p["decision"] for p in content["pairwise"]}
    assert {d for pair, d in decisions.items() if "m11" in pair} == {"open"}
    assert "decided" in decisions.values() and content["exit_code"] == 3
    assert content["models"]["m11"]["served"][0]["model"] == "m11-1"
    assert state(run).content["pairwise"] == content["pairwise"]
    other = rank(config, run_dir=run, resume=True, accept_change=["cut", "scoring"]).content
    assert other["exit_code"] == 3  # one kind of change that is accepted does not accept another
    accepted = rank(config, run_dir=run, resume=True, accept_change="server").content
    assert {p["decision"] for p in accepted["pairwise"]} == {"decided"}
    assert accepted["exit_code"] == 0
    answers = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    served = [a["served"][0] for a in answers if a["op"] == "tell"]
    notes = [a["change"] for a in answers if a["op"] == "accept"]
    assert notes == ["cut", "scoring", "server"]
    assert all({"request_id", "model", "fingerprint", "sent"} <= set(one) for one in served)


@pytest.mark.long
def test_a_model_that_is_swapped_at_the_last_answer_decides_nothing(bench, server):
    last = 14
    # With one answer at a time the last one of all is the only one of another model.
    server.says = lambda model, n: {
        "model": f"{model}-{1 + (sum(server.asked.values()) == 2 * last)}"
    }
    config = bench.config(
        server.url, ["m01", "m11"], max_items=last, stop="limits", ahead=1,
    )  # fmt: skip
    content = rank(config, run_dir=bench.run()).content
    assert [block["n_items"] for block in content["models"].values()] == [last, last]
    assert any("changed during the run" in warning for warning in content["warnings"])
    assert [pair["decision"] for pair in content["pairwise"]] == ["open"]


@pytest.mark.long
def test_a_gate_passes_no_pair_that_may_not_be_decided(bench, server, ccat, tmp_path):
    """Not by its interval either, which lies above the margin: live, and of what is kept."""
    server.says = swapped
    sides = [bench.config(server.url, [name], name=name, bank=None) for name in ("m01", "m11")]
    live = ["compare", *sides, "--margin", "0.1", "--run_dir", tmp_path / "versus"]
    kept = ["compare", tmp_path / "versus", "--models", "m01,m11", "--margin", "0.5"]
    said = ccat(*live, code=3)
    assert "it is not known whether m11 is worse" in said.out and "would decide" not in said.out
    assert "no pair with m11 is decided unless you accept that" in said.err
    assert sum(server.asked.values()) < 80
    ccat(*kept, code=3)
    assert "accepted: the server of m11 changed" in ccat(*live, "--accept_change", "server").err
    ccat(*kept)


@pytest.mark.long
def test_answers_cut_short_of_one_model_decide_nothing_unless_that_is_accepted(bench, server):
    server.mood = trouble("truncate", of="m11")
    config = bench.config(server.url, THREE, max_items=30)
    for accepted in (False, True):
        content = rank(config, accept_change="cut" if accepted else "server").content
        assert any("100% of those of m11" in warning for warning in content["warnings"])
        decisions = {(p["a"], p["b"]): p["decision"] for p in content["pairwise"]}
        assert ("decided" in {d for p, d in decisions.items() if "m11" in p}) is accepted
        assert decisions.get(("m05", "m01"), decisions.get(("m01", "m05"))) == "decided"


@pytest.mark.long
def test_a_run_of_one_model_tells_it_too(bench, server, capsys):
    server.says = swapped
    arguments = {"model": "m11", "base_url": server.url, "tokenizer_backend": "none"}
    results = adaptive_evaluate(
        "local-completions", arguments, [TASK], max_items=15,
        include_path=str(bench.folder / "tasks"),
    )  # fmt: skip
    assert results is not None
    [said] = results["adaptive"][TASK]["warnings"]
    assert "the server of model changed during the run" in said
    assert said in capsys.readouterr().err


def test_answers_cut_unlike_often_and_impossible_usage_are_told():
    tally = Tally()
    for n in range(10):
        for model in ("a", "b"):
            finish = ["length" if model == "a" and n < 5 else "stop"]
            served = [{"finish": finish, **({"refused_usage": "-1 read"} if n == 9 else {})}]
            tally.count_answer(Tell(model=model, item=Item(("", n)), score=0.5, served=served))
    cut, *usage = doubts(tally)
    assert cut == (
        "answers were cut at the token limit at different rates: 50% of those of a, 0% of those of "
        "b; no pair of different rates is decided unless you accept that (accept_change: cut)"
    )
    assert len(usage) == 2 and "-1 read" in usage[0]
    assert doubts(tally, accepted=("cut",))[0] == f"accepted: {cut.partition('; no pair')[0]}"
    assert doubts(tally, accepted=("server", "prompts"))[0] == cut


def test_requests_that_were_sent_otherwise_than_those_of_the_bank_are_told():
    tally = Tally()
    for model, sent in (
        ("as it was", {"temperature": 0, "max_tokens": 64, "stop": ["Q:"]}),
        ("chat", {"temperature": 1, "max_completion_tokens": 64}),
        ("short", {"temperature": 0, "max_tokens": 32, "stop": ["Q:"]}),
    ):
        tally.count_answer(
            Tell(model=model, item=Item(("", 0)), score=0.5, served=[{"sent": sent}])
        )
    of_calibration = {"until": ["Q:"], "max_gen_toks": 64, "do_sample": False}
    other = "the bank was calibrated on other requests: "
    # A flag states as text what a file has as a number.
    for calibrated in (of_calibration, {**of_calibration, "max_gen_toks": "64"}):
        assert doubts(tally) == [] and doubts(tally, calibrated) == [
            f"{other}chat was asked with temperature 1 in place of 0.0 and without its stop "
            "sequences",
            f"{other}short was asked with token limit 32 in place of 64",
        ]
    # A limit of prompt and answer together is none of answers.
    assert doubts(tally, {"until": ["Q:"], "temperature": 1.0, "max_length": 9}) == [
        f"{other}as it was was asked with temperature 0 in place of 1.0",
        f"{other}chat was asked without its stop sequences",
        f"{other}short was asked with temperature 0 in place of 1.0",
    ]


@pytest.mark.long
def test_an_answer_whose_content_is_a_list_is_a_failed_document_in_words(bench, server):
    listed = json.dumps({"choices": [{"index": 0, "text": [{"type": "text", "text": "4"}]}]})
    server.mood = trouble("say", 200, listed, of="m11", when=lambda number, _: number % 4 == 0)
    few = {"stop": "limits", "max_items": 10, "failures": {"attempts": 2, "backoff": 0.1}}
    failed = bench.ranked(server, THREE, **few)["models"]["m11"]["failed"]
    assert failed and all("its text is of type list" in one["reason"] for one in failed)


@pytest.mark.parametrize(
    ("answered", "refused", "told"), [(100, 9, False), (100, 10, True), (5, 1, True)]
)
def test_a_tenth_of_refusals_is_told_and_fewer_are_not(answered, refused, told):
    tally = Tally()
    tally.answered["a"], tally.refusals["a"] = answered, refused
    share = f"{refused} of {answered} answers of a ({100 * refused // answered}%) are refusals"
    assert [text.startswith(share) for text in doubts(tally)] == [True] * told
