"""Borrowed banks, on tasks whose documents are hard by the same numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import ScoreTableError, UsageError
from lm_eval_ccat.methods.sample.method import SamplePolicy
from lm_eval_ccat.scores.reading import Wanted
from lm_eval_ccat.upkeep.borrow import borrow, donors_of, lent

N_ITEMS = 150
HARD = np.random.default_rng(1).normal(size=N_ITEMS)


def task(seed: int, models: int = 8, hard: np.ndarray = HARD) -> ScoreTable:
    """Scores of a task whose documents are hard by `hard`, and a little by themselves."""
    rng = np.random.default_rng(seed)
    own = hard + 0.5 * rng.normal(size=N_ITEMS)
    noise = rng.normal(size=(models, 1)) + rng.normal(size=(models, N_ITEMS))
    raw = 1.0 / (1.0 + np.exp(own - noise))
    hashes = [f"{i:064x}" for i in range(N_ITEMS)]
    return ScoreTable.from_arrays(raw, [f"m{j}" for j in range(models)], doc_hashes=hashes)


def shuffled(table: ScoreTable, seed: int = 3) -> ScoreTable:
    at = np.random.default_rng(seed).permutation(table.n_items)
    return replace(table, raw=table.raw[:, at], doc_hashes=None)


@pytest.fixture(scope="module")
def donors() -> dict[str, ScoreTable]:
    return {name: task(seed) for seed, name in enumerate(("de", "es", "hi", "uk"))}


@pytest.fixture(scope="module")
def new() -> ScoreTable:
    return replace(task(9, models=40), task="zh")


def borrowed(*tables) -> ItemBank:
    return borrow(*tables)[1]


def agreement(bank, new: ScoreTable) -> float:
    """Correlation of a bank's easiness of items with the mean scores of the task's forty models."""
    easy = bank.parameters["ease" if bank.method == "sample" else "intercept"]
    return float(np.corrcoef(easy, new.scores.mean(0))[0, 1])


def test_donors_and_one_run_tell_more_of_the_items_than_either(donors, new):
    alone = agreement(borrowed(donors), new)
    with_one = agreement(borrowed(donors, new.select("m0")), new)
    two_own = agreement(calibrate(new.select(["m0", "m1"])), new)
    assert alone > 0.7
    assert with_one > max(alone, two_own)


def test_a_donor_of_other_documents_is_dropped_by_name(donors, new):
    bank = borrowed({**donors, "wrong": shuffled(donors["de"])}, new.select(["m0", "m1"]))
    facts = bank.provenance["borrowed"]
    assert facts["dropped"] == ["wrong"]
    assert facts["donors"] == ["de", "es", "hi", "uk"]
    assert any("donor wrong was dropped" in warning for warning in bank.warnings)
    assert not any(model.startswith("wrong") for model in bank.models)


def test_documents_that_a_donor_lacks_and_holes_in_its_runs_leave_the_rest_as_it_was(donors, new):
    raw = donors["de"].raw.copy()
    raw[:, :20] = np.nan
    raw[0, 50:60] = np.nan
    own = new.select("m0")
    part = borrowed({**donors, "de": replace(donors["de"], raw=raw)}, own).parameters["intercept"]
    whole = borrowed(donors, own).parameters["intercept"]
    assert np.isfinite(part).all() and np.corrcoef(part[60:], whole[60:])[0, 1] > 0.95


def test_donors_that_cannot_lend_are_refused_by_name(donors, new):
    away = replace(donors["de"], doc_ids=tuple(range(1000, 1000 + N_ITEMS)), doc_hashes=None)
    other = {**donors, "es": replace(donors["es"], metric="bleu")}
    for lenders, says in (
        ({name: shuffled(table) for name, table in donors.items()}, "de, es, hi, uk"),
        ({name: donors[name] for name in ("de", "es")}, "3 tasks"),
        (other, "donor es is scored by bleu"),
        ({**donors, "away": away}, "donor away has 0 of the 150"),
    ):
        with pytest.raises((UsageError, ScoreTableError), match=says):
            borrowed(lenders, new.select("m0"))


def test_without_a_run_estimates_use_what_was_borrowed_as_far_as_draws_bear_it_out(donors, new):
    y = new.scores[:4]

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

    right, wrong = borrowed(donors), borrowed({n: shuffled(t) for n, t in donors.items()})
    assert right.method == "sample"
    (of_right, misled), (of_wrong, noticed) = square(right), square(wrong)
    assert of_right < 0.8
    assert of_wrong < 1.2
    assert not misled
    assert noticed


def test_documents_are_found_by_their_hash_before_their_number(donors, new):
    own, hashes = new.select(["m0", "m1"]), np.array(new.doc_hashes)
    at = np.random.default_rng(7).permutation(N_ITEMS)
    moved = {
        name: replace(table, raw=table.raw[:, at], doc_hashes=tuple(hashes[at]))
        for name, table in donors.items()
    }
    there, here = borrowed(moved, own), borrowed(donors, own)
    assert there.parameters["intercept"] == pytest.approx(here.parameters["intercept"])


def test_the_self_check_leaves_out_whole_donors(donors, new, monkeypatch):
    """Eight models each: no group of a replay may hold a part of a donor."""
    from lm_eval_ccat.methods.default import selfcheck
    from lm_eval_ccat.upkeep import borrow as room

    calls = []
    make = room.make_bank
    monkeypatch.setattr(room, "make_bank", lambda *a, **k: calls.append((a, k)) or make(*a, **k))
    borrowed(donors, new.select("m0"))
    [([table], options)] = calls
    families = options["families"]
    assert [*(m.split(":")[0] for m in table.models[:-1]), "zh"] == list(families)
    sets = selfcheck.groups(table.model_scores().mean(1), families, whole=True)
    whole = [sorted(np.array(families)[out]) for out, _ in sets]
    assert all([name] * 8 in whole for name in donors)


def test_calibrate_borrows_from_tables_and_banks(donors, new, tmp_path, capsys):
    for name in ("de", "es", "hi"):
        replace(donors[name], metric="chrf", task=name).write(tmp_path / f"{name}.parquet")
    uk = replace(donors["uk"], metric="chrf", task="uk")
    calibrate(uk, "paper", keep_scores=True).save(tmp_path / "uk.bank.json")
    replace(new.select(["m0", "m1"]), metric="chrf").write(tmp_path / "own.csv")
    calibrate(donors["de"], "paper").save(tmp_path / "bare.bank.json")
    with pytest.raises(UsageError, match="--keep_scores"):
        donors_of([tmp_path / "bare.bank.json"])
    paths = [str(tmp_path / f) for f in ("de.parquet", "es.parquet", "hi.parquet", "uk.bank.json")]
    out = tmp_path / "zh.bank.json"
    arguments = ["--task", "zh", "--metric", "chrf", "--borrow", *paths, "-o", str(out)]
    assert main(["calibrate", str(tmp_path / "own.csv"), *arguments]) == 0
    printed = capsys.readouterr().out
    assert "borrowed from de, es, hi, uk" in printed
    donors_read = donors_of(paths, Wanted("chrf", "zh"))
    assert sorted(donors_read) == ["de", "es", "hi", "uk"]
    assert all(len(table.models) == 8 for table in donors_read.values())


def test_donors_are_counted_by_task_and_filters_of_a_task_are_one(donors, new, tmp_path, capsys):
    def bank(name, filter):
        table = replace(donors[name], task=name, metric="f1", filter=filter)
        return calibrate(table, "paper", keep_scores=True)

    two = {f"f1,{filter}": filter for filter in ("strict", "loose")}
    suite = {name: {key: bank(name, f) for key, f in two.items()} for name in ("de", "es")}
    folder, third = tmp_path / "suite", str(tmp_path / "hi.bank.json")
    SuiteBank(suite).save(folder)
    own = replace(new.select(["m0", "m1"]), metric="f1", filter="strict")
    with pytest.raises(UsageError, match="2 donors left"):
        lent([folder], own)
    with pytest.raises(UsageError, match=r"task de has 2 banks; name one \(--filter\)"):
        donors_of([folder], Wanted("f1"))
    bank("hi", "strict").save(third)
    table, made = lent([folder, third], own)
    assert made.provenance["borrowed"]["donors"] == ["de", "es", "hi"]
    assert table.filter == "strict"
    with pytest.raises(UsageError, match="both hold scores of task hi"):
        donors_of([third, third])


def test_a_suite_borrows_for_each_of_its_tasks(donors, new, tmp_path, capsys):
    """The tasks of one table lend to one another."""
    lines = ["model,task,doc_id,metric,score"]
    for name, table in {**donors, "zh": new}.items():
        table = table.select(["m0", "m1", "m2"])
        for model, row in zip(table.models, table.raw):
            lines += [f"{model},{name},{i},chrf,{100 * x}" for i, x in enumerate(row)]
    (tmp_path / "all.csv").write_text("\n".join(lines))
    path, out = str(tmp_path / "all.csv"), str(tmp_path / "banks")
    line = ["calibrate", path, "--metric", "chrf", "--borrow", path, "--task", "de,zh", "-o", out]
    assert main(line) == 0
    banks = {task: bank for task, _, bank in SuiteBank.load(out).banks()}
    lent_to = {task: bank.provenance["borrowed"]["donors"] for task, bank in banks.items()}
    assert lent_to == {"de": ["es", "hi", "uk", "zh"], "zh": ["de", "es", "hi", "uk"]}
    assert main([*line, "--method", "paper"]) == 2
    assert "--borrow makes a bank of method 'default'" in capsys.readouterr().err


def test_numbers_of_documents_count_within_one_data_set(donors, new):
    def of(table, path):
        return replace(table, doc_hashes=None, settings={"dataset_path": path})

    own = of(new.select("m0"), "wmt24")
    lent = {name: of(table, "wmt24") for name, table in donors.items()}
    assert borrowed(lent, own).n_items == N_ITEMS
    with pytest.raises(ScoreTableError, match="donor es has 0 of the 150"):
        borrowed({**lent, "es": of(lent["es"], "flores")}, own)
    with pytest.raises(UsageError, match="flores, wmt24"):
        borrowed({**lent, "es": of(lent["es"], "flores")})
