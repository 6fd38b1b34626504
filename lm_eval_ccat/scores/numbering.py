"""The same documents under other numbers, as in a shuffled data set: told by their hashes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from ..grouping import grouped

#: How a message says it.
OTHER_ORDER = "the same documents in another order"


def renumbered(
    hashes: Mapping[Any, Hashable | None], benchmark: Mapping[Any, Hashable | None]
) -> dict[Any, Any]:
    """Return the benchmark's doc_id of each of a side's documents, joined by their hashes.

    Empty where the doc_ids are the benchmark's already, or where a hash is missing or is of no
    document of the benchmark: then documents differ, and not only their order.

    Parameters
    ----------
    hashes, benchmark : mapping of doc_id to (hash or None)
        Of each document of the side, such as a log, and of the benchmark.

    Examples
    --------
    >>> renumbered({0: "x", 1: "y"}, {0: "y", 1: "z", 2: "x"})
    {0: 2, 1: 0}
    >>> renumbered({0: "x", 1: "y"}, {0: "y", 1: "z"})
    {}
    """
    misplaced = [
        doc_id
        for doc_id, sha256 in hashes.items()
        if sha256 is None or benchmark.get(doc_id) != sha256
    ]
    # The benchmark's doc_ids that are to be given, by hash. They are taken from the end of a list,
    # so that the first of several equal documents gets the first doc_id.
    free = grouped(
        (sha256, doc_id)
        for doc_id, sha256 in reversed(list(benchmark.items()))
        # A document that has the benchmark's doc_id keeps it.
        if hashes.get(doc_id) != sha256
    )
    numbers = {doc_id: doc_id for doc_id in hashes}
    for doc_id in misplaced:
        if hashes[doc_id] is None or not free.get(hashes[doc_id]):
            return {}
        numbers[doc_id] = free[hashes[doc_id]].pop()
    return numbers if misplaced else {}
