"""Run directories to report on, and a real browser to look at the pages with."""

from __future__ import annotations

import shutil

import pytest
from synthetic import make_run

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --hide-scrollbars"
).split()


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory):
    """A finished run of six models, whose outputs and names are hostile."""
    return make_run(tmp_path_factory.mktemp("runs") / "hostile")


@pytest.fixture(scope="session")
def decided_dir(tmp_path_factory):
    """A finished run of three models by the method "default", without prices."""
    folder = tmp_path_factory.mktemp("runs") / "decided"
    return make_run(
        folder,
        n_models=3,
        n_items=120,
        budget=90,
        seed=4,
        hostile=False,
        prices=False,
        method="default",
    )


@pytest.fixture(scope="session")
def many_dir(tmp_path_factory):
    """A run of 120 models over a thousand documents."""
    folder = tmp_path_factory.mktemp("runs") / "many"
    return make_run(
        folder, n_models=120, n_items=1000, budget=1400, hostile=False, n_calibration=20
    )


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
