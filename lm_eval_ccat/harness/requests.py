"""A task's requests by document: all built at once, or each when it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from . import internals

# Building requests draws few-shot examples from generators that tasks may share.
_BUILDING = threading.Lock()


class Requests(Mapping[int, list[Any]]):
    """The requests of each document, in the order of their ``idx``.

    Attributes
    ----------
    docs : sequence
        The documents, by doc_id. One copy: a task that processes its documents does so again at
        every access.
    """

    docs: Any

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.docs)))

    def __len__(self) -> int:
        return len(self.docs)

    def documents(self) -> Iterator[Any]:
        """The documents as their hashes are taken, in the order of iteration."""
        return iter(self.docs)


class BuiltAtOnce(Requests):
    """Every request, built as a full run of the harness builds them."""

    def __init__(self, task: Any, lm: Any, options: Mapping[str, Any]) -> None:
        self._groups = internals.by_document(internals.build_requests(task, lm, options))
        self.docs = internals.documents(task)

    def __getitem__(self, doc_id: int) -> list[Any]:
        return self._groups[doc_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def documents(self) -> Iterator[Any]:
        return (internals.document_of(group[0]) for group in self._groups.values())


class BuiltOnDemand(Requests):
    """Requests of a task whose documents can be built alone: see `internals.builds_alone`."""

    def __init__(self, task: Any, lm: Any, options: Mapping[str, Any]) -> None:
        self._task, self._lm, self._options = task, lm, options
        self._groups: dict[int, list[Any]] = {}
        self.docs = internals.documents(task)
        if not len(self.docs):
            raise ValueError(f"task {internals.task_name(task)} has no documents")

    def __getitem__(self, doc_id: int) -> list[Any]:
        with _BUILDING:
            if doc_id not in self._groups:
                if not 0 <= doc_id < len(self.docs):
                    raise KeyError(doc_id)
                self._groups[doc_id] = internals.build_single(
                    self._task, self._lm, self._options, doc_id, self.docs[doc_id]
                )
            return self._groups[doc_id]


def requests_of(
    task: Any, lm: Any, options: Mapping[str, Any], fewshot_seed: int | None = None
) -> Requests:
    """The requests of a task, each the same as in a full run."""
    with _BUILDING:
        internals.remember_templates()
        if fewshot_seed is not None:
            internals.set_fewshot_seed(task, fewshot_seed)
        kind = BuiltOnDemand if internals.builds_alone(task, options) else BuiltAtOnce
        return kind(task, lm, options)
