"""What CONTRIBUTING.md shows works as it shows it: a package outside ours adds one of each."""

from __future__ import annotations

import importlib
import io
import re
import sys
from dataclasses import replace
from pathlib import Path

import jinja2
import pytest
from rich.console import Console

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.live.result import state
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.metrics import scale as metric_table
from lm_eval_ccat.options import schema_of
from lm_eval_ccat.ranker import columns
from lm_eval_ccat.ranker.stopping import Budget, TopDecided, rule_of
from lm_eval_ccat.report import page, write_report
from lm_eval_ccat.report.terminal import models_table
from lm_eval_ccat.testing.methods import example_table

sys.path.insert(0, str(Path(__file__).parent / "report"))
from synthetic import make_run

GUIDE = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The files of the guide, and the entry points it declares, as an installed package."""
    if not GUIDE.is_file():
        pytest.skip("CONTRIBUTING.md is not part of this installation")
    folder = tmp_path_factory.mktemp("installed")
    blocks = re.findall(r"```(\w+)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for _, text in blocks:
        if name := re.match(r"# (\S+\.py)\n", text):
            (folder / name[1]).parent.mkdir(exist_ok=True)
            (folder / name[1]).write_text(text)
    (folder / "my_package" / "__init__.py").write_text("")
    declared = next(text for kind, text in blocks if kind == "toml")
    info = folder / "my_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1\n")
    plain = re.sub(r'\[project\.entry-points\."(.+)"\]', r"[\1]", declared).replace('"', "")
    (info / "entry_points.txt").write_text(plain)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    yield folder
    sys.path.remove(str(folder))
    for name in [n for n in sys.modules if n.split(".")[0] == "my_package"]:
        del sys.modules[name]


def run_suite(package, name: str) -> int:
    """Run every check of a test file of the guide; how many there were."""
    content: dict = {}
    exec((package / "tests" / name).read_text(), content)
    suite = next(v for k, v in content.items() if k.startswith("Test"))
    checks = [c for c in dir(suite) if c.startswith("test_")]
    for check in checks:
        getattr(suite(), check)()
    return len(checks)


def test_a_metric_is_one_line(package, monkeypatch, tmp_path):
    line = re.search(r"^Entry\(.*\),$", GUIDE.read_text(), re.MULTILINE)
    assert line is not None
    (entry,) = eval(f"[{line[0]}]", vars(metric_table))
    log = tmp_path / "samples_t_2026-01-01T00-00-00.0.jsonl"
    log.write_text('{"doc_id": 0, "filter": "none", "helpfulness": 4, "doc_hash": "h"}\n')
    monkeypatch.setattr(metric_table, "ENTRIES", (*metric_table.ENTRIES, entry))
    assert ScoreTable.read(log, metric="helpfulness").scores.tolist() == [[0.75]]


@pytest.mark.long
def test_a_method_passes_the_suite_and_is_known_to_the_commands(package, tmp_path, capsys):
    assert run_suite(package, "test_nearest.py") > 10
    scores = str(tmp_path / "s.csv")
    example_table().write(scores)
    arguments = ["--methods", "nearest,common", "--folds", "2", "--range", "0,1"]
    assert main(["simulate", "--scores", scores, *arguments]) == 0
    assert "nearest" in capsys.readouterr().out
    ItemBank.blank([1, 2], method="nearest").save(tmp_path / "b.bank.json")
    assert main(["bank", "show", str(tmp_path / "b.bank.json")]) == 0


@pytest.mark.long
def test_a_stopping_rule_combines_with_ours(package):
    leader = importlib.import_module("my_package.leader")
    table, names = example_table(), ["m02", "m06", "m09"]
    bank = calibrate(table.without(names), "default")
    scores = {m: table.select([m]).scores[0] for m in names}

    def end(rule):
        ranker = Ranker(bank, dict.fromkeys(names, 1.0), warmup=3, stop=rule)
        while not ranker.done:
            for model, item in ranker.ask(2):
                ranker.tell(model, item, float(scores[model][bank.index[item]]))
        return ranker.result()

    alone, limited = end(leader.LeaderMeasured(0.06)), end(leader.LeaderMeasured(1e-9) | Budget(15))
    assert alone.stopped_because == "the leader is measured to 0.06"
    assert "budget" in limited.stopped_because and sum(limited.cost.values()) <= 15


def test_its_word_is_known_to_the_option_stop_its_help_schema_and_errors(package, capsys):
    leader = importlib.import_module("my_package.leader")
    assert rule_of("leader 0.02 or top 3") == leader.LeaderMeasured(0.02) | TopDecided(3)
    assert Spec.read({"stop": "leader 0.02"}).rule == leader.LeaderMeasured(0.02)
    with pytest.raises(SystemExit):
        main(["rank", "--help"])
    described = schema_of(Spec)["properties"]["stop"]["description"]
    for shown in (" ".join(capsys.readouterr().out.split()), described):
        assert "leader X" in shown and "the standard error of the best model is at most X" in shown
    with pytest.raises(UsageError, match=r"words decided, .*, leader X, joined"):
        rule_of("lader 0.02")


def test_names_of_this_package_are_defined_in_the_file_that_is_named_beside_them():
    pairs = re.findall(r"`(lm_eval_ccat/[\w/]+\.py)`[^.`]*`(_\w+)`", GUIDE.read_text())
    pairs += [
        (file, name)
        for name, file in re.findall(
            r"`(_?[A-Z]\w+)` (?:in|of)\s`(lm_eval_ccat/[\w/]+\.py)`", GUIDE.read_text()
        )
    ]
    assert ("lm_eval_ccat/ranker/stopping.py", "_NumberRule") in pairs and len(pairs) > 4
    for file, name in pairs:
        code = (GUIDE.parent / file).read_text()
        assert re.search(rf"^(class )?{name}\b", code, re.MULTILINE), f"no {name} in {file}"


def test_a_reader_passes_the_suite_and_is_asked(package, tmp_path):
    assert run_suite(package, "test_tsv.py") > 4
    (tmp_path / "x.tsv").write_text("a\tt\tacc\t3\t1.0\n")
    assert ScoreTable.read(tmp_path / "x.tsv").models == ("a",)


@pytest.mark.long
def test_a_column_is_one_entry_for_terminal_page_markdown_and_data_frame(
    package, monkeypatch, tmp_path
):
    text = re.search(r"^Column\(\n.*?^\),$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert text is not None
    (column,) = eval(f"[{text[0]}]", vars(columns))
    folder = make_run(tmp_path / "run", n_models=3, n_items=60, budget=30)
    result = state(folder)
    assert "seconds" not in result.to_dataframe()
    monkeypatch.setattr(columns, "COLUMNS", (*columns.COLUMNS, column))
    expected = [result.content["models"][name]["seconds"] for name in result.content["order"]]
    assert result.to_dataframe()["seconds"].tolist() == expected and expected[0] > 0
    assert re.search(r"\| seconds \|", result.to_markdown())
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(models_table(result.content, 200)[0])
    shown = [line.split() for line in console.export_text().splitlines() if line.strip()]
    assert shown[0][-1] == "seconds"
    assert [line[-1] for line in shown[2:]] == [f"{seconds:.0f}" for seconds in expected]
    cells = re.findall(r'class="num seconds" data-v="(.*?)">', write_report(folder).read_text())
    assert [float(cell) for cell in cells] == expected


@pytest.mark.long
def test_a_section_stands_in_the_report_as_another_s_or_as_one_of_ours(
    package, tmp_path, monkeypatch
):
    section = importlib.import_module("my_package.answers").SECTION
    ours = replace(section, name="counted", text="")
    monkeypatch.setattr(page, "_BUILTIN", (*page._BUILTIN, ours))
    beside = jinja2.DictLoader({"counted.html.j2": section.text})
    loader = jinja2.ChoiceLoader([beside, page.environment().loader])
    monkeypatch.setattr(page.environment(), "loader", loader)
    folder = make_run(tmp_path / "run", n_models=3, n_items=60, budget=30)
    text = write_report(folder).read_text()
    assert '<a href="#answers">Answers</a>' in text and '<a href="#counted">' in text
    assert text.count('<section id="answers">') == 2
