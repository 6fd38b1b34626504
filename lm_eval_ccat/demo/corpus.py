"""Documents that every Python installation has: docstrings of its standard library.

A document is the body of a docstring, its reference the first line: what the author thought one
should know of the rest.  Modules are read as text and parsed, never imported, so that nothing runs.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..files import replace_text
from ..metrics.rouge import rouge

#: Folders of the standard library that are no part of its documentation.
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}
SUMMARY_WORDS, BODY_WORDS = range(4, 21), range(25, 401)


@dataclass(frozen=True)
class Document:
    """One docstring: ``name`` of what it documents, its ``body`` and its first line."""

    name: str
    body: str
    summary: str


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
        for of in ("body", "handlers", "orelse", "finalbody", "cases"):  # no expression has one
            nodes += getattr(node, of, ())


def collect(folder: Path | None = None, limit: int = 800) -> list[Document]:
    """Find documents in a folder of Python sources.

    Parameters
    ----------
    folder : Path, optional
        The running interpreter's standard library by default.
    limit : int
        At most this many, spread evenly over the folder.

    Returns
    -------
    list of Document
        In the order of the files' names; no two with the same body or the same summary.
    """
    root = folder or Path(sysconfig.get_paths()["stdlib"])
    documents: list[Document] = []
    seen: set[str] = set()
    for path in sorted(_sources(root)):
        parts = path.relative_to(root).with_suffix("").parts
        for name, text in _docstrings(path, ".".join(parts)):
            summary, _, body = text.partition("\n")
            summary, body = summary.strip(), " ".join(body.split())
            fits = len(summary.split()) in SUMMARY_WORDS and len(body.split()) in BODY_WORDS
            if fits and not seen & {summary, body}:
                seen |= {summary, body}
                documents.append(Document(name, body, summary))
    step = max(1.0, len(documents) / limit)
    return [documents[int(i * step)] for i in range(min(limit, len(documents)))]


#: The task as a user would write it; only the paths are filled in.
TASK = """\
task: ccat_demo
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
  cache_dir: {cache}
test_split: test
output_type: generate_until
doc_to_text: "{{{{name}}}}\\n{{{{body}}}}\\n\\nIn one line:"
doc_to_target: summary
process_results: !function lm_eval_ccat.demo.corpus.process_results
generation_kwargs:
  until: ["\\n"]
  max_gen_toks: 64
metric_list:
  - metric: rougeL
    aggregation: mean
    higher_is_better: true
num_fewshot: 0
metadata:
  version: 1.0
"""


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The harness's hook: ROUGE-L of one answer against the docstring's first line, on [0, 1]."""
    return rouge(results[0], doc["summary"])


def write_task(folder: Path, documents: list[Document]) -> None:
    """Write the documents and the task's YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "ccat_demo.jsonl"
    lines = (json.dumps(asdict(document), ensure_ascii=False) + "\n" for document in documents)
    replace_text(data, "".join(lines))
    data_path, cache = (json.dumps(str(p.resolve())) for p in (data, folder / "cache"))
    replace_text(folder / "ccat_demo.yaml", TASK.format(data=data_path, cache=cache))
