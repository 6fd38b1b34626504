"""Fixed forms: what they tell of the whole, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.upkeep.forms import Form, form_of, make_form, score_form


def world(seed: int, n_models: int, n_items: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    skill, slope = rng.normal(size=(n_models, 1)), np.exp(rng.normal(size=n_items))
    p = 1 / (1 + np.exp(-slope * (skill - rng.normal(size=n_items))))
    return (rng.random(p.shape) < p).astype(float)


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 10**6), st.integers(8, 30))
def test_a_form_of_all_items_gives_the_mean_itself(seed, n_models):
    x = np.random.default_rng(seed).random((n_models, 12))
    form = make_form(x, range(12), 12)
    new = np.random.default_rng(seed + 1).random(12)
    assert form.estimate(dict(enumerate(new)))[0] == pytest.approx(new.mean(), abs=1e-6)


def test_a_form_beats_random_items_and_states_its_error():
    x = world(3, 260, 120)
    known, new = x[:60], x[60:]
    form = make_form(known, range(120), 12)
    found = np.array([form.estimate(dict(enumerate(row))) for row in new])
    wrong = found[:, 0] - new.mean(axis=1)
    at_random = new[:, :12].mean(axis=1) - new.mean(axis=1)
    assert np.sqrt((wrong**2).mean()) < 0.6 * np.sqrt((at_random**2).mean())
    inside = [
        low <= t <= high
        for (e, se), t in zip(found, new.mean(axis=1))
        for low, high in [form.interval(e, se, 0.95)]
    ]
    assert np.mean(inside) > 0.88


def test_an_answer_that_failed_widens_the_error():
    form = make_form(world(1, 40, 60), range(60), 10)
    answers = dict.fromkeys(form.items, 1.0)
    whole = form.estimate(answers)[1]
    answers.pop(form.items[0])
    assert form.estimate(answers)[1] > whole
    with pytest.raises(UsageError, match="no item of the form"):
        form.estimate({"other": 1.0})


def test_missing_scores_of_a_few_models_do_no_harm():
    x = world(2, 40, 60)
    holes = x.copy()
    holes[:4, 30:] = np.nan
    whole, part = (make_form(v, range(60), 8) for v in (x, holes))
    answers = dict(enumerate(x[-1]))
    assert part.estimate(answers)[0] == pytest.approx(whole.estimate(answers)[0], abs=0.1)


@pytest.mark.parametrize(
    ("shape", "n", "error", "says"),
    [
        ((7, 20), 3, BankError, "at least 8 models, not 7"),
        ((20, 20), 21, UsageError, "20 items tell models apart"),
        ((20, 20), 0, UsageError, "20 items tell models apart"),
    ],
)
def test_what_cannot_be_a_form_is_refused(shape, n, error, says):
    with pytest.raises(error, match=says):
        make_form(np.random.default_rng(0).random(shape), range(shape[1]), n)


@pytest.fixture
def table():
    x = world(7, 30, 50)
    return ScoreTable.from_arrays(x, [f"m{j:02}" for j in range(30)], metric="acc", task="t")


def test_from_a_bank_to_scores_by_commands(table, tmp_path, capsys):
    names = list(table.models)
    bank, out = tmp_path / "b.bank.json", tmp_path / "form"
    calibrate(table.select(names[:24]), "paper").save(bank)
    table.select(names[:24]).write(tmp_path / "known.parquet")
    table.select(names[24:]).write(tmp_path / "new.parquet")
    make = ["bank", "form", str(bank), "--items", "10", "-o", str(out)]
    assert main(make) == 1
    assert "the bank keeps no full results" in capsys.readouterr().err
    assert main([*make, "--scores", str(tmp_path / "known.parquet")]) == 0
    said = capsys.readouterr()
    assert "form 1: 10 of 50 items" in said.out and "the harness has no task 't'" in said.err
    assert main(["bank", "form", str(out), "--score", str(tmp_path / "new.parquet"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["models"]) == set(names[24:])
    truth = dict(zip(names, table.scores.mean(axis=1)))
    wrong = [one["estimate"] - truth[m] for m, both in found["models"].items() for one in both]
    assert len(wrong) == 6 and np.sqrt(np.mean(np.square(wrong))) < 0.12
    assert main(["bank", "form", str(out), "--score", str(tmp_path / "gone")]) == 2


def test_a_bank_that_keeps_its_scores_needs_no_others(table, tmp_path):
    kept = calibrate(table, "paper", keep_scores=True)
    form = form_of(kept, 6)
    assert form.items == form_of(kept, 6, table=table).items
    form.save(tmp_path)
    again = Form.load(tmp_path)
    assert str(vars(again)) == str(vars(form))
    # Configurations of a model are no models of their own.
    twice = ScoreTable.from_arrays(
        np.repeat(table.raw, 2, axis=0), np.repeat(table.models, 2), configs=["a", "b"] * 30
    )
    assert form_of(calibrate(twice, "paper", keep_scores=True), 6).models == 30
    table.write(tmp_path / "s.csv")
    assert score_form(again, tmp_path / "s.csv")["m03"][0]["items"] == 6


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(format="x"),
        lambda d: d["forms"].clear(),
        lambda d: d["forms"][0]["mean"].pop(),
        lambda d: d["forms"][0].update(covariance=[[0.0] * 6] * 6),
        lambda d: d["forms"][0].update(error="much"),
    ],
)
def test_a_damaged_form_is_refused(table, tmp_path, damage):
    file = form_of(calibrate(table, "paper", keep_scores=True), 6).save(tmp_path)
    content = json.loads(file.read_text())
    damage(content)
    file.write_text(json.dumps(content))
    with pytest.raises(BankError, match="not a readable form"):
        Form.load(tmp_path)
