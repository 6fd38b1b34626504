"""Per-item scaling: the paper's formula, calibration data alone, and back from a file."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, simulate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores.item_scaling import ItemScaling
from lm_eval_ccat.upkeep.tables import scores_for

RAW = np.array([[8.0, 12.0, 10.0], [12.0, 16.0, 10.0], [10.0, np.nan, 10.0], [2.0, 30.0, 10.0]])
FKGL = {"scale": Scale(0, 30, False), "metric": "fkgl"}


@pytest.fixture
def table():
    configs = ["", "t=0", "t=1", ""]
    return ScoreTable.from_arrays(RAW, ["a", "b", "b", "new"], configs=configs, **FKGL)


def test_each_item_is_spread_over_its_calibration_range(table):
    scaling = ItemScaling.fit(table.without(["new"]))
    scaled = scaling.apply(table)
    # Lower grades are better: the easiest calibration text of an item becomes 1.
    expected = [[1, 1, 0.5], [0, 0, 0.5], [0.5, np.nan, 0.5], [1, 0, 0.5]]
    np.testing.assert_allclose(scaled.raw, expected, atol=1e-12)
    assert [scaling.score(0, raw) for raw in RAW[:, 0]] == scaled.raw[:, 0].tolist()
    assert scaled.metric == "fkgl_item_scaled" and scaled.scale == Scale()
    assert scaled.row_config == table.row_config
    wider = scaling.apply(ScoreTable.from_arrays([[8.0, 9.0]], ["x"], [0, 7], **FKGL))
    assert np.isnan(wider.raw[0]).tolist() == [False, True]
    assert "1 documents have no item scaling" in wider.warnings
    with pytest.raises(ScoreTableError, match=r"of fkgl .* of rougeL"):
        scaling.apply(ScoreTable.from_arrays(RAW / 30, list("abcd"), metric="rougeL"))
    with pytest.raises(ScoreTableError, match="scaled already"):
        ItemScaling.fit(scaled)


def test_a_bank_keeps_the_ends_and_scales_new_scores_by_them(table, tmp_path, capsys):
    table.write(tmp_path / "t.parquet")
    bank, source = str(tmp_path / "b.json"), str(tmp_path / "t.parquet")
    make = ["calibrate", source, "--method", "paper", "--scale_items", "--exclude", "new"]
    assert main([*make, "-o", bank]) == 0
    made = ItemBank.load(bank)
    assert made.metric == "fkgl_item_scaled" and "new" not in made.models
    expected = ItemScaling.fit(table.without(["new"])).apply(table)
    np.testing.assert_array_equal(scores_for(made, source).raw, expected.raw)
    with pytest.raises(ScoreTableError, match="scaling is damaged"):
        ItemScaling.of_bank({"item_scaling": {"low": [0.0]}})


def test_a_replay_scales_by_each_folds_calibration_models():
    rng = np.random.default_rng(3)
    skill = np.linspace(0.3, 0.7, 8)[:, None]
    # Every item uses another narrow part of the scale: what the scaling is for.
    raw = rng.uniform(0, 0.8, 40) + 0.1 * np.clip(skill + 0.2 * rng.normal(size=(8, 40)), 0, 1)
    table = ScoreTable.from_arrays(raw, [f"m{n}" for n in range(8)])
    arguments = dict(methods=["common"], seeds=1, processes=1, holdouts=[["m2", "m5"]])
    by_hand = ItemScaling.fit(table.without(["m2", "m5"])).apply(table)
    one, other, plain = (
        [{**run, "seconds": 0} for run in simulate(scores, item_scaling=scale, **arguments).runs]
        for scores, scale in ((table, True), (by_hand, False), (table, False))
    )
    assert one == other != plain
