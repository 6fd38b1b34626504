"""What beliefs and looks decide, against enumeration, simulation and the textbook."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, stdtr
from scipy.stats import hypergeom
from worlds.boards import drive

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.methods.belief import Belief, References
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.ranker.boundary import FIRST_LOOK
from lm_eval_ccat.ranker.difference import Asked, Difference, StatedPair
from lm_eval_ccat.ranker.families import family_size, step_down, still_true
from lm_eval_ccat.ranker.looks import Looks
from lm_eval_ccat.ranker.rows import place_of
from lm_eval_ccat.ranker.verdicts import DECIDED, EQUIVALENT, OPEN, Decisions, Verdicts

CASES = settings(max_examples=60, deadline=None)


def board(means: dict[str, float], error: float = 0.0) -> References:
    at = np.array([*means.values()])
    e = np.full(len(at), error)
    return References(tuple(means), at, e**2, at, e)


def some(seed: int, n: int, references: bool = False, spread: float = 0.1) -> Belief:
    """A belief at random; some of the models are far apart, some are not."""
    rng = np.random.default_rng(seed)
    found = Belief.independent(
        rng.normal(0.5, spread, n).clip(0.05, 0.95),
        rng.uniform(0.005, 0.05, n),
        n=rng.integers(5, 150, n),
        n_items=400,
    )
    df = rng.choice([4.0, 30.0, np.inf])
    found = replace(found, df=np.full((n, n), df))
    if not references:
        return found
    beyond, refusals = rng.choice([0.0, 0.02**2], (2, n)), rng.choice([0.0, 0.03**2], n)
    return replace(
        found,
        variance=found.variance + np.diag(beyond.max(axis=0)),
        beyond_banks=beyond,
        refusal_variance=refusals,
        references=board({"r": 0.4, "s": 0.55}),
    )


LOOKS = [
    Looks(single_look=True),
    Looks(),
    Looks(horizons=(150,)),
    Looks(horizons=(60, 200), starts=(10, 40)),
    Looks(horizons=(150,), with_bank=False),
]


# -- order and ranks -----------------------------------------------------------------------------


@CASES
@given(n=st.integers(3, 5), seed=st.integers(0, 10**6), references=st.booleans())
def test_ranges_are_those_of_all_orders_that_decided_pairs_allow(n, seed, references):
    belief = some(seed, n, references)
    v = Verdicts(belief, LOOKS[0].after(belief, 0.05), "abcde"[:n])
    rng, m = np.random.default_rng(seed), len(v.names)
    gap = belief.pairs[0]
    sign = np.where(rng.random(gap.shape) < 0.4, np.sign(gap), 0).astype(np.int8)
    sign[:, :n] = np.triu(sign[:, :n], 1) - np.triu(sign[:, :n], 1).T
    v.__dict__["_all_decided"] = Decisions(sign, np.abs(sign))
    pairs = [(i, j) if s > 0 else (j, i) for i, j in np.argwhere(sign) for s in [sign[i, j]]]
    if references:
        pairs.append((m - 1, m - 2))  # s stands above r, whatever else
    allowed = [p for p in permutations(range(1, m + 1)) if all(p[i] < p[j] for i, j in pairs)]
    best, worst = v.ranges
    assert best.tolist() == [min(p[i] for p in allowed) for i in range(m)]
    assert worst.tolist() == [max(p[i] for p in allowed) for i in range(m)]


def test_chances_agree_with_the_integral_over_independent_normals():
    mean, sd = np.array([0.5, 0.48, 0.40]), np.array([0.03, 0.03, 0.05])
    x = np.linspace(0.0, 1.0, 20001)
    z = (x[:, None] - mean) / sd
    phi = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) / sd
    cdf = np.cumsum(phi, axis=0) * (x[1] - x[0])
    exact = [
        float((phi[:, i] * np.prod(np.delete(cdf, i, axis=1), axis=1)).sum() * (x[1] - x[0]))
        for i in range(3)
    ]
    belief = Belief.independent(mean, sd, n=[50] * 3, n_items=1000)
    for b in (belief, replace(belief, references=board({"low": 0.01}))):
        v = Verdicts(b, Looks().after(b, 0.05), "abc")
        chances = v.p_top((1, 3))
        assert [chances[1][m] for m in "abc"] == pytest.approx(exact, abs=0.025)
        assert [chances[3][m] for m in "abc"] == pytest.approx([1.0] * 3)


# -- one verdict ---------------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [Looks(), Looks(horizons=(300,)), Looks(single_look=True)])
def test_what_shows_that_one_model_is_better_shows_of_the_other_that_it_is_worse(looks):
    """Models of unequal losses and failures; the same belief with its models exchanged."""
    belief = Belief.independent([0.9, 0.6], [0.02, 0.03], n=[40, 60], n_items=300)
    count, loss = np.array([[0.0, 7.0], [1.0, 0.0]]), np.array([[0.0, 0.03], [0.01, 0.0]])
    bias = np.array([0.002, -0.003])
    belief = replace(belief, zero_count=count, pair_zero_loss=loss, failure_bias=bias)
    as_is, turned = (looks.after(b, 0.05, 0.6).evidence for b in (belief, belief.only([1, 0])))
    for found, other in ((as_is, turned), (turned, as_is)):
        assert found.better[0, 1] == pytest.approx(other.worse[0, 1], rel=1e-12)
        assert found.close[0, 1] == pytest.approx(other.close[0, 1], rel=1e-12)
    assert as_is.better[0, 1] > 0.0 and as_is.close[0, 1] > 0.0


def test_known_models_far_below_change_no_chance_and_above_take_their_places():
    """Errors of two models that have much in common: a is nearly always the better one.

    Beside known models alone, a mean of few scores near 1 errs more to one side than to the other.
    """
    belief = Belief.independent([0.93, 0.9], [0.1] * 2, n=[900, 12], n_items=9000)
    variance = belief.variance.copy()
    variance[0, 1] = variance[1, 0] = 0.01**2
    belief = replace(belief, variance=variance)

    def chances(known: dict[str, float]) -> dict[int, dict[str, float]]:
        beside = replace(belief, references=board(known))
        looks = Looks(single_look=True).after(beside, 0.05)
        return Verdicts(beside, looks, "ab").p_top((1, 2, 3))

    below = chances({"k": -3.0, "l": -4.0})
    assert below[1]["a"] == pytest.approx(ndtr(3.0), abs=0.003) and below[2]["b"] > 0.999
    above = chances({"k": 3.5, "l": 3.4, "m": 3.3})
    assert [above[k]["a"] for k in (1, 2, 3)] == [0.0, 0.0, 0.0]
    assert [sum(above[k].values()) for k in (1, 2, 3)] == [1.0, 2.0, 3.0]


def test_models_known_to_be_equal_share_the_chance_to_be_the_best():
    equal = Belief.independent([0.5, 0.5, 0.5, 0.2], [0.0] * 4, n=[50] * 4, n_items=50)
    chances = Verdicts(equal, Looks(single_look=True), "abcd").p_top((1, 2))
    assert chances[1] == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3, "d": 0.0}, abs=0.03)
    assert sum(chances[2].values()) == pytest.approx(2.0)


@pytest.mark.parametrize("seed", range(8))
def test_exactly_k_models_are_the_best_k_beside_known_ones_too(seed):
    belief = some(seed, 4, references=True, spread=0.4)
    chances = Verdicts(belief, Looks(single_look=True), "abcd").p_top((1, 2, 3))
    assert [sum(of.values()) for of in chances.values()] == pytest.approx([1.0, 2.0, 3.0])


@pytest.mark.long
@CASES
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 5),
    looks=st.sampled_from(LOOKS),
    references=st.booleans(),
    familywise=st.booleans(),
    d=st.sampled_from([0.0, 0.05]),
)
def test_order_sign_probability_and_interval_of_a_pair_agree(
    seed, n, looks, references, familywise, d
):
    names = "abcde"[:n]
    for k in range(3):  # three looks, the models move in between
        belief = some(seed + k, n, references)
        looks = looks.after(belief, 0.05, d)
    v = Verdicts(belief, looks, names, familywise=familywise, min_difference=d)
    own = v.state[:, :n]
    assert (own == own.T).all() and (v.sign[:, :n] == -v.sign[:, :n].T).all()
    assert ((v.sign != 0) == (v.state == DECIDED)).all()
    gap = belief.pairs[0]
    assert (v.sign * gap >= 0.0).all() and (v.better[v.sign > 0] > 0.5).all()
    assert (v.better[v.sign < 0] < 0.5).all()
    rank = {name: i for i, name in enumerate(v.order)}
    for i, j in zip(*np.nonzero(v.sign > 0)):
        assert rank[v.names[i]] < rank[v.names[j]]
    ends = [v.intervals(c) for c in (0.6, 0.8, 0.95, 0.99)]
    for (low, high), (lower, higher) in pairwise(ends):
        assert (lower <= low + 1e-9).all() and (high <= higher + 1e-9).all()
    low, high = v.intervals()
    off = ~np.eye(n, low.shape[1], dtype=bool)
    assert ((low <= gap + 1e-9) & (gap - 1e-9 <= high))[off].all()
    assert (((low > 0.0) | (high < 0.0)) == (v.state == DECIDED))[
        off & (v.state != EQUIVALENT)
    ].all()
    assert ((-d <= low) & (high <= d))[v.state == EQUIVALENT].all()


@pytest.mark.long
@CASES
@given(seed=st.integers(0, 10**6), references=st.booleans())
def test_a_look_at_what_changed_sees_what_a_look_at_all_sees(seed, references):
    rng, n, items = np.random.default_rng(seed), 5, np.full(5, 20.0)
    at, sd, lean = rng.random(n), rng.uniform(0.01, 0.1, n), np.zeros(n)
    few = every = Looks(horizons=(60,))
    r = board({"low": 0.3, "high": 0.7}) if references else None
    for _ in range(12):
        moved = rng.random(n) < 0.3
        at, items = np.where(moved, rng.random(n), at), items + moved * rng.integers(0, 3, n)
        belief = Belief.independent(at, sd / items**0.5, n=items, n_items=100)
        lean = np.where(rng.random(n) < 0.2, rng.uniform(-0.4, 0.4, n), lean)  # answers fail
        refusals = np.where(rng.random(n) < 0.2, rng.uniform(0.0, 0.01, n), 0.0)
        belief = replace(belief, references=r, failure_bias=lean, refusal_variance=refusals)
        few, every = (x.after(belief, 0.05, 0.05) for x in (few, replace(every, last=None)))
        assert np.array_equal(few.evidence, every.evidence)


def test_models_that_no_longer_seem_beyond_the_banks_are_equivalent_at_that_look():
    equal = Belief.independent([0.5, 0.5], [0.01, 0.01], n=[50, 50], n_items=5000)
    beyond, within = (replace(equal, beyond_banks=np.full((2, 2), x)) for x in (0.1, 0.0))
    looks = Looks(horizons=(60,)).after(beyond, 0.05, 0.1)
    assert not looks.evidence.close.any()
    assert looks.after(within, 0.05, 0.1).evidence.close[0, 1] > -np.log(0.05)


def test_looks_at_known_models_stay_when_a_model_joins():
    """Who joins changes nothing of what was decided before, on either side of it."""
    known = board({"low": 0.2, "high": 0.8, "near": 0.52})

    def at_look(locations: list[float], error: float) -> Belief:
        n = len(locations)
        belief = Belief.independent(locations, [error] * n, n=[80.0] * n, n_items=500)
        return replace(belief, references=known)

    looks = Looks().after(at_look([0.5, 0.6], 0.02), 0.05)
    vague = at_look([0.5, 0.6, 0.4], 0.4)  # which alone decides nothing
    without, alone = looks.after(vague.only([0, 1]), 0.05), Looks().after(vague, 0.05)
    together = looks.with_models(3).after(vague, 0.05)
    before = Verdicts(vague.only([0, 1]), without, "ab").state
    assert before.tolist() == [[OPEN, DECIDED, *[DECIDED] * 2, OPEN],
                               [DECIDED, OPEN, *[DECIDED] * 3]]  # fmt: skip
    after = Verdicts(vague, together, "abc").state
    assert np.array_equal(np.delete(after, 2, axis=1)[:2], before)
    newcomer = np.delete(after, [0, 1], axis=1)[2].tolist(), after[:2, 2].tolist()
    assert newcomer == ([OPEN] * 4, [OPEN] * 2) and not (alone.evidence.better > 0.0).any()


def test_a_pair_that_turns_round_is_open_again_and_said_to_be():
    names, n, errors = "abc", [80.0] * 3, [0.02] * 3  # c is clearly below at every look
    first = Belief.independent([0.7, 0.5, 0.1], errors, n=n, n_items=500)
    looks = Looks().after(first, 0.05)
    assert Verdicts(first, looks, names).state[0, 1] == DECIDED
    near = Belief.independent([0.62, 0.58, 0.1], errors, n=n, n_items=500)
    assert Verdicts(near, looks.after(near, 0.05), names).state[0, 1] == DECIDED  # it stays
    turned = Belief.independent([0.58, 0.62, 0.1], errors, n=n, n_items=500)
    v = Verdicts(turned, looks.after(turned, 0.05), names)
    assert v.state[0, 1] == OPEN and v.withdrawn == [("a", "b")] and v.order == ["b", "a", "c"]
    order = [1, 0, 2]  # a was over b, whichever is given first
    v = Verdicts(turned.only(order), looks.after(turned, 0.05).only(order), "bac")
    assert v.withdrawn == [("a", "b")]


@pytest.mark.parametrize("scale", [Scale(0, 1), Scale(0, 100), Scale(-2, 2, False)])
def test_a_difference_too_small_to_matter_is_stated_on_the_scale_of_the_metric(scale):
    """The models differ on 4 of 80 documents, all of which are answered: by a twentieth."""
    for share, decision in ((0.06, "equivalent"), (0.04, "decided")):
        bank = ItemBank.blank(range(80), scale=scale)
        ranker = Ranker(bank, ["a", "b"], min_difference=share * scale.span)
        for item in range(80):
            ranker.tell("a", item, float(item % 2))
            ranker.tell("b", item, float(item % 2 or item % 20 == 0))
        assert ranker.result().decisions["a", "b"] == decision


def test_models_are_equivalent_only_where_a_larger_difference_is_ruled_out():
    for error, state in ((0.2, OPEN), (0.001, EQUIVALENT)):
        belief = Belief.independent([0.5, 0.5], [error] * 2, n=[100] * 2, n_items=1000)
        looks = Looks().after(belief, 0.05, 0.05)
        assert Verdicts(belief, looks, "ab", min_difference=0.05).state[0, 1] == state


@pytest.mark.parametrize(("familywise", "pairs"), [(False, 1), (True, 3)])
def test_equivalence_of_a_family_is_that_of_all_its_pairs(familywise, pairs):
    b = Belief.independent([0.5] * 3, [0.02] * 3, n=[100] * 3, n_items=1000)
    p = pairs * 2.0 * ndtr(-0.06 / np.hypot(0.02, 0.02))
    for level, state in ((p - 1e-9, OPEN), (p + 1e-9, EQUIVALENT)):
        looks = Looks(single_look=True).after(b, level, 0.06)
        v = Verdicts(b, looks, "abc", 1.0 - level, familywise=familywise, min_difference=0.06)
        assert v.state[0, 1] == state


def test_a_model_beyond_the_banks_may_differ_by_more_than_it_seems_to_but_not_by_less():
    """Errors of .03 each; two are below the banks, where half of the excess counts."""
    belief = Belief.independent([0.4, 0.41, 0.6], [0.03] * 3, n=[50] * 3, n_items=5000)
    beyond = replace(belief, beyond_banks=0.04**2 * np.array([[2.0, 2.0, 0.0], [0.0] * 3]))
    looks, inner, outer = Looks(single_look=True), 0.03 * 2**0.5, (2 * 0.03**2 + 0.04**2) ** 0.5
    low, high = (ends - beyond.pairs.gap for ends in looks.ends(beyond, 0.05, 0.05))
    # Of the open pair both ends are farther, of a decided one the end that lies away from 0.
    assert [low[0, 1], -high[0, 1], low[0, 2]] == pytest.approx([-1.96 * outer] * 3, rel=1e-4)
    assert high[0, 2] == pytest.approx(1.96 * inner, rel=1e-4)
    i, j = np.triu_indices(3, 1)
    without, evidence = (looks.evidence_at(b, i, j, 0.05, 0.1) for b in (belief, beyond))
    assert evidence.worse.tolist() == without.worse.tolist() and evidence.worse[1] > 3.0
    assert without.close[0] > -np.log(0.05) > evidence.close[0]


def test_beside_known_means_each_side_is_decided_by_the_error_of_its_own_end():
    """Errors of .03: a model above the banks, .04 towards above; one that may refuse, .05 below."""
    above, below = 0.04**2 - 0.03**2, 0.05**2 - 0.03**2
    belief = Belief.independent([0.5], [0.04], n=[50], n_items=5000)
    belief = replace(belief, beyond_banks=np.array([[0.0], [above]]))
    belief = replace(belief, refusal_variance=np.array([below]))
    z, apart = 1.959964, np.array([0.0501, 0.0499, 0.0399, 0.0401])
    means = 0.5 + z * apart * [-1.0, -1.0, 1.0, 1.0]
    belief = replace(belief, references=board({f"known {mean}": mean for mean in means}))
    v = Verdicts(belief, Looks(single_look=True).after(belief, 0.05), ["new"])
    assert v.sign[0, 1:].tolist() == [1, 0, 0, -1]
    low, high = (ends[0, 1:] - belief.pairs.gap[0, 1:] for ends in v.intervals())
    assert low == pytest.approx(-z * 0.05, rel=1e-4) and high == pytest.approx(z * 0.04, rel=1e-4)
    assert v.better[0, 1:] == pytest.approx(ndtr(z * apart / [0.05, 0.05, -0.04, -0.04]))


def test_one_look_is_students_test():
    b = replace(
        Belief.independent([0.6, 0.5], [0.03, 0.03], n=[20, 20], n_items=500),
        df=np.full((2, 2), 9.0),
    )
    p = 2.0 * stdtr(9.0, -0.1 / np.hypot(0.03, 0.03))
    for c, state in ((1.0 - p - 1e-9, DECIDED), (1.0 - p + 1e-9, OPEN)):
        v = Verdicts(b, Looks(single_look=True).after(b, 1.0 - c), "ab", c)
        assert v.state[0, 1] == state
        low, _ = v.intervals()
        assert bool(low[0, 1] > 0.0) == (state == DECIDED)


def test_exact_references_that_are_equal_are_equivalent_and_others_as_they_stand():
    b = Belief.independent([0.9], [0.01], n=[90], n_items=500)
    b = replace(b, references=board({"x": 0.5, "y": 0.5, "z": 0.2}))
    v = Verdicts(b, Looks().after(b, 0.05), "a")
    assert v.adjacent.tolist() == [DECIDED, EQUIVALENT, DECIDED]
    assert [v.pair(*ij) for ij in ((1, 2), (2, 3), (3, 0))] == [
        (0, EQUIVALENT),
        (1, DECIDED),
        (-1, DECIDED),
    ]
    assert v.rank_ranges == {"a": (1, 1), "x": (2, 3), "y": (2, 3), "z": (4, 4)}


# -- families ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_references"), [(2, 0), (3, 0), (4, 0), (5, 0), (3, 3), (4, 4)])
def test_shaffers_counts_are_those_of_all_ways_to_be_equal(n, n_references):
    """Every way to give each model one of the values, references' values among them."""
    counts = set()
    for values in product(range(n + n_references), repeat=n):
        pairs = sum(values[i] == values[j] for i in range(n) for j in range(i))
        counts.add(pairs + sum(v < n_references for v in values))
    total = n * (n - 1) // 2 + (n if n_references else 0)
    expected = [max(c for c in counts if c <= total - k) for k in range(total)]
    assert still_true(n, n_references > 0).tolist() == expected


@pytest.mark.parametrize("n", [3, 5])
def test_of_a_family_no_pair_is_decided_before_one_of_smaller_p(n):
    """Else a step down to fewer hypotheses would decide what the step before left open."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        p = np.triu(rng.uniform(0.0, 0.1, (n, n)), 1)
        found = step_down(p + p.T + np.eye(n), some(seed, n), 0.05).p
        upper = np.triu_indices(n, 1)
        stepped = found[upper][np.argsort(p[upper])]
        assert (np.diff(stepped) >= 0.0).all() and (stepped >= np.sort(p[upper])).all()


@pytest.mark.parametrize("exact", [True, False])
def test_a_step_divides_by_the_hypotheses_that_may_still_be_true(exact):
    """Three newcomers beside references of which two are equal; Holm's and Shaffer's by hand.

    Of three equal models no fewer than three pairs are equal, else one: with a model equal to at
    most one reference, at most 3 + 3 hypotheses are true at first; inexact ones count pair by pair.
    """
    rng, n, places = np.random.default_rng(1), 3, np.array([0.5, 0.3, 0.5])
    p = rng.random((n, n))
    p = np.minimum(p, p.T)
    beside = rng.random((n, 3)) / 9.0
    beside[:, 2] = beside[:, 0] if exact else beside[:, 2]
    belief = Belief.independent([0.5] * 3, [0.1] * 3, n=[50] * 3, n_items=500)
    error = np.full(3, 0.0 if exact else 0.01)
    belief = replace(
        belief, references=References(("r", "s", "t"), places, error**2, places, error)
    )
    family = step_down(np.hstack([p, beside]), belief, 0.5)
    columns = [0, 1] if exact else [0, 1, 2]
    flat = np.sort(np.r_[p[np.triu_indices(n, 1)], beside[:, columns].ravel()])
    assert family.divisor.max() == (6 if exact else 12) == np.ceil(family_size(belief))
    # Each pair has its own p and divisor, whichever place it has among the others.
    for j in range(3):
        for i in range(n):
            smaller = flat <= beside[i, j]
            assert family.p[i, n + j] >= min(1.0, beside[i, j] * family.divisor[i, n + j]) - 1e-12
            if smaller.sum() == 1:
                assert family.p[i, n + j] == pytest.approx(beside[i, j] * family.divisor.max())
    if exact:
        assert (family.p[:, 3] == family.p[:, 5]).all() and (family.p[:, 3] != family.p[:, 4]).any()
    assert (family.p[:, :n] == family.p[:, :n].T).all() and (family.p.diagonal() == 1.0).all()
    still_open = family.divisor[family.p > 0.5].max(initial=0.0)
    assert family.divisor_of_open == still_open < family.divisor.max()


def test_one_newcomer_pays_nothing_for_exact_references_and_several_do():
    refs = board({f"r{i}": 0.3 + 0.01 * i for i in range(20)})

    def strict(n: int, references: References) -> float:
        b = Belief.independent([0.5] * n, [0.02] * n, n=[50] * n, n_items=500)
        b = replace(b, references=references)
        return (
            Verdicts(b, Looks().after(b, 0.05), "abc"[:n], familywise=True)
            ._family[0]
            .divisor_of_open
        )

    assert strict(1, refs) == 1.0 and strict(2, refs) == 3.0
    assert strict(1, board({"r": 0.49, "s": 0.51}, 0.01)) == 2.0  # they may be equal to each other
    equal = Belief.independent([0.5], [0.02], n=[50], n_items=500)
    for error, hypotheses in ((0.0, 1.0), (0.01, 2.0)):  # equal means that are known, or estimated
        references = board({"r": 0.4, "s": 0.4}, error)
        assert family_size(replace(equal, references=references)) == hypotheses


# -- looks ---------------------------------------------------------------------------------------


def false_share(looks: Looks, most: int, size: int, paths: int, level: float = 0.05) -> float:
    """Share of pairs of equal models that some look from 10 to `most` of `size` items decides."""
    rng = np.random.default_rng(most)
    steps = rng.standard_normal((paths, size))
    steps -= steps.mean(axis=1, keepdims=True)  # a benchmark on which the two are equal
    n = np.arange(1, size)
    mean = np.cumsum(steps, axis=1)[:, :-1] / n
    sd = np.sqrt((1.0 / n - 1.0 / size) * size / (size - 1))
    c = looks.boundary(level, n.astype(float), float(size))
    here = (n >= FIRST_LOOK) & (n <= most)
    return float((np.abs(mean / sd) >= c)[:, here].any(axis=1).mean())


@pytest.mark.long
@pytest.mark.parametrize("with_bank", [True, False])
@pytest.mark.parametrize(
    ("horizons", "most", "size"),
    [
        ((), 400, 500),
        ((200,), 200, 500),
        ((60,), 60, 70),
        ((60, 200), 200, 800),
    ],
)
def test_equal_models_are_told_apart_in_a_twentieth_of_rankings_at_most(
    horizons, most, size, with_bank
):
    """The level is used up but for the stretch: the error of a share of 20,000 is 0.0015."""
    starts = (10, 30)[: len(horizons)]
    looks = Looks(horizons=horizons, starts=starts, with_bank=with_bank)
    found = false_share(looks, most, size, 20000)
    assert (0.037 if len(horizons) == 1 else 0.03) < found < 0.053
    assert 0.1 < false_share(looks, most, size, 20000, level=0.2) < 0.205


@pytest.mark.long
def test_without_a_bank_more_level_is_spent_early_and_a_fifth_is_left_to_the_last_look():
    """By simulation of equal models: when the boundary is left, of all times that it is."""
    n = np.arange(FIRST_LOOK, 201.0)
    clock = n / (1.0 - n / 1000)
    steps = np.random.default_rng(2).standard_normal((40_000, len(n)), dtype=np.float32)
    z = np.cumsum(steps * np.sqrt(np.diff(clock, prepend=0.0)), axis=1) / np.sqrt(clock)
    shares = {}
    for with_bank in (True, False):
        c = Looks(horizons=(200,), with_bank=with_bank).boundary(0.05, n, 1000.0)
        left = np.abs(z) >= c
        when = n[left.argmax(axis=1)[left.any(axis=1)]]
        shares[with_bank] = (when <= 50).mean(), (when == 200).mean()
        assert 0.04 < left.any(axis=1).mean() < 0.052
    assert 2.0 * shares[True][0] < shares[False][0]
    assert shares[True][1] < 0.05 and 0.15 < shares[False][1] < 0.25


@pytest.mark.long
def test_a_horizon_of_thirty_thousand_items_has_its_boundary():
    """Looks at one item in ten or so call fewer than a twentieth of equal models different."""
    n = np.unique(np.geomspace(FIRST_LOOK, 30_000, 1500).round())
    clock = n / (1.0 - n / 40_000)
    steps = np.random.default_rng(1).standard_normal((20_000, len(n)), dtype=np.float32)
    path = np.cumsum(steps * np.sqrt(np.diff(clock, prepend=0.0)), axis=1)
    c = Looks(horizons=(30_000,)).boundary(0.05, n, 40_000.0)
    assert 0.03 < float((np.abs(path) >= c * np.sqrt(clock)).any(axis=1).mean()) < 0.05


@pytest.mark.long
@CASES
@given(
    looks=st.sampled_from(LOOKS),
    n=st.integers(10, 149),
    level=st.floats(0.001, 0.3),
    size=st.integers(200, 3000),
)
def test_a_boundary_is_where_its_level_is_reached(looks, n, level, size):
    at = np.array([float(n)])
    c = looks.boundary(level, at, float(size))
    log = looks.log_p(np.asarray(ndtr(-c)), at, float(size))
    assert log[0] == pytest.approx(np.log(level), abs=0.03)
    assert looks.boundary(level / 2, at, float(size)) > c


@pytest.mark.long
def test_a_horizon_that_is_raised_gets_what_is_left_of_the_level():
    looks, n = Looks(horizons=(100,)), np.array([20.0, 40.0, 41.0, 100.0, 101.0, 300.0])
    assert looks.with_horizon(80, 40) is looks
    raised, late = looks.with_horizon(300, 40), looks.with_horizon(300, 100)
    assert raised.horizons == late.horizons == (100, 300)
    first, second, third = (x.boundary(0.05, n, 1e3) for x in (looks, raised, late))
    assert (second[:2] == first[:2]).all() and (third[:4] == first[:4]).all()
    assert np.isinf(first[4:]).all() and np.isfinite(second).all() and np.isfinite(third).all()
    assert (second[4:] < third[4:]).all()  # the earlier it is raised, the more is left
    assert raised.with_horizon(400, 40).horizons == (100, 400)  # nothing was looked at in between
    assert Looks(horizons=(100,)).with_horizon(300, 6).horizons == (300,)
    assert (
        looks.boundary(0.05, n, 1e3)[:4]
        < Looks(horizons=(100,), starts=(10,)).boundary(0.04, n, 1e3)[:4]
    ).all()


def test_a_horizon_at_the_last_item_but_one_needs_no_level_beyond():
    at = np.array([50.0, 99.0, 100.0])
    looks = Looks(horizons=(99,)).with_horizon(100, 99)
    assert np.isfinite(c := looks.boundary(0.05, at, 100.0)).all() and c[2] == 0.0


# -- sums ----------------------------------------------------------------------------------------


def test_errors_of_tasks_add_and_those_of_outcomes_are_correlated():
    a = replace(
        Belief.independent([0.5, 0.3], [0.1, 0.2], n=[9, 9], n_items=90),
        df=np.full((2, 2), 9.0),
    )
    b = replace(
        Belief.independent([0.8, 0.2], [0.05, 0.1], n=[4, 4], n_items=50),
        df=np.full((2, 2), 4.0),
    )
    both = Belief.sum([a, b], [0.6, 0.4])
    one, other = 0.36 * 0.05, 0.16 * 0.0125
    assert both.location.tolist() == pytest.approx([0.62, 0.26])
    assert both.variance[0, 1] == pytest.approx(one + other)
    assert both.df[0, 1] == pytest.approx((one + other) ** 2 / (one**2 / 9 + other**2 / 4))
    assert both.n[0, 1] == 13 and both.n_items == 140
    r = np.array([[1.0, 0.5], [0.5, 1.0]])
    x, y = 0.6 * 0.1, 0.4 * 0.05
    same = Belief.sum([a, b], [0.6, 0.4], r)
    assert same.variance[0, 0] == pytest.approx(x * x + y * y + x * y)
    assert same.df[0, 0] == 4.0 and same.n[0, 1] == 4.0
    with pytest.raises(ValueError, match="different questions"):
        Belief.sum([a, replace(b, question="population")], [0.5, 0.5])


@pytest.mark.parametrize("n", [10, 40, 90])
@pytest.mark.parametrize("known", [False, True])
def test_scores_of_0_still_to_come_explain_a_gap_as_often_as_they_hide(n, known):
    """The better model has 0.8 or 0; its mean is what the other has on every item."""
    for zeros in range(1, 80):
        mean, hidden = 0.8 * (1 - zeros / 100), hypergeom.pmf(0, 100, zeros, n)
        both = Belief.independent([0.8, mean], [1e-6, 1e-6], n=[n, n], n_items=100)
        if zeros % 2:  # that neither has scored 0 yet may be stated
            both = replace(both, zero_count=np.zeros((2, 2)))
        if known:
            both = replace(both.only([0]), references=board({"same": mean}))
        verdicts = Verdicts(both, Looks(horizons=(99,)).after(both, 0.05), "ab"[: 2 - known])
        low, _ = verdicts.intervals()
        if verdicts.sign[0, 1]:
            assert hidden <= 0.018
        else:  # near the end, four may all be still to come: what is left is whole items
            assert hidden > 0.005 or zeros <= 4
        assert (low[0, 1] >= 0.0) == bool(verdicts.sign[0, 1])


def test_what_is_known_in_full_differs_by_exactly_what_it_differs_by():
    both = Belief.independent([0.8, 0.7], [0.0, 0.0], n=[50, 50], n_items=50)
    for belief in (both, replace(both.only([0]), references=board({"same": 0.7}))):
        verdicts = Verdicts(belief, Looks().after(belief, 0.05), "ab"[: len(belief.location)])
        assert [end[0, 1] for end in verdicts.intervals()] == pytest.approx([0.1, 0.1])
        assert verdicts.state[0, 1] == DECIDED


def test_scores_of_0_on_one_of_two_tasks_explain_a_gap_of_their_mean():
    """All gap is on the task with few items: what hides there is what counts."""
    few = Belief.independent([0.8, 0.6], [1e-6, 1e-6], n=[10, 10], n_items=40)
    many = Belief.independent([0.7, 0.7], [1e-6, 1e-6], n=[90, 90], n_items=999)
    both = Belief.sum([few, many], [0.5, 0.5])
    p = np.exp(-Looks().after(both, 0.05).evidence.better[0, 1])
    assert 0.03 < hypergeom.pmf(0, 40, 10, 10) < 0.05 < p
    twice = Belief.sum([few, few], [0.5, 0.5], np.ones((2, 2)))  # one answer, scored twice
    assert twice.zero_loss[0, 1] == pytest.approx(few.zero_loss[0, 1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("max_items", "question"), [(24, "benchmark"), (60, "benchmark"), (42, "population")]
)
def test_what_a_limited_ranking_says_would_decide_it_does(max_items, question):
    """Model a is right in an even four of six answers, and b in three; few were allowed."""
    about = {"max_items": max_items, "question": question}
    ranker, count = Ranker(ItemBank.blank(range(1500)), ["a", "b"], **about), Counter()
    right = {"a": (0, 1, 2, 3), "b": (0, 1, 4)}

    def ask_on() -> None:
        while not ranker.done:
            for model, item in ranker.ask():
                ranker.tell(model, item, float(count[model] % 6 in right[model]))
                count[model] += 1

    ask_on()
    [pair] = ranker.result().open_pairs
    forecast = max_items + pair["items"]["a"]
    assert forecast < 700 and not pair["all_items"] and not pair["out_of_reach"]
    ranker.change(max_items=forecast)
    ask_on()
    assert not ranker.result().open_pairs
    assert 0.8 * forecast < count["a"] <= forecast


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "share", "most"), [("items", (0.6, 0.85), 40), ("likely_items", (0.8, 1.0), 60)]
)
def test_most_rankings_are_decided_by_what_they_say_would_decide(key, share, most):
    """Not fewer, by the normal tails of few draws; nor by all items, where a few do."""
    rng, promises, decided = np.random.default_rng(2), [], []
    for _ in range(30):
        gap = rng.normal(0.1, 0.12, 200)
        scores = np.clip([0.6 + 0.5 * gap, 0.6 - 0.5 * gap], 0.0, 1.0)
        ranker = Ranker(ItemBank.blank(range(200)), ["a", "b"], max_items=14)
        for pair in drive(ranker, scores).open_pairs:
            promises.append(pair[key]["a"])
            ranker.change(max_items=14 + promises[-1])
            decided.append(not drive(ranker, scores).open_pairs)
    assert len(promises) > 20 and np.median(promises) < most
    assert share[0] < np.mean(decided) <= share[1]


@pytest.mark.long
@pytest.mark.parametrize("familywise", [False, True])
def test_a_pair_is_close_once_it_has_the_items_that_are_said_to_show_it(familywise):
    """The error of a mean of n of N items falls with (1 / n - 1 / N)^(1/2)."""

    def verdicts(n: float) -> Verdicts:
        error = 0.1 * np.sqrt(1 / n - 1 / 2000)
        belief = Belief.independent([0.7, 0.701, 0.3], [error] * 3, n=[n] * 3, n_items=2000)
        looks = Looks(horizons=(2000,)).after(belief, 0.05, 0.05)
        return Verdicts(belief, looks, "abc", 0.95, familywise, 0.05)

    [pair] = verdicts(30).missing(2000, {}, {})
    n = 30 + pair["items"]["a"]
    assert n < 400 and not pair["all_items"] and pair["likely_items"]["a"] > pair["items"]["a"]
    assert [int(verdicts(items).state[0, 1]) for items in (n - 10, n + 2)] == [OPEN, EQUIVALENT]


def test_an_open_pair_costs_what_its_answers_do_and_its_first_model_is_the_likelier_one():
    belief = Belief.independent([0.5, 0.52], [0.03] * 2, n=[40] * 2, n_items=900)
    belief = replace(belief, references=board({"k": 0.55}))
    verdicts = Verdicts(belief, Looks(single_look=True).after(belief, 0.05), "ab")
    pairs = verdicts.missing(900, {"a": 2.0, "b": 3.0}, {})
    assert [(pair["a"], pair["b"]) for pair in pairs] == [("k", "b"), ("b", "a")]
    for pair in pairs:
        for items, cost in (("items", "cost"), ("likely_items", "likely_cost")):
            answers = pair[items]
            assert pair[cost] == 2.0 * answers.get("a", 0) + 3.0 * answers.get("b", 0)
        assert pair["likely_cost"] > pair["cost"] > 0.0
        assert 0.5 < pair["p"] < 0.95
    assert pairs[0]["p"] == pytest.approx(ndtr(1.0)) and set(pairs[0]["items"]) == {"b"}


def test_an_item_that_one_of_two_models_fails_on_counts_for_neither():
    """Of 900 items b has failed on 300, and 40 are answered; no number of equal scores decides."""
    belief = Belief.independent([0.5, 0.5], [0.03] * 2, n=[40] * 2, n_items=900)
    verdicts = Verdicts(belief, Looks(single_look=True).after(belief, 0.05), "ab")
    [pair] = verdicts.missing(900, {}, {"b": 300})
    assert pair["items"] == {"a": 560, "b": 560} and pair["all_items"] and pair["out_of_reach"]


def test_a_model_is_not_said_to_be_tied_with_one_that_it_must_be_better_than():
    """Rank 1 is decided where a is better than b and b than c, whatever a and c show."""
    b = Belief.independent([0.8, 0.6, 0.4], [0.02] * 3, n=[90] * 3, n_items=900)
    variance = b.variance.copy()
    variance[0, 2] = variance[2, 0] = 0.09
    b = replace(b, variance=variance)
    verdicts = Verdicts(b, Looks(single_look=True).after(b, 0.05), "abc")
    assert int(verdicts.state[0, 2]) == OPEN
    places = {name: place_of(verdicts, name) for name in "abc"}
    assert places["a"]["in_words"] == "rank 1 of 3 (decided), above b"
    assert [place["tied_with"] for place in places.values()] == [[], [], []]
    assert (places["c"]["above"], places["c"]["rank_interval"]) == ("b", [3, 3])


def test_the_neighbours_of_a_model_are_the_nearest_that_differ_from_it():
    known = board({"top": 0.9, "middle": 0.7, "same": 0.5, "low": 0.3, "last": 0.1})
    b = Belief.independent([0.5], [0.02], n=[90], n_items=900)
    b = replace(b, references=known)
    place = place_of(Verdicts(b, Looks(single_look=True).after(b, 0.05), ["new"]), "new")
    assert (place["above"], place["below"], place["tied_with"]) == ("middle", "low", ["same"])
    assert place["rank_interval"] == [3, 4]


def test_answers_to_the_same_documents_have_no_last_one():
    """A width is as the root of 1 / n, of documents as that of 1 / n - 1 / 500."""
    pair = StatedPair(0.5, 0.4, ends=(-0.295, 0.095), p_better=0.2, decision="open")
    answers = Difference.stated(pair, Asked(50, answers=200, n_items=500), Scale())
    documents = Difference.stated(pair, Asked(50, n_items=500), Scale())
    smaller = (0.195 / 0.1) ** 2
    assert (answers.more_answers, answers.more_documents) == (math.ceil(200 * smaller) - 200, None)
    needed = 1.0 / (1 / 500 + (1 / 50 - 1 / 500) / smaller)
    assert documents.more_documents == math.ceil(needed) - 50


@pytest.mark.parametrize("baseline", [0.1, 0.7])  # 0.7 - 0.6 is not the margin to the last bit
def test_at_exactly_the_margin_all_documents_decide_and_no_number_of_a_population(baseline):
    pair = StatedPair(baseline, baseline - 0.1, ends=(-0.3, 0.1), p_better=0.2, decision="open")
    of_benchmark, of_population = (
        Difference.stated(pair, Asked(50, n_items=n_items), Scale(), margin=0.1).more_documents
        for n_items in (500, math.inf)
    )
    assert (of_benchmark, of_population) == (450, None)
    at_the_end = replace(pair, ends=(pair.candidate - baseline,) * 2)
    verdict = Difference.stated(at_the_end, Asked(500, n_items=500), Scale(), margin=0.1).verdict
    assert verdict == "equivalent"


@pytest.mark.long
def test_chances_of_many_models_are_as_sure_as_their_pairs():
    """Forty models, of which the best eight have every item: no draw may exchange these."""
    rng, n_items, n_models = np.random.default_rng(0), 100, 40
    scores = np.linspace(0.2, 0.8, n_models)[:, None] + rng.uniform(-0.2, 0.2, (n_models, n_items))
    names = [f"m{j}" for j in range(n_models)]
    ranker = Ranker(ItemBank.blank(range(n_items)), names, stop="limits", seed=1)
    order = [item for _, item in ranker.ask(n_items, model="m0")]
    for j, name in enumerate(names):
        for item in order[: n_items if j >= n_models - 8 else 10 + j]:
            ranker.tell(name, item, float(scores[j, item]))
    found = ranker.result()
    best = [names[j] for j in np.argsort(-scores.mean(axis=1))[:8]]
    assert list(found.order[:8]) == best
    assert min(found.verdicts.better[names.index(best[0]), : n_models - 8]) > 0.999
    assert found.p_best[best[0]] > 0.98
    assert min(found.p_top[5][name] for name in best[:5]) > 0.98
