"""Methods are found by name, and do what the conformance suite asks.

`test_contributing.py` adds one from outside, which passes the same suite.
"""

import inspect
import math
import pickle
import sys

import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.methods import method as methods
from lm_eval_ccat.methods.method import Method
from lm_eval_ccat.methods.paper.method import PaperPolicy
from lm_eval_ccat.testing.methods import MethodSuite

TABLE = ScoreTable.from_arrays(
    [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.0, 0.3, 1.0]], models=["a", "b", "c"]
)


@pytest.mark.parametrize("wrong", ["papre", "os", "method", "", "a.b", "../paper"])
def test_an_unknown_name_is_refused(wrong):
    with pytest.raises(UsageError, match="unknown method"):
        calibrate(TABLE, wrong)


def test_a_misspelt_option_of_a_ranking_says_what_may_be_meant():
    with pytest.raises(UsageError, match="no option 'informaton'; did you mean information"):
        Ranker(calibrate(TABLE, "paper"), {"a": 1.0}, informaton="full")


def test_an_entry_point_of_another_package_is_found(tmp_path, monkeypatch):
    (tmp_path / "elsewhere.py").write_text(
        "from lm_eval_ccat.methods.method import Method\n"
        "from lm_eval_ccat.methods.paper.method import PaperPolicy\n"
        "METHOD = Method('elsewhere', 'from another package', PaperPolicy)\n"
        "WRONG = 3\n"
    )
    info = tmp_path / "elsewhere-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[lm_eval_ccat.methods]\nelsewhere = elsewhere:METHOD\n"
        "wrong = elsewhere:WRONG\ngone = elsewhere:GONE\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert "elsewhere" in methods.names()
        assert methods.method("elsewhere").summary == "from another package"
        with pytest.raises(UsageError, match="not a Method"):
            methods.method("wrong")
        with pytest.raises(UsageError, match=r"'gone' .* cannot be loaded"):
            methods.method("gone")
    finally:
        sys.modules.pop("elsewhere", None)


@pytest.mark.parametrize("name", ["default", "paper", "sample"])
def test_a_bank_that_was_used_goes_to_another_process_and_back(name):
    bank = ItemBank.blank(range(3)) if name == "sample" else calibrate(TABLE, name)
    Ranker(bank, {"a": 1.0, "b": 1.0})
    assert pickle.loads(pickle.dumps(bank)).sha256 == bank.sha256
    assert pickle.loads(pickle.dumps(methods.method(name))) == methods.method(name)


def test_a_method_is_registered_by_a_name_that_none_of_ours_has():
    mine = Method("mine", "", PaperPolicy)
    methods.register(mine)
    assert methods.method("mine") is mine
    methods.METHODS.unregister("mine")
    with pytest.raises(UsageError, match="take another name"):
        methods.register(Method("paper", "", PaperPolicy))


def test_a_bank_of_a_method_that_is_not_installed_loads_and_cannot_be_used(tmp_path):
    ItemBank.blank([3, 1], task="t", method="gone").save(tmp_path / "b.json")
    bank = ItemBank.load(tmp_path / "b.json")
    assert bank.doc_ids == (1, 3) and bank.method == "gone" and bank.kept.all()
    with pytest.raises(BankError, match="unknown method 'gone'"):
        Ranker(bank, {"a": 1.0})


def test_a_blank_bank_takes_the_scale_of_its_metric():
    for metric, high in (("bleu", 100.0), ("nobody_knows", 1.0)):
        assert ItemBank.blank([0], metric=metric).scale.high == high
    assert ItemBank.blank([1, 0], doc_hashes=["b", "a"]).doc_hashes == ("a", "b")
    with pytest.raises(BankError, match="at least one item"):
        ItemBank.blank([])
    with pytest.raises(BankError, match="do not fit"):
        ItemBank.blank([0], doc_hashes=[])


class TestDefault(MethodSuite):
    method = methods.method("default")


class TestPaper(MethodSuite):
    method = methods.method("paper")


class TestSample(MethodSuite):
    method = methods.method("sample")


def test_a_method_that_knows_nothing_of_sampled_answers_is_given_none():
    class Plain(PaperPolicy):
        def __init__(self, bank, n_models, *, seed=0):
            super().__init__(bank, n_models, seed=seed)

    plain, bank = Method("plain", "of expected scores", Plain), calibrate(TABLE, "paper")
    assert isinstance(plain.rank(bank, 1, seed=0, min_difference=0.0), Plain)
    with pytest.raises(UsageError, match="question: run"):
        plain.rank(bank, 1, seed=0, min_difference=0.0, sampled=True)


@pytest.mark.parametrize("name", ["default", "paper"])
def test_a_model_without_a_score_tells_a_calibration_nothing_and_is_named(name):
    scores = [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [math.nan] * 3, [0.0, 0.3, 1.0]]
    with pytest.raises(BankError, match="model 'silent' has no score at all"):
        calibrate(ScoreTable.from_arrays(scores, models=["a", "b", "silent", "c"]), name)


@pytest.mark.parametrize("name", ["sample", "paper", "default"])
def test_what_a_ranking_states_is_no_option_of_its_method(name):
    stated = set(inspect.signature(Ranker.__init__).parameters) | {"placing"}
    assert not stated & set(methods.method(name).policy_options)
