"""The paper's figures as data: complete, and in agreement with the means that it prints."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from lm_eval_ccat.experiments.printed import pair_of, printed
from lm_eval_ccat.experiments.report import dump

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(printed()["tables"]))
def test_rows_add_up_to_the_printed_means(name):
    table = printed()["tables"][name]
    assert table["where"].split()[0] in ("table", "figures")
    if not table["rows"]:
        return
    rows = np.array(table["rows"], dtype=float)
    assert rows.shape == (9, len(table["columns"]))
    for kind, pool in (("mean", np.mean), ("total", np.sum)):
        for column, stated in zip(rows.T, table.get(kind, ())):
            if stated is not None:
                assert pool(column) == pytest.approx(stated, rel=0.01, abs=0.006)


def test_derived_figures_of_the_paper_follow_from_its_others():
    tables = {
        n: {c: np.array(t["rows"])[:, i] for i, c in enumerate(t["columns"])}
        for n, t in printed()["tables"].items()
        if t["rows"]
    }
    main, fixed, cost = tables["main"], tables["fixed_length"], tables["break_even"]
    assert main["% used"] == pytest.approx(100 * main["asked"] / (4 * main["items"]), abs=0.06)
    np.testing.assert_allclose(
        fixed["tau fixed"] - fixed["tau"], fixed["fixed - adaptive"], atol=0.02
    )
    own = cost["calibration"] / (cost["full / model"] - cost["adaptive / model"])
    large = cost["full / model"] > 1  # the small ones are printed with one digit
    assert own[large] == pytest.approx(cost["break-even"][large], abs=1)
    np.testing.assert_allclose(
        tables["spend"]["full"][large], 4 * cost["full / model"][large], rtol=0.01
    )


def test_names_of_our_tasks_are_known():
    assert pair_of("ccat_nemotron_pii", "pii_score") == 8
    assert pair_of("ccat_biolaysumm_plos_scaled", "fkgl_item_scaled") == 2
    assert pair_of("govreport", "bleu") is None
    tasks = {p.stem for p in (ROOT / "task_configs").rglob("ccat_*.yaml")}
    for pair in printed()["pairs"]:
        assert {t for t in pair["tables"] if t.startswith("ccat_")} <= tasks


@pytest.fixture(scope="module")
def maker():
    file = ROOT / "benchmarks" / "paper_experiments" / "page.py"
    spec = importlib.util.spec_from_file_location("experiments_page", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_page_shows_what_the_command_wrote(maker):
    """docs/experiments.md is made from docs/measured/experiments.json, figure by figure."""
    text = maker.MEASURED.read_text(encoding="utf-8")
    document = json.loads(text)
    assert dump(document) == text
    plots = {p.stem for p in (ROOT / "docs" / "experiments").glob("*.png")}
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert page == maker.page(document, plots), "run benchmarks/paper_experiments/page.py"


def test_a_run_of_fewer_seeds_stands_below_with_its_label(maker):
    columns = ["table", "metric", "figures", "a", "tau", "random"]

    def run(seeds, *rows):
        names = ("main", "ties", "fixed_length", "spend", "break_even")
        tables = [{"name": n, "columns": columns, "rows": [list(r) for r in rows]} for n in names]
        return {"settings": f"5 hold-out sets of 4 models, {seeds} seeds each;", "tables": tables}

    document = run(20, ["x", "m", "paper", 2.0, 0.7, 0.6], ["mean", "", "paper", 2.0, 0.7, 0.6])
    other = run(
        2,
        *(["x", "m", "paper", 2.0, 0.8, 0.5], ["x", "m", "default", None, 0.9, None]),
        *(["mean", "", "paper", 2.0, 0.8, 0.5], ["mean", "", "default", None, 0.9, None]),
    )
    for _ in range(2):  # again changes nothing
        maker.beside(document, other, "default", "abc123")
        main, *_, break_even = (t["rows"] for t in document["tables"])
        assert main == [
            ["x", "m", "paper", 2.0, 0.7, 0.6],
            ["x", "m", "default, 2 seeds", None, 0.9, 0.5],
            ["mean", "", "paper", 2.0, 0.7, 0.6],
            ["mean", "", "default, 2 seeds", None, 0.9, 0.5],
        ]
        assert len(break_even) == 2
    assert "abc123" in document["beside"] and "rows of 1 in main, 1 in" in document["beside"]
