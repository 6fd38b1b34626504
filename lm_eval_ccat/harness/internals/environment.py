"""The harness without torch, for models that do not use it.

For every model, one behind a server too, the harness loads torch to seed it and to describe the
machine in the results file, and transformers to name its version: most of what a command takes
before its first question. Here the seed waits until torch is loaded, if it ever is, and the text
on the machine comes from a process of its own while documents run. Results are the same.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

_DESCRIBE = "from torch.utils.collect_env import get_pretty_env_info as text; print(text())"
_DESCRIBE_SECONDS = 120.0
#: Stands in results that nobody keeps.
NOT_DESCRIBED = "not described: the results were not saved"

_process: subprocess.Popen[str] | None = None
_kept = True


def spare_torch() -> None:
    """Have the harness load torch and transformers only for models that do so themselves.

    Doing this again changes nothing; a release that goes another way about it is left alone.
    """
    evaluator: Any = import_module("lm_eval.evaluator")
    utils = import_module("lm_eval.utils")
    if not hasattr(utils, "is_torch_available") or not hasattr(utils, "is_transformers_available"):
        return
    for name, wrap in (("set_torch_seed", _seeding), ("add_env_info", _describing)):
        stock = getattr(evaluator, name, None)
        if stock is not None and not hasattr(stock, "_ccat"):
            ours: Any = wrap(stock)
            ours._ccat = True
            setattr(evaluator, name, ours)


def describe_machine() -> None:
    """Begin to collect the text on the machine, unless torch is at hand or nobody wants it."""
    global _process
    wanted = _kept and _process is None and sys.executable
    if wanted and "torch" not in sys.modules and importlib.util.find_spec("torch") is not None:
        _process = subprocess.Popen(
            [sys.executable, "-c", _DESCRIBE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


@contextmanager
def keeping_results(kept: bool) -> Iterator[None]:
    """Whether anybody will read what results say of the machine, while this lasts."""
    global _kept
    before, _kept = _kept, kept
    try:
        yield
    finally:
        _kept = before


class _SeedWhenLoaded:
    """Finds torch as Python does, and seeds it once it is loaded."""

    def __init__(self) -> None:
        self.seed: Any = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec: Any = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_seed(module: Any) -> None:
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                run(module)
                module.manual_seed(self.seed)

            spec.loader.exec_module = run_and_seed
        return spec


def _seeding(stock: Callable[[Any], None]) -> Callable[[Any], None]:
    finder = _SeedWhenLoaded()

    @functools.wraps(stock)
    def set_torch_seed(seed: Any) -> None:
        if "torch" in sys.modules:
            stock(seed)
            return
        finder.seed = seed
        if finder not in sys.meta_path:
            sys.meta_path.insert(0, finder)

    return set_torch_seed


def _describing(stock: Callable[[Any], None]) -> Callable[[Any], None]:
    utils: Any = import_module("lm_eval.utils")

    @functools.wraps(stock)
    def add_env_info(storage: Any) -> None:
        found = [name for name in ("torch", "transformers") if getattr(utils, _ASKED[name])()]
        before = {name: getattr(utils, asked) for name, asked in _ASKED.items()}
        for asked in _ASKED.values():
            setattr(utils, asked, lambda: False)
        try:
            stock(storage)
        finally:
            for name, asked in _ASKED.items():
                setattr(utils, asked, before[name])
        if "torch" in found:
            storage["pretty_env_info"] = _machine()
        if "transformers" in found:
            storage["transformers_version"] = version("transformers")

    return add_env_info


_ASKED = {"torch": "is_torch_available", "transformers": "is_transformers_available"}


def _machine() -> str:
    """The text on the machine; an error is its text, as in the harness."""
    return _text() if _kept else NOT_DESCRIBED


@functools.cache
def _text() -> str:
    try:
        if _process is not None:
            text, _ = _process.communicate(timeout=_DESCRIBE_SECONDS)
            if text.strip():
                return text.rstrip("\n")
        return str(import_module("torch.utils.collect_env").get_pretty_env_info())
    except Exception as error:
        return str(error)
