"""`verify` compares the logs of a run's models with its journal."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from worlds.bench import TASK

from lm_eval_ccat.live import logs_of_run
from lm_eval_ccat.live.stored import rankings_in
from lm_eval_ccat.scores.reading import Logged


def test_an_outcome_has_the_scores_that_go_by_its_filter_where_another_goes_by_the_metric_alone():
    answers = {
        ("t", ""): {0: (None,), 1: (None,)},
        ("t", "acc"): {0: (1.0,)},
        ("t", "acc,flex"): {0: (0.0,)},
    }
    scores_of = partial(logs_of_run._scores_by_document, answers)
    assert scores_of(Logged("t", "acc", "flex")) == {0: [0.0], 1: []}
    assert scores_of(Logged("t", "acc", "strict")) == {0: [1.0], 1: []}
    assert scores_of(Logged("other", "acc", "flex")) == {}


def changed(row):
    row["share"] = 1.0 if row["share"] < 1.0 else 0.0
    return [row]


@pytest.mark.long
@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (changed, "m11: the samples of loopback_task/share give document {doc}"),
        (lambda row: [], "m11: the samples of loopback_task/share lack document {doc}, which"),
        (
            lambda row: [{**row, "resps": [["12"]], "filtered_resps": ["12"]}],
            "m11: the samples of loopback_task have another answer to document {doc} than the",
        ),
        (
            lambda row: [row, {**row, "doc_id": 119}],
            "m11: the samples of loopback_task/share have document 119, which the journal has not",
        ),
    ],
)
def test_samples_that_are_not_the_journal_s_are_found(bench, server, ccat, edit, words):
    bench.ranked(server, ["m01", "m11"], max_items=30)
    [file] = (bench.run() / "m11").glob("samples_*")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    ccat("verify", bench.run())
    assert all(row["doc_id"] != 119 for row in rows)
    edited = [*edit(rows[0]), *rows[1:]]
    file.write_text("".join(json.dumps(row) + "\n" for row in edited))
    assert words.format(doc=rows[0]["doc_id"]) in ccat("verify", bench.run(), code=1).out


@pytest.mark.long
def test_a_results_file_of_another_estimate_is_found(bench, server, ccat):
    bench.ranked(server, ["m01", "m11"], max_items=30)
    [file] = (bench.run() / "m01").glob("results_*")
    content = json.loads(file.read_text())
    content["adaptive"]["loopback_task"]["estimate"] = 0.99
    file.write_text(json.dumps(content))
    said = ccat("verify", bench.run(), code=1).out
    assert f"{file.name} of m01: estimate 0.99, the run's 0." in said
    # A result without the model has no estimate of it, which is not the worst one.
    result = json.loads((bench.run() / "result.json").read_text())
    del result["models"]["m01"]
    rankings = rankings_in(bench.run() / "result.json", result)
    [said] = logs_of_run._other_estimates(file.parent, "m01", rankings, 1e-9)
    assert said == f"{file.name} of m01: estimate 0.99, the run's none"


@pytest.mark.long
def test_full_results_of_another_benchmark_are_refused_by_name(bench, server, ccat, tmp_path):
    bench.ranked(server, ["m01", "m11"], bank="", max_items=30)
    full = bench.adaptive(server, "m11", "--output_path", tmp_path / "logs", "--log_samples")
    full.remove("--adaptive")
    ccat(*full)
    [samples] = (tmp_path / "logs").rglob("samples_*")
    [results] = (tmp_path / "logs").rglob("results_*")
    texts = samples.read_text(), results.read_text()

    def of_a_row(**values):
        def change(row, content):
            row.update(values)

        return change

    def of_the_prompt(row, content):
        row["arguments"]["gen_args_0"]["arg_0"] = "Say 1"
        row.pop("prompt_hash", None)

    def of_the_scoring(row, content):
        content["configs"][TASK]["process_results"] = "def f(): 1"

    def of_the_version(row, content):
        content["versions"] = {TASK: 2.0}

    cases = (
        (lambda row, content: None, ""),
        (of_the_prompt, r"the prompt of document \d+ is \w+ in the run and \w+ in the logs"),
        (
            of_a_row(target_hash="f" * 64),
            r"the target of document \d+ is \w+ in the run and f{8} in",
        ),
        (
            of_a_row(doc_hash="f" * 64),
            "document 0 has another text than in the run; 120 documents",
        ),
        (of_the_scoring, "process_results differs between the run and the logs"),
        (of_the_version, "task_version is 1.0 in the run and 2.0 in the logs"),
    )
    for change, words in cases:
        rows = [json.loads(line) for line in texts[0].splitlines()]
        content = json.loads(texts[1])
        for row in rows:
            change(row, content)
        samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
        results.write_text(json.dumps(content))
        said = ccat("verify", bench.run(), "--full", tmp_path / "logs", code=2 if words else 0).err
        if words:
            assert re.search(f"full results of m11: {words}", said), said
        else:
            assert "full results of" not in said
        refused = "Give full results that were asked and scored as the run was" in said
        assert refused == (bool(words) and "another text" not in words)


@pytest.mark.long
def test_full_results_beside_a_result_that_contradicts_itself_tell_that(
    bench, server, ccat, tmp_path
):
    content = bench.ranked(server, ["m01", "m11"], max_items=30)
    (tmp_path / "alone").mkdir()
    content["models"]["m11"]["estimate"] = 0.01
    (tmp_path / "alone" / "result.json").write_text(json.dumps(content))
    bench.table.write(tmp_path / "full.parquet")
    said = ccat("verify", tmp_path / "alone", "--full", tmp_path / "full.parquet").err
    assert "m11: estimate 0.01 outside" in said and said.count("prompts unknown") == 1
    alone = tmp_path / "alone" / "result.json"
    said = ccat("compare", alone, "--models", "m01,m11", code=(1, 2)).err
    assert "contradicts itself, and no journal tells what is true: m11 over m01" in said


@pytest.mark.long
def test_a_page_of_another_result_and_a_changed_configuration_are_told(bench, server, ccat):
    bench.ranked(server, ["m01", "m11"], bank=None, budget={"items": 40}, stop="limits")
    run = bench.run()
    assert "report.html" not in ccat("verify", run).out
    ccat("report", run)
    assert "report.html" not in ccat("verify", run).out
    page = (run / "report.html").read_text()
    ccat("rank", run.with_suffix(".yaml"), "--resume", "--budget_items", 60, code=(0, 3))
    (run / "report.html").write_text(page)
    assert "report.html shows another result: `lm-eval-ccat report" in ccat("verify", run).out
    ccat("report", run)
    assert "report.html" not in ccat("verify", run).out
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "confidence": 0.99}))
    assert "config.json: confidence is 0.99, in the journal 0.95" in ccat("verify", run, code=1).out


def test_one_text_of_several_that_the_journal_has_not_is_found(monkeypatch):
    for logged, found in (("own", False), ("other", True)):
        row = {"doc_id": 3, "resps": [["own", logged]]}
        monkeypatch.setattr(logs_of_run, "sound_rows", lambda _, row=row: [row])
        runs = [SimpleNamespace(task="t", date="", samples=None)]
        hashes_of = {("m", "t", 3): (hash("own"),)}
        texts = list(logs_of_run._other_texts(Path("m"), "m", runs, hashes_of))
        assert (
            texts
            == ["m: the samples of t have another answer to document 3 than the journal"][
                : int(found)
            ]
        )
