"""A check finds what was planted, and nothing where nothing is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.errors import BankError
from lm_eval_ccat.methods.curves import STRAIGHT, Curves
from lm_eval_ccat.methods.method import method_of
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.upkeep.check import (
    aligned_scores,
    check_documents,
    check_scores,
    discoveries,
    upper_tail,
)
from lm_eval_ccat.upkeep.partial_join import share_of_others

N_ITEMS = 200
EASE = np.random.default_rng(0).normal(scale=1.2, size=N_ITEMS)


def scores(n_models=12, seed=0, level=0.0, slope=1.0, ease=EASE, binary=False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    skill = np.linspace(-1.5, 1.5, n_models)[:, None] + level
    eta = skill + ease + 0.4 * rng.normal(size=(n_models, len(ease)))
    p = 1.0 / (1.0 + np.exp(-slope * eta))
    return (rng.random(p.shape) < p).astype(float) if binary else p


def as_table(raw, prefix="new", **known) -> ScoreTable:
    return ScoreTable.from_arrays(raw, [f"{prefix}{j}" for j in range(len(raw))], **known)


@pytest.fixture(scope="module", params=["paper", "default"])
def bank(request):
    return calibrate(as_table(scores(seed=1), "cal"), method=request.param)


def findings(bank, raw, **known) -> dict:
    """What a check finds, but for notes, by kind."""
    return {f.kind: f for f in check_scores(bank, as_table(raw, **known)) if f.severity != "note"}


@pytest.mark.long
def test_nothing_is_found_where_nothing_is_wrong(bank):
    raw = scores(seed=9)
    assert not findings(bank, raw)
    raw[np.random.default_rng(1).random(raw.shape) < 0.4] = np.nan
    assert not findings(bank, raw)
    for common in ({"level": 0.8}, {"slope": 1.5}):  # what moves all items is no drift of one
        assert "drifted_items" not in findings(bank, scores(seed=3, **common))
    for n in (1, 2, 15):
        for finding in check_scores(bank, as_table(scores(n, seed=n))):
            assert (
                finding.severity in ("note", "warning", "problem") and "\n" not in finding.message
            )


@pytest.mark.long
def test_scores_of_items_that_calibration_removed_alone_cannot_be_checked():
    bank = calibrate(as_table(scores(seed=1), "cal"), method="paper")
    bank = replace(bank, kept=np.arange(N_ITEMS) > 0)
    of_removed = np.full((3, N_ITEMS), np.nan)
    of_removed[:, 0] = 0.5
    with pytest.raises(BankError, match="no model has a score on an item that the bank keeps"):
        check_scores(bank, as_table(of_removed))


@pytest.mark.long
def test_results_moved_by_a_document_are_told_though_neighbours_are_alike():
    blocks = np.repeat(np.random.default_rng(2).normal(scale=1.5, size=N_ITEMS // 4), 4)
    ease = blocks + np.random.default_rng(3).normal(scale=0.9, size=N_ITEMS)
    bank = calibrate(as_table(scores(seed=1, ease=ease), "cal"))
    for step, place in ((1, "before"), (-1, "after")):
        for seed in range(4):
            raw = scores(4, seed=10 + seed, ease=ease)
            assert not {"unrelated", "partly_unrelated"} & findings(bank, raw).keys()
            told = findings(bank, np.roll(raw, step, axis=1))
            assert f"scores of the documents {place} theirs" in told["unrelated"].message


@pytest.mark.long
def test_what_was_planted_is_found_and_named(bank):
    ease, moved = EASE.copy(), np.argsort(np.abs(EASE))[:4]
    ease[moved] += 2.0
    drift = findings(bank, scores(seed=2, ease=ease))["drifted_items"]
    assert set(drift.items) == set(moved.tolist()) and "4 became easier" in drift.message
    raw, hard = scores(seed=5), np.argsort(EASE)[:3]
    raw[0, hard] = 0.98
    leaked = findings(bank, raw)["contamination"]
    assert leaked.figures["models"] == {str(i): ["new0"] for i in sorted(hard.tolist())}
    raw = scores(seed=4)
    raw[:, 17] = raw[::-1, 17]
    assert findings(bank, raw)["negative_items"].items == (17,)
    for level, kind in ((5.0, "too_easy"), (-5.0, "too_hard")):
        extreme = findings(bank, scores(seed=6, level=level))
        assert {"too_easy", "too_hard"} & set(extreme) == {kind}


def test_a_bank_of_other_documents_is_found_and_nothing_else_is_said(bank):
    order = np.random.default_rng(3).permutation(N_ITEMS)
    for few in (1, 12):
        found = findings(bank, scores(few, seed=2)[:, order])
        assert list(found) == ["unrelated"]
        assert found["unrelated"].severity == ("problem" if few > 1 else "warning")
        assert "says nothing about these documents" in found["unrelated"].message


@pytest.mark.long
@pytest.mark.parametrize("share", [0.5, 0.75])
@pytest.mark.parametrize("binary", [False, True])
def test_a_bank_that_is_wrong_in_part_is_found_and_one_of_unlike_models_is_not(share, binary):
    """Models that go half as far with a right bank correlate with it as with one half wrong."""
    rng = np.random.default_rng(11)
    ease = rng.normal(scale=1.5, size=400)
    calibrating, new = (1.0 / (1.0 + np.exp(-(rng.normal(size=(n, 1)) + ease))) for n in (24, 3))
    unlike = 1.0 / (
        1.0 + np.exp(-(0.6 * ease + rng.normal(scale=0.6, size=400) + np.zeros((3, 1))))
    )

    def drawn(chances):
        if binary:
            return (rng.random(chances.shape) < chances).astype(float)
        return np.clip(chances + rng.normal(scale=0.1, size=chances.shape), 0.0, 1.0)

    bank = calibrate(as_table(drawn(calibrating), "cal"))
    places = np.arange(400)
    wrong = rng.choice(400, int(share * 400), replace=False)
    places[wrong] = np.roll(wrong, 1)
    rows = drawn(new)
    assert not {"unrelated", "partly_unrelated"} & findings(bank, rows).keys()
    assert not {"unrelated", "partly_unrelated"} & findings(bank, drawn(unlike)).keys()
    found = findings(bank, rows[:, places])
    [kind] = found  # by few 0/1 scores, three quarters look like all
    assert found[kind].severity == "problem"
    if kind == "partly_unrelated":
        assert abs(found[kind].figures["share"] - share) < 0.15
        assert "a part of the bank or of the scores is joined" in found[kind].message
    else:
        assert kind == "unrelated" and binary and share > 0.5
    assert "partly_unrelated" not in findings(bank, rows[:1, places])


@pytest.mark.long
def test_a_weak_model_may_get_an_item_right_that_it_is_expected_to_get_mostly_right(bank):
    """Items that the sixth of twelve models gets to .3 and to .62 elsewhere, and to .99 here."""
    raw, skill = scores(seed=5), np.linspace(-1.5, 1.5, 12)[5]
    chances = 1.0 / (1.0 + np.exp(-skill - EASE))
    hard, easy = (np.argsort(np.abs(chances - usual))[:3] for usual in (0.3, 0.62))
    raw[5, [*hard, *easy]] = 0.99
    assert findings(bank, raw)["contamination"].items == tuple(sorted(hard.tolist()))


@pytest.mark.long
def test_zero_one_scores():
    bank = calibrate(as_table(scores(40, seed=7, binary=True), "cal"), "paper")
    assert not findings(bank, scores(40, seed=8, binary=True))
    ease = EASE.copy()
    ease[:3] -= 4.0 * np.sign(EASE[:3])
    loud = findings(bank, scores(40, seed=8, binary=True, ease=ease))
    assert set(loud["drifted_items"].items) <= {0, 1, 2}


@pytest.mark.long
def test_changed_missing_and_new_documents():
    hashes = [f"h{i}" for i in range(N_ITEMS)]
    bank = calibrate(as_table(scores(), "cal", doc_hashes=hashes), method="paper")
    other = ["x" if i in (3, 9) else h for i, h in enumerate(hashes)]
    for ids, new, found in (
        (range(N_ITEMS), hashes, {}),
        (range(N_ITEMS), other, {"changed_documents": (3, 9)}),
        (range(1, N_ITEMS + 2), [*hashes[1:], "n", "m"],
         {"missing_documents": (0,), "new_documents": (N_ITEMS, N_ITEMS + 1)}),
    ):  # fmt: skip
        assert {f.kind: f.items for f in check_documents(bank, ids, new)} == found
    # A changed document's scores say nothing of the item that was calibrated.
    raw = scores(seed=2)
    raw[:, [3, 9]] = 0.0
    assert set(findings(bank, raw, doc_hashes=other)) == {"changed_documents"}
    for known, says in (
        ({"metric": "bleu"}, "metric 'bleu'"),
        ({"scale": Scale(0, 2)}, "scale"),
        ({"doc_ids": range(1000, 1000 + N_ITEMS)}, "other items"),
    ):
        with pytest.raises(BankError, match=says):
            findings(bank, raw, **known)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_false_discoveries_are_rare_among_true_nulls(seed):
    p = np.random.default_rng(seed).random(500)
    assert discoveries(p).sum() <= 5
    p[:20] = 1e-8
    assert discoveries(p)[:20].all()


@pytest.mark.long
def test_two_in_five_wrong_items_are_found_by_six_models():
    """Of six models any two may be left out, which leaves enough to tell them."""
    rng = np.random.default_rng(0)
    ease = rng.normal(size=300) * 1.2

    def drawn(n_models, reach, rng):
        skill = np.linspace(-reach, reach, n_models)[:, None]
        return (rng.random((n_models, 300)) < 1 / (1 + np.exp(-skill - ease))).astype(float)

    bank = calibrate(as_table(drawn(20, 1.5, rng), "cal"))
    rng = np.random.default_rng(7)
    rows = drawn(6, 1.2, rng)
    wrong = rng.permutation(300)[:120]
    rows[:, wrong] = rows[:, rng.permutation(wrong)]
    share = share_of_others(method_of(bank).curves(bank), rows)
    assert share == pytest.approx(0.4, abs=0.1)


@pytest.mark.long
def test_scores_in_the_other_direction_are_turned_on_the_scale_of_their_metric():
    """From 1 to 5 the other way round is 6 less the score."""
    grades = Scale(1, 5)
    bank = calibrate(as_table(grades.restore(scores(seed=1)), "cal", scale=grades))
    found = findings(bank, grades.restore(1.0 - scores(seed=9)), scale=grades)
    assert "state 6 - score in their place" in found["unrelated"].message


def test_a_tenth_of_the_documents_may_change_though_all_that_stay_would_be_less_likely():
    """Two models' scores on 40 items speak for a third of wrong ones, but a tenth explains them."""
    rng = np.random.default_rng(23)
    curves = Curves(
        np.column_stack([rng.normal(0, 2, 40), np.ones(40)]), np.ones(40), STRAIGHT, 0.0
    )
    scores = 1.0 * (rng.random((2, 40)) < curves.expected(np.array([-0.5, 0.5])))
    moved = rng.choice(40, 4, replace=False)
    scores[:, moved] = scores[:, np.roll(moved, 1)]
    assert share_of_others(curves, scores) == 0.0


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
def test_the_chance_of_a_score_or_more_is_that_of_its_distribution(noise):
    """Beta with the variance noise * mean (1 - mean); 0 or 1, where that is all there is."""
    y, mean = np.array([0.0, 0.2, 0.7, 0.95, 1.0]), np.full(5, 0.6)
    if noise < 1.0:
        shape = 1.0 / noise - 1.0
        expected = beta(0.6 * shape, 0.4 * shape).sf(np.minimum(y, 0.99))
    else:
        expected = np.where(y > 0.0, 0.6, 1.0)
    assert upper_tail(y, mean, np.full(5, noise)) == pytest.approx(expected)


def test_scores_of_another_thing_than_the_banks_are_refused_and_what_is_not_stated_is_the_same():
    of_bank = {"metric": "f1", "task": "t", "filter": "strict"}
    bank = ItemBank.blank(range(3), doc_hashes=("a", "b", "c"), **of_bank)
    table = ScoreTable.from_arrays(
        [[0.1, 0.2, 0.3]], ["m"], [2, 1, 7], doc_hashes=["c", "changed", "g"], **of_bank
    )
    found = aligned_scores(bank, table)
    np.testing.assert_array_equal(found, [[np.nan, np.nan, 0.1]])
    unnamed = replace(table, task=None, filter=None)
    np.testing.assert_array_equal(aligned_scores(bank, unnamed), found)
    for change, says in (
        ({"metric": "acc"}, "metric 'acc', the bank is of 'f1'"),
        ({"task": "u"}, "task 'u'"),
        ({"filter": "loose"}, "filter 'loose'"),
        ({"scale": Scale(0, 2)}, "--range"),
        ({"doc_ids": (7, 8, 9)}, "of other items"),
    ):
        with pytest.raises(BankError, match=says):
            aligned_scores(bank, replace(table, **change))


def test_a_bank_is_of_one_of_the_filters_and_its_documents_are_known_by_their_hashes():
    bank = ItemBank.blank(range(3), filter="strict", doc_hashes=("a", "b", "c"))
    for filters, kinds in ((("loose", "strict"), []), (("loose",), ["other_filter"])):
        found = check_documents(bank, range(3), ("a", "b", "c"), filters)
        assert [finding.kind for finding in found] == kinds
    assert [finding.kind for finding in check_documents(bank, range(3), None)] == [
        "unverified_documents"
    ]
