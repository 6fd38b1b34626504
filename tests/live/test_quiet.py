"""Rankings leave the process's logging, bars and standard output as they were."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Any

import pytest
from tqdm import std

from lm_eval_ccat.live.quiet import quiet_harness
from lm_eval_ccat.masking import forget, remember


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


def test_no_bar_is_drawn_whatever_its_caller_says(capsys):
    with quiet_harness(None, lambda text: None):
        for disable in (None, False, True):
            # As the hub's downloads do: None stands for a bar on a terminal.
            std.tqdm([], desc="a file", disable=disable, file=Terminal()).close()
    assert "a file" not in capsys.readouterr().err
    std.tqdm([], desc="a file", disable=None, file=Terminal()).close()
    assert "a file" in capsys.readouterr().err


class Terminal:
    """Standard error, as a terminal."""

    def __getattr__(self, name):
        return getattr(sys.stderr, name)

    def isatty(self):
        return True


def test_lines_of_ray_stand_in_the_log_and_not_on_the_terminal(tmp_path):
    told: list[str] = []
    with quiet_harness(tmp_path / "run.log", told.append):
        logging.getLogger("ray._private.worker").warning("a raylet died")
        logging.getLogger("any").warning("a model died")
    log = (tmp_path / "run.log").read_text()
    assert "a raylet died" in log and told == ["a model died"]


def test_what_the_hubs_library_prints_itself_is_told_once(capsys):
    pytest.importorskip("huggingface_hub.utils.logging")
    hub, told = logging.getLogger("huggingface_hub"), []
    before = hub.handlers[:]
    assert before
    with quiet_harness(None, told.append):
        logging.getLogger("huggingface_hub.utils").warning("Retrying in 1s")
    assert told == ["Retrying in 1s"] and "Retrying" not in capsys.readouterr().err
    assert hub.handlers == before


def test_the_log_is_its_owners_alone_and_safe_to_print(tmp_path):
    log = tmp_path / "run.log"
    with quiet_harness(log, lambda text: None):
        assert os.name != "posix" or log.stat().st_mode & 0o077 == 0
        logging.getLogger("any").warning("title \x1b]0;gone\x07 and \rover")
    assert "title ␛]0;gone␇ and ␍over" in log.read_text("utf-8")


def test_a_warning_is_told_once_and_logged_whenever_it_is_given(tmp_path):
    told: list[str] = []
    with quiet_harness(tmp_path / "run.log", told.append):
        for model in ("a", "b"):
            logging.getLogger(model).warning("the server is slow")
        logging.getLogger("a").error("the server is gone")
    assert told == ["the server is slow", "the server is gone"]
    assert (tmp_path / "run.log").read_text("utf-8").count("the server is slow") == 2


def test_a_traceback_in_the_log_has_no_credentials(tmp_path):
    key = "sk-7f3a9b2c1d"
    remember({"api_key": key})
    try:
        with quiet_harness(tmp_path / "run.log", lambda text: None):
            try:
                raise ValueError(f"{key} is refused")
            except ValueError:
                logging.getLogger("any").exception("no answer")
    finally:
        forget()
    log = (tmp_path / "run.log").read_text("utf-8")
    assert "ValueError: *** is refused" in log and key not in log
