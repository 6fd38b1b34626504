"""Repeats from a server: each an answer of its own, killed and resumed, and copies found out."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from live.test_resume import killed, start_rank  # noqa: F401
from worlds.bench import TASK, Bench, content_of, facts, make_bench
from worlds.server import CompletionsServer, trouble

from lm_eval_ccat import ScoreTable, compare
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import RunError
from lm_eval_ccat.live.channel import Channel
from lm_eval_ccat.live.copies import Copies
from lm_eval_ccat.live.result import state
from lm_eval_ccat.records import Item
from lm_eval_ccat.report.following import to_decide
from lm_eval_ccat.report.plain import lines

N_ITEMS, REPEATS = 30, 16
THREE = {"low": 0.35, "mid": 0.45, "high": 0.6}
HARNESS = {"include_path": "tasks", "gen_kwargs": {"temperature": 0.7}}
SETTINGS = {"bank": None, "harness": HARNESS, "repeats": REPEATS}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return make_bench(tmp_path_factory.mktemp("small"), n_docs=N_ITEMS)


@pytest.fixture
def few(small: Bench, tmp_path: Path) -> Bench:
    return small.at(tmp_path)


def drawn(bench: Bench, seeds: bool = True):
    """A model's answer to a prompt depends on model, prompt and seed alone."""
    rows = [json.loads(line) for line in (bench.folder / "tasks/docs.jsonl").open()]
    numbers = {f"Repeat the numbers of document {row['id']}.": row["numbers"] for row in rows}

    def text(model: str, prompt: str, seed: int) -> str:
        key = f"{model} {prompt} {seed if seeds else 0}".encode()
        rng = np.random.default_rng(list(hashlib.sha256(key).digest()[:8]))
        skill = THREE[model] + 0.1 * np.sin(float(prompt.rstrip(".").split()[-1]))
        right = rng.random(10) < skill
        return " ".join(n if r else "0" for n, r in zip(numbers[prompt].split(), right))

    return text


@pytest.fixture
def sampling(few: Bench):
    with CompletionsServer({}) as running:
        running.draws = drawn(few)
        yield running


def answers_in(run: Path) -> list[tuple[str, tuple[int, int]]]:
    """Model, document and repeat of every answer of a journal."""
    records = [json.loads(line) for line in (run / "journal.jsonl").open()]
    items = [(r["model"], r["item"]) for r in records if r["op"] == "tell"]
    return [(m, tuple(item) if isinstance(item, list) else (item, 1)) for m, item in items]


@pytest.mark.long
def test_an_answer_is_a_document_of_its_own_with_a_seed_of_its_own(few, sampling, capsys) -> None:
    content = few.ranked(sampling, list(THREE), (0, 3), **SETTINGS)
    said = capsys.readouterr().out
    assert re.search(r"leads next by +.*answers +$", said, re.M)
    assert re.search(r"(high|mid): chance moves a full run's mean by 0\.\d+", said)
    answers = answers_in(few.run())
    assert max(Counter(answers).values()) == 1 and max(r for _, (_, r) in answers) > 1
    assert {body["seed"] for body in sampling.bodies} >= {1234, 1235}
    assert content["answers_of_benchmark"] == N_ITEMS * REPEATS and content["sampled"]
    assert content["order"] == ["high", "mid", "low"]
    used = content["items_administered"]
    assert used < 0.5 * len(THREE) * N_ITEMS * REPEATS
    # All get the same slots, of which one model may get fewer; the last may be in flight.
    slots = [{slot for m, slot in answers if m == model} for model in THREE]
    fewest, _, most = sorted(slots, key=len)
    assert len(fewest - most) <= 16 < len(fewest & most)
    full = len(THREE) * N_ITEMS * REPEATS
    assert content["share_saved"] == pytest.approx(1.0 - content["asked"] / full)
    saved = f"of {full:,} ({100 * content['share_saved']:.0f}% saved)"
    for text in (content["headline"], " ".join(said.split()), state(few.run()).to_markdown()):
        assert saved in text


@pytest.mark.long
@pytest.mark.parametrize("stated", [0, 1235])
def test_each_repeat_has_a_seed_of_its_own_after_the_one_that_is_stated(
    few, sampling, stated: int
) -> None:
    harness = {**HARNESS, "gen_kwargs": {"temperature": 0.7, "seed": stated}}
    settings = {**SETTINGS, "harness": harness, "repeats": 3, "stop": "limits"}
    few.ranked(sampling, ["low", "mid"], (0, 3), **settings)
    seeds = Counter(body["seed"] for body in sampling.bodies)
    assert seeds == dict.fromkeys((stated, stated + 1, stated + 2), 2 * N_ITEMS)


@pytest.mark.long
def test_a_server_is_sent_temperature_0_whatever_do_sample_says(few, sampling, capsys) -> None:
    def asked(**gen_kwargs) -> dict:
        harness = {"include_path": "tasks", "gen_kwargs": gen_kwargs}
        settings = {**SETTINGS, "harness": harness, "repeats": 2, "stop": "limits"}
        name = "-".join(gen_kwargs)
        return few.ranked(sampling, ["low", "high"], (0, 3), name=name, **settings)

    greedy = asked(do_sample=True)
    assert "at temperature 0 a second answer repeats the first" in capsys.readouterr().err
    assert "sampled" not in greedy and {b["temperature"] for b in sampling.bodies} == {0}
    assert asked(do_sample=False, temperature=0.7)["sampled"]


@pytest.mark.long
def test_a_request_that_fails_is_not_saved(few, sampling, capsys) -> None:
    sampling.mood = trouble("status", 400, of="mid", when=lambda number, _: number < 3)
    settings = {**SETTINGS, "repeats": 2, "stop": "limits"}
    content = few.ranked(sampling, ["low", "mid"], (0, 3), **settings)
    full = 2 * 2 * N_ITEMS
    assert content["asked"] == full - 2 * 3 and content["share_saved"] == 0.0
    assert "saved" not in capsys.readouterr().out


@pytest.mark.long
def test_a_run_of_repeats_answers_no_question_about_single_answers(few, sampling, capsys) -> None:
    few.ranked(sampling, ["low", "high"], (0, 3), **{**SETTINGS, "repeats": 2})
    run = str(few.run())
    assert main(["compare", run, run, "--models", "low,high"]) == 0
    capsys.readouterr()
    assert main(["compare", run, run, "--models", "low,high", "--question", "run"]) == 2
    assert "answers the question 'benchmark', not 'run'" in capsys.readouterr().err


@pytest.mark.long
def test_killed_and_resumed_it_ends_with_one_result(
    few,
    sampling,
    start_rank,  # noqa: F811
) -> None:
    settings = {**SETTINGS, "model_args": {"num_concurrent": 4}}
    calm = few.ranked(sampling, list(THREE), name="calm", **settings)
    sampling.latency = 0.004
    config = few.config(sampling.url, list(THREE), name="killed", **settings)
    killed(start_rank, config)
    answers = answers_in(few.run("killed"))
    assert len(answers) == len(set(answers)) and max(r for _, (_, r) in answers) > 1
    assert facts(content_of(config)) == facts(calm)


@pytest.mark.long
def test_a_journal_of_repeats_is_as_long_as_one_of_as_many_items(
    few, sampling, shared_bench, tmp_path_factory
) -> None:
    def journal_of(bench: Bench, repeats: int) -> tuple[int, int]:
        sampling.draws = drawn(bench)
        settings = {**SETTINGS, "repeats": repeats, "stop": "limits"}
        bench.ranked(sampling, list(THREE), **settings)
        lines = (bench.run() / "journal.jsonl").read_bytes().splitlines()
        records = [json.loads(line) for line in lines]
        # Lines have no spaces between what they hold.
        assert all(len(line) < len(json.dumps(json.loads(line))) for line in lines)
        # How many asks share a record, and how many digits a time has, is up to the machine.
        asks_and_answers = [
            part
            for record in records
            if record["op"] in ("ask", "tell")
            for part in (record["pairs"] if record["op"] == "ask" else [{**record, "seconds": 0}])
        ]
        return len(json.dumps(asks_and_answers)), len(answers_in(bench.run()))

    size, answers = journal_of(few, 4)
    many = shared_bench.at(tmp_path_factory.mktemp("many"))
    size_of_items, as_many = journal_of(many, 1)
    assert answers == as_many == len(THREE) * 4 * N_ITEMS
    # A repeat adds "[", ", r" and "]" to the item of its ask and of its answer, and nothing else.
    assert abs(size - size_of_items) <= 8 * answers


@pytest.mark.long
def test_the_response_cache_answers_no_repeat(few, sampling) -> None:
    cache = {"use_cache": str(few.folder / "responses")}
    settings = {**SETTINGS, "repeats": 3, "stop": "limits", "harness": {**HARNESS, **cache}}
    for name in ("first", "again"):
        few.ranked(sampling, ["low", "mid"], name=name, **settings)
    seeds = Counter(body["seed"] for body in sampling.bodies)
    # Two models, two runs: the cache gives the first answers of the second run, no others.
    assert seeds == {1234: 2 * N_ITEMS, 1235: 4 * N_ITEMS, 1236: 4 * N_ITEMS}


@pytest.mark.long
def test_copies_are_refused_by_the_name_of_their_model(few, sampling, capsys) -> None:
    text = drawn(few, seeds=False)
    sampling.draws = lambda *asked: text(*asked) + " and so it goes on" * 20
    config = few.config(sampling.url, ["low", "mid"], **{**SETTINGS, "stop": "limits"})
    assert main(["rank", str(config)]) == 1
    assert "gives copies, not repeats" in capsys.readouterr().err
    assert len(answers_in(few.run())) < 2 * 2 * N_ITEMS
    assert main(["rank", str(config), "--resume"]) == 1
    assert "gives copies, not repeats" in capsys.readouterr().err
    assert len(answers_in(few.run())) < 2 * 2 * N_ITEMS


@pytest.mark.long
def test_a_run_that_copies_end_keeps_every_answer_that_was_paid(few, sampling, capsys) -> None:
    text = drawn(few, seeds=False)
    sampling.draws = lambda *asked: text(*asked) + " and so it goes on" * 20
    sampling.latency = 0.05
    settings = {**SETTINGS, "stop": "limits", "model_args": {"num_concurrent": 8}}
    config = few.config(sampling.url, ["low", "mid"], **settings)
    assert main(["rank", str(config)]) == 1
    assert re.search("(low|mid) gives copies", capsys.readouterr().err)
    assert len(answers_in(few.run())) == sum(sampling.asked.values())


@pytest.mark.long
def test_copies_are_refused_on_resume_though_some_came_after_the_deciding_answer(
    tmp_path, capsys, monkeypatch
) -> None:
    """The ranking is decided when nine of twelve documents are answered twice."""
    monkeypatch.setattr(Channel, "note_copies", lambda *_: None)  # as of answers on the wire
    bench = make_bench(tmp_path, n_docs=12)
    text = drawn(bench, seeds=False)
    settings = {**SETTINGS, "repeats": 6, "model_args": {"num_concurrent": 8}}
    with CompletionsServer({}, latency=0.02) as server:
        server.draws = lambda *asked: text(*asked) + " and so it goes on" * 20
        config = bench.config(server.url, ["low", "mid"], **settings)
        assert main(["rank", str(config)]) == 0
        twice = [item for model, item in answers_in(bench.run()) if (model, item[1]) == ("mid", 2)]
        shown = state(bench.run())
        assert shown.content["models"]["mid"]["n_items"] == 12 + 9 and len(twice) >= 10
        assert [warned for warned in shown.warnings if warned.startswith("mid gives copies")]
        capsys.readouterr()
        assert main(["rank", str(config), "--resume"]) == 1
    assert "low gives copies, not repeats" in capsys.readouterr().err


@pytest.mark.long
def test_an_adaptive_run_names_the_model_that_gives_copies(few, sampling, ccat) -> None:
    text = drawn(few, seeds=False)
    sampling.draws = lambda *asked: text(*asked) + " and so it goes on" * 20
    flags = ["--repeats", 4, "--budget_items", 100, "--gen_kwargs", "temperature=0.7"]
    assert "mid gives copies" in ccat(*few.adaptive(sampling, "mid", *flags), code=1).err


def noted(*answers: tuple[str, ...]) -> Copies:
    """What a model's answers to documents, pass by pass, say of copies."""
    copies = Copies("m")
    for repeat in range(max(map(len, answers))):
        for document, texts in enumerate(answers):
            if repeat < len(texts):
                copies.note(Item(("t", document, repeat + 1)), [[texts[repeat]]])
    return copies


LONG, OTHER, SHORT = "one two three four five six " * 9, "seven eight nine " * 9, "seven"


def test_copies_are_found_although_some_documents_vary() -> None:
    with pytest.raises(RunError, match="the answers to 10 documents"):
        noted((LONG, OTHER), *[(LONG, LONG)] * 10)
    noted(*[(LONG, OTHER)] * 2, *[(LONG, LONG)] * 10)  # more than a tenth vary
    with pytest.raises(RunError, match="the answers to 18 documents"):
        noted(*[(LONG, OTHER)] * 2, *[(LONG, LONG)] * 18)
    with pytest.raises(RunError):  # a short answer that differs says nothing of long ones
        noted(*[(SHORT, "eight")] * 5, *[(LONG, LONG)] * 10)
    noted(*[(LONG, LONG, OTHER)] * 9, *[(LONG, OTHER, LONG)] * 9)


@pytest.mark.long
def test_a_sampler_that_repeats_half_of_its_long_answers_is_seldom_refused() -> None:
    """The chance that the module states, 2^-10 + 10 2^-11 and what comes after, is .006."""
    rng, refused = np.random.default_rng(3), 0
    for _ in range(2000):
        try:
            noted(*[(LONG, LONG if again else OTHER) for again in rng.random(30) < 0.5])
        except RunError:
            refused += 1
    assert 2 <= refused <= 0.006 * 2000 + 3 * (0.006 * 2000) ** 0.5


@pytest.mark.long
def test_short_copies_are_warned_of(few, sampling, capsys) -> None:
    sampling.draws = drawn(few, seeds=False)
    settings = {**SETTINGS, "repeats": 2, "stop": "limits"}
    content = few.ranked(sampling, ["low", "mid"], (0, 3), **settings)
    kept = [text for text in content["warnings"] if "same short text in every repeat" in text]
    assert [text.split(" with ")[0] for text in kept] == [
        f"{name} answers {few.n_docs} documents" for name in ("low", "mid")
    ]
    said = capsys.readouterr()
    assert all(text in said.out and text not in said.err for text in kept)
    assert state(few.run()).warnings == content["warnings"]


@pytest.mark.long
def test_temperature_0_asks_one_answer_and_says_why(few, sampling, capsys) -> None:
    settings = {**SETTINGS, "harness": {"include_path": "tasks"}}
    content = few.ranked(sampling, ["low", "high"], (0, 3), **settings)
    assert "at temperature 0 a second answer repeats the first" in capsys.readouterr().err
    assert "answers_of_benchmark" not in content
    assert max(r for _, (_, r) in answers_in(few.run())) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeats": 0}, "repeats"),
        ({"budget": {"items": 50}}, "does not pay one pass"),
        ({"max_items": 29}, "max_items 29 does not pay one pass"),
    ],
)
def test_what_repeats_cannot_be(few, sampling, capsys, settings, message) -> None:
    config = few.config(sampling.url, ["low", "high"], **{**SETTINGS, **settings})
    assert main(["rank", str(config)]) in (1, 2)
    assert message in capsys.readouterr().err
    assert not sampling.asked


def side(sampling: CompletionsServer, name: str) -> dict:
    arguments = {"model": name, "base_url": sampling.url, "tokenizer_backend": "none"}
    return {"name": name, "model": "local-completions", "model_args": arguments}


def versus(bench: Bench, *sides, **settings):
    harness = {**HARNESS, "include_path": str(bench.folder / "tasks")}
    settings = {"harness": harness, "repeats": REPEATS, **settings}
    models = (settings.pop("stored", None), None)
    return compare(*sides, "share", task=TASK, models=models, **settings)


@pytest.mark.long
def test_a_live_comparison_counts_documents_and_answers(few, sampling) -> None:
    found = versus(few, side(sampling, "low"), side(sampling, "mid"))
    [outcome] = found.outcomes
    answers = outcome.overall.answers
    assert N_ITEMS < answers < N_ITEMS * REPEATS  # close models take more than one pass
    assert outcome.overall.documents == N_ITEMS and found.verdict == "better"
    assert f"{N_ITEMS} documents, {answers} answers" in lines(found)[0]
    short = versus(few, side(sampling, "low"), side(sampling, "high"))
    # What is not yet decided asks for answers: there are no more documents.
    tied = versus(few, side(sampling, "low"), {**side(sampling, "low"), "name": "same"},
                  max_items=60, seed=3).outcomes[0]  # fmt: skip
    assert tied.overall.verdict in ("not known", "equivalent")
    assert tied.overall.more_documents is None
    assert short.outcomes[0].overall.documents == min(N_ITEMS, short.outcomes[0].overall.answers)


@pytest.mark.long
@pytest.mark.parametrize("of_logs", [1, 3])
def test_logs_of_fewer_answers_limit_a_live_comparison_and_it_says_so(
    few, sampling, of_logs
) -> None:
    old = {**SETTINGS, "repeats": of_logs, "stop": "limits"}
    few.ranked(sampling, ["low", "mid"], name="old", **old)
    sampling.asked.clear()
    candidate = {**side(sampling, "mid"), "name": "new"}
    found = versus(few, few.run("old"), candidate, stored="mid", repeats=4)
    assert {model for model, _ in sampling.asked} == {"mid"}
    assert max(sampling.asked.values()) == of_logs
    overall = found.outcomes[0].overall
    assert overall.documents == N_ITEMS and overall.difference == 0.0  # the same draws
    assert overall.answers == (of_logs * N_ITEMS if of_logs > 1 else None)
    told = "no more than 1 answer to" if of_logs == 1 else "no more than 3 answers to"
    assert any(told in warning for warning in found.warnings)


@pytest.mark.long
def test_earlier_repeats_are_taken_one_by_one(few, sampling) -> None:
    first = few.ranked(
        sampling, ["low", "mid"], name="first", **{**SETTINGS, "repeats": 3, "stop": "limits"}
    )
    table = ScoreTable.read(few.run("first"), partial=True)
    firsts = [json.loads(line) for line in (few.run("first") / "journal.jsonl").open()]
    said = {(r["model"], r["item"]): r["raw"] for r in firsts
            if r["op"] == "tell" and not isinstance(r["item"], list)}  # fmt: skip
    for model, row in zip(table.models, table.raw):
        assert row.tolist() == [said[model, item] for item in table.doc_ids]
    sampling.asked.clear()
    settings = {**SETTINGS, "repeats": 4, "stop": "limits", "prior": "first.run"}
    content = few.ranked(sampling, ["low", "mid"], name="second", **settings)
    for model in ("low", "mid"):
        assert first["models"][model]["n_items"] == content["models"][model]["from_prior"] == 90
    # Only the fourth answers are paid, each once.
    assert sum(sampling.asked.values()) == 2 * N_ITEMS == content["cost"]


@pytest.mark.long
def test_all_answers_of_a_row_of_the_harness_are_earlier_repeats(few, sampling, tmp_path) -> None:
    few.ranked(sampling, ["low"], name="old", **{**SETTINGS, "repeats": 1, "stop": "limits"})
    [samples] = (few.run("old") / "low").glob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    for row in rows:  # as a stock run with `repeats: 3` logs them
        row["resps"] = [[*row["resps"][0], "0", row["doc"]["numbers"]]]
    (few.folder / "logs").mkdir()
    for file in (few.run("old") / "low").glob("results_*.json"):
        (few.folder / "logs" / file.name).write_bytes(file.read_bytes())
    written = "".join(json.dumps(row) + "\n" for row in rows)
    (few.folder / "logs" / samples.name).write_text(written)
    sampling.asked.clear()
    settings = {**SETTINGS, "repeats": 1, "stop": "limits", "prior": {"low": "logs"}}
    once = few.ranked(sampling, ["low"], name="once", **settings)
    assert not sampling.asked and once["models"]["low"]["from_prior"] == N_ITEMS
    content = few.ranked(sampling, ["low"], name="new", **{**settings, "repeats": 3})
    assert not sampling.asked and content["models"]["low"]["from_prior"] == 3 * N_ITEMS
    firsts = [row["share"] for row in rows]
    assert content["models"]["low"]["estimate"] == pytest.approx((np.mean(firsts) + 0.0 + 1.0) / 3)


@pytest.mark.long
def test_an_adaptive_run_counts_its_answers_and_logs_them_all(few, sampling, ccat) -> None:
    out, budget = few.folder / "out", 70
    flags = ["--repeats", 4, "--budget_items", budget, "--gen_kwargs", "temperature=0.7"]
    flags += ["--output_path", out, "--log_samples"]
    said = ccat(*few.adaptive(sampling, "mid", *flags)).out
    assert sum(sampling.asked.values()) == budget
    assert f"30 of 30 documents, {budget} of {4 * N_ITEMS} answers" in said
    assert f"30 of 30 docs, {budget} answers)" in said
    [results] = out.rglob("results_*.json")
    block = json.loads(results.read_text())["adaptive"][TASK]
    assert (block["items"], block["answers"], block["cost"]["items"]) == (30, budget, budget)
    assert f"from {budget} answers to 30 of them" in block["estimand"]
    [samples] = out.rglob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert Counter(len(row["resps"][0]) for row in rows) == {3: 10, 2: 20}
    # The estimate, not the first answers in the samples, is what such a file states.
    found = compare(str(out), str(out))
    overall = found.outcomes[0].overall
    assert overall.candidate == block["estimate"]
    assert (overall.documents, overall.answers) == (30, budget)


@pytest.mark.long
def test_a_budget_of_several_tasks_counts_answers(few, sampling, ccat) -> None:
    few.rewrite(lambda name, text: text)
    yaml = few.folder / "tasks" / f"{TASK}.yaml"
    (yaml.parent / "twin.yaml").write_text(yaml.read_text().replace(TASK, "twin"))
    flags = ["--repeats", 4, "--budget_items", 100, "--gen_kwargs", "temperature=0.7"]
    words = few.adaptive(sampling, "mid", *flags)
    words[words.index(TASK)] = f"{TASK},twin"
    ccat(*words)
    assert sum(sampling.asked.values()) == 100


@pytest.mark.long
@pytest.mark.parametrize(("tasks", "was"), [([TASK], 1), ([TASK], 2), ([TASK, "twin"], 1)])
def test_more_repeats_of_a_resumed_run_are_a_later_horizon(
    few, sampling, capsys, tasks: list[str], was: int
) -> None:
    few.rewrite(lambda name, text: text)
    yaml = few.folder / "tasks" / f"{TASK}.yaml"
    (yaml.parent / "twin.yaml").write_text(yaml.read_text().replace(TASK, "twin"))
    settings = {**SETTINGS, "stop": "limits", "task": ",".join(tasks)}
    few.ranked(sampling, ["low", "mid"], name="grows", **{**settings, "repeats": was})
    grown = few.ranked(sampling, ["low", "mid"], name="grows", more=["--resume"],
                       **{**settings, "repeats": 3})  # fmt: skip
    n_answers = 2 * 3 * N_ITEMS * len(tasks)
    assert sum(sampling.asked.values()) == n_answers
    whole = few.ranked(sampling, ["low", "mid"], name="whole", **{**settings, "repeats": 3})
    assert grown["items_administered"] == whole["items_administered"] == n_answers
    for model, block in whole["models"].items():
        assert Counter(map(str, grown["models"][model]["items"])) == Counter(
            map(str, block["items"])
        )
        assert grown["models"][model]["estimate"] == pytest.approx(block["estimate"])
    assert grown["pairwise"][0]["p"] == pytest.approx(whole["pairwise"][0]["p"])
    assert main(["verify", str(few.run("grows"))]) == 0
    assert main(["rank", str(few.folder / "grows.yaml"), "--resume"]) in (0, 3)
    assert sum(sampling.asked.values()) == 2 * n_answers
    config = few.config(sampling.url, ["low", "mid"], name="grows", **{**settings, "repeats": 2})
    journal = few.run("grows") / "journal.jsonl"
    before = journal.read_bytes()
    assert main(["rank", str(config), "--resume"]) == 2
    number = ", ".join
    falls = f"repeats {number(['3'] * len(tasks))} cannot become {number(['2'] * len(tasks))}"
    assert falls in capsys.readouterr().err
    assert journal.read_bytes() == before and main(["verify", str(few.run("grows"))]) == 0


@pytest.mark.long
def test_repeats_are_asked_in_batches(few, sampling) -> None:
    harness = {**SETTINGS.get("harness", {}), "batch_size": 8}
    settings = {**SETTINGS, "stop": "limits", "repeats": 2, "harness": harness}
    result = few.ranked(sampling, ["low", "mid"], name="batches", **settings)
    assert result["items_administered"] == 2 * 2 * N_ITEMS


def test_a_forecast_of_repeats_counts_answers(few, sampling, ccat) -> None:
    entry = {"price": {"item": 0.01}}
    config = few.config(sampling.url, ["low", "mid"], entry=entry, **SETTINGS)
    said = ccat("plan", config, "--json").out
    content = json.loads(said)
    block = content["models"]["low"]
    assert block["most_items"] == N_ITEMS * REPEATS
    assert block["full_evaluation_cost"] == pytest.approx(0.01 * N_ITEMS * REPEATS)
    assert not content["by_gap"]  # nobody knows how much of what differs is noise
    assert f"to {2 * N_ITEMS * REPEATS} answers, " in ccat("plan", config).out


def test_the_first_answer_after_a_resume_is_no_copy_of_itself() -> None:
    copies = Copies("m")
    for item in range(20):  # the first two answers came before the kill
        copies.note(Item(("t", item, 3)), [[f"a long answer to item {item}, " * 9]])
    for item in range(9):
        copies.note(Item(("t", item, 4)), [[f"a long answer to item {item}, " * 9]])
    with pytest.raises(RunError, match="copies, not repeats"):
        copies.note(Item(("t", 9, 4)), [["a long answer to item 9, " * 9]])


@pytest.mark.long
def test_the_page_of_a_run_counts_documents_once_and_answers_of_all(few, sampling, ccat) -> None:
    content = few.ranked(sampling, ["low", "mid"], **{**SETTINGS, "max_items": 75, "seed": 2})
    ccat("report", few.run())
    page = re.sub(r"<[^>]+>", " ", (few.run() / "report.html").read_text())
    asked, full = content["items_administered"], 2 * N_ITEMS * REPEATS
    assert re.search(rf"answers, of {full} in a full evaluation \(\d+%\)\s+{asked}\s", page)
    assert re.search(r"of 30 documents used\s+30\s", page)
    assert f"as often as allowed, for {N_ITEMS * REPEATS} answers" in page
    close = [{"a": "low", "b": "mid", "likely_items": {"low": 90, "mid": 90}}]
    stopped = "the limit of 75 items per model is reached"
    assert to_decide({**content, "open_pairs": close, "stopped_because": stopped}).endswith(
        f"--max_items {content['models']['low']['n_items'] + 90}"
    )


@pytest.mark.long
def test_a_bank_leads_the_first_pass_of_repeats(few, sampling, ccat) -> None:
    settings = {**SETTINGS, "bank": "default.bank.json", "max_items": 45, "stop": "limits"}
    content = few.ranked(sampling, ["low", "mid"], **settings)
    assert "method:default" in content["signature"]
    assert content["answers_of_benchmark"] == N_ITEMS * REPEATS
    for model in ("low", "mid"):
        repeats = [item for name, item in answers_in(few.run()) if name == model]
        assert sorted(repeats[:N_ITEMS]) == [(i, 1) for i in range(N_ITEMS)]
        assert len(set(repeats)) == 45 and {r for _, r in repeats[N_ITEMS:]} == {2}
    ccat("report", few.run())
    ccat("verify", few.run())


@pytest.mark.long
@pytest.mark.parametrize("bank", [None, "default.bank.json"])
def test_repeats_of_the_task_are_taken_and_told(few, sampling, capsys, bank) -> None:
    few.rewrite(lambda name, text: text + "repeats: 3\n" * name.endswith("yaml"))
    settings = {"bank": bank, "harness": HARNESS, "stop": "limits"}
    content = few.ranked(sampling, ["low", "mid"], **settings)
    assert content["answers_of_benchmark"] == N_ITEMS * 3
    assert max(repeat for _, (_, repeat) in answers_in(few.run())) == 3
    told = "up to 3 answers to a document, which the task states as its repeats"
    assert capsys.readouterr().err.count(told) == 1
    single = few.ranked(sampling, ["low", "mid"], name="single", **settings, repeats=1)
    these = few.ranked(sampling, ["low", "mid"], name="these", **settings, question="run")
    assert "answers_of_benchmark" not in {**single, **these}
    assert "answers to a document" not in capsys.readouterr().err


@pytest.mark.long
def test_a_task_that_needs_all_answers_is_one_item_of_as_many_requests(
    few, sampling, capsys
) -> None:
    majority = """repeats: 3
filter_list:
  - name: vote
    filter: [{function: majority_vote}, {function: take_first}]
"""
    few.rewrite(lambda name, text: text + majority * name.endswith("yaml"))
    settings = {**SETTINGS, "stop": "limits"}
    del settings["repeats"]
    content = few.ranked(sampling, ["low", "mid"], **settings)
    said = "scores its 3 answers to a document together, so a document is one item of 3 requests"
    assert capsys.readouterr().err.count(said) == 1
    assert "answers_of_benchmark" not in content and content["items_administered"] == 2 * N_ITEMS
    assert sum(sampling.asked.values()) == 2 * 3 * N_ITEMS
    config = few.config(sampling.url, ["low", "mid"], name="stated", **settings, repeats=3)
    assert main(["rank", str(config)]) == 2
    assert f"{said}; leave repeats out" in capsys.readouterr().err


@pytest.mark.long
def test_compare_reads_repeats_of_its_files_and_goes_on_from_its_answers(
    few, sampling, interrupt_at, capsys
) -> None:
    files = [str(few.config(sampling.url, [m], name=m, **SETTINGS)) for m in ("low", "mid")]
    command = ["compare", *files, "--metric", "share", "--json", "--run_dir"]
    assert main([*command, str(few.folder / "calm")]) == 0
    expected = json.loads(capsys.readouterr().out)["outcomes"]
    assert expected[0]["answers"] > expected[0]["documents"] == N_ITEMS
    sampling.asked.clear()
    interrupt_at(80)  # in the second pass
    assert main([*command, str(few.folder / "again")]) == 4
    assert main([*command, str(few.folder / "again")]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["outcomes"] == expected


@pytest.mark.long
def test_complete_refuses_a_run_of_repeats_and_limits_ask_them_all(few, sampling, ccat) -> None:
    settings = {**SETTINGS, "repeats": 3}
    few.ranked(sampling, ["low", "high"], **{**settings, "max_items": 40, "stop": "limits"})
    asked = sum(sampling.asked.values())
    assert "asks every document up to 3 times" in ccat("complete", few.run(), code=2).err
    assert sum(sampling.asked.values()) == asked == 80
    few.ranked(sampling, ["low", "high"], more=["--resume"], **{**settings, "stop": "limits"})
    assert sum(sampling.asked.values()) == 2 * 3 * N_ITEMS
