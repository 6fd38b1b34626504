"""Several tasks in one ranking: a list, a group with its own weights, one budget, one journal."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from worlds.bench import TASK, Bench, facts

from lm_eval_ccat import ItemBank, Ranker, ScoreTable
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.live.charges import Charges
from lm_eval_ccat.live.identity import estimand_of
from lm_eval_ccat.live.outcomes import banks_of, task_weights
from lm_eval_ccat.live.plan import Plan, make_plan, plan_of_banks
from lm_eval_ccat.live.result import state
from lm_eval_ccat.live.spec import Spec

MODELS = ["m01", "m05", "m11"]
NAMES = ("first", "second", "third")
GROUP = """\
group: {}
task: [{}]
aggregate_metric_list: [{{metric: share, weight_by_size: false}}]
"""


@pytest.fixture
def suite(bench: Bench, tmp_path: Path) -> Bench:
    """The bench's task three times under other names, groups of them, and a suite bank."""
    tasks = tmp_path / "suite"
    tasks.mkdir()
    source = (tmp_path / "tasks" / f"{TASK}.yaml").read_text()
    bank = ItemBank.load(tmp_path / "default.bank.json")
    for name in NAMES:
        (tasks / f"{name}.yaml").write_text(source.replace(f"task: {TASK}", f"task: {name}"))
    for file in (tmp_path / "tasks").glob("*.py"):
        (tasks / file.name).write_text(file.read_text())
    for name, members in (("all_three", "pair, third"), ("pair", "first, second")):
        (tasks / f"{name}.yaml").write_text(GROUP.format(name, members))
    SuiteBank({n: replace(bank, task=n) for n in NAMES}).save(tmp_path / "suite.banks")
    base = {"task": None, "bank": "suite.banks", "budget": {"items": 90}}
    return replace(bench, base={**base, "harness": {"include_path": "suite"}})


def test_a_bank_that_several_tasks_share_is_that_of_the_task_it_names(tmp_path):
    """A cost before anything is asked is not stated where a task has no bank."""
    bank = ItemBank.blank(range(20), task="first", metric="acc")
    bank = replace(bank, provenance={"tokens": {"input": 70.0, "output": 7.0}})
    bank.save(tmp_path / "first.bank.json")
    file = str(tmp_path / "first.bank.json")
    for source in (bank, file, {"acc": bank}):
        assert list(banks_of(source, "first", only_task=False)) == ["acc"]
        assert banks_of(source, "second", only_task=False) == {}
        assert list(banks_of(source, "second")) == ["acc"], "a bank is meant for the only task"
    spec = Spec.read({"bank": file, "models": [{"model": "dummy"}], "budget": {"items": 9}})
    assert plan_of_banks(replace(spec, tasks=("first",))) is not None
    assert plan_of_banks(replace(spec, tasks=("first", "second"))) is None


@pytest.mark.long
@pytest.mark.parametrize("include", [{}, {"include_path": "suite"}])
def test_a_group_may_be_named_by_its_file_beside_its_tasks(suite, server, capsys, include):
    by_name = suite.ranked(server, MODELS, task="all_three", name="by_name")
    file = str(suite.folder / "suite" / "all_three.yaml")
    by_file = suite.ranked(server, MODELS, task=file, name="by_file", harness=include)
    assert facts(by_file) == facts(by_name)
    assert "overrides existing task" not in capsys.readouterr().err


@pytest.mark.long
def test_items_are_said_to_be_of_all_tasks_together(suite, server, capsys):
    suite.ranked(server, MODELS[:2], task="all_three", bank=None, warmup=2, max_items=2)
    assert re.search(r"\. The 3 tasks have 360\.", "".join(capsys.readouterr()))


@pytest.mark.long
def test_a_group_is_ranked_by_its_own_weights_and_shown_with_its_subgroups(suite, server, capsys):
    priced = {"price": {"item": 0.01}}
    content = suite.ranked(server, MODELS, task="all_three", entry=priced)
    shown = capsys.readouterr().out
    assert "group pair" in shown and "average" in shown
    board = {column["name"]: column for column in content["board"]}
    assert list(board) == ["average", "pair", *NAMES]
    assert [board[n]["weight"] for n in NAMES] == pytest.approx([1 / 3] * 3)
    for model in MODELS:
        cells = [board[n]["models"][model] for n in NAMES]
        assert all(not cell["too_few"] for cell in cells)
        found = content["models"][model]
        assert found["estimate"] == pytest.approx(np.mean([c["estimate"] for c in cells]))
        error = np.sqrt(sum(c["standard_error"] ** 2 for c in cells)) / 3
        # Models left out of the banks may err alike in several tasks, which only adds to it.
        assert error <= found["standard_error"] < 2.0 * error
        assert found["standard_error"] == board["average"]["models"][model]["standard_error"]
        both = board["pair"]["models"][model]
        assert both["estimate"] == pytest.approx(np.mean([c["estimate"] for c in cells[:2]]))
        assert found["n_items"] == sum(c["items"] for c in cells)
    # One file of results a model, with the harness's own group table.
    [file] = (suite.run() / "m05").glob("results_*.json")
    written = json.loads(file.read_text())
    assert set(written["groups"]) == {"all_three", "pair"}
    assert set(written["results"]) == {"all_three", "pair", *NAMES}
    # What was in flight at the end may cost a little more; all tasks together cost .17 or so.
    for cost in (written["adaptive"][name]["cost"] for name in NAMES):
        assert 0.0 <= sum(cost["money"].values()) - 0.01 * cost["items"] < 0.04
    for group, column in (("all_three", "average"), ("pair", "pair")):
        scores = written["adaptive"][group]["scores"]
        [[key, score]] = scores.items()
        cell = board[column]["models"]["m05"]
        assert score["estimate"] == pytest.approx(cell["estimate"])
        assert score["standard_error"] == pytest.approx(cell["standard_error"])
        assert written["groups"][group][key] == pytest.approx(cell["estimate"])
    assert sum(block["n_items"] for block in content["models"].values()) <= 90
    assert content["order"][0] == "m11"


@pytest.mark.long
def test_a_list_with_weights_goes_on_after_a_stop_and_reports(suite, server):
    settings = {"tasks": ["pair", "third"], "weights": {"pair": 1, "third": 3}}
    settings |= {"warmup": 2, "stop": "limits"}
    first = suite.ranked(server, MODELS, **settings, budget={"items": 45})
    weights = {c["name"]: c.get("weight") for c in first["board"]}
    assert [weights[n] for n in NAMES] == pytest.approx([1 / 8, 1 / 8, 3 / 4])
    assert state(suite.run()).content["board"] == first["board"]
    asked = sum(server.asked.values())
    more = ["--resume", "--watch"]
    content = suite.ranked(server, MODELS, **settings, budget={"items": 75}, more=more)
    assert 0 < sum(server.asked.values()) - asked <= 30
    assert (suite.run() / "report.html").exists()
    items = [tuple(item) for item in content["models"]["m05"]["items"]]
    # Three quarters of the weight draw more of the budget.
    counts = Counter(task for task, _ in items)
    assert set(counts) == set(NAMES) and len(set(items)) == len(items)
    assert counts["third"] == max(counts.values())
    for name in NAMES:
        assert list((suite.run() / "m05").glob(f"samples_{name}_*.jsonl"))


@pytest.mark.long
def test_tasks_without_a_bank_are_sampled_and_few_items_are_called_so(suite, server):
    for n, too_few in ((4, True), (5, False)):
        settings = {"bank": None, "budget": {"items": 6 * n}, "warmup": n, "name": f"by{n}"}
        found = suite.ranked(server, MODELS, tasks=["first", "second"], **settings)
        cells = [c["models"]["m05"] for c in found["board"] if c["kind"] == "task"]
        assert [(c["items"], c["too_few"]) for c in cells] == [(n, too_few)] * 2
        assert "method:sample" in found["signature"]


@pytest.mark.long
def test_known_models_count_where_they_have_every_task(suite, server, tmp_path, ccat, capsys):
    table = ScoreTable.read(tmp_path / "known.parquet")
    lines = ["model,task,doc_id,metric,score"]
    for name in NAMES:
        for model, row in zip(table.models, table.scores):
            if model == table.models[0] and name == "third":
                continue  # one lacks a task
            lines += [f"{model},{name},{i},share,{x}" for i, x in enumerate(row)]
    (tmp_path / "board.csv").write_text("\n".join(lines))
    by_task = dict.fromkeys(NAMES, "board.csv")
    settings = {"task": "all_three", "stop": "ranks 2", "warmup": 2}
    content = suite.ranked(server, MODELS, known=by_task, **settings)
    known = {m for m, block in content["models"].items() if block["known"]}
    assert known == set(table.models[1:])
    truth = dict(zip(table.models, table.scores.mean(axis=1)))
    for model in known:  # thrice the same scores
        assert content["models"][model]["estimate"] == pytest.approx(truth[model])
    assert content["models"]["m11"]["place"]["models"] == len(MODELS) + len(known)
    # They have no score of single tasks, in print and on the page.
    assert re.search(r"first \(33\.3%\) .* - ", capsys.readouterr().out)
    ccat("report", suite.run())


@pytest.mark.slow
def test_actors_of_ray_are_asked_for_several_tasks(suite, server, ccat, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")  # a cluster of its own, whatever else runs here
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    ray.shutdown()
    settings = {"tasks": ["pair", "third"], "weights": {"pair": 1, "third": 1}, "warmup": 2}
    settings |= {"entry": {"num_cpus": 0.5}, "budget": {"items": 45}}
    try:
        found = suite.ranked(server, MODELS, more=["--executor", "ray"], **settings)
    finally:
        ray.shutdown()
    assert found["order"][0] == "m11" and set(found["models"]) == {"m01", "m05", "m11"}
    board = {column["name"]: column for column in found["board"]}
    assert list(board) == ["average", "pair", *NAMES]
    for model, block in found["models"].items():
        assert block["n_items"] == sum(board[n]["models"][model]["items"] for n in NAMES)
        for name in NAMES:
            assert list((suite.run() / model).glob(f"samples_{name}_*.jsonl"))
    # What actors answered stands in the journal, and the run can be looked into.
    ccat("rank", suite.run(), code=(0, 3))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tasks": ["first", "first"]}, "names 'first' twice"),
        ({"task": "all_three", "weights": {"pair": 1}}, "gives task third no weight"),
        ({"task": "all_three", "weights": {"pair": 1, "first": 2, "third": 1}}, "weight twice"),
        ({"task": "all_three", "weights": {"pear": 1}}, "no such task or group; did you mean pair"),
        ({"task": "first", "weights": "equal"}, "`weights:` is for several tasks"),
        ({"task": "all_three", "bank": "default.bank.json"}, "name a folder"),
        ({"task": "all_three", "bank": {"first": "default.bank.json"}}, "no bank of task second"),
    ],
)
def test_mistakes_are_named_before_anything_is_asked(suite, server, ccat, settings, says):
    path = suite.config(server.url, MODELS, **settings)
    assert says in ccat("rank", path, code=2).err and not server.asked


def test_of_ranked_models_that_calibrated_banks_each_is_told_with_the_tasks_of_these(
    suite, server, tmp_path
):
    bank = ItemBank.load(tmp_path / "default.bank.json")
    both = bank.models[:2]
    banks = dict.fromkeys(NAMES, bank) | {"third": replace(bank, models=bank.models[1:])}
    SuiteBank({task: replace(b, task=task) for task, b in banks.items()}).save(tmp_path / "banks")
    given = Spec.read(suite.config(server.url, MODELS[:2], task="all_three", bank="banks"))
    given = replace(given, models=tuple(replace(m, name=n) for m, n in zip(given.models, both)))
    *told, unknown = make_plan(given).warnings
    assert unknown.startswith("prompts unknown")  # of all three, said once
    assert [text.partition(" too,")[0] for text in told] == [
        f"first, second: the bank was calibrated on {both[0]}, {both[1]}",
        f"third: the bank was calibrated on {both[1]}",
    ]


@pytest.mark.long
def test_many_tasks_begin_with_fewer_items_of_each():
    for n, warmup in {1: 10, 2: 7, 5: 3, 40: 2}.items():
        tasks = {str(task): {} for task in range(n)}
        assert Plan(Spec(), tasks, {}, Charges(Spec())).warmup == warmup
        ranker = Ranker({str(task): ItemBank.blank(range(20)) for task in range(n)}, ["a"])
        assert f"|warmup:{warmup}|" in ranker.result().signature


@pytest.mark.parametrize(
    ("sizes", "weights", "documents", "words"),
    [
        ([3], [], [3], "all 3 documents of a"),
        ([1], [], [1], "the only document of a"),
        # A bank without two of the documents cannot speak of them.
        ([3], [], [5], "the bank's 3 of 5 documents of a"),
        ([3, 9], [], [3, 9], "all 12 documents of a, b"),
        ([3, 9], [0.25, 0.75], [3, 9], "all 12 documents of a, b"),
        # The mean of two tasks' means is no mean over their documents.
        ([3, 9], [1, 1], [3, 9], "all 12 documents of a, b, where all tasks weigh the same"),
        ([4, 4], [1, 3], [4, 5], "the banks' 8 of 9 documents of a, b, where tasks weigh 25%, 75%"),
    ],
)
def test_a_result_says_over_which_documents_it_is_a_mean(sizes, weights, documents, words):
    outcomes, sessions = {}, {}
    for task, size, n_documents in zip("ab", sizes, documents):
        outcome = Outcome.of(ItemBank.blank(range(size), task=task, metric="acc"))
        outcomes[task], sessions[task] = (
            {"acc": outcome},
            SimpleNamespace(doc_ids=range(n_documents)),
        )
    for question, sampled, begins in (
        ("benchmark", False, "Estimates are of the mean acc over "),
        ("benchmark", True, "Estimates are of the expected mean acc as configured, over "),
        ("run", True, "Estimates are of the mean acc over "),
    ):
        spec = Spec(question=question)
        plan = Plan(spec, outcomes, sessions, Charges(spec), weights=dict(zip("ab", weights)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Plan, "sampled", sampled)
            assert estimand_of(plan) == begins + words


def test_weights_are_written_on_a_command_line_as_in_yaml():
    for text in ("equal", "documents"):
        assert Spec.read({"weights": text}).weights == text
    weights = Spec.read({"weights": "leaderboard=math=0.5, b=1"}).weights
    assert weights == {"leaderboard=math": 0.5, "b": 1.0}


@pytest.mark.long
def test_earlier_answers_to_some_of_the_tasks_are_taken(suite, server, capsys):
    suite.ranked(server, MODELS, task="first", budget={"items": 30}, name="earlier")
    earlier = str(suite.run("earlier"))
    settings = {"tasks": ["first", "second"], "budget": {"items": 60}}
    content = suite.ranked(server, MODELS, **settings, more=["--prior", earlier])
    assert sum(block["from_prior"] for block in content["models"].values()) > 0
    said = f"{earlier} has no answers to second; all its documents are asked"
    assert said in capsys.readouterr().err


@pytest.mark.long
def test_what_is_observed_of_several_tasks_is_kept_in_a_folder_that_grows(
    suite, server, tmp_path, capsys, ccat
):
    kept, sampled = tmp_path / "kept", {"bank": None, "budget": {"items": 66}}
    sampled["save_bank"] = str(kept)
    content = suite.ranked(server, MODELS, **sampled, tasks=["first", "second"])
    assert "Saved 3 models to" in capsys.readouterr().err
    found = SuiteBank.load(kept)
    assert list(found) == ["first", "second"] and found.method == "sample"
    models = content["models"]
    for task, outcome, bank in found.banks():
        assert (outcome, bank.task, bank.models) == ("share", task, tuple(MODELS))
        for one in bank.observations:
            had = [d for t, d in models[one.model]["items"] if t == task]
            draws = {d: p for (t, d), p in models[one.model]["draws"] if t == task}
            assert sorted(bank.doc_ids[i] for i in one.items) == sorted(had)
            assert one.chosen == "drawn" and one.probabilities is not None
            assert one.probabilities.tolist() == [draws[bank.doc_ids[i]] for i in one.items]
    # The next ranking takes it, of one of the tasks and a new one: what is not asked stays.
    suite.ranked(server, MODELS, **sampled, tasks=["second", "third"], name="later")
    grown = SuiteBank.load(kept)
    assert set(grown) == set(NAMES)
    assert grown["first"]["share"].sha256 == found["first"]["share"].sha256
    before, after = ([set(o.items.tolist()) for o in s["second"]["share"].observations]
                     for s in (found, grown))  # fmt: skip
    assert all(b <= a for b, a in zip(before, after))
    settings = {"bank": "kept", "tasks": ["first", "third"]}
    suite.ranked(server, MODELS, **{**sampled, **settings}, name="last")
    sampled["save_bank"] = str(suite.folder / "fresh.yaml")
    file = suite.config(server.url, MODELS, **sampled, tasks=["first", "second"], name="fresh")
    err = ccat("rank", file, code=2).err
    assert "is a file, but banks of several tasks need a folder" in err


def test_equal_weights_of_one_group_are_those_of_its_tasks_and_of_several_those_of_groups():
    sizes = {"a": 10.0, "b": 20.0, "c": 70.0}
    inner = {"all": dict.fromkeys(sizes, 1.0), "pair": {"a": 1.0, "b": 3.0}}
    assert task_weights("equal", sizes, inner) == dict.fromkeys(sizes, 1.0)
    assert task_weights("equal", sizes, {"pair": inner["pair"]}) == {"a": 0.25, "b": 0.75, "c": 1.0}
    assert task_weights("", sizes, inner) == inner["all"]
    assert task_weights("", sizes, {"pair": inner["pair"]}) == sizes


@pytest.mark.long
def test_a_task_of_too_few_items_has_no_score_in_a_comparison_either(suite, server, ccat):
    suite.ranked(server, MODELS[:2], bank=None, tasks=["first", "second"], max_items=8)
    run = suite.run()
    board = json.loads((run / "result.json").read_text())["board"]
    cells = {column["name"]: column["models"]["m01"] for column in board}
    assert [cells[task] for task in NAMES[:2]] == [{"items": 4, "too_few": True}] * 2
    told = ccat("compare", run, "--models", "m01,m05", code=3)
    assert told.out.count("scores: ") == 1  # the average's
    for task in NAMES[:2]:
        assert f"{task}/share is left out: too few items (4)" in told.err
    # Whoever names a task gets what there is.
    assert (
        "4 documents" in ccat("compare", run, "--models", "m01,m05", "--task", "first", code=3).out
    )
