"""Every method does what the conformance suite asks, one from outside the package too."""

from __future__ import annotations

import json

import pytest
from toy import METHOD as TOY

from lm_eval_ccat import ItemBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.methods import method as methods
from lm_eval_ccat.testing.methods import MethodSuite, example_table


@pytest.fixture(autouse=True, scope="module")
def known():
    methods.register(TOY)
    yield
    methods.METHODS.unregister("toy")


class TestDefault(MethodSuite):
    method = methods.method("default")


class TestPaper(MethodSuite):
    method = methods.method("paper")


class TestSample(MethodSuite):
    method = methods.method("sample")


class TestToy(MethodSuite):
    method = TOY


def test_the_command_line_takes_a_method_from_outside(tmp_path, capsys):
    table, bank = str(tmp_path / "s.csv"), str(tmp_path / "t.bank.json")
    example_table().without(["m03"]).write(table)
    scale = ["--range", "0,1"]
    assert main(["calibrate", table, "--method", "toy", "-o", bank, *scale]) == 0
    out = capsys.readouterr().out
    assert "method" in out and "toy" in out and "tests how it ranks" in out
    assert ItemBank.load(bank).method == "toy"
    assert main(["bank", "show", bank]) == 0 and "All 40 doc" in capsys.readouterr().out
    assert main(["bank", "check", bank, "--scores", table]) in (0, 3)
    assert "11 calibration models" in capsys.readouterr().out
    more, updated = str(tmp_path / "m.csv"), str(tmp_path / "u.bank.json")
    example_table().select(["m03"]).write(more)
    update = ["bank", "update", bank, "--scores", more, "-o", updated]
    assert main(update) == 1
    assert "name them with --calibrated_on" in capsys.readouterr().err
    assert main([*update, "--calibrated_on", table]) == 0
    assert len(ItemBank.load(updated).models) == 12
    sim = ["simulate", "--scores", table, "--methods", "toy,common", "--folds", "2"]
    assert main([*sim, "--json", str(tmp_path / "s.json"), *scale]) == 0
    assert set(json.loads((tmp_path / "s.json").read_text())["summary"]) == {"toy", "common"}
    assert main(["calibrate", table, "--method", "tyo", "-o", bank, *scale]) == 2
    assert "did you mean toy?" in capsys.readouterr().err
