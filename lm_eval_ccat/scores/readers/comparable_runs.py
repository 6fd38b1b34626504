"""Which runs of a task measure the same thing, and what they have in common.

Runs with other few-shot examples or another version of a task measure something else: they are left
out of a table, and so are runs that are not of every document (see `LoggedRun.why_not_full`). Chat
templates and system instructions belong to how a model is run and may differ from model to model; a
warning says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from ...errors import ScoreTableError
from ...grouping import grouped
from ...shown import plural, short, some
from ..configuration import sampling_settings
from ..table import REPEAT_CONFIG
from .logged_runs import LoggedRun

#: Runs that differ in one of these are of two benchmarks.
DEFINING = ("task_version", "num_fewshot")
#: Runs that differ in one of these can be compared, with a warning.
_NOTED = (
    "chat_template", "system_instruction", "fewshot_as_multiturn", "dataset_path",
    "dataset_revision", "scorer",
)  # fmt: skip
#: Settings in which two runs should be alike.
COMPARED = (*DEFINING, *_NOTED)


def full_runs(
    runs: Sequence[LoggedRun], partial: bool = False, selected: bool = False
) -> tuple[list[LoggedRun], list[str]]:
    """Return the runs that may stand for full results, and what to know of those that are not full.

    Parameters
    ----------
    runs : sequence of LoggedRun
    partial : bool, optional
        Whether adaptive runs are kept all the same.
    selected : bool, optional
        Whether runs of documents that the user named (``--samples``) are kept all the same.

    Returns
    -------
    full : list of LoggedRun
    warnings : list of str
        One for every run that is not of all documents, whether or not it is kept.

    Raises
    ------
    ScoreTableError
        No run is kept.
    """
    full, warnings = [], []
    for run in runs:
        reason, usable = run.why_not_full()
        consequence = "it has no scores of the others"
        if not usable and run.adaptive:
            usable = partial
        # The harness numbers such documents rightly only if they were named in order.
        elif not usable and selected:
            usable = run.in_order
            consequence = "its documents stand for others only if they were named blind to scores"
        if usable:
            full.append(run)
        else:
            consequence = "left out"
            if selected and not run.adaptive:
                consequence += (
                    ", as the harness numbers documents wrongly unless --samples names each once, "
                    "in ascending order: run them so"
                )
        if reason:
            warnings.append(f"{run.samples}: {reason}; {consequence}")
    # The first reason is as good as any; the others are mostly the same.
    if not full:
        raise ScoreTableError(f"no full results among the logs: {warnings[0]}")
    return full, warnings


def comparable_runs(runs: Sequence[LoggedRun]) -> tuple[list[LoggedRun], list[str]]:
    """Leave out the runs with another task version or number of examples than most models.

    Returns
    -------
    comparable : list of LoggedRun
    warnings : list of str
        One for every setting in which the runs differ.
    """
    comparable, warnings = list(runs), []
    for key in COMPARED:
        # As JSON, because some settings are lists or objects.
        values = [(run, json.dumps(run.settings[key])) for run in comparable if run.results]
        # A run that does not state what defines the benchmark may be of the same one.
        if key in DEFINING:
            values = [(run, value) for run, value in values if value != "null"]
        models_by_value = grouped((value, run.model) for run, value in values)
        # All runs agree.
        if len(models_by_value) < 2:
            continue
        n_models = {value: len(set(models)) for value, models in models_by_value.items()}
        sizes = Counter(n_models).most_common(4)
        counts = ", ".join(f"{short(value)} ({plural(n, 'model')})" for value, n in sizes)
        differs = f"{key} differs between logs: {counts}"
        if key in _NOTED:
            warnings.append(f"{differs}; all are used")
            continue
        # Of values that equally many models have, the one of the latest run.
        dates = grouped((value, run.date) for run, value in values)
        common = max(n_models, key=lambda value: (n_models[value], max(dates[value])))
        left_out = [run.samples for run, value in values if value != common]
        comparable = [run for run in comparable if run.samples not in left_out]
        warnings.append(
            f"{differs}; runs with another {key} than {common} are left out: {some(left_out, 4)}"
        )
    return comparable, warnings


def oldest_first(
    runs: Sequence[LoggedRun], labels: Sequence[tuple[str, str]]
) -> list[tuple[LoggedRun, tuple[str, str]]]:
    """Return runs, the oldest first, each with its label, the model and config of `labels_of`."""
    return sorted(zip(runs, labels), key=lambda labelled: labelled[0].date)


def labels_of(runs: Sequence[LoggedRun], repeats: bool = False) -> list[tuple[str, str]]:
    """Return the model and the config of each run.

    A config names the generation settings that differ among the runs of a model, such as
    ``"temperature=0.7"``. It is empty if every model was run in one way.

    Parameters
    ----------
    runs : sequence of LoggedRun
    repeats : bool, optional
        Whether runs of one config that sample their answers are repeats. They are numbered by date,
        such as ``"temperature=0.7, repeat 2"``, and may differ in their seed. Runs that do not
        sample keep one label, so that the latest counts.
    """
    by_model = grouped((run.model, run.generation) for run in runs if run.results)
    # Settings in which the runs of some model differ.
    varied = {
        key
        for generations in by_model.values()
        for key in set().union(*generations)
        if not _alike(generation.get(key) for generation in generations)
    }
    # Repeats differ in their seed by intention.
    if repeats:
        varied.discard("seed")
    labels = []
    for run in runs:
        differing = [
            f"{key}={json.dumps(value, sort_keys=True)}"
            for key, value in sorted(run.generation.items())
            if key in varied
        ]
        labels.append((run.model, ",".join(differing)))
    return _with_repeat_numbers(labels, runs) if repeats else labels


def _with_repeat_numbers(
    labels: Sequence[tuple[str, str]], runs: Sequence[LoggedRun]
) -> list[tuple[str, str]]:
    """Return labels where runs of one label that sample their answers are numbered by date."""
    by_date = sorted(range(len(runs)), key=lambda position: runs[position].date)
    repeats = grouped(
        (labels[position], position)
        for position in by_date
        if sampling_settings(runs[position].generation)
    )
    numbered = list(labels)
    for (model, config), positions in repeats.items():
        if len(positions) > 1:
            for number, position in enumerate(positions, 1):
                repeat = f"{REPEAT_CONFIG}{number}"
                numbered[position] = model, f"{config}, {repeat}" if config else repeat
    return numbered


def shared_settings(runs: Sequence[LoggedRun]) -> dict[str, object]:
    """Return the settings that all runs with a results file have in common.

    A setting in which they differ is left out, and named in the list under ``"differing"``. For
    ``generation_kwargs`` that is decided key by key.
    """
    runs = [run for run in runs if run.results]
    all_settings, generation = [run.settings for run in runs], [run.generation for run in runs]
    shared: dict[str, object] = {}
    differing: list[str] = []
    for key in all_settings[0] if runs else ():
        # One key that differs must not hide that the others agree.
        if key == "generation_kwargs":
            names = dict.fromkeys(name for settings in generation for name in settings)
            alike = [
                name for name in names if _alike(settings.get(name) for settings in generation)
            ]
            shared[key] = {name: generation[0].get(name) for name in alike}
            differing += [f"generation_kwargs.{name}" for name in names if name not in alike]
        elif _alike(settings[key] for settings in all_settings):
            shared[key] = all_settings[0][key]
        else:
            differing.append(key)
    return shared | ({"differing": differing} if differing else {})


def _alike(values: Iterable[object]) -> bool:
    """Whether all values are equal, as JSON."""
    return len({json.dumps(value, sort_keys=True) for value in values}) == 1
