"""Read the output folder of `run --adaptive` as the configuration of a ranking."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import UsageError
from ..scores.readers.lm_eval.files import Run, find_runs, tasks_of
from .fields import Values
from .spec import Spec

#: What follows the name of an output folder in that of the run directory beside it.
SUFFIX = ".run"


def run_beside(folder: Path) -> Path:
    """Return the run directory beside an output folder, which keeps what the folder lacks."""
    place = folder.resolve()
    return place.with_name(place.name + SUFFIX)


def logged_config(folder: Path, include_path: Sequence[str] = ()) -> Spec:
    """The models, tasks and settings of adaptive runs, with their answers as earlier ones.

    Parameters
    ----------
    folder : Path
        What ``--output_path`` named, with samples.
    include_path : sequence of str, optional
        Folders of task configurations, which logs do not name.

    Raises
    ------
    UsageError
        There is no adaptive run in it, or its models were not run alike.
    """
    latest: dict[str, dict[str, Run]] = {}
    for run in sorted(_adaptive_runs(folder), key=lambda run: run.date):
        latest.setdefault(run.model, {})[run.task] = run
    if not latest:
        raise UsageError(
            f"{folder} is no run directory of `rank` and holds no results of `run --adaptive` "
            "with samples (--log_samples)"
        )
    settings = {
        json.dumps([sorted(runs), _harness(runs)], sort_keys=True) for runs in latest.values()
    }
    if len(settings) > 1:
        raise UsageError(
            f"the models in {folder} were run on other tasks or with other settings; name the "
            f"folder of one: {', '.join(sorted(latest))}"
        )
    runs = next(iter(latest.values()))
    tasks, harness = list(runs), _harness(runs)
    if include_path:
        harness["include_path"] = list(include_path)
    return Spec.read(
        {
            **({"task": tasks[0]} if len(tasks) == 1 else {"tasks": tasks}),
            "models": [_entry(name, next(iter(of.values()))) for name, of in latest.items()],
            "harness": harness,
            "prior": [str(folder)],
        }
    )


def _adaptive_runs(folder: Path) -> list[Run]:
    runs = [_named(run) for task in tasks_of(folder) for run in find_runs(folder, task)[0]]
    return [run for run in runs if run.adaptive]


def _named(run: Run) -> Run:
    """A run with its task's own name, some letters of which cannot stand in that of a file."""
    names = [n for n in run.results.get("configs") or () if re.sub(r"\W", "_", n) == run.task]
    return replace(run, task=names[0]) if names else run


def _entry(name: str, run: Run) -> Values:
    config = run.results.get("config") or {}
    entry = {key: config.get(key) for key in ("model", "model_args", "batch_size", "device")}
    return {"name": name, **{key: value for key, value in entry.items() if value is not None}}


def _harness(runs: Mapping[str, Run]) -> Values:
    """Return the harness's settings of a model's tasks as a ranking's ``harness:`` block."""
    run = next(iter(runs.values()))
    known, config = run.settings, run.results.get("config") or {}
    shots = {one.settings.get("num_fewshot") for one in runs.values()}
    options = {
        "num_fewshot": shots.pop() if len(shots) == 1 else None,  # else each task's own
        "apply_chat_template": known.get("chat_template") or None,
        "fewshot_as_multiturn": known.get("fewshot_as_multiturn") or None,
        "system_instruction": known.get("system_instruction"),
        "gen_kwargs": config.get("gen_kwargs") or None,
        "seed": known.get("fewshot_seed"),
    }
    return {key: value for key, value in options.items() if value is not None}
