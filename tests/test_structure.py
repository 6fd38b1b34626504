"""The structure holds: parts know only parts to their right, and light commands stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lm_eval_ccat

ROOT = Path(lm_eval_ccat.__file__).parent
PARTS = [
    {"cli", "demo"},
    {"harness", "runs", "simulation", "report"},
    {"ranker"},
    {"adaptive"},
    {"bank"},
    {"response", "scores", "metrics"},
]
LAYER = {part: i for i, parts in enumerate(PARTS) for part in parts}
CORE = {"ranker", "adaptive", "bank", "response", "scores", "metrics"}
HEAVY = ("torch", "datasets", "pandas", "scipy.stats", "lm_eval", "transformers", "evaluate")


def imports(path: Path, top_level_only: bool = False):
    """Absolute names imported by a module, with relative imports resolved."""
    package = ["lm_eval_ccat", *path.relative_to(ROOT).parts[:-1]]
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{stem}.{a.name}" for a in node.names)


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_part_imports_only_from_parts_to_its_right(path):
    part = path.relative_to(ROOT).parts[0]
    for name in imports(path):
        pieces = name.split(".")
        if pieces[0] != "lm_eval_ccat" or len(pieces) < 2 or pieces[1] not in LAYER:
            continue
        if part in LAYER:
            assert pieces[1] == part or LAYER[pieces[1]] >= LAYER[part], f"{part} imports {name}"
        if part in CORE:
            assert pieces[1] in CORE


@pytest.mark.parametrize("part", sorted(CORE))
def test_the_core_knows_no_harness_clock_or_network(part):
    banned = {"lm_eval", "time", "datetime", "requests", "urllib", "socket", "http", "asyncio"}
    for path in (ROOT / part).rglob("*.py"):
        for name in imports(path):
            assert name.split(".")[0] not in banned, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_harness_part_knows_the_harness(path):
    part = path.relative_to(ROOT).parts[0]
    if part in {"harness", "demo"}:
        return
    top = [n for n in imports(path, top_level_only=True) if n.split(".")[0] == "lm_eval"]
    assert not top, f"{path.name} imports {top}"


LIGHT = [
    "import lm_eval_ccat",
    "from lm_eval_ccat import ScoreTable, ItemBank, calibrate, Ranker, simulate",
    "from lm_eval_ccat.cli.main import main; main(['--help'])",
    "from lm_eval_ccat.cli.main import main; main(['calibrate', '--help'])",
    "from lm_eval_ccat.cli.main import main; main(['bank', '--help'])",
    "from lm_eval_ccat.cli.main import main; main(['simulate', '--help'])",
    "from lm_eval_ccat.cli.main import main; main(['rank', '--help'])",
]


@pytest.mark.parametrize("code", LIGHT)
def test_light_commands_import_nothing_heavy(code):
    script = (
        "import sys\ntry:\n    exec(sys.argv[1])\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "HEAVY []" in done.stdout, done.stdout
