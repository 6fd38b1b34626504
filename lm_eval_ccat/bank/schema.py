"""JSON schema of the bank's file, for people and tools that read banks without this package.

``python -m lm_eval_ccat.bank.schema`` prints it; ``docs/bank.schema.json`` is that output. The
schema says what a file may look like; `ItemBank.load` checks more (lengths that must agree,
ascending ids, the checksum).
"""

from __future__ import annotations

import json
from typing import Any

from .observations import CHOSEN
from .versions import FORMAT, VERSION

_ID = {"type": ["integer", "string"]}
_TEXT = {"type": "string", "maxLength": 10_000}
_OPTIONAL_TEXT = {"type": ["string", "null"], "maxLength": 10_000}

_OBSERVATION = {
    "type": "object",
    "required": ["model", "config", "chosen", "items", "scores"],
    "properties": {
        "model": _TEXT,
        "config": {"type": "string"},
        "chosen": {"enum": list(CHOSEN)},
        "date": {"type": ["string", "null"]},
        "items": {
            "description": "Positions in bank order; null means all, in order.",
            "type": ["array", "null"],
            "items": {"type": "integer", "minimum": 0},
        },
        "scores": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}},
        "probabilities": {
            "description": "With which each item was drawn among those left; null where chosen.",
            "type": ["array", "null"],
            "items": {"type": ["number", "null"]},
        },
    },
}


def schema() -> dict[str, Any]:
    """The schema, as JSON values (draft 2020-12).

    Examples
    --------
    >>> schema()["properties"]["version"]
    {'const': 2}
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Item bank of lm-eval-ccat",
        "description": "Calibrated items of one task, metric and filter, with their provenance.",
        "type": "object",
        "required": [
            "format",
            "version",
            "sha256",
            "method",
            "task",
            "metric",
            "filter",
            "scale",
            "constants",
            "models",
            "settings",
            "provenance",
            "self_check",
            "warnings",
            "items",
        ],
        "additionalProperties": False,
        "properties": {
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "sha256": {
                "type": "string",
                "pattern": "^[0-9a-f]{64}$",
                "description": "Of all other parts but format, version and made, as JSON with "
                "sorted keys, separators ',' and ':', ASCII escapes.",
            },
            "method": _TEXT,
            "task": _OPTIONAL_TEXT,
            "metric": _TEXT,
            "filter": _OPTIONAL_TEXT,
            "scale": {
                "description": "Range and direction of raw scores. With a cap a raw score x "
                "counts as 1 - min(x, cap)/cap.",
                "type": "object",
                "required": ["low", "high", "higher_is_better"],
                "properties": {
                    "low": {"type": "number"},
                    "high": {"type": "number"},
                    "higher_is_better": {"type": "boolean"},
                    "cap": {"type": ["number", "null"], "exclusiveMinimum": 0},
                },
            },
            "constants": {
                "description": "Numbers of the whole bank; which ones depends on the method.",
                "type": "object",
            },
            "models": {
                "description": "Calibration models, or hashes of their names.",
                "type": "array",
                "items": _TEXT,
            },
            "settings": {
                "description": "Evaluation settings of the calibration scores, from harness "
                "logs; empty where they are not known.",
                "type": "object",
            },
            "provenance": {
                "type": "object",
                "properties": {
                    "package": {"type": "string"},
                    "harness": {"type": ["string", "null"]},
                    "dataset": {
                        "type": "object",
                        "properties": {
                            part: {"type": ["string", "null"]}
                            for part in ("path", "name", "revision")
                        },
                    },
                    "sources": {"type": "array", "items": {"type": "string"}},
                    "rows": {"type": "integer", "minimum": 0},
                    "names_hashed": {"type": "boolean"},
                    "options": {"type": "object"},
                    "report": {"type": "object"},
                    "updates": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["previous", "models", "package"],
                        },
                    },
                },
            },
            "self_check": {"type": "object"},
            "made": {"type": "string", "description": "Date, ISO 8601; not in the checksum."},
            "observations": {
                "description": "Scores on 0 to 1 of each model, and how its items were chosen.",
                "type": "array",
                "items": _OBSERVATION,
            },
            "outcomes": {
                "description": "How this outcome goes together with the task's others, by name.",
                "type": "object",
            },
            "checksums": {"type": "object", "additionalProperties": _TEXT},
            "warnings": {"type": "array", "items": _TEXT},
            "items": {
                "type": "object",
                "required": ["doc_id", "doc_hash", "kept", "parameters"],
                "additionalProperties": False,
                "properties": {
                    "doc_id": {
                        "description": "Ascending; all integers or all strings.",
                        "type": "array",
                        "minItems": 1,
                        "items": _ID,
                    },
                    "doc_hash": {
                        "type": ["array", "null"],
                        "items": {"type": ["string", "null"]},
                    },
                    "kept": {"type": "array", "items": {"type": "boolean"}},
                    "parameters": {
                        "description": "One array per parameter, of one number (or row of "
                        "numbers) per item; null where an item has none.",
                        "type": "object",
                        "additionalProperties": {
                            "type": "array",
                            "items": {
                                "type": ["number", "null", "array"],
                                "items": {"type": ["number", "null"]},
                            },
                        },
                    },
                },
            },
        },
    }


def as_text() -> str:
    """The schema as the file in the documentation holds it."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(as_text(), end="")
