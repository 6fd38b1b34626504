"""Real input end to end: the harness's own task files, real documents, published answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from worlds import mmlu_pro
from worlds.server import CompletionsServer

from lm_eval_ccat import ItemBank
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.harness import open_session
from lm_eval_ccat.harness.internals import PlaceholderLM
from lm_eval_ccat.live import ranking_run

CATEGORY = "history"
TASK = mmlu_pro.task_of(CATEGORY)
METRIC = ["--metric", "exact_match"]


@pytest.fixture(scope="module")
def data(shared: Path) -> Path:
    return shared / "data"


@pytest.fixture(scope="module")
def world(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder that holds the data set under its name."""
    folder = tmp_path_factory.mktemp("mmlu_pro")
    mmlu_pro.write_data(folder, data, (CATEGORY,))
    return folder


@pytest.fixture(autouse=True)
def here(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[CompletionsServer]:
    outputs = {model: mmlu_pro.Answers(data, model) for model in mmlu_pro.MODELS}
    with CompletionsServer(outputs) as running:
        yield running


@pytest.fixture(scope="module")
def truth(data: Path) -> dict[str, float]:
    """The published score of every model on the category."""
    published = mmlu_pro.scores(data)
    asked = [row["question_id"] for row in mmlu_pro.documents(data) if row["category"] == CATEGORY]
    return {m: sum(published[m, q] for q in asked) / len(asked) for m in mmlu_pro.MODELS}


def flags(server: CompletionsServer, *models: str) -> list[str]:
    words = []
    for model in models:
        args = f"model={model},base_url={server.url},tokenizer_backend=none"
        words += ["--model", "local-completions", "--model_args", args]
    return words


@pytest.mark.long
def test_the_harness_reads_the_published_answers_as_their_publishers_did(data):
    """It gives their letter wherever it finds one; where not, some had a letter by other rules.

    The publishers' later script took the last letter that stands alone in a text, else always G.
    These letters, right or wrong, and questions of which the answers hold two versions are all
    that the harness's scores differ by.
    """
    session = open_session(TASK, PlaceholderLM())
    [pipeline] = session.task._filters
    documents, published = mmlu_pro.documents(data), mmlu_pro.scores(data)
    letters, two_versions = mmlu_pro.letters(data), {143, 3983, 6392}
    [until] = session.task.config.generation_kwargs["until"]
    surplus, read = {}, 0
    for model in mmlu_pro.MODELS:
        texts = mmlu_pro.texts(data)[model]
        answers = [[texts[row["question_id"]].split(until)[0]] for row in documents]
        for step in pipeline.filters:
            answers = list(step().apply(answers, documents))
        surplus[model] = 0.0
        for row, answer in zip(documents, answers, strict=True):
            question = row["question_id"]
            score = session.task.process_results(row, [answer])["exact_match"]
            gap = published[model, question] - score
            surplus[model] += gap
            letter = letters[model, question]
            if answer != "[invalid]":
                read += 1
                assert answer == letter and (gap == 0.0 or question in two_versions)
            elif letter is not None and until not in texts[question]:
                alone = re.findall(r"\b[A-J]\b", texts[question])
                assert letter == (alone[-1] if alone else "G") and gap == (letter == row["answer"])
            else:
                assert gap == 0.0
    assert read == 76_204
    # Of Meta-Llama-3_1-8B, 51 times G, 13 last letters and one question of two versions.
    assert list(surplus.values()) == [31, 0, 45, 0, 65, 0, 0]
    beyond = [model for model, right in surplus.items() if right / len(documents) >= 0.005]
    assert beyond == ["Meta-Llama-3_1-8B"]


@pytest.mark.long
def test_a_public_bank_fits_the_documents_and_ranks_models(server, truth, ccat, tmp_path):
    models = ["Qwen1.5-72B-Chat", "Mistral-7B-v0.1", "Phi-3-mini-4k-instruct"]
    words = ["rank", "--task", TASK, "--bank", "public", *flags(server, *models)]
    said = ccat(*words, "--max_items", 120, "--run_dir", tmp_path / "run", code=(0, 3))
    content = json.loads((tmp_path / "run" / "result.json").read_text())
    assert said.err.count("published elsewhere") == 1 and "prompts unknown" not in said.err
    decided = [pair for pair in content["pairwise"] if pair["decision"] == "decided"]
    assert decided
    assert all((truth[pair["a"]] > truth[pair["b"]]) == (pair["p"] > 0.5) for pair in decided)
    for model, row in content["models"].items():
        low, high = row["interval"]
        assert low <= truth[model] <= high


@pytest.mark.long
def test_a_public_bank_is_offered_with_what_it_saves(few_plays, server, ccat, tmp_path):
    """By one line where a ranking starts without a bank, and in a plan."""
    models = ["Qwen1.5-72B-Chat", "Mistral-7B-v0.1"]
    words = ["rank", "--task", TASK, *flags(server, *models), "--max_items", 10]
    said = ccat(*words, "--run_dir", tmp_path / "run", code=(0, 3)).err
    [offer] = [line for line in said.splitlines() if "public bank fits" in line]
    assert "--bank mmlu_pro" in offer
    saved = list(map(int, re.findall(r"after (\d+) items.*?not (\d+)", offer)[0]))
    assert saved[0] < saved[1] <= 381
    picture = tmp_path / "plan.svg"
    plan = ["plan", "--task", TASK, "--models", 4, "--gap", 0.1, "-o", picture]
    out = ccat(*plan, "--json", tmp_path / "plan.json").out
    content = json.loads((tmp_path / "plan.json").read_text())
    [(gap, takes)] = content["by_gap"].items()
    assert gap == "0.1" and list(takes) == ["bank mmlu_pro", "random", "full"]
    full = takes["full"]
    assert full["items_per_model"] == 381 and full["answers"] == 4 * 381 and full["usd"] is None
    # A prompt of five worked examples has hundreds of tokens.
    assert full["input_tokens"] > 300 * full["answers"]
    assert all(10 <= way["items_per_model"] < 381 for way in list(takes.values())[:2])
    assert list(content["smallest_gap_by_items"])[-1] == "381"
    assert picture.read_text().count("<path") == 2
    *_, written, step = out.splitlines()
    assert "bank mmlu_pro" in out and written == str(picture)
    assert step.startswith(f"Next: lm-eval-ccat rank --task {TASK}, with --model and")


@pytest.mark.long
def test_a_plan_by_banks_alone_says_what_it_does_and_what_to_type_next(
    few_plays, ccat, monkeypatch
):
    two = "mmlu_pro_history,mmlu_pro_law"
    done = ccat("plan", "--bank", "mmlu_pro", "--task", two)
    assert "Rankings of models like the bank's are played" in done.err
    assert f"Next: lm-eval-ccat rank --task {two} --bank mmlu_pro, with --model" in done.out
    monkeypatch.setattr(ranking_run, "tasks_of_bank", lambda *_: two.split(","))
    *_, step = ccat("plan", "--bank", "mmlu_pro").out.splitlines()
    assert step.endswith(
        "plan --task mmlu_pro_history --bank mmlu_pro, or another of these 2 tasks"
    )


@pytest.mark.long
def test_one_model_is_estimated_and_two_are_compared(server, truth, ccat, tmp_path):
    model = "mathstral-7B"
    words = ["run", *flags(server, model), "--tasks", TASK, "--adaptive", "--bank", "mmlu_pro"]
    ccat(*words, "--max_items", 60, "--output_path", tmp_path / "out", "--log_samples")
    [results] = (tmp_path / "out").rglob("results_*.json")
    content = json.loads(results.read_text())
    block = content["results"][TASK]
    error = block["exact_match_stderr,custom-extract"]
    assert abs(block["exact_match,custom-extract"] - truth[model]) < 4.0 * error
    assert content["n-samples"][TASK] == {"original": 381, "effective": 60}
    better, worse = "Qwen1.5-72B-Chat", "Mistral-7B-v0.1"
    for name in (better, worse):
        words = ["run", *flags(server, name), "--tasks", TASK, "--limit", 120]
        ccat(*words, "--log_samples", "--output_path", tmp_path / name)
    ccat("compare", tmp_path / worse, tmp_path / better, "--task", TASK, *METRIC)
    ccat("compare", tmp_path / better, tmp_path / worse, "--task", TASK, *METRIC, code=5)


@pytest.mark.long
def test_the_tutorial_ranks_real_models_as_it_says(few_plays, server, truth, ccat, world):
    page = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
    step = page.read_text(encoding="utf-8").partition("## 6. ")[2].partition("\n## ")[0]
    config, commands = re.findall(r"```\w+[^\n]*\n(.*?)```", step, re.S)
    address = "http://localhost:8000/v1/completions"
    assert address in config
    (world / "history.yaml").write_text(config.replace(address, server.url))
    for command in commands.splitlines():
        program, *words = command.split()
        assert program == "lm-eval-ccat"
        ccat(*words, code=(0, 3))
    content = json.loads((world / "history.run" / "result.json").read_text())
    published = {"large": truth["Qwen1.5-72B-Chat"], "small": truth["Mistral-7B-v0.1"]}
    for pair in content["pairwise"]:
        assert pair["decision"] == "decided"
        assert (published[pair["a"]] > published[pair["b"]]) == (pair["p"] > 0.5)
    for model, row in content["models"].items():
        low, high = row["interval"]
        assert low <= published[model] <= high


@pytest.mark.long
def test_a_bank_of_published_scores_names_documents_as_the_harness_does(data, ccat, tmp_path):
    session = open_session(TASK, PlaceholderLM())
    documents = [row for row in mmlu_pro.documents(data) if row["category"] == CATEGORY]
    hashes = dict(zip(session.doc_ids, session.doc_hashes))
    published = mmlu_pro.scores(data)
    models = sorted({name for name, _ in published})
    rows = [
        {"model": model, "task": TASK, "doc_id": doc_id, "doc_hash": hashes[doc_id],
         "metric": "exact_match", "score": score}
        for doc_id, document in enumerate(documents)
        for model in models
        if (score := published.get((model, document["question_id"]))) is not None
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "published.parquet")
    ccat("calibrate", tmp_path / "published.parquet", *METRIC, "-o", tmp_path / "h.bank.json")
    bank = ItemBank.load(tmp_path / "h.bank.json")
    assert bank.doc_hashes == session.doc_hashes
    ccat("bank", "check", tmp_path / "h.bank.json", "--documents_of", TASK)
    public = SuiteBank.load("public", [TASK])[TASK]["exact_match"]
    compared = public.compare(session.doc_ids, session.doc_hashes)
    assert len(compared.same) == public.n_items and not compared.changed
