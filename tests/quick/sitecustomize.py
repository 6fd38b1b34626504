"""What the harness does again in every process or run, and what once will do for in tests.

It parses its own 14,000 task files in every process, and in every run it imports PyTorch, to seed
it, and transformers, to say its version, asks pip for all packages and resamples the scores 100,000
times.
`tests/conftest.py` puts this folder on PYTHONPATH, so that the children of tests import it as they
start, and names the file that keeps the index. Elsewhere it does nothing.
"""

from __future__ import annotations

import copy
import os
import pickle
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.metadata import version
from pathlib import Path
from typing import Any

KEPT = "CCAT_TESTS_INDEX"


class Quick:
    """Finds the modules named below, and changes them once they are loaded."""

    @classmethod
    def find_spec(cls, name: str, path: Any, target: Any = None) -> Any:
        if name not in CHANGES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load, change = spec.loader.exec_module, CHANGES[name]

            def exec_module(module: Any) -> None:
                load(module)
                change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def index_once(module: Any) -> None:
    """The index of the harness's own tasks is built by the first process of all."""
    module.TaskIndex.build = staticmethod(once(module))


def seed_what_is_there(module: Any) -> None:
    """PyTorch is seeded where a model or a metric has imported it, and not imported for that."""
    stock = module.set_torch_seed
    module.set_torch_seed = lambda seed: stock(seed) if "torch" in sys.modules else None


def no_packages(module: Any) -> None:
    """The list of packages, which takes pip a second or two at each run, is not asked for."""
    words = ("pretty_env_info", "transformers_version", "upper_git_hash")
    about = {word: "not collected in tests" for word in words}
    about["lm_eval_version"] = version("lm_eval")
    module.add_env_info = lambda storage: storage.update(about)


def no_tokenizer(module: Any) -> None:
    """The dummy model has no tokenizer: its own is on the hub; to ask for it imports PyTorch."""
    module.DummyLM.tokenizer = None


def few_resamples(module: Any) -> None:
    """A standard error by the bootstrap is that of 10 resamples, not of 100,000."""
    stock = module.bootstrap_stderr
    module.bootstrap_stderr = lambda f, xs, iters: stock(f, xs, min(iters, 10))


CHANGES = {
    "lm_eval.tasks._index": index_once,
    "lm_eval.api.metrics": few_resamples,
    "lm_eval.loggers.utils": no_packages,
    "lm_eval.models.dummy": no_tokenizer,
    "lm_eval.utils": seed_what_is_there,
}


def once(module: Any) -> Any:
    """`TaskIndex.build` with the harness's own files read from a file, which is written once."""
    build = module.TaskIndex.build
    shipped = Path(module.__file__).parent
    kept: dict[str, Any] = {}

    def build_once(paths: Any, **options: Any) -> dict[str, Any]:
        first, *others = list(paths) or [None]
        if first != shipped or options:
            return build([first, *others] if first else [], **options)
        if not kept:
            kept.update(_kept(shipped, lambda: build([shipped])))
        index = dict(kept)
        for name, entry in build(others).items():
            if name in index:
                message = "Task '%s' from %s overrides existing task from %s"
                module.log.warning(message, name, entry.yaml_path, index[name].yaml_path)
            index[name] = entry
        return index

    return build_once


def _kept(shipped: Path, build: Any) -> dict[str, Any]:
    from filelock import FileLock

    # Another installation or version of the harness has an index of its own.
    file = Path(f"{os.environ[KEPT]}.{version('lm_eval')}.{zlib.crc32(bytes(shipped)):08x}")
    with FileLock(f"{file}.lock"):  # whoever comes first builds it, and the others wait
        if not file.is_file():
            with includes_once():
                file.write_bytes(pickle.dumps(build()))
        return dict(pickle.loads(file.read_bytes()))


@contextmanager
def includes_once() -> Iterator[None]:
    """The 12,500 includes of the task files name 670 files: each is parsed once."""
    from lm_eval.tasks import _yaml_loader

    load, read = _yaml_loader.load_yaml, {}

    def load_once(path: Path, **options: Any) -> dict[str, Any]:
        if path not in read:
            read[path] = load(path, **options)
        return copy.deepcopy(read[path])

    _yaml_loader.load_yaml = load_once
    try:
        yield
    finally:
        _yaml_loader.load_yaml = load


if os.environ.get(KEPT):
    sys.meta_path.insert(0, Quick)  # type: ignore[arg-type]
