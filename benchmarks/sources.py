"""Hash of the code that makes the figures of a script: the core of the package, and the script.

Docstrings, comments and empty lines change no figure, so they are left out.

``python benchmarks/sources.py benchmarks/looks.py [COMMIT]`` prints it, of the files as they are or
as they were; pages state it beside their figures, and the site says where it is another one now.
"""

from __future__ import annotations

import ast
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Rooms of the package whose code replays run.
CORE = ("bank", "methods", "metrics", "ranker", "scores")


def sources(script: str, root: Path = ROOT) -> str:
    """Of a script, by its path in the project, and of the core."""
    files = [p for room in CORE for p in (root / "lm_eval_ccat" / room).rglob("*.py")]
    content = [code(p.read_text(encoding="utf-8")) for p in (*sorted(files), root / script)]
    return hashlib.sha256("".join(content).encode()).hexdigest()[:12]


@cache
def code(text: str) -> str:
    """The lines of a module that are no docstring, comment or empty line.

    >>> code('\\n# Why\\ndef f():\\n    "What."\\n    return 1\\n')
    'def f():\\n    return 1\\n'
    """
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    documented = ast.Module, ast.ClassDef, ast.FunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno
            lines[first - 1 : last] = [""] * (last - first + 1)
    return "".join(line.rstrip() + "\n" for line in lines if line.strip())


def main(script: str, commit: str = "") -> None:
    if not commit:
        return print(sources(script))
    of = [f"lm_eval_ccat/{room}" for room in CORE]
    done = subprocess.run(
        ["git", "archive", commit, *of, script], cwd=ROOT, capture_output=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        tarfile.open(fileobj=io.BytesIO(done.stdout)).extractall(folder, filter="data")
        print(sources(script, Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
