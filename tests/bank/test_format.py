"""The file: its schema, its versions, and files made to harm."""

import copy
import json
import math
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank, file
from lm_eval_ccat.bank.bank import Observation, family_of
from lm_eval_ccat.bank.file import plain
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.errors import BankError, CcatError, UsageError
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.testing.methods import example_table

METHODS = ["paper", "default"]
DOCS = Path(__file__).resolve().parents[2] / "docs"


def bank_of(method: str, **known) -> ItemBank:
    rng = np.random.default_rng(0)
    skill, ease = np.linspace(-1, 1, 8)[:, None], rng.normal(size=(1, 12))
    raw = 1 / (1 + np.exp(-skill - ease - 0.3 * rng.normal(size=(8, 12))))
    return calibrate(ScoreTable.from_arrays(raw, list("abcdefgh"), **known), method=method)


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("banks")
    out = {}
    for method in METHODS:
        bank_of(method).save(folder / method)
        out[method] = json.loads((folder / method).read_text())
    return out


def sealed(document: dict) -> dict:
    """The document with a checksum that fits, as an attacker would make it."""
    return {**document, "sha256": file.checksum(document)}


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    if not DOCS.is_dir():
        pytest.skip("the documentation is not part of this installation")
    content = json.loads((DOCS / "bank.schema.json").read_text())
    Draft202012Validator.check_schema(content)
    return Draft202012Validator(content)


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_a_bank_fits_the_schema_and_comes_back_from_its_file(tmp_path, method, schema):
    hashes = [f"h{i}" for i in range(12)]
    known = {"scale": Scale(cap=2.0), "metric": "ter", "doc_hashes": hashes}
    for ids in (None, [f"d{i}" for i in range(12)]):
        bank = bank_of(method, doc_ids=ids, settings={"num_fewshot": 3}, **known)
        path = tmp_path / "new" / "b.json"
        bank.save(path)
        schema.validate(json.loads(path.read_text()))
        for spaced in (False, True):
            if spaced:  # the checksum is of the content, whatever the layout
                path.write_text(json.dumps(json.loads(path.read_text()), indent=2))
            again = ItemBank.load(path)
            assert again.sha256 == bank.sha256 and again.doc_ids == tuple(sorted(ids or range(12)))
            assert {type(d) for d in again.doc_ids} == {str if ids else int}
            assert (again.doc_hashes, again.scale) == (bank.doc_hashes, bank.scale)
            for name, values in bank.parameters.items():
                np.testing.assert_array_equal(again.parameters[name], values)
        again.save(path)
        assert ItemBank.load(path).sha256 == bank.sha256
        path.write_text(path.read_text().replace('"ter"', '"wer"'))
        with pytest.raises(BankError, match="checksum"):
            ItemBank.load(path)


def test_the_schema_refuses_what_is_no_bank_and_other_versions_say_what_to_do(documents, schema):
    for part in ({"items": None}, {"extra": 1}, {"version": 3}, {"observations": [{}]}):
        assert not schema.is_valid({**documents["paper"], **part})
    for version, says in ((3, "update lm-eval-ccat"), (1, "calibrate"), ("2", "calibrate")):
        with pytest.raises(BankError, match=says):
            ItemBank.from_dict({**documents["paper"], "version": version})


@pytest.mark.long
def test_scores_and_how_they_were_chosen_are_kept(tmp_path, schema):
    table = example_table()
    bank = replace(calibrate(table, "paper", keep_scores=True), made="2026-01-31")
    drawn = Observation(
        "x", "drawn", np.array([7, 2]), np.array([0.5, 1.0]), np.array([0.025, np.nan])
    )
    bank = replace(bank, observations=(*bank.observations, drawn))
    bank.save(tmp_path / "b.json")
    schema.validate(json.loads((tmp_path / "b.json").read_text()))
    loaded = ItemBank.load(tmp_path / "b.json")
    assert loaded.sha256 == bank.sha256 and loaded.made == "2026-01-31"
    first, last = loaded.observations[0], loaded.observations[-1]
    assert (first.model, first.chosen) == ("m00", "all") and len(first.items) == bank.n_items
    assert np.allclose(first.scores, table.scores[0], atol=1e-6)
    assert last.items.tolist() == [7, 2] and np.isnan(last.probabilities[1])


def test_an_observation_that_makes_no_sense_is_refused(documents):
    sound = {"model": "m", "config": "", "chosen": "drawn", "items": [3, 1], "scores": [0.2, 1.0]}
    sound |= {"date": None, "probabilities": [0.5, None]}
    ItemBank.from_dict(sealed({**documents["paper"], "observations": [sound]}))
    for part in ({"items": [0, 0]}, {"items": [0, 99]}, {"items": ["x", "y"]}, {"model": 3},
                 {"scores": [0.1, 1.2]}, {"scores": [0.1]}, {"chosen": "somehow"},
                 {"probabilities": [0.0, 0.1]}):  # fmt: skip
        with pytest.raises(BankError, match="damaged item bank"):
            ItemBank.from_dict(sealed({**documents["paper"], "observations": [{**sound, **part}]}))


def test_a_file_whose_items_are_out_of_order_is_refused(documents):
    """Every array goes by the order of the ids, which other readers may take for ascending."""
    items = documents["paper"]["items"]
    exchanged = [*reversed(items["doc_id"][:2]), *items["doc_id"][2:]]
    damaged = {**documents["paper"], "items": {**items, "doc_id": exchanged}}
    with pytest.raises(BankError, match="not ascending"):
        ItemBank.from_dict(sealed(damaged))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip


def places(document, prefix=()):
    """Every path into the document, parts and their entries."""
    if not isinstance(document, dict):
        return []
    return [path for key, value in document.items()
            for path in ((*prefix, key), *places(value, (*prefix, key)))]  # fmt: skip


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(data=st.data(), method=st.sampled_from(METHODS), junk=JUNK, cut=st.booleans())
def test_hostile_files_give_one_error_or_a_bank_that_works(documents, data, method, junk, cut):
    document = copy.deepcopy(documents[method])
    path = data.draw(st.sampled_from(places(document)))
    part = document
    for key in path[:-1]:
        part = part[key]
    if cut:
        del part[path[-1]]
    else:
        part[path[-1]] = junk
    if data.draw(st.booleans()):
        document = sealed(document)
    try:
        bank = ItemBank.from_dict(document, where="evil.json")
    except BankError as e:
        assert str(e).startswith("evil.json: ") and "\n" not in str(e)
        return
    try:
        ranker = Ranker(bank, {"a": 1.0, "b": 1.0}, max_items=3)
        for model, item in ranker.ask(4):
            ranker.tell(model, item, 0.5)
        result = ranker.result()
    except CcatError:
        return
    assert all(0.0 <= e <= 1.0 for e in result.estimates.values())


@pytest.mark.long
def test_a_large_file_made_to_fill_memory_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "MAX_CONTAINERS", 60_000)
    monkeypatch.setattr(file, "MAX_VALUES", 200_000)
    monkeypatch.setattr(file, "_CHUNK", 1 << 16)
    path = tmp_path / "x.json"
    for unit in (b"[],", b"0,", b'{"a":[', b'"\\"[",[],'):  # lists, numbers, depth, texts
        path.write_bytes(b"[" + unit * ((4 << 20) // len(unit)))
        tracemalloc.start()
        with pytest.raises(BankError, match=r"too many values|nested more than"):
            ItemBank.load(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()


@pytest.mark.long
def test_a_file_that_grows_for_ever_or_is_no_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "MAX_BYTES", 3 << 20)
    monkeypatch.setattr(file, "_MAX_TEXT", 1 << 20)
    path, pipe = tmp_path / "x.json", tmp_path / "pipe"
    os.mkfifo(pipe)
    start = b'{"format": "lm-eval-ccat/bank", "version": 1'
    for content, says in (
        (b" " * (4 << 20), "too large"), (b'"' + b"x" * (2 << 20), "never ends"),
        *((wrong, r"x\.json") for wrong in (
            b"", b"[" * 100_000, b"\xff\xfe\x00", b"cos\nsystem\n(S'true'\ntR.",
            b'{"a": 1e999}', start + b"0" * 5000 + b"}")),
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(BankError, match=says) as e:
            ItemBank.load(path)
        assert "\n" not in str(e.value)
    for place in ("/dev/zero", pipe, tmp_path):
        with pytest.raises(BankError, match="not a regular file"):
            ItemBank.load(place)
    with pytest.raises(UsageError, match=r"none\.json: no such item bank; did you .*x\.json"):
        ItemBank.load(tmp_path / "none.json")
    with pytest.raises(
        UsageError, match="`lm-eval-ccat bank list` names those at hand, `calibrate` makes one"
    ):
        ItemBank.load(tmp_path / "nowhere" / "unlike.json")


def test_nonsense_numbers_are_refused_before_they_are_used(documents):
    for method, part, name, change, says in (
        ("paper", "constants", "k", lambda k: -1, "not above 0"),
        ("paper", "constants", "k", lambda k: 1e300, "absurdly large"),
        ("paper", "constants", "start", lambda start: "0", "not a number"),
        ("default", "constants", "abilities", lambda all: [1e300, *all[1:]], "no sense"),
        ("default", "constants", "basis", lambda basis: {}, "cannot be read"),
        ("default", "parameters", "noise", lambda all: [-1.0, *all[1:]], "do not fit"),
        ("default", "parameters", "covariance", lambda all: [c[:2] for c in all], "do not fit"),
        ("default", "parameters", "covariance",
         lambda all: [[-5.0, *all[0][1:]], *all[1:]], "negative variance"),
    ):  # fmt: skip
        document = copy.deepcopy(documents[method])
        of = document["constants"] if part == "constants" else document["items"]["parameters"]
        of[name] = change(of[name])
        with pytest.raises(BankError, match=says):
            Ranker(ItemBank.from_dict(sealed(document)), {"a": 1.0, "b": 1.0})


def test_a_bank_is_named_by_what_it_keeps_of_its_file(tmp_path):
    """A section that is not kept would else change the bank's name when it is saved again."""
    path = tmp_path / "a.bank.json"
    ItemBank.blank(range(4), task="t").save(path)
    bank = ItemBank.from_dict(sealed(json.loads(path.read_text()) | {"outcomes": {"f1": {}}}))
    name = bank.sha256
    bank.save(path)
    assert ItemBank.load(path).sha256 == name


def test_calibration_refuses_what_it_cannot_use():
    raw = np.linspace(0.1, 0.9, 24).reshape(4, 6)
    gap, silent = raw.copy(), raw.copy()
    gap[:, 3], silent[1] = np.nan, np.nan
    for scores, method, says in (
        (raw[:1], "paper", "several models"),
        (raw, "nonsense", "nonsense"),
        *((gap, method, "doc_id 3") for method in METHODS),
        *((silent, method, "no score at all") for method in METHODS),
        (np.full((3, 4), 0.5), "paper", "same mean"),
        (np.full((6, 10), 0.4), "default", "every score"),
    ):
        with pytest.raises((BankError, UsageError), match=says):
            calibrate(ScoreTable.of(scores), method=method)


# -- a suite bank is a folder: one file per outcome, and suite.json ------------------------------


def test_a_suite_comes_back_as_it_was_and_a_damaged_one_is_refused_in_one_line(tmp_path):
    bleu, chrf = (ItemBank.blank(range(3), task="a/b", metric=m) for m in ("bleu", "chrf"))
    other = ItemBank.blank(range(5), task="a_b", metric="bleu")
    suite = SuiteBank({"a/b": {"bleu": bleu, "chrf": chrf}, "a_b": other})
    with pytest.raises(BankError, match="no item bank in this folder"):
        SuiteBank.load(tmp_path)
    suite.save(tmp_path)
    loaded = SuiteBank.load(tmp_path)
    assert list(loaded) == ["a/b", "a_b"] and list(loaded["a/b"]) == ["bleu", "chrf"]
    assert [b.sha256 for _, _, b in loaded.banks()] == [b.sha256 for _, _, b in suite.banks()]
    # Two names that become one on disk are two files.
    assert len(list(tmp_path.glob("*.bank.json"))) == 3
    whole = (tmp_path / "suite.json").read_text()
    for damage, says in (
        (lambda c: c["tasks"]["a_b"].update(bleu="../x.json"), "not the name of a file"),
        (lambda c: c["tasks"]["a_b"].update(bleu="gone.bank.json"), "no such item bank"),
        (lambda c: c["checksums"].clear(), "not the bank that suite.json names"),
        (lambda c: c.update(version=2), "version 1"),
        (lambda c: c.update(tasks=[]), "not a readable suite bank"),
        (lambda c: c.update(tasks={}), "no bank"),
    ):
        content = json.loads(whole)
        damage(content)
        (tmp_path / "suite.json").write_text(json.dumps(content))
        with pytest.raises(CcatError, match=says) as error:
            SuiteBank.load(tmp_path)
        assert "\n" not in str(error.value)
    (tmp_path / "suite.json").write_text(whole)
    names = json.loads(whole)["tasks"]
    (tmp_path / names["a_b"]["bleu"]).write_bytes((tmp_path / names["a/b"]["bleu"]).read_bytes())
    with pytest.raises(BankError, match=r"not the bank that suite\.json names"):
        SuiteBank.load(tmp_path)
    with pytest.raises(BankError, match="of the methods other, sample"):
        SuiteBank({m: ItemBank.blank(range(2), method=m) for m in ("sample", "other")})


def test_no_bank_of_a_folder_or_a_file_stands_for_another_in_silence(tmp_path):
    for folder in ("a", "b"):
        SuiteBank({"t": ItemBank.blank(range(3), task="t")}).save(tmp_path / folder)
    with pytest.raises(BankError, match="two of its suites have a bank of task t, score"):
        SuiteBank.load(tmp_path)
    file = next((tmp_path / "a").glob("*.bank.json"))
    assert list(SuiteBank.load(file, only=["t"])) == ["t"]
    with pytest.raises(BankError, match="a bank of task t, not of u"):
        SuiteBank.load(file, only=["u"])
    with pytest.raises(BankError, match="found no bank of task u"):
        SuiteBank({"t": ItemBank.blank(range(3)), "u": {}})


def test_names_that_differ_in_their_capitals_are_two_files_everywhere(tmp_path):
    banks = {task: ItemBank.blank(range(n), task=task) for n, task in ((3, "law"), (5, "Law"))}
    SuiteBank(banks).save(tmp_path)
    assert len({path.name.lower() for path in tmp_path.glob("*.bank.json")}) == 2
    assert [bank.n_items for _, _, bank in SuiteBank.load(tmp_path).banks()] == [3, 5]


def test_banks_of_a_folder_are_named_by_their_filters_where_a_metric_has_several(tmp_path):
    for name, metric, filter in (("a", "acc", "strict"), ("b", "acc", "loose"), ("c", "f1", "x")):
        bank = ItemBank.blank(range(3), task="t", metric=metric, filter=filter)
        bank.save(tmp_path / f"{name}.json")
    suite = SuiteBank.load(tmp_path)
    assert list(suite["t"]) == ["acc,strict", "acc,loose", "f1"]
    assert suite["t"]["acc,loose"].filter == "loose"


def test_what_is_given_in_another_order_stands_in_bank_order():
    bank = ItemBank.blank([2, 0, 1], doc_hashes=["c", "a", "b"], prompts=["r", "p", None])
    assert bank.doc_hashes == ("a", "b", "c") and bank.prompts == ("p", None, "r")
    scores = bank.in_order([2, 9, 0], np.array([[0.3, 0.9, 0.1]]))
    assert scores.tolist() == [[0.1, pytest.approx(np.nan, nan_ok=True), 0.3]]
    # A document whose hash one side does not know has neither changed nor stayed.
    compared = bank.compare([0, 1, 2], [None, "b", "x"])
    assert (compared.same, compared.changed, compared.missing) == ((1,), (2,), ())


@pytest.mark.parametrize("chosen", ["first", "adaptive"])
def test_an_observation_of_some_items_names_them(chosen):
    first = Observation("m", chosen, np.array([0, 1]), np.array([1.0, 0.5]))
    again = Observation.from_dict(json.loads(json.dumps(first.to_dict())), n_items=5)
    assert again.items.tolist() == [0, 1] and again.chosen == chosen


@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_depth_is_counted_from_the_beginning_of_a_file(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(file, "_CHUNK", chunk)
    for depth, refused in ((file.MAX_DEPTH, False), (file.MAX_DEPTH + 1, True)):
        path = tmp_path / "deep.json"
        path.write_text("[" * depth + "]" * depth)
        if refused:
            with pytest.raises(BankError, match="nested more than"):
                file.read_json(path)
        else:
            assert file.read_json(path)


def test_an_item_that_is_left_out_needs_no_parameters(tmp_path):
    bank = calibrate(
        ScoreTable.from_arrays([[0.1, 0.5, 0.9], [0.2, 0.4, 0.7], [0.3, 0.6, 0.8]], list("abc")),
        "paper",
    )
    unknown = {name: np.where([1, 0, 0], np.nan, part) for name, part in bank.parameters.items()}
    for kept in ([False, True, True], [True, True, True]):
        replace(bank, kept=np.array(kept), parameters=unknown).save(tmp_path / "b.json")
        if kept[0]:
            with pytest.raises(BankError, match="of an item that is kept is not a number"):
                ItemBank.load(tmp_path / "b.json")
        else:
            assert np.isnan(ItemBank.load(tmp_path / "b.json").parameters["difficulty"][0])


def test_numbers_that_json_lacks_are_null():
    values = {"a": math.inf, "b": [-math.inf, math.nan, 1.5], "c": np.array([np.inf, 2.0])}
    assert plain(values) == {"a": None, "b": [None, None, 1.5], "c": [None, 2.0]}


def test_what_is_stated_of_an_outcome_counts_before_what_its_bank_has():
    bank = ItemBank.blank(range(3), task="t", metric="acc", filter="strict")
    assert (Outcome.of(bank).task, Outcome.of(bank).filter) == ("t", "strict")
    stated = Outcome.of(bank, "u", filter="loose")
    assert (stated.task, stated.filter) == ("u", "loose")


def test_a_family_is_one_of_models_and_not_of_their_organisation():
    assert family_of("org/llama-3") == family_of("meta/Llama-2-7b") != family_of("org/qwen2")


def test_a_folder_has_each_task_that_it_lists_named_or_not(tmp_path):
    ItemBank.blank(range(3)).save(tmp_path / "unnamed.bank.json")
    ItemBank.blank(range(5), task="t").save(tmp_path / "t.bank.json")
    for task in SuiteBank.tasks(tmp_path):
        assert list(SuiteBank.load(tmp_path, [task])) == [task]


def test_a_folder_of_single_banks_is_read_once_until_one_of_them_is_written_again(
    tmp_path, monkeypatch
):
    tasks = ("a", "b", "c")
    for task in tasks:
        ItemBank.blank(range(4), task=task).save(tmp_path / f"{task}.bank.json")
    load, files = ItemBank.load, []
    monkeypatch.setattr(ItemBank, "load", lambda path: files.append(path.name) or load(path))
    assert SuiteBank.tasks(tmp_path) == [*tasks]
    assert [list(SuiteBank.load(tmp_path, [task])) for task in tasks] == [["a"], ["b"], ["c"]]
    assert files == ["a.bank.json", "b.bank.json", "c.bank.json"]
    ItemBank.blank(range(9), task="b").save(tmp_path / "b.bank.json")
    [bank] = SuiteBank.load(tmp_path, ["b"])["b"].values()
    assert bank.n_items == 9
