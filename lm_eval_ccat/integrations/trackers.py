"""Log a finished result to an experiment tracker: Weights & Biases, MLflow or trackio.

Every tracker gets the settings that reproduce the result, and one number per model and quantity;
W&B also gets the ranking as a table, and MLflow the whole result as a file.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from ..content import RESULT, RankingContent
from ..errors import UsageError
from ..plugins import needed, our_extra

TRACKERS = ("wandb", "mlflow", "trackio")
Number = Literal["rank", "estimate", "standard_error", "n_items", "cost"]
Total = Literal["cost", "items_administered", "items_of_benchmark", "seconds", "exit_code"]
Setting = Literal["headline", "signature", "metric", "estimand", "stopped_because", "cost_unit"]
#: Quantities of each model, and of the run, that become numbers in a tracker.
NUMBERS: tuple[Number, ...] = get_args(Number)
TOTALS: tuple[Total, ...] = get_args(Total)
#: What a reader needs to reproduce a result.
REPRODUCING: tuple[Setting, ...] = get_args(Setting)
#: Longest text that MLflow takes as a parameter.
_LONGEST_PARAMETER = 500


def numbers(result: RankingContent) -> dict[str, float]:
    """Flatten a result's numbers: ``estimate/model-a``, ``all/cost``.

    Parameters
    ----------
    result : mapping
        The content of a run's ``result.json``.

    Examples
    --------
    >>> numbers({"models": {"a": {"estimate": 0.5, "rank": None}}, "cost": 2})
    {'estimate/a': 0.5, 'all/cost': 2.0}
    """
    flat = {
        f"{quantity}/{model}": float(number)
        for model, block in result["models"].items()
        for quantity in NUMBERS
        if (number := block.get(quantity)) is not None
    }
    # With a prefix of their own: MLflow's files cannot hold both "cost" and "cost/model-a".
    return flat | {
        f"all/{key}": float(result[key]) for key in TOTALS if result.get(key) is not None
    }


def settings(result: RankingContent) -> dict[str, str]:
    """Return what a reader needs to reproduce a result, as short texts."""
    return {key: str(result[key]) for key in REPRODUCING if result.get(key)}


def log_result(
    result: RankingContent,
    tracker: str,
    project: str = "lm-eval-ccat",
    name: str | None = None,
    **options: Any,
) -> None:
    """Log a finished result as one run of a tracker.

    Parameters
    ----------
    result : mapping
        The content of a run's ``result.json``.
    tracker : {"wandb", "mlflow", "trackio"}
        Its package must be installed: ``pip install 'lm-eval-ccat[wandb]'``, for instance.
    project : str, optional
        W&B's and trackio's project, MLflow's experiment.
    name : str, optional
        Name of the run; by default the tracker chooses one.
    **options
        Passed on to the tracker (``mode="offline"`` of W&B, for instance).

    Raises
    ------
    UsageError
        If there is no such tracker, or its package is not installed.

    Examples
    --------
    >>> import json
    >>> log_result(json.load(open("run1/result.json")), "wandb")       # doctest: +SKIP
    """
    module, described = package(tracker), settings(result)
    # W&B and trackio share their interface.
    if tracker != "mlflow":
        run = module.init(project=project, name=name, config=described, **options)
        module.log(numbers(result))
        if tracker == "wandb":
            table = module.Table(columns=["model", *NUMBERS])
            for model, block in result["models"].items():
                table.add_data(model, *(block.get(quantity) for quantity in NUMBERS))
            run.log({"ranking": table})
            run.summary["headline"] = result.get("headline")
        module.finish()
        return
    module.set_experiment(project)
    with module.start_run(run_name=name, **options), tempfile.TemporaryDirectory() as folder:
        module.log_params({key: value[:_LONGEST_PARAMETER] for key, value in described.items()})
        # MLflow allows fewer characters in a metric's name than models have in theirs.
        flat = numbers(result).items()
        module.log_metrics({re.sub(r"[^\w\-./ ]", "_", key): value for key, value in flat})
        file = Path(folder, RESULT)
        file.write_text(json.dumps(result, indent=1, default=str), encoding="utf-8")
        module.log_artifact(str(file))


def package(tracker: str) -> Any:
    """Import the package of a tracker.

    Raises
    ------
    UsageError
        If there is no such tracker, or its package is not installed.
    """
    if tracker not in TRACKERS:
        raise UsageError(f"no tracker {tracker!r}; there are: {', '.join(TRACKERS)}")
    return needed(tracker, "the tracker", our_extra(tracker))


#: Settings of a run's ``harness:`` that ask for a tracker, named as in the harness, and the
#: tracker. Each holds the run's ``project`` and ``name``, and further options of the tracker.
SETTINGS = {f"{name}_args": name for name in TRACKERS}


def trackers_of(harness: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the trackers that a ``harness:`` block asks for, with the options of each.

    Raises
    ------
    UsageError
        If the package of one is not installed; call this before anything is spent.
    """
    options_by = {
        name: dict(harness[key]) for key, name in SETTINGS.items() if harness.get(key) is not None
    }
    for name in options_by:
        package(name)
    return options_by


def track(
    result: RankingContent, trackers: Mapping[str, Mapping[str, Any]], warn: Callable[[str], None]
) -> None:
    """Log a finished result; warn of a tracker that fails."""
    for name, options in trackers.items():
        try:
            log_result(result, name, **options)
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            warn(f"the result is not in {name}: {type(error).__name__}: {text}")
