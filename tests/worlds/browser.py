"""A page in the browser of the tests: opened at a size, asked by a script, waited for."""

from __future__ import annotations

import time

DESKTOP, PHONE = (1200, 900), (390, 844)


def show(browser, page, size=DESKTOP, dark=False):
    """Open a page at a size; fails on anything the console complains of."""
    browser.get_log("browser")  # what an earlier page left
    command = browser.execute_cdp_cmd
    command(
        "Emulation.setDeviceMetricsOverride",
        {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE},
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    command("Emulation.setEmulatedMedia", {"media": "", "features": [scheme]})
    browser.get(page.as_uri())
    complaints(browser)


def complaints(browser):
    assert browser.get_log("browser") == []


def run(browser, script, *arguments):
    return browser.execute_script(script, *arguments)


def until(browser, script):
    """Wait until a script returns something true."""
    for _ in range(100):
        if found := run(browser, script):
            return found
        time.sleep(0.05)
    raise AssertionError(f"never became true: {script}")


def column(browser, table, number):
    return run(
        browser,
        "return [...document.querySelector(arguments[0]).tBodies[0].rows]"
        ".map((r) => r.cells[arguments[1]].innerText.trim())",
        table,
        number,
    )
