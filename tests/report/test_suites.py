"""Pages of rankings over several metrics, and over several tasks."""

from __future__ import annotations

import json
import re

import pytest
from suites import make_suite

from lm_eval_ccat.report import read_run
from lm_eval_ccat.report.page import render
from lm_eval_ccat.report.parts import parts as parts_of

KINDS = {
    "metrics": {"metrics": ("share", "errors")},
    "tasks": {"tasks": ("summaries_long", "dialogues"), "metrics": ("share",)},
    "both, running": {"tasks": ("one", "two"), "finished": False, "n_items": 40, "budget": 60},
    "by a sample": {"method": "sample"},
}


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory):
    return read_run(make_suite(tmp_path_factory.mktemp("suite") / "run", **KINDS[request.param]))


@pytest.fixture(scope="module")
def html(run):
    return render(run)


def test_every_part_of_the_result_is_on_the_page(run, html) -> None:
    parts, result = parts_of(run.result), run.result
    found = {**(result.get("tasks") or {}), **(result.get("outcomes") or {})}
    assert [c.name for c in parts.columns] == list(found)
    assert list(parts.rows) == result["order"]
    for name, cells in parts.rows.items():
        for cell, block in zip(cells, found.values()):
            one = block["models"][name]
            assert cell.value == one["estimate"]
            assert float(cell.estimate) == pytest.approx(one["estimate"], rel=0.05, abs=0.01)
            assert cell.rank == str(one["rank"])
    assert 'id="parts"' in html
    for block in found.values():
        assert block["ranking"].replace(">", "&gt;") in html


def test_documents_keep_their_task_prompt_and_expected_score(run, html) -> None:
    [data] = re.findall(r'id="data">(.*?)</script>', html)
    docs = json.loads(data)["docs"]
    several = len(run.header["report"]["outcomes"]) > 1
    names = {d["id"] for d in docs}
    assert len(names) == len(docs) == len({a.doc for a in run.answers})
    assert all((": " in name) == several for name in names)
    for doc in docs:
        task, _, number = doc["id"].rpartition(": ")
        assert doc["p"][0].startswith(f"Prompt {number} of {task}")
        for *_, expected, text, _ in doc["a"]:
            assert 0.0 <= expected <= 1.0
            assert text.endswith(f"to {number}") and task in text
