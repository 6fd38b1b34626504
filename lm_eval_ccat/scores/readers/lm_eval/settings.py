"""What the settings of several runs have in common, and which runs can stand in one table.

Runs with other few-shot examples or another version of a task measure something else: they are
left out. Chat templates and system instructions belong to how a model is run and may differ from
model to model; a reader is told. Generation settings tell the configs of a model apart.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from ....errors import ScoreTableError
from ....wording import plural, short, some
from .files import Run


def settings_of(run: Run) -> dict[str, object]:
    """Return the settings of a run that its scores depend on; empty without a results file.

    Keys: ``task_version``, ``num_fewshot``, ``chat_template`` (whether one was applied),
    ``chat_template_sha``, ``fewshot_as_multiturn``, ``system_instruction``, ``generation_kwargs``,
    ``fewshot_seed``, ``scorer``,
    ``dataset_path``, ``dataset_name``, ``dataset_revision``, ``lm_eval_version``.
    """
    results = run.results
    if not results:
        return {}
    config = run.of_task("configs") or {}
    shots = run.of_task("n-shot")
    if shots is None:
        shots = config.get("num_fewshot")
    return {
        "task_version": run.of_task("versions"),
        "num_fewshot": shots,
        "chat_template": results.get("chat_template") is not None,
        "chat_template_sha": results.get("chat_template_sha"),
        # Without examples there is nothing to be put into turns.
        "fewshot_as_multiturn": bool(shots and results.get("fewshot_as_multiturn")),
        "system_instruction": results.get("system_instruction"),
        "generation_kwargs": run.generation,
        "fewshot_seed": (results.get("config") or {}).get("fewshot_seed"),
        "scorer": (config.get("metadata") or {}).get("ccat_scorer"),
        "dataset_path": config.get("dataset_path"),
        "dataset_name": config.get("dataset_name"),
        "dataset_revision": (config.get("dataset_kwargs") or {}).get("revision"),
        "lm_eval_version": results.get("lm_eval_version"),
    }


# Two values of these make two benchmarks.
_DEFINING = ("task_version", "num_fewshot")
# Two values of these are worth saying.
_NOTED = (
    "chat_template",
    "system_instruction",
    "fewshot_as_multiturn",
    "dataset_path",
    "dataset_revision",
    "scorer",
)


def full_runs(runs: Sequence[Run], partial: bool = False) -> tuple[list[Run], list[str]]:
    """Leave out the runs that may not stand for full results, but for adaptive ones if wanted."""
    kept, warnings = [], []
    for run in runs:
        reason, usable = run.why_not_full()
        usable = usable or (partial and run.adaptive)
        if usable:
            kept.append(run)
        if reason:
            what = "documents it did not run count as missing" if usable else "left out"
            warnings.append(f"{run.samples}: {reason}; {what}")
    if not kept:
        raise ScoreTableError(f"no full results among the logs: {warnings[0]}")
    return kept, warnings


def comparable_runs(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Leave out the runs with another task version or number of examples than most models.

    Returns
    -------
    runs : list of Run
    warnings : list of str
        One for every setting in which the runs differ, naming runs.
    """
    kept, warnings = list(runs), []
    for key in _DEFINING:
        values = [(run, settings_of(run).get(key)) for run in kept]
        models: dict[str, set[str]] = {}
        for run, value in values:
            if value is not None:
                models.setdefault(json.dumps(value), set()).add(run.model)
        if len(models) < 2:
            continue
        # Of values that equally many models have, the one of the latest run.
        latest = {json.dumps(v): run.date for run, v in sorted(values, key=lambda rv: rv[0].date)}
        common = max(models, key=lambda text: (len(models[text]), latest[text]))
        out = [run for run, v in values if v is not None and json.dumps(v) != common]
        kept = [run for run in kept if run not in out]
        warnings.append(
            f"{key} differs between logs: {_counts(models)}; runs with another {key} than "
            f"{common} are left out: {some([run.samples for run in out], 4)}"
        )
    for key in _NOTED:
        models = {}
        for run in kept:
            if run.results:
                models.setdefault(json.dumps(settings_of(run)[key]), set()).add(run.model)
        if len(models) > 1:
            warnings.append(f"{key} differs between logs: {_counts(models)}; all are used")
    return kept, warnings


def config_labels(runs: Sequence[Run]) -> list[str]:
    """Name each run's config by the generation settings that differ within any one model.

    Returns
    -------
    list of str
        Such as ``"temperature=0.7"``; all empty where every model was run in one way.
    """
    varied: set[str] = set()
    by_model: dict[str, list[Run]] = {}
    for run in runs:
        by_model.setdefault(run.model, []).append(run)
    for of_model in by_model.values():
        settings = [run.generation for run in of_model if run.results]
        for key in sorted({key for one in settings for key in one}):
            if not _alike(one.get(key) for one in settings):
                varied.add(key)
    return [
        ",".join(
            f"{key}={json.dumps(run.generation[key], sort_keys=True)}"
            for key in sorted(varied & set(run.generation))
        )
        for run in runs
    ]


def shared_settings(runs: Sequence[Run]) -> dict[str, object]:
    """Return the settings all runs have in common.

    A setting in which they differ is left out, and named under ``"differing"``. For
    ``generation_kwargs`` that is decided key by key.
    """
    runs = [run for run in runs if run.results]
    known, generation = [settings_of(run) for run in runs], [run.generation for run in runs]
    shared: dict[str, object] = {}
    differing: list[str] = []
    for key in known[0] if known else ():
        if key == "generation_kwargs":
            names = dict.fromkeys(name for one in generation for name in one)
            alike = [name for name in names if _alike(one.get(name) for one in generation)]
            shared[key] = {name: generation[0].get(name) for name in alike}
            differing += [f"generation_kwargs.{name}" for name in names if name not in alike]
        elif _alike(one[key] for one in known):
            shared[key] = known[0][key]
        else:
            differing.append(key)
    return shared | ({"differing": differing} if differing else {})


def _alike(values: Iterable[object]) -> bool:
    return len({json.dumps(value, sort_keys=True) for value in values}) == 1


def _counts(models: dict[str, set[str]]) -> str:
    sizes = Counter({text: len(names) for text, names in models.items()})
    return ", ".join(f"{short(t)} ({plural(n, 'model')})" for t, n in sizes.most_common(4))
