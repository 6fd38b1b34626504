"""Data from before a run: earlier answers, and full results of other models.

Earlier answers (``prior:``) do not change what a ranking asks. If one exists for exactly the same
prompt, the ranking scores it instead of a new one. So it does not matter how the earlier run chose
its documents: an answer counts only when this ranking selects or draws its document.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import ScoreTableError, UsageError
from ..harness import TaskSession
from ..methods.belief import POPULATION, RUN
from ..options import Values
from ..plugins import did_you_mean
from ..ranker.references import KnownMean, means_of_known
from ..records import Item
from ..scores import ScoreTable
from ..scores.answers import EarlierAnswer, earlier_answers
from ..scores.configuration import WRITING, differing_configurations, names_by_model
from ..scores.readers.logged_runs import LoggedRun, every_run
from ..shown import some
from ..upkeep.score_tables import scores_for
from .fields import ANY
from .outcomes import compare_with_known
from .scored import Discrepancy, has_sampled_answers
from .spec import Spec

#: Suffix that turns the name of an output folder into that of the run directory next to it.
RUN_SUFFIX = ".run"


def latest_prior_answers(
    prior: Mapping[str, Sequence[str]],
    models: Iterable[str],
    repeats: Mapping[str, int],
    warn: Callable[[str], None],
    configurations: Mapping[str, Mapping[str, Mapping[str, str]]] = MappingProxyType({}),
) -> dict[str, dict[Item, EarlierAnswer]]:
    """Return the earlier answers that a ranking may use, by model and item: the latest of each.

    Parameters
    ----------
    prior : mapping
        The option `prior` of `Spec`.
    models : iterable of str
        Models to be ranked.
    repeats : mapping of task to int
        Most answers of an item in this ranking, by task. Where it is above 1, each repeat in a log
        is an answer by itself; otherwise all repeats of a document in a log are one answer.
    warn : callable
        Called with a sentence on what was skipped: damaged files and lines, tasks without answers,
        answers of other configurations; and on answers that are used although their log calls the
        model otherwise.
    configurations : mapping of task to (mapping of model to mapping), optional
        The configuration with which this ranking asks each model; answers of another one are not
        used.

    Raises
    ------
    UsageError
        `prior` names a model that is not ranked, or logs hold answers of none of the models.
    ScoreTableError
        Logs cannot be read, or answer none of the tasks.
    """
    ranked = _RankedModels(list(models), configurations)
    unknown = sorted(set(prior) - {ANY, *ranked.names})
    if unknown:
        raise UsageError(f"`prior:` names {unknown[0]}, which is not ranked")
    latest: dict[str, dict[Item, EarlierAnswer]] = {name: {} for name in ranked.names}
    renamings: dict[str, None] = {}
    logs = [(model, path) for model, paths in prior.items() for path in paths]
    for model_by_user, path in logs:
        difference_of: dict[str, str] = {}  # of each model, why an answer of it is not used
        used_models = set()
        logged = _answers_by_task(path, list(repeats), warn)
        for model, task, answer in ranked.answers_in(logged, path, model_by_user):
            configuration = configurations.get(task, {}).get(model, {})
            if difference := _difference(answer.configuration, configuration):
                difference_of[model] = difference
                continue
            used_models.add(model)
            renamings |= dict.fromkeys(_renaming(model, answer.configuration, configuration))
            # Where items are asked once, the repeats of a log are one answer to its document.
            for part in answer.by_repeat() if repeats[task] > 1 else [answer]:
                # An item has a number from its second repeat on.
                repeat = (part.repeat,) if part.repeat > 1 else ()
                latest[model][Item((task, part.doc_id, *repeat))] = part
        # A log may hold several configurations of a model: only if none of them fits does the user
        # have to know why.
        for model in difference_of.keys() - used_models:
            warn(
                f"{path}: its answers of {model} are of another configuration "
                f"({difference_of[model]}); its documents are asked"
            )
    for text in renamings:
        warn(text)
    return latest


class _RankedAnswer(NamedTuple):
    """An earlier answer, and the ranked model that gave it."""

    model: str
    task: str
    answer: EarlierAnswer


class _RankedModels:
    """The models of a ranking; tells which of them gave an answer that a log holds."""

    def __init__(
        self, names: list[str], configurations: Mapping[str, Mapping[str, Mapping[str, str]]]
    ) -> None:
        self.names = names
        by_name = {name: known for task in configurations.values() for name, known in task.items()}
        # The ranked name, by the name in logs.
        self._name_of = names_by_model(by_name)

    def answers_in(
        self, logged: Mapping[str, Sequence[EarlierAnswer]], path: str, model_by_user: str
    ) -> Iterator[_RankedAnswer]:
        """Yield the answers of a log that ranked models gave.

        Parameters
        ----------
        logged : mapping of task to sequence of EarlierAnswer
        path : str
            The log.
        model_by_user : str
            The model that the user names for the log, or `ANY`.

        Raises
        ------
        UsageError
            The log holds answers of other models only.
        """
        only_model = self._only_model_of(
            [*chain.from_iterable(logged.values())], path, model_by_user
        )
        for task, answers in logged.items():
            for answer in answers:
                model = only_model or self._model_of(answer)
                # A log may hold models that are not ranked, or others than the one named.
                if model in self.names and model_by_user in (ANY, model):
                    yield _RankedAnswer(model, task, answer)

    def _only_model_of(
        self, answers: Sequence[EarlierAnswer], path: str, model_by_user: str
    ) -> str | None:
        """Return the model that all answers of a log count as, whatever the log calls it.

        None if the log's own names tell which of the ranked models gave which answer.
        """
        logged = sorted({answer.model for answer in answers})
        candidates = self.names if model_by_user == ANY else [model_by_user]
        # If there is one model in the log and one that it can be, no name has to be known.
        if len(logged) == len(candidates) == 1:
            return candidates[0]
        base_models = {answer.configuration.get("model") for answer in answers}
        known_as = {self._name_of.get(str(name), name) for name in {*logged, *base_models}}
        if known_as & {*candidates}:
            return None
        if model_by_user != ANY:
            hint = did_you_mean(model_by_user, logged)
            raise UsageError(f"{path} holds no answers of {model_by_user!r}{hint}")
        raise UsageError(
            f"{path} holds answers of {some(logged, 8)}, none of which is ranked; name their "
            "model: NAME=PATH"
        )

    def _model_of(self, answer: EarlierAnswer) -> str:
        """Return the ranked model that gave an answer, else the name that the log gives.

        A log's name of a model may state more settings than a run's configuration names.
        """
        if answer.model in self.names:
            return answer.model
        base_model = answer.configuration.get("model", answer.model)
        return self._name_of.get(base_model, base_model)


def _renaming(name: str, logged: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning if a log's configuration names another model than the one that is asked.

    Parameters
    ----------
    name : str
        The model's name in the ranking.
    logged, asked : mapping
        Its configurations in the log and in the ranking.
    """
    logged_model, asked_model = logged.get("model"), asked.get("model")
    if logged_model and asked_model and logged_model != asked_model:
        yield f"prior: {name}: the logs are of model={logged_model}, asked is model={asked_model}"


def _difference(earlier: Mapping[str, str], ranked: Mapping[str, str]) -> str:
    """Say in which setting two configurations differ; "" if in none, or if one is not known.

    A different name of the model is passed over, because weights may lie elsewhere now (`_renaming`
    warns of it). So is how prompts were written, because an answer counts only for the very same
    prompt.

    Examples
    --------
    >>> _difference({"model": "m", "revision": "step1"}, {"model": "./m"})
    'revision is step1 there, and not stated here'
    """
    if not (earlier and ranked):
        return ""
    for key, *values in differing_configurations(earlier, ranked):
        if key != "model" and key not in WRITING:
            return "{} is {} there, and {} here".format(
                key, *(value or "not stated" for value in values)
            )
    return ""


def _answers_by_task(
    path: str, tasks: Sequence[str], warn: Callable[[str], None]
) -> dict[str, list[EarlierAnswer]]:
    """Return the answers that logs hold, by task; warn of tasks to which they hold none.

    Raises
    ------
    ScoreTableError
        They hold none at all.
    """
    by_task: dict[str, list[EarlierAnswer]] = {}
    errors: dict[str, ScoreTableError] = {}
    for task in tasks:
        try:
            by_task[task] = list(earlier_answers(path, task, warn))
        except ScoreTableError as error:
            errors[task] = error
    if not by_task:
        raise next(iter(errors.values()))
    if errors:
        warn(f"{path} has no answers to {', '.join(errors)}; all its documents are asked")
    return by_task


def run_beside(output: Path) -> Path:
    """Return the run directory next to an output folder, which keeps what the folder lacks."""
    folder = output.resolve()
    return folder.with_name(folder.name + RUN_SUFFIX)


def logged_config(folder: Path, include_path: Sequence[str] = ()) -> Spec:
    """Return the models, tasks and settings of adaptive runs, with their answers as ``prior``.

    Parameters
    ----------
    folder : Path
        Folder of ``--output_path``, with samples.
    include_path : sequence of str, optional
        Folders of task configurations, which the logs do not name.

    Raises
    ------
    UsageError
        The folder holds no adaptive run, or its models were run with different settings.
    """
    latest: dict[str, dict[str, LoggedRun]] = {}
    for run in sorted(every_run(folder), key=lambda run: run.date):
        if run.adaptive:
            latest.setdefault(run.model, {})[run.task] = run
    if not latest:
        raise UsageError(
            f"{folder} is no run directory of `rank` and holds no results of `run --adaptive` "
            "with samples (--log_samples)"
        )
    settings = {
        json.dumps([sorted(runs), _harness(runs)], sort_keys=True) for runs in latest.values()
    }
    # A ranking asks all of its models the same way.
    if len(settings) > 1:
        raise UsageError(
            f"the models in {folder} were run on other tasks or with other settings; name the "
            f"folder of one: {', '.join(sorted(latest))}"
        )
    runs = next(iter(latest.values()))
    harness = _harness(runs)
    # Logs name their tasks, and not where these were found.
    if include_path:
        harness["include_path"] = list(include_path)
    return Spec.read(
        {
            "tasks": list(runs),
            "models": [_entry(name, next(iter(runs.values()))) for name, runs in latest.items()],
            "harness": harness,
            "prior": [str(folder)],
        }
    )


def _entry(name: str, run: LoggedRun) -> Values:
    """Return a model's entry for ``models:``, as a run's results file states it."""
    config = run.results.get("config") or {}
    entry = {key: config.get(key) for key in ("model", "model_args", "batch_size", "device")}
    return {"name": name, **{key: value for key, value in entry.items() if value is not None}}


def _harness(runs: Mapping[str, LoggedRun]) -> Values:
    """Return the harness's settings of a model's tasks as a ranking's ``harness:`` block."""
    run = next(iter(runs.values()))
    settings, config = run.settings, run.results.get("config") or {}
    shots = {run.settings.get("num_fewshot") for run in runs.values()}
    options = {
        "num_fewshot": shots.pop() if len(shots) == 1 else None,  # else the tasks' defaults
        "apply_chat_template": settings.get("chat_template") or None,
        "fewshot_as_multiturn": settings.get("fewshot_as_multiturn") or None,
        "system_instruction": settings.get("system_instruction"),
        "gen_kwargs": config.get("gen_kwargs") or None,
        "seed": settings.get("fewshot_seed"),
    }
    return {key: value for key, value in options.items() if value is not None}


def read_known(source: Any, bank: ItemBank, model: str | None = None) -> ScoreTable:
    """Read scores of the bank's task, metric and filter, on its scale, less those of one model.

    Parameters
    ----------
    source : path or ScoreTable
        Harness logs or a score table; a `ScoreTable` is used as it is.
    bank : ItemBank
    model : str, optional

    Raises
    ------
    ScoreTableError, ScaleError
        The results cannot be read, or are not on this metric.
    UsageError
        They hold no other model.
    """
    table = source if isinstance(source, ScoreTable) else scores_for(bank, source)
    if model not in table.models:
        return table
    # A model is not placed among its own results.
    if len(table.models) == 1:
        raise UsageError(f"the leaderboard holds only {model!r}")
    return table.without([model])


def known_means(
    spec: Spec,
    outcomes_by_task: Mapping[str, Mapping[str, Outcome]],
    ranked: Collection[str],
    weights: Mapping[str, float],
    model: str | None = None,
    *,
    sampled: bool = False,
    sessions: Mapping[str, TaskSession] = MappingProxyType({}),
    warn: Callable[[str], object] = lambda line: None,
    accept: Callable[[Discrepancy], object] = lambda discrepancy: None,
) -> dict[str, KnownMean] | None:
    """Return the means of models with full results on all tasks; None if there are none.

    Parameters
    ----------
    spec : Spec
        Options, whose ``known`` are harness logs (a folder may hold several tasks) or score tables,
        for all tasks or by task.
    outcomes_by_task : mapping of task to (mapping of name to Outcome)
    ranked : collection of str
        Models to be ranked.
    weights : mapping of task to float
        Weights of several tasks.
    model : str, optional
        Name in the logs of the model that is run; its own earlier results are left out.
    sampled : bool, optional
        Whether answers are sampled, so that full results have their noise.
    sessions : mapping of task to TaskSession, optional
        The tasks as the run asks them, with whose documents and prompts results are compared.
    warn, accept : callable, optional
        Called with what was passed over in the results or is not known of them, and with
        differences that the user accepts.

    Raises
    ------
    ScoreTableError, ScaleError
        The results cannot be read, or are not of this metric.
    UsageError
        Documents differ, or prompts or scoring, which is not accepted. The ranking has several
        metrics, the results hold no other model, or no model has results on all of several tasks.
    """
    if spec.known is None:
        return None
    by_task: list[dict[str, KnownMean]] = []
    for task, outcomes in outcomes_by_task.items():
        outcome = _only_outcome(outcomes)
        source = spec.known.get(task) if isinstance(spec.known, Mapping) else spec.known
        # A model without results on one of the tasks has no mean over all.
        if source is None:
            by_task.append({})
            continue
        table = read_known(source, outcome.bank, model)
        for line in table.warnings:
            warn(f"known: {line}")
        # Models to be ranked are asked; their logged results may not count a second time.
        others = [name for name in table.models if name not in ranked]
        scores = _ScoresOnBank(table, outcome.bank)
        if session := sessions.get(task):
            scores = scores.as_task_numbers_them(session)
            compared = compare_with_known(
                scores.table, others, outcome, session, spec.accept_change
            )
            for doubt in compared.doubts:
                warn(doubt)
            for difference in compared.accepted:
                accept(difference)
        by_task.append(scores.means(others, spec.question, sampled))
    overall = _means_over_tasks(by_task, [weights.get(task, 1.0) for task in outcomes_by_task])
    if not overall and len(by_task) > 1:
        raise UsageError("no model of `known:` has results on every task of the ranking")
    return overall or None


def _only_outcome(outcomes: Mapping[str, Outcome]) -> Outcome:
    """Return the outcome of a task if it is the only one; refuse several."""
    if len(outcomes) > 1:
        raise UsageError(
            "full results of other models (known, leaderboard) go with one metric; name it in "
            "metrics"
        )
    [outcome] = outcomes.values()
    return outcome


class _ScoresOnBank(NamedTuple):
    """Full results of known models, and the bank whose items they are scores on."""

    table: ScoreTable
    bank: ItemBank

    def as_task_numbers_them(self, session: TaskSession) -> _ScoresOnBank:
        """Return both with the doc_ids and the hashes that a task's documents have now."""
        table = self.table.numbered_as(session.doc_ids, session.doc_hashes)
        hash_of = dict(zip(session.doc_ids, session.doc_hashes))
        doc_hashes = tuple(map(hash_of.get, self.bank.doc_ids))
        return _ScoresOnBank(table, replace(self.bank, doc_hashes=doc_hashes))

    def means(self, models: Sequence[str], question: str, sampled: bool) -> dict[str, KnownMean]:
        """Return the means of models of the table, as far as it has scores of them.

        Their errors include the noise of sampling where answers are sampled.
        """
        population = question == POPULATION
        means = means_of_known(self.table, self.bank, population, sampled=sampled)
        # A sampled answer is one draw, whether or not those of the models to be ranked are. Where
        # the question is about these very answers, none of them has noise.
        drawn = {name for name in models if has_sampled_answers(self.table, name)}
        if drawn and not sampled and question != RUN:
            with_noise = means_of_known(self.table, self.bank, population, sampled=True)
            means |= {name: with_noise[name] for name in drawn & with_noise.keys()}
        return {name: means[name] for name in models if name in means}


def _means_over_tasks(
    by_task: Sequence[Mapping[str, KnownMean]], weights: Sequence[float]
) -> dict[str, KnownMean]:
    """Return the weighted means of the models that all tasks have.

    With weights ``share`` that sum to 1 and independent tasks, the error is
    ``sqrt(sum(share^2 error^2))``.
    """
    share = np.array(weights) / sum(weights)
    overall: dict[str, KnownMean] = {}
    for name in by_task[0]:
        if all(name in means for means in by_task):
            mean, error, kept_mean = np.array([means[name] for means in by_task]).T
            overall_error = float(np.sqrt((share**2 * error**2).sum()))
            overall[name] = KnownMean(float(share @ mean), overall_error, float(share @ kept_mean))
    return overall
