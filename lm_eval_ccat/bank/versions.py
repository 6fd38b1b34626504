"""Versions of the bank's file: the checksum all have, and the steps from older ones to now.

A file of an older version is verified by its own checksum, then brought forward one step at a time.
When the format changes, ``VERSION`` rises and a function in ``STEPS`` turns a document of the
version before into the next. Version 2 added sections that may be absent (observations, outcomes,
checksums): a document of version 1 is one of version 2 without them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from ..errors import BankError
from .text import HEAD, as_text

FORMAT = "lm-eval-ccat/bank"
VERSION = 2

#: For each older version, what makes a document of the next one from it.
STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: lambda d: {**d, "version": 2}}


def checksum(content: dict[str, Any]) -> str:
    """SHA-256 of a bank's content: everything but `HEAD`.

    Canonical JSON: keys sorted, no spaces, no NaN.
    """
    return hashlib.sha256(as_text(content).encode()).hexdigest()


def current(document: Any, where: str) -> tuple[dict[str, Any], bool]:
    """A parsed file as a document of this version.

    Parameters
    ----------
    document : JSON value
    where : str
        Name of the file, for errors.

    Returns
    -------
    document : dict
    verified : bool
        Whether the checksum was compared already (a migrated document has another one).

    Raises
    ------
    BankError
        Not a bank, of a version that cannot be brought forward, or an older one that is damaged.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BankError(f"{where}: not an item bank of lm-eval-ccat")
    version = document.get("version")
    if version == VERSION and type(version) is int:
        return document, False
    if type(version) is int and version > VERSION:
        raise BankError(
            f"{where}: item bank of format version {version}; this package reads up to version "
            f"{VERSION}: update lm-eval-ccat"
        )
    if type(version) is not int or version not in STEPS:
        raise BankError(
            f"{where}: item bank of format version {version!r}, from which there is no way to "
            f"version {VERSION}: calibrate again with `lm-eval-ccat calibrate`"
        )
    own = {k: v for k, v in document.items() if k not in HEAD}
    if checksum(own) != document.get("sha256"):
        raise BankError(
            f"{where}: the content does not match its checksum; the file was edited or damaged, "
            "get it again or calibrate again"
        )
    while version < VERSION:
        try:
            document = STEPS[version](document)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise BankError(f"{where}: damaged item bank of version {version} ({e})") from None
        version += 1
    return document, True
