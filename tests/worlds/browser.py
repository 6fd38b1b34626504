"""A page in the browser of the tests: opened at a size, asked by a script, waited for."""

from __future__ import annotations

import time
from itertools import pairwise

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


def fits(browser, page, size, dark):
    """Open a page at a size; it does not scroll sideways, and is as dark as asked for."""
    show(browser, page, size, dark)
    assert run(browser, "return document.documentElement.scrollWidth") <= size[0]
    colour = run(browser, "return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, colour.removeprefix("rgb(").rstrip(")").split(","))) < 200) == dark


def everything_is_named(browser):
    """What acts can be reached and is named, in the browser's own accessibility tree."""
    browser.execute_cdp_cmd("Accessibility.enable", {})
    roles: dict[str, list[str]] = {}
    for node in browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]:
        if not node.get("ignored"):
            name = node.get("name", {}).get("value", "")
            roles.setdefault(node["role"]["value"], []).append(name)
    for role in ("button", "link", "combobox", "searchbox", "table", "image"):
        assert roles.get(role) and all(roles[role]), role
    heads = run(browser, "return [...document.querySelectorAll('h1,h2,h3')].map(h => h.tagName)")
    levels = [int(tag[1]) for tag in heads]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    return set(roles)
