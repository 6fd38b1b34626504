"""The outcomes of a run's tasks: their banks, metrics, prompts and weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..bank import ItemBank
from ..bank.bank import PUBLISHED_ELSEWHERE
from ..bank.file import located
from ..bank.outcome import Outcome
from ..bank.settings import check_prompts
from ..bank.suite import SuiteBank, suites_in
from ..errors import BankMismatchError, PromptMismatchError, UsageError
from ..harness import TaskSession, internals
from ..harness.task_metrics import blank_outcome, leading, outcome_of
from ..methods.method import method_of
from ..plugins import did_you_mean
from ..ranker.references import in_words
from ..runs.differences import PROMPTS
from ..scores import ScoreTable
from ..scores.prompts import PromptComparison, compare_prompts
from ..scores.reading import Logged
from ..shown import first_of
from ..upkeep.update import without_models
from .fields import Weighting
from .models import OutcomesByTask
from .scored import Discrepancy, Scoring, runs_by_model

#: What `bank:` takes: a bank, its file, a folder of banks, or either of these by task or metric.
Bank = ItemBank | str | Path | Mapping[str, Any]
#: What errors call known results and the run, and what they advise if the two differ.
_KNOWN_AND_RUN = ("the source", "the run")
_REMEDY_OF_KNOWN = "Ask as it was asked, leave it out"


class Measurement(NamedTuple):
    """The outcomes to measure on a task, by name, and warnings about their banks."""

    outcomes: dict[str, Outcome]
    warnings: list[str]


class AskingDifferences(NamedTuple):
    """How a task is asked, beside its banks or known results.

    Attributes
    ----------
    accepted : list of Discrepancy
        Differences that the user accepts.
    doubts : list of str
        What else differs, and what is not known.
    """

    accepted: list[Discrepancy]
    doubts: list[str]


def measure(
    bank: Bank,
    metrics: Mapping[str, float],
    session: TaskSession,
    models: Collection[str],
    only_task: bool,
) -> Measurement:
    """Return what to measure on one task.

    Parameters
    ----------
    bank, only_task
        As `banks_of` takes them; "" means no bank: items are drawn at random.
    metrics : mapping of str to float
        Weights by metric (``"exact_match,strict-match"`` with its filter). Empty for the bank's
        metric, or else the task's first metric with a score per document.
    session : TaskSession
    models : collection of str
        Models to measure. Their scores are left out of a bank that was calibrated on them.

    Raises
    ------
    UsageError
        A bank is missing for one of the metrics, or for the task.
    CcatError
        A bank, the task and a metric do not fit together.
    """
    outcomes: dict[str, Outcome] = {}
    if not bank:
        for name, weight in (metrics or {"": 1.0}).items():
            metric, _, filter = name.partition(",")
            outcome = blank_outcome(session, metric or None, filter or None)
            outcomes[name or outcome.metric.name] = replace(outcome, weight=weight)
        return Measurement(outcomes, [])
    warnings: dict[str, None] = {}
    for name, outcome in outcomes_of_banks(bank, metrics, session.name, only_task).items():
        bank_of_others, warning = without_models(outcome.bank, models)
        outcomes[name] = replace(
            outcome_of(outcome.bank, session), bank=bank_of_others, weight=outcome.weight
        )
        warnings |= {warning: None} if warning else {}
    return Measurement(outcomes, list(warnings))


def outcomes_of_banks(
    bank: Bank, metrics: Mapping[str, float], task: str, only_task: bool
) -> dict[str, Outcome]:
    """Return the outcomes of one task by name, from its banks alone: the task is not loaded.

    `bank` may be a mapping by task, or by metric. `metrics` has weights by metric; without any,
    each bank makes an outcome. `only_task` says that a single bank is for this task, whatever task
    it names.

    Raises
    ------
    UsageError
        A bank is missing for one of the metrics, or for the task; or a key of `bank` names neither
        a task nor a metric.
    """
    banks = banks_of(bank, task, only_task)
    if not banks:
        raise UsageError(
            f"there is no bank of task {task}; give one with --bank {task}=FILE, "
            "name a folder that holds one, or remove the task"
        )
    names_of = {
        key: {metric_bank.metric, f"{metric_bank.metric},{metric_bank.filter or 'none'}"}
        for key, metric_bank in banks.items()
    }
    # Unless they are tasks, the keys name metrics: others would be left unread without a word.
    if isinstance(bank, Mapping) and task not in bank:
        for key, names in names_of.items():
            if key not in names | metrics.keys():
                suggestion = did_you_mean(key, [task, *sorted(names)])
                raise UsageError(f"`bank.{key}` is no task or metric of this run{suggestion}")
    outcomes = {}
    for name, weight in (metrics or dict.fromkeys(banks, 1.0)).items():
        keys = [key for key, names in names_of.items() if name in {key, *names}]
        if not keys:
            raise UsageError(
                f"there is no bank of metric {name} for task {task}, only of "
                f"{', '.join(banks)}; calibrate one for each metric, or rank without bank:"
            )
        outcomes[name] = Outcome.of(banks[keys[0]], task, name, weight=weight)
    return outcomes


def tasks_of_bank(bank: Bank, named: Collection[str] = ()) -> list[str]:
    """Return the tasks that a bank, or a folder of banks, has; or those of them that are named.

    A name is a task's, or that of a suite, which stands for all tasks of it. A name of neither
    stays as it is.

    Examples
    --------
    >>> len(tasks_of_bank("public")), tasks_of_bank("public", ["mmlu_pro_law"])
    (14, ['mmlu_pro_law'])
    """
    if not isinstance(bank, str | Path):
        return list(named)
    # A file is the bank of one task, unless others are named.
    if not (bank_path := located(bank)).is_dir():
        return list(named) or list(filter(None, [ItemBank.load(bank_path).task]))
    suites = {suite.name: SuiteBank.tasks(suite) for suite in suites_in(bank_path)}
    if not named:
        return SuiteBank.tasks(bank_path)
    return [task for name in named for task in suites.get(name, [name])]


def compare_with_banks(
    outcomes: dict[str, Outcome], session: TaskSession, accept_change: Collection[str]
) -> AskingDifferences:
    """Compare the prompts of a task's banks with those of its session.

    Banks whose prompts differ, which the user accepts, get a wide prior in `outcomes`.

    Raises
    ------
    BankMismatchError
        See `check_prompts`.
    """
    accepted: dict[Discrepancy, None] = {}
    doubts: dict[str, None] = {}
    accepts_prompts = PROMPTS in accept_change
    for name, outcome in outcomes.items():
        bank = outcome.bank
        marks = session.marks_like(bank.marks) if bank.prompts else {}
        difference, doubt = check_prompts(bank, marks, accepts_prompts)
        if accepts_prompts and (difference or doubt):
            outcomes[name] = replace(outcome, bank=method_of(bank).doubted(bank))
            text = f"accepted: {difference or doubt}; the bank's prior is wide"
            accepted[Discrepancy(text, PROMPTS)] = None
        # Of prompts published elsewhere `check_bank` warns.
        elif doubt and bank.provenance.get("prompts") != PUBLISHED_ELSEWHERE:
            doubts[doubt] = None
    return AskingDifferences(list(accepted), list(doubts))


def compare_with_known(
    table: ScoreTable,
    models: Collection[str],
    outcome: Outcome,
    session: TaskSession,
    accept_change: Collection[str],
) -> AskingDifferences:
    """Compare how some models of known results were asked and scored with how a run does it.

    Parameters
    ----------
    table : ScoreTable
        The known results.
    models : collection of str
        Models of the table.
    outcome, session
        What the run measures, and the task as it asks it.
    accept_change : collection of str
        Differences that the user accepts.

    Raises
    ------
    PromptMismatchError
        A prompt differs, and that is not accepted; the message names one document.
    OtherScoringError
        A target, the task's version or code, or what cuts answers off differs, and that is not
        accepted.
    """
    models_by_accepted: defaultdict[Discrepancy, list[str]] = defaultdict(list)
    models_by_doubt: defaultdict[str, list[str]] = defaultdict(list)
    if not any(table.doc_hashes or ()):
        doubt = "the source states no hashes of documents, so ids alone name them"
        models_by_doubt[doubt] = list(models)
    models_with_known_prompts: set[str] = set()
    for model in models:
        prompts = _prompts_of_known(table, model, session, accept_change)
        if prompts.difference:
            models_by_accepted[Discrepancy(prompts.difference, PROMPTS)].append(model)
        # Such as that the source states no prompts: then what they are made of is compared below.
        if prompts.doubt:
            models_by_doubt[prompts.doubt].append(model)
        else:
            models_with_known_prompts.add(model)
    for model, difference in _differences_of_scoring(table, models, outcome, session):
        # Without a word that accepts it, a difference is only told.
        if not difference.change:
            models_by_doubt[difference.warning_if_accepted(accept_change)].append(model)
        # Prompts that were compared word for word need no comparison of what they are made of.
        elif difference.change != PROMPTS or model not in models_with_known_prompts:
            named_difference = difference._replace(text=f"known model {model}: {difference.text}")
            named_difference.require_accepted(accept_change, _REMEDY_OF_KNOWN)
            models_by_accepted[difference].append(model)
    accepted = []
    # A leaderboard has hundreds of models that were all asked alike.
    for difference, names in models_by_accepted.items():
        whose = "known models" if len(names) > 1 else "known model"
        text = f"accepted: {whose} {first_of(names, 4)}: {difference.text}"
        accepted.append(difference._replace(text=text))
    return AskingDifferences(accepted, in_words(models_by_doubt, len(models)))


def _differences_of_scoring(
    table: ScoreTable, models: Collection[str], outcome: Outcome, session: TaskSession
) -> Iterator[tuple[str, Discrepancy]]:
    """Yield in what known models were asked or scored otherwise than in a run: model, difference.

    Logs tell most; without them, the table's settings are those of all its models.
    """
    logged = Logged(table.task or session.name, outcome.metric.name, outcome.filter)
    runs = runs_by_model(table, logged.task)
    # Without logs of the known models no targets of documents are there to be compared.
    doc_ids = [doc_id for doc_id in table.doc_ids if runs and doc_id in session.marks]
    scoring = Scoring.of_task(session, logged, doc_ids)
    # The journal of several tasks has the settings by task.
    settings = table.settings.get(session.name)
    scoring_of_table = Scoring.of_settings(
        settings if isinstance(settings, Mapping) else table.settings
    )
    for model in models:
        known = Scoring.of(runs[model], logged) if model in runs else scoring_of_table
        for difference in known.differences(scoring, _KNOWN_AND_RUN) if known else ():
            yield model, difference


def _prompts_of_known(
    table: ScoreTable, model: str, session: TaskSession, accept_change: Collection[str]
) -> PromptComparison:
    """Compare a known model's prompts with a run's; a difference in the result is accepted.

    Raises
    ------
    PromptMismatchError
        A prompt differs, and that is not accepted.
    """
    marks = table.prompt_marks(model) or dict.fromkeys(table.doc_ids)
    compared = compare_prompts(marks, session.marks_like(marks), _KNOWN_AND_RUN)
    if compared.difference and PROMPTS not in accept_change:
        raise PromptMismatchError(
            f"known model {model}: {compared.difference}",
            f"{_REMEDY_OF_KNOWN}, or accept other prompts: --accept_change prompts",
        )
    return compared


def banks_of(bank: Bank, task: str, only_task: bool = True) -> dict[str, ItemBank]:
    """Load the banks of one task, by metric; none if the banks are for other tasks.

    Parameters
    ----------
    bank : ItemBank, path, or mapping of task or metric to either
        As `Spec` has it.
    task : str
    only_task : bool
        Whether the bank is meant for this task alone; a single bank then counts as its bank,
        whatever task it names, and is checked against it later.

    Raises
    ------
    BankError
        A file is missing or damaged.
    BankMismatchError
        A folder holds no bank of the only task.
    """
    # The user named a bank for this very task.
    if isinstance(bank, Mapping) and task in bank:
        bank, only_task = bank[task], True
    if isinstance(bank, str | Path):
        if not bank:
            return {}
        if (bank_path := located(bank)).is_dir():
            tasks = SuiteBank.tasks(bank_path)
            if task not in tasks and only_task:
                raise BankMismatchError(
                    f"{bank} has no bank of task {task}; it has: {', '.join(tasks)}"
                )
            return dict(SuiteBank.load(bank_path, [task])[task]) if task in tasks else {}
        bank = ItemBank.load(bank_path)
    by_metric = {bank.metric: bank} if isinstance(bank, ItemBank) else bank
    if only_task:
        return {
            name: entry if isinstance(entry, ItemBank) else ItemBank.load(entry)
            for name, entry in by_metric.items()
        }
    # Of several tasks, a mapping without this one has files of others alone, which stay unread.
    banks = {name: entry for name, entry in by_metric.items() if isinstance(entry, ItemBank)}
    return {name: entry for name, entry in banks.items() if entry.task == task}


def task_weights(
    weighting: Weighting,
    sizes: Mapping[str, float],
    group_weights: Mapping[str, Mapping[str, float]],
) -> dict[str, float]:
    """Return the weight of each task.

    Parameters
    ----------
    weighting : "", "documents", "equal", or mapping of task or group to float
        "" takes the harness's weights if all tasks belong to a single group, else weighs by
        documents. A group divides its weight, or its equal share, by its own weights.
    sizes : mapping of task to float
        Numbers of documents.
    group_weights : mapping of group to (mapping of task to float)
        Each group's own weights of those tasks that belong to it.

    Raises
    ------
    UsageError
        A name is neither task nor group, or a task has no weight, or two.
    """
    # Groups that all tasks belong to.
    covering = [name for name, members in group_weights.items() if set(members) == set(sizes)]
    if not weighting:
        return dict(group_weights[covering[0]] if covering else sizes)
    if weighting == "documents":
        return dict(sizes)
    if weighting == "equal":
        # If a group has all tasks, these weigh the same, whatever subgroups they are in.
        names = list(sizes) if covering else _outermost(sizes, group_weights)
        weighting = dict.fromkeys(names, 1.0)
    assert not isinstance(weighting, str)
    return _shares(weighting, sizes, group_weights)


def _outermost(
    sizes: Collection[str], group_weights: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Return the groups that are no part of another, and the tasks of no group."""
    members = {name: set(group_tasks) for name, group_tasks in group_weights.items() if group_tasks}
    outer = [
        name
        for name, tasks in members.items()
        if not any(tasks < larger for larger in members.values())
    ]
    inside = set().union(*(members[name] for name in outer))
    return [*outer, *(task for task in sizes if task not in inside)]


def _shares(
    weighting: Mapping[str, float],
    sizes: Collection[str],
    group_weights: Mapping[str, Mapping[str, float]],
) -> dict[str, float]:
    """Return each task's share of the weights of tasks and groups, which must cover all once."""
    shares: dict[str, float] = {}
    for name, weight in weighting.items():
        if name not in sizes and name not in group_weights:
            hint = did_you_mean(name, [*sizes, *group_weights])
            raise UsageError(f"`weights.{name}`: no such task or group{hint}")
        parts = {name: 1.0} if name in sizes else group_weights[name]
        for task, part in parts.items():
            if task in shares:
                raise UsageError(f"`weights:` gives task {task} a weight twice")
            shares[task] = weight * part / sum(parts.values())
    if missing := [task for task in sizes if task not in shares]:
        raise UsageError(f"`weights:` gives task {missing[0]} no weight")
    return {task: shares[task] for task in sizes}


def weights_in(
    group: Any, metrics: Collection[str], sizes: Mapping[str, float]
) -> dict[str, float] | None:
    """Return a group's weights of its tasks; None if it aggregates none of these metrics.

    Parameters
    ----------
    group : Group
        Group of the harness.
    metrics : collection of str
    sizes : mapping of task to float
        Numbers of documents by task.
    """
    for config in group.aggregate_metric_list or ():
        if config.metric in metrics:
            return {task: size if config.weight_by_size else 1.0 for task, size in sizes.items()}
    return None


def own_weights(group: Any, outcomes_by_task: OutcomesByTask) -> dict[str, float]:
    """Return a group's own weights of its tasks: by documents, unless it weighs all alike."""
    names = dict.fromkeys(internals.task_name(task) for task in group.get_all_tasks())
    leaders = {name: leading(outcomes_by_task[name]) for name in names if name in outcomes_by_task}
    sizes = {name: float(outcome.bank.n_items) for name, outcome in leaders.items()}
    return weights_in(group, {outcome.metric.name for outcome in leaders.values()}, sizes) or sizes
