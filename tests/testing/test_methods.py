"""Methods do what the conformance suite asks; `test_contributing.py` adds one from outside."""

from lm_eval_ccat.methods.method import method
from lm_eval_ccat.testing.methods import MethodSuite


class TestDefault(MethodSuite):
    method = method("default")


class TestPaper(MethodSuite):
    method = method("paper")


class TestSample(MethodSuite):
    method = method("sample")
