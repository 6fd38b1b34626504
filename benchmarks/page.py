"""How long the page of a large run takes: to write, and to open in a headless Chromium.

    python benchmarks/page.py [--models 500] [--documents 5000] [--answers 7500] [--method default]

Prints both, the size of the page, and the time until a search has its first results. Making the run
takes minutes and is not counted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "report")]


def browser(folder: Path) -> Any:
    """A headless Chromium, or None where there is none."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        return None
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(driver))


def main() -> None:
    from synthetic import make_run

    from lm_eval_ccat.report import write_report

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--answers", type=int, default=7500)
    parser.add_argument("--method", default="paper")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(
            Path(folder) / "run", args.models, args.documents, args.answers, hostile=False,
            method=args.method, n_calibration=20,
        )  # fmt: skip
        began, cpu = time.perf_counter(), time.process_time()
        page = write_report(run)
        print(f"write: {time.perf_counter() - began:.1f} s ({time.process_time() - cpu:.1f} s cpu)")
        print(f"size: {page.stat().st_size / 1e6:.1f} MB")
        chrome = browser(Path(folder) / "profile")
        if chrome is None:
            print("open: not measured, there is no Chromium here")
            return
        chrome.get(page.as_uri())
        loaded = chrome.execute_script(
            "return performance.getEntriesByType('navigation')[0].loadEventEnd"
        )
        searched = chrome.execute_script(
            "const t = performance.now(); document.getElementById('q').value = 'thunder';"
            "document.getElementById('doc-form').requestSubmit(); return performance.now() - t"
        )
        print(f"open: {loaded / 1000:.2f} s; search: {searched:.0f} ms")
        chrome.quit()


if __name__ == "__main__":
    main()
