"""The page as a file: what it says, what it leaves out, and that nothing in it can act."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml
from synthetic import make_run

from lm_eval_ccat.errors import CcatError
from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live.result import state
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.report import read_run, write_report
from lm_eval_ccat.report.page import TEXT_LIMITS, document_weights, documents, text_limit
from lm_eval_ccat.report.tables import script_json
from lm_eval_ccat.shown import visible


class Reader(HTMLParser):
    """The elements of a page with their attributes, as a browser would see them; its scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts = re.findall(r"<script[^>]*>(.*?)</script>", html, re.S)
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


@pytest.mark.long
def test_report_writes_markdown_where_the_file_says_so(run_dir, tmp_path, ccat):
    ccat("report", run_dir, "-o", tmp_path / "x.md")
    text = (tmp_path / "x.md").read_text("utf-8")
    assert text == state(run_dir).to_markdown() and "| rank | model |" in text
    assert "scale: 0 to 100, higher is better" in text.replace("\\", "")
    said = ccat("report", run_dir, "-o", tmp_path / "x.pdf", code=2).err
    assert "x.pdf: the ending must be .html or .md" in said


@pytest.fixture(scope="module")
def seen(page):
    return Reader(page.read_text(encoding="utf-8"))


def embedded(seen: Reader) -> dict:
    return json.loads(seen.scripts[0])


@pytest.mark.long
def test_every_answer_of_the_journal_is_on_the_page(run_dir, seen):
    journal = [json.loads(x) for x in (run_dir / "journal.jsonl").read_bytes().splitlines()]
    told = {(r["model"], str(r["item"])): r for r in journal if r["op"] == "tell"}
    data = embedded(seen)
    shown = {(data["models"][a[0]], doc["id"]): a for doc in data["docs"] for a in doc["a"]}
    assert shown.keys() == told.keys()
    for key, answer in shown.items():
        assert answer[1] == pytest.approx(told[key]["raw"], abs=1e-3)
        text = told[key]["responses"][0][0]
        assert len(text) == len(text[: len(text) - answer[5]]) + answer[5]
        assert answer[4] == visible(text[: len(text) - answer[5]])


@pytest.mark.long
def test_every_answer_stands_beside_what_was_expected_of_this_document(run_dir):
    run = read_run(run_dir)
    order = [*run.positions]
    expected = {m: np.linspace(0.0, 1.0, len(order)) + j for j, m in enumerate(run.models)}
    shown = documents(run, expected)
    assert shown
    for entry in shown:
        at = [str(doc) for doc in order].index(str(entry["id"]))
        for model, _, _, stated, *_ in entry["a"]:
            assert stated == pytest.approx(expected[run.models[model]][at], abs=1e-4)


def test_documents_that_weighed_most_in_the_decisions_come_first(seen):
    weights = [doc["w"] for doc in embedded(seen)["docs"]]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(100.0, abs=0.2)
    for doc in embedded(seen)["docs"]:
        units = [a[2] for a in doc["a"]]
        assert doc["s"] == pytest.approx(max(units) - min(units), abs=2e-4)


def test_a_document_that_both_answered_alike_weighs_nothing(run_dir):
    run = read_run(run_dir)
    two = run.result["order"][:2]
    answers = [replace(a, score=0.5) for a in run.answers if a.model in two]
    weights = document_weights(replace(run, result={**run.result, "order": two}, answers=answers))
    asked = Counter(a.doc for a in answers)
    by_both = [w for doc, w in weights.items() if asked[doc] == 2]
    assert by_both and max(by_both) < 1e-12 < max(weights.values())


@pytest.mark.long
def test_a_page_reads_each_answer_of_a_run_under_way_five_times(tmp_path, monkeypatch):
    """Times, state, course, figures and texts: a long journal takes minutes to read."""
    folder = make_run(tmp_path / "run", n_models=3, n_items=60, budget=90, finished=False)
    reads = Counter()

    def counted(journal, line, place):
        reads[place] += 1
        return read(journal, line, place)

    read = JournalFile._read
    monkeypatch.setattr(JournalFile, "_read", counted)
    write_report(folder)
    assert max(reads[place] for place in sorted(reads)[1:]) <= 5  # the first is the header


def test_the_page_loads_nothing_and_only_its_own_script_may_run(page, seen):
    html = page.read_text(encoding="utf-8")
    for tag, attributes in seen.tags:
        assert tag not in ("iframe", "object", "embed", "form" if attributes.get("action") else "-")
        for name, value in attributes.items():
            assert not name.startswith("on"), f"<{tag} {name}>"
            if name in ("src", "href", "xlink:href") and value:
                assert value.startswith(("#", "data:")), value
    policy = next(a["content"] for t, a in seen.tags if a.get("http-equiv"))
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert len(seen.scripts) == 2, "the data and our own script"
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in html


def test_hostile_text_neither_ends_the_script_nor_reaches_the_page_raw(page):
    raw = page.read_bytes()
    assert raw.count(b"</script>") == 2
    assert b"<img" not in raw and b"<b onmouseover" not in raw
    text = raw.decode("utf-8")  # lone surrogates would not have been written
    assert not re.search("[\x00\u202e\u2028]", text)
    assert "{{" not in re.sub(r'id="data">.*?</script>', "", text, flags=re.S).split("<script>")[0]
    for text in ("</script>", "<!--", "\u2028", "\ud800", "\x00", "&lt;", "]]>", "\u202eabc"):
        written = script_json({"text": text})
        assert written.isascii() and not re.search("[<>&]", written)
        assert json.loads(written) == {"text": text}


def test_the_configuration_on_the_page_can_be_run_again(run_dir):
    from lm_eval_ccat.report.trust import configuration

    run = read_run(run_dir)
    content = yaml.safe_load(configuration(run))
    again = Spec.read({**content, "bank": "bank.json"})
    assert [m.name for m in again.models] == [m["name"] for m in run.config["models"]]
    assert again.confidence == run.config["confidence"]


@pytest.mark.long
def test_what_is_missing_is_said(page, tmp_path):
    assert "is missing or was changed" not in page.read_text(encoding="utf-8")
    folder = make_run(tmp_path / "run", n_models=2, n_items=60, budget=40)
    (folder / "bank.json").unlink()
    html = write_report(folder).read_text(encoding="utf-8")
    assert "item bank is missing or was changed" in html
    assert 'id="information"' not in html
    (folder / "result.json").unlink()
    with pytest.raises(Exception, match=r"bank\.json"):
        write_report(folder)
    for place, words in (
        (tmp_path / "nothing", "no such run directory"),
        (tmp_path, "holds no ranking .*; name the folder of a run"),
    ):
        with pytest.raises(CcatError, match=words):
            write_report(place)


@pytest.mark.long
def test_the_command_writes_the_page_and_starts_light(run_dir, tmp_path):
    target = tmp_path / "a" / "page.html"
    script = (
        "import sys\nfrom lm_eval_ccat.cli.main import main\n"
        f"code = main(['report', {str(run_dir)!r}, '-o', {str(target)!r}])\n"
        "heavy = {'torch', 'datasets', 'pandas', 'scipy.stats', 'lm_eval', 'vl_convert'}\n"
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == [str(target), "0 []"], done.stderr
    assert embedded(Reader(target.read_text(encoding="utf-8")))["docs"]


@pytest.mark.parametrize("lengths", [[100] * 9, [300, 900, 20_000], [50_000] * 3, [600] * 40])
def test_texts_are_as_long_as_fit_together(lengths):
    """Of the lengths that are tried, the longest under which all texts take the budget or less."""
    fitting = [n for n in TEXT_LIMITS if sum(min(n, size) for size in lengths) <= 9_000]
    assert text_limit(lengths, budget=9_000) == max(fitting, default=min(TEXT_LIMITS))


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="rights of a file")
def test_a_page_beside_its_run_is_the_owner_s_and_one_elsewhere_is_everybody_s(run_dir, tmp_path):
    before = os.umask(0o022)
    try:
        pages = write_report(run_dir), write_report(run_dir, tmp_path / "page.html")
    finally:
        os.umask(before)
    assert [oct(page.stat().st_mode & 0o777) for page in pages] == ["0o600", "0o644"]
