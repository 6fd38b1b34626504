"""Every example in a docstring of the package runs as printed."""

from __future__ import annotations

import doctest
import importlib
import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

import lm_eval_ccat
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.options import options_of

ROOT = Path(lm_eval_ccat.__file__).parent
ROOMS = sorted({p.relative_to(ROOT).parts[0].removesuffix(".py") for p in ROOT.rglob("*.py")})
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: Modules with examples that are not run, as they need a model, its server or its files. Any other
#: module's examples are complete; an entry here needs a reason.
NEEDS_A_MODEL = {
    "harness/session.py",
    "harness/transport.py",
    "integrations/trackers.py",
    "live/complete.py",
    "live/run.py",
    "live/verify.py",
    "report/page.py",
    "report/plots.py",
}


def examples(room: str) -> Iterator[doctest.DocTest]:
    """The examples of a room, or of a module at the top."""
    for path in sorted([*ROOT.glob(f"{room}.py"), *ROOT.glob(f"{room}/**/*.py")]):
        if ">>>" not in path.read_text(encoding="utf-8"):
            continue
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        yield from doctest.DocTestFinder(exclude_empty=True).find(module)


MY_TASK = """
task: my_task
dataset_path: json
dataset_kwargs: {data_files: my_task.jsonl}
test_split: train
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: ["yes", "no"]
doc_to_target: 0
metric_list: [{metric: acc}]
"""


@pytest.mark.parametrize("room", ROOMS)
def test_the_examples_run_as_printed(room, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    (tmp_path / "my_task.yaml").write_text(MY_TASK)
    (tmp_path / "my_task.jsonl").write_text('{"question": "yes or no?"}\n' * 120)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    report: list[str] = []
    for test in examples(room):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)


def test_examples_are_left_out_only_where_a_model_is_needed():
    skipping = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if "doctest: +SKIP" in path.read_text(encoding="utf-8")
    }
    assert skipping <= NEEDS_A_MODEL


def test_every_public_docstring_has_an_example():
    for name in lm_eval_ccat.__all__:
        thing = getattr(lm_eval_ccat, name)
        if name.endswith("Error") and name != "CcatError":  # shown once
            assert issubclass(thing, lm_eval_ccat.CcatError) and thing.__doc__
            continue
        methods = {
            f"{name}.{method}": getattr(thing, method)
            for of in (thing.__mro__ if isinstance(thing, type) else ())
            if of.__module__.startswith("lm_eval_ccat")
            for method, made in vars(of).items()
            if not method.startswith("_") and isinstance(made, FunctionType | classmethod)
        }
        for where, shown in {name: thing, **methods}.items():
            assert ">>> " in (inspect.getdoc(shown) or ""), where


def test_rank_shows_its_options_to_editors_and_notebooks():
    shown = inspect.signature(lm_eval_ccat.rank).parameters
    assert {"task", *options_of(Spec)} < set(shown)
    generator = runpy.run_path(str(ROOT.parent / "docs" / ".hooks" / "keywords.py"))
    stub = ROOT / "live" / "keywords.pyi"
    command = "python docs/.hooks/keywords.py > lm_eval_ccat/live/keywords.pyi"
    assert stub.read_text(encoding="utf-8") == generator["keywords"](), command
