"""Reading a long run takes few bytes an answer, whatever is done with it."""

from __future__ import annotations

import gc
import shutil
import tracemalloc

import pytest

from benchmarks.journal import resume, write_run
from lm_eval_ccat.live.verify import verify
from lm_eval_ccat.report import write_report

FEW, MANY = 400, 1000


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run directories, by their number of answers of some 300 characters."""
    folders = {n: tmp_path_factory.mktemp("runs") / str(n) for n in (FEW, MANY)}
    for n, folder in folders.items():
        write_run(folder, n)
    write_report(folders[FEW])  # loads code
    return folders


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "bytes_an_answer"), [(write_report, 250), (verify, 280), (resume, 225)]
)
def test_a_reader_holds_no_answers(runs, monkeypatch, tmp_path, command, bytes_an_answer):
    monkeypatch.setattr("lm_eval_ccat.report.page.TEXT_BUDGET", 120 * 100)  # texts on the page
    monkeypatch.setattr("lm_eval_ccat.report.stored_run.CHECKPOINTS", 3)
    peaks = []
    for folder in runs.values():
        copy = shutil.copytree(folder, tmp_path / str(len(peaks)))
        gc.collect()
        tracemalloc.start()
        try:
            command(copy)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / (MANY - FEW) < bytes_an_answer
