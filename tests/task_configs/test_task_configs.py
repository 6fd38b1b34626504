"""Each shipped YAML, unmodified, through stock lm_eval, `run`, `rank` and its adaptive variant."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys

import numpy as np
import pytest
import yaml
from judge_server import JudgeServer
from local_data import CONFIGS, ENCODED, LOGGED, TASKS, N, run_command

from lm_eval_ccat import ItemBank, ScoreTable, simple_evaluate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.upkeep.score_tables import scores_for

LOWER_IS_BETTER = {"fkgl"}
JUDGED = "ccat_truthfulqa_gen_judge"
SCALED = "ccat_biolaysumm_plos_scaled"  # needs the ends of the others' scores


@pytest.fixture
def run(place, model_args, monkeypatch):
    """The results of a run of some tasks; `lm_eval`'s own, or ours."""
    from lm_eval.__main__ import cli_evaluate

    def results(output, model, tasks, *flags, plain=False, **metadata):
        arguments = [*run_command(model_args(model), tasks, output), *flags]
        if plain:
            arguments += ["--metadata", json.dumps(metadata)]
            monkeypatch.setattr(sys, "argv", ["lm_eval", *arguments])
            cli_evaluate()
        else:
            assert main(arguments) == 0
        [path] = (place / output).rglob("results_*.json")
        return json.loads(path.read_text())

    return results


@pytest.fixture
def rank(place, model_args, capsys):
    """The exit code and the ranking of some models, best first by their names."""

    def ranking(name, models, **config):
        config["harness"] = {"include_path": str(CONFIGS)}
        config["models"] = [
            {"name": model, "model": "ccat-forgetful", "model_args": model_args(model),
             "price": {"item": 0.0}}
            for model in models
        ]  # fmt: skip
        (place / f"{name}.rank.yaml").write_text(yaml.safe_dump(config))
        capsys.readouterr()
        code = main(["rank", f"{name}.rank.yaml", "--run_dir", f"ranked/{name}", "--json"])
        return code, json.loads(capsys.readouterr().out)

    return ranking


def test_each_shipped_task_has_an_adaptive_variant():
    names = {
        yaml.safe_load(path.read_text().replace("!function", "")).get("task"): path
        for path in CONFIGS.rglob("ccat_*.yaml")
        if path.parent != CONFIGS
    }
    plain = [*TASKS, SCALED, "ccat_flores200_tur_eng_comet"]
    assert set(names) == {*plain, *(f"{task}_adaptive" for task in plain)}


def each_task(**values):
    """Of these tasks a test each; those that load an encoder's weights take longer."""
    return [
        pytest.param(task, value, marks=[pytest.mark.long] if task in ENCODED else [])
        for task, value in values.items()
    ]


def prompts(logs, task):
    """The prompts of one of the models."""
    path = next(logs.rglob(f"samples_{task}_2*.jsonl"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [(row["arguments"]["gen_args_0"]["arg_0"], row["doc"]) for row in rows]


ARTICLE = (
    "Summarize the following scientific article in plain language for a general audience:\n\n"
    "Article "
)
QUESTION = "You are a helpful assistant.\n\nQuestion "
BEGINNINGS = {
    "ccat_biolaysumm_plos": ARTICLE,
    "ccat_biolaysumm_plos_rouge": ARTICLE,
    "ccat_govreport": "Summarize the following government report:\n\nReport ",
    "ccat_flores200_tur_eng": "Translate the following Turkish text to English. Output only "
    "the translation, nothing else.\n\nCümle ",
    "ccat_truthfulqa_gen": QUESTION,
    "ccat_truthfulqa_gen_judge": QUESTION,
    "ccat_nemotron_pii": "Extract every piece of personally identifiable information",
}


@pytest.mark.parametrize(("task", "beginning"), each_task(**BEGINNINGS))
def test_prompts_are_those_of_the_paper(logs_of, task, beginning):
    texts = [prompt for prompt, _ in prompts(logs_of(task), task)]
    assert len(texts) == N and all(prompt.startswith(beginning) for prompt in texts)


def test_a_prompt_for_personal_data_shows_labels_and_four_examples_before_the_document(logs_of):
    for prompt, document in prompts(logs_of("ccat_nemotron_pii"), "ccat_nemotron_pii"):
        assert "vehicle_identifier" in prompt and prompt.count("\nText: ") == 5
        assert prompt.endswith(f"Text: {document['text']}")


@pytest.mark.parametrize(("task", "metric"), each_task(**TASKS))
def test_better_models_score_better_and_the_logs_are_the_harness_s_own(logs_of, task, metric):
    logs = logs_of(task)
    table = ScoreTable.read(logs, task=task, metric=metric)
    assert table.raw.shape == (len(LOGGED), N) and not np.isnan(table.raw).any()
    for file in logs.rglob("results_*.json"):
        results = json.loads(file.read_text())
        stock = results["results"][task][f"{metric},none"]
        row = table.raw[table.models.index(results["model_name"])]
        assert np.isfinite(stock)
        if task == "ccat_biolaysumm_plos":
            assert {"bertscore,none", "fkgl,none"} <= results["results"][task].keys()
        if metric != "bleu":  # that of a corpus
            assert row.mean() == pytest.approx(stock)
    means = dict(zip(table.models, table.scores.mean(axis=1)))
    if metric in LOWER_IS_BETTER:
        assert table.scale.describe() == "0 to 30, lower is better"
    else:  # a text of few words is not harder to read
        assert means["m5"] > means["m3"] > means["m1"]
    assert table.scale.high == {"fkgl": 30, "judge_score": 10, "bleu": 100}.get(metric, 1)


@pytest.mark.long
def test_plain_lm_eval_is_adaptive_by_the_task_class(banks, run):
    banks_of = {f"{task}_adaptive": str(banks / f"{task}.json") for task in TASKS}
    adaptive = {"bank": banks_of, "max_items": 5}
    results = run("plain", "m3", banks_of, plain=True, adaptive=adaptive)
    for task, metric in TASKS.items():
        key = "sentence_bleu,none" if metric == "bleu" else f"{metric},none"
        assert np.isfinite(results["results"][f"{task}_adaptive"][key])
        assert results["n-samples"][f"{task}_adaptive"] == {"original": N, "effective": 5}


@pytest.mark.long
def test_one_ranking_runs_every_task(banks, rank):
    of_tasks = {task: f"banks/{task}.json" for task in TASKS}
    budget = {"items": 3 * 8 * len(TASKS)}
    code, ranking = rank("all", ("m5", "m1", "m3"), tasks=[*TASKS], bank=of_tasks, budget=budget)
    assert code in (0, 3) and ranking["order"] == ["m5", "m3", "m1"]
    for task, metric in TASKS.items():
        block = ranking["tasks"][task]
        assert all(one["n_items"] for one in block["models"].values())
        if metric not in LOWER_IS_BETTER:  # a text of few words is not harder to read
            assert block["order"][-1] == "m1"


def test_the_judge_refuses_to_judge_itself_before_the_model_is_asked(place, monkeypatch):
    def evaluate(model):
        arguments = {"answers": "answers.json", "skill": 1.0, "model": model}
        manager = internals.task_manager([JUDGED], str(CONFIGS))
        simple_evaluate("ccat-forgetful", arguments, tasks=[JUDGED], task_manager=manager)

    with pytest.raises(UsageError, match="judge a-judge is one of the judged models"):
        evaluate("a-judge")
    monkeypatch.delenv("CCAT_JUDGE")
    with pytest.raises(UsageError, match="CCAT_JUDGE"):
        evaluate("m1")


@pytest.fixture
def judged(place, banks, monkeypatch):
    """A judge that replies as a script says judges from now on; its server."""
    with contextlib.ExitStack() as stack:

        def start(script, **settings):
            server = stack.enter_context(JudgeServer(script))
            content = {"model": "a-judge", "base_url": server.base_url, **settings}
            file = place / f"judge{id(server)}.yaml"  # each has a cache beside it
            file.write_text(yaml.safe_dump(content))
            monkeypatch.setenv("CCAT_JUDGE", str(file))
            return server

        yield start


@pytest.mark.long
def test_an_answer_without_a_rating_is_left_out(banks, judged, run, rank):
    def rate(messages, n):
        text = messages[0]["content"]
        return "No idea." if "Question 03" in text else f"Rating: [[{4 + len(text) % 3}]]"

    judged(rate, attempts=2)
    flags = ["--adaptive", "--bank", str(banks / f"{JUDGED}.json"), "--max_items", str(N)]
    score = run("unsure", "m2", [JUDGED], *flags)["results"][JUDGED]["judge_score,none"]
    of = {"task": JUDGED, "bank": f"banks/{JUDGED}.json", "budget": {"items": 2 * N}}
    code, ranking = rank("unsure", ("m5", "m1"), **of)
    assert 4 <= score <= 6 and code in (0, 3, 4) and set(ranking["order"]) == {"m1", "m5"}
    failed = [block["failed"] for block in ranking["models"].values()]
    assert any(failed) and all(f["doc_id"] == 3 for block in failed for f in block)


@pytest.mark.long
def test_what_the_judge_costs_counts_in_the_budget(judged, rank):
    price = {"input": 100.0, "output": 1000.0}  # 0.02 dollars a rating
    server = judged(lambda messages, n: f"Rating: [[{3 + n % 5}]]", price=price)
    of = {"task": JUDGED, "bank": f"banks/{JUDGED}.json", "budget": {"usd": 1.0}}
    _, content = rank("dear", ("m5", "m1"), **of)
    spent = sum(block["cost"] for block in content["models"].values())
    assert spent == pytest.approx(0.02 * len(server.requests)) and len(server.requests) >= 20


@pytest.mark.long
def test_scores_scaled_by_item_calibrate_and_run(
    place, logs_of, model_args, run, monkeypatch, capsys
):
    expected, logs = {}, logs_of("ccat_biolaysumm_plos")
    for metric in ("rougeL", "fkgl"):
        source = ["calibrate", str(logs), "--task", "ccat_biolaysumm_plos", "--metric", metric]
        options = ["--method", "paper", "--scale_items", "-o", f"ends/{metric}.json"]
        assert main([*source, *options]) == 0
        expected[metric] = scores_for(ItemBank.load(f"ends/{metric}.json"), logs)
    shutil.copy("ends/rougeL.json", "s.json")
    monkeypatch.setenv("CCAT_ITEM_SCALING", "ends")
    results = run("scaled", "m3", [SCALED])["results"][SCALED]
    for metric, table in expected.items():
        row = table.raw[table.row_model.index("m3")]
        assert results[f"{metric}_item_scaled,none"] == pytest.approx(row.mean())
    assert "bertscore_item_scaled,none" not in results  # no ends, so its model was not needed

    flags = ["--adaptive", "--bank", "s.json", "--max_items", str(N)]
    results = run("scaled_run", "m5", [SCALED], *flags)["results"][SCALED]
    table = expected["rougeL"]
    mean = table.raw[table.row_model.index("m5")].mean()
    assert results["rougeL_item_scaled,none"] == pytest.approx(mean, abs=1e-6)

    monkeypatch.delenv("CCAT_ITEM_SCALING")
    assert main(run_command(model_args("m2"), [SCALED], "unscaled")) == 2
    assert "set CCAT_ITEM_SCALING" in capsys.readouterr().err
