"""Adaptive evaluation inside the harness's own `simple_evaluate`.

`lm_eval.evaluator.simple_evaluate` loads the model and the tasks and then calls `evaluate`. A
wrapper in the place of `evaluate` runs the adaptive tasks as rankings of this one model (see
`adaptive`) and leaves all others to the harness. Which tasks are adaptive is told in one of two
ways: by `adaptive_evaluate` for the time of one call, or by the task's own class
(`lm_eval_ccat.live.task.AdaptiveTask`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError
from ..harness import internals
from ..harness.assembly import in_words
from ..harness.opening import ignored_fewshot
from ..harness.protocol import Evaluation, install
from ..harness.scorers import record_scorers
from .adaptive import Adaptive, AdaptiveTaskRun, run_tasks
from .fields import options_of
from .observer import Observer, ProgressBar
from .spec import OLD, Spec
from .surfaces import takes_options

log = logging.getLogger("lm_eval.ccat")  # under the harness's, so as its user set it


#: As `lm_eval.simple_evaluate` returns them.
Results = dict[str, object]


@dataclass
class _Call:
    """One call under `adaptively`: its options, and the blocks it has given."""

    options: Adaptive
    num_fewshot: int | None = None
    observer: Observer | None = None
    blocks: dict[str, object] = field(default_factory=dict)


_CURRENT: ContextVar[_Call | None] = ContextVar("adaptive_call", default=None)


@takes_options("task", "tasks", "models", "harness")
def adaptive_evaluate(
    model: Any,
    model_args: Any = None,
    tasks: list[Any] | None = None,
    *,
    observer: Observer | None = None,
    **arguments: Any,
) -> Results | None:
    """Evaluate a model on the most informative documents of each task.

    Parameters
    ----------
    model, model_args, tasks, **arguments
        As `lm_eval.simple_evaluate` takes them; ``include_path`` (a directory of task
        configurations) as well. ``limit`` and ``samples`` are refused. Beside them every option of
        a run by its name (``bank``, ``metrics``, ``stop``, ``max_items``, ``budget``, ``price``,
        ``seed``, ``prior``, ...; docs/reference/config has them all), ``run_dir`` (where the
        journal is kept, so that the run can be resumed) and ``resume``.
    observer : Observer, optional
        Is told of warnings and progress; default a progress bar.

    Returns
    -------
    dict or None
        As `lm_eval.simple_evaluate` returns it, figures on the metric's own scale, with an
        ``adaptive`` block per task. See `lm_eval_ccat.harness.assembly`.

    Raises
    ------
    CcatError
        A bank is missing or does not fit, or a task or model cannot be used adaptively. Raised
        before the model is asked anything.

    Examples
    --------
    >>> from lm_eval_ccat import adaptive_evaluate
    >>> results = adaptive_evaluate("dummy", None, ["my_task.yaml"], max_items=15)
    >>> results["adaptive"]["my_task"]["items"]
    15
    """
    names = {*options_of(Spec), *OLD, "run_dir", "resume"} - {"tasks", "models", "harness"}
    options = Adaptive.read({k: arguments.pop(k) for k in list(arguments) if k in names})
    where = {"model": model, "model_args": model_args, "tasks": tasks}
    if "include_path" in arguments:
        # The metadata that the harness would give a task manager of its own.
        metadata = {**internals.model_arguments(model_args), **(arguments.get("metadata") or {})}
        arguments["task_manager"] = internals.task_manager(
            tasks or [], arguments.pop("include_path"), metadata
        )
    return _call(options, observer, {**where, **arguments})


def simple_evaluate(
    model: Any,
    model_args: Any = None,
    tasks: list[Any] | None = None,
    *,
    adaptive: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> Results | None:
    """`lm_eval.simple_evaluate` with an ``adaptive`` argument.

    Parameters
    ----------
    model, model_args, tasks, **arguments
        As the harness takes them.
    adaptive : mapping, optional
        Keyword arguments of `adaptive_evaluate` (``bank``, ``stop``, ...). Without it this
        is the harness's own function.

    Examples
    --------
    >>> from lm_eval_ccat import simple_evaluate
    >>> results = simple_evaluate("dummy", None, ["my_task.yaml"], adaptive={"max_items": 15})
    >>> results["n-samples"]["my_task"]
    {'original': 120, 'effective': 15}
    """
    options = None if adaptive is None else Adaptive.read(adaptive)
    where = {"model": model, "model_args": model_args, "tasks": tasks}
    return _call(options, None, {**where, **arguments})


def _call(
    options: Adaptive | None, observer: Observer | None, arguments: dict[str, Any]
) -> Results | None:
    """The harness's own `simple_evaluate`; adaptive, where there are options."""
    if options is not None:
        refuse_subsets(arguments.get("limit"), arguments.get("samples"))
    adaptive = nullcontext() if options is None else adaptively(
        options, arguments.get("num_fewshot"), observer
    )  # fmt: skip
    with adaptive:
        results: Results | None = internals.stock_simple_evaluate(**arguments)
    return results


@contextmanager
def adaptively(
    options: Adaptive, num_fewshot: int | None = None, observer: Observer | None = None
) -> Iterator[dict[str, Any]]:
    """While this lasts, every task that the harness evaluates in this thread is adaptive.

    Parameters
    ----------
    options : Adaptive
    num_fewshot : int, optional
        What the harness is asked for; a task that ignores it is warned of.
    observer : Observer, optional

    Yields
    ------
    dict
        Filled with the ``adaptive`` block of each task as it is evaluated.
    """
    install_hook()
    call = _Call(options, num_fewshot, observer)
    token = _CURRENT.set(call)
    try:
        yield call.blocks
    finally:
        _CURRENT.reset(token)


def refuse_subsets(limit: Any, samples: Any) -> None:
    """Refuse ``limit`` and ``samples``: an adaptive run chooses its documents itself.

    Raises
    ------
    UsageError
    """
    for name, value in (("limit", limit), ("samples", samples)):
        if value is not None:
            raise UsageError(
                f"--{name} cannot go with an adaptive run, which chooses its documents itself; "
                "bound it by --max_items or --budget_items"
            )


# -- the hook -------------------------------------------------------------------------------------


def install_hook() -> None:
    """Put the wrapper in the place of the harness's `evaluate`; doing so again changes nothing."""
    install(_evaluate)
    record_scorers()  # results files name what scored them


def _adaptive_tasks(tasks: Mapping[str, Any]) -> dict[str, Adaptive]:
    call = _CURRENT.get()
    if call is not None:
        return dict.fromkeys(tasks, call.options)
    options_of = {name: getattr(task, "adaptive", None) for name, task in tasks.items()}
    return {name: options for name, options in options_of.items() if options is not None}


def _evaluate(evaluation: Evaluation) -> Results | None:
    chosen = _adaptive_tasks(evaluation.tasks)
    if not chosen:
        return None
    refuse_subsets(evaluation.arguments["limit"], evaluation.arguments["samples"])
    runs: dict[str, AdaptiveTaskRun] = {}
    call = _CURRENT.get()
    for name, options in chosen.items():  # everything that can be refused is, before a request
        session = evaluation.open(name, count_tokens=options.spec.price.by_tokens)
        runs[name] = AdaptiveTaskRun.prepare(session, options, only=len(chosen) == 1)
        num_fewshot = call.num_fewshot if call is not None else None
        ignored = ignored_fewshot(evaluation.tasks[name], num_fewshot)
        if ignored is not None:
            log.warning(ignored)
    observer = call.observer if call is not None and call.observer else ProgressBar()
    results = evaluation.results(run_tasks(runs, evaluation.groups, observer))
    if call is not None:
        call.blocks.update(results["adaptive"])
    else:
        for name, block in results["adaptive"].items():
            log.info("adaptive %s", in_words(block, name))
    return results
