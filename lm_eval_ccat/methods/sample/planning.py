"""How many items a ranking by random items will take, before anything is known of the models."""

from __future__ import annotations

import math

import numpy as np

from ..mixture import boundary
from .sums import LEAST

#: Standard deviation, over items, of the difference of two models' scores on [0, 1]. Its median was
#: 0.06 to 0.23 on eleven sets of graded scores (BLEU, chrF, ROUGE, TER, MQM, judges), 0.38 on
#: right-or-wrong ones (GSM8K).
GRADED, RIGHT_OR_WRONG = 0.2, 0.4
#: The same of one model's scores: its median was 0.06 to 0.23 on the graded sets, 0.28 and 0.43 on
#: two of right-or-wrong ones, where it is 0.5 at most.
GRADED_SCORE, RIGHT_OR_WRONG_SCORE = 0.2, 0.5


def items_needed(difference: float, spread: float, n_items: int, alpha: float = 0.05) -> int | None:
    """Items of each model after which a difference is about as likely decided as not.

    Parameters
    ----------
    difference : float
        Of the full-benchmark means, on [0, 1].
    spread : float
        Standard deviation of the difference on single items.
    n_items : int
        Items of the benchmark.
    alpha : float, optional
        Two-sided error of the decision.

    Returns
    -------
    int or None
        None where it takes every item.

    Examples
    --------
    >>> [items_needed(d, 0.2, 1000) for d in (0.1, 0.05, 0.02)]
    [37, 132, 526]
    >>> items_needed(0.001, 0.4, 1000) is None
    True
    """
    n = np.arange(LEAST, n_items)
    if not len(n):
        return None
    unseen = 1.0 / n - 1.0 / n_items
    enough = spread * np.sqrt(unseen) * boundary(alpha, 1.0 / unseen) <= difference
    return int(n[int(np.argmax(enough))]) if enough.any() else None


def items_for_error(error: float, spread: float, n_items: int) -> int:
    """Items drawn at random after which a mean has this standard error.

    Parameters
    ----------
    error : float
        On [0, 1], above 0.
    spread : float
        Standard deviation of the scores of single items.
    n_items : int
        Items of the benchmark.

    Examples
    --------
    >>> [items_for_error(0.02, s, 1000) for s in (0.2, 0.5)]
    [91, 385]
    """
    return max(min(math.ceil(1.0 / ((error / spread) ** 2 + 1.0 / n_items)), n_items), LEAST)
