"""Documents that every Python installation has: docstrings of its standard library.

A document is the body of a docstring, its reference the first line: what the author thought one
should know of the rest.  Modules are read as text and parsed, never imported, so that nothing runs.
"""

from __future__ import annotations

import ast
import inspect
import json
import sysconfig
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ..files import replace_text

#: Folders of the standard library that are no part of its documentation.
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}
MIN_BODY_WORDS = 25
MAX_BODY_WORDS = 400
MIN_SUMMARY_WORDS = 4
MAX_SUMMARY_WORDS = 20


@dataclass(frozen=True)
class Document:
    """One docstring: ``name`` of what it documents, its ``body`` and its first line."""

    name: str
    body: str
    summary: str


def _docstrings(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (text := ast.get_docstring(node, clean=False)):
            name = module if isinstance(node, ast.Module) else f"{module}.{node.name}"
            yield name, inspect.cleandoc(text)


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
    found: list[Document] = []
    seen: set[str] = set()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if SKIPPED & set(parts):
            continue
        for name, text in _docstrings(path, ".".join(parts)):
            summary, _, body = text.partition("\n")
            summary, body = summary.strip(), " ".join(body.split())
            wanted = (
                MIN_SUMMARY_WORDS <= len(summary.split()) <= MAX_SUMMARY_WORDS
                and MIN_BODY_WORDS <= len(body.split()) <= MAX_BODY_WORDS
                and summary not in seen
                and body not in seen
            )
            if wanted:
                seen |= {summary, body}
                found.append(Document(name, body, summary))
    step = max(1.0, len(found) / limit)
    return [found[int(i * step)] for i in range(min(limit, len(found)))]


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
process_results: !function lm_eval_ccat.demo.scoring.process_results
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


def write_task(folder: Path, documents: list[Document]) -> Path:
    """Write the documents and the task's YAML; the YAML's path."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "ccat_demo.jsonl"
    lines = (json.dumps(asdict(document), ensure_ascii=False) + "\n" for document in documents)
    replace_text(data, "".join(lines))
    task = folder / "ccat_demo.yaml"
    text = TASK.format(
        data=json.dumps(str(data.resolve())), cache=json.dumps(str((folder / "cache").resolve()))
    )
    replace_text(task, text)
    return task
