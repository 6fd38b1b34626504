"""The page in a real headless Chromium: it renders, works, and hostile text does nothing."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from synthetic import make_run
from worlds.browser import (
    DESKTOP,
    PHONE,
    column,
    complaints,
    everything_is_named,
    fits,
    run,
    show,
    until,
)

from lm_eval_ccat import ScoreTable, compare
from lm_eval_ccat.report import write_report
from lm_eval_ccat.report.plain import comparison_page


@pytest.mark.long
@pytest.mark.parametrize(
    "size, dark",
    [(DESKTOP, False), ((700, 900), True), (PHONE, True)],
    ids=["day", "half a screen", "night"],
)
def test_it_renders_without_sideways_scrolling(browser, page, size, dark):
    fits(browser, page, size, dark)
    parts = "decision ranking pairs progress information spending documents".split()
    boxes = run(
        browser,
        "return arguments[0].map((part) => document.getElementById(part).getBoundingClientRect())"
        ".map((box) => [box.width, box.height])",
        parts,
    )
    assert all(width > 300 and height > 60 for width, height in boxes), boxes
    cut = run(
        browser,
        "return [...document.querySelectorAll('th, .chip, .ranktable td, .docs .id')]"
        ".filter((e) => e.scrollWidth > e.clientWidth + 1"
        " && getComputedStyle(e).overflowX !== 'visible').map((e) => e.textContent)",
    )
    assert cut == [], "names are whole"
    if dark:
        return
    roles = everything_is_named(browser)
    assert {"main", "banner", "navigation", "search", "contentinfo"} <= roles


def test_a_comparison_is_read_on_a_phone(browser, tmp_path):
    scores = np.random.default_rng(0).random((2, 60)).round()
    table = ScoreTable.from_arrays(scores, ["a", "b"])
    found = compare(table, table, models=("a", "b"), margin=0.01)
    answers = "What the model says of it, in a sentence of some length.", "Something else."
    [outcome] = found.outcomes
    lost = [replace(loss, answers=answers) for loss in outcome.losses]
    page = tmp_path / "page.html"
    page.write_text(comparison_page(replace(found, outcomes=[replace(outcome, losses=lost)])))
    fits(browser, page, PHONE, False)
    boxes = "return [...document.querySelectorAll({!r})].map((e) => e.getBoundingClientRect())"
    labels = run(browser, boxes.format("table.intervals thead text"))
    assert len(labels) > 3
    assert all(left["right"] < right["left"] for left, right in pairwise(labels))
    answered = run(browser, boxes.format("table.losses td:not(.num)"))
    assert answered and min(box["width"] for box in answered) > 150


def test_it_prints(browser, page):
    show(browser, page)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = "['nav', '#doc-form', '#theme', '#chips'].map((s) => document.querySelector(s))"
    assert set(run(browser, f"return {hidden}.map((e) => getComputedStyle(e).display)")) == {"none"}


def test_tables_sort_by_pointer_and_by_keyboard(browser, page):
    show(browser, page)
    heading = "return document.querySelectorAll('.ranking thead th')[{}]"
    run(browser, heading.format(3).replace("return ", "") + ".querySelector('button').click()")
    values = [float(v.split()[0]) for v in column(browser, ".ranking", 3)]
    assert values == sorted(values, reverse=True)
    assert run(browser, heading.format(3) + ".getAttribute('aria-sort')") == "descending"
    button = run(browser, heading.format(1) + ".querySelector('button')")
    button.send_keys("\n")
    names = column(browser, ".ranking", 1)
    button.send_keys("\n")
    assert names == column(browser, ".ranking", 1)[::-1]
    assert run(browser, heading.format(1) + ".getAttribute('aria-sort')") == "descending"
    assert run(browser, heading.format(3) + ".getAttribute('aria-sort')") is None
    complaints(browser)


def test_hostile_answers_do_nothing(browser, page):
    show(browser, page)
    title = browser.title
    # Open every document, and every long answer in it.
    run(
        browser,
        "let more; while (!(more = document.getElementById('more')).hidden) more.click();"
        "for (const s of document.querySelectorAll('.docs summary')) s.click();",
    )
    until(browser, "return document.querySelectorAll('.answer').length > 100")
    run(
        browser,
        "for (const b of document.querySelectorAll('.answer button'))"
        " if (b.textContent.startsWith('Show all')) b.click();",
    )
    outs = "[...document.querySelectorAll('.out')]"
    until(browser, f"return {outs}.some(p => p.textContent.length > 15000)")
    assert run(browser, "return window.pwned") is None
    assert browser.title == title
    assert run(browser, "return document.scripts.length") == 2
    active = "document.querySelectorAll('img, iframe, [onerror], [onclick]')"
    assert run(browser, f"return {active}.length") == 0
    text = run(browser, f"return {outs}.map(p => p.textContent).join('')")
    assert "<script>window.pwned = 1" in text, "shown as text"
    assert "NUL ␀" in text and "\x00" not in text
    assert "⟨U+202E⟩" in text and "\u202e" not in text
    # Hebrew and Arabic run from the right, whatever stands around them; the other answers do not.
    ways = run(
        browser,
        f"return {outs}.map((p) => [p.textContent.startsWith('שלום עולם'),"
        " getComputedStyle(p).direction])",
    )
    assert {(True, "rtl"), (False, "ltr")} == {(bool(hebrew), way) for hebrew, way in ways}
    assert run(browser, "return document.documentElement.scrollWidth") <= DESKTOP[0]
    complaints(browser)


def test_search_filters_and_says_how_many(browser, page):
    show(browser, page)
    total = run(
        browser, "return JSON.parse(document.getElementById('data').textContent).docs.length"
    )
    box = browser.find_element("id", "q")
    count = "document.getElementById('doc-count').textContent"
    box.send_keys("pwned = 3")
    until(browser, f"return !{count}.startsWith('{total} of')")
    found = int(run(browser, f"return {count}").split()[0])
    assert 0 < found < total
    items = "return document.querySelectorAll('.docs > li').length"
    assert run(browser, items) == min(found, 10)
    box.clear()
    box.send_keys("no document says this")
    until(browser, f"return {count}.startsWith('0 of')")
    assert run(browser, items) == 0


def test_two_models_can_be_compared(browser, page):
    show(browser, page)
    data = json.loads(run(browser, "return document.getElementById('data').textContent"))
    run(
        browser,
        "document.getElementById('doc-a').value = 0; document.getElementById('doc-b').value = 1;"
        "document.getElementById('doc-sort').value = 'spread';"
        "document.getElementById('doc-form').requestSubmit()",
    )
    shown = run(
        browser,
        "return [...document.querySelectorAll('.docs .id')].map((e) => e.textContent)",
    )
    units = {doc["id"]: {a[0]: a[2] for a in doc["a"]} for doc in data["docs"]}
    unit = {doc: scores for doc, scores in units.items() if {0, 1} <= set(scores)}
    gaps = [unit[d][0] - unit[d][1] for d in shown]
    assert gaps == sorted(gaps, reverse=True) and len(gaps) == min(10, len(unit))
    p = data["p"][0][0]
    assert run(browser, "return document.getElementById('pair-out').textContent").startswith(
        f"{p:.1f}".removesuffix(".0")
    )


@pytest.mark.long
def test_a_large_run_opens_and_its_pairs_are_told(browser, tmp_path):
    many = {"n_models": 40, "n_items": 200, "budget": 420, "hostile": False}
    large = write_report(make_run(tmp_path / "many", **many))
    show(browser, large)
    assert run(browser, "return document.querySelectorAll('.docs > li').length") == 10
    said = run(
        browser,
        "const c = document.getElementById('matrix'), b = c.getBoundingClientRect();"
        "c.dispatchEvent(new MouseEvent('mousemove', {clientX: b.right - 3, clientY: b.top + 3}));"
        "return document.getElementById('matrix-out').textContent",
    )
    assert "better than" in said
    show(browser, large, PHONE)
    assert run(browser, "return document.documentElement.scrollWidth") <= PHONE[0]


def test_it_is_readable_without_javascript(browser, page):
    show(browser, page)  # back from whatever another test looked at: paper, a phone
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page.as_uri())
        text = browser.find_element("tag name", "body").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "Ranking" in text and "needs JavaScript" in text


def test_the_figure_is_saved_as_it_is_drawn(browser, page):
    show(browser, page)
    run(
        browser,
        "window.saved = {}; const make = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { window.blob = blob; return make.call(URL, blob); };"
        "HTMLAnchorElement.prototype.click = function () {"
        " const name = this.download, blob = window.blob, reader = new FileReader();"
        " reader.onload = () => { window.saved[name] = reader.result; };"
        " reader.readAsDataURL(blob); };",
    )
    for button in browser.find_elements("css selector", "#save button"):
        run(browser, "arguments[0].click()", button)
    until(browser, "return Object.keys(window.saved).length === 2")
    saved = run(browser, "return window.saved")
    found = {
        name.rpartition(".")[2]: base64.b64decode(v.split(",", 1)[1]) for name, v in saved.items()
    }
    drawing = ElementTree.fromstring(found["svg"])
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert "<b onmouseover=alert(1)>evil</b>" in "".join(drawing.itertext())
    assert found["png"].startswith(b"\x89PNG")
    assert int.from_bytes(found["png"][16:20], "big") == 3 * int(drawing.get("width"))
    complaints(browser)
