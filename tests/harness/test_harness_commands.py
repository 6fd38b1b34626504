"""The command lines: ours without and with --adaptive; plain lm_eval with our task class."""

from __future__ import annotations

import inspect
import json
import logging
import sys
import time
from functools import partial

import lm_eval.tasks
import pytest
from lm_eval.__main__ import cli_evaluate
from local_bench import N_DOCS, Copyist

from lm_eval_ccat.cli.main import main

# What differs between two runs of the same command.
OF_THE_RUN = (
    "date",
    "total_evaluation_time_seconds",
    "git_hash",
    "upper_git_hash",
    "pretty_env_info",
    "model_name",
    "model_name_sanitized",
)


def plain_lm_eval(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["lm_eval", "run", *map(str, arguments)])
    cli_evaluate()


def outputs(folder):
    """The results and the sample rows that a run wrote."""
    [file] = folder.rglob("results_*.json")
    samples = {
        path.name.split("_2")[0]: [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.rglob("samples_*.jsonl"))
    }
    return json.loads(file.read_text()), samples


@pytest.fixture
def common(bench, monkeypatch):
    # The harness reads its own ten thousand task files at every command: seconds we can do without.
    monkeypatch.setattr(
        lm_eval.tasks, "TaskManager", partial(lm_eval.tasks.TaskManager, include_defaults=False)
    )
    return ["--model", "copyist", "--include_path", bench.tasks, "--model_args", "skill=0.8"]


@pytest.fixture
def banks(bench, tmp_path):
    for task, metric, flt in (
        ("texts", "bleu", "none"),
        ("choices", "acc", "none"),
        ("sums", "exact_match", "strict"),
    ):
        bench.bank(task, metric, flt).save(tmp_path / f"{task}.bank.json")
    return tmp_path


def test_without_adaptive_it_is_lm_eval(common, tmp_path, monkeypatch, capsys):
    tasks = ["--tasks", "sums,choices", "--limit", "8", "--log_samples", "--seed", "3"]
    plain_lm_eval(monkeypatch, *common, *tasks, "--output_path", tmp_path / "stock")
    stock_table = capsys.readouterr().out
    assert main(["run", *map(str, [*common, *tasks, "--output_path", tmp_path / "ours"])]) == 0
    assert capsys.readouterr().out.splitlines()[-12:] == stock_table.splitlines()[-12:]
    stock, stock_rows = outputs(tmp_path / "stock")
    ours, our_rows = outputs(tmp_path / "ours")
    for key in OF_THE_RUN:
        stock.pop(key), ours.pop(key)
    assert ours == stock and our_rows == stock_rows


def test_adaptive_writes_the_harness_files_and_says_what_it_did(common, banks, capsys):
    arguments = [*common, "--tasks", "texts,choices", "--adaptive", "--max_items", "10"]
    named = [f"{task}={banks / task}.bank.json" for task in ("texts", "choices")]
    out = banks / "out"
    code = main(
        ["run", *map(str, arguments), "--bank", *named, "--output_path", str(out), "--log_samples"]
    )
    assert code == 0
    printed = capsys.readouterr().out
    assert "texts (adaptive estimate, 10 of 36 docs)" in printed
    assert "sentence_bleu,none = " in printed and "|bank:" in printed
    results, rows = outputs(out)
    assert set(results["adaptive"]) == {"texts", "choices"}
    assert len(rows["samples_texts"]) == len(rows["samples_choices"]) == 10
    assert results["n-samples"]["texts"] == {"original": N_DOCS, "effective": 10}
    assert results["config"]["limit"] is None


@pytest.fixture
def caplog(caplog):
    """Hears our messages, too: the harness lets nothing through to the root."""
    log = logging.getLogger("lm_eval.ccat")
    log.addHandler(caplog.handler)
    yield caplog
    log.removeHandler(caplog.handler)


def test_a_run_that_is_not_told_when_to_stop_stops_by_itself_and_says_so(common, tmp_path, caplog):
    flags = [*common, "--tasks", "texts", "--adaptive", "--metric", "chrf"]
    flags += ["--output_path", tmp_path / "out"]
    with caplog.at_level("WARNING", logger="lm_eval.ccat"):
        assert main(["run", *map(str, flags)]) == 0
    [said] = {m for m in caplog.messages if "by default the run stops" in m}
    assert "a standard error of 0.02 (on a scale of 0 to 1)" in said
    assert f"of {N_DOCS} documents" in said
    block = outputs(tmp_path / "out")[0]["adaptive"]["texts"]
    assert block["stopped_because"] == "the target is reached"
    assert block["standard_error"] <= 2 and block["items"] < N_DOCS


def test_a_run_to_a_standard_error_says_first_what_it_expects_to_take(common, banks, caplog):
    bank = ["--bank", banks / "texts.bank.json"]
    flags = [*common, "--tasks", "texts", "--adaptive", *bank, "--target_se"]
    with caplog.at_level("INFO", logger="lm_eval.ccat"):
        assert main(["run", *map(str, [*flags, "0.001"])]) == 0
    [said] = {m for m in caplog.messages if "a standard error of 0.001 " in m}
    assert "take all 18 allowed of 36" in said and "by default" not in said


@pytest.mark.slow  # W&B starts a process of its own
def test_wandb_offline_gets_the_estimate_marked(common, banks, capfd, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    arguments = [*common, "--tasks", "texts", "--adaptive", "--max_items", "10", "--log_samples"]
    arguments += ["--bank", banks / "texts.bank.json", "--output_path", banks / "out"]
    arguments += ["--wandb_args", f"mode=offline,project=ccat,dir={banks}"]
    assert main(["run", *map(str, arguments)]) == 0
    assert "Logging to W&B failed" not in capfd.readouterr().err
    [log] = banks.rglob("run-*.wandb")
    wanted = (b"texts/sentence_bleu", b"texts/adaptive_items", b"adaptive estimate, 10 of 36")
    end = time.monotonic() + 60  # W&B's own process writes the file, on a busy machine later
    while not all(text in log.read_bytes() for text in wanted):
        assert time.monotonic() < end, [text for text in wanted if text not in log.read_bytes()]
        time.sleep(0.1)
    assert b"texts/bleu" not in log.read_bytes()


def test_a_directory_of_banks_and_a_budget_for_all_tasks(common, banks, capsys):
    arguments = ["--tasks", "texts", "choices", "sums", "--adaptive", "--bank", banks]
    out = banks / "out"
    assert (
        main(["run", *map(str, [*common, *arguments, "--budget_items", 21, "--output_path", out])])
        == 0
    )
    results, _ = outputs(out)
    assert [results["adaptive"][t]["items"] for t in ("texts", "choices", "sums")] == [7, 7, 7]


@pytest.mark.parametrize(
    "flags, code, words",
    [
        (["--bank", "x.json"], 2, "--bank needs --adaptive"),
        (["--adaptive", "--bank", "absent.json"], 1, "absent.json: no such item bank"),
        (["--adaptive", "--bank", "BANK", "--limit", "5"], 2, "--limit"),
        (["--adaptive", "--bank", "BANK", "--samples", '{"texts": [1]}'], 2, "--samples"),
        (["--adaptive", "--bank", "BANK", "--budget_usd", "1"], 2, "price"),
        (["--adaptive", "--bank", "BANK", "--target_se", "3"], 2, "standard error of 3"),
    ],
)
def test_what_cannot_be_meant_ends_in_one_line(common, banks, capsys, flags, code, words):
    flags = [flag.replace("BANK", str(banks / "texts.bank.json")) for flag in flags]
    assert main(["run", *map(str, common), "--tasks", "texts", *flags]) == code
    errors = capsys.readouterr().err.strip().splitlines()[-1]
    assert errors.startswith("lm-eval-ccat: error:") and words in errors


def test_a_few_shot_number_that_the_task_ignores_is_warned_of(common, banks, caplog):
    flags = ["--tasks", "sums", "--num_fewshot", "2", "--max_items", "4"]
    bank = ["--adaptive", "--bank", str(banks / "sums.bank.json")]
    assert main(["run", *map(str, common), *flags, *bank]) == 0
    [said] = {r.getMessage() for r in caplog.records if "is ignored" in r.getMessage()}
    assert "num_fewshot 2" in said and "task sums says num_fewshot: 0" in said


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--bank", "EMPTY"], "no item bank in this folder"),
        (["--bank", "texts=EMPTY"], "no item bank in this folder"),
        (["--bank", "BANK", "--leaderboard", "EMPTY"], "empty"),
        (["--bank", "BANK", "--leaderboard", "broken.csv"], "broken.csv"),
    ],
)
def test_files_that_cannot_serve_are_refused_before_the_model_is_made(
    common, banks, capsys, monkeypatch, flags, words
):
    def never(*args, **kwargs):
        raise AssertionError("the model was made")

    monkeypatch.setattr(Copyist, "__init__", never)
    monkeypatch.chdir(banks)
    (banks / "empty").mkdir()
    (banks / "broken.csv").write_text("model,doc_id\na,1\n")
    flags = [flag.replace("BANK", "texts.bank.json").replace("EMPTY", "empty") for flag in flags]
    assert main(["run", *map(str, common), "--tasks", "texts", "--adaptive", *flags]) in (1, 2)
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("lm-eval-ccat: error:") and words in said and "was made" not in said


def test_a_config_file_of_the_harness_counts(common, banks, capsys):
    config = banks / "run.yaml"
    config.write_text(f"model: copyist\ntasks: [choices]\ninclude_path: {common[3]}\n")
    flags = ["--config", str(config), "--adaptive", "--bank", str(banks / "choices.bank.json")]
    assert main(["run", *flags, "--max_items", "4"]) == 0
    assert "4 of 36 documents" in capsys.readouterr().out
    config.write_text(config.read_text() + "limit: 3\n")
    assert main(["run", *flags]) == 2
    assert "--limit cannot go with an adaptive run" in capsys.readouterr().err


@pytest.fixture
def as_if_never_imported(monkeypatch):
    """The harness as it is in a process that has not heard of this package."""
    import lm_eval.evaluator

    ours = {name: module for name, module in sys.modules.items() if name.startswith("lm_eval_ccat")}
    for name in ours:
        del sys.modules[name]
    stock = inspect.unwrap(lm_eval.evaluator.evaluate)
    monkeypatch.setattr(lm_eval.evaluator, "evaluate", stock)
    monkeypatch.setattr(lm_eval.evaluator, "get_git_commit_hash", lambda: None)
    yield
    for name in [name for name in sys.modules if name.startswith("lm_eval_ccat")]:
        del sys.modules[name]
    sys.modules.update(ours)


def test_plain_lm_eval_is_adaptive_with_our_task_class(
    bench, banks, common, as_if_never_imported, monkeypatch, caplog
):
    """Only the YAML names this package."""
    (bench.tasks / "texts_adaptive.yaml").write_text(
        "include: texts.yaml\ntask: texts_adaptive\nclass: !function lm_eval_ccat.AdaptiveTask\n"
    )
    settings = {"bank": str(banks / "texts.bank.json"), "max_items": 9}
    arguments = ["--model", "dummy", "--include_path", bench.tasks, "--log_samples"]
    arguments += ["--tasks", "texts_adaptive,choices,sums", "--use_cache", banks / "cache"]
    arguments += ["--metadata", json.dumps({"adaptive": settings})]
    for folder in ("first", "cached"):
        plain_lm_eval(monkeypatch, *arguments, "--output_path", banks / folder)
    first, rows = outputs(banks / "first")
    cached, cached_rows = outputs(banks / "cached")
    assert list(first["adaptive"]) == ["texts_adaptive"]
    assert first["adaptive"]["texts_adaptive"]["signature"].startswith("task:texts_adaptive|")
    assert first["n-samples"]["texts_adaptive"] == {"original": N_DOCS, "effective": 9}
    assert first["n-samples"]["choices"] == {"original": N_DOCS, "effective": N_DOCS}
    assert "acc,none" in first["results"]["choices"]
    assert len(rows["samples_sums"]) == 2 * N_DOCS
    assert cached["results"] == first["results"] and cached_rows == rows


@pytest.mark.parametrize(
    ("program", "in_one_line"),
    [("/venv/bin/lm_eval", True), ("/lib/lm_eval/__main__.py", True), ("mine.py", False)],
)
def test_under_lm_eval_a_refusal_is_one_line(program, in_one_line, monkeypatch, capsys):
    from lm_eval_ccat.errors import UsageError
    from lm_eval_ccat.live.adaptive import refuse_in_one_line

    others = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: others.append(error))
    monkeypatch.setattr(sys, "argv", [program, "run"])
    refuse_in_one_line()
    refuse_in_one_line()
    refusal, bug = UsageError("--limit cannot go with it"), ValueError("a bug")
    for error in (refusal, bug):
        sys.excepthook(type(error), error, None)
    assert others == ([bug] if in_one_line else [refusal, bug])
    said = capsys.readouterr().err
    assert said == ("lm_eval: error: --limit cannot go with it\n" if in_one_line else "")


def test_variants_of_any_task_and_group_are_all_that_plain_lm_eval_needs(
    bench, common, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "variants"
    names = ["all_of_it", "texts"]
    include = ["--include_path", str(bench.tasks), "--write_variants", str(folder)]
    assert main(["check", *names, *include]) == 0
    assert "--tasks all_of_it_adaptive,texts_adaptive" in capsys.readouterr().out
    files = {f.name for f in folder.iterdir()}
    assert files == {f"{n}_adaptive.yaml" for n in ("all_of_it", "choices", "sums", "texts")}
    flags = ["--model", "copyist", "--include_path", folder, "--model_args", "skill=0.8"]
    flags += ["--tasks", "all_of_it_adaptive,texts_adaptive", "--output_path", tmp_path / "out"]
    plain_lm_eval(monkeypatch, *flags, "--log_samples")
    results, _ = outputs(tmp_path / "out")
    for name in ("choices", "sums", "texts"):
        block = results["adaptive"][f"{name}_adaptive"]
        assert block["method"] == "sample" and block["standard_error"] <= 2
        assert block["stopped_because"] in ("the target is reached", "every document was run")
    assert "adaptive estimate" in results["groups"]["all_of_it_adaptive"]["alias"]


def test_our_task_class_without_options_is_adaptive_and_says_so(bench, caplog):
    (bench.tasks / "texts_class.yaml").write_text(
        "include: texts.yaml\ntask: texts_class\nclass: !function lm_eval_ccat.AdaptiveTask\n"
    )
    results = bench.stock(["texts_class"], bootstrap_iters=0)
    assert results["adaptive"]["texts_class"]["standard_error"] <= 2
    assert any("by default the run stops" in text for text in caplog.messages)
    (bench.tasks / "texts_full.yaml").write_text(
        "include: texts_class.yaml\ntask: texts_full\nmetadata: {adaptive: false}\n"
    )
    ours = bench.stock(["texts_full"], bootstrap_iters=0)
    full = bench.stock(["texts"], bootstrap_iters=0)
    for key in ("bleu,none", "chrf,none", "ter,none"):
        assert ours["results"]["texts_full"][key] == full["results"]["texts"][key]
    assert "adaptive" not in ours
