"""Conformance suites for methods and readers, including those of other packages.

A suite is a class whose ``test_`` methods use plain asserts. Derive from it in a test module, set
what to test, and pytest runs the rest::

    from lm_eval_ccat.testing.methods import MethodSuite

    class TestMine(MethodSuite):
        method = MY_METHOD
"""
