"""Find the harness's output files and read what a ``results_*.json`` says about a run.

The harness writes ``<output_path>/<model>/results_<date>.json`` and one
``samples_<task>_<date>.jsonl`` per task; with an ``output_path`` that ends in ``.json`` the results
file is ``<stem>_<date>.json``. Either may have been compressed afterwards. The second Open LLM
Leaderboard published sample files that end in ``.json`` (data sets
``open-llm-leaderboard/<organisation>__<model>-details``), some of them one JSON list.

Runs with other few-shot examples or another version of a task measure something else: they are
left out of a table. Chat templates and system instructions belong to how a model is run and may
differ from model to model; a reader is told. Generation settings tell the configs of a model apart.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....errors import ScoreTableError
from ....shown import plural, short, some
from ...wanted import one_of
from ..bounded import json_value

_DATE = r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_(?P<date>{_DATE})\.jsonl?(?:\.gz)?")
_RESULTS = re.compile(rf"(?!samples_).+_(?P<date>{_DATE})\.json(?:\.gz)?")
# The arguments by which the harness names a model, and the name it makes up when none is given.
_NAMING_ARGUMENTS = ("peft", "delta", "pretrained", "model", "path", "engine")
# A made-up name without any digit is rare, and looks like a word.
_MADE_UP_NAME = re.compile(r"(?=.*\d)[a-z0-9]{8}")


@dataclass(frozen=True)
class Run:
    """One sample file and what the results file beside it says of the run that wrote it.

    Attributes
    ----------
    samples : Path
        The ``samples_*.jsonl`` file, plain or ``.gz``.
    task, date : str
        From the file's name; dates compare as text.
    model : str
        The model's name: the results file's, else the name of the directory.
    results : dict
        The results file, without its bulky entries; empty when there is none.
    """

    samples: Path
    task: str
    date: str
    model: str
    results: dict[str, Any] = field(repr=False)

    @functools.cached_property
    def settings(self) -> dict[str, object]:
        """The settings that its scores depend on; empty without a results file.

        Keys: ``task_version``, ``num_fewshot``, ``chat_template`` (whether one was applied),
        ``chat_template_sha``, ``fewshot_as_multiturn``, ``system_instruction``,
        ``generation_kwargs``, ``fewshot_seed``, ``scorer``, ``dataset_path``, ``dataset_name``,
        ``dataset_revision``, ``lm_eval_version``.
        """
        results = self.results
        if not results:
            return {}
        config = self.of_task("configs") or {}
        shots = self.of_task("n-shot")
        if shots is None:
            shots = config.get("num_fewshot")
        return {
            "task_version": self.of_task("versions"),
            "num_fewshot": shots,
            "chat_template": results.get("chat_template") is not None,
            "chat_template_sha": results.get("chat_template_sha"),
            # Without examples there is nothing to be put into turns.
            "fewshot_as_multiturn": bool(shots and results.get("fewshot_as_multiturn")),
            "system_instruction": results.get("system_instruction"),
            "generation_kwargs": self.generation,
            "fewshot_seed": (results.get("config") or {}).get("fewshot_seed"),
            "scorer": (config.get("metadata") or {}).get("ccat_scorer"),
            "dataset_path": config.get("dataset_path"),
            "dataset_name": config.get("dataset_name"),
            "dataset_revision": (config.get("dataset_kwargs") or {}).get("revision"),
            "lm_eval_version": results.get("lm_eval_version"),
        }

    def of_task(self, key: str) -> Any:
        """Return ``results[key]`` of this run's task, or None."""
        entry = self.results.get(key)
        return entry.get(self.task) if isinstance(entry, dict) else None

    @property
    def generation(self) -> dict[str, object]:
        """Generation settings of the task in this run; empty where the task generates nothing."""
        config = self.of_task("configs")
        settings = config.get("generation_kwargs") if isinstance(config, dict) else None
        return dict(settings) if isinstance(settings, dict) else {}

    def filters_of(self, metric: str | None = None) -> list[str]:
        """Names of the filters of a metric, or of all, in the order in which they were applied."""
        names = list(dict.fromkeys(f for m, f in self.metric_keys if metric in (None, m)))
        listed = (self.of_task("configs") or {}).get("filter_list") or []
        order = [str(f.get("name")) for f in listed if isinstance(f, dict)]
        return sorted(names, key=lambda n: order.index(n) if n in order else len(order))

    @property
    def metric_keys(self) -> list[tuple[str, str]]:
        """(metric, filter) pairs of the results file, in its order."""
        values = self.of_task("results") or {}
        pairs = (key.rsplit(",", 1) for key in values if "," in key)
        return [(m, f) for m, f in pairs if not m.endswith("_stderr")]

    @property
    def adaptive(self) -> bool:
        """Whether the run's documents were chosen by what its model had scored."""
        return self.why_not_full()[0].startswith("an adaptive run")

    def why_not_full(self) -> tuple[str, bool]:
        """Say why the run is not of all documents, and whether its rows may still be used.

        An adaptive run's documents were chosen by what its model had scored, and ``--samples``
        mislabels documents, so neither may stand for full results. ``--limit`` takes the first
        documents of every model alike: their scores are true, and the others are missing.

        Returns
        -------
        reason : str
            Empty for a run of every document.
        usable : bool
            Whether the rows are plain scores of documents.
        """
        counts = self.of_task("n-samples")
        values = self.of_task("results")
        adaptive = self.results.get("adaptive")
        if isinstance(adaptive, dict) and set(adaptive) & set(self.results.get("results") or ()):
            adaptive = adaptive.get(self.task)
        marked = bool(adaptive) or bool(isinstance(values, dict) and values.get("adaptive"))
        if isinstance(counts, dict) and "effective" in counts and "original" in counts:
            effective, original = counts["effective"], counts["original"]
            if effective == original:
                return "", True
            part = f"{effective} of {original} documents"
            if marked:
                return f"an adaptive run ({part})", False
            if (self.results.get("config") or {}).get("limit") is not None:
                return f"run with --limit ({part})", True
            return f"not a full run ({part})", False
        return ("an adaptive run", False) if marked else ("", True)


def is_log_file(path: Path) -> bool:
    """Whether a file's name is one that the harness gives its samples or results."""
    return bool(_SAMPLES.fullmatch(path.name) or _RESULTS.fullmatch(path.name))


def _model_name(results: dict[str, Any], directory: str) -> str:
    """Name the model of a run.

    Where the model's arguments name nothing (a registered system without weights), the harness
    makes up a new random name for every run; there the model type and its arguments name it, so
    that two runs of one system are one model.
    """
    name, source = results.get("model_name"), results.get("model_source")
    config = results.get("config")
    arguments = config.get("model_args") if isinstance(config, dict) else None
    if isinstance(arguments, dict):
        arguments = ",".join(f"{key}={value}" for key, value in arguments.items())
    text = arguments if isinstance(arguments, str) else ""
    named = any(f",{key}=" in f",{text}" for key in _NAMING_ARGUMENTS)
    made_up = bool(_MADE_UP_NAME.fullmatch(str(name))) and str(name) not in text
    if made_up and not named and source and source != "CUSTOM":
        return f"{source}:{text}" if text else str(source)
    return str(name) if name else directory


def _results_beside(samples: Path, date: str) -> Path | None:
    """Return the results file of the same run, or None."""
    for name in (f"results_{date}.json", f"results_{date}.json.gz"):
        if (samples.parent / name).is_file():
            return samples.parent / name
    beside = sorted(samples.parent.glob(f"*_{date}.json*"))
    return next((path for path in beside if _RESULTS.fullmatch(path.name)), None)


@functools.lru_cache(maxsize=1024)
def _read_results(path: Path, changed: int) -> dict[str, Any]:
    """A results file; read once, as every task of a run has its samples beside the same file."""
    try:
        value = json_value(path)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise ScoreTableError(f"{path}: cannot be read as a results file ({error})") from error
    if not isinstance(value, dict):
        raise ScoreTableError(f"{path}: a results file holds one JSON object")
    value.pop("samples", None)  # only in files written by scripts; can be very large
    value.pop("pretty_env_info", None)
    return value


def _results_of(path: Path) -> dict[str, Any]:
    return _read_results(path, path.stat().st_mtime_ns)


def _sample_files(path: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield (file, task, date) of every sample file at or below a path, in order of path."""
    if path.is_file() and (results := _RESULTS.fullmatch(path.name)):
        candidates = sorted(path.parent.glob(f"samples_*_{results['date']}.json*"))
    else:
        candidates = [path] if path.is_file() else sorted(path.rglob("samples_*.json*"))
    for file in candidates:
        name = _SAMPLES.fullmatch(file.name)
        if name is not None:
            yield file, name["task"], name["date"]
        elif path.is_file() and not _RESULTS.fullmatch(path.name):
            raise ScoreTableError(
                f"{path}: not a sample file of the harness (samples_<task>_<date>.jsonl)"
            )


def tasks_of(path: Path) -> list[str]:
    """Names of the tasks that have sample files at or below a path."""
    return sorted({task for _, task, _ in _sample_files(path)})


def groups_of(path: Path) -> dict[str, list[str]]:
    """Groups of tasks that the newest results record, with their tasks and subgroups."""
    beside = {date: _results_beside(samples, date) for samples, _, date in _sample_files(path)}
    groups: dict[str, list[str]] = {}
    for date in sorted(beside):
        results = beside[date]
        if results is not None:
            recorded = _results_of(results).get("group_subtasks")
            if isinstance(recorded, dict):
                # A task run by itself stands there, too, with nothing below it.
                groups |= {str(k): [str(t) for t in v] for k, v in recorded.items() if v}
    return groups


def find_runs(path: Path, task: str | None) -> tuple[list[Run], list[str]]:
    """Find the runs of one task at or below a path.

    Parameters
    ----------
    path : Path
        A directory searched in depth, one sample file, or one results file.
    task : str, optional
        The task's name; needed where the logs hold several.

    Returns
    -------
    runs : list of Run
        In order of path.
    warnings : list of str
        What was passed over and why.

    Raises
    ------
    ScoreTableError
        When there are no sample files, the task is not among them, or several tasks are and none
        is named.
    """
    files = list(_sample_files(path))
    if not files:
        raise ScoreTableError(
            f"{path}: no samples_<task>_<date>.jsonl found; run the harness with --log_samples"
        )
    names = {task, re.sub(r"\W", "_", task or "")}
    if not names & {name for _, name, _ in files}:
        task = one_of(path, "task", task, (name for _, name, _ in files))
        names = {task}
    runs, warnings = [], []
    alone: list[Path] = []
    for samples, name, date in files:
        if name not in names:
            continue
        results: dict[str, object] = {}
        beside = _results_beside(samples, date)
        if beside is None:
            alone.append(samples)
        else:
            try:
                results = _results_of(beside)
            except ScoreTableError as error:
                warnings.append(f"{error}; the model is named after its directory")
        folder = samples.parent
        # The harness files a model object that has no name under "None".
        directory = folder.parent.name if folder.name == "None" else folder.name
        runs.append(Run(samples, task or name, date, _model_name(results, directory), results))
    if alone:
        warnings.append(
            f"no results_<date>.json beside {some(alone, 3)}: the model is "
            "named after its directory, and its settings are unknown"
        )
    return runs, warnings


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
    for key in (*_DEFINING, *_NOTED):
        values = [(run, json.dumps(run.settings[key])) for run in kept if run.results]
        if key in _DEFINING:
            values = [(run, value) for run, value in values if value != "null"]
        models: dict[str, set[str]] = {}
        for run, value in values:
            models.setdefault(value, set()).add(run.model)
        if len(models) < 2:
            continue
        differs = f"{key} differs between logs: {_counts(models)}"
        if key in _NOTED:
            warnings.append(f"{differs}; all are used")
            continue
        # Of values that equally many models have, the one of the latest run.
        latest = {value: run.date for run, value in sorted(values, key=lambda rv: rv[0].date)}
        common = max(models, key=lambda text: (len(models[text]), latest[text]))
        out = [run.samples for run, value in values if value != common]
        kept = [run for run in kept if run.samples not in out]
        warnings.append(
            f"{differs}; runs with another {key} than {common} are left out: {some(out, 4)}"
        )
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
    known, generation = [run.settings for run in runs], [run.generation for run in runs]
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
