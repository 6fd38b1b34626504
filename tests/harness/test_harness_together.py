"""A group of tasks under one budget: documents go where the group's score needs them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from local_bench import Copyist

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.harness.estimates import in_words
from lm_eval_ccat.live import adaptive
from lm_eval_ccat.live.adaptive import Adaptive
from lm_eval_ccat.report import write_report
from lm_eval_ccat.report.stored_run import read_run, replayed_course

SIZES = {"short": 12, "long": 36}


@pytest.fixture(scope="module")
def suite(bench):
    """Two tasks of one metric, groups of them, and a bank for each."""
    for name, n in SIZES.items():
        bench.variant(name, lambda lines, n=n: lines[:n], of="texts")
    for weighted in ("true", "false"):
        bench.group(f"both_{weighted}", SIZES, weighted, "chrf")
    bench.bank("texts", "chrf")
    known = ScoreTable.read(bench.folder / "logs" / "texts", metric="chrf").scores
    return bench, {
        name: calibrate(
            ScoreTable.from_arrays(known[:, :n], [*"abcdef"], metric="chrf", task=name), "paper"
        )
        for name, n in SIZES.items()
    }


def run(suite, lm, weighted="true", **options):
    bench, banks = suite
    options = {"bank": banks, "budget": {"items": 18}, "ahead": 1, **options}
    return bench.adaptive([f"both_{weighted}"], lm=lm, **options)


@pytest.mark.long
@pytest.mark.parametrize("weighted", ["true", "false"])
def test_one_budget_for_a_group(suite, weighted, tmp_path):
    options = {"budget": {"items": 14}}
    if weighted == "false":  # banks by name, or the folder of a suite
        SuiteBank(suite[1]).save(tmp_path / "suite")
        options["bank"] = str(tmp_path / "suite")
    lm = Copyist(0.5, "new")
    blocks = run(suite, lm, weighted, **options)["adaptive"]
    counts = {t: blocks[t]["items"] for t in SIZES}
    assert sum(counts.values()) <= 14 and min(counts.values()) >= 4
    assert len(lm.seen) == sum(counts.values())
    # By size three quarters of the weight is on the long one.
    assert (counts["long"] > counts["short"]) is (weighted == "true")
    assert all("budget" in blocks[t]["stopped_because"] for t in SIZES)


def test_a_task_of_which_no_document_was_run_has_no_estimate(suite):
    lm = Copyist(0.7, "new")
    found = run(suite, lm, "false", budget={"usd": 0.5}, price={"item": 0.5})
    [(task, asked)] = [(t, found["adaptive"][t]) for t in SIZES if found["adaptive"][t]["items"]]
    [other] = set(SIZES) - {task}
    block = found["adaptive"][other]
    assert len(lm.seen) == asked["items"] == 1 and "estimate" in asked
    assert "estimate" not in block and block["estimand"].startswith("no estimate of the mean")
    assert not any("chrf" in key for key in found["results"][other])
    whole = found["adaptive"]["both_false"]
    assert whole["estimand"].startswith("no estimate of a score of group both_false")
    assert whole["scores"] == {} and "sentence_chrf,none" not in found["results"]["both_false"]
    says = in_words(block, other)
    assert f"{other}: no estimate, 0 of {SIZES[other]} documents; the budget is used up" in says


@pytest.mark.parametrize("budget", [{"items": 2}, {"usd": 1.0}])
def test_the_first_look_is_at_every_task(suite, budget):
    lm = Copyist(0.7, "new")
    found = run(suite, lm, bank=None, budget=budget, price={"item": 0.5})
    assert [found["adaptive"][task]["items"] for task in SIZES] == [1, 1]


@pytest.mark.long
def test_the_directory_of_a_group_is_read_like_any_other(suite, tmp_path, capsys):
    run(suite, Copyist(0.7, "new"), run_dir=tmp_path / "run")
    assert main(["rank", str(tmp_path / "run"), "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert state["finished"] and set(state["tasks"]) == set(SIZES)
    stored = read_run(tmp_path / "run")
    assert stored.finished and set(stored.banks) == set(SIZES)
    course = replayed_course(stored)
    assert course is not None and course.items[-1] == len(stored.answers) == 18
    page = write_report(tmp_path / "run").read_text()
    assert "The bank of short: " in page and "The bank of long: " in page
    assert "is missing or was changed" not in page


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [("items", 50, 93), ("tokens", 50, 70), ("seconds", 50, 95), ("usd", 50, 98)],
)
def test_a_later_task_gets_what_the_first_left_of_a_budget(monkeypatch, kind, first, second):
    spent = SimpleNamespace(n_answers=7, tokens=30.0, seconds=5.0, usd=2.0)
    alone = [SimpleNamespace(plans=[SimpleNamespace(title=name)], name=name) for name in "ab"]
    plan = SimpleNamespace(spec=SimpleNamespace(save_bank=None))
    options = SimpleNamespace(spec=SimpleNamespace(budget={kind: 100}), run_dir=None)
    shares = []
    monkeypatch.setattr(adaptive, "_joint_tasks", lambda *_: alone)
    monkeypatch.setattr(
        adaptive, "_run", lambda _, of, share, *__: shares.append(share) or {of.name: spent}
    )
    tasks = dict.fromkeys("ab", SimpleNamespace(plan=plan, options=options))
    adaptive.run_tasks(tasks, {}, None)
    assert shares == [{kind: first}, {kind: second}]


def test_a_limit_of_items_is_that_of_each_task():
    options = Adaptive.read({"max_items": 5})
    assert options.spec_for(["a", "b", "c"], {}, "sample").max_items == 15
    assert Adaptive.read({"stop": "limits"}).spec_for(["a"], {}, "sample").max_items is None


@pytest.mark.parametrize("n_tasks", [1, 2, 3])
@pytest.mark.parametrize("items", [3, 8, 40])
def test_a_warm_up_of_several_tasks_leaves_half_of_a_budget_of_items(n_tasks, items):
    names = list("abc"[:n_tasks])
    warmup = Adaptive.read({}).spec_for(names, {"items": items}, "sample").warmup
    # Every task needs an item to have a score at all.
    assert 1 <= warmup and n_tasks * warmup <= max(items if n_tasks == 1 else items / 2, n_tasks)
    limited = Adaptive.read({"max_items": 2}).spec_for(names, {"items": items}, "sample")
    assert limited.warmup == min(2, warmup) and limited.max_items == 2 * n_tasks


@pytest.mark.parametrize("kind", ["usd", "tokens"])
def test_nothing_is_asked_in_advance_of_a_budget_of_which_nobody_knows_how_far_it_goes(kind):
    options = Adaptive.read({"budget": {kind: 5.0}, "price": {"input": 1.0, "output": 1.0}})
    warmups = {
        (n_tasks, method): options.spec_for(list("abc"[:n_tasks]), {kind: 5.0}, method).warmup
        for n_tasks in (1, 2)
        for method in ("sample", "paper")
    }
    assert warmups == {(1, "sample"): 0, (1, "paper"): 0, (2, "sample"): 1, (2, "paper"): 0}


def test_tasks_that_share_a_budget_of_one_model_have_no_pair_to_decide():
    options = Adaptive.read({"stop": "decided", "max_items": 5})
    assert options.spec_for(["a", "b"], {}, "sample").stop == "limits"
    assert options.spec_for(["a"], {}, "sample").stop == "decided"
