"""Each message that the troubleshooting page quotes can be found in the package."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import lm_eval_ccat

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
QUOTED = [m[1] for m in re.finditer(r"^\| `([^`]+)`", PAGE, re.M)]


@cache
def texts() -> list[str]:
    """Every text of the package's source, with a gap where a value is put in."""
    found = []
    for file in Path(lm_eval_ccat.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "\0" for p in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_exists(message: str) -> None:
    assert len(QUOTED) >= 8
    # A word of the page may stand for a value that the message puts in there; most do not.
    words = [w.rstrip(",;:") for w in message.replace("...", "\0").split()]
    assert any(said_in(words, text.split()) for text in texts()), message


def said_in(words: list[str], text: list[str]) -> bool:
    """Whether a text says these words in a row, half of them or more literally."""
    rows = (text[n : n + len(words)] for n in range(len(text) - len(words) + 1))
    return any(
        all("\0" in (w, t) or w in t or "\0" in t for w, t in zip(words, row))
        and 2 * sum(w in t and w != "\0" for w, t in zip(words, row)) >= len(words)
        for row in rows
    )
