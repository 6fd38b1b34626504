"""Comparison of two models: the difference, its uncertainty, and the verdict.

`Verdicts` decide; a margin is compared with the ends of their interval. The compared documents
count as a random sample of documents like them, so that an interval says what other such documents
would show. Documents in clusters (questions on one passage) count by cluster: the variance is that
of the clusters' sums (E. Miller, "Adding Error Bars to Evals", arXiv:2411.00640, section 2.2), with
Student's quantiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..methods.belief import POPULATION, Belief
from ..methods.sample.pairs import IMAGINED
from ..metrics.scale import Floats, Scale
from .looks import Looks
from .verdicts import NOT_KNOWN, Verdicts


@dataclass(frozen=True)
class Difference:
    """Candidate minus baseline, on the metric's own scale.

    Attributes
    ----------
    documents : int
        Documents that both models have scores on.
    clusters : int or None
        Number of clusters that they come in.
    baseline, candidate : float
        Mean scores.
    difference, low, high : float
        Candidate minus baseline, and its interval.
    p_better : float
        Probability that the candidate is better, ties counting half.
    verdict : str
        "better", "equivalent" (within +- the margin), "not worse" (than the margin), "worse" (by
        more than the margin) or "not known".
    more_documents : int or None
        About how many more documents would decide, if the difference stays as it is; None if it
        is decided already, or no number of documents would.
    """

    documents: int
    clusters: int | None
    baseline: float
    candidate: float
    difference: float
    low: float
    high: float
    p_better: float
    verdict: str
    more_documents: int | None

    @classmethod
    def of(
        cls,
        verdicts: Verdicts,
        *,
        documents: int,
        margin: float = 0.0,
        scale: Scale | None = None,
        clusters: int | None = None,
        reach: float | None = None,
    ) -> Difference:
        """Build from verdicts on a baseline and a candidate, in this order.

        Parameters
        ----------
        verdicts : Verdicts
        documents : int
        margin : float, optional
            How much worse is still good enough, on the metric's own scale.
        scale : Scale, optional
            The metric's own; default that of the verdicts.
        clusters : int, optional
        reach : float, optional
            Half the interval in standard errors, if a run has recorded it.
        """
        scale, b = scale or Scale(), verdicts.belief.on_scores
        low, high = (float(ends[1, 0]) for ends in verdicts.intervals())
        gain, error = float(b.location[1] - b.location[0]), math.sqrt(b.variance[0, 1])
        if reach is not None:
            low, high = gain - reach * error, gain + reach * error
        threshold = -margin / scale.span
        verdict = verdicts.gate(low, high, margin / scale.span)
        more_documents = None
        if verdict == NOT_KNOWN and math.isfinite(error) and gain != threshold:
            needed = documents * (0.5 * (high - low) / abs(gain - threshold)) ** 2
            if math.isfinite(size := b.n_items):  # at the last document the error is 0
                needed = 1.0 / (1.0 / size + (1.0 - documents / size) / needed)
            more_documents = max(math.ceil(needed) - documents, 1) if needed < 1e9 else None
        up = scale.span if scale.higher_is_better else -scale.span
        first, second = (float(scale.restore(x)) for x in b.location)
        low, high = sorted((up * low, up * high))
        return cls(
            documents, clusters, first, second, second - first,
            low, high, float(verdicts.better[1, 0]), verdict, more_documents,
        )  # fmt: skip


def compare_scores(
    baseline: Floats,
    candidate: Floats,
    *,
    clusters: NDArray[Any] | None = None,
    exact: bool = False,
    **how: Any,
) -> Difference:
    """Compare two models on documents that both have scores on.

    Parameters
    ----------
    baseline, candidate : ndarray of shape (n_documents,)
        One score per document; with several repeats, their mean.
    clusters : ndarray of shape (n_documents,), optional
        Label of each document's cluster.
    exact : bool, optional
        Compare on these documents themselves, on which the difference has no error.
    margin, confidence, higher_is_better
        See `compare_means`.

    Returns
    -------
    Difference

    Raises
    ------
    ValueError
        There is no document.

    Examples
    --------
    >>> a, b = np.tile([0.2, 0.4, 0.3], 20), np.tile([0.3, 0.4, 0.5], 20)
    >>> compare_scores(a, b).verdict
    'better'
    """
    d = np.asarray(candidate, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    n, n_clusters = len(d), None
    if n == 0:
        raise ValueError("no document that both models have a score on")
    gap = float(d.mean())
    if clusters is None:
        square, df = float(((d - gap) ** 2).sum()), n - 1
        variance = square / max(n - 1, 1) / n
    else:
        _, cluster_of = np.unique(clusters, return_inverse=True)
        n_clusters = int(cluster_of.max()) + 1
        square, df = float((np.bincount(cluster_of, d - gap) ** 2).sum()), n_clusters - 1
        variance = square / n**2 * n_clusters / max(n_clusters - 1, 1)
    if square == 0.0 and gap != 0.0:
        variance = IMAGINED * gap**2 / (df + 1) ** 2  # equal differences do not prove no variance
    if df < 1:
        variance = math.inf
    means = float(np.mean(baseline)), float(np.mean(candidate))
    variance = 0.0 if exact else variance
    return compare_means(means, variance, max(df, 1), documents=n, clusters=n_clusters, **how)


def compare_means(
    means: tuple[float, float],
    variance: float,
    df: float = math.inf,
    *,
    documents: int,
    confidence: float = 0.95,
    higher_is_better: bool = True,
    undecided: bool = False,
    **how: Any,
) -> Difference:
    """Compare the means of a baseline and a candidate in a single look.

    Parameters
    ----------
    means : (float, float)
    variance, df : float
        Variance of their difference, and its degrees of freedom.
    documents : int
    confidence : float, optional
        Two-sided.
    higher_is_better : bool, optional
    undecided : bool, optional
        Whether a run that looked more than once left the pair open.
    margin, clusters, reach
        See `Difference.of`.
    """
    scale = Scale(higher_is_better=higher_is_better)
    location = np.array([m if higher_is_better else 1.0 - m for m in means])
    v, dfs, n = (np.full((2, 2), x) for x in (variance, df, float(documents)))
    belief = Belief(location, v, dfs, n, math.inf, POPULATION)
    looks = Looks(once=True).after(belief, 1.0 - confidence)
    bar = np.full((2, 2), undecided)
    verdicts = Verdicts(belief, looks, ("baseline", "candidate"), confidence, bar=bar)
    return Difference.of(verdicts, documents=documents, scale=scale, **how)
