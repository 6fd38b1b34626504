"""Banks for every task and metric of some logs at once; every command takes their folder."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.testing.methods import example_table
from lm_eval_ccat.upkeep.score_tables import names_one_task, outcomes_meant
from lm_eval_ccat.upkeep.words import (
    facts_of_suite,
    page_of,
    report,
    reveals,
    suite_in_one_line,
)

TABLE = example_table()
TASKS = ("suite_a", "suite_b", "suite_c")


def test_an_old_bank_in_a_list_has_its_age_and_terms_and_no_advice():
    terms = {"license": "mit", "prompts": "published elsewhere"}
    old = replace(ItemBank.blank(range(3)), made="2020-01-01", provenance=terms)
    line = suite_in_one_line(facts_of_suite(SuiteBank({"t": old})))
    start, _, end = line.partition("made on 2020-01-01, ")
    assert start == "t, score, 3 items, 0 models (sample), "
    days, _, rest = end.partition(" ")
    assert int(days.replace(",", "")) > 365
    assert rest == "days ago, licence mit, prompts published elsewhere"


def test_a_suite_in_a_list_is_as_old_as_its_oldest_bank_and_names_every_licence():
    banks = {
        task: replace(ItemBank.blank(range(3), task=task), made=made, provenance={"license": terms})
        for task, made, terms in (("t", "2021-05-01", "mit"), ("u", "2020-01-01", "cc-by-4.0"))
    }
    line = suite_in_one_line(facts_of_suite(SuiteBank(banks)))
    assert "made on 2020-01-01" in line and line.endswith("licence mit; cc-by-4.0")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Logs of three tasks, run as a group with a subgroup, and the suite of two of them.

    The items of `suite_b` are those of `suite_a` backwards; `suite_c` has a metric that is the same
    everywhere.
    """
    place = tmp_path_factory.mktemp("suite")
    for j, model in enumerate(TABLE.models):
        folder, date = place / "logs" / model, f"2025-01-01T00-00-{j:02}.000000"
        folder.mkdir(parents=True)
        keys = {"acc,none": 0.5}
        results = {
            "model_name": model,
            "results": {"suite_a": keys, "suite_b": keys, "suite_c": {**keys, "flat,none": 0.5}},
            "group_subtasks": {"suite": ["suite_sub", "suite_c"], "suite_sub": TASKS[:2]},
        }
        (folder / f"results_{date}.json").write_text(json.dumps(results))
        for task in TASKS:
            scores = TABLE.scores[j][:: -1 if task == "suite_b" else 1].tolist()
            rows = [
                {"doc_id": i, "filter": "none", "metrics": ["acc"], "acc": x, "flat": 0.5}
                for i, x in enumerate(scores)
            ]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / f"samples_{task}_{date}.jsonl").write_text(text)
    make = calibrating(place, "suite", "suite_sub", "--keep_scores", "--metric", "acc")
    assert main(make) == 0
    return place


def calibrating(place, out, task, *more):
    line = ["calibrate", place / "logs", "--method", "paper", "-o", place / out, "--task", task]
    return list(map(str, [*line, *more]))


def json_of(capsys, *line, code=0):
    capsys.readouterr()
    assert main([*map(str, line), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_metric_is_meant_by_any_of_the_names_given(place):
    found = outcomes_meant(place / "logs", ["suite_a", "suite_c"], ["ac*", "flat"], None)
    named = [(outcome.task, outcome.metric) for outcome in found]
    assert named == [("suite_a", "acc"), ("suite_c", "acc"), ("suite_c", "flat")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "metric", "members", "lacking"),
    [
        ("suite", "acc", TASKS, []),
        ("suite_c,suite_[ab]", "a*", ("suite_c", *TASKS[:2]), []),
        ("*", "*", TASKS, ["suite_c flat"]),
    ],
)
def test_a_group_a_list_and_a_pattern_make_one_suite(place, capsys, task, metric, members, lacking):
    line = calibrating(place, "banks", task, "--metric", metric)
    made = json_of(capsys, *line, code=3 if lacking else 0)
    suite = SuiteBank.load(place / "banks")
    assert {(task, outcome) for task, outcome, _ in suite.banks()} == {(t, "acc") for t in members}
    assert tuple(made["tasks"]) == tuple(suite) == members and made["without_bank"] == lacking
    one, two = (suite[t]["acc"].parameters["difficulty"] for t in TASKS[:2])
    assert one == pytest.approx(two[::-1]) and suite["suite_a"]["acc"].made


@pytest.mark.long
def test_one_task_is_one_bank_without_the_models_that_are_excluded(place, capsys):
    for more, names in (([], TABLE.models), (["--exclude", "m00,m11"], TABLE.models[1:-1])):
        assert main(calibrating(place, "one.json", "suite_b", *more)) == 0
        bank = ItemBank.load(place / "one.json")
        assert (bank.task, set(bank.models)) == ("suite_b", set(names))
        capsys.readouterr()
        assert main(["bank", "show", str(place / "one.json")]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert f" models {len(names)}: m" in shown and " method paper " in shown
        assert f" age made on {bank.made}, today " in shown


@pytest.mark.parametrize(
    ("task", "more", "code", "says"),
    [
        ("suite_b", ["--exclude", "m77"], 2, "m77"),
        ("suite_a,nowhere", [], 2, "no task, pattern or group 'nowhere'"),
        ("suite_*", [], 2, "task suite_c reports acc, flat; name one (--metric)"),
        ("suite*", ["--metric", "flat"], 2, "no outcome could be calibrated"),
        ("suite*,suite_a", ["--metric", "flat"], 2, "of 1 task (suite_a reports acc)"),
        ("suite_a,suite*", ["--metric", "flat"], 2, "of 1 task (suite_a reports acc)"),
        ("suite", ["--metric", "flat"], 2, "of 2 tasks (suite_a reports acc, suite_b reports acc)"),
    ],
)
def test_what_makes_no_bank_is_told_in_one_line(place, capsys, task, more, code, says):
    assert main(calibrating(place, "none", task, *more)) == code
    assert says in capsys.readouterr().err


def test_a_group_of_which_a_task_was_not_run_is_refused_by_its_name(place, tmp_path, capsys):
    shutil.copytree(place / "logs", tmp_path / "logs", ignore=shutil.ignore_patterns("*suite_c*"))
    assert main(calibrating(tmp_path, "none", "suite")) == 2
    assert "no scores of 1 of the 3 tasks of suite, suite_c" in capsys.readouterr().err


@pytest.mark.long
def test_filters_of_one_metric_have_a_bank_each(tmp_path, capsys):
    for name in ("strict", "loose"):
        replace(TABLE, task="t", filter=name).write(tmp_path / f"{name}.csv")
    line = ["calibrate", str(tmp_path), "--method", "paper", "--metric", "*"]
    told = json_of(capsys, *line, "-o", tmp_path / "out")["tasks"]["t"]
    banks, filters = SuiteBank.load(tmp_path / "out")["t"], {"strict", "loose"}
    assert {o: bank.filter for o, bank in banks.items()} == {f"toy,{f}": f for f in filters}
    assert {o: facts["filter"] for o, facts in told.items()} == {f"toy,{f}": f for f in filters}
    assert main(["bank", "show", str(tmp_path / "out")]) == 0
    assert "2 banks of 1 task\n" in capsys.readouterr().out


def test_a_metric_that_lacks_the_filter_which_is_named_has_its_own(place):
    [outcome] = outcomes_meant(place / "logs", ["suite_a"], ["acc"], "strict")
    assert (outcome.metric, outcome.filter) == ("acc", "none")


def test_each_of_two_metrics_is_taken_by_the_filter_named_or_by_its_own(tmp_path):
    date = "2025-01-01T00-00-00.000000"
    logged = [("acc", "none"), ("exact_match", "flexible"), ("exact_match", "strict-match")]
    keys = {f"{metric},{name}": 0.5 for metric, name in logged}
    results = {"model_name": "m", "results": {"t": keys}}
    (tmp_path / f"results_{date}.json").write_text(json.dumps(results))
    rows = [{"doc_id": 0, "filter": name, "metrics": [m], m: 0.5} for m, name in logged]
    (tmp_path / f"samples_t_{date}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    meant = outcomes_meant(tmp_path, ["t"], ["acc", "exact_match"], "strict-match")
    assert {(outcome.metric, outcome.filter) for outcome in meant} == {
        ("acc", "none"), ("exact_match", "strict-match"),
    }  # fmt: skip


def test_two_tasks_are_one_only_where_one_is_named(tmp_path):
    for task in ("one", "two"):
        replace(TABLE, task=task).write(tmp_path / f"{task}.csv")
    named = {None: False, "one": True, "one,two": False, "o*": False}
    assert {text: names_one_task(tmp_path, text) for text in named} == named
    assert names_one_task(tmp_path / "one.csv", None)


@pytest.mark.long
def test_the_report_gives_models_the_means_that_a_ranking_estimates():
    raw = 3 * (1 - TABLE.raw)
    table = ScoreTable.from_arrays(raw, TABLE.models, metric="ter", scale=Scale(cap=1))
    means = report(table, calibrate(table, "paper"))["models"]
    assert means == pytest.approx(dict(zip(TABLE.models, np.minimum(raw, 1).mean(axis=1))))
    assert list(means.values()) == sorted(means.values())  # the best first


def test_a_page_says_what_the_bank_is_and_what_it_reveals():
    bank = calibrate(TABLE, "paper", keep_scores=True)
    page = page_of(SuiteBank({"t": bank}), "cc-by-4.0")
    assert "license: cc-by-4.0" in page and bank.sha256 in page and "m03" in page
    assert any("every score of 12 models" in one for one in reveals(bank))
    # A name of a model ends no column of the table.
    named = replace(bank, models=("a|b", *bank.models[1:]), observations=())
    assert r"a\|b" in page_of(SuiteBank({"t": named}))
    link = "[x](http://evil)"
    named = replace(named, warnings=(f"models without a score: {link}",))
    page = page_of(SuiteBank({link: named}))
    assert page.count("evil") == 2 and link not in page
    blank = ItemBank.blank([1])
    assert reveals(blank) == [] and "##" not in page_of(SuiteBank({"t": blank}))


# -- every command takes a suite -----------------------------------------------------------------


@pytest.mark.long
def test_a_suite_is_shown_and_checked_bank_by_bank(place, tmp_path, capsys):
    assert set(json_of(capsys, "bank", "show", place / "suite")["tasks"]) == {"suite_a", "suite_b"}
    assert main(["bank", "show", str(place / "suite")]) == 0
    shown = capsys.readouterr().out
    assert "2 banks of 2 tasks" in shown and "suite_b acc: paper, " in shown
    assert shown.count("; trust: ") == 2
    assert json_of(capsys, "bank", "check", place / "suite", "--scores", place / "logs")["ok"]
    for task, items in (("suite_a", TABLE.scores), ("suite_b", TABLE.scores[:, :9:-1])):
        table = ScoreTable.from_arrays(items, TABLE.models, metric="acc")
        table.write(tmp_path / f"{task}.parquet")  # which states no task
    line = ["bank", "check", place / "suite", "--scores", tmp_path]
    assert main([*map(str, line)]) == 3
    assert "suite_b acc: 40 items, 12 calibration models" in capsys.readouterr().out
    found = json_of(capsys, *line, code=3)["tasks"]
    assert [found[task]["acc"]["ok"] for task in found] == [True, False]


@pytest.mark.long
def test_a_suite_is_updated_and_its_items_are_retired_by_task(place, tmp_path, capsys):
    make = calibrating(place, "part", "suite_sub", "--exclude", "m00,m05", "--keep_scores")
    assert main([*make, "--metric", "acc"]) == 0
    line = ["bank", "update", place / "part", "--scores", place / "logs", "-o", tmp_path / "t"]
    line = [*map(str, line), "--retire", "suite_b=0,3"]
    assert main(line) == 0
    assert "suite_b acc: 2 models added to 10" in capsys.readouterr().out
    banks = [bank for _, _, bank in SuiteBank.load(tmp_path / "t").banks()]
    assert {len(bank.models) for bank in banks} == {12}
    assert [set(range(TABLE.n_items)) - set(bank.doc_ids) for bank in banks] == [set(), {0, 3}]
    for ids, says in (("0,3", "name its task, too"), ("suite_b=x", "doc_ids are numbers")):
        assert main([*line[:-1], ids]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.long
def test_a_suite_has_forms_that_are_scored_together_and_is_drawn_and_replayed(place, capsys):
    forms, logs = place / "forms", place / "logs"
    made = json_of(capsys, "bank", "form", place / "suite", "--items", 5, "-o", forms)
    assert set(made["tasks"]) == {"suite_a", "suite_b"}
    assert main(["bank", "form", str(forms), str(place / "gone")]) == 2
    assert len(json_of(capsys, "bank", "form", forms, logs)["forms"]) == 2
    # Logs of one of them are enough for it.
    shutil.copytree(logs, place / "few", ignore=shutil.ignore_patterns("samples_suite_b*"))
    assert "suite_a" in json_of(capsys, "bank", "form", forms, place / "few")["estimand"]
    assert main(["report", str(place / "suite"), "--plots", str(place / "plots")]) == 0
    drawn = {f.name for f in place.rglob("*.svg")}
    assert drawn == {"suite_a.acc.svg", "suite_b.acc.svg"}
    line = ["simulate", "--scores", logs, "--task", "suite_sub", "--methods", "random"]
    found = json_of(capsys, *line, "--folds", 2, "--items_per_model", 10, "--metric", "acc")
    assert set(found["settings"]["weights"]) == {"suite_a", "suite_b"}


@pytest.mark.long
def test_a_suite_says_once_what_its_banks_are_warned_of(tmp_path, ccat):
    rng = np.random.default_rng(0)
    scores = (rng.random((8, 40)) < np.linspace(0.2, 0.8, 8)[:, None]).astype(float)
    scores[7] = scores[6]
    names, tasks = [f"m{n}" for n in range(8)], ("a", "b", "c")
    rows = [
        {"model": name, "doc_id": item, "metric": "acc", "score": score, "task": task}
        for task in tasks
        for name, row in zip(names, scores)
        for item, score in enumerate(row.tolist())
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "s.parquet")
    words = ["calibrate", tmp_path / "s.parquet", "--metric", "acc", "-o", tmp_path / "suite"]
    lines = [line for line in ccat(*words).err.splitlines() if "equal scores" in line]
    assert len(lines) == 1 and "3 of 3 (a acc, b acc, c acc): equal scores" in lines[0]
