"""`Plan`: all a ranking needs to start: outcomes, weights, charges, known results.

An *outcome* is one metric and filter of a task; the *leading* one of a task, that of the largest
weight, chooses the items. A *doubt* is a sentence on what could not be compared, or "".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..bank.file import located, public_banks
from ..bank.outcome import Outcome
from ..bank.suite import SuiteBank
from ..errors import CcatError, MetricError, UsageError
from ..grouping import grouped
from ..harness import TaskSession
from ..harness.task_metrics import leading, why_not_scored, writing_system_note
from ..methods.belief import RUN
from ..methods.method import method
from ..metrics.scale import Scale
from ..plugins import did_you_mean
from ..ranker import Ranker, StoppingRule
from ..ranker.contents import scale_of
from ..ranker.headline import WEIGHTED_MEAN
from ..ranker.references import KnownMean
from ..ranker.stopping import AllDecided
from ..ranker.turns import warmup_per_task
from ..records import Header, Item
from ..runs.directory import make_ranker
from ..scores import ScoreTable
from ..scores.reading import Query
from ..shown import first_of
from ..upkeep.borrow import borrow_from
from .charges import Charges, currency_of
from .earlier import known_means
from .fields import Donors
from .models import check_session, memory_of, taking_turns
from .outcomes import (
    Bank,
    banks_of,
    compare_with_banks,
    measure,
    outcomes_of_banks,
    own_weights,
    task_weights,
    tasks_of_bank,
)
from .scored import Discrepancy
from .spec import ModelSpec, Spec
from .tasks import is_sampled, open_plain, repeats_of

#: Share of the documents that each model answers, unless the user sets a limit, where models take
#: turns: then a result comes before half the time of full runs, loads and close models included
#: (benchmarks/turns.py). A smaller task is limited to `LEAST_OF_TURNS` documents.
SHARE_OF_TURNS, LEAST_OF_TURNS = 0.25, 100


@dataclass(frozen=True)
class Plan:
    """What a run will do: its options, tasks, banks and prices, read and checked before it begins.

    Attributes
    ----------
    spec : Spec
    outcomes_by_task : dict of task to (dict of name to Outcome)
        Outcomes of every answer to the task.
    sessions : dict of task to TaskSession
        Sessions for reading documents and prompts; they may lack a model. Empty for a forecast from
        banks alone.
    charges : Charges
        What answers cost.
    known : dict of model to KnownMean, or None
        Means of models with full results, among which the models are ranked.
    weights : dict of task to float
        Weights of several tasks in the score that ranks the models; empty for a single task.
    groups : dict of name to (dict of task to float)
        Groups of tasks whose scores are also reported, with their own weights.
    warnings : tuple of str
        Warnings about the banks.
    accepted : tuple of Discrepancy
        Differences from the banks and known results that the user accepts.
    harness_groups : dict of name to Group
        Groups of the tasks, as the harness defines them.
    rule : StoppingRule or None
        Stopping rule that replaces the one of ``stop:``.
    stored_draws : bool
        Whether a model answers from logs whose answers were sampled.
    """

    spec: Spec
    outcomes_by_task: dict[str, dict[str, Outcome]]
    sessions: dict[str, TaskSession]
    charges: Charges
    known: dict[str, KnownMean] | None = None
    weights: dict[str, float] = field(default_factory=dict)
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    accepted: tuple[Discrepancy, ...] = ()
    harness_groups: dict[str, Any] = field(default_factory=dict)
    rule: StoppingRule | None = None
    stored_draws: bool = False

    @property
    def sampled(self) -> bool:
        """Whether a second answer to a document may differ from the first; see `is_sampled`."""
        return self.stored_draws or is_sampled(self.spec, self.sessions.values())

    @cached_property
    def repeats(self) -> dict[str, int]:
        """Most answers of an item, by task; see `repeats_of`."""
        return {task: repeats_of(self.spec, session) for task, session in self.sessions.items()}

    @property
    def n_answers(self) -> int:
        """How many answers a full evaluation of one model takes: all items, times their repeats."""
        # Without documents nobody knows of repeats.
        return sum(
            self.repeats.get(task, 1) * outcome.bank.n_items
            for task, outcome in self.outcomes.items()
        )

    @property
    def noisy(self) -> bool:
        """Whether a score is not known exactly even after one answer to every document.

        So it is if answers are sampled, unless the question is about these very answers.
        """
        return self.sampled and self.spec.question != RUN

    @property
    def most_repeats(self) -> int:
        """Most answers of an item of any task."""
        return max(self.repeats.values(), default=1)

    @property
    def title(self) -> str:
        """The task's name, or "all tasks"."""
        return self.outcome.task if len(self.outcomes_by_task) == 1 else "all tasks"

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The leading outcome of each task: the one with the largest weight."""
        return {task: leading(outcomes) for task, outcomes in self.outcomes_by_task.items()}

    @property
    def outcome(self) -> Outcome:
        """The leading outcome of the first task. Often it is the only one; see `only_outcome`."""
        return next(iter(self.outcomes.values()))

    @property
    def all_outcomes(self) -> list[Outcome]:
        """All outcomes of all tasks."""
        return [
            outcome for outcomes in self.outcomes_by_task.values() for outcome in outcomes.values()
        ]

    @property
    def only_outcome(self) -> Outcome | None:
        """The only outcome, or None if there are several."""
        return self.all_outcomes[0] if len(self.all_outcomes) == 1 else None

    @property
    def banks(self) -> ItemBank | dict[str, dict[str, ItemBank]]:
        """The banks as the Ranker takes them: one bank, or banks by task and outcome."""
        if self.only_outcome:
            return self.only_outcome.bank
        return {
            task: {name: outcome.bank for name, outcome in outcomes.items()}
            for task, outcomes in self.outcomes_by_task.items()
        }

    @property
    def scale(self) -> Scale:
        """Scale of the ranking: the one that all weighted outcomes share, else [0, 1]."""
        return scale_of(self.weighted_outcomes)

    @property
    def label(self) -> str:
        """The metric of the ranking, in a few words."""
        labels = list(dict.fromkeys(outcome.metric.label for outcome in self.weighted_outcomes))
        return labels[0] if len(labels) == 1 else f"{WEIGHTED_MEAN} of {', '.join(labels)}"

    @property
    def key(self) -> str:
        """The key of the ranked score in results: of one outcome, or of a weighted mean."""
        keys = list(dict.fromkeys(outcome.results_key for outcome in self.weighted_outcomes))
        return keys[0] if len(keys) == 1 else f"{WEIGHTED_MEAN} of {' and '.join(keys)}"

    @property
    def weighted_outcomes(self) -> list[Outcome]:
        """The outcomes that count in the ranking."""
        return [outcome for outcome in self.all_outcomes if outcome.weight > 0.0]

    @cached_property
    def max_items(self) -> int | None:
        """The most items of each model: `max_items:`, or a default where models take turns.

        None if only the method limits them.
        """
        spec, n_items = self.spec, len(self.offered)
        # A goal or limit of the user's, and one of the method's, stand as they are; repeats begin
        # only once every item is answered.
        has_goal = spec.stop != AllDecided.word or self.rule is not None or self.most_repeats > 1
        has_limit = (
            spec.max_items is not None or bool(spec.budget) or self._policy("max_share", 1.0) < 1.0
        )
        if has_goal or has_limit:
            return spec.max_items
        if not taking_turns(spec, {entry.name: memory_of(entry) for entry in spec.models}):
            return None
        limit = max(math.ceil(SHARE_OF_TURNS * n_items), LEAST_OF_TURNS)
        return limit if limit < n_items else None

    @property
    def limited_by_default(self) -> bool:
        """Whether `max_items` limits the run although the user sets no limit."""
        return self.max_items != self.spec.max_items

    @property
    def warmup(self) -> int:
        """How many items of every task each model gets first; with several tasks fewer of each."""
        return warmup_per_task(len(self.outcomes_by_task), self.spec.warmup)

    @property
    def warmup_items(self) -> int:
        """How many items of all tasks each model gets first, within its limit of items."""
        items = sum(min(self.warmup, outcome.bank.n_items) for outcome in self.outcomes.values())
        limit = None if self.warmup_ignores_limits else self.max_items
        return items if limit is None else min(items, limit)

    @property
    def warmup_ignores_limits(self) -> bool:
        """Whether the method asks its first items whatever the limits are; see `Policy`."""
        return bool(self._policy("warmup_ignores_limits", False))

    def _policy(self, attribute: str, default: Any) -> Any:
        """Return an attribute of the method's `Policy`, or a default where it does not have it."""
        # A method of another package may have a function in place of the class.
        return getattr(method(self.outcome.bank.method).policy, attribute, default)

    @property
    def seconds(self) -> float | None:
        """The budget in seconds, or None."""
        return self.spec.budget.get("seconds")

    def ranker_arguments(self) -> dict[str, Any]:
        """Return the Ranker's arguments, as JSON values for the journal's header."""
        spec, has_several_outcomes, units = self.spec, self.only_outcome is None, None
        if self.charges.units is not None:
            # Lists in bank order, as items are no keys of JSON.
            by_task = {
                task: [self.charges.units[Item((task, doc_id))] for doc_id in outcome.bank.doc_ids]
                for task, outcome in self.outcomes.items()
            }
            units = by_task if has_several_outcomes else by_task[self.outcome.task]
        return {
            "models": self.charges.prices,
            "units": units,
            "warmup": self.warmup,
            "budget": self.charges.budget,
            "stop": spec.stop,
            "known": self.known,
            "options": dict(spec.options),
            **spec.for_the_ranker(),
            "max_items": self.max_items,
            # These are left out where they say what the Ranker takes without them.
            **({"sampled": True} if self.sampled else {}),
            **({"repeats": self.repeats} if self.most_repeats > 1 else {}),
            **({"weights": self.outcome_weights()} if has_several_outcomes else {}),
            **({"groups": self.groups} if self.groups else {}),
        }

    def outcome_weights(self) -> dict[str, dict[str, float]]:
        """Return the weight of each outcome in the ranked score, by task.

        The outcomes of a task share the task's weight in proportion to their own weights. Without
        weights of tasks, a task counts by its number of items.
        """
        weight_of_task = self.weights or _sizes(self.outcomes_by_task)
        weights = {}
        for task, outcomes in self.outcomes_by_task.items():
            total = sum(outcome.weight for outcome in outcomes.values())
            share = weight_of_task[task] / total
            weights[task] = {name: share * outcome.weight for name, outcome in outcomes.items()}
        return weights

    def items(self) -> list[Item]:
        """Return all items, in bank order."""
        return [
            Item((task, doc_id))
            for task, outcome in self.outcomes.items()
            for doc_id in outcome.bank.doc_ids
        ]

    def documents(self) -> list[Item]:
        """Return all documents of the tasks, including those that no bank has."""
        return [
            Item((task, doc_id))
            for task, session in self.sessions.items()
            for doc_id in session.doc_ids
        ]

    @property
    def offered(self) -> list[Item]:
        """Items that the Ranker may ask, in bank order.

        Calibration may remove an item from a bank. An item is offered if the bank of at least one
        outcome that counts in the ranking keeps it.
        """
        kept_by_task = [
            np.logical_or.reduce(
                [outcome.bank.kept for outcome in outcomes.values() if outcome.weight > 0.0]
            )
            for outcomes in self.outcomes_by_task.values()
        ]
        return [item for item, kept in zip(self.items(), np.concatenate(kept_by_task)) if kept]

    def new_ranker(self, header: Header | None = None) -> Ranker:
        """Return a Ranker that was told nothing yet; with a `header`, that of the run to resume."""
        if header is None:
            header = Header(task={"name": self.outcome.task}, ranker=self.ranker_arguments())
        rule = {} if self.rule is None else {"stop": self.rule}
        return make_ranker(self.banks, replace(header, ranker={**header.ranker, **rule}))


def make_plan(spec: Spec) -> Plan:
    """Load and check all that a ranking needs but its models, and return it as a plan.

    What can be refused by the options alone is refused before the tasks are loaded, as that may
    take minutes.

    Raises
    ------
    UsageError
        Options conflict, such as a budget in dollars with a model whose price is unknown.
    CcatError
        The bank, the task and the metric do not fit together.
    """
    currency_of(spec)  # refuses a budget in dollars without prices
    bank: Bank = spec.bank
    # A missing file is refused here. A folder is read task by task, once it is known which tasks
    # there are.
    if isinstance(bank, str | Path) and bank and not located(bank).is_dir():
        bank = ItemBank.load(bank)
    sessions, groups = open_plain(spec)
    # Scores of other tasks on the same documents make the bank.
    if isinstance(bank, Donors):
        bank = _borrowed(bank, spec, list(sessions))
    _require_sense_for_tasks(spec, list(sessions))
    measured = _MeasuredTasks(doubts=dict.fromkeys(_listed_twice(spec.models)))
    for task, session in sessions.items():
        measured.add(spec, bank, task, session, only_task=len(sessions) == 1)
    outcomes_by_task = measured.outcomes_by_task
    weights, reported_groups = _weights(spec, outcomes_by_task, groups)
    known = known_means(
        spec, outcomes_by_task, [model.name for model in spec.models], weights,
        sampled=is_sampled(spec, sessions.values()), sessions=sessions,
        warn=measured.doubts.setdefault, accept=measured.accepted.append,
    )  # fmt: skip
    return plan_of(
        spec, outcomes_by_task, sessions, known=known, weights=weights, groups=reported_groups,
        accepted=tuple(measured.accepted), warnings=tuple(measured.warnings()),
        harness_groups=groups,
    )  # fmt: skip


@dataclass
class _MeasuredTasks:
    """By what the tasks of a ranking are measured, and what its user has to know of them.

    Attributes
    ----------
    doubts : dict of str to None
        Told once each, although several tasks may give rise to them.
    outcomes_by_task : dict of task to (dict of name to Outcome)
    tasks_by_warning : dict of str to list of str
        Warnings of banks, each with the tasks whose banks it is about.
    accepted : list of Discrepancy
        Differences from the banks that the user accepts.
    """

    doubts: dict[str, None]
    outcomes_by_task: dict[str, dict[str, Outcome]] = field(default_factory=dict)
    tasks_by_warning: dict[str, list[str]] = field(default_factory=dict)
    accepted: list[Discrepancy] = field(default_factory=list)

    def add(
        self, spec: Spec, bank: Bank, task: str, session: TaskSession, *, only_task: bool
    ) -> None:
        """Add a task's outcomes; refuse a task that cannot be scored, or that no bank fits."""
        # Else answers would be paid before the first of them cannot be scored.
        if reason := why_not_scored(session.task):
            raise MetricError(reason)
        names = [model.name for model in spec.models]
        outcomes, warnings = measure(bank, spec.metrics, session, names, only_task)
        self.outcomes_by_task[task] = outcomes
        # Each model is checked again, with its own chat template, once it is open. A bank that
        # cannot fit is refused here, before any weights are loaded.
        if bank:
            check_session(outcomes, session, spec.accept_change)
        differences = compare_with_banks(outcomes, session, spec.accept_change)
        self.accepted += differences.accepted
        for warning in warnings:
            # One per task of a group would hide all other warnings.
            warning = warning.replace(f"the bank of {task} was", "the bank was")
            self.tasks_by_warning.setdefault(warning, []).append(task)
        metrics = [outcome.metric.name for outcome in outcomes.values()]
        script_notes = [writing_system_note(session.task, metric) for metric in metrics]
        self.doubts |= dict.fromkeys((*differences.doubts, _note_of_copies(session), *script_notes))

    def warnings(self) -> Iterator[str]:
        """Yield what the user is told before the first answer."""
        for text, tasks in self.tasks_by_warning.items():
            yield f"{first_of(tasks, 3)}: {text}"
        yield from filter(None, self.doubts)
        yield from (difference.text for difference in self.accepted)


def _require_sense_for_tasks(spec: Spec, tasks: Sequence[str]) -> None:
    """Refuse weights of a single task, and known results of none of the tasks.

    Raises
    ------
    UsageError
    """
    # Weights of a single task would do nothing.
    if spec.weights and len(tasks) == 1:
        raise UsageError("`weights:` is for several tasks; put weights of metrics into `metrics:`")
    # Else the models with full results would just be missing.
    for task in spec.known if isinstance(spec.known, Mapping) else ():
        if task not in tasks:
            raise UsageError(f"`known.{task}`: no such task{did_you_mean(task, tasks)}")


def _listed_twice(models: Sequence[ModelSpec]) -> Iterator[str]:
    """Yield a warning of each model that stands in a list under several names."""
    names = grouped(
        (repr((entry.model, sorted(entry.model_args.items()))), entry.name) for entry in models
    )
    for first_name, *further_names in names.values():
        if further_names:
            yield (
                f"{first_of(further_names, 4)}: the same model and model_args as {first_name}; "
                "each is asked and paid"
            )


def _note_of_copies(session: TaskSession) -> str:
    """Return a warning if many documents are copies, as of a file written twice; else ""."""
    n_documents = len(session.doc_hashes)
    n_copies = n_documents - len(set(session.doc_hashes))
    # Large benchmarks have a few copies by chance.
    if n_copies < 0.1 * n_documents:
        return ""
    return (
        f"{n_copies:,} of the {n_documents:,} documents of {session.name} are copies of others; "
        "each is asked and counted by itself"
    )


def plan_of_banks(spec: Spec) -> Plan | None:
    """Make the plan of a forecast from the banks alone, without loading documents.

    None without banks, if a task has no bank, or if a bank does not state the tokens of its items.
    """
    bank = spec.bank
    if not bank or isinstance(bank, Donors):
        return None
    tasks, outcomes_by_task = tasks_of_bank(bank, spec.tasks), dict[str, dict[str, Outcome]]()
    for task in tasks:
        if not (banks := banks_of(bank, task, only_task=False)):
            return None
        # Without the documents nothing else says what an item takes.
        if any(metric_bank.tokens is None for metric_bank in banks.values()):
            return None
        outcomes_by_task[task] = outcomes_of_banks(bank, spec.metrics, task, only_task=False)
    sizes = _sizes(outcomes_by_task)
    weights = task_weights(spec.weights, sizes, {}) if len(tasks) > 1 else {}
    return plan_of(replace(spec, tasks=tuple(tasks)), outcomes_by_task, {}, weights=weights)


def _borrowed(donors: Donors, spec: Spec, tasks: list[str]) -> ItemBank:
    """Return the bank of a run's task that is made of scores of other tasks (`borrow:`)."""
    if len(tasks) > 1 or len(spec.metrics) > 1:
        raise UsageError(
            "`bank:` with `borrow:` takes one task and one metric: make a bank for each with "
            "`lm-eval-ccat calibrate --borrow`"
        )
    name, _, filtered = next(iter(spec.metrics), "").partition(",")
    query = Query(name or None, tasks[0], filtered or None)
    full = donors.full and ScoreTable.read(donors.full, query.metric, query.task, query.filter)
    _, bank = borrow_from(donors.paths, full or None, query)
    # Drop the date: a run is identified by its bank, so equal scores must give equal banks.
    return replace(bank, made=None)


def _weights(
    spec: Spec, outcomes_by_task: Mapping[str, dict[str, Outcome]], groups: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return the weights of tasks in the ranked score, and in the scores of groups of tasks.

    Both are empty for a single task, whose score is the ranked one.

    Parameters
    ----------
    spec : Spec
    outcomes_by_task : mapping of task to (dict of name to Outcome)
    groups : mapping of name to Group
        As the harness defines them.
    """
    if len(outcomes_by_task) == 1:
        return {}, {}
    weights_by_group = {
        name: own_weights(group, outcomes_by_task) for name, group in groups.items()
    }
    # The score of a group of all tasks is the ranked one, and that of one task is the task's.
    reported_groups = {
        name: weights
        for name, weights in weights_by_group.items()
        if 1 < len(weights) < len(outcomes_by_task)
    }
    return task_weights(spec.weights, _sizes(outcomes_by_task), weights_by_group), reported_groups


def _sizes(outcomes_by_task: Mapping[str, Mapping[str, Outcome]]) -> dict[str, float]:
    """Return how many items each task has, by the bank of its leading outcome."""
    leaders = {task: leading(outcomes) for task, outcomes in outcomes_by_task.items()}
    return {task: float(outcome.bank.n_items) for task, outcome in leaders.items()}


def plan_of(
    spec: Spec,
    outcomes_by_task: dict[str, dict[str, Outcome]],
    sessions: dict[str, TaskSession],
    **attributes: Any,
) -> Plan:
    """Return the plan of a ranking whose tasks are loaded, with further attributes of `Plan`.

    Raises
    ------
    UsageError
        A money budget with a model whose price is unknown.
    """
    charges = Charges.of(spec, outcomes_by_task, sessions)
    return Plan(spec, outcomes_by_task, sessions, charges, **attributes)


def with_public_bank(plan: Plan) -> Plan | None:
    """Give a plan without a bank the public bank that fits its tasks; None if none does.

    It fits if it has banks of all tasks by the same metrics and filters, and documents and
    settings agree.
    """
    spec, names = plan.spec, [model.name for model in plan.spec.models]
    for name, folder in public_banks().items():
        # A bank of some tasks cannot rank by the mean of all.
        if not set(plan.sessions) <= set(SuiteBank.tasks(folder)):
            continue
        outcomes_by_task: dict[str, dict[str, Outcome]] = {}
        try:
            for task, session in plan.sessions.items():
                only_task = len(plan.sessions) == 1
                outcomes = measure(name, spec.metrics, session, names, only_task).outcomes
                check_session(outcomes, session)
                compare_with_banks(outcomes, session, spec.accept_change)
                outcomes_by_task[task] = outcomes
        # It has other documents, settings or metrics; the next may fit.
        except CcatError:
            continue
        # Without `metrics:` a bank brings its own, which may not be what the run ranks by.
        keys = [leading(outcomes).results_key for outcomes in outcomes_by_task.values()]
        if keys == [outcome.results_key for outcome in plan.outcomes.values()]:
            return replace(plan, spec=replace(spec, bank=name), outcomes_by_task=outcomes_by_task)
    return None
