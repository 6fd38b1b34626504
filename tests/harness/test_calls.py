"""Calls that a thread makes."""

import queue
import threading
import time

from lm_eval_ccat.harness.calls import Calls


def test_calls_that_come_while_a_thread_gathers_are_made_together():
    calls, came, began = Calls("clock", max_threads=1), queue.SimpleQueue(), time.monotonic()
    for _ in range(3):
        calls.start(came.put, time.monotonic, gather=0.5)
    first, *others = (came.get(timeout=10) for _ in range(3))
    calls.close()
    assert first - began >= 0.5 and max(others) - first < 0.5


def test_calls_are_made_by_further_threads_while_others_are_busy():
    calls, came, gate = Calls("gate"), queue.SimpleQueue(), queue.SimpleQueue()
    calls.start(came.put, gate.get)
    calls.start(came.put, gate.put, "open")
    assert {came.get(timeout=10), came.get(timeout=10)} == {"open", None}
    calls.close()


def test_of_calls_at_most_so_many_are_made_at_once_and_their_threads_end():
    calls, came, gates = Calls("few", max_threads=2), queue.SimpleQueue(), queue.SimpleQueue()
    for _ in range(5):
        calls.start(came.put, gates.get)
    threads = [thread for thread in threading.enumerate() if thread.name == "few"]
    assert len(threads) == 2
    calls.close()
    for _ in range(5):
        gates.put("open")
    assert [came.get(timeout=10) for _ in range(5)] == ["open"] * 5
    for thread in threads:
        thread.join(timeout=10)
        assert not thread.is_alive()
