"""Code blocks of a documentation page, and running them in order."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval_ccat.cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FENCE = re.compile(
    r"^(?:<!-- exit: (?P<codes>[\d ]+) -->\n)?"
    r"```(?P<language>[a-z]*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    re.M | re.S,
)
#: Shown, not run: output, and what the code itself prints.
SHOWN = {"text", "json"}
PROGRAM = "lm-eval-ccat "


@dataclass(frozen=True)
class Block:
    """One fenced block; `title` is the file that it is the content of."""

    language: str
    code: str
    title: str | None
    exits: frozenset[int]
    line: int


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            m["language"],
            m["code"],
            m["title"],
            frozenset(map(int, (m["codes"] or "0").split())),
            text.count("\n", 0, m.start()) + 1,
        )
        for m in _FENCE.finditer(text)
    ]


def run_page(page: Path, folder: Path, environment: dict[str, str], replace: dict[str, str]) -> str:
    """Run a page's blocks in a folder, as a reader would; what they printed.

    Python blocks of a page share names.
    """
    printed: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in (b for b in blocks(page) if b.title is not None or b.language not in SHOWN):
        code = block.code
        for old, new in replace.items():
            code = code.replace(old, new)
        if block.title is not None:
            (folder / block.title).write_text(code, encoding="utf-8")
        elif block.language == "bash":
            code_of_exit, out, error = run_commands(code, folder, environment)
            where = f"{page.name}:{block.line} ended with {code_of_exit}"
            assert code_of_exit in block.exits, f"{where}\n{code}\n{out[-3000:]}\n{error[-3000:]}"
            printed.append(out)
        elif block.language == "python":
            printed.append(run_python(code, folder, names))
        else:
            raise AssertionError(f"{page.name}:{block.line}: who runs {block.language!r}?")
    return "\n".join(printed)


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[io.StringIO]:
    """With a folder as the working directory and what is printed in the stream."""
    before, out = os.getcwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out):
            yield out
    finally:
        os.chdir(before)


def run_python(code: str, folder: Path, names: dict[str, Any]) -> str:
    """Run Python in this process, which has the imports behind it; what it printed."""
    with inside(folder) as out:
        exec(code, names)
    return out.getvalue()


def run_commands(code: str, folder: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Exit code, output and errors of shell commands.

    Our own command runs in this process, which saves the seconds of its imports; where anything
    else stands among the commands, a shell runs them all.
    """
    lines = code.replace("\\\n", " ").strip().splitlines()
    if any(re.search(r"[|<>;&$*]", x) or not x.startswith(PROGRAM) for x in lines):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr
    status, error = 0, io.StringIO()
    with inside(folder) as out, contextlib.redirect_stderr(error):
        while lines and status == 0:
            status = main(shlex.split(lines.pop(0).removeprefix(PROGRAM)))
    return status, out.getvalue(), error.getvalue()
