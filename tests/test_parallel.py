"""Work in processes: order, shared data, errors, and no processes within processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.parallel import in_processes


def scaled(piece, shared):
    return piece * shared["factor"], os.getpid()


def failing(piece, shared):
    if piece == 3:
        raise ScoreTableError("piece 3 is broken")
    return piece


def nested(piece, shared):
    return [pid for _, pid in in_processes(scaled, [1, 2], {"factor": 1}, processes=2)], os.getpid()


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_pieces(processes):
    found = list(in_processes(scaled, list(range(20)), {"factor": 3}, processes))
    assert [value for value, _ in found] == [3 * n for n in range(20)]
    assert (os.getpid() in {pid for _, pid in found}) == (processes == 1)


def test_an_error_keeps_its_type_and_message():
    with pytest.raises(ScoreTableError, match="piece 3 is broken"):
        list(in_processes(failing, list(range(8)), processes=2))


def test_a_worker_starts_no_workers():
    for pids, own in in_processes(nested, [1, 2, 3], processes=2):
        assert set(pids) == {own}


def test_leaving_early_ends_the_workers():
    results = in_processes(scaled, list(range(50)), {"factor": 1}, 2)
    next(results)
    results.close()  # hangs or leaves processes behind if the pool is not shut down


def test_a_script_without_a_main_guard_works(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import operator\n"
        "from lm_eval_ccat.parallel import in_processes\n"
        "print(sum(in_processes(operator.mul, [1, 2, 3], 10, processes=2)))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "60", done.stderr
