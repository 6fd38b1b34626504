"""Errors that are stated of models and of pairs; decisions come from `sums` and `rules` alone.

Ten scores between 0.9990 and 0.9999 show next to no variance, and the eleventh may be 0.  Half an
item is imagined at the largest departure that a model may well have and has not shown yet: the
whole scale, where its scores crowd an end of it.  As with the imagined items of Wilson's and of
Agresti and Coull's intervals (The American Statistician 52, 1998), what that adds falls with one
over the items, and without replacement it ends at 0.
"""

from __future__ import annotations

import numpy as np

from .pairs import Pairs
from .sums import Floats, Ints

#: A mean is near an end of the scale that is at most so many standard deviations of an item away.
NEAR = 4.0


def largest_departures(pairs: Pairs, models: Ints) -> Floats:
    """Least size of the departure to imagine of each model: the scale where scores crowd an end.

    They do where a single item at the other end would move the mean by more than all the items
    seen have moved it, and where the end is within the reach of their spread: scores of BERTScore
    lie narrowly around 0.9 and do not crowd 1.

    Parameters
    ----------
    pairs : Pairs
    models : ndarray of int

    Returns
    -------
    ndarray of shape (len(models),)
        1 or 0, on [0, 1].
    """
    mean = pairs.own.means(models) + pairs.shift[models]
    edge = np.minimum(mean, 1.0 - mean)
    near = edge <= NEAR * np.sqrt(pairs.own.variances(models)[1])
    return np.where(near & (edge * pairs.own.items(models) <= 1.0), 1.0, 0.0)


def variances_of_pairs(pairs: Pairs) -> Floats:
    """Variance of each pair's mean difference; shape (n_pairs,), infinite where none is known.

    The departure to imagine is at least as large as items of two models with nothing in common lie
    apart: two models that were equally bad on all easy items need not be on the next hard one.
    """
    models = np.arange(pairs.n_models)
    of_one = pairs.own.variances(models, largest_departures(pairs, models))[1]
    apart = np.sqrt(np.minimum(of_one[pairs.first] + of_one[pairs.second], 1.0))
    return pairs.sums.variances(np.arange(len(pairs.first)), apart)[0]
