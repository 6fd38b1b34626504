"""A task class whose YAML makes the plain ``lm_eval`` command adaptive.

In the task's YAML, which ``lm-eval-ccat check --write_variants DIR my_task`` writes::

    task: my_task_adaptive
    include: my_task.yaml
    class: !function lm_eval_ccat.AdaptiveTask

Then ``lm_eval --tasks my_task_adaptive --include_path DIR`` is adaptive by the default rule, which
it states. Options stand in the metadata, in the YAML or on the command line: ``--metadata
'{"adaptive": {"bank": "my_task.bank.json", "stop": "se 0.01"}}'``; a bank's path is looked up
beside the YAML too. ``{"adaptive": false}`` runs the task in full, as any other.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..errors import CcatError, UsageError
from ..harness.internals.bases import ConfigurableTask, stock_class
from ..visible import visible_line
from .adaptive import Adaptive
from .evaluate import install_hook

_COMMANDS = ("lm_eval", "lm-eval")  # the harness's, as scripts


class AdaptiveTask(ConfigurableTask):  # type: ignore[misc]  # the harness has no types
    """A YAML task that is run adaptively, unless its metadata say otherwise.

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
        self.adaptive = _options(metadata.get("adaptive"), metadata.get("config_source"))
        super().__init__(*arguments, config=config)


def _options(values: Any, source: Any) -> Adaptive | None:
    if values is False:
        return None
    values = {} if values is None or values is True else values
    if not isinstance(values, dict):
        raise UsageError(
            'metadata adaptive must be a mapping such as {"bank": "my_task.bank.json"}, or false, '
            f"not {values!r}"
        )
    folder = Path(source).parent if source and source != "inline" else None
    return Adaptive.read(values, folder)


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
