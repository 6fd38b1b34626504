"""Code blocks of a documentation page, and running them in order."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FENCE = re.compile(
    r"^(?:<!-- exit: (?P<codes>[\d ]+) -->\n)?"
    r"```(?P<language>[a-z]*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    re.M | re.S,
)
#: Shown, not run: output, and what the code itself prints.
SHOWN = {"text", "json"}


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

    Python blocks of a page share names: those that follow one another run in one process, which
    runs the earlier ones again, silently.
    """
    printed: list[str] = []
    python: list[str] = []
    ran = 0
    todo = [b for b in blocks(page) if b.title is not None or b.language not in SHOWN]
    for block, after in zip(todo, [*todo[1:], None]):
        code = block.code
        for old, new in replace.items():
            code = code.replace(old, new)
        if block.title is not None:
            (folder / block.title).write_text(code, encoding="utf-8")
        elif block.language == "bash":
            printed.append(
                _run(["bash", "-euo", "pipefail", "-c", code], page, block, folder, environment)
            )
        elif block.language == "python":
            python.append(code)
            if after is not None and after.title is None and after.language == "python":
                continue
            earlier = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n"
            before = "".join(
                f"    {line}\n" if line else "\n" for line in "\n".join(python[:ran]).splitlines()
            )
            script = "\n".join([earlier + (before or "    pass\n"), *python[ran:]])
            printed.append(_run([sys.executable, "-c", script], page, block, folder, environment))
            ran = len(python)
        else:
            raise AssertionError(f"{page.name}:{block.line}: who runs {block.language!r}?")
    return "\n".join(printed)


def _run(
    command: list[str], page: Path, block: Block, folder: Path, environment: dict[str, str]
) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode in block.exits, (
        f"{page.name}:{block.line} ended with {done.returncode}\n{block.code}\n"
        f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout
