"""What the scheduler needs of a model: documents in, scored answers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..harness.prices import Tokens
from ..runs.journaled import DocId


@dataclass(frozen=True)
class Answer:
    """One administered document.

    ``unit`` is the score on [0, 1], higher is better; ``raw`` stands on the metric's own scale.
    ``seconds`` is the share of the measured time, ``cost`` in the budget's currency.
    """

    doc_id: DocId
    unit: float
    raw: float
    cost: float = 0.0
    seconds: float = 0.0
    tokens: Tokens | None = None
    prompt_hash: str | None = None
    responses: list[Any] = field(default_factory=list)
    empty: bool = False

    def details(self) -> dict[str, Any]:
        """The part that is kept in the journal beside the score and the cost."""
        tokens = self.tokens
        return {
            "raw": self.raw,
            "seconds": round(self.seconds, 6),
            "tokens": None
            if tokens is None
            else {"input": tokens.input, "output": tokens.output, "source": tokens.source},
            "prompt_sha256": self.prompt_hash,
            "responses": self.responses,
            **({"empty": True} if self.empty else {}),
        }


class Worker(Protocol):
    """One model of a ranking, as the scheduler sees it.

    ``slots`` calls of :meth:`administer` may run at the same time, each with up to ``batch``
    documents.  ``memory`` is None for a model that lives elsewhere.
    """

    name: str
    slots: int
    batch: int
    memory: float | None

    def open(self) -> None:
        """Make the model ready (load weights, connect); called before the first document."""

    def close(self) -> None:
        """Free the model's memory; :meth:`open` may follow again."""

    def administer(self, doc_ids: Sequence[DocId]) -> list[Answer]:
        """Put documents to the model; blocks, and raises what the model or scoring raised."""
