"""`compare`, live and of a run, judges as the looks' boundary written out anew."""

from __future__ import annotations

import json
from functools import cache
from math import inf, log, log1p, nan, pi, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from lm_eval_ccat import ItemBank, Ranker, compare
from lm_eval_ccat.live.comparison import Compared, Comparison
from lm_eval_ccat.live.live_comparison import MarginKnown, _differences, _losses
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.ranker.difference import Difference
from lm_eval_ccat.records import Item, Tell

CODES = {"worse": 5, "not known": 3}
UNIT = Scale()


@cache
def constant(horizon, n_items, level=0.05, nodes=161):
    """C: how far out a path of equal models stays inside, look by look, with the level left."""
    n = np.arange(10, horizon + 1.0)
    clock, x = n / (1 - n / n_items), np.linspace(-1, 1, nodes)
    weight = np.r_[0.5, np.ones(nodes - 2), 0.5] * (x[1] - x[0])

    def leaves(c):
        end = c * falling(n, horizon)
        mass = np.exp(-0.5 * (end[0] * x) ** 2) / sqrt(2 * pi) * end[0] * weight
        for k in range(1, len(n)):
            r = sqrt(clock[k - 1] / clock[k])
            step = (end[k] * x[:, None] - r * end[k - 1] * x) / sqrt(1 - r * r)
            mass = (np.exp(-0.5 * step**2) @ mass) / sqrt(2 * pi * (1 - r * r)) * end[k] * weight
        return 1 - mass.sum()

    # A horizon before the last item leaves a fiftieth of the level, so that it can be raised.
    used = level if horizon >= n_items - 1 else 0.98 * level
    return brentq(lambda c: leaves(c) - used, 1, 6)


def falling(n, horizon):
    """The boundary without a bank, of which the last look asks for less."""
    return np.where(n < horizon, (n / horizon) ** -0.1, 0.85)


def stretch(horizon):
    return min(1.03, 1 + 1.5 / horizon)


def limit(n, n_items, c, horizon, level):
    """Standard errors that decide after `n` items: the boundary, or the mixture's."""
    if n < 10 or n >= n_items:
        return inf if n < 10 else 0.0
    if horizon:
        return stretch(horizon) * c * falling(n, horizon)
    rate = (log(400) + log1p(log(400))) / 60 * n / (1 - n / n_items)
    return sqrt((1 + 1 / rate) * (log1p(rate) + 2 * log(1 / level)))


def variance_of_item(x):
    """Of a model's scores, with half an imagined item as far away as it may plausibly lie."""
    far, square = np.abs(x - x[0]).max() or 1.0, np.sum((x - x.mean()) ** 2)
    edge = min(x.mean(), 1 - x.mean())
    crowds = edge <= 4 * sqrt((square + 0.5 * far**2) / max(len(x) - 1, 1)) and edge * len(x) <= 1
    return (square + 0.5 * max(far**2, crowds)) / max(len(x) - 1, 1)


def variance_of_pair(d, n_items, of_items):
    """Of a mean difference: the imagined item departs as far as unrelated models may."""
    n, far = len(d), np.abs(d).max() or 1.0
    imagined = 0.5 * max(far**2, min(sum(of_items), 1.0))
    return (np.sum((d - d.mean()) ** 2) + imagined) / max(n - 1, 1) * (1 - n / n_items) / n


class Reference:
    """The looks at every pair so far. Means are those that the method states, errors are not."""

    def __init__(self, names, n_items, horizon, constants):
        self.names, self.n_items, self.horizon = names, n_items, horizon
        self.constants = constants  # C by level: that of the family's first step, and of each pair
        self.told, self.shown = [[] for _ in names], {level: set() for level in constants}

    def learn(self, model, score, belief, *, looks):
        """Take the answer, NaN for a failure, and perhaps a look at the means that it states."""
        self.told[self.names.index(model)].append(score)
        self.gaps = np.subtract.outer(belief.location, belief.location)
        bias = np.zeros(len(self.names)) if belief.failure_bias is None else belief.failure_bias
        self.slack = np.add.outer(np.maximum(bias, 0), np.maximum(-bias, 0))
        for level, shown in self.shown.items() if looks else ():
            for a, b in np.argwhere(self.gaps - self.slack > 1e-12).tolist():
                if (a, b) not in shown and 0 < self.arms(a, b, level)[0] <= self.gaps[a, b]:
                    shown.add((a, b))

    def arms(self, a, b, level):
        """How far below the difference of `a` less `b` it may lie, without and with rare losses."""
        both = min(len(self.told[a]), len(self.told[b]))
        of_a, of_b = (np.array(self.told[model]) for model in (a, b))
        d = of_a[:both] - of_b[:both]
        scores, other, d = (x[np.isfinite(x)] for x in (of_a, of_b, d))
        n, n_items = len(d), self.n_items
        if n < 10 or n == n_items:
            return (inf, inf) if n < n_items else (0.0, 0.0)
        of_items = variance_of_item(scores), variance_of_item(other)
        error = sqrt(variance_of_pair(d, n_items, of_items))
        decides = limit(n, n_items, self.constants[level], self.horizon, level)
        above_0 = scores[scores > 0]
        usual = above_0.mean() if len(above_0) else 1.0
        # Differences in the mean, each weighed by its size, and half an item of the whole scale.
        rare = (np.sum(d**2) + 0.5) / (np.sum(np.abs(d)) + 0.5)
        as_of_many = n if n_items == inf else min(-n_items * log(1 - n / n_items), n_items)
        by_error = -stdtrit(n - 1, ndtr(-decides)) * error
        arms = [by_error]
        for loss in (usual, rare):
            k = np.sum(np.minimum(d, 0) ** 2) / loss**2 + 0.5
            to_come = brentq(lambda g, k=k: g - k * log1p(g / k) - log(1 / level), 1e-9, 1e3)
            arms.append(max(arms[-1], to_come * loss / as_of_many))
        return self.slack[a, b] + arms[1], self.slack[a, b] + arms[2]

    def reach(self, a, b, level):
        """How far below the difference its interval reaches: rare losses do not move it to 0."""
        near, far = self.arms(a, b, level)
        lead = self.gaps[a, b] + self.slack[a, b]
        return near if near < lead <= far else far

    def decides(self, a, b):
        """Whether a look has shown `a` above `b`, stepping down from three pairs to one."""
        first, *further = self.shown.values()
        return (a, b) in first or any(first and (a, b) in shown for shown in further)

    def judge(self, a, b, margin=0.0):
        """Whether `a` less `b` is decided, the ends of its interval, and the word of the gate."""
        level = next(iter(self.constants))
        gap, below, above = self.gaps[a, b], self.reach(a, b, level), self.reach(b, a, level)
        exact = below == 0
        decided = abs(gap) > 1e-12 and (
            exact or (self.decides(a, b) if gap > 0 else self.decides(b, a))
        )
        low, high = gap - below, gap + above
        if decided:
            low, high = (max(low, 0), high) if gap > 0 else (low, min(high, 0))
        else:
            low, high = min(low, 0), max(high, 0)
        word, margin_or_so = "not known", margin + 1e-12
        if (exact and not decided) or (margin and max(-low, high) <= margin_or_so):
            word = "equivalent"
        elif decided and gap > 0:
            word = "better"
        elif high < -margin_or_so or (decided and not margin):
            word = "worse"
        elif margin and low >= -margin_or_so:
            word = "not worse"
        return bool(decided), low, high, word


def scores_of(rng, kind, n_models, n_items):
    """Scores of models that are equal, or not; some score 0 now and then."""
    skill = 0.3 + 0.5 * rng.random() + rng.choice([0.0, 0.1, 0.35]) * rng.normal(size=n_models)
    scores = np.clip(skill[:, None] + 0.2 * rng.normal(size=(n_models, n_items)), 0.0, 1.0)
    if kind == "right or wrong":
        scores = (rng.random(scores.shape) < skill[:, None]).astype(float)
    elif kind == "near 1":
        scores = 0.9 + 0.1 * scores
    scores[rng.random(scores.shape) < rng.choice([0.0, 0.04, 0.2], (n_models, 1))] = 0.0
    return scores


def drawn(kind, horizon, n_items, seed, names="ab", scale=UNIT, failing=0.0, **about):
    """A ranking under way: the ranker, the reference, the margin, and an answer at a time."""
    rng = np.random.default_rng(seed)
    scores = scores_of(rng, kind, len(names), n_items)
    fails = rng.random(scores.shape) < failing
    margin = float(rng.choice([0.0, 0.03, 0.1]))
    rule = {"stop": MarginKnown(margin)} if len(names) == 2 else {}
    bank = ItemBank.blank(range(n_items), task="t0", metric="acc", scale=scale)
    ranker = Ranker(bank, list(names), seed=seed, max_items=horizon, **rule, **about)
    size = inf if about.get("question") == "population" else n_items
    levels = (0.05 / 3, 0.05) if about.get("familywise") else (0.05,)
    constants = {level: horizon and stated(horizon, n_items, size, level) for level in levels}
    reference = Reference(names, size, horizon, constants)

    def answers():
        while not ranker.done:
            for model, item in ranker.ask():
                place, last_look = (names.index(model), item), ranker._standing.belief_at_look
                score = nan if fails[place] else float(scores[place])
                if fails[place]:
                    ranker.fail(model, item, "no answer")
                else:
                    ranker.tell(model, item, score)
                # Between two looks of the ranker's another one may show more.
                looks = ranker._standing.belief_at_look is not last_look
                reference.learn(model, score, ranker.belief(), looks=looks)
                yield

    return ranker, reference, margin, answers()


@cache
def stated(horizon, n_items, size, level):
    """The C of a ranking: its boundary at the tenth item, which is near the exact one."""
    question = "population" if size == inf else "benchmark"
    bank = ItemBank.blank(range(n_items))
    ranker = Ranker(bank, list("ab"), max_items=horizon, confidence=1 - level, question=question)
    rng, told = np.random.default_rng(0), {"a": [], "b": []}
    while min(map(len, told.values())) < 10:
        for model, item in ranker.ask():
            told[model].append(rng.uniform(0.01, 1.0))
            ranker.tell(model, item, told[model][-1])
    low, high = (float(end[0, 1]) for end in ranker.verdicts.intervals())
    x, y = (np.array(scores[:10]) for scores in told.values())
    error = sqrt(variance_of_pair(x - y, size, (variance_of_item(x), variance_of_item(y))))
    z = -ndtri(stdtr(9, -0.5 * (high - low) / error))
    c = z / stretch(horizon) / falling(10, horizon)
    assert c == pytest.approx(constant(horizon, size, level), rel=2e-3)
    return c


KINDS, LIMITS = ("graded", "right or wrong", "near 1"), ((None, 36), (24, 48), (44, 45), (20, 60))
LOWER = Scale(10, 50, higher_is_better=False)
WORLDS = {
    "as it is": {}, "population": {"question": "population"}, "failures": {"failing": 0.15},
    "lower is better": {"scale": LOWER},
    "all three": {"question": "population", "failing": 0.1, "scale": LOWER},
}  # fmt: skip
#: Every two of a kind, limits and a world stand together in some case; each has seeds of its own.
CASES = [
    pytest.param(
        (KINDS[(n + m) % len(KINDS)], *limits), world, 10 * (n * len(WORLDS) + m),
        id=f"{KINDS[(n + m) % len(KINDS)]}-{limits[0]}-{limits[1]}-{world}",
    )
    for n, limits in enumerate(LIMITS) for m, world in enumerate(WORLDS)
]  # fmt: skip


def on_scale(low, high, scale):
    """Ends of a difference on [0, 1], on a scale of its own, cut to what it can have."""
    ends = sorted(scale.span * end * (1 if scale.higher_is_better else -1) for end in (low, high))
    return np.clip(ends, -scale.span, scale.span).tolist()


@pytest.mark.long
@pytest.mark.parametrize(("shape", "world", "seed"), CASES)
def test_live_models_get_the_verdict_of_the_reference(shape, world, seed):
    """Two models, asked until the margin is known; after every answer."""
    about = WORLDS[world]
    scale = about.get("scale", UNIT)
    for own_seed in range(seed, seed + 2):
        ranker, reference, margin, answers = drawn(*shape, own_seed, **about)
        for number, _ in enumerate(answers):
            if not ranker.done and (number < 24 or number % 4):
                continue
            decided, low, high, word = reference.judge(1, 0, margin)
            on_own_scale = {"margin": margin * scale.span, "scale": scale}
            found = Difference.of(ranker.verdicts, documents=10, **on_own_scale)
            assert (found.verdict, bool(ranker.verdicts.sign[1, 0])) == (word, decided)
            ends = on_scale(low, high, scale)
            assert [found.low, found.high] == pytest.approx(ends, abs=1e-9 * scale.span)
        compared = Compared("t0", "acc", None, "0 to 1", found, {})
        comparison = Comparison("a", "b", margin, 0.95, [compared], [])
        assert (comparison.verdict, comparison.exit_code) == (word, CODES.get(word, 0))


def run_of_three(folder, shape, seed, **about):
    """The reference of three models, whose run has ended or was interrupted, and the margin."""
    ranker, reference, margin, answers = drawn(*shape, seed, "abc", **about)
    stops = np.random.default_rng(seed).choice([36, 60, 999])
    for number, _ in enumerate(answers):
        if number == stops:
            break
    content = dict(ranker.result().to_dict())
    content["terms"] = [{"task": "t0", "metric": "acc", "filter": None, "weight": 1.0}]
    (folder / "result.json").write_text(json.dumps(content))
    return reference, margin


@pytest.mark.long
@pytest.mark.parametrize(("shape", "world", "seed"), CASES)
def test_runs_get_the_verdict_of_the_reference(shape, world, seed, tmp_path):
    """Three models of a run that has ended, or was interrupted, each beside each."""
    about = WORLDS[world]
    scale = about.get("scale", UNIT)
    for own_seed in range(seed, seed + 2):
        reference, margin = run_of_three(tmp_path, shape, own_seed, **about)
        for a, b in ((0, 1), (1, 2), (2, 0)):
            _, low, high, word = reference.judge(b, a, margin)
            names = "abc"[a], "abc"[b]
            found = compare(tmp_path, tmp_path, models=names, margin=margin * scale.span)
            assert (found.verdict, found.exit_code) == (word, CODES.get(word, 0))
            overall = found.outcomes[0].overall
            ends = on_scale(low, high, scale)
            assert [overall.low, overall.high] == pytest.approx(ends, abs=1e-9 * scale.span)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: "-".join(map(str, limits)))
def test_runs_of_a_family_get_the_verdict_of_the_reference(kind, limits, tmp_path):
    """Open pairs hold their ends for all pairs together; of decided ones the end beyond."""
    for seed in range(2):
        reference, _ = run_of_three(tmp_path, (kind, *limits), seed, familywise=True)
        for a, b in ((0, 1), (1, 2), (2, 0)):
            decided, low, high, word = reference.judge(b, a)
            found = compare(tmp_path, tmp_path, models=("abc"[a], "abc"[b]))
            assert (found.verdict, found.exit_code) == (word, CODES.get(word, 0))
            overall = found.outcomes[0].overall
            for said, end, towards_0 in (
                (overall.low, low, decided and overall.difference > 0),
                (overall.high, high, decided and overall.difference < 0),
            ):
                # The end of a decided pair towards 0 holds at the step that decides it.
                holds = said * overall.difference > 0 if towards_0 else said == pytest.approx(
                    float(np.clip(end, -1, 1)), abs=1e-9
                )  # fmt: skip
                assert holds


def test_a_live_comparison_shows_the_answers_of_each_side_under_its_name():
    item = Item(("t", 3))
    answers = {
        (model, item): Tell(model=model, item=item, score=score, responses=[[text]])
        for model, score, text in (("old", 1.0, "right"), ("new", 0.0, "wrong"))
    }
    run = SimpleNamespace(book=SimpleNamespace(answers=answers))
    [loss] = _losses(run, ("old", "new"), Scale())
    assert (loss.doc_id, loss.answers) == (3, ("right", "wrong"))


@pytest.mark.long
def test_the_answer_for_documents_like_these_is_of_one_look_at_its_end():
    """Looks at these 60 documents decide; what they spent and found is no evidence about others."""
    gains = np.where(np.arange(60) % 2, 0.13, -0.04)
    ranker = Ranker(ItemBank.blank(range(60)), ["old", "new"], stop=MarginKnown(0.0))
    while asked := ranker.ask(2):
        for model, item in asked:
            ranker.tell(model, item, 0.5 + (gains[item] if model == "new" else 0.0))
    offered = SimpleNamespace(metric=SimpleNamespace(scale=Scale()))
    plan = SimpleNamespace(outcome=offered, offered=range(60), most_repeats=1)
    run = SimpleNamespace(plan=plan, book=SimpleNamespace(ranker=ranker))
    on_these, on_others = _differences(run, 0.0)
    assert (on_these.verdict, on_others.verdict) == ("better", "not known")
    assert on_these.low > 0.0 > on_others.low
