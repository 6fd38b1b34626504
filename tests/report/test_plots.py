"""Charts show what the results say, and come out as files that are the same every time."""

from __future__ import annotations

import json
import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, calibrate, simulate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.report import plots, read_run
from lm_eval_ccat.report.chart import Chart
from lm_eval_ccat.report.plots import plot_power, plot_ranking, plot_simulation
from lm_eval_ccat.testing.methods import example_table

SVG = "{http://www.w3.org/2000/svg}"


def drawn(chart: Chart, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(chart.svg).iter(SVG + tag))


def texts(chart: Chart) -> list[str]:
    return ["".join(e.itertext()) for e in drawn(chart, "text")]


TABLE = example_table(14, 150, seed=3)


@pytest.fixture(scope="module")
def replay():
    return simulate(TABLE, ["paper", "common"], folds=2, lengths=(5, 20, 40, 60), processes=1)


@pytest.mark.long
def test_simulation_is_drawn_from_its_sweep(replay, tmp_path):
    file = tmp_path / "sim.json"
    file.write_text(json.dumps(replay.to_dict()))
    first = plot_simulation(replay)
    assert first.svg == plot_simulation(replay.to_dict()).svg == plot_simulation(file).svg
    assert {"paper", "common"} <= set(texts(first))
    # Heights are a straight line through the taus: of each method, at each number of items.
    dots = [e for e in drawn(first, "circle") if float(e.get("cx")) < 400]
    taus = [p["tau"] for method in ("paper", "common") for p in replay.sweep[method]]
    heights = [float(e.get("cy")) for e in dots]
    slope, start = np.polyfit(taus, heights, 1)
    assert slope < 0 and heights == pytest.approx([start + slope * t for t in taus], abs=0.01)
    # Every share lies in its band; heights in a band are counted from the panel's top.
    bands = [
        [float(n) for n in re.findall(r"[-.\d]+", path.get("d"))][1::2]
        for inner in drawn(first, "svg")
        if inner.get("x") == "450"
        for path in inner.iter(SVG + "path")
        if path.get("fill") != "none"
    ]
    upper = [y for ys in bands for y in ys[: len(ys) // 2]]
    lower = [y for ys in bands for y in ys[: len(ys) // 2 - 1 : -1]]
    shares = [float(e.get("cy")) - 30 for e in drawn(first, "circle") if float(e.get("cx")) >= 450]
    assert len(upper) == len(lower) == len(shares) > 2
    # The dashed line stands where the labels of its axis have 95%.
    labels = {
        float("".join(e.itertext())): float(e.get("y")) - 4
        for e in drawn(first, "text")
        if e.get("x") == "444"
    }
    slope, start = np.polyfit([*labels], [*labels.values()], 1)
    [dashed] = [e for e in drawn(first, "line") if e.get("stroke-dasharray")]
    assert float(dashed.get("y1")) == pytest.approx(start + slope * 95.0, abs=0.1)
    for high, at, low in zip(upper, shares, lower):
        assert high <= at + 0.01 < low
    assert len(drawn(plot_simulation(replay, replay), "circle")) == 2 * len(drawn(first, "circle"))


@pytest.mark.long
def test_a_name_is_no_markup_and_the_same_chart_is_the_same_file(run_dir, tmp_path):
    first, second = (
        plot_ranking(read_run(run_dir)).save(tmp_path / out / "ranking")[0] for out in ("a", "b")
    )
    assert "<b onmouseover" in "".join(ElementTree.parse(first).getroot().itertext())
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.long
def test_the_command_draws_banks_and_simulations(replay, tmp_path):
    out, sim = tmp_path / "out", tmp_path / "sim.json"
    sim.write_text(json.dumps(replay.to_dict()))
    for method in ("paper", "default"):
        bank = calibrate(TABLE, method=method)
        bank.save(tmp_path / f"{method}.bank.json")
        assert main(["report", str(tmp_path / f"{method}.bank.json"), "--plots", str(out)]) == 0
        assert f"{int(bank.kept.sum())} items" in (out / "bank.svg").read_text("utf-8")
    assert main(["report", str(sim), "--plots", str(out), "--formats", "svg"]) == 0
    assert sorted(p.name for p in out.iterdir()) == ["bank.svg", "simulation.svg"]


@pytest.mark.long
def test_png_and_pdf_are_the_same_drawing(replay, tmp_path):
    pytest.importorskip("vl_convert", reason="the extra `plot` is not installed")
    chart = plot_simulation(replay)
    png, pdf = chart.save(tmp_path / "sim", ["png", "pdf"])
    assert png.read_bytes().startswith(b"\x89PNG") and pdf.read_bytes().startswith(b"%PDF")
    assert int.from_bytes(png.read_bytes()[16:20], "big") == 2 * chart.width


@pytest.mark.long
def test_without_the_extra_the_message_names_it(replay, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    (tmp_path / "sim.json").write_text(json.dumps(replay.to_dict()))
    command = ["report", str(tmp_path / "sim.json"), "--plots", str(tmp_path), "--formats", "png"]
    assert main(command) != 0
    assert re.search(r"pip install '\S+\[plot\]'", capsys.readouterr().err)


def test_each_way_to_choose_items_has_its_own_curve():
    gaps = {"10": {"random": 0.2, "bank": 0.12}, "40": {"random": 0.1, "bank": 0.05}}
    chart = plot_power({"smallest_gap_by_items": gaps, "metric": "acc", "chance": 0.8})
    heights = [float(e.get("cy")) for e in drawn(chart, "circle")]
    values = [gaps[n][way] for way in ("random", "bank") for n in gaps]
    slope, start = np.polyfit(values, heights, 1)
    assert slope < 0 and heights == pytest.approx([start + slope * v for v in values], abs=0.01)
    assert [text for text in texts(chart) if text in gaps["10"]] == ["random", "bank"]


@pytest.mark.long
def test_a_bank_of_many_items_has_no_more_points_than_fit(monkeypatch):
    monkeypatch.setattr(plots, "MAX_POINTS", 10)
    for n_items in (9, 19, 20, 21):
        points = drawn(plots.plot_bank(calibrate(example_table(12, n_items, seed=3))), "circle")
        assert min(n_items, 10) // 2 <= len(points) <= 10


@pytest.mark.parametrize("higher", [True, False])
def test_a_chart_says_that_lower_is_better(higher):
    bank = ItemBank.blank(range(40), scale=Scale(0, 100, higher_is_better=higher))
    chart = plot_ranking(Ranker(bank, ["a", "b"]).result())
    assert ("(lower is better)" in chart.svg) is not higher
