"""The order of a ranking as one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..visible import visible_name


def order_in_words(
    order: Sequence[str],
    ties: Sequence[Sequence[str]],
    separated: Sequence[tuple[str, str]] = (),
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> str:
    """The order as one line; a name that could forge it is quoted.

    Parameters
    ----------
    order : sequence of str
        Models, best first.
    ties : sequence of sequence of str
        Runs of models whose neighbours are not separated.
    separated : sequence of (str, str), optional
        Pairs within these runs that are decided all the same: their run is a chain, no group.
    ranges : mapping of str to (int, int), optional
        The ranks of each model, which stand behind the names of a chain.

    Examples
    --------
    >>> order_in_words(["B", "A", "C", "D", "E"], [("C", "D")])
    'B > A > {C, D} > E'
    >>> ranges = {"A": (1, 2), "B": (1, 3), "C": (2, 3)}
    >>> order_in_words(["A", "B", "C"], [("A", "B", "C")], [("A", "C")], ranges)
    'A (1 to 2) >~ B (1 to 3) >~ C (2 to 3)'
    """

    def shown(model: str, chained: bool) -> str:
        best, worst = (ranges or {}).get(model, (0, 0))
        return visible_name(model) + f" ({best} to {worst})" * (chained and best < worst)

    line = ""
    for part in order_parts(order, ties, separated):
        names = ", ".join(shown(m, part.chained) for m in part.models)
        line += part.joint + (f"{{{names}}}" if len(part.models) > 1 else names)
    return line


class Part(NamedTuple):
    """A part of the order: models that share a place, and what joins them to the part before."""

    joint: str
    models: tuple[str, ...]
    chained: bool = False


def order_parts(
    order: Sequence[str],
    ties: Iterable[Sequence[str]],
    separated: Iterable[Sequence[str]] = (),
) -> Iterator[Part]:
    """The parts of the order; parameters as above. A chain has a part for each of its models."""
    group_of = {m: tuple(g) for g in ties for m in g}
    chained = {group_of[a] for a, _ in separated if a in group_of}
    joint = ""
    for group in dict.fromkeys(group_of.get(m, (m,)) for m in order):
        if group in chained:
            for n, model in enumerate(group):
                yield Part(" >~ " if n else joint, (model,), True)
        else:
            yield Part(joint, group)
        joint = " > "
