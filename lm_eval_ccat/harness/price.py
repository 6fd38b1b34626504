"""Prices of models and judges, and the tokens that they are paid for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError

MILLION = 1_000_000
#: Characters of running text per token, if nothing better is known.
CHARACTERS_PER_TOKEN = 4.0


@dataclass(frozen=True)
class Tokens:
    """Tokens of one document's requests.

    ``source`` says how they were counted: ``"usage"`` (the server's own figures),
    ``"tokenizer"`` (the model's tokenizer) or ``"estimate"`` (from the length of the text).
    """

    input: float
    output: float
    source: str

    def __add__(self, other: Tokens) -> Tokens:
        # The sum is only as reliable as its less reliable part.
        rank = ("usage", "tokenizer", "estimate")
        worse = max(self.source, other.source, key=rank.index)
        return Tokens(self.input + other.input, self.output + other.output, worse)


@dataclass(frozen=True)
class Price:
    """Price of one model (or of a judge), in the budget's currency.

    Parameters
    ----------
    input, output : float, optional
        Dollars per million prompt tokens and per million generated tokens.
    item : float, optional
        Dollars (or any unit) per document.
    hour : float, optional
        Dollars per hour of measured time.

    The parts add up, so a rented machine with a fee per document is ``{hour: 2.5, item: 0.001}``.
    """

    input: float | None = None
    output: float | None = None
    item: float | None = None
    hour: float | None = None

    @classmethod
    def parse(cls, value: Any, where: str) -> Price:
        """Read a ``price:`` block of the configuration; None stands for an unknown price."""
        if value is None:
            return cls()
        form = "must hold input: and output: ($ per million tokens), item: or hour:"
        if not isinstance(value, Mapping):
            raise UsageError(f"`{where}` {form}, not {value!r}")
        for key, amount in value.items():
            if key not in cls.__dataclass_fields__:
                raise UsageError(f"unknown key `{where}.{key}`; it {form}")
            number = isinstance(amount, int | float) and not isinstance(amount, bool)
            if not number or not math.isfinite(amount) or amount < 0:
                raise UsageError(f"`{where}.{key}` must be a number of at least 0, not {amount!r}")
        if ("input" in value) != ("output" in value):
            raise UsageError(f"`{where}` needs both input: and output: (0 where one is free)")
        return cls(**{key: float(amount) for key, amount in value.items()})

    @property
    def stated(self) -> dict[str, float]:
        """The parts that are stated."""
        return {part: amount for part, amount in vars(self).items() if amount is not None}

    @property
    def known(self) -> bool:
        """Whether any part of the price is stated."""
        return bool(self.stated)

    @property
    def by_tokens(self) -> bool:
        """Whether the price depends on token counts."""
        return self.input is not None

    @property
    def by_time(self) -> bool:
        """Whether the price depends on measured time."""
        return self.hour is not None

    def cost(self, tokens: Tokens | None, seconds: float) -> float:
        """Return the cost of one document.

        Parameters
        ----------
        tokens : Tokens or None
            Counted tokens; needed only if the price is by tokens.
        seconds : float
            Measured time of the document's requests.
        """
        total = self.item or 0.0
        if self.input is not None and self.output is not None and tokens is not None:
            total += (self.input * tokens.input + self.output * tokens.output) / MILLION
        if self.hour is not None:
            total += self.hour * seconds / 3600.0
        return total


def estimate_tokens(text: str) -> float:
    """Estimate a token count from the text alone.

    About four characters of ASCII text make a token; other scripts need about one token per
    character and sometimes more, so each of their characters counts as one.
    """
    if not text:
        return 0.0
    plain = sum(1 for character in text if character.isascii())
    return plain / CHARACTERS_PER_TOKEN + (len(text) - plain)
