"""Answers that were given before are not paid for again."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from worlds.server import CompletionsServer

from lm_eval_ccat.errors import MetricError, UsageError
from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live import earlier
from lm_eval_ccat.live.models import StoredModel
from lm_eval_ccat.live.run import Run
from lm_eval_ccat.live.spec import ModelSpec, Spec
from lm_eval_ccat.records import Answered, Item, Tell
from lm_eval_ccat.scores.answers import EarlierAnswer

PAIR = ["m05", "m07"]
ARGUMENTS = {"tokenizer_backend": "none", "timeout": 5}
WHOLE: dict[str, Any] = {"stop": "limits", "bank": None}


@pytest.fixture
def had(bench, server):
    """What was asked before, in the run directory first.run."""
    content = bench.ranked(server, PAIR, name="first", budget={"items": 60}, **WHOLE)
    server.asked.clear()
    return {m: set(b["items"]) for m, b in content["models"].items()}


def asked_again(server: CompletionsServer, had: dict[str, set[int]]) -> set[tuple[str, str]]:
    before = {(m, f"Repeat the numbers of document {i}.") for m, of in had.items() for i in of}
    assert max(server.asked.values()) == 1
    return before & set(server.asked)


@pytest.mark.long
def test_a_ranking_takes_the_answers_of_another(bench, server, capsys, had):
    content = bench.ranked(
        server, [*PAIR, "m09"], name="second", budget={"items": 90}, prior="first.run", **WHOLE
    )
    captured = capsys.readouterr()
    found = f"{len(had['m05'])} of m05, {len(had['m07'])} of m07"
    assert f"answers found: {found}" in captured.err
    # Nothing was asked twice, old answers cost nothing, and the budget went to new ones.
    assert not asked_again(server, had)
    assert sum(server.asked.values()) == content["cost"] == 90
    used = {m: content["models"][m]["from_prior"] for m in PAIR}
    assert all(10 <= used[m] <= len(had[m]) for m in PAIR)  # the warm-up at least
    assert f"m05: {used['m05']} of" in captured.out and "are earlier ones" in captured.out
    # They are scored anew, and stand in the files of the harness like any other.
    run = bench.folder / "second.run"
    [rows] = (run / "m05").glob("samples_*.jsonl")
    logged = [json.loads(line)["doc_id"] for line in rows.read_text().splitlines()]
    assert sorted(logged) == sorted(content["models"]["m05"]["items"])
    records = list(JournalFile(run / "journal.jsonl").read_new())
    old = [r for r in records if isinstance(r, Tell) and r.prior]
    assert len(old) == sum(used.values()) and all("first.run" in r.prior for r in old)
    assert not any(r.seconds for r in old), "nor took they any time"


@pytest.mark.long
def test_logs_may_call_models_otherwise_than_a_ranking(bench, server, tmp_path, ccat, capsys):
    for model in PAIR:
        full = bench.adaptive(server, model, "--output_path", tmp_path / "logs", "--log_samples")
        full.remove("--adaptive")
        ccat(*full)
    server.asked.clear()
    of = {
        f"x{model}": {"model_args": {**ARGUMENTS, "model": model, "base_url": server.url}}
        for model in PAIR
    }
    content = bench.ranked(
        server, [*of], of=of, budget={"items": 60}, prior=str(tmp_path / "logs"), **WHOLE
    )
    capsys.readouterr()
    assert not server.asked
    assert {block["from_prior"] for block in content["models"].values()} == {120}
    said = ccat("verify", bench.run(), "--full", tmp_path / "logs").out
    assert "2 of 2 hold the full score" in said
    # Which of two configurations of one model the logs are of, they do not say.
    of["xm07"] = {"model_args": {**of["xm05"]["model_args"], "seed": 5}}
    config = bench.config(server.url, [*of], name="other", of=of, prior=str(tmp_path / "logs"))
    assert "none of which is ranked" in ccat("rank", config, code=2).err


@pytest.mark.long
def test_what_of_earlier_answers_is_damaged_is_named(bench, server, capsys, had, ccat):
    [torn], [unreadable] = (list((bench.folder / "first.run" / m).glob("samples_*")) for m in PAIR)
    lines = torn.read_text().splitlines()
    torn.write_text("\n".join([lines[0][:40], *lines[1:]]))
    unreadable.rename(f"{unreadable}.gz")
    # The logs may be of a model of another name.
    prior = ["x=first.run/m05", "m07=first.run/m07"]
    content = bench.ranked(server, ["x", "m07"], budget={"items": 20}, prior=prior[0], **WHOLE)
    assert f"{torn.name}: 1 damaged lines; their answers are asked" in capsys.readouterr().err
    assert content["models"]["x"]["from_prior"] > 0 and "from_prior" not in content["models"]["m07"]
    assert sum(server.asked.values()) == content["cost"] <= 20
    config = bench.config(server.url, ["x", "m07"], name="third", prior=prior, **WHOLE)
    error = ccat("rank", config, code=1).err
    assert f"{unreadable.name}.gz: 1 damaged lines" in error
    assert "no answer to task loopback_task" in error


@pytest.mark.long
def test_an_answer_to_another_prompt_does_not_count(bench, server, had):
    records = list(JournalFile(bench.folder / "first.run" / "journal.jsonl").read_new())
    changed = [
        replace(record, prompt_sha256="0" * 64) if isinstance(record, Answered) else record
        for record in records
    ]
    (other := bench.folder / "other").mkdir()
    JournalFile(other / "journal.jsonl").append(changed)
    content = bench.ranked(server, PAIR, budget={"items": 40}, prior="other", **WHOLE)
    assert not any("from_prior" in block for block in content["models"].values())
    assert asked_again(server, had)


def test_whose_answers_they_are_can_be_said_before_the_path(tmp_path):
    (tmp_path / "a").mkdir()
    for given, found in (("a", {"": ["a"]}), (["x=a"], {"x": ["a"]}), ({"x": "a"}, {"x": ["a"]})):
        prior = Spec.read({"prior": given}, folder=tmp_path).prior
        assert prior == {name: [str(tmp_path / path) for path in of] for name, of in found.items()}


def test_a_model_that_logs_do_not_hold_is_named(monkeypatch):
    logged = [SimpleNamespace(model=f"m0{n}", doc_id=0, configuration={}) for n in (1, 2)]
    monkeypatch.setattr(earlier, "earlier_answers", lambda *about: logged)
    with pytest.raises(UsageError, match="logs holds no answers of 'm03'; did you mean m02"):
        earlier.latest_prior_answers({"m03": ["logs"]}, ["m03"], {"t": 1}, print)


@pytest.mark.long
def test_answers_to_another_prompt_are_not_said_to_cost_nothing(bench, server, had, capsys):
    (other := bench.folder / "other").mkdir()
    records = JournalFile(bench.folder / "first.run" / "journal.jsonl").read_new()
    JournalFile(other / "journal.jsonl").append(
        [
            replace(record, prompt_sha256="0" * 64) if isinstance(record, Answered) else record
            for record in records
        ]
    )
    capsys.readouterr()
    bench.ranked(server, PAIR, budget={"items": 20}, prior="other", **WHOLE)
    counts, said = f"{len(had['m05'])} of m05, {len(had['m07'])} of m07", capsys.readouterr().err
    assert f"found: {counts}. Of these {counts} are to another prompt and are asked anew" in said
    assert "at no cost" not in said


@pytest.mark.long
def test_answers_that_were_generated_otherwise_are_asked_anew(bench, server, had, capsys):
    """The name says nothing of it, neither in the run's journal nor in its logs."""
    harness = {"include_path": "tasks", "gen_kwargs": {"top_p": 0.5}}
    for name, prior in (("other", "first.run"), ("third", "first.run/m05")):
        settings = {"budget": {"items": 20}, "harness": harness, "prior": prior, **WHOLE}
        content = bench.ranked(server, ["m05"], name=name, **settings)
        said = "of m05 are of another configuration (top_p is not stated there, and 0.5 here)"
        assert said in capsys.readouterr().err
        assert "from_prior" not in content["models"]["m05"] and content["cost"] == 20


@pytest.mark.long
def test_logs_of_another_model_under_the_same_name_are_named_in_the_result(
    bench, server, had, capsys
):
    args = {"model": "m09", "base_url": server.url, "tokenizer_backend": "none"}
    renamed = {"m05": {"model_args": args}}
    settings = {"budget": {"items": 20}, "prior": "first.run", **WHOLE}
    content = bench.ranked(server, PAIR, name="second", of=renamed, **settings)
    said = "prior: m05: the logs are of model=m05, asked is model=m09"
    assert [text for text in content["warnings"] if text.startswith("prior:")] == [said]
    assert capsys.readouterr().err.count(said) == 1
    assert content["models"]["m05"]["from_prior"] > 0


def test_a_stored_model_has_each_answer_or_names_the_document():
    first, second = Item(("t", 1)), Item(("t", 2))
    model = StoredModel(ModelSpec("old", "dummy"), Spec(), {}, print)
    model.prior_answers = {first: None}
    with pytest.raises(MetricError, match="the logs of old have no answer to document 2"):
        model.ask([first, second])


def test_what_a_template_wrote_is_another_prompt_only_once_the_model_is_open():
    """Before that nobody knows what the template of this run writes."""
    sessions = {"t": SimpleNamespace(marks={3: "abc"})}
    run = SimpleNamespace(plan=SimpleNamespace(sessions=sessions))
    for mark, differs in (("~def", False), ("def", True), ("abc", False)):
        answer = EarlierAnswer("m", 3, "0" * 64, [["a"]], "samples.jsonl", mark=mark)
        assert Run._has_another_prompt(run, Item(("t", 3)), answer, True) == differs


def test_only_answers_that_are_not_asked_anew_are_said_to_be_scored_at_no_cost():
    answers = {Item(("t", n)): SimpleNamespace(prompt_hash="a") for n in range(3)}
    for changed, said in ((0, "their documents"), (1, "documents of the others"), (3, None)):
        run = SimpleNamespace(
            spec=SimpleNamespace(models=[SimpleNamespace(name="a")], template_for=lambda _: False),
            _has_another_prompt=lambda item, *_, changed=changed: item.doc_id < changed,
        )
        words = Run._prior_in_words(run, {"a": answers})
        assert words.startswith("Earlier answers found: 3 of a.")
        assert (f"Of these {changed} of a are to another prompt" in words) == (changed > 0)
        assert ("at no cost" in words) == (said is not None) and (said is None or said in words)
