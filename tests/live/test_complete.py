"""`complete`: an adaptive run becomes a full one, and says what stock lm_eval says."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from lm_eval.tasks import TaskManager
from worlds.bench import TASK
from worlds.server import trouble

from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.live import sender
from lm_eval_ccat.live.adaptive import simple_evaluate
from lm_eval_ccat.live.complete import _complete
from lm_eval_ccat.live.result import state
from lm_eval_ccat.ranker.verdicts import Verdicts
from lm_eval_ccat.runs.book import Book


@pytest.mark.long
def test_the_same_answers_give_what_stock_lm_eval_gives(bench, server, tmp_path, ccat):
    models = ["m05", "m07"]
    entry, slots = {"price": {"input": 1.0, "output": 4.0}}, {"num_concurrent": 2}
    bench.ranked(server, models, budget={"items": 40}, model_args=slots, entry=entry)
    run = bench.run()
    ranking = (run / "result.json").read_text()
    time.sleep(1.5)
    completed = ccat("complete", run, "--name", "m05")
    told = completed.out
    assert "may take minutes" not in completed.err  # the metric is a mean
    # Every document was asked once, of the one model that was named.
    assert server.requests("m05") == bench.n_docs and max(server.asked.values()) == 1
    assert server.requests("m07") < bench.n_docs

    folder = run / "full" / "m05"
    [file] = folder.glob("results_*.json")
    ours = json.loads(file.read_text())
    stock = simple_evaluate(
        "local-completions",
        {"model": "m05", "base_url": server.url, "tokenizer_backend": "none"},
        [TASK],
        task_manager=TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False),
    )
    assert stock is not None
    assert ours["results"][TASK] == stock["results"][TASK]
    assert ours["n-samples"] == stock["n-samples"]
    assert f"share,none = {stock['results'][TASK]['share,none']:.4g}" in told
    [rows] = folder.glob("samples_*.jsonl")
    scores = {r["doc_id"]: r["share"] for r in map(json.loads, rows.read_text().splitlines())}
    assert scores == {row["doc_id"]: row["share"] for row in stock["samples"][TASK]}

    # Again asks nothing, and the ranking is what it was.
    before = sum(server.asked.values())
    again = json.loads(ccat("complete", run, "--name", "m05", "--json").out)["m05"][TASK]
    assert again["share,none"] == pytest.approx(stock["results"][TASK]["share,none"])
    assert sum(server.asked.values()) == before
    assert (run / "result.json").read_text() == ranking
    # Neither the hours before it was completed nor those of completing it are the ranking's.
    seconds = json.loads(ranking)["seconds"]
    assert state(run).content["seconds"] == pytest.approx(seconds, abs=0.5)
    # What the full run cost is no part of the ranking's result, which stands.
    ccat("verify", run)


@pytest.mark.long
def test_many_models_take_as_long_as_each_of_them_by_itself(bench, server, ccat, monkeypatch):
    """What serves a model is made once for it, and `verify` computes the ranking once."""
    models = ["m01", "m05", "m07", "m11"]
    bench.ranked(server, models, bank=None, max_items=10, stop="limits", code=(0, 3))
    made, channel, replay = [], sender.Channel, Book.replay
    monkeypatch.setattr(
        sender, "Channel", lambda model, *a: made.append(model) or channel(model, *a)
    )
    monkeypatch.setattr(Book, "replay", lambda *a: made.append("ranking") or replay(*a))
    ccat("verify", bench.run())
    assert made == ["ranking"]
    # Files of full runs state no chances of the ranking, which take long to draw.
    with monkeypatch.context() as patch:
        patch.setattr(Verdicts, "p_top", lambda *_: made.append("chances"))
        ccat("complete", bench.run())
    assert made[1] == "ranking" and [model.name for model in made[2:]] == models
    del made[:]
    ccat("verify", bench.run())
    assert made == ["ranking"]


@pytest.mark.long
def test_a_folder_that_only_holds_a_run_names_it(bench, server, tmp_path, ccat):
    bench.ranked(server, ["m05", "m07"], bank=None, max_items=10)
    outer = tmp_path / "outer"
    shutil.copytree(bench.run(), outer / "one.run")
    for model in ("m05", "m07"):  # with the samples of its models, and without
        error = ccat("complete", outer, code=2).err
        assert f"holds one.run: lm-eval-ccat complete {outer / 'one.run'}" in error
        shutil.rmtree(outer / "one.run" / model)


@pytest.mark.long
def test_what_is_in_flight_when_a_document_is_refused_is_kept(bench, server, ccat):
    slots = {"num_concurrent": 8}
    bench.ranked(server, ["m05", "m07"], bank=None, max_items=10, model_args=slots)
    server.latency = 0.3
    server.mood = trouble("status", 400, when=lambda *_: sum(server.answered.values()) > 40)
    command = "complete", bench.run(), "--name", "m07"
    error = ccat(*command, code=1).err
    assert "which a full run needs: HTTP 400" in error and "the same command goes on" in error
    server.mood = None
    ccat(*command)
    assert max(server.answered.values()) == 1


@pytest.mark.long
def test_attempts_lost_while_a_run_is_completed_are_paid_but_are_none_of_the_ranking(
    bench, server, ccat
):
    bench.ranked(server, ["m05", "m07"], budget={"items": 30},
                 entry={"price": {"input": 1.0, "output": 4.0}})  # fmt: skip
    ranking = state(bench.run()).content
    server.mood = trouble("drop", of="m07", when=lambda number, before: before == number % 9 == 0)
    ccat("complete", bench.run(), "--name", "m07")
    content = state(bench.run()).content
    assert content["money"]["unknown"] > 0.0 == ranking["money"]["unknown"]
    assert "attempts_lost" not in content["models"]["m07"]
    assert content["asked"] == ranking["asked"] == 30
    assert content["seconds"] == ranking["seconds"]
    ccat("verify", bench.run())


@pytest.mark.long
def test_credentials_that_the_run_does_not_keep_are_asked_for(bench, server, ccat):
    config = bench.config(server.url, ["m05", "m07"], budget={"items": 40},
                          model_args={"auth_token": "sk-s3cret/0123+y"})  # fmt: skip
    ccat("rank", config)
    run = bench.run()
    assert "give the configuration: --config FILE" in ccat("complete", run, code=2).err
    err = ccat("complete", run, "--config", config, "--name", "nobody", code=2).err
    assert "no model named 'nobody'" in err


@pytest.mark.long
def test_other_settings_are_refused_with_a_remedy_that_complete_has(bench, server, ccat):
    bench.ranked(server, ["m05", "m07"], budget={"items": 30})
    file = bench.run().with_suffix(".yaml")
    changed = yaml.safe_load(file.read_text())
    changed.setdefault("harness", {})["gen_kwargs"] = {"max_gen_toks": 7}
    file.write_text(yaml.safe_dump(changed))
    err = ccat("complete", bench.run(), "--config", file, code=1).err
    assert "7" in err and "Use those" in err and "`complete` asks as the run did" in err
    assert "--prior" not in err and "--resume" not in err


@pytest.mark.long
def test_a_model_that_was_set_aside_is_not_completed(bench, server, ccat):
    server.mood = trouble("status", 401, of="m07")
    bench.ranked(server, ["m05", "m07"], (4,), budget={"items": 30})
    err = ccat("complete", bench.run(), "--name", "m07", code=1).err
    assert "m07 was set aside" in err


@pytest.mark.long
def test_a_ranking_that_goes_on_is_not_completed(bench, server, ccat):
    bench.ranked(server, ["m05", "m07"], budget={"items": 30})
    run = bench.run()
    journal, before = run / "journal.jsonl", sum(server.asked.values())
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    (run / "result.json").unlink()
    err = ccat("complete", run, "--name", "m05", code=1).err
    assert "is not finished; finish it with `rank --resume` first" in err
    assert sum(server.asked.values()) == before and not (run / "full").exists()
    ccat("rank", run.with_suffix(".yaml"), "--resume", code=(0, 3))
    ccat("complete", run, "--name", "m05")
    assert (run / "full" / "m05").is_dir()


@pytest.mark.long
def test_what_run_adaptive_left_is_topped_up_too(bench, server, tmp_path, ccat):
    logs = tmp_path / "logs"
    about = "--max_items", 20, "--output_path", logs, "--log_samples"
    ccat(*bench.adaptive(server, "m05", *about))
    assert sum(server.asked.values()) == 20
    command = "complete", logs, "--include_path", tmp_path / "tasks"
    [scores] = json.loads(ccat(*command, "--json").out).values()
    assert server.requests("m05") == bench.n_docs and max(server.asked.values()) == 1
    mean = bench.truth["m05"]
    assert scores[TASK]["share,none"] == pytest.approx(mean)
    [file] = (tmp_path / "logs.run" / "full").rglob("results_*.json")
    ours = json.loads(file.read_text())
    assert ours["results"][TASK]["share,none"] == pytest.approx(mean)
    assert ours["n-samples"][TASK] == {"original": bench.n_docs, "effective": bench.n_docs}
    # Again asks nothing; another prompt is noticed before anything is asked.
    ccat(*command)
    [samples] = logs.rglob("samples_*.jsonl")
    samples.write_text(samples.read_text().replace('"arg_0": "', '"arg_0": "Please: '))
    (tmp_path / "logs.run").rename(tmp_path / "done")
    err = ccat(*command, code=2).err
    assert "fits a prompt of this run; give its configuration: --config" in err
    assert sum(server.asked.values()) == bench.n_docs


@pytest.mark.parametrize("answered", [[], ["first"]])
def test_stored_answers_that_fit_no_prompt_are_refused_before_a_run_has_answers(answered):
    """A run that has some goes on, as its first documents fitted."""
    asked = []
    run = SimpleNamespace(
        plan=SimpleNamespace(documents=lambda: ["first", "second"]),
        book=SimpleNamespace(
            tally=SimpleNamespace(set_aside={}),
            answers=SimpleNamespace(of=lambda name: answered),
            unrated={},
        ),
        spec=SimpleNamespace(prior={"m": ["logs"]}),
        observer=SimpleNamespace(note=str),
        ask_beyond=lambda model, items: asked.extend(items),
    )
    model = SimpleNamespace(
        name="m", open=lambda: None, close=lambda: None, has_prior_answer=lambda item: False
    )
    model_runs = SimpleNamespace(of=lambda model: {})
    if answered:
        assert _complete(run, model_runs, model, Path()) == {} and asked == ["second"]
    else:
        with pytest.raises(UsageError, match="none of the stored answers of m fits a prompt"):
            _complete(run, model_runs, model, Path())
