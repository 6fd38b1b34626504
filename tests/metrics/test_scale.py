"""Scales: what is mapped, what is refused, and that mapping and restoring undo each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.errors import ScaleError
from lm_eval_ccat.metrics import Scale


@st.composite
def scales(draw):
    if draw(st.booleans()):
        return Scale(cap=draw(st.floats(1e-3, 1e6)))
    low = draw(st.floats(-1e6, 1e6))
    return Scale(low, low + draw(st.floats(1e-3, 1e6)), draw(st.booleans()))


@given(scales(), st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_normalise_undoes_restore_and_an_error_is_scaled_by_the_slope(scale, unit):
    raw = scale.restore(unit)
    back = scale.normalise(raw)
    np.testing.assert_allclose(back, unit, atol=1e-6 + 1e-9 / scale.span)
    assert [scale.normalise_number(number) for number in raw.tolist()] == back.tolist()
    assert Scale.from_dict(scale.to_dict()) == scale and scale.holds(raw)
    rising = np.diff(back)[np.diff(raw) > 0]
    assert (rising >= 0 if scale.higher_is_better else rising <= 0).all()
    moved = abs(float(scale.restore(unit[0])) - float(scale.restore(0.0)))
    assert scale.restore_error(unit[0]) == pytest.approx(moved, rel=1e-6, abs=1e-6)


def test_scores_by_hand():
    np.testing.assert_allclose(Scale(0, 25, False).normalise([0, 5, 25]), [1, 0.8, 0])
    np.testing.assert_allclose(Scale(cap=100).normalise([0, 30, 100, 6300]), [1, 0.7, 0, 0])
    np.testing.assert_array_equal(Scale(0, 100).normalise([50, np.nan]), [0.5, np.nan])
    assert Scale(0, 100).normalise([100 + 1e-8, -1e-8]).tolist() == [1.0, 0.0]  # rounding
    assert Scale(0, 100).normalise_number(100 + 1e-8) == 1.0
    assert np.isnan(Scale(0, 100).normalise_number(np.nan))


def test_what_lies_outside_the_scale_or_is_none_is_refused():
    for scale, raw, words in (
        (Scale(), [0.2, 1.5, np.nan], r"1 of 3 scores lie outside the scale 0 to 1.*1\.5"),
        (Scale(cap=1), [-0.1], "-0.1"),
        (Scale(cap=1), [np.inf], "inf"),
    ):
        with pytest.raises(ScaleError, match=words):
            scale.normalise(raw)
        with pytest.raises(ScaleError):
            [scale.normalise_number(number) for number in raw]
    for wrong in ({"low": 1}, {"high": np.inf}, {"cap": 0}, {"cap": "1"}, {"low": True},
                  {"low": 0, "hi": 1}):  # fmt: skip
        with pytest.raises(ScaleError):
            Scale.from_dict(wrong)
