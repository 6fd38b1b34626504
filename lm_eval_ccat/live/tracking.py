"""Finished rankings in experiment trackers, where the configuration's ``harness:`` says so.

The settings bear the harness's own names, so that its ``--config`` can be used again:
``wandb_args`` and ``trackio_args``, and beside them ``mlflow_args``. Each holds ``project`` and
``name`` of the run, and whatever else its tracker takes. ``hf_hub_log_args`` is the harness's
`EvaluationTracker`'s and goes to the files of each model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: Settings of ``harness:`` and the tracker that each is of.
TRACKERS = {"wandb_args": "wandb", "mlflow_args": "mlflow", "trackio_args": "trackio"}
#: The harness's own setting for pushing results files.
HUB = "hf_hub_log_args"


def wanted(harness: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The trackers that a ``harness:`` block asks for, with what each is given.

    Raises
    ------
    UsageError
        The package of one is not installed; said before anything is spent.
    """
    from ..integrations.trackers import package

    found = {
        name: dict(harness[key]) for key, name in TRACKERS.items() if harness.get(key) is not None
    }
    for name in found:
        package(name)
    return found


def track(
    result: Mapping[str, Any],
    trackers: Mapping[str, Mapping[str, Any]],
    warn: Callable[[str], None],
) -> None:
    """Log a finished result; a tracker that fails is warned of, the result is kept anyway."""
    from ..integrations.trackers import log_result

    for name, options in trackers.items():
        try:
            log_result(result, name, **options)
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            warn(f"the result is not in {name}: {type(error).__name__}: {text}")
