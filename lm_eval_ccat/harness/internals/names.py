"""Lookup of lm-eval's internals by name, the supported releases, and the hook into its runs.

``tests/harness/test_contract.py`` lists every name that this package uses, and checks that the
installed harness has it. ``|`` separates the names of different releases; optional names end in
``?``.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from ...errors import HarnessError

log = logging.getLogger("lm_eval.ccat")  # a child of the harness's logger, whose level it inherits

#: Releases whose internals this folder knows: from the first up to, but not including, the second.
SUPPORTED = ((0, 4, 12), (0, 5))
#: Set this variable to try a release outside `SUPPORTED`, which may fail.
ANY_VERSION = "CCAT_ANY_HARNESS"

#: Methods that must be the harness's own for one document's requests to be built alone.
BUILDING = (
    "build_all_requests build_qa_turn|_build_qa_turn construct_requests doc_iterator doc_to_choice "
    "doc_to_prefix|_resolve_field doc_to_target doc_to_text eval_docs fewshot_context fewshot_docs "
    "multiple_input_context|_multiple_input_context"
)
#: Methods that must be the harness's own for `Transport` to send a model's requests.
SENDING = (
    "_loglikelihood_tokens amodel_call batch_loglikelihood_requests generate_until "
    "get_batched_requests model_call"
)


def resolve(name: str) -> Any:
    """Look up ``module:name`` under any of its spellings; None for an absent optional one.

    Raises
    ------
    HarnessError
        If the installed harness is not supported.
    AttributeError
        If it lacks a name that is not optional.
    """
    require_supported_version()
    module, _, paths = name.rstrip("?").partition(":")
    module_object = sys.modules.get(module) or import_module(module)  # every answer asks
    for path in paths.split("|"):
        with suppress(AttributeError):
            return functools.reduce(getattr, path.split("."), module_object)
    if not name.endswith("?"):
        raise AttributeError(f"the installed lm-eval has no {name}")
    return None


def attribute(thing: Any, names: str) -> Any:
    """Return an object's attribute under any of its spellings (``_filters|_scorers``)."""
    known = (name for name in names.split("|") if hasattr(thing, name))
    # Without any, the error names all spellings.
    return getattr(thing, next(known, names))


def is_stock(kind: type, names: str, module: str) -> bool:
    """Whether methods of a class, named in one text, are of a module that begins like `module`."""
    for name in names.split():
        member = attribute(kind, name)
        function = member.fget if isinstance(member, property) else member
        if not str(getattr(function, "__module__", "")).startswith(module):
            return False
    return True


@functools.cache
def harness_version() -> str:
    """Return the installed harness's version, or ``"not installed"``."""
    try:
        return version("lm_eval")
    except PackageNotFoundError:
        return "not installed"


@functools.cache
def require_supported_version() -> None:
    """Refuse a harness whose internals this folder does not know.

    Every use of the harness's internals goes through `resolve`, which calls this first.

    Raises
    ------
    HarnessError
        If no harness is installed, or its version is outside `SUPPORTED`.
    """
    installed = harness_version()
    numbers = tuple(int(part) for part in installed.split("+")[0].split(".")[:3] if part.isdigit())
    low, high = SUPPORTED
    if low <= numbers < high:
        return
    trouble = (
        f"lm-eval {installed} is not one whose internals are known here; "
        f"install 'lm-eval>={'.'.join(map(str, low))},<{'.'.join(map(str, high))}'"
    )
    # Internals of another version may be elsewhere, and who sets the variable wants to see.
    if installed == "not installed" or not os.environ.get(ANY_VERSION):
        raise HarnessError(trouble)
    log.warning("%s (continuing because %s is set)", trouble, ANY_VERSION)


# -- its evaluation and its command ---------------------------------------------------------------

#: Parts of the harness's messages on a task's defaults, which it logs twice per metric.
_DEFAULTS = (
    "is defined, but aggregation is not",
    "but higher_is_better is not",
    "using preconfigured rule",
)
_HOOKS: dict[str, dict[str, Callable[..., Any]]] = {"before": {}, "around": {}, "after": {}}


@functools.cache
def hush() -> None:
    """Silence the harness's notes on tasks' defaults, and all but the first of shadowed tasks."""
    shadowed: list[str] = []

    def is_shown(record: logging.LogRecord) -> bool:
        text = str(record.msg)
        if "overrides existing task" in text:
            shadowed.append(text)
            record.msg = f"{text} (further ones are not listed)"
            return len(shadowed) == 1
        return not any(note in text for note in _DEFAULTS)

    for name in ("lm_eval.tasks._index", "lm_eval.api.task"):
        logging.getLogger(name).addFilter(is_shown)


def hook(when: Literal["before", "around", "after"], function: Callable[..., Any]) -> None:
    """Call a function at every `lm_eval.evaluator.evaluate`; a second call changes nothing.

    The first hook also silences some of the harness's messages (see `hush`), and git's. Of several
    functions around an evaluation the first that returns results counts.

    `simple_evaluate` looks up `evaluate` after it has loaded the tasks, so a hook that a task's
    code installs while it is loaded takes effect in time.

    Parameters
    ----------
    when : {"before", "around", "after"}
    function : callable
        Before: receives the model. Around: receives the harness's function and the arguments of the
        call by name, and returns the results, or None if the harness is to evaluate as usual.
        After: receives the results, and may change them.
    """
    module: Any = import_module("lm_eval.evaluator")
    _HOOKS[when][f"{function.__module__}.{function.__qualname__}"] = function
    # Wrapped twice, everything would be called twice.
    if hasattr(module.evaluate, "_ccat"):
        return
    stock, commit = module.evaluate, module.get_git_commit_hash
    hush()

    @functools.wraps(stock)
    def evaluate(*positional: Any, **named: Any) -> Any:
        bound = inspect.signature(stock).bind(*positional, **named)
        bound.apply_defaults()
        arguments, results = dict(bound.arguments), None
        for look_at in _HOOKS["before"].values():
            look_at(arguments["lm"])
        for evaluate_instead in _HOOKS["around"].values():
            results = results or evaluate_instead(stock, arguments)
        if results is None:
            results = stock(*positional, **named)
        for amend in _HOOKS["after"].values():
            amend(results)
        return results

    def commit_here() -> Any:
        # Outside a repository git would write an error to the terminal.
        working_folder = Path.cwd()
        folders = (working_folder, *working_folder.parents)
        in_a_repository = any((folder / ".git").exists() for folder in folders)
        return commit() if in_a_repository else None

    evaluate._ccat = stock  # type: ignore[attr-defined]
    module.evaluate, module.get_git_commit_hash = evaluate, commit_here


def stock_simple_evaluate(**arguments: Any) -> Any:
    """Call the harness's own `simple_evaluate`."""
    return resolve("lm_eval.evaluator:simple_evaluate")(**arguments)


def run_command() -> Any:
    """Return the class of the harness's ``run`` command."""
    return resolve("lm_eval._cli.run:Run")


def set_up_logging() -> None:
    """Log as the harness's own command does."""
    resolve("lm_eval.utils:setup_logging")()
    hush()


def config_file(path: str) -> dict[str, object]:
    """Read a YAML file for the harness's ``--config``."""
    return dict(resolve("lm_eval.config.evaluate_config:EvaluatorConfig").load_yaml_config(path))
