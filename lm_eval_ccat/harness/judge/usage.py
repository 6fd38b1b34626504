"""What a judge has been asked, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..prices import Tokens


@dataclass
class Usage:
    """What a judge has been asked, and what it cost.

    Attributes
    ----------
    calls : int
        Requests that brought a reply, repeated ones included.
    cached : int
        Ratings known before.
    unrated : int
        Ratings that never came.
    refused : int
        Questions that the judge's server refused.
    tokens : Tokens
    usd : float or None
        As the server says, else by the judge's price; None without either.
    """

    calls: int = 0
    cached: int = 0
    unrated: int = 0
    refused: int = 0
    tokens: Tokens = field(default_factory=lambda: Tokens(0, 0, "usage"))
    usd: float | None = None

    @classmethod
    def total(cls, parts: Iterable[Usage]) -> Usage:
        """The sum; its cost is known where every part's is."""
        all_ = list(parts)
        known = [u.usd for u in all_ if u.usd is not None]
        return cls(
            sum(u.calls for u in all_),
            sum(u.cached for u in all_),
            sum(u.unrated for u in all_),
            sum(u.refused for u in all_),
            sum((u.tokens for u in all_), Tokens(0, 0, "usage")),
            sum(known) if len(known) == len(all_) else None,
        )

    def describe(self) -> str:
        """One line for people."""
        about = "" if self.tokens.source == "usage" else "about "
        cost = "cost unknown (no price stated)" if self.usd is None else f"{about}${self.usd:.4f}"
        refused = f"; {self.refused} answers refused" if self.refused else ""
        return (
            f"{self.calls} requests, {self.cached} answers from the cache, "
            f"{about}{self.tokens.input:.0f} + {self.tokens.output:.0f} tokens, {cost}; "
            f"{self.unrated} answers without a rating{refused}"
        )
