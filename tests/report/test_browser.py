"""The page in a real headless Chromium: it renders, works, and hostile text does nothing."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from worlds.browser import DESKTOP, PHONE, column, complaints, run, show, until

from lm_eval_ccat.report import write_report


@pytest.fixture(scope="module")
def page(run_dir, tmp_path_factory):
    return write_report(run_dir, tmp_path_factory.mktemp("out") / "page.html")


@pytest.fixture(scope="module")
def large(many_dir, tmp_path_factory):
    return write_report(many_dir, tmp_path_factory.mktemp("out") / "page.html")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_renders_without_sideways_scrolling(browser, page, size, dark):
    show(browser, page, size, dark)
    assert run(browser, "return document.documentElement.scrollWidth") <= size[0]
    for part in (
        "decision",
        "ranking",
        "pairs",
        "progress",
        "information",
        "spending",
        "documents",
    ):
        box = run(
            browser,
            "const b = document.getElementById(arguments[0]).getBoundingClientRect();"
            "return [b.width, b.height]",
            part,
        )
        assert box[0] > 300 and box[1] > 60, part
    background = run(browser, "return getComputedStyle(document.body).backgroundColor")
    assert (sum(json.loads(background.replace("rgb(", "[").replace(")", "]"))) < 200) == dark


def test_intervals_stand_where_the_numbers_say(browser, decided_dir, tmp_path):
    show(browser, write_report(decided_dir, tmp_path / "page.html"))
    result = json.loads((decided_dir / "result.json").read_text())
    dots = run(
        browser,
        "return [...document.querySelectorAll('.ranking tbody tr')].map((r) => {"
        "const b = r.querySelector('circle').getBoundingClientRect();"
        "return [r.querySelector('.name bdi').textContent, b.x + b.width / 2]})",
    )
    at = {name: x for name, x in dots}
    value = {m: block["estimate"] for m, block in result["models"].items()}
    first, *rest = value
    second = rest[0]
    scale = (at[second] - at[first]) / (value[second] - value[first])
    assert scale > 0
    for model in value:
        expected = at[first] + scale * (value[model] - value[first])
        assert at[model] == pytest.approx(expected, abs=1.0)


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
    until(
        browser,
        "return [...document.querySelectorAll('.out')].some(p => p.textContent.length > 15000)",
    )
    assert run(browser, "return window.pwned") is None
    assert browser.title == title
    assert run(browser, "return document.scripts.length") == 2
    assert (
        run(browser, "return document.querySelectorAll('img, iframe, [onerror], [onclick]').length")
        == 0
    )
    text = run(
        browser, "return [...document.querySelectorAll('.out')].map(p => p.textContent).join('')"
    )
    assert "<script>window.pwned = 1" in text, "shown as text"
    assert "NUL ␀" in text and "\x00" not in text
    assert "⟨U+202E⟩" in text and "\u202e" not in text
    assert run(browser, "return document.documentElement.scrollWidth") <= DESKTOP[0]
    complaints(browser)


def test_right_to_left_answers_are_set_so_and_stay_in_their_box(browser, page):
    show(browser, page)
    run(
        browser,
        "document.getElementById('q').value = 'שלום';"
        "document.getElementById('doc-form').requestSubmit();"
        "document.querySelector('.docs summary').click()",
    )
    until(browser, "return document.querySelector('.answer')")
    styles = run(
        browser,
        "const all = [...document.querySelectorAll('.out')];"
        "const o = all.find((p) => p.textContent.includes('שלום'));"
        "const s = getComputedStyle(o), h = getComputedStyle(o.previousSibling ?? o.parentNode);"
        "return [s.direction, s.unicodeBidi, h.direction]",
    )
    assert styles == ["rtl", "isolate", "ltr"]
    assert run(browser, "return document.querySelectorAll('mark').length") > 0


def test_search_filters_and_says_how_many(browser, page):
    show(browser, page)
    total = run(
        browser, "return JSON.parse(document.getElementById('data').textContent).docs.length"
    )
    box = browser.find_element("id", "q")
    box.send_keys("pwned = 3")
    counted = until(
        browser,
        "const t = document.getElementById('doc-count').textContent;"
        f"return t.startsWith('{total} of') ? '' : t",
    )
    found = int(counted.split()[0])
    assert 0 < found < total
    assert run(browser, "return document.querySelectorAll('.docs > li').length") == min(found, 10)
    box.clear()
    box.send_keys("no document says this")
    until(browser, "return document.getElementById('doc-count').textContent.startsWith('0 of')")
    assert run(browser, "return document.querySelectorAll('.docs > li').length") == 0


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
    unit = {
        doc["id"]: {a[0]: a[2] for a in doc["a"]}
        for doc in data["docs"]
        if {0, 1} <= {a[0] for a in doc["a"]}
    }
    gaps = [unit[d][0] - unit[d][1] for d in shown]
    assert gaps == sorted(gaps, reverse=True) and len(gaps) == min(10, len(unit))
    p = data["p"][0][1]
    assert run(browser, "return document.getElementById('pair-out').textContent").startswith(
        f"{p:.1f}".removesuffix(".0")
    )


def test_a_model_can_be_taken_out_of_colour(browser, page):
    show(browser, page)
    count = "return document.querySelectorAll('#estimates path.line.on').length"
    before = run(browser, count)
    run(browser, "document.querySelector('.chip').click()")
    assert run(browser, count) == before - 1
    assert run(browser, "return document.querySelector('.chip').ariaPressed") == "false"
    run(browser, "document.querySelector('.chip').click()")
    assert run(browser, count) == before


def test_everything_that_acts_can_be_reached_and_is_named(browser, page):
    """Names come from the browser's own accessibility tree."""
    show(browser, page)
    browser.execute_cdp_cmd("Accessibility.enable", {})
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles: dict[str, list[str]] = {}
    for node in nodes:
        if not node.get("ignored"):
            name = node.get("name", {}).get("value", "")
            roles.setdefault(node["role"]["value"], []).append(name)
    for role in ("button", "link", "combobox", "searchbox", "table", "image"):
        assert roles.get(role), role
        assert all(roles[role]), f"a {role} without a name"
    assert {"main", "banner", "navigation", "search", "contentinfo"} <= set(roles)
    headings = run(
        browser,
        "return [...document.querySelectorAll('h1,h2,h3')].map((h) => Number(h.tagName[1]))",
    )
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(headings))


def test_it_prints(browser, page):
    show(browser, page)
    made = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(made["data"]).startswith(b"%PDF")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = run(
        browser,
        "return ['nav', '#doc-form', '#theme', '#chips']"
        ".map((s) => getComputedStyle(document.querySelector(s)).display)",
    )
    assert hidden == ["none"] * 4
    assert (
        run(browser, "return getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    found = run(
        browser,
        "return [...document.querySelectorAll('table, figure, .figure, tr')]"
        ".map((e) => getComputedStyle(e).breakInside)",
    )
    assert set(found) == {"avoid"}, "tables are not split"


def test_a_large_run_opens_and_can_be_searched(browser, large):
    show(browser, large)
    assert run(browser, "return document.querySelectorAll('.docs > li').length") == 10
    run(
        browser,
        "document.getElementById('q').value = 'no such word anywhere';"
        "document.getElementById('doc-form').requestSubmit()",
    )
    assert run(browser, "return document.querySelectorAll('.docs > li').length") == 0
    assert run(browser, "return document.getElementById('matrix').width") > 100
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


def test_names_are_whole_on_a_phone(browser, page):
    show(browser, page, PHONE)
    cut = run(
        browser,
        "const out = [];"
        "for (const e of document.querySelectorAll('th, .chip, .ranktable td, .docs .id'))"
        " if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible')"
        " out.push(e.textContent);"
        "for (const t of document.querySelectorAll('svg:not(.paper) text')) {"
        " const b = t.getBoundingClientRect();"
        " if (b.width && (b.left < -1 || b.right > innerWidth + 1)"
        " && !t.closest('.scroll')) out.push(t.textContent); }"
        "return out",
    )
    assert cut == []


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


def test_answers_stand_side_by_side(browser, page):
    show(browser, page)
    run(browser, "document.querySelector('.docs summary').click()")
    until(browser, "return document.querySelector('.side .answer')")
    tops = run(
        browser,
        "return [...document.querySelectorAll('.side .answer')].slice(0, 2)"
        ".map((e) => e.getBoundingClientRect().top)",
    )
    assert len(tops) < 2 or tops[0] == tops[1]
