"""`experiments` as a user runs it: every table, as CSV, Markdown and a plot; resumable."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.experiments import studies
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable

TABLES = [
    "main", "ties", "fixed_length", "families", "conformance", "spend", "break_even",
    "budget_sweep", "information",
]  # fmt: skip


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Two tables: one of models at two temperatures, one on a scale of its own."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    for name, n_items, scale in (
        ("flores200", 80, Scale(0, 100)),
        ("errors", 60, Scale(0, 25, False)),
    ):
        eta = np.linspace(-1.3, 1.3, 11)[:, None] + rng.normal(size=n_items)[None]
        rows = [
            np.clip(1 / (1 + np.exp(-eta)) + 0.1 * rng.normal(size=eta.shape), 0, 1)
            for _ in range(2)
        ]
        table = ScoreTable.from_arrays(
            scale.restore(np.vstack(rows)),
            models=[f"m{n:02d}" for n in range(11)] * 2,
            configs=["t=0"] * 11 + ["t=1"] * 11,
            scale=scale,
            metric="bleu" if name == "flores200" else f"{name}_score",
        )
        table.write(folder / f"{name}.parquet")
    # A metric of unknown scale is left out with a reason, and does not end the run.
    (folder / "odd.csv").write_text(
        "model,doc_id,metric,score\n"
        + "".join(f"m{m},{i},odd,{m + i / 3 - 4}\n" for m in range(6) for i in range(20))
    )
    return folder


@pytest.fixture(scope="module")
def ran(scores, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    families = out / "families.json"
    groups = {"low": ["m00", "m01", "m02"], "mid": ["m05"], "high": ["m09", "m10"]}
    families.write_text(json.dumps(groups))
    command = [
        "experiments", "--scores", str(scores), "--out", str(out), "--methods", "paper",
        "--folds", "3", "--seeds", "1", "--items_per_model", "12", "--levels", "6,12,24",
        "--families", str(families),
    ]  # fmt: skip
    return command, out, main(command)


def read(out, name):
    with open(out / f"{name}.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_table_is_written_three_times(ran):
    _, out, code = ran
    assert code == 0
    for name in TABLES:
        assert read(out, name), name
        assert (out / f"{name}.md").read_text().startswith("## ")
        assert (out / f"{name}.png").stat().st_size > 5000
    page = (out / "README.md").read_text()
    assert all(f"{name}.png" in page for name in TABLES)
    assert "odd odd" in page and "--range LO,HI" in page
    document = json.loads((out / "experiments.json").read_text())
    assert [table["name"] for table in document["tables"]] == TABLES
    assert "temperature 0 where" in document["settings"]


def test_printed_rows_stand_beside_ours(ran):
    _, out, _ = ran
    for name in TABLES:
        rows = read(out, name)
        printed = [r for r in rows if r["figures"].startswith("printed") and r["metric"]]
        assert len(printed) == (0 if name == "budget_sweep" else 9), name
        if name == "budget_sweep":
            continue
        # FLORES BLEU is among the tables under a name of ours, the others are not.
        says = {(r["table"], r["metric"]): r["figures"] for r in printed}
        assert says["FLORES", "BLEU"] == "printed"
        assert {v for k, v in says.items() if k != ("FLORES", "BLEU")} == {
            "printed; no scores to be had"
        }
        at = rows.index(next(r for r in printed if r["metric"] == "BLEU"))
        assert rows[at + 1]["table"] == "flores200" and rows[at + 1]["figures"] == "paper"


def test_what_the_tables_say_fits_together(ran):
    _, out, _ = ran
    ours = [r for r in read(out, "main") if r["figures"] == "paper"]
    main_rows = {row["table"]: row for row in ours}
    assert set(main_rows) == {"flores200", "errors", "mean"}
    for name in ("flores200", "errors"):
        row = main_rows[name]
        assert row["models"] == "11"
        sweep = [
            r for r in read(out, "budget_sweep") if r["table"] == name and r["figures"] == "paper"
        ]
        assert [float(r["budget"]) for r in sweep] == [6, 12, 24]
        asked, n_items = float(row["asked"]), int(row["items"])
        assert float(row["% used"]) == pytest.approx(100 * asked / (4 * n_items))
        spend, cost = (
            next(r for r in read(out, t) if r["table"] == name) for t in ("spend", "break_even")
        )
        assert float(spend["full"]) == pytest.approx(4 * float(cost["full / model"]))
        assert float(spend["spent"]) == pytest.approx(4 * float(cost["adaptive / model"]))
    mean = np.mean([float(main_rows[n]["tau"]) for n in ("flores200", "errors")])
    assert float(main_rows["mean"]["tau"]) == pytest.approx(mean)
    assert {r["sets"] for r in read(out, "families") if r["figures"] == "paper"} >= {"1"}


def test_a_second_run_measures_nothing_again(ran, monkeypatch, capsys):
    command, out, _ = ran
    before = (out / "main.csv").read_text()

    def refuse(*args, **kwargs):
        raise AssertionError("measured again")

    for name in ("replay", "families", "sweep", "information"):
        monkeypatch.setattr(studies, name, refuse)
    assert main(command) == 0
    assert (out / "main.csv").read_text() == before
    # Other settings are another measurement.
    assert main([*command, "--seeds", "2"]) == 1
    assert "measured again" in capsys.readouterr().err


def test_only_the_studies_asked_for_are_made(ran, tmp_path):
    command, out, _ = ran
    assert main([*command, "--out", str(tmp_path), "--studies", "replay", "--only", "errors"]) == 0
    assert [p.name.split(".")[-2] for p in (tmp_path / "measured").iterdir()] == ["replay"]
    [own] = [r for r in read(tmp_path, "main") if r["table"] == "errors"]
    assert own == next(r for r in read(out, "main") if r["table"] == "errors")
    assert not [r for r in read(tmp_path, "families") if r["table"] == "errors"]


def test_a_broken_store_is_measured_again(ran):
    command, out, _ = ran
    file = out / "measured" / "flores200.bleu.information.json"
    held = file.read_text()
    file.write_text(held[: len(held) // 2])
    assert main(command) == 0
    assert json.loads(file.read_text()) == json.loads(held)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["--scores", "nowhere"], "no such directory"),
        (["--methods", "common"], "has no bank"),
        (["--only", "cold"], "no table or table:metric 'cold'"),
        (["--families", "nowhere.json"], "cannot be read as JSON"),
        (["--levels", "a,b"], "not a list of numbers"),
        (["--levels", "5,10,5"], "--levels names 5 twice"),
        (["--temperature", "cold"], "neither a number nor 'all'"),
        (["--studies", "replays"], "choose from replay, families"),
    ],
)
def test_errors_are_one_line(ran, tmp_path, capsys, changes, said):
    command, _, _ = ran
    assert main([*command, "--out", str(tmp_path), *changes]) == 2
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


def test_scales_exclusions_and_samples(scores, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"odd": {"range": [-10, 10]}}))
    (tmp_path / "e.json").write_text(json.dumps({"flores200": ["m03"]}))
    code = main([
        "experiments", "--scores", str(scores), "--out", str(tmp_path / "o"), "--methods", "paper",
        "--folds", "2", "--seeds", "1", "--levels", "20", "--holdout", "2",
        "--scales", str(tmp_path / "s.json"),
        "--exclude_from", str(tmp_path / "e.json"), "--max_models", "9",
        "--only", "odd,flores200:bleu",
    ])  # fmt: skip
    assert code == 0
    rows = {r["table"]: r for r in read(tmp_path / "o", "main") if r["figures"] == "paper"}
    assert rows["odd"]["models"] == "6" and rows["flores200"]["models"] == "9"
    assert "errors" not in rows
