"""The page of a comparison."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from html import unescape
from itertools import product

import numpy as np
import pytest
from scores.test_harness_logs import sample_row, write_run

from lm_eval_ccat import ScoreTable, compare
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.live.comparison import Comparison
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.ranker.difference import Difference
from lm_eval_ccat.report.following import after_comparison, after_simulation
from lm_eval_ccat.report.plain import _table, comparison_page, figures, junit, lines, markdown


def test_compare_writes_a_page_that_says_what_it_prints(tmp_path, capsys) -> None:
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.8, 300)
    scores = [np.clip(base + gap + rng.normal(0, 0.1, 300), 0, 1) for gap in (0.0, 0.1)]
    table, page = str(tmp_path / "scores.csv"), tmp_path / "out" / "page.html"
    ScoreTable.from_arrays(scores, ["old", "<b>new</b>"]).write(table)
    call = ["compare", table, table, "--models", "old,<b>new</b>", "-o", str(page)]
    assert main([*call, "--margin", "0.01"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "better than" in line]
    said = lines[0]
    html = page.read_text("utf-8")
    shown = html.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'")
    assert "P(better) >99%" in said
    assert said.partition(": ")[2] in shown and len(lines) == 2  # one for each question
    assert "<b>new" not in html and "<script" not in html
    assert "default-src 'none'; style-src 'sha256-" in html
    circle = float(re.search(r'<circle cx="([\d.]+)%', html)[1])
    low, high = map(float, re.search(r'class="range" x1="([\d.]+)%" x2="([\d.]+)%"', html).groups())
    zero = float(re.search(r'class="zero" x1="([\d.]+)%', html)[1])
    assert zero < low < circle < high, "the candidate is better"
    ticks = re.findall(r'<text x="([\d.]+)%"[^>]*>([^<]+)</text>', html)
    places = {float(label): float(x) for x, label in ticks}
    assert sorted(places.values()) == [places[label] for label in sorted(places)]
    assert places[0.0] == zero


def test_an_interval_has_its_lower_end_first():
    found = Difference(300, None, 0.5, 0.52, 0.02, -0.01, 0.05, 0.9, "not known", None)
    comparison = Comparison("a", "b", 0.0, 0.95, [], [])
    assert (
        figures(comparison, found) == "+0.020 [95%: -0.010 to +0.050], P(better) 90%, 300 documents"
    )


@pytest.mark.parametrize("lower", [False, True])
def test_every_surface_of_a_comparison_says_scale_direction_and_confidence(tmp_path, lower):
    rng, scale = np.random.default_rng(0), Scale(0, 8, higher_is_better=not lower)
    base = 8 * rng.uniform(0.2, 0.8, 60)
    rows = [base, np.clip(base + rng.normal(0.25, 4, 60), 0, 8)]
    sides = [ScoreTable.from_arrays([row], [n], scale=scale) for n, row in zip("ab", rows)]
    found = compare(*sides, confidence=0.9)
    [line, other, *_], page = lines(found), comparison_page(found)
    for text in (line, markdown(found), junit(found), page, json.dumps(found.to_dict())):
        assert f"0 to 8, {'lower' if lower else 'higher'} is better" in text
    for text in (line, markdown(found), junit(found), page):
        assert "90%" in text
    # One number has one text: of the difference for documents like these, and on these.
    gap = line.split(": ")[2].split(" [")[0]
    assert other.endswith(f"({gap})") and gap in markdown(found) and gap in junit(found)
    assert f">{gap} (" in page


def test_equal_models_have_no_negative_zero_on_any_surface():
    rows = [[0.1, 0.2, 0.6], [0.3, 0.2, 0.4]]  # whose sums differ by rounding alone
    for lower in (False, True):
        scale = Scale(0, 3, higher_is_better=not lower)
        sides = [ScoreTable.from_arrays([row * 8], [n], scale=scale) for n, row in zip("ab", rows)]
        for question in ("benchmark", "population"):
            found = compare(*sides, question=question)
            surfaces = [*lines(found), markdown(found), junit(found), json.dumps(found.to_dict())]
            assert not re.search(r"-0(\.0*)?(?![\d.])", " ".join(surfaces)), surfaces
            assert "e-1" not in " ".join(surfaces)


@pytest.mark.long
@pytest.mark.parametrize("question", ["benchmark", "population"])
def test_an_interval_of_a_comparison_excludes_0_as_printed_if_and_only_if_it_is_decided(question):
    """From two documents to two hundred, from no difference to one of a millionth."""
    rng, verdicts = np.random.default_rng(8), set()
    beside = {">0": 5e-324, "<0": -5e-324}
    for n, gap, noise in product((2, 12, 200), (0.0, 1e-6, 1e-3, 0.02, 0.2), (0.0, 1e-3, 0.1)):
        row = rng.uniform(0.3, 0.7, n).round(6)
        rows = row, np.clip(row - gap + noise * rng.normal(size=n), 0, 1)
        scale = Scale(0, 100, higher_is_better=bool(n % 3))
        sides = [
            ScoreTable.from_arrays([100 * row], [m], scale=scale) for m, row in zip("ab", rows)
        ]
        found = compare(*sides, question=question)
        verdicts.add(found.verdict)
        surfaces = lines(found)[0], junit(found), unescape(comparison_page(found))
        in_text = r"(\S+) \[(?:95%: (\S+) to (\S+)|exact|equal)\]"
        in_cell = r'class="num">([-+<>][\d.e-]*)(?: \((\S+) to (\S+)\))?</td>'
        for text, pattern in zip(surfaces, (in_text, in_text, in_cell)):
            told = re.search(pattern, text.replace("&gt;", ">").replace("&lt;", "<")).groups()
            values = [beside.get(value) or float(value) for value in told if value]
            excludes = min(values[1:] or values) > 0.0 or max(values[1:] or values) < 0.0
            assert excludes == (found.verdict in ("better", "worse")), text
            assert values[0] or not excludes
    assert len(verdicts) >= 3


def test_the_page_lists_the_documents_that_the_candidate_lost_by_their_loss(tmp_path, capsys):
    before, after = np.random.default_rng(4).permutation(200).reshape(2, 100) / 2
    rows = {"base": before, "cand": after}
    for model, scores in rows.items():
        samples = [
            {**sample_row(k, {"bleurt": float(score)}), "filtered_resps": [f"{model} on {k} <i>"]}
            for k, score in enumerate(scores)
        ]
        write_run(tmp_path, model, samples)
    page = tmp_path / "page.html"
    sides = [str(tmp_path / model) for model in rows]
    assert main(["compare", *sides, "--range", "0,100", "-o", str(page)]) in (0, 3, 5)
    assert f"Next: open {page}" in capsys.readouterr().out
    listed = re.findall(
        r'<tr><th scope="row"><bdi>(\d+)</bdi></th><td class="num">([^<]*)</td>'
        r'<td class="num">([^<]*)</td><td><bdi>([^<]*)</bdi></td><td><bdi>([^<]*)</bdi></td>',
        page.read_text("utf-8"),
    )
    lost = sorted(
        (k for k in range(100) if after[k] < before[k]), key=lambda k: after[k] - before[k]
    )
    losses = [before[k] - after[k] for k in lost]
    assert len(lost) >= 30 and [before[int(k)] - after[int(k)] for k, *_ in listed] == losses[:50]
    for k, *scores, first, second in listed:
        assert list(map(float, scores)) == [before[int(k)], after[int(k)]]
        assert (first, second) == (f"base on {k} &lt;i&gt;", f"cand on {k} &lt;i&gt;")


def undecided(needs, n_items=900):
    """A comparison of 60 documents of which outcomes need so many more."""
    rng = np.random.default_rng(3)
    base = rng.random(60)
    tables = [ScoreTable.from_arrays([scores], [name]) for name, scores in (
        ("old", base), ("new", np.clip(base + rng.normal(0.02, 0.2, 60), 0, 1)),
    )]  # fmt: skip
    found = compare(*tables)
    [outcome] = found.outcomes
    assert outcome.overall.verdict == found.verdict == "not known" and outcome.losses
    return replace(found, outcomes=[
        replace(outcome, n_items=n_items, overall=replace(outcome.overall, more_documents=more))
        for more in needs
    ])  # fmt: skip


def test_what_to_type_after_a_comparison_is_what_its_slowest_outcome_takes():
    found = undecided((100, 400))
    live = partial(after_comparison, found, (), live=True, max_items=60)
    assert live() == "To decide it: the same command with --max_items 460"
    # Who asks all anew should not have to do so twice.
    assert live(keeps_answers=False).startswith(
        "To decide it: the same command with --max_items 900 ("
    )
    assert after_comparison(found, (), live=False).startswith(
        "To decide it: run both models on about 400 more of the task's 900 documents"
    )
    assert after_simulation("my s.csv", None, task="t", metric="f1").endswith(
        "calibrate 'my s.csv' --task t --metric f1 -o bank.json"
    )
    beyond = after_comparison(undecided((1000,)), (), live=False)
    assert beyond.endswith(", which lists the documents on which new does worse")


def test_the_page_counts_the_outcomes_that_say_so_and_shows_the_whole_margin():
    found = undecided((1, 1, 1))
    verdicts = ("worse", "better", "worse")
    outcomes = [
        replace(outcome, overall=replace(outcome.overall, verdict=verdict, low=0.4, high=0.5))
        for outcome, verdict in zip(found.outcomes, verdicts)
    ]
    worse = replace(found, outcomes=outcomes, margin=0.2)
    assert "new is worse than old by more than 0.2 by 2 of 3 outcomes" in comparison_page(worse)
    places = _table(worse, outcomes[0])["places"]
    assert places.low <= -0.2 and places.high >= 0.5


def test_verdicts_of_tasks_of_which_one_is_sampled_name_both_questions():
    found = undecided((1, 1, 1))
    greedy, sampled, reported = (replace(each, question="benchmark") for each in found.outcomes)
    sampled, reported = replace(sampled, sampled=True), replace(reported, decisive=False)
    of_greedy = "in full runs of these documents"
    of_sampled = "in expected scores on these documents"
    both = replace(found, outcomes=[greedy, sampled])
    assert f"old by 2 of 2 outcomes, {of_greedy} and {of_sampled}.<" in comparison_page(both)
    assert f"Verdicts {of_greedy} and {of_sampled}, margin" in markdown(both)
    # What is only reported has no part in the verdict.
    beside = replace(found, outcomes=[reported, sampled])
    assert f"worse than old, {of_sampled}.<" in comparison_page(beside)
