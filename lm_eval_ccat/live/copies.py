"""Copies are no repeats: a cache, a fixed seed or a server without temperature gives them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import RunError
from ..money import estimate_tokens
from ..records import Item

logger = logging.getLogger(__name__)

#: Tokens from which equal answers are no chance, and items whose repeats all agree.
LONG, ITEMS = 20, 10


@dataclass
class Copies:
    """Counts the items of one model whose repeats are equal, by long and short answers.

    Parameters
    ----------
    model : str

    Examples
    --------
    >>> copies, text = Copies("m"), "one two three four five six " * 9
    >>> for item in range(9):
    ...     copies.note(("t", item), [[text]])
    ...     copies.note(("t", item, 2), [[text]])
    >>> copies.note(("t", 9), [[text]])
    >>> copies.note(("t", 9, 2), [[text]])
    Traceback (most recent call last):
    lm_eval_ccat.errors.RunError: m gives copies, not repeats: the answers to 10 documents ...
    """

    model: str
    _first: dict[Item, str] = field(default_factory=dict)
    _equal: tuple[set[Item], set[Item]] = field(default_factory=lambda: (set(), set()))
    _differs: list[bool] = field(default_factory=lambda: [False, False])
    _warned: bool = False

    def note(self, item: Item, responses: Sequence[Any]) -> None:
        """Take in an answer.

        Raises
        ------
        RunError
            Long answers are equal in every repeat of ten items.
        """
        text, document = repr(responses), item[:2]
        first = self._first.setdefault(document, text)
        if first is text:  # the first that came: after a resume not the document's first answer
            return
        long = int(estimate_tokens(text) >= LONG)
        if text != first:
            self._differs[long] = True
        else:
            self._equal[long].add(document)
        if self._differs[long] or len(self._equal[long]) < ITEMS:
            return
        if long:
            raise RunError(
                f"{self.model} gives copies, not repeats: the answers to {ITEMS} documents are "
                "equal word for word in every repeat, as from a cache, a fixed seed or a server "
                "that ignores the temperature. Repair that and start a new run, or rank without "
                "repeats (repeats: 1)"
            )
        if not self._warned:
            self._warned = True
            logger.warning(
                "%s answers %d documents with the same short text in every repeat: is a cache or "
                "a fixed seed between?",
                self.model,
                ITEMS,
            )
