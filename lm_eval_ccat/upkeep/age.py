"""How old a bank is, and when it should be renewed."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from ..bank import ItemBank

#: Days after which models have changed so much that a bank should be checked on new ones.
RENEW_AFTER = 365


def dated(bank: ItemBank, today: date | None = None) -> ItemBank:
    """The bank, made today."""
    return replace(bank, made=(today or date.today()).isoformat())


def age_in_words(bank: ItemBank, today: date | None = None) -> str:
    """How old a bank is and whether to renew it.

    Examples
    --------
    >>> bank = dated(ItemBank.blank([1]), date(2025, 1, 1))
    >>> age_in_words(bank, date(2025, 1, 31))
    'made on 2025-01-01, 30 days ago'
    >>> age_in_words(bank, date(2026, 6, 1)).split("; ")[1]
    'renew it with `bank update` or a new calibration'
    """
    try:
        made = date.fromisoformat(bank.made or "")
    except ValueError:
        return "made on an unrecorded date"
    days = ((today or date.today()) - made).days
    text = f"made on {made.isoformat()}, {days} day{'' if days == 1 else 's'} ago"
    if days <= RENEW_AFTER:
        return text
    return (
        f"{text}: `bank check` on models of today says whether it still holds; renew it with "
        "`bank update` or a new calibration"
    )
