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
    "main", "ties", "fixed_length", "families", "conformance", "spend", "calibration_cost",
    "budget_sweep", "information",
]  # fmt: skip


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Two tables: one of models at two temperatures, one on a scale of its own."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    for name, n_items, scale in (("warm", 80, Scale()), ("errors", 60, Scale(0, 25, False))):
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
            metric=f"{name}_score",
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
    families.write_text(json.dumps({"low": ["m00", "m01", "m02"], "high": ["m09", "m10"]}))
    command = [
        "experiments", "--scores", str(scores), "--out", str(out), "--methods", "paper",
        "--folds", "3", "--items_per_model", "12", "--levels", "6,12,24",
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


def test_what_the_tables_say_fits_together(ran):
    _, out, _ = ran
    main_rows = {row["table"]: row for row in read(out, "main")}
    assert set(main_rows) == {"warm", "errors", "mean"}
    for name in ("warm", "errors"):
        row = main_rows[name]
        assert row["models"] == "11"
        sweep = [
            r for r in read(out, "budget_sweep") if r["table"] == name and r["method"] == "paper"
        ]
        assert [float(r["budget per model"]) for r in sweep] == [6, 12, 24]
        assert sweep[1]["tau"] == row["tau paper"]
        spend = next(r for r in read(out, "spend") if r["table"] == name and r["method"] == "paper")
        assert float(spend["items"]) == pytest.approx(4 * float(row["items per model"]))
        n_items = int(row["items"])
        cost = next(r for r in read(out, "calibration_cost") if r["table"] == name)
        assert int(cost["calibration items"]) == 7 * n_items
        per_model = float(cost["items per new model"])
        new = int(cost["break-even models"])
        assert new * n_items > 7 * n_items + new * per_model
    mean = np.mean([float(main_rows[n]["tau paper"]) for n in ("warm", "errors")])
    assert float(main_rows["mean"]["tau paper"]) == pytest.approx(mean)
    assert {r["families"] for r in read(out, "families")} == {"2"}


def test_a_second_run_measures_nothing_again(ran, monkeypatch, capsys):
    command, out, _ = ran
    before = (out / "main.csv").read_text()

    def refuse(*args, **kwargs):
        raise AssertionError("measured again")

    for name in ("replay", "families", "information", "calibration"):
        monkeypatch.setattr(studies, name, refuse)
    assert main(command) == 0
    assert (out / "main.csv").read_text() == before
    # Other settings are another measurement.
    assert main([*command, "--seeds", "2"]) == 1
    assert "measured again" in capsys.readouterr().err


def test_a_broken_store_is_measured_again(ran):
    command, out, _ = ran
    file = out / "measured" / "warm.warm_score.information.json"
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
    ],
)
def test_errors_are_one_line(ran, tmp_path, capsys, changes, said):
    command, _, _ = ran
    assert main([*command, "--out", str(tmp_path), *changes]) == 2
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


def test_scales_exclusions_and_samples(scores, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"odd": {"range": [-10, 10]}}))
    (tmp_path / "e.json").write_text(json.dumps({"warm": ["m03"]}))
    code = main([
        "experiments", "--scores", str(scores), "--out", str(tmp_path / "o"), "--methods", "paper",
        "--folds", "2", "--levels", "20", "--scales", str(tmp_path / "s.json"), "--holdout", "2",
        "--exclude", str(tmp_path / "e.json"), "--max_models", "9", "--only", "odd,warm:warm_score",
    ])  # fmt: skip
    assert code == 0
    rows = {row["table"]: row for row in read(tmp_path / "o", "main")}
    assert rows["odd"]["models"] == "6" and rows["warm"]["models"] == "9"
    assert "errors" not in rows
