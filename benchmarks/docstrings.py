"""The demo's documents: docstrings of the standard library of the Python that runs this script.

    python benchmarks/docstrings.py

It writes `lm_eval_ccat/demo/documents.jsonl.gz` anew, and Python's licence beside it. Modules are
parsed as text and never imported, so none of their code runs. With other documents the figures of
README and the tutorial are others: `python docs/.hooks/front.py make` follows.
"""

from __future__ import annotations

import ast
import gzip
import inspect
import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lm_eval_ccat.demo.systems as demo
from lm_eval_ccat.demo.systems import DOCUMENTS_FILE, Document

#: Folders of the standard library that are no part of its documentation.
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}
SUMMARY_WORDS, BODY_WORDS = range(4, 21), range(25, 401)


def _sources(root: Path) -> Iterator[Path]:
    for folder, inner, files in os.walk(root):
        inner[:] = set(inner) - SKIPPED
        for name in files:
            stem, kind = os.path.splitext(name)
            if kind == ".py" and stem not in SKIPPED:
                yield Path(folder, name)


def _docstrings(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes: list[Any] = [tree]
    for node in nodes:
        if isinstance(node, kinds) and (text := ast.get_docstring(node, clean=False)):
            name = module if isinstance(node, ast.Module) else f"{module}.{node.name}"
            yield name, inspect.cleandoc(text)
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):  # no expression has one
            nodes += getattr(node, field, ())


def documents(root: Path) -> Iterator[Document]:
    """The documents of a folder of sources, by the files' names; no body and no summary twice."""
    collected: set[str] = set()
    for path in sorted(_sources(root)):
        parts = path.relative_to(root).with_suffix("").parts
        for name, text in _docstrings(path, ".".join(parts)):
            summary, _, body = text.partition("\n")
            summary, body = summary.strip(), " ".join(body.split())
            fits = len(summary.split()) in SUMMARY_WORDS and len(body.split()) in BODY_WORDS
            if fits and not collected & {summary, body}:
                collected |= {summary, body}
                yield Document(name, body, summary)


def main() -> None:
    """Write the file and the licence."""
    root, folder = Path(sysconfig.get_paths()["stdlib"]), Path(demo.__file__).parent
    lines = [json.dumps(asdict(d), ensure_ascii=False) + "\n" for d in documents(root)]
    packed = gzip.compress("".join(lines).encode(), 9, mtime=0)  # the same bytes each time
    (folder / DOCUMENTS_FILE).write_bytes(packed)
    shutil.copy(root / "LICENSE.txt", folder / "PYTHON-LICENSE.txt")
    print(f"{len(lines)} documents, {len(packed):,} bytes")


if __name__ == "__main__":
    main()
