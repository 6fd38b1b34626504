"""The command lines: ours without and with --adaptive; plain lm_eval with our task class."""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import re
import shlex
import sys
from contextlib import nullcontext
from functools import partial

import lm_eval.tasks
import pytest
from lm_eval.__main__ import cli_evaluate
from local_bench import N_DOCS, Copyist

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.cli.run import HarnessCommand
from lm_eval_ccat.errors import CcatError
from lm_eval_ccat.live import adaptive

# What differs between two runs of the same command.
OF_THE_RUN = (
    "date total_evaluation_time_seconds git_hash upper_git_hash pretty_env_info model_name "
    "model_name_sanitized"
).split()


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
def ours(common):
    """Our command on some tasks: its exit code."""
    return lambda tasks, *flags: main(["run", *map(str, [*common, "--tasks", tasks, *flags])])


@pytest.fixture
def banks(bench, tmp_path):
    for task, metric, flt in (
        ("texts", "bleu", "none"),
        ("choices", "acc", "none"),
        ("sums", "exact_match", "strict"),
    ):
        bench.bank(task, metric, flt).save(tmp_path / f"{task}.bank.json")
    return tmp_path


@pytest.mark.long
def test_without_adaptive_it_is_lm_eval(common, ours, tmp_path, monkeypatch, capsys):
    flags = ["--limit", "8", "--log_samples", "--seed", "3", "--output_path"]
    plain_lm_eval(monkeypatch, *common, "--tasks", "sums,choices", *flags, tmp_path / "stock")
    stock_table = capsys.readouterr().out
    assert ours("sums,choices", *flags, tmp_path / "ours") == 0
    assert capsys.readouterr().out.splitlines()[-12:] == stock_table.splitlines()[-12:]
    stock, stock_rows = outputs(tmp_path / "stock")
    found, found_rows = outputs(tmp_path / "ours")
    for key in OF_THE_RUN:
        stock.pop(key), found.pop(key)
    assert found == stock and found_rows == stock_rows


@pytest.mark.long
def test_a_group_and_a_task_share_a_budget_and_find_their_banks_in_a_directory(ours, banks):
    flags = ["--adaptive", "--bank", banks, "--budget_items", 21, "--output_path", banks / "out"]
    assert ours("all_of_it,texts", *flags) == 0
    found = outputs(banks / "out")[0]["adaptive"]
    assert set(found) == {"all_of_it", "choices", "sums", "texts"}
    assert found["texts"]["items"] == 7
    assert found["choices"]["items"] + found["sums"]["items"] == 14
    group = found["all_of_it"]
    assert (group["items"], group["items_total"]) == (14, 2 * N_DOCS)


@pytest.fixture
def caplog(caplog):
    """Hears our messages, too: the harness lets nothing through to the root."""
    log = logging.getLogger("lm_eval.ccat")
    log.addHandler(caplog.handler)
    yield caplog
    log.removeHandler(caplog.handler)


@pytest.mark.long
@pytest.mark.parametrize(
    "task, flags, words",
    [
        ("texts", "--metric chrf", "by default the run stops at .*of 0.02 .*of 36 documents"),
        ("texts", "--metric chrf --stop 'se 0.02'", "texts: the run stops at .*of 0.02 "),
        ("texts", "--bank BANK --stop 'se 0.001'", "of 0.001 .*take all 18 allowed of 36"),
        (
            "sums",
            "--bank BANK --max_items 4 --num_fewshot 2",
            "num_fewshot 2 is ignored.* sums says",
        ),
    ],
)
def test_a_run_says_first_when_it_will_stop_and_what_it_ignores(
    ours, banks, caplog, task, flags, words
):
    flags = flags.replace("BANK", str(banks / f"{task}.bank.json"))
    with caplog.at_level("INFO", logger="lm_eval.ccat"):
        assert ours(task, "--adaptive", *shlex.split(flags)) == 0
    assert len({m for m in caplog.messages if re.search(words, m)}) == 1
    assert ("by default" in " ".join(caplog.messages)) == ("by default" in words)


ADAPTIVE = "--adaptive --bank texts.bank.json "


@pytest.mark.parametrize(
    "flags, code, words",
    [
        ("--bank x.json", 2, "--bank needs --adaptive"),
        ("--budget_usd 3", 2, "--budget_usd needs --adaptive"),
        ("--model ccat-dmo", 2, "lm_eval has no model type 'ccat-dmo'; did you mean ccat-demo?"),
        ("--adaptive --bank absent.json", 2, "absent.json: no such item bank"),
        ("--adaptive --bank empty", 2, "no item bank in this folder"),
        ("--adaptive --bank texts=empty", 2, "no item bank in this folder"),
        (ADAPTIVE + "--limit 5", 2, "--limit"),
        (ADAPTIVE + "--samples '{\"texts\":[1]}'", 2, "--samples"),
        (ADAPTIVE + "--budget_usd 1", 2, "price"),
        (ADAPTIVE + "--stop 'se 3'", 2, "standard error of 3"),
        (ADAPTIVE + "--stop 'ranks 3'", 2, "give their full results as leaderboard"),
        (ADAPTIVE + "--leaderboard nowhere", 2, "nowhere"),
        (ADAPTIVE + "--leaderboard empty", 1, "empty"),
        (ADAPTIVE + "--leaderboard broken.csv", 1, "broken.csv"),
        (ADAPTIVE + "--leaderboard acc.csv", 2, "chrf"),
    ],
)
def test_what_cannot_be_meant_ends_in_one_line_before_the_model_is_made(
    ours, bench, tmp_path, capsys, monkeypatch, flags, code, words
):
    def never(*args, **kwargs):
        raise AssertionError("the model was made")

    bench.bank("texts", "chrf").save(tmp_path / "texts.bank.json")
    monkeypatch.setattr(Copyist, "__init__", never)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.csv").write_text("model,doc_id\na,1\n")
    ScoreTable.from_arrays([[0.5, 0.2]], ["x"], metric="acc").write(tmp_path / "acc.csv")
    assert ours("texts", *shlex.split(flags)) == code
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("lm-eval-ccat: error:") and words in error


@pytest.mark.long
def test_a_config_file_of_the_harness_counts(common, banks, capsys):
    config = banks / "run.yaml"
    config.write_text(f"model: copyist\ntasks: [no_such_task]\ninclude_path: {common[3]}\n")
    named = f"choices={banks / 'choices.bank.json'}"
    flags = ["--config", str(config), "--adaptive", "--bank", named, "--tasks", "choices"]
    assert main(["run", *flags, "--max_items", "4"]) == 0
    printed = capsys.readouterr().out
    assert "choices (adaptive estimate, 4 of 36 docs)" in printed and "|bank:" in printed
    config.write_text(config.read_text() + "limit: 3\n")
    assert main(["run", *flags]) == 2
    refused = capsys.readouterr().err
    assert "--limit cannot go with an adaptive run" in refused and "by --max_items or" in refused


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


def adaptive_variants(bench, folder, **options):
    """Variants of tasks by our class, each with options of its own in its YAML."""
    for task, settings in options.items():
        of = json.dumps({"version": 1.0, "adaptive": settings})
        (folder / f"{task}_adaptive.yaml").write_text(
            f"include: {bench.tasks / task}.yaml\ntask: {task}_adaptive\nmetadata: {of}\n"
            "class: !function lm_eval_ccat.AdaptiveTask\n"
        )


@pytest.mark.long
def test_plain_lm_eval_is_adaptive_with_our_task_class(
    bench, banks, common, as_if_never_imported, monkeypatch
):
    """Only the YAML names this package."""
    folder = banks / "each"
    folder.mkdir()
    few = {"texts": 9, "choices": 5}
    of = {t: {"bank": str(banks / f"{t}.bank.json"), "max_items": n} for t, n in few.items()}
    adaptive_variants(bench, folder, **of)
    (folder / "sums.yaml").symlink_to(bench.tasks / "sums.yaml")
    arguments = ["--model", "dummy", "--include_path", folder, "--log_samples"]
    arguments += ["--tasks", "texts_adaptive,choices_adaptive,sums", "--use_cache", banks / "cache"]
    for name in ("first", "cached"):
        plain_lm_eval(monkeypatch, *arguments, "--output_path", banks / name)
    first, rows = outputs(banks / "first")
    cached, cached_rows = outputs(banks / "cached")
    assert {t: first["adaptive"][f"{t}_adaptive"]["items"] for t in few} == few
    assert first["adaptive"]["texts_adaptive"]["signature"].startswith("task:texts_adaptive|")
    assert first["n-samples"]["texts_adaptive"] == {"original": N_DOCS, "effective": 9}
    assert first["n-samples"]["sums"] == {"original": N_DOCS, "effective": N_DOCS}
    assert len(rows["samples_sums"]) == 2 * N_DOCS
    # Tasks stand as they were named, those that are adaptive among the others.
    assert list(first["results"]) == ["texts_adaptive", "choices_adaptive", "sums"]
    assert cached["results"] == first["results"] and cached_rows == rows


@pytest.mark.long
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
    assert "(no estimate, " in results["groups"]["all_of_it_adaptive"]["alias"]
    # What the plain command cannot take is refused with what it can.
    texts = [*flags[:-4], "--tasks", "texts_adaptive", "--output_path", tmp_path / "bound"]
    with pytest.raises(CcatError, match="--limit cannot go with an adaptive run") as refused:
        plain_lm_eval(monkeypatch, *texts, "--limit", "5")
    flag, value = shlex.split(str(refused.value).partition(" bound it by ")[2])
    plain_lm_eval(monkeypatch, *texts, flag, value.replace("50", "7"))
    assert outputs(tmp_path / "bound")[0]["adaptive"]["texts_adaptive"]["items"] == 7


def test_our_task_class_runs_a_task_in_full_where_it_is_told_to(bench):
    adaptive_variants(bench, bench.tasks, texts=False)
    ours = bench.stock(["texts_adaptive"])["results"]["texts_adaptive"]
    full = bench.stock(["texts"])["results"]["texts"]
    for key in ("bleu,none", "chrf,none", "ter,none"):
        assert ours[key] == full[key]


@pytest.mark.parametrize(("given", "taken"), [(None, True), (False, True), ("rag", "rag")])
def test_a_type_that_takes_messages_has_the_chat_template_that_is_named(given, taken):
    words = {"model": "local-chat-completions", "tasks": "t", "apply_chat_template": given}
    empty = dict.fromkeys(("config", "include_path", "model_args"))
    command = HarnessCommand(args := argparse.Namespace(**empty, **words))
    command.require_model()
    assert args.apply_chat_template == taken


CORRECTED = "correct what set the model aside; then the same command"


@pytest.mark.parametrize(
    ("set_aside", "cache", "code", "words"),
    [
        (
            (None, None),
            [],
            0,
            "lm-eval-ccat compare LOGS out, where LOGS are those of another model",
        ),
        ((None, "gone"), [], 4, f"{CORRECTED} and --use_cache FILE, which keeps its answers"),
        (("gone", "gone"), ["--use_cache", "answers"], 4, CORRECTED),
    ],
)
def test_one_task_without_its_model_of_several_ends_with_4_and_says_how_to_go_on(
    common, monkeypatch, capsys, set_aside, cache, code, words
):
    """Answers lie in a cache alone: where results are written, there are none of it."""
    block = {"items": 0, "items_total": 9, "estimand": "", "signature": "", "confidence": 0.95}
    blocks = {
        task: {**block, "set_aside": why, "stopped_because": str(why), "failed": [], "findings": []}
        for task, why in zip(("choices", "sums"), set_aside)
    }
    monkeypatch.setattr(adaptive, "adaptively", lambda *_, **__: nullcontext(blocks))
    monkeypatch.setattr(HarnessCommand, "execute", lambda _: None)
    flags = ["--tasks", "choices,sums", "--adaptive", "--max_items", "9", "--output_path", "out"]
    assert main(["run", *map(str, common), *flags, *cache]) == code
    assert capsys.readouterr().out.splitlines()[-1] == f"Next: {words}"
