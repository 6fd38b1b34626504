"""Several metrics of each answer: one ranking steered by some of them, all of them reported."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from worlds.bench import TASK, Bench, content_of
from worlds.server import CompletionsServer

from lm_eval_ccat import ItemBank, compare
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.live.result import state
from lm_eval_ccat.runs.directory import rebuild
from lm_eval_ccat.runs.journal import JournalFile
from lm_eval_ccat.simulation.audit import all_claims

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
def several(bench: Bench, tmp_path: Path) -> Bench:
    """The bench with a task that reports three metrics; its judge fails on every third document."""
    tasks = tmp_path / "several"
    tasks.mkdir()
    source = (tmp_path / "tasks" / f"{TASK}.yaml").read_text()
    (tasks / f"{TASK}.yaml").write_text(source[: source.index("metric_list:")] + METRICS)
    (tasks / "scoring.py").write_text(SCORING)
    return bench


def config(several: Bench, server: CompletionsServer, metrics: object, **settings: object) -> Path:
    settings = {"bank": None, "harness": {"include_path": "several"}, **settings}
    return several.config(server.url, MODELS, metrics=metrics, **settings)


def ranked(*args: Any, **settings: object) -> tuple[Path, dict[str, Any]]:
    """The run directory and the result of a ranking."""
    path = config(*args, **settings)
    assert main(["rank", str(path)]) in (0, 3)
    return path.with_suffix(".run"), content_of(path)


def answered(run: Path, model: str) -> list[int]:
    book = rebuild(run)
    return [item[1] for name, item in book.answers if name == model]


def estimates(content: dict[str, Any], metric: str) -> dict[str, float]:
    return {m: b["estimate"] for m, b in content["outcomes"][metric]["models"].items()}


def test_every_metric_is_estimated_and_those_with_weight_steer(several, server, capsys):
    weights = {"share": 1, "errors": 0, "judged": 0}
    run, content = ranked(several, server, weights, budget={"items": 120})
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
        judgeable = [d for d in answered(run, model) if d % 3]
        assert judged["n_items"] == len(judgeable) < share["n_items"] == block["n_items"]
    assert content["order"] == content["outcomes"]["errors"]["order"]
    assert "By errors: m11" in shown and "(reported)" in shown

    # The verdict of `compare` is of what steered, the others are reported; --metric picks one.
    asked = ["compare", str(run), str(run), "--models", "m01,m11"]
    assert main(asked) == 0 and "errors (reported), in full runs of" in capsys.readouterr().out
    of = estimates(content, "errors")
    for metrics, decisive in (([], ["share"]), (["--metric", "errors"], ["errors"])):
        assert main([*asked, *metrics, "--json"]) == 0
        listed = {o["metric"]: o for o in json.loads(capsys.readouterr().out)["outcomes"]}
        assert list(listed) == (decisive if metrics else list(weights))
        assert [m for m, one in listed.items() if one["decisive"]] == decisive
        one = listed["errors"]
        assert (one["baseline"], one["candidate"]) == (of["m01"], of["m11"])
        assert one["verdict"] == "better"


def test_scores_that_nobody_asked_for_stand_in_the_result_at_no_request(several, server, capsys):
    run, content = ranked(several, server, ["share"], budget={"items": 120})
    shown = capsys.readouterr().out
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


def test_the_harness_files_hold_an_estimate_of_every_metric(several, server):
    run, content = ranked(several, server, ["share", "errors"], budget={"items": 90})
    [file] = (run / "m05").glob("results_*.json")
    saved = json.loads(file.read_text())
    for name, outcome in content["outcomes"].items():
        assert saved["results"][TASK][f"{name},none"] == outcome["models"]["m05"]["estimate"]
        error = outcome["models"]["m05"]["standard_error"]
        assert saved["results"][TASK][f"{name}_stderr,none"] == error
    # The metric that nobody asked for costs nothing, and is estimated beside them.
    assert saved["adaptive"][TASK]["not_estimated"] == []
    assert saved["results"][TASK]["judged_stderr,none"] > 0
    # Two metrics of one scale each: the ranking is by their weighted mean on [0, 1].
    both = content["models"]["m05"]["estimate"]
    share, errors = (estimates(content, metric)["m05"] for metric in ("share", "errors"))
    assert both == pytest.approx(0.5 * share + 0.5 * (1 - errors / 10))
    assert content["metric"] == "weighted mean of share, errors"
    assert content["key"] == "weighted mean of share,none and errors,none"
    claims = all_claims(run)
    assert [(c.metric, c.filter, c.steers, c.higher_is_better) for c in claims] == [
        ("weighted mean", None, True, True), ("share", "none", False, True),
        ("errors", "none", False, False),
    ]  # fmt: skip
    assert claims[0].models["m05"]["estimate"] == both


def test_a_run_is_completed_although_one_metric_lacks_documents(several, server, capsys):
    run, _ = ranked(several, server, {"share": 1, "judged": 0}, max_items=12)
    assert main(["complete", str(run), "--name", "m05"]) == 0
    said = capsys.readouterr().out
    assert f"share,none = {several.truth['m05']:.4g}" in said
    [file] = (run / "full" / "m05").rglob("samples_*.jsonl")
    assert len(file.read_text().splitlines()) == several.n_docs


def test_each_metric_has_a_bank_or_none_has(several, server, tmp_path, capsys):
    bank = ItemBank.load(tmp_path / "default.bank.json")
    replace(bank, metric="judged").save(tmp_path / "judged.bank.json")
    banks = {"share": "default.bank.json"}
    path = config(several, server, {"share": 1, "judged": 0}, bank=banks, name="lacking")
    assert main(["rank", str(path)]) == 2
    assert "there is no bank of metric judged" in capsys.readouterr().err
    assert not sum(server.asked.values())
    banks["judged"] = "judged.bank.json"
    weights = {"share": 1, "judged": 0}
    _, content = ranked(several, server, weights, bank=banks, budget={"items": 60})
    assert "method:default" in content["signature"]
    assert list(content["outcomes"]) == ["share", "judged"]
    assert content["order"][0] == "m11"


@pytest.mark.parametrize("weights", [{"share": 1, "judged": 0}, {"share": 0, "judged": 1}])
def test_a_judge_that_raises_costs_an_answer_only_its_own_score(
    weights: dict[str, int],
    several: Bench,
    server: CompletionsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    path = config(several, server, weights, budget={"items": 36}, failures={"share": 1})
    # A judge whose server refuses every third question by HTTP 400.
    with judged_by("[[7]]", tmp_path, monkeypatch, refuses=3):
        main(["rank", str(path)])
    shown = capsys.readouterr()
    assert max(server.asked.values()) == 1
    records = JournalFile(path.with_suffix(".run") / "journal.jsonl").read_new()
    answers = [r for r in records if "responses" in r]
    assert len(answers) == sum(server.asked.values())
    for record in answers:
        refused = record["item"][1] % 3 == 0
        assert set(record["raw"]) == ({"share"} if refused else {"share", "judged"})
        assert record["op"] == ("fail" if refused and weights["judged"] else "tell")
        assert bool(record.get("unscored")) == refused
        if refused:
            assert "refused: HTTP 400" in str(record)
    if weights["share"]:
        content = content_of(path)
        for model, block in content["models"].items():
            judged = content["outcomes"]["judged"]["models"][model]
            answers_of = answered(path.with_suffix(".run"), model)
            assert judged["n_items"] == sum(d % 3 > 0 for d in answers_of)
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


@contextmanager
def judged_by(
    reply: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    refuses: int = 10**6,
    seconds: float = 0.0,
) -> Iterator[None]:
    """Score the task by a judge with one reply, which refuses every so many-th question.

    It takes `seconds` for its first reply.
    """
    first = itertools.count()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            number = re.search(r"number (\d+)", asked["messages"][0]["content"])
            assert number is not None
            refused = int(number[1]) % refuses == 0
            time.sleep(0.0 if next(first) else seconds)
            body = json.dumps({"choices": [{"message": {"content": reply}}]}).encode()
            self.send_response(400 if refused else 200)
            self.end_headers()
            self.wfile.write(b"filtered" if refused else body)

        def log_message(self, *_: object) -> None:
            pass

    judge = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=judge.serve_forever, daemon=True).start()
    (folder / "prompt.txt").write_text("Rate $question: $answer")
    url = f"http://127.0.0.1:{judge.server_port}/v1"
    file = folder / "judge.yaml"
    file.write_text(f"model: j\nbase_url: {url}\nprompt: prompt.txt\nretries: 0\ncache: false\n")
    monkeypatch.setenv("CCAT_JUDGE", str(file))
    (folder / "several" / "scoring.py").write_text(JUDGED)
    try:
        yield
    finally:
        judge.shutdown()
        judge.server_close()


def test_a_judge_that_never_rates_ends_the_run_after_a_few_answers(
    several: Bench,
    server: CompletionsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    path = config(several, server, {"judged": 1, "share": 0}, max_items=30, ahead=1)
    with judged_by("I would rather not say.", tmp_path, monkeypatch):
        assert main(["rank", str(path)]) == 4
    shown = capsys.readouterr()
    assert "3 documents failed in a row; last: no rating in what j replied: 'I would rather" in (
        shown.out + shown.err
    )
    assert sum(server.asked.values()) == 6  # the last model has none to compare it to
    models = content_of(path)["models"].values()
    assert [model["n_items"] for model in models] == [0, 0, 0]


def test_a_slow_judge_is_told_of_and_its_model_is_neither_asked_again_nor_called_away(
    several: Bench,
    server: CompletionsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    for name, seconds in (("AT_FIRST", 0.3), ("AT_LEAST", 0.2), ("SILENCE", 0.6)):
        monkeypatch.setattr(f"lm_eval_ccat.live.channel.{name}", seconds)
    path = config(several, server, {"judged": 1, "share": 0}, max_items=10)
    with judged_by("[[7]]", tmp_path, monkeypatch, seconds=2.5):
        assert main(["rank", str(path)]) == 3
    shown = capsys.readouterr()
    assert "scoring it takes long: is a judge away?" in shown.err and "set aside" not in shown.err
    assert max(server.asked.values()) == 1
    assert [model["n_items"] for model in content_of(path)["models"].values()] == [10, 10, 10]


def test_a_metric_that_is_never_a_number_is_named_as_that(
    several: Bench, server: CompletionsServer, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    scoring = tmp_path / "several" / "scoring.py"
    scoring.write_text(SCORING.replace("doc['id'] % 3 == 0", "True"))
    path = config(several, server, {"judged": 1, "share": 0}, max_items=30)
    assert main(["rank", str(path)]) == 1
    assert "reports a judged that is no number" in capsys.readouterr().err


def test_a_stored_ranking_of_several_metrics_is_compared_metric_by_metric(several, server, capsys):
    """The weighted mean is never taken for one of its metrics, nor compared with one."""
    budget = {"items": 60}
    run, content = ranked(several, server, ["share", "errors"], budget=budget)
    single, _ = ranked(several, server, ["share"], budget=budget, name="single")
    for first, metrics in ((run, {"weighted mean", "share", "errors"}), (single, {"share"})):
        found = {o.metric: o for o in compare(first, run, models=("m05", "m11")).outcomes}
        assert set(found) == metrics
        told = estimates(content, "share")["m11"]
        assert found["share"].overall.candidate == pytest.approx(told)
    assert main(["verify", str(run), "--full", "nowhere"]) == 2
    assert "name one with --task and --metric" in capsys.readouterr().err


def test_a_metric_that_was_mistyped_is_corrected_and_the_ranking_begins(
    several: Bench, server: CompletionsServer, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """What got no answer stands in nobody's way; what got one is kept."""
    budget = {"items": 40}
    path = config(several, server, ["share", "judgde"], budget=budget)
    tasks = tmp_path / "several" / f"{TASK}.yaml"
    stated = tasks.read_text().replace("judged: {", "judgde: {range: [0, 1]}, judged: {")
    tasks.write_text(stated)
    assert main(["rank", str(path)]) == 1
    assert "reports no judgde" in capsys.readouterr().err
    assert ranked(several, server, ["share"], budget=budget)[1]["models"]
    assert main(["rank", str(path)]) == 1
    assert "already holds a ranking" in capsys.readouterr().err
