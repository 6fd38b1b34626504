"""Rankings as files state them: ``result.json`` of a run, and results files of an adaptive `run`.

Nothing is inferred: scale, direction, question, confidence and pairs are those that the file
states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ..bank.bank import ItemBank
from ..content import RESULT, PairContent, RankingContent, pair_of, pairs_by_models
from ..errors import CcatError, RunError, ScoreTableError, UsageError
from ..harness.task_check import SUFFIX
from ..metrics.scale import Scale
from ..plugins import existing
from ..ranker.headline import WEIGHTED_MEAN
from ..runs.directory import RunDirectory, load_banks, read_object
from ..scores.configuration import configurations_in, model_of, names_by_model
from ..scores.readers.logged_runs import LoggedRun, find_runs, results_files
from ..scores.readers.samples import mark_of_row, sound_rows
from ..scores.reading import Logged, board_in_words
from .identity import SCORING_HASH
from .result import latest_content


@dataclass(frozen=True)
class StoredRanking:
    """A ranking by one outcome, or by a weighted mean of several, as a file states it.

    Attributes
    ----------
    source : str
        The file.
    content : dict
        Keys of ``result.json``, figures on the metric's own scale.
    steers : bool
        Whether the run ranked by it; the others were only reported.
    sources : dict of str to str
        Files of models that another file than `source` states.
    names_in_logs : dict of str to str
        By task, the name of its adaptive variant, under which files have it.
    """

    source: str
    content: RankingContent
    steers: bool = True
    sources: Mapping[str, str] = field(default_factory=dict)
    names_in_logs: Mapping[str, str] = field(default_factory=dict)

    @property
    def terms(self) -> list[str]:
        """The terms of a weighted mean; empty for a single outcome."""
        terms = self.content["terms"]
        if len(terms) == 1:
            return []
        return [f"{term['weight']:.4g} x {term['task']}/{term['metric']}" for term in terms]

    @cached_property
    def outcome(self) -> Logged:
        """Task, metric and filter; of a weighted mean its terms, and the metric they share."""
        first, *further = self.content["terms"]
        if not further:
            return Logged(first["task"], first["metric"], first["filter"])
        metrics = {term["metric"] for term in self.content["terms"]}
        filters = {term["filter"] for term in self.content["terms"]}
        shared = len(metrics) == len(filters) == 1
        return Logged(
            " + ".join(self.terms),
            metrics.pop() if len(metrics) == 1 else WEIGHTED_MEAN,
            filters.pop() if shared else None,
        )

    @cached_property
    def scale(self) -> Scale:
        """The scale of estimates and differences, with its direction."""
        return Scale.from_dict(self.content["scale"])

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return list(self.content["models"])

    @property
    def tasks(self) -> list[str]:
        """The tasks that it is about."""
        return list(dict.fromkeys(term["task"] for term in self.content["terms"]))

    def source_of(self, model: str) -> Path:
        """Return the file that states a model's results."""
        return Path(self.sources.get(model, self.source))

    def _runs(self, model: str, task: str) -> list[LoggedRun]:
        """Return the runs of a task whose samples lie beside the results file of a model.

        None lie beside the result of a run directory, whose journal has the answers.
        """
        file = self.source_of(model)
        with suppress(ScoreTableError):
            if file.name != RESULT:
                return find_runs(file, self.names_in_logs.get(task, task))[0]
        return []

    def logged_names(self) -> dict[str, str]:
        """Return by its name in logs what each model is called in the run; {} if unknown."""
        directory = _directory_of(Path(self.source))
        if directory is None:
            return {}
        return names_by_model(configurations_in(directory.present_identity(), self.tasks[0]))

    def prompt_marks(self, model: str, task: str) -> dict[Any, str | None]:
        """Return the mark of each prompt that a model was asked in a task; {} if unknown.

        A run directory keeps those of all documents, the samples beside a results file those of
        the documents that were asked.
        """
        # Documents of a task are numbered from 0; the header lists their marks in that order.
        if directory := _directory_of(self.source_of(model)):
            return dict(enumerate(directory.present_identity().task["prompts"].get(task, ())))
        return {
            row["doc_id"]: mark_of_row(row, run.template)
            for run in self._runs(model, task)
            for row in sound_rows(run.samples)
        }

    def documents_of(self, model: str, task: str) -> ItemBank | None:
        """Return the documents of a task that a model's file knows, as a bank; None if unknown.

        A run directory knows all of them, the samples beside a results file those that were asked.
        """
        if directory := _directory_of(self.source_of(model)):
            banks = load_banks(directory.path)
            task_banks = {"": banks} if isinstance(banks, ItemBank) else banks.get(task, {})
            # The banks of all outcomes of a task are of the same documents.
            return next(iter(task_banks.values()), None)
        hashes: dict[Any, str | None] = {}
        for run in self._runs(model, task):
            hashes |= {row["doc_id"]: row.get("doc_hash") for row in sound_rows(run.samples)}
        return ItemBank.blank(list(hashes), doc_hashes=list(hashes.values())) if hashes else None

    def settings_of(self, model: str, task: str) -> Mapping[str, Any]:
        """Return the settings with which a model's file says that a task was run; {} if unknown."""
        if directory := _directory_of(self.source_of(model)):
            settings = directory.present_identity().task.get("settings", {})
            return cast(Mapping[str, Any], settings.get(task, settings))
        runs = self._runs(model, task)
        return runs[-1].settings if runs else {}

    def scoring_code_of(self, model: str) -> dict[str, str]:
        """Return the hash of what scored a model's answers, by what it is of; {} if unknown."""
        directory = _directory_of(self.source_of(model))
        if directory is None:
            return {}
        task = directory.present_identity().task
        return {f"the scoring code of {task['name']}": task[SCORING_HASH]}

    def pair(self, a: str, b: str) -> PairContent | None:
        """Return the row of two models, `a` less `b`; None if the file has none."""
        return pair_of(pairs_by_models(self.content), a, b)


def _directory_of(file: Path) -> RunDirectory | None:
    """Return the run directory whose result a file is; None for any other, or without a journal."""
    directory = RunDirectory(file.parent)
    return directory if file.name == RESULT and directory.journal.exists() else None


def stored_rankings(path: str | Path, model: str | None = None) -> list[StoredRanking]:
    """Read the ranking of a run, and the rankings by each of its tasks and outcomes.

    The ranking itself comes first. Where a run directory has a journal, its ``result.json`` is made
    anew if it is missing or was not made from that journal.

    Parameters
    ----------
    path : path-like
        A run directory of a finished run, its ``result.json``, or a ``results_*.json`` with an
        ``adaptive`` block.
    model : str, optional
        Name of the model of a results file, if not the one that the file states.

    Raises
    ------
    UsageError
        There is no such path.
    RunError
        It does not state a ranking with its scale.
    """
    file = existing(path, "run directory or file of results")
    if file.is_dir():
        file = _results_file_in(file)
    # The journal is what is true; a result file beside it may be older, or edited.
    content = dict(latest_content(file.parent)) if _directory_of(file) else read_object(file)
    if not (file.is_file() or content.get("finished", True)):
        raise RunError(
            f"{file.parent}: no {RESULT}; the run has not ended: go on with its command and "
            "--resume"
        )
    return rankings_in(file, content, model)


def rankings_in(
    file: Path, content: Mapping[str, Any], model: str | None = None
) -> list[StoredRanking]:
    """Return the rankings that the content of a file states; see `stored_rankings`.

    Raises
    ------
    RunError
        It does not state a ranking with its scale.
    """
    try:
        if isinstance(content.get("adaptive"), dict):
            rankings = list(_rankings_of_results_file(file, content, model))
            if not rankings:
                raise RunError(f"{file}: no adaptive estimate")
        elif "models" in content and "pairwise" in content:
            rankings = list(_rankings_of_run(file, cast(RankingContent, content)))
        else:
            raise RunError(
                f"{file}: neither a result of `rank` nor a results file of an adaptive `run`"
            )
        # A file that lacks one of these is refused here, where its name is known.
        for ranking in rankings:
            _ = ranking.outcome, ranking.scale, ranking.content["confidence"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # Some errors of this package are of these types; they name the file already.
        if isinstance(error, CcatError):
            raise
        raise RunError(
            f"{file}: not a complete result ({error!r}): it states no scale or no metric of its "
            "estimates; make it anew with this version"
        ) from error
    return rankings


def _results_file_in(folder: Path) -> Path:
    """Return the one file of results in a folder; a run with a journal may lack it still.

    Raises
    ------
    UsageError
        The folder is a board.
    RunError
        It holds several files of results, or none.
    """
    if RunDirectory(folder).journal.exists() or (folder / RESULT).is_file():
        return folder / RESULT
    files = results_files(folder)
    if len(files) > 1:
        raise RunError(f"{folder}: {len(files)} results files; name one of them")
    if not files and (board := board_in_words(folder)):
        raise UsageError(board)
    if not files:
        raise RunError(f"{folder}: no {RESULT} and no journal; name the folder of a run")
    return files[0]


def stored_ranking(
    path: str | Path, task: str | None = None, metric: str | None = None
) -> StoredRanking:
    """Read the ranking by one metric of one task.

    Parameters
    ----------
    path : path-like
        As for `stored_rankings`.
    task, metric : str, optional
        Which one, if there are several.

    Raises
    ------
    RunError
        There is no such file, or it holds no ranking by this task and metric.
    UsageError
        There are several, and the arguments do not name one.
    """
    single = [ranking for ranking in stored_rankings(path) if not ranking.terms]
    fitting = [
        ranking
        for ranking in single
        if task in (None, ranking.outcome.task) and metric in (None, ranking.outcome.metric)
    ]
    if len(fitting) == 1:
        return fitting[0]
    present = ", ".join(
        f"{ranking.outcome.task}/{ranking.outcome.metric}" for ranking in fitting or single
    )
    if fitting:
        raise UsageError(f"{path}: holds {present}; name one with --task and --metric")
    asked = "/".join(part for part in (task, metric) if part)
    raise RunError(f"{path}: no estimate of {asked or 'a metric'}; there are {present or 'none'}")


def _rankings_of_run(file: Path, content: RankingContent) -> Iterator[StoredRanking]:
    """Yield a run's ranking and those of its parts that are about other outcomes.

    A part about the same outcomes as an earlier one is the same ranking again: the only outcome of
    a task, for example.
    """
    yielded: list[Any] = []
    for block in _blocks(content):
        outcomes = [(term["task"], term["metric"], term["filter"]) for term in block["terms"]]
        if outcomes not in yielded:
            yielded.append(outcomes)
            yield StoredRanking(str(file), block, steers=block is content)


def _blocks(content: RankingContent) -> Iterator[RankingContent]:
    """Yield a ranking, and the rankings by its tasks and outcomes, at any depth."""
    yield content
    for parts in (content.get("tasks", {}), content.get("outcomes", {})):
        for block in parts.values():
            yield from _blocks(block)


def _rankings_of_results_file(
    file: Path, content: Mapping[str, Any], name: str | None
) -> Iterator[StoredRanking]:
    """Yield a ranking of the one model of an adaptive `run` for each outcome that it estimates."""
    model = name or model_of(content, file.parent)
    for logged_task, block in content["adaptive"].items():
        # A task without an answer has no estimate, and one of a full run needs none.
        if not isinstance(block, dict) or "estimate" not in block:
            continue
        task, total = _task_of(logged_task, content), block.get("answers_total")
        # A task of one outcome states it in its own block.
        for outcome in block.get("outcomes") or [block]:
            ranking: RankingContent = {
                "order": [model],
                "models": {
                    model: {
                        "estimate": outcome["estimate"],
                        "standard_error": outcome["standard_error"],
                        "interval": outcome["interval"],
                        "n_items": int(block.get("answers") or block["items"]),
                    }
                },
                "pairwise": [],
                "terms": [{
                    "task": task, "metric": outcome["metric"], "filter": outcome["filter"],
                    "weight": 1.0,
                }],
                "scale": outcome["scale"],
                "question": outcome["question"],
                "sampled": outcome["sampled"],
                "confidence": float(block["confidence"]),
                "items_of_benchmark": int(block["items_total"]),
                **({"answers_of_benchmark": total} if total is not None else {}),
            }  # fmt: skip
            names = {task: logged_task}
            yield StoredRanking(str(file), ranking, sources={model: str(file)}, names_in_logs=names)


def _task_of(logged: str, content: Mapping[str, Any]) -> str:
    """Return the task of a results file; of an adaptive variant by ``check``, its own task."""
    metadata = (content.get("configs", {}).get(logged) or {}).get("metadata") or {}
    is_variant = Path(metadata.get("config_source") or "").name == f"{logged}.yaml"
    return logged.removesuffix(SUFFIX) if is_variant else logged
