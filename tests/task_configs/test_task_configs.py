"""Each shipped YAML, unmodified, through stock lm_eval, `run`, `rank` and its adaptive variant."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pytest
import yaml
from local_data import CONFIGS, LOGGED, TASKS, N

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.upkeep.tables import scores_for

LOWER_IS_BETTER = {"fkgl"}
SCALED = "ccat_biolaysumm_plos_scaled"  # needs the ends of the others' scores


def _command(model_args, tasks, output):
    """A command line of the harness's `run`."""
    return [
        "run",
        *("--model", "ccat-forgetful"),
        *("--model_args", ",".join(f"{key}={value}" for key, value in model_args.items())),
        *("--tasks", ",".join(tasks)),
        *("--include_path", str(CONFIGS)),
        *("--output_path", output),
        "--log_samples",
    ]


def _results(folder):
    [path] = folder.rglob("results_*.json")
    return json.loads(path.read_text())


def test_each_shipped_task_has_an_adaptive_variant():
    names = {
        yaml.safe_load(path.read_text().replace("!function", "")).get("task"): path
        for path in CONFIGS.rglob("ccat_*.yaml")
        if path.parent != CONFIGS
    }
    plain = [*TASKS, SCALED, "ccat_flores200_tur_eng_comet"]
    assert set(names) == {*plain, *(f"{task}_adaptive" for task in plain)}


def test_prompts_are_those_of_the_paper(place, logs):
    beginnings = {
        "ccat_biolaysumm_plos": "Summarize the following scientific article in plain language for "
        "a general audience:\n\nArticle ",
        "ccat_govreport": "Summarize the following government report:\n\nReport ",
        "ccat_flores200_tur_eng": "Translate the following Turkish text to English. Output only "
        "the translation, nothing else.\n\nCümle ",
        "ccat_truthfulqa_gen": "You are a helpful assistant.\n\nQuestion ",
        "ccat_nemotron_pii": "Extract every piece of personally identifiable information",
    }
    for task, beginning in beginnings.items():
        path = next((place / "logs").rglob(f"samples_{task}_2*.jsonl"))
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert len(rows) == N
        for row in rows:
            assert row["arguments"]["gen_args_0"]["arg_0"].startswith(beginning)
    # The labels and four worked examples, and the last line is the document itself.
    prompt = row["arguments"]["gen_args_0"]["arg_0"]
    assert "vehicle_identifier" in prompt and prompt.count("\nText: ") == 5
    assert prompt.endswith(f"Text: {row['doc']['text']}")


@pytest.mark.parametrize(("task", "metric"), TASKS.items())
def test_better_models_score_better(logs, task, metric):
    table = ScoreTable.read(logs, task=task, metric=metric)
    assert table.raw.shape == (len(LOGGED), N)
    means = dict(zip(table.models, np.nanmean(table.scores, axis=1)))
    if metric in LOWER_IS_BETTER:
        assert not table.scale.higher_is_better
        return  # a text of few words is not harder to read
    assert means["m5"] > means["m3"] > means["m1"]
    assert not np.isnan(table.raw).any()


def test_stock_lm_eval_runs_every_task(logs):
    """The logs are those of the harness's own evaluation."""
    [results] = [
        found["results"]
        for found in (json.loads(file.read_text()) for file in logs.rglob("results_*.json"))
        if found["model_name"] == "m3"
    ]
    row = ScoreTable.read(logs, task="ccat_govreport", metric="rougeL").select(["m3"]).raw
    assert results["ccat_govreport"]["rougeL,none"] == pytest.approx(row.mean())
    for task, metric in TASKS.items():
        assert np.isfinite(results[task][f"{metric},none"])
    plos = results["ccat_biolaysumm_plos"]
    assert {"rougeL,none", "bertscore,none", "fkgl,none"} <= plos.keys()


def test_plain_lm_eval_is_adaptive_by_the_task_class(place, banks, model_args, monkeypatch):
    from lm_eval.__main__ import cli_evaluate

    metadata = {
        "adaptive": {
            "bank": {f"{task}_adaptive": str(banks / f"{task}.json") for task in TASKS},
            "max_items": 5,
        }
    }
    arguments = _command(model_args("m3"), [f"{task}_adaptive" for task in TASKS], "plain")
    arguments += ["--metadata", json.dumps(metadata)]
    monkeypatch.setattr(sys, "argv", ["lm_eval", *arguments])
    cli_evaluate()
    results = _results(place / "plain")
    for task, metric in TASKS.items():
        block = results["results"][f"{task}_adaptive"]
        key = f"sentence_{metric},none" if metric == "bleu" else f"{metric},none"
        assert np.isfinite(block[key])
        assert results["n-samples"][f"{task}_adaptive"] == {"original": N, "effective": 5}


def test_run_adaptive_estimates_each_task(place, logs, banks, model_args):
    some = {t: TASKS[t] for t in ("ccat_flores200_tur_eng", "ccat_truthfulqa_gen_judge")}
    arguments = _command(model_args("m5"), some, "full")
    adaptive = ["--adaptive", "--bank", str(banks), "--max_items", str(N)]
    assert main([*arguments, *adaptive]) == 0
    results = _results(place / "full")
    # With every document run, the estimate is the full score.
    for task, metric in some.items():
        table = ScoreTable.read(logs, task=task, metric=metric)
        key = f"sentence_{metric},none" if metric == "bleu" else f"{metric},none"
        expected = np.mean(table.raw[table.row_model.index("m5")])
        assert results["results"][task][key] == pytest.approx(expected, abs=1e-6)


def test_one_ranking_runs_every_task(place, banks, model_args, capsys):
    config = {
        "tasks": list(TASKS),
        "bank": {task: f"banks/{task}.json" for task in TASKS},
        "budget": {"items": 3 * 8 * len(TASKS)},
        "harness": {"include_path": str(CONFIGS)},
        "models": [
            {"name": name, "model": "ccat-forgetful", "model_args": model_args(name)}
            for name in ("m5", "m1", "m3")
        ],
    }
    (place / "all.rank.yaml").write_text(yaml.safe_dump(config))
    code = main(["rank", "all.rank.yaml", "--run_dir", "ranked/all", "--json"])
    ranking = json.loads(capsys.readouterr().out)
    assert code in (0, 3) and ranking["order"] == ["m5", "m3", "m1"]
    for task, metric in TASKS.items():
        block = ranking["tasks"][task]
        assert all(one["n_items"] for one in block["models"].values())
        if metric not in LOWER_IS_BETTER:  # a text of few words is not harder to read
            assert block["order"][-1] == "m1"


def test_a_bank_of_the_paper_metric_keeps_its_scale(banks):
    bank = ItemBank.load(banks / "ccat_biolaysumm_plos_rouge.json")
    assert bank.scale.describe() == "0 to 30, lower is better"
    assert ItemBank.load(banks / "ccat_truthfulqa_gen_judge.json").scale.high == 10


def test_the_judge_refuses_to_judge_itself_before_the_model_is_asked(place, banks, monkeypatch):
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.tasks import TaskManager

    arguments = {"answers": "answers.json", "skill": 1.0, "model": "a-judge"}
    manager = TaskManager(include_path=str(CONFIGS), include_defaults=False)
    with pytest.raises(UsageError, match="judge a-judge is one of the judged models"):
        simple_evaluate(
            "ccat-forgetful", arguments, tasks=["ccat_truthfulqa_gen_judge"], task_manager=manager
        )
    with pytest.raises(UsageError, match="CCAT_JUDGE"):
        monkeypatch.delenv("CCAT_JUDGE")
        simple_evaluate(
            "ccat-forgetful",
            {**arguments, "model": "m1"},
            tasks=["ccat_truthfulqa_gen_judge"],
            task_manager=manager,
        )


def test_check_knows_every_shipped_metric(place, capsys):
    assert main(["check", ",".join(TASKS), "--include_path", str(CONFIGS), "--json"]) == 0
    for task in json.loads(capsys.readouterr().out):
        assert task["documents"] == N
        assert all(metric["usable"] for metric in task["metrics"]), task


def test_an_answer_without_a_rating_is_left_out(place, banks, model_args, monkeypatch, capsys):
    from judge_server import JudgeServer

    def rate(messages, n):
        text = messages[0]["content"]
        return "No idea." if "Question 03" in text else f"Rating: [[{4 + len(text) % 3}]]"

    with JudgeServer(rate) as server:
        settings = {"model": "a-judge", "base_url": server.base_url, "attempts": 2}
        (place / "unsure.yaml").write_text(yaml.safe_dump(settings))
        monkeypatch.setenv("CCAT_JUDGE", str(place / "unsure.yaml"))
        task = "ccat_truthfulqa_gen_judge"
        arguments = _command(model_args("m2"), [task], "unsure")
        bank = ["--adaptive", "--bank", str(banks / f"{task}.json"), "--max_items", str(N)]
        assert main([*arguments, *bank]) == 0
        block = _results(place / "unsure")["results"][task]
        assert 4 <= block["judge_score,none"] <= 6
        config = {
            "task": task,
            "bank": f"banks/{task}.json",
            "budget": {"items": 2 * N},
            "harness": {"include_path": str(CONFIGS)},
            "models": [
                {"name": name, "model": "ccat-forgetful", "model_args": model_args(name)}
                for name in ("m5", "m1")
            ],
        }
        path = place / "unsure.rank.yaml"
        path.write_text(yaml.safe_dump(config))
        capsys.readouterr()
        code = main(["rank", str(path), "--run_dir", "ranked/unsure", "--json"])
        ranking = json.loads(capsys.readouterr().out)
        assert code in (0, 3, 4) and set(ranking["order"]) == {"m1", "m5"}
        failed = [block["failed"] for block in ranking["models"].values()]
        assert any(failed) and all(f["doc_id"] == 3 for block in failed for f in block)


def test_what_the_judge_costs_counts_in_the_budget(place, banks, model_args, monkeypatch, capsys):
    from judge_server import JudgeServer

    with JudgeServer(lambda messages, n: f"Rating: [[{3 + n % 5}]]") as server:
        settings = {"model": "a-judge", "base_url": server.base_url}
        settings["price"] = {"input": 100.0, "output": 1000.0}  # 0.02 dollars a rating
        (place / "dear.yaml").write_text(yaml.safe_dump(settings))
        monkeypatch.setenv("CCAT_JUDGE", str(place / "dear.yaml"))
        free = {"item": 0.0}
        config = {
            "task": "ccat_truthfulqa_gen_judge",
            "bank": "banks/ccat_truthfulqa_gen_judge.json",
            "budget": {"usd": 1.0},
            "harness": {"include_path": str(CONFIGS)},
            "models": [
                {"name": name, "model": "ccat-forgetful", "model_args": model_args(name),
                 "price": free}
                for name in ("m5", "m1")
            ],
        }  # fmt: skip
        path = place / "dear.rank.yaml"
        path.write_text(yaml.safe_dump(config))
        capsys.readouterr()
        main(["rank", str(path), "--run_dir", "ranked/dear", "--json"])
        content = json.loads(capsys.readouterr().out)
        spent = sum(block["cost"] for block in content["models"].values())
        assert spent == pytest.approx(0.02 * len(server.requests))
        assert len(server.requests) >= 20


def test_scores_scaled_by_item_calibrate_and_run_live(place, logs, model_args, monkeypatch, capsys):
    from lm_eval.__main__ import cli_evaluate

    expected = {}
    for metric in ("rougeL", "fkgl"):
        source = ["calibrate", str(logs), "--task", "ccat_biolaysumm_plos", "--metric", metric]
        options = ["--method", "paper", "--scale_items", "-o", f"ends/{metric}.json"]
        assert main([*source, *options]) == 0
        bank = ItemBank.load(f"ends/{metric}.json")
        expected[metric] = scores_for(bank, logs)
    shutil.copy("ends/rougeL.json", "s.json")
    monkeypatch.setenv("CCAT_ITEM_SCALING", "ends")
    assert main(_command(model_args("m3"), [SCALED], "scaled")) == 0
    results = _results(place / "scaled")["results"][SCALED]
    for metric, table in expected.items():
        row = table.raw[table.row_model.index("m3")]
        assert results[f"{metric}_item_scaled,none"] == pytest.approx(row.mean())
    assert "bertscore_item_scaled,none" not in results  # no ends, so its model was not needed

    adaptive = ["--adaptive", "--bank", "s.json", "--max_items", str(N)]
    assert main([*_command(model_args("m5"), [SCALED], "scaled_run"), *adaptive]) == 0
    table = expected["rougeL"]
    mean = table.raw[table.row_model.index("m5")].mean()
    results = _results(place / "scaled_run")["results"][SCALED]
    assert results["rougeL_item_scaled,none"] == pytest.approx(mean, abs=1e-6)

    arguments = _command(model_args("m3"), [f"{SCALED}_adaptive"], "scaled_plain")
    metadata = {"adaptive": {"bank": "s.json", "max_items": 10}}
    arguments += ["--metadata", json.dumps(metadata)]
    monkeypatch.setattr(sys, "argv", ["lm_eval", *arguments])
    cli_evaluate()
    content = _results(place / "scaled_plain")
    assert content["n-samples"][f"{SCALED}_adaptive"] == {"original": N, "effective": 10}

    config = {
        "task": SCALED,
        "bank": "s.json",
        "budget": {"items": 2 * N},
        "looks": "one",
        "harness": {"include_path": str(CONFIGS)},
        "models": [
            {"name": name, "model": "ccat-forgetful", "model_args": model_args(name)}
            for name in ("m1", "m5")
        ],
    }
    (place / "scaled.rank.yaml").write_text(yaml.safe_dump(config))
    capsys.readouterr()
    code = main(["rank", "scaled.rank.yaml", "--run_dir", "ranked/scaled", "--json"])
    assert code == 0 and json.loads(capsys.readouterr().out)["order"] == ["m5", "m1"]

    monkeypatch.delenv("CCAT_ITEM_SCALING")
    assert main(_command(model_args("m2"), [SCALED], "unscaled")) == 2
    assert "set CCAT_ITEM_SCALING" in capsys.readouterr().err
