"""Run directories to report on."""

from __future__ import annotations

import pytest
from synthetic import make_run

from lm_eval_ccat.report import write_report


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory):
    """A finished run of six models, whose outputs and names are hostile."""
    return make_run(tmp_path_factory.mktemp("runs") / "hostile")


@pytest.fixture(scope="session")
def page(run_dir, tmp_path_factory):
    """The page of that run."""
    return write_report(run_dir, tmp_path_factory.mktemp("out") / "page.html")
