"""A result says the same as an object and as JSON."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import ttest_rel
from worlds.boards import bank_of, draw, drive, of

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.methods.policy import Drawn
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.ranker.builder import RankingBuilder, _repeats
from lm_eval_ccat.ranker.headline import headline
from lm_eval_ccat.ranker.rows import Estimate, PairColumns
from lm_eval_ccat.shown import rounded

SCORES = draw([-0.8, -0.1, 0.0, 0.9], 80, 4)
LOSS = Scale(0.0, 50.0, higher_is_better=False)


@pytest.fixture(scope="module")
def found():
    ranker = Ranker(
        bank_of("default"), dict.fromkeys("abcd", 0.5), warmup=14, max_items=20,
        known={"k": 0.45, "l": (0.6, 0.02, 0.6)},
    )  # fmt: skip
    ((model, item), *rest) = ranker.ask(4)
    ranker.fail(model, item, "no answer", cost=0.25)
    for pair in rest:
        ranker.tell(*pair, of(SCORES)(*pair))
    ranker.drop("c", "its server is gone")
    return replace(drive(ranker, of(SCORES)), scale=LOSS)


def test_figures_stand_on_the_scale_of_the_metric(found):
    """That they are right is told by the golden rankings."""
    row = found.row("a")
    drawn = Drawn(3, 0.4, 0.05)
    sample = found.content_of(replace(row, sample=drawn))["sample"]
    assert sample["n"] == 3
    assert sample["estimate"] == pytest.approx(50 * (1 - drawn.estimate))
    assert sample["standard_error"] == pytest.approx(50 * drawn.standard_error)
    ends = [50 * (1 - end) for end in reversed(drawn.interval(0.95))]
    assert sample["interval"] == pytest.approx(ends)
    assert found.content_of(replace(row, sample=None))["sample"] is None
    content = json.loads(json.dumps(found.to_dict()))
    for model, block in content["models"].items():
        assert block["estimate"] == pytest.approx(50 * (1 - found.estimates[model]))
        assert block["standard_error"] == pytest.approx(50 * found.standard_errors[model])
        low, high = found.interval(model)
        assert block["interval"] == pytest.approx([50 * (1 - high), 50 * (1 - low)])
    assert content["scale"] == LOSS.to_dict()  # which says that lower is better
    for pair in content["pairwise"]:
        blocks = [content["models"][pair[side]] for side in "ab"]
        assert pair["difference"] == pytest.approx(blocks[0]["estimate"] - blocks[1]["estimate"])
        gap, low, high = found.difference(pair["a"], pair["b"])
        ends = [-50 * end for end in (gap, high, low)]
        assert [pair[key] for key in ("difference", "low", "high")] == pytest.approx(ends)
        if pair["decision"] == "decided":
            assert pair["low"] > 0 if pair["p"] < 0.5 else pair["high"] < 0
    assert content["models"]["c"]["set_aside"] == "its server is gone"
    [failed] = [f for block in content["models"].values() for f in block["failed"]]
    assert failed["reason"] == "no answer"


def test_a_model_that_cannot_be_the_best_is_not_said_to_be_as_good_as_the_first():
    """Its estimate is near, but it is decided that another is better."""
    ranges = {"a": [1, 2], "b": [2, 3], "c": [1, 3]}
    models = {
        name: {"n_items": 50, "rank_range": ranks, "p_best": 0.4} for name, ranks in ranges.items()
    }
    pairs = [
        {"a": a, "b": b, "difference": 0.0, "low": -0.1, "high": 0.1, "decision": "open"}
        for a, b in ("ab", "bc", "ac")
    ]
    content = {
        "models": models, "pairwise": pairs, "order": list("abc"), "confidence": 0.95,
        "familywise": False, "looks": "one", "scale": {"higher_is_better": True}, "metric": "acc",
        "items_of_benchmark": 100, "question": "benchmark",
    }  # fmt: skip
    assert "between a and b" not in headline(content)
    models["b"]["rank_range"] = [1, 3]
    assert "3 of 3 may be the best; between a and b no difference seen" in headline(content)
    # One that leads is probably the best where its chance is more than even.
    pairs[0].update(difference=0.02, low=-0.01, high=0.05)
    for chance, words in ((0.5, "a leads b by"), (0.51, "a is probably the best (51%)")):
        models["a"]["p_best"] = chance
        assert words in headline(content), chance


def test_an_interval_holds_at_every_look_and_is_computed_for_each_confidence(found):
    row, looks = found.row("a").estimate, found.verdicts.looks
    assert looks.horizons == (20,)
    for c in (0.8, 0.95, 0.99):
        at = np.array([row.df]), np.array([row.n])
        half = row.error * float(looks.half_width(1.0 - c, *at, row.n_items)[0])
        assert half > row.error * stdtrit(row.df, 0.5 + 0.5 * c)  # wider than of one look
        # It holds every mean that the model could have by the larger of two variances: that of its
        # own scores, and what that is multiplied by if scores have this mean.
        mean, own = np.linspace(0.0, 1.0, 100_001), row.mean
        wider = np.maximum(np.sqrt(mean * (1.0 - mean) / (own * (1.0 - own))), 1.0)
        # The lower end allows for one more score of 0, as if that were an error of its own.
        lower = half * np.hypot(1.0, row.zero_loss / row.error)
        held = mean[np.abs(mean - own) <= np.where(mean < own, lower, half) * wider]
        assert found.interval("a", c) == pytest.approx((held[0], held[-1]), abs=1e-5)
    assert found.interval("a") == found.interval("a", 0.95) == found.intervals["a"]
    free = replace(row, possible=(0.0, 1.0))
    assert replace(free, mean=0.99, error=0.05).interval(0.95)[1] == 1.0
    assert replace(free, mean=0.01, error=0.05).interval(0.95)[0] == 0.0
    one = Estimate(0.5, 0.05)
    assert one.interval(0.95) == pytest.approx((0.5 - 0.0979982, 0.5 + 0.0979982))


@pytest.mark.long
def test_a_board_of_many_writes_down_the_pairs_that_tell():
    known = {f"k{i:03}": 0.1 + 0.8 * i / 120 for i in range(120)}
    result = drive(Ranker(bank_of("default"), {"a": 1.0, "b": 1.0}, known=known), of(SCORES))
    place = {m: n for n, m in enumerate(result.order)}
    wanted = {
        (a, b)
        for a, b in result.pairwise
        if {a, b} == {"a", "b"}
        or result.decisions[a, b] != "decided"
        or abs(place[a] - place[b]) == 1
        if place[a] < place[b]
    }
    rows = result.to_dict()["pairwise"]
    assert sorted((p["a"], p["b"]) for p in rows) == sorted(wanted)
    assert len(wanted) < len(result.pairwise)
    few = drive(Ranker(bank_of("default"), {"a": 1.0}, known={"k": 0.5, "l": 0.9}), of(SCORES))
    assert 2 * len(few.to_dict()["pairwise"]) == len(few.pairwise) == 6


@pytest.mark.parametrize("names", ["abcd", "dcba"])
def test_models_of_equal_scores_stand_in_the_order_in_which_they_were_given(names):
    rng = np.random.default_rng(5)
    tenths = rng.integers(0, 10, 30) / 10  # whose sum depends on the order of adding
    scores = np.array([rng.permutation(tenths) for _ in "abcd"])
    ranker = Ranker(ItemBank.blank(range(30)), list(names), stop="limits")
    assert list(drive(ranker, of(scores)).order) == list(names)


@pytest.mark.long
def test_a_mean_of_draws_is_stated_from_the_second_draw_on():
    ranker, n_drawn = Ranker(bank_of("default"), ["a"], stop="limits"), set()
    while max(n_drawn, default=0) < 3:
        [(model, item)] = ranker.ask(1)
        ranker.tell(model, item, of(SCORES)(model, item))
        row = ranker.result(parts=False).row("a")
        n_drawn.add(len(row.draws))
        assert (row.sample and row.sample.n) == (len(row.draws) if len(row.draws) > 1 else None)
    assert n_drawn == {0, 1, 2, 3}


def test_the_signature_names_what_a_reader_needs(found):
    for part in ("task:t0", "method:default", "confidence:0.95", "known:2", "seed:0"):
        assert part in found.signature.split("|")
    assert "exposure" not in found.signature


def test_an_open_pair_of_which_all_is_asked_needs_no_further_answers():
    equal = np.tile(draw([0.3], 80, 6), (2, 1))
    ranker = Ranker(bank_of("paper"), {"a": 1.0, "b": 1.0}, stop="limits", max_items=80)
    found = drive(ranker, of(equal))
    assert found.decisions["a", "b"] == "open" and not found.open_pairs


def test_an_open_pair_is_told_no_answers_that_failed_items_cannot_give():
    rng = np.random.default_rng(0)
    ranker = Ranker(ItemBank.blank(range(60)), ["a", "b"], max_items=30)
    while not ranker.done:
        for model, item in ranker.ask():
            if item % 5 == 0:
                ranker.fail(model, item, "no answer")
            else:
                ranker.tell(model, item, float(rng.random()))
    ranking = ranker.result()
    [pair] = ranking.open_pairs
    for model in ("a", "b"):
        given = len(ranking.items[model]) + len(ranking.failed[model])
        assert 0 < pair["items"][model] <= 60 - given
    assert pair["all_items"]


@pytest.mark.long
def test_a_model_beyond_the_bank_is_named_and_one_within_is_not():
    bank, scores = bank_of("default", 100), draw([3.5, -0.7], 100, 4)
    findings = drive(Ranker(bank, ["a", "b"], stop="limits", max_items=40), scores).findings
    said = "may score better than every model of the bank"
    assert findings.keys() == {"a"} and findings["a"][0].startswith(said)


def test_draws_that_estimate_a_mean_beyond_the_scale_have_their_interval_at_its_end():
    assert Drawn(9, 1.2, 0.01).interval(0.95) == (1.0, 1.0)


@pytest.mark.long
def test_a_headline_takes_few_steps_for_each_model_and_none_for_each_pair():
    def calls(n_models: int) -> int:
        ranker = Ranker(ItemBank.blank(range(9)), [f"m{n}" for n in range(n_models)])
        for model, item in ranker.ask(9 * n_models):
            ranker.tell(model, item, 0.5)
        content, called = ranker.result().to_dict(), list[str]()
        sys.setprofile(lambda frame, event, _: called.append(event) if event == "call" else None)
        headline(content)
        sys.setprofile(None)
        return len(called)

    assert calls(48) < 6 * calls(12), "a step for each pair makes 16 times as many"


@pytest.mark.parametrize(
    ("first", "second", "verb"),
    [("cannot be loaded: no such file", "its server is gone", "asked"),
     ("cannot be loaded: a", "cannot be loaded: b", "loaded")],
)  # fmt: skip
def test_models_are_not_loaded_only_where_none_of_them_is(first, second, verb):
    models = {
        name: {"set_aside": why, "known": False, "n_items": 0 if why else 9}
        for name, why in zip("abc", (None, first, second))
    }
    assert headline({"models": models}) == f"No ranking: 2 of 3 models could not be {verb}"


def test_the_signature_has_the_filter_of_the_outcome():
    bank = ItemBank.blank(range(30), task="t", metric="acc", filter="strict")
    assert (
        "|metric:acc|filter:strict|"
        in drive(Ranker(bank, ["a", "b"], max_items=10), of(SCORES)).signature
    )


@pytest.mark.parametrize(("max_items", "decision"), [(12, "decided"), (8, "open")])
def test_what_these_documents_decide_of_a_pair_need_not_hold_of_others(max_items, decision):
    """Of twelve documents on which two models differ by chance, all of them decide which leads."""
    rng = np.random.default_rng(1)
    rows = {"a": rng.random(12), "b": rng.random(12), "c": np.zeros(12)}
    ranker = Ranker(ItemBank.blank(range(12)), list(rows), stop="limits", max_items=max_items)
    pairs = drive(ranker, of(rows)).to_dict()["pairwise"]
    found = {frozenset((p["a"], p["b"])): (p["decision"], p["population"]) for p in pairs}
    assert found == {
        frozenset("ab"): (decision, False),
        frozenset("ac"): ("decided", True),
        frozenset("bc"): ("decided", True),
    }
    assert ttest_rel(rows["a"], rows["b"]).pvalue > 0.05 > ttest_rel(rows["b"], rows["c"]).pvalue


def test_a_pair_holds_beyond_these_documents_only_with_the_sign_that_it_has_on_them():
    """What was decided stays so, although answers to come may say the contrary."""
    better, worse, is_open = ([[0, 1], [-1, 0]], [[0, -1], [1, 0]], [[0, 0], [0, 0]])
    for here, beyond, holds in (
        (better, better, True), (better, worse, False), (is_open, better, False),
        (better, is_open, False),
    ):  # fmt: skip
        wider = SimpleNamespace(sign=np.array(beyond), state=np.abs(beyond))
        standing = SimpleNamespace(first_look=lambda question, wider=wider: wider)
        verdicts = SimpleNamespace(
            n_tested=2, sign=np.array(here), belief=SimpleNamespace(question="benchmark")
        )
        found = RankingBuilder._beyond(SimpleNamespace(_standing=standing), verdicts)
        assert (found[0, 1], found[1, 0]) == (holds, holds)


@pytest.mark.long
def test_every_item_was_administered_only_where_no_model_stopped_earlier():
    rng = np.random.default_rng(0)
    alike = rng.uniform(0.4, 0.6, (2, 60))

    def why(**rows):
        ranker = Ranker(ItemBank.blank(range(60)), list(rows), sampled=True)
        ranking = drive(ranker, of(rows))
        return ranking.stopped_because, min(map(len, ranking.items.values()))

    reason, fewest_items = why(good=np.full(60, 0.95), a=alike[0], b=alike[1])
    assert fewest_items < 60
    assert reason == "the models that are not decided have answered every item"
    assert why(a=alike[0], b=alike[1]) == ("every item was administered", 60)


def test_a_pair_turned_round_has_the_ends_of_its_interval_exchanged():
    pair = (0, 1, 0.9, 0.3, 0.1, 0.5, 1, 1, False)
    columns = PairColumns(*(np.array([value]) for value in pair))
    turned = [column.item() for column in columns.turned]
    assert turned == pytest.approx([1, 0, 0.1, -0.3, -0.5, -0.1, 1, 1, False])
    assert [column.item() for column in columns.turned.turned] == pytest.approx(list(pair))


def test_the_models_of_a_top_that_was_asked_for_are_among_those_told():
    ranker = Ranker(bank_of("sample"), list("abcd"), stop="top 2", max_items=20)
    assert 2 in drive(ranker, of(SCORES)).tops


@pytest.mark.parametrize(
    ("repeats", "said"), [({"t": 1, "u": 1}, None), ({"t": 4}, "4"), ({"t": 4, "u": 4}, "4"),
                          ({"t": 4, "u": 1}, "4+1")],
)  # fmt: skip
def test_the_signature_has_the_repeats_of_each_task_where_they_differ(repeats, said):
    assert _repeats(repeats) == said


@pytest.mark.parametrize("name", ["sample", "default"])
def test_models_of_equal_full_means_are_shown_as_equal_whatever_order_their_scores_came_in(name):
    """Sums of the same scores in another order differ in the last digit."""
    bank = ItemBank.blank(range(80)) if name == "sample" else bank_of("default")
    for seed in range(8):
        rng = np.random.default_rng(seed)
        scores = rng.integers(0, 11, 80) / 10.0
        table = {"a": scores, "b": rng.permutation(scores)}
        ranker = Ranker(bank, [*table], stop="limits", max_items=80)
        found = drive(ranker, lambda model, item, table=table: float(table[model][item]))
        assert found.difference("a", "b") == (0.0, 0.0, 0.0)
        for pair in found.to_dict()["pairwise"]:
            assert (pair["difference"], pair["low"], pair["high"]) == (0.0, 0.0, 0.0)
        estimates = {rounded(estimate, 3) for estimate in found.estimates.values()}
        assert estimates == {rounded(round(float(np.mean(scores)), 9), 3)}
