"""Adaptive evaluation inside the harness's own `simple_evaluate`.

`lm_eval.evaluator.simple_evaluate` loads the model and the tasks and then calls `evaluate`. A
wrapper in the place of `evaluate` runs the adaptive tasks as rankings of this one model (see
`adaptive`) and leaves all others to the harness. Which tasks are adaptive is told in one of two
ways: by `adaptive_evaluate` for the time of one call, or by the task's own class, `AdaptiveTask`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import CcatError, UsageError
from ..harness import internals
from ..harness.evaluation import Evaluation, in_words, install
from ..harness.internals.bases import ConfigurableTask, stock_class
from ..harness.scorers import record_scorers
from ..harness.session import ignored_fewshot
from ..shown import visible_line
from .adaptive import Adaptive, prepare, run_tasks
from .fields import options_of
from .observer import Observer, ProgressBar
from .spec import OLD, Spec
from .surfaces import takes_options

log = logging.getLogger("lm_eval.ccat")  # under the harness's, so as its user set it


_COMMANDS = ("lm_eval", "lm-eval")  # the harness's, as scripts
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
        ``adaptive`` block per task. See `lm_eval_ccat.harness.evaluation`.

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


def _evaluate(evaluation: Evaluation) -> Results | None:
    call, tasks = _CURRENT.get(), evaluation.tasks
    by_class = {name: getattr(task, "adaptive", None) for name, task in tasks.items()}
    every = dict.fromkeys(tasks, call.options) if call else by_class
    chosen = {name: options for name, options in every.items() if options is not None}
    if not chosen:
        return None
    refuse_subsets(evaluation.arguments["limit"], evaluation.arguments["samples"])
    ready = {}
    for name, options in chosen.items():  # everything that can be refused is, before a request
        session = evaluation.open(name, count_tokens=options.spec.price.by_tokens)
        ready[name] = prepare(session, options, only=len(chosen) == 1)
        if ignored := ignored_fewshot(tasks[name], call.num_fewshot if call else None):
            log.warning(ignored)
    observer = (call and call.observer) or ProgressBar()
    results = evaluation.results(run_tasks(ready, evaluation.groups, observer))
    if call:
        call.blocks.update(results["adaptive"])
    else:
        for name, block in results["adaptive"].items():
            log.info("adaptive %s", in_words(block, name))
    return results


# -- the task's own class -------------------------------------------------------------------------


class AdaptiveTask(ConfigurableTask):  # type: ignore[misc]  # the harness has no types
    """A task class whose YAML makes the plain ``lm_eval`` command adaptive.

    In the task's YAML, which ``lm-eval-ccat check --write_variants DIR my_task`` writes::

        task: my_task_adaptive
        include: my_task.yaml
        class: !function lm_eval_ccat.AdaptiveTask

    Then ``lm_eval --tasks my_task_adaptive --include_path DIR`` is adaptive by the default rule,
    which it states. Options stand in the metadata, in the YAML or on the command line:
    ``--metadata '{"adaptive": {"bank": "my_task.bank.json", "stop": "se 0.01"}}'``; a bank's path
    is looked up beside the YAML too. ``{"adaptive": false}`` runs the task in full, as any other.

    Parameters
    ----------
    config : dict
        The task's configuration, as the harness's loader passes it.

    Attributes
    ----------
    adaptive : Adaptive or None
        How to run it, by default to a standard error of 0.02; None runs it in full.

    Raises
    ------
    UsageError
        The metadata's ``adaptive`` is invalid.

    Examples
    --------
    >>> from pathlib import Path
    >>> from lm_eval.evaluator import simple_evaluate
    >>> _ = Path("adaptive.yaml").write_text(
    ...     "task: my_task_adaptive\\ninclude: my_task.yaml\\n"
    ...     "class: !function lm_eval_ccat.AdaptiveTask\\nmetadata: {adaptive: {max_items: 15}}"
    ... )
    >>> simple_evaluate("dummy", tasks=["adaptive.yaml"])["n-samples"]["my_task_adaptive"]
    {'original': 120, 'effective': 15}
    """

    def __new__(cls, *arguments: Any, **named: Any) -> AdaptiveTask:
        kind = stock_class(named.get("config") or {})
        whole = cls if issubclass(cls, kind) else type(cls.__name__, (cls, kind), {})
        task: AdaptiveTask = object.__new__(whole)
        return task

    def __init__(self, *arguments: Any, config: dict[str, Any] | None = None) -> None:
        # `class` is the loader's key, not one of the task's own.
        config = {key: value for key, value in (config or {}).items() if key != "class"}
        metadata = dict(config.get("metadata") or {})
        values, source = metadata.get("adaptive"), metadata.get("config_source")
        values = {} if values is None or values is True else values
        if values is not False and not isinstance(values, dict):
            raise UsageError(
                'metadata adaptive must be a mapping such as {"bank": "my_task.bank.json"}, or '
                f"false, not {values!r}"
            )
        folder = Path(source).parent if source and source != "inline" else None
        self.adaptive = None if values is False else Adaptive.read(values, folder)
        super().__init__(*arguments, config=config)


def refuse_in_one_line() -> None:
    """Under the plain ``lm_eval`` command let a refusal end in one line, as under ours.

    In Python it stays an exception, which can be caught.
    """
    program = Path(sys.argv[0] if sys.argv else "")
    if program.stem not in _COMMANDS and program.parts[-2:] != ("lm_eval", "__main__.py"):
        return
    before = sys.excepthook
    if getattr(before, "_ccat", False):
        return

    def hook(kind: Any, error: BaseException, trace: Any) -> None:
        if isinstance(error, CcatError):
            print(f"lm_eval: error: {visible_line(str(error))}", file=sys.stderr)
        else:
            before(kind, error, trace)

    hook._ccat = True  # type: ignore[attr-defined]
    sys.excepthook = hook


install_hook()
refuse_in_one_line()
