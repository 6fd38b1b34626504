"""`compare` with live models: asked until it is known whether the candidate is worse."""

from __future__ import annotations

import json
import re

import pytest
from worlds.bench import PROMPT, TASK
from worlds.server import CompletionsServer

from lm_eval_ccat import compare
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.harness.internals import PlaceholderLM
from lm_eval_ccat.journal import read_journal
from lm_eval_ccat.live.live_comparison import _names
from lm_eval_ccat.live.sides import without_files
from lm_eval_ccat.records import Accept
from lm_eval_ccat.scores.prompts import mark_of


def live(server: CompletionsServer, name: str) -> dict:
    arguments = {"model": name, "base_url": server.url, "tokenizer_backend": "none"}
    return {"name": name, "model": "local-completions", "model_args": arguments}


@pytest.mark.long
@pytest.mark.parametrize(
    ("baseline", "candidate", "margin", "verdict"),
    [("m01", "m09", 0.0, "better"), ("m09", "m01", 0.05, "worse"), ("m07", "m07", 0.1, None)],
)
def test_two_live_models(bench, server, baseline, candidate, margin, verdict):
    found = compare(
        live(server, baseline), {**live(server, candidate), "name": "new"}, "share", margin,
        task=TASK, harness={"include_path": str(bench.folder / "tasks")},
    )  # fmt: skip
    [one] = found.outcomes
    assert one.overall.documents < bench.n_docs
    truth = bench.truth[candidate] - bench.truth[baseline]
    assert one.overall.low <= truth <= one.overall.high
    for loss in one.losses:
        said = (
            bench.outputs[name][PROMPT.format(id=loss.doc_id)] for name in (baseline, candidate)
        )
        assert loss.answers == tuple(said) and loss.candidate < loss.baseline
    assert found.verdict == (verdict or "equivalent")
    assert (found.baseline, found.candidate) == (baseline, "new")


@pytest.mark.long
def test_a_limit_below_the_warm_up_is_obeyed(bench, server):
    found = compare(
        live(server, "m01"), live(server, "m09"), "share", task=TASK, max_items=5,
        harness={"include_path": str(bench.folder / "tasks")},
    )  # fmt: skip
    assert found.asked == {"m01": 5, "m09": 5} and sum(server.asked.values()) == 10
    assert (found.verdict, found.exit_code) == ("not known", 3)


def test_no_direction_is_given_to_scores_that_a_live_model_has_yet_to_get(server):
    with pytest.raises(UsageError, match="are for stored scores"):
        compare(live(server, "m01"), live(server, "m09"), task=TASK, lower_is_better=True)


@pytest.mark.long
def test_a_stored_run_and_a_live_model(bench, server, tmp_path, ccat):
    old = {"bank": None, "budget": {"items": 120}, "stop": "limits"}
    config = bench.config(server.url, ["m03", "m05"], name="old", **old)
    ccat("rank", config, code=(0, 3))
    server.asked.clear()
    stored = bench.run("old") / "m05"
    arguments = f"model=m09,base_url={server.url},tokenizer_backend=none"
    command = [
        "compare", stored, "--task", TASK, "--metric", "share",
        "--model", "local-completions", "--model_args", arguments, "--models", "m05,m09",
        "--include_path", tmp_path / "tasks", "--run_dir", tmp_path / "versus", "--json",
    ]  # fmt: skip
    content = json.loads(ccat(*command).out)
    [one] = content["outcomes"]
    assert content["verdict"] == one["verdict"] == "better"
    # The stored run answered from its logs, on documents that it has.
    assert {model for model, _ in server.asked} == {"m09"}
    assert 10 <= one["documents"] <= len(server.asked)
    assert content["asked"] == {"m09": len(server.asked)}
    # A file of `rank` says the same, and more, of the candidate.
    new = bench.config(server.url, ["m09"], name="new", bank=None, max_items=20)
    said = ccat("compare", stored, new, "--metric", "share", "--json", code=(0, 3)).out
    [again] = json.loads(said)["outcomes"]
    assert again["documents"] <= 20 and again["baseline"] < again["candidate"]
    paid = sum(server.asked.values())
    # Once more: all is known, and nothing is asked.
    assert json.loads(ccat(*command).out)["outcomes"] == content["outcomes"]
    assert sum(server.asked.values()) == paid
    assert "a side of a comparison is one model" in ccat("compare", stored, config, code=2).err
    # What was asked can be taken by the next run.
    taken = {"name": "next", "bank": None, "prior": "versus", "budget": {"items": 60}}
    result = bench.ranked(server, ["m09", "m11"], **taken)
    assert result["models"]["m09"]["from_prior"] > 0


@pytest.mark.long
def test_what_a_comparison_says_to_type_next_decides_it(bench, server, tmp_path, ccat):
    sides = [bench.config(server.url, [name], name=name, bank=None) for name in ("m05", "m07")]
    page, max_items, steps = tmp_path / "page.html", 10, []
    for _ in range(6):
        command = ["compare", *sides, "--max_items", max_items, "--run_dir", tmp_path / "versus"]
        said = ccat(*command, "-o", page, code=(0, 3)).out.splitlines()[-1]
        if said.startswith("Next: open"):
            break
        larger = int(re.search(r"^To decide it: the same command with --max_items (\d+)$", said)[1])
        assert max_items < larger <= bench.n_docs
        steps.append(max_items := larger)
    assert steps and "m07 is better than m05" in page.read_text()
    scores = dict(zip(bench.table.models, bench.table.raw))
    lost = re.findall(
        r'<tr><th scope="row"><bdi>(\d+)</bdi></th><td class="num">', page.read_text()
    )
    losses = [scores["m05"][int(k)] - scores["m07"][int(k)] for k in lost]
    assert losses and min(losses) > 0 and losses == sorted(losses, reverse=True)


def flags(server: CompletionsServer, *names: str) -> list[str]:
    """Live models by flags, as a newcomer gives them: without names."""
    ask = f"base_url={server.url},tokenizer_backend=none"
    return [
        word
        for name in names
        for word in ("--model", "local-completions", "--model_args", f"model={name},{ask}")
    ]


@pytest.mark.long
def test_live_models_given_by_flags_have_their_own_names(bench, server, tmp_path, ccat):
    about = ("--task", TASK, "--include_path", tmp_path / "tasks")
    out = ccat("compare", *about, *flags(server, "m01", "m09")).out
    assert "m09 is better than m01: " in out
    estimated = "Both scores are estimates from these documents."
    assert estimated in out
    everything = ccat("compare", *about, *flags(server, "m01", "m01"), "--margin", 0.001, code=0)
    assert everything.out and estimated not in everything.out
    # Two that rank would call alike are told apart by their parts.
    other = tmp_path / "other.md"
    typed = ("compare", *about, *flags(server, "m09", "m09"), "--margin", 0.2, "-o", other)
    ccat(*typed, "--max_items", 30, code=(0, 3))
    assert other.read_text().startswith("### candidate against baseline: ")
    server.mood = lambda model, prompt, before: (
        ("say", 404, '{"error": "no m09"}') if model == "m09" else None
    )
    assert "m09 is set aside" in ccat("compare", *about, *flags(server, "m01", "m09"), code=4).err


@pytest.mark.long
def test_a_comparison_that_keeps_no_answers_says_so_and_decides_at_the_next_try(
    bench, server, tmp_path, ccat
):
    typed = ["compare", "--task", TASK, "--include_path", tmp_path / "tasks"]
    typed += flags(server, "m05", "m07")
    step = ccat(*typed, "--max_items", 10, code=3).out.splitlines()[-1]
    found = re.fullmatch(
        r"To decide it: the same command with --max_items (\d+) \(it asks all anew; --run_dir DIR "
        r"would keep the answers\)",
        step,
    )
    server.asked.clear()
    kept = ("--run_dir", tmp_path / "kept")
    step = ccat(*typed, "--max_items", found[1], *kept).out.splitlines()[-1]
    assert "anew" not in step and len(server.asked) > 20
    server.asked.clear()
    ccat(*typed, "--max_items", found[1], *kept, "-o", tmp_path / "page.html")
    assert not server.asked
    step = ccat(*typed, "--max_items", found[1]).out.splitlines()[-1]
    assert step.startswith("Next: the same command with -o page.html") and "asks all anew" in step
    assert server.asked


@pytest.mark.long
def test_logs_of_some_documents_say_that_the_live_comparison_is_of_these(
    bench, server, tmp_path, ccat
):
    full = bench.adaptive(server, "m03", "--output_path", tmp_path / "logs", "--log_samples")
    full.remove("--adaptive")
    ccat(*full, "--limit", 30)
    typed = ("compare", tmp_path / "logs", "--task", TASK, "--include_path", tmp_path / "tasks")
    told = ccat(*typed, *flags(server, "m09"), "-o", tmp_path / "c.md", code=(0, 3, 5))
    warning = f"logs: the logs hold 30 of the task's {bench.n_docs} documents, so the comparison is"
    assert told.err.count(warning) == 1 and warning in (tmp_path / "c.md").read_text()


@pytest.mark.long
def test_what_is_told_while_models_are_asked_is_not_told_again_at_the_end(
    bench, server, tmp_path, ccat
):
    failing = {PROMPT.format(id=doc_id) for doc_id in range(0, bench.n_docs, 6)}
    server.mood = lambda model, prompt, before: ("status", 400) if prompt in failing else None
    typed = ("compare", "--task", TASK, "--include_path", tmp_path / "tasks", "--max_items", 12)
    told = ccat(*typed, *flags(server, "m01", "m09"), code=(0, 3, 5))
    warnings = [line for line in told.err.splitlines() if line.startswith("warning: ")]
    assert any("HTTP 400" in line for line in warnings), told.err
    assert len(set(warnings)) == len(warnings)


@pytest.mark.long
def test_logs_that_were_scored_otherwise_are_told_and_scored_anew_and_of_other_versions_refused(
    bench, server, tmp_path, ccat
):
    full = bench.adaptive(server, "m03", "--output_path", tmp_path / "logs", "--log_samples")
    full.remove("--adaptive")
    ccat(*full)
    typed = ("compare", tmp_path / "logs", "--task", TASK, "--include_path", tmp_path / "tasks")
    live = (*flags(server, "m09"), "--models", "old,m09", "--json")
    plain = json.loads(ccat(*typed, *live, code=(0, 3, 5)).out)
    assert not any("target" in warning for warning in plain["warnings"])
    changes = {"doc_to_target: numbers": "doc_to_target: id", "right / len(wanted)": "right / 20"}

    def changed(name, text):
        for before, after in changes.items():
            text = text.replace(before, after)
        return text

    bench.rewrite(changed)
    said = ccat(*typed, *live, code=(0, 3, 5))
    warnings = json.loads(said.out)["warnings"]
    for words in (f"{bench.n_docs} of {bench.n_docs} targets differ", "process_results differs"):
        [told] = [warning for warning in warnings if words in warning]
        assert "the logs of old" in told and f"task {TASK} now" in told and told in said.err
        assert told.endswith("the answers of both models are scored as the task does now")
    bench.rewrite(lambda name, text: text.replace("version: 1.0", "version: 2.0"))
    asked = sum(server.asked.values())
    refused = ccat(*typed, *live, code=2).err
    words = f"task_version is 1.0 in the logs of old and 2.0 in task {TASK} now"
    assert words in refused and "--accept_change scoring" in refused
    assert sum(server.asked.values()) == asked
    run = "--accept_change", "scoring", "--run_dir", tmp_path / "compared"
    told = json.loads(ccat(*typed, *live, *run, code=(0, 3, 5)).out)["warnings"]
    assert [warning for warning in told if warning == f"accepted: {words}"]
    records = read_journal(tmp_path / "compared" / "journal.jsonl")[1]
    [accepted] = [record.what for record in records if isinstance(record, Accept)]
    assert f"accepted: {words}" in accepted
    half, whole = (c["outcomes"][0] for c in (json.loads(said.out), plain))
    assert half["baseline"] == pytest.approx(whole["baseline"] / 2, abs=0.05)


@pytest.mark.long
def test_what_an_adaptive_run_says_to_type_next_works(bench, server, tmp_path, ccat):
    estimate = bench.adaptive(server, "m03", "--max_items", 12)
    assert "Next: the same command with --output_path DIR" in ccat(*estimate).out
    said = ccat(*estimate, "--output_path", tmp_path / "out").out.splitlines()[-1]
    words = said.removeprefix("Next: lm-eval-ccat ").partition(",")[0].split()
    assert words == ["compare", "LOGS", str(tmp_path / "out")]
    full = bench.adaptive(server, "m09", "--output_path", tmp_path / "logs", "--log_samples")
    full.remove("--adaptive")
    ccat(*full)
    assert "m03 is worse than m09" in ccat("compare", tmp_path / "logs", words[2], code=5).out


@pytest.mark.long
def test_an_interrupted_comparison_goes_on_and_ends_as_one_that_was_not(
    bench, server, tmp_path, capsys, interrupt_at, ccat
):
    sides = [str(bench.config(server.url, [m], name=m, bank=None)) for m in ("m05", "m07")]
    command = ["compare", *sides, "--margin", "0.03", "--json", "--run_dir", str(tmp_path / "one")]
    code = main(command)
    expected = json.loads(capsys.readouterr().out)["outcomes"]
    assert expected[0]["documents"] > 30
    interrupt_at(40)
    server.asked.clear()
    command[-1] = str(tmp_path / "two")
    err = ccat(*command, code=4).err
    assert f"(interrupted); the same command goes on with {command[-1]}" in err
    assert json.loads(ccat(*command, code=code).out)["outcomes"] == expected
    assert set(server.asked.values()) == {1}


def test_a_file_is_read_with_what_stands_beside_it(tmp_path):
    file = tmp_path / "new.yaml"
    file.write_text("task: t\nbank: b.json\nseed: 3\nmodels: [{model: hf}]")
    (tmp_path / "b.json").touch()
    beside = {"tasks": ("t",), "bank": str(tmp_path / "b.json"), "seed": 3}
    assert without_files([file, "logs"], {"seed": 4}) == (
        [{"model": "hf"}, "logs"],
        {**beside, "seed": 4},
    )


@pytest.mark.long
@pytest.mark.parametrize("budget", [{"items": 20}, {"usd": 0.02}])
def test_a_budget_beside_logs_is_the_live_side_s_alone(bench, server, ccat, budget):
    old = {"bank": None, "budget": {"items": 120}, "stop": "limits"}
    ccat("rank", bench.config(server.url, ["m03", "m05"], name="old", **old), code=(0, 3))
    server.asked.clear()
    entry, found = {"price": {"item": 0.001}}, []
    for limit in ({"max_items": 20}, {"budget": budget}):
        new = bench.config(server.url, ["m06"], name="new", bank=None, entry=entry, **limit)
        command = "compare", bench.run("old") / "m05", new, "--metric", "share", "--json"
        [outcome] = json.loads(ccat(*command, code=(0, 3)).out)["outcomes"]
        found.append(outcome)
    assert [outcome["documents"] for outcome in found] == [20, 20]
    widths = [outcome["high"] - outcome["low"] for outcome in found]
    assert widths[1] < 1.2 * widths[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({}, (0, 3), ""),
        ({"entry": {"price": {"item": 0.001}}}, (0, 3), "Spent $0.01."),
        ({"budget": {"usd": 1}}, (2,), "price of model m06 is unknown"),
    ],
)
def test_dollars_beside_logs_are_those_of_the_live_side(bench, server, ccat, settings, code, words):
    old = {"bank": None, "budget": {"items": 120}, "stop": "limits"}
    ccat("rank", bench.config(server.url, ["m03", "m05"], name="old", **old), code=(0, 3))
    new = bench.config(server.url, ["m06"], name="new", bank=None, max_items=10, **settings)
    said = ccat("compare", bench.run("old") / "m05", new, "--metric", "share", code=code)
    assert words in said.out + said.err
    assert bool(words) == ("$" in said.out + said.err)


def test_messages_of_a_stored_model_are_those_that_a_server_gets():
    api = pytest.importorskip("lm_eval.models.openai_completions")
    lm = api.LocalChatCompletion(base_url="http://none", model="m", tokenizer_backend=None)
    chat = [{"role": "system", "content": "Rëad"}, {"role": "user", "content": "Why?"}]
    ours = PlaceholderLM().apply_chat_template(chat)
    assert ours.encode("utf-8") == lm.apply_chat_template(chat).encode("utf-8")


@pytest.fixture
def asked_otherwise(bench, server, ccat):
    """`compare` of stored answers with a live model, after the task's prompt has changed."""
    old = {"bank": None, "budget": {"items": 80}, "stop": "limits"}
    ccat("rank", bench.config(server.url, ["m03", "m05"], name="old", **old), code=(0, 3))
    bench.rewrite(lambda name, text: text.replace("Repeat the numbers", "Copy the numbers"))
    server.asked.clear()
    return [
        "compare", bench.run("old") / "m05", "--task", TASK, "--metric", "share", "--model",
        "local-completions", "--models", "m05,m09", "--include_path", bench.folder / "tasks",
        "--model_args", f"model=m09,base_url={server.url},tokenizer_backend=none",
    ]  # fmt: skip


@pytest.mark.long
def test_a_stored_run_of_other_prompts_is_refused_before_anything_is_asked(
    asked_otherwise, server, ccat
):
    said = ccat(*asked_otherwise, code=2).err
    doc_id = int(re.search(r"prompt of document (\d+) is", said)[1])
    before = PROMPT.format(id=doc_id)
    now = before.replace("Repeat", "Copy")
    assert f"{doc_id} is {mark_of(before)} in the logs of m05 and {mark_of(now)} in task" in said
    place = next(n for n, (a, b) in enumerate(zip(before, now)) if a != b)
    assert f"from character {place + 1} on '{before[place:][:4]}" in said
    assert f" and '{now[place:][:4]}" in said and "--accept_change prompts" in said
    for kind in ("scoring", "server", "cut"):
        ccat(*asked_otherwise, "--accept_change", kind, code=2)
    assert not server.asked


@pytest.mark.long
def test_accepted_prompts_are_told_on_every_surface_also_of_a_resumed_comparison(
    asked_otherwise, tmp_path, ccat
):
    files = [tmp_path / name for name in ("c.md", "c.xml", "c.html")]
    outputs = [text for file in files for text in ("-o", file)]
    command = [*asked_otherwise, "--accept_change", "prompts", "--run_dir", tmp_path / "versus"]
    for times in (1, 2):
        shown = ccat(*command, *outputs, "--json", code=5)
        said = "accepted: the prompt of document"
        assert any(said in text for text in json.loads(shown.out)["warnings"])
        assert shown.err.count(said) == 1
        assert all(said in file.read_text() for file in files), times
    _, records = read_journal(tmp_path / "versus" / "journal.jsonl")
    [accepted] = [record for record in records if isinstance(record, Accept)]
    assert accepted.change == "prompts" and said in accepted.what[0]


def test_one_model_at_two_addresses_is_called_baseline_and_candidate(monkeypatch, tmp_path):
    sides = [{"model": "hf", "model_args": {"pretrained": "org/m", "revision": r}} for r in "ab"]
    assert _names(sides, (None, None)) == ("baseline", "candidate")
    assert _names(sides, (None, "new")) == ("m", "new")
    assert _names([sides[0], "logs/m"], (None, None)) == ("baseline", "m")
    assert _names([sides[0], "logs/new/."], (None, None)) == ("m", "new")
    assert _names([sides[0], "logs/new/old/.."], (None, None)) == ("m", "new")
    monkeypatch.chdir(tmp_path)
    assert _names([sides[0], "."], (None, None)) == ("m", tmp_path.name)
    with pytest.raises(UsageError, match="both models are called m"):
        _names([{**side, "name": "m"} for side in sides], (None, None))
