"""Tie groups: which models the order does not separate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..visible import visible_name

T = TypeVar("T")


def tie_groups(order: Sequence[T], undecided: Sequence[bool]) -> list[tuple[T, ...]]:
    """Maximal runs of the order whose adjacent pairs are all undecided.

    Parameters
    ----------
    order : sequence
        Models, best first.
    undecided : sequence of bool, one shorter
        Whether ``order[i]`` and ``order[i + 1]`` are not separated.

    Returns
    -------
    list of tuple
        Runs of two models or more, in order. Runs never share a model.

    Examples
    --------
    >>> tie_groups(["B", "A", "C", "D", "E"], [False, False, True, False])
    [('C', 'D')]
    """
    groups: list[tuple[T, ...]] = []
    run: list[T] = list(order[:1])
    for model, tied in zip(order[1:], undecided):
        if tied:
            run.append(model)
            continue
        if len(run) > 1:
            groups.append(tuple(run))
        run = [model]
    if len(run) > 1:
        groups.append(tuple(run))
    return groups


def order_in_words(order: Sequence[str], ties: Sequence[Sequence[str]]) -> str:
    """The order as one line: ``B > A > {C, D} > E``; a name that could forge it is quoted.

    Examples
    --------
    >>> order_in_words(["B", "A", "C", "D", "E"], [("C", "D")])
    'B > A > {C, D} > E'
    """
    group_of = {m: g for g in ties for m in g}
    parts: list[str] = []
    done: set[str] = set()
    for model in order:
        if model in done:
            continue
        group = group_of.get(model, (model,))
        done.update(group)
        shown = [visible_name(m) for m in group]
        parts.append("{" + ", ".join(shown) + "}" if len(shown) > 1 else shown[0])
    return " > ".join(parts)
