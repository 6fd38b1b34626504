"""Terminal, JSON, page and plots say the same of the same run, whatever happened in it."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from synthetic import make_run

from lm_eval_ccat.report import read_run
from lm_eval_ccat.report.page import render
from lm_eval_ccat.report.plots import plot_pairwise, plot_progress, plot_ranking
from lm_eval_ccat.report.replay import course
from lm_eval_ccat.report.view import view
from lm_eval_ccat.report.words import whole_percent
from lm_eval_ccat.runs.rebuild import rebuild

SVG = "{http://www.w3.org/2000/svg}"
SCENARIOS = {
    "plain": {"method": "paper"},
    "draws": {"method": "default", "n_models": 4, "n_items": 60, "budget": 100},
    "audit": {"method": "default", "n_models": 4, "n_items": 60, "budget": 100, "audit": 0.2},
    "eventful": {
        "method": "default", "n_models": 4, "n_items": 90, "budget": 140, "audit": 0.2,
        "eventful": True,
    },
    "eventful paper": {"method": "paper", "n_models": 5, "eventful": True},
    "running": {"method": "default", "n_models": 4, "n_items": 90, "budget": 90, "finished": False},
    "leaderboard": {"method": "paper", "n_models": 2, "leaderboard": True},
}  # fmt: skip


@pytest.fixture(scope="module", params=SCENARIOS)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("truth") / "run"
    make_run(folder, hostile=False, seed=3, **SCENARIOS[request.param])
    return read_run(folder)


@pytest.fixture(scope="module")
def past(run):
    return course(run)


@pytest.fixture(scope="module")
def content(run):
    return view(run)


@pytest.fixture(scope="module")
def html(run):
    return render(run)


def open_pairs(result) -> int:
    return sum(len(group) - 1 for group in result["ties"])


def test_the_journal_gives_the_result_again(run) -> None:
    ranker, _ = rebuild(run.path)
    again = ranker.ranker.result()
    for model, block in run.result["models"].items():
        assert float(run.scale.restore(again.estimates[model])) == pytest.approx(block["estimate"])
        assert again.cost[model] == pytest.approx(block["cost"])
    assert [list(g) for g in again.ties] == run.result["ties"]


def test_the_course_ends_at_the_result(run, past) -> None:
    assert past is not None
    for model, block in run.result["models"].items():
        assert past.estimates[model][-1] == pytest.approx(block["estimate"])
        assert [past.low[model][-1], past.high[model][-1]] == pytest.approx(block["interval"])
        assert past.ranks[model][-1] == (block["rank"] or 0)
    assert past.items[-1] == run.result["items_administered"]
    assert past.cost[-1] == pytest.approx(run.result["cost"])
    assert past.undecided[-1] == open_pairs(run.result)


def test_the_page_says_what_the_result_says(run, past, content, html) -> None:
    result = run.result
    [fact] = [f for f in content["facts"] if "pairs decided" in f["label"]]
    decided, pairs = map(int, fact["label"].split("of neighbours ")[1].split(" of "))
    assert pairs - decided == open_pairs(result) == content["progress"]["last_undecided"]
    place = {m: n for n, m in enumerate(result["order"])}
    once = [p for p in result["pairwise"] if place.get(p["a"], 99) < place.get(p["b"], -1)]
    assert fact["value"] == f"{sum(p['decision'] == 'decided' for p in once)} of {len(once)}"
    rows = {row["cells"].name: row["cells"] for row in content["rows"]}
    lines = {line["name"]: line for line in content["progress"]["lines"]}
    ends = [v for m in run.models for e in ("low", "high") for v in getattr(past, e)[m]]
    assert np.isfinite(ends).any()
    up = {m: float(line["line"].split("L")[-1].split()[-1]) for m, line in lines.items()}
    values = {m: result["models"][m]["estimate"] for m in lines}
    # Heights on the chart are a straight line through the values of the table.
    slope, start = np.polyfit([values[m] for m in lines], [up[m] for m in lines], 1)
    for m in lines:
        assert up[m] == pytest.approx(start + slope * values[m], abs=0.01)
        assert rows[m].value == values[m]
        assert rows[m].rank == result["models"][m]["rank"]
        assert rows[m].items == len(result["models"][m]["items"])
    assert content["spending"]["asked"] == result["items_administered"]
    assert content["spending"]["cost_text"] in html
    [data] = re.findall(r'id="data">(.*?)</script>', html)
    page = json.loads(data)
    for i, a in enumerate(result["order"]):
        for j, b in enumerate(result["order"]):
            if (a, b) in run.pairwise:
                assert page["p"][i][j] == pytest.approx(100 * run.pairwise[a, b], abs=0.005)


def circles(svg: str) -> list[float]:
    return [float(e.get("cx")) for e in ElementTree.fromstring(svg).iter(f"{SVG}circle")]


def texts(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_charts_draw_what_the_result_says(run, html) -> None:
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
    shown = texts(plot_pairwise(run).svg)
    figures = [whole_percent(p["p"]) for p in run.result["pairwise"]]
    assert [t for t in shown if t in set(figures)][: len(figures)] or len(models) > 16
    assert texts(plot_progress(run).svg).count("Place in the order") == 1


def test_a_run_that_went_on_after_its_result_is_shown_as_it_is_now(tmp_path) -> None:
    make_run(tmp_path / "run", hostile=False, method="paper", n_models=3)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    for block in result["models"].values():
        block["items"] = block["items"][:5]
    result["ties"] = [result["order"]]
    (tmp_path / "run" / "result.json").write_text(json.dumps(result))
    now = read_run(tmp_path / "run")
    assert not now.finished
    assert open_pairs(now.result) == course(now).undecided[-1]


def test_figures_of_another_version_are_not_contradicted(tmp_path) -> None:
    make_run(tmp_path / "run", hostile=False, method="paper", n_models=3)
    file = tmp_path / "run" / "result.json"
    result = json.loads(file.read_text())
    model = result["order"][0]
    result["models"][model]["estimate"] += 0.5
    file.write_text(json.dumps(result))
    content = view(read_run(tmp_path / "run"))
    assert content["progress"] is None
    assert any("other figures" in w["text"] for w in content["warnings"])


def test_the_head_of_the_page_is_the_result_s_own_line(run, html) -> None:
    from lm_eval_ccat.ranker.headline import headline
    from lm_eval_ccat.report.decision import chain

    result, line = run.result, ""
    for part in chain(result, most=99):
        names = ", ".join(part["names"])
        own = "{" + names + "}" if len(part["names"]) > 1 else names
        line += f" {part['joint']} {own}" + (f" {part['ranks']}" if part["ranks"] else "")
    assert line.removeprefix(" > ") == result["ranking"]
    assert headline(result).replace(">", "&gt;").replace("<", "&lt;") in html


def test_rank_ranges_and_open_pairs_are_the_result_s(run, html) -> None:
    from lm_eval_ccat.report.decision import outlook, rank_rows

    result = run.result
    drawn = rank_rows(result)
    for row in drawn["rows"] if drawn else ():
        block = result["models"][row["name"]]
        assert [row["best"], row["worst"]] == block["rank_range"]
        assert row["p_best"] == block["p_best"]
        assert row["low"] * drawn["size"] == pytest.approx(100 * (row["best"] - 1), abs=0.5)
    found = outlook(result, run.currency)
    shown = (found["rows"] + found["more"]) if found else []
    assert [(r["a"], r["b"], dict(r["items"])) for r in shown] == [
        (p["a"], p["b"], p["items"]) for p in result["open_pairs"]
    ]
    if found:
        sure = any(not 0.025 <= p["p"] <= 0.975 for p in result["open_pairs"])
        assert ("needs stronger evidence to be decided" in html) is sure
