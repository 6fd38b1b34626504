"""How often each item of a bank has been asked: a side file, never part of the bank's hash.

``x.bank.json`` has its counts in ``x.bank.usage.json``, once `start_usage` was called for it. Items
that everyone is asked can be learnt; the counts show which those are, and `Ranker(exposure=K)`
spreads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..bank.reading import bounded_text, parsed
from ..errors import BankError
from ..files import replace_text

FORMAT = "lm-eval-ccat/bank-usage"
VERSION = 1
_LOCK_SECONDS = 60


@dataclass(frozen=True)
class Usage:
    """Counts of administered items.

    Attributes
    ----------
    tests : int
        Adaptive tests (one model on one task each) recorded.
    counts : dict of doc_id to int
        Tests in which each item was asked; items never asked are left out.
    """

    tests: int = 0
    counts: dict[Any, int] = field(default_factory=dict)

    def exposure(self, doc_id: Any) -> float:
        """Share of tests in which an item was asked, 0 to 1."""
        return self.counts.get(doc_id, 0) / self.tests if self.tests else 0.0


def usage_path(bank: str | Path) -> Path:
    """The side file of a bank.

    Examples
    --------
    >>> usage_path("a/x.bank.json").name
    'x.bank.usage.json'
    """
    path = Path(bank)
    return path.with_name(f"{path.name.removesuffix('.json')}.usage.json")


def read_usage(bank: str | Path) -> Usage:
    """Counts of a bank's items; none where there is no side file.

    Raises
    ------
    BankError
        The side file is damaged.
    """
    path = usage_path(bank)
    try:
        return _parse(parsed(bounded_text(path)))
    except FileNotFoundError:
        return Usage()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise BankError(
            f"{path}: not a readable count of items used ({e}); delete it to start counting anew"
        ) from None


def start_usage(bank: str | Path) -> None:
    """Begin to count; runs count only where this was asked for. Counts that are there stay.

    Raises
    ------
    BankError
        There is no bank, or the side file cannot be written.
    """
    path = usage_path(bank)
    if not Path(bank).is_file():
        raise BankError(f"there is no bank {bank}")
    if path.exists():
        return
    try:
        _write(path, Usage())
    except OSError as e:
        raise BankError(f"{path}: cannot write the counts ({e.strerror or e})") from e


def record_usage(bank: str | Path, tests: Iterable[Iterable[Any]]) -> Usage:
    """Add adaptive tests to a bank's counts, safely beside other processes.

    Parameters
    ----------
    bank : path-like
        The bank's file; the counts stand beside it.
    tests : iterable of iterable of doc_id
        For each test the items it asked. Empty ones do not count.

    Returns
    -------
    Usage
        The counts now.

    Raises
    ------
    BankError
        The side file is damaged or cannot be written.
    """
    from filelock import FileLock, Timeout

    path = usage_path(bank)
    new = [set(items) for items in tests]
    new = [items for items in new if items]
    try:
        with FileLock(f"{path}.lock", timeout=_LOCK_SECONDS):
            before = read_usage(bank)
            counts = dict(before.counts)
            for items in new:
                for d in items:
                    counts[d] = counts.get(d, 0) + 1
            now = Usage(before.tests + len(new), counts)
            if new:
                _write(path, now)
            return now
    except Timeout:
        raise BankError(f"{path}: locked by another process for {_LOCK_SECONDS} s") from None
    except OSError as e:
        raise BankError(f"{path}: cannot write the counts ({e.strerror or e})") from e


def _write(path: Path, usage: Usage) -> None:
    ids = sorted(usage.counts, key=lambda d: (isinstance(d, str), d))
    document = {
        "format": FORMAT,
        "version": VERSION,
        "tests": usage.tests,
        # Pairs rather than an object, so that integer and text ids stay what they are.
        "counts": [[d, usage.counts[d]] for d in ids],
    }
    replace_text(path, json.dumps(document, separators=(",", ":")))


def _parse(document: Any) -> Usage:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("another kind of file")
    if document.get("version") != VERSION:
        raise ValueError(f"version {document.get('version')!r}, this package reads {VERSION}")
    tests, pairs = document["tests"], document["counts"]
    if not _count(tests) or not isinstance(pairs, list):
        raise ValueError("counts are not a list")
    counts: dict[Any, int] = {}
    for pair in pairs:
        d, n = pair
        if type(d) not in (int, str) or not _count(n) or n > tests:
            raise ValueError(f"no count: {str(pair)[:40]}")
        counts[d] = n
    return Usage(tests, counts)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53
