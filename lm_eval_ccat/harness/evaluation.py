"""Evaluations of the harness whose documents are chosen one by one: results and their files.

If every document of a task was run, the harness's own aggregation computes its values; otherwise
they are estimates (see `lm_eval_ccat.harness.estimates`). `internals.resolve` looks a name of the
harness up; ``|`` stands between its spellings in different releases.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import HarnessError
from ..files import safe_name
from . import internals
from .estimates import TaskRun, correct_group, correct_task, describe
from .opening import refuse_unsafe
from .scorers import add_scorers
from .session import TaskSession

#: Results in the harness's format.
Results = dict[str, Any]
#: Parts of the harness's accumulator, and their keys in its results.
_KEYS_OF_PARTS = {
    "metrics": "results", "configs": "configs", "versions": "versions", "num_fewshot": "n-shot",
    "higher_is_better": "higher_is_better", "n_samples": "n-samples", "samples": "samples",
}  # fmt: skip
#: Bytes that any file system takes as the name of a folder.
_LONGEST_FOLDER = 255
#: Arguments of the harness's `evaluate` that a session takes.
_SESSION_OPTIONS = (
    "system_instruction apply_chat_template fewshot_as_multiturn cache_requests "
    "rewrite_requests_cache write_out"
).split()


class NotPushed(HarnessError):
    """The results files were written, but pushing them to the hub failed."""


def assemble(
    lm: Any,
    order: Iterable[str],
    groups: Mapping[str, Any],
    ordinary: Mapping[str, Any] | None,
    runs: Mapping[str, TaskRun],
    *,
    bootstrap_iters: int | None,
    log_samples: bool,
) -> Results:
    """Return the results of adaptive and ordinary tasks in the form of the harness's `evaluate`.

    Parameters
    ----------
    lm : LM
    order : iterable of str
        All tasks, in the harness's order.
    groups : mapping of str to Group
    ordinary : mapping or None
        The harness's results of the tasks that are not adaptive, without those of groups.
    runs : mapping of str to TaskRun
        The finished adaptive runs.
    bootstrap_iters, log_samples
        As in the harness's `evaluate`.

    Returns
    -------
    dict
        As from `evaluate`, with ``adaptive: {task: block}`` added.
    """
    accumulated = {name: _answers_of(run) for name, run in runs.items()}
    collect = internals.resolve("lm_eval.evaluator_utils:_collect_results|_agg_and_collect")
    accumulator = collect(accumulated, dict(groups), bootstrap_iters)
    # The harness's own code weighs groups, so it has to see the ordinary tasks, too.
    for part, key in _KEYS_OF_PARTS.items():
        merged = {**(ordinary or {}).get(key, {}), **getattr(accumulator, part)}
        setattr(accumulator, part, {name: merged[name] for name in order if name in merged})
    for name, run in runs.items():
        correct_task(accumulator, name, run)
    internals.resolve("lm_eval.evaluator_utils:aggregate_groups|_aggregate_groups")(accumulator)
    partial_runs = {name: run for name, run in runs.items() if not run.complete}
    # The harness has weighed each task by all of its documents. From here on, `sample_len` states
    # how many were run.
    for name, run in partial_runs.items():
        accumulator.metrics[name]["sample_len"] = len(run.administered)
    blocks = {name: describe(run) for name, run in runs.items()}
    for group in groups.values():
        block = correct_group(accumulator.metrics, group, partial_runs)
        if block is not None:
            blocks[group.name] = block
    samples = accumulator.samples if log_samples else None
    # As `evaluate` does where the user asks for hashes in place of images.
    takes_images = hasattr(lm, "MULTIMODAL")
    if samples and takes_images and internals.resolve("lm_eval.defaults:LMEVAL_HASHMM"):
        samples = internals.resolve("lm_eval.utils:hash_dict_images")(samples)
    return {**accumulator._to_eval_results(samples=samples), "adaptive": blocks}


def _answers_of(run: TaskRun) -> dict[str, object]:
    """Return what the harness accumulates for one task; without values if only a part was run.

    Values of a part would be taken for those of all documents. Rows and values are in the order of
    the documents, filter by filter. A metric that a document lacks is left out of its values.
    """
    session = run.session
    answers = [run.administered[doc_id] for doc_id in sorted(run.administered)]
    raw: dict[tuple[str, str], list[object]] = {}
    for pipeline in internals.pipelines(session.task):
        filter = pipeline.name
        reduced = {
            answer.doc_id: {
                metric: value
                for (metric, filter_name), value in answer.values.items()
                if filter_name == filter
            }
            for answer in answers
            if run.complete
        }
        # From 0.5 on the harness takes reduced values where its pipelines keep them.
        if hasattr(pipeline, "import_reduced"):
            pipeline.import_reduced(reduced)
        for metrics in reduced.values():
            for metric, value in metrics.items():
                raw.setdefault((metric, filter), []).append(value)
    samples = [answer.samples[filter_name] for filter_name in session.filters for answer in answers]
    return {"task": session.task, "logged_samples": samples, "raw_metrics": raw}


def save_model(
    folder: Path,
    name: str,
    runs: Mapping[str, TaskRun],
    groups: Mapping[str, Any],
    model: str,
    model_args: Mapping[str, Any],
    hub: Mapping[str, Any],
    bootstrap_iters: int | None = None,
) -> None:
    """Write ``<folder>/<name>/results_<date>.json`` and ``samples_<task>_<date>.jsonl``.

    Several tasks share one results file, with groups as the harness reports them.

    Parameters
    ----------
    folder : Path
        The run directory.
    name : str
        The model's name in the ranking.
    runs : mapping of str to TaskRun
        By task; at least one.
    groups : mapping of str to Group
        The harness's groups of these tasks.
    model, model_args
        Type and (masked) arguments for the ``config`` block.
    hub : mapping
        The harness's ``hf_hub_log_args``; without them nothing leaves the machine.
    bootstrap_iters : int, optional
        For the standard errors of a complete run, as in `evaluate`.
    """
    session = next(iter(runs.values())).session
    results = assemble(
        session.lm,
        list(runs),
        groups,
        None,
        runs,
        bootstrap_iters=bootstrap_iters,
        log_samples=True,
    )
    results["config"] = {"model": model, "model_args": dict(model_args), "limit": None}
    add_scorers(results)
    samples = results.pop("samples")
    save_results(str(folder), name, results, samples, session.options, hub)


def save_results(
    folder: str,
    name: str,
    results: Mapping[str, Any],
    samples: Mapping[str, Any],
    options: Mapping[str, Any],
    hub: Mapping[str, Any] | None = None,
) -> None:
    """Write a model's results and samples files into ``<folder>/<name>/`` as the harness does.

    The harness's tracker writes them into a hidden folder. Once all are whole, which the tracker
    does not check, they are moved into place.

    Parameters
    ----------
    folder, name : str
    results : mapping
        As `assemble` returns them.
    samples : mapping of task to rows
    options : mapping
        Settings of the harness that the results file states.
    hub : mapping, optional
        The harness's ``hf_hub_log_args``, with which the tracker pushes the files to the hub.

    Raises
    ------
    OSError
        If the files could not be written; none is left then.
    NotPushed
        If the files were written but could not be pushed.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".") as unfinished:
        tracker, hub_error = _tracker(unfinished, hub or {})
        config = tracker.general_config_tracker
        config.log_experiment_args(
            model_source=str(results.get("config", {}).get("model", "")),
            model_args={"model": name},
            system_instruction=options.get("system_instruction"),
            chat_template=None,
            fewshot_as_multiturn=bool(options.get("fewshot_as_multiturn")),
        )
        # The harness names a folder after the model, whatever names the file system takes.
        if len(config.model_name_sanitized.encode()) > _LONGEST_FOLDER:
            config.model_name_sanitized = safe_name(name)
        tracker.save_results_aggregated(results=results, samples=dict(samples))
        for task, rows in samples.items():
            tracker.save_results_samples(task_name=task, samples=rows)
        try:
            if tracker.push_results_to_hub or tracker.push_samples_to_hub:
                tracker.recreate_metadata_card()
        except Exception as error:
            hub_error = error
        files = list(Path(unfinished).glob("*/*"))
        # The tracker only logs what it cannot write.
        if not _are_whole(files, samples):
            raise OSError(f"{folder} does not take them whole; see whether the disk is full")
        for written in Path(unfinished).iterdir():
            target = Path(folder) / written.name
            # A folder of earlier files keeps them; else the new one is moved as a whole.
            if target.exists():
                for file in written.iterdir():
                    file.replace(target / file.name)
            else:
                written.replace(target)
    # Raised last, so that what was paid for is on disk.
    if hub_error is not None:
        raise NotPushed(" ".join(str(hub_error).split())[:300]) from hub_error


def _tracker(folder: str, hub: Mapping[str, Any]) -> tuple[Any, Exception | None]:
    """Return the harness's tracker that writes into a folder, and why it cannot push to the hub."""
    tracker_class = internals.resolve("lm_eval.loggers:EvaluationTracker")
    token = {"token": os.environ["HF_TOKEN"]} if os.environ.get("HF_TOKEN") else {}
    try:
        return tracker_class(**{**hub, "output_path": folder, **token}), None
    # No network, no token, or no such argument: the files are written all the same.
    except (OSError, ValueError, TypeError) as error:
        return tracker_class(output_path=folder), error


def _are_whole(files: Sequence[Path], samples: Mapping[str, Any]) -> bool:
    """Whether one results file ends as JSON does, and others have as many rows as `samples`."""
    texts = [(file.suffix, file.read_bytes()) for file in files]
    n_rows = sorted(text.count(b"\n") for suffix, text in texts if suffix == ".jsonl")
    ends = [text[-1:] for suffix, text in texts if suffix == ".json"]
    return ends == [b"}"] and n_rows == sorted(map(len, samples.values()))


# -- one call ------------------------------------------------------------------------------------


@dataclass
class Evaluation:
    """One call of the harness's `evaluate`: a model, its tasks, and the options of the call.

    Parameters
    ----------
    stock : callable
        The harness's own `evaluate`, without our hook.
    arguments : mapping
        Arguments of the call by name, defaults included.

    Attributes
    ----------
    lm : LM
    tasks : dict of str to Task
    groups : dict of str to Group
    sessions : dict of str to TaskSession
        Sessions of the tasks that were opened.
    """

    stock: Callable[..., Any]
    arguments: Mapping[str, Any]
    sessions: dict[str, TaskSession] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lm = self.arguments["lm"]
        task_dict = self.arguments["task_dict"]
        if "tasks" in task_dict:
            self.groups, self.tasks = dict(task_dict.get("groups") or {}), dict(task_dict["tasks"])
        else:  # its old form
            read = internals.resolve("lm_eval.evaluator_utils:_handle_back_comp")
            self.groups, self.tasks = map(dict, read(task_dict))

    def open(self, name: str, count_tokens: bool = False) -> TaskSession:
        """Bind a task to the model with this call's options; the harness then does not run it.

        Raises
        ------
        HarnessError
            If the task or the model cannot be used document by document.
        """
        task = self.tasks[name]
        refuse_unsafe(task, self.arguments["confirm_run_unsafe_code"])
        options = {key: self.arguments[key] for key in _SESSION_OPTIONS}
        self.sessions[name] = TaskSession(task, self.lm, options, count_tokens=count_tokens)
        return self.sessions[name]

    def results(self, runs: Mapping[str, TaskRun]) -> Results:
        """Let the harness run the tasks that were not opened; return all results.

        Parameters
        ----------
        runs : mapping of str to TaskRun
            Runs of all tasks that were opened.
        """
        ordinary_tasks = {
            name: task for name, task in self.tasks.items() if name not in self.sessions
        }
        ordinary = None
        # The harness cannot evaluate nothing.
        if ordinary_tasks:
            replacements = {"task_dict": {"tasks": ordinary_tasks, "groups": {}}}
            # `assemble` weighs the groups, over all tasks.
            ordinary = self.stock(**{**self.arguments, **replacements})
        return assemble(
            self.lm,
            self.tasks,
            self.groups,
            ordinary,
            runs,
            bootstrap_iters=self.arguments["bootstrap_iters"],
            log_samples=self.arguments["log_samples"],
        )


def install(evaluate: Callable[[Evaluation], Mapping[str, object] | None]) -> None:
    """Route the harness's evaluations through a function; a second call changes nothing.

    Parameters
    ----------
    evaluate : callable
        Returns an evaluation's results, or None if the harness is to run it as usual.
    """
    internals.require_supported_version()

    def evaluate_instead(stock: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        return evaluate(Evaluation(stock, arguments))

    internals.hook("around", evaluate_instead)
