"""Terminal, JSON, page and plots say the same of the same run, whatever happened in it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import datetime
from html import unescape
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from synthetic import make_run, make_suite

from lm_eval_ccat.live.result import state
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.money import dollars
from lm_eval_ccat.ranker.headline import headline, leads
from lm_eval_ccat.report import read_run
from lm_eval_ccat.report.page import View, render
from lm_eval_ccat.report.plots import plot_ranking
from lm_eval_ccat.report.stored_run import replayed_course
from lm_eval_ccat.report.tables import chain, outlook, rank_rows
from lm_eval_ccat.report.tables import parts as parts_of
from lm_eval_ccat.report.terminal import print_result
from lm_eval_ccat.report.trust import remarks_on_models
from lm_eval_ccat.shown import is_named, whole_percent

SVG = "{http://www.w3.org/2000/svg}"
SMALL = {"method": "default", "n_models": 4, "n_items": 60, "budget": 100, "seed": 3}
SCENARIOS: dict[str, tuple[Any, dict[str, Any]]] = {
    "eventful": (
        make_run,
        {**SMALL, "n_items": 90, "budget": 140, "eventful": True},
    ),
    "eventful paper": (make_run, {"method": "paper", "n_models": 5, "eventful": True, "seed": 3}),
    "running": (make_run, {**SMALL, "n_items": 90, "budget": 90, "finished": False}),
    "leaderboard": (make_run, {"method": "paper", "n_models": 2, "leaderboard": True, "seed": 3}),
    "both, running": (
        make_suite,
        {"tasks": ("one", "one_more"), "finished": False, "n_items": 40, "budget": 60},
    ),
    "by a sample": (make_suite, {"method": "sample"}),
}


# To make a run and its page takes a second; the first, in which most happens, is made always.
@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.long] * (n > 0)) for n, name in enumerate(SCENARIOS)
    ],
)
def run(request, tmp_path_factory):
    make, options = SCENARIOS[request.param]
    return read_run(make(tmp_path_factory.mktemp("truth") / "run", **options, hostile=False))


@pytest.fixture(scope="module")
def course(run):
    return replayed_course(run)


@pytest.fixture(scope="module")
def html(run):
    return render(run)


def open_pairs(result) -> int:
    return sum(len(group) - 1 for group in result["ties"])


@pytest.mark.long
def test_the_course_ends_at_the_result(run, course) -> None:
    assert course is not None
    for model, block in run.result["models"].items():
        assert course.estimates[model][-1] == pytest.approx(block["estimate"])
        assert [course.low[model][-1], course.high[model][-1]] == pytest.approx(block["interval"])
        assert course.ranks[model][-1] == (block["rank"] or 0)
    assert course.items[-1] == run.result["items_administered"]
    gaps = np.diff(course.items).tolist()
    assert max(gaps) <= min(gaps[:-1]) + 1, "the moments are evenly spaced"
    assert course.undecided[-1] == open_pairs(run.result)
    halves = [np.ptp(run.result["models"][m]["interval"]) / 2 for m in run.result["order"]]
    assert course.half_width[-1] == pytest.approx(np.median(halves))


@pytest.fixture(scope="module")
def data(html):
    """What the page's script reads."""
    return json.loads(re.findall(r'id="data">(.*?)</script>', html)[0])


def test_the_page_says_what_the_result_says(run, course, html, data) -> None:
    result, models, content = run.result, run.result["models"], View(run, course)
    n_known = sum(one["known"] for one in models.values())
    n_asked, among = len(models) - n_known, f" among {n_known} known ones" if n_known else ""
    assert content.title.startswith(f"{n_asked} models{among} on ")
    # The order stands on the page, in the headline or below it.
    assert 'class="verdict"' in html or all(
        is_named(model, result["headline"]) for model in result["order"]
    )
    for row in content.information["rows"] if content.information else ():
        assert row["asked"] == models[row["name"]]["n_items"] > 0
    full = result["items_of_benchmark"] * sum(not one["known"] for one in models.values())
    assert content.facts[0][1].startswith(f"answers, of {full:,} in a full evaluation")
    [(fact, label)] = [f for f in content.facts if "pairs decided" in f[1]]
    decided, pairs = map(int, label.split("of neighbours ")[1].split(" of "))
    assert pairs - decided == open_pairs(result) == course.undecided[-1]
    once = [
        p for p in result["pairwise"]
        if not (models[p["a"]]["known"] and models[p["b"]]["known"])
    ]  # fmt: skip
    assert fact == f"{sum(p['decision'] == 'decided' for p in once)} of {len(once)}"
    # Heights on the chart are a straight line through the values of the table.
    box, values = content.progress["estimates"], [models[m]["estimate"] for m in run.models]
    lines = [box.line(course.items, course.estimates[m]) for m in run.models]
    heights = [float(line.split("L")[-1].split()[-1]) for line in lines]
    slope, start = np.polyfit(values, heights, 1)
    assert heights == pytest.approx([start + slope * v for v in values], abs=0.01)
    after = dict(pairwise(result["order"]))
    for row in content.rows:
        one = models[row.name]
        assert row.rank == one["rank"] and row.row["n_items"] == len(one["items"])
        lead_over_next = row.name in after and run.pair(row.name, after[row.name])
        assert row.decided == bool(lead_over_next and lead_over_next["decision"] == "decided")
    assert content.spending.asked == result["items_administered"]
    assert run.currency != "usd" or dollars(content.spending.cost) in html
    lead_of = leads(result)
    for i, a in enumerate(result["order"]):
        for j, b in enumerate(result["order"]):
            pair = run.pair(a, b)
            if i < j:
                decided = pair is not None and pair["decision"] == "decided"
                assert (data["decided"][i][j - i - 1] == "1") is decided
            if i < j and pair:
                assert data["leads"][i][j - i - 1] == lead_of[a, b].in_words()
                assert data["p"][i][j - i - 1] == pytest.approx(100 * pair["p"], abs=0.005)
            if pair:
                chance = pair["p"]
                cell = rf'"P\({re.escape(a)} better than {re.escape(b)}\) = (\S+)%">(\S+?)</td>'
                assert re.findall(cell, unescape(html)) == [(whole_percent(chance),) * 2]


def circles(svg: str) -> list[float]:
    return [float(e.get("cx")) for e in ElementTree.fromstring(svg).iter(f"{SVG}circle")]


def texts(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_charts_draw_what_the_result_says(run, course, html) -> None:
    models, asked = run.result["models"], [m for m in run.result["order"] if m in run.tested]
    drawn = plot_ranking(run).svg
    assert f'aria-label="{drawn.split("aria-label=")[1][1:20]}' in html  # the page has it
    values = [models[m]["estimate"] for m in asked]
    slope, start = np.polyfit(values, circles(drawn), 1) if len(values) > 1 else (0, 0)
    assert circles(drawn) == pytest.approx([start + slope * v for v in values], abs=0.01)
    # Intervals are drawn to the same scale.
    lines = [e for e in ElementTree.fromstring(drawn).iter(f"{SVG}line") if e.get("stroke-width")]
    ends = [float(e.get(k)) for e in lines for k in ("x1", "x2") if e.get("stroke-width") == "2"]
    stated = [v for m in asked for v in models[m]["interval"]]
    assert ends == pytest.approx([start + slope * v for v in stated], abs=0.01)
    cells = texts(drawn)
    for m in asked:
        best, worst = models[m]["rank_range"]
        assert (f"{best} to {worst}" if best < worst else str(best)) in cells


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """Changes the result of a run; what is read there then."""
    options = {"hostile": False, "method": "paper", "n_models": 3, "n_items": 100, "budget": 60}
    folder = make_run(tmp_path_factory.mktemp("truth") / "paper", **options)
    whole = (folder / "result.json").read_text()

    def change(edit):
        result = json.loads(whole)
        edit(result)
        (folder / "result.json").write_text(json.dumps(result))
        return read_run(folder)

    return change


@pytest.mark.long
def test_a_run_that_went_on_after_its_result_is_shown_as_it_is_now(changed) -> None:
    def cut_short(result):
        for block in result["models"].values():
            block["items"] = block["items"][:5]
        result["ties"] = [result["order"]]
        result["last_line"] -= 30

    now = changed(cut_short)
    assert not now.finished
    assert open_pairs(now.result) == replayed_course(now).undecided[-1]


def test_answers_behind_the_deciding_one_are_not_shown(changed) -> None:
    def without_the_last(result):
        for block in result["models"].values():
            block["items"].pop()

    run = changed(without_the_last)
    shown = {m: [a.doc for a in run.answers if a.model == m] for m in run.models}
    assert run.finished
    assert shown == {m: one["items"] for m, one in run.result["models"].items()}


@pytest.mark.long
@pytest.mark.parametrize("warned", [False, True])
def test_empty_answers_are_told_once(changed, warned) -> None:
    def empty(result):
        name = result["order"][0]
        result["models"][name]["empty_outputs"] = 3
        result["warnings"] = [f"3 of 20 answers of {name} are empty"] * warned

    run = changed(empty)
    told = [text for _, text in remarks_on_models(run.result) if "3 empty answers" in text]
    assert len(told) == (not warned)
    on_page = [text for _, text in View(run, replayed_course(run)).warnings if "empty" in text]
    assert len(on_page) == 1


@pytest.mark.parametrize("told", [False, True])
def test_the_page_leaves_the_order_to_a_headline_that_names_every_model(changed, told) -> None:
    def summed_up(result):
        for rank, model in enumerate(result["order"], start=1):
            result["models"][model]["rank_range"] = [rank, rank]
        # These are names of no model, so that the best one alone is named.
        names = [model if told else f"{model}-chat" for model in result["order"]]
        names[0] = result["order"][0]
        result["headline"] = f"{' > '.join(names)}, {names[0]} leads {names[1]} by 0.1; 95%"

    run = changed(summed_up)
    assert View(run, None).order_told is told
    assert ('class="verdict"' in render(run)) is not told


@pytest.mark.long
def test_figures_of_another_version_are_not_contradicted(changed) -> None:
    def other_figures(result):
        result["models"][result["order"][0]]["estimate"] += 0.5

    run = changed(other_figures)
    content = View(run, replayed_course(run))
    assert content.progress is None
    assert any("other figures" in text for _, text in content.warnings)


def test_order_ranks_and_open_pairs_are_the_result_s(run, html) -> None:
    result, line = run.result, ""
    for part in chain(result, max_names=99):
        names = ", ".join(part.names)
        braced = "{" + names + "}" if len(part.names) > 1 else names
        line += f" {part.joint} {braced}" + (f" {part.ranks}" if part.ranks else "")
    assert line.removeprefix(" > ") == result["ranking"]
    assert headline(result).replace(">", "&gt;").replace("<", "&lt;") in html
    drawn, axis = rank_rows(result) or ((), None)
    for row in drawn if any(row.best < row.worst for row in drawn) else ():
        best, worst = result["models"][row.name]["rank_range"]
        x, width = 100 * (best - 1) / axis.high, 100 * (worst - best + 1) / axis.high
        assert f'<rect x="{round(x, 3)}%" width="{round(width, 3)}%"' in html
    found = outlook(result, run.currency)
    if found:
        assert sum(html.count(f"<bdi>{p['a']}</bdi> over") for p in found.pairs)
        sure = any(p["one_look"] for p in result["open_pairs"])
        assert ("needs stronger evidence to be decided" in html) is sure


@pytest.mark.long
def test_the_terminal_says_what_the_result_says(run) -> None:
    content, result = state(run.path).content, run.result  # what `rank RUN_DIR` shows
    out = io.StringIO()
    print_result(Console(file=out, width=200, no_color=True, highlight=False), content)
    shown = out.getvalue()
    assert content["headline"] == headline(result)
    assert " ".join(shown.split()).startswith(content["headline"])  # it may take two lines
    table, lead_of = shown.split("interval")[1], leads(result)
    for pair in pairwise(result["order"]) if result["items_administered"] else ():
        if pair in lead_of:  # two models with full results have none
            [line] = [row for row in table.splitlines() if re.match(rf" *\d+=? +{pair[0]} ", row)]
            assert lead_of[pair].in_words() in line
    for m, block in result["models"].items():
        row = next(line for line in table.splitlines() if re.search(rf"\b{m}\b", line)).split()
        at = row.index(m)
        assert row[0].rstrip("=") == str(block["rank"] or "-")
        if not block["n_items"]:
            continue
        low, high = block["interval"]
        values = [float(row[at + k].replace(",", "")) for k in (1, 2, 4)]
        assert values == pytest.approx([block["estimate"], low, high], abs=0.051)
        assert str(block["n_items"]) in row[at + 5 :]
    for pair in result["open_pairs"][:1]:
        [line] = [one for one in shown.split("\n") if one.endswith("may decide.")]
        assert line.startswith(f"{pair['a']} over {pair['b']}")
        assert all(f" {n:,} " in line for n in pair["items"].values())


def test_every_part_of_the_result_is_on_the_page(run, html) -> None:
    result = run.result
    found = {**(result.get("tasks") or {}), **(result.get("outcomes") or {})}
    parts = parts_of(result)
    assert [c.name for c in parts] == list(found)
    for column, block in zip(parts, found.values()):
        for name, cell in column.cells.items():
            one = block["models"][name]
            assert cell.value == one["estimate"]
            assert float(cell.estimate) == pytest.approx(one["estimate"], rel=0.05, abs=0.01)
            assert cell.rank == str(one["rank"])
    assert ('id="parts"' in html) is bool(found)
    for block in found.values():
        assert block["ranking"].replace(">", "&gt;") in html


def test_documents_keep_their_task_prompt_and_expected_score(run, data) -> None:
    several = len(run.facts.get("outcomes") or ()) > 1
    names = {d["id"] for d in data["docs"]}
    assert len(names) == len(data["docs"]) == len({a.doc for a in run.answers})
    assert all((": " in name) == several for name in names)
    for doc in data["docs"]:
        task, _, number = doc["id"].rpartition(": ")
        assert doc["p"][0].startswith(f"Prompt {number} of {task}")
        for *_, expected, text, _ in doc["a"]:
            assert 0.0 <= expected <= 1.0
            assert f" to {number}. " in text and task in text


#: Ends and difference, of a decided pair and of one that is not, in units of the scale's span:
#: beside 0, on it, where rounding would reach it, and all of them tiny.
AWKWARD = {
    "decided": [
        (1e-12, 1e-12, 0.19), (1e-12, 4e-4, 0.19), (4.9e-7, 0.1, 0.2), (4e-5, 4e-5, 0.4),
        (0.00499, 0.02, 0.9), (1e-9, 2e-9, 3e-9), (3e-3, 3e-3, 3e-3), (2e-10, 2e-10, 2e-10),
    ],
    "open": [
        (-0.2, 1e-12, 1e-12), (-1e-12, 0.1, 0.2), (0.0, 0.1, 0.2), (-4e-5, 0.3, 0.6),
        (-0.00499, 0.02, 0.9), (-1e-9, 2e-9, 3e-9), (-0.3, 0.0, 0.3),
    ],
}  # fmt: skip


def parsed(lead: str) -> list[float]:
    """The ends and the difference that a surface prints, all equal where it prints no interval."""
    beside = {">0": 5e-324, "<0": -5e-324}
    middle, *ends = re.fullmatch(r"(\S+)(?: \((\S+) to (\S+)\))?", lead).groups()
    low, high = ends if ends[0] else (middle, middle)
    return [beside.get(text) or float(text) for text in (low, middle, high)]


@pytest.mark.long
@pytest.mark.parametrize("decision", AWKWARD)
def test_an_interval_excludes_0_as_printed_if_and_only_if_its_pair_is_decided(
    run, course, decision, monkeypatch
):
    # Other pairs leave the course, which is replayed from the journal, as it is.
    monkeypatch.setattr("lm_eval_ccat.report.page.replayed_course", lambda run: course)
    now = state(run.path)
    content = json.loads(json.dumps(now.content))
    vars(now)["content"] = content
    pairs = list(pairwise(content["order"]))
    scale = Scale.from_dict(content["scale"])
    up = scale.span if scale.higher_is_better else -scale.span
    for shift in range(0, len(AWKWARD[decision]), len(pairs)):
        for k, (a, b) in enumerate(pairs):
            ends = AWKWARD[decision][(k + shift) % len(AWKWARD[decision])]
            for pair in content["pairwise"]:
                if (pair["a"], pair["b"]) == (a, b):
                    low, gap, high = sorted(up * end for end in ends)
                    pair |= {"low": low, "difference": gap, "high": high, "decision": decision}
        out = io.StringIO()
        print_result(Console(file=out, width=250, no_color=True, highlight=False), content)
        surfaces = {
            "terminal": out.getvalue().split("interval")[1],
            "markdown": now.to_markdown().replace("\\", ""),
            "page": unescape(render(replace(run, result=content))),
        }
        lead_of = leads(content)
        for a, b in pairs:
            lead = lead_of[a, b].in_words()
            low, middle, high = parsed(lead)
            assert (low > 0.0 or high < 0.0) == (decision == "decided"), lead
            assert middle > 0.0 or decision == "open", lead
            [pair] = [pair for pair in content["pairwise"] if {pair["a"], pair["b"]} == {a, b}]
            assert (pair["low"] > 0 or pair["high"] < 0) == (decision == "decided")
            for surface in ("terminal", "page"):
                assert lead in surfaces[surface], (surface, lead)
            middle, low, high = (f"{value:.4g}" for value in lead_of[a, b])
            assert (float(low) > 0.0 or float(high) < 0.0) == (decision == "decided")
            assert f"| {middle} | {low} | {high} |" in surfaces["markdown"]


def test_a_page_says_when_its_run_began_and_when_it_ended(changed) -> None:
    run = changed(lambda result: None)
    later = View(replace(run, ended=run.started + 7200.0), None)
    begun, ended = (
        datetime.strptime(getattr(later, key), "%Y-%m-%d %H:%M:%S %Z")
        for key in ("started", "ended")
    )
    assert (ended - begun).total_seconds() == 7200.0
