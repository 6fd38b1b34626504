"""Places beside the file system that banks can be named in, such as ``hub:owner/name``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..plugins import Plugins


@dataclass(frozen=True)
class Place:
    """Somewhere banks are kept.

    Attributes
    ----------
    name : str
        What stands before the colon.
    fetch : callable
        ``(rest of the name) -> Path`` of a local copy; it raises `BankError`.
    """

    name: str
    fetch: Callable[[str], Path]


PLACES = Plugins("bank place", Place, lambda: {"hub": "lm_eval_ccat.integrations.hub:PLACE"})


def located(path: str | Path) -> Path:
    """The file of a bank, fetched first where its name is one in a place.

    Raises
    ------
    BankError
        It cannot be had there.
    """
    place, colon, rest = str(path).partition(":")
    if colon and rest and place.isidentifier() and place in PLACES.names():
        return PLACES.get(place).fetch(rest)
    return Path(path)
