"""The documentation builds without a dead link, and everything that it prints can be run."""

from __future__ import annotations

import html
import json
import os
import re
import runpy
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml
from pages import DOCS, SHOWN, blocks, run_commands, run_page, run_python

import lm_eval_ccat
from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.cli.main import COMMANDS, RAW, main
from lm_eval_ccat.content import ModelContent, PairContent, RankingContent
from lm_eval_ccat.demo.systems import RANKED
from lm_eval_ccat.live.result import Result
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.options import options_of
from lm_eval_ccat.records import RECORDS

OTHER_PAGES = sorted(
    p.relative_to(DOCS).as_posix()
    for p in DOCS.rglob("*.md")
    if p.name not in ("index.md", "tutorial.md") and any(b.language not in SHOWN for b in blocks(p))
)


def started(command, folder, environment):
    """A command that has ended."""
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    target = tmp_path_factory.mktemp("site")
    generate = [sys.executable, str(DOCS / ".hooks" / "reference.py")]
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(target)]
    for command in (generate, build):
        done = started(command, DOCS.parent, {**os.environ, "NO_MKDOCS_2_WARNING": "1"})
        assert done.returncode == 0, done.stdout + done.stderr
    return target


def text_of(page) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_the_reference_has_every_command_key_and_public_name(site, capsys):
    commands = text_of(site / "reference" / "commands.html")
    for name in COMMANDS:
        assert name in commands
        if name not in RAW:
            with pytest.raises(SystemExit):
                main([name, "--help"])
            shown = capsys.readouterr().out.split("example")[0]
            for flag in set(re.findall(r"(?<![\w-])--[a-z_]+", shown)):
                assert flag == "--help" or flag in commands, f"{name} {flag}"
    config = text_of(site / "reference" / "config.html")
    for key in options_of(Spec):
        assert key in config
    assert '"stopped_because"' in text_of(site / "reference" / "run-directory.html")
    journal = (site / "reference" / "journal.html").read_text(encoding="utf-8")
    assert '"op": "tell"' in text_of(site / "reference" / "journal.html")
    for kind, record in RECORDS.items():
        assert f'id="{kind}"' in journal
        for field in record.fields():
            assert f"<code>{field.name}</code>" in journal
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in lm_eval_ccat.__all__:
        assert f'id="lm_eval_ccat.{name}"' in page, name


def hook(name):
    return SimpleNamespace(**runpy.run_path(str(DOCS / ".hooks" / f"{name}.py")))


def test_the_page_of_the_result_names_and_explains_every_key_of_a_run():
    reference = hook("reference")
    page = reference.result_format()
    for kind in (ModelContent, PairContent, RankingContent):
        explained = [key for keys in reference.meanings_of(kind) for key in keys]
        assert sorted(explained) == sorted(kind.__annotations__), kind.__name__
    ranking = Ranker(ItemBank.blank(range(9)), ["a", "b"]).result()
    result = Result(ranking, interrupted=True).content
    for block in (result, *result["models"].values(), *result["pairwise"]):
        assert [key for key in block if f"`{key}`" not in page] == []
    assert "| `exit_code` | int | Of the command. |" in page
    assert "| `order`, `ranking` | list[str], str | Names of" in page
    assert "[ModelContent](#modelcontent)" in page and "## ModelContent" in page


def test_the_tables_of_the_pages_are_the_figures_that_were_measured():
    measured, first_use = hook("measured"), hook("first_use")
    text = measured.PAGE.read_text(encoding="utf-8")
    assert text.count("<!-- quality: ") == 4 and measured.filled(text) == text
    limits = measured.LIMITS.read_text(encoding="utf-8")
    assert "<!-- quality: limits" in limits and measured.filled(limits) == limits
    assert measured.CHART.read_text(encoding="utf-8") == measured.drawn()
    page = first_use.PAGE.read_text(encoding="utf-8")
    assert first_use.filled(page) == page and "| 8 | `sample` |" in page


def test_the_front_door_shows_what_was_printed_and_measured():
    """`python docs/.hooks/front.py` writes it."""
    front = hook("front")
    for path, content in front.pages(front.kept()).items():
        assert path.read_text(encoding="utf-8") == content, path.name


@pytest.mark.slow
def test_llms_txt_names_every_page_and_no_page_loads_anything_from_elsewhere(site):
    text = (site / "llms.txt").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)]+\.md)\): \S", text))
    pages = {p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md")}
    assert linked == pages and text.startswith("# lm-eval-ccat\n\n> These guides show how to rank")
    for page in site.rglob("*.html"):
        for tag in re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", page.read_text()):
            loaded = re.search(r'(?:src|href)="(https?:)?//', tag)
            assert not loaded or 'rel="canonical"' in tag, f"{page.name}: {tag}"


@pytest.mark.slow
def test_the_tutorial_runs_as_printed(tutorial):
    folder, printed = tutorial
    for file in ("docstrings.bank.json", "models.run/report.html", "sim.json"):
        assert (folder / file).is_file(), file
    assert list((folder / "out").rglob("results_*.json"))
    assert "pairs were decided" in printed and "trust" in printed
    # The demo itself ends with 1 if full evaluation contradicts a confident pair.
    found = json.loads((folder / "demo" / "rank.run" / "result.json").read_text())
    assert set(found["order"]) == set(RANKED) and found["headline"] in printed
    assert found["items_administered"] < 0.6 * found["items_of_benchmark"] * len(RANKED)
    assert "rank.run/report.html" in printed and "full run" in printed


@pytest.mark.slow
def test_the_tutorial_prints_what_the_pages_show(tmp_path):
    front = hook("front")
    was, now = front.kept(), front.run(tmp_path)
    for kind in ("demo", "tutorial"):
        old, new = ([line for line in lines_of(found[kind])] for found in (was, now))
        new = [line for line in new if not front.VARYING.search(line)]
        assert [line for line in old if not front.VARYING.search(line)] == new
    # Seed 0, of the claim's seeds, is the demo itself.
    asked = json.loads((tmp_path / "demo" / "rank.run" / "result.json").read_text())
    assert was["with_bank"][0] == asked["items_administered"]


def lines_of(printed):
    """Lines alone, of a recording without their seconds."""
    return [line if isinstance(line, str) else line[1] for line in printed]


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHER_PAGES)
def test_every_block_of_the_page_runs(page, folder, environment, server):
    run_page(DOCS / page, folder, environment, {"localhost:8000": server})


@pytest.mark.slow
def test_the_notebook_runs_as_printed(folder):
    cells = json.loads((DOCS / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    demo, *rest = code
    assert demo == f"!{blocks(DOCS / 'tutorial.md')[0].code.strip()}"  # the tutorial has run it
    assert not any(line.startswith(("!", "%")) for cell in rest for line in cell.splitlines())
    printed = run_python("\n\n".join(rest), folder, {"__name__": "__main__"})
    assert printed.count(" right") >= 8 and "wrong" not in printed, printed


@pytest.mark.slow
def test_the_front_door_runs_as_printed(folder, environment):
    """README and the home page, with the demo's systems and logs in place of models and logs."""
    pages = [DOCS / "index.md", DOCS.parent / "README.md"]
    home = [b.code for b in blocks(pages[0]) if b.language == "bash"]
    prose = "\n".join(re.sub(r"```.*?```", "", p.read_text("utf-8"), flags=re.S) for p in pages)
    inline = re.findall(r"`(lm-eval-ccat [a-z]+ [^`]+)`", prose)
    assert inline
    readme = [b for b in blocks(DOCS.parent / "README.md") if b.language == "bash"]
    install, rank, board, compare, tests = readme
    assert home == [blocks(DOCS / "tutorial.md")[0].code]
    assert "pytest" in tests.code  # .ci/run runs it
    assert install.code == f"pip install . && {home[0]}"  # the demo: the tutorial runs it
    [newcomers] = [b.code for b in blocks(DOCS / "howto/board.md") if b.title == "newcomers.yaml"]
    (folder / "newcomers.yaml").write_text(newcomers, encoding="utf-8")
    replace = {
        "gsm8k": "ccat_demo",
        "--max_items 200": "--max_items 30 --include_path demo/tasks",
        "--model hf": "--model ccat-demo",
        "pretrained=first/model": "system=lead-11",
        "pretrained=second/model": "system=tail-3",
        "logs/baseline logs/candidate": "demo/logs demo/logs --models lead-7,lead-15",
        "calibrate logs": "calibrate demo/logs",
        "--from logs": "--from demo/logs",
        "exact_match": "rougeL",
        "check TASK": "check ccat_demo --include_path demo/tasks",
        "variants ccat_demo": "variants ccat_demo --include_path demo/tasks",
    }
    for code in (rank.code, board.code, compare.code, *inline):
        for old, new in replace.items():
            code = code.replace(old, new)
        status, printed, errors = run_commands(code, folder, environment)
        assert status in (0, 3, 5) and printed, f"{code}\n{errors}"


@pytest.mark.slow
def test_the_script_of_the_action_runs_as_printed(folder, environment):
    action = yaml.safe_load((DOCS.parent / "action.yml").read_text(encoding="utf-8"))
    first, *_ = action["runs"]["steps"]
    assert "setup-python" in first["uses"] and first["with"]["python-version"]
    [step] = [s for s in action["runs"]["steps"] if s.get("name") == "Compare"]
    inputs = {"baseline": "demo/logs/lead-7", "candidate": "demo/logs/lead-15", "margin": "0.01"}
    stated = {
        name: inputs.get(name, of.get("default", "")) for name, of in action["inputs"].items()
    }
    assert set(step["env"]) == {name.upper() for name in stated}  # each input reaches the script
    output, summary = folder / "output", folder / "summary"
    given = {name.upper(): value for name, value in stated.items()}
    given |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    done = started(["bash", "-eo", "pipefail", "-c", step["run"]], folder, environment | given)
    assert done.returncode in (0, 3, 5), done.stderr
    assert f"exit_code={done.returncode}" in output.read_text() and summary.read_text().strip()
    assert re.search(r"^verdict=[a-z ]+$", output.read_text(), re.M)
    assert (folder / "compare.xml").is_file()
    # A later comparison that fails leaves no verdict of the earlier one, and says why.
    output.write_text("")
    failing = environment | given | {"METRIC": "no_such_metric"}
    failed = started(["bash", "-eo", "pipefail", "-c", step["run"]], folder, failing)
    assert failed.returncode == 2 and "no_such_metric" in failed.stderr
    assert output.read_text() == "exit_code=2\n" and not (folder / "compare.xml").is_file()
    assert "no_such_metric" in summary.read_text().split("```")[-2]


def test_every_block_has_a_language_that_says_who_runs_it():
    for page in DOCS.rglob("*.md"):
        fences = re.findall(r"^ *```.+$", page.read_text(encoding="utf-8"), re.M)
        assert len(fences) == len(blocks(page)), f"{page.name}: a block that no test sees"
        for block in blocks(page):
            assert block.language in {"bash", "python", "yaml", *SHOWN}, f"{page.name}:{block.line}"
            assert block.language != "yaml" or block.title, f"{page.name}:{block.line}: no file"
