"""`compare` gives the verdict and the exit code of a reference of ten lines, in random cases."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import beta
from scipy.stats import t as student

from lm_eval_ccat import ScoreTable, compare
from lm_eval_ccat.metrics import Scale

CODES = {"worse": 5, "not known": 3}
#: What scores look like, and which documents the sides have.
KINDS = (
    "graded", "right or wrong", "all equal", "equal differences", "equal but for rounding",
    "equal but for six decimals", "a few changed in the third",
)  # fmt: skip
#: Two differences of scores with six decimals may be this far apart by rounding.
ROUNDED = 2.0001e-6
SHAPES = tuple(product(KINDS, (False, True), (False, True), ("population", "benchmark")))


def interval(d, clusters, rounded=ROUNDED, level=0.95):
    """Ends of the interval of a mean difference, for documents like these.

    Of clusters by the matrix of their quadratic form (Bell and McCaffrey, as if all documents of
    one differed by one amount); too few for signs alone to tell (2^(1 - k) > .05) tell nothing.
    """
    labels = np.arange(len(d)) if clusters is None else clusters
    names, sizes = np.unique(labels, return_counts=True)
    gap, k, shares = d.mean(), len(d) ** 2 / np.sum(sizes**2), sizes / len(d)
    residual = np.eye(len(names)) - shares
    error, df = np.inf, 1.0
    if len(names) > 1 and (clusters is None or 2 ** (1 - k) <= 1 - level):
        form = residual.T @ np.diag(shares**2 / np.sum(residual**2, axis=1)) @ residual
        means = np.array([d[labels == name].mean() for name in names]) - gap
        error, df = np.sqrt(max(means @ form @ means, 0)), form.trace() ** 2 / np.sum(form**2)
        error *= abs(means).max() > rounded
    if error < 1e-9:  # equal differences: an imagined half document from ten on, else nothing
        error = np.inf if len(names) < 10 else np.sqrt(0.5) * abs(gap) / k if abs(gap) > 1e-9 else 0
    half = error and error * student.ppf(0.5 + 0.5 * level, df)
    # Losses, or gains, too rare to show: no end is within the exact limit of their share, unless
    # that alone would take 0 in.
    down, up = (max(half, to_come(side, k, rounded, level)) for side in (d, -d))
    return gap - (half if half < gap <= down else down), gap + (half if half < -gap <= up else up)


def to_come(d, k, rounded, level):
    """How much less a mean may be as a few of k differences lie far below the median."""
    away = np.median(d) - d
    away[abs(away) <= rounded] = 0
    # As much as few lose: a mean of all, each weighed by its size, and half a whole scale.
    loss = (np.sum(away**2) + 0.5) / (np.sum(abs(away)) + 0.5)
    share = np.sum(np.maximum(away, 0) ** 2) / loss**2 / len(d)
    return loss * max(beta.ppf(level, share * k + 1, k - share * k) - share, 0)


def verdict(low, high, margin, equal):
    """The words of the gate; figures that are equal but for rounding are equal."""
    low, high, margin = np.round([low, high, margin], 9)
    equal = low == high == 0 or (equal and margin == 0)
    if equal or (0 < margin and -margin <= low and high <= margin):
        return "equivalent"
    if low > 0:
        return "better"
    if high < -margin:
        return "worse"
    return "not worse" if 0 < margin and -margin <= low else "not known"


def case(seed, kind, lower, clustered, question):
    """Raw scores of two models by document, their scale, and what is asked of them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 11)) if rng.random() < 0.5 else int(rng.integers(11, 80))
    low = float(rng.choice([0.0, -50.0, 1.0]))
    scale = Scale(low, low + float(rng.choice([1.0, 9.0, 100.0])), not lower)
    first = rng.random(n)
    match kind:
        case "graded":
            second = np.clip(first + rng.normal(rng.normal(0, 0.1), 0.15, n), 0, 1)
        case "right or wrong":
            first, second = (rng.random((2, n)) < rng.random((2, 1))).astype(float)
        case "all equal":
            second = first.copy()
        case "equal differences":
            first = 0.25 * rng.integers(0, 3, n)
            second = first + 0.25
        case "equal but for six decimals":
            first = np.round(rng.integers(1, 4, n) / 7, 6)
            second = np.round(first + rng.integers(0, 3) / 7 + rng.uniform(-5e-7, 5e-7, n), 6)
        case "a few changed in the third":
            first = np.round(rng.random(n), 3)
            second = np.round(first + 0.001 * (rng.random(n) < 0.2) * rng.choice([-1, 1]), 3)
        case _:
            first = np.round(0.1 * rng.integers(0, 6, n), 1)
            second = np.round(first + 0.1 * rng.integers(1, 4), 1)
    raw = scale.restore([first, second])
    clusters = rng.integers(0, max(n // 3, 2), n) if clustered else None
    # Each side lacks some documents, and one document of ten has changed.
    sides = [np.flatnonzero(rng.random(n) > share) for share in rng.choice([0.0, 0.2], 2)]
    changed = rng.random(n) < rng.choice([0.0, 0.1])
    margin = float(rng.choice([0.0, 0.02, 0.1, 0.3])) * scale.span
    return raw, scale, clusters, sides, changed, margin, question


def gains(scores):
    """What the second model gains by document, nothing where that may be rounding; and this."""
    d = np.round(scores[1] - scores[0], 12)
    d[np.abs(d) <= 1e-6] = 0
    # Fewer than ten may have been rounded to three decimals, where all have no more.
    decimals = [
        k for k in (3, 4, 5) if len(d) < 10 and (abs(scores - scores.round(k)) < 1e-9).all()
    ]
    rounded = 2.0001 * 10.0 ** -min(decimals) if decimals else ROUNDED
    if abs(d - d.mean()).max() <= rounded:
        d = np.full(len(d), d.mean() * (abs(d.mean()) > ROUNDED))
    return d, rounded


def check(seed, shape):
    raw, scale, clusters, sides, changed, margin, question = case(seed, *shape)
    shared = np.intersect1d(*sides)
    twice, shared = shared[changed[shared]], shared[~changed[shared]]
    if not len(shared):
        return None
    tables = [
        ScoreTable.from_arrays(
            [raw[side][ids]], ["ab"[side]], ids.tolist(), metric="mine", scale=scale,
            doc_hashes=[f"{i}{side * changed[i]}" for i in ids],
        )
        for side, ids in enumerate(sides)
    ]  # fmt: skip
    fields = {"cluster": "passage", "items": {
        i: {"passage": str(label)} for i, label in enumerate(clusters)
    }} if clusters is not None else {}  # fmt: skip
    found = compare(*tables, margin=margin, question=question, **fields)
    sign = 1 if scale.higher_is_better else -1
    # Of what one side lacks, the score may be any; not beyond its first and last document.
    documents = np.union1d(*(side[~np.isin(side, twice)] for side in sides))
    within = [(side.min() <= documents) & (documents <= side.max()) for side in sides]
    documents = documents[within[0] & within[1]]
    unit = np.array([
        np.where(np.isin(documents, side), scores[documents], np.nan)
        for side, scores in zip(sides, scale.normalise(raw))
    ])  # fmt: skip
    missing = np.isnan(unit).any()
    ends, equal = {"population": [], "benchmark": []}, not missing
    for fill in ((1, 0), (0, 1)):
        d, rounded = gains(np.where(np.isnan(unit), np.reshape(fill, (2, 1)), unit))
        labels = None if clusters is None else clusters[documents]
        ends["population"] += interval(d, labels, rounded)
        ends["benchmark"] += [d.mean()] * 2
        equal &= not d.any()
    ends = {about: (min(both), max(both)) for about, both in ends.items()}
    words = {
        about: verdict(low, high, margin / scale.span, equal and high < np.inf)
        for about, (low, high) in ends.items()
    }
    wanted = words.pop(question)
    [other] = words.values()
    [outcome] = found.outcomes
    assert (found.verdict, found.exit_code) == (wanted, CODES.get(wanted, 0))
    assert outcome.other_question.verdict == other
    said = np.array((outcome.overall.low, outcome.overall.high)[::sign]) * sign / scale.span
    assert said == pytest.approx(np.clip(ends[question], -1, 1), abs=1e-9)
    return wanted


@pytest.mark.long
@pytest.mark.parametrize("n", range(len(SHAPES)), ids=lambda n: "-".join(map(str, SHAPES[n])))
def test_verdict_and_exit_code_are_those_of_the_reference(n):
    """Ten cases of each of 56 shapes, none of which is a case of another shape."""
    assert {check(seed, SHAPES[n]) for seed in range(10 * n, 10 * n + 10)} - {None}
