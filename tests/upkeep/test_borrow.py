"""Borrowed banks, on tasks whose documents are hard by the same numbers."""

from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.bank.bank import Observation
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import ScoreTableError, UsageError
from lm_eval_ccat.methods.default import selfcheck
from lm_eval_ccat.methods.sample.method import SamplePolicy, ease_of
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores.reading import Query
from lm_eval_ccat.upkeep import borrow as room
from lm_eval_ccat.upkeep.borrow import borrow, borrow_from, donors_of
from lm_eval_ccat.upkeep.build import bank_of
from lm_eval_ccat.upkeep.update import grow

N_ITEMS = 150
HARD = np.random.default_rng(1).normal(size=N_ITEMS)


def task(seed: int, models: int = 8, **known) -> ScoreTable:
    """Scores of a task whose documents are hard by `HARD`, and a little by themselves."""
    rng = np.random.default_rng(seed)
    own = HARD + 0.5 * rng.normal(size=N_ITEMS)
    noise = rng.normal(size=(models, 1)) + rng.normal(size=(models, N_ITEMS))
    raw = 1.0 / (1.0 + np.exp(own - noise))
    hashes = [f"{i:064x}" for i in range(N_ITEMS)]
    return ScoreTable.from_arrays(raw, [f"m{j}" for j in range(models)], doc_hashes=hashes, **known)


def shuffled(table: ScoreTable) -> ScoreTable:
    at = np.random.default_rng(3).permutation(table.n_items)
    return replace(table, raw=table.raw[:, at], doc_hashes=None)


DONORS = {name: task(seed) for seed, name in enumerate(("de", "es", "hi", "uk"))}
NEW = task(9, models=40, task="zh")
ONE, TWO = NEW.select("m0"), NEW.select(["m0", "m1"])


def borrowed(donors, own=None) -> ItemBank:
    return borrow(donors, own)[1]


def agreement(bank: ItemBank) -> float:
    """Correlation of a bank's easiness of items with the mean scores of the task's forty models."""
    easy = bank.parameters["ease" if bank.method == "sample" else "intercept"]
    return float(np.corrcoef(easy, NEW.scores.mean(0))[0, 1])


def test_moved_donors_differ_as_much_as_tasks_do():
    """Three tasks about their own mean differ by two thirds of what tasks differ by."""
    n_items, sd = 3000, 0.8
    rng = np.random.default_rng(0)
    donors = {}
    for name in ("de", "es", "hi"):
        logits = sd * rng.normal(size=n_items) + 0.01 * rng.normal(size=(3, n_items))
        donors[name] = ScoreTable.from_arrays(1.0 / (1.0 + np.exp(-logits)), "abc")
    table, _ = borrow(donors)
    means = np.array(
        [table.select([f"{name}: {model}" for model in "abc"]).raw.mean(axis=0) for name in donors]
    )
    variance = np.log(means / (1.0 - means)).var(axis=0).mean()
    assert variance == pytest.approx(sd**2, rel=0.1)


@pytest.mark.long
def test_donors_and_one_run_tell_more_of_the_items_than_either():
    alone, with_one = agreement(borrowed(DONORS)), agreement(borrowed(DONORS, ONE))
    assert 0.7 < alone < with_one > agreement(calibrate(TWO))


@pytest.mark.long
def test_a_donor_of_other_documents_is_dropped_by_name():
    bank = borrowed({**DONORS, "wrong": shuffled(DONORS["de"])}, TWO)
    facts = bank.provenance["borrowed"]
    assert (facts["donors"], facts["dropped"]) == (list(DONORS), ["wrong"])
    assert any("donor wrong was dropped" in warning for warning in bank.warnings)
    assert not any(model.startswith("wrong") for model in bank.models)


@pytest.mark.long
def test_what_a_donor_lacks_and_where_its_documents_stand_leave_the_rest_as_it_was():
    whole = borrowed(DONORS, ONE).parameters["intercept"]
    raw = DONORS["de"].raw.copy()
    raw[:, :20] = np.nan
    raw[0, 50:60] = np.nan
    holes = borrowed({**DONORS, "de": replace(DONORS["de"], raw=raw)}, ONE).parameters["intercept"]
    assert np.isfinite(holes).all() and np.corrcoef(holes[60:], whole[60:])[0, 1] > 0.95
    # Documents are found by their hash before their number.
    at = np.random.default_rng(7).permutation(N_ITEMS)
    hashes = tuple(np.array(NEW.doc_hashes)[at])
    moved = {n: replace(t, raw=t.raw[:, at], doc_hashes=hashes) for n, t in DONORS.items()}
    assert borrowed(moved, ONE).parameters["intercept"] == pytest.approx(whole)


def of(table: ScoreTable, path: str) -> ScoreTable:
    """The table without hashes, of a data set."""
    return replace(table, doc_hashes=None, settings={"dataset_path": path})


def few(table: ScoreTable, documents: int) -> ScoreTable:
    return table.take(np.arange(documents))


OF_ONE = {name: of(table, "wmt24") for name, table in DONORS.items()}


@pytest.mark.parametrize(
    ("lenders", "own", "says"),
    [
        ({name: shuffled(table) for name, table in DONORS.items()}, ONE, "de, es, hi, uk"),
        ({name: DONORS[name] for name in ("de", "es")}, ONE, "3 tasks"),
        ({**DONORS, "es": replace(DONORS["es"], metric="f1")}, ONE, "donor es is scored by f1"),
        ({**DONORS, "es": replace(DONORS["es"], scale=Scale(0, 2))}, ONE, "score \\(0 to 2"),
        ({**OF_ONE, "uk": few(OF_ONE["uk"], 40)}, None, "the donors share 40 documents"),
        ({**DONORS, "away": replace(DONORS["de"], doc_ids=tuple(range(1000, 1000 + N_ITEMS)),
                                    doc_hashes=None)}, ONE, "donor away has 0 of the 150"),
        # Numbers of documents count within one data set.
        ({**OF_ONE, "es": of(DONORS["es"], "flores")}, of(ONE, "wmt24"), "donor es has 0 of the"),
        ({**OF_ONE, "es": of(DONORS["es"], "flores")}, None, "flores, wmt24"),
    ],
)  # fmt: skip
def test_donors_that_cannot_lend_are_refused_by_name(lenders, own, says):
    with pytest.raises((UsageError, ScoreTableError), match=says):
        borrow(lenders, own)


@pytest.mark.long
def test_donors_may_state_the_own_scale_in_another_way():
    errors = replace(ONE, scale=Scale(0, 1, higher_is_better=False))
    capped = {name: replace(table, scale=Scale(cap=1)) for name, table in DONORS.items()}
    assert borrowed(capped, errors).n_items == N_ITEMS


@pytest.mark.long
def test_donors_of_one_data_set_lend_by_the_numbers_of_its_documents():
    assert borrowed(OF_ONE, of(ONE, "wmt24")).n_items == N_ITEMS


@pytest.mark.long
def test_without_a_run_estimates_use_what_was_borrowed_as_far_as_draws_bear_it_out():
    y = NEW.scores[:4]

    def square(bank) -> tuple[float, bool]:
        """Mean squared error in units of that of random items, and whether all are said misled."""
        errors = []
        for seed in range(10):
            policy = SamplePolicy(bank, 4, seed=seed)
            plain = SamplePolicy(ItemBank.blank(bank.doc_ids), 4, seed=seed)
            for item in policy.sequence.order[:40].tolist():
                for a in range(4):
                    policy.told(a, item, y[a, item])
                    plain.told(a, item, y[a, item])
            belief, drawn = policy.belief(), plain.belief()
            errors.append(belief.location - y.mean(axis=1))
            apart = belief.location[:, None] - belief.location
            assert apart == pytest.approx(drawn.location[:, None] - drawn.location)
        of_random = y.var(axis=1, ddof=1).mean() * (1 / 40 - 1 / N_ITEMS)
        return float(np.mean(np.square(errors)) / of_random), bool(policy.describe(3).findings)

    right, wrong = borrowed(DONORS), borrowed({n: shuffled(t) for n, t in DONORS.items()})
    assert right.method == "sample"
    (of_right, misled), (of_wrong, noticed) = square(right), square(wrong)
    assert of_right < 0.8 and of_wrong < 1.2
    assert noticed and not misled


def test_a_borrowed_bank_that_grows_knows_the_ease_of_its_items_still():
    bank = borrowed(DONORS)
    answers = np.random.default_rng(0).random(3)
    grown = grow(bank, [Observation("own", "drawn", np.array([5, 1, 9]), answers)])
    assert "own" in grown.models
    np.testing.assert_array_equal(ease_of(grown), ease_of(bank))


@pytest.mark.long
def test_the_self_check_leaves_out_whole_donors(monkeypatch):
    """Eight models each: no group of a replay may hold a part of a donor."""
    calls = []
    make = room.make_bank
    monkeypatch.setattr(room, "make_bank", lambda *a, **k: calls.append((a, k)) or make(*a, **k))
    borrow(DONORS, ONE)
    [([table], options)] = calls
    families = options["families"]
    assert [*(m.split(":")[0] for m in table.models[:-1]), "zh"] == list(families)
    sets = selfcheck.groups(table.model_scores().mean(1), families, whole_families=True)
    whole = [sorted(np.array(families)[out]) for out, _ in sets]
    assert all([name] * 8 in whole for name in DONORS)


# -- from files ----------------------------------------------------------------------------------


@pytest.mark.long
def test_tables_banks_and_suites_lend_once_for_each_task(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def bank(name: str, filter: str | None = None, keep: bool = True) -> ItemBank:
        table = replace(DONORS[name], task=name, metric="chrf", filter=filter)
        return calibrate(table, "paper", keep_scores=keep)

    def kept(name: str) -> dict[str, ItemBank]:
        return {f"chrf,{filter}": bank(name, filter) for filter in ("strict", "loose")}

    SuiteBank({"de": kept("de"), "zh": kept("es")}).save("suite")
    bank("es").save("es.json")
    bank("es", keep=False).save("bare.json")
    replace(DONORS["hi"], metric="chrf").write("hi.parquet")  # which states no task
    replace(DONORS["es"], metric="chrf", task="es").write("es.parquet")
    replace(DONORS["uk"], metric="chrf", task="uk").write("u.csv")
    replace(TWO, metric="chrf").write("own.csv")
    wanted = Query("chrf", "zh", "strict")
    paths = ["suite", "es.json", "hi.parquet", "u.csv"]
    tables = donors_of(paths, wanted)
    assert list(tables) == ["de", "es", "hi", "uk"]  # a task does not lend to itself
    assert tables["de"].filter == "strict"
    assert {len(table.models) for table in tables.values()} == {8}
    line = ["calibrate", "own.csv", "--task", "zh", "--metric", "chrf", "-o", "zh.json", "--borrow"]
    assert main([*line, *paths, "--filter", "strict"]) == 0
    assert "borrowed from de, es, hi, uk" in capsys.readouterr().out
    for lenders, what, says in (
        (["bare.json"], wanted, "--keep_scores"),
        (["suite"], Query("chrf"), r"task de has 2 banks; name one \(--filter\)"),
        (["es.json", "es.parquet"], wanted, "both hold scores of task es"),
        (["hi.parquet", tmp_path / "hi.parquet"], wanted, "a path is named twice"),
        (["none.json"], wanted, "no such file"),
        (["suite"], Query("f1"), "no bank of f1; there are chrf"),
    ):
        with pytest.raises(UsageError, match=says):
            donors_of(lenders, what)
    with pytest.raises(UsageError, match="1 donor left"):
        borrow_from(["suite"], replace(TWO, metric="chrf", filter="strict"))


def test_excluded_models_lend_nothing(tmp_path):
    paths = [tmp_path / f"{name}.parquet" for name in DONORS]
    for path, table in zip(paths, DONORS.values()):
        table.write(path)
    _, bank = bank_of(None, borrow=paths, exclude=["m0", "m5"])
    without = {name: table.without(["m0", "m5"]) for name, table in DONORS.items()}
    for name, values in borrowed(without).parameters.items():
        np.testing.assert_allclose(bank.parameters[name], values, atol=1e-12)


@pytest.mark.long
def test_only_documents_of_no_donor_at_all_are_said_to_be_of_none():
    def lacking(which, documents):
        lenders = dict(DONORS)
        for name in which:
            raw = DONORS[name].raw.copy()
            raw[:, :documents] = np.nan
            lenders[name] = replace(DONORS[name], raw=raw)
        table, _ = borrow(lenders, ONE)
        return [text for text in table.warnings if "no donor has" in text]

    assert lacking(["de"], 20) == []
    [said] = lacking(list(DONORS), 5)
    assert said == "no donor has 5 of the documents; they count as average ones"
