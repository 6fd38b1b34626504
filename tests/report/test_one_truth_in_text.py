"""Terminal and Markdown say what the result says, of one task, several metrics and suites."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console
from suites import make_suite
from synthetic import make_run

from lm_eval_ccat.live.result import state
from lm_eval_ccat.ranker.headline import headline
from lm_eval_ccat.report import read_run
from lm_eval_ccat.report.terminal import print_result

RUNS = {
    "plain": lambda path: make_run(path, n_models=4, n_items=90, budget=110, hostile=False),
    "draws": lambda path: make_run(
        path, n_models=4, n_items=90, budget=120, hostile=False, method="default", audit=0.2,
        eventful=True,
    ),
    "running": lambda path: make_run(
        path, n_models=3, n_items=60, budget=60, hostile=False, finished=False
    ),
    "metrics": make_suite,
    "tasks": lambda path: make_suite(path, tasks=("one", "two"), metrics=("share",)),
}  # fmt: skip


@pytest.fixture(scope="module", params=RUNS)
def found(request, tmp_path_factory):
    """What `rank RUN_DIR` shows, and the run as page and plots read it."""
    folder = tmp_path_factory.mktemp("text") / "run"
    RUNS[request.param](folder)
    return state(folder), read_run(folder)


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_state_and_page_hold_the_same_result(found) -> None:
    now, run = json.loads(json.dumps(found[0].content)), found[1]
    keys = ("order", "ranking", "models", "pairwise", "ties", "open_pairs", "items_administered")
    for key in keys:
        if key == "models":
            same = {k for block in run.result["models"].values() for k in block}
            for m, block in run.result["models"].items():
                assert {k: now["models"][m][k] for k in same} == block
        else:
            assert now[key] == run.result[key]


def test_the_terminal_says_what_the_result_says(found) -> None:
    content, result = found[0].content, found[1].result
    out = io.StringIO()
    print_result(Console(file=out, width=200, no_color=True, highlight=False), content)
    shown = out.getvalue()
    assert shown.startswith(headline(result))
    table = shown.split("vs next")[1]
    for m, block in result["models"].items():
        row = next(line for line in table.splitlines() if re.search(rf"\b{m}\b", line)).split()
        at = row.index(m)
        assert row[0].rstrip("=") == str(block["rank"] or "-")
        if not block["n_items"]:
            continue
        low, high = block["interval"]
        values = [number(row[at + k]) for k in (1, 2, 4)]
        assert values == pytest.approx([block["estimate"], low, high], abs=0.051)
        assert str(block["n_items"]) in row[at + 5 :]
    for pair in result["open_pairs"][:1]:
        more = " and ".join(f"{n:,} of {m}" for m, n in pair["items"].items())
        assert f"{pair['a']} over {pair['b']}" in shown and more in shown


def test_markdown_says_what_the_result_says(found) -> None:
    text, result = found[0].to_markdown(), found[1].result
    head, _, *rows = [line for line in text.splitlines() if line.startswith("|")]
    columns = [c.strip() for c in head.strip("|").split("|")]
    seen = {}
    for line in rows:
        cells = dict(zip(columns, (c.strip() for c in line.strip("|").split("|"))))
        seen[cells["model"]] = cells
    assert list(seen) == [m for m in found[1].models if m in seen] and set(seen) == set(
        result["models"]
    )
    for m, cells in seen.items():
        block = result["models"][m]
        if block["n_items"]:
            assert number(cells["estimate"]) == pytest.approx(block["estimate"], rel=1e-3)
            assert number(cells["items"]) == block["n_items"]
