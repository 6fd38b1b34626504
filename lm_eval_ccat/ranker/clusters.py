"""The error of a mean difference over documents that come in clusters, of equal sizes or not.

Documents of a cluster (questions on one passage) may differ by one amount. With d the mean over all
documents, v_g that over the documents of cluster g, w_g its share of all documents and q the sum of
the squares of these shares, the variance of d is estimated by

    sum of w_g^2 (v_g - d)^2 / (1 - 2 w_g + q),

which is unbiased if clusters vary as wholes, and too large if documents vary alone (1/2 + (1 - q) /
(2 (1 - 2 w + q)) is convex in w). Its degrees of freedom are Satterthwaite's for clusters that vary
as wholes: one less than the number of clusters of equal size, and about one where a single cluster
holds most documents, as large as all others together tell. This is the correction of R. M. Bell and
D. F. McCaffrey (Survey Methodology 28, 2002), where a cluster is what they call fully correlated.
It takes the place of E. Miller's sums of clusters (arXiv:2411.00640, section 2.2), by which equal
models differ in more than half of the comparisons in which one cluster of nine holds most
documents (benchmarks/gate.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..metrics.scale import Floats


def fewest_clusters(confidence: float) -> float:
    """Return how many clusters of equal size it takes to tell anything at a two-sided confidence.

    Of fewer, all differ in one direction by chance alone more often than that.

    Examples
    --------
    >>> round(fewest_clusters(0.95), 2)
    5.32
    """
    return 1.0 - math.log2(1.0 - confidence)


class VarianceOfMean(NamedTuple):
    """Estimated variance of a mean, and its degrees of freedom."""

    variance: float
    df: float


@dataclass(frozen=True, eq=False)
class Clusters:
    """Documents in clusters.

    Attributes
    ----------
    cluster : ndarray of int, shape (n_documents,)
        The cluster of each document.
    sizes : ndarray of shape (n_clusters,)
        Number of documents of each cluster.

    Examples
    --------
    >>> clusters = Clusters.of(np.repeat(np.arange(9), [60] + [2] * 8))
    >>> round(clusters.effective, 2)
    1.59
    """

    cluster: NDArray[np.intp]
    sizes: Floats

    @classmethod
    def of(cls, labels: NDArray[Any]) -> Clusters:
        """Build from the label of each document's cluster."""
        cluster = np.unique(labels, return_inverse=True)[1]
        return cls(cluster, np.bincount(cluster).astype(np.float64))

    @property
    def effective(self) -> float:
        """How many clusters of equal size would have as small a variance (L. Kish, 1965)."""
        return float(self.sizes.sum() ** 2 / (self.sizes**2).sum())

    def variance_of_mean(self, residuals: Floats, rounding: float) -> VarianceOfMean:
        """Estimate the variance of the mean over documents.

        The variance is infinite with a single cluster. The formula is that of this module.

        Parameters
        ----------
        residuals : ndarray of shape (n_documents,)
            Values of the documents less their mean.
        rounding : float
            Variance is 0 where no cluster's mean residual exceeds this.
        """
        shares = self.sizes / self.sizes.sum()
        q = float((shares**2).sum())
        if len(shares) < 2:
            return VarianceOfMean(math.inf, 1.0)
        means = np.bincount(self.cluster, residuals) / self.sizes
        if np.abs(means).max() <= rounding:
            means[:] = 0.0
        parts = shares**2 / (1.0 - 2.0 * shares + q)
        # Degrees of freedom are 2 q^2 over the variance of this quadratic form in independent
        # means of variance 1, which is twice `trace`: the sum, with w the shares, of
        # parts_g^2 (1 - 2 w_g + q)^2 on the diagonal and parts_g parts_h (q - w_g - w_h)^2 off it.
        zeroth, first, second = (float((parts * shares**power).sum()) for power in range(3))
        trace = (q * zeroth) ** 2 + 2.0 * zeroth * second - 4.0 * q * zeroth * first
        trace += 2.0 * first**2 + float((parts**2 * (1.0 + 2.0 * q - 4.0 * shares)).sum())
        return VarianceOfMean(float((parts * means**2).sum()), q * q / trace)
