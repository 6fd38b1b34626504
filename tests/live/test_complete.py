"""`complete`: an adaptive run becomes a full one, and says what stock lm_eval says."""

from __future__ import annotations

import json
import time

import pytest
from lm_eval.tasks import TaskManager
from worlds.bench import TASK
from worlds.server import CompletionsServer

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.live.adaptive import simple_evaluate
from lm_eval_ccat.live.result import state


def asked_of(server: CompletionsServer, model: str) -> int:
    return sum(n for (name, _), n in server.asked.items() if name == model)


def test_the_same_answers_give_what_stock_lm_eval_gives(bench, server, tmp_path, capsys):
    models = ["m05", "m07"]
    entry, slots = {"price": {"input": 1.0, "output": 4.0}}, {"num_concurrent": 2}
    bench.ranked(server, models, budget={"items": 40}, model_args=slots, entry=entry)
    run = bench.folder / "rank.run"
    ranking = (run / "result.json").read_text()
    seconds = json.loads(ranking)["seconds"]
    capsys.readouterr()
    time.sleep(1.5)
    assert main(["complete", str(run), "--name", "m05"]) == 0
    told = capsys.readouterr().out
    # Every document was asked once, of the one model that was named.
    assert asked_of(server, "m05") == bench.n_docs and max(server.asked.values()) == 1
    assert asked_of(server, "m07") < bench.n_docs

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
    assert main(["complete", str(run), "--name", "m05", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["m05"][TASK]["share,none"] == pytest.approx(
        stock["results"][TASK]["share,none"]
    )
    assert sum(server.asked.values()) == before
    assert (run / "result.json").read_text() == ranking
    # Neither the hours before it was completed nor those of completing it are the ranking's.
    assert state(run).content["seconds"] == pytest.approx(seconds, abs=0.5)
    # What the full run cost is no part of the ranking's result, which stands.
    assert main(["verify", str(run)]) == 0


def test_what_is_in_flight_when_a_document_is_refused_is_kept(bench, server, capsys):
    config = bench.config(server.url, ["m05", "m07"], bank=None, max_items=10,
                          model_args={"num_concurrent": 8})  # fmt: skip
    main(["rank", str(config)])
    run, refused = str(config.with_suffix(".run")), [True]
    server.latency = 0.3

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        return ("status", 400) if refused[0] and sum(server.answered.values()) > 40 else None

    server.mood = mood
    assert main(["complete", run, "--name", "m07"]) == 1
    assert "which a full run needs: HTTP 400" in capsys.readouterr().err
    refused[0] = False
    assert main(["complete", run, "--name", "m07"]) == 0
    assert max(server.answered.values()) == 1


def test_credentials_that_the_run_does_not_keep_are_asked_for(bench, server, capsys):
    config = bench.config(server.url, ["m05", "m07"], budget={"items": 40},
                          model_args={"auth_token": "sk-s3cret/0123+y"})  # fmt: skip
    main(["rank", str(config)])
    run = str(config.with_suffix(".run"))
    assert main(["complete", run]) == 2
    assert "give the configuration: --config FILE" in capsys.readouterr().err
    assert main(["complete", run, "--config", str(config), "--name", "nobody"]) == 2
    assert "no model named 'nobody'" in capsys.readouterr().err


def test_a_model_that_was_set_aside_is_not_completed(bench, server, capsys):
    def mood(model: str, prompt: str, before: int) -> tuple | None:
        return ("status", 401) if model == "m07" else None

    server.mood = mood
    config = bench.config(server.url, ["m05", "m07"], budget={"items": 30})
    assert main(["rank", str(config)]) == 4
    assert main(["complete", str(config.with_suffix(".run")), "--name", "m07"]) == 1
    assert "m07 was set aside" in capsys.readouterr().err


def test_what_run_adaptive_left_is_topped_up_too(bench, server, tmp_path, capsys):
    logs, tasks = tmp_path / "logs", str(tmp_path / "tasks")
    arguments = f"model=m05,base_url={server.url},tokenizer_backend=none,num_concurrent=2"
    model = ["--model", "local-completions", "--model_args", arguments]
    main(["run", *model, "--tasks", TASK, "--include_path", tasks, "--adaptive", "--max_items",
          "20", "--output_path", str(logs), "--log_samples"])  # fmt: skip
    assert sum(server.asked.values()) == 20
    capsys.readouterr()
    assert main(["complete", str(logs), "--include_path", tasks, "--json"]) == 0
    [scores] = json.loads(capsys.readouterr().out).values()
    assert asked_of(server, "m05") == bench.n_docs and max(server.asked.values()) == 1
    mean = bench.truth["m05"]
    assert scores[TASK]["share,none"] == pytest.approx(mean)
    [file] = (tmp_path / "logs.run" / "full").rglob("results_*.json")
    ours = json.loads(file.read_text())
    assert ours["results"][TASK]["share,none"] == pytest.approx(mean)
    assert ours["n-samples"][TASK] == {"original": bench.n_docs, "effective": bench.n_docs}
    # Again asks nothing; another prompt is noticed before anything is asked.
    assert main(["complete", str(logs), "--include_path", tasks]) == 0
    [samples] = logs.rglob("samples_*.jsonl")
    samples.write_text(samples.read_text().replace('"prompt_hash": "', '"prompt_hash": "0'))
    (tmp_path / "logs.run").rename(tmp_path / "done")
    capsys.readouterr()
    assert main(["complete", str(logs), "--include_path", tasks]) == 2
    assert "fits a prompt of this run; give its configuration: --config" in capsys.readouterr().err
    assert sum(server.asked.values()) == bench.n_docs
