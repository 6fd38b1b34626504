"""Runs of the harness in its output folders: their files, settings and models' names.

The harness writes ``<output_path>/<model>/results_<date>.json`` and one
``samples_<task>_<date>.jsonl`` per task; with an ``output_path`` that ends in ``.json`` the results
file is ``<stem>_<date>.json``. Either may have been compressed afterwards. The second Open LLM
Leaderboard published sample files that end in ``.json`` (data sets
``open-llm-leaderboard/<organisation>__<model>-details``), some of them one JSON list.

Before 0.4.3 it wrote one ``results.json`` (or the file that ``output_path`` names) and beside it
``<model_args>_<task>.jsonl``, which holds one JSON list (in 0.4.0 a row per line); a task there has
neither a date of its own nor hashes of its documents. Which characters of the arguments a name
replaces, and by what, differs from version to version, so letters and digits alone are compared.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import ScoreTableError
from ...grouping import grouped
from ...shown import plural, some
from ..configuration import (
    configuration_of,
    model_args_of,
    model_of,
    names_by_configuration,
    sampling_settings,
)
from ..reading import files_at, json_value, one_of, open_log
from .samples import holds_list, sound_rows

_DATE = r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_(?P<date>{_DATE})\.jsonl?(?:\.gz)?")
_RESULTS = re.compile(rf"(?!samples_).+_(?P<date>{_DATE})\.json(?:\.gz)?")
# How sample files and results files begin, whatever their names, and in how many bytes.
_ROW = re.compile(rb'\s*\[?\s*\{\s*"doc_id":\s*\d+,\s*"doc":\s*\{')
_FIGURES = re.compile(rb'\s*\{\s*"results":\s*\{')
_BEGINNING = 256
#: Key of a task's metadata in results files: the scorers of its metrics.
SCORER = "ccat_scorer"
# Objects that results files hold, if they have them; "*" stands for every task.
_OBJECTS = (
    ("config",), ("configs", "*", "metadata", SCORER, "*"), ("configs", "*", "dataset_kwargs"),
    ("results", "*"), ("versions",), ("n-shot",), ("n-samples", "*"), ("higher_is_better", "*"),
    ("group_subtasks",),
)  # fmt: skip


class SampleFile(NamedTuple):
    """One sample file, and what is known of it before it is read.

    Attributes
    ----------
    path : Path
    task : str
        As the file's name has it.
    date : str
    results : Path or None
        The results file of the run; None where the date that both names hold tells it.
    """

    path: Path
    task: str
    date: str
    results: Path | None = None


class DocumentCounts(NamedTuple):
    """Numbers of documents that were run, and in all, as the results state them."""

    effective: Any
    original: Any

    @property
    def in_part(self) -> bool:
        """Whether some documents were left out."""
        return bool(self.effective != self.original)


class NotFull(NamedTuple):
    """Why a run is not of all documents, and whether its rows may still be used.

    Attributes
    ----------
    reason : str
        Empty for a run of every document.
    usable : bool
        Whether the rows are plain scores of documents: those of every document, or of the first.
    """

    reason: str
    usable: bool


@dataclass(frozen=True)
class LoggedRun:
    """One sample file and what the results file beside it says of the run that wrote it.

    Attributes
    ----------
    samples : Path
        The ``samples_*.jsonl`` file, plain or ``.gz``.
    task : str
        From the results file; the file's name replaces characters that file systems reject.
    date : str
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
        results, config = self.results, self.of_task("configs") or {}
        if not results:
            return {}
        # The results count the examples that were shown; the configuration, those that were asked
        # for.
        shots = self.of_task("n-shot")
        shots = config.get("num_fewshot") if shots is None else shots
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
            "scorer": (config.get("metadata") or {}).get(SCORER),
            "dataset_path": config.get("dataset_path"),
            "dataset_name": config.get("dataset_name"),
            "dataset_revision": (config.get("dataset_kwargs") or {}).get("revision"),
            "lm_eval_version": results.get("lm_eval_version"),
        }

    @functools.cached_property
    def configuration(self) -> dict[str, str]:
        """What makes its model's configuration (revision, dtype, ...); {} if it is not known."""
        if not self.results:
            return {}
        name = model_of(self.results, self.samples.parent)
        return configuration_of(name, model_args_of(self.results), self.settings)

    @property
    def template(self) -> str | None:
        """SHA-256 of the chat template that wrote the prompts; "" if unknown, None without one.

        It is unknown where messages went to a server, which has a template of its own.
        """
        if self.results.get("chat_template") is None:
            return None
        return str(self.results.get("chat_template_sha") or "")

    def of_task(self, key: str) -> Any:
        """Return what an entry of the results file, such as ``configs``, has of the run's task."""
        entry = self.results.get(key)
        return entry.get(self.task) if isinstance(entry, dict) else None

    @property
    def generation(self) -> dict[str, object]:
        """Generation settings of the task in this run; empty where the task generates nothing."""
        config = self.of_task("configs")
        settings = config.get("generation_kwargs") if isinstance(config, dict) else None
        return dict(settings) if isinstance(settings, dict) else {}

    def directions_of(self, metric: str) -> set[bool]:
        """Return the directions that the logs state (True: higher is better), none, one or both.

        The task's configuration may state one, and so may the results.
        """
        entries = (self.of_task("configs") or {}).get("metric_list") or []
        values = [
            entry.get("higher_is_better")
            for entry in entries
            if isinstance(entry, dict) and entry.get("metric") == metric
        ]
        values.append((self.of_task("higher_is_better") or {}).get(metric))
        return {value for value in values if isinstance(value, bool)}

    def filters_of(self, metric: str | None = None) -> list[str]:
        """Return the filters of a metric, or of all, in the order in which they were applied."""
        names = list(
            dict.fromkeys(filter_ for base, filter_ in self.metric_keys if metric in (None, base))
        )
        entries = (self.of_task("configs") or {}).get("filter_list") or []
        # The task's configuration has the order; filters that it does not list come last.
        order = [str(entry.get("name")) for entry in entries if isinstance(entry, dict)]
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    @property
    def metric_keys(self) -> list[tuple[str, str]]:
        """(metric, filter) pairs of the results file, in its order."""
        keys = (key.rpartition(",") for key in self.of_task("results") or ())
        return [
            (metric, filter_)
            for metric, comma, filter_ in keys
            if comma and not metric.endswith("_stderr")
        ]

    @functools.cached_property
    def counts(self) -> DocumentCounts | None:
        """Numbers of documents that were run, and in all; None where the results do not say."""
        counts = self.of_task("n-samples")
        if not (isinstance(counts, dict) and counts.keys() >= {"effective", "original"}):
            return None
        return DocumentCounts(counts["effective"], counts["original"])

    @functools.cached_property
    def adaptive(self) -> bool:
        """Whether the run is of some documents, chosen by what its model had scored."""
        block, figures = self.results.get("adaptive"), self.of_task("results")
        # One block for each task that was run adaptively; else the block is of the whole run.
        if isinstance(block, dict) and set(block) & set(self.results.get("results") or ()):
            block = block.get(self.task)
        is_marked = block or (isinstance(figures, dict) and figures.get("adaptive"))
        # An adaptive run that asked every document is a full one.
        return bool(is_marked) and (self.counts is None or self.counts.in_part)

    @property
    def in_order(self) -> bool:
        """Whether the rows of every filter are in the order of their documents' numbers.

        The harness runs documents that a user names (``--samples``) in the task's order, and
        numbers them in the order in which they were named.
        """
        last: dict[Any, Any] = {}
        for row in sound_rows(self.samples):
            filter, number = row.get("filter"), row["doc_id"]
            if not isinstance(number, int) or number <= last.get(filter, -1):
                return False
            last[filter] = number
        return True

    def why_not_full(self) -> NotFull:
        """Say why the run is not of all documents, and whether its rows may still be used.

        An adaptive run's documents were chosen by what its model had scored, and nobody knows why
        a user named some (``--samples``), so neither may stand for full results. ``--limit`` takes
        the first documents of every model alike: their scores are true, and the others are missing.
        """
        part = " ({} of {} documents)".format(*self.counts) if self.counts else ""
        limited = (self.results.get("config") or {}).get("limit") is not None
        if self.adaptive:
            return NotFull(f"an adaptive run{part}", usable=False)
        if not (self.counts.in_part if self.counts else limited):
            return NotFull("", usable=True)
        # `--limit` is in the configuration; `--samples` leaves only the count of documents.
        if limited:
            return NotFull(f"run with --limit{part}", usable=True)
        return NotFull(f"not a full run{part}, as with --samples", usable=False)


def can_read(path: Path) -> bool:
    """Whether a path is a log of the harness, or a directory with one in it.

    The names of sample files since 0.4.3 tell. Of earlier ones a results file beside them tells;
    where none does, the first bytes of a directory's files. A directory of results files alone
    holds no scores of items, so it is no log.
    """
    if path.is_file() and (_SAMPLES.fullmatch(path.name) or _RESULTS.fullmatch(path.name)):
        return True
    if path.is_dir() and any(sample_name(file.name) for file in files_at(path, "samples_*.json*")):
        return True
    samples, unnamed_files = _undated_files(path)
    return bool(samples) or any(_begins(file, _ROW) for file in unnamed_files)


def _begins(file: Path, form: re.Pattern[bytes]) -> bool:
    """Whether a plain or compressed file begins in a form; not where it cannot be read."""
    try:
        with open_log(file) as stream:
            return form.match(stream.read(_BEGINNING)) is not None
    except (OSError, EOFError, zlib.error):
        return False


class SampleName(NamedTuple):
    """What the name of a sample file says."""

    task: str
    date: str


def sample_name(name: str) -> SampleName | None:
    """Return what the name of a sample file since 0.4.3 says; None if it is another file's.

    Examples
    --------
    >>> sample_name("samples_leaderboard_musr_object_placements_2024-09-15T01-02-03.456789.json")
    SampleName(task='leaderboard_musr_object_placements', date='2024-09-15T01-02-03.456789')
    """
    match = _SAMPLES.fullmatch(name)
    return SampleName(match["task"], match["date"]) if match else None


def results_files(folder: Path) -> list[Path]:
    """Return the results files of the harness in and below a folder, the latest last."""
    named = ((_RESULTS.fullmatch(file.name), file) for file in folder.rglob("*.json"))
    return [file for _, file in sorted((name["date"], file) for name, file in named if name)]


def _sample_files(path: Path) -> tuple[list[SampleFile], list[Path]]:
    """Return every sample file at or below a path, and those of which no run is known."""
    files = files_at(path, "samples_*.json*")
    # A results file stands for the samples of its run.
    if path.is_file() and (results := _RESULTS.fullmatch(path.name)):
        files = sorted(path.parent.glob(f"samples_*_{results['date']}.json*"))
    undated, unknown_files = _undated_files(path)
    dated = []
    for file in files:
        name = sample_name(file.name)
        if name is not None:
            dated.append(SampleFile(file, name.task, name.date))
        # What lies in a folder may be anything, but not what the user names.
        elif file == path and not undated:
            raise ScoreTableError(
                f"{path}: not a sample file of the harness (samples_<task>_<date>.jsonl)"
            )
    return [*dated, *undated], unknown_files


def _undated_files(path: Path) -> tuple[list[SampleFile], list[Path]]:
    """Return the sample files of runs of the harness before 0.4.3 at or below a path.

    The second value are the files in a folder that may hold samples and that no results file names;
    of a single file there are none. A file's name joins the arguments of the model and the task;
    the results file states the task.
    """
    # A results file stands for the samples beside it, and samples are known by the results beside.
    lists = path.parent.glob("*.jsonl*") if path.is_file() else files_at(path, "*.jsonl*")
    samples = [file for file in lists if not sample_name(file.name) and _may_hold_samples(file)]
    by_name = grouped(
        ((file.parent, _letters_and_digits(file.name.partition(".jsonl")[0])), file)
        for file in samples
    )
    runs: dict[Path, SampleFile] = {}
    for folder in dict.fromkeys(file.parent for file in samples):
        for results in sorted(folder.glob("*.json")):
            for undated in _undated_tasks(results):
                for file in by_name.get((folder, undated.stem), ()):
                    run = SampleFile(file, undated.task, undated.date, results)
                    # A run that was repeated has overwritten the samples of the earlier ones.
                    runs[file] = max(run, runs.get(file, run), key=lambda candidate: candidate.date)
    # Without the runs that were found beside a path that is a file.
    runs_at_path = [
        run for run in runs.values() if path in (run.path, run.results, *run.path.parents)
    ]
    return runs_at_path, [file for file in samples if file not in runs and path.is_dir()]


class _UndatedTask(NamedTuple):
    """A task of a results file of the harness before 0.4.3.

    Attributes
    ----------
    stem : str
        Letters and digits of its sample file's name, without the ending.
    task : str
    date : str
        When the run began.
    """

    stem: str
    task: str
    date: str


def _undated_tasks(file: Path) -> Iterator[_UndatedTask]:
    """Yield the tasks of a results file of the harness before 0.4.3; none of another file."""
    if _SAMPLES.fullmatch(file.name) or _RESULTS.fullmatch(file.name):
        return
    results: dict[str, Any] = {}
    with suppress(ScoreTableError):
        results = _read_results(file, file.stat().st_mtime_ns)
    config, tasks = results.get("config"), results.get("configs")
    if not (isinstance(config, dict) and isinstance(tasks, dict)):
        return
    started = results.get("date")
    # Seconds since 1970, written so that they compare as text; dates begin with a 2.
    date = f"{started:020.6f}" if isinstance(started, (int, float)) else ""
    for task in tasks:
        stem = _letters_and_digits(f"{config.get('model_args')}_{task}")
        yield _UndatedTask(stem, task, date)


def _may_hold_samples(file: Path) -> bool:
    """Whether a file of lines is one JSON list, or begins with a row of samples."""
    if file.suffix not in (".jsonl", ".gz") or not file.is_file():
        return False
    return _begins(file, _ROW) or (file.suffix == ".jsonl" and holds_list(file))


def _letters_and_digits(name: str) -> str:
    """Return the letters and digits of a name; the harness replaces other characters in files'."""
    return re.sub(r"[\W_]", "", name)


def _results_beside(samples: Path, date: str) -> Path | None:
    """Return the results file of the same run, or None."""
    for name in (f"results_{date}.json", f"results_{date}.json.gz"):
        if (samples.parent / name).is_file():
            return samples.parent / name
    beside = sorted(samples.parent.glob(f"*_{date}.json*"))
    return next((path for path in beside if _RESULTS.fullmatch(path.name)), None)


@functools.lru_cache(maxsize=1024)
def _read_results(path: Path, changed: int) -> dict[str, Any]:
    """Read a results file, once for all tasks of a run; `changed` is when it was written."""
    try:
        value = json_value(path)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise ScoreTableError(f"{path}: cannot be read as a results file ({error})") from error
    if not isinstance(value, dict):
        raise ScoreTableError(f"{path}: a results file holds one JSON object")
    # A file that somebody edited should fail here, by name, and not deep in a reader.
    for keys in _OBJECTS:
        if wrong := _no_object(value, keys):
            raise ScoreTableError(f"{path}: {wrong} is no JSON object, as the harness writes it")
    # Files that scripts wrote hold these, which can be very large.
    value.pop("samples", None)
    value.pop("pretty_env_info", None)
    return value


def _no_object(value: Any, keys: Sequence[str]) -> str:
    """Name the first place below `value` that holds something else than an object; "" if none."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        return "it"
    if not keys:
        return ""
    for key in value if keys[0] == "*" else [keys[0]]:
        if wrong := _no_object(value.get(key), keys[1:]):
            return f"{key!r}" + ("" if wrong == "it" else f", {wrong}")
    return ""


def groups_of(path: Path) -> dict[str, list[str]]:
    """Return the tasks and subgroups of each group that a run records; the newest run counts."""
    groups: dict[str, list[str]] = {}
    for run in sorted(every_run(path), key=lambda run: run.date):
        recorded = run.results.get("group_subtasks")
        if isinstance(recorded, dict):
            # A task run by itself stands there, too, with nothing below it.
            groups |= {
                str(key): [str(task) for task in value] for key, value in recorded.items() if value
            }
    return groups


def find_runs(path: Path, task: str | None) -> tuple[list[LoggedRun], list[str]]:
    """Find the runs of one task at or below a path.

    Parameters
    ----------
    path : Path
        A directory searched in depth, one sample file, or one results file.
    task : str, optional
        The task's name; needed where the logs hold several.

    Returns
    -------
    runs : list of LoggedRun
        In order of path.
    warnings : list of str
        What was passed over and why.

    Raises
    ------
    ScoreTableError
        When there are no sample files, the task is not among them, or several tasks are and none
        is named.
    """
    files, unknown_files = _sample_files(path)
    if not files:
        raise ScoreTableError(
            "; ".join(_samples_of_no_run(unknown_files))
            or f"{path}: no samples_<task>_<date>.jsonl found; run the harness with --log_samples"
        )
    # Names of files lack some characters of a task's name.
    names = {task, _in_file_names(task or "")}
    if not names & {file.task for file in files}:
        names = {one_of(path, "task", task, (file.task for file in files))}
    runs, warnings = _runs_of([file for file in files if file.task in names], task)
    # A model has one name in all tasks, whichever of them its other configurations were run on.
    all_runs = runs
    if len(runs) < len(files):
        all_runs, _ = _runs_of(files)
    warnings += [*_samples_of_no_run(unknown_files), *_models_without_samples(path, runs)]
    return _named_by_configuration(runs, all_runs), warnings


def _samples_of_no_run(files: Sequence[Path]) -> list[str]:
    """Say which files hold samples of which nothing tells model and task."""
    if not files:
        return []
    return [
        f"{some(files, 4)}: samples of which no results file beside them tells the model and the "
        "task, so they are left out; name them as the harness did: samples_<task>_<date>.jsonl "
        "beside results_<date>.json, or <model_args>_<task>.jsonl (before 0.4.3) beside "
        "results.json"
    ]


def _models_without_samples(path: Path, runs: Sequence[LoggedRun]) -> list[str]:
    """Say which models have results of the task of some runs, and no samples."""
    task, warnings = runs[0].task, list[str]()
    known = {_model_and_arguments(run.model, run.results) for run in runs}
    lost: dict[str, Path] = {}
    # A model without samples would be missing from a ranking in silence.
    for file in files_at(path, "*.json*") if path.is_dir() else ():
        if _SAMPLES.fullmatch(file.name) or not (
            _RESULTS.fullmatch(file.name) or _begins(file, _FIGURES)
        ):
            continue
        try:
            results = _read_results(file, file.stat().st_mtime_ns)
        except ScoreTableError as error:
            named = _RESULTS.fullmatch(file.name)
            # With samples beside it, the model is read and named after its folder.
            if named and not any(file.parent.glob(f"samples_*_{named['date']}.json*")):
                warnings.append(f"{error}, and no samples are beside it; its model is left out")
            continue
        model = model_of(results, file.parent)
        if (
            task in (results.get("configs") or results.get("results") or ())
            and not results.get("adaptive")
            and _model_and_arguments(model, results) not in known
        ):
            lost[model] = file
    if lost:
        warnings.append(
            f"{plural(len(lost), 'model')} left out, as no samples of {task} are beside the "
            f"results: {some([f'{model} ({file})' for model, file in lost.items()], 4)}; run with "
            f"--log_samples, or put samples_{_in_file_names(task)}_<date>.jsonl back"
        )
    return warnings


def _model_and_arguments(model: str, results: Mapping[str, Any]) -> tuple[str, str]:
    """Return a model and its arguments, which tell its configurations apart."""
    return model, str(model_args_of(results))


def every_run(path: Path) -> list[LoggedRun]:
    """Return the runs of every task at or below a path, by task; none where there is no log."""
    files, _ = _sample_files(path)
    runs, _ = _runs_of(files)
    return sorted(_named_by_configuration(runs, runs), key=lambda run: run.task)


def _named_by_configuration(
    runs: Sequence[LoggedRun], all_runs: Sequence[LoggedRun]
) -> list[LoggedRun]:
    """Return runs whose models are named by what differs between configurations in `all_runs`."""
    known = [(run.model, run.results) for run in (*all_runs, *runs)]
    names = names_by_configuration(known)[len(all_runs) :]
    return [replace(run, model=name) for run, name in zip(runs, names)]


def configurations_of(
    runs: Sequence[LoggedRun], sent: Mapping[Path, Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """Return what makes the configuration of each model of which a results file is there.

    Where a model's runs differ in a generation setting, the value names all of them:
    ``{"m": {"model": "m", "temperature": "0.8,usual"}}``, with "usual" for a run without the
    setting or at its usual value (temperature 0). `sent` has each sample file's generation
    settings, as only the samples may state a temperature.
    """
    by_model = grouped(
        (run.model, sampling_settings(sent[run.samples]) | run.configuration)
        for run in runs
        if run.results
    )
    merged: dict[str, dict[str, str]] = {}
    for model, configurations in by_model.items():
        keys = dict.fromkeys(key for configuration in configurations for key in configuration)
        values = {key: [known.get(key) or "usual" for known in configurations] for key in keys}
        merged[model] = {key: ",".join(dict.fromkeys(texts)) for key, texts in values.items()}
    return merged


def _runs_of(
    files: Iterable[SampleFile], task: str | None = None
) -> tuple[list[LoggedRun], list[str]]:
    """Return the runs that wrote these sample files, of `task` if it is known, and warnings."""
    runs, warnings = [], []
    without_results: list[Path] = []
    for file in files:
        samples, name, results = file.path, file.task, dict[str, Any]()
        try:
            if results_file := file.results or _results_beside(samples, file.date):
                results = _read_results(results_file, results_file.stat().st_mtime_ns)
            else:
                without_results.append(samples)
        except ScoreTableError as error:
            warnings.append(f"{error}; the model is named after its directory")
        known = results.get("configs") or ()
        # The results file has the task's own name, the sample file one without its signs.
        if task is None and name not in known:
            name = next(
                (task_name for task_name in known if _in_file_names(task_name) == name), name
            )
        model = model_of(results, samples.parent)
        runs.append(
            LoggedRun(samples, task=task or name, date=file.date, model=model, results=results)
        )
    if without_results:
        warnings.append(
            f"no results_<date>.json beside {some(without_results, 3)}: the model is "
            "named after its directory, and its settings are unknown"
        )
    return runs, warnings


def _in_file_names(task: str) -> str:
    """Return a task's name as the harness writes it into names of files."""
    return re.sub(r"\W", "_", task)
