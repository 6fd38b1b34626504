"""Shared by all tests: where the real data lie, a real browser, and quiet threads."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import runpy
import shutil
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# No limit in seconds: a busy machine fails no test.
for profile, examples in {"fixed": 30, "random": 100}.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
settings.load_profile("fixed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The same examples every time; ``--hypothesis-profile=random`` draws others."""
    option = config.option
    if option.hypothesis_profile != "random" and option.hypothesis_seed is None:
        option.hypothesis_seed = "20"


#: Files and folders that one worker runs, as they share what takes long to make (the tutorial's
#: folder), to start (a browser) or to import (PyTorch and transformers). The longest come first.
TOGETHER = {
    "tests/board/test_site.py": "browser",
    "tests/report/test_browser.py": "browser",
    "tests/report/test_page.py": "browser",
    "tests/docs/test_docs.py": "tutorial",
    "tests/task_configs/": "weights",
    "tests/harness/test_batches.py": "weights",
    "tests/harness/test_contract.py": "weights",
    "tests/live/test_local_weights.py": "weights",
    "tests/metrics/test_text_metrics.py": "weights",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """With ``-n auto`` half as many workers again as processors: live runs wait for servers."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return 3 * (os.cpu_count() or 1) // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One worker runs all tests of a file: what they share is made once, not by each worker."""
    if config.option.dist != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return next((of for place, of in TOGETHER.items() if file.startswith(place)), file)

    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "play every N-th of the files, beginning with the K-th"
    parser.addoption("--part", default="1/1", metavar="K/N", help=about)


FILES = sorted(Path(__file__).parent.rglob("test_*.py"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of other parts are not imported either."""
    part, n_parts = map(int, config.getoption("part").split("/"))
    elsewhere = collection_path in FILES and FILES.index(collection_path) % n_parts != part - 1
    return elsewhere or None


#: What most tests import and takes long to compile.
LARGE = ("scipy.stats", "pandas", "requests", "datasets", "aiohttp", "sacrebleu")


def turned(config: pytest.Config, places: Sequence[Any]) -> list[Any]:
    """The places in an order that begins elsewhere in each worker: a module is compiled by the
    first that comes to it, not by all at once.
    """
    worker = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    first = int(worker["workerid"][2:]) * len(places) // worker["workercount"]
    return [*places[first:], *places[:first]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput") and config.args == config.getini("testpaths"):
        for package in turned(config, LARGE):
            importlib.import_module(package)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[Any, Any, Any]:
    report = yield
    if isinstance(collector, pytest.Directory):
        report.result = turned(collector.config, report.result)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, Any, Any]:
    """What takes longest comes first. Of each property a third of the examples is drawn;
    ``--hypothesis-profile=random`` draws them all.
    """
    items.sort(key=lambda item: item.path)  # in every worker the same, whatever it collected first
    selected = yield
    items.sort(key=lambda i: not i.nodeid.startswith(tuple(TOGETHER)))
    properties = {getattr(i.obj, "__func__", i.obj) for i in items if hasattr(i, "obj")}
    for test in properties if config.option.hypothesis_profile != "random" else ():
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > 30:
            fewer = settings(own, max_examples=max(10, own.max_examples // 3))
            test._hypothesis_internal_use_settings = fewer
    return selected


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """The harness logs to what was the standard error when it was first asked to: a closed file."""
    for handler in logging.getLogger("lm_eval").handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream.closed:
            handler.stream = sys.__stderr__


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file's tests imported is not looked through again whenever garbage is collected."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


# A run asks whether the heap is frozen, and freezes it; to count what is takes a tenth of a second.
gc.get_freeze_count = lambda: 1

# Compiled once, and not by each worker and each child, wherever they may be told to keep nothing.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ["DISABLE_MULTIPROC"] = "1"  # the harness resamples in as many processes as cores

# Files of tests lie in memory where there is room: journals wait for the disk at every record.
if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")

# The index of the harness's task files is built once for all tests, their children and later runs.
QUICK = Path(__file__).parent / "quick"
if "CCAT_TESTS_INDEX" not in os.environ:
    kept = QUICK.parents[1] / ".pytest_cache"
    kept.mkdir(exist_ok=True)
    os.environ["CCAT_TESTS_INDEX"] = str(kept / "tasks.pickle")
    others = filter(None, [os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join([str(QUICK), *others])
    runpy.run_path(str(QUICK / "sitecustomize.py"))

# A shell starts background jobs with SIGINT ignored, and children inherit that: tests of Ctrl-C
# would then wait for ever.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def ccat(capsys):
    """Runs a command line that ends with this code, or one of these; what it said, out and err."""

    def run(*words, code=0):
        from lm_eval_ccat.cli.main import main

        capsys.readouterr()
        assert main([str(word) for word in words]) in (code if isinstance(code, tuple) else (code,))
        return capsys.readouterr()

    return run


@pytest.fixture
def few_plays(monkeypatch):
    """A plan plays two rankings, not eight to twenty, and reads errors of 220 items of two pairs,
    not of 400 items of six: for tests of what else a plan says.
    """
    from lm_eval_ccat.live import rehearsal
    from lm_eval_ccat.simulation import power

    monkeypatch.setattr(rehearsal, "FEWEST_RANKINGS", 2)
    monkeypatch.setattr(rehearsal, "MOST_RANKINGS", 2)
    monkeypatch.setattr(power, "N_RANKINGS", 2)
    monkeypatch.setattr(power, "STOPS", tuple(n for n in power.STOPS if n <= 220))


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
