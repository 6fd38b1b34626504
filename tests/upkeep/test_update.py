"""An updated bank is a fresh one of the same data; items leave it, a new version brings others."""

from dataclasses import replace

import numpy as np
import pytest
from worlds.boards import drive

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.bank.bank import Observation
from lm_eval_ccat.errors import BankError, BankMismatchError, ScoreTableError, UsageError
from lm_eval_ccat.scores.prompts import Prompts, mark_of
from lm_eval_ccat.upkeep.update import _next_version, grow, retire, union, update
from lm_eval_ccat.upkeep.words import diff_banks, diff_in_words

N, MODELS = 50, 34


@pytest.fixture(scope="module")
def table() -> ScoreTable:
    rng = np.random.default_rng(1)
    skill, ease = np.linspace(-1.5, 1.5, MODELS)[:, None], rng.normal(size=N)
    raw = 1 / (1 + np.exp(-skill - ease - 0.4 * rng.normal(size=(MODELS, N))))
    return ScoreTable.from_arrays(
        raw,
        [f"m{j:02}" for j in rng.permutation(MODELS)],
        metric="acc",
        doc_hashes=[f"h{i}" for i in range(N)],
        settings={"task_version": 1.0, "num_fewshot": 0},
    )


@pytest.fixture(scope="module")
def bank(table) -> ItemBank:
    """A bank of the first ten models that keeps their scores."""
    return calibrate(table.select(table.models[:10]), "paper", keep_scores=True)


@pytest.mark.long
@pytest.mark.parametrize("method", ["paper", "default"])
def test_an_update_is_a_calibration_on_all_scores(table, method):
    whole = table.select(table.models[:16])
    old, new = whole.select(whole.models[:10]), whole.select(whole.models[8:])
    bank = calibrate(old, method, keep_scores=True)
    want = calibrate(whole, method, keep_scores=True)
    for made in (update(bank, new), update(bank, new, old)):
        for name, values in want.parameters.items():
            np.testing.assert_allclose(made.parameters[name], values, atol=2e-4)
        # Of the two models in both the new rows count, which stand behind the others.
        assert made.models == want.models and len(made.observations) == 16
        assert made.provenance["updates"][0]["previous"] == bank.sha256
        assert len(update(made, new).provenance["updates"]) == 2


@pytest.mark.long
def test_documents_that_the_bank_lacks_are_told_however_few_models_have_them(table):
    few = table.take(np.arange(N - 2))
    bank = calibrate(few.select(table.models[:10]), "paper", keep_scores=True)
    updated = update(bank, table.select(table.models[10:11]))
    assert updated.n_items == N - 2
    assert "2 documents not in the bank left out" in updated.warnings


@pytest.mark.long
def test_scores_that_do_not_fit_are_refused(table, bank):
    new, old = table.select(table.models[10:]), table.select(table.models[:10])
    shots = replace(new, settings={"num_fewshot": 5, "task_version": 1.0})
    adaptive = replace(new, chosen=("adaptive",) * len(new.row_model))
    version = replace(new, settings={"num_fewshot": 0, "task_version": 2.0})
    for refused, arguments, says in (
        (BankMismatchError, (bank, shots), "num_fewshot"),
        (BankMismatchError, (bank, version), "task_version is 2"),
        (BankError, (bank, new, old.select(old.models[:5])), "other models"),
        (BankError, (calibrate(old, "paper"), new), "name them with --calibrated_on"),
        (BankError, (bank, adaptive), "chose the items of"),
    ):
        with pytest.raises(refused, match=says):
            update(*arguments)
    with pytest.raises(BankMismatchError, match="needs document hashes"):
        update(replace(bank, doc_hashes=None), version, new_version=True)


@pytest.mark.long
def test_what_was_chosen_in_adaptive_runs_is_remembered(table):
    bank = calibrate(table.select(table.models[:10]), keep_scores=True)
    raw = table.raw[10:12].copy()
    raw[0, 20:], raw[1, :30] = np.nan, np.nan
    new = replace(table.select(table.models[10:12]), raw=raw, chosen=("adaptive", "drawn"))
    made = update(update(bank, new), table.select(table.models[12:13]))
    assert [o.chosen for o in made.observations] == ["all"] * 10 + ["adaptive", "drawn", "all"]


def test_new_scores_of_a_model_replace_its_old_ones_and_old_ones_fill_the_rest():
    old = ScoreTable.from_arrays([[0.1, 0.2, 0.3], [0.5, 0.5, 0.5]], ["again", "stays"])
    new = ScoreTable.from_arrays([[0.9, np.nan, 0.7]], ["again"], doc_ids=[1, 2, 3])
    both = union(old, new)
    assert both.models == ("stays", "again")
    expected = [[0.5, 0.5, 0.5, np.nan], [0.1, 0.9, 0.3, 0.7]]
    np.testing.assert_array_equal(both.raw, expected)
    with_config = replace(new, row_config=("t=1",))  # the old way of running it is gone
    assert union(old, with_config).row_config == ("", "t=1")
    hashed = replace(old, doc_hashes=("h0", "h1", None))
    both = union(hashed, replace(new, doc_hashes=("h1", "h2", None)))
    assert both.doc_hashes == ("h0", "h1", "h2", None)  # each from the table that knows it
    with pytest.raises(ScoreTableError, match="doc_id 1 is a different document"):
        union(hashed, replace(new, doc_hashes=("other", "h2", "h3")))


def test_a_new_score_has_its_own_prompt_and_leaves_it_known_how_the_others_were_chosen():
    old = ScoreTable.from_arrays([[0.1, 0.2, 0.3, np.nan]], ["a"], chosen=("adaptive",))
    old = replace(old, prompts=Prompts(("0a1b2c3d",), np.array([[0, 0, 0, -1]])))
    for new_scores, how in (
        ([0.5, np.nan, np.nan, np.nan], "adaptive"),
        ([0.5, 0.6, 0.7, np.nan], "first"),
        ([0.5, np.nan, np.nan, 0.8], ""),
    ):
        new = ScoreTable.from_arrays([new_scores], ["a"], chosen=("first",))
        both = union(old, new)
        wanted = np.where(np.isnan(new_scores), old.raw[0], new_scores)
        np.testing.assert_array_equal(both.raw[0], wanted)
        # Nobody knows of what prompt the new scores are.
        marks = both.prompts.of_row(0) if both.prompts else (None,) * 4
        of_old = np.isnan(new_scores) & np.isfinite(old.raw[0])
        assert [mark is not None for mark in marks] == of_old.tolist()
        assert (both.chosen or ("",)) == (how,)


@pytest.mark.long
def test_diff_tells_what_changed(table, bank):
    assert diff_banks(bank, bank)["same"]
    found = diff_banks(bank, update(bank, table.select(table.models[10:18])))
    assert not found["same"] and not found["models_removed"]
    assert found["models_added"] == list(table.models[10:18])
    assert {"k", "difficulty"} < set(found["parameters_changed"])
    assert len(diff_in_words(found)) < 6
    other = replace(table, doc_hashes=("h0", "other", *table.doc_hashes[2:]))
    found = diff_banks(bank, calibrate(other.take(np.arange(1, N)), "paper"))
    assert found["items_removed"] == [0] and found["documents_changed"] == [1]


# -- items that leave, and new versions


def test_whoever_retires_items_is_not_warned_that_scores_have_them(table, bank):
    new = table.select(table.models[10:18])
    made = update(bank, new, retired=[0, 9])
    assert not any("left out" in warning for warning in made.warnings)
    assert not any("left out" in warning for warning in update(made, new).warnings)
    less = retire(bank, [3], "leaked")
    unknown = replace(less, provenance={**less.provenance, "retired": []})
    assert "1 document not in the bank left out" in update(unknown, new).warnings


def test_a_retired_item_is_never_asked_and_never_counted(table, bank):
    made = retire(bank, [0, 9], "leaked")
    assert made.provenance["retired"][0]["items"] == [0, 9]
    # Everything else stands beside the document that it stood beside.
    left = table.take(np.array([i for i in range(N) if i not in (0, 9)]))
    assert (made.doc_ids, made.doc_hashes) == (left.doc_ids, left.doc_hashes)
    for o, row in zip(made.observations, left.scores[:10], strict=True):
        np.testing.assert_allclose(o.scores, row[o.items], atol=1e-6)
    drawn = Observation("a", "drawn", np.array([4, 2, 7]), np.array([0.1, 0.2, 0.3]))
    part = retire(grow(ItemBank.blank(range(9)), [drawn]), [2], "leaked")
    [o] = part.observations
    assert dict(zip([part.doc_ids[i] for i in o.items], o.scores)) == {4: 0.1, 7: 0.3}
    ranker = Ranker(made, {"x": 1.0}, max_items=N, stop="limits")
    found = drive(ranker, {"x": dict(zip(left.doc_ids, left.scores[20]))})
    assert found.estimates["x"] == pytest.approx(left.scores[20].mean(), abs=0.05)
    assert retire(bank, [], "none") is bank
    for gone, refused, says in (
        ([99], UsageError, "no item with doc_id 99"),
        (bank.doc_ids, BankError, "no item of the bank would be left"),
    ):
        with pytest.raises(refused, match=says):
            retire(bank, gone, "x")


def test_banks_that_ask_otherwise_are_not_the_same():
    old, new, unknown = (
        ItemBank.blank(range(3), prompts=marks)
        for marks in (["0a1b2c3d", "11111111", None], ["0a1b2c3d", "22222222", "33333333"], None)
    )
    diff = diff_banks(old, new)
    assert not diff["same"] and diff["prompts_changed"] == [1]
    assert diff_in_words(diff) == ["prompts changed: 1 (1)"]
    assert diff_banks(old, unknown)["same"]  # what one side does not say is no difference


@pytest.mark.long
def test_a_new_version_retires_what_changed_and_learns_what_is_new(table):
    """Document 5 is another one, 7 and 30 were not there, 9 is gone; 2 leaked."""
    old = table.select(table.models[:20]).take(np.delete(np.arange(N), [7, 30]))
    bank = calibrate(old)
    hashes = tuple("other" if i == 5 else h for i, h in enumerate(table.doc_hashes))
    settings = {"task_version": 2.0, "num_fewshot": 0}
    new = replace(table.select(table.models[20:]), doc_hashes=hashes, settings=settings)
    new = new.take(np.delete(np.arange(N), 9))
    made = update(bank, new, old, retired=[2], new_version=True)
    assert set(range(N)) - set(made.doc_ids) == {2, 9}
    assert made.doc_hashes[made.index[5]] == "other" and made.settings["task_version"] == 2.0
    said = "\n".join(made.warnings)
    for words in (
        r"1 document retired, which the new version lacks (doc_id 9)",
        r"1 document retired, which the new version changes (doc_id 5)",
        f"3 new documents learned from {MODELS - 20} models",
    ):
        assert words in said
    # Of what is new, nearly what a calibration on all scores would say.
    whole = calibrate(table)
    apart = [made.parameters["intercept"][made.index[d]] - whole.parameters["intercept"][d]
             for d in (5, 7, 30)]  # fmt: skip
    assert np.abs(apart).max() < 0.4 * whole.parameters["intercept"].std()
    few = update(bank, new.select(new.models[:4]), old, new_version=True)
    assert set(range(N)) - set(few.doc_ids) == {5, 7, 9, 30}
    assert any("left out: fewer than 5 models" in w for w in few.warnings)
    # The bank's own models, run on the new version, say of its documents as much as others do.
    own = replace(table.select(table.models[:20]), settings=settings)
    again = update(bank, own, old, retired=[2], new_version=True)
    assert set(again.models) == set(old.models) and {7, 30} <= set(again.doc_ids)
    assert 2 not in again.index, "what leaked is not learned anew"


@pytest.mark.long
@pytest.mark.parametrize("how", ["adaptive", "drawn", "first", "all"])
def test_a_run_of_a_part_does_not_say_that_a_new_version_lacks_the_others(table, how):
    bank = calibrate(table.select(table.models[:8]), "paper")
    part = table.select(table.models[20:22]).take(np.arange(10))
    part = replace(part, chosen=(how,) * len(part.row_model))
    renewed, notes = _next_version(bank, part)
    n_retired = bank.n_items - renewed.n_items
    assert n_retired == (bank.n_items - 10 if how == "all" else 0)
    assert any("retired" in note for note in notes) == (n_retired > 0)


@pytest.mark.long
def test_only_a_new_version_may_ask_otherwise(table, bank):
    def asked(scores, word):
        marks = [mark_of(f"{word} {n}") for n in range(N)]
        return replace(scores, prompts=Prompts.of_rows([marks] * len(scores.row_model)))

    old = calibrate(asked(table.select(bank.models), "Say"), "paper", keep_scores=True)
    new = asked(table.select(table.models[10:18]), "Sing")
    with pytest.raises(BankMismatchError, match="the prompt of document 0"):
        update(old, new)
    assert len(update(old, new, new_version=True).models) == 18
