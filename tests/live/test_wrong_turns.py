"""What a newcomer need not know: templates of chat servers, folders of tasks; early checks."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from worlds.bench import TASK, content_of

from lm_eval_ccat import ItemBank, ScoreTable, adaptive_evaluate, calibrate
from lm_eval_ccat.errors import CcatError, UsageError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.live import adaptive
from lm_eval_ccat.live.adaptive import Adaptive, refuse_early
from lm_eval_ccat.live.spec import Spec

CHAT = "local-chat-completions"


@pytest.mark.long
def test_a_type_that_takes_only_messages_implies_the_template(bench, server, tmp_path, ccat):
    config = bench.config(
        server.url, ["m03", "m09"], bank=None, max_items=10, entry={"model": CHAT}
    )
    ccat("rank", config, code=(0, 3))
    alone = bench.adaptive(server, "m09", "--max_items", 10, "--output_path", tmp_path / "logs")
    ccat(*[CHAT if word == "local-completions" else word for word in alone])
    live = [word for word in alone if word not in ("run", "--adaptive")][:4]
    live[1] = CHAT
    for name in ("m03", "m09"):
        full = bench.adaptive(server, name, "--output_path", tmp_path / name, "--log_samples")
        full.remove("--adaptive")
        ccat(*[CHAT if word == "local-completions" else word for word in full])
    asked = len(server.bodies)
    ccat(
        "compare", tmp_path / "m03", "--task", TASK, "--include_path", tmp_path / "tasks", *live,
        "--models", "m03,m09", "--max_items", 20, code=(0, 3),
    )  # fmt: skip
    assert len(server.bodies) > asked
    assert all("messages" in body and "prompt" not in body for body in server.bodies)


@pytest.mark.long
def test_a_model_of_another_type_beside_it_gets_its_plain_prompt(bench, server, ccat):
    of = {"m03": {"model": CHAT}}
    ccat(
        "rank",
        bench.config(server.url, ["m03", "m09"], bank=None, max_items=10, of=of),
        code=(0, 3),
    )
    for body in server.bodies:
        assert ("messages" in body) == (body["model"] == "m03")


@pytest.mark.long
def test_a_task_beside_the_configuration_needs_no_folder(bench, server, ccat, tmp_path):
    for file in (bench.folder / "tasks").iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    config = bench.config(server.url, ["m03", "m09"], bank=None, max_items=10, harness={})
    ccat("rank", config, code=(0, 3))
    assert content_of(config)["items_administered"] >= 20


def copies_beside(bench):
    """Puts a task of another prompt, under the same name, beside the configurations; its path."""
    shutil.copy(bench.folder / "tasks" / "scoring.py", bench.folder)
    text = (bench.folder / "tasks" / f"{TASK}.yaml").read_text()
    file = bench.folder / "old.yaml"
    file.write_text(text.replace("Repeat the numbers", "Say the old numbers"))
    return file


BESIDE = {"old": "", "half": "bank: b.json\nharness: {}\n", "broken": "include: nowhere.yaml\n"}


@pytest.mark.long
@pytest.mark.parametrize(
    "how, beside", [*(("rank", name) for name in BESIDE), ("run", "old"), ("harness", "old")]
)
def test_a_task_of_the_folder_is_that_of_the_harness_whatever_lies_beside(
    bench, server, ccat, monkeypatch, how, beside
):
    file = copies_beside(bench)
    if rest := BESIDE[beside]:
        file.write_text(f"task: {TASK}\n{rest}")
    monkeypatch.chdir(bench.folder)
    if how == "rank":
        ccat("rank", bench.config(server.url, ["m03", "m09"], max_items=10), code=(0, 3))
    else:
        words = bench.adaptive(server, "m09", "--output_path", bench.folder / "out")
        if how == "harness":
            words.remove("--adaptive")
        ccat(*words)
    prompts = {body["prompt"] for body in server.bodies}
    assert prompts and not any("old" in str(prompt) for prompt in prompts)


@pytest.mark.long
def test_a_task_beside_serves_a_name_that_nothing_else_has_and_is_told(
    bench, server, ccat, monkeypatch
):
    monkeypatch.chdir(bench.folder)
    file = copies_beside(bench)
    file.write_text(file.read_text().replace(f"task: {TASK}", "task: own_name"))
    (bench.folder / "half.yaml").write_text("task: own_name\nbank: b.json\n")
    settings = {"task": "own_name", "bank": None, "max_items": 10}
    out = ccat("rank", bench.config(server.url, ["m03", "m09"], **settings), code=(0, 3))
    assert "Task own_name: old.yaml" in out.err + out.out
    (bench.folder / "task.yaml").write_text("task: own_name\ndataset_path: json\n")
    config = bench.config(server.url, ["m03", "m09"], name="again", **settings)
    error = ccat("rank", config, code=2).err
    assert "two files define task own_name" in error and "old.yaml" in error and "task.y" in error


@pytest.mark.long
@pytest.mark.parametrize("name", ["gsm8k", "mmlu", "mmlu_stem_tasks"])
def test_a_name_of_the_harness_is_no_file_beside(tmp_path, name):
    (tmp_path / "mine.yaml").write_text(f"task: {name}\ndataset_path: json\n")
    models = [{"model": "dummy"}]
    assert Spec.read({"task": name, "models": models}, folder=tmp_path).tasks == (name,)


def test_two_files_of_a_folder_that_define_a_task_are_named(bench, ccat):
    bench.rewrite(lambda name, text: text)
    shutil.copy(bench.folder / "tasks" / f"{TASK}.yaml", bench.folder / "tasks" / "also.yaml")
    error = ccat("check", TASK, "--include_path", bench.folder / "tasks", code=2).err
    assert f"two files define task {TASK}" in error
    assert "also.yaml" in error and f"{TASK}.yaml" in error


def test_a_key_that_no_task_has_is_named_with_its_file(bench, ccat):
    change = {f"{TASK}.yaml": "\noutputtype: generate_until\n"}
    bench.rewrite(lambda name, text: text + change.get(name, ""))
    for words in ([TASK, "--include_path", bench.folder / "tasks"],
                  [bench.folder / "tasks" / f"{TASK}.yaml"]):  # fmt: skip
        error = ccat("check", *words, code=2).err
        assert f"{TASK}.yaml is no task: none has a key `outputtype`; did you mean output_" in error


@pytest.mark.long
@pytest.mark.parametrize("where", ["beside", "folder"])
def test_run_finds_a_task_as_rank_does(bench, server, ccat, tmp_path, monkeypatch, where):
    """In its file beside the command or in a folder, and never in a ranking that names it."""
    folder = tmp_path / "mine"
    shutil.copytree(bench.folder / "tasks", folder)
    (folder / "a.yaml").write_text(f"task: {TASK}\nmodels: [{{model: dummy}}]\n")
    monkeypatch.chdir(folder if where == "beside" else "/")
    words = bench.adaptive(server, "m09", "--max_items", 12, "--output_path", tmp_path / "out")
    place = words.index("--include_path")
    words[place : place + 2] = ["--include_path", str(folder)] if where == "folder" else []
    ccat(*words)
    [results] = (tmp_path / "out").rglob("results_*.json")
    assert list(json.loads(results.read_text())["results"]) == [TASK]


@pytest.mark.long
@pytest.mark.parametrize("how", ["rank", "run", "python"])
@pytest.mark.parametrize("what", ["bank", "metric"])
def test_what_does_not_fit_is_refused_before_weights_load(bench, ccat, tmp_path, how, what):
    scores = np.random.default_rng(0).random((6, 90))
    table = ScoreTable.from_arrays(scores, list("abcdef"), range(100, 190), metric="share")
    calibrate(table, "paper").save(tmp_path / "wrong.json")
    wrong = {"bank": str(tmp_path / "wrong.json")} if what == "bank" else {"metrics": ["bleu"]}
    remedy = "calibrate a bank on this" if what == "bank" else "only share"
    flag = "--bank" if what == "bank" else "--metric"
    typed = [flag, *(wrong.get("metrics") or [wrong["bank"]])] if how != "python" else []
    weights, tasks = f"pretrained={tmp_path / 'no-weights'}", str(bench.folder / "tasks")
    if how == "python":
        with pytest.raises(CcatError, match=remedy):
            adaptive_evaluate("hf", weights, [TASK], include_path=tasks, **wrong)
        return
    words = ["--model", "hf", "--model_args", weights, "--include_path", tasks, *typed]
    more = ["--tasks", TASK, "--adaptive"] if how == "run" else ["--task", TASK]
    assert remedy in ccat(how, *words, *more, code=(1, 2)).err


@pytest.mark.long
def test_a_bank_of_a_metric_that_a_task_does_not_report_is_refused_before_it_asks(
    bench, server, ccat
):
    bank = bench.folder / "acc.bank.json"  # the tests of a worker share the bench's own
    ItemBank.blank(range(bench.n_docs), metric="acc").save(bank)
    config = bench.config(server.url, ["m03", "m09"], max_items=10, bank=str(bank))
    err = ccat("rank", config, code=2).err
    assert "reports no acc for its documents; it reports share" in err and not server.bodies


def test_a_metric_that_a_task_does_not_report_is_refused_before_weights_load(bench):
    """Its own scoring may return more than it lists; code that fails tells nothing."""
    harness = {"include_path": [str(bench.folder / "tasks")]}

    def early(metric: str) -> None:
        refuse_early(Adaptive.read({"metrics": [metric]}), "hf", [TASK], harness)

    early("share")
    with pytest.raises(UsageError, match="reports no acc for its documents; it reports share"):
        early("acc")
    beside = "'share': right / len(wanted)"
    bench.rewrite(lambda _, text: text.replace(beside, f"'acc': right / 10, {beside}"))
    early("acc")
    bench.rewrite(lambda _, text: text.replace("'acc': right", "'f1': right / len(results[0])"))
    early("acc")


def command(how: str, bench, server, metric: str) -> list:
    """A command that asks m09, or m01 and m09, by a metric of the task."""
    if how == "run":
        return [*bench.adaptive(server, "m09", "--metric", metric)]
    settings = {"bank": None, "metrics": [metric]}
    if how == "rank":
        return ["rank", bench.config(server.url, ["m01", "m09"], **settings), "--max_items", 40]
    sides = [bench.config(server.url, [m], name=m, **settings) for m in ("m01", "m09")]
    return ["compare", *sides, "--max_items", 40]


@pytest.mark.long
@pytest.mark.parametrize("how", ["rank", "run", "compare"])
def test_no_direction_is_taken_from_a_name_that_a_task_gives_to_what_it_likes(
    bench, server, ccat, how
):
    """The task returns a share of errors beside what it lists, under a name that begins as acc."""
    beside, declared = "'share': right / len(wanted)", "ccat_scales: {"
    bench.rewrite(lambda _, text: text.replace(beside, f"'acc_drop': 1 - right / 10, {beside}"))
    call = command(how, bench, server, "acc_drop")
    before = len(server.log)
    err = ccat(*call, code=(1, 2)).err
    assert "whether a higher metric acc_drop of task" in err and "metric_list" in err
    assert len(server.log) == before
    stated = "acc_drop: {range: [0, 1], lower_is_better: true}, "
    bench.rewrite(lambda _, text: text.replace(declared, declared + stated))
    out = ccat(*call, code=(0, 3, 5)).out
    if how == "compare":
        assert "lower is better" in out and "m09 is better than m01" in out


@pytest.mark.long
@pytest.mark.parametrize("how", ["rank", "run", "compare"])
def test_scores_that_mostly_lie_above_their_cap_end_a_run_after_its_first_answers(
    bench, server, ccat, how
):
    """The task returns error rates as percentages; the metric table caps them at 1."""
    beside, declared = "'share': right / len(wanted)", "ccat_scales: {"
    bench.rewrite(lambda _, text: text.replace(beside, f"'wer': 100 - 10 * right, {beside}"))
    call = command(how, bench, server, "wer")
    err = ccat(*call, code=2).err
    assert "scores of 'wer' run from" in err and "of them lie above 1, where they are" in err
    assert "ccat_scales: {wer: {cap: 100}}" in err
    # Not before the warm-up, and not much after it.
    assert 10 <= max(Counter(model for _, model, *_ in server.log).values()) <= 40
    bench.rewrite(lambda _, text: text.replace(declared, f"{declared}wer: {{cap: 100}}, "))
    shutil.rmtree(bench.run(), ignore_errors=True)
    ccat(*call, code=(0, 3, 5))


@pytest.mark.long
@pytest.mark.parametrize("how", ["rank", "run", "python"])
def test_other_prompts_than_the_banks_are_refused_before_weights_load(
    how, bench, server, ccat, tmp_path
):
    for name in ("m03", "m09"):
        full = bench.adaptive(server, name, "--output_path", tmp_path / "logs", "--log_samples")
        full.remove("--adaptive")
        ccat(*full)
    bank, tasks = tmp_path / "logs.bank.json", str(bench.folder / "tasks")
    ccat("calibrate", tmp_path / "logs", "-o", bank)
    weights = f"pretrained={tmp_path / 'no-weights'}"
    words = ["--model", "hf", "--model_args", weights, "--include_path", tasks, "--bank", bank]
    more = ["--tasks", TASK, "--adaptive"] if how == "run" else ["--task", TASK]
    for flag, remedy in {
        "num_fewshot 1": "num_fewshot is 1, the bank has 0",
        "apply_chat_template": "--accept_change prompts",
    }.items():
        name, *value = flag.split()
        if how == "python":
            settings = {name: int(value[0]) if value else True, "bank": str(bank)}
            with pytest.raises(CcatError, match=remedy):
                adaptive_evaluate("hf", weights, [TASK], include_path=tasks, **settings)
        else:
            assert remedy in ccat(how, *words, *more, f"--{name}", *value, code=(1, 2)).err


@pytest.mark.long
def test_a_model_without_an_answer_is_corrected_on_resume(bench, server, ccat):
    def mood(model, prompt, before):
        return ("say", 404, '{"error": "no m99"}') if model == "m99" else None

    server.mood, args = mood, {"base_url": server.url, "tokenizer_backend": "none"}
    of = {"m09": {"model_args": {"model": "m99", **args}}}
    config = bench.config(server.url, ["m03", "m09"], bank=None, max_items=10, of=of)
    assert "Next: correct what set m09 aside" in ccat("rank", config, code=4).out
    bench.config(server.url, ["m03", "m09"], bank=None, max_items=10)
    ccat("rank", config, "--resume", code=(0, 3))
    assert content_of(config)["models"]["m09"]["n_items"] == 10
    # By flags its name is corrected with it: the wrong name leaves, and nobody waits for it.
    typed = ["rank", "--task", TASK, "--include_path", bench.folder / "tasks", "--max_items", 12]
    typed += ["--run_dir", bench.folder / "typed"]
    for name, resume, code in (("m99", [], 4), ("m09", ["--resume"], (0, 3))):
        models = [
            word
            for model in ("m03", name)
            for word in (
                *("--model", "local-completions", "--model_args"),
                f"model={model},base_url={server.url},tokenizer_backend=none",
            )
        ]
        ccat(*typed, *models, *resume, code=code)
    content = json.loads((bench.folder / "typed" / "result.json").read_text())
    assert min(content["models"][name]["n_items"] for name in ("m03", "m09")) >= 10
    assert content["stopped_because"] != "not finished"
    # One that has answered stays what it was; the refusal says how to take its answers along.
    bench.config(server.url, ["m03", "m09"], bank=None, max_items=10, model_args={"model": "m07"})
    assert "--run_dir NEW --prior" in ccat("rank", config, "--resume", code=1).err


@pytest.mark.long
def test_the_best_of_no_more_models_than_that_are_refused_before_anything_is_asked(
    bench, server, ccat
):
    for k, others in ((2, {}), (3, {"bank": None})):
        config = bench.config(server.url, ["m03", "m09"], stop=f"top {k}", **others)
        for command in ("rank", "plan"):
            assert "must be below the number of models, 2" in ccat(command, config, code=2).err
    assert not server.asked


@pytest.mark.parametrize(
    ("model", "stated", "as_messages"),
    [
        ("local-chat-completions", {}, True),
        ("local-chat-completions", {"apply_chat_template": False}, True),
        # Weights have a template or none, which their user knows.
        ("hf", {}, False),
    ],
)
def test_a_model_that_takes_messages_alone_is_sent_messages(
    model, stated, as_messages, monkeypatch
):
    calls = []
    monkeypatch.setattr(
        internals, "stock_simple_evaluate", lambda **arguments: calls.append(arguments)
    )
    # A task manager of the caller's own: nothing is looked at before the harness has its turn.
    stated = {"task_manager": object(), **stated}
    adaptive.simple_evaluate(model, None, ["t"], adaptive={"max_items": 5}, **stated)
    given = {"model": model, "model_args": None, "tasks": ["t"], **stated}
    by_default = {"apply_chat_template": True, "fewshot_as_multiturn": True}
    assert calls == [{**(by_default if as_messages else {}), **given}]
    adaptive.simple_evaluate(model, None, ["t"], **stated)
    assert calls[1:] == [given]
    with pytest.raises(UsageError, match="--limit"):
        adaptive.simple_evaluate(model, None, ["t"], adaptive={}, limit=5, **stated)
    assert len(calls) == 2
