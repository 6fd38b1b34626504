"""`benchmarks/paper/run` as it is typed: every table, as CSV, Markdown and a plot; resumable."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import measure, plots
from benchmarks.paper.page import EVIDENCE, MEASURED, PLOTS, beside, dump, page
from benchmarks.paper.tables import NO_SCORES, PRINTED, pair_of, printed
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable

ROOT = Path(__file__).resolve().parents[2]
TABLES = (
    "main ties fixed_length families conformance spend break_even budget_sweep information"
).split()


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Two tables of models at two temperatures, one on a scale of its own, and one unusable."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    for name, metric, n_items, scale in (
        ("flores200", "bleu", 80, Scale(0, 100)),
        ("errors", "errors_score", 60, Scale(0, 25, False)),
    ):
        eta = np.linspace(-1.3, 1.3, 11)[:, None] + rng.normal(size=n_items)[None]
        noisy = [1 / (1 + np.exp(-eta)) + 0.1 * rng.normal(size=eta.shape) for _ in range(2)]
        ScoreTable.from_arrays(
            scale.restore(np.clip(np.vstack(noisy), 0, 1)),
            models=[f"m{n:02d}" for n in range(11)] * 2,
            configs=["t=0"] * 11 + ["t=1"] * 11,
            scale=scale,
            metric=metric,
        ).write(folder / f"{name}.parquet")
    rows = "".join(f"m{m},{i},odd,{m + i / 3 - 4}\n" for m in range(6) for i in range(20))
    (folder / "odd.csv").write_text("model,doc_id,metric,score\n" + rows)
    return folder


@pytest.fixture(scope="module")
def ran(scores, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    groups = {"low": ["m00", "m01", "m02"], "mid": ["m05"], "high": ["m09", "m10"]}
    (out / "families.json").write_text(json.dumps(groups))
    command = [
        "--scores", str(scores), "--out", str(out), "--methods", "paper", "--folds", "2",
        "--seeds", "1", "--items_per_model", "12", "--levels", "6,12,24",
        "--families", str(out / "families.json"),
    ]  # fmt: skip
    assert measure.main(command) == 0
    return command, out


def read(out, name):
    with open(out / f"{name}.csv", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_every_table_is_written_with_the_printed_rows_beside_ours(ran):
    _, out = ran
    whole = (out / "README.md").read_text()
    assert "odd odd" in whole and "--range WORST,BEST" in whole
    document = json.loads((out / "experiments.json").read_text())
    assert [table["name"] for table in document["tables"]] == TABLES
    for name in TABLES:
        assert (out / f"{name}.md").read_text().startswith("## ")
        assert (out / f"{name}.png").stat().st_size > 5000 and f"{name}.png" in whole
        rows = read(out, name)
        theirs = {
            (r["table"], r["metric"]): r["figures"]
            for r in rows
            if r["figures"].startswith(PRINTED) and r["metric"]
        }
        if name == "budget_sweep":
            assert not theirs
            continue
        assert len(theirs) == 9 and theirs.pop(("FLORES", "BLEU")) == PRINTED
        assert set(theirs.values()) == {NO_SCORES}
        at = next(n for n, r in enumerate(rows) if r["metric"] == "BLEU")
        assert (rows[at + 1]["table"], rows[at + 1]["figures"]) == ("flores200", "paper")


@pytest.mark.long
def test_scales_exclusions_and_samples(scores, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "draw", lambda *_: [])  # a plot takes a second
    scales = {"odd": {"range": [-10, 10]}, "errors_score": {"item_scaling": True}}
    (tmp_path / "s.json").write_text(json.dumps(scales))
    (tmp_path / "e.json").write_text(json.dumps({"flores200": ["m03"]}))
    command = [
        "--scores", str(scores), "--out", str(tmp_path / "o"), "--methods", "paper", "--folds", "1",
        "--seeds", "1", "--holdout", "2", "--max_models", "9", "--studies", "conformance",
        "--scales", str(tmp_path / "s.json"), "--exclude", str(tmp_path / "e.json"),
    ]  # fmt: skip
    args = measure.parsed(command)
    sources = {s.name: s for s in measure.find_sources(scores)}
    models = {name: set(measure.load(s, args).models) for name, s in sources.items()}
    assert len(models["odd"]) == 6 and len(models["errors"]) == len(models["flores200"]) == 9
    assert "m03" not in models["flores200"]
    assert measure.main(command) == 0
    plain = command[: command.index("--scales")]
    assert measure.main([*plain, "--out", str(tmp_path / "p"), "--only", "errors"]) == 0

    def discrimination(out):
        rows = read(tmp_path / out, "conformance")
        return next(r["a"] for r in rows if r["table"] == "errors" and r["figures"] == "paper")

    assert discrimination("o") != discrimination("p")


@pytest.mark.parametrize("name", sorted(printed()["tables"]))
def test_printed_rows_add_up_to_the_printed_means(name):
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
    gain = fixed["tau fixed"] - fixed["tau"]
    np.testing.assert_allclose(gain, fixed["fixed - adaptive"], atol=0.02)
    crossing = cost["calibration"] / (cost["full / model"] - cost["adaptive / model"])
    large = cost["full / model"] > 1  # the small ones are printed with one digit
    assert crossing[large] == pytest.approx(cost["break-even"][large], abs=1)
    full = tables["spend"]["full"][large]
    np.testing.assert_allclose(full, 4 * cost["full / model"][large], rtol=0.01)


def test_names_of_our_tasks_are_known():
    assert pair_of("ccat_nemotron_pii", "pii_score") == 8
    assert pair_of("ccat_biolaysumm_plos_scaled", "fkgl_item_scaled") == 2
    assert pair_of("govreport", "bleu") is None
    tasks = {p.stem for p in (ROOT / "task_configs").rglob("ccat_*.yaml")}
    for pair in printed()["pairs"]:
        assert {t for t in pair["tables"] if t.startswith("ccat_")} <= tasks


def test_the_page_shows_what_was_measured():
    """docs/evidence/experiments.md is made from measured/experiments.json, figure by figure."""
    text = MEASURED.read_text(encoding="utf-8")
    document = json.loads(text)
    assert dump(document) == text
    plots = {p.stem for p in PLOTS.glob("*.png")}
    shown = (EVIDENCE / "experiments.md").read_text(encoding="utf-8")
    assert shown == page(document, plots), "run `python benchmarks/paper/run --docs`"


@pytest.mark.long
def test_a_run_of_fewer_seeds_stands_below_with_its_label():
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
        beside(document, other, "default")
        main, *_, break_even = (t["rows"] for t in document["tables"])
        assert main == [
            ["x", "m", "paper", 2.0, 0.7, 0.6],
            ["x", "m", "default, 2 seeds", None, 0.9, 0.5],
            ["mean", "", "paper", 2.0, 0.7, 0.6],
            ["mean", "", "default, 2 seeds", None, 0.9, 0.5],
        ]
        assert len(break_even) == 2
    assert "with sources of hash" in document["beside"]
    assert "rows of 1 in main, 1 in" in document["beside"]
