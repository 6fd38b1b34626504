"""The pages for users are short, their links lead somewhere, and their terms are explained."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from pages import DOCS

ROOT = DOCS.parent
GENERATED = {"commands.md", "config.md", "journal.md", "result.md", "run-directory.md"}
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.name not in GENERATED and "evidence" not in page.relative_to(DOCS).parts
]
#: The page for engineers who change the code.
ARCHITECTURE = DOCS / "architecture.md"
LINKING = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(DOCS / "evidence").glob("*.md")]
#: Words that a reader need not know: they stand in the glossary where a page uses them.
TERMS = (
    "ability", "bank", "belief", "calibrate", "coverage", "donor", "estimate", "exposure",
    "familywise", "filter", "form", "horizon", "interval", "known model", "look", "margin",
    "newcomer", "outcome", "question", "rank range", "raw score", "reference model", "repeat",
    "run directory", "sample", "set aside", "signature", "standard error", "suite", "tau",
    "verdict", "warm-up",
)  # fmt: skip


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose_of(page: Path) -> str:
    return re.sub(r"```.*?```", "", text_of(page), flags=re.S)


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as MkDocs and GitHub make them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.M)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"\s", "-", heading) for heading in plain}


def test_the_pages_for_users_have_at_most_fifteen_thousand_words():
    count = {str(page.relative_to(DOCS)): len(text_of(page).split()) for page in PAGES}
    del count[ARCHITECTURE.name]
    assert len(count) > 20 and sum(count.values()) <= 15_000, count
    assert count["limits.md"] <= 500
    assert len(re.findall(r"^## ", text_of(DOCS / "limits.md"), re.M)) == 4


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_that_git_keeps(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file() and file.name not in GENERATED, f"{page.name}: {target}"
        assert not anchor or anchor in anchors_of(file), f"{page.name}: {target}"


def test_every_term_is_in_the_glossary():
    explained = re.findall(r"^(\S.*)\n:   ", text_of(DOCS / "glossary.md"), re.M)
    words = {word.strip().lower() for line in explained for word in re.split(r"[,()]", line)}
    assert [term for term in TERMS if term not in words] == []


def test_what_has_one_place_is_said_once():
    """The demo's table, the reasons not to use it and the table of exit codes."""
    for once in (r"^ 1 +\S+ +0\.", r"an exact score|exact score for a paper", r"^\| 4 \| partial"):
        found = [p.name for p in [*PAGES, ROOT / "README.md"] if re.search(once, text_of(p), re.M)]
        assert len(found) == 1, f"{once}: {found}"
