"""Banks and forms whose right values are worked out beside them, a few items at a time."""

from __future__ import annotations

import runpy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.bank.bank import PUBLISHED_ELSEWHERE, Observation
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.scores.item_scaling import CONSTANT
from lm_eval_ccat.scores.reading import Query
from lm_eval_ccat.testing.methods import example_table
from lm_eval_ccat.upkeep.borrow import _moved, _profile, _scores_on, donors_of
from lm_eval_ccat.upkeep.check import check_scores
from lm_eval_ccat.upkeep.forms import Form, _Covariance, _filled, _write_task, make_form, score_form
from lm_eval_ccat.upkeep.score_tables import make_bank, scores_for, table_of
from lm_eval_ccat.upkeep.update import merged, retire, update
from lm_eval_ccat.upkeep.words import in_lines, report

# -- banks ----------------------------------------------------------------------------------------


def observed(chosen, items, scores, probabilities=None):
    drawn = None if probabilities is None else np.array(probabilities)
    return Observation("a", chosen, np.array(items), np.array(scores), drawn)


def test_what_was_chosen_once_is_no_random_sample_any_more():
    for old, new in (("adaptive", "drawn"), ("drawn", "adaptive")):
        [both] = merged([observed(old, [0, 1], [0.1, 0.2])], [observed(new, [2], [0.3])])
        assert both.chosen == "adaptive" and both.items.tolist() == [0, 1, 2]
    [again] = merged([observed("adaptive", [2], [0.1])], [observed("drawn", [1, 2], [0.2, 0.3])])
    assert again.chosen == "drawn" and again.scores.tolist() == [0.2, 0.3]


def test_items_that_stay_keep_their_own_parameters():
    bank = calibrate(example_table(12, 30, seed=1), "paper")
    left = retire(bank, [bank.doc_ids[n] for n in (0, 7, 8)], "leaked")
    assert left.n_items == 27
    for name, values in left.parameters.items():
        for item, value in zip(left.doc_ids, values):
            assert value == bank.parameters[name][bank.index[item]], name


def test_items_that_calibration_removed_are_none_that_a_bank_could_go_on_with():
    bank = replace(ItemBank.blank(range(3)), kept=np.array([True, True, False]))
    left = retire(bank, [0], "leaked")
    assert left.doc_ids == (1, 2)
    with pytest.raises(BankError, match="no item of the bank would be left"):
        retire(left, [1], "leaked")


def test_a_bank_knows_every_time_that_items_left_it():
    bank = ItemBank.blank(range(5))
    left = retire(retire(bank, [0], "leaked"), [3, 4], "wrong")
    assert [(part["items"], part["why"]) for part in left.provenance["retired"]] == [
        ([0], "leaked"), ([3, 4], "wrong"),
    ]  # fmt: skip
    assert left.provenance["retired"][0]["previous"] == bank.sha256


def versions(n_models):
    """A bank of documents 0 to 19, and scores of some models on documents 1 to 20."""
    rng = np.random.default_rng(0)
    scores = 1 / (1 + np.exp(-rng.normal(size=(30, 1)) - rng.normal(size=21)))
    hashes = [f"h{d}" for d in range(21)]
    old = ScoreTable.from_arrays(
        scores[:12, :20], [f"old{m}" for m in range(12)], range(20), doc_hashes=hashes[:20]
    )
    new = ScoreTable.from_arrays(
        scores[12 : 12 + n_models, 1:], [f"new{m}" for m in range(n_models)], range(1, 21),
        doc_hashes=hashes[1:],
    )  # fmt: skip
    return calibrate(old, "paper", keep_scores=True), old, new


@pytest.mark.long
@pytest.mark.parametrize(("n_models", "learned"), [(4, False), (5, True)])
def test_five_models_teach_a_bank_a_new_document(n_models, learned):
    bank, _, new = versions(n_models)
    updated = update(bank, new, new_version=True)
    assert (20 in updated.index) == learned and 0 not in updated.index


@pytest.mark.long
def test_the_scores_of_a_calibration_are_of_its_models_and_no_others():
    bank, old, new = versions(5)
    assert update(bank, new, calibrated_on=old).models == (*old.models, *new.models)
    more = ScoreTable.from_arrays(
        np.vstack([old.raw, old.raw[:1]]), [*old.models, "stranger"], range(20),
        doc_hashes=old.doc_hashes,
    )  # fmt: skip
    for other, name in ((more, "stranger"), (old.without(["old3"]), "old3")):
        with pytest.raises(BankError, match=name):
            update(bank, new, calibrated_on=other)


@pytest.mark.long
def test_a_shift_of_every_item_is_no_drift_and_one_beyond_it_is_told_by_how_much():
    """Newer models find all items easier by a logit; the hardest became easier by 2.5 more."""
    rng = np.random.default_rng(2)
    ease, n = rng.normal(0.0, 1.0, 80), 60
    hardest = int(ease.argmin())

    def scores(abilities, ease):
        mu = 1 / (1 + np.exp(-abilities[:, None] - ease))
        return rng.beta(20 * mu, 20 * (1 - mu))

    old = scores(rng.normal(-0.5, 1.0, n), ease)
    bank = calibrate(ScoreTable.from_arrays(old, [f"o{m}" for m in range(n)]), "paper")
    moved = 0.6 * ease  # the spread of the items changes, too: a common trend
    moved[hardest] += 2.5
    new = ScoreTable.from_arrays(
        scores(rng.normal(0.5, 1.0, n), moved), [f"n{m}" for m in range(n)]
    )
    [drift] = [finding for finding in check_scores(bank, new) if finding.kind == "drifted_items"]
    assert drift.items == (hardest,) and "1 became easier, 0 harder" in drift.message
    assert drift.figures["shift_in_logits"][str(hardest)] == pytest.approx(2.5, abs=0.4)


# -- forms ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def form():
    rng = np.random.default_rng(0)
    scores = 1 / (1 + np.exp(-rng.normal(size=(12, 1)) - rng.normal(size=30)))
    scores[:, 5:20] = 0.5  # these tell no models apart
    return make_form(scores, range(100, 130), 15)


def test_a_form_has_only_items_that_tell_models_apart_and_each_once(form):
    assert len(set(form.items)) == 15
    assert not set(form.items) & set(range(105, 120))
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.uniform(size=(12, 1)), 30, axis=1)
    scores[:, 5:20] = 0.5
    with pytest.raises(UsageError, match="15 items tell models apart"):
        make_form(scores, range(30), 16)


@pytest.mark.parametrize("models", [8, 40])
def test_an_interval_of_a_form_is_two_sided_with_the_degrees_of_freedom_of_its_models(models):
    form = Form((1,), (None,), *[np.ones(1)] * 3, 0.5, 1.0, 0.01, models)
    reach = 0.01 * student.ppf(0.975, models - 1)
    assert form.interval(0.5, 0.01) == pytest.approx((0.5 - reach, 0.5 + reach))


def test_a_forms_own_task_numbers_its_documents_from_0(form, tmp_path):
    """The harness knows them by their places in the form."""
    form = Form(**{**vars(form), "task": "t", "metric": "acc", "n_items": 30})
    scores = np.linspace(0.2, 0.9, 15)
    ScoreTable.from_arrays([scores], ["m"], range(15), metric="acc", task=form.name).write(
        tmp_path / "own.csv"
    )
    ScoreTable.from_arrays([scores], ["m"], form.items, metric="acc", task="t").write(
        tmp_path / "whole.csv"
    )
    own, whole = (score_form(form, tmp_path / f"{name}.csv") for name in ("own", "whole"))
    assert own == whole and own["m"][0]["items"] == 15


def test_few_shot_examples_of_a_form_come_from_all_of_their_split(form, tmp_path):
    form = Form(**{**vars(form), "task": "t"})
    _write_task(form, tmp_path, {"test_split": "test"}, tmp_path / "t.yaml")
    code = runpy.run_path(str(tmp_path / f"{form.name}_docs.py"))

    def dataset(split):
        documents = SimpleNamespace(split=split)
        documents.select = lambda items: ("selected", items)
        return documents

    assert code["process_docs"](dataset("test")) == ("selected", list(form.items))
    train = dataset("train")
    assert code["process_docs"](train) is train


# -- what is borrowed -----------------------------------------------------------------------------


def test_a_profile_says_which_documents_are_hard_and_not_how_hard_all_are():
    scores = np.array([[0.2, 0.5, 0.8, np.nan], [0.3, 0.6, 0.7, np.nan]])
    profile = _profile(scores)
    assert profile[3] == 0.0 and profile[:3].sum() == pytest.approx(0.0)
    logits = np.log(scores[:, :3].mean(axis=0) / (1 - scores[:, :3].mean(axis=0)))
    assert profile[:3] == pytest.approx(logits - logits.mean())


def test_donors_weigh_as_much_as_each_is_told_by_the_others():
    """Else what a donor says of itself counts as what it says of a new task."""
    rng = np.random.default_rng(4)
    profiles = rng.normal(size=40) + rng.normal(size=(3, 40))
    rows = {f"d{n}": np.tile(1 / (1 + np.exp(-profile)), (2, 1))
            for n, profile in enumerate(profiles)}  # fmt: skip
    _, weights = _moved(rows, np.empty((0, 40)))
    centred = profiles - profiles.mean(axis=1, keepdims=True)
    others = np.array([np.delete(centred, n, axis=0).mean(axis=0) for n in range(3)])
    assert weights == pytest.approx((others * centred).sum() / (others * others).sum())


@pytest.mark.long
def test_the_new_task_is_no_donor(tmp_path):
    for task in ("de", "es", "new"):
        table = ScoreTable.from_arrays([[0.1, 0.9]], ["m"], metric="acc", task=task)
        table.write(tmp_path / f"{task}.csv")
    files = sorted(tmp_path.glob("*.csv"))
    assert list(donors_of(files, Query(task="new"))) == ["de", "es"]
    assert list(donors_of(files)) == ["de", "es", "new"]
    # Nor need its own bank in a suite keep scores.
    bank, own = (calibrate(example_table(12, 30), "paper", keep_scores=k) for k in (True, False))
    banks = {task: replace(bank, task=task) for task in ("de", "es")}
    SuiteBank({**banks, "new": replace(own, task="new")}).save(tmp_path / "s")
    assert list(donors_of([tmp_path / "s"], Query(task="new"))) == ["de", "es"]


@pytest.mark.long
def test_a_suite_lends_by_another_filter_where_it_has_none_of_that_name(tmp_path):
    bank = calibrate(example_table(12, 30), "paper", keep_scores=True)
    SuiteBank({"de": replace(bank, task="de", filter="strict")}).save(tmp_path / "s")
    assert [*donors_of([tmp_path / "s"], Query(task="new"))] == ["de"]
    assert [*donors_of([tmp_path / "s"], Query(task="new", filter="loose"))] == ["de"]


def test_a_donor_may_have_many_more_documents_than_the_new_task():
    own = ScoreTable.from_arrays(np.zeros((1, 4)), ["own"], [1, 3, 5, 39])
    donor = ScoreTable.from_arrays([np.arange(40) / 40], ["m"])
    assert _scores_on(own, "de", donor).tolist() == [[1 / 40, 3 / 40, 5 / 40, 39 / 40]]


def test_covariances_of_items_are_those_of_the_sample_but_for_what_is_shrunk():
    scores = np.random.default_rng(0).random((9, 6))
    sample, plain, shrunk = np.cov(scores.T), _Covariance(scores, 0.0), _Covariance(scores, 0.7)
    for item in range(6):
        assert plain.column(item) == pytest.approx(sample[item])
        # What an item varies by itself is known, however few models there are.
        assert shrunk.column(item)[item] == pytest.approx(sample[item, item])
    assert plain.with_mean == pytest.approx(sample.mean(axis=1))
    assert plain.variance == pytest.approx(np.var(scores.mean(axis=1), ddof=1))


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_missing_score_of_equal_ones_is_the_same(level):
    scores = np.full((4, 5), level)
    scores[0, 0] = scores[2, 3] = np.nan
    assert _filled(scores) == pytest.approx(np.full((4, 5), level))


def test_a_form_is_of_the_split_that_is_evaluated(form, tmp_path):
    form = Form(**{**vars(form), "task": "t", "metric": "acc", "n_items": 30})
    for split, config in (
        ("exam", {"test_split": "exam", "validation_split": "quiz"}),
        ("quiz", {"validation_split": "quiz"}),
    ):
        _write_task(form, tmp_path, config, tmp_path / "t.yaml")
        [module] = tmp_path.glob("*.py")
        assert runpy.run_path(str(module))["SPLIT"] == split


@pytest.mark.long
def test_a_bank_gives_back_the_rows_that_it_keeps():
    raw = np.random.default_rng(0).random((12, 20))
    models = [f"m{n // 2}" for n in range(12)]
    table = ScoreTable.from_arrays(
        raw, models, configs=["t=0", "t=1"] * 6, settings={"num_fewshot": 3}
    )
    bank = calibrate(table, "paper", keep_scores=True)
    again = table_of(bank, bank.observations)
    assert again.raw == pytest.approx(table.raw) and again.settings == table.settings
    assert (again.row_model, again.row_config) == (table.row_model, table.row_config)
    assert dict(in_lines(report(table, bank)))["models"].startswith("6 in 12 configs, from ")


@pytest.mark.long
def test_published_scores_are_scaled_as_one_s_own():
    """Where they were published nobody knows the prompts: all items are drawn."""
    table = example_table(14, 40, seed=1)
    own, elsewhere = (
        make_bank(table, scale_items=True, published_elsewhere=published)
        for published in (False, True)
    )
    assert own.constants[CONSTANT] == elsewhere.constants[CONSTANT]
    assert elsewhere.provenance["prompts"] == PUBLISHED_ELSEWHERE
    assert elsewhere.provenance["options"]["draws"] == 1.0
    assert "draws" not in own.provenance.get("options", {})


@pytest.mark.long
def test_scores_of_documents_in_another_order_stand_beside_those_of_the_bank(tmp_path):
    table = replace(example_table(12, 20, seed=1), doc_hashes=tuple(f"h{n}" for n in range(20)))
    bank, order = calibrate(table, "paper"), np.random.default_rng(3).permutation(20)
    moved = table.take(order)
    moved = replace(moved, doc_ids=tuple(range(20)))  # as the data set numbers them now
    moved.write(tmp_path / "moved.parquet")
    found = scores_for(bank, tmp_path / "moved.parquet")
    places = [found.doc_ids.index(doc_id) for doc_id in bank.doc_ids]
    assert found.raw[:, places] == pytest.approx(table.raw)
