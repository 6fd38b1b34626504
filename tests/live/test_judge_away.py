"""A judge that cannot be asked: answers are kept and paid once, and no model is blamed."""

from __future__ import annotations

import itertools
import json
import re
import time
from contextlib import contextmanager

import pytest
from task_configs.judge_server import JudgeServer
from worlds.bench import TASK, content_of, facts

from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live.result import state
from lm_eval_ccat.records import Drop, Fail, Interrupt, Lost, Tell, Unrated
from lm_eval_ccat.runs.directory import rebuild

MODELS = ["m01", "m05", "m11"]
RATED = """\
from lm_eval_ccat.harness.judge import active_judge

def process_results(doc, results):
    rating = active_judge().rate(question=f"number {doc['id']}", answer=results[0])
    return {'judge_score': rating.score}
"""


@pytest.fixture
def judged(bench, tmp_path, monkeypatch):
    """Has a judge score the bench's task: how well, a script says, which gets the question."""
    monkeypatch.setattr("lm_eval_ccat.harness.judge.rater._LONGEST_PAUSE_IN_RUN", 0.05)
    metric = "metric_list:\n  - {metric: judge_score, aggregation: mean, higher_is_better: true}\n"

    def change(name, text):
        return RATED if name == "scoring.py" else text[: text.index("metric_list:")] + metric

    files = {"scoring.py", f"{TASK}.yaml"}
    bench.rewrite(lambda name, text: change(name, text) if name in files else text)
    (tmp_path / "prompt.txt").write_text("Rate $question: $answer")
    files_of_judges = (tmp_path / f"judge{n}.yaml" for n in itertools.count())

    @contextmanager
    def judge(script, **settings):
        with JudgeServer(script) as server:
            stated = {"retries": 0, "cache": "false", "timeout": 1, **settings}
            about = f"model: j\nbase_url: {server.base_url}\nprompt: prompt.txt\n"
            about += "".join(f"{key}: {value}\n" for key, value in stated.items())
            # Of a file that was read once a process keeps the judge.
            file = next(files_of_judges)
            file.write_text(about)
            monkeypatch.setenv("CCAT_JUDGE", str(file))
            yield server

    return judge


def number_in(messages):
    found = re.search(r"number (\d+)", messages[0]["content"])
    return int(found[1]) if found else 1  # a greeting


def rated_text(messages):
    *_, answer, _ = ["", *messages[0]["content"].splitlines(), ""][:4]
    return answer


def rating(messages, n=0):
    """What the judge says where it is well: by the question and the answer alone."""
    return f"[[{1 + sum(map(ord, rated_text(messages))) % 9}]]"


def records(bench):
    return list(JournalFile(bench.run() / "journal.jsonl").read_new())


def of(bench, *kinds):
    return [record for record in records(bench) if isinstance(record, kinds)]


def config_of(bench, server, **settings):
    priced = {"entry": {"price": {"item": 0.01}}, "max_items": 20, "stop": "limits", "bank": None}
    return bench.config(server.url, MODELS, **{**priced, **settings})


@pytest.mark.long
@pytest.mark.parametrize("trouble", [429, "drop"])
def test_an_outage_of_the_judge_costs_no_item_no_model_and_no_second_answer(
    bench, server, judged, ccat, trouble
):
    outage = []

    def away_for_a_while(messages, n):
        if n >= 15:
            outage.append(time.monotonic())
        if n < 15 or outage[-1] - outage[0] > 0.6:
            return rating(messages)
        if trouble == "drop":
            raise OSError
        return trouble

    with judged(away_for_a_while, retries=1):
        shown = ccat("rank", config_of(bench, server), code=3)
    assert "judge j is back" in shown.err and "set aside" not in shown.err
    assert not of(bench, Fail, Drop, Lost)
    assert set(server.asked.values()) == {1} and len(of(bench, Tell)) == 60


@pytest.mark.long
@pytest.mark.parametrize(
    ("trouble", "killed"), [(500, True), (401, False), ("drop", False), ("hang", True)]
)
def test_a_judge_that_stays_away_ends_the_run_and_a_resumed_one_has_the_answers_rated(
    bench, server, judged, ccat, tmp_path, trouble, killed
):
    def gone(messages, n):
        if n < 15:
            return rating(messages)
        if trouble == "drop":
            raise OSError
        if trouble == "hang":
            time.sleep(3.0)
        return 500 if trouble == "hang" else trouble

    path = config_of(bench, server, failures={"outage_minutes": 0.01})
    with judged(gone) as judge:
        err = ccat("rank", path, code=4).err
    # What was rated is shown, now and later, with what ended it and what to type.
    for partial in (content_of(path), state(bench.run()).content):
        assert partial["interrupted"] and partial["exit_code"] == 4
        assert f"error: {partial['stopped_because']}\n" in err
        assert partial["items_administered"] and partial["asked"] == sum(server.asked.values())
    ccat("verify", bench.run())
    assert re.search(rf"error: judge j at {judge.base_url} .*kept for --resume\n", err)
    assert ("check its `model`, `base_url` and key" in err) == (trouble == 401)
    assert "set aside" not in err
    # Every answer is there, and what it cost; none is a failure, none is lost.
    kept = of(bench, Unrated)
    assert len(kept) == sum(server.asked.values()) > len(of(bench, Tell))
    assert not of(bench, Fail, Drop, Lost)
    tally = rebuild(bench.run()).tally
    assert sum(tally.money(model)["billed"] for model in MODELS) == pytest.approx(0.01 * len(kept))
    assert sum(tally.asked.values()) == len(kept)
    journal = bench.run() / "journal.jsonl"
    if killed:
        lines = journal.read_text().splitlines(keepends=True)
        assert isinstance(records(bench)[-1], Interrupt)
        journal.write_text("".join(lines[:-1]))
    with judged(rating):
        ccat("rank", path, "--resume", code=3)
    assert set(server.asked.values()) == {1} and len(of(bench, Tell)) == 60
    # After a kill nobody knows whether the next item was in flight; one with an answer was not.
    assert not of(bench, Fail, Drop)
    lost = of(bench, Lost)
    assert {attempt.why for attempt in lost} <= ({"killed"} if killed else set())
    assert {(attempt.model, attempt.item) for attempt in lost}.isdisjoint(
        answer.pair for answer in kept
    )
    resumed = content_of(path)
    for model in resumed["models"].values():
        assert model["money"]["billed"] == pytest.approx(0.2)
    ccat("verify", bench.run())
    # Nothing but the time that it took tells the run from one whose judge was always there.
    with judged(rating):
        other = config_of(bench, server, name="other", failures={"outage_minutes": 0.01})
        ccat("rank", other, code=3)
    assert facts(resumed) == facts(content_of(other))


@pytest.mark.long
def test_a_question_that_the_judge_alone_fails_on_ends_no_run(bench, server, judged, ccat):
    """Its server answers others meanwhile: it is there, and the question is to blame."""

    def fails_on_some(messages, n):
        return 500 if number_in(messages) % 4 == 0 else rating(messages)

    with judged(fails_on_some):
        ccat("rank", config_of(bench, server, failures={"share": 1}), code=3)
    failed = {record.item.doc_id for record in of(bench, Fail)}
    assert failed and all(doc_id % 4 == 0 for doc_id in failed)
    assert not of(bench, Drop, Lost) and set(server.asked.values()) == {1}


@pytest.mark.long
def test_a_judge_that_cannot_read_a_fifth_of_the_answers_costs_no_model(
    bench, server, judged, ccat
):
    """A few in a row of these are chance."""

    def cannot_read_a_fifth(messages, n):
        return "I cannot say." if number_in(messages) % 5 == 0 else rating(messages)

    settings = {"max_items": 80, "warmup": 10}
    with judged(cannot_read_a_fifth, attempts=1):
        err = ccat("rank", config_of(bench, server, **settings), code=3).err
    assert "set aside" not in err and not of(bench, Drop)


@pytest.mark.long
def test_a_judge_without_its_key_or_field_is_named_and_no_model_is_blamed(
    bench, server, judged, ccat, tmp_path
):
    path = config_of(bench, server)
    with judged(rating, api_key_env="NO_SUCH_KEY"):
        err = ccat("rank", path, code=4).err
    assert "judge j: the environment variable NO_SUCH_KEY" in err and "set aside" not in err
    with judged(rating):
        ccat("rank", path, "--resume", code=3)
    assert set(server.asked.values()) == {1} and not of(bench, Fail, Drop, Lost)


@pytest.mark.long
def test_answers_that_a_killed_run_left_unrated_are_no_failed_start(bench, server, judged, ccat):
    path = config_of(bench, server)
    with judged(lambda messages, n: 401):
        ccat("rank", path, code=4)
    # As a kill before the first rating leaves it: answers, and nothing after them.
    journal = bench.run() / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    assert isinstance(records(bench)[-1], Interrupt)
    journal.write_text("".join(lines[:-1]))
    kept = len(of(bench, Unrated))
    assert kept and not of(bench, Tell)
    with judged(rating):
        assert "continue it with --resume" in ccat("rank", path, code=1).err
        ccat("rank", path, "--resume", code=3)
    assert len(of(bench, Unrated)) >= kept and set(server.asked.values()) == {1}


@pytest.mark.long
def test_answers_that_a_completion_waits_to_have_rated_are_paid_once(bench, server, judged, ccat):
    path = config_of(bench, server, failures={"outage_minutes": 0.01})
    with judged(rating):
        ccat("rank", path, code=3)
    ranked = len(records(bench))
    for n_rated in (10, 30):
        with judged(lambda messages, n, n_rated=n_rated: rating(messages) if n < n_rated else 401):
            err = ccat("complete", bench.run(), "--name", "m05", code=4).err
        [line] = re.findall("error: (judge .*)", err)
        assert line.endswith("all answers are kept for the same command") and len(line) <= 200
    with judged(rating):
        ccat("complete", bench.run(), "--name", "m05")
    assert set(server.asked.values()) == {1} and server.requests("m05") == bench.n_docs
    further = records(bench)[ranked:]
    assert not [record for record in further if isinstance(record, Lost | Fail | Tell)]
    money = rebuild(bench.run()).tally.money("m05")
    assert money["billed"] == pytest.approx(0.01 * bench.n_docs) and not money["unknown"]
    ccat("verify", bench.run())


@pytest.mark.long
def test_a_resumed_run_without_a_cache_has_nothing_rated_twice(
    bench, server, judged, ccat, monkeypatch
):
    path = config_of(bench, server)
    with judged(lambda messages, n: rating(messages) if n < 15 else 401) as judge:
        ccat("rank", path, code=4)
        before, judge.script = len(judge.requests), rating
        assert before > 15
        for command in (("rank", path, "--resume"), ("complete", bench.run())):
            monkeypatch.setattr("lm_eval_ccat.harness.judge._JUDGES", {})  # as in a new process
            ccat(*command, code=(0, 3))
    bodies = [*judge.requests[:15], *judge.requests[before:]]
    asked = [(number_in(body["messages"]), rated_text(body["messages"])) for body in bodies]
    assert len(asked) == len(set(asked)) > 2 * bench.n_docs


@pytest.mark.long
@pytest.mark.parametrize("price", [{"item": 0.0001}, {"input": 1.0, "output": 4.0}])
def test_a_budget_in_dollars_foresees_what_the_judge_costs(bench, server, judged, ccat, price):
    """A rating takes .011; the answers themselves next to nothing."""
    settings = {"entry": {"price": price, "concurrency": 16}, "max_items": 100}
    with judged(rating, price="{input: 100, output: 100}"):
        too_small = config_of(bench, server, budget={"usd": 0.2}, **settings)
        assert (
            "the budget is too small for the first 10 items" in ccat("rank", too_small, code=2).err
        )
        assert not server.asked
        ccat("rank", path := config_of(bench, server, budget={"usd": 0.6}, **settings), code=3)
        plan = ccat("plan", path, code=(0, 3)).out
    assert 0.9 * 0.6 < content_of(path)["money"]["billed"] < 1.1 * 0.6
    assert re.search(r"Every item includes \$0\.01\d* for the judge", plan)


@pytest.mark.long
def test_a_ranking_that_has_ended_waits_for_no_judge(bench, server, judged, ccat):
    """Without a cache, the answers of an earlier session are rated again for the results files."""

    def soon_away(messages, n):
        return rating(messages) if n < 15 else 500

    def away_at_the_end(messages, n):
        return rating(messages) if len(of(bench, Tell)) < 60 else 500

    path = config_of(bench, server, failures={"outage_minutes": 0.01})
    with judged(soon_away):
        ccat("rank", path, code=4)
    with judged(away_at_the_end):
        ccat("rank", path, "--resume", code=3)
    assert len(of(bench, Tell)) == 60 and content_of(path)["items_administered"] == 60


@pytest.mark.long
def test_a_judge_whose_replies_are_cut_off_is_given_more_tokens(bench, server, judged, ccat):
    def thinks_too_long(messages, n):
        choice = {"finish_reason": "length", "message": {"role": "assistant", "content": ""}}
        return json.dumps({"choices": [choice]}).encode()

    with judged(thinks_too_long, attempts=1):
        shown = ccat("rank", config_of(bench, server), code=4)
    why = "no rating in what j replied: '', cut off at its limit of tokens; raise `max_tokens`"
    assert all(why in fail.reason for fail in of(bench, Fail)) and why in shown.err
    assert max(map(len, re.findall("warning: .*set aside.*", shown.err))) <= 200


@pytest.mark.long
def test_a_ranking_by_two_judged_tasks_is_verified(bench, server, judged, ccat):
    with judged(rating):
        path = config_of(bench, server)
        yaml_of = (bench.folder / "tasks" / f"{TASK}.yaml").read_text()
        (bench.folder / "tasks" / "other.yaml").write_text(yaml_of.replace(TASK, "other"))
        path.write_text(path.read_text().replace(f"task: {TASK}", f"tasks: [{TASK}, other]"))
        ccat("rank", path, code=3)
    ccat("verify", bench.run())


@pytest.mark.long
@pytest.mark.parametrize("status", [401, 503])
def test_what_is_said_of_a_judge_with_a_long_address_stays_short(
    bench, server, judged, ccat, status
):
    def gone(messages, n):
        return rating(messages) if n < 15 else (status, "a reason " * 30)

    path = config_of(bench, server, failures={"outage_minutes": 0.01})
    with judged(gone) as judge:
        address = f"{judge.base_url.removesuffix('/v1')}/{'gateway/' * 20}v1"
        file = bench.folder / "long.yaml"
        file.write_text(
            f"model: {'judge-' * 20}\nbase_url: {address}\nprompt: prompt.txt\n"
            "retries: 0\ncache: false\n"
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CCAT_JUDGE", str(file))
            err = ccat("rank", path, code=4).err
    [line] = re.findall("error: (judge .*)", err)
    assert len(line) <= 200 and line.endswith("all answers are kept for --resume")
