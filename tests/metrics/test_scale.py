"""Scales: what is mapped, what is refused, and that mapping and restoring undo each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.errors import ScaleError
from lm_eval_ccat.metrics import Scale

finite = st.floats(-1e6, 1e6, allow_nan=False)


@st.composite
def scales(draw):
    low = draw(finite)
    return Scale(low, low + draw(st.floats(1e-3, 1e6)), draw(st.booleans()))


@given(scales(), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_normalise_undoes_restore(scale, unit):
    raw = scale.restore(unit)
    np.testing.assert_allclose(scale.normalise(raw), unit, atol=1e-6 + 1e-9 / scale.span)


@given(scales(), st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_direction_is_kept(scale, unit):
    raw = scale.restore(unit)
    back = scale.normalise(raw)
    better_raw = (raw[0] > raw[1]) if scale.higher_is_better else (raw[0] < raw[1])
    if better_raw:
        assert back[0] >= back[1]


@given(scales(), st.floats(0, 1))
def test_an_error_is_scaled_by_the_slope(scale, se):
    assert scale.restore_error(se) == pytest.approx(
        abs(float(scale.restore(se)) - float(scale.restore(0.0))), rel=1e-6, abs=1e-6
    )


def test_lower_is_better_turns_round():
    np.testing.assert_allclose(Scale(0, 25, False).normalise([0, 5, 25]), [1, 0.8, 0])


def test_missing_scores_pass_through():
    unit = Scale(0, 100).normalise([50, np.nan])
    assert unit[0] == 0.5 and np.isnan(unit[1])


def test_a_cap_bounds_an_unbounded_metric():
    scale = Scale(cap=100)
    np.testing.assert_allclose(scale.normalise([0, 30, 100, 6300]), [1, 0.7, 0, 0])
    assert not scale.higher_is_better and scale.low == 0 and scale.high == 100
    np.testing.assert_allclose(scale.restore([1, 0.7, 0]), [0, 30, 100])


def test_scores_outside_the_scale_are_named():
    with pytest.raises(ScaleError, match=r"1 of 3 scores lie outside the scale 0 to 1.*1\.5"):
        Scale().normalise([0.2, 1.5, np.nan])
    with pytest.raises(ScaleError, match=r"-0.1"):
        Scale(cap=1).normalise([-0.1])
    with pytest.raises(ScaleError, match=r"inf"):
        Scale(cap=1).normalise([np.inf])


def test_rounding_at_the_ends_is_no_mistake():
    assert Scale(0, 100).normalise([100 + 1e-8, -1e-8]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "arguments", [{"low": 1, "high": 1}, {"low": 2, "high": 1}, {"high": np.inf}, {"cap": 0},
                  {"cap": "1"}, {"low": True}]
)  # fmt: skip
def test_scales_that_cannot_be_meant(arguments):
    with pytest.raises(ScaleError):
        Scale(**arguments)


def test_a_scale_survives_json():
    for scale in (Scale(0, 100), Scale(-1, 1, False), Scale(cap=2.5)):
        assert Scale.from_dict(scale.to_dict()) == scale
    with pytest.raises(ScaleError, match=r"hi"):
        Scale.from_dict({"low": 0, "hi": 1})
