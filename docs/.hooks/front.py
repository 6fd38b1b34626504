"""Writes what the front door shows: the tutorial's outputs, the README's figures and pictures.

    python docs/.hooks/front.py make     runs the tutorial, keeps what it printed, writes the pages
    python docs/.hooks/front.py          writes the pages from what is kept

What was printed is kept in docs/evidence/measured/front.json, the demo's lines with their seconds.
A page says what it shows: ``<!-- printed: FIRST .. LAST -->``, two patterns of lines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs" / "evidence" / "measured" / "front.json"
TUTORIAL = ROOT / "docs" / "tutorial.md"
README = ROOT / "README.md"
RECORDING = ROOT / "docs" / "demo.svg"
PICTURE = ROOT / "docs" / "gap.svg"
BADGES = ROOT / "docs" / "badges.svg"
_PRINTED = re.compile(r"<!-- printed: (.+?) \.\. (.+?) -->\n.*?<!-- end of printed -->", re.S)
_GAP = re.compile(r"<!-- gap -->\n.*?<!-- end of gap -->", re.S)
_CLAIM = re.compile(r"<!-- claim -->\n.*?<!-- end of claim -->", re.S)
#: Seeds of the demo's ranking beside its own, 0: one seed may be a lucky one.
OTHER_SEEDS = range(1, 9)
#: Seconds, and the hash of a bank, which its date is part of.
VARYING = re.compile(r" in \d+ s\.$|^It took |^age |^sha256 |^ *task:|, bank [0-9a-f]{12}\.$")


def kept() -> dict[str, Any]:
    """What the tutorial printed when it was last made."""
    return dict(json.loads(KEPT.read_text(encoding="utf-8")))


def pages(found: dict[str, Any]) -> dict[Path, str]:
    """Every file that shows what was printed, as it should be."""
    return {
        TUTORIAL: filled(TUTORIAL.read_text(encoding="utf-8"), found),
        README: filled(README.read_text(encoding="utf-8"), found),
        RECORDING: drawn(found["demo"]),
        PICTURE: items_over_gap(),
        BADGES: badges(),
    }


def gap() -> dict[str, Any]:
    """What `python benchmarks/gap.py` measured."""
    return dict(json.loads((KEPT.parent / "gap.json").read_text(encoding="utf-8")))


def items_over_gap() -> str:
    """The picture of the README."""
    sys.path.insert(0, str(Path(__file__).parent))
    import evidence

    return evidence.items_over_gap(gap())


def said_of_gap() -> str:
    """The picture in words: each class of gaps in numbers, without a judgement."""
    measured = gap()
    gaps = measured["gaps"]
    rows = [
        "| points apart | with a bank | with a bank of weaker models | without | `--limit` "
        "| t-test at the end |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for n in (1, 3, 4):
        cells = [f"{gaps[n]['from']:g} to {gaps[n + 1]['from']:g}"]
        ways = ("bank", "weaker", "none", "limit", "test")
        cells += [" / ".join(map(str, gaps[n][way])) for way in ways]
        rows.append("| " + " | ".join(cells) + " |")
    half, most = (f"{share:.0%}" for share in measured["shares"])
    return "\n".join(
        [
            f"How many of {measured['items']} items each model answers until {half} / {most} of "
            "the pairs are decided rightly:\n",
            *rows,
        ]
    )


def filled(page: str, found: dict[str, Any]) -> str:
    """The page with its outputs and claims as they were printed."""
    lines = [line for _, line in found["demo"]] + found["tutorial"]

    def shown(first: str, last: str) -> str:
        start = next(n for n, line in enumerate(lines) if re.search(first, line))
        end = next(n for n in range(start, len(lines)) if re.search(last, lines[n]))
        return "\n".join(["```text", *lines[start : end + 1], "```"])

    page = _PRINTED.sub(
        lambda m: (
            f"<!-- printed: {m[1]} .. {m[2]} -->\n{shown(m[1], m[2])}\n<!-- end of printed -->"
        ),
        page,
    )
    page = _GAP.sub(lambda _: f"<!-- gap -->\n{said_of_gap()}\n<!-- end of gap -->", page)
    said = claim(lines, found["with_bank"], found["without_bank"])
    return _CLAIM.sub(lambda _: f"<!-- claim -->\n{said}\n<!-- end of claim -->", page)


def claim(lines: list[str], with_bank: list[int], without_bank: list[int]) -> str:
    """What the demo found, and what it took with the bank and without, by seed."""
    text = "\n".join(lines)
    [documents] = re.findall(r"^(\d+) docstrings", text)
    [known] = re.findall(r"^Full runs of (\d+) known", text, re.M)
    [[decided, pairs, right, answers, full]] = re.findall(
        r"^(\d+) of (\d+) pairs were decided, (\d+) of them correctly, with (\d+) answers "
        r"instead of (\d+)",
        text,
        re.M,
    )
    models = int(full) // int(documents)
    which = "all" if right == decided else right
    least = ", the cheapest of these" if with_bank[0] == min(with_bank) else ""
    middle, middle_without = median(with_bank), median(without_bank)
    saved = "" if middle < middle_without else ", so here the bank saves none"
    return (
        f"The demo ranks {models} models on {int(documents):,} items. With a *bank*, made of full "
        f"runs of {known} other models ({int(known) * int(documents):,} answers, paid once),\nit "
        f"takes {middle:.0f} answers instead of {int(full):,}: the median of {len(with_bank)} "
        f"random seeds, which take {min(with_bank)} to {max(with_bank)}. Without a bank it takes\n"
        f"{middle_without:.0f} ({min(without_bank)} to {max(without_bank)}){saved}. The recording "
        f"shows seed 0{least}: {answers} answers decide {decided} of {pairs} pairs\nof models, "
        f"{which} of them rightly."
    )


def badges() -> str:
    """The facts of pyproject.toml that a reader looks for first, as one row of badges."""
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [text.rpartition(" ")[2] for text in facts["classifiers"] if ":: 3." in text]
    [harness] = [text for text in facts["dependencies"] if text.startswith("lm-eval>")]
    labels = (
        ("python", f"{pythons[0]} to {pythons[-1]}"),
        ("lm-eval", harness.removeprefix("lm-eval").replace(">=", "").replace(",<", " to below ")),
        ("licence", facts["license"]),
    )
    parts, left = [], 0.0
    for name, value in labels:
        for text, colour in ((name, "#4a5361"), (value, "#1f5fbf")):
            width = round(6.6 * len(text) + 14)
            parts.append(
                f'<rect x="{left:g}" width="{width}" height="20" fill="{colour}"/>'
                f'<text x="{left + width / 2:g}" y="14" text-anchor="middle">{escape(text)}</text>'
            )
            left += width
        left += 8
    words = escape("; ".join(f"{name} {value}" for name, value in labels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left - 8:g}" height="20" role="img" '
        f'aria-label="{words}" font-family="Verdana, DejaVu Sans, sans-serif" font-size="11" '
        'fill="#ffffff">\n' + "\n".join(parts) + "\n</svg>\n"
    )


# -- the recording --------------------------------------------------------------------------------

_COLUMNS, _ROWS, _WIDE, _HIGH, _EDGE = 100, 30, 7.23, 16, 14
_SECONDS = 15.0


def drawn(demo: list[list[Any]]) -> str:
    """An SVG terminal in which the demo's lines appear at their seconds, slowed to fifteen."""
    rows: list[tuple[float, str]] = [(0.0, "$ lm-eval-ccat demo --dir demo")]
    pace = (_SECONDS - 4) / demo[-1][0]
    for seconds, line in demo:
        cut = [line[n : n + _COLUMNS] for n in range(0, len(line), _COLUMNS)] or [""]
        rows += [(1 + seconds * pace, part) for part in cut]
    width = round(_COLUMNS * _WIDE + 2 * _EDGE)
    height = _ROWS * _HIGH + 2 * _EDGE
    shown, texts, moves = [], [], []
    for n, (seconds, line) in enumerate(rows):
        style = f"animation-delay:{seconds:.1f}s"
        y = _EDGE + 12 + n * _HIGH
        texts.append(f'<text x="{_EDGE}" y="{y}" style="{style}">{escape(line)}</text>')
        up = max(0, n + 1 - _ROWS) * _HIGH
        moves.append((min(100.0, 100 * seconds / _SECONDS), up))
    for share, up in dict(moves).items():
        shown.append(f"{share:.2f}%{{transform:translateY(-{up}px)}}")
    last = moves[-1][1]
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
width="{width}" height="{height}" role="img" aria-label="A terminal in which the demo runs">
<style>
text{{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d7dce2;white-space:pre;\
animation:show .01s both}}
g{{transform:translateY(-{last}px);animation:move {_SECONDS:g}s step-end}}
@keyframes show{{from{{opacity:0}}to{{opacity:1}}}}
@keyframes move{{{"".join(shown)}100%{{transform:translateY(-{last}px)}}}}
@media(prefers-reduced-motion:reduce){{text,g{{animation:none}}}}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#16191d"/>
<svg x="0" y="{_EDGE - 4}" width="{width}" height="{height - 2 * _EDGE + 8}" \
viewBox="0 {_EDGE - 4} {width} {height - 2 * _EDGE + 8}">
<g>
{chr(10).join(texts)}
</g>
</svg>
</svg>
"""


# -- making ---------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """The variables of the tutorial's commands."""
    scripts = str(Path(sys.executable).parent)
    variables = {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"]}
    return variables | {"COLUMNS": str(_COLUMNS), "PYTHONUNBUFFERED": "1"}


def run(folder: Path) -> dict[str, Any]:
    """What the tutorial's commands print, typed in order in this folder."""
    sys.path.insert(0, str(ROOT / "tests" / "docs"))
    from pages import blocks

    printed: list[list[tuple[float, str]]] = []
    for block in blocks(TUTORIAL):
        if block.title is not None:
            (folder / block.title).write_text(block.code, encoding="utf-8")
        elif block.language == "bash":
            start = time.monotonic()
            command = subprocess.Popen(
                ["bash", "-eu", "-c", block.code], cwd=folder, env=environment(), text=True,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            lines = command.stdout or ()
            printed.append([(time.monotonic() - start, line.rstrip()) for line in lines])
            if command.wait() not in block.exits:
                raise SystemExit(f"{block.code}ended with {command.returncode}")
    demo, *rest = printed
    return {
        "demo": [[round(seconds, 1), line] for seconds, line in demo],
        "tutorial": [line for lines in rest for _, line in lines],
    }


def by_seed(folder: Path) -> dict[str, list[int]]:
    """How many answers the demo's ranking takes with its bank and without, by seed."""
    with_bank = (folder / "demo" / "rank.yaml").read_text(encoding="utf-8")
    bank_free = re.sub(r"^bank:.*\n", "", with_bank, flags=re.M)
    return {
        name: [
            _answers_of_demo(folder / "demo", f"{name}-{seed}", f"{config}seed: {seed}\n")
            for seed in (0, *OTHER_SEEDS)
        ]
        for name, config in (("with_bank", with_bank), ("without_bank", bank_free))
    }


def _answers_of_demo(folder: Path, name: str, config: str) -> int:
    """How many answers a ranking of the demo's models takes."""
    (folder / f"{name}.yaml").write_text(config, encoding="utf-8")
    command_line = ["lm-eval-ccat", "rank", f"{name}.yaml", "--yes"]
    subprocess.run(command_line, cwd=folder, env=environment(), check=True, capture_output=True)
    result = json.loads((folder / f"{name}.run" / "result.json").read_text(encoding="utf-8"))
    return int(result["items_administered"])


def write() -> None:
    """Write every page anew."""
    for path, content in pages(kept()).items():
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        with tempfile.TemporaryDirectory() as folder:
            found = run(Path(folder)) | by_seed(Path(folder))
        KEPT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write()
