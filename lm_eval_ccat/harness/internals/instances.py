"""What is asked of the harness's requests (`Instance`): every attribute that is used here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import loaded
from .hashes import hash_text


def by_document(instances: Iterable[Any]) -> dict[int, list[Any]]:
    """Requests grouped by doc_id, those of a document in the order of their ``idx``."""
    grouped: dict[int, list[Any]] = defaultdict(list)
    for instance in instances:
        grouped[instance.doc_id].append(instance)
    return {doc_id: sorted(group, key=lambda i: i.idx) for doc_id, group in grouped.items()}


def document_of(instance: Any) -> Any:
    """The document that a request is about."""
    return instance.doc


def repeats(instance: Any) -> int:
    """How many answers a request takes."""
    return int(instance.repeats)


def prompt(instance: Any) -> str:
    """A request's prompt as text."""
    return _text(instance.args[0])


def prompt_hash(instance: Any) -> str:
    """Hash of a request's prompt; as it stands, so one that is no text fails as in the harness."""
    return hash_text(instance.arguments[0])


def answers(instance: Any) -> list[str]:
    """The answers to a request, as text."""
    return [_text(answer) for answer in instance.resps]


def count_tokens(instance: Any, count: Callable[[str], float]) -> tuple[float, float]:
    """(read, written) tokens of a request by a function that counts a text's."""
    if instance.request_type == "generate_until":
        written = sum(count(answer) for answer in answers(instance))
        return repeats(instance) * count(prompt(instance)), written
    # A likelihood reads the continuation and writes nothing.
    return repeats(instance) * count(prompt(instance) + _text(instance.args[1])), 0


def sample_row(
    task: Any, doc_id: int, document: Any, group: Sequence[Any], filter: str, doc_hash: str
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The row that the harness logs for a document under one filter, and what the task reports."""
    filtered = [instance.filtered_resps[filter] for instance in group]
    metrics = loaded.score_document(task, document, filtered)
    target = loaded.target(task, document)
    row = {
        "doc_id": doc_id,
        "doc": document,
        "target": target,
        "arguments": [instance.args for instance in group],
        "resps": [instance.resps for instance in group],
        "filtered_resps": filtered,
        "filter": filter,
        "metrics": list(metrics),
        "doc_hash": doc_hash,
        "prompt_hash": prompt_hash(group[0]),
        "target_hash": hash_text(str(target)),
        **metrics,
    }
    return row, metrics


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
