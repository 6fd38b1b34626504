"""Several metrics of each answer: one ranking steered by some of them, all of them reported."""

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from task_configs.judge_server import JudgeServer
from worlds.bench import TASK, content_of

from lm_eval_ccat import ItemBank, compare
from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live.plan import make_plan
from lm_eval_ccat.live.result import state
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.live.stored import stored_rankings
from lm_eval_ccat.records import Fail, Tell
from lm_eval_ccat.runs.directory import rebuild

MODELS = ["m01", "m05", "m11"]
SCORING = """\
def process_results(doc, results):
    wanted, given = doc['numbers'].split(), results[0].split()
    right = sum(a == b for a, b in zip(wanted, given))
    judged = float('nan') if doc['id'] % 3 == 0 else right / len(wanted)
    return {'share': right / len(wanted), 'errors': len(wanted) - right, 'judged': judged}
"""
METRICS = """\
metric_list:
  - {metric: share, aggregation: mean, higher_is_better: true}
  - {metric: errors, aggregation: mean, higher_is_better: false}
  - {metric: judged, aggregation: mean, higher_is_better: true}
metadata:
  version: 1.0
  ccat_scales: {share: {range: [0, 1]}, errors: {range: [0, 10]}, judged: {range: [0, 1]}}
"""


@pytest.fixture
def several(bench, tmp_path):
    """The bench with a task that reports three metrics; its judge fails on every third document."""
    tasks = tmp_path / "several"
    tasks.mkdir()
    source = (tmp_path / "tasks" / f"{TASK}.yaml").read_text()
    (tasks / f"{TASK}.yaml").write_text(source[: source.index("metric_list:")] + METRICS)
    (tasks / "scoring.py").write_text(SCORING)
    return replace(bench, base={"bank": None, "harness": {"include_path": "several"}})


@pytest.fixture
def judged_by(several, tmp_path, monkeypatch):
    """Scores the task by a judge that replies as a script says."""

    @contextmanager
    def judge(script):
        with JudgeServer(script) as server:
            about = f"model: j\nbase_url: {server.base_url}\nprompt: prompt.txt\n"
            (tmp_path / "judge.yaml").write_text(f"{about}retries: 0\ncache: false\n")
            (tmp_path / "prompt.txt").write_text("Rate $question: $answer")
            monkeypatch.setenv("CCAT_JUDGE", str(tmp_path / "judge.yaml"))
            (tmp_path / "several" / "scoring.py").write_text(JUDGED)
            yield

    return judge


def answered(several, model):
    book = rebuild(several.run())
    return [item[1] for name, item in book.answers if name == model]


def estimates(content, metric):
    return {m: b["estimate"] for m, b in content["outcomes"][metric]["models"].items()}


@pytest.mark.long
def test_every_metric_is_estimated_and_those_with_weight_steer(several, server, ccat, capsys):
    weights = {"share": 1, "errors": 0, "judged": 0}
    content = several.ranked(server, MODELS, metrics=weights, budget={"items": 120})
    shown = capsys.readouterr().out
    assert list(content["outcomes"]) == ["share", "errors", "judged"]
    assert [o["weight"] for o in content["outcomes"].values()] == [1.0, 0.0, 0.0]
    for model, block in content["models"].items():
        share, errors, judged = (o["models"][model] for o in content["outcomes"].values())
        # What steers is what the ranking is by, and errors are ten times what is missing of it.
        assert share["estimate"] == pytest.approx(block["estimate"])
        assert errors["estimate"] == pytest.approx(10 - 10 * block["estimate"])
        assert errors["standard_error"] == pytest.approx(10 * block["standard_error"])
        # An answer whose judge failed still gives its other scores.
        judgeable = [d for d in answered(several, model) if d % 3]
        assert judged["n_items"] == len(judgeable) < share["n_items"] == block["n_items"]
    # What holds at every look of the ranking holds of the metric that it is by.
    assert content["outcomes"]["share"]["pairwise"] == content["pairwise"]
    assert content["order"] == content["outcomes"]["errors"]["order"]
    assert "By errors: m11" in shown and "(reported)" in shown

    # The verdict of `compare` is of what steered, the others are reported; --metric picks one.
    asked = ["compare", several.run(), several.run(), "--models", "m01,m11"]
    assert "errors (reported; 0 to 10, lower is better), in full runs of" in ccat(*asked).out
    of = estimates(content, "errors")
    for metrics, decisive in (([], ["share"]), (["--metric", "errors"], ["errors"])):
        found = json.loads(ccat(*asked, *metrics, "--json").out)["outcomes"]
        listed = {o["metric"]: o for o in found}
        assert list(listed) == (decisive if metrics else list(weights))
        assert [m for m, one in listed.items() if one["decisive"]] == decisive
        one = listed["errors"]
        assert (one["baseline"], one["candidate"]) == (of["m01"], of["m11"])
        assert one["verdict"] == "better"
    # Of the run as a whole the audit asks which metric is meant.
    err = ccat("verify", several.run(), "--full", "nowhere", code=2).err
    assert "name one with --task and --metric" in err


@pytest.mark.long
def test_a_mean_of_a_capped_and_other_metrics_reads_as_a_sentence(several, server, tmp_path):
    task = tmp_path / "several" / f"{TASK}.yaml"
    task.write_text(task.read_text().replace("errors: {range: [0, 10]}", "errors: {cap: 9}"))
    content = several.ranked(server, MODELS, metrics=["share", "errors"], budget={"items": 60})
    assert content["estimand"].startswith(
        "Estimates are of the weighted mean of the mean share and the mean errors, each "
        "document's score capped at 9, each on [0, 1], over all "
    )


@pytest.mark.long
def test_scores_that_nobody_asked_for_stand_in_the_result_at_no_request(several, server, capsys):
    content = several.ranked(server, MODELS, metrics=["share"], budget={"items": 120})
    shown, run = capsys.readouterr().out, several.run()
    assert set(content["further"]) == {"errors,none", "judged,none"} and "outcomes" not in content
    assert max(server.asked.values()) == 1
    for model, block in content["models"].items():
        errors = content["further"]["errors,none"]["models"][model]
        assert errors["estimate"] == pytest.approx(10 - 10 * block["estimate"])
        filed = next(run.glob(f"{model}/results_*.json"))
        values = json.loads(filed.read_text())["results"][TASK]
        assert values["errors,none"] == pytest.approx(errors["estimate"])
    assert "errors,none" in shown and "By errors" not in shown
    assert state(run).content["further"] == content["further"]
    # Of an earlier state of the run nobody has computed them.
    earlier = state(run, content["last_line"] - 1)
    assert earlier.last_line == content["last_line"] - 1 and not earlier.further
    # What the ranking is by decides alone, and the sentence says at which looks intervals hold.
    assert content["looks"] == "every" and "intervals hold at every look" in " ".join(shown.split())


@pytest.mark.long
def test_the_harness_files_hold_an_estimate_of_every_metric(several, server, ccat):
    both = ["share", "errors"]
    content = several.ranked(server, MODELS, metrics=both, budget={"items": 90})
    ccat("verify", several.run())  # each metric's samples are what the journal has of it
    [file] = (several.run() / "m05").glob("results_*.json")
    saved = json.loads(file.read_text())
    for name, outcome in content["outcomes"].items():
        assert saved["results"][TASK][f"{name},none"] == outcome["models"]["m05"]["estimate"]
        error = outcome["models"]["m05"]["standard_error"]
        assert saved["results"][TASK][f"{name}_stderr,none"] == error
    # The metric that nobody asked for costs nothing, and is estimated beside them.
    assert saved["adaptive"][TASK]["not_estimated"] == []
    assert saved["results"][TASK]["judged_stderr,none"] > 0
    # Two metrics of one scale each: the ranking is by their weighted mean on [0, 1].
    mean = content["models"]["m05"]["estimate"]
    share, errors = (estimates(content, metric)["m05"] for metric in both)
    assert mean == pytest.approx(0.5 * share + 0.5 * (1 - errors / 10))
    assert content["metric"] == "weighted mean of share, errors"
    assert content["key"] == "weighted mean of share,none and errors,none"
    stored = stored_rankings(several.run())
    assert [
        (r.outcome.metric, r.outcome.filter, r.steers, r.scale.higher_is_better) for r in stored
    ] == [
        ("weighted mean", None, True, True), ("share", "none", False, True),
        ("errors", "none", False, False),
    ]  # fmt: skip
    assert stored[0].content["models"]["m05"]["estimate"] == mean
    assert stored[0].terms == [f"0.5 x {TASK}/share", f"0.5 x {TASK}/errors"]
    # It is never taken for one of its metrics, nor compared with one.
    several.ranked(server, MODELS, metrics=["share"], budget={"items": 60}, name="single")
    for first, metrics in (("rank", {"weighted mean", *both}), ("single", {"share"})):
        outcomes = compare(several.run(first), several.run(), models=("m05", "m11")).outcomes
        found = {o.metric: o.overall.candidate for o in outcomes}
        assert set(found) == metrics
        assert found["share"] == pytest.approx(estimates(content, "share")["m11"])


@pytest.mark.long
def test_adaptive_runs_by_a_metric_of_which_less_is_better_are_compared_in_its_direction(
    several, server, tmp_path, ccat
):
    for name in MODELS[::2]:
        about = "--include_path", tmp_path / "several", "--metric", "errors", "--max_items", 30
        ccat(*several.adaptive(server, name, *about, "--output_path", tmp_path / name))
    [found] = compare(tmp_path / "m01", tmp_path / "m11", "errors").outcomes
    assert (found.metric, found.overall.verdict) == ("errors", "better")
    assert found.overall.baseline > found.overall.candidate and found.overall.high < 0.0
    assert compare(tmp_path / "m11", tmp_path / "m01", "errors").exit_code == 5


@pytest.mark.long
def test_a_run_is_completed_although_one_metric_lacks_documents(several, server, ccat):
    several.ranked(server, MODELS, metrics={"share": 1, "judged": 0}, max_items=12)
    said = ccat("complete", several.run(), "--name", "m05").out
    assert f"share,none = {several.truth['m05']:.4g}" in said
    assert "judged,none = " in said, said
    [file] = (several.run() / "full" / "m05").rglob("samples_*.jsonl")
    assert len(file.read_text().splitlines()) == several.n_docs


@pytest.mark.long
def test_each_metric_has_a_bank_or_none_has(several, server, tmp_path, ccat):
    bank = ItemBank.load(tmp_path / "default.bank.json")
    replace(bank, metric="judged").save(tmp_path / "judged.bank.json")
    banks, weights = {"share": "default.bank.json"}, {"share": 1, "judged": 0}
    path = several.config(server.url, MODELS, metrics=weights, bank=banks, name="lacking")
    assert "there is no bank of metric judged" in ccat("rank", path, code=2).err
    assert not server.asked
    banks["judged"] = "judged.bank.json"
    content = several.ranked(server, MODELS, metrics=weights, bank=banks, budget={"items": 60})
    assert "method:default" in content["signature"]
    assert list(content["outcomes"]) == ["share", "judged"]
    assert content["order"][0] == "m11"


@pytest.mark.long
@pytest.mark.parametrize("weights", [{"share": 1, "judged": 0}, {"share": 0, "judged": 1}])
def test_a_judge_that_raises_costs_answers_its_own_score(several, server, judged_by, ccat, weights):
    def refuses_every_third(messages, n):
        number = re.search(r"number (\d+)", messages[0]["content"])
        return (400, "filtered") if int(number[1]) % 3 == 0 else "[[7]]"

    path = several.config(
        server.url, MODELS, metrics=weights, budget={"items": 36}, failures={"share": 1}
    )
    with judged_by(refuses_every_third):
        shown = ccat("rank", path, code=(0, 3, 4))
    assert max(server.asked.values()) == 1
    records = list(JournalFile(several.run() / "journal.jsonl").read_new())
    answers = [record for record in records if isinstance(record, Tell | Fail)]
    assert len(answers) == sum(server.asked.values())
    for record in answers:
        refused = record.item[1] % 3 == 0
        assert set(record.raw) == ({"share"} if refused else {"share", "judged"})
        assert isinstance(record, Fail if refused and weights["judged"] else Tell)
        assert bool(record.unscored) == refused
        assert ("refused: HTTP 400" in str(record)) == refused
    if weights["share"]:
        content = content_of(path)
        for model, block in content["models"].items():
            judged = content["outcomes"]["judged"]["models"][model]
            assert judged["n_items"] == sum(d % 3 > 0 for d in answered(several, model))
            lacking = block["n_items"] - judged["n_items"]
            told = f"{lacking} of {block['n_items']} answers of {model} lack the score of one"
            assert any(told in said for said in content["warnings"]) == (lacking > 0)
            assert (told in shown.out + shown.err) == (lacking > 0)


JUDGED = """\
from lm_eval_ccat.harness.judge import active_judge

def process_results(doc, results):
    wanted, given = doc['numbers'].split(), results[0].split()
    right = sum(a == b for a, b in zip(wanted, given)) / len(wanted)
    rating = active_judge().rate(question=f"number {doc['id']}", answer=results[0])
    return {'share': right, 'errors': 0, 'judged': (rating.score - 1) / 9}
"""


@pytest.mark.long
def test_a_judge_that_never_rates_ends_the_run_after_few_answers(several, server, judged_by, ccat):
    metrics = {"judged": 1, "share": 0}
    path = several.config(server.url, MODELS, metrics=metrics, max_items=30, ahead=1)
    with judged_by(lambda messages, n: "I would rather not say."):
        shown = ccat("rank", path, code=4)
    assert "3 documents failed in a row; last: no rating in what j replied: 'I would rather" in (
        shown.out + shown.err
    )
    assert sum(server.asked.values()) == 6  # the last model has none to compare it to
    assert [model["n_items"] for model in content_of(path)["models"].values()] == [0, 0, 0]


@pytest.mark.long
def test_a_slow_judge_is_told_of_and_its_model_is_neither_asked_again_nor_called_away(
    several, server, judged_by, ccat, monkeypatch
):
    def slow_at_first(messages, n):
        time.sleep(0.0 if n else 2.5)
        return "[[7]]"

    for name, seconds in (("FIRST_PATIENCE", 0.3), ("LEAST_PATIENCE", 0.2), ("SILENCE", 0.6)):
        monkeypatch.setattr(f"lm_eval_ccat.live.channel.{name}", seconds)
    path = several.config(server.url, MODELS, metrics={"judged": 1, "share": 0}, max_items=10)
    with judged_by(slow_at_first):
        err = ccat("rank", path, code=3).err
    assert "scoring it takes long: is a judge away?" in err and "set aside" not in err
    assert max(server.asked.values()) == 1
    assert [model["n_items"] for model in content_of(path)["models"].values()] == [10, 10, 10]


@pytest.mark.long
def test_a_metric_that_is_never_a_number_is_named_as_that(several, server, tmp_path, ccat):
    scoring = tmp_path / "several" / "scoring.py"
    scoring.write_text(SCORING.replace("doc['id'] % 3 == 0", "True"))
    path = several.config(server.url, MODELS, metrics={"judged": 1, "share": 0}, max_items=30)
    assert "reports a judged that is no number" in ccat("rank", path, code=1).err


@pytest.mark.long
def test_a_mistyped_metric_is_corrected_and_the_ranking_begins(several, server, tmp_path, ccat):
    """What got no answer stands in nobody's way; what got one is kept."""
    tasks = tmp_path / "several" / f"{TASK}.yaml"
    stated = tasks.read_text().replace("judged: {", "judgde: {range: [0, 1]}, judged: {")
    tasks.write_text(stated)
    budget = {"items": 40}
    path = several.config(server.url, MODELS, metrics=["share", "judgde"], budget=budget)
    assert "reports no judgde" in ccat("rank", path, code=1).err
    assert several.ranked(server, MODELS, metrics=["share"], budget=budget)["models"]
    assert "already holds a ranking" in ccat("rank", path, code=1).err


def test_an_item_is_offered_that_one_of_the_weighted_metrics_keeps(several, server):
    config = several.config(server.url, MODELS, metrics={"share": 1, "errors": 2, "judged": 0})
    plan = make_plan(Spec.read(config))
    keeps = {"share": [0, 3], "errors": [3, 5], "judged": [7]}
    outcomes_by_task = {
        name: replace(
            outcome, bank=replace(outcome.bank, kept=np.isin(np.arange(120), keeps[name]))
        )
        for name, outcome in plan.outcomes_by_task[TASK].items()
    }
    assert replace(plan, outcomes_by_task={TASK: outcomes_by_task}).offered == [
        (TASK, n) for n in (0, 3, 5)
    ]


@pytest.mark.long
def test_the_margin_of_live_models_is_on_the_scale_of_their_metric(several, server):
    """These two differ by less than half an error of ten; it takes many answers to know."""
    sides = [
        {"name": f"{name} {k}", "model": "local-completions", "model_args": {
            "model": name, "base_url": server.url, "tokenizer_backend": "none"}}
        for k, name in enumerate(("m05", "m04"))
    ]  # fmt: skip
    folder = str(several.folder / "several")
    found = compare(*sides, "errors", 0.5, task=TASK, harness={"include_path": folder})
    [one] = found.outcomes
    truth = 10 * (several.truth["m05"] - several.truth["m04"])
    assert 0.3 < truth < 0.5 and one.overall.documents > 20
    assert (found.verdict, found.exit_code) != ("not known", 3) and found.exit_code == 0
