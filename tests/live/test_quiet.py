"""Rankings leave the process's logging, bars and standard output as they were."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Any

from tqdm import std

from lm_eval_ccat.live.quiet import quiet_harness


def state() -> list[Any]:
    root, harness = logging.getLogger(), logging.getLogger("lm_eval")
    return [
        root.handlers[:], root.level, harness.handlers[:], harness.propagate, harness.level,
        logging.raiseExceptions, sys.stdout, std.tqdm.__dict__["__init__"], warnings.filters[:],
    ]  # fmt: skip


def test_rankings_that_overlap_leave_everything_as_it_was():
    before = state()
    told: list[str] = []
    first, second = quiet_harness(None, told.append), quiet_harness(None, told.append)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # as it ends in another thread
    logging.getLogger("any").warning("still heard")
    assert told == ["still heard"] and sys.stdout is sys.stderr
    second.__exit__(None, None, None)
    assert state() == before


def test_the_log_is_its_owners_alone_and_safe_to_print(tmp_path):
    log = tmp_path / "run.log"
    with quiet_harness(log, lambda text: None):
        assert os.name != "posix" or log.stat().st_mode & 0o077 == 0
        logging.getLogger("any").warning("title \x1b]0;gone\x07 and \rover")
    assert "title ␛]0;gone␇ and ␍over" in log.read_text("utf-8")
