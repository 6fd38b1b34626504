"""Groups of items that were about as hard for the models that a bank has answers of."""

from __future__ import annotations

import numpy as np

from ...bank.bank import ItemBank

#: Items of a group: fewer, and a group's variance takes too many draws to know.
LEAST = 60
MOST_GROUPS = 4
#: Models that an item must have answers of to say how hard it is.
_ANSWERS = 2


def groups_by_ease(bank: ItemBank) -> list[object] | None:
    """The group of each item, in bank order; None where the bank holds too few answers.

    Items are ordered by their mean score less the means of the models that gave it. The groups are
    settled before this ranking draws anything, so that its draws are random within them, whoever
    the models were.
    """
    total, count = np.zeros(bank.n_items), np.zeros(bank.n_items)
    for one in bank.observations:
        if len(one.items):
            total[one.items] += one.scores - one.scores.mean()
            count[one.items] += 1
    known = np.flatnonzero(count >= _ANSWERS)
    groups = min(len(known) // LEAST, MOST_GROUPS)
    if groups < 2:
        return None
    labels = np.full(bank.n_items, -1)
    ease = total[known] / count[known]
    order = np.argsort(ease, kind="stable")
    labels[known[order]] = np.arange(len(known)) * groups // len(known)
    return list(labels.tolist())
