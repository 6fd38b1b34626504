"""A board replayed month by month."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.upkeep.year import pooled, replay_year


@pytest.fixture(scope="module")
def table() -> ScoreTable:
    rng = np.random.default_rng(0)
    eta = rng.normal(size=(36, 1)) + rng.normal(size=40)
    x = np.clip(1 / (1 + np.exp(-eta)) + 0.1 * rng.normal(size=eta.shape), 0, 1)
    return ScoreTable.from_arrays(x, [f"m{j:02}" for j in range(36)], metric="acc")


def test_a_bank_that_learns_grows_and_stays_honest(table):
    rows = replay_year(table, start=20, months=2, items=8)
    known = {(r["month"], r["policy"]): r["known"] for r in rows}
    assert known == {(1, "never"): 20, (1, "monthly"): 20, (2, "never"): 20, (2, "monthly"): 28}
    # The first month is the same bank twice.
    assert rows[0] == {**rows[1], "policy": "never"}
    every = pooled(rows)
    assert every["monthly"]["coverage"] > 0.8 and every["monthly"]["tested"] == 16


def test_better_models_come_later_where_the_field_climbs(table):
    rows = replay_year(table, start=12, months=2, items=40, full=2, arrival="better")
    # Every item was asked, so that nothing is wrong, whoever came.
    assert max(r["rmse"] for r in rows) < 1e-6


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(start=35, months=2), "leave 1 for 2 months"),
        (dict(full=20), "20 of each run in full"),
        (dict(method="paper"), "does not learn"),
        (dict(arrival="soon"), "'soon' is none of"),
    ],
)
def test_a_year_that_cannot_be_is_refused(table, change, says):
    with pytest.raises(UsageError, match=says):
        replay_year(table, **{"start": 20, "months": 2, **change})


def test_the_command_prints_every_month(table, tmp_path, capsys):
    table.write(tmp_path / "s.parquet")
    out = tmp_path / "o.json"
    arguments = ["bank", "simulate", str(tmp_path / "s.parquet"), "--start", "24", "--months", "1"]
    assert main([*arguments, "--items", "6", "--json", str(out)]) == 0
    assert "monthly" in capsys.readouterr().out
    content = json.loads(out.read_text())
    assert len(content["months"]) == 2 and set(content["all"]) == {"never", "monthly"}
