"""Sums of money in three columns, and their wording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import floor, log10

from .content import RankingContent

#: Columns of a run's money: what a server bills by its own count, or what a price per item states;
#: what was presumably billed (tokens that we counted, requests answered with an error); what may
#: have been billed (requests whose connection broke after they were sent, or was abandoned).
BILLED, ASSUMED, UNKNOWN = COLUMNS = ("billed", "assumed", "unknown")


def no_money() -> dict[str, float]:
    """Return columns of money that are all 0."""
    return dict.fromkeys(COLUMNS, 0.0)


def dollars(amount: float) -> str:
    """Format a sum of money, with more decimals for small sums.

    Examples
    --------
    >>> dollars(12.3456), dollars(0.0123), dollars(0)
    ('$12.35', '$0.0123', '$0')
    >>> dollars(0.00006933)
    '$0.0000693'
    """
    if amount == 0:
        return "$0"
    if amount >= 1:
        return f"${amount:,.2f}"
    if amount >= 0.1:
        return f"${amount:.3f}"
    # Three significant figures, however many decimals that takes; no powers of ten.
    decimals = 2 - floor(log10(abs(amount)))
    return "$" + f"{amount:.{decimals}f}".rstrip("0")


def sum_of(rows: Iterable[Mapping[str, float]]) -> dict[str, float] | None:
    """Add up rows of money column by column; None if there are no rows."""
    paid = list(rows)
    return {name: sum(one[name] for one in paid) for name in COLUMNS} if paid else None


def spent_in_words(content: RankingContent) -> list[str]:
    """Say what a run spent, in one sentence per column of money that is not 0.

    Parameters
    ----------
    content : mapping
        The content of ``result.json``.

    Examples
    --------
    >>> money = {"billed": 1.5, "assumed": 0.25, "unknown": 0.0}
    >>> spent_in_words({"cost_unit": "usd", "money": money, "seconds": 9.0, "models": {}})[0]
    'Spent $1.75 in 9 s.'
    """
    columns, sentences = content.get("money"), []
    if content.get("cost_unit") == "usd":
        spent = f"Spent {{}} in {content['seconds']:.0f} s."
        sentences += columns_in_words(columns or {**no_money(), BILLED: content["cost"]}, spent)
        if any(b.get("tokens", {}).get("estimated") for b in content["models"].values()):
            sentences.append("~ marks costs estimated from the lengths of the texts.")
    elif columns:
        sentences += columns_in_words(columns, "Spent {}, where the price is known.")
    for name, block in content["models"].items():
        if block.get("from_prior"):
            sentences.append(
                f"{name}: {block['from_prior']} of {block['n_items']} answers are earlier ones "
                "and cost nothing."
            )
    return sentences


def columns_in_words(columns: Mapping[str, float], spent: str = "Spent {}.") -> list[str]:
    """State a sum of money, and the part of it that no server has confirmed."""
    sentences = [spent.format(dollars(columns[BILLED] + columns[ASSUMED]))]
    if columns[ASSUMED]:
        sentences.append(
            f"{dollars(columns[ASSUMED])} of it is assumed: tokens that the server did not count, "
            "and requests that ended in an error of the server or an unusable answer."
        )
    if columns[UNKNOWN]:
        sentences.append(
            f"Up to {dollars(columns[UNKNOWN])} more may have been billed, for requests that never "
            "returned."
        )
    return sentences
