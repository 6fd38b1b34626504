"""Run directories that version 0.1.0 wrote still open, and go on."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import pytest
from worlds.journals import Teller

from lm_eval_ccat.errors import RunError
from lm_eval_ccat.runs.directory import RunDirectory, rebuild

FIXTURES = Path(__file__).parent / "format1"


@pytest.mark.parametrize("method", ["paper", "default"])
def test_a_directory_of_format_1_opens_as_it_was_left(method, tmp_path):
    folder = shutil.copytree(FIXTURES / method, tmp_path / "run")
    ranker = rebuild(folder)
    header = ranker.journal.header
    assert header["version"] == 1
    now = ranker.ranker.result().to_dict()
    then = json.loads((folder / "state.json").read_text())
    assert now["order"] == then["order"]
    if method == "paper":  # the method default itself has learned since
        assert now["ties"] == then["ties"]
    for model, block in then["models"].items():
        mine = now["models"][model]
        for key in ("items", "failed", "cost", "set_aside"):
            assert mine[key] == block[key], (model, key)
        for key in ("estimate", "ability") if method == "paper" else ():
            assert mine[key] == pytest.approx(block[key], abs=1e-9), (model, key)
        if method == "paper":  # its errors have since been widened by the misfit of its model
            assert mine["standard_error"] > block["standard_error"], model
        assert (mine["audit"] is None) == (block["audit"] is None)
        if block["audit"]:  # its draws follow from the seed, though format 1 did not record them
            assert mine["audit"]["n"] == block["audit"]["n"] > 0
    assert len(ranker.unanswered) == 2  # asked when the process ended


def test_a_line_that_does_not_fit_its_checksum_is_damaged(tmp_path):
    """As versions between the first and the seals wrote them: a CRC-32 in each line."""
    folder = shutil.copytree(FIXTURES / "paper", tmp_path / "run")
    file = folder / "journal.jsonl"
    bodies = [line[:-1] for line in file.read_bytes().splitlines()]
    lines = [b'%s, "sum": "%08x"}' % (body, zlib.crc32(body)) for body in bodies]
    file.write_bytes(b"\n".join(lines) + b"\n")
    assert rebuild(folder).answers
    lines[5] = lines[5].replace(b'"seq": 5', b'"seq": 5 ')
    file.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(RunError, match="line 6 does not fit its checksum"):
        rebuild(folder)


def test_a_run_of_format_1_goes_on_with_seals(tmp_path):
    folder = shutil.copytree(FIXTURES / "default", tmp_path / "run")
    ranker = Teller.of(folder)
    before = ranker.journal.count
    for model, item in ranker.claims:
        ranker.answer(model, item, 0.5, 1.0)
    asked = ranker.ask(3)
    assert asked
    lines = (folder / "journal.jsonl").read_text().splitlines()
    assert '"sha256"' not in lines[before - 1] and '"sha256"' in lines[before]
    again = rebuild(folder)
    assert again.ranker.result().to_dict() == ranker.ranker.result().to_dict()
    assert [(ask.model, ask.item[1]) for ask in again.unanswered] == asked
    assert RunDirectory(folder).read_header()["version"] == 1
