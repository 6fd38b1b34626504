"""Repeats: several sampled answers of each item, in passes, and what they tell of a difference.

What is estimated is the mean, over ``N`` items, of two models' difference in *expected* score: the
limit of avg@K. Passes: each asks every item once, in a new random order, and all models get the
same slots (item, repeat). With ``k`` items on which both models have answers, ``n_i`` of each model
on item i, and ``f = k / N``,

    D = mean over seen items of the difference of item means
    v = (1 - f) s2 / k + f W,                    W = sigma2 sum(1 / n_i) / k^2
    sigma2 = (E u2 + SS) / (E u2 / s1 + F),      E = 1/2,  F = sum(n_i - 1)
    s1 = s2 of the first pass + u2 / k,          u2 = sum d^4 / sum d^2

with ``s2`` the variance over items of the differences of item means, ``SS`` the squares of answers
about their item's mean (both models), and ``d`` the paired differences of single answers: ``u2`` is
the square of one *event of noise*, an answer that comes out otherwise: 1 for scores of 0 and 1, and
while all ``d`` are 0. ``E`` such events count as seen before any repeat. The variance of the
difference of two answers within an item (the sum over both models), ``sigma2``, begins at ``s1``,
as if all of the variance were noise, so the first pass gets almost no finite-population correction.
It falls as repeats show that less of ``s2`` is noise. Before any repeat, Student's degrees of
freedom are ``k - 1``; then, with ``b = (1 - f) s2 / (k v)`` the share of the part between items,
which ends at ``k = N``, they are by Satterthwaite

    df = 1 / (b^2 / (k - 1) + (1 - b)^2 / (6 + 4 SS / u2))

About items like these, ``v = s2 / k`` with ``k - 1``.

`passes` has the order of the slots. benchmarks/repeats.py measures how often equal models are
called different, and what is decided.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.scale import Floats
from ..belief import Indices

EVENTS = 0.5  # ``E``
#: Degrees of freedom of the part within items: without events, and for each event of noise.
FREEDOM, PER_EVENT = 6.0, 4.0
_LEAST = 1e-12


class RepeatFigures(NamedTuple):
    """What repeated answers tell of the differences of some pairs of models; arrays of one shape.

    Attributes
    ----------
    difference, variance, df : ndarray
        ``D`` and ``v``, infinite below two items, with Student's degrees of freedom.
    answers : ndarray
        Answers of each of the two models, the sum of ``n_i``.
    event : ndarray
        The size of one event of noise, ``u``.
    noise : ndarray
        ``sigma2``; of a model beside one that always scores 0, the variance of its answers.
    """

    difference: Floats
    variance: Floats
    df: Floats
    answers: Floats
    event: Floats
    noise: Floats


class RepeatSums:
    """Sums over the answers of several series of pairs, updated answer by answer.

    Parameters
    ----------
    n_series : int
    n_items : int
        Items of the benchmark.

    Examples
    --------
    >>> sums, series = RepeatSums(1, n_items=4), np.array([0])
    >>> for count, a, b, mean_a in [(0, 1, 0, 0), (0, 1, 1, 0), (1, 0, 0, 1)]:
    ...     sums.learn(series, *np.array([[a], [b], [count], [mean_a], [0.0]]))
    >>> figures = sums.figures()
    >>> float(figures.difference[0]), float(figures.answers[0])
    (0.25, 3.0)
    """

    def __init__(self, n_series: int, n_items: int) -> None:
        self.n_items = n_items
        # Sums over items of n_i, of 1, and of 1 / n_i.
        self.answers, self.items, self.inverse = np.zeros((3, n_series))
        # Of differences of item means, and of single answers: sums of powers.
        self.total, self.square = np.zeros((2, n_series))
        self.single_square, self.single_fourth = np.zeros((2, n_series))
        # SS of the module's equations, and s2 as it was before the first repeat.
        self.within, self.between_at_first = np.zeros((2, n_series))

    @classmethod
    def of_answers(cls, first: Floats, second: Floats) -> RepeatSums:
        """Return the sums over all answers of one pair; every item has an answer of both models.

        Parameters
        ----------
        first, second : ndarray of shape (n_answers, n_items)
            Scores of the two models; NaN where there is none. The k-th answers of both models to an
            item belong together, and those that one model has alone are left out.

        Examples
        --------
        >>> first, second = np.eye(2), np.array([[0.0, 0.0], [1.0, np.nan]])
        >>> figures = RepeatSums.of_answers(first, second).figures()
        >>> float(figures.difference[0]), float(figures.answers[0])
        (0.0, 3.0)
        """
        # Row k gets the k-th answer to each item.
        in_a_row = (np.argsort(np.isnan(side), axis=0, kind="stable") for side in (first, second))
        a, b = (
            np.take_along_axis(side, order[: min(len(first), len(second))], axis=0)
            for side, order in zip((first, second), in_a_row)
        )
        answered = np.isfinite(a) & np.isfinite(b)
        count = answered.sum(axis=0)
        a, b = (np.where(answered, side, 0.0) for side in (a, b))
        means = [side.sum(axis=0) / count for side in (a, b)]
        # Differences of answers, and of item means.
        sums, d, apart = cls(1, len(count)), a - b, means[0] - means[1]
        sums.answers[:], sums.items[:] = count.sum(), len(count)
        sums.inverse[:] = (1.0 / count).sum()
        sums.total[:], sums.square[:] = apart.sum(), (apart**2).sum()
        sums.single_square[:], sums.single_fourth[:] = (d**2).sum(), (d**4).sum()
        sums.within[:] = sum(
            ((side - mean)[answered] ** 2).sum() for side, mean in zip((a, b), means)
        )
        sums.between_at_first[:] = d[0].var(ddof=1) if len(count) > 1 else 0.0
        return sums

    def learn(
        self,
        series: Indices,
        first: Floats,
        second: Floats,
        count: Floats,
        mean_of_first: Floats,
        mean_of_second: Floats,
    ) -> None:
        """Take in one answer of both models to one item; each series is named once.

        With ``m`` answers to the item before, ``a`` and ``b`` the new scores, ``A`` and ``B`` the
        means of those before, and ``x = A - B`` (0 if m = 0), sums grow by the following, where the
        terms with ``1 / m`` and in ``SS`` are left out if m = 0,

            x' = x + (a - b - x) / (m + 1)      the new difference of the item's means
            sum of differences: x' - x,         of their squares: x'^2 - x^2
            sum of 1 / n_i:     1 / (m + 1) - 1 / m
            SS:                 m / (m + 1) ((a - A)^2 + (b - B)^2)

        Parameters
        ----------
        series : ndarray of int
        first, second : ndarray of shape (len(series),)
            Scores of the two models.
        count : ndarray
            Answers to the item that the series had before.
        mean_of_first, mean_of_second : ndarray
            Means of these; ignored without any.
        """
        d, again, size = first - second, count > 0.0, count + 1.0
        self.answers[series] += 1.0
        self.items[series] += ~again
        self.inverse[series] += 1.0 / size - np.where(again, 1.0 / np.maximum(count, 1.0), 0.0)
        before = np.where(again, mean_of_first - mean_of_second, 0.0)
        after = before + (d - before) / size
        self.total[series] += after - before
        self.square[series] += after * after - before * before
        self.single_square[series] += d * d
        self.single_fourth[series] += d**4
        away = (first - mean_of_first) ** 2 + (second - mean_of_second) ** 2
        self.within[series] += np.where(again, away * count / size, 0.0)
        # `s1` needs s2 as it is before an item of the series gets a second answer.
        in_first_pass = series[self.answers[series] == self.items[series]]
        self.between_at_first[in_first_pass] = self._between(in_first_pass)

    def _between(self, series: Indices) -> Floats:
        """Return ``s2`` of the module's formulas for some series, 0 below two items."""
        k = np.maximum(self.items[series], 1.0)
        squares = self.square[series] - self.total[series] ** 2 / k
        return np.asarray(np.maximum(squares, 0.0) / np.maximum(k - 1.0, 1.0))

    def figures(self, *, population: bool = False) -> RepeatFigures:
        """Return the module's figures of every series; for `population`, about items like these."""
        series = np.arange(len(self.items))
        k, squares = np.maximum(self.items, 1.0), self.single_square
        f, n_repeats = np.minimum(self.items / self.n_items, 1.0), self.answers - self.items  # F
        u2 = np.where(squares > 0.0, self.single_fourth / np.maximum(squares, _LEAST), 1.0)
        between = self._between(series) / k
        s1 = self.between_at_first + u2 / k
        sigma2 = (EVENTS * u2 + self.within) / (EVENTS * u2 / s1 + n_repeats)
        # About items like these, single items vary as much as they do here, noise included.
        if population:
            variance, df = between, k - 1.0
        else:
            left = (1.0 - f) * between
            variance = left + f * sigma2 * self.inverse / k**2
            share = left / np.maximum(variance, _LEAST)
            freedom = FREEDOM + PER_EVENT * self.within / u2
            mixed = share**2 / np.maximum(k - 1.0, 1.0) + (1.0 - share) ** 2 / freedom
            # Without repeats nothing tells the parts apart: the variance is that of k items.
            df = np.where(n_repeats > 0.0, 1.0 / np.maximum(mixed, _LEAST), k - 1.0)
        variance = np.where(self.items > 1.0, np.maximum(variance, _LEAST), np.inf)
        df = np.maximum(df, 1.0)
        return RepeatFigures(
            self.total / k, variance, df, self.answers.copy(), event=np.sqrt(u2), noise=sigma2
        )


class PassAt(NamedTuple):
    """A number of answers that every item has, and the chance that one of so many is right."""

    k: int
    estimate: float


def pass_at(right: Floats, answers: Floats, k: int) -> float:
    """Estimate the chance that at least one of `k` answers to an item is right; mean over items.

    Of ``n`` answers with ``c`` right ones, a share ``C(n - c, k) / C(n, k)`` of all choices of `k`
    has no right one, which makes the estimate unbiased (M. Chen and others, "Evaluating Large
    Language Models Trained on Code", arXiv:2107.03374).

    Parameters
    ----------
    right, answers : ndarray of shape (n_items,)
        Number of right answers and of all answers to each item; at least `k` of these.
    k : int

    Examples
    --------
    >>> round(pass_at(np.array([1.0, 0.0]), np.array([4.0, 4.0]), 2), 3)
    0.25
    """
    all_wrong = np.ones(len(answers))
    for drawn in range(k):
        all_wrong *= np.maximum(answers - right - drawn, 0.0) / (answers - drawn)
    return float(1.0 - all_wrong.mean())
