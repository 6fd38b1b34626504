"""Shared by all tests: where the real data lie, a real browser, and quiet threads."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No limit in seconds: a busy machine fails no test.
for profile in ("fixed", "random"):
    settings.register_profile(
        profile, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
settings.load_profile("fixed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The same examples every time; ``--hypothesis-profile=random`` draws others."""
    option = config.option
    if option.hypothesis_profile != "random" and option.hypothesis_seed is None:
        option.hypothesis_seed = "20"


os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

# A shell starts background jobs with SIGINT ignored, and children inherit that: tests of Ctrl-C
# would then wait for ever.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The harness reads its own 14,000 task files at every command: once will do."""
    module = sys.modules.get("lm_eval.tasks._index")
    build = getattr(getattr(module, "TaskIndex", None), "build", None)
    if build is None or hasattr(build, "kept"):
        return
    own = Path(module.__file__).parent
    kept: dict[str, object] = {}

    def build_once(paths, **options):
        first, *others = list(paths) or [None]
        if first != own or options:
            return build([first, *others] if first else [], **options)
        if not kept:
            kept.update(build([own]))
        index = dict(kept)
        for name, entry in build(others).items():
            if name in index:
                message = "Task '%s' from %s overrides existing task from %s"
                module.log.warning(message, name, entry.yaml_path, index[name].yaml_path)
            index[name] = entry
        return index

    build_once.kept = kept
    module.TaskIndex.build = staticmethod(build_once)


SHARED = Path(os.environ.get("CCAT_SHARED", Path(__file__).resolve().parents[1].parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real scores and reference figures; a test that needs it skips without it."""
    if not SHARED.is_dir():
        pytest.skip(f"no real scores here: {SHARED} is absent (set CCAT_SHARED)")
    return SHARED


FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --hide-scrollbars"
).split()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium; tests that need it are skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no headless browser here: install the packages chromium and chromium-driver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    made.set_script_timeout(30)
    yield made
    made.quit()
