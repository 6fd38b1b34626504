"""Two models on the same documents: the difference, how sure it is, and what that means.

The documents are taken for a random sample of documents like them, so that an interval says what
other such documents would show.  Documents that come in clusters (questions on one passage) count
by clusters: the variance is that of the clusters' sums (E. Miller, "Adding Error Bars to Evals",
arXiv:2411.00640, section 2.2), with Student's quantiles.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from .sums import IMAGINED, Floats

BETTER, EQUIVALENT, NOT_WORSE = "better", "equivalent", "not worse"
WORSE, NOT_KNOWN = "worse", "not known"


@dataclass(frozen=True)
class Difference:
    """Candidate minus baseline, on the metric's own scale.

    Attributes
    ----------
    documents : int
        Documents that both have.
    clusters : int or None
        Clusters that they come in.
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
        About how many more documents would decide, if the difference stays what it is; None where
        it is decided, or where none would.
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

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def compare_scores(
    baseline: Floats,
    candidate: Floats,
    *,
    margin: float = 0.0,
    confidence: float = 0.95,
    higher_is_better: bool = True,
    clusters: NDArray[Any] | None = None,
    exact: bool = False,
) -> Difference:
    """Compare two models on documents that both have.

    Parameters
    ----------
    baseline, candidate : ndarray of shape (n_documents,)
        One score per document; the mean over its repeats where there are several.
    margin : float, optional
        How much worse is still good enough, on the scale of the scores.
    confidence : float, optional
        Two-sided.
    higher_is_better : bool, optional
    clusters : ndarray of shape (n_documents,), optional
        Label of each document's cluster.
    exact : bool, optional
        Ask about these documents themselves, whose difference has no error.

    Returns
    -------
    Difference

    Raises
    ------
    ValueError
        No document.

    Examples
    --------
    >>> a, b = np.tile([0.2, 0.4, 0.3], 20), np.tile([0.3, 0.4, 0.5], 20)
    >>> compare_scores(a, b).verdict
    'better'
    """
    d = np.asarray(candidate, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    n = len(d)
    if n == 0:
        raise ValueError("no document that both models have a score on")
    gap = float(d.mean())
    n_clusters = None
    if clusters is None:
        square, df = float(((d - gap) ** 2).sum()), n - 1
        variance = square / max(n - 1, 1) / n
    else:
        _, of = np.unique(clusters, return_inverse=True)
        n_clusters = int(of.max()) + 1
        square, df = float((np.bincount(of, d - gap) ** 2).sum()), n_clusters - 1
        variance = square / n**2 * n_clusters / max(n_clusters - 1, 1)
    if square == 0.0 and gap != 0.0:
        variance = IMAGINED * gap**2 / (df + 1) ** 2  # nothing varies: not even what may
    if df < 1:
        variance = math.inf
    if exact:
        variance = 0.0
    return _judged(
        gap,
        math.sqrt(variance),
        max(df, 1),
        baseline=float(np.mean(baseline)),
        candidate=float(np.mean(candidate)),
        documents=n,
        clusters=n_clusters,
        margin=margin,
        confidence=confidence,
        sign=1.0 if higher_is_better else -1.0,
        equal=gap == 0.0 if exact else bool((d == 0.0).all()),
    )


def compare_estimates(
    baseline: tuple[float, float],
    candidate: tuple[float, float],
    *,
    documents: int,
    margin: float = 0.0,
    confidence: float = 0.95,
    higher_is_better: bool = True,
    error: float | None = None,
    reach: float | None = None,
) -> Difference:
    """Compare two estimates of full-benchmark means, each with its standard error.

    Parameters
    ----------
    baseline, candidate : (float, float)
        Estimate and standard error.
    documents : int
        Documents that the smaller of them comes from.
    margin, confidence, higher_is_better
        As `compare_scores` has them.
    error : float, optional
        Standard error of the difference; default that of independent estimates.
    reach : float, optional
        Half the interval in standard errors; default the normal distribution's.
    """
    if error is None:
        error = math.hypot(baseline[1], candidate[1])
    return _judged(
        candidate[0] - baseline[0],
        error,
        math.inf,
        baseline=baseline[0],
        candidate=candidate[0],
        documents=documents,
        clusters=None,
        margin=margin,
        confidence=confidence,
        sign=1.0 if higher_is_better else -1.0,
        equal=error == 0.0 and candidate[0] == baseline[0],
        reach=reach,
    )


def _judged(
    gap: float,
    error: float,
    df: float,
    *,
    baseline: float,
    candidate: float,
    documents: int,
    clusters: int | None,
    margin: float,
    confidence: float,
    sign: float,
    equal: bool,
    reach: float | None = None,
) -> Difference:
    # Student's distribution with a million degrees of freedom is the normal one.
    df = min(df, 1e6)
    quantile = float(stdtrit(df, (1.0 + confidence) / 2.0)) if reach is None else reach
    half = quantile * error if error else 0.0
    gain = sign * gap
    if error and math.isfinite(error):
        p_better = float(stdtr(df, gain / error))
    else:
        p_better = 0.5 if equal or error else float(gain > 0.0)
    verdict = _verdict(gain - half, gain + half, margin, equal)
    more = None
    if verdict == NOT_KNOWN and math.isfinite(error) and gain != -margin:
        needed = documents * (half / abs(gain + margin)) ** 2
        more = max(math.ceil(needed) - documents, 1) if needed < 1e9 else None
    return Difference(
        documents=documents,
        clusters=clusters,
        baseline=baseline,
        candidate=candidate,
        difference=gap,
        low=gap - half,
        high=gap + half,
        p_better=p_better,
        verdict=verdict,
        more_documents=more,
    )


def _verdict(low: float, high: float, margin: float, equal: bool) -> str:
    """From an interval of how much better the candidate is."""
    if equal or (margin > 0.0 and -margin <= low and high <= margin):
        return EQUIVALENT
    if low > 0.0:
        return BETTER
    if high < -margin:
        return WORSE
    return NOT_WORSE if low >= -margin and low > -math.inf and margin > 0.0 else NOT_KNOWN
