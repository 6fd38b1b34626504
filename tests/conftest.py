"""Shared by all tests: where the real data lie, and quiet threads."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

# A shell starts background jobs with SIGINT ignored, and children inherit that: tests of Ctrl-C
# would then wait for ever.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(os.environ.get("CCAT_SHARED", Path(__file__).resolve().parents[1].parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real scores and reference figures; a test that needs it skips without it."""
    if not SHARED.is_dir():
        pytest.skip(f"no real scores here: {SHARED} is absent (set CCAT_SHARED)")
    return SHARED
