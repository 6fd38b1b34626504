"""`audit`: what was claimed and what held, from results as `rank` and `run` leave them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lm_eval_ccat import Ranker, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    eta = np.linspace(-1.2, 1.2, 14)[:, None] + rng.normal(size=200)[None]
    unit = np.clip(1 / (1 + np.exp(-eta)) + 0.1 * rng.normal(size=eta.shape), 0, 1)
    scale = Scale(0, 25, higher_is_better=False)
    return ScoreTable.from_arrays(
        scale.restore(unit), models=[f"m{n:02d}" for n in range(14)], scale=scale, metric="mqm"
    )


@pytest.fixture
def ranked(table, tmp_path):
    """A run directory of four models, and the full results as a table file."""
    names = ["m01", "m05", "m06", "m12"]
    bank = calibrate(table.without(names), method="paper")
    ranker = Ranker(bank, models={m: 1.0 for m in names}, budget=100)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, table.select([model]).scores[0, item])
    content = {"key": "mqm,none", "metric": "mqm", **ranker.result().to_dict()}
    folder = tmp_path / "models.run"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(content))
    table.write(tmp_path / "full.parquet")
    return folder, content, tmp_path / "full.parquet"


def test_order_intervals_and_pairs_are_compared(ranked, table, tmp_path, capsys):
    folder, content, full = ranked
    out = tmp_path / "audit.json"
    assert main(["verify", str(folder), "--full", str(full), "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].endswith(": 95% intervals against full results")
    found = json.loads(out.read_text())
    truth = dict(zip(table.models, table.raw.mean(axis=1)))
    for name, one in found["models"].items():
        claim = content["models"][name]
        assert one["truth"] == pytest.approx(truth[name])
        assert one["z"] == pytest.approx(
            (claim["estimate"] - truth[name]) / claim["standard_error"]
        )
        assert one["held"] == (claim["interval"][0] <= truth[name] <= claim["interval"][1])
    # Lower is better: the true order is by ascending mean.
    assert found["true_order"] == sorted(content["order"], key=truth.__getitem__)
    assert len(found["pairs"]) == 6
    sure = [p for p in found["pairs"] if p["held"] is not None]
    assert found["decided"] == {"held": sum(p["held"] for p in sure), "of": len(sure)}
    assert f"{found['decided']['held']} of {len(sure)} in the full order" in printed
    assert "claimed order" in printed and "m12 > " in printed
    assert found["items"]["full"] == 800


def test_a_false_claim_is_named(ranked, table, capsys):
    folder, content, full = ranked
    best, worst = content["order"][0], content["order"][-1]
    swap = {best: worst, worst: best}
    wrong = ScoreTable.from_arrays(
        table.raw, models=[swap.get(m, m) for m in table.models], scale=table.scale, metric="mqm"
    )
    wrong.write(full)
    assert main(["verify", str(folder), "--full", str(full)]) == 0
    printed = capsys.readouterr().out
    assert f"did not hold: {best} better ({best} against {worst}" in printed
    assert "NO" in printed


def test_names_that_differ_and_results_that_are_not_there(ranked, table, capsys):
    folder, _, full = ranked
    renamed = ScoreTable.from_arrays(
        table.raw, models=[f"org/{m}" for m in table.models], scale=table.scale, metric="mqm"
    )
    renamed.write(full)
    assert main(["verify", str(folder), "--full", str(full)]) == 2
    assert "no full results of m" in capsys.readouterr().err


def test_other_documents_are_warned_of(ranked, table, capsys):
    folder, _, full = ranked
    raw = table.raw[:, :150].copy()
    raw[1, :7] = np.nan
    ScoreTable.from_arrays(raw, models=table.models, scale=table.scale, metric="mqm").write(full)
    assert main(["verify", str(folder), "--full", str(full)]) == 0
    err = capsys.readouterr().err
    assert "benchmark has 200 items, the full results have 150" in err
    assert "m01: 7 of 150 full scores are missing" in err


def test_the_results_file_of_an_adaptive_run(table, tmp_path, capsys):
    full = tmp_path / "full.parquet"
    table.write(full)
    block = {
        "metric": "mqm", "filter": "none", "key": "mqm,none", "estimate": 9.0,
        "standard_error": 0.5, "interval": [8.02, 9.98], "confidence": 0.95, "items": 30,
        "items_total": 200,
    }  # fmt: skip
    file = tmp_path / "run" / "results_2026-01-01T00-00-00.json"
    file.parent.mkdir()
    file.write_text(
        json.dumps({"model_name": "m07", "results": {"t": {}}, "adaptive": {"t": block}})
    )
    assert main(["verify", str(file.parent), "--full", str(full)]) == 0
    truth = table.raw[7].mean()
    assert f"{(9.0 - truth) / 0.5:+.2f}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read as a result"),
        ("{}", "neither a result of `rank`"),
        ('{"models": {"a": {}}, "pairwise": []}', "not a complete result"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, capsys, content, said):
    (tmp_path / "result.json").write_text(content)
    assert main(["verify", str(tmp_path), "--full", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
