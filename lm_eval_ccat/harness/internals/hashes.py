"""The harness's hashes, which name documents and prompts in its logs."""

from __future__ import annotations

import json
from typing import Any

from .names import resolve


def document_hash(document: Any) -> str:
    """The harness's ``doc_hash`` of one document."""
    return hash_text(
        json.dumps(
            document,
            indent=2,
            default=resolve("lm_eval.utils:handle_non_serializable"),
            ensure_ascii=False,
        )
    )


def hash_text(text: str) -> str:
    """The harness's hash of a text (SHA-256, hex)."""
    return str(resolve("lm_eval.utils:hash_string")(text))
