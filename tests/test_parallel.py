"""Work in processes: order, shared data, errors, and no processes within processes."""

from __future__ import annotations

import os

import pytest

from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.parallel import in_processes, spreading


def scaled(piece, factor):
    if piece == 17:
        raise ScoreTableError("piece 17 is broken")
    return piece * factor, os.getpid()


def nested(piece, _):
    return [pid for _, pid in in_processes(scaled, [1, 2], 1, processes=2)], os.getpid()


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_pieces_and_errors_as_they_are(processes):
    results = in_processes(scaled, range(20), 3, processes)
    values, pids = zip(*(next(results) for _ in range(17)))
    assert values == tuple(range(0, 51, 3))
    assert (os.getpid() in pids) == (processes == 1)
    with pytest.raises(ScoreTableError, match="piece 17 is broken"):
        next(results)


def test_a_worker_starts_no_workers_and_leaving_early_ends_it():
    results = in_processes(nested, list(range(50)), processes=2)
    for _ in range(3):
        pids, outer = next(results)
        assert set(pids) == {outer}
    results.close()  # hangs or leaves processes behind if the pool is not shut down


def test_pieces_go_where_they_are_spread_unless_they_are_near():
    def elsewhere(work, pieces, shared):
        return (("elsewhere", work(piece, shared)) for piece in pieces)

    with spreading(elsewhere):
        assert list(in_processes(pow, [2, 3], 2)) == [("elsewhere", 4), ("elsewhere", 9)]
        assert list(in_processes(pow, [2, 3], 2, processes=1, near=True)) == [4, 9]
    assert list(in_processes(pow, [2, 3], 2, processes=1)) == [4, 9]
