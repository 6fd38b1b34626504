"""Harness outputs of many models, runs and filters, as one score table.

The harness writes ``<output_path>/<model>/results_<date>.json`` and one
``samples_<task>_<date>.jsonl`` per task; with an ``output_path`` that ends in ``.json`` the results
file is ``<stem>_<date>.json``. Either may have been compressed afterwards. The second Open LLM
Leaderboard published sample files that end in ``.json`` (data sets
``open-llm-leaderboard/<organisation>__<model>-details``), some of them one JSON list.

Before 0.4.3 it wrote one ``results.json`` (or the file that ``output_path`` names) and beside it
``<model_args>_<task>.jsonl``, which holds one JSON list; a task there has neither a date of its own
nor hashes of its documents.

One model is one configuration: the harness names a model by its path alone, so runs that differ in
revision, dtype, quantization, peft or token limits, or on one task in chat template, system
instruction or examples as turns, get names that say what differs (``Qwen3-4B@step2000``,
``Qwen3-4B+4bit``). Of the same (model, config, document) the latest run
counts, and a warning says how many earlier ones there are. Generation settings tell the configs of
a model apart. Runs with other few-shot examples or another version of a task measure something
else: they are left out of a table, and so are runs that are not of every document (see
`LoggedRun.why_not_full`). Chat templates and system instructions belong to how a model is run and
may differ from model to model; a warning says so.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import MetricError, ScoreTableError
from ...metrics import Metric, Scale, find_metric
from ...metrics.registry import known_scale
from ...metrics.text_pairs import SENTENCE, parts_of, script_warning
from ...records import Header
from ...shown import plural, short, some
from ..grid import ScoreGrid
from ..prompts import DIGITS, hash_of
from ..reading import Logged, Progress, Query, files_at, json_value, one_of
from ..table import Reader, ScoreTable
from .samples import Asked, File, FileScores, holds_list, read_files, sound_rows

_DATE = r"\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_(?P<date>{_DATE})\.jsonl?(?:\.gz)?")
_RESULTS = re.compile(rf"(?!samples_).+_(?P<date>{_DATE})\.json(?:\.gz)?")
#: Key of a task's metadata in results files: the scorers of its metrics.
SCORER = "ccat_scorer"
# The arguments by which the harness names a model.
_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")
# The name that it makes up without them; one that has no digit is rare, and looks like a word.
_MADE_UP_NAME = re.compile(r"(?=.*\d)[a-z0-9]{8}")
#: Arguments of which another value is another configuration of a model: how its name says so, and
#: the value that stands for none.
_CONFIGURING = {
    "pretrained": ("+{}", ""),  # of one adapter on several models
    "revision": ("@{}", "main"), "subfolder": ("/{}", ""), "dtype": ("+{}", "auto"),
    "load_in_4bit": ("+4bit", "false"), "load_in_8bit": ("+8bit", "false"),
    "quantization": ("+{}", "none"), "gguf_file": ("+{}", ""), "autogptq": ("+gptq", "false"),
    "gptqmodel": ("+gptq", "false"), "peft": ("+{}", ""), "delta": ("+{}", ""),
    "lora_local_path": ("+{}", ""),
    **dict.fromkeys(
        (
            "max_length", "max_model_len", "context_length", "max_gen_toks", "max_tokens",
            "bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "kv_cache_dtype", "enable_thinking",
            "tokenizer", "add_bos_token",
        ),
        ("", ""),
    ),
}  # fmt: skip
#: The same of how its prompts were written.
WRITING = {
    "chat_template": ("", ""), "system_instruction": ("", ""),
    "fewshot_as_multiturn": ("+multiturn", "false"),
}  # fmt: skip
_NAMED = {**_CONFIGURING, **WRITING}
#: A chat template whose text is not known: that of a server, or of weights that are not open.
UNKNOWN_TEMPLATE = "yes"
#: Generation settings that say nothing, as the harness assumes them.
_USUAL_GENERATION = {"temperature": "0", "do_sample": "false"}
# Two values of these make two benchmarks.
_DEFINING = ("task_version", "num_fewshot")
# Two values of these are worth saying.
_NOTED = (
    "chat_template", "system_instruction", "fewshot_as_multiturn", "dataset_path",
    "dataset_revision", "scorer",
)  # fmt: skip
#: Settings in which two runs should be alike.
COMPARED = (*_DEFINING, *_NOTED)
# Objects that results files hold, if they have them; "*" stands for every task.
_OBJECTS = (
    ("config",), ("configs", "*", "metadata"), ("configs", "*", "dataset_kwargs"),
    ("results", "*"), ("versions",), ("n-shot",), ("n-samples", "*"), ("higher_is_better", "*"),
    ("group_subtasks",),
)  # fmt: skip
_ANY_NUMBER = Scale(-1e300, 1e300)
_ROUNDED = 1e-6  # within which a mean that was computed in another order is the same
_LOOKED_AT = 20  # rows, for what the targets look like


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
        """What makes its model's configuration, as `configuration_of` has it; {} if unknown."""
        if not self.results:
            return {}
        name = model_of(self.results, self.samples.parent)
        return configuration_of(name, _model_args(self.results), self.settings)

    @property
    def template(self) -> str | None:
        """The chat template that wrote the prompts, as `File` states it."""
        if self.results.get("chat_template") is None:
            return None
        return str(self.results.get("chat_template_sha") or "")

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

    def directions_of(self, metric: str) -> set[bool]:
        """Whether a higher score is better, by the task's configuration and by the results."""
        entries = (self.of_task("configs") or {}).get("metric_list") or []
        stating = [e for e in entries if isinstance(e, dict) and e.get("metric") == metric]
        values = [entry.get("higher_is_better") for entry in stating]
        values.append((self.of_task("higher_is_better") or {}).get(metric))
        return {value for value in values if isinstance(value, bool)}

    def filters_of(self, metric: str | None = None) -> list[str]:
        """Names of the filters of a metric, or of all, in the order in which they were applied."""
        names = list(
            dict.fromkeys(filter_ for base, filter_ in self.metric_keys if metric in (None, base))
        )
        listed = (self.of_task("configs") or {}).get("filter_list") or []
        order = [str(filter_.get("name")) for filter_ in listed if isinstance(filter_, dict)]
        return sorted(names, key=lambda n: order.index(n) if n in order else len(order))

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
        marked, values = self.results.get("adaptive"), self.of_task("results")
        if isinstance(marked, dict) and set(marked) & set(self.results.get("results") or ()):
            marked = marked.get(self.task)
        marked = marked or (isinstance(values, dict) and values.get("adaptive"))
        return bool(marked) and (self.counts is None or self.counts.in_part)

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
        part = " ({} of {} documents)".format(*self.counts) if self.counts else ""
        limited = (self.results.get("config") or {}).get("limit") is not None
        if self.adaptive:
            return f"an adaptive run{part}", False
        if not (self.counts.in_part if self.counts else limited):
            return "", True
        if limited:
            return f"run with --limit{part}", True
        return f"not a full run{part}", False


# -- files ----------------------------------------------------------------------------------------


def can_read(path: Path) -> bool:
    """Whether a path is a log of the harness, or a directory with one in it."""
    if path.is_file() and (_SAMPLES.fullmatch(path.name) or _RESULTS.fullmatch(path.name)):
        return True
    dated = files_at(path, "samples_*.json*") if path.is_dir() else ()
    return any(_SAMPLES.fullmatch(file.name) for file in dated) or any(_undated_files(path))


def sample_name(name: str) -> tuple[str, str] | None:
    """Return the task and the date in the name of a sample file; None if it is another file's.

    Examples
    --------
    >>> sample_name("samples_leaderboard_musr_object_placements_2024-09-15T01-02-03.456789.json")
    ('leaderboard_musr_object_placements', '2024-09-15T01-02-03.456789')
    """
    named = _SAMPLES.fullmatch(name)
    return (named["task"], named["date"]) if named else None


def results_files(folder: Path) -> list[Path]:
    """Return the results files of the harness in and below a folder, the latest last."""
    named = ((_RESULTS.fullmatch(file.name), file) for file in folder.rglob("*.json"))
    return [file for _, file in sorted((name["date"], file) for name, file in named if name)]


def _sample_files(path: Path) -> Iterator[SampleFile]:
    """Yield every sample file at or below a path, in order of path."""
    files = files_at(path, "samples_*.json*")
    if path.is_file() and (results := _RESULTS.fullmatch(path.name)):
        files = sorted(path.parent.glob(f"samples_*_{results['date']}.json*"))
    undated = list(_undated_files(path))
    for file in files:
        name = _SAMPLES.fullmatch(file.name)
        if name is not None:
            yield SampleFile(file, name["task"], name["date"])
        elif file == path and not undated:
            raise ScoreTableError(
                f"{path}: not a sample file of the harness (samples_<task>_<date>.jsonl)"
            )
    yield from undated


def _undated_files(path: Path) -> Iterator[SampleFile]:
    """Yield the sample files of runs of the harness before 0.4.3 at or below a path.

    Their names hold the arguments of the model and the task, which the results file tells apart.
    """
    lists = path.parent.glob("*.jsonl") if path.is_file() else files_at(path, "*.jsonl")
    samples = [file for file in lists if not _SAMPLES.fullmatch(file.name) and holds_list(file)]
    for folder in dict.fromkeys(file.parent for file in samples):
        runs: dict[Path, SampleFile] = {}
        for beside in sorted(folder.glob("*.json")):
            if _SAMPLES.fullmatch(beside.name) or _RESULTS.fullmatch(beside.name):
                continue
            results: dict[str, Any] = {}
            with suppress(ScoreTableError):
                results = _read_results(beside, beside.stat().st_mtime_ns)
            config, tasks = results.get("config"), results.get("configs")
            if not (isinstance(config, dict) and isinstance(tasks, dict)):
                continue
            started = results.get("date")
            # Seconds since 1970, written so that they compare as text; dates begin with a 2.
            date = f"{started:020.6f}" if isinstance(started, (int, float)) else ""
            stem = re.sub(r"[/=]", "__", str(config.get("model_args")))
            for task in tasks:
                file = folder / f"{stem}_{task}.jsonl"
                if file in samples and path in (file, beside, *file.parents):
                    run = SampleFile(file, task, date, beside)
                    runs[file] = max(run, runs.get(file, run), key=lambda known: known.date)
        yield from runs.values()


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
    for keys in _OBJECTS:
        if wrong := _no_object(value, keys):
            raise ScoreTableError(f"{path}: {wrong} is no JSON object, as the harness writes it")
    value.pop("samples", None)  # only in files written by scripts; can be very large
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
    """Groups of tasks that the newest results record, with their tasks and subgroups."""
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
    files = list(_sample_files(path))
    if not files:
        raise ScoreTableError(
            f"{path}: no samples_<task>_<date>.jsonl found; run the harness with --log_samples"
        )
    names = {task, _in_file_names(task or "")}
    if not names & {file.task for file in files}:
        names = {one_of(path, "task", task, (file.task for file in files))}
    runs, warnings = _runs_of([file for file in files if file.task in names], task)
    # A model has one name in all tasks, whichever of them its other configurations were run on.
    everything = runs if len(runs) == len(files) else _runs_of(files)[0]
    return _by_configuration(runs, everything), warnings


def every_run(path: Path) -> list[LoggedRun]:
    """Return the runs of every task at or below a path, by task; none where there is no log."""
    runs = _runs_of(_sample_files(path))[0]
    return sorted(_by_configuration(runs, runs), key=lambda run: run.task)


def _by_configuration(
    runs: Sequence[LoggedRun], everything: Sequence[LoggedRun]
) -> list[LoggedRun]:
    """Return runs whose models are named by what differs between configurations in `everything`."""
    known = [(run.model, run.results) for run in (*everything, *runs)]
    names = names_by_configuration(known)[len(everything) :]
    return [replace(run, model=name) for run, name in zip(runs, names)]


def names_by_configuration(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Name the model of each run, by what differs between the configurations of one model.

    Parameters
    ----------
    runs : sequence of (str, dict)
        The harness's name of the model, and the results file.

    Examples
    --------
    >>> arguments = ["", ",revision=step2000", ",load_in_4bit=True,dtype=auto"]
    >>> results = [{"config": {"model_args": f"pretrained=org/m{text}"}} for text in arguments]
    >>> names_by_configuration([("org/m", content) for content in results])
    ['org/m', 'org/m@step2000', 'org/m+4bit']
    """
    configurations = [_configuring(model, _model_args(results)) for model, results in runs]
    writings = [
        _writing(results, any((results.get("n-shot") or {}).values())) for _, results in runs
    ]
    values: dict[tuple[str, str], set[str]] = {}
    of_tasks: dict[tuple[str, str, str], set[str]] = {}
    for (model, results), configuration, writing in zip(runs, configurations, writings):
        for key in _CONFIGURING if results else ():
            values.setdefault((model, key), set()).add(configuration.get(key, ""))
        for key in WRITING:
            for task in results.get("configs") or ():
                of_tasks.setdefault((model, key, task), set()).add(writing.get(key, ""))
    # Tasks may each be asked in their own way; one that was asked in two tells configurations.
    for (model, key, _), texts in of_tasks.items():
        if len(texts) > 1:
            values.setdefault((model, key), set()).update(texts)
    return [
        model
        + "".join(
            _named_value(key, value, values[model, key])
            for key, value in {**configuration, **writing}.items()
            if len(values.get((model, key), ())) > 1
        )
        for (model, _), configuration, writing in zip(runs, configurations, writings)
    ]


def _named_value(key: str, value: str, values: Collection[str]) -> str:
    """Return how a name states an argument: as shortly as keeps all of its values apart.

    Examples
    --------
    >>> _named_value("revision", "a/step1", {"a/step1", "a/step2"})
    '@step1'
    >>> _named_value("revision", "a/step1", {"a/step1", "b/step1"})
    '@a/step1'
    """
    template = _NAMED.get(key, ("", ""))[0] or f"+{key}={{}}"
    named = {template.format(text.rpartition("/")[2]) for text in values if text}
    if len(named) == len(set(values) - {""}):
        return template.format(value.rpartition("/")[2])
    return template.format(value) if "{}" in template else f"{template}={value}"


def named_apart(name: str, differing: Mapping[str, Sequence[str]], taken: Collection[str]) -> str:
    """Name a configuration of a model by what differs from others of it that have names.

    Parameters
    ----------
    name : str
        The model's name.
    differing : mapping of str to sequence of str
        What differs: the value of this configuration, and those of the others.
    taken : collection of str
        Names of the others. Usual values are named only where the name is taken without them.

    Examples
    --------
    >>> named_apart("m", {"revision": ["step2000", ""]}, ["m"])
    'm@step2000'
    >>> named_apart("m", {"revision": ["", "step2000"], "peft": ["", "org/a"]}, ["m"])
    'm@main+peft=none'
    """
    short_name, full_name = name, name
    for key, values in differing.items():
        usual = {**_USUAL_GENERATION, **{k: usual for k, (_, usual) in _NAMED.items()}}.get(key)
        if values[0]:
            short_name += (part := _named_value(key, values[0], values))
        else:
            part = _named_value(key, usual, [usual, *values]) if usual else f"+{key}=none"
        full_name += part
    return full_name if short_name in taken else short_name


def _configuring(name: str, model_args: Any) -> dict[str, str]:
    """Return the arguments that make a model's configuration, without those that say nothing."""
    arguments = _arguments(model_args)
    return {
        key: arguments[key]
        for key, (_, usual) in _CONFIGURING.items()
        if arguments.get(key, "") != name
        and arguments.get(key, "").lower() not in ("", "none", usual)
    }


def configuration_of(name: str, model_args: Any, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what makes a model's configuration: its name, its arguments, how it is asked.

    Parameters
    ----------
    name : str
    model_args : str, mapping or None
    settings : mapping
        As `LoggedRun.settings` has them.

    Examples
    --------
    >>> settings = {"generation_kwargs": {"temperature": 0.0}, "system_instruction": "Be brief."}
    >>> configuration_of("m", "pretrained=m,revision=step2000,dtype=auto", settings)
    {'model': 'm', 'revision': 'step2000', 'system_instruction': '213c22ed'}
    """
    generation = {
        key: f"{value:g}" if type(value) in (int, float) else json.dumps(value).lower()
        for key, value in sorted((settings.get("generation_kwargs") or {}).items())
        if value is not None
    }
    usual = _USUAL_GENERATION.items()
    return {
        "model": name,
        **_configuring(name, model_args),
        **{key: text for key, text in generation.items() if (key, text) not in usual},
        **_writing(settings, settings.get("num_fewshot")),
    }


def _writing(settings: Mapping[str, Any], shots: Any) -> dict[str, str]:
    """Return how prompts were written, as settings or a results file have it."""
    template, instruction = settings.get("chat_template"), settings.get("system_instruction")
    writing = {}
    if template not in (None, False):
        writing["chat_template"] = settings.get("chat_template_sha") or UNKNOWN_TEMPLATE
    if instruction:
        writing["system_instruction"] = hash_of(str(instruction))
    if settings.get("fewshot_as_multiturn") and shots:
        writing["fewshot_as_multiturn"] = "true"
    return {key: str(text)[:DIGITS] for key, text in writing.items()}


def configurations_in(header: Header, task: str) -> dict[str, dict[str, str]]:
    """Return what makes the configuration of each model of a run's journal on a task."""
    settings = header.task.get("settings") or {}
    logged: dict[str, dict[str, str]] = header.config.get("configurations", {}).get(task, {})
    return logged | {
        str(entry.get("name")): configuration_of(
            model_name_of(str(entry.get("model")), entry.get("model_args")),
            entry.get("model_args"),
            settings.get(task) or settings,
        )
        for entry in header.config.get("models") or ()
    }


def differing_configurations(
    known: Mapping[str, str], peer: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Return the settings that make two configurations differ, each with both values.

    Examples
    --------
    >>> written = {"model": "m", "chat_template": UNKNOWN_TEMPLATE}
    >>> differing_configurations(written, {"model": "m", "chat_template": "70b499c5"})
    []
    >>> differing_configurations(written, {"model": "m"})
    [('chat_template', 'yes', '')]
    """
    pairs = {key: (known.get(key, ""), peer.get(key, "")) for key in {**known, **peer}}
    return [
        (key, *values)
        for key, values in pairs.items()
        if values[0] != values[1]
        and not (key == "chat_template" and all(values) and UNKNOWN_TEMPLATE in values)
    ]


def _configurations_of(runs: Sequence[LoggedRun]) -> dict[str, dict[str, str]]:
    """Return the configuration of each model whose results files say it.

    Of generation settings that differ between a model's runs it names every value.
    """
    by_model: dict[str, list[dict[str, str]]] = {}
    for run in runs:
        if run.results:
            by_model.setdefault(run.model, []).append(run.configuration)
    return {
        model: {
            key: ",".join(dict.fromkeys(known.get(key) or "usual" for known in configurations))
            for key in {key: None for known in configurations for key in known}
        }
        for model, configurations in by_model.items()
    }


def _model_args(results: Mapping[str, Any]) -> Any:
    config = results.get("config")
    return config.get("model_args") if isinstance(config, dict) else None


def _arguments(arguments: Any) -> dict[str, str]:
    """Return the arguments of a model, which results files hold as a text or an object."""
    if isinstance(arguments, Mapping):
        return {str(key): str(value) for key, value in arguments.items()}
    parts = arguments.split(",") if isinstance(arguments, str) else ()
    return dict(part.partition("=")[::2] for part in parts)


def _runs_of(
    files: Iterable[SampleFile], task: str | None = None
) -> tuple[list[LoggedRun], list[str]]:
    """Return the runs that wrote these sample files, of `task` if it is known, and warnings."""
    runs, warnings = [], []
    alone: list[Path] = []
    for samples, name, date, named in files:
        results: dict[str, Any] = {}
        try:
            if beside := named or _results_beside(samples, date):
                results = _read_results(beside, beside.stat().st_mtime_ns)
            else:
                alone.append(samples)
        except ScoreTableError as error:
            warnings.append(f"{error}; the model is named after its directory")
        known = results.get("configs") or ()
        if task is None and name not in known:
            name = next(
                (task_name for task_name in known if _in_file_names(task_name) == name), name
            )
        model = model_of(results, samples.parent)
        runs.append(LoggedRun(samples, task or name, date, model, results))
    if alone:
        warnings.append(
            f"no results_<date>.json beside {some(alone, 3)}: the model is "
            "named after its directory, and its settings are unknown"
        )
    return runs, warnings


def _in_file_names(task: str) -> str:
    return re.sub(r"\W", "_", task)


def model_name_of(model: str, arguments: Any) -> str:
    """Return the name of a model by its arguments as the harness does, else by type and arguments.

    Examples
    --------
    >>> model_name_of("hf", "dtype=auto,pretrained=gpt2")
    'gpt2'
    >>> model_name_of("echo", {"system": 3})
    'echo:system=3'
    """
    if isinstance(arguments, Mapping):
        arguments = ",".join(f"{key}={value}" for key, value in arguments.items())
    text, values = arguments if isinstance(arguments, str) else "", _arguments(arguments)
    named = next((values[key] for key in _NAMING if values.get(key)), None)
    return named or (f"{model}:{text}" if text else model)


def model_of(results: Mapping[str, Any], folder: Path) -> str:
    """Return the name of a run's model, from its results file and the folder that holds it.

    Where the model's arguments name nothing (a registered system without weights), the harness
    makes up a new random name for every run; there the model type and its arguments name it, so
    that two runs of one system are one model.
    """
    name, source = results.get("model_name"), results.get("model_source")
    config, arguments = results.get("config"), _model_args(results)
    made_up = bool(_MADE_UP_NAME.fullmatch(str(name))) and str(name) not in str(arguments)
    if made_up and source and source != "CUSTOM":
        return model_name_of(str(source), arguments)
    if not name and isinstance(config, dict) and arguments:  # before 0.4.3 results named no model
        return model_name_of(str(config.get("model")), arguments)
    # The harness files a model object that has no name under "None".
    return str(name) if name else (folder.parent if folder.name == "None" else folder).name


# -- which runs are of one benchmark --------------------------------------------------------------


def full_runs(
    runs: Sequence[LoggedRun], partial: bool = False
) -> tuple[list[LoggedRun], list[str]]:
    """Leave out the runs that may not stand for full results, but for adaptive ones if wanted."""
    full, warnings = [], []
    for run in runs:
        reason, usable = run.why_not_full()
        usable = usable or (partial and run.adaptive)
        if usable:
            full.append(run)
        if reason:
            what = "documents it did not run count as missing" if usable else "left out"
            warnings.append(f"{run.samples}: {reason}; {what}")
    if not full:
        raise ScoreTableError(f"no full results among the logs: {warnings[0]}")
    return full, warnings


def _comparable_runs(runs: Sequence[LoggedRun]) -> tuple[list[LoggedRun], list[str]]:
    """Leave out the runs with another task version or number of examples than most models.

    Beside them, a warning for every setting in which the runs differ, naming runs.
    """
    comparable, warnings = list(runs), []
    for key in COMPARED:
        values = [(run, json.dumps(run.settings[key])) for run in comparable if run.results]
        if key in _DEFINING:
            values = [(run, value) for run, value in values if value != "null"]
        models: dict[str, set[str]] = {}
        for run, value in values:
            models.setdefault(value, set()).add(run.model)
        if len(models) < 2:
            continue
        sizes = Counter({text: len(names) for text, names in models.items()}).most_common(4)
        counts = ", ".join(f"{short(task)} ({plural(n, 'model')})" for task, n in sizes)
        differs = f"{key} differs between logs: {counts}"
        if key in _NOTED:
            warnings.append(f"{differs}; all are used")
            continue
        # Of values that equally many models have, the one of the latest run.
        latest = {value: run.date for run, value in sorted(values, key=lambda rv: rv[0].date)}
        common = max(models, key=lambda text: (len(models[text]), latest[text]))
        out = [run.samples for run, value in values if value != common]
        comparable = [run for run in comparable if run.samples not in out]
        warnings.append(
            f"{differs}; runs with another {key} than {common} are left out: {some(out, 4)}"
        )
    return comparable, warnings


def labels_of(runs: Sequence[LoggedRun]) -> list[tuple[str, str]]:
    """Model and config of each run: the generation settings that differ within any one model.

    A config is such as ``"temperature=0.7"``, and empty where every model was run in one way.
    """
    by_model: dict[str, list[dict[str, object]]] = {}
    for run in runs:
        if run.results:
            by_model.setdefault(run.model, []).append(run.generation)
    varied = {
        key
        for settings in by_model.values()
        for key in {key for generation in settings for key in generation}
        if not _alike(generation.get(key) for generation in settings)
    }
    return [
        (run.model, ",".join(f"{key}={json.dumps(value, sort_keys=True)}"
                             for key, value in sorted(run.generation.items()) if key in varied))
        for run in runs
    ]  # fmt: skip


def shared_settings(runs: Sequence[LoggedRun]) -> dict[str, object]:
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
            names = dict.fromkeys(name for settings in generation for name in settings)
            alike = [
                name for name in names if _alike(settings.get(name) for settings in generation)
            ]
            shared[key] = {name: generation[0].get(name) for name in alike}
            differing += [f"generation_kwargs.{name}" for name in names if name not in alike]
        elif _alike(settings[key] for settings in known):
            shared[key] = known[0][key]
        else:
            differing.append(key)
    return shared | ({"differing": differing} if differing else {})


def _alike(values: Iterable[object]) -> bool:
    return len({json.dumps(value, sort_keys=True) for value in values}) == 1


# -- scores ---------------------------------------------------------------------------------------


def outcomes(path: Path) -> list[Logged]:
    """Every (task, metric, filter) of the newest results, by task; what the rows have beside."""
    logged = (Logged(run.task, *key) for run in every_run(path) for key in run.metric_keys)
    return list(dict.fromkeys(logged))


def read(path: Path, query: Query, on_progress: Progress = None) -> ScoreTable:
    """Read harness logs; see `Reader`.

    Parameters
    ----------
    path : Path
        A directory searched in depth for ``samples_<task>_<date>.jsonl`` (or ``.jsonl.gz``) with
        ``results_<date>.json`` beside them; or one such file.
    query : Query
    on_progress : callable, optional
        Called with (bytes read, bytes in all).

    Returns
    -------
    ScoreTable
        ``settings`` holds what the runs share; ``warnings`` what was left out and why.

    Raises
    ------
    ScoreTableError
        No usable log, or a task, metric or filter that is not in them or must be named.
    MetricError
        The metric cannot become one score per document.
    ScaleError
        The metric's scale is not known, or a score lies outside it.
    """
    runs, warnings = find_runs(path, query.task)
    runs, left_out = full_runs(runs, query.partial)
    runs, differing = _comparable_runs(runs)
    task = runs[0].task
    name, filter = _choose_metric(path, runs, query.metric, query.filter)
    _require_one_direction(runs, name)
    config = next((run.of_task("configs") for run in runs if run.results), None)
    ends, lower = query.range, query.lower_is_better
    if query.scale is not None and query.scale.cap is None:
        ends, lower = query.scale.ends, not query.scale.higher_is_better
    directions = (direction for run in runs for direction in run.directions_of(parts_of(name)[0]))
    higher = next(directions, None)
    # Where only its values can tell a metric's scale, any number is taken.
    finding = partial(
        find_metric, name, task=task, config=config, otherwise=_ANY_NUMBER, higher_is_better=higher
    )
    metric = finding(range=ends, lower_is_better=lower)
    unknown, scale = metric.scale is _ANY_NUMBER, metric.scale
    if query.beside is not None and None not in (scale.cap, query.beside[1].cap):
        # Where the scores of an unbounded metric are cut is the reader's choice.
        scale = query.beside[1]
    labels = labels_of(runs)
    grid = ScoreGrid(labels)
    by_date = sorted(zip(runs, labels), key=lambda pair: pair[0].date)
    filters: dict[str, None] = {}
    troubles: list[str] = []
    unusable = ""
    files = [
        File(run.samples, run.filters_of(metric.source) or [filter or "none"], run.template)
        for run, _ in by_date
    ]
    rows_of_files = read_files(files, Asked(metric, task, filter), on_progress)
    for (run, label), rows in zip(by_date, rows_of_files):
        filters |= rows.filters
        troubles += rows.notes
        if rows.unusable:
            unusable = f"{run.samples}, {rows.unusable}"
        troubles += _other_mean(run, metric, rows)
        grid.lay([label], rows.doc_ids, rows.scores, rows.hashes, rows.marks)
    if unusable and not grid.placed:
        raise MetricError(unusable)
    warnings += [*left_out, *differing, *_earlier_runs(labels), *troubles]
    if filters:
        filter = one_of(path, "filter", None, filters)
    first_rows = islice(sound_rows(by_date[-1][0].samples), _LOOKED_AT)
    if noise := script_warning(name, [str(row.get("target") or "") for row in first_rows]):
        warnings.append(noise)
    with suppress(MetricError):
        if (of_task := finding().scale) is not _ANY_NUMBER:
            higher = of_task.higher_is_better
    scores = grid.finish(
        path,
        query,
        name,
        task=task,
        filter=filter,
        stated_scale=None if unknown else scale,
        lower_is_better=None if higher is None else not higher,
        warnings=warnings,
        say_missing=True,
        settings=shared_settings(runs),
        configurations=_configurations_of(runs),
        sources=tuple(str(_source(run.samples)) for run in runs),
    )
    by_answers = {label for run, label in zip(runs, labels) if run.adaptive}
    if not by_answers:
        return scores
    rows_of = zip(scores.row_model, scores.row_config)
    return replace(
        scores, chosen=tuple("adaptive" if label in by_answers else "all" for label in rows_of)
    )


def _other_mean(run: LoggedRun, metric: Metric, rows: FileScores) -> list[str]:
    """Return a warning if the mean of a run's scores is not what its results file states."""
    if metric.prefix or run.adaptive or rows.unusable or len(rows.filters) != 1:
        return []
    [filter] = rows.filters
    recorded = (run.of_task("results") or {}).get(f"{metric.source},{filter}")
    documents = dict(zip(rows.doc_ids, rows.scores))
    mean = math.fsum(documents.values()) / len(documents)
    whole_run = run.counts is None or run.counts[0] == len(documents)
    if not whole_run or isinstance(recorded, bool) or not isinstance(recorded, (int, float)):
        return []
    if math.isclose(recorded, mean, rel_tol=_ROUNDED, abs_tol=_ROUNDED):
        return []
    return [
        f"{run.samples}: the mean {metric.source} of its samples is {mean:.6g}, the results file "
        f"beside it states {recorded:.6g}"
    ]


def _require_one_direction(runs: Sequence[LoggedRun], name: str) -> None:
    """Refuse logs that state both directions of a metric.

    Where the metric table has the direction, only a log that contradicts itself is refused.
    """
    metric, known = parts_of(name)[0], known_scale(name, task=runs[0].task)
    sources: dict[bool, Path] = {}
    for run in runs:
        sources = {} if known is not None else sources
        sources |= {direction: run.samples for direction in run.directions_of(metric)}
        if len(sources) == 2:
            files = " and ".join(sorted({str(source) for source in sources.values()}))
            raise ScoreTableError(
                f"the results beside {files} state both that a higher {metric} is better and that "
                "a lower one is; correct or leave out what is wrong"
            )


def _earlier_runs(labels: Sequence[tuple[str, str]]) -> list[str]:
    """Say in one line how many runs are of a configuration that was run again later."""
    again = {label: n - 1 for label, n in Counter(labels).items() if n > 1}
    if not again:
        return []
    names = [f"{' '.join(filter(None, label))} ({n})" for label, n in again.items()]
    return [
        f"{plural(sum(again.values()), 'earlier run')} left out where a later run of the same "
        f"model and settings has the document: {some(names, 4)}"
    ]


def _source(samples: Path) -> Path:
    """Return where a sample file lies, if a link leads to it."""
    return samples.readlink() if samples.is_symlink() else samples


def _choose_metric(
    path: Path, runs: Sequence[LoggedRun], metric: str | None, filter: str | None
) -> tuple[str, str | None]:
    """Name metric and filter: the given ones, else the only ones; the filter may stay unknown."""
    keys = list(dict.fromkeys(key for run in runs for key in run.metric_keys))
    firsts = (next(sound_rows(run.samples), {}) for run in runs)
    reported = next((row["metrics"] for row in firsts if row.get("metrics")), None)
    reported = list(dict.fromkeys(reported or (metric for metric, _ in keys)))
    if metric is None and not reported:
        raise ScoreTableError(f"{path}: no readable rows in the logs of {runs[0].task}")
    name = metric or one_of(path, "metric", None, reported)
    if parts_of(name)[0] not in reported:
        name = name.removeprefix(SENTENCE)
    base, _ = parts_of(name)
    if reported and base not in reported:
        one_of(path, "metric", metric, reported)
    filters = dict.fromkeys(filter_ for metric, filter_ in keys if metric == base)
    return name, one_of(path, "filter", None, filters) if filter is None and filters else filter


READER = Reader(
    name="lm_eval",
    summary="logs of the harness (run with --log_samples)",
    can_read=can_read,
    read=read,
    outcomes=outcomes,
    groups=groups_of,
)
