"""Which figures of the pages are older than the code, and remaking them.

    python benchmarks/sources.py                    every command that a page of figures states
    python benchmarks/sources.py --remake FOLDER    runs those whose code has changed since
    python benchmarks/sources.py --of benchmarks/looks.py    the hash to state beside new figures

A page states beside its figures the command that made them and a hash: of the script's code and of
the rankings that the tests and benchmarks/remade.json have recorded. These move with what the
package computes, and not with how it is written. `--remake` keeps what each command prints in a
file of the folder, and leaves out what lies there already; docs/.hooks/measured.py writes some
tables into their page, and a hand the others.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import hashlib
import io
import json
import re
import shlex
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: What rankings by seeds and real scores gave when they were recorded.
RECORDED = ("tests/ranker/golden.json.gz", "benchmarks/remade.json")
#: A command, more arguments of it, and the hash of the code that ran both.
_STATED = re.compile(
    r"`(?:python )?(?P<script>benchmarks/[\w/]+\.py)(?P<arguments>[^`]*)`"
    r"|`(?P<more>--[^`]*)`"
    r"|\bhash (?P<hash>[0-9a-f]{12})\b"
)


class Stated(NamedTuple):
    """A command that made figures of a page, with the hash of its code at that time."""

    line: int
    script: str
    arguments: str
    hash: str

    @property
    def changed(self) -> bool:
        """Whether the script or a recorded ranking has changed since."""
        return self.hash != sources(self.script)


def sources(script: str, root: Path = ROOT) -> str:
    """Return the hash of a script, by its path in the project, and of the recorded rankings."""
    digest = hashlib.sha256(code((root / script).read_text(encoding="utf-8")).encode())
    for name in RECORDED:
        digest.update(_recorded(root / name))
    return digest.hexdigest()[:12]


@cache
def _recorded(file: Path) -> bytes:
    """Return recorded figures to six digits: the last ones differ between machines."""
    content = file.read_bytes()
    figures = json.loads(gzip.decompress(content) if file.suffix == ".gz" else content)
    return json.dumps(_rounded(figures), sort_keys=True).encode()


def _rounded(figures: Any) -> Any:
    if isinstance(figures, dict):
        return {key: _rounded(value) for key, value in figures.items()}
    if isinstance(figures, list):
        return [_rounded(value) for value in figures]
    return float(f"{figures:.6g}") if isinstance(figures, float) else figures


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


def stated(page: str) -> Iterator[Stated]:
    """Return the commands that a page states with a hash.

    What a paragraph names after a command are more arguments of it, for another run.

    >>> page = "(`python benchmarks/looks.py --folds 0,1` and `--worlds sum`, hash 0123456789ab)"
    >>> [(s.arguments, s.hash) for s in stated(page)]
    [('--folds 0,1', '0123456789ab'), ('--folds 0,1 --worlds sum', '0123456789ab')]
    """
    line = 1
    for paragraph in page.split("\n\n"):
        script = command = ""
        runs: list[str] = []
        for match in _STATED.finditer(paragraph):
            if match["script"]:
                script, command = match["script"], match["arguments"].strip()
                runs.append(command)
            elif match["more"] and script:
                runs.append(f"{command} {match['more']}".strip())
            elif match["hash"] and script:
                end = line + paragraph.count("\n", 0, match.start())
                yield from (Stated(end, script, arguments, match["hash"]) for arguments in runs)
                runs = []
        line += paragraph.count("\n") + 2


def remake(figures: Stated, folder: Path) -> None:
    """Run a command and keep what it prints, if that is not kept yet."""
    script = Path(figures.script)
    name = re.sub(r"[^\w.,=-]+", " ", f"{script.stem} {figures.arguments}").strip()
    kept = folder / f"{name}.txt"
    if kept.exists():
        return
    command = [sys.executable, figures.script, *shlex.split(figures.arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return print(f"  failed: {done.stderr.strip().splitlines()[-1]}")
    folder.mkdir(parents=True, exist_ok=True)
    kept.write_text(done.stdout, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--remake", type=Path, metavar="FOLDER")
    parser.add_argument("--of", metavar="SCRIPT")
    given = parser.parse_args()
    if given.of:
        return print(sources(given.of))
    for page in sorted((ROOT / "docs" / "evidence").glob("*.md")):
        for figures in stated(page.read_text(encoding="utf-8")):
            since = "changed since" if figures.changed else "as it is"
            place = f"docs/evidence/{page.name}:{figures.line}"
            print(f"{since:14}{place:32}{figures.script} {figures.arguments}", flush=True)
            if figures.changed and given.remake:
                remake(figures, given.remake)


if __name__ == "__main__":
    main()
