"""`compare`, live and of a run, judges as the looks' boundary written out anew."""

from __future__ import annotations

import json
from functools import cache
from math import inf, log, log1p, pi, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtr, stdtrit
from worlds.boards import bank_of

from lm_eval_ccat import Ranker, compare
from lm_eval_ccat.live.comparison import Compared, Comparison, MarginKnown
from lm_eval_ccat.ranker.difference import Difference

CODES = {"worse": 5, "not known": 3}


@cache
def constant(horizon, n_items, nodes=161):
    """C: how far out a path of equal models stays inside, look by look, in 95% of cases."""
    n = np.arange(10, horizon + 1.0)
    clock, x = n / (1 - n / n_items), np.linspace(-1, 1, nodes)
    weight = np.r_[0.5, np.ones(nodes - 2), 0.5] * (x[1] - x[0])

    def leaves(c):
        end = c * (n / horizon) ** -0.25
        mass = np.exp(-0.5 * (end[0] * x) ** 2) / sqrt(2 * pi) * end[0] * weight
        for k in range(1, len(n)):
            r = sqrt(clock[k - 1] / clock[k])
            step = (end[k] * x[:, None] - r * end[k - 1] * x) / sqrt(1 - r * r)
            mass = (np.exp(-0.5 * step**2) @ mass) / sqrt(2 * pi * (1 - r * r)) * end[k] * weight
        return 1 - mass.sum()

    # A horizon before the last item leaves a fiftieth of the level, so that it can be raised.
    return brentq(lambda c: leaves(c) - (0.05 if horizon >= n_items - 1 else 0.049), 1, 5)


def limit(n, n_items, c, horizon):
    """Standard errors that decide at 95% after `n` items: the boundary, or the mixture's."""
    if n < 10 or n >= n_items:
        return inf if n < 10 else 0.0
    if horizon:
        return 1.03 * c * (n / horizon) ** -0.25
    rate = (log(400) + log1p(log(400))) / 60 * n / (1 - n / n_items)
    return sqrt((1 + 1 / rate) * (log1p(rate) + log(400)))


def arm(scores, variance, a, b, c, horizon):
    """How far below the difference of `a` less `b` its interval reaches, by one look alone."""
    n_items, differences = scores.shape[1], scores[a] - scores[b]
    d = differences[np.isfinite(differences)]
    n = len(d)
    if n < 10 or n == n_items:
        return inf if n < n_items else 0.0
    by_error = -stdtrit(n - 1, ndtr(-limit(n, n_items, c, horizon))) * sqrt(variance[a, b])
    above_0 = scores[a][scores[a] > 0]
    usual = above_0.mean() if len(above_0) else 1.0
    k = np.sum(np.minimum(d, 0) ** 2) / usual**2 + 0.5
    zeros = brentq(lambda g: g - k * log1p(g / k) - log(20), 1e-9, 1e3, xtol=1e-12)
    return max(by_error, zeros * usual / min(-n_items * log(1 - n / n_items), n_items))


class Reference:
    """The looks at every pair so far."""

    def __init__(self, n_items, names, c, horizon):
        self.scores, self.shown = np.full((len(names), n_items), np.nan), set()
        self.names, self.how = names, (c, horizon)

    def look(self, model, item, score, belief):
        """Take the answer, and a look at what the method then states: means and their errors."""
        self.scores[self.names.index(model), item] = score
        self.gaps, self.variance = np.subtract.outer(*[belief.location] * 2), belief.variance
        for a, b in np.argwhere(self.gaps > 1e-12).tolist():
            if (a, b) not in self.shown and 0 < self.arm(a, b) <= self.gaps[a, b]:
                self.shown.add((a, b))

    def arm(self, a, b):
        return arm(self.scores, self.variance, a, b, *self.how)

    def judge(self, a, b, margin=0.0):
        """Whether `a` less `b` is decided, the ends of its interval, and the word of the gate."""
        gap, below, above = self.gaps[a, b], self.arm(a, b), self.arm(b, a)
        exact = below == 0
        decided = abs(gap) > 1e-12 and (exact or ((a, b) if gap > 0 else (b, a)) in self.shown)
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


def drawn(kind, horizon, n_items, seed, names="ab"):
    """A ranking under way: the ranker, the reference, the margin, and an answer at a time."""
    rng = np.random.default_rng(seed)
    scores = scores_of(rng, kind, len(names), n_items)
    margin = float(rng.choice([0.0, 0.03, 0.1]))
    rule = {"stop": MarginKnown(margin)} if len(names) == 2 else {}
    bank = bank_of("sample", n_items)
    ranker = Ranker(bank, list(names), seed=seed, max_items=horizon, **rule)
    reference = Reference(n_items, names, horizon and stated(horizon, n_items), horizon)

    def answers():
        while not ranker.done:
            for model, item in ranker.ask():
                score = float(scores[names.index(model), item])
                ranker.tell(model, item, score)
                reference.look(model, item, score, ranker.belief())
                yield

    return ranker, reference, margin, answers()


@cache
def stated(horizon, n_items):
    """The C of a ranking: its boundary at the tenth item, which is near the exact one."""
    ranker = Ranker(bank_of("sample", n_items), list("ab"), max_items=horizon)
    rng, asked = np.random.default_rng(0), 0
    while asked < 20:
        for model, item in ranker.ask():
            ranker.tell(model, item, rng.uniform(0.01, 1.0))
            asked += 1
    low, high = (float(end[0, 1]) for end in ranker.verdicts.intervals())
    z = -ndtri(stdtr(9, -0.5 * (high - low) / sqrt(ranker.belief().variance[0, 1])))
    c = z / 1.03 * (10 / horizon) ** 0.25
    assert c == pytest.approx(constant(horizon, n_items), rel=1e-3)
    return c


KINDS, LIMITS = ("graded", "right or wrong", "near 1"), ((None, 36), (24, 48), (44, 45), (20, 60))
SHAPES = [(kind, *limits) for kind in KINDS for limits in LIMITS]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape)))
def test_live_models_get_the_verdict_of_the_reference(shape):
    """Two models, asked until the margin is known; after every answer."""
    for seed in range(12):
        ranker, reference, margin, answers = drawn(*shape, seed)
        for number, _ in enumerate(answers):
            if number < 20 or (number % 4 and not ranker.done):
                continue
            decided, *ends, word = reference.judge(1, 0, margin)
            found = Difference.of(ranker.verdicts, documents=10, margin=margin)
            assert (found.verdict, bool(ranker.verdicts.sign[1, 0])) == (word, decided)
            said = [found.low, found.high]
            assert said == pytest.approx(np.clip(ends, -1, 1).tolist(), abs=1e-6)
        compared = Compared("t0", "acc", None, "0 to 1", found, {})
        comparison = Comparison("a", "b", margin, 0.95, [compared], [])
        assert (comparison.verdict, comparison.exit_code) == (word, CODES.get(word, 0))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(map(str, shape)))
def test_runs_get_the_verdict_of_the_reference(shape, tmp_path):
    """Three models of a run that has ended, or was interrupted, each beside each."""
    for seed in range(5):
        ranker, reference, margin, answers = drawn(*shape, seed, "abc")
        stops = np.random.default_rng(seed).choice([30, 60, 999])
        for number, _ in enumerate(answers):
            if number == stops:
                break
        content = dict(ranker.result().to_dict())
        content["terms"] = [{"task": "t0", "metric": "acc", "filter": None, "weight": 1.0}]
        (tmp_path / "result.json").write_text(json.dumps(content))
        for a, b in ((0, 1), (1, 2), (2, 0)):
            _, low, high, word = reference.judge(b, a, margin)
            found = compare(tmp_path, tmp_path, models=("abc"[a], "abc"[b]), margin=margin)
            assert (found.verdict, found.exit_code) == (word, CODES.get(word, 0))
            overall = found.outcomes[0].overall
            ends = np.clip([low, high], -1, 1).tolist()
            assert [overall.low, overall.high] == pytest.approx(ends, abs=1e-6)
