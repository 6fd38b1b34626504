"""Money: prices and the tokens that they are paid for, and sums in three columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor, log10
from typing import Any, ClassVar

from .content import RankingContent
from .errors import UsageError
from .options import AT_LEAST_0, OptionPlace, option, read_values

MILLION = 1_000_000
#: Characters of running text per token, if nothing better is known.
CHARACTERS_PER_TOKEN = 4.0


@dataclass(frozen=True)
class Tokens:
    """Tokens of one document's requests.

    ``source`` says how they were counted: ``"usage"`` (the server's own figures),
    ``"tokenizer"`` (the model's tokenizer) or ``"estimate"`` (from the length of the text).
    ``cached`` are those of `input` that the server had read before, and ``usd`` is what it says
    that they cost; None if it does not say.
    """

    input: float
    output: float
    source: str
    cached: float = 0.0
    usd: float | None = None

    def __add__(self, addend: Tokens) -> Tokens:
        # The sum is only as reliable as its less reliable part.
        sources = ("usage", "tokenizer", "estimate")
        return Tokens(
            self.input + addend.input,
            self.output + addend.output,
            max(self.source, addend.source, key=sources.index),
            self.cached + addend.cached,
            None if self.usd is None or addend.usd is None else self.usd + addend.usd,
        )

    @property
    def total(self) -> float:
        """Tokens read and written together, those from a cache included."""
        return self.input + self.output

    @property
    def billed(self) -> bool:
        """Whether the server stated them, or their cost."""
        return self.source == "usage" or self.usd is not None

    def part(self, input_share: float, output_share: float) -> Tokens:
        """Return the tokens of one of several documents, by its shares of them."""
        # The server states one sum for input and output, so that half of it counts for each.
        usd = None if self.usd is None else self.usd * 0.5 * (input_share + output_share)
        return Tokens(
            self.input * input_share,
            self.output * output_share,
            self.source,
            self.cached * input_share,
            usd,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, without what the server left out."""
        values = {"input": self.input, "output": self.output, "source": self.source}
        optional = {"cached": self.cached or None, "usd": self.usd}
        return values | {name: value for name, value in optional.items() if value is not None}


@dataclass(frozen=True)
class Price:
    """Price of one model (or of a judge), in the budget's currency.

    The parts add up, so a rented machine with a fee per document is ``{hour: 2.5, item: 0.001}``.
    """

    EXAMPLE: ClassVar = "a mapping with input: and output: ($ per million tokens), item: or hour:"
    input: float | None = option(
        None,
        AT_LEAST_0,
        "Dollars per million prompt tokens, of the batch or service tier that you use.",
    )
    output: float | None = option(None, AT_LEAST_0, "Dollars per million generated tokens.")
    cached: float | None = option(
        None, AT_LEAST_0, "Dollars per million prompt tokens that the server had cached. Default: "
        "as `input`.",
    )  # fmt: skip
    item: float | None = option(None, AT_LEAST_0, "Dollars (or any unit) per document.")
    hour: float | None = option(None, AT_LEAST_0, "Dollars per hour of measured time.")

    @classmethod
    def read(cls, value: Any, place: OptionPlace) -> Price:
        """Read a ``price:`` block of a configuration.

        Raises
        ------
        UsageError
            It has an unknown part or amount, or only one of input and output.
        """
        price = value if isinstance(value, cls) else cls(**read_values(cls, value, place))
        # A missing part would count as free.
        if (price.input is None) != (price.output is None):
            raise UsageError(f"`{place.path}` needs both input: and output: (0 where one is free)")
        if price.cached is not None and price.input is None:
            raise UsageError(f"`{place.path}` has cached: without input: and output:")
        return price

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
            Counted tokens; needed only if the price is by tokens. What the server says they cost
            counts in place of a price by tokens.
        seconds : float
            Measured time of the document's requests.
        """
        total = self.item or 0.0
        # What the server states it bills wins over a price list.
        if tokens is not None and tokens.usd is not None:
            total += tokens.usd
        elif self.input is not None and self.output is not None and tokens is not None:
            cached = self.input if self.cached is None else self.cached
            read = self.input * (tokens.input - tokens.cached) + cached * tokens.cached
            total += (read + self.output * tokens.output) / MILLION
        if self.hour is not None:
            total += self.hour * seconds / 3600.0
        return total


def estimate_tokens(text: str) -> float:
    """Estimate a token count from the text alone.

    About four characters of ASCII text make a token; other scripts need about one token per
    character and sometimes more, so each of their characters counts as one.
    """
    plain = len(text.encode("ascii", "ignore"))
    return plain / CHARACTERS_PER_TOKEN + (len(text) - plain)


# -- sums in three columns ------------------------------------------------------------------------

#: Columns of a run's money: what a server bills by its own count, or what a price per item states;
#: what was presumably billed (tokens that we counted, requests answered with an error); what may
#: have been billed (requests whose connection broke after they were sent, or was abandoned).
BILLED, ASSUMED, UNKNOWN = COLUMNS = ("billed", "assumed", "unknown")


def column_of(tokens: Tokens | None) -> str:
    """Return the column of what an answer of these tokens costs: `ASSUMED` if we counted them."""
    return BILLED if tokens is None or tokens.billed else ASSUMED


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


def in_unit(amount: float, unit: str) -> str:
    """Format an amount of a budget or a cost in its unit: dollars, tokens or items.

    Examples
    --------
    >>> in_unit(0.0123, "usd"), in_unit(12345.6, "tokens")
    ('$0.0123', '12,346 tokens')
    """
    return dollars(amount) if unit == "usd" else f"{amount:,.0f} {unit}"


def sum_of(rows: Iterable[Mapping[str, float]]) -> dict[str, float] | None:
    """Add up rows of money column by column; None if there are no rows."""
    paid = list(rows)
    return {name: sum(row[name] for row in paid) for name in COLUMNS} if paid else None


def prices_are_known(content: RankingContent) -> bool:
    """Return whether all models that were asked have a price.

    Examples
    --------
    >>> priced, free = {"asked": 9, "money": no_money()}, {"asked": 9}
    >>> prices_are_known({"models": {"a": priced, "known": {"asked": 0}}})
    True
    >>> prices_are_known({"models": {"a": priced, "b": free}})
    False
    """
    return all("money" in block for block in content["models"].values() if block.get("asked"))


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
        template = f"Spent {{}} in {content['seconds']:.0f} s."
        sentences += columns_in_words(columns or {**no_money(), BILLED: content["cost"]}, template)
        if any(block.get("tokens", {}).get("estimated") for block in content["models"].values()):
            sentences.append("~ marks costs estimated from the lengths of the texts.")
    elif columns:
        known = "" if prices_are_known(content) else ", where the price is known"
        sentences += columns_in_words(columns, f"Spent {{}}{known}.")
    if content.get("cost_unit") == "tokens":
        sentences.append(f"Spent {in_unit(content['cost'], 'tokens')}.")
    for name, block in content["models"].items():
        if block.get("from_prior"):
            sentences.append(
                f"{name}: {block['from_prior']} of {block['n_items']} answers are earlier ones "
                "and cost nothing."
            )
    return sentences


def columns_in_words(columns: Mapping[str, float], template: str = "Spent {}.") -> list[str]:
    """State a sum of money, and the part of it that no server has confirmed."""
    sentences = [template.format(dollars(columns[BILLED] + columns[ASSUMED]))]
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
