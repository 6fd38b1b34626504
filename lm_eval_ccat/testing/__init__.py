"""Conformance suites: what a method or a reader must do, whoever wrote it.

A suite is a class whose ``test_`` methods use plain asserts. Derive from it in a test module, name
what is tested, and pytest runs the rest::

    from lm_eval_ccat.testing.methods import MethodSuite

    class TestMine(MethodSuite):
        method = MY_METHOD
"""
