"""The order of a ranking as one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    group_of = {m: g for g in ties for m in g}
    chained = {id(group_of[a]) for a, b in separated if a in group_of}

    def ranked(model: str) -> str:
        best, worst = (ranges or {}).get(model, (0, 0))
        name = visible_name(model)
        return f"{name} ({best} to {worst})" if best < worst else name

    parts: list[str] = []
    done: set[str] = set()
    for model in order:
        if model in done:
            continue
        group = group_of.get(model, (model,))
        done.update(group)
        if id(group) in chained:
            parts.append(" >~ ".join(map(ranked, group)))
        else:
            shown = [visible_name(m) for m in group]
            parts.append("{" + ", ".join(shown) + "}" if len(shown) > 1 else shown[0])
    return " > ".join(parts)
