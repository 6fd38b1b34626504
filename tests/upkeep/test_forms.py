"""Fixed forms: what they tell of the whole, and what they refuse."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import BankError, BankMismatchError, UsageError
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.upkeep.forms import Form, _doc_ids, form_of, make_form, score_form


def world(seed: int, n_models: int, n_items: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    skill, slope = rng.normal(size=(n_models, 1)), np.exp(rng.normal(size=n_items))
    p = 1 / (1 + np.exp(-slope * (skill - rng.normal(size=n_items))))
    return (rng.random(p.shape) < p).astype(float)


@pytest.mark.long
@settings(deadline=None, max_examples=5)
@given(st.integers(0, 10**6), st.integers(8, 30))
def test_a_form_of_all_items_gives_the_mean_itself(seed, n_models):
    x, new = np.split(np.random.default_rng(seed).random((n_models + 1, 12)), [n_models])
    form = make_form(x, range(12), 12)
    assert form.estimate(dict(enumerate(new[0])))[0] == pytest.approx(new.mean(), abs=1e-6)


@pytest.mark.long
def test_a_form_beats_random_items_and_states_its_error():
    x = world(3, 260, 120)
    known, new = x[:60], x[60:]
    truth = new.mean(axis=1)
    form = make_form(known, range(120), 12)
    estimates, errors = np.array([form.estimate(dict(enumerate(row))) for row in new]).T
    at_random = new[:, :12].mean(axis=1)
    assert np.std(estimates - truth) < 0.6 * np.std(at_random - truth)
    ends = np.array([form.interval(*one) for one in zip(estimates, errors)])
    assert np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) > 0.88
    # An answer that failed widens the error; missing scores of a few models do no harm.
    answers = dict(enumerate(new[0]))
    answers.pop(form.items[0])
    assert form.estimate(answers)[1] > errors[0]
    with pytest.raises(UsageError, match="no item of the form has a score"):
        form.estimate({"other": 1.0})
    known[:4, 60:] = np.nan
    part = make_form(known, range(120), 12).estimate(dict(enumerate(new[0])))[0]
    assert part == pytest.approx(estimates[0], abs=0.1)


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


@pytest.fixture(scope="module")
def table():
    names = [f"m{j:02}" for j in range(30)]
    return ScoreTable.from_arrays(world(7, 30, 50), names, metric="acc", task="t")


@pytest.mark.long
def test_a_bank_that_keeps_its_scores_needs_no_others(table, tmp_path):
    # Configurations of a model are no models of their own, and adaptive runs no full results.
    raw = np.vstack([np.repeat(table.raw, 2, axis=0), 1 - table.raw[:1]])
    names, configs = [*np.repeat(table.models, 2), "odd"], ["a", "b"] * 30 + [""]
    twice = ScoreTable.from_arrays(
        raw, names, configs=configs, metric="acc", task="t", chosen=("all",) * 60 + ("adaptive",)
    )
    form, bare = form_of(calibrate(twice, "paper", keep_scores=True), 6), calibrate(table, "paper")
    assert (form.models, form.items) == (30, form_of(bare, 6, table).items)
    with pytest.raises(BankError, match="the bank keeps no full results"):
        form_of(bare, 6)
    bank = calibrate(table, "paper", keep_scores=True)
    first, *others = bank.observations
    half = replace(first, items=first.items[::2], scores=first.scores[::2])
    assert form_of(replace(bank, observations=(half, *others)), 6).models == 29
    kept = np.array([doc_id != form.items[0] for doc_id in bank.doc_ids])
    assert form.items[0] not in form_of(replace(bank, kept=kept), 6).items
    form.save(tmp_path)
    again = Form.load(tmp_path)
    assert str(vars(again)) == str(vars(form))
    assert form.estimand == "mean acc over all 50 documents of t"
    of_sentences = replace(form, metric="bleu", scale=Scale(0, 100)).estimand
    assert of_sentences.startswith("mean sentence-level bleu (not the corpus bleu) over all ")
    table.write(tmp_path / "s.csv")
    [one] = score_form(again, tmp_path / "s.csv")["m03"]
    expected = form.estimate(dict(enumerate(table.raw[3])))
    assert (one["items"], one["estimate"], one["standard_error"]) == (
        6,
        *map(pytest.approx, expected),
    )


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
    file = make_form(table.raw, table.doc_ids, 6).save(tmp_path)
    content = json.loads(file.read_text())
    damage(content)
    file.write_text(json.dumps(content))
    with pytest.raises(BankError, match="not a readable form"):
        Form.load(tmp_path)


@pytest.mark.long
def test_a_bank_without_scores_has_a_form_by_those_that_are_given(table, tmp_path, capsys):
    bank, scores = str(tmp_path / "b.bank.json"), str(tmp_path / "known.parquet")
    calibrate(table, "paper").save(bank)
    table.write(scores)
    make = ["bank", "form", bank, "--items", "10", "-o", str(tmp_path / "form")]
    assert main(make) == 1 and "the bank keeps no " in capsys.readouterr().err
    assert main([*make, "--scores", scores]) == 0
    said = capsys.readouterr()
    assert "form 1: 10 of 50 items" in said.out and "the harness has no task 't'" in said.err


@pytest.mark.parametrize("doc_id", [2, -1, "0"])
def test_a_document_that_a_form_lacks_is_refused_by_name(doc_id):
    """The harness numbers the documents of its task from 0."""
    form = SimpleNamespace(name="short", items=(7, 3), doc_hashes=(None, None))
    table = ScoreTable.from_arrays([[0.0, 1.0]], ["m"], [0, 1])
    assert _doc_ids(form, table) == [7, 3]
    with pytest.raises(BankMismatchError, match=f"short has a document {doc_id!r}"):
        _doc_ids(form, ScoreTable.from_arrays([[1.0]], ["m"], [doc_id]))


def test_a_model_without_a_score_has_no_part_in_a_form():
    scores = np.random.default_rng(4).random((9, 30))
    with_another = make_form(np.vstack([scores, np.full(30, np.nan)]), range(30), 6)
    alone = make_form(scores, range(30), 6)
    assert (with_another.models, with_another.items) == (9, alone.items)
    assert with_another.error == alone.error
