"""What a release publishes is in agreement with itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lm_eval_ccat import __version__

ROOT = Path(__file__).resolve().parents[1]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version_everywhere():
    assert re.search(r'^version = "(.+)"$', text("pyproject.toml"), re.M)[1] == __version__
    citation = yaml.safe_load(text("CITATION.cff"))
    assert citation["version"] == __version__
    assert f"## {__version__}\n" in text("CHANGELOG.md")


def test_the_paper_is_cited():
    [paper, _] = yaml.safe_load(text("CITATION.cff"))["references"]
    assert paper["identifiers"][0]["value"] == "arXiv:2601.13885"
    assert len(paper["authors"]) == 5


def test_placeholder_addresses_stand_in_one_place():
    urls = text("pyproject.toml").split("[project.urls]")[1].split("\n\n")[0]
    placeholder = re.search(r'Homepage = "(.+)"', urls)[1]
    if not placeholder.startswith("https://example.org/"):
        return  # the project has found its home
    assert urls.count(placeholder) == 5
    others = ["README.md", "CITATION.cff", "CHANGELOG.md", "mkdocs.yml", "Dockerfile"]
    others += [str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")]
    assert not [name for name in others if placeholder in text(name)]


@pytest.mark.parametrize(
    "file",
    [".pre-commit-config.yaml", *(str(p.relative_to(ROOT)) for p in ROOT.glob(".github/**/*.yml"))],
)
def test_configuration_files_can_be_read(file):
    assert isinstance(yaml.safe_load(text(file)), dict)


def test_the_image_installs_extras_that_exist():
    extras = re.search(r"ARG EXTRAS=(\S+)", text("Dockerfile"))[1].split(",")
    stated = text("pyproject.toml").split("[project.optional-dependencies]")[1].split("\n[")[0]
    assert all(re.search(rf"^{extra} = ", stated, re.M) for extra in extras)
