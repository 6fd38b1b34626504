"""How fast requests go out to a server that refuses them."""

from __future__ import annotations

from lm_eval_ccat.live.rates import Pace


def refused_at(second: float, *, then: int = 0) -> Pace:
    """Ten requests in the first second, a refusal at its end; `then` answers and a refusal more."""
    pace = Pace()
    for i in range(10):
        pace.sent(i / 10)
        pace.answered(i / 10 + 0.05)
    pace.refused(1.0, sent=0.95)
    for i in range(then):
        pace.sent(1.0 + i * second)
        pace.answered(1.0 + i * second)
    return pace


def test_the_first_refusal_measures_the_rate_that_was_taken():
    assert refused_at(1.0).rate == 10.0  # ten answers in a second


def test_a_server_that_refuses_again_at_once_is_asked_more_seldom():
    pace = refused_at(1.0)
    before = pace.rate
    pace.sent(2.0)
    pace.refused(2.1, sent=2.0)
    assert pace.rate < before
    again = pace.rate
    pace.refused(2.2, sent=2.05)  # under way at that refusal: the same event
    assert pace.rate == again


def test_answers_between_two_refusals_measure_the_limit_anew():
    pace = refused_at(1.0, then=8)  # eight answers in the eight seconds since
    pace.sent(9.0)
    pace.refused(9.0, sent=9.0)
    assert 0.9 <= pace.rate < 1.0
