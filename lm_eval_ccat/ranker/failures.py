"""What answers that failed may hide, in estimates that take failures for random.

An estimate takes failures for random, given what is expected of the items. Whether they are shows
in part: if a score less by one makes a failure likelier by b, so does an expected score, because an
expectation is the mean of scores. By regressing failures on expected scores `b` is known, and with
the variance s2 of scores about their expectation those that were seen lie ``b s2 / (1 - f)`` above
it on average, where a share f failed. By so much an estimate is too high at most, for the bank and
the items that did not fail pull it the other way, and never by more than if all that failed had
scored 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..methods.belief import Floats

#: Failures, and scores, below which nothing is read off them.
FEWEST = 3
#: Standard errors of `b` that are added to its size: it is known from few failures.
MARGIN = 0.5


def lean(expected: Floats, scores: Mapping[int, float], failed: Sequence[int]) -> float:
    """By how much an estimate may be too high (below 0: too low) because some answers failed.

    Parameters
    ----------
    expected : ndarray of shape (n_items,)
        Expected scores of one model.
    scores : mapping of int to float
        What it scored, by item.
    failed : sequence of int
        Items that it failed on.

    Examples
    --------
    >>> expected = np.linspace(0.1, 0.9, 9)
    >>> scores = {i: expected[i] + 0.2 * (-1) ** i for i in range(3, 9)}
    >>> round(lean(expected, scores, [0, 1, 2]), 3)
    0.067
    """
    if min(len(scores), len(failed)) < FEWEST:
        return 0.0
    told = np.fromiter(scores, dtype=np.intp)
    seen, missed = expected[told], expected[list(failed)]
    share = len(missed) / (len(seen) + len(missed))
    both = np.concatenate([seen, missed])
    spread = float(both.var())
    if spread < 1e-9:
        return 0.0
    slope = share * (1.0 - share) * float(seen.mean() - missed.mean()) / spread
    noise = float(np.mean((np.array(list(scores.values())) - seen) ** 2))
    unsure = (share * (1.0 - share) / (len(both) * spread)) ** 0.5
    high = (slope + np.copysign(MARGIN * unsure, slope)) * noise / (1.0 - share)
    return float(np.clip(high, -share * (1.0 - missed).mean(), share * missed.mean()))
