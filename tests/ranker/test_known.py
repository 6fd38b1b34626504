"""Placing new models among known ones."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import stdtr
from worlds import boards
from worlds.boards import drive

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.content import pair_of, pairs_by_models
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.ranker.references import means_of_known
from lm_eval_ccat.scores.prompts import Prompts

METHODS = ["paper", "default"]
N_ITEMS, N_KNOWN = 150, 15


def draw(skill, seed) -> np.ndarray:
    return boards.draw(np.atleast_1d(skill), N_ITEMS, seed, task=77, noise=0.3)


KNOWN = ScoreTable.from_arrays(
    draw(np.linspace(-2, 2, N_KNOWN), 0), [f"k{i:02d}" for i in range(N_KNOWN)]
)
MEANS = dict(zip(KNOWN.models, KNOWN.scores.mean(axis=1).tolist()))


@cache
def bank_of(method: str) -> ItemBank:
    return calibrate(KNOWN, method=method)


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("known", [KNOWN, MEANS], ids=["scores", "means"])
def test_a_new_model_finds_its_place(method, known):
    scores = {"new": draw(0.14, 5)[0]}
    result = drive(Ranker(bank_of(method), {"new": 1.0}, known=known), scores)
    place = result.places["new"]
    truth = 1 + sum(m > scores["new"].mean() for m in MEANS.values())
    best, worst = place["rank_interval"]
    assert best <= truth <= worst and place["models"] == N_KNOWN + 1
    assert [m for m in result.order if m != "new"] == sorted(MEANS, key=lambda m: -MEANS[m])
    assert result.estimates["k03"] == pytest.approx(MEANS["k03"])
    assert result.standard_errors["k03"] == 0.0 and result.items["k03"] == []
    assert result.decided == (not place["tied_with"])


@pytest.mark.parametrize("method", ["sample", "default"])
@pytest.mark.parametrize("right", [0, 7, 10])
def test_beside_one_known_model_the_chance_of_being_best_is_that_of_being_better(method, right):
    bank = ItemBank.blank(range(60)) if method == "sample" else bank_of(method)
    ranker, at = Ranker(bank, {"new": 1.0}, known={"k": 0.8}, max_items=10), iter(range(10))
    found = drive(ranker, lambda model, item: float(next(at) < right))
    better = found.pairwise.get(("new", "k")) or 1.0 - found.pairwise["k", "new"]
    assert found.p_best["new"] == pytest.approx(better, abs=0.02)


@pytest.mark.long
def test_places_in_words():
    known = {**MEANS, "twin of k14": MEANS["k14"]}  # known pairs that are equal keep nothing open
    far = drive(
        Ranker(bank_of("default"), {"new": 1.0}, known=known), {"new": np.full(N_ITEMS, 0.999)}
    )
    assert len(far.items["new"]) <= 25 and far.goal_met
    assert far.stopped_because == "the place of every model is decided"
    assert far.places["new"]["in_words"] == f"rank 1 of {N_KNOWN + 2} (decided), above k14"
    assert far.ties == [("k14", "twin of k14")]
    ranker = Ranker(bank_of("default"), {"new": 1.0}, known=MEANS, max_items=25)
    twin = drive(ranker, {"new": KNOWN.scores[7]})
    place = twin.places["new"]
    assert "k07" in place["tied_with"] and "not separated from" in place["in_words"]
    assert any({"new", "k07"} <= set(group) for group in twin.ties)


def test_the_error_of_a_known_model_counts_as_a_standard_error():
    known = {"sure": (0.6, 0.0, 0.6), "vague": (0.6, 0.04, 0.6)}
    bank = ItemBank.blank(range(N_ITEMS), task="t", metric="acc")
    result = drive(Ranker(bank, {"new": 1.0}, known=known, max_items=15), {"new": draw(0.1, 5)[0]})
    se, belief = result.standard_errors["new"], result.verdicts.belief
    for name, error in (("sure", 0.0), ("vague", 0.04)):
        t = (result.estimates["new"] - 0.6) / np.hypot(se, error)
        # Welch's degrees of freedom: the reference model's error is taken for known.
        df = belief.df[0, 0] * ((se**2 + error**2) / se**2) ** 2
        assert result.pairwise["new", name] == pytest.approx(float(stdtr(df, t)), abs=1e-9)
        gap, low, high = result.difference("new", name)
        assert result.difference(name, "new") == (-gap, -high, -low) and low < gap < high
    several = Ranker({"x": bank, "y": bank}, ["new"], known=known).verdicts.belief.references
    assert several.variance.tolist() == pytest.approx([0.0, 0.04**2])


@pytest.mark.long
def test_missing_scores_leave_the_error_of_a_mean_of_a_sample():
    raw = KNOWN.raw.copy()
    raw[4, 50:] = np.nan
    known = ScoreTable.from_arrays(raw, KNOWN.models)
    spread = raw[4, :50].std(ddof=1) / np.sqrt(50)
    widths = []
    for q, share in (("benchmark", 50 / N_ITEMS), ("population", 0.0)):
        result = Ranker(bank_of("default"), {"new": 1.0}, known=known, question=q).result()
        assert result.standard_errors["k04"] == pytest.approx(spread * np.sqrt(1 - share))
        assert (result.standard_errors["k05"] == 0.0) == (q == "benchmark")
        result = Ranker(bank_of("default"), {"new": 1.0}, known=KNOWN, question=q).result()
        assert sum(result.p_best.values()) == pytest.approx(1.0)
        widths.append(sum(worst - best for best, worst in result.rank_ranges.values()))
    assert widths[0] < widths[1]


@pytest.mark.long
def test_an_item_that_tells_nothing_counts_in_the_mean_but_not_in_that_of_the_items_kept():
    bank, kept = bank_of("paper"), np.arange(N_ITEMS) > 2
    for name, (mean, _, kept_mean) in means_of_known(KNOWN, replace(bank, kept=kept)).items():
        scores = KNOWN.scores[KNOWN.models.index(name)]
        assert mean == pytest.approx(scores.mean())
        assert kept_mean == pytest.approx(scores[kept].mean())


def test_full_results_are_exact_of_these_items_and_a_sample_of_items_like_these():
    table = ScoreTable.from_arrays(np.random.default_rng(0).random((2, 40)), ["k", "l"])
    for population, error in ((False, 0.0), (True, table.scores[0].std(ddof=1) / np.sqrt(40))):
        known = means_of_known(table, ItemBank.blank(range(40)), population)["k"]
        assert known.error == pytest.approx(error) and known.mean == table.scores[0].mean()


def one_changed(change):
    """The known models, one of which has a name of its own and other scores."""
    raw = KNOWN.raw.copy()
    raw[7] = change(raw[7])
    return replace(KNOWN, raw=raw).renamed({"k07": "odd"})


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({}, "no model"),
        ({"x": 1.2}, r"1\.2"),
        ({"x": float("nan")}, "nan"),
        ({"x": (0.5, 0.0, 7.0)}, r"mean 7\.0 of model 'x' is not in"),  # of the items kept
        ({"x": (0.5, -0.1, 0.5)}, "is not 0 or more"),
        ({"x": [0.5, [1]]}, "not a mean, nor"),
        ({"new": 0.5}, "'new' is known"),
        (ScoreTable.from_arrays([[0.5]], ["x"], [10**6]), "other items"),
        (replace(KNOWN, raw=KNOWN.raw[:, ::-1]), "joined to other documents"),
        (replace(KNOWN, raw=1.0 - KNOWN.raw), "other direction"),
        # Each model by itself, too.
        (one_changed(lambda row: row[::-1]), "model odd is not the bank's: .*other documents"),
        (one_changed(lambda row: 1.0 - row), "model odd is not the bank's: .*other direction"),
    ],
)
def test_known_models_out_of_range_are_refused(known, says):
    with pytest.raises(UsageError, match=says):
        Ranker(bank_of("paper"), {"new": 1.0}, known=known)


@pytest.mark.long
def test_a_large_board_stays_readable():
    known = {f"k{i:04d}": m for i, m in enumerate(np.linspace(0.05, 0.95, 3000))}
    scores = {"new": draw(0.0, 2)[0]}
    result = drive(Ranker(bank_of("default"), {"new": 1.0}, known=known, max_items=12), scores)
    place = result.places["new"]
    assert len(place["tied_with"]) > 20
    words = place["in_words"]
    assert len(words) < 300 and f"and {len(place['tied_with']) - 6:,} more" in words
    shown = words.split("not separated from ")[1].split(" and ")[0].split(", ")
    ranks = [result.order.index(m) + 1 for m in shown]
    assert max(abs(r - place["rank"]) for r in ranks) <= 6
    pairs = result.to_dict()["pairwise"]
    assert len(pairs) < 2 * 3000
    assert {p[side] for p in pairs for side in "ab"} >= {"new", *place["tied_with"]}


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("question", ["benchmark", "population"])
def test_two_known_models_differ_by_what_their_full_results_say(question, lower):
    """Exactly, or by as much as other items like these would show; printed of each neighbour."""
    bank = ItemBank.blank(range(N_ITEMS), scale=Scale(0, 50, higher_is_better=not lower))
    known = {"x": (0.6, 0.0, 0.6), "y": (0.5, 0.0, 0.5), "z": (0.5, 0.0, 0.5), "v": (0.4, 0, 0.4)}
    if question == "population":
        known = {
            name: (mean, 0.03 if name < "z" else 0.001, mean) for name, (mean, *_) in known.items()
        }
    ranker = Ranker(bank, {"new": 1.0}, known=known, question=question, max_items=12)
    result = drive(ranker, {"new": draw(0.1, 5)[0]})
    pairs = {(p["a"], p["b"]): p for p in result.to_dict()["pairwise"]}
    assert len(pairs) == 5 * 4 // 2
    for (a, b), pair in pairs.items():
        excludes = pair["low"] > 0.0 or pair["high"] < 0.0
        assert (pair["decision"] == "decided") == excludes
        assert pair["low"] <= pair["difference"] <= pair["high"]
        if "new" in (a, b):
            continue
        gap = (known[a][0] - known[b][0]) * (-50 if lower else 50)
        arm = 1.959964 * 50 * np.hypot(known[a][1], known[b][1])
        ends = [pair[key] for key in ("difference", "low", "high")]
        assert ends == pytest.approx([gap, gap - arm, gap + arm], abs=1e-6)
        assert "-0.0" not in map(str, ends)
        assert pair["decision"] == "equivalent" or gap or question == "population"
    table = result.to_dataframe()
    assert table.lead.notna().tolist() == [True] * 4 + [False]
    assert (table.lead.dropna() >= 0.0).all()


@pytest.mark.parametrize("known", [None, MEANS])
def test_only_the_papers_method_ends_at_half_of_the_items_by_itself(known):
    caps = [Ranker(bank_of(m), ["a", "b"], known=known).item_cap for m in ("paper", "default")]
    assert caps == [int(bank_of("paper").kept.sum()) // 2, N_ITEMS]


@pytest.mark.long
@pytest.mark.parametrize("near", [0.0, 0.3])
def test_a_finite_guarantee_holds_among_known_models_too(near):
    """A few zeros among equal scores: the normal bound knows nothing of them until they come."""
    scores = np.tile([0.78, 0.82], 60)
    scores[:6] = 0.0
    known = {"same": float(scores.mean()), "above": 0.9, "below": 0.3}
    for seed in range(6):
        ranker = Ranker(
            ItemBank.blank(range(120)), ["new"], known=known, max_items=40, seed=seed,
            guarantee="finite", min_difference=near,
        )  # fmt: skip
        found = drive(ranker, {"new": scores})
        assert found.decisions["new", "same"] == ("equivalent" if near else "open")
        assert found.decisions["new", "below"] == "decided"
        low, high = found.intervals["new"]
        for name, mean in known.items():  # both are of the same bets
            if found.decisions["new", name] == "decided":
                assert not low + 0.002 < mean < high - 0.002


@pytest.mark.parametrize("d", [0.0, 0.03, 0.2])
@pytest.mark.parametrize("error", [0.0, 0.01, 0.05])
def test_two_known_models_are_judged_alike_on_every_surface(d, error):
    """Nothing is asked to tell them apart: their full results say how far they differ."""
    means = {"r": 0.45, "s": 0.47, "t": 0.47 + 1e-15, "u": 0.62, "v": 0.83}
    known = {name: (mean, error, mean) for name, mean in means.items()} if error else means
    ranker = Ranker(
        ItemBank.blank(range(400)), {"new": 1.0}, known=known, min_difference=d, max_items=60
    )
    ranking = drive(ranker, lambda model, item: float(item % 10 == 0))  # far below all of them
    content, verdicts = ranking.to_dict(), ranking.verdicts
    arm = 1.959964 * np.sqrt(2.0) * error
    pairs = pairs_by_models(content)
    above = dict.fromkeys(means, 0)
    for a, b in ((a, b) for a in means for b in means if a != b):
        gap = means[a] - means[b]
        close = abs(gap) + arm <= d + 1e-9
        wanted = "equivalent" if close else "decided" if abs(gap) > arm + 1e-12 else "open"
        row, names = pair_of(pairs, a, b), verdicts.names
        assert row["decision"] == ranking.decisions[a, b] == wanted
        sign, state = verdicts.pair(names.index(a), names.index(b))
        assert (sign, ["open", "decided", "equivalent"][state]) == (
            np.sign(gap) * (wanted == "decided"), wanted
        )  # fmt: skip
        low, high = row["low"], row["high"]
        assert (low, high) == pytest.approx((gap - arm, gap + arm), abs=1e-6)
        assert ranking.difference(a, b)[1:] == (low, high)
        if wanted == "equivalent":
            assert -d - 1e-9 <= low <= high <= d + 1e-9
        else:
            assert (low > 0.0 or high < 0.0) == (wanted == "decided")
        above[b] += gap > 0.0 and wanted == "decided"
        if ranking.order.index(b) == ranking.order.index(a) + 1:
            tied = any({a, b} <= set(tie) for tie in content["ties"])
            assert tied == (wanted != "decided")
            assert (f"{a} > {b}" in content["ranking"]) <= (not tied)
    for name, n in above.items():
        assert content["models"][name]["rank_range"][0] == 1 + n
        assert content["models"][name]["rank"] >= 1 + n
    assert ranking.goal_met  # no answer would tell more of known models


def test_a_long_tie_of_known_models_is_a_chain_of_few_pairs():
    means = {f"k{n:03d}": (0.2 + 0.005 * n, 0.01, 0.2 + 0.005 * n) for n in range(120)}
    ranker = Ranker(ItemBank.blank(range(400)), {"new": 1.0}, known=means, max_items=30)
    ranking = drive(ranker, lambda model, item: 0.0)
    assert ranking.separated_within_ties == [("k119", "k000")]
    assert "k119 (1 to 6) >~ k118" in ranking.in_words()


@pytest.mark.long
def test_known_models_of_other_prompts_are_refused_as_in_a_run():
    marks = ["70b499c5"] * N_ITEMS
    bank = replace(bank_of("default"), prompts=tuple(marks))
    for mark, refused in (("70b499c5", False), ("0a1b2c3d", True)):
        rows = [marks] * (N_KNOWN - 1) + [[mark, *marks[1:]]]
        known = replace(KNOWN, prompts=Prompts.of_rows(rows))
        if refused:
            with pytest.raises(UsageError, match=r"known model k14: the prompt of document 0 is"):
                Ranker(bank, {"new": 1.0}, known=known)
            known = replace(known, prompts=None)  # as the message says
        ranking = Ranker(bank, {"new": 1.0}, known=known).result()
        assert len(ranking.known) == N_KNOWN and bool(ranking.warnings) == refused
    [told] = ranking.warnings
    assert told.startswith("known: prompts unknown: the source does not state them")
    assert ranking.to_dict()["warnings"] == [told]
    rows[0] = [None] * N_ITEMS
    in_part = replace(KNOWN, prompts=Prompts.of_rows([*rows[:-1], marks]))
    [told] = Ranker(bank, {"new": 1.0}, known=in_part).result().warnings
    assert told.endswith("(k00)")


def test_equal_scores_on_some_items_are_no_known_mean():
    few = ScoreTable.from_arrays(np.ones((1, 2)), ["k"], doc_ids=KNOWN.doc_ids[:2])
    found = drive(
        Ranker(bank_of("default"), {"new": 1.0}, known=few, max_items=10),
        {"new": draw(0.14, 5)[0]},
    )
    assert found.standard_errors["k"] > 0.1


@pytest.mark.parametrize("score", [0.4, 0.5])
def test_few_equal_scores_of_a_known_model_leave_the_rest_open(score):
    """Also where their mean is another number in its last bit, as that of three times 0.4 is."""
    few = ScoreTable.from_arrays([[score] * 3], ["k"], scale=Scale())
    assert means_of_known(few, ItemBank.blank(range(100)))["k"][1] > 0.05
