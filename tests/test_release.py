"""What a release publishes is in agreement with itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from lm_eval_ccat import __version__

ROOT = Path(__file__).resolve().parents[1]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def project():
    """The [project] table of pyproject.toml."""
    return tomllib.loads(text("pyproject.toml"))["project"]


def test_one_version_everywhere():
    assert re.search(r'^version = "(.+)"$', text("pyproject.toml"), re.M)[1] == __version__
    assert yaml.safe_load(text("CITATION.cff"))["version"] == __version__
    assert yaml.safe_load(text("conda/recipe.yaml"))["context"]["version"] == __version__
    assert f"## {__version__} - " in text("CHANGELOG.md")


def test_the_conda_recipe_needs_what_the_package_needs():
    run = yaml.safe_load(text("conda/recipe.yaml"))["requirements"]["run"]

    def parts(requirement):
        name, at, version = requirement.replace(" ", "").partition(">")
        return name.lower().replace("_", "-"), at + version

    ours = {parts(r) for r in [*project()["dependencies"], "python" + project()["requires-python"]]}
    assert {parts(r) for r in run} == ours


def test_every_python_that_is_claimed_is_tested():
    claimed = {c.rpartition(" ")[2] for c in project()["classifiers"] if ":: 3." in c}
    jobs = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]
    setups = [s["with"]["python-version"] for j in jobs.values() for s in j["steps"] if "with" in s]
    tested = {*jobs["pythons"]["strategy"]["matrix"]["python"], *setups}
    assert claimed <= tested and min(claimed, key=lambda v: int(v[2:])) == "3.11"


def test_what_a_reader_looks_for_is_there():
    for name in ("LICENSE", "NOTICE", "SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"):
        assert (ROOT / name).is_file(), name
    notice = text("NOTICE")
    assert "whose code is no part of this package" in " ".join(notice.split())
    for task in (ROOT / "task_configs").glob("*/*yaml"):  # each data set stands in the notice
        path = re.search(r"^dataset_path: (\S+/\S+)$", task.read_text(encoding="utf-8"), re.M)
        assert path is None or path[1] in notice, task.name


def test_nothing_is_published_before_it_is_checked():
    jobs = yaml.safe_load(text(".github/workflows/release.yml"))["jobs"]
    assert jobs["publish"]["needs"] == "gate" and jobs["publish"]["environment"] == "release"
    assert any("PART=1/1 bash .ci/run" in str(step.get("run")) for step in jobs["gate"]["steps"])
    assert not any("build" in str(step.get("run")) for step in jobs["publish"]["steps"])


def test_no_address_is_a_placeholder():
    names = ["README.md", "CITATION.cff", "CHANGELOG.md", "mkdocs.yml", "Dockerfile"]
    names += ["pyproject.toml", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
    assert not [name for name in names if "example.org" in text(name)]


def test_the_image_installs_extras_that_exist():
    extras = re.search(r"ARG EXTRAS=(\S+)", text("Dockerfile"))[1].split(",")
    stated = text("pyproject.toml").split("[project.optional-dependencies]")[1].split("\n[")[0]
    assert all(re.search(rf"^{extra} = ", stated, re.M) for extra in extras)
