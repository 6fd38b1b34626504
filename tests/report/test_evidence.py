"""What charts and page draw of a bank and of documents, against curves that are differentiated."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic import make_run

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.methods.method import method_of
from lm_eval_ccat.ranker.columns import model_cells
from lm_eval_ccat.records import Header, Item, Tell
from lm_eval_ccat.report import read_run
from lm_eval_ccat.report.chart import TIE_FILL, Box, Chart, Panel, axis, between
from lm_eval_ccat.report.page import View, _evidence_by_curves, document_weights
from lm_eval_ccat.report.plots import difficulty, information_curve, plot_ranking, progress
from lm_eval_ccat.report.stored_run import StoredRun, _scores, replayed_course
from lm_eval_ccat.testing.methods import example_table


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence") / "run"
    return read_run(
        make_run(
            folder, n_models=5, n_items=60, budget=150, seed=3, method="default", hostile=False
        )
    )


def curves_of(bank):
    """The expected score, and the slope of its logit, as functions of an ability."""
    curves = method_of(bank).tested_curves(bank)

    def logits(ability):
        mu = curves.expected(np.array([ability]))[0]
        return np.log(mu / (1.0 - mu))

    def slope(ability, step=1e-5):
        return (logits(ability + step) - logits(ability - step)) / (2.0 * step)

    return curves, logits, slope


@pytest.mark.long
@pytest.mark.parametrize("method", ["paper", "default"])
def test_the_information_of_a_bank_is_that_of_its_curves(method):
    bank = calibrate(example_table(14, 60, seed=3), method=method)
    curves, logits, slope = curves_of(bank)
    grid, total, location = information_curve(bank, np.array([0.3]))
    by_item = []
    for ability in grid:
        at_origin = ability - curves.origin
        mu = 1.0 / (1.0 + np.exp(-logits(at_origin)))
        by_item.append(slope(at_origin) ** 2 * mu * (1.0 - mu) / curves.noise)
    by_item = np.array(by_item)
    assert total == pytest.approx(by_item[:, bank.kept].sum(axis=1), rel=1e-4)
    best = by_item[:, bank.kept].max(axis=0)
    here = by_item[np.searchsorted(grid, location[bank.kept]), np.flatnonzero(bank.kept)]
    assert here == pytest.approx(best, rel=1e-6)
    assert np.isnan(location[~bank.kept]).all()


@pytest.mark.long
@pytest.mark.parametrize("easier", [-2.0, 2.0])
def test_a_curve_goes_from_the_weakest_to_the_strongest_model_of_the_bank(easier):
    scores = example_table(14, 60, seed=3).scores
    scores = 1.0 / (1.0 + np.exp(-easier) * (1.0 / scores.clip(0.01, 0.99) - 1.0))
    bank = calibrate(ScoreTable.from_arrays(scores, [f"m{n}" for n in range(14)]), "default")
    curves, _, _ = curves_of(bank)
    grid, *_ = information_curve(bank, np.array([]))
    low, high = curves.expected(grid[[0, -1]] - curves.origin)[:, bank.kept].mean(axis=1)
    means = scores[:, bank.kept].mean(axis=1)
    assert low < means.min() < means.max() < high


@pytest.mark.long
def test_a_model_as_able_as_an_item_is_hard_scores_a_half():
    bank = calibrate(example_table(14, 60, seed=3), method="paper")
    curves, logits, _ = curves_of(bank)
    for item, ability in enumerate(difficulty(bank)):
        assert logits(ability - curves.origin)[item] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.long
def test_documents_weigh_as_much_as_they_move_neighbours_apart(run):
    """A score less the one expected between the two models, times slope over noise."""
    curves, logits, slope = curves_of(run.bank)
    scores = {(a.model, a.doc): a.score for a in run.answers}
    order = [m for m in run.result["order"] if m in run.tested]
    documents = list(dict.fromkeys(a.doc for a in run.answers))
    shares = dict.fromkeys(documents, 0.0)
    for a, b in pairwise(order):
        ability = np.mean([run.result["models"][m]["ability"] for m in (a, b)]) - curves.origin
        expected = 1.0 / (1.0 + np.exp(-logits(ability)))
        factor = slope(ability) / curves.noise
        evidence = {}
        for doc in documents:
            item = run.bank.index[doc]
            moved = [
                factor[item] * (scores[m, doc] - expected[item]) if (m, doc) in scores else 0.0
                for m in (a, b)
            ]
            evidence[doc] = abs(moved[0] - moved[1])
        for doc in documents:
            shares[doc] += evidence[doc] / sum(evidence.values()) / (len(order) - 1)
    assert document_weights(run) == pytest.approx(shares, rel=1e-5)
    assert len(order) == 5 and len(set(curves.noise.tolist())) > 1


@pytest.mark.long
def test_documents_weigh_alike_whatever_part_of_the_scale_a_metric_uses():
    """The paper's test stretches scores such as BERTScore's, which lie between 0.8 and 0.9."""
    scores = example_table(10, 40, seed=2).scores
    asked = np.random.default_rng(0).random((2, 40)) < 0.5  # each model has items of its own
    models = {"a": {"ability": 0.4}, "b": {"ability": -0.2}}
    run = SimpleNamespace(columns=SimpleNamespace(docs=range(40)), result={"models": models})
    wide, narrow = (
        _evidence_by_curves(
            run,
            calibrate(part_of_scale, "paper"),
            ["a", "b"],
            np.where(asked, part_of_scale[:2], np.nan),
        )
        for part_of_scale in (scores, 0.8 + 0.1 * scores)
    )
    assert narrow[0] == pytest.approx(wide[0])


def test_a_full_evaluation_costs_each_models_mean_times_the_benchmark(run):
    full = View(run, None).spending.full_costs
    assert full.keys() == set(run.tested)
    for model, cost in full.items():
        price = run.header.ranker["models"][model]  # of every answer
        assert cost == pytest.approx(60 * price)


@pytest.mark.long
def test_undecided_neighbours_share_a_shade(tmp_path):
    run = read_run(
        make_run(
            tmp_path / "run", n_models=6, n_items=60, budget=110, seed=3, method="default",
            hostile=False,
        )
    )  # fmt: skip
    rows = [row for row in model_cells(run.result) if row.rank]
    shaded = [
        (float(y) - 24) / 20
        for y in re.findall(rf'<rect x="\d+" y="(\d+)"[^>]*{TIE_FILL}', plot_ranking(run).svg)
    ]
    assert shaded == [n for n, row in enumerate(rows) if row.tie is not None]
    assert 0 < len(shaded) < len(rows)


@pytest.mark.long
def test_a_model_out_of_the_order_has_no_place_in_its_course(tmp_path):
    folder = make_run(
        tmp_path / "run", n_models=4, n_items=90, budget=140, seed=3, eventful=True,
        method="default", hostile=False,
    )  # fmt: skip
    run = read_run(folder)
    course = replayed_course(run)
    ranks = progress(run, course)["ranks"]
    [aside] = set(run.models) - set(run.result["order"])
    assert course.ranks[aside][-1] == 0 and np.isnan(ranks[aside][-1])
    assert sorted(ranks[model][-1] for model in run.result["order"]) == [1, 2, 3]


# -- axes -----------------------------------------------------------------------------------------


def test_marks_stay_on_their_axis_and_lines_may_leave_it():
    axis = between(2.0, 4.0)
    assert [axis.percent_at(value) for value in (1.0, 2.0, 3.0, 4.0, 9.0)] == [0, 0, 50, 100, 100]
    assert axis.uncut_percent(1.0) == -50.0 and axis.uncut_percent(5.0) == 150.0
    assert axis.ticks[0] == 2.0 and axis.ticks[-1] == 4.0


def test_a_larger_value_stands_higher():
    box = Box(between(0, 10), between(0, 4), 100, 50)
    assert [box.y(value) for value in (0, 1, 4)] == [50, 37.5, 0]
    chart = Chart(300, 200)
    Panel(chart, (50, 20, 200, 100), between(0, 10), between(0, 4))
    heights = {
        label: float(y)
        for y, label in re.findall(r'y="([\d.]+)" text-anchor="end"[^>]*>([\d.]+)<', chart.svg)
    }
    assert heights["0"] > heights["2"] > heights["4"] and heights["4"] == 20 + 4


# -- what a run directory says --------------------------------------------------------------------


@pytest.mark.parametrize("leading", ["bleu", "chrf"])
def test_of_several_outcomes_the_one_with_the_largest_weight_is_shown(leading):
    banks = {name: ItemBank.blank(range(9), metric=name) for name in ("bleu", "chrf")}
    outcomes = {name: {"weight": 2.0 if name == leading else 1.0} for name in banks}
    header = Header(report={"outcomes": {"t": outcomes}})
    run = StoredRun(Path(), header, {}, [], True, banks={"t": banks})
    assert run.bank is banks[leading]
    raw = {"chrf": 41.0, "bleu": 7.0}
    answer = Tell(model="m", item=Item(("t", 3)), score={"chrf": 0.41, "bleu": 0.07}, raw=raw)
    assert _scores(answer, leading) == (raw[leading] / 100, raw[leading])


@pytest.mark.parametrize(
    ("tasks", "doc_id", "documents"),
    [
        ("t", 7, [7]),
        ("t", ["t", 7, 2], [7]),
        ("tu", ["u", 7], [("u", 7)]),
        ("tu", ["u", 7, 2], [("u", 7)]),
    ],
)
def test_a_failed_repeat_is_of_its_document(tasks, doc_id, documents):
    header = Header(report={"outcomes": {task: {"acc": {"weight": 1.0}} for task in tasks}})
    failed = [{"doc_id": doc_id, "reason": "too long"}]
    run = StoredRun(Path(), header, {"models": {"m": {"failed": failed}}}, [], True)
    assert [failure.doc for failure in run.failed] == documents


@pytest.mark.long
def test_a_bank_that_was_changed_is_not_the_runs(tmp_path):
    folder = make_run(tmp_path / "run", n_models=2, n_items=40, budget=30, hostile=False)
    assert read_run(folder).banks is not None
    calibrate(example_table(14, 40, seed=5), "paper").save(folder / "bank.json")
    run = read_run(folder)
    assert run.banks is None and replayed_course(run) is None


def test_an_axis_leaves_as_much_room_below_its_values_as_above():
    across = axis([3.0, 5.0, 7.0])
    assert 3.0 - across.low == pytest.approx(across.high - 7.0) and across.low < 3.0


def test_a_band_is_as_large_as_the_integral_between_its_lines():
    """By the shoelace formula, against the trapezoids between the two lines."""
    xs = np.array([0.0, 1.0, 3.0, 4.0])
    high, low = np.array([0.9, 0.7, 0.8, 1.0]), np.array([0.1, 0.4, 0.2, 0.6])
    box = Box(between(0.0, 4.0), between(0.0, 1.0), 400.0, 100.0)
    numbers = [
        float(n)
        for n in re.findall(r"-?[\d.]+", box.area(*map(np.ndarray.tolist, (xs, high, low))))
    ]
    x, y = np.array(numbers[::2]), np.array(numbers[1::2])
    enclosed = 0.5 * abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))
    heights = high - low
    integral = np.sum(np.diff(xs) * (heights[1:] + heights[:-1]) / 2)
    assert enclosed == pytest.approx(integral * 100.0 * 100.0, rel=1e-3)
