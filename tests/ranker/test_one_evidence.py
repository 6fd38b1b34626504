"""One evidence: an interval ends at the difference at which a look would just fail to decide."""

from dataclasses import replace
from itertools import product
from math import comb

import numpy as np
import pytest
from worlds.boards import bank_of, draw

from lm_eval_ccat import Ranker
from lm_eval_ccat.methods.belief import Belief
from lm_eval_ccat.ranker.looks import Looks
from lm_eval_ccat.ranker.verdicts import DECIDED, EQUIVALENT, OPEN, Verdicts

RULES = [Looks(single_look=True), Looks(), Looks(horizons=(150,))]
RULES.append(Looks(horizons=(60, 200), starts=(10, 40)))
RULES.append(Looks(horizons=(150, 300), starts=(10, 90), pass_length=30))
RULES += [Looks(with_bank=False), Looks(horizons=(150,), with_bank=False)]


def two(gap: float, slope: float, zero: float, lean: float, df: float) -> Belief:
    """Two models this far apart, on scores or on abilities of some slope."""
    belief = Belief.independent([0.5 + gap, 0.5], [0.02, 0.03], n=[52, 50], n_items=400)
    pair_zero_loss = np.full((2, 2), zero)
    belief = replace(
        belief,
        df=np.full((2, 2), df),
        pair_zero_loss=pair_zero_loss,
        failure_bias=np.array([lean, 0.0]),
    )
    if slope == 1.0:
        return belief
    return replace(belief, score=slope * belief.location, slope=np.full(2, slope))


CASES = list(product(RULES, (1.0, 0.3), (0.0, 0.03), (0.0, 0.02), (9.0, np.inf)))


@pytest.mark.parametrize(("looks", "slope", "zero", "lean", "df"), CASES)
def test_an_interval_ends_where_a_look_stops_deciding(looks, slope, zero, lean, df):
    """The decision itself, at differences shifted by what an end says, is the reference."""

    def judged(gap: float, d: float = 0.0) -> Verdicts:
        belief = two(gap, slope, zero, lean, df)
        return Verdicts(belief, looks.after(belief, 0.05, d), "ab", min_difference=d)

    def ends(gap: float) -> tuple[float, float]:
        low, high = (float(end[0, 1]) / slope for end in judged(gap).intervals())
        return low, high

    # A decided pair shows how far the end beside 0 lies from the difference.
    apart = 0.9
    below, above = apart - ends(apart)[0], ends(-apart)[1] + apart
    assert below < apart and above < apart
    for side, arm in ((1.0, below), (-1.0, above)):
        for nearer, state in ((1e-6, OPEN), (-1e-6, DECIDED)):
            found = judged(side * (arm - nearer))
            assert found.state[0, 1] == state and found.sign[0, 1] == (side if state else 0)
    gap = 0.04
    low, high = ends(gap)
    assert low < 0.0 < high and judged(gap).state[0, 1] == OPEN
    # Ends that decide nothing lie farther out with a bank, and nowhere else.
    wider = 1.1 if looks.with_bank and not looks.single_look else 1.0
    if zero == lean == 0.0:
        assert gap - low == pytest.approx(wider * below) and high - gap == pytest.approx(
            wider * above
        )
    farthest = max(-low, high) * slope
    for d, state in ((farthest - 1e-6, OPEN), (farthest + 1e-6, EQUIVALENT)):
        assert judged(gap, d).state[0, 1] == state


METHODS = (("default", {}), ("sample", {}), ("sample", {"guarantee": "finite"}), ("paper", {}))
SHAPES = {
    "one": {},
    "capped": {"max_items": 40},
    "budget": {"budget": 90.0},
    "once": {"looks": "one", "max_items": 40},
    "known": {"known": {"r": 0.45, "s": 0.5, "t": (0.62, 0.01, 0.62)}, "max_items": 40},
    "exact": {"known": {"r": 0.45, "s": 0.5, "t": 0.62}, "max_items": 40},
    "family": {"familywise": True, "max_items": 60},
    "close": {"min_difference": 0.05, "max_items": 60},
    "close family": {"min_difference": 0.08, "familywise": True, "known": {"r": 0.5}},
    "tasks": {"max_items": 90},
    "population": {"question": "population", "max_items": 60},
}


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("method", "options"), METHODS, ids=lambda x: "-".join(x) if x else "")
def test_a_difference_excludes_0_if_and_only_if_its_pair_is_decided(method, options, shape):
    """At every third ask, with failures and zeros; equivalent pairs lie within d."""
    tasks = ("x", "y") if shape == "tasks" else ("x",)
    banks = {task: bank_of(method, 60, k) for k, task in enumerate(tasks)}
    scores = {task: draw([-0.9, -0.1, 0.0, 0.6], 60, 3, k) for k, task in enumerate(tasks)}
    bank = banks if shape == "tasks" else banks["x"]
    ranker = Ranker(bank, list("abcd"), seed=1, **SHAPES[shape], **options)
    rng, states, n = np.random.default_rng(5), set(), 0
    while not ranker.done and n < 150:
        for model, item in ranker.ask():
            task, doc = item if shape == "tasks" else ("x", item)
            score = float(scores[task]["abcd".index(model), doc])
            if rng.random() < 0.05:
                ranker.fail(model, item, "no answer")
            else:
                ranker.tell(model, item, 0.0 if rng.random() < 0.03 else score)
        n += 1
        if n % 3 and not ranker.done:
            continue
        verdicts = ranker.verdicts
        low, high = verdicts.intervals()
        d, state = verdicts.min_difference, verdicts.state
        off = ~np.eye(*state.shape, dtype=bool)
        excludes = (low > 0.0) | (high < 0.0)
        assert (excludes == (state == DECIDED))[off & (state != EQUIVALENT)].all()
        assert ((-d <= low) & (high <= d))[state == EQUIVALENT].all()
        assert ((low <= high) & np.isfinite(low) == np.isfinite(high)).all()
        states |= set(state[off].tolist())
    assert OPEN in states and (DECIDED in states or options)


@pytest.mark.parametrize("looks", [Looks(), Looks(horizons=(120,))])
@pytest.mark.parametrize(("n", "n_items"), [(40, 249), (80, 249), (80, 1000)])
def test_models_without_a_score_may_differ_by_what_so_many_items_would_hardly_have_shown(
    looks, n, n_items
):
    """All ways to draw the items are the reference: a share of right answers may stay unseen."""
    hits = next(k for k in range(n_items) if comb(n_items - k, n) < 0.025 * comb(n_items, n))
    unseen = (hits - 1) / n_items
    for mean in (0.0, 0.4 / n):
        # A bank that expects next to nothing makes the error of both smaller than what is unseen.
        belief = Belief.independent([mean] * 2, [0.001] * 2, n=[n] * 2, n_items=n_items)
        low, high = (float(end[0, 1]) for end in looks.ends(belief, 0.05, 0.05))
        assert low <= -unseen and unseen <= high
        verdicts = Verdicts(belief, looks.after(belief, 0.05, unseen), "ab", min_difference=unseen)
        assert verdicts.state[0, 1] == OPEN
    # Which model is better needs no such allowance.
    decided = replace(belief, location=np.array([0.2, 0.0]))
    assert Verdicts(decided, looks.after(decided, 0.05), "ab").state[0, 1] == DECIDED
