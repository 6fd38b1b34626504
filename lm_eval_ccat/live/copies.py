"""Copies are no repeats: a cache, a fixed seed or a server without temperature gives them.

A model is refused once the long answers to ten documents are equal word for word in every repeat,
and those to at most a tenth of the documents asked again differ. A model that gives another long
answer to half of its documents is refused in .6% of runs: with a chance of ``2^-10`` none of its
first ten documents differs, with ``10 2^-11`` one of the first eleven does, and the rest of the
chance lies beyond the 20th document.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import RunError
from ..money import estimate_tokens
from ..records import Item
from ..runs.book import Book

logger = logging.getLogger(__name__)

#: Tokens from which an answer is too long to be equal by chance, and the fewest documents with
#: equal answers that show copies.
LONG_ANSWER, FEWEST_COPIES = 20, 10
#: Largest share of the documents asked again whose answers may differ: below it, the equal answers
#: to the others still count as copies.
MOST_DIFFERING = 0.1


class CopiesError(RunError):
    """A model gives copies of one answer in place of repeats."""


@dataclass
class _Repeated:
    """The documents that were asked again, by whether all answers to one are equal."""

    equal: set[Item] = field(default_factory=set)
    differing: set[Item] = field(default_factory=set)

    def note(self, document: Item, is_equal: bool) -> None:
        """Take in whether a further answer to a document equals the first.

        A document with an answer that differs stays `differing`.
        """
        if not is_equal:
            self.differing.add(document)
            self.equal.discard(document)
        elif document not in self.differing:
            self.equal.add(document)

    @property
    def are_copies(self) -> bool:
        """Whether so many documents have equal answers, and so few differing ones."""
        n_equal, n_differing = len(self.equal), len(self.differing)
        return n_equal >= FEWEST_COPIES and n_differing <= MOST_DIFFERING * (n_equal + n_differing)


@dataclass
class Copies:
    """Counts the documents of one model whose repeats are equal, by long and short answers.

    Parameters
    ----------
    model : str
    warned : bool, optional
        Whether short copies were warned of.

    Examples
    --------
    >>> copies, text = Copies("m"), "one two three four five six " * 9
    >>> for item in range(9):
    ...     copies.note(Item(("t", item)), [[text]])
    ...     copies.note(Item(("t", item, 2)), [[text]])
    >>> copies.note(Item(("t", 9)), [[text]])
    >>> copies.note(Item(("t", 9, 2)), [[text]])
    Traceback (most recent call last):
    lm_eval_ccat.live.copies.CopiesError: m gives copies, not repeats: the answers to 10 ...
    """

    model: str
    warned: bool = False
    _first: dict[Item, str] = field(default_factory=dict)
    _short: _Repeated = field(default_factory=_Repeated)
    _long: _Repeated = field(default_factory=_Repeated)

    def note(self, item: Item, responses: Sequence[Any]) -> None:
        """Take in an answer.

        Raises
        ------
        CopiesError
            The long answers are copies.
        """
        text, document = repr(responses), item.document
        first = self._first.setdefault(document, text)
        # Nothing came before it. Whether it is a repeat does not tell: answers arrive in any order.
        if first is text:
            return
        long = estimate_tokens(first) >= LONG_ANSWER
        repeated = self._long if long else self._short
        repeated.note(document, is_equal=text == first)
        if not repeated.are_copies:
            return
        # Short answers may be equal by chance: "Yes" and "Yes".
        if long:
            raise CopiesError(
                f"{self.model} gives copies, not repeats: the answers to {len(repeated.equal)} "
                "documents are equal word for word in every repeat, as from a cache, a fixed seed "
                "or a server that ignores the temperature. Repair that and start a new run, or "
                "rank without repeats (repeats: 1)"
            )
        if not self.warned:
            self.warned = True
            logger.warning(self.doubt)

    @property
    def doubt(self) -> str:
        """How many documents have the same short text in every repeat; "" if that is no sign."""
        if not self._short.are_copies:
            return ""
        return (
            f"{self.model} answers {len(self._short.equal)} documents with the same short text in "
            "every repeat: if a cache or a fixed seed is between, they are copies, and verdicts "
            "take copies for draws"
        )


def doubts_of_repeats(book: Book, models: Iterable[str]) -> list[str]:
    """Return a warning for each model whose answers are the same in every repeat."""
    warnings = []
    for model in models:
        copies, refused = Copies(model, warned=True), ""
        if any(item.is_repeat for item in book.answers.of(model)):
            for item, answer in book.arrived(model):
                try:
                    copies.note(item, answer.responses)
                # The run refused the model there, and its result says why.
                except CopiesError as error:
                    refused = str(error)
            warnings += [text for text in (refused, copies.doubt) if text]
    return warnings
