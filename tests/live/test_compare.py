"""`compare`: what it says of two models, and what a pull request gets to see."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import ttest_rel
from worlds.bench import TASK, Bench
from worlds.server import CompletionsServer

from lm_eval_ccat import Ranker, ScoreTable, calibrate, compare
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.ranker.difference import compare_scores
from lm_eval_ccat.report.plain import markdown

SUBJECTS = ["algebra", "biology", "chemistry"]


@pytest.fixture
def logs(tmp_path):
    """Logs of three models in the harness's layout, two metrics, each document of a subject."""

    def write(name: str, share: float, seed: int, documents=range(300), model=None) -> Path:
        rng, folder = np.random.default_rng(seed), tmp_path / "logs" / name
        folder.mkdir(parents=True)
        date, lines = "2026-01-01T10-00-00.000001", []
        for doc_id in documents:
            right = float(rng.random() < share - 0.1 * (doc_id % 3))
            document = {"subject": SUBJECTS[doc_id % 3], "passage": doc_id // 10}
            row = {"doc_id": doc_id, "doc": document, "doc_hash": f"h{doc_id}", "target": "x",
                   "resps": [["x"]], "filtered_resps": ["x"], "filter": "none",
                   "metrics": ["acc", "exact_match"], "acc": right,
                   "exact_match": right}  # fmt: skip
            lines.append(json.dumps(row) + "\n")
        (folder / f"samples_demo_{date}.jsonl").write_text("".join(lines))
        result = {
            "results": {"demo": {"acc,none": 0.5, "exact_match,none": 0.5}},
            "n-samples": {"demo": {"original": len(lines), "effective": len(lines)}},
            "config": {"limit": None}, "model_name": model or name,
        }  # fmt: skip
        (folder / f"results_{date}.json").write_text(json.dumps(result))
        return folder

    return write


def test_clusters_are_compared_by_students_t_of_as_many_as_there_are() -> None:
    rng, of = np.random.default_rng(5), np.repeat(np.arange(6), 5)
    d = rng.normal(0.1, 0.1, 6)[of] + rng.normal(0.0, 0.02, 30)
    found = compare_scores(np.full(30, 0.4), 0.4 + d, clusters=of)
    sums = np.bincount(of, d - d.mean())
    half = stdtrit(5, 0.975) * np.sqrt((sums**2).sum() / 30**2 * 6 / 5)
    assert found.high - found.difference == pytest.approx(half)


@given(st.integers(0, 10**6), st.floats(0.0, 0.3), st.sampled_from([True, False]))
def test_it_is_the_paired_t_test_with_a_margin(seed, margin, higher):
    rng = np.random.default_rng(seed)
    a = rng.random(40)
    b = np.clip(a + rng.normal(rng.normal(0, 0.15), 0.2, 40), 0, 1)
    found = compare_scores(a, b, margin=margin, higher_is_better=higher)
    t = ttest_rel(b, a).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((t.low, t.high))
    low, high = (t.low, t.high) if higher else (-t.high, -t.low)
    assert (found.verdict == "worse") == (high < -margin)
    assert (found.verdict == "equivalent") == (low >= -margin and high <= margin)
    assert (found.verdict == "not known") == (low < -margin <= high and low <= 0)
    assert (found.p_better > 0.5) == ((found.difference > 0) == higher)
    swapped = compare_scores(b, a, margin=margin, higher_is_better=higher)
    assert swapped.difference == pytest.approx(-found.difference)


def test_more_documents_of_the_same_kind_decide():
    rng = np.random.default_rng(3)
    a = rng.random(60)
    b = a + rng.normal(0.03, 0.2, 60)
    few = compare_scores(a, b)
    assert few.verdict == "not known"
    times = -(-(60 + few.more_documents) // 60) + 1
    assert compare_scores(np.tile(a, times), np.tile(b, times)).verdict == "better"
    with_margin = compare_scores(a, b, margin=0.01)
    half = 0.5 * (with_margin.high - with_margin.low)  # shrinks with the root of the documents
    wanted = 60 * (half / (with_margin.difference + 0.01)) ** 2
    assert 60 + with_margin.more_documents == pytest.approx(wanted, abs=1)


def test_equal_scores_are_equivalent_and_one_document_tells_nothing():
    assert compare_scores(np.ones(5), np.ones(5)).verdict == "equivalent"
    assert compare_scores(np.zeros(1), np.ones(1), margin=0.5).verdict == "not known"
    one_way = compare_scores(np.zeros(3), np.full(3, 0.1))
    assert one_way.low < 0.1 < one_way.high  # nothing varies in three documents


@pytest.mark.parametrize(
    ("share", "margin", "code", "said"),
    [
        (0.9, 0.0, 0, "cand is better than base"),
        (0.3, 0.05, 5, "cand is worse than base by more than 0.05"),
        (0.62, 0.005, 3, "it is not known whether cand is worse than base by more than 0.005"),
    ],
)
def test_two_logs_one_line_and_an_exit_code(logs, capsys, share, margin, code, said):
    a, b = logs("base", 0.6, 1), logs("cand", share, 2)
    assert main(["compare", str(a), str(b), "--metric", "acc", "--margin", str(margin)]) == code
    line, other = capsys.readouterr().out.splitlines()
    assert said in line and "300 documents" in line
    assert ("more would decide" in line) == (code == 3)
    better = "better" if share > 0.6 else "worse"
    assert f"full runs of these 300 documents: cand is {better} than base" in other
    narrow = compare(a, b, "acc", margin, question="benchmark")
    assert (
        narrow.verdict == better and narrow.outcomes[0].beside.low < narrow.outcomes[0].overall.low
    )


def test_sides_of_one_name_are_named_by_their_paths_and_a_metric_may_only_be_reported(logs, capsys):
    a, b = logs("v1/same", 0.9, 1, model="same"), logs("v2/same", 0.3, 2, model="same")
    assert main(["compare", str(a), str(b), "--metric", "exact_match", "acc=0"]) == 5
    out = capsys.readouterr().out
    assert "acc (reported): v2 is worse than v1" in out and "exact_match: v2" in out
    empty = a.parent / "empty"
    empty.mkdir()
    assert main(["compare", str(a), str(empty)]) == 1
    assert "candidate holds no results; its run failed or has not" in capsys.readouterr().err


def test_every_metric_in_common_and_groups_of_documents(logs, tmp_path, capsys):
    a, b = logs("base", 0.6, 1), logs("cand", 0.9, 2, documents=range(30, 330))
    out = tmp_path / "x" / "c.json"
    code = main(
        ["compare", str(a), str(b), "--by", "subject", "--cluster", "passage", "--json", str(out)]
    )
    said = capsys.readouterr()
    found = json.loads(out.read_text())
    assert code == 0 and [o["metric"] for o in found["outcomes"]] == ["acc", "exact_match"]
    first = found["outcomes"][0]
    assert list(first["groups"]) == SUBJECTS
    assert first["documents"] == 270 == sum(g["documents"] for g in first["groups"].values())
    assert first["clusters"] == 27
    assert "60 scores left out: the other side has none" in said.err
    assert [line.split()[0] for line in said.out.splitlines()[1:4]] == SUBJECTS
    # A group that is worse is shown, and fails nothing.
    report = tmp_path / "r.xml"
    assert main(["compare", str(b), str(a), "--by", "subject", "-o", str(report)]) == 5
    suite = ElementTree.parse(report).getroot()
    assert suite.attrib["tests"] == "8" and suite.attrib["failures"] == "2"


def test_a_gate_writes_a_comment_and_a_report(logs, tmp_path, monkeypatch):
    logs("baseline", 0.6, 1), logs("candidate", 0.4, 2)
    monkeypatch.chdir(tmp_path)
    command = "compare logs/baseline logs/candidate --metric exact_match --margin 0.01".split()
    assert main([*command, "-o", "comment.md", "-o", "compare.xml"]) == 5
    comment = (tmp_path / "comment.md").read_text()
    title, _, head, _, row, *_ = comment.splitlines()
    assert title == "### candidate against baseline: **worse**"
    assert head.split(" | ")[3:6] == ["difference", "interval", "P(better)"]
    name, *_, difference, interval, better, documents, verdict = row.strip("| ").split(" | ")
    assert (name, better, documents, verdict) == ("demo/exact\\_match", "<0.1%", "300", "worse")
    assert re.fullmatch(r"-0\.\d+", difference)
    assert re.fullmatch(r"-0\.\d+ to -0\.\d+", interval)
    report = ElementTree.parse(tmp_path / "compare.xml").getroot()
    assert report.attrib["failures"] == "1" and report.find("testcase/failure") is not None


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<script>", "\\<script\\>"),
        ("[x](http://evil)", "\\[x\\](http\\://evil)"),
        ("@team", "@&#8203;team"),
        ("a\n# H", "a␊\\# H"),
    ],
)
def test_no_name_is_markup_in_a_comment(name, shown):
    y = np.random.default_rng(0).random((2, 40))
    one, other = (
        ScoreTable.from_arrays(y[n : n + 1], [model], task=name, metric="m")
        for n, model in enumerate((name, "b"))
    )
    comment = markdown(replace(compare(one, other), warnings=[f"{name} is slow"]))
    assert name not in comment and comment.count(shown) == 5
    assert len(comment.splitlines()) == 10
    assert f"- {shown} is slow" in comment


def test_one_table_of_two_models_repeats_averaged_lower_is_better():
    rng = np.random.default_rng(5)
    base = rng.uniform(0.2, 0.8, 80)
    raw = np.stack([base, base + 0.1, base + 0.14])
    table = ScoreTable.from_arrays(
        100 * raw, models=["a", "b", "b"], configs=["", "t0", "t1"],
        scale=Scale(0, 100, higher_is_better=False),
    )  # fmt: skip
    found = compare(table, table, models=("a", "b"), margin=5)
    [one] = found.outcomes
    assert one.overall.difference == pytest.approx(12) and one.overall.documents == 80
    assert found.verdict == "worse" and found.exit_code == 5
    with pytest.raises(UsageError, match="--models"):
        compare(table, table)
    with pytest.raises(UsageError, match="no model 'c'"):
        compare(table, table, models=("a", "c"))


def test_documents_that_changed_are_left_out():
    y = np.random.default_rng(0).random((2, 10))
    one = ScoreTable.from_arrays(y[:1], models=["a"], doc_hashes=[f"h{k}" for k in range(10)])
    other = ScoreTable.from_arrays(
        y[1:], models=["b"], doc_hashes=[f"h{k if k else 'new'}" for k in range(10)]
    )
    found = compare(one, other)
    assert found.outcomes[0].overall.documents == 9
    assert "1 document left out: the same doc_id" in found.warnings[0]


def test_another_judge_is_refused_and_its_temperature_told():
    y = np.random.default_rng(0).random((2, 10))

    def table(n, judge, temperature=0.0):
        scorer = {"judge_score": {"judges": [{"model": judge, "temperature": temperature}]}}
        scores, models = 1 + 9 * y[n : n + 1], [f"m{n}"]
        return ScoreTable.from_arrays(
            scores, models=models, metric="judge_score", scale=Scale(1, 10),
            settings={"scorer": scorer},
        )  # fmt: skip

    assert not any("judges" in w for w in compare(table(0, "a"), table(1, "a")).warnings)
    with pytest.raises(UsageError, match=r"judges is .*'b'.*, the baseline has .*'a'.*one scorer"):
        compare(table(0, "a"), table(1, "b"))
    found = compare(table(0, "a"), table(1, "a", temperature=0.7))
    assert any("the baseline has" in w for w in found.warnings)


def test_a_stored_ranking_is_compared_by_what_it_says(tmp_path):
    """Estimates of a run with full logs, and two models of one run by their pair."""
    rng = np.random.default_rng(1)
    skill, ease = np.linspace(-1, 1, 10)[:, None], rng.normal(size=200)
    y = np.clip(1 / (1 + np.exp(-skill - ease)) + rng.normal(0, 0.05, (10, 200)), 0, 1)
    table = ScoreTable.from_arrays(y, models=[f"m{k}" for k in range(10)], metric="acc")
    ranker = Ranker(calibrate(table.without(["m2", "m8"])), {"m2": 1.0, "m8": 1.0})
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, y[int(model[1]), item])
    r = ranker.result()
    content = {
        "confidence": 0.95, "items_of_benchmark": 200, "order": r.order, "key": "acc,none",
        "models": {
            m: {
                "estimate": r.estimates[m], "standard_error": r.standard_errors[m],
                "interval": r.interval(m), "n_items": len(r.items[m]),
            }
            for m in r.order
        },
        "pairwise": [{"a": a, "b": b, "p": p} for (a, b), p in r.pairwise.items()],
    }  # fmt: skip
    path = tmp_path / "run" / "result.json"
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    one_run = compare(path.parent, path, models=("m2", "m8"))
    assert one_run.verdict == "better"
    said = one_run.outcomes[0].overall
    assert said.difference == pytest.approx(r.estimates["m8"] - r.estimates["m2"])
    assert said.p_better == pytest.approx(r.pairwise["m8", "m2"], abs=1e-6)
    with_full = compare(path, table.select(["m8"]), models=("m2", None))
    assert with_full.verdict == "better"
    assert with_full.outcomes[0].overall.candidate == pytest.approx(y[8].mean())
    # What the ranking's rule, valid at every look, left open is not decided by one look at it.
    content["pairwise"] = [{**pair, "decision": "open"} for pair in content["pairwise"]]
    path.write_text(json.dumps(content))
    assert compare(path, path, models=("m2", "m8")).verdict == "not known"
    assert compare(path, path, models=("m8", "m2")).verdict == "not known"


def test_groups_by_fields_of_ones_own():
    y = np.random.default_rng(0).random((2, 30))
    table = ScoreTable.from_arrays(y, models=["a", "b"])
    items = {k: {"level": "easy" if k < 12 else "hard"} for k in range(30)}
    found = compare(table, table, models=("a", "b"), by="level", items=items)
    groups = found.outcomes[0].groups
    assert {name: d.documents for name, d in groups.items()} == {"easy": 12, "hard": 18}
    assert groups["easy"].difference == pytest.approx((y[1] - y[0])[:12].mean())
    with pytest.raises(UsageError, match="no document has a field 'topic'"):
        compare(table, table, models=("a", "b"), by="topic", items=items)


def test_the_folder_that_run_adaptive_wrote_is_a_side_of_a_comparison(
    bench: Bench, server: CompletionsServer, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out, tasks = tmp_path / "out", str(tmp_path / "tasks")
    for name in ("m01", "m11"):
        arguments = f"model={name},base_url={server.url},tokenizer_backend=none"
        main(["run", "--model", "local-completions", "--model_args", arguments, "--tasks", TASK,
              "--include_path", tasks, "--adaptive", "--max_items", "40", "--log_samples",
              "--output_path", str(out / name)])  # fmt: skip
    capsys.readouterr()
    assert main(["compare", str(out / "m01"), str(out / "m11"), "--json"]) == 0
    said = capsys.readouterr()
    [one] = json.loads(said.out)["outcomes"]
    assert said.err.count("holds adaptive runs: their estimates of the full benchmark") == 2
    assert (one["metric"], one["documents"], one["verdict"]) == ("share", 40, "better")
    errors = []
    for name, estimate in (("m01", one["baseline"]), ("m11", one["candidate"])):
        [file] = (out / name).rglob("results_*.json")
        block = json.loads(file.read_text())["adaptive"][TASK]
        assert block["estimate"] == estimate
        errors.append(block["standard_error"])
    half = 1.96 * (errors[0] ** 2 + errors[1] ** 2) ** 0.5
    assert one["high"] - one["difference"] == pytest.approx(half, rel=1e-3)
    # Two models of one folder, by name; and a model that is not there.
    assert main(["compare", str(out), str(out), "--models", "m01,m11"]) == 0
    assert main(["compare", str(out), str(out), "--models", "m01,m12"]) == 2
    assert "no model 'm12'; it has m01, m11" in capsys.readouterr().err
